#!/usr/bin/env python3
"""greatest.py - argmax and argmin, of every type, along both axes, of tiles of any size.

    greatest.py --tilec T --tilerun R

Few values, so that many are equal; NaN, infinities, rows of nothing else; tiles whose ranges begin before their tensor;
sums of products, which lie as products leave them.  Compiled, in the simulator, and in the reference interpreter,
against NumPy.
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import scans  # noqa: E402


def tile_source(dtype, tile, moved):
    """A and B along the rows of one tile, E and F along its columns; Q: several of one tile; N: nothing is there."""
    rows, columns = tile
    return f"""
kernel greatest(X: in {dtype}[S, C], A: out i32[{rows}], B: out i32[{rows}], Q: out i32[{rows}], N: out i32[{rows}],
                E: out i32[{columns}], F: out i32[{columns}]) {{
    grid g in 1;
    let m = tiles(S, {rows})[g];
    let n = tiles(C, {columns})[g];
    let x = load X[m + {moved[0]}, n + {moved[1]}];
    store A[m] = argmax(x, axis=1);
    store B[m] = argmin(x, axis=-1);
    store Q[m] = argmin(x, axis=1) * 10000 + argmax(abs(x as f32), axis=1);
    store N[m] = argmax(load X[m, tiles(C, {columns})[cdiv(C, {columns})]], axis=1);
    store E[n] = argmax(x, axis=0);
    store F[n] = argmin(x, axis=0);
}}
"""


def line_source(dtype, tile, count):
    return f"""
kernel greatest(X: in {dtype}[C], A: out i32[{count}], B: out i32[{count}]) {{
    grid n in tiles(C, {tile[0]});
    let x = load X[n];
    store A[min(n) / {tile[0]}] = argmax(x, axis=0);
    store B[min(n) / {tile[0]}] = argmin(x, axis=0);
}}
"""


def product_source(tile, count):
    """Of a sum of products, which lies as products leave it; in a loop, too."""
    return f"""
kernel greatest(X: in bf16[S, K], Y: in bf16[{tile[1]}, K], A: out i32[S], B: out i32[S], R: out i32[S], E: out i32[{count}, {tile[1]}]) {{
    grid m in tiles(S, {tile[0]});
    var acc = zeros<f32>[{tile[0]}, {tile[1]}];
    for k in tiles(K, 32) {{
        acc = mma(load X[m, k], (load Y[:, k]).T, acc);
    }}
    store A[m] = argmax(acc, axis=1);
    store B[m] = argmin(acc, axis=1);
    store E[min(m) / {tile[0]}, :] = argmin(acc, axis=0);
    var best = full<i32>[{tile[0]}](-1);
    for k in tiles(K, 32) {{
        best = max(best, argmax(mma(load X[m, k], (load Y[:, k]).T), axis=1));
    }}
    store R[m] = best;
}}
"""


def place(x, name, axis):
    """By NumPy; NaN is what is not there, too.  -1: there is no number."""
    nothing = -np.inf if name == "argmax" else np.inf
    filled = np.where(np.isnan(x), nothing, x)
    best = (np.max if name == "argmax" else np.min)(filled, axis=axis, keepdims=True)
    has = (filled == best) & ~np.isnan(x)
    return np.where(has.any(axis=axis), has.argmax(axis=axis), -1).astype(np.int32)


def numbers(r, dtype, shape):
    x = r.integers(-3, 4, shape).astype(np.float64)
    if dtype == "i32":
        return np.where(r.random(shape) < 0.1, r.choice([-2.0**31 + 1, 2.0**31 - 1], shape), x)
    x = np.where(r.random(shape) < 0.15, r.choice([np.nan, np.inf, -np.inf, -0.0], shape), x)
    for k in range(0, shape[0] if len(shape) == 2 else 0, 5):  # rows of one kind
        x[k] = r.choice([np.nan, np.inf, -np.inf, 2.0])
    return x


def framed(x, tile, moved):
    """What a tile has of a matrix: zeros outside of it; NaN: padding."""
    frame = np.full(tile, np.nan)
    for i in range(min(tile[0], x.shape[0])):
        for j in range(min(tile[1], x.shape[1])):
            down, right = i + moved[0], j + moved[1]
            inside = 0 <= down < x.shape[0] and 0 <= right < x.shape[1]
            frame[i, j] = x[down, right] if inside else 0.0
    return frame


def make(kind, dtype, shape, tile, moved):
    r = np.random.default_rng([len(dtype), *shape, *tile])
    if kind == "products":
        x = r.integers(-2, 3, (shape[0], shape[1])).astype(np.float64)
        y = r.integers(-2, 3, (tile[1], shape[1])).astype(np.float64)
        parts = [x[:, k:k + 32] @ y[:, k:k + 32].T for k in range(0, shape[1], 32)]
        full, steps = sum(parts), range(0, shape[0], tile[0])
        want = {"A": place(full, "argmax", 1), "B": place(full, "argmin", 1),
                "E": np.array([place(full[m:m + tile[0]], "argmin", 0) for m in steps]),
                "R": np.max([place(p, "argmax", 1) for p in parts], axis=0)}
        return product_source(tile, len(steps)), {"X": scans.stored(x, "bf16"), "Y": scans.stored(y, "bf16")}, want
    x = numbers(r, dtype, shape)
    if kind == "lines":
        frames = np.full((-(-shape[0] // tile[0]), tile[0]), np.nan)
        frames.ravel()[:shape[0]] = x
        want = {"A": place(frames, "argmax", 1), "B": place(frames, "argmin", 1)}
        return line_source(dtype, tile, len(frames)), {"X": scans.stored(x, dtype)}, want
    frame = framed(x, tile, moved)
    least = place(frame, "argmin", 1)
    want = {"A": place(frame, "argmax", 1), "B": least, "E": place(frame, "argmax", 0), "F": place(frame, "argmin", 0),
            "Q": least * 10000 + place(np.abs(frame), "argmax", 1), "N": np.full(tile[0], -1, np.int32)}
    for n, v in want.items():  # padding is not written
        v[shape[1 if n in "EF" else 0]:] = 0
    return tile_source(dtype, tile, moved), {"X": scans.stored(x, dtype)}, want


CASES = [("tiles", t, s, n, m) for t in ("f32", "i32") for s, n, m in [
    ((1, 1), (1, 1), (0, 0)), ((21, 37), (16, 32), (0, 0)), ((64, 64), (64, 64), (0, 0)), ((7, 100), (16, 128), (0, 0)),
    ((20, 20), (16, 24), (-3, -5)), ((130, 7), (128, 8), (4, 0)), ((1, 900), (1, 1024), (0, -1)), ((70, 1), (64, 1), (-2, 0)),
    ((19, 50), (48, 80), (0, 2))]]
CASES += [("tiles", t, s, n, m) for t in ("bf16", "f16") for s, n, m in [((21, 37), (16, 32), (1, -1)), ((40, 70), (64, 64), (0, 0))]]
CASES += [("lines", t, s, n, None) for t in ("f32", "i32", "f16") for s, n in [((1,), (1,)), ((100,), (32,)), ((1000,), (1024,)), ((300,), (96,))]]
CASES += [("products", "f32", s, n, None) for s, n in [((70, 64), (64, 32)), ((128, 96), (128, 64)), ((130, 64), (64, 128))]]


def main():
    return scans.judge([(f"{c[0]}-{c[1]}-{n}", *make(*c), []) for n, c in enumerate(CASES)], __doc__)


if __name__ == "__main__":
    sys.exit(main())
