#!/usr/bin/env python3
"""scores.py - softmax of scores of any size: each row has a mask of its own, of what kernels add to hide keys.

    scores.py --tilec T --tilerun R [--arch sm_90,sm_80] [--device gpu] [--all] [--every N] [--planted]

scores.tile in the simulator (or on a GPU), and row_softmax.tile and attention.tile of the examples, against NumPy: the rows'
masks are added to the first keys, the last, most or all, and reach from -1e4 to the lowest number, and up to 1e30; logits of
attention.tile are up to 1e35, times scales from 1e-30 to 1e4.  Each row is a case; --all has over 2,000 of attention alone.
--planted: what is not to become one multiply-add is left to the assembler, and some of it must be seen to be wrong.
"""
import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
LOWEST = float(np.finfo(np.float32).min)
ADDED = [-1e4, -1e6, -1e8, -2.6e8, -2.7e8, -1e9, -1e10, -1e30, -65504.0, -3.3895314e38, LOWEST, 1e9, 1e30, 3.3e7, 0.0]
OVERFLOWS = 2e38  # times log2(e): what is written so is infinite
KINDS = ["first", "last", "most", "all"]
C = np.float32(1.4426950408889634)
WAYS = range(7)


def to_bits(x, dtype):
    if dtype == "f16":
        return x.astype(np.float16)
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bits(x, dtype):
    return x.astype(np.float32) if dtype == "f16" else (x.astype(np.uint32) << 16).view(np.float32)


