"""What sm_90 adds up, bit for bit: wgmma, mma.sync and wmma beside a model in whole numbers.

The model is what an H200 was found to do: a product's exponent is the sum of its operands' (of subnormals the least
one), all K products and C are cut toward zero to 25 bits below the largest exponent and added exactly, and the
result is cut to an f32.  wgmma of 8-bit types has 13 bits, of the result, too.  What is written out below as bits was
read from the chip; tests/sim/silicon.py holds more of it.
"""
import math

import numpy as np

import sm90

LAYOUT = {"bf16": (8, 7), "f16": (5, 10), "tf32": (8, 23), "f32": (8, 23), "e4m3": (4, 3), "e5m2": (5, 2)}


def parts(bits, kind):
    """(signed mantissa, exponent of its last bit, exponent), or a float that is not finite."""
    exponent, mantissa = LAYOUT[kind]
    bits = int(bits) & 0xFFFFE000 if kind == "tf32" else int(bits)
    bias, top = (1 << exponent - 1) - 1, (1 << exponent) - 1
    sign = -1 if bits >> exponent + mantissa & 1 else 1
    e, m = bits >> mantissa & top, bits & (1 << mantissa) - 1
    if kind == "e4m3" and e == top and m == 7:
        return math.nan
    if kind != "e4m3" and e == top:
        return math.nan if m else sign * math.inf
    place = max(e, 1) - bias
    return sign * (m | (1 << mantissa if e else 0)), place - mantissa, place


def toward_zero(n, shift):
    """n * 2^shift without what is behind the point."""
    size = abs(n) << shift if shift >= 0 else abs(n) >> -shift
    return -size if n < 0 else size


def total(a, b, c, bits):
    """f32 bits of the sum; a, b, c as parts() gives them."""
    if any(isinstance(x, float) for x in (*a, *b, c)):
        value = [x if isinstance(x, float) else math.ldexp(x[0], x[1]) for x in (*a, *b, c)]
        n = len(a)
        with np.errstate(invalid="ignore"):
            out = np.float64(value[-1]) + sum(np.float64(x) * np.float64(y) for x, y in zip(value[:n], value[n:-1]))
        return 0x7FFFFFFF if np.isnan(out) else int(np.float32(out).view(np.uint32))
    terms = [(x[0] * y[0], x[1] + y[1], x[2] + y[2]) for x, y in zip(a, b) if x[0] and y[0]]
    terms += [c] if c[0] else []
    if not terms:
        return 0
    unit = max(t[2] for t in terms) - bits
    s = sum(toward_zero(n, last - unit) for n, last, _ in terms)
    if s == 0:
        return 0
    e = abs(s).bit_length() - 1 + unit
    if e > 127:
        return 0x7F800000 | (s < 0) << 31
    last = max(e - min(bits, 23), -149)
    q = toward_zero(s, unit - last)
    return int(np.float32(math.ldexp(q, last)).view(np.uint32)) if q else 0


def random_bits(kind, shape, rng, spread):
    """Normal numbers of several sizes, subnormals, zeros."""
    exponent, mantissa = LAYOUT[kind]
    mantissa_bits = 10 if kind == "tf32" else mantissa
    bias = (1 << exponent - 1) - 1
    e = np.clip(bias + rng.integers(-spread, spread + 1, shape), 0, (1 << exponent) - 2)
    m = rng.integers(0, 1 << mantissa_bits, shape) << mantissa - mantissa_bits
    sign = rng.integers(0, 2, shape)
    out = sign << exponent + mantissa | e << mantissa | m
    return np.where(rng.random(shape) < 0.05, sign << exponent + mantissa, out)


