#!/usr/bin/env python3
"""same_code.py - tilec built by another C compiler writes the same bytes.

    same_code.py --tilec T --source ROOT --build FOLDER --cc clang

C leaves the order of a call's arguments open; code that emits in two of them would differ from
compiler to compiler.  Builds the library and tilec once more in FOLDER (kept between runs), then
compares PTX of all examples and targets, and for one target that of level 0, metadata and lane IR, too.
"""
import argparse
import glob
import itertools
import os
import subprocess
import sys


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--cc", required=True)
    options = parser.parse_args()
    subprocess.run(["cmake", "-S", options.source, "-B", options.build, "-DTILEC_TESTS=OFF",
                    f"-DCMAKE_C_COMPILER={options.cc}", "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O0"],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", options.build, "--target", "tilec"], check=True,
                   stdout=subprocess.DEVNULL)
    other = os.path.join(options.build, "tilec")
    examples = sorted(glob.glob(os.path.join(options.source, "examples", "*.tile")))
    same, different = 0, 0
    for example, arch, level, kind in itertools.product(
            examples, ["sm_80", "sm_90", "sm_100"], ["-O0", "-O3"], ["ptx", "lir", "json"]):
        if (kind != "ptx" or level == "-O0") and arch != "sm_90":
            continue
        if kind != "ptx" and level == "-O0":
            continue
        command = [example, "-arch", arch, level, f"--emit={kind}", "-o", "-"]
        outputs = [subprocess.run([tilec, *command], capture_output=True, check=True).stdout
                   for tilec in (options.tilec, other)]
        if outputs[0] == outputs[1] and outputs[0]:
            same += 1
            continue
        different += 1
        lines = [text.decode().split("\n") for text in outputs]
        at = next((k for k, pair in enumerate(zip(*lines)) if pair[0] != pair[1]), 0)
        print(f"{' '.join(command)}: line {at + 1} differs\n  {lines[0][at]}\n  {lines[1][at]}")
    print(f"{same} the same, {different} different")
    return 1 if different or not same else 0


if __name__ == "__main__":
    sys.exit(main())
