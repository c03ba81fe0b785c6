#!/usr/bin/env python3
"""rows.py - kernels of rows and columns on one GPU, beside PyTorch's own and what torch.compile makes, in one process.

    rows.py --tilec TILEC [--before TILEC..] [--kernels add,rmsnorm] [--share I/N] [--warm] [--csv FILE]

The programs are `bench/rows/*.tile` and three of the examples, compiled for the sizes' constants alone (row lengths of
norms); of the forms of PROGRAMS the first is the program as it is, with `--variants=auto`, the others are tiles beside it.  Every result is compared with float64 before it
is timed.  `--warm` only builds what peers compile (in as many processes as `--share` says, so that the timing process finds
it in Inductor's cache).  --before: other compilers, whose code of the first form is timed beside it.  256 MB are written before each timed call; an order shuffled anew; the median of 15 (timing.py).
"""

import argparse
import csv
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(HERE, "..", "examples")
FIELDS = ["kernel", "case", "name", "us", "min_us", "tbs", "error"]
VOCABULARY = 128256

# kernel: (file, its kernels, constants of a case's width, forms)
PROGRAMS = {
    "add": ("examples/add.tile", "add", None, ["", "M=1,N=2048", "M=4,N=1024"]),
    "copy": ("examples/copy.tile", "copy", None, ["N=2048", "N=8192"]),
    "softmax": ("examples/row_softmax.tile", "row_softmax", None, ["", "M=1,N=1024", "M=1,N=4096", "M=1,N=8192"]),
    "softmax-split": ("rows/long_rows.tile", "softmax_parts softmax_whole", None, ["", "N=1024"]),
    "rmsnorm": ("rows/norm.tile", "norm", "C={C}", ["", "M=1", "M=4"]),
    "layernorm": ("rows/norm.tile", "norm", "C={C},LAYER=true", ["", "M=1", "M=4"]),
    "swiglu": ("rows/glu.tile", "glu", None, ["", "M=8,N=256", "M=1,N=1024"]),
    "rope": ("rows/rope.tile", "rope", None, ["", "M=32"]),
    "loss": ("rows/cross_entropy.tile", "loss", None, ["", "N=8192"]),
    "loss-split": ("rows/long_rows.tile", "softmax_parts loss_whole", None, ["", "N=1024"]),
    "gradient": ("rows/cross_entropy.tile", "gradient", None, ["", "M=4,N=1024"]),
    "column-sums": ("rows/columns.tile", "column_sums", None, ["", "M=128,N=64"]),
    "column-sums-few": ("rows/columns.tile", "column_sums_few", None, ["", "M=16,N=64", "M=256,N=16"]),
    "transpose": ("rows/columns.tile", "transpose", None, ["", "M=32,N=128"]),
    "quantise": ("rows/quantise.tile", "quantise", None, ["", "M=32"]),
}
# what else computes the same: the program as it is takes the way that its launches' estimated clocks say
OTHER_WAY = {"softmax": "softmax-split", "loss": "loss-split", "column-sums": "column-sums-few"}
WIDE = [(r, c) for c in (1000, 4096, 4098, 8192) for r in (16, 128, 2048, 16384)]
SHAPES = {
    **{name: WIDE for name in ("add", "rmsnorm", "layernorm", "transpose")},
    "copy": [(r, 8192) for r in (16, 128, 2048, 16384)],
    "softmax": WIDE + [(r, VOCABULARY) for r in (1, 16, 2048)],
    "softmax-split": [(1, VOCABULARY), (16, VOCABULARY), (4, 65536)],
    "loss-split": [(1, VOCABULARY), (16, VOCABULARY), (4, 65536)],
    "swiglu": [(r, c) for c in (14336, 14338) for r in (1, 16, 128, 2048, 16384)],
    "rope": [(r, 4096) for r in (1, 16, 128, 2048, 16384)],
    "loss": [(r, VOCABULARY) for r in (1, 16, 128, 2048)],
    "gradient": [(r, VOCABULARY) for r in (1, 16, 128, 2048)],
    "column-sums": WIDE,
    "column-sums-few": [(r, c) for r, c in WIDE if r <= 128],
    "quantise": [(r, c) for c in (4096, 14336) for r in (16, 128, 2048, 16384)],
}