def multiply(simrun, scratch, seed, ta, tb, a, b, c, scale_d=True):
    """What wgmma writes for a [64][k], b [n][k] and c [64][n], as bits: (problem, D)."""
    size = sm90.SIZE[ta]
    dtype = {1: np.uint8, 2: np.uint16, 4: np.uint32}[size]
    n, k = b.shape
    image = np.zeros(sm90.SHARED + sm90.ORIGIN, np.uint8)
    pair = []
    for base, bits, rows in ((sm90.A_BASE, a, 64), (sm90.B_BASE, b, n)):
        leading, stride = sm90.strides(rows, k, size, 32, 0)
        sm90.place(image, sm90.ORIGIN + base, bits.astype(dtype), 32, 0, leading, stride)
        pair.append(sm90.descriptor(sm90.ORIGIN + base, 32, leading, stride))
    tail = f"{int(scale_d)}, 1, 1" + (", 0, 0" if size == 2 else "")
    start = sm90.fragments_d(c.astype(np.uint32).view(np.int32).astype(np.int64), "s32")
    text = sm90.wgmma_kernel(n, k, "f32", ta, tb, False, tail, scale_d)
    problem, out = sm90.execute(simrun, scratch, text, [image[sm90.ORIGIN:], np.zeros(512, np.uint32),
                                                        np.array(pair, np.uint64), start], start.nbytes,
                                ["--block", "128"], seed)
    if problem:
        return problem, None
    place = sm90.fragments_d(np.arange(64 * n).reshape(64, n), "s32")
    d = np.zeros(64 * n, np.uint32)
    d[place.ravel()] = np.frombuffer(out, np.uint32)
    return None, d.reshape(64, n)


def compare(got, want):
    wrong = np.argwhere(got != want)
    if not len(wrong):
        return None
    at = tuple(wrong[0])
    return f"{at} is {got[at]:08x}, not {want[at]:08x} ({len(wrong)} of {want.size})"


def random_case(simrun, scratch, seed, ta, tb, spread, odd=False):
    rng = np.random.default_rng(seed + spread)
    k, n = {1: 32, 2: 16, 4: 8}[sm90.SIZE[ta]], 8
    a, b = random_bits(ta, (64, k), rng, spread), random_bits(tb, (n, k), rng, spread)
    c = random_bits("f32", (64, n), rng, 2 * spread)
    if odd:  # infinities, NaNs, subnormals of C
        c[:4, 0] = [0x7F800000, 0xFF800000, 0x7FC00001, 0x00000400]
        c[4:8, :] = 0x80000000
        a[4:8] = 0
        e, m = LAYOUT[ta]
        a[9, 3] = (1 << e) - 1 << m | ((1 << m) - 1 if ta == "e4m3" else 0)
        b[2, 1] = 1  # the least subnormal
    problem, got = multiply(simrun, scratch, seed, ta, tb, a, b, c)
    if problem:
        return problem
    bits = 13 if sm90.SIZE[ta] == 1 else 25
    rows, columns = [[parts(x, ta) for x in row] for row in a], [[parts(x, tb) for x in row] for row in b]
    want = np.array([[total(rows[i], columns[j], parts(c[i, j], "f32"), bits) for j in range(n)] for i in range(64)])
    return compare(got, want)


