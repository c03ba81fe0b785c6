#!/usr/bin/env python3
"""round_trip.py - both IRs print what they read: all examples, targets and levels.

    round_trip.py --tilec T EXAMPLE.tile..

Tile IR is taken after every pass, lane IR after the lowering; each is read and printed again.  The
passes that are left, run on what was read, give the tile IR that the whole compilation gives: the
text says all that passes know.  The PTX made from lane IR has the kernels of the PTX made from the
program.  On a target with products of warp groups, also with plans for those.
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

    def tile_ir(self, path, name, options):
        done = subprocess.run([self.tilec, path, *options, f"--dump-ir={name}"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout # nothing after a pass that is off at this level

    def example(self, path, options):
        what = " ".join([os.path.basename(path), *options])
        arch = options[:2]
        lane = self.run(path, *options, "--emit=lir")
        self.same(what + " lane IR", lane, self.again(lane, "lir", *arch, "--emit=lir"))
        ptx = kernels_of(self.run(path, *options))
        self.same(what + " PTX", ptx, kernels_of(self.again(lane, "lir", *arch)))
        dumps = {name: self.tile_ir(path, name, options) for name in self.passes()}
        names = [name for name, text in dumps.items() if text]
        go_on = [o for o in options if not o.startswith("-D")]
        for k, name in enumerate(names):
            text = dumps[name]
            self.same(f"{what} tile IR after {name}", text, self.again(text, "tir", "--emit=tir"))
            if names[k + 1:]:
                self.go_on(f"{what} passes after {name}", text, dumps[names[-1]],
                           [*go_on, "--run-pass=" + ",".join(names[k + 1:])])

    def go_on(self, what, text, last, options):
        """Kernel by kernel: warps and plans are chosen outside of the passes.  The text does not say
        which stages a plan asked for, but from pass `plan` on what they came to."""
        ends = re.findall(r"^kernel (\w+) \{.*?^\}\n", last, re.M | re.S)
        for name in ends:
            end = re.search(rf"^kernel {name} \{{.*?^\}}\n", last, re.M | re.S)[0]
            warps = re.search(r"^    warps (\d+)$", end, re.M)[1]
            chosen = re.search(r"^    plan ", end, re.M) and not any("--plan" in o for o in options)
            if chosen and not re.search(r"^    plan ", text, re.M):
                continue
            self.same(f"{what}, kernel {name}", end,
                      self.again(text, "tir", *options, f"--warps={warps}", f"--kernel={name}"))


# tile sizes for plans: a warp group has 64 rows
PLANS = {"attention": [(["-DM=64", "-DN=64", "-DD=64"], "consumers=2,stages=3,q_stages=2"),
                       (["-DM=64", "-DN=80", "-DD=40", "-DCAUSAL=true"], "consumers=3,stages=2,pipelined=0"),
                       (["-DM=64", "-DN=64", "-DD=128", "-DWINDOW=100"], "consumers=1,stages=1,persistent=0"),
                       (["-DM=64", "-DN=64", "-DD=64", "-DCAUSAL=true"], "consumers=4,stages=2,q_stages=2"),
                       (["-DM=64", "-DN=64", "-DCAUSAL=true", "-DWINDOW=100"], "consumers=2,stages=2,dynamic=1"),
                       (["-DM=64", "-DN=64", "-DD=64"], "consumers=2,stages=2,q_stages=2,cluster=2")],
         "gemm": [(["-DTM=64", "-DTN=128", "-DTK=64"], "consumers=2,stages=4")]}


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
                    tester.example(path, ["-arch", arch, level])
            name = os.path.splitext(os.path.basename(path))[0]
            for defines, plan in PLANS.get(name, []):
                tester.example(path, ["-arch", "sm_90", f"--plan={plan}", *defines])
    print(f"{tester.good} the same, {tester.bad} different")
    return 1 if tester.bad or not tester.good else 0


if __name__ == "__main__":
    sys.exit(main())
