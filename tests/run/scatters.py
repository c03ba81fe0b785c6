#!/usr/bin/env python3
"""scatters.py - stores and atomic statements at tiles of places, in the simulator on every target and in the interpreter, beside
NumPy: rows to slots, places along the last dimension, two lists, places of single elements, a histogram, tokens ordered by
their experts and back, and products whose rows go to places, with roles, too.  Lists have places outside of the tensor, which
nothing is written to, equal ones there, and padding.

    scatters.py --tilec T --tilerun R
"""
import argparse
import os
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import attention  # noqa: E402
import gathers  # noqa: E402
import ladder  # noqa: E402

# Each is one kernel.
SOURCE = """
// keys of tokens to their slots, in pieces of columns
kernel slots<T: type = bf16, A: int = 16>(Slot: in i32[N], X: in T[N, K], Y: inout T[V, K])
{
    grid n in tiles(N, A), k in tiles(K, 32);
    store Y[load Slot[n], k] = load X[n, k];
}
// the value has padding of another range; the list is read before it is used, and moved
kernel shifted<A: int = 16>(Slot: in i32[N], X: in f32[N], Y: inout f32[2, V], Z: inout i32[V])
{
    grid p in 1;
    for n in tiles(N, A) {
        let at = load Slot[n] - 1;
        store Y[1, at] = load X[n + 1] * 2.0;
        store Z[at] = n.number;
    }
}
// how often each number is there: equal places, of which many are in one tile
kernel histogram<A: int = 128>(X: in i32[N], H: inout i32[B])
{
    grid n in tiles(N, A);
    atomic_add H[load X[n]] += 1;
}
// rows of a gradient by token; the greatest of each column of a table, by two lists; single elements
kernel added<A: int = 16>(Tok: in i32[N], X: in f32[N, 40], Y: inout f32[V, 40])
{
    grid n in tiles(N, A);
    atomic_add Y[load Tok[n], :] += load X[n, :];
}
kernel raised<A: int = 16, B: int = 8>(Tok: in i32[N], Col: in i32[C], X: in f32[N, C], Y: inout f32[V, K], Z: inout i32[V])
{
    grid n in tiles(N, A), c in tiles(C, B);
    atomic_max Y[load Tok[n], load Col[c]] = load X[n, c];
    atomic_min Z[(load Tok[n])[:, None] + (load Col[c])[None, :]] = n[:, None] - c[None, :];
}
// places along the last dimension
kernel columns<A: int = 16, B: int = 8>(Col: in i32[C], X: in f16[N, C], Y: inout f16[N, K], Z: inout f32[N, K])
{
    grid n in tiles(N, A), c in tiles(C, B);
    let cols = load Col[c];
    store Y[n, cols] = load X[n, c];
    atomic_add Z[n, cols] += load X[n, c] as f32;
}
// where each pair of a token and one of its two experts stands when they are ordered by expert, and which stands where
kernel order<A: int = 32>(E: in i32[N, 2], First: in i32[X], Place: inout i32[N, 2], Row: inout i32[P])
{
    grid e in X;
    var at = load First[e];
    for i in tiles(N, A) {
        for k in 2 {
            let mine = load E[i, k] == e;
            let places = where(mine, at + cumsum(mine as i32, axis = 0) - 1, -1);
            store Row[places] = i[:] * 2 + k;
            store Place[where(mine, i[:], -1), k] = places;
            at += sum(mine as i32);
        }
    }
}
kernel permute<A: int = 16>(X: in bf16[N, 40], Place: in i32[N, 2], Y: inout bf16[P, 40])
{
    grid i in tiles(N, A), k in 2;
    store Y[load Place[i, k], :] = load X[i, :];
}
kernel unpermute<A: int = 16>(Y: in bf16[P, 40], Place: in i32[N, 2], W: in f32[N, 2], Z: out f32[N, 40])
{
    grid i in tiles(N, A);
    var z = zeros<f32>[A, 40];
    for k in 2 { z += load Y[load Place[i, k], :] as f32 * (load W[i, k])[:, None]; }
    store Z[i, :] = z;
}
// rows of a product to their places, and added to others
kernel product<A: int = 32, B: int = 16>(Tok: in i32[N] align(16), X: in bf16[N, K] align(16), W: in bf16[K, 64] align(16), Y: inout bf16[V, 64], Z: inout f32[V, 64])
{
    grid n in tiles(N, A);
    let rows = load Tok[n];
    var acc = zeros<f32>[A, 64];
    for k in tiles(K, B) { acc = mma(load X[n, k], load W[k, :], acc); }
    store Y[rows, :] = acc as bf16;
    atomic_add Z[rows - 1, :] += acc;
}
"""


