#!/usr/bin/env python3
"""fits.py - `auto` takes tiles that have room whenever some have: every example with a head dimension, for chips with little
and much shared memory, over head dimensions.

    fits.py --tilec T [--all]

An example may be refused for want of shared memory (E-SHARED) only if its least tiles with one buffer have no room either.
--all: more head dimensions.
"""
import argparse
import itertools
import os
import re
import subprocess
import sys

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")
DIMS = [72, 257, 300, 385, 400, 512, 513]
MORE = [8, 100, 192, 256, 320, 336, 352, 360, 384, 448, 516, 640]
ARCHS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"]


def compiled(options, example, arch, *flags):
    """What it says; "": it is compiled."""
    done = subprocess.run([options.tilec, f"{EXAMPLES}/{example}", "-arch", arch, "-Wno-plan", *flags, "-o", os.devnull],
                          capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr


def least_tiles(source, kernel):
    """Values for the `auto` parameters of a kernel, small ones."""
    head = re.search(rf"kernel {kernel}<(.*?)>\s*\(", source, re.S).group(1)
    names = re.findall(r"(\w+): int = auto", head)
    for values in itertools.product([16, 32], repeat=len(names)):
        yield [f"-D{name}={value}" for name, value in zip(names, values)]


def judge(options, example, arch, d):
    said = compiled(options, example, arch, f"-DD={d}")
    if said == "":
        return None
    kernel = re.search(r"kernel '(\w+)' needs \d+ bytes of shared memory", said)
    if kernel is None:
        return said.split("\n")[0]
    with open(f"{EXAMPLES}/{example}", encoding="utf-8") as file:
        source = file.read()
    for tiles in least_tiles(source, kernel.group(1)):
        flags = [f"-DD={d}", "--kernel", kernel.group(1), "--warps=4", "--stages=1", *tiles]
        if tiles and compiled(options, example, arch, *flags) == "":
            return f"{kernel.group(1)} has room with {' '.join(flags)}, and auto has taken others"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True, type=os.path.abspath)
    parser.add_argument("--tilerun")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    failed = refused = 0
    for example in sorted(os.listdir(EXAMPLES)):
        path = f"{EXAMPLES}/{example}"
        if not example.endswith(".tile") or "D: int" not in open(path, encoding="utf-8").read():
            continue
        for arch, d in itertools.product(ARCHS, DIMS + MORE * options.all):
            if arch in ("sm_89", "sm_103") and not options.all:  # the shared memory of another
                continue
            wrong = judge(options, example, arch, d)
            failed += wrong is not None
            if wrong is not None:
                print(f"{example} {arch} D={d}: {wrong}")
    # those that the least tiles of 32 rows fit, by their defaults
    for example, arch in itertools.product(["attention_decode", "attention_split", "attention_grouped", "attention_paged"], ["sm_86", "sm_120"]):
        for d in [352, 385, 512]:
            said = compiled(options, f"{example}.tile", arch, f"-DD={d}")
            refused += said != ""
            if said != "":
                print(f"{example} {arch} D={d}: {said.split(chr(10))[0]}")
    print(f"{failed + refused} wrong")
    return failed + refused > 0


if __name__ == "__main__":
    sys.exit(main())