def cases(names):
    return [(name, rows, width) for name in names for rows, width in SHAPES[name]]


def compile_all(tilec, wanted, folder, most=None):
    """{(kernel, width, form): path of the PTX}, of the first `most` forms; one that does not compile is said and left out."""
    jobs = {}
    names = [(name, width) for name, _, width in wanted]
    for name, width in names + [(OTHER_WAY[name], 0) for name, _ in names if name in OTHER_WAY]:
        file, _, constants, forms = PROGRAMS[name]
        for form in forms[:most]:
            jobs[name, width if constants else 0, form] = (file, (constants or "").format(C=width), form)

    def build(item):
        key, (file, constants, form) = item
        path = os.path.join(folder, "-".join(str(part) for part in key).replace("=", "").replace(",", "_") + ".ptx")
        source = os.path.join(HERE, "..", file) if file.startswith("examples/") else os.path.join(HERE, file)
        defines = [word for text in (constants, form) for define in text.split(",") if define for word in ("-D", define)]
        if "examples/" in file:
            defines += ["-D", "T=bf16"]
        forms = [] if form else ["--variants=auto"]
        done = subprocess.run([tilec, source, "-arch", "sm_90", "-Wno-plan", *defines, *forms, "-o", path],
                              capture_output=True, text=True)
        if done.returncode:
            print(f"# {key}: {done.stderr.splitlines()[0]}")
        return key, (path if done.returncode == 0 else None)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return {key: path for key, path in pool.map(build, jobs.items()) if path}


