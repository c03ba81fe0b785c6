#!/usr/bin/env python3
"""interpret_ops.py - every operator, function and conversion of the reference interpreter, for every
element type, against NumPy.

    interpret_ops.py --tilec T

16-bit results must be the same bits, i32 and bool the same; f32 results are those of float64, rounded.
Elements are random, with zeros, ties, infinities and the largest and smallest numbers among them.
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import interpret  # noqa: E402
import ladder  # noqa: E402

N = 200
LARGEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38}


def samples(dtype, seed):
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, N).astype(bool)
    if dtype == "i32":
        x = random.integers(-1000, 1000, N)
        x[:8] = [0, 1, -1, 7, -7, 2 ** 15, -2 ** 15, 31]
        return x.astype(np.int64)
    x = random.standard_normal(N) * 2.0 ** random.integers(-8, 9, N)
    x[:9] = [0, -0.0, 1, -1, np.inf, -np.inf, LARGEST[dtype], 0.5, 2.5]
    return ladder.rounded(random.permutation(x), dtype)


def stored(x, dtype):
    if dtype == "bool":
        return np.asarray(x, dtype=bool)
    if dtype == "i32":
        return np.asarray(x, dtype=np.int32)
    return ladder.to_bits(x, dtype)


def held(x, dtype):
    """A float64 result as the type holds it: through f32, infinite past its largest."""
    with np.errstate(over="ignore", invalid="ignore"):
        x = np.asarray(x, dtype=np.float32)
        return ladder.rounded(np.where(np.isnan(x), np.nan, x), dtype) if dtype != "f32" else x.astype(np.float64)


def truncated(x, y, rest):
    quotient = np.abs(x) // np.abs(y) * np.sign(x) * np.sign(y)
    return x - y * quotient if rest else quotient


FLOATS = {
    "x + y": lambda x, y: x + y, "x - y": lambda x, y: x - y, "x * y": lambda x, y: x * y,
    "x / y": lambda x, y: x / y, "max(x, y)": np.fmax, "min(x, y)": np.fmin, "-x": lambda x, y: -x,
    "abs(x)": lambda x, y: np.abs(x), "exp(x)": lambda x, y: np.exp(x), "exp2(x)": lambda x, y: np.exp2(x),
    "log(abs(x))": lambda x, y: np.log(np.abs(x)), "log2(abs(x))": lambda x, y: np.log2(np.abs(x)),
    "fma(x, y, x)": lambda x, y: x * y + x, "fma(x, 2, 0.5)": lambda x, y: x * 2 + 0.5,
    "sqrt(abs(x))": lambda x, y: np.sqrt(np.abs(x)), "rsqrt(abs(x))": lambda x, y: 1 / np.sqrt(np.abs(x)),
    "rcp(x)": lambda x, y: 1 / x, "tanh(x)": lambda x, y: np.tanh(x), "sin(x)": lambda x, y: np.sin(x),
    "cos(x)": lambda x, y: np.cos(x), "floor(x)": lambda x, y: np.floor(x), "round(x)": lambda x, y: np.rint(x),
    "where(x < y, x, y)": lambda x, y: np.where(x < y, x, y), "mask(x, x > y)": lambda x, y: np.where(x > y, x, -np.inf),
    "x * 3 + 1": None, "where(x > 0.1, 0.1, x)": None,
}
INTEGERS = {
    "x + y": lambda x, y: x + y, "x - y": lambda x, y: x - y, "x * y": lambda x, y: x * y,
    "x / (y * 2 + 1)": lambda x, y: truncated(x, y * 2 + 1, False),
    "x % (y * 2 + 1)": lambda x, y: truncated(x, y * 2 + 1, True),
    "max(x, y)": np.maximum, "min(x, y)": np.minimum, "-x": lambda x, y: -x, "abs(x)": lambda x, y: np.abs(x),
    "x & y": lambda x, y: x & y, "x | y": lambda x, y: x | y, "x ^ y": lambda x, y: x ^ y,
    "x << 3": lambda x, y: x << 3, "x >> 3": lambda x, y: x >> 3, "x >> (abs(y) % 32)": lambda x, y: x >> (np.abs(y) % 32),
    "where(x < y, x, y)": lambda x, y: np.where(x < y, x, y),
    "cdiv(abs(x), 7)": lambda x, y: -(-np.abs(x) // 7), "cdiv(9, abs(x) + 1)": lambda x, y: -(-9 // (np.abs(x) + 1)),
    "cdiv(abs(x), abs(y) + 1)": lambda x, y: -(-np.abs(x) // (np.abs(y) + 1)),
}
BOOLS = {"x && y": np.logical_and, "x || y": np.logical_or, "!x": lambda x, y: ~x, "x & y": np.logical_and,
         "x | y": np.logical_or, "x ^ y": np.logical_xor, "x == y": np.equal, "x != y": np.not_equal}
COMPARED = {"x == y": np.equal, "x != y": np.not_equal, "x < y": np.less, "x <= y": np.less_equal,
            "x > y": np.greater, "x >= y": np.greater_equal}


def operations(dtype):
    if dtype == "bool":
        return BOOLS
    if dtype == "i32":
        return INTEGERS
    floats = dict(FLOATS)
    floats["x * 3 + 1"] = lambda x, y: held(x * 3, dtype) + 1
    tenth = float(ladder.rounded(np.array([0.1]), dtype)[0])
    floats["where(x > 0.1, 0.1, x)"] = lambda x, y: np.where(x > tenth, tenth, x)
    return floats


def table(tilec, folder, dtype, out, rows):
    """Evaluates the expressions of `rows`, each a row of the result."""
    lines = [f"kernel table(X: in {dtype}[N], Y: in {dtype}[N], Z: out {out}[R, N]) {{",
             "    grid n in tiles(N, 64);", "    let x = load X[n];", "    let y = load Y[n];"]
    lines += [f"    store Z[{k}, n] = {text};" for k, text in enumerate(rows)] + ["}"]
    path = os.path.join(folder, "table.tile")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    x, y = samples(dtype, 1), samples(dtype, 2)
    got, _ = interpret.interpret(tilec, path, folder, {}, {"X": stored(x, dtype), "Y": stored(y, dtype)},
                                 {"R": len(rows)}, ["Z"], ["--nan=ignore"])
    return x, y, got["Z"]


def same(have, want):
    """Also the sign of infinities; zeros of either sign are one."""
    return (have == want) | ((have != have) & (want != want))


def check_elementwise(tilec, folder):
    for dtype in ["f16", "bf16", "f32", "i32", "bool"]:
        rows = operations(dtype)
        x, y, got = table(tilec, folder, dtype, dtype, rows)
        for k, (text, function) in enumerate(rows.items()):
            with np.errstate(all="ignore"):
                want = function(x, y)
                if dtype in LARGEST:
                    want = held(want, dtype)
                have = ladder.from_bits(got[k], dtype) if dtype in LARGEST else got[k]
                bad = ~same(have, want)
                if dtype in LARGEST:  # libm and NumPy differ in the last bit of a double
                    bad &= ~(np.abs(have - want) <= 1e-7 * np.abs(want) if dtype == "f32" else np.zeros(N, bool))
            yield f"{dtype}: {text}", None if not bad.any() else \
                f"x = {x[bad][0]}, y = {y[bad][0]}: {have[bad][0]}, expected {np.asarray(want)[bad][0]}"
        if dtype == "bool":
            continue
        x, y, got = table(tilec, folder, dtype, "bool", COMPARED)
        for k, (text, function) in enumerate(COMPARED.items()):
            yield f"{dtype}: {text}", None if (got[k] == function(x, y)).all() else "is wrong"


def check_casts(tilec, folder):
    for dtype in ["f16", "bf16", "f32", "i32", "bool"]:
        for to in ["f16", "bf16", "f32", "i32"]:
            source = "x" if dtype in ("i32", "bool") or to != "i32" else "max(min(x, 16384.0), -16384.0)"
            x, _, got = table(tilec, folder, dtype, to, [f"({source}) as {to}"])
            if to == "i32":
                want = np.trunc(np.clip(x.astype(np.float64), -16384, 16384)) if dtype in LARGEST else x.astype(np.int64)
                have = got[0]
            else:
                want, have = held(x.astype(np.float64), to), ladder.from_bits(got[0], to)
            bad = ~same(have, want)
            yield f"{dtype} as {to}", None if not bad.any() else f"{x[bad][0]}: {have[bad][0]}, not {want[bad][0]}"


REDUCTIONS = {"sum": np.sum, "max": np.max, "min": np.min}


def check_reductions(tilec, folder):
    random = np.random.default_rng(5)
    for dtype in ["f16", "bf16", "f32", "i32"]:
        for shape in [(5, 7), (3, 4, 5), (2, 3, 2, 4)]:
            x = random.integers(-50, 50, shape) / (1 if dtype == "i32" else 8)
            names = ["i", "j", "k", "l"][:len(shape)]
            whole = ", ".join(f"iota({n})" for n in shape)
            dims = ", ".join(str(n) for n in shape)
            lines = [f"kernel reduce(X: in {dtype}[{dims}], "]
            stores, wants = [], {}
            for name, function in REDUCTIONS.items():
                for axis in range(-1, len(shape)):
                    out = f"{name.upper()}_{axis % len(shape)}{'m' if axis < 0 else ''}"
                    rest = [n for d, n in enumerate(shape) if d != axis % len(shape)]
                    lines[0] += f"{out}: out {dtype}[{', '.join(map(str, rest))}], "
                    stores.append(f"    store {out}[{', '.join(':' for _ in rest)}] = {name}(x, axis={axis});")
                    wants[out] = function(x, axis=axis)
                lines[0] += f"{name.upper()}: out {dtype}[1], "
                stores.append(f"    store {name.upper()}[0] = {name}(x);")
                wants[name.upper()] = np.array([function(x)])
            lines[0] = lines[0].rstrip(", ") + ") {"
            lines += ["    grid p in 1;", f"    let x = load X[{whole}];"] + stores + ["}"]
            path = os.path.join(folder, "reduce.tile")
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
            got, _ = interpret.interpret(tilec, path, folder, {}, {"X": stored(x, dtype)}, {}, list(wants))
            for name, want in wants.items():
                have = ladder.from_bits(got[name], dtype) if dtype != "i32" else got[name]
                want = held(want, dtype) if dtype != "i32" else want
                yield f"{dtype} {shape} {name} {names}", None if np.array_equal(have, want) else \
                    f"{have.ravel()[:4]}, expected {want.ravel()[:4]}"


if __name__ == "__main__":
    sys.exit(interpret.main([check_elementwise, check_casts, check_reductions]))
