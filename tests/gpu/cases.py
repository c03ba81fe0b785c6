"""cases.py - the grid of attention cases, and the compiled variants that they need.

    python3 tests/gpu/cases.py --variants      # NAME SOURCE DEFINES.., one line a file to compile
    python3 tests/gpu/cases.py --count         # cases in each group

The grid is the same everywhere: nothing here is drawn at random.  grid.py runs it.
"""

import argparse
from collections import Counter, namedtuple

SOURCES = {"fwd": "examples/attention.tile", "bwd": "examples/attention_bwd.tile"}

# What is fixed when a kernel is compiled.  window: (left, right), keys to each side, -1: no limit.
Variant = namedtuple("Variant", "dtype d dv causal window softcap alibi")

# layout: bshd, bhsd, padded (rows and heads with space between them), qkv (one tensor [B,S,3,H,D])
Case = namedtuple("Case", "group variant batch hq hk sq sk layout")


def defines(variant):
    """The -D options of a variant."""
    left, right = variant.window
    options = [f"T={variant.dtype}", f"D={variant.d}", f"DV={variant.dv}"]
    if variant.causal:
        options.append("CAUSAL=true")
    if left >= 0:
        options.append(f"WINDOW={left + 1}")  # counts the key on the diagonal
    if right >= 0:
        options.append(f"RIGHT={right}")
    if variant.softcap:
        options.append("SOFTCAP=true")
    if variant.alibi:
        options.append("ALIBI=true")
    return options


def variant_name(variant, direction):
    parts = [direction, variant.dtype, f"d{variant.d}"]
    if variant.dv != variant.d:
        parts.append(f"dv{variant.dv}")
    left, right = variant.window
    parts += ["causal"] * variant.causal
    parts += [f"left{left}"] * (left >= 0) + [f"right{right}"] * (right >= 0)
    parts += ["softcap"] * variant.softcap + ["alibi"] * variant.alibi
    return "-".join(parts)


def make(dtype="bf16", d=128, dv=None, causal=False, window=(-1, -1), softcap=False, alibi=False):
    return Variant(dtype, d, dv or d, causal, window, softcap, alibi)


LENGTHS = [(1, 1), (1, 7), (1, 513), (2, 2), (3, 17), (7, 1), (8, 8), (15, 16), (16, 15), (17, 33),
           (31, 64), (63, 63), (64, 64), (65, 65), (100, 100), (113, 203), (127, 127), (128, 128),
           (129, 129), (128, 217), (192, 191), (200, 72), (255, 257), (256, 256), (300, 511),
           (384, 384), (513, 511), (777, 777), (1023, 1024), (1024, 1023), (1025, 640), (1, 2048)]


def cases():
    out = []

    def add(group, variant, sq, sk, hq=4, hk=None, batch=2, layout="bshd"):
        out.append(Case(group, variant, batch, hq, hk or hq, sq, sk, layout))

    # every head dim, both types, causal or not; the length changes from one to the next
    ragged = [(113, 203), (127, 255), (65, 190), (256, 256), (33, 129), (191, 130)]
    at = 0
    for d in range(8, 257, 8):
        for dtype in ("bf16", "f16"):
            for causal in (False, True):
                sq, sk = ragged[at % len(ragged)]
                at += 1
                add("head dim", make(dtype, d, causal=causal), sq, sk)

    # lengths from 1 up
    for d in (64, 128):
        for causal in (False, True):
            for i, (sq, sk) in enumerate(LENGTHS):
                add("length", make("bf16" if i % 2 else "f16", d, causal=causal), sq, sk)

    # masks
    for d in (64, 128):
        for window in ((16, 16), (63, 0), (100, -1), (-1, 40), (0, 0), (127, 128)):
            for sq, sk in ((128, 128), (217, 217), (130, 300), (300, 130)):
                add("window", make("bf16", d, window=window), sq, sk)
        for sq, sk in ((128, 128), (217, 300), (511, 511)):
            add("window", make("bf16", d, causal=True, window=(64, -1)), sq, sk)
        for causal in (False, True):
            for sq, sk in ((128, 128), (113, 203), (255, 511)):
                add("softcap", make("bf16", d, causal=causal, softcap=True), sq, sk)
                add("alibi", make("f16", d, causal=causal, alibi=True), sq, sk)

    # groups of heads
    for hq, hk in ((6, 3), (6, 2), (8, 1), (4, 1), (12, 4), (1, 1)):
        for causal in (False, True):
            for d in (64, 128):
                add("gqa", make("bf16", d, causal=causal), 130, 200, hq=hq, hk=hk)

    # storage
    for layout in ("bhsd", "padded", "qkv"):
        for d in (40, 64, 96, 128, 256):
            for causal in (False, True):
                add("strides", make("bf16", d, causal=causal), 130, 130, hq=6,
                    hk=6 if layout == "qkv" else 3, layout=layout)

    # DV other than D
    for d, dv in ((192, 128), (64, 128), (128, 64), (96, 40), (256, 64), (24, 200)):
        for causal in (False, True):
            for sq, sk in ((128, 128), (113, 203)):
                add("dv", make("bf16", d, dv, causal=causal), sq, sk)

    # rows that see no key
    for d in (64, 128):
        for sq, sk in ((200, 1), (129, 64), (64, 63), (300, 7), (257, 129)):
            add("empty rows", make("bf16", d, causal=True), sq, sk)
        for sq, sk in ((300, 64), (64, 300)):
            add("empty rows", make("bf16", d, window=(16, 16)), sq, sk)

    # long ones
    for d in (64, 128):
        for causal in (False, True):
            for sq, sk in ((2048, 2048), (4096, 4000)):
                add("long", make("bf16", d, causal=causal), sq, sk, hq=2, batch=1)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--group", action="append", default=[], help="only these groups")
    parser.add_argument("--direction", action="append", default=[], choices=list(SOURCES))
    options = parser.parse_args()
    chosen = [c for c in cases() if not options.group or c.group in options.group]
    if options.variants:
        for direction in options.direction or SOURCES:
            for variant in sorted({c.variant for c in chosen}):
                print(variant_name(variant, direction), SOURCES[direction], *defines(variant))
    if options.count:
        for group, n in Counter(c.group for c in chosen).items():
            print(f"{group:<12} {n}")
        print(f"{'all':<12} {len(chosen)}, {len({c.variant for c in chosen})} variants")


if __name__ == "__main__":
    main()
