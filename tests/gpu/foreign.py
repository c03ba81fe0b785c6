#!/usr/bin/env python3
"""foreign.py - attention kernels of another compiler, on a GPU and in the simulator.

    foreign.py FILE.ptx[.xz].. [--sim SIMRUN] [--gpu] [--out FILE.npz] [--recorded FILE.npz] [--seeds 4]

The files are what Triton makes of softmax(scale Q K^T [causal]) V on [H, S, D] in bf16, with a first
line of launch facts.  Each runs at a few sizes (ragged ones where pointers are used, not tensor maps)
in the simulator under several seeds, where nothing may be found, and on the GPU through the driver's
API; both are compared with float64, and with each other.  --out keeps what the GPU gave, --recorded
reads that instead of asking a GPU.  A file for a newer GPU runs in the simulator only.

Needs Python and NumPy; for the GPU libcuda.
"""
import argparse
import lzma
import pathlib
import re
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "sim"))
import silicon  # noqa: E402
import silicon_cases  # noqa: E402
from known_good import bf16, value  # noqa: E402

# Rounding P and O to bf16 gives a relative error of 2 to 3 in 1000; between two machines that add in
# another order only the elements differ that lie at a rounding edge.
AGAINST_FLOAT64, BETWEEN, BETWEEN_LSE = 4e-3, 1e-3, 1e-5


def reference(q, k, v, causal, scale):
    """O and its log-sum-exp in float64."""
    score = scale * q @ k.transpose(0, 2, 1)
    if causal:
        score = np.where(np.tril(np.ones(score.shape[1:], bool)), score, -np.inf)
    top = score.max(-1, keepdims=True)
    p = np.exp(score - top)
    total = p.sum(-1, keepdims=True)
    return p / total @ v, (top + np.log(total))[..., 0]


class Case:
    def __init__(self, path, size):
        opened = lzma.open if path.suffix == ".xz" else open
        with opened(path, "rt") as file:
            text = file.read()
        fact = lambda name: re.search(rf"\b{name}=(\w+)", text).group(1)
        const = lambda name: re.search(rf"'{name}': (\w+)", text).group(1)
        heads, self.dim, rows = 3, int(const("D")), int(const("M"))
        self.name = f"{path.name.split('.')[0]} S {size}"
        self.shape = heads, size, self.dim
        random = np.random.default_rng(size)
        q, k, v = (bf16(random.standard_normal(self.shape)) for _ in range(3))
        scale = float(np.float32(self.dim ** -0.5))
        self.o, self.lse = reference(value(q), value(k), value(v), const("CAUSAL") == "True", scale)
        grid = (-(-size // rows), heads, 1)
        scratch = max(16, int(fact("global_scratch")) * grid[0] * heads)
        args = [("in", q), ("in", k), ("in", v), ("out", np.zeros(self.shape, np.uint16)),
                ("out", np.zeros(self.shape[:2], np.float32)), ("f32", scale), ("u32", size),
                ("u32", size * self.dim), ("in", np.zeros(scratch, np.uint8)), ("u64", 0)]
        block = int(re.search(r"\.reqntid (\d+)", text).group(1))
        self.test = silicon_cases.Test("foreign", self.name, text, args, grid=grid, block=(block, 1, 1),
                                       shared=int(fact("shared")), arch=int(fact("target_cc")),
                                       entry=fact("kernel"))

    def error(self, result):
        """(relative error of O, largest error of the log-sum-exp) against float64."""
        o, lse = result
        return (np.linalg.norm(value(o) - self.o) / np.linalg.norm(self.o), np.abs(lse - self.lse).max())


def sizes(path):
    return (256, 512) if "tma" in path.name else (256, 333, 64)


def compare(case, results):
    """Text, and whether all is well."""
    well, parts = True, []
    for name, result in results.items():
        o, lse = case.error(result)
        well &= bool(o <= AGAINST_FLOAT64 and lse <= 1e-4)  # not with NaN
        parts.append(f"{name} {o:.2e}, lse {lse:.1e}")
    if len(results) == 2:
        (a, la), (b, lb) = results.values()
        between = np.linalg.norm(value(a) - value(b)) / np.linalg.norm(case.o)
        lse = np.abs(la - lb).max()
        well &= bool(between <= BETWEEN and lse <= BETWEEN_LSE)
        parts.append(f"between them {between:.2e}, lse {lse:.1e}, {100 * (a == b).mean():.2f} % the same bits")
    return "; ".join(parts), well


def in_simulator(simrun, test, seeds):
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            result = silicon.simulate(simrun, test, pathlib.Path(folder), ["--seed", str(seed)])
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    parser.add_argument("--sim")
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--recorded", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=4)
    options = parser.parse_intermixed_args()
    cases = [Case(path, size) for path in options.files for size in sizes(path)]
    recorded = silicon.Recording(options.recorded)
    gpu = silicon.GpuProcess([case.test for case in cases]) if options.gpu else None
    if gpu:
        print(f"{gpu.name}, sm_{gpu.arch}")
    failed = 0
    for number, case in enumerate(cases):
        results, problem = {}, None
        try:
            if gpu and case.test.arch <= gpu.arch:
                results["GPU"] = gpu.run(number)
                recorded.add(case.test, results["GPU"], None)
            elif options.recorded and recorded.result(case.test):
                results["GPU"] = recorded.result(case.test)[0]
            if options.sim:
                results["simulator"] = in_simulator(options.sim, case.test, options.seeds)
        except (silicon.GpuError, silicon.Found) as error:
            problem = str(error)
        text, well = compare(case, results)
        failed += bool(problem) or not well
        print(f"{'ok    ' if well and not problem else 'FAILED'} {case.name}: {problem or text}", flush=True)
    if options.out and gpu:
        recorded.save(options.out, [case.test for case in cases])
        gpu.stop()
    print(f"{len(cases)} cases, {failed} failures")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
