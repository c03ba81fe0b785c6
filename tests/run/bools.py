#!/usr/bin/env python3
"""bools.py - tensors of bools, of every width and alignment.

    bools.py --tilec T --tilerun R

A bool is a byte in memory and a predicate in registers: rows of a multiple of 4, whole and cut, loaded,
negated and stored, voted over and chosen by, in the simulator, against NumPy.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

SOURCE = """
kernel bools(X: in bool[S, WIDTH], V: in f32[S, WIDTH], N: out bool[S, WIDTH], W: out f32[S, WIDTH], A: out bool[S]) {
    grid m in tiles(S, 16);
    let x = load X[m, :];
    store N[m, :] = !x;
    store W[m, :] = where(x, load V[m, :], 0.0);
    store A[m] = any(x, axis=1);
}
"""


def command(options, folder, width, rows, flags):
    """Compiles and gives the arguments of tilerun, the folder and what is right."""
    r = np.random.default_rng([width, rows])
    x, v = r.random((rows, width)) < 0.3, r.random((rows, width), np.float32)
    folder = os.path.join(folder, f"{width}-{rows}{''.join(flags)}")
    os.mkdir(folder)
    at = lambda name: os.path.join(folder, name)
    with open(at("k.tile"), "w", encoding="utf-8") as file:
        file.write(SOURCE.replace("WIDTH", str(width)))
    np.save(at("X.npy"), x)
    np.save(at("V.npy"), v)
    subprocess.run([options.tilec, at("k.tile"), "-o", at("k.ptx")] + flags, check=True)
    run = [at("k.ptx"), "--device", "sim"] + [f for n in "XV" for f in ("--in", f"{n}={at(n + '.npy')}")]
    run += [f for n in "NWA" for f in ("--out", f"{n}={at(n + '.npy')}")]
    return run, folder, {"N": ~x, "W": np.where(x, v, 0), "A": x.any(axis=1)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    runs, wrong = [], []
    with tempfile.TemporaryDirectory() as folder:
        for width in (1, 3, 4, 8, 16, 24, 32, 64):
            for rows in (1, 16, 21):
                for arch in ("sm_80", "sm_90", "sm_100"):
                    for level in ("-O0", "-O3"):
                        runs.append(command(options, folder, width, rows, ["-arch", arch, level]))
        said = subprocess.run([options.tilerun, "--batch"], input="".join(" ".join(r) + "\n" for r, _, _ in runs),
                              capture_output=True, text=True, check=True).stdout
        if said.count("status 0\n") != len(runs):
            wrong.append("not all runs ended well")
        for _, at, want in runs:
            wrong += [f"{os.path.basename(at)}: {n} is wrong" for n, x in want.items()
                      if not np.array_equal(np.load(os.path.join(at, n + ".npy")), x)]
    print("\n".join(wrong + [f"{len(runs)} runs, {len(wrong)} wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
