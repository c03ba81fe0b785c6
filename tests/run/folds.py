#!/usr/bin/env python3
"""folds.py - fold and unfold: what is computed of tiles of three dimensions and more.

    folds.py --tilec T --tilerun R

Tiles folded along each axis by 1, 2, 16, 32 and all of their elements, whole and cut; reduced along the inner and the outer
axis, spread again, unfolded and stored; vectors, results of products, and what a loop carries.  Compiled, in the
simulator, and in the reference interpreter, against NumPy.  The terms are whole numbers, so that sums are exact.
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import scans  # noqa: E402


def cut(n, tile):
    return -(-n // tile)


def padded(x, tile, fill):
    """With whole tiles, `fill` behind the end."""
    return np.pad(x, [(0, cut(n, t) * t - n) for n, t in zip(x.shape, tile)], constant_values=fill)


def folded(x, axis, inner):
    return x.reshape(x.shape[:axis] + (x.shape[axis] // inner, inner) + x.shape[axis + 1:])


def tile_source(dtype, tile, axis, q):
    """The greatest of each group (A), sums over groups (B), and the tile less the greatest of its group (Y)."""
    rows, columns = tile
    keep = "[:, :, None]" if axis == 1 else "[:, None, :]"
    at = "B[m, j, :]" if axis == 1 else "B[i, :, n]"
    tiles = "let m = tiles(S, {0})[i];\n    let n = tiles(C, {1})[j];\n    let g = tiles(G, {2})[{3}];".format(
        rows, columns, tile[axis] // q, "ij"[axis])
    dims = ("S, G", f"S, J, {q}") if axis == 1 else ("G, C", f"I, {q}, C")
    return f"""
kernel folds(X: in {dtype}[S, C], A: out {dtype}[{dims[0]}], B: out {dtype}[{dims[1]}], Y: out {dtype}[S, C], D: out f32[S, C]) {{
    grid i in cdiv(S, {rows}), j in cdiv(C, {columns});
    {tiles}
    let x = load X[m, n];
    let f = fold(x, {axis}, {q});
    let most = max(f, axis={axis + 1});
    store A[{'m, g' if axis == 1 else 'g, n'}] = most;
    store {at} = sum(f, axis={axis});
    store Y[m, n] = unfold(f - most{keep}, {axis});
    store D[m, n] = unfold(where(f == most{keep}, 1.0, (f as f32) * 0.5), {axis});
}}
"""


def row_source(dtype, tile, axis, q):
    return f"""
