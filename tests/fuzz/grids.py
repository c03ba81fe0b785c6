#!/usr/bin/env python3
"""grids.py - grids of many programs: each axis past 65,535, and all of them together past 2^31.

    grids.py --tilec T --tilerun R [ARCH..]

Such a launch is right, or refused in words that name the dimension; ending well with nothing written is neither.  Many
programs run as a sample, the blocks of one SM: what they wrote must be right, and reach both ends.  What cannot end in time is
stopped, and counts as running.
"""
import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

ARCHS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"]
SM_COUNT = 1500  # of the sample: each has so many programs that it ends soon
REFUSED = r"dimension|axis|programs|grid"  # a refusal says one of these, and the size or the product

# With a main loop, for which there are plans; K = 0 keeps it short.  {axes}: the grid's.
PRODUCT = """kernel g(A: in bf16[S, 64] align(16), B: in bf16[K, 64] align(16), Y: out f32[H, S]) {{
    grid {axes};
    var acc = zeros<f32>[{rows}, 64];
    for n in tiles(K, 64) {{ acc = mma(load A[m, :], (load B[n, :]).T, acc); }}
    store Y[h, m] = sum(acc, axis=1) + (h as f32);
}}
"""
PLAIN = """kernel g(A: in bf16[S, 64] align(16), B: in bf16[K, 64] align(16), Y: out f32[H, S]) {{
    grid {axes};
    store Y[h, m] = load A[m, 0] as f32 * 0.0 + (h as f32);
}}
"""
COUNTED = """kernel g(A: in bf16[S, 64] align(16), B: in bf16[K, 64] align(16), Y: inout f32[S], n1: i32, n2: i32) {{
    grid m in tiles(S, {rows}), h in n1, b in n2;
    var acc = full<f32>[{rows}, 64](1.0);
    for n in tiles(K, 64) {{ acc = mma(load A[m, :], (load B[n, :]).T, acc); }}
    atomic_add Y[m] += sum(acc, axis=1);
}}
"""
MANY = [(65536, 32768), (65536, 65536), (2**31 - 1, 2), (50000, 50000), (2**31 - 1, 2**31 - 1)]


class Grids:
    def __init__(self, options, folder):
        self.options, self.folder, self.bad, self.counts = options, folder, 0, {"right": 0, "refused": 0, "running": 0}
        np.save(f"{folder}/A.npy", np.full((1, 64), 0x3F80, np.uint16))
        np.save(f"{folder}/B.npy", np.zeros((0, 64), np.uint16))
        np.save(f"{folder}/Y.npy", np.zeros(1, np.float32))

    def wrong(self, what, said):
        self.bad += 1
        print(f"{what}: {said.strip()[-300:]}")

    def compiled(self, text, arch):
        with open(f"{self.folder}/k.tile", "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([self.options.tilec, f"{self.folder}/k.tile", "-arch", arch, "-o", f"{self.folder}/k.ptx"],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.wrong(f"{arch}: tilec", done.stderr)
        return done.returncode == 0

    def launched(self, seconds, *words):
        """(exit status, what was said); None where it is still running."""
        command = [self.options.tilerun, f"{self.folder}/k.ptx", "--device", "sim", "--quiet", "--no-check",
                   "--in", f"A={self.folder}/A.npy", "--in", f"B={self.folder}/B.npy", "--out", f"Y={self.folder}/out.npy"]
        try:
            done = subprocess.run(command + list(words), capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            return None
        return done.returncode, done.stderr + done.stdout

    def refused(self, what, status, said, sizes):
        """Whether it was refused, and in words."""
        if status == 0:
            return False
        if status == 1 and re.search(REFUSED, said) and any(str(n) in said for n in sizes):
            self.counts["refused"] += 1
        else:
            self.wrong(what, f"exits {status}, and names no dimension: {said}")
        return True

    def sample(self, arch, text, count, what):
        if not self.compiled(text, arch):
            return
        words = ["--set", f"H={count}"]
        if arch != "sm_120":  # which no clock knows: all of it runs there
            clock = arch if arch in ("sm_90", "sm_100", "sm_103") else "sm_90"
            words += ["--time", f"{clock},sample,ptx,seeds=1", "--sm-count", str(SM_COUNT)]
        ended = self.launched(300, *words)
        if ended is None:
            return self.wrong(what, "does not end")
        if self.refused(what, *ended, [count]):
            return None
        have = np.load(f"{self.folder}/out.npy")[:, 0]
        wrote = np.flatnonzero(have)
        if len(wrote) < 5 or wrote[-1] < count - 2 * SM_COUNT or (have[wrote] != wrote).any():
            return self.wrong(what, f"{len(wrote)} of {count} elements are there, {have[wrote][:4]} at {wrote[:4]}, to {wrote[-1:]}")
        self.counts["right"] += 1
        return None

    def many(self, arch, rows, n1, n2):
        """More programs than an i32 counts."""
        what = f"{arch}: {n1} x {n2} programs of {rows} rows"
        if self.compiled(COUNTED.format(rows=rows), arch):
            ended = self.launched(2, "--in", f"Y={self.folder}/Y.npy", "--set", f"n1={n1}", "--set", f"n2={n2}")
            if ended is None:
                self.counts["running"] += 1
            elif not self.refused(what, *ended, [n1, n2, n1 * n2]):
                self.wrong(what, f"ends well, with {np.load(f'{self.folder}/out.npy')} of them counted")

    def all(self, arch):
        groups = arch in ("sm_90", "sm_100", "sm_103")
        orders = itertools.permutations(["m in tiles(S, {rows})", "h in H", "b in 1"])
        for k, axes in enumerate(orders):
            text, rows = (PRODUCT, 128 if arch != "sm_90" else 64) if groups else (PLAIN, 64)
            count = [65536, 70001][k % 2]
            self.sample(arch, text.format(axes=", ".join(axes).format(rows=rows), rows=rows), count,
                        f"{arch}: {count} of {', '.join(axes)}")
        for n1, n2 in MANY if groups else MANY[1:3]:
            self.many(arch, 128 if arch != "sm_90" else 64, n1, n2)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("archs", nargs="*")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        grids = Grids(options, os.path.abspath(folder))
        for arch in options.archs or ARCHS:
            grids.all(arch)
    print(f"{grids.counts}, {grids.bad} wrong")
    return 1 if grids.bad or not grids.counts["right"] else 0


if __name__ == "__main__":
    sys.exit(main())
