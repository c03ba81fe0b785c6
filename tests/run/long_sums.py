#!/usr/bin/env python3
"""long_sums.py - sums of more elements than one chain of a thread takes, behind products of integers and of floats.

    long_sums.py --tilec T --tilerun R

A thread of a role has a whole row of an accumulator.  Its sum is made in several chains, which are joined two at a time
where they are f32 and the target can: not so the words of an i32, and not a maximum.  In the simulator, against NumPy.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

# operands and sums of a product, and what is stored of small whole numbers
TYPES = {("i8", "i32"): lambda x: x.astype(np.int8), ("u8", "i32"): lambda x: np.abs(x).astype(np.uint8),
         ("f16", "f32"): lambda x: x.astype(np.float16)}
PROGRAM = """kernel long(A: in {type}[M, K] align(16), B: in {type}[{n}, K] align(16), S: out {wide}[M], T: out {wide}[M], P: out {wide}[M]) {{
    grid m in tiles(M, 128);
    var acc = full<{wide}>[128, {n}](3 as {wide});
    for k in tiles(K, 64) {{ acc = mma(load A[m, k], (load B[:, k]).T, acc); }}
    store S[m] = sum(acc, axis=1);
    store T[m] = max(acc, axis=1);
    store P[m] = sum(acc * acc, axis=1);
}}
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    bad = runs = 0
    draw = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)  # noqa: E731
        for target in ["sm_90", "sm_100", "sm_103", "sm_120"]:
            for (name, wide), make in TYPES.items():
                for n in [64, 72, 128]:
                    a, b = (make(draw.integers(-3, 4, (rows, 64))) for rows in (131, n))
                    np.save(at("A.npy"), a)
                    np.save(at("B.npy"), b)
                    with open(at("long.tile"), "w", encoding="utf-8") as file:
                        file.write(PROGRAM.format(type=name, wide=wide, n=n))
                    subprocess.run([options.tilec, at("long.tile"), "-arch", target, "--verify", "-Wno-plan", "-o", at("long.ptx")],
                                   check=True)
                    outs = [x for key in "STP" for x in ("--out", f"{key}={at(key)}.npy")]
                    subprocess.run([options.tilerun, at("long.ptx"), "--in", f"A={at('A')}.npy", "--in", f"B={at('B')}.npy", *outs,
                                    "--device", "sim"], check=True, capture_output=True)
                    acc = 3 + a.astype(np.int64) @ b.astype(np.int64).T
                    for key, want in {"S": acc.sum(axis=1), "T": acc.max(axis=1), "P": (acc * acc).sum(axis=1)}.items():
                        runs += 1
                        found = np.load(at(key + ".npy"))
                        if (found != want).any():
                            bad += 1
                            print(f"{target} {name} {n} columns, {key}: {found[:4]}, expected {want[:4]}")
    print(f"{runs} results, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
