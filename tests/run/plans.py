#!/usr/bin/env python3
"""plans.py - what a plan for warp groups must not change: which rows a program has, where its tiles begin and which
elements its vectors have.  In the simulator, for every target, against the interpreter, element by element.

    plans.py --tilec T --tilerun R [--only TEXT] [--part K/N]

Numbers are small whole ones, so that results are exact.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

ARCHS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"]

# name: (program, its inputs: types and sizes of the case's, or values; outputs, cases: (sizes, options))
CASES = {}


def case(name, source, inputs, outputs, *cases):
    CASES[name] = (source, inputs, outputs, cases)


# ---- tiles that begin before their tensor, and end before its end ----

SHIFTED = """
kernel shifted<S: int = -1, M: int = 64>(X: in bf16[W, 64] align(16), F: in bf16[64, 64] align(16), Y: out f32[W, 64]) {
    grid m in tiles(W, M);
    var acc = zeros<f32>[M, 64];
    for c in tiles(64, 32) { acc = mma(load X[m + S, c], load F[c, :], acc); }
    store Y[m, :] = acc;
}
"""
case("shifted", SHIFTED, {"X": ("bf16", "W", 64), "F": ("bf16", 64, 64)}, ["Y"],
     ({"W": 200}, "-DM=64"), ({"W": 30}, "-DM=64 -DS=-2"), ({"W": 300}, "-DM=128"), ({"W": 300}, "-DM=128 -DS=-130"),
     ({"W": 1}, "-DM=64"), ({"W": 130}, "-DM=64 -DS=1"))
case("by_scalar", SHIFTED.replace("S: int = -1, ", "").replace("Y: out f32[W, 64])", "Y: out f32[W, 64], S: i32)"),
     {"X": ("bf16", "W", 64), "F": ("bf16", 64, 64)}, ["Y"], ({"W": 200, "S": -3}, "-DM=64"), ({"W": 40, "S": -3}, "-DM=128"),
     ({"W": 200, "S": 5}, "-DM=64"))
case("by_data", SHIFTED.replace("S: int = -1, ", "").replace("F: in", "P: in i32[1], F: in").replace("m + S", "m + load P[0] - 4"),
     {"X": ("bf16", "W", 64), "P": ("i32", 1), "F": ("bf16", 64, 64)}, ["Y"], ({"W": 200}, "-DM=64"), ({"W": 40}, "-DM=128"))
case("stored_before", """
kernel stored_before<S: int = -1, M: int = 64>(X: in bf16[W, 64] align(16), F: in bf16[64, 64] align(16), Y: inout f32[W, 64]) {
    grid m in tiles(W, M);
    var acc = zeros<f32>[M, 64];
    for c in tiles(64, 32) { acc = mma(load X[m, c], load F[c, :], acc); }
    store Y[m + S, :] = acc;
}
""", {"X": ("bf16", "W", 64), "F": ("bf16", 64, 64), "Y": ("f32", "W", 64)}, ["Y"],
     ({"W": 200}, "-DM=64"), ({"W": 50}, "-DM=64 -DS=-7"), ({"W": 300}, "-DM=128 -DS=-3"), ({"W": 300}, "-DM=128 -DS=2"))
case("added_before", """
kernel added_before<S: int = -1>(X: in bf16[L, 64] align(16), K: in bf16[W, 64] align(16), Y: inout f32[W, 64] align(16)) {
    grid m in tiles(L, 64);
    let x = load X[m, :];
    for n in tiles(W, 64) {
        let s = mma(load K[n, :], x.T);
        atomic_add Y[n + S, :] += mma(s as bf16, x);
    }
}
""", {"X": ("bf16", "L", 64), "K": ("bf16", "W", 64), "Y": ("f32", "W", 64)}, ["Y"], ({"W": 130, "L": 70}, ""), ({"W": 20, "L": 70}, ""))
case("keys_before", """
kernel keys_before<S: int = -1, N: int = 64>(Q: in bf16[L, 64] align(16), K: in bf16[L, 64] align(16), O: out f32[L, 64]) {
    grid m in tiles(L, 64);
    let q = load Q[m, :];
    var acc = zeros<f32>[64, 64];
    for n in tiles(L, N) {
        let k = load K[n + S, :];
        acc = mma(mma(q, k.T) as bf16, k, acc);
    }
    store O[m, :] = acc;
}
""", {"Q": ("bf16", "L", 64), "K": ("bf16", "L", 64)}, ["O"], ({"L": 150}, ""), ({"L": 40}, "-DN=32"), ({"L": 150}, "-DS=-65"),
     ({"L": 150}, "-DS=3"), ({"L": 130}, "-DN=128 -DS=-64"))
case("columns_before", """
kernel columns_before<S: int = -8>(X: in bf16[W, L] align(16), F: in bf16[L, 64] align(16), Y: out f32[W, 64]) {
    grid m in tiles(W, 64);
    var acc = zeros<f32>[64, 64];
    for c in tiles(L, 32) { acc = mma(load X[m, c + S], load F[c, :], acc); }
    store Y[m, :] = acc;
}
""", {"X": ("bf16", "W", "L"), "F": ("bf16", "L", 64)}, ["Y"], ({"W": 100, "L": 64}, ""), ({"W": 70, "L": 40}, "-DS=-16"),
     ({"W": 70, "L": 64}, "-DS=-1"))
case("heads_before", """
kernel heads_before<S: int = -2>(X: in bf16[H, W, 64] align(16), F: in bf16[64, 64] align(16), Y: out f32[H, W, 64]) {
    grid m in tiles(W, 16), h in tiles(H, 4);
    let (a, b) = pack(h, m);
    var acc = zeros<f32>[64, 64];
    let (c, d) = pack(h + S, m + S);
    for k in tiles(64, 32) { acc = mma(load X[c, d, k], load F[k, :], acc); }
    store Y[a, b, :] = acc;
}
""", {"X": ("bf16", "H", "W", 64), "F": ("bf16", 64, 64)}, ["Y"], ({"W": 40, "H": 6}, ""), ({"W": 20, "H": 4}, "-DS=1"))

# .. of ranges without an end
case("endless", """
kernel endless<S: int = -3>(X: in bf16[W, 64] align(16), K: in bf16[L, 64] align(16), F: in f32[L] align(16), Y: inout f32[W, 64] align(16)) {
    grid m in cdiv(W, 64);
    let q = load X[iota(64) + m * 64 + S, :];
    var acc = zeros<f32>[64, 64];
    for i in 0..cdiv(L, 64) {
        let n = iota(64) + i * 64 + S;
        let k = load K[n, :];
        acc = mma((mma(q, k.T) * (load F[n])[None, :]) as bf16, k, acc);
    }
    store Y[iota(64) + m * 64 + S, :] = acc;
}
""", {"X": ("bf16", "W", 64), "K": ("bf16", "L", 64), "F": ("f32", "L"), "Y": ("f32", "W", 64)}, ["Y"], ({"W": 130, "L": 100}, ""),
     ({"W": 130, "L": 100}, "-DS=-8"), ({"W": 1, "L": 3}, "-DS=-4"), ({"W": 130, "L": 100}, "-DS=8 --plan=consumers=1,stages=2"))
case("endless_sum", """
kernel endless_sum<S: int = -3>(X: in bf16[W, 64] align(16), F: in bf16[64, 64] align(16), Y: inout f32[W, 64] align(16)) {
    grid m in cdiv(W, 64);
    var acc = zeros<f32>[64, 64];
    for c in tiles(64, 32) { acc = mma(load X[iota(64) + m * 64 + S, c], load F[c, :], acc); }
    store Y[iota(64) + m * 64 + S, :] = acc;
}
""", {"X": ("bf16", "W", 64), "F": ("bf16", 64, 64), "Y": ("f32", "W", 64)}, ["Y"], ({"W": 200}, ""), ({"W": 2}, "-DS=-64"),
     ({"W": 200}, "-DS=-70 --plan=consumers=2,stages=2"), ({"W": 200}, "-DS=9 --plan=consumers=2,stages=2"))
case("from_lists", """
kernel from_lists(A: in bf16[R, 64] align(16), B: in bf16[64, 64] align(16), lo: in i32[X], hi: in i32[X], C: inout f32[R, 64] align(16)) {
    grid t in X;
    let m = tiles(load lo[t] + 1..load hi[t] + 30, 64)[0];
    var acc = zeros<f32>[64, 64];
    for k in tiles(64, 32) { acc = mma(load A[m, k], load B[k, :], acc); }
    atomic_add C[m, :] += acc;
}
""", {"A": ("bf16", "R", 64), "B": ("bf16", 64, 64), "lo": ("i32", "X"), "hi": ("i32", "X"), "C": ("f32", "R", 64)}, ["C"],
     ({"R": 40, "X": 3}, ""), ({"R": 20, "X": 1}, ""))

# .. because their first number is loaded: by 1, some, a tile, more than a tile; with ends inside the first tile, behind it, before
# the tensor, in a tensor shorter than a tile

LO, HI = [-1, -5, -64, -67, -3, -70, 0, -2, -130, -1, 7, -63, 3], [40, 100, 64, 10, 2, 0, 30, -1, 200, 1, 61, 30, 3]
LISTS = {"lo": LO, "hi": HI}
case("loaded_keys", """
kernel loaded_keys<M: int = 64, N: int = 64>(Q: in bf16[S, 64] align(16), K: in bf16[L, 64] align(16), V: in bf16[L, 64] align(16), lo: in i32[X], hi: in i32[X],
                                O: out f32[X, S, 64]) {
    grid m in tiles(S, M), t in X;
    let q = load Q[m, :];
    var acc = zeros<f32>[M, 64];
    for n in tiles(load lo[t]..load hi[t], N) { acc = mma(max(mma(q, (load K[n, :]).T), 0.0) as bf16, load V[n, :], acc); }
    store O[t, m, :] = acc;
}
""", {"Q": ("bf16", "S", 64), "K": ("bf16", "L", 64), "V": ("bf16", "L", 64), **LISTS}, ["O"], ({"S": 70, "L": 110}, ""), ({"S": 9, "L": 20}, "-DN=128"), ({"S": 256, "L": 90}, "-DM=128"),
     ({"S": 130, "L": 90}, "-DN=32 --plan=consumers=2,stages=2"), ({"S": 130, "L": 90}, "--plan=consumers=2,stages=2"))
case("loaded_rows", """
kernel loaded_rows<M: int = 64>(A: in bf16[R, 64] align(16), B: in bf16[64, 64] align(16), lo: in i32[X], hi: in i32[X], C: inout f32[X, R, 64] align(16)) {
    grid i in 3, t in X;
    let m = tiles(load lo[t]..load hi[t], M)[i];
    var acc = zeros<f32>[M, 64];
    for k in tiles(64, 32) { acc = mma(load A[m, k], load B[k, :], acc); }
    store C[t, m, :] = acc;
}
""", {"A": ("bf16", "R", 64), "B": ("bf16", 64, 64), "C": ("f32", 13, "R", 64), **LISTS}, ["C"], ({"R": 120}, ""), ({"R": 20}, ""), ({"R": 150}, "-DM=128"),
     ({"R": 150}, "-DM=128 --plan=consumers=2,stages=2"))
case("loaded_inner", """
kernel loaded_inner<K: int = 64>(A: in bf16[W, R] align(16), B: in bf16[W, 64] align(16), lo: in i32[X], hi: in i32[X], C: out f32[X, R, 64]) {
    grid m in tiles(R, 64), t in X;
    var acc = zeros<f32>[64, 64];
    for k in tiles(load lo[t]..load hi[t], K) { acc = mma((load A[k, m]).T, load B[k, :], acc); }
    store C[t, m, :] = acc;
}
""", {"A": ("bf16", "W", "R"), "B": ("bf16", "W", 64), **LISTS}, ["C"], ({"W": 110, "R": 72}, ""), ({"W": 40, "R": 64}, "-DK=32"))
case("loaded_columns", """
kernel loaded_columns<K: int = 32>(A: in bf16[R, W] align(16), B: in bf16[W, 64] align(16), lo: in i32[X], hi: in i32[X], C: out f32[X, R, 64]) {
    grid m in tiles(R, 64), t in X;
    var acc = zeros<f32>[64, 64];
    for k in tiles(load lo[t]..load hi[t], K) { acc = mma(load A[m, k], load B[k, :], acc); }
    store C[t, m, :] = acc;
}
""", {"A": ("bf16", "R", "W"), "B": ("bf16", "W", 64), **LISTS}, ["C"], ({"W": 112, "R": 70}, ""))
case("loaded_sums", """
kernel loaded_sums<D: int = 64>(K: in bf16[S, D] align(16), Q: in bf16[L, D] align(16), lo: in i32[X], hi: in i32[X],
                                P: inout f32[X, L, D] align(16), O: out f32[X, S, D]) {
    grid n in tiles(S, 64), t in X;
    let k = load K[n, :];
    var acc = zeros<f32>[64, D];
    for m in tiles(load lo[t]..load hi[t], 64) {
        let q = load Q[m, :];
        let s = max(mma(k, q.T), 0.0) as bf16;
        acc = mma(s, q, acc);
        atomic_add P[t, m, :] += mma(s.T, k);
    }
    store O[t, n, :] = acc;
}
""", {"K": ("bf16", "S", "D"), "Q": ("bf16", "L", "D"), "P": ("f32", 13, "L", "D"), **LISTS}, ["P", "O"], ({"S": 128, "L": 110, "D": 64}, ""),
     ({"S": 200, "L": 90, "D": 96}, "-DD=96"), ({"S": 70, "L": 30, "D": 128}, "-DD=128"))

# ---- vectors with parts of a pack, read in the main loop ----

VECTOR = """
kernel vector<G: int = 4>(Q: in bf16[S, 4, 64] align(16), K: in bf16[L, 64] align(16), F: in f32[NT, S, 4] align(16), O: out f32[S, 4, 64]) {
    grid m in tiles(S, 64 / G), g in 4 / G;
    let (s, h) = pack(m, iota(G) + g * G);
    let q = load Q[s, h, :];
    var acc = zeros<f32>[64, 64];
    for i in 0..cdiv(L, 64) {
        let n = tiles(L, 64)[i];
        let k = load K[n, :];
        acc = mma((mma(q, k.T) * (load F[i, s, h])[:, None]) as bf16, k, acc);
    }
    store O[s, h, :] = acc;
}
"""
case("vector", VECTOR, {"Q": ("bf16", "S", 4, 64), "K": ("bf16", "L", 64), "F": ("f32", "NT", "S", 4)}, ["O"],
     ({"S": 40, "L": 130, "NT": 3}, ""), ({"S": 70, "L": 130, "NT": 3}, "-DG=2"), ({"S": 1, "L": 1, "NT": 1}, ""))
case("vector_turned", VECTOR.replace("pack(m, iota(G) + g * G)", "pack(h, s)").replace("let (s, h)", "let (h, s)")
     .replace("pack(h, s)", "pack(iota(G) + g * G, m)"),
     {"Q": ("bf16", "S", 4, 64), "K": ("bf16", "L", 64), "F": ("f32", "NT", "S", 4)}, ["O"], ({"S": 40, "L": 130, "NT": 3}, ""))
case("vector_of_keys", """
kernel vector_of_keys(Q: in bf16[S, 64] align(16), K: in bf16[L, 4, 64] align(16), F: in f32[L, 4] align(16), I: in i32[L, 4], O: out f32[S, 64]) {
    grid m in tiles(S, 64);
    let q = load Q[m, :];
    var acc = zeros<f32>[64, 64];
    for n in tiles(L, 16) {
        let (a, h) = pack(n, iota(4));
        let k = load K[a, h, :];
        let w = load F[a, h] + ((load I[a, h]) as f32);
        acc = mma((mma(q, k.T) * w[None, :]) as bf16, k, acc);
    }
    store O[m, :] = acc;
}
""", {"Q": ("bf16", "S", 64), "K": ("bf16", "L", 4, 64), "F": ("f32", "L", 4), "I": ("i32", "L", 4)}, ["O"],
     ({"S": 70, "L": 40}, ""), ({"S": 70, "L": 5}, "--plan=consumers=2,stages=1"))
case("vector_divided", """
kernel vector_divided(Q: in bf16[T, 128] align(16), K: in bf16[R, 128] align(16), F: in f32[NT, S, 4] align(16), G: in f32[S, 4], O: out f32[R, 128]) {
    grid n in tiles(R, 64);
    let k = load K[n, :];
    var acc = zeros<f32>[64, 128];
    for i in 0..cdiv(T, 128) {
        let q = load Q[iota(128) + i * 128, :];
        let (s, h) = pack(iota(32) + i * 32, iota(4));
        let p = mma(q, k.T) * (load F[i, s, h] + load G[s, h])[:, None];
        acc = mma((p as bf16).T, q, acc);
    }
    store O[n, :] = acc;
}
""", {"Q": ("bf16", "T", 128), "K": ("bf16", "R", 128), "F": ("f32", "NT", "S", 4), "G": ("f32", "S", 4)}, ["O"],
     ({"T": 200, "R": 70, "S": 50, "NT": 2}, "--plan=consumers=2,stages=1,persistent=0,cooperative=1"))
case("vector_before", """
kernel vector_before<S: int = -1>(Q: in bf16[M, 64] align(16), K: in bf16[L, 64] align(16), F: in f32[L] align(16), O: out f32[M, 64]) {
    grid m in tiles(M, 64);
    let q = load Q[m, :];
    var acc = zeros<f32>[64, 64];
    for n in tiles(L, 64) {
        let k = load K[n, :];
        acc = mma((mma(q, k.T) * (load F[n + S])[None, :]) as bf16, k, acc);
    }
    store O[m, :] = acc;
}
""", {"Q": ("bf16", "M", 64), "K": ("bf16", "L", 64), "F": ("f32", "L")}, ["O"], ({"M": 70, "L": 130}, ""), ({"M": 70, "L": 20}, "-DS=-8"),
     ({"M": 70, "L": 70}, "-DS=4"))


# ---- constants that a program shows ----

def seen(name, parameters, tensors, body, inputs, outputs, sizes, rows="m", grid="grid m in tiles(Sq, M);", values=(64, 128, 192, 256), more=()):
    """A chain of products over M rows, and `body`, which shows something."""
    source = f"""