class Work:
    """What one case computes: its tensors, PyTorch's function of them, the bytes moved, and the result of ours."""

    def __init__(self, name, rows, width):
        import torch
        import torch.nn.functional as functional
        torch.manual_seed(1)
        make, self.scalars = torch.bfloat16, {}
        x = torch.randn(rows, width, device="cuda").to(make)
        self.tensors, self.result = {"X": x}, "Y"
        size = x.nbytes
        if name == "add":
            y = torch.randn_like(x)
            self.tensors["Y"], self.result, self.scalars = y, "Z", {"a": 0.5}
            self.call, self.args, self.bytes = (lambda x, y: 0.5 * x + y), (x, y), 3 * size
        elif name == "copy":
            self.tensors["X"] = x = x.reshape(-1)
            self.call, self.args, self.bytes = (lambda x: x.clone()), (x,), 2 * size
        elif name.startswith("softmax"):
            self.call, self.args, self.bytes = (lambda x: torch.softmax(x, -1)), (x,), 2 * size
        elif name in ("rmsnorm", "layernorm"):
            w = torch.randn(width, device="cuda").to(make)
            self.tensors["W"], self.scalars, self.args, self.bytes = w, {"eps": 1e-5}, (x, w), 2 * size
            self.call = ((lambda x, w: functional.rms_norm(x, (width,), w, 1e-5)) if name == "rmsnorm" else
                         (lambda x, w: functional.layer_norm(x, (width,), w, None, 1e-5)))
        elif name == "swiglu":
            self.tensors["X"] = x = torch.randn(rows, 2 * width, device="cuda").to(make)
            self.call = lambda x: functional.silu(x[:, :width]) * x[:, width:]
            self.args, self.bytes = (x,), 3 * size
        elif name == "rope":
            heads = width // 128
            x = x.reshape(rows, heads, 128)
            angle = torch.rand(rows, 64, device="cuda") * 6
            cos, sin = angle.cos(), angle.sin()
            self.tensors = {"X": x, "Cos": cos, "Sin": sin}

            def rope(x, cos, sin):
                a, b = x[..., :64].to(cos.dtype), x[..., 64:].to(cos.dtype)
                c, s = cos[:, None], sin[:, None]
                return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)
            self.call, self.args, self.bytes = rope, (x, cos, sin), 2 * size
        elif name in ("loss", "loss-split", "gradient"):
            y = torch.randint(0, width, (rows,), device="cuda")
            self.tensors["Y"] = y.to(torch.int32)
            if name != "gradient":
                self.result, self.bytes, self.args = "Loss", size, (x, y)

                def loss(x, y):  # reductions in at least float32, as ours
                    wide = x if x.dtype == torch.float64 else x.float()
                    return functional.cross_entropy(wide, y, reduction="none")
                self.call = loss
            else:
                lse = torch.logsumexp(x.float(), -1)
                self.tensors["L"], self.scalars, self.result = lse, {"scale": 0.25}, "dX"
                self.bytes, self.args = 2 * size, (x, y, lse)

                def gradient(x, y, lse):
                    p = torch.exp(x.to(lse.dtype) - lse[:, None])
                    hit = torch.arange(width, device="cuda")[None, :] == y[:, None]
                    return ((p - hit.to(p.dtype)) * 0.25).to(x.dtype)
                self.call = gradient
        elif name.startswith("column-sums"):
            self.result, self.bytes, self.args = "S", size, (x,)
            self.call = lambda x: x.sum(0, dtype=torch.promote_types(x.dtype, torch.float32))
        elif name == "transpose":
            self.call, self.args, self.bytes = (lambda x: x.T.contiguous()), (x,), 2 * size
        elif name == "quantise":
            self.result, self.bytes, self.args = "Q", size * 3 // 2, (x,)

            def quantise(x):
                wide = (x if x.dtype == torch.float64 else x.float()).reshape(rows, -1, 128)
                scale = wide.abs().amax(-1, keepdim=True).clamp_min(0.0001) / 448.0
                q = (wide / scale).reshape(rows, width)
                return q if x.dtype == torch.float64 else q.to(torch.float8_e4m3fn)
            self.call = quantise
        wide = [t.double() if t.is_floating_point() else t for t in self.args]
        self.want = self.call(*wide)

    def error(self, got):
        return ((got.double() - self.want).abs().max() / self.want.abs().max().clamp_min(1e-20)).item()


def contenders_of(name, rows, width, compilers, work):
    import torch
    from contenders import Contender, tilec_torch
    found, errors = {}, {}
    compiled = torch.compile(work.call, dynamic=False)
    for peer, call in (("eager", work.call), ("compile", compiled)):
        errors[peer] = work.error(call(*work.args))
        found[peer] = Contender(lambda call=call: call(*work.args), None, "peer")
    for owner, (kernel, size, form), path in [(owner, *item) for owner, built in compilers.items() for item in built.items()]:
        if kernel != name or size not in (0, width):
            continue
        label = owner + (":" + form if form else "")
        try:
            given = {**work.tensors, **work.scalars}
            ways = [tilec_torch.load(path).select(*PROGRAMS[name][1].split())]
            other = compilers[owner].get((OTHER_WAY.get(name), 0, ""))
            if other and not form:
                ways.append(tilec_torch.load(other).select(*PROGRAMS[OTHER_WAY[name]][1].split()))
            plan = tilec_torch.quickest(*ways, **given).prepare(**given)
            plan.run()
            torch.cuda.synchronize()
            errors[label] = work.error(plan.tensors[work.result])
        except (tilec_torch.TilecError, RuntimeError) as error:
            print(f"# {name} {rows}x{width} {label}: {str(error).splitlines()[0]}", flush=True)
            continue
        found[label] = Contender(plan.run, None, "ours")  # with what fills sums with zeros: a launch of its own
    return found, errors


