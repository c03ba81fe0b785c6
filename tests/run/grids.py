#!/usr/bin/env python3
"""grids.py - launches of very many programs: each runs, or is refused in words that name the dimension.

    grids.py --tilec T --tilerun R

CUDA launches 65535 blocks along a grid's second and third dimension. Persistent kernels launch few blocks, which go through
tiles by number, so that they run with more; numbers have 32 bits, and what is beyond them was a launch that did nothing.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"
SOURCE = """
kernel many(A: in bf16[R, 64], B: in bf16[C, 64], O: inout f32[R, 64], X: i32, Y: i32)
{
    grid m in tiles(R, 64), a in X, b in Y;
    var acc = zeros<f32>[64, 64];
    for n in tiles(C, 64) {
        let s = mma(load A[m, :], (load B[n, :]).T);
        acc = mma(s as bf16, load B[n, :], acc);
    }
    if a + b == X + Y - 2 { store O[m, :] = acc + 1.0; }
}
"""
TOO_MANY = "there are more than 2147418112 tiles, which its blocks cannot count"
# options, X, Y, what is said; None: it runs
CASES = [
    ("sm_90", ["--plan=consumers=1"], 1, 66000, None),
    ("sm_90", ["--plan=consumers=1"], 65536, 65536, TOO_MANY),
    ("sm_90", ["--plan=consumers=2"], 2**31 - 1, 1, TOO_MANY),
    ("sm_90", ["--plan=consumers=2,dynamic=0"], 2**30, 4, TOO_MANY),
    ("sm_90", ["--plan=consumers=2"], 2**31 - 1, 2**31 - 1, TOO_MANY),
    ("sm_90", ["--plan=consumers=1,persistent=0"], 65536, 65536, "CUDA allows 0 to 2147483647"),
    ("sm_120", ["--plan=none"], 3, 65536, "dimension 2 is Y = 65536, with Y = 65536; CUDA allows 0 to 65535"),
]
CASES += [(arch, ["--plan=none"], 70000, 2, "dimension 1 is X = 70000, with X = 70000; CUDA allows 0 to 65535")
          for arch in ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")]
# sizes of attention, forward and backward, with a batch that no grid has
SIZES = {"B": 70000, "Sq": 1, "Hq": 1, "Sk": 1, "Hk": 1}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        def at(name):
            return os.path.join(folder, name)

        def launch(*arguments):
            return subprocess.run([options.tilerun, "--device", "sim", "--no-check", at("k.ptx"), *arguments],
                                  capture_output=True, text=True, timeout=300)

        def compiled(source, arch, *arguments):
            subprocess.run([options.tilec, source, "-arch", arch, *arguments, "-Wno-plan", "-o", at("k.ptx")], check=True)

        pathlib.Path(at("many.tile")).write_text(SOURCE)
        np.save(at("A.npy"), np.zeros((1, 64), np.uint16))
        np.save(at("B.npy"), np.zeros((0, 64), np.uint16))
        np.save(at("O.npy"), np.full((1, 64), 7, np.float32))
        for arch, plan, x, y, words in CASES:
            compiled(at("many.tile"), arch, *plan)
            inputs = [a for n in "ABO" for a in ("--in", f"{n}={at(n + '.npy')}")]
            done = launch(*inputs, "--set", f"X={x}", "--set", f"Y={y}", "--out", f"O={at('got.npy')}")
            right = (done.returncode == 0 and (np.load(at("got.npy")) == 1).all() if words is None
                     else done.returncode == 1 and words in done.stderr)
            if not right:
                print(f"{arch} {plan[0]} {x} x {y}: {done.returncode} {done.stdout}{done.stderr}")
                failed += 1
        for name, kernel, arch in (("attention", "attention", "sm_80"), ("attention_bwd", "attention_bwd", "sm_80"),
                                   ("attention_bwd", "attention_bwd_dq", "sm_120")):
            compiled(EXAMPLES / f"{name}.tile", arch, "--kernel", kernel, "--plan=none")
            done = launch("--random", *(a for n, v in SIZES.items() for a in ("--set", f"{n}={v}")))
            if done.returncode != 1 or "B = 70000; CUDA allows 0 to 65535" not in done.stderr:
                print(f"{kernel} {arch}: {done.returncode} {done.stdout}{done.stderr}")
                failed += 1
    print(f"{len(CASES) + 3} launches, {failed} wrong")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
