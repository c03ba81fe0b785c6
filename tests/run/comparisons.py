#!/usr/bin/env python3
"""comparisons.py - comparisons of i32 whose sides do not overflow are right for all values.

    comparisons.py --tilec T --tilerun R

Loaded numbers, scalars, indices and sums of them with constants, each with each, by all six operators, in `where`, in `if`
and in masks of a product's loop, at the ends of the range and anywhere.  In the simulator, against NumPy, for each target.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile

import numpy as np

TARGETS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"]
MOST, LEAST = 2 ** 31 - 1, -2 ** 31
OPERATORS = ["<", "<=", ">", ">=", "==", "!="]
# what stands on a side: of loaded a and b, scalars k and j, indices n
SIDES = ["a", "b", "k", "a + 1", "b - 1", "a + 2000000000", "b - 2000000000", "k + 5", "k - 7", "n", "n + 3", "n - 2147483647",
         "n + k", "a - n", "a - b", "(a - 10) + b", "k - j", "n * 3", "2147483647", "-2147483647"]
SCALARS = [0, 5, -3, 60, MOST, MOST - 1, MOST - 40, LEAST, LEAST + 1, LEAST + 40, 2 ** 30, -2 ** 30]


def pairs():
    draw = random.Random(5)
    every = [(x, op, y) for x in SIDES for y in SIDES if x != y and not (x[-1] + y[-1]).isdigit() for op in OPERATORS]
    return draw.sample(every, 96)


def source(cases):
    lines = ["kernel compare(A: in i32[S], B: in i32[S], Y: out i32[R, S], Z: out i32[R, S], k: i32, j: i32) {",
             "    grid n in tiles(S, 128);", "    let a = load A[n];", "    let b = load B[n];"]
    for i, (x, op, y) in enumerate(cases):
        lines.append(f"    store Y[{i}, n] = where({x} {op} {y}, 1, 0);")
        if not set("abn") & set(x + y):
            lines.append(f"    var t{i} = 0;\n    if {x} {op} {y} {{ t{i} = 1; }}\n    store Z[{i}, n] = t{i} + 0 * a / 7;")
    return "\n".join(lines + ["}"]) + "\n"


def overflows(text, names):
    """The value of a side, and where some step of it is no i32."""
    values, bad = {}, 0

    class Number:
        def __init__(self, v):
            nonlocal bad
            self.v = np.asarray(v, dtype=np.int64)
            bad = bad | (self.v > MOST) | (self.v < LEAST)

        def __add__(self, o):
            return Number(self.v + (o.v if isinstance(o, Number) else o))

        def __sub__(self, o):
            return Number(self.v - (o.v if isinstance(o, Number) else o))

        def __mul__(self, o):
            return Number(self.v * (o.v if isinstance(o, Number) else o))
    for name, value in names.items():
        values[name] = Number(value)
    found = eval(text, {}, values)  # pylint: disable=eval-used
    return (found.v if isinstance(found, Number) else np.int64(found)), bad


def data():
    draw = random.Random(7)
    ends = [LEAST, LEAST + 1, LEAST + 9, -2000000000, -1500000000, -2 ** 30, -1, 0, 1, 60, 2 ** 30, 1500000000, 2000000000, MOST - 9,
            MOST - 1, MOST]
    a = [x for x in ends for _ in ends] + [draw.randrange(LEAST, MOST + 1) for _ in range(100)]
    b = ends * len(ends) + [draw.randrange(LEAST, MOST + 1) for _ in range(100)]
    return np.array(a, dtype=np.int32), np.array(b, dtype=np.int32)


APART = """kernel apart(Q: in bf16[S, 64], K: in bf16[R, 64], J: in i32[P], Y: out f32[S], Z: out f32[S], k: i32) {
    grid m in tiles(S, 64);
    let q = load Q[m, :];
    let j = load J[0];
    let i = load J[1];
    var most = full<f32>[64](-inf);
    var other = full<f32>[64](-inf);
    for n in tiles(R, 64) {
        let s = mma(q, (load K[n, :]).T);
        most = max(most, max(mask(s, n[None, :] + j OP k), axis=1));
    }
    for n in tiles(R, 64) {
        let s = mma(q, (load K[n, :]).T);
        other = max(other, max(mask(s, n[None, :] + (j - 70) OP m[:, None] * 2 + (k - i)), axis=1));
    }
    store Y[m] = most;
    store Z[m] = other;
}
"""
MASKED = """kernel masked<W: int = 5>(Q: in bf16[S, 64], K: in bf16[R, 64], Y: out f32[S], Z: out f32[S], k: i32) {
    grid m in tiles(S, 64);
    let q = load Q[m, :];
    var most = full<f32>[64](-inf);
    var other = full<f32>[64](-inf);
    for n in tiles(R, 64) {
        let s = mma(q, (load K[n, :]).T);
        most = max(most, max(mask(s, n[None, :] OP k), axis=1));
    }
    for n in tiles(R, 64) {
        let s = mma(q, (load K[n, :]).T);
        other = max(other, max(mask(s, n[None, :] > m[:, None] - W), axis=1));
    }
    store Y[m] = most;
    store Z[m] = other;
}
"""


def run(options, at, name, program, flags, given, out):
    with open(at(name + ".tile"), "w", encoding="utf-8") as file:
        file.write(program)
    subprocess.run([options.tilec, at(name + ".tile"), *flags, "-Wno-plan", "-o", at(name + ".ptx")], check=True)
    arguments = []
    for key, value in given.items():
        if isinstance(value, np.ndarray):
            np.save(at(key + ".npy"), value)
            arguments += ["--in", f"{key}={at(key)}.npy"]
        else:
            arguments += ["--set", f"{key}={value}"]
    for key in out:
        arguments += ["--out", f"{key}={at(key)}.npy"]
    subprocess.run([options.tilerun, at(name + ".ptx"), *arguments, "--device", "sim"], check=True, capture_output=True)
    return [np.load(at(key + ".npy")) for key in out]


def greatest_columns():
    """Queries and keys of which column n is n in each row; the columns and the rows."""
    rows, columns = 70, 200
    half = lambda x: (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)  # noqa: E731
    q, key = np.zeros((rows, 64)), np.zeros((columns, 64))
    q[:, 0], key[:, 0] = 1, np.arange(columns)
    return {"Q": half(q), "K": half(key)}, np.arange(columns)[None, :], np.arange(rows)[:, None]


def apart(options, at, flags):
    """Masks in loops by two and three numbers that are far apart, though each side is an i32."""
    bad, (given, n, m) = 0, greatest_columns()
    far = [(-2 * 10 ** 9, 10 ** 9, 0), (MOST - 400, LEAST, 0), (LEAST + 100, MOST - 600, 0), (LEAST + 100, LEAST + 170, 0),
           (MOST - 400, MOST - 300, 0), (2 * 10 ** 9, -10 ** 9, 10 ** 9), (LEAST + 90, 1500, -2 * 10 ** 9),
           (1500000000, 10 ** 9, -500000070), (-70, LEAST + 1000, 900), (MOST - 300, -5, 2 * 10 ** 9), (100, 190, 60)]
    for op, test in [("<", np.less), (">=", np.greater_equal)]:
        for j, k, i in far:
            want = [np.where(test(n + j, k) & (m >= 0), n, -np.inf).max(axis=1), np.where(test(n + j - 70, m * 2 + k - i), n, -np.inf).max(axis=1)]
            found = run(options, at, "apart", APART.replace("OP", op), flags,
                        {**given, "J": np.array([j, i], np.int32), "k": k}, ["Y", "Z"])
            for which in range(2):
                wrong = int((found[which] != want[which]).sum())
                bad += wrong
                if wrong:
                    print(f"{flags}: j = {j}, k = {k}, i = {i} {op}: {'YZ'[which]}: {wrong} rows wrong")
    return bad


def masked(options, at, flags):
    """Masks in loops, and iterations that they leave out; the greatest column that is kept is what counts."""
    bad, (columns, n, m) = 0, greatest_columns()
    for op, test in [("<", n.__lt__), (">=", n.__ge__)]:
        for k, w in [(LEAST, 1), (LEAST + 3, 130), (-1, MOST), (70, MOST - 1), (130, 2 ** 30), (MOST - 100, 5), (MOST, MOST)]:
            want = [np.where(test(np.int64(k)) & (m >= 0), n, -np.inf).max(axis=1), np.where(n > m - w, n, -np.inf).max(axis=1)]
            found = run(options, at, "masked", MASKED.replace("OP", op), [*flags, "-D", f"W={w}"],
                        {**columns, "k": k}, ["Y", "Z"])
            for which in range(2):
                wrong = int((found[which] != want[which]).sum())
                bad += wrong
                if wrong:
                    print(f"{flags}: n {op} {k}, window {w}: {'YZ'[which]}: {wrong} rows wrong")
    return bad


# one range along both axes of a tile: two indices
CROSSED = [(x, op, y) for x, y in [("a", "b - w"), ("a", "c - w"), ("a + w", "b"), ("a", "c + 1"), ("a - b", "0"), ("b - a", "w"), ("a * 2", "c * 2 - w"),
                                   ("m", "n"), ("m", "n - w"), ("m - n", "w"), ("o", "a - w")] for op in OPERATORS[:4]]


def crossed(options, at, flags):
    bad, i, j = 0, np.arange(8, dtype=np.int64)[None, :], np.arange(8, dtype=np.int64)[:, None]
    program = "\n".join(["@warps(2) kernel crossed(Y: out i32[R, S, S], w: i32) {", "    grid t in tiles(S, 8);",
                         "    let r = iota(8);", "    let a = r[None, :];", "    let b = r[:, None];", "    let c = iota(8)[:, None];",
                         "    let o = iota(1)[:, None];", "    let m = t[None, :];", "    let n = t[:, None];"] +
                        [f"    store Y[{k}, t, t] = where({x} {op} {y}, 1, 0);" for k, (x, op, y) in enumerate(CROSSED)] + ["}"]) + "\n"
    for w in [0, 3, -3, MOST - 2, LEAST + 20]:
        names = {"a": i, "b": j, "c": j, "o": 0 * j, "m": i, "n": j, "w": np.int64(w)}
        y, = run(options, at, "crossed", program, flags, {"R": len(CROSSED), "S": 8, "w": w}, ["Y"])
        for k, (x, op, z) in enumerate(CROSSED):
            (left, no), (right, nor) = overflows(x, names), overflows(z, names)
            want = eval(f"left {op} right")  # pylint: disable=eval-used
            wrong = (y[k] != want) & ~np.broadcast_to(no | nor, (8, 8))
            bad += int(wrong.sum())
            if wrong.any():
                print(f"{flags}: {x} {op} {z}, w={w}: {int(wrong.sum())} elements wrong")
    return bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    cases, (a, b), bad, judged = pairs(), data(), 0, 0
    n = np.arange(len(a), dtype=np.int64)
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)  # noqa: E731
        for t, target in enumerate(TARGETS):
            for flags in [["-arch", target], ["-arch", target, "-O0"]][:1 if t % 2 else 2]:
                bad += masked(options, at, flags) + apart(options, at, flags) + crossed(options, at, flags)
                for i, k in enumerate(SCALARS[t % 3::3]):
                    j = SCALARS[(5 * i + t) % len(SCALARS)]
                    names = {"a": a, "b": b, "n": n, "k": np.int64(k), "j": np.int64(j)}
                    y, z = run(options, at, "compare", source(cases), flags, {"A": a, "B": b, "R": len(cases), "k": k, "j": j},
                               ["Y", "Z"])
                    for row, (x, op, w) in enumerate(cases):
                        (left, no), (right, nor) = overflows(x, names), overflows(w, names)
                        want = np.broadcast_to(eval(f"left {op} right"), a.shape)  # pylint: disable=eval-used
                        for what in [y, z] if not set("abn") & set(x + w) else [y]:
                            wrong = (what[row] != want) & ~np.broadcast_to(no | nor, a.shape)
                            judged += wrong.size
                            bad += int(wrong.sum())
                            if wrong.any():
                                at_ = int(np.argmax(wrong))
                                print(f"{flags}: {x} {op} {w}, a={a[at_]} b={b[at_]} k={k} j={j} n={at_}: {want[at_]} is wanted")
    print(f"{judged} comparisons, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
