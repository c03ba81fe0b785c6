#!/usr/bin/env python3
"""alignment.py - rows of tensors of which nothing is promised: by 16 bytes where they begin so, else by elements.

    alignment.py --tilec T --tilerun R

examples/add.tile and row_softmax.tile, in the simulator, against NumPy: rows that begin at multiples of 16, 8 and 4 bytes, longer and
shorter than a tile.  The PTX has both ways.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples")


def softmax(x):
    e = np.exp(x - x.max(1)[:, None])
    return e / e.sum(1)[:, None]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        def at(name):
            return os.path.join(folder, name)

        for kernel, inputs, output in (("add", "XY", "Z"), ("row_softmax", "X", "Y")):
            subprocess.run([options.tilec, os.path.join(EXAMPLES, kernel + ".tile"), "-arch", "sm_80", "-D", "T=f32", "-o",
                            at("k.ptx")], check=True)
            with open(at("k.ptx")) as file:
                text = file.read()
            for access in (r"ld\.global\.v4", r"st\.global\.v4", r"ld\.global\.b32", r"st\.global\.b32"):
                if not re.search(access, text):
                    bad.append(f"{kernel} has no {access}")
            for rows, columns in ((17, 260), (5, 262), (18, 519), (3, 4)):
                random = np.random.default_rng(columns)
                values = [random.standard_normal((rows, columns)).astype(np.float32) for _ in inputs]
                words = []
                for name, value in zip(inputs, values):
                    np.save(at(name + ".npy"), value)
                    words += ["--in", f"{name}={at(name + '.npy')}"]
                words += ["--set", "a=2"] if kernel == "add" else []
                subprocess.run([options.tilerun, "--device", "sim", at("k.ptx"), *words, "--out", f"{output}={at('out.npy')}"],
                               check=True, stdout=subprocess.DEVNULL)
                right = 2 * values[0] + values[1] if kernel == "add" else softmax(values[0].astype(np.float64))
                off = np.abs(np.load(at("out.npy")) - right).max()
                if not off < 1e-5:
                    bad.append(f"{kernel} of {rows} x {columns} is off by {off:.1e}")
    for line in bad:
        print(line)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
