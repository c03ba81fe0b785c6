"""bench.py - attention on one GPU: tilec's kernels and the peers, side by side in one process.

    python3 bench/bench.py --ours tilec=out/ptx --out out/bench          # the whole grid
    python3 bench/bench.py --quick --case fwd:128:4:16:4096:0 \\
        --ours a=a.ptx --ours b=b.ptx                                    # compare variants
    python3 bench/bench.py --ladder out/ladder --case fwd:128:4:16:4096:0

`--ours NAME=PATH`: PATH is a PTX or cubin file, a folder or a glob of them.  What each file is for
(direction, head dims, dtype, mask) is read from the file itself; a case takes the files that fit.

How it measures: every contender of a case runs once in each repetition, in an order shuffled anew,
since a kernel that follows a cooler one gets more clock; 256 MB are written before each timed call
to empty the L2 cache; a short sleep on the GPU hides the launch; CUDA events; 10 warm-ups, median
of 30.  FLOPs are 4 b h sq sk d forward, half of that when causal, 2.5 times that for the backward
with its kernels before and after.  Every contender's result is compared with that of PyTorch's
FlashAttention-2 before it is timed.
"""

import argparse
import csv
import datetime
import glob
import os
import random
import statistics
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "python"))
import tilec_torch  # noqa: E402

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
DIMS = (64, 128, 256)
LENGTHS = (512, 1024, 2048, 4096, 8192, 16384)


class Case:
    """direction:head dim[/value dim]:batch:heads[/key heads]:length[/key length]:causal[:dtype]"""

    def __init__(self, text):
        try:
            parts = text.split(":")
            self.direction = parts[0]
            self.d, self.dv = self.pair(parts[1])
            self.batch = int(parts[2])
            self.heads, self.kv_heads = self.pair(parts[3])
            self.sq, self.sk = self.pair(parts[4])
            self.causal = bool(int(parts[5]))
            self.dtype = parts[6] if len(parts) > 6 else "bf16"
            if self.direction not in ("fwd", "bwd") or self.dtype not in DTYPES:
                raise ValueError
        except (ValueError, IndexError):
            raise SystemExit(f"case '{text}': expected " + Case.__doc__) from None

    @staticmethod
    def pair(text):
        first, _, second = text.partition("/")
        return int(first), int(second or first)

    def flops(self):
        forward = 2.0 * self.batch * self.heads * self.sq * self.sk * (self.d + self.dv)
        return forward * (0.5 if self.causal else 1.0) * (2.5 if self.direction == "bwd" else 1.0)

    def __str__(self):
        def pair(a, b):
            return f"{a}" if a == b else f"{a}/{b}"
        return (f"{self.direction} d={pair(self.d, self.dv)} b={self.batch} "
                f"h={pair(self.heads, self.kv_heads)} s={pair(self.sq, self.sk)} "
                f"{'causal' if self.causal else 'full'} {self.dtype}")


# ---- tilec's files -----------------------------------------------------------------------------


class File:
    def __init__(self, path):
        self.path = path
        self.module = tilec_torch.load(path)
        kernels = self.module.kernels
        tensors = {t["name"]: t for k in kernels for t in k.meta["tensors"]}
        constants = {}
        for k in kernels:
            constants.update(k.meta["constants"])
        self.is_attention = {"Q", "K", "V"} <= set(tensors)
        self.direction = "bwd" if "dO" in tensors else "fwd"
        self.constants = constants
        self.q = tensors.get("Q")

    def fits(self, case):
        if not self.is_attention or self.direction != case.direction:
            return False
        c = self.constants
        wanted = {"D": str(case.d), "DV": str(case.dv), "CAUSAL": "true" if case.causal else "false",
                  "T": case.dtype}
        for name, value in wanted.items():
            if c.get(name, value) != value:
                return False
        plain = {"WINDOW": "0", "RIGHT": "-1", "SOFTCAP": "false", "ALIBI": "false"}
        return self.q["dtype"] == case.dtype and all(c.get(n, off) == off for n, off in plain.items())


    def ways(self, case):
        """The ways to run a case: the backward has one with atomic additions and one without."""
        if case.direction == "fwd":
            return [("", self.module)]
        kinds = (("", tilec_torch.BACKWARD), ("-det", tilec_torch.BACKWARD_DETERMINISTIC))
        found = [(s, self.module.select(*names)) for s, names in kinds if self.module.has(*names)]
        return found or [("", self.module)]


