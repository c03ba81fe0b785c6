#!/usr/bin/env python3
"""gathers.py - loads by tiles of places, in the simulator on every target and in the interpreter, beside NumPy: rows of a
table and of a product's operand, places along the last dimension, two lists, places of single elements, places outside of the
tensor, and lists with padding.

    gathers.py --tilec T --tilerun R
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import attention  # noqa: E402
import ladder  # noqa: E402

ARCHES = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"]

# Each is one kernel.  Lists have places outside of the tensor, which load as zero, and equal ones.
SOURCE = """
// rows of a table; sums over the list, whose padding counts in none
kernel embed<T: type = bf16, A: int = 16>(Tok: in i32[N], X: in T[V, 40], Y: out T[N, 40], Z: out f32[1])
{
    grid p in 1;
    var total = 0.0;
    for n in tiles(N, A) {
        let x = load X[load Tok[n], :];
        store Y[n, :] = x;
        total += sum(sum(x as f32, axis = 1));
    }
    store Z[0] = total;
}
// the rows of a group, with columns in pieces, and a product of them
kernel expert<A: int = 32, B: int = 16>(Tok: in i32[N], X: in bf16[V, K] align(16), W: in bf16[K, 64] align(16), Y: out f32[N, 64])
{
    grid n in tiles(N, A);
    let rows = load Tok[n];
    var acc = zeros<f32>[A, 64];
    for k in tiles(K, B) { acc = mma(load X[rows, k], load W[k, :], acc); }
    store Y[n, :] = acc;
}
// the product adds up over the list
kernel contract<A: int = 32>(Tok: in i32[N], X: in bf16[V, 32], W: in bf16[N, 64], Y: out f32[32, 64])
{
    grid p in 1;
    var acc = zeros<f32>[32, 64];
    for n in tiles(N, A) { acc = mma((load X[load Tok[n], :]).T, load W[n, :], acc); }
    store Y[:, :] = acc;
}
// places along the last dimension, computed ones; and two lists, which make two dimensions
kernel columns<A: int = 16, B: int = 8>(Tok: in i32[N], Col: in i32[C], X: in f32[V, K], Y: out f32[N, C], Z: out f32[N, C])
{
    grid n in tiles(N, A), c in tiles(C, B);
    let (rows, cols) = (load Tok[n], load Col[c]);
    store Y[n, c] = load X[n + 1, cols - 1];
    store Z[n, c] = load X[rows, cols];
}
// single elements by i32[M, N], beside a scalar
kernel elements<A: int = 16, B: int = 8>(Tok: in i32[N], Col: in i32[C], X: in f16[2, V], Y: out f16[N, C])
{
    grid n in tiles(N, A), c in tiles(C, B);
    let bucket = min(abs((load Tok[n])[:, None] - (load Col[c])[None, :]), 9);
    store Y[n, c] = load X[1, bucket];
}
"""


def taken(x, places):
    """Elements of x along its first dimension; zeros outside."""
    inside = (places >= 0) & (places < x.shape[0])
    return np.where(inside.reshape(inside.shape + (1,) * (x.ndim - 1)), x[np.where(inside, places, 0)], 0)


def cases(random, n, v, k, c):
    draw = lambda dtype, *shape: ladder.rounded(random.standard_normal(shape), dtype)
    tok = random.integers(-2, v + 2, n).astype(np.int32)
    col = random.integers(-2, k + 2, c).astype(np.int32)
    for dtype in "bf16", "f32":
        x = draw(dtype, v, 40)
        y = taken(x, tok)
        yield "embed", {"T": dtype}, {"Tok": tok, "X": (x, dtype)}, {"Y": (y, dtype, 0), "Z": (y.sum()[None], "f32", 1e-3)}
    x, w = draw("bf16", v, 8 * k), draw("bf16", 8 * k, 64)
    yield "expert", {}, {"Tok": tok, "X": (x, "bf16"), "W": (w, "bf16")}, {"Y": (taken(x, tok) @ w, "f32", 1e-3)}
    x, w = draw("bf16", v, 32), draw("bf16", n, 64)
    yield "contract", {}, {"Tok": tok, "X": (x, "bf16"), "W": (w, "bf16")}, {"Y": (taken(x, tok).T @ w, "f32", 1e-3)}
    x = draw("f32", v, k)
    yield "columns", {}, {"Tok": tok, "Col": col, "X": (x, "f32")}, {
        "Y": (taken(taken(x, np.arange(n) + 1).T, col - 1).T, "f32", 0), "Z": (taken(taken(x, tok).T, col).T, "f32", 0)}
    x = draw("f16", 2, v)
    places = np.minimum(np.abs(tok[:, None] - col[None, :]), 9)
    yield "elements", {}, {"Tok": tok, "Col": col, "X": (x, "f16")}, {"Y": (taken(x[1], places), "f16", 0)}


def run(options, arch, flags, name, defines, inputs, wanted, folder):
    path = lambda stem: os.path.join(folder, stem)
    with open(path("g.tile"), "w", encoding="utf-8") as file:
        file.write(SOURCE)
    defined = [p for key, value in defines.items() for p in ("-D", f"{key}={value}")]
    if arch == "interpreter":
        command = [options.tilec, "run", path("g.tile"), "--kernel", name, *defined]
    else:
        attention.call([options.tilec, path("g.tile"), "-arch", arch, "--kernel", name, "--verify", *flags, *defined,
                        "-o", path("g.ptx")])
        command = [options.tilerun, path("g.ptx"), "--device", "sim"]
    for tensor, given in inputs.items():
        np.save(path(tensor + ".npy"), ladder.to_bits(*given) if isinstance(given, tuple) else given)
        command += ["--in", f"{tensor}={path(tensor + '.npy')}"]
    for tensor in wanted:
        command += ["--out", f"{tensor}={path(tensor + '-out.npy')}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0 or "were not written" in done.stderr + done.stdout:
        raise attention.Wrong(done.stderr + done.stdout)
    for tensor, (want, dtype, allowed) in wanted.items():
        error = np.abs(ladder.from_bits(np.load(path(tensor + "-out.npy")), dtype) - want).max()
        if not error <= allowed * max(1, np.abs(want).max()):  # NaN is wrong
            raise attention.Wrong(f"{tensor}: error {error:.3g}, allowed {allowed}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    bad, n = 0, 0
    everywhere = [("interpreter", []), *[(arch, []) for arch in ARCHES], ("sm_80", ["-O0"]), ("sm_90", ["-fno-share"]), ("sm_100", ["-O1"])]
    roles = [(arch, [f"--plan={plan}"]) for arch in ["sm_90", "sm_100"] for plan in ["consumers=2,stages=2", "consumers=1,stages=2"]]
    for sizes, tiles, configs in [((64, 50, 16, 24), {}, everywhere), ((37, 11, 5, 13), {}, everywhere), ((5, 3, 3, 1), {"A": 16}, everywhere),
                                  ((70, 9, 7, 20), {"A": 64}, everywhere), ((150, 40, 19, 9), {"A": 64, "B": 64}, roles),
                                  ((300, 40, 16, 9), {"A": 128, "B": 64}, roles)]:
        for arch, flags in configs:
            for name, defines, inputs, wanted in cases(np.random.default_rng(7), *sizes):
                if configs is roles and name not in ("expert", "contract"):
                    continue
                n += 1
                try:
                    with tempfile.TemporaryDirectory() as folder:
                        run(options, arch, flags, name, {**defines, **tiles}, inputs, wanted, folder)
                except attention.Wrong as wrong:
                    bad += 1
                    print(f"{name} {defines} {sizes} {tiles} {arch} {flags}: {str(wrong)[:600]}")
    print(f"{n} runs, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
