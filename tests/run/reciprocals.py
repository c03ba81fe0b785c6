#!/usr/bin/env python3
"""reciprocals.py - rcp of tiles in kernels without products: rounded correctly, without the branches of rcp.rn.

    reciprocals.py --tilec T --tilerun R

Zeros, infinities, NaNs, numbers at the ends of the range and of each binade, in the simulator against NumPy.  Results below
2^-126 are rounded twice, so that they may be a unit in the last place off.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

SOURCE = """
kernel invert(X: in f32[C], Y: out f32[C])
{
    grid c in tiles(C, 512);
    store Y[c] = rcp(load X[c]);
}
"""
FROM_ONE_ON = SOURCE.replace("rcp(load X[c])", "rcp(1.0 + abs(load X[c]))")
LEAST = np.float32(2.0 ** -126)


def numbers():
    random = np.random.default_rng(1).integers(0, 2 ** 32, 4000, dtype=np.uint64)
    exponents = np.arange(256, dtype=np.uint64)[:, None] << np.uint64(23)
    ends = exponents + np.array([0, 1, 2, 0x400000, 0x7fffff, 0x7ffffe], dtype=np.uint64)
    bits = np.concatenate([random, ends.ravel(), ends.ravel() | np.uint64(1 << 31)])
    return bits.astype(np.uint32).view(np.float32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        def at(name):
            return os.path.join(folder, name)

        np.save(at("X.npy"), numbers())
        for source, flags, branches, in ((SOURCE, [], False), (SOURCE, ["-fno-fuse"], True), (FROM_ONE_ON, [], False)):
            x, limited = numbers(), source == FROM_ONE_ON
            with np.errstate(all="ignore"):
                exact = np.float32(1) / (np.float32(1) + np.abs(x) if limited else x)
            with open(at("k.tile"), "w", encoding="utf-8") as file:
                file.write(source)
            subprocess.run([options.tilec, at("k.tile"), *flags, "-arch", "sm_90", "-o", at("k.ptx")], check=True)
            with open(at("k.ptx"), encoding="utf-8") as file:
                ptx = file.read()
            if ("rcp.rn" in ptx) != branches:
                bad.append(f"{flags}: {'no' if branches else 'some'} rcp.rn")
            if ("min.NaN" in ptx) != limited:
                bad.append(f"{source}: {'no' if limited else 'some'} limit in place of a test")
            subprocess.run([options.tilerun, "--device", "sim", at("k.ptx"), "--in", f"X={at('X.npy')}", "--out", f"Y={at('Y.npy')}"],
                           check=True, stdout=subprocess.DEVNULL)
            found = np.load(at("Y.npy"))
            right = (found.view(np.uint32) == exact.view(np.uint32)) | (np.isnan(found) & np.isnan(exact))
            if not branches:
                apart = np.abs(found.view(np.int32).astype(np.int64) - exact.view(np.int32))
                right |= (np.abs(exact) < LEAST) & (exact != 0) & (apart <= 1)
            bad += [f"{flags} {limited}: of {x[i]!r} {found[i]!r}, not {exact[i]!r}" for i in np.flatnonzero(~right)[:10]]
    for line in bad:
        print(line)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
