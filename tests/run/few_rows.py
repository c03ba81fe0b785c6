#!/usr/bin/env python3
"""few_rows.py - forms of kernels without products for launches that have an SM for each program.

    few_rows.py --tilec T --tilerun R

Of programs compiled with --variants=auto: few rows take another form than many do, and
compute what NumPy does, whether rows begin and end at multiples of 16 bytes, of 4, of 2 or anywhere.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "examples", "python"))
import launch  # noqa: E402


def softmax(x):
    e = np.exp(x - x.max(1)[:, None])
    return e / e.sum(1)[:, None]


def gradient(x, y, norm):
    return 0.25 * (np.exp(x - norm[:, None]) - (np.arange(x.shape[1])[None, :] == y[:, None]))


# file, kernel, rows and columns that many programs compute; for few (the simulator has few SMs): rows and columns, elements
# between rows of X
PROGRAMS = [("examples/add.tile", "add", (4096, 4096), [(3, 1000, 1000), (2, 1026, 1026), (2, 1033, 1033), (3, 4096, 4096), (3, 520, 523)]),
            ("examples/row_softmax.tile", "row_softmax", (4096, 4096),
             [(3, 1000, 1000), (2, 4104, 4104), (2, 1026, 1026), (3, 8192, 8192), (2, 4096, 4096), (2, 9001, 9001), (3, 2048, 2050)]),
            ("bench/rows/cross_entropy.tile", "gradient", (512, 65536), [(1, 1000, 1000), (3, 1026, 1026), (2, 4001, 4001), (3, 512, 520)]),
            ("bench/rows/columns.tile", "transpose", (4096, 4096), [(16, 128, 128), (3, 98, 98), (16, 101, 101), (16, 136, 144), (64, 120, 120)])]


def arrays(kernel, rows, columns):
    """What is given, and what comes out by NumPy: ({tensor: array}, words of the command line, tensor, array)"""
    draw = np.random.default_rng(rows + columns)
    x = draw.standard_normal((rows, columns)).astype(np.float16)
    wide = x.astype(np.float64)
    if kernel == "add":
        y = draw.standard_normal((rows, columns)).astype(np.float16)
        return {"X": x, "Y": y}, ["--set", "a=2"], "Z", 2 * wide + y
    if kernel == "gradient":
        y = draw.integers(0, columns, rows).astype(np.int32)
        norm = np.log(np.exp(wide).sum(1)).astype(np.float32)
        return {"X": x, "Y": y, "L": norm}, ["--set", "scale=0.25"], "dX", gradient(wide, y, norm)
    return {"X": x}, [], "Y", softmax(wide) if kernel == "row_softmax" else wide.T


def check(options, file, kernel, many, few, at):
    bad = []
    compiled = [options.tilec, os.path.join(ROOT, file), "-arch", "sm_90", "-Wno-plan", "--kernel", kernel, "-D", "T=f16", "--variants=auto"]
    subprocess.run([*compiled, "-o", at("k.ptx")], check=True)
    data = json.loads(subprocess.run([*compiled, "--emit=json", "-o", "-"], check=True, capture_output=True, text=True).stdout)
    forms = [data["kernels"][0], *data["kernels"][0].get("variants", [])]
    sizes = data["kernels"][0]["tensors"][0]["shape"]
    device = {"sm_count": 132, "sm_shared": 228 << 10}

    def quickest(*extents):
        return min(forms, key=lambda form: launch.value(form["cost"], {**dict(zip(sizes, extents)), **device}))["entry"]

    for rows, columns, pitch in few:
        given, words, result, want = arrays(kernel, rows, columns)
        for name, array in given.items():
            np.save(at(name + ".npy"), array)
            words += ["--in", f"{name}={at(name + '.npy')}"]
        done = subprocess.run([options.tilerun, "--device", "sim", at("k.ptx"), *words, "--strides", f"X={pitch}", "--out",
                               f"{result}={at('out.npy')}"], check=True, capture_output=True, text=True)
        taken = re.search(r"^(\w+): grid", done.stdout + done.stderr, re.M)[1]
        if taken == quickest(*many):
            bad.append(f"{kernel} of {rows} x {columns} takes {taken}, as many rows do")
        if not np.allclose(np.load(at("out.npy")), want, rtol=4e-3, atol=1e-6):
            bad.append(f"{taken} of {rows} x {columns}, {pitch} apart, is off by {np.abs(np.load(at('out.npy')) - want).max()}")
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        for file, kernel, many, few in PROGRAMS:
            bad += check(options, file, kernel, many, few, lambda name: os.path.join(folder, name))
    for line in bad:
        print(line)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
