"""gemm.py - a product of matrices on one GPU: tilec's files against cuBLAS (torch.matmul), in one process.

    python3 bench/gemm.py --ours tilec=gemm.ptx [--ours NAME=PATH ..] [--sizes 8192,4096x4096x2048]

Each file is examples/gemm.tile, compiled: C = activation(A B + bias), with dtype, bias and activation as the
file says of itself.  `--sizes` M or MxNxK.  Every result is compared with torch.matmul's, with bias and
activation behind it, before anything is timed; a file whose result is wrong, or that fails, is left out.
cuBLAS is timed without bias and activation.  How it measures: see timing.py; FLOPs are 2 m n k, and
`ratio` is to cuBLAS in the same mode.
"""

import argparse
import csv
import glob
import os
import random
import statistics
import sys

FIELDS = ["m", "n", "k", "dtype", "name", "mode", "median_ms", "min_ms", "tflops", "ratio", "difference", "sm_mhz",
          "watts"]
ALLOWED = {"bf16": 2.0 ** -7, "f16": 2.0 ** -10}  # of the largest value: a last place, either way


def shape_of(text):
    parts = [int(part) for part in text.split("x")]
    if len(parts) not in (1, 3):
        raise argparse.ArgumentTypeError(f"expected M or MxNxK, not '{text}'")
    return tuple(parts * 3) if len(parts) == 1 else tuple(parts)


def files_of(entry):
    """[(name, path)] of NAME=PATH, where the path may be a glob or a folder."""
    name, equals, path = entry.partition("=")
    if not equals:
        name, path = "", entry
    found = sorted(glob.glob(os.path.join(path, "*.ptx") if os.path.isdir(path) else path))
    if not found:
        raise SystemExit(f"{path}: no such file")
    if len(found) == 1 and name:
        return [(name, found[0])]
    return [(name + os.path.basename(p).removesuffix(".ptx"), p) for p in found]


class Inputs:
    def __init__(self, shape, dtype):
        import torch
        m, n, k = shape
        torch.manual_seed(1)
        make = {"bf16": torch.bfloat16, "f16": torch.float16}[dtype]
        self.a = torch.randn(m, k, device="cuda", dtype=torch.float32).to(make)
        self.b = torch.randn(k, n, device="cuda", dtype=torch.float32).to(make)
        self.bias = torch.randn(n, device="cuda")
        self.c = torch.zeros(m, n, device="cuda", dtype=make)


def activations():
    import torch.nn.functional as F
    return [lambda x: x, F.relu, lambda x: F.gelu(x, approximate="tanh"), F.silu]


def contenders_of(files, inputs, dtype):
    """{name: Contender}, and {name: what is wrong with those that are left out}."""
    import torch
    from contenders import Contender, tilec_torch
    product = torch.empty_like(inputs.c)
    built = {"cublas": Contender(lambda: torch.matmul(inputs.a, inputs.b, out=product), None, "peer")}
    plain = torch.matmul(inputs.a, inputs.b).float()
    differences, bad = {"cublas": 0.0}, {}
    for name, path in files:
        try:
            module = tilec_torch.load(path)
            kernel = module.kernels[0]
            constants = kernel.meta["constants"]
            if constants.get("T") != dtype:
                continue
            want = plain + inputs.bias if constants.get("BIAS") == "true" else plain
            want = activations()[int(constants.get("ACTIVATION", 0))](want)
            largest = want.abs().max().clamp_min(1e-20)
            inputs.c.fill_(float("nan"))
            tensors = {"A": inputs.a, "B": inputs.b, "bias": inputs.bias, "C": inputs.c}
            plan = module.prepare(**tensors)
            plan.run()
            torch.cuda.synchronize()
            worst = ((inputs.c.float() - want).abs().max() / largest).item()
            if not worst <= ALLOWED[dtype]:
                bad[name] = f"differs by {worst:.1e} of the largest value"
                continue
            differences[name] = worst
            built[name] = Contender(plan.run, None, "ours")
        except (tilec_torch.TilecError, RuntimeError) as error:
            bad[name] = str(error).splitlines()[0]
    return built, differences, bad


def run_shape(shape, dtype, options, watch, flush):
    import timing
    import torch
    inputs = Inputs(shape, dtype)
    built, differences, bad = contenders_of(options.files, inputs, dtype)
    for name, reason in bad.items():
        print(f"# {name}: {reason}")
    rows = []
    for mode in options.modes:
        first = len(watch.samples)
        times = timing.measure(built, mode, flush, options.random, options.reps, options.warmups, options.sleep)
        clock, power = watch.since(first)
        base = statistics.median(times["cublas"])
        print(f"{shape[0]} x {shape[1]} x {shape[2]} {dtype}, {mode} ({clock:.0f} MHz, {power:.0f} W)")
        for name in sorted(times, key=lambda n: statistics.median(times[n])):
            median = statistics.median(times[name])
            flops = 2.0 * shape[0] * shape[1] * shape[2]
            rows.append({"m": shape[0], "n": shape[1], "k": shape[2], "dtype": dtype, "name": name, "mode": mode,
                         "median_ms": f"{median:.4f}", "min_ms": f"{min(times[name]):.4f}",
                         "tflops": f"{flops / median / 1e9:.1f}", "ratio": f"{base / median:.3f}",
                         "difference": f"{differences[name]:.1e}", "sm_mhz": clock, "watts": power})
            print("  {name:24} {tflops:>7} TFLOPS  {ratio} of cuBLAS  {median_ms} ms  {difference}"
                  .format(**rows[-1]), flush=True)
    del inputs, built
    torch.cuda.empty_cache()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--sizes", type=lambda t: [shape_of(s) for s in t.split(",")],
                        default=[(n, n, n) for n in (8192, 4096, 2048)])
    parser.add_argument("--dtypes", default="bf16")
    parser.add_argument("--mode", default="spin")
    parser.add_argument("--reps", type=int, default=30)
    parser.add_argument("--warmups", type=int, default=10)
    parser.add_argument("--sleep", type=int, default=400_000, help="cycles of device spin before a call")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default="", metavar="FILE.csv")
    options = parser.parse_args()
    options.modes = options.mode.split(",")
    options.files = [file for entry in options.ours for file in files_of(entry)]
    options.random = random.Random(options.seed)
    if not options.files:
        parser.error("name a file: --ours tilec=gemm.ptx")
    import timing
    import torch
    print(f"# {torch.cuda.get_device_name()}, torch {torch.__version__}")
    watch = timing.Watch()
    flush = torch.empty(timing.FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    rows = []
    for dtype in options.dtypes.split(","):
        for shape in options.sizes:
            rows += run_shape(shape, dtype, options, watch, flush)
    watch.close()
    if options.out:
        os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
        with open(options.out, "w", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            writer.writeheader()
            writer.writerows(rows)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
