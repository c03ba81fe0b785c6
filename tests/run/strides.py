#!/usr/bin/env python3
"""strides.py - ranges whose indices lie apart (n * 2): loads, stores and atomic statements, rows and columns of products, packs,
tiles of three dimensions, their indices, `first` and `number`, padding, and what lies outside of the tensor at both ends.

    strides.py --tilec T --tilerun R

Compiled, in the simulator, and in the reference interpreter, against NumPy.
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import scans  # noqa: E402


def whole(x):
    return x.astype(np.float32)


def at(x, *places):
    """Elements of an outer product of places; what is outside is 0."""
    grid = np.ix_(*places)
    inside = np.ones([len(p) for p in places], bool)
    for g, n in zip(grid, x.shape):
        inside &= (g >= 0) & (g < n)
    return np.where(inside, x[tuple(np.clip(g, 0, n - 1) for g, n in zip(grid, x.shape))], 0)


LINE = """
kernel line(X: in f32[S], N: in i32[2], Y: out f32[P], F: out i32[G, 2], A: inout f32[T], B: inout f32[T], I: out i32[P], Sum: out f32[G], W: out f32[P]) {{
    grid p in tiles(P, {t});
    let far = p * {by} + {off};
    store Y[p] = load X[far];
    store F[p.number, 0] = far.first;
    store F[p.number, 1] = (far + 1).number;
    store I[p] = far;
    store A[p * {by} + {off}] = load X[p];
    atomic_add B[p * {by} + {off}] += 1.0;
    let part = tiles(load N[0]..load N[1], {t})[p.number] * {by};
    store Sum[p.number] = sum(exp(load X[part] * 0.0));         // ones: padding is not seen
    store W[p] = load X[(2 * (p - 3) + 1) * 3];
}}
"""


def line(s, p, t, by, off, bounds):
    x, g = np.random.default_rng([s, p]).integers(-9, 10, s), -(-p // t)
    far, size = np.arange(p) * by + off, s + 3
    a, b = np.full(size, 0.5), np.zeros(size)
    inside = (far >= 0) & (far < size)
    a[far[inside]] = np.append(x, np.zeros(p))[:p][inside]
    b[far[inside]] += 1
    counts = [max(0, min(t, bounds[1] - bounds[0] - k * t)) for k in range(g)]
    want = {"Y": at(x, far), "A": a, "B": b, "Sum": np.array(counts), "W": at(x, (2 * (np.arange(p) - 3) + 1) * 3)}
    inputs = {"X": whole(x), "N": np.array(bounds, np.int32), "A": whole(np.full(size, 0.5)), "B": whole(np.zeros(size))}
    text = LINE.format(t=t, by=by, off=f"({off})" if off < 0 else off)
    return text, inputs, {**{n: whole(v) for n, v in want.items()}, "I": far.astype(np.int32),
                          "F": np.array([[k * t * by + off, k] for k in range(g)], np.int32)}, [], {"P": p, "G": g}


POOL = """
kernel pool(X: in f32[H, W], Y: out f32[P, Q], Z: inout f32[H, W]) {
    grid p in tiles(P, 8), q in tiles(Q, 16);
    var y = full<f32>[8, 16](-100.0);
    for i in 0..2 { for j in 0..3 { y = max(y, load X[p * 2 + i - 1, q * 3 + j]); } }
    store Y[p, q] = y;
    store Z[p * 2, q * 3] = y;
}
"""


def pool(h, w, p, q):
    x = np.random.default_rng([h, w]).integers(-9, 10, (h, w))
    parts = [at(x, 2 * np.arange(p) + i - 1, 3 * np.arange(q) + j) for i in range(2) for j in range(3)]
    y, z = np.max(parts, axis=0), np.zeros((h, w))
    z[:2 * p:2, :3 * q:3] = y[:-(-h // 2), :-(-w // 3)]
    return POOL, {"X": whole(x), "Z": whole(np.zeros((h, w)))}, {"Y": whole(y), "Z": whole(z)}, [], {"P": p, "Q": q}


# A convolution as a product: rows are places of the result, in a pack, and taps and channels go round.
CONV = """
kernel conv(X: in bf16[B, H, W, 32], F: in bf16[3, 3, 32, 64], Y: out f32[B, P, Q, 64], E: out f32[B, P, Q, 32]) {
    grid p in tiles(P, 4), q in tiles(Q, 16), b in B;
    let (r, s) = pack(p, q);
    var acc = zeros<f32>[64, 64];
    for i in 0..3 {
        for j in 0..3 { acc = mma(load X[b, r * 2 + i - 1, s * 2 + j - 1, :], load F[i, j, :, :], acc); }
    }
    store Y[b, r, s, :] = acc;
    store E[b, p, q, :] = load X[b, p * 2 + 1, q * 2, :] as f32;
}
"""


def conv(b, h, w, p, q):
    rng = np.random.default_rng([b, h, w])
    x, f = rng.integers(-2, 3, (b, h, w, 32)), rng.integers(-2, 3, (3, 3, 32, 64))
    y, rows = np.zeros((b, p, q, 64)), [np.arange(b), None, None, np.arange(32)]
    for i in range(3):
        for j in range(3):
            rows[1:3] = 2 * np.arange(p) + i - 1, 2 * np.arange(q) + j - 1
            y += at(x, *rows) @ f[i, j]
    e = at(x, rows[0], 2 * np.arange(p) + 1, 2 * np.arange(q), rows[3])
    return CONV, {"X": scans.stored(x, "bf16"), "F": scans.stored(f, "bf16")}, {"Y": whole(y), "E": whole(e)}, [], {"P": p, "Q": q}


PRODUCT = """
kernel product(X: in bf16[S, K] align(16), F: in bf16[L, 64] align(16), C: in u4[S, M], Y: out f32[P, 64], Z: out f32[P, 64], O: out f32[P, 16]) {
    grid p in tiles(P, 32);
    var (acc, other) = (zeros<f32>[32, 64], zeros<f32>[32, 64]);
    for k in tiles(K, 32) { acc = mma(load X[p * 2 + 1, k], load F[k * 3, :], acc); }
    for l in tiles(L, 32) { other = mma(load X[p, l * 2], load F[l, :], other); }
    store Y[p, :] = acc;
    store Z[p, :] = other;
    store O[p, :] = load C[p, iota(16) * 2 + 1] as f32;
}
"""


def product(s, k, l, p, m):
    rng = np.random.default_rng([s, k])
    x, f, c = rng.integers(-2, 3, (s, k)), rng.integers(-2, 3, (l, 64)), rng.integers(0, 16, (s, m))
    rows, ks, ls, n = np.arange(p), np.arange(k), np.arange(l), np.arange(64)
    want = {"Y": at(x, 2 * rows + 1, ks) @ at(f, 3 * ks, n), "Z": at(x, rows, 2 * ls) @ f, "O": at(c, rows, 2 * np.arange(16) + 1)}
    codes = np.pad(c, ((0, 0), (0, m % 2)))
    return (PRODUCT, {"X": scans.stored(x, "bf16"), "F": scans.stored(f, "bf16"), "C": (codes[:, ::2] | codes[:, 1::2] << 4).astype(np.uint8)},
            {name: whole(v) for name, v in want.items()}, [], {"P": p, "M": m})


# A program's own store, and its load of what it wrote last; ends that are known when compiled.
OWN = """
kernel own(X: in f32[16], Z: inout f32[S], Y: out f32[256], Sum: out f32[1], E: out f32[16]) {
    grid g in 1;
    let n = iota(256);
    store Z[n * 2] = n[:] as f32;
    store Y[n] = load Z[n + 256];
    store Sum[0] = sum(exp(load X[iota(8) * 3] * 0.0));         // 8: zeros are no padding
    store E[iota(16)] = load X[iota(16) * 2];
}
"""


def own():
    x, z = np.arange(16) + 1, np.arange(600) % 7
    after = z.copy()
    after[:512:2] = np.arange(256)
    want = {"Z": after, "Y": after[256:512], "Sum": np.array([8]), "E": at(x, 2 * np.arange(16))}
    return OWN, {"X": whole(x), "Z": whole(z)}, {n: whole(v) for n, v in want.items()}, []


def main():
    cases = [(f"line-{n}", *line(*c)) for n, c in enumerate([(100, 60, 32, 2, 0, (3, 77)), (7, 40, 16, 3, -5, (0, 33)), (64, 64, 64, 1, 2, (10, 10))])]
    cases += [("own", *own())] + [(f"pool-{n}", *pool(*c)) for n, c in enumerate([(32, 48, 16, 16), (21, 37, 11, 13)])]
    cases += [(f"conv-{n}", *conv(*c)) for n, c in enumerate([(1, 8, 32, 4, 16), (2, 9, 13, 5, 7)])]
    cases += [(f"product-{n}", *product(*c)) for n, c in enumerate([(70, 64, 96, 33, 40), (40, 40, 56, 50, 34)])]
    return scans.judge(cases, __doc__)


if __name__ == "__main__":
    sys.exit(main())