def one_a_stem(paths):
    """Of x.ptx and x.cubin only the latter, which needs no compiling by the driver."""
    return sorted({os.path.splitext(p)[0]: p for p in sorted(paths, reverse=True)}.values())


def find_files(spec):
    name, _, path = spec.partition("=")
    if not path:
        raise SystemExit(f"--ours {spec}: expected NAME=PATH")
    if os.path.isdir(path):
        paths = sorted(glob.glob(os.path.join(path, "*.ptx")) + glob.glob(os.path.join(path, "*.cubin")))
    else:
        paths = sorted(glob.glob(path))
    if not paths:
        raise SystemExit(f"--ours {spec}: no such file")
    paths = one_a_stem(paths)
    files = []
    for p in paths:
        try:
            files.append(File(p))
        except tilec_torch.TilecError as error:
            print(f"# {p}: {error}", flush=True)
    return name, files


# ---- contenders: each gives a function to time and the results to compare ------------------------


class Inputs:
    """Stored as [B, S, H, D]; `t(x)` is the [B, H, S, D] view that PyTorch wants."""

    def __init__(self, case, seed=0):
        generator = torch.Generator(device="cuda").manual_seed(seed)
        dtype = DTYPES[case.dtype]

        def make(*shape):
            return torch.randn(*shape, generator=generator, device="cuda", dtype=dtype)
        self.q = make(case.batch, case.sq, case.heads, case.d)
        self.k = make(case.batch, case.sk, case.kv_heads, case.d)
        self.v = make(case.batch, case.sk, case.kv_heads, case.dv)
        self.g = make(case.batch, case.sq, case.heads, case.dv)
        self.scale = case.d ** -0.5
        self.o = self.l = None  # of the reference, for our backward


def t(x):
    return x.transpose(1, 2)


def sdpa(case, x, backend):
    if case.causal and case.sq != case.sk:
        raise ValueError("PyTorch aligns the causal mask to the top left")
    q, k, v = (t(y).detach().requires_grad_(True) for y in (x.q, x.k, x.v))

    def forward():
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=case.causal, scale=x.scale,
                                                  enable_gqa=case.heads != case.kv_heads)
    return wrap_autograd(case, x, forward, (q, k, v), t(x.g), t)


def wrap_autograd(case, x, forward, leaves, grad, view):
    """(function to time, function that gives the results in our layout)."""
    if case.direction == "fwd":
        return forward, lambda: [view(forward().detach())]
    out = forward()

    def backward():
        return torch.autograd.grad(out, leaves, grad, retain_graph=True)
    return backward, lambda: [view(y) for y in backward()]


def flash_attn_package(case, x, function):
    q, k, v = (y.detach().requires_grad_(True) for y in (x.q, x.k, x.v))

    def forward():
        out = function(q, k, v, softmax_scale=x.scale, causal=case.causal)
        return out[0] if isinstance(out, tuple) else out
    return wrap_autograd(case, x, forward, (q, k, v), x.g, lambda y: y)


def ours(case, x, module):
    scalars = {s["name"]: 0.0 for k in module.kernels for s in k.meta["scalars"]}
    scalars["scale"] = x.scale
    known = {t["name"] for k in module.kernels for t in k.meta["tensors"]}
    given = {"Q": x.q, "K": x.k, "V": x.v}
    if case.direction == "bwd":
        given.update({"O": x.o, "L": x.l, "dO": x.g})
    plan = module.prepare(**{n: y for n, y in given.items() if n in known}, **scalars)

    def results():
        plan.run()
        names = ("O",) if case.direction == "fwd" else ("dQ", "dK", "dV")
        return [plan.tensors[n] for n in names]
    return plan.run, results


