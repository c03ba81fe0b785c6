#!/usr/bin/env python3
"""round_trip.py - both IRs print what they read: all examples, targets and levels.

    round_trip.py --tilec T EXAMPLE.tile..

Tile IR is taken after every pass, lane IR after the lowering; each is read and printed again, and
the PTX made from lane IR has the kernels of the PTX made from the program.
"""
import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile


def kernels_of(ptx):
    """The kernels alone: without metadata, comments and blank lines."""
    lines = [line for line in ptx.split("\n") if line.strip() and not line.startswith("//")]
    text = "\n".join(lines)
    return re.findall(r"^(?:\.extern \.shared [^\n]*\n)?\.visible \.entry .*?^\}", text, re.M | re.S)


class Tester:
    def __init__(self, tilec, folder):
        self.tilec, self.folder, self.good, self.bad = tilec, folder, 0, 0

    def run(self, *options):
        return subprocess.run([self.tilec, *options, "-o", "-"], capture_output=True, text=True,
                              check=True).stdout

    def again(self, text, extension, *options):
        path = os.path.join(self.folder, "again." + extension)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return self.run(path, *options)

    def same(self, what, first, second):
        first, second = (re.sub(r"\n+", "\n", str(text)) for text in (first, second))
        if first == second and first:
            self.good += 1
            return
        self.bad += 1
        pairs = itertools.zip_longest(str(first).split("\n"), str(second).split("\n"))
        number, pair = next(((k, p) for k, p in enumerate(pairs) if p[0] != p[1]), (0, ("", "")))
        print(f"{what}: line {number + 1}\n  {pair[0]}\n  {pair[1]}")

    def passes(self):
        listed = subprocess.run([self.tilec, "--list-passes"], capture_output=True, text=True,
                                check=True).stdout
        return re.findall(r"^(\S+)\s+tile IR ", listed, re.M)

    def example(self, path, arch, level):
        what = f"{os.path.basename(path)} {arch} {level}"
        lane = self.run(path, "-arch", arch, level, "--emit=lir")
        self.same(what + " lane IR", lane, self.again(lane, "lir", "-arch", arch, "--emit=lir"))
        ptx = kernels_of(self.run(path, "-arch", arch, level))
        self.same(what + " PTX", ptx, kernels_of(self.again(lane, "lir", "-arch", arch)))
        for name in self.passes():
            done = subprocess.run([self.tilec, path, "-arch", arch, level, f"--dump-ir={name}"],
                                  capture_output=True, text=True)
            text = done.stdout
            if done.returncode != 0 and "choice inside the lowering" not in done.stderr:
                raise RuntimeError(done.stderr)
            if text: # none after a pass that is off at this level
                self.same(f"{what} tile IR after {name}", text,
                          self.again(text, "tir", "--emit=tir"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("examples", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tester = Tester(options.tilec, folder)
        for path in options.examples:
            for arch in ["sm_80", "sm_90", "sm_100"]:
                for level in ["-O0", "-O3"]:
                    tester.example(path, arch, level)
    print(f"{tester.good} the same, {tester.bad} different")
    return 1 if tester.bad or not tester.good else 0


if __name__ == "__main__":
    sys.exit(main())