def put(old, places, values):
    """`old` with rows at places; those outside are nowhere."""
    new, inside = old.copy(), (places >= 0) & (places < old.shape[0])
    new[places[inside]] = values[inside]
    return new


def combined(how, old, places, values):
    new, inside = old.copy(), (places >= 0) & (places < old.shape[0])
    how.at(new, places[inside], values[inside])
    return new


def distinct(random, n, v):
    """Places that differ where they are inside of v; some are outside, and equal."""
    return np.where(random.random(n) < 0.2, random.choice([-1, v + 1, v + 3], n), random.permutation(max(n, v))[:n]).astype(np.int32)


def tokens(random, n, x):
    """Two experts of each token, the first place of each expert, places and rows."""
    experts = np.stack([random.permutation(x)[:2] for _ in range(n)]).astype(np.int32)
    flat = experts.reshape(-1)
    # in each tile first those of k = 0, in the order of tokens
    first = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=x))[:-1]]).astype(np.int32)
    return experts, first


def placed(experts, first, tile):
    at, place, row = first.copy(), np.zeros_like(experts), np.zeros(experts.size, np.int32)
    for begin in range(0, len(experts), tile):
        for k in range(2):
            for i in range(begin, min(begin + tile, len(experts))):
                e = experts[i, k]
                place[i, k], row[at[e]] = at[e], 2 * i + k
                at[e] += 1
    return place, row


