#!/usr/bin/env python3
"""atomics.py - atomic_max and atomic_min of f32 and i32, atomic_add of f16 and bf16: whole tiles, vectors that many programs
raise or add to, scalars.

    atomics.py --tilec T --tilerun R

Sizes whole and cut, both signs, zeros, infinities and NaN; sums that are rounded by each addition, also where all of them together
would not be.  Compiled, in the simulator, and in the reference
interpreter, against NumPy.
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import ladder  # noqa: E402
import scans  # noqa: E402


def source(dtype, tile, planned):
    x = "load X[m, n]"
    text, inputs = "", f"X: in {dtype}[S, C]"
    if planned:  # of a product, by warp groups where there are any
        inputs = f"P: in bf16[S, K] align(16), Q: in bf16[{tile[1]}, K] align(16)"
        text, x = "\n    let n = iota(" + str(tile[1]) + ");\n    var x = zeros<f32>[" + f"{tile[0]}, {tile[1]}];" + """
    for k in tiles(K, 64) { x = mma(load P[m, k], (load Q[:, k]).T, x); }""", None
    columns = "" if planned else f", n in tiles(C, {tile[1]})"
    return f"""
kernel raises({inputs}, M: inout {dtype}[C], L: inout {dtype}[C], R: inout {dtype}[S], Y: inout {dtype}[S, C], Z: inout {dtype}[S, C],
              A: inout {dtype}[2], E: inout {dtype}[2]) {{
    grid m in tiles(S, {tile[0]}){columns};{text}
    {f"let x = {x};" if x else ""}
    atomic_max M[n] = max(x, axis=0);
    atomic_min L[n] = min(x, axis=0);
    atomic_min R[m] = max(x, axis=1);
    atomic_max Y[m, n] = x;
    atomic_min Z[m, n] = x;
    atomic_max A[1] = max(x);
    atomic_min E[0] = min(x);
    atomic_max A[0] = {"2" if dtype == "i32" else "2.0"};
}}
"""


def numbers(r, dtype, shape):
    x = r.integers(-9, 10, shape).astype(np.float64)
    if dtype == "i32":
        return np.where(r.random(shape) < 0.1, r.choice([-2.0**31, 2.0**31 - 1], shape), x)
    return np.where(r.random(shape) < 0.2, r.choice([np.inf, -np.inf, 0.0, -0.5, 1e-30, -1e30], shape), x / 4)


def make(dtype, shape, tile, planned):
    r = np.random.default_rng([*shape, *tile])
    if planned:
        rows, columns, depth = shape[0], tile[1], shape[1]
        p, q = r.integers(-3, 4, (rows, depth)).astype(np.float64), r.integers(-3, 4, (columns, depth)).astype(np.float64)
        x, inputs = p @ q.T, {"P": scans.stored(p, "bf16"), "Q": scans.stored(q, "bf16")}
    else:
        x = numbers(r, dtype, shape)
        if dtype == "f32":
            x = np.where(r.random(shape) < 0.1, np.nan, x)
        inputs = {"X": scans.stored(x, dtype)}
    was = {n: numbers(r, dtype, s) for n, s in {"M": x.shape[1:], "L": x.shape[1:], "R": x.shape[:1], "Y": x.shape,
                                                "Z": x.shape, "A": (2,), "E": (2,)}.items()}
    parts = [np.fmax.reduce(x[:, k:k + tile[1]], axis=1) for k in range(0, x.shape[1], tile[1])]
    want = {"M": np.fmax(was["M"], np.fmax.reduce(x, axis=0)), "L": np.fmin(was["L"], np.fmin.reduce(x, axis=0)),
            "R": np.fmin(was["R"], np.fmin.reduce(parts)), "Y": np.fmax(was["Y"], x), "Z": np.fmin(was["Z"], x),
            "A": [max(was["A"][0], 2), np.fmax(was["A"][1], np.fmax.reduce(x, axis=None))],
            "E": [np.fmin(was["E"][0], np.fmin.reduce(x, axis=None)), was["E"][1]]}
    inputs.update({n: scans.stored(v, dtype) for n, v in was.items()})
    return source(dtype, tile, planned), inputs, {n: scans.stored(np.array(v), dtype) for n, v in want.items()}


def adds(dtype, shape, tile, fixed):
    """Additions to 16 bits; `fixed`: the width is known, so that many elements are added at once."""
    columns = str(shape[1]) if fixed else "C"
    return f"""
kernel adds(X: in {dtype}[S, {columns}], Y: inout {dtype}[S, {columns}], R: inout {dtype}[S], M: inout {dtype}[{columns}],
            A: inout {dtype}[3], P: in i32[S], H: inout {dtype}[4]) {{
    grid m in tiles(S, {tile[0]}), n in tiles({columns}, {tile[1]});
    let x = load X[m, n];
    atomic_add Y[m, n] += x;
    atomic_add R[m] += sum(x, axis=1);
    atomic_add M[n] += sum(x, axis=0);
    atomic_add H[load P[m]] += full<{dtype}>[{tile[0]}](1.0);   // lanes of one warp meet
    atomic_add A[0] += 1.0;     // half a unit of what is there: nothing
    atomic_add A[2] += 3.0;     // a unit and a half: two
}}
"""


def make_adds(dtype, shape, tile, fixed):
    r = np.random.default_rng([*shape, *tile, 16])
    one = 256.0 if dtype == "bf16" else 2048.0
    x = r.integers(-2, 3, shape).astype(np.float64)
    was = {"Y": r.integers(-600, 600, shape) * one / 512, "R": np.zeros(shape[:1]), "M": np.ones(shape[1:]),
           "A": np.full(3, one), "H": np.zeros(4)}
    was = {n: ladder.rounded(v, dtype) for n, v in was.items()}
    programs = -(-shape[0] // tile[0]) * -(-shape[1] // tile[1])
    places = r.integers(0, 4, shape[0])
    want = {"Y": was["Y"] + x, "R": x.sum(axis=1), "M": 1 + x.sum(axis=0), "A": np.array([one, one, one + 4 * programs]),
            "H": np.bincount(places, minlength=4) * -(-shape[1] // tile[1])}
    assert 4 * programs < one and np.abs(x).sum(axis=1).max() < 256 and np.abs(x).sum(axis=0).max() < 255  # exact in any order
    return (adds(dtype, shape, tile, fixed), {**{n: scans.stored(v, dtype) for n, v in was.items()}, "X": scans.stored(x, dtype),
                                             "P": places.astype(np.int32)},
            {n: scans.stored(v, dtype) for n, v in want.items()})


CASES = [(t, s, n, False) for t in ("f32", "i32") for s, n in [
    ((1, 1), (1, 1)), ((21, 37), (16, 32)), ((64, 128), (32, 64)), ((5, 200), (8, 128)), ((130, 7), (64, 4)), ((40, 70), (16, 24))]]
CASES += [("f32", s, n, True) for s, n in [((130, 128), (64, 64)), ((300, 64), (128, 128))]]


ADDED = [("bf16", (40, 64), (16, 64), True), ("f16", (40, 64), (16, 64), True), ("bf16", (21, 37), (16, 32), False),
         ("f16", (5, 100), (8, 128), False), ("bf16", (130, 6), (64, 4), True)]


def main():
    return scans.judge([(f"{c[0]}-{n}", *make(*c), []) for n, c in enumerate(CASES)] +
                       [(f"added-{c[0]}-{n}", *make_adds(*c), []) for n, c in enumerate(ADDED)], __doc__)


if __name__ == "__main__":
    sys.exit(main())