WMMA = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 po, .param .u64 pa, .param .u64 pb, .param .u64 pc)
{{
    .reg .b64 a, b, c, o; .reg .b32 x<8>, y<8>; .reg .f32 d<8>;
    ld.param.u64 a, [pa]; ld.param.u64 b, [pb]; ld.param.u64 c, [pc]; ld.param.u64 o, [po];
    wmma.load.a.sync.aligned.row.m16n16{0}.{1} {{{2}}}, [a];
    wmma.load.b.sync.aligned.col.m16n16{0}.{1} {{{3}}}, [b];
    wmma.load.c.sync.aligned.row.m16n16{0}.f32 {{d0, d1, d2, d3, d4, d5, d6, d7}}, [c];
    wmma.mma.sync.aligned.row.col.m16n16{0}.f32{4}.f32 {{d0, d1, d2, d3, d4, d5, d6, d7}},
        {{{2}}}, {{{3}}}, {{d0, d1, d2, d3, d4, d5, d6, d7}};
    wmma.store.d.sync.aligned.row.m16n16{0}.f32 [o], {{d0, d1, d2, d3, d4, d5, d6, d7}};
    ret;
}}
"""


def wmma_case(simrun, scratch, seed, kind, spread):
    """wmma adds up as mma.sync with its k does (nvcc's kernels on an H200)."""
    rng = np.random.default_rng(seed + spread)
    k = 8 if kind == "tf32" else 16
    a, b = random_bits(kind, (16, k), rng, spread), random_bits(kind, (16, k), rng, spread)
    c = random_bits("f32", (16, 16), rng, 2 * spread)
    names = lambda x: ", ".join(f"{x}{i}" for i in range(8 if kind == "f16" else 4))  # noqa: E731
    text = WMMA.format(f"k{k}", kind, names("x"), names("y"), "" if kind == "f16" else f".{kind}.{kind}")
    dtype = np.uint32 if kind == "tf32" else np.uint16
    problem, out = sm90.execute(simrun, scratch, text, [a.astype(dtype), b.astype(dtype), c.astype(np.uint32)], 1024, ["--block", "32"], seed)
    if problem:
        return problem
    rows, columns = [[parts(x, kind) for x in row] for row in a], [[parts(x, kind) for x in row] for row in b]
    want = np.array([[total(rows[i], columns[j], parts(c[i, j], "f32"), 25) for j in range(16)] for i in range(16)])
    return compare(np.frombuffer(out, np.uint32).reshape(16, 16), want)


def read_case(simrun, scratch, seed, ta, product, c, want):
    """One product of two equal numbers in a row of zeros, and C, as an H200 gave it."""
    k = {1: 32, 2: 16}[sm90.SIZE[ta]]
    one = {"e4m3": 0x38, "bf16": 0x3F80}[ta]
    a, b = np.zeros((64, k), np.int64), np.zeros((8, k), np.int64)
    a[:, 5], b[:, 5] = (product, one) if product else (0, 0)
    problem, got = multiply(simrun, scratch, seed, ta, ta, a, b, np.full((64, 8), c))
    return problem or compare(got, np.full((64, 8), want, np.uint32))


def full_case(simrun, scratch, seed):
    """Sixteen products of 3.97 and C of 2: in units of the cut they do not fit a word of 32 bits."""
    a, b, c = np.full((64, 16), 0x3FFF), np.full((8, 16), 0x3FFF), np.full((64, 8), 0x3FFFFFFF)
    a[32:] |= 0x8000
    c[32:] |= 0x80000000
    problem, got = multiply(simrun, scratch, seed, "bf16", "bf16", a, b, c)
    want = [[total([parts(x, "bf16") for x in a[i]], [parts(0x3FFF, "bf16")] * 16, parts(c[i, 0], "f32"), 25)] * 8
            for i in range(64)]
    return problem or compare(got, np.array(want))


def cases():
    yield "a full word", full_case, ()
    for ta, tb in (("bf16", "bf16"), ("f16", "f16"), ("tf32", "tf32"), ("e4m3", "e4m3"), ("e5m2", "e4m3"),
                   ("e5m2", "e5m2")):
        for spread in (1, 4, 14 if LAYOUT[ta][0] == 5 else 6 if ta == "e4m3" else 60):
            yield f"{ta} {tb} {spread}", random_case, (ta, tb, spread)
        yield f"{ta} {tb} odd", random_case, (ta, tb, 3, True)
    for kind in ("f16", "bf16", "tf32"):
        for spread in (1, 4):
            yield f"wmma {kind} {spread}", wmma_case, (kind, spread)
    for name, arguments in (
            ("C is cut beside no product", ("e4m3", 0, 0x3F8007FF, 0x3F800400)),
            ("pi", ("e4m3", 0, 0x40490FDB, 0x40490C00)), ("FLT_MAX", ("e4m3", 0, 0x7F7FFFFF, 0x7F7FFC00)),
            ("C below a product's bits", ("e4m3", 0x58, 0x3F8007FF, 0x41880000)),  # 16 + 1.0002: 17
            ("16384 and 1", ("e4m3", 0x38, 0x46800000, 0x46800000)),
            ("16383 and 1", ("e4m3", 0x38, 0x467FFC00, 0x46800000)),
            ("-0", ("bf16", 0, 0x80000000, 0)), ("FLT_MAX of bf16", ("bf16", 0, 0x7F7FFFFF, 0x7F7FFFFF)),
            ("half a last bit more", ("bf16", 0x7300, 0x7F7FFFFF, 0x7F7FFFFF)),
            ("a last bit more", ("bf16", 0x7380, 0x7F7FFFFF, 0x7F800000)),
            ("subnormal C", ("bf16", 0, 0x00000400, 0x00000400))):
        yield name, read_case, arguments


def run(simrun, scratch, wanted=None):
    count = failed = 0
    for name, test, arguments in cases():
        if wanted and wanted not in name:
            continue
        count += 1
        problem = test(simrun, scratch, 1, *arguments)
        if problem:
            failed += 1
            print(f"FAIL sums {name}: {problem}")
    return count, failed


if __name__ == "__main__":
    import pathlib
    import sys
    import tempfile
    with tempfile.TemporaryDirectory() as directory:
        ran, bad = run(sys.argv[1], pathlib.Path(directory), *sys.argv[2:3])
    print(f"{ran} tests, {bad} failures")
    sys.exit(1 if bad else 0)
