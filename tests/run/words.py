#!/usr/bin/env python3
"""words.py - u32 in the interpreter and in the simulator, beside NumPy: arithmetic of all pairs of extremes, by constants and by
values; loops, scalars, reductions and what goes along an axis, atomic statements, lists of places; casts from and to every type.

    words.py --tilec T --tilerun R
"""
import argparse
import math
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bytes as narrow  # noqa: E402
import float8_codes  # noqa: E402
import ladder  # noqa: E402

TARGETS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"]
EXTREMES = [0, 1, 2, 3, 7, 31, 32, 33, 255, 256, 0xFFFF, 0x10000, 2**24 - 1, 2**24 + 1, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1,
            0xD2511F53, 0x9E3779B9]
MASK = 2**32 - 1
BITS = {"f32": "u32", "f16": "i32", "bf16": "i32", "e4m3": "u8", "e5m2": "u8", "e8m0": "u8", "i8": "u8"}
# what is done with a and b, and what comes out
PAIRS = {"add": ("a + b", lambda a, b: a + b), "sub": ("a - b", lambda a, b: a - b), "mul": ("a * b", lambda a, b: a * b),
         "div": ("a / where(b == 0, 1, b)", lambda a, b: a // (b or 1)), "rem": ("a % where(b == 0, 1, b)", lambda a, b: a % (b or 1)),
         "and": ("a & b", lambda a, b: a & b), "or": ("a | b", lambda a, b: a | b), "xor": ("a ^ b", lambda a, b: a ^ b),
         "shl": ("a << (b & 31)", lambda a, b: a << (b & 31)), "shr": ("a >> (b & 31)", lambda a, b: a >> (b & 31)),
         "min": ("min(a, b)", min), "max": ("max(a, b)", max),
         "high": ("mulhi(a, b)", lambda a, b: a * b >> 32),
         # a shift to the left, the upper half of a product, and a product, are no indices, of which nothing overflows
         "mix": ("((((a << 5) + b) as i32 / 7) as u32) ^ (((a << 1) / 10) * 3) ^ (mulhi(a, 0xffffffff) as i32 / 7) as u32",
                 lambda a, b: (math.trunc(signed((a << 5) + b) / 7) & MASK) ^ (((a << 1) & MASK) // 10 * 3) ^ (math.trunc(signed(a * MASK >> 32) / 7) & MASK)),
         "one": ("(where(a < b, 1, 0) | where(a <= b, 2, 0) | where(a > b, 4, 0) | where(a >= b, 8, 0) | where(a == b, 16, 0) | "
                 "where(a != b, 32, 0)) as u32",
                 lambda a, b: (a < b) | (a <= b) << 1 | (a > b) << 2 | (a >= b) << 3 | (a == b) << 4 | (a != b) << 5)}
ONES = {"neg": ("-a", lambda a: -a), "abs": ("abs(a)", lambda a: a), "add": ("a + 0xffffffff", lambda a: a - 1),
        "from": ("0x80000000 - a", lambda a: 2**31 - a), "mul": ("a * 0x9E3779B9 + 5", lambda a: a * 0x9E3779B9 + 5),
        "div": ("a / 7 + a / 0x80000001", lambda a: a // 7 + a // 0x80000001), "half": ("(a << 1) / 6", lambda a: ((a << 1) & MASK) // 6),
        "rem": ("a % 10 + (a << 3) % 8", lambda a: a % 10), "shl": ("a << 31", lambda a: a << 31), "shr": ("a >> 31", lambda a: a >> 31),
        "rot": ("(a << 13) | (a >> 19)", lambda a: a << 13 | a >> 19), "cdiv": ("cdiv(a >> 1, 9)", lambda a: -(-(a >> 1) // 9)),
        "less": ("where(a < 0x80000000, 1, 0) as u32", lambda a: a < 2**31), "least": ("max(min(a, 0xfffffff0), 0x7fffffff)",
                                                                                      lambda a: max(min(a, 0xFFFFFFF0), 0x7FFFFFFF)),
        # constants beyond 2^31 are not positive as i32, which is what quotients by constants look at
        "pick": ("where(a < 100, 0xfffffffb as u32, 5) / 7", lambda a: (0xFFFFFFFB if a < 100 else 5) // 7),
        "ands": ("(a & 0xffffffff) / 9 + (a & 0xfffffff0) / 3", lambda a: a // 9 + (a & 0xFFFFFFF0) // 3),
        "shrs": ("(a >> 1) / 7 + ((a >> 1) << 1) / 7 + (a >> 31) / 3", lambda a: (a >> 1) // 7 + (a >> 1 << 1) // 7),
        "ends": ("min(a, 0xfffffffe) / 11 + max(a, 0x80000000) / 11", lambda a: min(a, 0xFFFFFFFE) // 11 + max(a, 2**31) // 11),
        "pow": ("((a & 0) + 1) << (a & 31)", lambda a: 1 << (a & 31)), "back": ("(a as i32) as u32", lambda a: a)}


def signed(x):
    return ((x + 2**31) & MASK) - 2**31


def outputs(rows, text):
    return ", ".join(f"{name.title()}: out u32[N]" for name in rows), "\n".join(
        f"    store {name.title()}[n] = {row[0]};" for name, row in rows.items())


def kernel(name, rows, taken):
    params, stores = outputs(rows, taken)
    loads = "\n".join(f"    let {t.lower()} = load {t}[n];" for t in taken)
    return (f"kernel {name}({', '.join(f'{t}: in u32[N]' for t in taken)}, {params})\n{{\n    grid n in tiles(N, 64);\n{loads}\n{stores}\n}}\n"
            f"kernel {name}_each({', '.join(f'{t}: in u32[N]' for t in taken)}, {params})\n{{\n    grid n in N;\n{loads}\n{stores}\n}}\n")


SOURCE = narrow.SOURCE + kernel("pairs", PAIRS, ["A", "B"]) + kernel("ones", ONES, ["A"]) + """
kernel along<A: int = 16, B: int = 32>(X: in u32[M, N], S: out u32[M], H: out u32[M], L: out u32[M], C: out u32[M, N], G: out u32[M, N],
    P: out i32[M], Q: out i32[M], T: out u32[M, 4], O: out u32[M, B])
{
    grid m in tiles(M, A);
    var total = zeros<u32>[A];
    var high = full<u32>[A](0);
    var low = full<u32>[A](0xffffffff);
    for n in tiles(N, B) {
        let x = load X[m, n];
        total += sum(x, axis = 1);
        high = max(high, max(x, axis = 1));
        low = min(low, min(x, axis = 1));
        store C[m, n] = cumsum(x, axis = 1);
        store G[m, n] = cummax(x, axis = 1, reverse = true);
    }
    store S[m] = total;
    store H[m] = high;
    store L[m] = low;
    for k in tiles(min(N, B), B) {
        let x = load X[m, k];
        store P[m] = argmax(x, axis = 1);
        store Q[m] = argmin(x, axis = 1);
        let (best, places) = top(x, 4, axis = 1);
        store T[m, iota(4)] = best;
        store O[m, iota(B)] = sort(x, axis = 1);
    }
}
kernel bits<T: type = f32, B: type = u32>(X: in T[N], Y: out B[N], Z: out T[N], W: out T[N, 4], V: out B[2, N])
{
    grid n in tiles(N, 64);
    let b = bits(load X[n]);
    store Y[n] = b;
    store Z[n] = bits(b, T);
    store W[n, iota(4)] = bits(bits(load X[n])[None, :].T, T);
    store V[0, n] = b;
    store V[1, n] = where(bits(b, T) as f32 < 1.0, b, 3);
}
kernel bits_each<T: type = f32, B: type = u32>(X: in T[N], Y: out B[N], Z: out T[N])
{
    grid n in N;
    store Y[n] = bits(load X[n]);
    store Z[n] = bits(bits(load X[n]), T);
}
kernel atomics(X: in u32[N], A: inout u32[4], H: inout u32[4], L: inout u32[4])
{
    grid n in tiles(N, 32);
    let x = load X[n];
    atomic_add A[0] += sum(x);
    atomic_max H[0] = max(x);
    atomic_min L[0] = min(x);
    atomic_add A[1] += 0x80000001;
}
fn step(x, y) { return (a = x.a * y.a, b = x.b * y.a + y.b); }
kernel recurs(A: in u32[M, N], B: in u32[M, N], Y: out u32[M, N])
{
    grid m in tiles(M, 16);
    for n in tiles(N, 64) { store Y[m, n] = scan(step, (a = load A[m, n], b = load B[m, n]), axis = 1).b; }
}
// a generator in a loop, a scalar, lists of places by a hash
kernel loops(X: in u32[N], T: in i32[64], Y: out u32[N], Z: out i32[N], seed: u32, rounds: i32)
{
    grid n in tiles(N, 32);
    var h = (load X[n]) ^ seed;
    var s = seed;
    for i in rounds {
        h = h * 1664525 + 1013904223;
        s = s * 1664525 + (i as u32);
        if s >= 0x80000000 { h ^= s; }
    }
    store Y[n] = h;
    store Z[n] = load T[(h % 64) as i32];
}
""".replace("h ^= s", "h = h ^ s")


class Tester(narrow.Tester):
    source = SOURCE

    def arithmetic(self, arch, flags):
        a, b = (x.reshape(-1) for x in np.meshgrid(np.array(EXTREMES, np.uint32), np.array(EXTREMES, np.uint32)))
        want = {name.title(): np.array([row[1](int(x), int(y)) & MASK for x, y in zip(a, b)], np.uint32) for name, row in PAIRS.items()}
        self.run(arch, flags, "pairs", {}, {"A": a, "B": b}, want)
        few = slice(None, None, 19)
        self.run(arch, flags, "pairs_each", {}, {"A": a[few], "B": b[few]}, {name: w[few] for name, w in want.items()})
        a = np.array([*EXTREMES, *range(40)], np.uint32)
        want = {name.title(): np.array([int(row[1](int(x))) & MASK for x in a], np.uint32) for name, row in ONES.items()}
        self.run(arch, flags, "ones", {}, {"A": a}, want)
        self.run(arch, flags, "ones_each", {}, {"A": a}, want)

    def axes(self, arch, flags, m, n, defines):
        draw = np.random.default_rng(m * n)
        x = draw.choice(np.array(EXTREMES, np.uint32), (m, n))
        tile = defines.get("B", 32)
        count = min(n, tile)
        first, parts = x[:, :count], [x[:, k:k + tile] for k in range(0, n, tile)]
        want = {"S": x.sum(axis=1, dtype=np.uint32), "H": x.max(axis=1), "L": x.min(axis=1),
                "C": np.concatenate([p.cumsum(axis=1, dtype=np.uint32) for p in parts], axis=1),
                "G": np.concatenate([np.maximum.accumulate(p[:, ::-1], axis=1)[:, ::-1] for p in parts], axis=1),
                "P": first.argmax(axis=1).astype(np.int32), "Q": first.argmin(axis=1).astype(np.int32),
                "T": np.sort(np.concatenate([first, np.zeros((m, 4), np.uint32)], axis=1), axis=1)[:, ::-1][:, :4],
                "O": np.concatenate([np.sort(first, axis=1), np.full((m, tile - count), MASK, np.uint32)], axis=1)}
        self.run(arch, flags, "along", defines, {"X": x}, want)

    def others(self, arch, flags):
        draw = np.random.default_rng(5)
        x = draw.integers(0, 2**32, 100, dtype=np.uint64).astype(np.uint32)
        start = np.array([MASK, 5, 0, 0], np.uint32)
        added, high, low = (start.copy() for _ in range(3))
        programs = -(-len(x) // 32)
        added[0] = (MASK + int(x.sum(dtype=np.uint64))) & MASK
        added[1] += np.uint32(programs * 0x80000001 & MASK)
        high[0], low[0] = max(MASK, x.max()), x.min()
        self.run(arch, flags, "atomics", {}, {"X": x, "A": start, "H": start, "L": start}, {"A": added, "H": high, "L": low})
        a, b = draw.integers(0, 2**32, (2, 20, 50), np.uint32)
        states = [b[:, 0]]
        for k in range(1, 50):
            states.append(states[-1] * a[:, k] + b[:, k])
        self.run(arch, flags, "recurs", {}, {"A": a, "B": b}, {"Y": np.stack(states, axis=1)})
        table = draw.permutation(64).astype(np.int32)
        for seed, rounds in [(0, 5), (2**32 - 1, 9), (2**31, 0)]:
            h, s = [int(v) ^ seed for v in x], seed
            for i in range(rounds):
                s = (s * 1664525 + i) & MASK
                h = [((v * 1664525 + 1013904223) & MASK) ^ (s if s >= 2**31 else 0) for v in h]
            want = {"Y": np.array(h, np.uint32), "Z": table[[v % 64 for v in h]]}
            self.run(arch, flags, "loops", {}, {"X": x, "T": table}, want, {"seed": seed, "rounds": rounds})


    @staticmethod
    def numbers_of(raw, type):
        if type == "e8m0":
            return np.where(raw == 255, np.nan, np.exp2(raw.astype(np.float64) - 127))
        if type in float8_codes.NUMBERS:
            return np.asarray(float8_codes.NUMBERS[type][raw], np.float64)
        return ladder.from_bits(raw, type) if type == "bf16" else raw.view({"f32": np.float32, "f16": np.float16, "i8": np.int8}[type]).astype(np.float64)

    def of_bits(self, arch, type, flags):
        """All codes that are no NaN; of f32, around powers of two and at random."""
        has, codes = BITS[type], np.arange(1 << (16 if BITS[type] == "i32" else 8))
        if type == "f32":
            codes = np.concatenate([np.random.default_rng(3).integers(0, 2**32, 500, np.uint32),
                                    *(np.uint32(e << 23) + np.array([0, 1, 0x7FFFFF], np.uint32) for e in (0, 1, 127, 128, 254))])
            codes = np.append(codes, np.uint32([0x7F800000, 0xFF800000, 0x80000000])).astype(np.uint32)
        array = {"i32": np.uint16, "u8": np.uint8, "u32": np.uint32}[has]
        raw = codes.astype(array)
        with np.errstate(invalid="ignore"):
            numbers = self.numbers_of(raw, type)
        if arch == "interpreter":  # where a number below 2^-126 may be zero
            numbers = np.where((np.abs(numbers) < 2.0**-126) & (numbers != 0), np.nan, numbers)
        keep = ~np.isnan(numbers)
        raw, numbers = raw[keep], numbers[keep]
        count = len(raw) // 2 * 2
        raw, numbers = raw[:count], numbers[:count]
        x = raw.view({"f32": np.float32, "f16": np.float16, "i8": np.int8}.get(type, array))
        b = raw.astype(narrow.ARRAY[has])
        want = {"Y": b, "Z": x, "W": np.repeat(x[:, None], 4, axis=1), "V": np.stack([b, np.where(numbers < 1, b, 3).astype(b.dtype)])}
        self.run(arch, flags, "bits", {"T": type, "B": has}, {"X": x}, want)
        few = slice(None, None, max(1, count // 60))
        self.run(arch, flags, "bits_each", {"T": type, "B": has}, {"X": x[few]}, {"Y": b[few], "Z": x[few]})


def nearest(values, to):
    with np.errstate(over="ignore"):
        wide = np.array(values, np.float64).astype(np.float32)
        return ladder.to_bits(wide, to)


def cast(values, source, to):
    """The rules: floats saturate and a NaN is 0, integers of 32 bits keep the bits, narrow ones saturate."""
    if to == "u32" and source in ("f32", "f16", "bf16"):
        return np.array([0 if math.isnan(v) else int(min(max(v, 0), MASK)) for v in values], np.uint32)
    if to == "u32":
        return np.array([v & MASK for v in values], np.uint32)
    if to == "i32":
        return np.array([signed(v) for v in values], np.int32)
    if to in narrow.ENDS:
        least, most = narrow.ENDS[to]
        return np.array([min(max(v, least), most) for v in values], narrow.ARRAY[to])
    return nearest(values, to)


def numbers(source):
    if source != "u32":
        return narrow.numbers(source)
    near = sorted({(s * 2**k + d) & MASK for k in range(33) for s in (1, 3) for d in (-1, 0, 1)} | set(range(300)))
    return near, np.array(near, np.uint32)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    tester = Tester(parser.parse_args())
    narrow.ARRAY["u32"] = np.uint32
    for arch in ["interpreter", *TARGETS]:
        for flags in [[], ["-O0"]] if arch in ("sm_80", "sm_90") else [[]]:
            tester.arithmetic(arch, flags)
            tester.others(arch, flags)
            for m, n, defines in [(16, 32, {}), (19, 45, {}), (1, 1, {}), (70, 130, {"A": 32, "B": 64})]:
                tester.axes(arch, flags, m, n, defines)
            for type in BITS:
                tester.of_bits(arch, type, flags)
        for other in narrow.ARRAY:
            if other == "u32" or arch in ("sm_86", "sm_103"):
                continue
            for source, to in [(other, "u32"), ("u32", other)]:
                if to == "bool":
                    continue
                values, array = numbers(source)
                tester.run(arch, [], "casts", {"FROM": source, "TO": to}, {"X": array}, {"Y": cast(values, source, to)})
    print(f"{tester.n} runs, {tester.bad} wrong")
    return 1 if tester.bad else 0


if __name__ == "__main__":
    sys.exit(main())
