#!/usr/bin/env python3
"""round_trip.py - text in, PTX out at every level: both IRs print what they read, and go on to the same PTX.

    round_trip.py --tilec T [--all] EXAMPLE.tile..

Tile IR is taken behind every pass, lane IR behind the lowering.  Tile IR read from a dump compiles to the very PTX
of the program, with its comments and metadata; it prints as it was; and the next pass run alone on it prints the next
dump.  Lane IR has the kernels only.  Each example is compiled for each target, at -O0 and -O3, and with plans for warp
groups; with --all with all options of same.py, too.
"""
import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import same


def kernels_of(ptx):
    """The kernels alone: without metadata, comments and blank lines."""
    lines = [line for line in ptx.split("\n") if line.strip() and not line.startswith("//")]
    text = "\n".join(lines)
    return re.findall(r"^(?:\.extern \.shared [^\n]*\n)?\.visible \.entry [^\n]*\n(?:(?!\})[^\n]*\n)*\}", text, re.M)


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
        if first == second and first:
            self.good += 1
            return
        first, second = (re.sub(r"\n+", "\n", str(text)) for text in (first, second))
        if first == second and first:
            self.good += 1
            return
        self.bad += 1
        pairs = itertools.zip_longest(str(first).split("\n"), str(second).split("\n"))
        number, pair = next(((k, p) for k, p in enumerate(pairs) if p[0] != p[1]), (0, ("", "")))
        print(f"{what}: line {number + 1}\n  {pair[0]}\n  {pair[1]}")

    def dumps(self, path, options):
        """(pass, the module behind it), in order; --dump-ir prints all passes of a kernel, then those of the next."""
        done = subprocess.run([self.tilec, path, *options, "--dump-ir"], capture_output=True, text=True, check=True)
        modules = {}
        for name, kernel in re.findall(r"^// after (\S+?)(?:: unchanged since \S+\n|\n(kernel (?:(?!\}\n)[^\n]*\n)*\}\n))",
                                       done.stdout, re.M):
            kernel = last = kernel or re.sub(r"^    after \S+$", f"    after {name}", last, flags=re.M)
            modules.setdefault(name, []).append(kernel)
        return [(name, "\n".join(kernels)) for name, kernels in modules.items()]

    def if_possible(self, path, options):
        if subprocess.run([self.tilec, path, *options, "-o", os.devnull], capture_output=True, check=False).returncode == 0:
            self.example(path, options)

    def example(self, path, options):
        what = " ".join([os.path.basename(path), *options])
        # what is chosen is in the text: tiles, warps, stages, plans, kernels
        go_on = [o for o in options if not re.match("-D|--(plan|warps|stages|kernel)=", o)]
        lane = self.run(path, *options, "--emit=lir")
        self.same(what + " lane IR", lane, self.again(lane, "lir", *options[:2], "--emit=lir"))
        ptx = self.run(path, *options)
        if "-lineinfo" not in options:
            self.same(what + " PTX", kernels_of(ptx), kernels_of(self.again(lane, "lir", *options[:2])))
        last = None
        for name, text in self.dumps(path, options):
            if last is not None:
                self.same(f"{what}: {name} alone, behind {last[0]}", text, self.again(last[1], "tir", *go_on, f"--run-pass={name}"))
            self.same(f"{what} tile IR after {name}", text, self.again(text, "tir", *go_on, "--emit=tir"))
            self.same(f"{what} PTX from after {name}", ptx, self.again(text, "tir", *go_on))
            last = name, text


# tile sizes for plans: a warp group has 64 rows
PLANS = {"attention": [(["-DM=64", "-DN=64", "-DD=64"], "consumers=2,stages=3,q_stages=2"),
                       (["-DM=64", "-DN=80", "-DD=40", "-DCAUSAL=true"], "consumers=3,stages=2,pipelined=0"),
                       (["-DM=64", "-DN=64", "-DD=128", "-DWINDOW=100"], "consumers=1,stages=1,persistent=0"),
                       (["-DM=64", "-DN=64", "-DD=64", "-DCAUSAL=true"], "consumers=4,stages=2,q_stages=2"),
                       (["-DM=64", "-DN=64", "-DCAUSAL=true", "-DWINDOW=100"], "consumers=2,stages=2,dynamic=1"),
                       (["-DCAUSAL=true", "-lineinfo"], None)],
         "attention_bwd": [(["-DD=64", "-DM=128", "-DN=64", "-DCAUSAL=true"], "consumers=2,stages=2,persistent=0,pingpong=1"),
                           (["-DD=256", "-DM=128", "-DN=64", "--kernel=attention_bwd"],
                            "consumers=2,stages=1,persistent=0,cooperative=1")],
         "gemm": [(["-DTM=64", "-DTN=128", "-DTK=64"], "consumers=2,stages=4")]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("examples", nargs="+")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tester = Tester(options.tilec, folder)
        for path in options.examples:
            for arch in ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"]:
                for level in ["-O0", "-O3"] if arch in ("sm_80", "sm_90", "sm_100") else ["-O3"]:
                    tester.example(path, ["-arch", arch, level])
                for more in same.variants(os.path.basename(path), arch) if options.all else []:
                    tester.if_possible(path, ["-arch", arch, *more])
            name = os.path.splitext(os.path.basename(path))[0]
            for defines, plan in PLANS.get(name, []):
                tester.example(path, ["-arch", "sm_90", *([f"--plan={plan}"] if plan else []), *defines])
    print(f"{tester.good} the same, {tester.bad} different")
    return 1 if tester.bad or not tester.good else 0


if __name__ == "__main__":
    sys.exit(main())
