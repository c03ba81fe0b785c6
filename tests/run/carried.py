#!/usr/bin/env python3
"""carried.py - tiles that a loop carries over ranges of its own, reduced in the loop and behind it.

    carried.py --tilec T --tilerun R

What is padding of the last tile is an element of the others: it keeps what it had.  Along rows and
along columns, of sums, maxima and of two tiles that take turns.  In the simulator, against NumPy.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

WIDTH = 32
BODIES = {
    "plain": "t = t + a;",
    "exponentials": "t = t + exp(a);",
    "maxima": "t = max(t, a + 1.0);",
    "turns": "let next = u + exp(a); u = t; t = next;",
    "nested": "for k in 0..2 { t = t + exp(a); before = before + sum(t, axis=AXIS); }",
}
SOURCE = """
kernel carried(A: in f32[DIMENSIONS], S: out f32[M], T: out f32[M], U: out f32[M]) {
    grid m in tiles(M, 64);
    var t = zeros<f32>[TILE];
    var u = zeros<f32>[TILE];
    var before = zeros<f32>[64];
    var after = zeros<f32>[64];
    for n in tiles(N, 32) {
        let a = load A[INDEX];
        before = before + sum(t, axis=AXIS);
        BODY
        after = after + max(t, axis=AXIS);
    }
    store S[m] = before;
    store T[m] = after;
    store U[m] = sum(t, axis=AXIS) + max(u, axis=AXIS);
}
"""


def expected(a, body):
    rows, n = a.shape
    t, u = np.zeros((rows, WIDTH)), np.zeros((rows, WIDTH))
    before, after = np.zeros(rows), np.zeros(rows)
    for start in range(0, n, WIDTH):
        x = a[:, start:start + WIDTH].astype(np.float64)
        part = (slice(None), slice(0, x.shape[1]))
        before += t.sum(1)
        if body == "plain":
            t[part] += x
        elif body == "exponentials":
            t[part] += np.exp(x)
        elif body == "maxima":
            t[part] = np.maximum(t[part], x + 1)
        elif body == "turns":
            following = t.copy()
            following[part] = u[part] + np.exp(x)
            t, u = following, t
        else:
            for _ in range(2):
                t[part] += np.exp(x)
                before += t.sum(1)
        after += t.max(1)
    return before, after, t.sum(1) + u.max(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    failed = total = 0
    with tempfile.TemporaryDirectory() as folder:
        def at(name):
            return os.path.join(folder, name)

        for axis in (0, 1):
            for body, text in BODIES.items():
                source = SOURCE.replace("BODY", text).replace("AXIS", str(axis))
                source = source.replace("DIMENSIONS", "M, N" if axis else "N, M")
                source = source.replace("TILE", "64, 32" if axis else "32, 64")
                source = source.replace("INDEX", "m, n" if axis else "n, m")
                with open(at("carried.tile"), "w") as file:
                    file.write(source)
                subprocess.run([options.tilec, at("carried.tile"), "-arch", "sm_80", "-o", at("carried.ptx")],
                               check=True)
                for n in (20, 64, 83):
                    a = np.random.default_rng(n).standard_normal((70, n)).astype(np.float32)
                    np.save(at("A.npy"), a if axis else np.ascontiguousarray(a.T))
                    outputs = [arg for name in "STU" for arg in ("--out", f"{name}={at(name + '.npy')}")]
                    subprocess.run([options.tilerun, "--device", "sim", at("carried.ptx"), "--in",
                                    f"A={at('A.npy')}", *outputs], check=True, stdout=subprocess.DEVNULL)
                    total += 1
                    for name, right in zip("STU", expected(a, body)):
                        got = np.load(at(name + ".npy"))
                        error = np.abs(got - right).max() / max(np.abs(right).max(), 1)
                        if not error < 1e-5:
                            print(f"{body}, axis {axis}, {n} wide: {name} is off by {error:.1e}")
                            failed += 1
    print(f"{total} programs, {failed} wrong results")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
