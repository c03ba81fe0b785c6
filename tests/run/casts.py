#!/usr/bin/env python3
"""casts.py - casts of the narrow types: from each of them, all codes, to every type; and to them from f32, i32, u32 and bool, around each
boundary of rounding.

    casts.py --tilec T --tilerun R [--all]

The tables are those of float8_codes.py and packed_codes.py, written from the standards, and the rules of docs/language.md.  Casts from f16 and bf16,
all 65536 codes, are in bytes.py, float8.py, scales.py and packed.py.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import float8_codes  # noqa: E402
import ladder  # noqa: E402
import packed_codes  # noqa: E402
import scales  # noqa: E402

ARCHES = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"]
BYTES = {"i8": (-128, 127, np.int8), "u8": (0, 255, np.uint8)}
# the number of each code
TABLES = {**float8_codes.NUMBERS, **packed_codes.NUMBERS, "e8m0": scales.NUMBERS,
          **{name: np.arange(256).astype(np.uint8).view(array).astype(np.float64) for name, (_, _, array) in BYTES.items()}}
WIDE = {"f32": np.float32, "f16": np.float16, "bf16": None, "i32": np.int32, "u32": np.uint32, "bool": np.bool_}


def boundaries():
    """f32 at each number of a narrow type, each middle of two, each whole number near, and beside them; far ones."""
    some = []
    for table in TABLES.values():
        finite = np.unique(table[np.isfinite(table)])
        some += [finite, (finite[1:] + finite[:-1]) / 2, finite[[0, -1]] * 17 / 16, finite[[0, -1]] * 9 / 8, finite[[0, -1]] + 0.5]
    some += [np.arange(-131.0, 260), 2.0 ** np.arange(-149, 128), [7.5, 15.5, 16, 2.0**31, 2.0**32, 3e38, np.inf]]
    x = np.unique(np.concatenate(some).astype(np.float32))
    x = np.concatenate([x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(-np.inf))])
    return np.unique(np.concatenate([x, -x, [np.float32(np.nan)]]).astype(np.float32))


def numbers(source):
    """(as f64, the array)"""
    if source == "f32":
        x = boundaries()
    elif source == "i32":
        x = np.unique([s * v for k in range(31) for v in (2**k - 1, 2**k, 2**k + 1, 3 * 2**k // 2) for s in (-1, 1) if v < 2**31] + list(range(-300, 600)) + [-2**31]).astype(np.int32)
    elif source == "u32":
        x = np.unique([v for k in range(32) for v in (2**k - 1, 2**k, 2**k + 1)] + list(range(600)) + [2**32 - 1]).astype(np.uint32)
    elif source == "bool":
        x = np.array([False, True])
    else:
        codes = np.arange(len(TABLES[source]), dtype=np.uint8)
        return TABLES[source], packed_codes.pack(codes) if len(codes) == 16 else codes.view(BYTES[source][2]) if source in BYTES else codes
    return x.astype(np.float64), x


def wanted(x, source, to):
    """Codes, or numbers of a wide type.  Of what is wider than f32, the nearest f32 first."""
    if to == "u32":  # of floats cut and saturated, of integers the bits
        floats = source not in ("i8", "u8", "i4", "u4")
        return np.clip(np.nan_to_num(x, nan=0), 0, 2.0**32 - 1).astype(np.uint32) if floats else x.astype(np.int64).astype(np.uint32)
    if to in BYTES:
        low, high, array = BYTES[to]
        return np.clip(np.trunc(np.nan_to_num(x, nan=0, posinf=999, neginf=-999)), low, high).astype(array)
    if to in float8_codes.FORMS:
        return float8_codes.codes(x, to)
    if to in packed_codes.NUMBERS:
        return packed_codes.codes(x, to)
    if to == "e8m0":
        return scales.codes(x.astype(np.float32).astype(np.float64))
    with np.errstate(over="ignore"):
        return ladder.to_bits(x.astype(np.float32), to) if to in ("f32", "f16", "bf16") else np.trunc(x).astype(np.int64).astype(WIDE[to])


def may(x, source, to):
    """Which numbers have a cast that is no mistake: e2m1 has no NaN, an i32 neither that nor what it has no room for."""
    if to == "e2m1":
        return ~np.isnan(x)
    return (np.abs(np.nan_to_num(x, nan=np.inf)) < 2.0**31) if to == "i32" else np.ones(x.shape, bool)


def same(got, want, to):
    """What the bits of a NaN are is not said; signs of zeros are."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return np.zeros(want.shape, bool)
    if to == "bf16":
        return (got == want) | ((got & 0x7fff > 0x7f80) & (want & 0x7fff > 0x7f80))
    if got.dtype.kind == "f":
        return (np.isnan(got) & np.isnan(want)) | ((got == want) & (np.signbit(got) == np.signbit(want)))
    none = np.isnan(TABLES[to]) if to in float8_codes.FORMS else np.zeros(256, bool)
    return (got == want) | (none[got] & none[want] if none.any() else False)


def case(source):
    """(text, inputs, {output: (its type, codes that are wanted)})"""
    x, array = numbers(source)
    head, body, inputs, want = [], [], {}, {}
    for to in [*TABLES, *(WIDE if source in TABLES else [])]:
        if to in (source, "bool"):
            continue
        good = may(x, source, to)
        values = (x, array) if good.all() else (x[good], array[good])  # of packed types all have casts
        n = len(values[0])
        head += [f"X{to}: in {source}[{n}], Y{to}: out {to}[{n}]"]
        body += [f"    for n in tiles({n}, 256) {{ store Y{to}[n] = load X{to}[n] as {to}; }}"]
        inputs["X" + to], want["Y" + to] = values[1], (to, wanted(values[0], source, to))
    return "kernel casts(" + ",\n    ".join(head) + ")\n{\n    grid g in 1;\n" + "\n".join(body) + "\n}\n", inputs, want


def run(options, folder, arch, source):
    text, inputs, want = case(source)
    os.mkdir(folder)
    at = lambda name: os.path.join(folder, name)
    with open(at("k.tile"), "w", encoding="utf-8") as file:
        file.write(text)
    command = [options.tilec, "run", at("k.tile")]
    if arch != "interpreter":
        done = subprocess.run([options.tilec, at("k.tile"), "-arch", arch, "--verify", "-o", at("k.ptx")], capture_output=True, text=True)
        if done.returncode:
            return [done.stderr]
        command = [options.tilerun, at("k.ptx"), "--device", "sim"]
    done = subprocess.run(ladder.with_arrays(command, folder, inputs, {}, want), capture_output=True, text=True)
    if done.returncode:
        return [done.stdout + done.stderr]
    said = []
    for name, got in ladder.loaded(folder, want).items():
        to, codes = want[name]
        codes = packed_codes.pack(codes) if to in packed_codes.NUMBERS else codes
        bad = np.flatnonzero(~same(got, codes, to))
        said += [f"to {to}: {len(bad)} of {codes.size} differ, at {bad[:5]}: {got[bad[:5]]} for {codes[bad[:5]]}"] if len(bad) else []
    return said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    wrong, n = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for at, source in enumerate(["f32", "i32", "u32", "bool", *TABLES]):
            for arch in ["interpreter", *(ARCHES if options.all else (ARCHES[at % 7], ARCHES[(at + 3) % 7]))]:
                n += 1
                wrong += [f"{source} on {arch}: {text[:900]}" for text in run(options, os.path.join(folder, str(n)), arch, source)]
    print("\n".join(wrong + [f"{n} runs, {len(wrong)} wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