def peers():
    found = {"fa2": lambda c, x: sdpa(c, x, SDPBackend.FLASH_ATTENTION),
             "cudnn": lambda c, x: sdpa(c, x, SDPBackend.CUDNN_ATTENTION)}
    try:
        from flash_attn_interface import flash_attn_func as fa3
        found["fa3"] = lambda c, x: flash_attn_package(c, x, fa3)
    except ImportError:
        pass
    try:
        from flash_attn import flash_attn_func as fa2
        found["fa2-package"] = lambda c, x: flash_attn_package(c, x, fa2)
    except ImportError:
        pass
    return found


def log_sum_exp(case, x):
    """Natural log-sum-exp [B, H, S] and output of PyTorch's FlashAttention-2, for our backward."""
    group = case.heads // case.kv_heads
    k, v = (t(y).repeat_interleave(group, 1) if group > 1 else t(y) for y in (x.k, x.v))
    with torch.no_grad():
        out = torch.ops.aten._scaled_dot_product_flash_attention(t(x.q), k, v, 0.0, case.causal,
                                                                 False, scale=x.scale)
    return t(out[0]).contiguous(), out[1].contiguous()


# ---- measuring -----------------------------------------------------------------------------------


class Meter:
    """Clock and power, from NVML where Python has it, else from nvidia-smi."""

    def __init__(self):
        self.handle = None
        try:
            import pynvml
            pynvml.nvmlInit()
            self.nvml, self.handle = pynvml, pynvml.nvmlDeviceGetHandleByIndex(torch.cuda.current_device())
        except Exception:  # no NVML: the slower way
            self.nvml = None

    def read(self):
        try:
            if self.nvml:
                return (self.nvml.nvmlDeviceGetClockInfo(self.handle, self.nvml.NVML_CLOCK_SM),
                        self.nvml.nvmlDeviceGetPowerUsage(self.handle) / 1000.0)
            text = subprocess.run(["nvidia-smi", "--query-gpu=clocks.sm,power.draw",
                                   "--format=csv,noheader,nounits"], capture_output=True, text=True,
                                  check=True).stdout.splitlines()[0]
            clock, power = text.split(",")
            return int(clock), float(power)
        except Exception:
            return 0, 0.0


def measure(contenders, flush, options, meter):
    """{name: [milliseconds of each repetition]}, and the clocks and powers seen."""
    times = {name: [] for name in contenders}
    seen = []
    order = list(contenders)
    for repetition in range(options.warmups + options.reps):
        options.random.shuffle(order)
        events = []
        for name in order:
            flush.zero_()
            torch.cuda._sleep(options.sleep)
            start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            contenders[name]()
            stop.record()
            events.append((name, start, stop))
        if repetition % 8 == 7:
            seen.append(meter.read())  # while the GPU is at work
        torch.cuda.synchronize()
        if repetition >= options.warmups:
            for name, start, stop in events:
                times[name].append(start.elapsed_time(stop))
    return times, seen


def worst_difference(results, reference):
    """Largest difference, relative to the largest value of the reference; nan stays nan."""
    worst = 0.0
    for a, b in zip(results, reference):
        a, b = a.float(), b.float()
        if a.shape != b.shape:
            return float("nan")
        difference = ((a - b).abs().max() / b.abs().max().clamp_min(1e-20)).item()
        if difference != difference:
            return difference
        worst = max(worst, difference)
    return worst


def build(case, options, files):
    """The contenders of a case: {name: (function, results)}; what cannot run is said and left out."""
    x = Inputs(case)
    if case.direction == "bwd" and files:
        x.o, x.l = log_sum_exp(case, x)
    built = {}
    for name, make in options.peer_makers.items():
        try:
            built[name] = make(case, x)
            built[name][0]()
            torch.cuda.synchronize()
        except Exception as error:
            built.pop(name, None)
            print(f"#   {name}: cannot run here: {str(error).splitlines()[0]}", flush=True)
    for name, group in files:
        fitting = [f for f in group if f.fits(case)]
        for f in fitting:
            stem = os.path.splitext(os.path.basename(f.path))[0]
            label = name if len(fitting) == 1 else f"{name}:{stem}"
            for suffix, module in f.ways(case):
                try:
                    built[label + suffix] = ours(case, x, module)
                except tilec_torch.TilecError as error:
                    print(f"#   {label}{suffix}: {error}", flush=True)
        if not fitting:
            print(f"#   {name}: no file fits {case}", flush=True)
    return built


