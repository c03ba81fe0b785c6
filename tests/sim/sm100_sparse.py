"""tcgen05.mma.sp against NumPy.

The whole A is made here from what is stored of it, and multiplied as a dense one.  Metadata are laid out word by
word as CUTLASS and JAX lay them out (PTX ISA 9.7.16.10.8.4 has figures only): as pairs of bits in order of k, of
which a chunk has two.
"""
import numpy as np

import sm100
from sm100 import FORMATS, Kernel, Matrix, d_place, lay_out, type_code

METADATA, MEMORY, SCALE_A, SCALE_B = 200, 256, 300, 320  # columns of tensor memory
STORED = {"f16": 16, "tf32": 8, "mxf4": 64, "mxf4nvf4": 64}  # columns of A in an instruction, else 32


class Packed:
    """Rows of 4-bit elements without padding, as lay_out takes them."""
    container = 1

    def __init__(self, codes):
        self.codes = (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)

    def chunk(self, codes):
        return codes.tobytes()


def spread(kind, stored, rng):
    """(the whole A, pairs of bits of metadata by row)."""
    rows, columns = stored.shape
    whole, pairs = np.zeros((rows, 2 * columns)), np.zeros((rows, columns), np.uint32)
    if kind == "tf32":  # one of two: 0b0100 or 0b1110
        at = rng.integers(0, 2, (rows, columns))
        for c in range(columns):
            whole[np.arange(rows), 2 * c + at[:, c]] = stored[:, c]
        return whole, np.stack([2 * at, 2 * at + 1], 2).reshape(rows, -1).astype(np.uint32)
    choices = np.array([(i, j) for i in range(4) for j in range(i + 1, 4)])
    width = 2 if kind.startswith("mxf4") else 1  # elements that stand together
    chunks = columns // (2 * width)
    chosen = choices[rng.integers(0, 6, (rows, chunks))]
    for r in range(rows):
        for c in range(chunks):
            for i, place in enumerate(chosen[r, c]):
                for e in range(width):
                    whole[r, 4 * width * c + width * place + e] = stored[r, 2 * width * c + width * i + e]
    return whole, chosen.reshape(rows, -1).astype(np.uint32)


def metadata_words(kind, pairs):
    """Words by lane and column of an instruction's metadata, for up to 128 rows."""
    rows = pairs.shape[0]
    if kind not in ("f16", "tf32"):  # a row is a lane: 16 pairs to a word
        return np.array([[sum(int(x) << 2 * i for i, x in enumerate(row[16 * w:16 * w + 16])) for w in range(2)]
                         for row in pairs], np.uint32)
    words = np.zeros((rows, 1), np.uint32)
    for lane in range(rows):
        group, half, row = lane // 16, lane // 8 % 2, lane % 8
        low, high = pairs[16 * group + row], pairs[16 * group + 8 + row]
        both = np.concatenate([low[8 * half:8 * half + 8], high[8 * half:8 * half + 8]])
        words[lane, 0] = sum(int(x) << 2 * i for i, x in enumerate(both))
    return words


def scale_factors(kernel, codes, column, offset, rows_of_half):
    """As sm100.scaled puts them: row r at lane r % 32 of each quarter, column r / 32."""
    for half in range(kernel.group):
        for r, row in enumerate(codes[rows_of_half(half)]):
            for quarter in range(4):
                at = half, r % 32 + 32 * quarter, column + r // 32
                word = int(kernel.tensor[at])
                for i, code in enumerate(row):
                    word = word & ~(0xFF << 8 * (offset + i)) | int(code) << 8 * (offset + i)
                kernel.tensor[at] = word