kernel folds(X: in {dtype}[C], A: out {dtype}[G], B: out {dtype}[J, {q}], Y: out {dtype}[C], D: out f32[C]) {{
    grid j in cdiv(C, {tile[0]});
    let n = tiles(C, {tile[0]})[j];
    let g = tiles(G, {tile[0] // q})[j];
    let f = fold(load X[n], 0, {q});
    let most = max(f, axis=1);
    store A[g] = most;
    store B[j, :] = sum(f, axis=0);
    store Y[n] = unfold(f - most[:, None], 0);
    store D[n] = unfold(where(f == most[:, None], 1.0, (f as f32) * 0.5), 0);
}}
"""


def want_of(x, dtype, tile, axis, q):
    def whole(fill):
        """Tile by tile along the axis, the axis folded."""
        return folded(padded(x, [t if d == axis else 1 for d, t in enumerate(tile)], fill), axis, q)
    groups = cut(x.shape[axis], q)
    low = -np.inf if dtype != "i32" else -2.0 ** 31
    most = whole(low).max(axis=axis + 1)
    less = whole(0) - np.expand_dims(most, axis + 1)
    half = np.where(whole(low) == np.expand_dims(most, axis + 1), 1.0, whole(0) * 0.5)
    tiles = folded(whole(0), axis, tile[axis] // q).sum(axis=axis + 1) # (tiles, q) along the axis
    back = lambda y: y.reshape(y.shape[:axis] + (-1,) + y.shape[axis + 2:]).take(range(x.shape[axis]), axis)
    return {"A": scans.stored(most.take(range(groups), axis), dtype), "B": scans.stored(tiles, dtype),
            "Y": scans.stored(back(less), dtype), "D": scans.stored(back(half), "f32")}


def product_source(dtype, tile, axis, q):
    rows, columns = tile
    return f"""
kernel folds(X: in bf16[S, K], Y: in bf16[C, K], A: out f32[S, C], B: out f32[S, {columns // q}], D: out f32[S, {q}]) {{
    grid m in tiles(S, {rows});
    var t = zeros<f32>[{rows}, {columns // q}, {q}];
    var most = full<f32>[{rows}, {columns // q}](-inf);
    for n in tiles(C, {columns}) {{
        let s = fold(mma(load X[m, :], (load Y[n, :]).T), 1, {q});
        let own = max(s, axis=2);
        store A[m, n] = unfold(s - own[:, :, None], 1);
        t = t + s + 1.0;
        most = max(most, own);
    }}
    store B[m, :] = most;
    let r = sum(t, axis=1);
    store D[m, :] = r;
}}
""".replace("K]", "64]")


def product_want(x, y, tile, q):
    full, columns = x @ y.T, tile[1]
    shape = (len(x), -1, columns // q, q)
    low = padded(full, (1, columns), -np.inf).reshape(shape)
    own = low.max(axis=3, keepdims=True)
    less = (padded(full, (1, columns), 0).reshape(shape) - own).reshape(len(x), -1)[:, :full.shape[1]]
    return {"A": scans.stored(less, "f32"), "B": scans.stored(own[..., 0].max(axis=1), "f32"),
            "D": scans.stored(padded(full + 1, (1, columns), 0).reshape(shape).sum(axis=(1, 2)), "f32")}


def make(kind, dtype, shape, tile, axis, q):
    """Source, inputs, what is right, and sizes that no input has."""
    r = np.random.default_rng([len(dtype), axis, q, *shape, *tile])
    if kind == "products":
        x, y = r.integers(-3, 4, (shape[0], 64)).astype(np.float64), r.integers(-3, 4, (shape[1], 64)).astype(np.float64)
        return (product_source(dtype, tile, axis, q), {"X": scans.stored(x, "bf16"), "Y": scans.stored(y, "bf16")},
                product_want(x, y, tile, q), [], {})
    x = r.integers(-9, 10, shape).astype(np.float64)
    source = (tile_source if len(shape) == 2 else row_source)(dtype, tile, axis, q)
    sizes = {"G": cut(shape[axis], q), "I" if axis < len(shape) - 1 else "J": cut(shape[axis], tile[axis])}
    return source, {"X": scans.stored(x, dtype)}, want_of(x, dtype, tile, axis, q), [], sizes


def cases():
    for axis in (0, 1):
        for s, n in [((21, 100), (16, 128)), ((70, 64), (32, 32)), ((33, 50), (16, 96)), ((5, 300), (1, 256))]:
            for k, q in enumerate(q for q in sorted({1, 2, 16, 32, n[axis]}) if n[axis] % q == 0):
                yield "tiles", ("f32", "i32", "bf16")[(axis + k) % 3], s, n, axis, q
    for n, s in [(1024, 900), (96, 300), (32, 32)]:
        for q in sorted({1, 2, 16, 32, n}):
            yield "rows", "f32", (s,), (n,), 0, q
    for s, n in [((70, 50), (64, 32)), ((128, 130), (128, 64)), ((20, 40), (16, 96))]:
        for q in sorted({1, 2, 16, 32, n[1]}):
            yield "products", "f32", s, n, 1, q


def main():
    return scans.judge([("-".join(str(w).replace(" ", "") for w in case), *make(*case)) for case in cases()], __doc__)


if __name__ == "__main__":
    sys.exit(main())
