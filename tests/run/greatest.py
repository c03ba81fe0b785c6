#!/usr/bin/env python3
"""greatest.py - argmax, argmin, top and sort, of every type, along both axes, of tiles of any size.

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


def tile_source(dtype, tile, moved, most):
    """A and B along the rows of one tile, E and F along its columns; Q: several of one tile; N: nothing is there.
    T and U along its rows, and V and W along its columns: the `most` greatest and their places.  G and H: sorted."""
    rows, columns = tile
    return f"""
kernel greatest(X: in {dtype}[S, C], A: out i32[{rows}], B: out i32[{rows}], Q: out i32[{rows}], N: out i32[{rows}],
                E: out i32[{columns}], F: out i32[{columns}], T: out {dtype}[{rows}, {most}], U: out i32[{rows}, {most}],
                V: out {dtype}[{most}, {columns}], W: out i32[{most}, {columns}],
                G: out {dtype}[{rows}, {columns}], H: out {dtype}[{rows}, {columns}]) {{
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
    let (t, u) = top(x, {most}, axis=1);
    store T[m, :] = t;
    store U[m, :] = u;
    let v = top(x, {most}, axis=0);
    store V[:, n] = v.0;
    store W[:, n] = v.1;
    store G[m, :] = sort(x, axis=1);
    store H[:, n] = sort(x, axis=0);
}}
"""


def line_source(dtype, tile, count):
    return f"""
kernel greatest(X: in {dtype}[C], A: out i32[{count}], B: out i32[{count}], T: out {dtype}[{count}, 4], U: out i32[{count}, 4], G: out {dtype}[{count}, {tile[0]}]) {{
    grid n in tiles(C, {tile[0]});
    let x = load X[n];
    store A[min(n) / {tile[0]}] = argmax(x, axis=0);
    store B[min(n) / {tile[0]}] = argmin(x, axis=0);
    let (t, u) = top(x, 4, axis=0);
    store T[min(n) / {tile[0]}, :] = t;
    store U[min(n) / {tile[0]}, :] = u;
    store G[min(n) / {tile[0]}, :] = sort(x, axis=0);
}}
"""


def product_source(tile, count):
    """Of a sum of products, which lies as products leave it; in a loop, too."""
    return f"""
kernel greatest(X: in bf16[S, K] align(16), Y: in bf16[{tile[1]}, K] align(16), A: out i32[S], B: out i32[S], R: out i32[S], E: out i32[{count}, {tile[1]}],
                T: out f32[S, 3], U: out i32[S, 3]) {{
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
    let (t, u) = top(acc, 3, axis=1);
    store T[m, :] = t;
    store U[m, :] = u;
}}
"""


def router_source(tile):
    """Of a product that warp groups have a plan for."""
    return f"""