def gemm(kind, m, n, a="bf16", b="bf16", d="f32", group=1, ws=False, mode_a="128", mode_b="128", ta=0, tb=0,
         steps=2, memory_a=False, vector=0, ue4m3=False, ids=(0, 0), word=""):
    rng = np.random.default_rng(abs(hash((m, n, steps))) & 0xFFFF)
    kernel = Kernel(group, 131072)
    stored, four = STORED.get(kind, 32), kind in ("mxf4", "mxf4nvf4")
    A, B = Matrix(a, m, stored * steps, rng), Matrix(b, n, 2 * stored * steps, rng)
    whole, pairs = spread(kind, A.values, rng)
    wide = kind in ("f16", "tf32")
    ends = []
    for half in range(group):
        rows, columns = m // group, n // group
        part_a, part_b = Matrix(a, 8, stored, rng), Matrix(b, 8, stored, rng)
        part_a.codes = A.codes[half * rows:(half + 1) * rows]
        part_b.codes = B.codes[half * columns:(half + 1) * columns]
        if four:
            part_a, part_b = Packed(part_a.codes), Packed(part_b.codes)
        base_b = 0
        if memory_a:
            words = np.ascontiguousarray(part_a.codes).view(np.uint8).reshape(rows, -1).view(np.uint32)
            kernel.tensor[half, :rows, MEMORY:MEMORY + words.shape[1]] = words
        else:
            desc_a = lay_out(part_a, mode_a, ta, 0, kernel.image[half])
            base_b = desc_a[2]
        desc_b = lay_out(part_b, mode_b, tb, base_b, kernel.image[half])
        assert len(kernel.image[half]) == kernel.bytes
        ends.append(base_b)
        per = pairs.shape[1] // steps
        for s in range(steps):
            words = metadata_words(kind, pairs[half * rows:(half + 1) * rows, s * per:(s + 1) * per])
            at = METADATA + s * words.shape[1]
            kernel.tensor[half, :, at:at + words.shape[1]] = np.tile(words, (128 // rows, 1))
    av, bv = whole, B.values
    if vector:
        def factors(count):
            codes = rng.integers(1, 0x7E, (count, vector * steps)) if ue4m3 else rng.integers(
                120, 135, (count, vector * steps))
            return codes, FORMATS["e4m3"][0][codes] if ue4m3 else 2.0 ** (codes.astype(float) - 127)
        assert steps == 1
        codes_a, sa = factors(m)
        codes_b, sb = factors(n)
        scale_factors(kernel, codes_a, SCALE_A, ids[0], lambda half: slice(half * m // group, (half + 1) * m // group))
        scale_factors(kernel, codes_b, SCALE_B, ids[1], lambda half: slice(None))
        av = whole * np.repeat(sa, 2 * stored // vector, 1)
        bv = B.values * np.repeat(sb, 2 * stored // vector, 1)
        bits = (n >> 3) << 17 | (m >> 7) << 27 | (0 if ue4m3 else 1 << 23) | ids[1] << 4 | ids[0] << 29
    else:
        bits = (n >> 3) << 17 | (m >> 4) << 24 | {"f16": 0, "f32": 1, "s32": 2}[d] << 4
    bits |= 4 | ta << 15 | tb << 16 | type_code(kind, a) << 7 | type_code(kind, b) << 10
    mnemonic = f"tcgen05.mma{'.ws' if ws else ''}.sp.cta_group::{group}.kind::{kind}"
    mnemonic += f".block_scale{word}" if vector else ""
    for s in range(steps):
        tail = (f"[t+{SCALE_A}], [t+{SCALE_B}], " if vector else "") + ("1" if s else "0")
        column, selector = (METADATA + s // 2 * 2, s % 2) if wide else (METADATA + 2 * s, 0)
        kernel.mma(mnemonic, None if memory_a else (desc_a[0], desc_a[1][s]),
                   (desc_b[0], ends[0] + desc_b[1][2 * s]), bits | selector, tail,
                   a_memory=MEMORY + 8 * s if memory_a else None, metadata=column)
    want = av @ bv.T
    exact = a in ("f16", "bf16", "tf32", "s8", "u8") and d != "f16"
    bound = 0 if exact else 1e-5 * (np.abs(av) @ np.abs(bv).T).max()
    if d == "f16":
        bound = max(1.0, np.abs(want).max() * 2.0 ** -9)

    def compare(out):
        changed = np.zeros(out.shape, bool)
        for r in range(m):
            for c in range(n):
                at = d_place(group, m, n, ws, r, c)
                value = np.uint32(out[at])
                got = {"f32": value.view(np.float32), "s32": value.view(np.int32),
                       "f16": np.uint16(value & 0xFFFF).view(np.float16)}[d]
                changed[at] = True
                if not abs(float(got) - want[r, c]) <= bound:
                    return f"({r}, {c}): {got}, not {want[r, c]}"
        return None if np.array_equal(out[~changed], kernel.tensor[~changed]) else "tensor memory outside D changed"

    return kernel, compare


def cases():
    yield "sparse f16", gemm("f16", 128, 64, steps=4)
    yield "sparse f16 8", gemm("f16", 128, 8, a="f16", b="f16", mode_a="32", mode_b="64")
    yield "sparse f16 D f16", gemm("f16", 128, 64, a="f16", b="f16", d="f16", mode_a="none", mode_b="none")
    yield "sparse f16 mn", gemm("f16", 128, 64, ta=1, tb=1, mode_b="32", steps=3)
    yield "sparse f16 memory", gemm("f16", 128, 64, memory_a=True, steps=3)
    yield "sparse f16 pair", gemm("f16", 256, 64, group=2)
    for m in (32, 64, 128):
        yield f"sparse f16 ws {m}", gemm("f16", m, 128 if m == 64 else 64, ws=True)
    yield "sparse tf32", gemm("tf32", 128, 64, a="tf32", b="tf32", steps=3)
    yield "sparse tf32 mn", gemm("tf32", 128, 64, a="tf32", b="tf32", mode_a="128a32", mode_b="128a32", ta=1, tb=1)
    yield "sparse tf32 ws", gemm("tf32", 32, 64, a="tf32", b="tf32", ws=True)
    for a, b in (("e4m3", "e5m2"), ("e2m1", "e3m2"), ("e2m3", "e2m1")):
        yield f"sparse f8f6f4 {a} {b}", gemm("f8f6f4", 128, 48, a=a, b=b)
    yield "sparse f8f6f4 ws", gemm("f8f6f4", 64, 64, a="e5m2", b="e4m3", ws=True)
    yield "sparse f8f6f4 memory", gemm("f8f6f4", 128, 32, a="e5m2", b="e4m3", memory_a=True)
    yield "sparse i8", gemm("i8", 128, 48, a="u8", b="s8", d="s32")
    yield "sparse i8 pair", gemm("i8", 256, 64, a="s8", b="u8", d="s32", group=2)
    yield "sparse mxf8f6f4", gemm("mxf8f6f4", 128, 64, a="e4m3", b="e5m2", vector=1, ids=(3, 1), steps=1)
    yield "sparse mxf8f6f4 pair", gemm("mxf8f6f4", 256, 32, a="e3m2", b="e2m1", vector=1, group=2, steps=1)
    yield "sparse mxf4", gemm("mxf4", 128, 64, a="e2m1", b="e2m1", vector=2, ids=(0, 2), steps=1)
    yield "sparse mxf4nvf4 2X", gemm("mxf4nvf4", 128, 24, a="e2m1", b="e2m1", vector=2, word=".scale_vec::2X", steps=1)
    yield "sparse mxf4nvf4 4X", gemm("mxf4nvf4", 256, 64, a="e2m1", b="e2m1", vector=4, word=".scale_vec::4X",
                                     ue4m3=True, group=2, steps=1)


def run(simrun, scratch, wanted=None):
    return sm100.run(simrun, scratch, wanted, cases)


if __name__ == "__main__":
    import pathlib
    import sys
    import tempfile
    with tempfile.TemporaryDirectory() as directory:
        ran, bad = run(sys.argv[1], pathlib.Path(directory), *sys.argv[2:3])
    print(f"{ran} tests, {bad} failures")
    sys.exit(1 if bad else 0)
