#!/usr/bin/env python3
"""wide_rows.py - tiles of few rows, and rows whose length is no power of two.

    wide_rows.py --tilec T --tilerun R [--all]

Lanes and warps divide the columns as far as rows leave some over, and a row is rounded up where lanes do not divide it: sums
and maxima along both axes, a scan, additions to memory and stores of such tiles, in the simulator, against NumPy.  And how many
loads a thread has: of a row that is rounded up not many more than of one that is not, of a tile of one row no more than of
a tile without rows.  And norms, softmax and cross-entropy of rows that a program holds whole, up to the longest (--all: of
more widths, on all targets).  And sums over loops, which threads of all warps have parts of until a loop has ended; those
of tiles that a thread has 32 elements of are loaded an iteration ahead.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

SOURCE = """
kernel rows<D: int = 64, M: int = 4>(X: in f32[R, D], W: in f32[D], Y: out f32[R, D], S: out f32[R], Z: out f32[R, D],
                                     C: inout f32[D]) {
    grid m in tiles(R, M);
    let x = load X[m, :];
    let most = max(x, axis=1);
    let y = exp(x - most[:, None]) * (load W[:])[None, :];
    store S[m] = most + sum(y, axis=1);
    store Y[m, :] = y;
    store Z[m, :] = cumsum(x, axis=1);
    atomic_add C[:] += sum(y, axis=0);
}
"""
LOADS = """
kernel two<D: int = 1024, M: int = 1>(A: in bf16[R, K] align(16), Y: out bf16[R, K] align(16)) {
    require K % 8 == 0;
    grid m in tiles(R, M), k in tiles(K, D);
    store Y[m, k] = (2.0 * (load A[m, k] as f32)) as bf16;
}
kernel one<D: int = 1024>(A: in bf16[R, K] align(16), Y: out bf16[R, K] align(16)) {
    require K % 8 == 0;
    grid r in R, k in tiles(K, D);
    store Y[r, k] = (2.0 * (load A[r, k] as f32)) as bf16;
}
kernel norm<D: int = 64, M: int = 4>(X: in bf16[R, D], Y: out bf16[R, D]) {
    grid m in tiles(R, M);
    let x = load X[m, :] as f32;
    store Y[m, :] = (x * rsqrt(sum(x * x, axis=1) + 1.0)[:, None]) as bf16;
}
"""
LONG = """
kernel rms<T: type = bf16, D: int = 64, M: int = 1>(X: in T[R, D], W: in T[D], Y: out T[R, D], Inv: out f32[R]) {
    grid m in tiles(R, M);
    let x = load X[m, :] as f32;
    let inv = rsqrt(sum(x * x, axis=1) / (D as f32) + 0.001);
    store Inv[m] = inv;
    store Y[m, :] = (x * inv[:, None] * (load W[:] as f32)[None, :]) as T;
}
kernel rms_gradient<T: type = bf16, D: int = 64, M: int = 1>
(   X: in T[R, D], W: in T[D], Y: in T[R, D], Inv: in f32[R], dX: out T[R, D], dW: inout f32[D])
{
    grid m in tiles(R, M);
    let x = load X[m, :] as f32;
    let inv = load Inv[m];
    let xh = x * inv[:, None];
    let g = load Y[m, :] as f32;
    let gw = g * (load W[:] as f32)[None, :];
    let mean = sum(gw * xh, axis=1) / (D as f32);
    store dX[m, :] = ((gw - xh * mean[:, None]) * inv[:, None]) as T;
    atomic_add dW[:] += sum(g * xh, axis=0);
}
kernel layer<T: type = bf16, D: int = 64, M: int = 1>(X: in T[R, D], W: in T[D], Z: out T[R, D]) {
    grid m in tiles(R, M);
    var x = load X[m, :] as f32;
    x -= (sum(x, axis=1) / (D as f32))[:, None];
    let rstd = rsqrt(sum(x * x, axis=1) / (D as f32) + 0.001);
    store Z[m, :] = (x * rstd[:, None] * (load W[:] as f32)[None, :]) as T;
}
kernel loss<T: type = bf16, D: int = 64, M: int = 1>(X: in T[R, D], L: in i32[R], P: out T[R, D], Loss: out f32[R]) {
    grid m in tiles(R, M);
    let x = load X[m, :] as f32;
    let most = max(x, axis=1);
    let e = exp(x - most[:, None]);
    let s = sum(e, axis=1);
    store P[m, :] = (e / s[:, None]) as T;
    store Loss[m] = log(s) + most - sum(where(iota(D)[None, :] == (load L[m])[:, None], x, 0.0), axis=1);
}
"""
PARTS = """
kernel parts<M: int = 1, N: int = 512, O: int = 512>(X: in f32[R, D], S: out f32[R], P: out f32[R], Q: out f32[R]) {
    grid m in tiles(R, M);
    var s = zeros<f32>[M];
    var p = zeros<f32>[M];
    for n in tiles(D, N) {
        let x = load X[m, n];
        s = s * 0.5 + sum(x, axis=1);
        p += sum(x * x, axis=1) + sum(abs(x), axis=1);
    }
    store S[m] = s;
    var q = p;
    for n in tiles(D, O) { q += sum(load X[m, n], axis=1); }
    store P[m] = p;
    store Q[m] = q;
}
"""
WIDTHS = [(16383, "sm_90", "bf16"), (9000, "sm_80", "f32")]
EVERY = [(width, arch, dtype) for width in (1000, 2880, 8190, 8200, 9000, 12288, 16383, 16384)
         for arch, dtype in (("sm_80", "bf16"), ("sm_90", "f32"), ("sm_100", "bf16"), ("sm_120", "f32"))]
SHAPES = [(5, 1000, 4), (3, 1000, 1), (3, 770, 2), (2, 1001, 1), (7, 90, 3), (9, 360, 8), (2, 2880, 1), (3, 41, 1)]


def loads(options, folder, kernel, *defines):
    words = [word for define in defines for word in ("-D", define)]
    path = os.path.join(folder, "loads")
    with open(path + ".tile", "w") as file:
        file.write(LOADS)
    subprocess.run([options.tilec, path + ".tile", "--kernel", kernel, "-arch", "sm_90", *words, "-o", path + ".ptx"], check=True)
    with open(path + ".ptx") as file:
        return len(re.findall(r"ld\.global", file.read()))


def compare_loads(options, folder):
    bad = []
    one, two = loads(options, folder, "one"), loads(options, folder, "two")
    if two > one:
        bad.append(f"a tile of one row has {two} loads, one without rows {one}")
    for width, power in ((1000, 1024), (2816, 4096), (2880, 4096), (1001, 1024)):
        have, want = (loads(options, folder, "norm", f"D={n}") for n in (width, power))
        want *= 8 if width % 2 else 1  # nothing says where such rows begin
        if have > want:
            bad.append(f"rows of {width} have {have} loads, of {power} {want}")
    return bad


def check(options, folder, rows, width, tile, arch, warps):
    def at(name):
        return os.path.join(folder, name)

    random = np.random.default_rng(width)
    x, w = random.standard_normal((rows, width)).astype(np.float32), random.standard_normal(width).astype(np.float32)
    for name, value in (("X", x), ("W", w), ("C", np.ones(width, np.float32))):
        np.save(at(name + ".npy"), value)
    subprocess.run([options.tilec, at("rows.tile"), "-arch", arch, "-D", f"D={width}", "-D", f"M={tile}", f"--warps={warps}",
                    "-o", at("rows.ptx")], check=True)
    outputs = [word for name in "YSZC" for word in ("--out", f"{name}={at(name + '.out.npy')}")]
    inputs = [word for name in "XWC" for word in ("--in", f"{name}={at(name + '.npy')}")]
    subprocess.run([options.tilerun, "--device", "sim", at("rows.ptx"), *inputs, *outputs], check=True, stdout=subprocess.DEVNULL)
    x, w = x.astype(np.float64), w.astype(np.float64)
    y = np.exp(x - x.max(1)[:, None]) * w
    right = {"Y": y, "S": x.max(1) + y.sum(1), "Z": x.cumsum(1), "C": 1 + y.sum(0)}
    bad = []
    for name, value in right.items():
        off = np.abs(np.load(at(name + ".out.npy")) - value).max() / max(np.abs(value).max(), 1)
        if not off < 1e-5:
            bad.append(f"{rows} x {width} in tiles of {tile}, {arch}, {warps} warps: {name} is off by {off:.1e}")
    return bad


def long(options, folder, width, arch, dtype, rows=2):
    def at(name):
        return os.path.join(folder, name + ".npy")

    random = np.random.default_rng(width)
    f32 = {"X": random.standard_normal((rows, width)), "W": random.standard_normal(width)}
    have = {name: value.astype(np.float32) for name, value in f32.items()}
    if dtype == "bf16":  # of 16 bits each, which travel as such
        have = {name: (value.view(np.uint32) & np.uint32(0xffff0000)).view(np.float32) for name, value in have.items()}
    x, w = (value.astype(np.float64) for value in have.values())
    inv = 1 / np.sqrt((x * x).mean(1, keepdims=True) + 0.001)
    y, labels = x * inv * w, random.integers(0, width, rows)
    z = x - x.mean(1, keepdims=True)
    e = np.exp(x - x.max(1, keepdims=True))
    right = {"Y": y, "Inv": inv[:, 0], "dX": (y * w - x * inv * (y * w * x * inv).mean(1, keepdims=True)) * inv,
             "dW": 1 + (y * x * inv).sum(0), "Z": z / np.sqrt((z * z).mean(1, keepdims=True) + 0.001) * w, "P": e / e.sum(1, keepdims=True),
             "Loss": np.log(e.sum(1)) + x.max(1) - x[np.arange(rows), labels]}
    inputs = {"X": have["X"], "W": have["W"], "L": labels.astype(np.int32), "dW": np.ones(width, np.float32)}
    for name, value in inputs.items():
        np.save(at(name), (value.view(np.uint32) >> 16).astype(np.uint16) if dtype == "bf16" and name in "XW" else value)
    ptx, bad = os.path.join(folder, "long.ptx"), []
    subprocess.run([options.tilec, os.path.join(folder, "long.tile"), "-arch", arch, "-D", f"D={width}", "-D", f"T={dtype}", "-o", ptx],
                   check=True)
    if os.path.getsize(ptx) > 2**20:
        bad.append(f"{width}, {arch}: more than a megabyte of PTX")
    words = [word for name in inputs for word in ("--in", f"{name}={at(name)}")]
    words += [word for name in right for word in ("--out", f"{name}={at('out-' + name)}")]
    subprocess.run([options.tilerun, "--device", "sim", ptx, *words], check=True, stdout=subprocess.DEVNULL)
    for name, value in right.items():
        out = np.load(at("out-" + name))
        if out.dtype == np.uint16:
            out = (out.astype(np.uint32) << 16).view(np.float32)
        off = np.abs(out - value).max() / np.abs(value).max()
        if not off < (0.01 if dtype == "bf16" else 1e-5):
            bad.append(f"rows of {width}, {arch}, {dtype}: {name} is off by {off:.1e}")
    return bad


def parts(options, folder, tile, columns, others, warps, width=1700):
    def at(name):
        return os.path.join(folder, name + ".npy")

    x = np.random.default_rng(tile).standard_normal((5, width)).astype(np.float32)
    np.save(at("X"), x)
    ptx, bad = os.path.join(folder, "parts.ptx"), []
    subprocess.run([options.tilec, os.path.join(folder, "parts.tile"), "-arch", "sm_90", "-D", f"M={tile}", "-D", f"N={columns}", "-D",
                    f"O={others}", f"--warps={warps}", "-o", ptx], check=True)
    subprocess.run([options.tilerun, "--device", "sim", ptx, "--in", f"X={at('X')}",
                    *[word for name in "SPQ" for word in ("--out", f"{name}={at('out-' + name)}")]], check=True, stdout=subprocess.DEVNULL)
    x = x.astype(np.float64)
    p = (x * x).sum(1) + np.abs(x).sum(1)
    right = {"S": sum(x[:, k:k + columns].sum(1) * 0.5 ** (-(-width // columns) - 1 - k // columns) for k in range(0, width, columns)),
             "P": p, "Q": p + x.sum(1)}
    for name, value in right.items():
        off = np.abs(np.load(at("out-" + name)) - value).max() / np.abs(value).max()
        if not off < 1e-5:
            bad.append(f"parts in tiles of {tile} x {columns}, then {others}, {warps} warps: {name} is off by {off:.1e}")
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "rows.tile"), "w") as file:
            file.write(SOURCE)
        with open(os.path.join(folder, "long.tile"), "w") as file:
            file.write(LONG)
        with open(os.path.join(folder, "parts.tile"), "w") as file:
            file.write(PARTS)
        bad = compare_loads(options, folder)
        for k, shape in enumerate(SHAPES):
            bad += check(options, folder, *shape, ("sm_80", "sm_90")[k % 2], (4, 8)[k // 2 % 2])
        for case in ((1, 512, 512, 4), (1, 512, 1024, 8), (1, 512, 32, 4), (2, 256, 256, 4), (4, 256, 64, 8), (16, 64, 128, 4),
                     (1, 4096, 4096, 4, 9001), (1, 4096, 4096, 4, 4096), (2, 4096, 2048, 8, 7000), (1, 4096, 2048, 4, 9002)):
            bad += parts(options, folder, *case)
        for case in EVERY if options.all else WIDTHS:
            bad += long(options, folder, *case)
    for line in bad:
        print(line)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