kernel greatest(X: in bf16[S, K] align(16), Y: in bf16[{tile[1]}, K] align(16), T: out f32[S, 3], U: out i32[S, 3],
                G: out f32[S, {tile[1]}]) {{
    grid m in tiles(S, {tile[0]});
    var acc = zeros<f32>[{tile[0]}, {tile[1]}];
    for k in tiles(K, 64) {{
        acc = mma(load X[m, k], (load Y[:, k]).T, acc);
    }}
    let (t, u) = top(acc, 3, axis=1);
    store T[m, :] = t;
    store U[m, :] = u;
    store G[m, :] = sort(acc, axis=1);
}}
"""


DEEP = """
kernel greatest(X: in f32[S, 4, 32], A: out i32[S, 4], B: out i32[S, 32], T: out f32[S, 4, 3], U: out i32[S, 4, 3], G: out f32[S, 4, 32]) {
    grid m in tiles(S, 16);
    let x = load X[m, :, :];
    store A[m, :] = argmax(x, axis=2);
    store B[m, :] = argmin(x, axis=1);
    let (t, u) = top(x, 3, axis=2);
    store T[m, :, :] = t;
    store U[m, :, :] = u;
    store G[m, :, :] = sort(x, axis=2);
}
"""


def place(x, name, axis):
    """By NumPy; NaN is what is not there, too.  -1: there is no number."""
    nothing = -np.inf if name == "argmax" else np.inf
    filled = np.where(np.isnan(x), nothing, x)
    best = (np.max if name == "argmax" else np.min)(filled, axis=axis, keepdims=True)
    has = (filled == best) & ~np.isnan(x)
    return np.where(has.any(axis=axis), has.argmax(axis=axis), -1).astype(np.int32)


def greatest(x, there, most, axis, least):
    """By NumPy: values and places; NaN behind all numbers, then `least` and -1 for those that are missing."""
    x, there = np.moveaxis(x, axis, -1), np.moveaxis(there, axis, -1)
    values, places = np.full(x.shape[:-1] + (most,), least), np.full(x.shape[:-1] + (most,), -1)
    for at in np.ndindex(x.shape[:-1]):
        order = sorted(np.flatnonzero(there[at]), key=lambda k: (np.isnan(x[at][k]), 0 if np.isnan(x[at][k]) else -x[at][k], k))
        n = min(most, len(order))
        values[at][:n], places[at][:n] = x[at][order[:n]], order[:n]
    return np.moveaxis(values, -1, axis), np.moveaxis(places, -1, axis).astype(np.int32)


def in_order(x, there, axis, most):
    """By NumPy: NaN before all numbers, `most` in place of what is missing."""
    x, there = np.moveaxis(x, axis, -1), np.moveaxis(there, axis, -1)
    out = np.full(x.shape, most)
    for at in np.ndindex(x.shape[:-1]):
        line = sorted(x[at][there[at]], key=lambda v: (not np.isnan(v), 0 if np.isnan(v) else v))
        out[at][:len(line)] = line
    return np.moveaxis(out, -1, axis)


def numbers(r, dtype, shape):
    x = r.integers(-3, 4, shape).astype(np.float64)
    if dtype == "i32":
        return np.where(r.random(shape) < 0.1, r.choice([-2.0**31 + 1, 2.0**31 - 1], shape), x)
    x = np.where(r.random(shape) < 0.15, r.choice([np.nan, np.inf, -np.inf, -0.0], shape), x)
    for k in range(0, shape[0] if len(shape) == 2 else 0, 5):  # rows of one kind
        x[k] = r.choice([np.nan, np.inf, -np.inf, 2.0])
    return x


def framed(x, tile, moved):
    """What a tile has of a matrix, zeros outside of it; and what is no padding."""
    frame, there = np.zeros(tile), np.zeros(tile, bool)
    there[:x.shape[0], :x.shape[1]] = True
    for i in range(min(tile[0], x.shape[0])):
        for j in range(min(tile[1], x.shape[1])):
            down, right = i + moved[0], j + moved[1]
            if 0 <= down < x.shape[0] and 0 <= right < x.shape[1]:
                frame[i, j] = x[down, right]
    return frame, there


def product_case(shape, tile, r, alone):
    x = r.integers(-2, 3, (shape[0], shape[1])).astype(np.float64)
    y = r.integers(-2, 3, (tile[1], shape[1])).astype(np.float64)
    parts = [x[:, k:k + 32] @ y[:, k:k + 32].T for k in range(0, shape[1], 32)]
    full, steps = sum(parts), range(0, shape[0], tile[0])
    want = {"A": place(full, "argmax", 1), "B": place(full, "argmin", 1),
            "E": np.array([place(full[m:m + tile[0]], "argmin", 0) for m in steps]),
            "R": np.max([place(p, "argmax", 1) for p in parts], axis=0)}
    for n, v in zip("TU", greatest(full, np.ones(full.shape, bool), 3, 1, -np.inf)):
        want[n] = v.astype(np.float32 if n == "T" else np.int32)
    source = router_source(tile) if alone else product_source(tile, len(steps))
    if alone:
        want = {"T": want["T"], "U": want["U"], "G": np.sort(full, axis=1).astype(np.float32)}
    return source, {"X": scans.stored(x, "bf16"), "Y": scans.stored(y, "bf16")}, want


def make(kind, dtype, shape, tile, moved):
    r = np.random.default_rng([len(dtype), *shape, *(tile or ())])
    least, end = (-2.0**31, 2.0**31 - 1) if dtype == "i32" else (-np.inf, np.inf)
    if kind in ("products", "router"):
        return product_case(shape, tile, r, kind == "router")
    x = numbers(r, dtype, shape)
    if kind == "deep":
        there = np.ones(shape, bool)
        want = {"A": place(x, "argmax", 2), "B": place(x, "argmin", 1), "G": in_order(x, there, 2, end)}
        want["T"], want["U"] = greatest(x, there, 3, 2, least)
        return DEEP, {"X": scans.stored(x, dtype)}, {**want, **{n: scans.stored(want[n], dtype) for n in "TG"}}
    if kind == "lines":
        there = np.arange(-(-shape[0] // tile[0]) * tile[0]).reshape(-1, tile[0]) < shape[0]
        frames = np.full(there.shape, np.nan)
        frames.ravel()[:shape[0]] = x
        want = {"A": place(frames, "argmax", 1), "B": place(frames, "argmin", 1)}
        want["T"], want["U"] = greatest(frames, there, 4, 1, least)
        want["G"] = in_order(frames, there, 1, end)
        want.update({n: scans.stored(want[n], dtype) for n in "TG"})
        return line_source(dtype, tile, len(frames)), {"X": scans.stored(x, dtype)}, want
    whole, there = framed(x, tile, moved)
    frame, most = np.where(there, whole, np.nan), MOST[(sum(shape) + len(dtype)) % len(MOST)]
    lowest = place(frame, "argmin", 1)
    want = {"A": place(frame, "argmax", 1), "B": lowest, "E": place(frame, "argmax", 0), "F": place(frame, "argmin", 0),
            "Q": lowest * 10000 + place(np.abs(frame), "argmax", 1), "N": np.full(tile[0], -1, np.int32)}
    want["T"], want["U"] = greatest(whole, there, most, 1, least)
    want["V"], want["W"] = greatest(whole, there, most, 0, least)
    want["G"], want["H"] = in_order(whole, there, 1, end), in_order(whole, there, 0, end)
    for n, v in want.items():  # padding is not written
        v[(slice(None),) * (n in "VWH") + (slice(shape[1 if n in "EFVWH" else 0], None),)] = 0
    want.update({n: scans.stored(want[n], dtype) for n in "TVGH"})
    return tile_source(dtype, tile, moved, most), {"X": scans.stored(x, dtype)}, want


MOST = (1, 3, 8, 20, 64)  # elements of top
CASES = [("tiles", t, s, n, m) for t, step in (("f32", 1), ("i32", 2)) for s, n, m in [
    ((1, 1), (1, 1), (0, 0)), ((21, 37), (16, 32), (0, 0)), ((40, 64), (32, 64), (0, 0)), ((7, 100), (16, 128), (0, 0)),
    ((20, 20), (16, 24), (-3, -5)), ((130, 7), (128, 8), (4, 0)), ((1, 900), (1, 1024), (0, -1)), ((70, 1), (64, 1), (-2, 0)),
    ((19, 50), (48, 80), (0, 2))][::step]]
CASES += [("tiles", t, s, n, m) for t in ("bf16", "f16") for s, n, m in [((21, 37), (16, 32), (1, -1)), ((40, 70), (32, 64), (0, 0))]]
CASES += [("lines", t, s, n, None) for t, step in (("f32", 1), ("i32", 2), ("f16", 3)) for s, n in [((100,), (32,)), ((1,), (1,)), ((300,), (96,)), ((1000,), (1024,))][::step]]
CASES += [("products", "f32", s, n, None) for s, n in [((70, 64), (64, 32)), ((128, 96), (128, 64)), ((130, 64), (64, 128))]]

CASES += [("router", "f32", s, n, None) for s, n in [((130, 128), (64, 64)), ((128, 64), (64, 128)), ((200, 192), (128, 64)), ((100, 64), (128, 128))]]

CASES += [("deep", "f32", (21, 4, 32), None, None)]


def main():
    return scans.judge([(f"{c[0]}-{c[1]}-{n}", *make(*c), []) for n, c in enumerate(CASES)], __doc__)


if __name__ == "__main__":
    sys.exit(main())
