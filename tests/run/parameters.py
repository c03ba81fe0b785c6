#!/usr/bin/env python3
"""parameters.py - every kind of kernel parameter through tilerun: the kernels of parameters.ptx.

    parameters.py --tilerun R [--device sim|gpu]        # by ctest in the simulator

Tensor maps (rows that the tensor does not have, extents of 1, a tensor without elements), a scratch
that must come back zero, a workspace from one kernel to the next, the zero, and a persistent grid.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
BYTES = {"b8x128": 128, "u64": 8, "s64": 8, "s32": 4, "u32": 4, "f32": 4}


def place(*params):
    """The parameters with their offsets and sizes."""
    out, offset = [], 0
    for param in params:
        size = BYTES[param["type"]]
        offset = (offset + size - 1) // size * size
        out.append({**param, "offset": offset, "bytes": size})
        offset += size
    return out


def tensor(name, dtype, mode, *shape):
    return {"name": name, "dtype": dtype, "mode": mode, "shape": list(shape), "align": 16, "atomic": False}


def address(name, rank):
    return [{"kind": "pointer", "tensor": name, "type": "u64"}] + [
        {"kind": "stride", "tensor": name, "dim": d, "type": "s64"} for d in range(rank - 1)]


def size(name):
    return {"kind": "size", "name": name, "type": "s32"}


def memory(kind, name, text):
    return {"kind": kind, "name": name, "size": text, "type": "u64"}


def recipe(name, **changes):
    return {"tensor": name, "dims": [3, 1, 2, 0], "box": [64, 32, 1, 1], "swizzle": 128, "l2_promotion": 256,
            **changes}


def metadata():
    add = {
        "name": "add_boxes", "entry": "add_boxes", "constants": {}, "sizes": ["B", "S", "H", "Sk"], "scalars": [],
        "tensors": [tensor("X", "f16", "in", "B", "S", "H", 128), tensor("K", "f16", "in", "B", "Sk", "H", 128),
                    tensor("Y", "f16", "out", "B", "S", "H", 128)],
        "tensormaps": [recipe("X"), recipe("K", l2_promotion=0)],
        "params": place({"kind": "tensormap", "tensor": "X", "map": 0, "type": "b8x128"},
                        {"kind": "tensormap", "tensor": "K", "map": 1, "type": "b8x128"}, *address("Y", 4),
                        size("B"), size("S"), size("H"), memory("scratch", "counter", "8"),
                        memory("workspace", "rows", "B * S * H * 4"), {"kind": "zero", "type": "u32"}),
        "grid": ["min(sm_count, cdiv(S, 32) * H * B * 2)", "1", "1"], "block": 64, "shared": 8208,
        "cluster": [1, 1, 1], "require": []}
    copy = {
        "name": "copy_rows", "entry": "copy_rows", "constants": {}, "sizes": ["B", "S", "H"], "scalars": [],
        "tensors": [tensor("T", "i32", "out", "B", "S", "H")], "tensormaps": [],
        "params": place(*address("T", 3), memory("workspace", "rows", "B * S * H * 4"), size("S"), size("H")),
        "grid": ["S", "B", "1"], "block": 32, "shared": 0, "cluster": [1, 1, 1], "require": []}
    return {"tilec": 1, "version": "0.1.0", "arch": "sm_90a", "ptx": "8.0", "source": "parameters.ptx",
            "kernels": [add, copy]}


def ptx_of(meta, body=None):
    """The PTX of the kernels with this metadata."""
    if body is None:
        with open(os.path.join(HERE, "parameters.ptx"), encoding="utf-8") as file:
            body = file.read()
    data = json.dumps(meta).encode() + b"\0"
    return (body + f"\n.visible .const .align 8 .b8 tilec_metadata[{len(data)}] = {{\n    "
            + ",".join(map(str, data)) + "\n};\n")


def early_ptx():
    """The same kernels, each waiting by itself for those before it: they may start early."""
    with open(os.path.join(HERE, "parameters.ptx"), encoding="utf-8") as file:
        body = file.read()
    wait = "    griddepcontrol.wait;\n    griddepcontrol.launch_dependents;\n"
    meta = metadata()
    for kernel in meta["kernels"]:
        kernel["early_start"] = True
    return ptx_of(meta, re.sub(r"((?:    \.reg [^\n]*\n)+)", lambda found: found[1] + wait, body))


def expected(x, k):
    y = x.copy()
    rows = min(x.shape[1], k.shape[1])
    y[:, :rows] += k[:, :rows]
    b, s, h = np.meshgrid(*map(np.arange, x.shape[:3]), indexing="ij")
    return y, (b * 1000000 + s * 1000 + h).astype(np.int32)


def operands(b, s, h, sk):
    random = np.random.default_rng(s * 7 + sk)

    def integers(*shape):
        return random.integers(-100, 100, shape).astype(np.float16)
    return integers(b, s, h, 128), integers(b, sk, h, 128)


class Tester:
    def __init__(self, options, folder):
        self.options, self.folder, self.bad = options, folder, 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, ptx, *arguments):
        with open(self.path("k.ptx"), "w", encoding="utf-8") as file:
            file.write(ptx)
        return subprocess.run([self.options.tilerun, self.path("k.ptx"), "--device", self.options.device, *arguments],
                              capture_output=True, text=True)

    def fail(self, what, why):
        self.bad += 1
        print(f"{what}: {why}")

    def case(self, b, s, h, sk, sm_count=None, seeds=1):
        what = f"B {b}, S {s}, H {h}, Sk {sk}, {sm_count or 'all'} multiprocessors"
        x, k = operands(b, s, h, sk)
        np.save(self.path("x.npy"), x)
        np.save(self.path("k.npy"), k)
        extra = ["--sm-count", str(sm_count)] if sm_count else []
        done = self.run(ptx_of(metadata()), "--in", "X=" + self.path("x.npy"), "--in", "K=" + self.path("k.npy"),
                        "--out", "Y=" + self.path("y.npy"), "--out", "T=" + self.path("t.npy"), "--seeds",
                        str(seeds), *extra)
        if done.returncode != 0:
            return self.fail(what, done.stdout + done.stderr)
        y, t = expected(x, k)
        if not np.array_equal(np.load(self.path("y.npy")), y):
            return self.fail(what, "Y is wrong")
        if not np.array_equal(np.load(self.path("t.npy")), t):
            return self.fail(what, "T is wrong")
        blocks = (s + 31) // 32 * h * b * 2
        blocks = min(sm_count or (3 if self.options.device == "sim" else blocks), blocks)
        if f"add_boxes: grid {blocks} x 1 x 1" not in done.stdout and (sm_count or self.options.device == "sim"):
            return self.fail(what, "the grid is wrong: " + done.stdout)
        print(f"{what}: right")

    def dirty(self):
        """A kernel that leaves its scratch not zero is told."""
        with open(os.path.join(HERE, "parameters.ptx"), encoding="utf-8") as file:
            body = file.read()
        body = body.replace("    atom.global.exch.b32 n, [counter], 0;\n", "")
        x, k = operands(1, 33, 1, 1)
        np.save(self.path("x.npy"), x)
        np.save(self.path("k.npy"), k)
        done = self.run(ptx_of(metadata(), body), "--in", "X=" + self.path("x.npy"), "--in",
                        "K=" + self.path("k.npy"))
        message = "tilerun: add_boxes leaves its scratch counter not zero, at byte 0 of 8\n"
        if (done.returncode, done.stderr) != (3, message):
            return self.fail("dirty scratch", (done.returncode, done.stderr))
        print("dirty scratch: told")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--device", default="sim", choices=["sim", "gpu"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tester = Tester(options, folder)
        tester.case(2, 70, 3, 70, seeds=3)
        tester.case(1, 40, 1, 17)           # extents of 1; K ends early
        tester.case(1, 33, 1, 1, sm_count=1)
        tester.case(2, 40, 2, 0, seeds=2)   # K has no elements
        tester.case(2, 0, 3, 5)             # nothing to launch
        tester.case(1, 100, 4, 200, sm_count=100)
        tester.dirty()
    return 1 if tester.bad else 0


if __name__ == "__main__":
    sys.exit(main())
