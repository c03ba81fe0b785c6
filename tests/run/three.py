#!/usr/bin/env python3
"""three.py - tiles of three and four dimensions, by ranges of their own.

    three.py --tilec T --tilerun R

Loaded and stored by three ranges and four, reduced along each dimension, beside tiles that grow along each; whole and cut, of
extents that are no powers of two; products over a first dimension.  Compiled, in the simulator, and in the reference interpreter, against NumPy.
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import scans  # noqa: E402

THREE = """
kernel three(X: in f32[A, B, C], W: in f32[B, C], V: in f32[C], U: in i32[A], R0: out f32[B, C], R1: out f32[A, C],
             R2: out f32[A, B], Y: out f32[A, B, C], Z: out bf16[A, B, C], T: inout f32[A, B, C]) {
    grid a in tiles(A, %d), b in tiles(B, %d), c in tiles(C, %d);
    let x = load X[a, b, c];
    store R0[b, c] = sum(x, axis=0);
    store R1[a, c] = max(exp2(x), axis=1);
    store R2[a, b] = min(x + 1.0, axis=2);
    let y = x + load W[b, c] * (load U[a] as f32)[:, None, None];
    store Y[a, b, c] = where(y > 0.0, y * load V[c], load X[a, b, c + 1]);
    store Z[a, b, c] = (y - sum(y, axis=1)[:, None, :]) as bf16;
    atomic_add T[a, b, c] += max(y, axis=0)[None, :, :];
}
"""
FOUR = """
kernel four(X: in f32[A, B, C, D], Y: out f32[A, B, C, D], R: out f32[A, C, D], Q: out f32[A, B]) {
    grid a in tiles(A, %d), b in tiles(B, %d);
    let x = load X[a, b, iota(%d), iota(%d)];
    store Y[a, b, iota(%d), iota(%d)] = x * max(max(x, axis=3), axis=2)[:, :, None, None];
    store R[a, iota(%d), iota(%d)] = sum(x, axis=1);
    store Q[a, b] = sum(sum(x, axis=3), axis=2);
}
"""
# along the first dimension and along the last
LINES = """
fn step(x, y) { return (a = x.a * y.a, b = x.b * y.a + y.b); }
kernel along(X: in i32[A, B, C], Y: in i32[A, B, C], P: out i32[A, B, C], Q: out i32[A, B, C], R: out i32[B, C], S: out i32[A, B, C]) {
    grid b in tiles(B, %d), c in tiles(C, %d);
    let (a, x) = (tiles(A, %d)[0], load X[tiles(A, %d)[0], b, c]);
    let signs = where(x > 0, 1, -1);
    store P[a, b, c] = cumsum(x, axis=0, reverse=true);
    store Q[a, b, c] = scan(step, (signs, x), axis=0).b;
    store R[b, c] = reduce(step, (signs, x), axis=0).b;
    store S[a, b, c] = sort(load Y[a, b, c], axis=0);
}
"""


def make_lines(shape, tile):
    r = np.random.default_rng([*shape, *tile])
    x, y = r.integers(-9, 10, shape), r.integers(-9, 10, shape)
    state, states = np.zeros(shape[1:], int), []
    for line in x:
        state = state * np.where(line > 0, 1, -1) + line
        states.append(state)
    want = {"P": np.cumsum(x[::-1], axis=0)[::-1], "Q": np.array(states), "R": state, "S": np.sort(y, axis=0)}
    a, b, c = tile[:3]
    return LINES % (b, c, a, a), {"X": scans.stored(x, "i32"), "Y": scans.stored(y, "i32")}, {n: scans.stored(v, "i32") for n, v in want.items()}, []


# a product for each element of a first dimension, carried by a loop, chosen in a branch, combined along it
PRODUCTS = """
kernel products(X: in bf16[B, M, K], Y: in bf16[B, K, 32], U: in f32[B], Z: inout f32[B, M, 32], R: out f32[M, 32], C: out i32[M, 32],
                S: out f32[B, M, 4]) {
    grid b in tiles(B, %d), m in tiles(M, %d);
    var acc = zeros<f32>[%d, %d, 32];
    var most = full<f32>[%d, %d](-100.0);
    for k in tiles(K, 16) {
        let s = mma(load X[b, m, k], load Y[b, k, :]);
        if any(s > 0.0) { acc = acc + s * (load U[b])[:, None, None]; }
        most = max(most, max(s, axis=2));
    }
    atomic_add Z[b, m, :] += mma(load X[b, m, iota(16)], load Y[b, iota(16), :], acc);
    store R[m, :] = max(acc, axis=0) + min(acc, axis=0);
    store C[m, :] = where(any(acc > 3.0, axis=0), 1, 0);
    store S[b, m, :] = max(fold(acc, 2, 8), axis=3) + most[:, :, None];
}
"""


def make_products(shape, tile):
    """Of tiles in each of which some product is positive."""
    r = np.random.default_rng([*shape, *tile])
    b, m, k = shape
    x, y = r.integers(-3, 4, (b, m, k)).astype(np.float64), r.integers(-3, 4, (b, k, 32)).astype(np.float64)
    x[0], y[0] = 1 + abs(x[0]), 1 + abs(y[0])
    u, z = r.integers(-3, 4, b).astype(np.float64), r.integers(-3, 4, (b, m, 32)).astype(np.float64)
    acc = x @ y * u[:, None, None]
    most = np.max([x[:, :, i:i + 16] @ y[:, i:i + 16] for i in range(0, k, 16)], axis=0).max(axis=2)
    want = {"Z": z + acc + x[:, :, :16] @ y[:, :16], "R": acc.max(axis=0) + acc.min(axis=0),
            "S": acc.reshape(b, m, 4, 8).max(axis=3) + most[:, :, None]}
    want = {n: scans.stored(v, "f32") for n, v in want.items()}
    want["C"] = scans.stored((acc > 3).any(axis=0), "i32")
    inputs = {"X": scans.stored(x, "bf16"), "Y": scans.stored(y, "bf16"), "U": scans.stored(u, "f32"), "Z": scans.stored(z, "f32")}
    return PRODUCTS % (*tile, *tile, *tile), inputs, want, []


def make(shape, tile):
    if len(tile) == 2:
        return make_products(shape, tile)
    if len(shape) == 3 and len(tile) == 4:
        return make_lines(shape, tile)
    r = np.random.default_rng([*shape, *tile])
    whole = lambda *dims: r.integers(-4, 5, dims).astype(np.float64)
    if len(shape) == 4:
        x = whole(*shape)
        want = {"Y": x * x.max(axis=(2, 3), keepdims=True), "R": x.sum(axis=1), "Q": x.sum(axis=(2, 3))}
        return FOUR % (*tile[:2], *3 * tile[2:]), {"X": scans.stored(x, "f32")}, {n: scans.stored(v, "f32") for n, v in want.items()}, []
    a, b, c = shape
    x, w, v, u, t = whole(a, b, c), whole(b, c), whole(c), whole(a), whole(a, b, c)
    y = x + w * u[:, None, None]
    behind = np.concatenate([x[:, :, 1:], np.zeros((a, b, 1))], axis=2)
    want = {"R0": x.sum(axis=0), "R1": np.exp2(x).max(axis=1), "R2": x.min(axis=2) + 1, "Y": np.where(y > 0, y * v, behind),
            "T": t + y.max(axis=0)[None]}
    want = {n: scans.stored(v, "f32") for n, v in want.items()}
    want["Z"] = scans.stored(y - y.sum(axis=1, keepdims=True), "bf16")
    inputs = {n: scans.stored(v, "f32") for n, v in (("X", x), ("W", w), ("V", v), ("T", t))}
    return THREE % tile, {**inputs, "U": scans.stored(u, "i32")}, want, []


CASES = [((3, 5, 7), (4, 8, 16)), ((4, 16, 32), (4, 16, 32)), ((2, 20, 40), (2, 32, 64)), ((5, 3, 33), (8, 4, 48)), ((1, 9, 9), (1, 16, 16)),
         ((7, 1, 20), (8, 1, 32)), ((3, 40, 5), (3, 40, 5)), ((6, 7, 1), (8, 8, 1)), ((2, 3, 4, 8), (2, 4, 4, 8)), ((5, 6, 3, 5), (2, 8, 3, 5)),
         ((3, 3, 1, 16), (4, 4, 1, 16)), ((3, 20, 40), (4, 16)), ((2, 64, 64), (2, 64)), ((4, 33, 70), (8, 32)), ((1, 16, 16), (1, 16)), ((9, 5, 7), (16, 2, 8, 0)), ((32, 3, 40), (32, 4, 16, 0))]


def main():
    return scans.judge([("x".join(map(str, s)) + "-" + "x".join(map(str, t)), *make(s, t)) for s, t in CASES], __doc__)


if __name__ == "__main__":
    sys.exit(main())
