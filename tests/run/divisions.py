#!/usr/bin/env python3
"""divisions.py - quotients, also rounded up, and remainders by constants: multiplications and shifts.

    divisions.py --tilec T --tilerun R

Of integers of both signs, near multiples and at the ends of the range; where the compiler knows that
they are not negative, and where it does not.  In the simulator, against Python.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile

import numpy as np

DIVISORS = [1, 2, 3, 5, 6, 7, 9, 10, 11, 48, 64, 100, 127, 128, 129, 641, 1000, 4096, 65535, 65537,
            715827883, 1000003, 2 ** 30 - 1, 2 ** 30, 2 ** 30 + 1, 2 ** 31 - 1]
MOST = 2 ** 31 - 1
WAYS = 5


def source():
    lines = ["kernel divide(X: in i32[S], Y: out i32[R, S]) {",
             "    grid s in tiles(S, 128);", "    let x = load X[s];", "    let p = max(x, 0);"]
    for k, by in enumerate(DIVISORS):
        up = min(by, 2 ** 30)  # what is added to half of p must fit
        for j, what in enumerate([f"x / {by}", f"x % {by}", f"p / {by}", f"p % {by}", f"cdiv(p >> 1, {up})"]):
            lines.append(f"    store Y[{WAYS * k + j}, s] = {what};")
    return "\n".join(lines + ["}"]) + "\n"


def numbers():
    draw = random.Random(3)
    out = [0, 1, -1, 2, -2, MOST, MOST - 1, -MOST, -MOST - 1]
    for by in DIVISORS:
        for k in [1, 2, MOST // by, draw.randrange(MOST // by + 1)]:
            out += [sign * (k * by + d) for d in (-1, 0, 1) for sign in (-1, 1)]
    out += [draw.randrange(-MOST - 1, MOST + 1) for _ in range(400)]
    return np.array([x for x in out if -MOST - 1 <= x <= MOST], dtype=np.int32)


def truncated(x, by):
    quotient = abs(x) // by
    return -quotient if x < 0 else quotient


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    x = numbers()
    wanted = np.zeros((WAYS * len(DIVISORS), len(x)), dtype=np.int64)
    for k, by in enumerate(DIVISORS):
        for i, value in enumerate(int(v) for v in x):
            for j, of in enumerate([value, max(value, 0)]):
                wanted[WAYS * k + 2 * j, i] = truncated(of, by)
                wanted[WAYS * k + 2 * j + 1, i] = of - by * truncated(of, by)
            wanted[WAYS * k + 4, i] = -(-(max(value, 0) >> 1) // min(by, 2 ** 30))
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)  # noqa: E731
        with open(at("divide.tile"), "w", encoding="utf-8") as file:
            file.write(source())
        np.save(at("x.npy"), x)
        for flags in [["-O3"], ["-fno-fold"], ["-O0"]]:
            np.save(at("y.npy"), np.full(wanted.shape, -77, dtype=np.int32))
            subprocess.run([options.tilec, at("divide.tile"), *flags, "-arch", "sm_80", "-o", at("d.ptx")],
                           check=True)
            with open(at("d.ptx"), encoding="utf-8") as text:
                left = sum(" div." in line or " rem." in line for line in text)
            if (left == 0) != (flags == ["-O3"]):
                print(f"{flags}: {left} divisions left")
                bad += 1
            subprocess.run([options.tilerun, at("d.ptx"), "--in", "X=" + at("x.npy"),
                            "--set", f"R={len(wanted)}", "--out", "Y=" + at("y.npy"),
                            "--device", "sim"], check=True)
            found = np.load(at("y.npy"))
            for k, i in np.argwhere(found != wanted)[:10]:
                print(f"{flags}: {x[i]} by {DIVISORS[k // WAYS]}, {k % WAYS}: {found[k, i]}, not {wanted[k, i]}")
            bad += int((found != wanted).sum())
    print(f"{3 * wanted.size} quotients and remainders, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
