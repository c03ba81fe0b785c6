"""cases.py - the grid of attention cases, and the compiled variants that they need.

    python3 tests/gpu/cases.py --variants [--wide]   # NAME SOURCE DEFINES.., one line a file to compile
    python3 tests/gpu/cases.py --count [--wide]      # cases in each group

The grid is the same everywhere.  The wide one goes on behind it: a softcap as FlashAttention's tests have
it, sizes, strides and magnitudes drawn for the variants that there are, each case from its own
number (DRAWN_SEED), and logits and biases at the limits of f32.  grid.py runs them.
"""

import argparse
import random
from collections import Counter, namedtuple

SOURCES = {"fwd": "examples/attention.tile", "bwd": "examples/attention_bwd.tile",
           "dec": "examples/attention_decode.tile", "bias": "tests/run/scores.tile"}
DRAWN_SEED = 20261123
DRAWN, DRAWN_DECODE = 2300, 640
LIMITS, BIASES = 1200, 800

# What is fixed when a kernel is compiled.  window: (left, right), keys to each side, -1: no limit.
Variant = namedtuple("Variant", "dtype d dv causal window softcap alibi")
Decode = namedtuple("Decode", Variant._fields + ("group", "padded"))  # attention_decode.tile's G and GP

Bias = namedtuple("Bias", Variant._fields + ("way",))  # scores.tile: how its softmax is written

# layout: bshd, bhsd, sbhd, padded (rows and heads with space between them), slice (of a buffer that is larger on
# all sides), mixed (each tensor another one), qkv (one tensor [B,S,3,H,D]), shared (K and V are the same memory for
# all of the batch: stride 0), one-head (for all heads)
# cap: of the softcap; sizes: of Q, V and dO; rule: what grid.py allows; splits: of a decode, 0: one kernel; top: the largest
# logits before the scale; scale: 0: as is usual
Case = namedtuple("Case", "group variant batch hq hk sq sk layout cap sizes rule splits top scale",
                  defaults=(2.0, (1, 1, 1), "plain", 0, 0.0, 0.0))


def defines(variant):
    """The -D options of a variant."""
    left, right = variant.window
    options = [f"T={variant.dtype}", f"D={variant.d}", f"DV={variant.dv}"]
    if isinstance(variant, Bias):
        return options[:2] + [f"WAY={variant.way}"]
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
    if isinstance(variant, Decode):
        options = [o for o in options if o != "CAUSAL=true"] + [f"CAUSAL={str(variant.causal).lower()}"]
        options += [f"G={variant.group}", f"GP={variant.padded}"]
    return options


def variant_name(variant, direction):
    parts = [direction, variant.dtype, f"d{variant.d}"]
    if variant.dv != variant.d:
        parts.append(f"dv{variant.dv}")
    left, right = variant.window
    parts += ["causal"] * variant.causal
    parts += [f"left{left}"] * (left >= 0) + [f"right{right}"] * (right >= 0)
    parts += ["softcap"] * variant.softcap + ["alibi"] * variant.alibi
    if isinstance(variant, Bias):
        parts.append(f"way{variant.way}")
    if isinstance(variant, Decode):
        parts += [f"g{variant.group}"] + [f"of{variant.padded}"] * (variant.padded != variant.group)
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


# ---- the wide grid -----------------------------------------------------------------------------

RAGGED = [1, 2, 3, 7, 16, 17, 31, 33, 48, 63, 64, 65, 80, 96, 100, 113, 127, 128, 129, 160, 191, 192, 200, 217, 255, 256,
          257, 300, 333, 384, 511, 513]
HEADS = [(1, 1), (2, 1), (4, 4), (6, 2), (6, 3), (8, 1), (8, 2), (5, 5), (12, 4), (3, 3)]
LAYOUTS = ["bshd", "bhsd", "sbhd", "padded", "slice", "mixed", "qkv", "shared", "one-head"]
CAPPED = [(1, 1), (2, 1), (100, 1), (300, 2), (239, 3), (64, 128), (128, 200), (256, 256), (113, 203), (129, 65),
          (108, 256), (250, 500), (384, 250), (640, 128), (512, 255), (1000, 1000), (1023, 1024)]


def capped_cases():
    """FlashAttention's rules, with queries as large as its tests have them: softcap 15 and 50 by the newer
    one, 50 and larger queries by the older one, which allows nothing but a multiple and is for sizes that
    are not small."""
    out, at = [], 0
    for dtype in ("bf16", "f16"):
        for d in (64, 128, 256):
            for causal, window in ((False, (-1, -1)), (True, (-1, -1)), (False, (40, 25))):
                variant = make(dtype, d, causal=causal, window=window, softcap=True)
                for sq, sk in CAPPED:
                    for cap, size, rule in ((15.0, 15 / 4, "fa3"), (50.0, 50 / 4, "fa3"), (50.0, 50, "fa2")):
                        if rule == "fa2" and min(sq, sk) < 100:
                            continue
                        at += 1
                        hk = (6, 2, 1)[at % 3]
                        out.append(Case("softcap rules", variant, 3, 6, hk, sq, sk, ("bshd", "bhsd")[at % 2], cap,
                                        (size, 1, 1), rule))
    return out