def run_case(case, options, files, flush, meter, writer):
    built = build(case, options, files)
    if not built:
        return []
    reference = None
    differences = {}
    for name in sorted(built, key=lambda n: n != "fa2"):
        results = built[name][1]()
        torch.cuda.synchronize()
        if reference is None:
            reference = [r.clone() for r in results]
        differences[name] = worst_difference(results, reference)
    times, seen = measure({n: b[0] for n, b in built.items()}, flush, options, meter)
    base = statistics.median(times["fa2"]) if "fa2" in times else None
    clock = statistics.median(c for c, _ in seen) if seen else 0
    power = statistics.median(p for _, p in seen) if seen else 0.0
    rows = []
    for name, values in times.items():
        median = statistics.median(values)
        rows.append({
            "dir": case.direction, "hd": case.d, "hdv": case.dv, "heads": case.heads,
            "kv_heads": case.kv_heads, "seqlen": case.sq, "seqlen_k": case.sk, "batch": case.batch,
            "causal": int(case.causal), "dtype": case.dtype, "name": name,
            "median_ms": f"{median:.4f}", "min_ms": f"{min(values):.4f}",
            "tflops": f"{case.flops() / median / 1e9:.1f}",
            "max_tflops": f"{case.flops() / min(values) / 1e9:.1f}",
            "over_fa2": f"{base / median:.3f}" if base else "",
            "difference": f"{differences[name]:.2e}", "sm_mhz": f"{clock:.0f}",
            "watts": f"{power:.0f}"})
        writer.writerow(rows[-1])
    rows.sort(key=lambda r: float(r["median_ms"]))
    print(f"{case}   ({clock:.0f} MHz, {power:.0f} W)")
    for r in rows:
        # 2 % of the largest value: far above rounding in 16 bits, far below a wrong element
        wrong = not float(r["difference"]) < 0.02
        print(f"  {r['name']:<28} {r['median_ms']:>9} ms {r['tflops']:>7} TFLOPS  max {r['max_tflops']:>7}"
              f"  x{r['over_fa2'] or '-':<6} diff {r['difference']}{'  WRONG RESULT' if wrong else ''}",
              flush=True)
    return rows