def cases(random, tiles, n, v, k, c):
    draw = lambda dtype, *shape: ladder.rounded(random.standard_normal(shape), dtype)
    slot, tok = distinct(random, n, v), random.integers(-2, v + 2, n).astype(np.int32)
    cols = distinct(random, c, k)
    for dtype in "bf16", "f32":
        x, y = draw(dtype, n, k), draw(dtype, v, k)
        yield "slots", {"T": dtype}, {"Slot": slot, "X": (x, dtype), "Y": (y, dtype)}, {"Y": (put(y, slot, x), dtype, 0)}
    x, y, z = draw("f32", n), draw("f32", 2, v), np.full(v, -7, np.int32)
    moved = np.append(x[1:], 0) * 2
    moved_to = slot - 1
    yield "shifted", {}, {"Slot": slot, "X": (x, "f32"), "Y": (y, "f32"), "Z": z}, {
        "Y": (np.stack([y[0], put(y[1], moved_to, moved)]), "f32", 0),
        "Z": (put(z, moved_to, (np.arange(n) // tiles.get("A", 16)).astype(np.int32)), "i32", 0)}
    h = random.integers(0, 5, c).astype(np.int32)
    x = np.minimum(random.integers(-2, c + 2, n), random.integers(-2, c + 2, n)).astype(np.int32)
    yield "histogram", {}, {"X": x, "H": h}, {"H": (combined(np.add, h, x, np.ones(n, np.int32)), "i32", 0)}
    x, y = np.round(4 * draw("f32", n, 40)), np.round(4 * draw("f32", v, 40))
    yield "added", {}, {"Tok": tok, "X": (x, "f32"), "Y": (y, "f32")}, {"Y": (combined(np.add, y, tok, x), "f32", 0)}
    x, y, z = draw("f32", n, c), draw("f32", v, k), random.integers(-9, 9, v).astype(np.int32)
    best, low = y.copy(), z.copy()
    for i in range(n):
        for j in range(c):
            if 0 <= tok[i] < v and 0 <= cols[j] < k:
                best[tok[i], cols[j]] = max(best[tok[i], cols[j]], x[i, j])
            if 0 <= tok[i] + cols[j] < v:
                low[tok[i] + cols[j]] = min(low[tok[i] + cols[j]], i - j)
    yield "raised", {}, {"Tok": tok, "Col": cols, "X": (x, "f32"), "Y": (y, "f32"), "Z": z}, {"Y": (best, "f32", 0), "Z": (low, "i32", 0)}
    x, y, z = draw("f16", n, c), draw("f16", n, k), draw("f32", n, k)
    yield "columns", {}, {"Col": cols, "X": (x, "f16"), "Y": (y, "f16"), "Z": (z, "f32")}, {
        "Y": (put(y.T, cols, x.T).T, "f16", 0), "Z": (combined(np.add, z.T, cols, x.T).T, "f32", 1e-6)}
    experts, first = tokens(random, n, 5)
    place, row = placed(experts, first, tiles.get("A", 32))
    yield "order", {}, {"E": experts, "First": first, "Place": np.zeros_like(place), "Row": np.zeros_like(row)}, {
        "Place": (place, "i32", 0), "Row": (row, "i32", 0)}
    x, w = draw("bf16", n, 40), draw("f32", n, 2)
    rows = x[row // 2]
    yield "permute", {}, {"X": (x, "bf16"), "Place": place, "Y": (np.zeros_like(rows), "bf16")}, {"Y": (rows, "bf16", 0)}
    yield "unpermute", {}, {"Y": (rows, "bf16"), "Place": place, "W": (w, "f32")}, {"Z": ((rows[place] * w[:, :, None]).sum(1), "f32", 1e-5)}
    x, w, y, z = draw("bf16", n, 8 * k), draw("bf16", 8 * k, 64), draw("bf16", v, 64), draw("f32", v, 64)
    yield "product", {}, {"Tok": slot, "X": (x, "bf16"), "W": (w, "bf16"), "Y": (y, "bf16"), "Z": (z, "f32")}, {
        "Y": (put(y, slot, x @ w), "bf16", 2**-8), "Z": (combined(np.add, z, slot - 1, x @ w), "f32", 1e-3)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    gathers.SOURCE = SOURCE
    bad, n = 0, 0
    everywhere = [("interpreter", []), *[(arch, []) for arch in gathers.ARCHES], ("sm_80", ["-O0"]), ("sm_90", ["-fno-share"]), ("sm_100", ["-O1"])]
    roles = [(arch, [f"--plan={plan}"]) for arch in ["sm_90", "sm_100"] for plan in ["consumers=2,stages=2", "consumers=1,stages=2"]]
    for sizes, tiles, configs in [((64, 70, 16, 24), {}, everywhere), ((37, 50, 5, 13), {}, everywhere), ((5, 9, 3, 1), {"A": 16}, everywhere),
                                  ((70, 90, 7, 20), {"A": 64}, everywhere[:4]), ((150, 300, 19, 9), {"A": 64, "B": 64}, roles),
                                  ((300, 301, 16, 9), {"A": 128, "B": 64}, roles)]:
        for arch, flags in configs:
            for name, defines, inputs, wanted in cases(np.random.default_rng(7), tiles, *sizes):
                if configs is roles and name != "product":
                    continue
                n += 1
                try:
                    with tempfile.TemporaryDirectory() as folder:
                        gathers.run(options, arch, flags, name, {**defines, **{t: a for t, a in tiles.items() if t in "A" or name == "product"}}, inputs, wanted, folder)
                except attention.Wrong as wrong:
                    bad += 1
                    print(f"{name} {defines} {sizes} {tiles} {arch} {flags}: {str(wrong)[:600]}")
    print(f"{n} runs, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
