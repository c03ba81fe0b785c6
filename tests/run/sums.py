#!/usr/bin/env python3
"""sums.py - products summed as sm_90's tensor cores do: `tilec run --sums=sm_90` beside the compiled kernels in the simulator, bit by bit.

    sums.py --tilec T --tilerun R

The simulator's sums are those that an H200 gave (tests/sim/silicon.py).  Operands whose sizes differ widely, sums that begin with
numbers, ragged sizes; with roles (wgmma) and without (mma.sync).  Without --sums some element of each has other bits.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402

ARRAY = {"bf16": np.uint16, "f16": np.float16, "f32": np.float32, "e4m3": np.uint8, "e5m2": np.uint8}
SOURCE = """
kernel gemm<TA: type = bf16, TB: type = bf16, U: type = bf16, V: type = bf16, A: int = 64, B: int = 64, K0: int = 64, FAST: bool = false>
(   X: in TA[M, K] align(16), Y: in TB[N, K] align(16), S: in f32[M, N], C: out f32[M, N])
{
    grid m in tiles(M, A), n in tiles(N, B);
    var acc = load S[m, n];
    for k in tiles(K, K0) { acc = mma((load X[m, k]) as U, (load Y[n, k] as V).T, acc, fast = FAST); }
    store C[m, n] = acc;
}
kernel apart<TA: type = bf16, TB: type = bf16, U: type = bf16, V: type = bf16, A: int = 64, B: int = 64, K0: int = 64, FAST: bool = false>
(   X: in TA[M, K] align(16), Y: in TB[N, K] align(16), S: in f32[M, N], C: out f32[M, N])
{
    grid m in tiles(M, A), n in tiles(N, B);
    var most = load S[m, n];
    for k in tiles(K, K0) { most = max(most, mma((load X[m, k]) as U, (load Y[n, k] as V).T, fast = FAST)); }
    store C[m, n] = most;
}
"""


def draw_operand(draw, kind, shape):
    if kind in ("e4m3", "e5m2"):
        codes = draw.integers(0, 256, shape).astype(np.uint8)
        return np.where((codes & 0x7F) > (0x7E if kind == "e4m3" else 0x7B), 0x38, codes).astype(np.uint8)
    spread = 5 if kind == "f16" else 12
    return ladder.to_bits(draw.standard_normal(shape) * 2.0 ** draw.integers(-spread, spread, shape), kind)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    args = parser.parse_args()
    bad = count = 0

    def call(command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(f"FAILED: {' '.join(command)}: {done.stdout}{done.stderr}"[:1500])
        return done.returncode == 0

    def compare(kernel, types, shape, defines, flags, needs, folder):
        nonlocal bad, count
        m, n, k = shape
        draw = np.random.default_rng(m * n + k)
        to = {"f32": "tf32"}
        defines = {"TA": types[0], "TB": types[1], "U": to.get(types[0], types[0]), "V": to.get(types[1], types[1]), **defines}
        defined = [word for name, value in defines.items() for word in ("-D", f"{name}={value}")]
        inputs = {"X": draw_operand(draw, types[0], (m, k)), "Y": draw_operand(draw, types[1], (n, k)),
                  "S": (draw.standard_normal((m, n)) * 2.0 ** draw.integers(-20, 8, (m, n))).astype(np.float32)}
        source, ptx = os.path.join(folder, "p.tile"), os.path.join(folder, "p.ptx")
        with open(source, "w", encoding="utf-8") as file:
            file.write(SOURCE)
        got = {}
        for how in ("sim", "sums", "plain"):
            command = [args.tilec, "run", source, "--kernel", kernel, *defined, *(["--sums=sm_90"] if how == "sums" else [])]
            if how == "sim":
                if not call([args.tilec, source, "-arch", "sm_90", "--kernel", kernel, *defined, *flags, "-o", ptx]):
                    bad += 1
                    return
                with open(ptx, encoding="utf-8") as file:
                    if needs not in file.read():
                        print(f"FAILED: {kernel} {defines} {flags}: no {needs}")
                        bad += 1
                command = [args.tilerun, ptx, "--device", "sim"]
            if not call(ladder.with_arrays(command, folder, inputs, {}, ["C"])):
                bad += 1
                return
            got[how] = ladder.loaded(folder, ["C"])["C"].view(np.uint32)
        count += 1
        wrong, same = np.argwhere(got["sums"] != got["sim"]), (got["plain"] == got["sim"]).all()
        if len(wrong) or same:
            at = tuple(wrong[0]) if len(wrong) else None
            print(f"FAILED: {kernel} {defines} {shape} {flags}: {len(wrong)} of {got['sim'].size} differ"
                  + (f", the first at {at}: {got['sums'][at]:08x} for {got['sim'][at]:08x}" if at else ": and without --sums none"))
            bad += 1

    floats = [("bf16", "bf16"), ("f16", "f16"), ("f32", "f32")]
    narrow = [("e4m3", "e4m3"), ("e5m2", "e4m3")]
    group, warp = "wgmma.mma_async", "mma.sync"
    with tempfile.TemporaryDirectory() as folder:
        for types in floats:
            for kernel in ("gemm", "apart"):
                compare(kernel, types, (70, 50, 200), {"A": 32, "B": 32}, [], warp, folder)
            compare("gemm", types, (130, 72, 320), {}, ["--plan=consumers=2,stages=2"], group, folder)
        for types in narrow:
            for fast in ("false", "true"):
                for kernel, k0 in (("gemm", 128), ("gemm", 256 if fast == "true" else 64), ("apart", 64)):
                    compare(kernel, types, (130, 80, 512), {"K0": k0, "FAST": fast}, ["--plan=consumers=2,stages=2"], group, folder)
        source = os.path.join(folder, "p.tile")
        for words, want in ((["--sums=sm_80"], "is known, bit by bit, for sm_90"), (["--sums=sm_90", "--tolerance", "C=c.npy"], "ask for one of them")):
            done = subprocess.run([args.tilec, "run", source, "--kernel", "gemm", *words], capture_output=True, text=True)
            if done.returncode != 1 or want not in done.stderr:
                print(f"FAILED: {words}: {done.stderr}")
                bad += 1
    print(f"{count} kernels, {bad} problems")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
