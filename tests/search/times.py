#!/usr/bin/env python3
"""times.py - the estimated clocks of an iteration against kernels measured on an H200.

    times.py --tilec TILEC

The clocks are those that an SM took for one iteration of the main loop of hand-written attention
kernels (bf16, 16384 long, no mask): elapsed clocks over iterations; and of matrix products (bf16, 8192 in
all directions): the time of the tiles of one SM, end and store of each included, at 1700 MHz.  They
fit the constants in backends/ptx/sm90.c; a change of the model that loses one of them needs a
measurement.
"""
import argparse
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GEMM = os.path.join(ROOT, "examples", "gemm.tile")
ATTENTION = os.path.join(ROOT, "examples", "attention.tile")

# d, tile, warp groups, (RS, pipelined) or division, always rescaled, clocks, allowed deviation
MEASURED = [
    (128, (128, 128), 2, (True, True), True, 2402, 0.03),
    (128, (128, 128), 2, (True, False), True, 2666, 0.03),
    (128, (128, 128), 2, (False, True), True, 2559, 0.03),
    (128, (128, 176), 2, (True, True), True, 3245, 0.03),
    (128, (128, 192), 2, (True, True), True, 3488, 0.03),
    (64, (256, 64), 4, (True, True), False, 1528, 0.03),
    (64, (192, 128), 3, (True, True), False, 2303, 0.03),
    (128, (80, 128), 2, "TFT121", None, 4034, 0.03),
    (128, (64, 128), 2, "TFF121", None, 3427, 0.03),
    # by their speed beside one of the above in the same run
    (64, (128, 128), 2, (True, True), False, 1934, 0.03),
    (256, (128, 64), 2, (True, True), False, 2124, 0.03),
    (128, (128, 128), 2, (True, True), False, 2292, 0.075),
    (128, (192, 64), 3, (True, True), False, 1670, 0.075),
]

# tile, warp groups, where they lie along, clocks, allowed deviation
PRODUCTS = [
    ((128, 256, 64), 2, "F2", 1206, 0.03),
    ((192, 192, 64), 3, "F3", 1333, 0.03),
    ((256, 192, 64), 2, "F2", 1787, 0.03),
    ((256, 128, 64), 4, "F4", 1199, 0.09),
    ((128, 192, 64), 2, "F2", 900, 0.09),
    ((128, 256, 32), 2, "F2", 759, 0.15),
]


def plans(tilec, d, tile, groups, always):
    command = [tilec, "search", ATTENTION, "-arch", "sm_90", "-D", f"D={d}", "--tile-m",
               str(tile[0]), "--tile-n", str(tile[1]), "--groups", str(groups), "--rows", "0",
               "--json"]
    command += ["--mode", "bwd"] if always is None else ["-D", f"LAZY={str(not always).lower()}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def products(tilec, tile, groups):
    command = [tilec, "search", GEMM, "-arch", "sm_90", "--groups", str(groups), "--rows", "0", "--json"]
    for letter, size in zip("mnk", tile):
        command += [f"--tile-{letter}", str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def find(rows, which):
    for row in rows:
        name = "".join("FT"[s] for s in row["swapped"]) + "".join(map(str, row["row_groups"]))
        if which in (name, (row["from_registers"], row["pipelined"])):
            return row["estimate"]["total"]
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    tilec = os.path.abspath(parser.parse_args().tilec)
    bad = 0
    for d, tile, groups, which, always, clocks, allowed in MEASURED:
        predicted = find(plans(tilec, d, tile, groups, always), which)
        if abs(predicted / clocks - 1) > allowed:
            print(f"d {d}, {tile}, {groups} groups, {which}: {predicted:.0f}, measured {clocks}")
            bad += 1
    for tile, groups, which, clocks, allowed in PRODUCTS:
        predicted = find(products(tilec, tile, groups), which)
        if abs(predicted / clocks - 1) > allowed:
            print(f"{tile}, {groups} groups, {which}: {predicted:.0f}, measured {clocks}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
