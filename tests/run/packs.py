#!/usr/bin/env python3
"""packs.py - packs of ranges in the simulator, on every target: along rows and along columns, with the
contiguous dimension among the parts, with three parts, parts that repeat, parts that start before the
tensor or end behind it, additions, sums over what is not padding, products.

    packs.py --tilec T --tilerun R
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

SOURCE = """
kernel rows<A: int, B: int, C: int>
(   X: in f32[I, J, K, 32], W: in i32[K], Y: out f32[I, J, K, 32], Z: out f32[K, I, J], E: inout f32[J, I])
{
    grid i in tiles(I, A), j in tiles(J, B), k in tiles(K, C);
    let (a, b, c) = pack(i, j, k);
    let before = load X[a - 1, b, c, :] + load X[a, b, c + 1, :];
    let weight = load W[c] + 100 * a + 10 * b;
    store Y[a, b, c, :] = before * (weight as f32)[:, None];
    store Z[c, a, b] = sum(load X[a, b, c, :], axis=1);
    let (d, e) = pack(j, i);
    let size = full<f32>[A * B](1.0);
    atomic_add E[d, e] += size;
}
kernel columns<A: int, B: int>(X: in f16[16, I, J], Y: out f16[16, J, I], M: out f32[2])
{
    grid p in 1;
    var least = inf;
    var most = -inf;
    for i in tiles(I, A) {
        for j in tiles(J, B) {
            let (a, b) = pack(i, j);
            let x = load X[:, a, b];
            store Y[:, b, a] = x;
            least = min(least, min(min(x as f32, axis=0))); // of what is not padding
            most = max(most, max((a * 1000 + b) as f32));
        }
    }
    store M[0] = least;
    store M[1] = most;
}
kernel product<A: int, B: int>
(   X: in bf16[I, J, 32] align(16), Y: in bf16[J, 64, I], P: in bf16[J, 32],
    G: inout f32[32, 32] align(16), H: out f32[32, 64], R: out f32[32, 32])
{
    grid p in 1;
    var gram = zeros<f32>[32, 32];
    var other = zeros<f32>[32, 64];
    var repeated = zeros<f32>[32, 32];
    for i in tiles(I, A) {
        for j in tiles(J, B) {
            let (a, b) = pack(i, j);
            let x = load X[a, b, :];
            gram = mma(x.T, x, gram);
            repeated = mma(x.T, load P[b, :], repeated);
            let (d, e) = pack(i, j);
            other = mma(x.T, (load Y[e, :, d]), other);
        }
    }
    atomic_add G[:, :] += gram;
    store H[:, :] = other;
    store R[:, :] = repeated;
}
"""


def arrays(random, i, j, k, per_k):
    """name of a kernel: (inputs, what must come out)"""
    draw = lambda dtype, *shape: ladder.rounded(random.standard_normal(shape), dtype)
    x, w = draw("f32", i, j, k, 32), random.integers(-50, 50, k).astype(np.int32)
    before, behind = np.zeros_like(x), np.zeros_like(x)
    before[1:], behind[:, :, :-1] = x[:-1], x[:, :, 1:]
    weight = w + 100 * np.arange(i)[:, None, None] + 10 * np.arange(j)[:, None]
    e = draw("f32", j, i)
    yield "rows", {"X": (x, "f32"), "W": w, "E": (e, "f32")}, {
        "Y": ((before + behind) * weight[..., None], "f32", 1e-3),
        "Z": (x.sum(-1).transpose(2, 0, 1), "f32", 1e-4), "E": (e + per_k, "f32", 1e-6)}
    x = draw("f16", 16, i, j) + 3
    x = ladder.rounded(x, "f16")
    yield "columns", {"X": (x, "f16")}, {
        "Y": (x.transpose(0, 2, 1), "f16", 0),
        "M": (np.array([x.min(), (i - 1) * 1000 + j - 1]), "f32", 0)}
    p = draw("bf16", j, 32)
    x, y, g = draw("bf16", i, j, 32), draw("bf16", j, 64, i), draw("f32", 32, 32)
    yield "product", {"X": (x, "bf16"), "Y": (y, "bf16"), "P": (p, "bf16"), "G": (g, "f32")}, {
        "R": (np.einsum("ijx,jy->xy", x, p), "f32", 1e-3),
        "G": (g + np.einsum("ijx,ijy->xy", x, x), "f32", 1e-3),
        "H": (np.einsum("ijx,jni->xn", x, y), "f32", 1e-3)}


def run(options, arch, flags, name, defines, inputs, wanted, folder):
    path = lambda stem: os.path.join(folder, stem)
    with open(path("packs.tile"), "w", encoding="utf-8") as file:
        file.write(SOURCE)
    attention.call([options.tilec, path("packs.tile"), "-arch", arch, "--kernel", name, "--verify", *flags,
                    "-o", path("packs.ptx"), *[p for d in defines for p in ("-D", d)]])
    command = [options.tilerun, path("packs.ptx"), "--device", "sim"]
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
        if not error <= allowed:  # NaN is wrong
            raise attention.Wrong(f"{tensor}: error {error:.3g}, allowed {allowed}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    bad, n = 0, 0
    for sizes, tiles in [((5, 6, 9), (4, 4, 4)), ((3, 7, 2), (2, 8, 1)), ((1, 16, 1), (1, 16, 2)),
                         ((9, 5, 4), (16, 3, 3)), ((20, 3, 3), (1, 32, 1)), ((8, 8, 8), (8, 8, 2))]:
        cases = list(arrays(np.random.default_rng(5), *sizes, -(-sizes[2] // tiles[2])))
        for arch, flags in [("sm_80", ["-O0"]), ("sm_80", []), ("sm_80", ["-fno-share"]), ("sm_90", []),
                            ("sm_90", ["-O0"]), ("sm_100", []), ("sm_100", ["-O1"])]:
            for name, inputs, wanted in cases:
                defines = [f"{p}={t}" for p, t in zip("ABC" if name == "rows" else "AB", tiles)]
                n += 1
                try:
                    with tempfile.TemporaryDirectory() as folder:
                        run(options, arch, flags, name, defines, inputs, wanted, folder)
                except attention.Wrong as wrong:
                    bad += 1
                    print(f"{name} {sizes} {tiles} {arch} {flags}: {str(wrong)[:600]}")
    print(f"{n} programs, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
