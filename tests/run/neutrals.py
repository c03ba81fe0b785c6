#!/usr/bin/env python3
"""neutrals.py - one padded tile, read by reductions and products that want different numbers in its padding.

    neutrals.py --tilec T --tilerun R

What stands in the padding of a tile that a maximum reads (-inf) must not be seen by a sum of the same tile, and what a mask
of the program hides must be neutral when the tile that it was combined with is masked for another reduction. Kernels
with all uses below in orders drawn at random, for a target of each kind, in the simulator; the interpreter says what is right.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile

import numpy as np

ORDERS = 6
SIZES = [(5, 13), (17, 64), (1, 1), (16, 67)]
# name: result, type, what is reduced
USES = {
    "top": ("f32[R]", "max(x, axis=1)"),
    "low": ("f32[R]", "min(x, axis=1)"),
    "total": ("f32[R]", "sum(x, axis=1)"),
    "down": ("f32[C]", "sum(x, axis=0)"),
    "exps": ("f32[R]", "sum(exp(x), axis=1)"),
    "halves": ("f32[R]", "sum((load H[m, n]) as f32 + x - x, axis=1)"),
    "nans": ("i32[R]", "any(x != x, axis=1) as i32"),
    "above": ("i32[R]", "all(x > -9.0, axis=1) as i32"),
    "beside": ("f32[R]", "sum(exp(s - x), axis=1)"),
    "parts": ("f32[R]", "sum(exp(s - 1.0 / x), axis=1)"),
    "logs": ("f32[R]", "sum(exp(s - log(abs(x))), axis=1)"),
    "chosen": ("f32[R]", "max(where(x > 0.0, x, -1.0), axis=1)"),
    "tops": ("f16[R]", "max(h, axis=1)"),
    "totals": ("f32[R]", "sum(h as f32, axis=1)"),
    "powers": ("f32[R]", "sum(exp2(h as f32), axis=1)"),
    "product": ("f32[R, 16]", "mma(h, load V[n, :])"),
    "turned": ("f32[C, 16]", "mma(h.T, load U[m, :])"),
}
FULL = """
kernel neutrals(X: in f32[R, C], H: in f16[R, C], V: in f16[C, 16], U: in f16[R, 16], {outputs})
{{
    grid g in 1;
    for m in tiles(R, 32) {{
        for n in tiles(C, 128) {{
            let x = load X[m, n];
            let h = load H[m, n];
            let s = mask(x, n[None, :] <= m[:, None] + (C - R));
            {uses}
        }}
    }}
}}
"""


def program(names):
    outputs = ", ".join(f"{name}: out {USES[name][0]}" for name in sorted(USES))
    place = {"R": "m", "C": "n", "16": ":"}
    uses = []
    for name in names:
        kind, text = USES[name]
        at = ", ".join(place[size] for size in kind[kind.index("[") + 1:-1].split(", "))
        uses.append(f"store {name}[{at}] = {text};")
    return FULL.format(outputs=outputs, uses="\n            ".join(uses))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    failed = total = 0
    with tempfile.TemporaryDirectory() as folder:
        def at(name):
            return os.path.join(folder, name)

        def run(command, result):
            command += [arg for name in "XHVU" for arg in ("--in", f"{name}={at(name + '.npy')}")]
            command += [arg for name in USES for arg in ("--out", f"{name}={at(name + result)}")]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")

        for order in range(ORDERS):
            names = sorted(USES)
            random.Random(order).shuffle(names)
            with open(at("neutrals.tile"), "w") as file:
                file.write(program(names))
            for arch in ("sm_80", "sm_90", "sm_100", "sm_120"):
                subprocess.run([options.tilec, at("neutrals.tile"), "-arch", arch, "-Wno-plan", "-o", at(arch + ".ptx")],
                               check=True)
            rows, columns = SIZES[order % len(SIZES)]
            draw = np.random.default_rng(order).standard_normal
            np.save(at("X.npy"), draw((rows, columns)).astype(np.float32))
            for name, shape in ("H", (rows, columns)), ("V", (columns, 16)), ("U", (rows, 16)):
                np.save(at(name + ".npy"), draw(shape).astype(np.float16))
            run([options.tilec, "run", at("neutrals.tile")], "-right.npy")
            for arch in ("sm_80", "sm_90", "sm_100", "sm_120"):
                run([options.tilerun, "--device", "sim", at(arch + ".ptx")], "-got.npy")
                total += 1
                for name in USES:
                    right, got = (np.load(at(name + end)).astype(np.float64) for end in ("-right.npy", "-got.npy"))
                    if not np.allclose(got, right, rtol=2e-3, atol=2e-3):
                        print(f"{arch}, order {order}, {rows} x {columns}: {name} is wrong")
                        failed += 1
    print(f"{total} kernels, {failed} wrong results")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