kernel {name}<M: int = 64, D: int = 32{parameters}>(Q: in bf16[Sq, D] align(16), K: in bf16[Sk, D] align(16), V: in bf16[Sk, D] align(16), {tensors}) {{
    {grid}
    let q = load Q[{rows}, :];
    var acc = zeros<f32>[M, D];
    for n in tiles(Sk, 32) {{ acc = mma(max(mma(q, (load K[n, :]).T), 0.0) as bf16, load V[n, :], acc); }}
    {body}
}}
"""
    case(name, source, {"Q": ("bf16", "Sq", 32), "K": ("bf16", "Sk", 32), "V": ("bf16", "Sk", 32), **inputs}, outputs,
         *[({"Sq": 270, "Sk": 40, **sizes(m)}, f"-DM={m}") for m in values], *more)


def cdiv(a, b):
    return -(-a // b)


seen("seen_sums", "", "C: out f32[Sq, D], P: out f32[T, D]", "store C[m, :] = acc; store P[t, :] = sum(acc, axis=0);", {}, ["C", "P"],
     lambda m: {"T": cdiv(270, m)}, grid="require T == cdiv(Sq, M); grid t in T; let m = tiles(Sq, M)[t];")
seen("seen_rest", "", "C: out f32[Sq, D], W: out i32[Sq]", "store C[m, :] = acc; store W[m] = m % M + M * 1000;", {}, ["C", "W"], lambda m: {})
seen("seen_first", "", "C: out f32[Sq, D], W: out i32[Sq]", "store C[m, :] = acc; store W[m] = m - min(m);", {}, ["C", "W"], lambda m: {})
seen("seen_number", "", "C: out f32[Sq, D], W: out i32[T]", "store C[m, :] = acc; store W[min(m) / M] = max(m);", {}, ["C", "W"],
     lambda m: {"T": cdiv(270, m)})
seen("seen_largest", "", "C: out f32[Sq, D]", "store C[m, :] = acc - max(acc, axis=0)[None, :];", {}, ["C"], lambda m: {})
seen("seen_count", "", "C: out f32[Sq, D], N: inout i32[1]", "store C[m, :] = acc; atomic_add N[0] += 1;", {"N": ("i32", 1)}, ["C", "N"], lambda m: {})
seen("seen_loop", "", "C: out f32[Sq, D]", "var s = acc; for i in 0..max(m) / M { s += 1.0; } store C[m, :] = s;", {}, ["C"], lambda m: {})
seen("seen_branch", "", "C: out f32[Sq, D]", "var s = acc; if sum(acc) > 0.0 { s = s + 1.0; } store C[m, :] = s;", {}, ["C"], lambda m: {})
seen("seen_scale", "", "C: out f32[Sq, D]", "store C[m, :] = acc * (M as f32);", {}, ["C"], lambda m: {})
seen("seen_other", "", "C: inout f32[Sx, D]", "store C[tiles(Sx, M)[min(m) / M], :] = acc;", {"C": ("f32", "Sx", 32)}, ["C"], lambda m: {"Sx": 400})
case("rows_by_default", """
kernel rows_by_default<M: int = 128, D: int = 32>(Q: in bf16[Sq, D] align(16), K: in bf16[Sk, D] align(16), V: in bf16[Sk, D] align(16), C: out f32[Sq, D]) {
    grid m in tiles(Sq, M);
    let q = load Q[m, :];
    var acc = zeros<f32>[M, D];
    for n in tiles(Sk, 32) { acc = mma(max(mma(q, (load K[n, :]).T), 0.0) as bf16, load V[n, :], acc); }
    store C[m, :] = acc;
}
""", {"Q": ("bf16", "Sq", 32), "K": ("bf16", "Sk", 32), "V": ("bf16", "Sk", 32)}, ["C"], ({"Sq": 300, "Sk": 40}, ""), ({"Sq": 1, "Sk": 70}, ""))
seen("seen_shape", "", "C: inout f32[Sq, M]", "store C[m, :] = mma(q, (load K[0..M, :]).T);".replace("0..M", "iota(M)"), {"C": ("f32", "Sq", 64)}, ["C"],
     lambda m: {}, values=(64,))
seen("seen_neighbour", "", "C: out f32[Sq, D]", "let r = iota(M); store C[m, :] = acc + (r as f32)[:, None];", {}, ["C"], lambda m: {})
seen("unseen", "", "C: out f32[Sq, D], W: out i32[Sq]", "store C[m, :] = acc; store W[m] = m;", {}, ["C", "W"], lambda m: {},
     more=[({"Sq": 1, "Sk": 1}, "-DM=128"), ({"Sq": 129, "Sk": 40}, "-DM=128"), ({"Sq": 64, "Sk": 40}, "-DM=256")])

# ---- running them ----

def draw(random, dtype, shape):
    values = random.integers(-1, 2, shape)
    if dtype == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values.astype(np.int32 if dtype == "i32" else np.float32)


def execute(command, folder):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr[:600]}{done.stdout[-300:]}")


def run(options, name, sizes, flags, folder):
    source, inputs, outputs, _ = CASES[name]
    random = np.random.default_rng(len(flags) + sum(sizes.values()))
    path = os.path.join(folder, f"{name}.tile")
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    given, asked, read = [], [], []
    used = set()
    for tensor, what in inputs.items():
        values, dims = what, []
        if isinstance(what, tuple):
            dtype, *dims = what
            values = draw(random, dtype, [sizes.get(d, d) for d in dims])
        np.save(os.path.join(folder, f"{tensor}.npy"), np.array(values, np.int32) if isinstance(values, list) else values)
        given += ["--in", f"{tensor}={tensor}.npy"]
        used.update(d for d in dims if isinstance(d, str))
    for size, value in sizes.items():
        if size not in used and f"-D{size}=" not in flags:
            given += ["--set", f"{size}={value}"]
    for tensor in outputs:
        read += ["--out", f"{tensor}={tensor}_wanted.npy"]
        asked += ["--out", f"{tensor}={tensor}_found.npy"]
    defines = [flag for flag in flags.split() if flag.startswith("-D")]
    execute([options.tilec, "run", path, *defines, *given, *read], folder)
    wrong, seen = [], {}
    for arch in ARCHS:
        for level in ["-O0", "-O3"]:
            target = [f for f in flags.split() if arch == "sm_90" or not f.startswith("--plan")]
            ptx = os.path.join(folder, "x.ptx")
            try:
                execute([options.tilec, path, "-arch", arch, level, *target, "-Wno-plan", "-o", ptx], folder)
                execute([options.tilerun, ptx, "--device", "sim", *given, *asked], folder)
            except RuntimeError as error:
                wrong.append(f"{arch} {level}: {error}")
                continue
            for tensor in outputs:
                found, wanted = (np.load(os.path.join(folder, f"{tensor}_{k}.npy")) for k in ("found", "wanted"))
                if not np.array_equal(found, wanted):
                    at = tuple(np.argwhere(found != wanted)[0])
                    wrong.append(f"{arch} {level}: {tensor}{list(map(int, at))} is {found[at]}, not {wanted[at]}; "
                                 f"{np.count_nonzero(found != wanted)} elements differ")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True, type=os.path.abspath)
    parser.add_argument("--tilerun", required=True, type=os.path.abspath)
    parser.add_argument("--only", default="")
    parser.add_argument("--part", default="0/1")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    chosen = [(name, *one) for name, what in CASES.items() for one in what[3]]
    failed = 0
    for name, sizes, flags in [one for one in chosen if options.only in one[0]][part % parts::parts]:
        with tempfile.TemporaryDirectory() as folder:
            for line in run(options, name, sizes, flags, folder):
                failed += 1
                print(f"{name} {sizes} {flags} {line}")
    print(f"{failed} wrong")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