def measure(name, rows, width, compilers, options, flush):
    import timing
    import torch
    torch._dynamo.reset()
    work = Work(name, rows, width)
    found, errors = contenders_of(name, rows, width, compilers, work)
    times = timing.measure(found, "spin", flush, options.random, 15, 3, 400_000)
    out = []
    for label, values in times.items():
        middle = statistics.median(values) * 1e3
        out.append({"kernel": name, "case": f"{rows}x{width}", "name": label, "us": f"{middle:.2f}",
                    "min_us": f"{min(values) * 1e3:.2f}", "tbs": f"{work.bytes / middle / 1e6:.3f}",
                    "error": f"{errors[label]:.1e}"})
    return out


def ratios(table):
    """{kernel: its cases as (best peer over ours in the program's own form, over ours in the best form, case)}"""
    groups = {}
    for row in table:
        groups.setdefault((row["kernel"], row["case"]), {})[row["name"]] = float(row["us"])
    found = {}
    for (kernel, case), us in groups.items():
        peer = min(us["eager"], us["compile"])
        ours = {name: value for name, value in us.items() if name.startswith("ours")}
        if ours:
            own = next(iter(sorted(ours, key=len)))
            found.setdefault(kernel, []).append((peer / ours[own], peer / min(ours.values()), case))
    return found


def over_before(table):
    """{kernel: of its cases (time of the compiler before over ours, case)}, of the first form that both have"""
    us, found = {(row["kernel"], row["case"], row["name"]): float(row["us"]) for row in table}, {}
    seen = set()
    for kernel, case, name in us:
        before = us.get((kernel, case, name.replace("ours", "before", 1)))
        if name.startswith("ours") and before and (kernel, case) not in seen:
            seen.add((kernel, case))
            found.setdefault(kernel, []).append((before / us[kernel, case, name], case))
    return found


def means(found):
    """Geometric, of the own form and of the best."""
    return [math.exp(statistics.fmean(math.log(item[i]) for item in found)) for i in (0, 1)]


def summary(table):
    """Of each kernel: the best peer over ours (the program's own form, and the best form), geometric mean and least."""
    for kernel, found in ratios(table).items():
        own, best = means(found)
        least, _, case = min(found)
        print(f"{kernel:12} {len(found):3} cases: own form {own:.3f}, least {least:.3f} ({case}); "
              f"best form {best:.3f}, least {min(item[1] for item in found):.3f}", flush=True)
    for kernel, found in over_before(table).items():
        print(f"{kernel:12} before over ours {math.exp(statistics.fmean(math.log(ratio) for ratio, _ in found)):.3f}, least {min(found)}, most {max(found)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--before", metavar="TILEC", nargs="*", default=[])
    parser.add_argument("--kernels", type=lambda t: t.split(","), default=list(PROGRAMS))
    parser.add_argument("--share", default="0/1", metavar="I/N")
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--csv", metavar="FILE")
    parser.add_argument("--seed", type=int, default=1, help="of the order of calls")
    options = parser.parse_args()
    options.random = random.Random(options.seed)
    part, parts = map(int, options.share.split("/"))
    wanted = cases(options.kernels)[part::parts]
    sys.path.insert(0, HERE)
    import torch
    if options.warm:
        for name, rows, width in wanted:
            torch._dynamo.reset()
            work = Work(name, rows, width)
            torch.compile(work.call, dynamic=False)(*work.args)
        return 0
    import timing
    flush = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    table = []
    with tempfile.TemporaryDirectory() as folder:
        compilers = {"ours": compile_all(options.tilec, wanted, folder)}
        for k, other in enumerate(options.before):
            label = f"before{k or ''}"
            os.mkdir(os.path.join(folder, label))
            compilers[label] = compile_all(other, wanted, os.path.join(folder, label), 1)
        for name, rows, width in wanted:
            for row in measure(name, rows, width, compilers, options, flush):
                table.append(row)
                print("{kernel:12} {case:14} {name:16} {us:>9} us {tbs} TB/s {error}".format(**row), flush=True)
            torch.cuda.empty_cache()
    summary(table)
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
