#!/usr/bin/env python3
"""interpret_scans.py - what the reference interpreter says that a scan by a function may be off by.

    interpret_scans.py --tilec T

Compiled, elements are combined by the digits of their places: of sixteen places by fours, twos and twos, and in every other way that
comes to sixteen.  In each the results lie within the interpreter's tolerance, and come near it: it is no wider
than it has to be.  Where an element is left out, or taken twice, they lie beyond it.
"""
import os
import subprocess
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import interpret  # noqa: E402
import ladder  # noqa: E402

LINES = 80
SEEN = {"f32": 1e5, "f16": 40, "bf16": 5}  # of what is wrong, in parts of the tolerance
# of a name: what the function returns, and does in NumPy with x, y and `fma`
FUNCTIONS = {
    "recurrence": ("(x.0 * y.0, x.1 * y.0 + y.1)", lambda x, y, fma: (x[0] * y[0], x[1] * y[0] + y[1])),
    "contracted": ("(x.0 * y.0, x.1 * y.0 + y.1)", lambda x, y, fma: (x[0] * y[0], fma(x[1], y[0], y[1]))),
    "fused": ("(x.0 * y.0, fma(x.1, y.0, y.1))", lambda x, y, fma: (x[0] * y[0], fma(x[1], y[0], y[1]))),
    "from the left": ("(x.0 * y.0, x.1 + x.0 * y.1)", lambda x, y, fma: (x[0] * y[0], x[1] + x[0] * y[1])),
    "of a product": ("(x.0 * y.0, x.0 * y.1 + x.1 * y.0)", lambda x, y, fma: (x[0] * y[0], x[0] * y[1] + x[1] * y[0])),
    "sums": ("(x.0 + y.0, x.1 + y.1)", lambda x, y, fma: (x[0] + y[0], x[1] + y[1])),
}


def rounded(x, dtype):
    return ladder.from_bits(ladder.to_bits(x, dtype), dtype)


class Rounded:
    """A column of elements, whose sums and products are rounded."""

    def __init__(self, values, dtype):
        self.values, self.dtype = values, dtype

    def __add__(self, other):
        return Rounded(rounded(self.values + other.values, self.dtype), self.dtype)

    def __mul__(self, other):
        return Rounded(rounded(self.values * other.values, self.dtype), self.dtype)


def fma(a, b, c):
    return Rounded(rounded(a.values * b.values + c.values, a.dtype), a.dtype)


def numbers_of(n):
    """Every way of n places as digits, the lowest first."""
    return [()] if n == 1 else [(e, *rest) for e in range(2, n + 1) if n % e == 0 for rest in numbers_of(n // e)]


def grouped(does, elements, digits):
    """All results, where runs of neighbours are combined, then runs of these."""
    out, runs, size = list(elements), list(elements), 1
    for extent in digits:
        larger = []
        for first in range(0, len(runs), extent):
            run = runs[first]
            for k in range(first + 1, min(first + extent, len(runs))):
                for i in range(k * size, min((k + 1) * size, len(out))):
                    out[i] = does(run, out[i])
                run = does(run, runs[k])
            larger.append(run)
        runs, size = larger, size * extent
    return out


def terms(r, kind, n):
    x = r.standard_normal((LINES, n))
    if kind == "exact at first":  # the last of them alone has all its digits
        return np.where(np.arange(n) < n - 1, 1.0, 0.1 * abs(x))
    return x * {"alike": 1.0, "growing": 2.0 ** np.arange(n), "falling": 2.0 ** -np.arange(n),
                "large at last": np.where(np.arange(n) < n - 2, 0.5, 64.0)}[kind]


def interpreted(tilec, folder, text, dtype, x, y, skip):
    """[results, tolerances] of both parts, with so many places of padding in front: the end of a tile, from which the scan goes back."""
    n, source = x.shape[1] + skip, os.path.join(folder, "scan.tile")
    with open(source, "w", encoding="utf-8") as file:
        file.write(f"fn f(x, y) {{ return {text}; }}\nkernel k(X: in {dtype}[S, N], Y: in {dtype}[S, N], A: out {dtype}[S, N], B: out {dtype}[S, N]) {{\n"
                   f"    grid s in tiles(S, 1), n in tiles(N, {n});\n    let q = scan(f, (load X[s, n], load Y[s, n]), axis=1{', reverse=true' if skip else ''});\n"
                   "    store A[s, n] = q.0;\n    store B[s, n] = q.1;\n}\n")
    way = slice(None, None, -1 if skip else 1)
    bounds = {name: os.path.join(folder, name + "-off.npy") for name in "AB"}
    flags = [word for name, path in bounds.items() for word in ("--tolerance", f"{name}={path}")]
    got, _ = interpret.interpret(tilec, source, folder, {}, {"X": ladder.to_bits(x[:, way], dtype), "Y": ladder.to_bits(y[:, way], dtype)}, {}, ["A", "B"], flags)
    return [(ladder.from_bits(got[name], dtype)[:, way], np.load(path)[:, way]) for name, path in bounds.items()]


def farthest(made, results):
    """How far the results are from those of the interpreter, the most of each line, in parts of the tolerance."""
    far = np.zeros(LINES)
    for part, (want, bound) in enumerate(results):
        off = np.abs(np.stack([m[part].values for m in made], 1) - want)
        far = np.maximum(far, np.where(off == 0, 0, off / np.where(off == 0, 1, np.maximum(bound, 1e-300))).max(1))
    return far


def check(tilec, folder):
    for name, (text, function) in FUNCTIONS.items():
        does = lambda x, y, function=function: x if y is None else y if x is None else function(x, y, fma)
        for dtype in ("f32", "f16", "bf16"):
            most, least = 0.0, np.inf
            for kind, n, skip in (("alike", 16, 0), ("growing", 8, 0), ("falling", 15, 0), ("large at last", 5, 0), ("large at last", 16, 0),
                                  ("alike", 5, 3), ("exact at first", 3, 1), ("exact at first", 11, 5)):
                r = np.random.default_rng([n, len(kind), len(name)])
                x, y = (rounded(v, dtype) for v in (1 + 0.3 * r.standard_normal((LINES, n)), terms(r, kind, n)))
                results = interpreted(tilec, folder, text, dtype, x, y, skip)
                elements = [tuple(Rounded(v[:, i], dtype) for v in (x, y)) for i in range(n)]
                for digits in numbers_of(1 << (n + skip - 1).bit_length()):
                    far = farthest(grouped(does, [None] * skip + elements, digits)[skip:], results).max()
                    yield f"{name}, {dtype}, {n} {kind} behind {skip} by {digits}", f"{far:.2f} of the tolerance" if far > 1 else None
                    most = max(most, far)
                for wrong in (elements[:-2] + elements[-1:] * 2, elements[:-2] + elements[-2:-1] * 2) if n <= 8 else ():
                    least = min(least, np.median(farthest(grouped(does, wrong, (n,)), results)))
            yield f"{name}, {dtype}: come near", None if most > 0.5 else f"{most:.2f} of the tolerance at most"
            yield f"{name}, {dtype}: a wrong element", None if least > SEEN[dtype] else f"is {least:.2f} of the tolerance"


if __name__ == "__main__":
    sys.exit(interpret.main([check]))