def plot(rows, path):
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("# no matplotlib: no plot")
        return
    panels = sorted({(r["dir"], int(r["hd"]), int(r["causal"])) for r in rows},
                    key=lambda p: (p[0] != "fwd", p[1], p[2]))
    columns = min(len(panels), 4)
    lines = -(-len(panels) // columns)
    figure, axes = plt.subplots(lines, columns, figsize=(4.2 * columns, 3.2 * lines), squeeze=False)
    names = sorted({r["name"] for r in rows})
    for axis in axes.flat[len(panels):]:
        axis.set_visible(False)
    for axis, (direction, d, causal) in zip(axes.flat, panels):
        for name in names:
            points = sorted((int(r["seqlen"]), float(r["tflops"])) for r in rows if r["name"] == name
                            and (r["dir"], int(r["hd"]), int(r["causal"])) == (direction, d, causal))
            if points:
                axis.plot(*zip(*points), marker="o", markersize=3, label=name)
        axis.set_title(f"{direction} d={d} {'causal' if causal else 'full'}", fontsize=9)
        axis.set_xscale("log", base=2)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.set_xlabel("length", fontsize=8)
        axis.set_ylabel("TFLOPS", fontsize=8)
        axis.tick_params(labelsize=7)
    axes[0][0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path + ".png", dpi=130)
    figure.savefig(path + ".svg")


def plot_ladder(rows, names, path):
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("# no matplotlib: no plot")
        return
    cases = sorted({(r["dir"], r["hd"], r["seqlen"], r["causal"]) for r in rows})
    figure, axes = plt.subplots(1, len(cases), squeeze=False,
                                figsize=(6 * len(cases), 0.4 * len(names) + 1.2))
    for axis, case in zip(axes.flat, cases):
        best = {r["name"]: float(r["tflops"]) for r in rows
                if (r["dir"], r["hd"], r["seqlen"], r["causal"]) == case}
        shown = [n for n in names if n in best]
        axis.barh(range(len(shown)), [best[n] for n in shown])
        for i, n in enumerate(shown):
            axis.text(best[n], i, f" {best[n]:.0f}", va="center", fontsize=8)
        axis.set_yticks(range(len(shown)), shown, fontsize=8)
        axis.invert_yaxis()
        axis.set_title("{} d={} s={} {}".format(*case[:3], "causal" if case[3] == 1 else "full"),
                       fontsize=9)
        axis.set_xlabel("TFLOPS", fontsize=8)
    figure.tight_layout()
    figure.savefig(path + ".png", dpi=130)
    figure.savefig(path + ".svg")


def default_cases(options):
    cases = []
    for direction in options.directions.split(","):
        for d in options.dims:
            for causal in (0, 1):
                for s in options.lengths:
                    cases.append(Case(f"{direction}:{d}:{max(1, 16384 // s)}:{2048 // d}:{s}:{causal}:"
                                      f"{options.dtype}"))
    return cases


def numbers(text):
    return [int(x) for x in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--ladder", metavar="DIR", help="one rung a file, in the order of their names")
    parser.add_argument("--case", action="append", default=[], help=Case.__doc__)
    parser.add_argument("--directions", default="fwd,bwd")
    parser.add_argument("--dims", type=numbers, default=list(DIMS))
    parser.add_argument("--lengths", type=numbers, default=list(LENGTHS))
    parser.add_argument("--dtype", default="bf16", choices=list(DTYPES))
    parser.add_argument("--peers", default=None, help="which of them, by name; 'none': only ours")
    parser.add_argument("--reps", type=int)
    parser.add_argument("--warmups", type=int)
    parser.add_argument("--sleep", type=int, default=None, help="cycles of GPU sleep before a call")
    parser.add_argument("--quick", action="store_true", help="3 warm-ups, 10 repetitions")
    parser.add_argument("--seed", type=int, default=0, help="of the order")
    parser.add_argument("--out", default="bench-out", help="folder for the CSV and the plots")
    options = parser.parse_args()
    options.reps = options.reps or (10 if options.quick else 30)
    options.warmups = options.warmups if options.warmups is not None else (3 if options.quick else 10)
    options.random = random.Random(options.seed)
    options.peer_makers = peers()
    if options.peers is not None:
        options.peer_makers = {n: m for n, m in options.peer_makers.items() if n in options.peers.split(",")}
    files = [find_files(spec) for spec in options.ours]
    rungs = []
    if options.ladder:
        for path in one_a_stem(glob.glob(os.path.join(options.ladder, "*.ptx"))
                               + glob.glob(os.path.join(options.ladder, "*.cubin"))):
            rungs.append(os.path.splitext(os.path.basename(path))[0])
            files.append((rungs[-1], [File(path)]))
    cases = [Case(text) for text in options.case] or default_cases(options)
    os.makedirs(options.out, exist_ok=True)
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    meter = Meter()
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}, cudnn "
          f"{torch.backends.cudnn.version()}, {datetime.date.today()}; {options.warmups} warm-ups, median "
          f"of {options.reps}, 256 MB written before each call", flush=True)
    base = os.path.join(options.out, "ladder" if options.ladder else "bench")
    rows = []
    fields = ["dir", "hd", "hdv", "heads", "kv_heads", "seqlen", "seqlen_k", "batch", "causal", "dtype",
              "name", "median_ms", "min_ms", "tflops", "max_tflops", "over_fa2", "difference", "sm_mhz",
              "watts"]
    with open(base + ".csv", "w", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        for case in cases:
            # autograd's own host time must fit in the sleep
            sleep = options.sleep
            options.sleep = sleep or (400_000 if case.direction == "fwd" else 1_000_000)
            try:
                rows += run_case(case, options, files, flush, meter, writer)
            except torch.cuda.OutOfMemoryError as error:
                print(f"# {case}: {str(error).splitlines()[0]}", flush=True)
            options.sleep = sleep
            file.flush()
            torch.cuda.empty_cache()
    if rows:
        if options.ladder:
            plot_ladder(rows, [n for n in options.peer_makers] + rungs, base)
        else:
            plot(rows, base)
    print(f"# {base}.csv, .png, .svg")
    return 1 if any(not float(r["difference"]) < 0.02 for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
