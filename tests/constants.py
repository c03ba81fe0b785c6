#!/usr/bin/env python3
"""constants.py - how much is computed for a program does not depend on the values of its constants.

    constants.py TILEC_COUNTED

Each program has a constant: a window, the length of a loop, a distance in a mask, a part of a longer loop.  It is compiled with
20 values from a part of a tile to the largest i32.  The work is counted in basic blocks (count_blocks.c): the most that a value
takes may be so many times what one in the middle takes.  (Some leave a mask out, which is less.)
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Multiples of tiles, of parts of tiles, one more and one less; a small one may leave iterations out and so on.
VALUES = [17, 64, 100, 128, 200, 256, 384, 500, 512, 513, 777, 1000, 1024, 4095, 4096, 65536, 100001, 1000000, 1 << 24,
          (1 << 31) - 1]
TIMES = 3.0  # windows of a tile or two have more ways

PROGRAM = """use softmax, mask;
kernel masked<OFFSET: int = 3, PART: int = 128, MORE: int = 0>
(   Q: in bf16[S, 64], K: in bf16[S, 64], V: in bf16[S, 64], O: out bf16[S, 64], scale: f32)
{
    require scale > 0.0;
    grid m in tiles(S, 64), c in cdiv(S, PART);
    let q = load Q[m, :];
    var st = softmax_init(64);
    var acc = zeros<f32>[64, 64];
    for n in tiles(c * PART..min(c * PART + PART, S + MORE), 64) {
        let s = mask_causal(mma(q, (load K[n, :]).T), m, n, OFFSET);
        let (p, alpha) = softmax_step(st, s, scale);
        acc = mma(p as bf16, load V[n, :], acc * alpha[:, None]);
    }
    let (inv, lse) = softmax_end(st, scale);
    store O[m, :] = (acc * inv[:, None]) as bf16;
}
kernel long<LENGTH: int = 128>(A: in bf16[S, R] align(16), B: in bf16[R, 64], C: out f32[S, 64]) {
    grid m in tiles(S, 64);
    var acc = zeros<f32>[64, 64];
    for k in tiles(LENGTH, 64) { acc = mma(load A[m, k], load B[k, :], acc); }
    store C[m, :] = acc;
}
kernel often<TIMES: int = 2>(X: in bf16[S, 64], Y: in bf16[R, 64], C: out f32[S, 64]) {
    grid m in tiles(S, 64);
    var acc = zeros<f32>[64, 64];
    for i in 0..TIMES { acc = mma(load X[m, :], load Y[iota(64) + i * 64, :], acc); }
    store C[m, :] = acc;
}
"""
BACKWARD = ["--kernel", "attention_bwd", "-D", "D=64", "-D", "M=64", "-D", "N=64"]
# example (None: the program above), options, constant, and the least value where smaller ones are of another program
CASES = [
    ("attention.tile", ["-D", "M=64", "-D", "N=64"], "WINDOW", 0),
    ("attention.tile", ["-D", "CAUSAL=true", "-D", "M=64", "-D", "N=64"], "WINDOW", 0),
    ("attention.tile", ["-D", "M=64", "-D", "N=64"], "RIGHT", 0),
    ("attention_bwd.tile", BACKWARD, "WINDOW", 0),
    ("attention_bwd.tile", [*BACKWARD, "-D", "CAUSAL=true"], "WINDOW", 0),
    ("attention_bwd.tile", BACKWARD, "RIGHT", 0),
    (None, ["--kernel", "masked"], "OFFSET", 0),
    (None, ["--kernel", "masked"], "PART", 100),
    (None, ["--kernel", "masked"], "MORE", 0),
    (None, ["--kernel", "long"], "LENGTH", 100),
    (None, ["--kernel", "often"], "TIMES", 0),
]


def work(tilec, source, options):
    """Thousands of blocks."""
    done = subprocess.run([tilec, source, *options, "-o", "/dev/null"], capture_output=True, text=True, timeout=120)
    said = re.search(r"^blocks (\d+)$", done.stderr, re.M)
    if done.returncode != 0 or not said:
        raise SystemExit(f"{source} {' '.join(options)}: {done.stderr[:500]}")
    return int(said[1]) // 1000


def main():
    tilec, bad = sys.argv[1], []
    with tempfile.TemporaryDirectory() as folder:
        own = os.path.join(folder, "constants.tile")
        with open(own, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        for example, options, name, least in CASES:
            source = own if example is None else os.path.join(ROOT, "examples", example)
            # other targets have no roles of which launches are run, or the same
            for arch in ["sm_80", "sm_90", "sm_100"]:
                of = {value: work(tilec, source, [*options, "-arch", arch, "-D", f"{name}={value}"])
                      for value in VALUES if value >= least}
                middle, high = sorted(of, key=of.get)[len(of) // 2], max(of, key=of.get)
                if of[high] > TIMES * of[middle]:
                    bad.append(f"{example} {arch} {' '.join(options)}: {name}={high} takes {of[high]} thousand blocks, "
                               f"{name}={middle} {of[middle]}")
    print("\n".join(bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
