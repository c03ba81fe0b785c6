#!/usr/bin/env python3
"""split.py - examples/attention_split.tile in the simulator against float64.

    split.py --tilec T --tilerun R [--part K/N] [--seeds N]

Both of its kernels, one after the other.  What is accepted: as in decode.py.
"""
import sys
import tempfile
from collections import namedtuple

import numpy as np

import attention
import decode
import ladder
from decode import tilec_torch

# packed: of the `group` query heads to a head of K and V, so many are rows of one tile; parts: X
Case = namedtuple("Case", "rows keys parts group packed kv_heads batch causal window right d dv dtype tile_keys lazy arch flags")
PLANS = [("sm_80", []), ("sm_90", []), ("sm_90", ["--plan=consumers=1,stages=2"]), ("sm_90", ["--plan=consumers=2,stages=2"]),
         ("sm_90", ["--plan=consumers=3,stages=2"]), ("sm_100", [])]


def make(rows, keys, parts, group=1, packed=None, kv_heads=1, batch=1, causal=False, window=0, right=-1, d=64, dv=None,
         dtype="bf16", tile_keys=64, lazy=True, arch="sm_90", flags=()):
    return Case(rows, keys, parts, group, packed or group, kv_heads, batch, causal, window, right, d, dv or d, dtype, tile_keys,
                lazy, arch, tuple(flags))


def cases():
    out = []
    for arch, flags in PLANS:
        each = lambda *a, **k: out.append(make(*a, arch=arch, flags=flags, **k))
        each(70, 300, 3, kv_heads=2)
        each(100, 200, 2, causal=True, batch=2)
        each(40, 260, 4, group=4, causal=True, kv_heads=2)
        each(33, 150, 5, group=6, packed=2)  # more parts than tiles of keys: some have none
    out += [make(90, 200, 3, causal=True, window=50, dtype="f16"), make(70, 200, 2, window=40, right=30),
            make(65, 30, 2, causal=True),  # rows with nothing to attend to
            make(1, 1, 1), make(130, 129, 7, group=3, packed=1, d=128, causal=True),
            make(64, 300, 4, d=256, group=2, tile_keys=80), make(50, 140, 2, d=192, dv=128, tile_keys=96, causal=True),
            make(70, 200, 3, d=80, lazy=False, causal=True), make(70, 260, 20, d=96, tile_keys=16)]
    for flags in [["-O0"], ["-fno-split-loops"], ["--plan=none"]]:
        out.append(make(70, 150, 2, group=2, causal=True, flags=flags))
    out += [make(40, 150, 2, group=2, causal=True, arch=arch) for arch in ("sm_86", "sm_89", "sm_120")]
    return out


def compile_case(options, case, folder):
    ptx = f"{folder}/split.ptx"
    command = [options.tilec, f"{ladder.ROOT}/examples/attention_split.tile", "-arch", case.arch, "-o", ptx, "--verify", *case.flags]
    for name, value in [("T", case.dtype), ("D", case.d), ("DV", case.dv), ("G", case.packed), ("N", case.tile_keys),
                        ("CAUSAL", str(case.causal).lower()), ("WINDOW", case.window), ("RIGHT", case.right),
                        ("LAZY", str(case.lazy).lower())]:
        command += ["-D", f"{name}={value}"]
    attention.call(command)
    return ptx


def run(options, case, folder):
    random = np.random.default_rng(5)
    draw = lambda *size: ladder.rounded(random.standard_normal((case.batch, *size)), case.dtype)
    heads = case.kv_heads * case.group
    q, k, v = draw(case.rows, heads, case.d), draw(case.keys, case.kv_heads, case.d), draw(case.keys, case.kv_heads, case.dv)
    scale = float(np.float32(case.d ** -0.5))
    whole = attention.make(case.rows, case.keys, case.dtype, case.d, case.dv, heads, case.kv_heads, case.causal, case.window,
                           right=case.right)
    exact, plain = ([attention.reference(whole, *x, np.zeros_like(x[0][..., :1]) * np.ones(case.dv), scale, e)
                     for x in zip(q, k, v)] for e in (True, False))
    ptx = compile_case(options, case, folder)
    have = {n: ladder.to_bits(x, case.dtype) for n, x in [("Q", q), ("K", k), ("V", v)]}
    parts = decode.kernel(options, folder, ptx, "attention_split", have, ["O_part", "L_part"], {"scale": scale, "X": case.parts})
    found = decode.kernel(options, folder, ptx, "attention_split_combine", parts, ["O", "L"], {})
    decode.compare(found, exact, plain, case.dtype)


# batch, heads, queries, keys: as many parts as an H200 took the least time with, or at most 8 % more; 1: one kernel was quicker
ESTIMATED = [(1, 8, 128, 4096, 5, 12), (1, 8, 192, 32768, 7, 16), (11, 9, 128, 1151, 1, 1), (2, 16, 256, 2048, 1, 1),
             (1, 16, 256, 512, 1, 1), (1, 4, 1024, 1024, 1, 1), (1, 16, 1024, 1024, 1, 1)]


def check_estimated(options):
    """How many programs share the keys by the compiler's estimates, for d 128 without a mask."""
    kernels = []
    with tempfile.TemporaryDirectory() as folder:
        for example in ("attention", "attention_split"):
            ptx = f"{folder}/{example}.ptx"
            attention.call([options.tilec, f"{ladder.ROOT}/examples/{example}.tile", "-arch", "sm_90", "--variants=auto", "-o", ptx])
            with open(ptx, encoding="utf-8") as file:
                kernels.append(tilec_torch.Kernel(None, tilec_torch.read_metadata(file.read())["kernels"][0]))
    whole, split = kernels
    found = []
    for batch, heads, rows, keys, least, most in ESTIMATED:
        env = {"B": batch, "Hq": heads, "Hk": heads, "Sq": rows, "Sk": keys, "sm_count": 132}
        clocks, parts = tilec_torch.least_parts(split, tilec_torch.COMBINE_OF_ROWS, env, 3, batch * heads * -(-rows // 64))
        parts = parts if clocks * tilec_torch.WORTH < whole.form(env).cost(env) else 1
        found.append((f"parts of {batch} x {heads} heads, {rows} x {keys}", parts, least, most))
    return decode.outside(found)


def main():
    parser = attention.arguments()
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    return attention.run_cases(options, cases(), run, called=str, failed=check_estimated(options))


if __name__ == "__main__":
    sys.exit(main())