def bias(rows, keys, draw, most=np.inf):
    out = np.zeros((rows, keys), np.float32)
    for i in range(rows):
        value, kind = max(ADDED[i % len(ADDED)], -most), KINDS[i // len(ADDED) % len(KINDS)]
        where = {"first": slice(0, 64), "last": slice(64, keys), "all": slice(0, keys),
                 "most": draw.random(keys) < 0.95}[kind]
        out[i, where] = value
    return out


def expected(s, v, way, twice):
    """O and L of scores in f32, by what each way of writing it means in f32; where a product and a sum may be rounded
    once or twice, either."""
    wide = s.astype(np.float64)
    m = s.max(axis=1, keepdims=True)
    if way in (0, 1, 2, 6):
        x = (wide - m) * 1.4426950408889634
    else:
        x = (s * C).astype(np.float64) - (m * C)
    p = np.exp2(x)
    total = p.sum(axis=1, keepdims=True)
    if way == 6:
        lse = m * C + np.log2(total).astype(np.float32) if twice else (m.astype(np.float64) * C + np.log2(total)).astype(np.float32)
        p, total = np.exp2((s * C).astype(np.float64) - lse), np.ones_like(total)
    return p / total @ v, wide.max(axis=1) + np.log(np.exp2(x).sum(axis=1))


def run(options, arguments, folder, tensors, outputs):
    given = []
    for name, x in tensors.items():
        np.save(f"{folder}/{name}.npy", x)
        given += ["--in", f"{name}={folder}/{name}.npy"]
    for name in outputs:
        given += ["--out", f"{name}={folder}/{name}.out.npy"]
    done = subprocess.run([options.tilerun, f"{folder}/k.ptx", "--device", options.device, *arguments, *given],
                          capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip() or "failed"
    return [np.load(f"{folder}/{name}.out.npy") for name in outputs]


def compiled(options, source, folder, arguments):
    done = subprocess.run([options.tilec, source, *arguments, "-o", f"{folder}/k.ptx"], capture_output=True, text=True)
    if options.planted:
        with open(f"{folder}/k.ptx", encoding="utf-8") as file:
            text = re.sub(r"\b(add|sub)\.rn\.f32\b", r"\1.f32", file.read())
        with open(f"{folder}/k.ptx", "w", encoding="utf-8") as file:
            file.write(text)
    return done.stderr.strip() or "failed" if done.returncode else ""


def attention(options, folder, arch, dtype, way, level, sizes):
    draw = np.random.default_rng(way)
    rows, keys, d = 61, 192, 64
    q, k, v = (to_bits(draw.standard_normal((n, d)), dtype) for n in (rows, keys, keys))
    added = bias(rows, keys, draw, np.inf if way < 2 else OVERFLOWS)
    wrong = compiled(options, f"{HERE}/scores.tile", folder,
                     ["-arch", arch, level, "-D", f"T={dtype}", "-D", f"WAY={way}", *sizes])
    if wrong:
        return wrong
    got = run(options, ["--set", "scale=0.125"], folder, {"Q": q, "K": k, "V": v, "Bias": added}, ["O", "L"])
    if isinstance(got, str):
        return got
    q, k, v = (from_bits(x, dtype).astype(np.float64) for x in (q, k, v))
    s, bad = ((q @ k.T) * 0.125).astype(np.float32) + added, True
    for twice in (False, True):
        with np.errstate(all="ignore"):
            o, lse = expected(s, v, way, twice)
        error = np.abs(from_bits(got[0], dtype) - o).max(axis=1) / (1 + np.abs(o).max(axis=1))
        off = np.abs(got[1] - lse) / (1 + np.abs(lse))
        bad = bad & (~(error < 0.02) | ~(off < 1e-5))
    return "" if not bad.any() else (f"row {bad.argmax()}, of {ADDED[bad.argmax() % len(ADDED)]}: O {error[bad.argmax()]}, "
                                     f"L {off[bad.argmax()]}; {bad.sum()} rows")


def rows_of_softmax(options, folder, arch, level):
    draw = np.random.default_rng(1)
    x = draw.standard_normal((61, 300)).astype(np.float32) + bias(61, 300, draw)
    wrong = compiled(options, f"{HERE}/../../examples/row_softmax.tile", folder, ["-arch", arch, level])
    if wrong:
        return wrong
    got = run(options, [], folder, {"X": x}, ["Y"])
    if isinstance(got, str):
        return got
    p = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    error = np.abs(got[0] - p / p.sum(axis=1, keepdims=True)).max(axis=1)
    return "" if (error < 1e-4).all() else f"rows {np.flatnonzero(~(error < 1e-4))}: off by {error.max()}"


MAGNITUDES = [0.0, 1e-38, 1e-3, 1.0, 30.0, 1e3, 3e4, 1e6, 4e7, 3e8, 1e10, 1e20, 1e30, 1e35]


def logits(options, folder, arch, dtype, d, scale, causal, lazy):
    """attention.tile: a row of Q has one element, so that the scores are exact, and of any size."""
    draw = np.random.default_rng(d)
    rows, keys = 70, 150
    most = 6e4 if dtype == "f16" else np.inf
    q, k, v = np.zeros((1, rows, 1, d)), draw.standard_normal((1, keys, 1, d)), draw.standard_normal((1, keys, 1, d))
    for i in range(rows):
        q[0, i, 0, i % d] = min(MAGNITUDES[i % len(MAGNITUDES)], most)
    q, k, v = (to_bits(x, dtype) for x in (q, k, v))
    wrong = compiled(options, f"{HERE}/../../examples/attention.tile", folder,
                     ["-arch", arch, "-D", f"T={dtype}", "-D", f"D={d}", "-D", f"CAUSAL={causal}", "-D", f"LAZY={lazy}"])
    if wrong:
        return rows, wrong
    got = run(options, ["--set", f"scale={scale}", "--set", "softcap=1"], folder, {"Q": q, "K": k, "V": v}, ["O", "L"])
    if isinstance(got, str):
        return rows, got
    q, k, v = (from_bits(x, dtype).astype(np.float64)[0, :, 0] for x in (q, k, v))
    with np.errstate(all="ignore"):
        s = (q @ k.T).astype(np.float32).astype(np.float64) * float(np.float32(scale))
        if causal == "true":
            s[np.arange(keys)[None, :] > np.arange(rows)[:, None] + keys - rows] = -np.inf
        m = s.max(axis=1, keepdims=True)
        p = np.exp(s - m)
        o, lse = p / p.sum(axis=1, keepdims=True) @ v, m[:, 0] + np.log(p.sum(axis=1))
        error = np.abs(from_bits(got[0], dtype)[0, :, 0] - o).max(axis=1) / (1 + np.abs(o).max(axis=1))
        off = np.abs(got[1][0, 0] - lse) / (1 + np.abs(lse))
    bad = ~(error < 0.02) | ~((off < 1e-5) | (np.abs(lse) > 3e38))
    return rows, "" if not bad.any() else (f"row {bad.argmax()}, of {MAGNITUDES[bad.argmax() % len(MAGNITUDES)]}: "
                                           f"O {error[bad.argmax()]}, L {off[bad.argmax()]}; {bad.sum()} rows")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--arch", default="sm_80,sm_90,sm_100")
    parser.add_argument("--device", default="sim")
    parser.add_argument("--all", action="store_true", help="every form of attention.tile, not one in four")
    parser.add_argument("--every", type=int, default=1, help="only every n-th kernel, others on each target")
    parser.add_argument("--planted", action="store_true")
    options = parser.parse_args()
    failed = count = cases = 0
    turn = itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        for at, arch in enumerate(options.arch.split(",")):
            def chosen():
                return (next(turn) + at) % options.every == 0
            for dtype, way, (level, *sizes) in itertools.product(
                    ("bf16", "f16"), WAYS, [["-O3"], ["-O0"], ["-O3", "-D", "M=128", "-D", "N=32"]]):
                if not chosen():
                    continue
                wrong = attention(options, folder, arch, dtype, way, level, sizes)
                count += 1
                failed += wrong != ""
                if wrong:
                    print(f"{arch} {dtype} WAY={way} {level} {' '.join(sizes)}: {wrong}")
            forms = itertools.product(("bf16", "f16"), (64, 128), (0.125, 1e-30, 1.0, 1e4), ("false", "true"), ("true", "false"))
            for at_form, (dtype, d, scale, causal, lazy) in enumerate(forms):
                if (not options.all and at_form % 4 != at_form // 4 % 4) or options.planted or not chosen():
                    continue
                n, wrong = logits(options, folder, arch, dtype, d, scale, causal, lazy)
                count += 1
                cases += n
                failed += wrong != ""
                if wrong:
                    print(f"{arch} attention {dtype} D={d} scale={scale} CAUSAL={causal} LAZY={lazy}: {wrong}")
            for level in ("-O3", "-O0"):
                wrong = rows_of_softmax(options, folder, arch, level)
                count += 1
                failed += wrong != ""
                if wrong:
                    print(f"{arch} row_softmax {level}: {wrong}")
    print(f"{count} kernels, {cases} rows of attention.tile, {failed} wrong")
    return (failed == 0) == options.planted


if __name__ == "__main__":
    sys.exit(main())
