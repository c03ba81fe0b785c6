#!/usr/bin/env python3
"""padding.py - what a tile has past the end of its tensor stays out of reductions.

    padding.py --tilec T --tilerun R

Of tiles that a loop carries over ranges of its own, reduced in the loop and behind it: what is padding
of the last tile is an element of the others, and keeps what it had; of sums, maxima, two tiles that take
turns, and a loop inside.  And behind a long chain of operations, a branch's other side, and a loop that
begins with a padded tile.  Along rows and along columns, in the simulator, against NumPy.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

WIDTH = 32
CHAIN = 45  # tanh(x + 0.01), so often
CARRIED = {
    "plain": "t = t + a;",
    "exponentials": "t = t + exp(a);",
    "maxima": "t = max(t, a + 1.0);",
    "turns": "let next = u + exp(a); u = t; t = next;",
    "given twice": "let next = t + exp(a); u = next; t = next;",
    "nested": "for k in 0..2 { t = t + exp(a); before = before + sum(t, axis=AXIS); }",
}
PADDED = {
    "chain": "x = a; " + "x = tanh(x + 0.01); " * CHAIN,
    "other side": "if flag == 1 { x = x + 1.0; } else { x = exp(a); }",
    "loop": "x = exp(a); for k in 0..3 { x = x * 2.0; }",
}
SOURCE = """
kernel padding(A: in f32[DIMENSIONS], S: out f32[M], T: out f32[M], U: out f32[M], flag: i32) {
    grid m in tiles(M, 64);
    var t = zeros<f32>[TILE];
    var u = zeros<f32>[TILE] + 1.0;
    var before = zeros<f32>[64];
    var after = zeros<f32>[64];
    for n in tiles(N, 32) {
        let a = load A[INDEX];
        BODY
    }
    store S[m] = before;
    store T[m] = after;
    store U[m] = END;
}
"""
BODY = {
    "carried": "before = before + sum(t, axis=AXIS); STEP after = after + max(t, axis=AXIS);",
    "padded": "var x = t; STEP before = before + sum(x, axis=AXIS); after = after + max(x, axis=AXIS);",
}
END = {"carried": "sum(t, axis=AXIS) + max(u, axis=AXIS)", "padded": "before + after"}


def expected_carried(a, body):
    rows, n = a.shape
    t, u = np.zeros((rows, WIDTH)), np.ones((rows, WIDTH))
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
        elif body == "given twice":
            t[part] += np.exp(x)
            u[part] = t[part]
        else:
            for _ in range(2):
                t[part] += np.exp(x)
                before += t.sum(1)
        after += t.max(1)
    return before, after, t.sum(1) + u.max(1)


def expected_padded(a, body):
    before, after = np.zeros(len(a)), np.zeros(len(a))
    for start in range(0, a.shape[1], WIDTH):
        x = a[:, start:start + WIDTH].astype(np.float64)
        if body == "chain":
            for _ in range(CHAIN):
                x = np.tanh(x + 0.01)
        elif body == "other side":
            x = np.exp(x)
        else:
            x = 8 * np.exp(x)
        before += x.sum(1)
        after += x.max(1)
    return before, after, before + after


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    failed = total = 0
    cases = [("carried", body, text, expected_carried) for body, text in CARRIED.items()]
    cases += [("padded", body, text, expected_padded) for body, text in PADDED.items()]
    with tempfile.TemporaryDirectory() as folder:
        def at(name):
            return os.path.join(folder, name)

        for axis in (0, 1):
            for kind, body, text, expected in cases:
                source = SOURCE.replace("BODY", BODY[kind]).replace("STEP", text).replace("END", END[kind])
                source = source.replace("AXIS", str(axis))
                source = source.replace("DIMENSIONS", "M, N" if axis else "N, M")
                source = source.replace("TILE", "64, 32" if axis else "32, 64")
                source = source.replace("INDEX", "m, n" if axis else "n, m")
                with open(at("padding.tile"), "w") as file:
                    file.write(source)
                subprocess.run([options.tilec, at("padding.tile"), "-arch", "sm_80", "-o", at("padding.ptx")],
                               check=True)
                for n in (20, 64, 83):
                    a = np.random.default_rng(n).standard_normal((70, n)).astype(np.float32)
                    np.save(at("A.npy"), a if axis else np.ascontiguousarray(a.T))
                    outputs = [arg for name in "STU" for arg in ("--out", f"{name}={at(name + '.npy')}")]
                    subprocess.run([options.tilerun, "--device", "sim", at("padding.ptx"), "--in",
                                    f"A={at('A.npy')}", "--set", "flag=0", *outputs],
                                   check=True, stdout=subprocess.DEVNULL)
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