def drawn_case(number, variants):
    """Of each variant in turn."""
    draw = random.Random(f"{DRAWN_SEED} {number}")
    variant = variants[number % len(variants)]
    sq, sk = draw.choice(RAGGED), draw.choice(RAGGED)
    if draw.random() < 0.3:
        sk = sq
    if draw.random() < 0.1:
        sq, sk = draw.randrange(1, 400), draw.randrange(1, 400)
    (hq, hk), layout = draw.choice(HEADS), draw.choice(LAYOUTS)
    if layout == "qkv" and (variant.d != variant.dv or sq != sk):
        layout = "slice"
    if layout == "qkv":
        hk = hq
    sizes = tuple(draw.choice(of) for of in ((1, 1, 0.25, 4), (1, 1, 8, 1 / 16), (1, 1, 8, 1 / 16)))
    cap = draw.choice((2.0, 15.0, 50.0)) if variant.softcap else 2.0
    return Case("drawn", variant, draw.choice((1, 1, 2, 3)), hq, hk, sq, sk, layout, cap, sizes)


def decode_variants():
    out = []
    for dtype, d, group, padded in (("bf16", 128, 1, 1), ("bf16", 128, 4, 4), ("bf16", 128, 7, 8), ("f16", 128, 8, 8),
                                    ("f16", 64, 4, 4), ("bf16", 64, 16, 16), ("f16", 64, 3, 4), ("bf16", 256, 4, 4)):
        for causal, window in ((True, (-1, -1)), (False, (-1, -1)), (True, (99, -1))):
            if causal or group in (1, 4, 16):
                out.append(Decode(dtype, d, d, causal, window, False, False, group, padded))
    return out


def drawn_decode(number, variants):
    draw = random.Random(f"{DRAWN_SEED} decode {number}")
    variant = variants[number % len(variants)]
    hk = draw.choice((1, 2, 3, 4))
    sq, sk = draw.choice((1, 1, 1, 2, 3, 4, 7, 8, 17, 33)), draw.choice(RAGGED + [777, 1024, 2049])
    splits = draw.choice((1, 2, 3, 5, 8) if variant.padded != variant.group else (0, 0, 1, 2, 3, 5, 8))
    sizes = (draw.choice((1, 1, 0.25, 4)), draw.choice((1, 1, 8, 1 / 16)), 1)
    return Case("decode", variant, draw.choice((1, 1, 2, 3)), hk * variant.group, hk, sq, sk,
                draw.choice([n for n in LAYOUTS if n != "qkv"]), 2.0, sizes, "plain", splits)


# ---- the limits of f32 ----

SHORT = [n for n in RAGGED if n <= 200]
TOPS = [1e4, 1e4, 1e5, 1e6, 1e7, 1e7, 1e10, 1e20, 1e30, 1e35]
SCALES = [0.125, 0.125, 0.08838834764831845, 1.0, 1e4, 1e-4, 1e-30]


def limit_case(number):
    """Logits of any size: each row of Q has one element, so that scores are exact."""
    draw = random.Random(f"{DRAWN_SEED} limits {number}")
    dtype = ("bf16", "f16")[number % 2]
    variant = draw.choice([make(dtype, 64), make(dtype, 64, causal=True), make(dtype, 64, window=(16, 16)), make(dtype, 128),
                           make(dtype, 128, causal=True), make(dtype, 40, causal=True), make(dtype, 96)])
    hq, hk = draw.choice([(1, 1), (1, 1), (2, 1), (2, 2)])
    top = draw.choice(TOPS) if dtype == "bf16" else draw.choice(TOPS[:6])
    return Case("limits", variant, 1, hq, hk, draw.choice(SHORT), draw.choice(SHORT),
                draw.choice([n for n in LAYOUTS if n not in ("qkv", "shared", "one-head")]), rule="limits", top=top,
                scale=draw.choice(SCALES))


def bias_case(number):
    """A bias of padding masks, -1e4 to the lowest number, and some above zero, in each way to write a softmax."""
    draw = random.Random(f"{DRAWN_SEED} bias {number}")
    d = 128 if number % 7 == 0 else 64
    way = draw.choice((0, 1, 3) if d == 128 else range(6))
    variant = Bias(("bf16", "f16")[number % 2], d, d, False, (-1, -1), False, False, way)
    return Case("bias", variant, 1, 1, 1, draw.choice(SHORT), draw.choice(SHORT), "bshd", rule="limits", scale=0.125)


def wide_cases():
    every = cases() + capped_cases()
    variants = sorted({c.variant for c in every})
    every += [drawn_case(i, variants) for i in range(DRAWN)]
    of_decode = decode_variants()
    every += [drawn_decode(i, of_decode) for i in range(DRAWN_DECODE)]
    return every + [limit_case(i) for i in range(LIMITS)] + [bias_case(i) for i in range(BIASES)]


def directions_of(case):
    if isinstance(case.variant, Decode):
        return ("dec",)
    if isinstance(case.variant, Bias):
        return ("bias",)
    if case.rule == "limits":
        return ("fwd",)
    return ("fwd", "bwd", "det", "few") + (("split", "split-det") if case.hq != case.hk else ())


def sources_of(variant, direction):
    """Whether a variant is one of this direction's source."""
    kind = {"dec": Decode, "bias": Bias}.get(direction, Variant)
    return type(variant) is kind


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("--group", action="append", default=[], help="only these groups")
    parser.add_argument("--direction", action="append", default=[], choices=list(SOURCES))
    options = parser.parse_args()
    chosen = [c for c in (wide_cases() if options.wide else cases())
              if not options.group or c.group in options.group]
    if options.variants:
        for direction in options.direction or SOURCES:
            of = {c.variant for c in chosen if sources_of(c.variant, direction)}
            for variant in sorted(of):
                print(variant_name(variant, direction), SOURCES[direction], *defines(variant))
    if options.count:
        for group, n in Counter(c.group for c in chosen).items():
            print(f"{group:<14} {n}")
        runs = sum(len(directions_of(c)) for c in chosen)
        print(f"{'all':<14} {len(chosen)}, {runs} with both backwards, {len({c.variant for c in chosen})} variants")


if __name__ == "__main__":
    main()
