"""Single instructions against their definition, written here in Python from the PTX ISA.

A row is (instruction, destination type, source types, function[, tolerance in units of the last
place]).  `{d} {a} {b} {c}` stand for registers.  Every row runs on random operands and on all pairs
of edge values; results must be equal, NaN counts as NaN.
"""
import math
import struct
import subprocess

import numpy as np

LANES = 1024
EDGES = {
    "u16": [0, 1, 2, 0x7FFF, 0x8000, 0xFFFF, 0xAAAA, 31],
    "u32": [0, 1, 2, 31, 32, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xAAAAAAAA, 255],
    "u64": [0, 1, 63, 64, 1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1],
    "f32": [0.0, -0.0, 1.0, -1.0, 1.5, 2.5, -0.5, 1e-40, -1e-40, 3e38, -3e38, math.inf, -math.inf,
            math.nan, 65504.0, 65520.0, 0.1, 448.0, 1e9, -1e10],
    "f64": [0.0, -0.0, 1.0, -2.5, 1e300, -1e300, 1e-310, math.inf, -math.inf, math.nan, 1e10],
    "f16": [0.0, -0.0, 1.0, -1.0, 2.5, 65504.0, -65504.0, 6e-8, math.inf, -math.inf, math.nan],
}
NUMPY = {"u16": np.uint16, "s16": np.int16, "u32": np.uint32, "s32": np.int32, "u64": np.uint64,
         "s64": np.int64, "f32": np.float32, "f64": np.float64, "f16": np.float16,
         "bf16": np.uint16, "b32": np.uint32, "b16": np.uint16, "b64": np.uint64}
REGISTER = {"u16": "b16", "s16": "b16", "u32": "b32", "s32": "b32", "u64": "b64", "s64": "b64",
            "f32": "b32", "f64": "b64", "f16": "b16", "bf16": "b16", "b32": "b32", "b16": "b16",
            "b64": "b64"}


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def operands(kind, count, which, rng):
    dtype = NUMPY[kind]
    base = {"s16": "u16", "b16": "u16", "s32": "u32", "b32": "u32", "s64": "u64", "b64": "u64"}
    name = base.get(kind, kind)
    bits = rng.integers(0, 1 << 63, size=LANES, dtype=np.uint64) * np.uint64(2)
    bits += rng.integers(0, 2, size=LANES, dtype=np.uint64)
    if name in ("u16", "u32", "u64"):
        random = bits.astype(np.dtype(f"u{np.dtype(dtype).itemsize}"))
        shift = rng.integers(0, np.dtype(dtype).itemsize * 8, size=LANES)
        random = (random >> shift.astype(random.dtype)).astype(random.dtype)
    elif name == "bf16":
        random = (rng.standard_normal(LANES).astype(np.float32).view(np.uint32) >> 16)
        random = random.astype(np.uint16)
    else:
        random = (rng.standard_normal(LANES) * np.exp(rng.uniform(-8, 8, LANES))).astype(dtype)
    edges = EDGES.get(name)
    if edges:
        n = len(edges)
        for i in range(min(n ** count, LANES // 2)):
            value = edges[i // n ** which % n]
            random[i] = np.array(value, dtype=random.dtype)
    return random.view(dtype)


def kernel(text, dst, sources):
    names = "abc"[: len(sources)]
    lines = [".version 8.8", ".target sm_100a", ".address_size 64",
             ".visible .entry k(.param .u64 po, "
             + ", ".join(f".param .u64 p{n}" for n in names) + ")", "{",
             "    .reg .b32 t, n; .reg .b64 at, off; .reg .pred p, q;",
             f"    .reg .{REGISTER[dst]} d;"]
    lines += [f"    .reg .{REGISTER[s]} {n};" for n, s in zip(names, sources)]
    lines += ["    mov.u32 t, %tid.x;"]
    for n, s in zip(names, sources):
        size = np.dtype(NUMPY[s]).itemsize
        lines += [f"    ld.param.u64 at, [p{n}];", f"    mul.wide.u32 off, t, {size};",
                  "    add.u64 at, at, off;", f"    ld.global.b{size * 8} {n}, [at];"]
    lines += ["    " + text.format(d="d", a="a", b="b", c="c")]
    size = np.dtype(NUMPY[dst]).itemsize
    lines += ["    ld.param.u64 at, [po];", f"    mul.wide.u32 off, t, {size};",
              "    add.u64 at, at, off;", f"    st.global.b{size * 8} [at], d;", "    ret;", "}"]
    return "\n".join(lines) + "\n"


def f32(x):
    with np.errstate(all="ignore"):
        return np.float32(x)


def flush(x):
    return np.float32(math.copysign(0.0, x)) if abs(x) < 2.0 ** -126 else x


def fmin(a, b):
    if math.isnan(a):
        return b
    if math.isnan(b):
        return a
    if a == b:
        return a if math.copysign(1, a) < 0 else b
    return min(a, b)


def fmax(a, b):
    return -fmin(-a, -b)


def bf16_of(x):  # round to nearest even
    if math.isnan(x):
        return 0x7FFF
    u = struct.unpack("<I", struct.pack("<f", f32(x)))[0]
    return (u + 0x7FFF + (u >> 16 & 1)) >> 16 & 0xFFFF


def of_bf16(u):
    return struct.unpack("<f", struct.pack("<I", int(u) << 16))[0]


def f16_bits(x):
    with np.errstate(all="ignore"):
        h = np.float16(x)
    return 0x7FFF if np.isnan(h) else int(h.view(np.uint16))


def to_int(x, bits, is_signed, rounding):
    if math.isnan(x):
        return 0 if bits < 64 else 1 << 63
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    if math.isinf(x):
        return high if x > 0 else low
    r = {"rzi": math.trunc, "rni": round, "rmi": math.floor, "rpi": math.ceil}[rounding](float(x))
    return max(low, min(high, r))


def divide(a, b, bits):
    if b == 0:
        return (1 << bits) - 1
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


def remainder(a, b):
    return -1 if b == 0 else a - b * divide(a, b, 64)


def field(value, bits):
    return min(value, 255) if bits == 64 else value & 255


def bfe(a, b, c, bits, is_signed):
    pos, length = field(b, bits), field(c, bits)
    if length == 0:
        return 0
    out = 0
    sign = is_signed and a >> min(pos + length - 1, bits - 1) & 1
    for i in range(bits):
        inside = i < length and pos + i < bits
        out |= (a >> (pos + i) & 1 if inside else int(sign)) << i
    return out


def prmt(a, b, c):
    data = a | b << 32
    out = 0
    for i in range(4):
        sel = c >> 4 * i & 15
        byte = data >> 8 * (sel & 7) & 255
        if sel & 8:
            byte = 255 if byte & 128 else 0
        out |= byte << 8 * i
    return out


def lop3(a, b, c, table):
    out = 0
    for i in range(32):
        out |= (table >> (4 * (a >> i & 1) + 2 * (b >> i & 1) + (c >> i & 1)) & 1) << i
    return out


def e4m3(x):
    best = None
    if math.isnan(x):
        return 0x7F
    sign = 0x80 if math.copysign(1, x) < 0 else 0
    x = min(abs(float(x)), 448.0)
    for code in range(0x7F):
        e, m = code >> 3, code & 7
        v = m * 2.0 ** -9 if e == 0 else (8 + m) * 2.0 ** (e - 10)
        key = (abs(v - x), code & 1)
        if best is None or key < best[0]:
            best = (key, code)
    return best[1] | sign


def directed(x, y, op, rounding):
    """Exact result of op in fractions, rounded to f32 downward, upward or to zero."""
    from fractions import Fraction
    if any(math.isnan(v) or math.isinf(v) for v in (x, y)):
        return op(x, y)
    exact = op(Fraction(float(x)), Fraction(float(y)))
    near = f32(float(exact)) if abs(exact) < 2 ** 127 else f32(math.copysign(3e38, exact))
    if abs(exact) >= 2 ** 127:
        return None
    if exact == 0:
        return None
    up, down = (np.nextafter(near, np.float32(math.inf)), np.nextafter(near, np.float32(-math.inf)))
    if Fraction(float(near)) == exact:
        return near
    low = near if Fraction(float(near)) < exact else down
    high = near if Fraction(float(near)) > exact else up
    to_zero = low if exact > 0 else high
    return {"rz": to_zero, "rm": low, "rp": high}[rounding]


def rows():
    M32, M64 = (1 << 32) - 1, (1 << 64) - 1
    for t, bits in (("u16", 16), ("s16", 16), ("u32", 32), ("s32", 32), ("u64", 64), ("s64", 64)):
        yield f"add.{t} {{d}}, {{a}}, {{b}};", t, (t, t), lambda a, b: a + b
        yield f"sub.{t} {{d}}, {{a}}, {{b}};", t, (t, t), lambda a, b: a - b
        yield f"mul.lo.{t} {{d}}, {{a}}, {{b}};", t, (t, t), lambda a, b: a * b
        yield f"mul.hi.{t} {{d}}, {{a}}, {{b}};", t, (t, t), lambda a, b, n=bits: a * b >> n
        yield f"mad.lo.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, (t, t, t), lambda a, b, c: a * b + c
        yield (f"mad.hi.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, (t, t, t),
               lambda a, b, c, n=bits: (a * b >> n) + c)
        yield f"min.{t} {{d}}, {{a}}, {{b}};", t, (t, t), min
        yield f"max.{t} {{d}}, {{a}}, {{b}};", t, (t, t), max
        yield f"div.{t} {{d}}, {{a}}, {{b}};", t, (t, t), lambda a, b, n=bits: divide(a, b, n)
        yield f"rem.{t} {{d}}, {{a}}, {{b}};", t, (t, t), remainder
        yield f"sad.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, (t, t, t), lambda a, b, c: c + abs(a - b)
        yield (f"shr.{t} {{d}}, {{a}}, {{b}};", t, (t, "u32"),
               lambda a, b, n=bits: a >> min(b, n - 1) if b < n or a < 0 else 0)
        b = f"b{bits}"
        u = f"u{bits}"
        if t[0] == "u":
            yield f"and.{b} {{d}}, {{a}}, {{b}};", u, (u, u), lambda a, b: a & b
            yield f"or.{b} {{d}}, {{a}}, {{b}};", u, (u, u), lambda a, b: a | b
            yield f"xor.{b} {{d}}, {{a}}, {{b}};", u, (u, u), lambda a, b: a ^ b
            yield f"not.{b} {{d}}, {{a}};", u, (u,), lambda a: ~a
            yield f"cnot.{b} {{d}}, {{a}};", u, (u,), lambda a: int(a == 0)
            yield (f"shl.{b} {{d}}, {{a}}, {{b}};", u, (u, "u32"),
                   lambda a, b, n=bits: a << b if b < n else 0)
        else:
            yield f"abs.{t} {{d}}, {{a}};", t, (t,), abs
            yield f"neg.{t} {{d}}, {{a}};", t, (t,), lambda a: -a
    for t, w in (("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")):
        yield f"mul.wide.{t} {{d}}, {{a}}, {{b}};", w, (t, t), lambda a, b: a * b
        yield f"mad.wide.{t} {{d}}, {{a}}, {{b}}, {{c}};", w, (t, t, w), lambda a, b, c: a * b + c
    for t, bits in (("u32", 32), ("u64", 64)):
        b, s = f"b{bits}", f"s{bits}"
        yield f"popc.{b} {{d}}, {{a}};", "u32", (t,), lambda a: a.bit_count()
        yield f"clz.{b} {{d}}, {{a}};", "u32", (t,), lambda a, n=bits: n - a.bit_length()
        yield f"brev.{b} {{d}}, {{a}};", t, (t,), lambda a, n=bits: int(f"{a:0{n}b}"[::-1], 2)
        yield f"bfind.{t} {{d}}, {{a}};", "u32", (t,), lambda a: a.bit_length() - 1
        yield (f"bfind.{s} {{d}}, {{a}};", "u32", (s,),
               lambda a: (~a if a < 0 else a).bit_length() - 1)
        yield (f"bfe.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, (t, "u32", "u32"),
               lambda a, b, c, n=bits: bfe(a, b, c, n, False))
        yield (f"bfe.{s} {{d}}, {{a}}, {{b}}, {{c}};", t, (t, "u32", "u32"),
               lambda a, b, c, n=bits: bfe(a, b, c, n, True))
        yield (f"bfi.{b} {{d}}, {{a}}, {{b}}, {{c}}, 7;", t, (t, t, "u32"),
               lambda a, b, c, n=bits: b if field(c, n) >= n else
               (b & ~((127 << (c & 255)) & ((1 << n) - 1))) | ((a & 127) << (c & 255)))
    yield "add.sat.s32 {d}, {a}, {b};", "s32", ("s32", "s32"), \
        lambda a, b: max(-2 ** 31, min(2 ** 31 - 1, a + b))
    yield "sub.sat.s32 {d}, {a}, {b};", "s32", ("s32", "s32"), \
        lambda a, b: max(-2 ** 31, min(2 ** 31 - 1, a - b))
    yield "prmt.b32 {d}, {a}, {b}, {c};", "u32", ("u32", "u32", "u32"), prmt
    for table in (0x96, 0xE8, 0xCA, 0x1B, 0x80, 0xFE):
        yield (f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table};", "u32", ("u32", "u32", "u32"),
               lambda a, b, c, t=table: lop3(a, b, c, t))
    yield "shf.l.wrap.b32 {d}, {a}, {b}, {c};", "u32", ("u32",) * 3, \
        lambda a, b, c: (b << 32 | a) << (c & 31) >> 32
    yield "shf.r.wrap.b32 {d}, {a}, {b}, {c};", "u32", ("u32",) * 3, \
        lambda a, b, c: (b << 32 | a) >> (c & 31)
    yield "shf.l.clamp.b32 {d}, {a}, {b}, {c};", "u32", ("u32",) * 3, \
        lambda a, b, c: (b << 32 | a) << min(c, 32) >> 32
    yield "shf.r.clamp.b32 {d}, {a}, {b}, {c};", "u32", ("u32",) * 3, \
        lambda a, b, c: (b << 32 | a) >> min(c, 32)
    byte = lambda v, i: v >> 8 * i & 255
    yield "dp4a.u32.u32 {d}, {a}, {b}, {c};", "u32", ("u32",) * 3, \
        lambda a, b, c: c + sum(byte(a, i) * byte(b, i) for i in range(4))
    yield "dp4a.s32.u32 {d}, {a}, {b}, {c};", "u32", ("u32",) * 3, \
        lambda a, b, c: c + sum(signed(byte(a, i), 8) * byte(b, i) for i in range(4))
    yield "dp2a.lo.s32.s32 {d}, {a}, {b}, {c};", "u32", ("u32",) * 3, \
        lambda a, b, c: c + sum(signed(a >> 16 * i, 16) * signed(byte(b, i), 8) for i in range(2))
    yield "add.cc.u32 {d}, {a}, {b}; addc.u32 {d}, {a}, {c};", "u32", ("u32",) * 3, \
        lambda a, b, c: a + c + (a + b >> 32)
    yield "sub.cc.u32 {d}, {a}, {b}; subc.u32 {d}, {a}, {c};", "u32", ("u32",) * 3, \
        lambda a, b, c: a - c - int(a < b)
    yield "mad.lo.cc.u32 {d}, {a}, {b}, {c}; madc.hi.u32 {d}, {a}, {b}, {c};", "u32", \
        ("u32",) * 3, lambda a, b, c: (a * b >> 32) + c + ((a * b & M32) + c >> 32)
    for t in ("u32", "s32", "u64", "s64", "u16", "s16"):
        for name, f in (("eq", lambda a, b: a == b), ("lt", lambda a, b: a < b),
                        ("le", lambda a, b: a <= b), ("gt", lambda a, b: a > b),
                        ("ge", lambda a, b: a >= b), ("ne", lambda a, b: a != b)):
            yield (f"setp.{name}.{t} p, {{a}}, {{b}}; selp.b32 {{d}}, 7, 3, p;", "u32", (t, t),
                   lambda a, b, f=f: 7 if f(a, b) else 3)
    for name, f in (("eq", lambda a, b: a == b), ("lt", lambda a, b: a < b),
                    ("ge", lambda a, b: a >= b), ("ne", lambda a, b: a != b and a == a and b == b),
                    ("neu", lambda a, b: a != b), ("ltu", lambda a, b: not a >= b),
                    ("gtu", lambda a, b: not a <= b), ("equ", lambda a, b: not (a < b or a > b)),
                    ("num", lambda a, b: a == a and b == b), ("nan", lambda a, b: a != a or b != b)):
        for t in ("f32", "f64", "f16"):
            yield (f"setp.{name}.{t} p|q, {{a}}, {{b}}; selp.b32 {{d}}, 7, 3, p;", "u32", (t, t),
                   lambda a, b, f=f: 7 if f(float(a), float(b)) else 3)
    yield ("setp.lt.s32 q, {a}, {b}; setp.gt.and.u32 p, {a}, {b}, !q; selp.u32 {d}, 1, 0, p;",
           "u32", ("u32", "u32"),
           lambda a, b: int(a > b and not signed(a, 32) < signed(b, 32)))
    # floating point
    yield "add.f32 {d}, {a}, {b};", "f32", ("f32",) * 2, lambda a, b: a + b
    yield "add.ftz.f32 {d}, {a}, {b};", "f32", ("f32",) * 2, \
        lambda a, b: flush(flush(a) + flush(b))
    yield "sub.f32 {d}, {a}, {b};", "f32", ("f32",) * 2, lambda a, b: a - b
    yield "mul.f32 {d}, {a}, {b};", "f32", ("f32",) * 2, lambda a, b: a * b
    yield "mul.ftz.f32 {d}, {a}, {b};", "f32", ("f32",) * 2, \
        lambda a, b: flush(flush(a) * flush(b))
    yield "div.rn.f32 {d}, {a}, {b};", "f32", ("f32",) * 2, lambda a, b: a / b
    yield "div.full.f32 {d}, {a}, {b};", "f32", ("f32",) * 2, lambda a, b: a / b, 2
    yield "min.f32 {d}, {a}, {b};", "f32", ("f32",) * 2, fmin
    yield "max.f32 {d}, {a}, {b};", "f32", ("f32",) * 2, fmax
    yield "max.NaN.f32 {d}, {a}, {b};", "f32", ("f32",) * 2, \
        lambda a, b: f32(math.nan) if math.isnan(a) or math.isnan(b) else fmax(a, b)
    yield "max.f32 {d}, {a}, {b}, {c};", "f32", ("f32",) * 3, lambda a, b, c: fmax(fmax(a, b), c)
    yield "neg.f32 {d}, {a};", "f32", ("f32",), lambda a: -a
    yield "abs.f32 {d}, {a};", "f32", ("f32",), abs
    yield "copysign.f32 {d}, {a}, {b};", "f32", ("f32",) * 2, lambda a, b: np.copysign(b, a)
    for r in ("rz", "rm", "rp"):
        yield (f"add.{r}.f32 {{d}}, {{a}}, {{b}};", "f32", ("f32",) * 2,
               lambda a, b, r=r: directed(a, b, lambda x, y: x + y, r))
        yield (f"mul.{r}.f32 {{d}}, {{a}}, {{b}};", "f32", ("f32",) * 2,
               lambda a, b, r=r: directed(a, b, lambda x, y: x * y, r))
    yield "add.sat.f32 {d}, {a}, {b};", "f32", ("f32",) * 2, \
        lambda a, b: f32(0) if math.isnan(a + b) else max(f32(0), min(f32(1), a + b)) + f32(0)
    yield "rcp.approx.f32 {d}, {a};", "f32", ("f32",), lambda a: f32(1) / a, 1
    yield "sqrt.rn.f32 {d}, {a};", "f32", ("f32",), np.sqrt
    yield "rsqrt.approx.f32 {d}, {a};", "f32", ("f32",), lambda a: f32(1 / np.sqrt(float(a))), 2
    yield "ex2.approx.f32 {d}, {a};", "f32", ("f32",), lambda a: f32(np.exp2(float(a))), 2
    yield "ex2.approx.ftz.f32 {d}, {a};", "f32", ("f32",), \
        lambda a: flush(f32(np.exp2(float(flush(a))))), 2
    yield "lg2.approx.f32 {d}, {a};", "f32", ("f32",), lambda a: f32(np.log2(float(a))), 2
    yield "tanh.approx.f32 {d}, {a};", "f32", ("f32",), lambda a: f32(np.tanh(float(a))), 2
    yield "add.f64 {d}, {a}, {b};", "f64", ("f64",) * 2, lambda a, b: a + b
    yield "mul.f64 {d}, {a}, {b};", "f64", ("f64",) * 2, lambda a, b: a * b
    yield "div.rn.f64 {d}, {a}, {b};", "f64", ("f64",) * 2, lambda a, b: a / b
    yield "min.f64 {d}, {a}, {b};", "f64", ("f64",) * 2, fmin
    yield "add.f16 {d}, {a}, {b};", "f16", ("f16",) * 2, lambda a, b: a + b
    yield "mul.f16 {d}, {a}, {b};", "f16", ("f16",) * 2, lambda a, b: a * b
    yield "max.f16 {d}, {a}, {b};", "f16", ("f16",) * 2, fmax
    for name, f in (("add", lambda a, b: a + b), ("sub", lambda a, b: a - b),
                    ("mul", lambda a, b: a * b)):
        yield (f"{name}.rn.bf16 {{d}}, {{a}}, {{b}};", "bf16", ("bf16",) * 2,
               lambda a, b, f=f: bf16_of(f(of_bf16(a), of_bf16(b))))
    yield "fma.rn.bf16 {d}, {a}, {b}, {c};", "bf16", ("bf16",) * 3, \
        lambda a, b, c: bf16_of(of_bf16(a) * of_bf16(b) + of_bf16(c))
    # conversions
    yield "cvt.rn.bf16x2.f32 {d}, {a}, {b};", "u32", ("f32",) * 2, \
        lambda a, b: bf16_of(a) << 16 | bf16_of(b)
    yield "cvt.rn.f16x2.f32 {d}, {a}, {b};", "u32", ("f32",) * 2, \
        lambda a, b: f16_bits(a) << 16 | f16_bits(b)
    yield "cvt.rn.f16.f32 {d}, {a};", "u16", ("f32",), f16_bits
    yield "cvt.rn.bf16.f32 {d}, {a};", "u16", ("f32",), bf16_of
    yield "cvt.f32.f16 {d}, {a};", "f32", ("f16",), f32
    yield "cvt.f32.bf16 {d}, {a};", "f32", ("bf16",), lambda a: f32(of_bf16(a))
    yield "cvt.rn.satfinite.e4m3x2.f32 {d}, {a}, {b};", "u16", ("f32",) * 2, \
        lambda a, b: e4m3(a) << 8 | e4m3(b)
    yield "cvt.rn.f32.f64 {d}, {a};", "f32", ("f64",), f32
    yield "cvt.f64.f32 {d}, {a};", "f64", ("f32",), float
    for t, bits in (("u32", 32), ("s32", 32), ("u64", 64), ("s64", 64)):
        for r in ("rni", "rzi", "rmi", "rpi"):
            yield (f"cvt.{r}.{t}.f32 {{d}}, {{a}};", t, ("f32",),
                   lambda a, n=bits, s=t[0] == "s", r=r: to_int(a, n, s, r))
        yield f"cvt.rn.f32.{t} {{d}}, {{a}};", "f32", (t,), lambda a: exact_f32(a)
        yield f"cvt.rn.f64.{t} {{d}}, {{a}};", "f64", (t,), float
    yield "cvt.s64.s32 {d}, {a};", "s64", ("s32",), lambda a: a
    yield "cvt.u64.u32 {d}, {a};", "u64", ("u32",), lambda a: a
    yield "cvt.s32.s16 {d}, {a};", "s32", ("s16",), lambda a: a
    yield "cvt.u16.u32 {d}, {a};", "u16", ("u32",), lambda a: a
    yield "cvt.sat.s16.s32 {d}, {a};", "s16", ("s32",), lambda a: max(-32768, min(32767, a))
    yield "cvt.sat.u32.s32 {d}, {a};", "u32", ("s32",), lambda a: max(0, a)
    yield "cvt.s8.s32 {d}, {a};", "s32", ("s32",), lambda a: signed(a, 8)
    # across lanes; the function sees the whole warp through `lanes`
    yield "shfl.sync.bfly.b32 {d}, {a}, 5, 0x1f, -1;", "u32", ("u32",), \
        lambda a, warp, l: warp[l ^ 5]
    yield "shfl.sync.up.b32 {d}, {a}, 3, 0, -1;", "u32", ("u32",), \
        lambda a, warp, l: warp[l - 3] if l >= 3 else a
    yield "shfl.sync.down.b32 {d}, {a}, 3, 0x1f, -1;", "u32", ("u32",), \
        lambda a, warp, l: warp[l + 3] if l + 3 < 32 else a
    yield "shfl.sync.idx.b32 {d}, {a}, 9, 0x181f, -1;", "u32", ("u32",), \
        lambda a, warp, l: warp[l & 24 | 9 & 7]
    yield "redux.sync.add.u32 {d}, {a}, -1;", "u32", ("u32",), lambda a, warp, l: sum(warp)
    yield "redux.sync.max.s32 {d}, {a}, -1;", "s32", ("s32",), lambda a, warp, l: max(warp)
    yield "and.b32 {a}, {a}, 3; match.any.sync.b32 {d}, {a}, -1;", "u32", ("u32",), \
        lambda a, warp, l: sum(1 << i for i in range(32) if warp[i] & 3 == a & 3)
    yield "setp.gt.s32 p, {a}, 0; vote.sync.ballot.b32 {d}, p, -1;", "u32", ("s32",), \
        lambda a, warp, l: sum(1 << i for i in range(32) if warp[i] > 0)


def exact_f32(value):
    """Round to nearest even from an integer of any size."""
    sign, value = (-1, -value) if value < 0 else (1, value)
    shift = max(0, value.bit_length() - 24)
    low, value = value & (1 << shift) - 1, value >> shift
    half = 1 << shift >> 1
    if shift and (low > half or (low == half and value & 1)):
        value += 1
    return f32(sign * float(value) * 2.0 ** shift)


def same(got, want, kind, ulp):
    if kind in ("f32", "f64", "f16"):
        if np.isnan(want) or np.isnan(got):
            return np.isnan(want) and np.isnan(got)
        if got == want:
            return bool(np.signbit(got) == np.signbit(want))
        return ulp > 0 and abs(float(got) - float(want)) <= ulp * abs(float(np.spacing(want)))
    return int(got) == int(want)


def check(simrun, scratch, row, rng):
    text, dst, sources, function = row[:4]
    ulp = row[4] if len(row) > 4 else 0
    (scratch / "k.ptx").write_text(kernel(text, dst, sources))
    arrays, arguments = [], []
    for i, kind in enumerate(sources):
        arrays.append(operands(kind, len(sources), i, rng))
        arrays[i].tofile(scratch / f"{i}.bin")
        arguments.append(f"in:{scratch}/{i}.bin")
    size = np.dtype(NUMPY[dst]).itemsize * LANES
    done = subprocess.run([simrun, str(scratch / "k.ptx"), "--block", str(LANES),
                           f"out:{scratch}/o.bin:{size}", *arguments],
                          capture_output=True, text=True)
    if done.returncode:
        return f"{text}: exit {done.returncode}: {done.stdout}{done.stderr}"
    result = np.fromfile(scratch / "o.bin", NUMPY[dst])
    warp_wide = function.__code__.co_varnames[1:3] == ("warp", "l") \
        if hasattr(function, "__code__") else False
    with np.errstate(all="ignore"):
        for l in range(LANES):
            values = [a[l] if a.dtype.kind == "f" else int(a[l]) for a in arrays]
            if warp_wide:
                start = l // 32 * 32
                warp = [int(v) for v in arrays[0][start:start + 32]]
                want = function(values[0], warp, l - start)
            else:
                want = function(*values)
            if want is None:
                continue
            if NUMPY[dst] in (np.float32, np.float64, np.float16):
                want = NUMPY[dst](want)
            else:
                bits = np.dtype(NUMPY[dst]).itemsize * 8
                want = int(want) & (1 << bits) - 1
                want = signed(want, bits) if dst[0] == "s" else want
            if not same(result[l], want, dst, ulp):
                return f"{text}: operands {values}: {result[l]!r}, expected {want!r}"
    return None


# ------------------------------------------------------------------------ mma.sync

def bf16_array(x):
    u = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)


E4M3 = np.array([(-1) ** (c >> 7) * ((c & 7) * 2.0 ** -9 if (c >> 3 & 15) == 0 else
                                     (8 + (c & 7)) * 2.0 ** ((c >> 3 & 15) - 10))
                 for c in range(256)], dtype=np.float32)

MMA = [  # shape, types of d a b c, rows, k, elements in a register
    ("m16n8k16", "f32.bf16.bf16.f32", 16, 16, 2), ("m16n8k8", "f32.bf16.bf16.f32", 16, 8, 2),
    ("m16n8k16", "f32.f16.f16.f32", 16, 16, 2), ("m16n8k16", "f16.f16.f16.f16", 16, 16, 2),
    ("m16n8k8", "f32.f16.f16.f32", 16, 8, 2), ("m16n8k8", "f32.tf32.tf32.f32", 16, 8, 1),
    ("m16n8k4", "f32.tf32.tf32.f32", 16, 4, 1), ("m8n8k4", "f64.f64.f64.f64", 8, 4, 1),
    ("m16n8k8", "f64.f64.f64.f64", 16, 8, 1), ("m16n8k32", "s32.s8.s8.s32", 16, 32, 4),
    ("m16n8k16", "s32.u8.s8.s32", 16, 16, 4), ("m8n8k16", "s32.s8.s8.s32", 8, 16, 4),
    ("m16n8k32", "f32.e4m3.e4m3.f32", 16, 32, 4), ("m16n8k16", "f32.e4m3.e4m3.f32", 16, 16, 4),
    ("m16n8k32", "f16.e4m3.e4m3.f16", 16, 32, 4),
]


def encode(kind, rng, shape):
    """Random matrix: (values in float64, array of storage elements)."""
    if kind in ("s8", "u8"):
        raw = rng.integers(0, 256, shape).astype(np.uint8)
        return (raw.view(np.int8) if kind == "s8" else raw).astype(np.float64), raw
    if kind == "e4m3":
        raw = rng.integers(0, 256, shape).astype(np.uint8)
        raw &= 0xBF  # below 2, so that f16 sums stay finite
        return E4M3[raw].astype(np.float64), raw
    x = rng.standard_normal(shape)
    if kind == "bf16":
        raw = bf16_array(x)
        return (raw.astype(np.uint32) << 16).view(np.float32).astype(np.float64), raw
    if kind == "tf32":
        raw = x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)
        return raw.view(np.float32).astype(np.float64), raw
    raw = x.astype({"f16": np.float16, "f64": np.float64, "f32": np.float32}[kind])
    return raw.astype(np.float64), raw


def low(kind, rng, shape, zeros=False):
    """The same of subnormals, zeros and numbers of many sizes; `zeros`: of zeros and large numbers."""
    place, digits, word = {"f16": (10, 10, np.uint16), "bf16": (7, 7, np.uint16), "tf32": (23, 10, np.uint32)}[kind]
    exponents = [0, 0, 0, 0, 1, 2, 8, 15, 20] if kind == "f16" else [0, 0, 0, 0, 1, 2, 100, 127, 160, 200]
    e = rng.choice(exponents[-3:] if zeros else exponents, shape)
    raw = (e << place) + (rng.integers(0, 2**digits, shape) << place - digits) + (rng.integers(0, 2, shape) << 8 * word().itemsize - 1)
    raw = np.where(rng.random(shape) < (0.9 if zeros else 0.1), 0, raw).astype(word)
    values = raw.view(np.float16) if kind == "f16" else (raw.astype(np.uint32) << 23 - place).view(np.float32)
    return values.astype(np.float64), raw


def fragments(raw, registers, place, per):
    """raw[place(lane, register, element)] as one array [lane][register] of packed registers."""
    out = np.zeros((32, registers, per), raw.dtype)
    for lane in range(32):
        for j in range(registers):
            for e in range(per):
                out[lane, j, e] = raw[place(lane, j, e)]
    return out


def make_mma(row, rng, variant="random"):
    """PTX, inputs, what must come out in float64, and sum |a b| + |c| for each element; all as lanes
    hold them.  "cancel": the sums nearly vanish; "large": operands of many sizes; "subnormal"; "zeros": few
    products are none, and C is small."""
    shape, types, m, k, per = row
    td, ta, tb, tc = types.split(".")
    is_low, zeros = variant in ("subnormal", "zeros"), variant == "zeros"
    av, a = low(ta, rng, (m, k), zeros) if is_low else encode(ta, rng, (m, k))
    bv, b = low(tb, rng, (k, 8)) if is_low else encode(tb, rng, (k, 8))
    if variant == "cancel":  # the second half of k takes back the first
        av[:, k // 2:], a[:, k // 2:] = av[:, :k // 2], a[:, :k // 2]
        if ta in ("s8", "u8", "e4m3") or k == 1:
            return None
        bv[k // 2:] = -bv[:k // 2]
        b[k // 2:] = {"bf16": lambda x: x ^ np.uint16(0x8000), "tf32": lambda x: x ^ np.uint32(1 << 31)}.get(
            tb, lambda x: -x)(b[:k // 2])
    elif variant == "large":
        exponent = rng.integers(-20, 20, (m, k))
        av, a = av * 2.0 ** exponent, bf16_array(av * 2.0 ** exponent)
    nb = k // (4 * per)
    na = nb * m // 8
    wide = ta == "f64"
    ap = fragments(a, na, lambda l, j, e: (l // 4 + (8 * (j & 1) if m == 16 else 0),
                                           per * (l % 4) + 4 * per * (j >> 1 if m == 16 else j) + e),
                   per)
    bp = fragments(b, nb, lambda l, j, e: (per * (l % 4) + 4 * per * j + e, l // 4), per)
    if tc == "s32":
        c = rng.integers(-1000, 1000, (m, 8)).astype(np.int32)
    else:
        c = rng.standard_normal((m, 8)).astype({"f16": np.float16, "f32": np.float32,
                                                "f64": np.float64}[tc])
        if is_low:
            c *= 2.0 ** rng.integers(*{"f16": (-24, 1), "f32": (-50, 1) if ta == "f16" else (-148, -40)}[tc], c.shape).astype(c.dtype)
    pack = 2 if tc == "f16" else 1
    nc = m // 4 // pack

    def of_lanes(x):
        return fragments(x, nc, lambda l, j, e: (l // 4 + 8 * ((j * pack + e) >> 1),
                                                 2 * (l % 4) + ((j * pack + e) & 1)), pack)
    cp = of_lanes(c)
    reg, bytes_ = ("b64", 8) if wide else ("b32", 4)
    names = lambda p, n: ", ".join(f"{p}{i}" for i in range(n))
    lines = [".version 8.8", ".target sm_100a", ".address_size 64",
             ".visible .entry k(.param .u64 pd, .param .u64 pa, .param .u64 pb, .param .u64 pc)",
             "{", f"    .reg .{reg} a<{na}>, b<{nb}>, c<{nc}>;",
             "    .reg .b32 t; .reg .b64 at, off;", "    mov.u32 t, %tid.x;"]

    def address(p, n):
        return [f"    ld.param.u64 at, [{p}];", f"    mul.wide.u32 off, t, {n * bytes_};",
                "    add.u64 at, at, off;"]
    for p, n in (("a", na), ("b", nb), ("c", nc)):
        lines += address("p" + p, n)
        lines += [f"    ld.global.{reg} {p}{i}, [at+{i * bytes_}];" for i in range(n)]
    lines += [f"    mma.sync.aligned.{shape}.row.col.{types} {{{names('c', nc)}}}, "
              f"{{{names('a', na)}}}, {{{names('b', nb)}}}, {{{names('c', nc)}}};"]
    lines += address("pd", nc)
    lines += [f"    st.global.{reg} [at+{i * bytes_}], c{i};" for i in range(nc)]
    lines += ["    ret;", "}"]
    want = av @ bv + c.astype(np.float64)
    scale = np.abs(av) @ np.abs(bv) + np.abs(c)
    return "\n".join(lines) + "\n", [ap, bp, cp], of_lanes(want), of_lanes(scale)


def check_mma(simrun, scratch, row, rng):
    shape, types = row[:2]
    ptx, (ap, bp, cp), want, scale = make_mma(row, rng)
    (scratch / "k.ptx").write_text(ptx)
    for name, array in (("a", ap), ("b", bp), ("c", cp)):
        array.tofile(scratch / f"{name}.bin")
    done = subprocess.run([simrun, str(scratch / "k.ptx"), "--block", "32",
                           f"out:{scratch}/d.bin:{cp.nbytes}", f"in:{scratch}/a.bin",
                           f"in:{scratch}/b.bin", f"in:{scratch}/c.bin"],
                          capture_output=True, text=True)
    if done.returncode:
        return f"mma {shape} {types}: {done.stdout}{done.stderr}"
    got = np.fromfile(scratch / "d.bin", cp.dtype).reshape(cp.shape)
    tolerance = {"f32": 2e-6, "f16": 2e-3, "f64": 1e-14, "s32": 0}[types.split(".")[0]] * scale.max()
    error = np.abs(got.astype(np.float64) - want).max()
    return None if error <= tolerance else f"mma {shape} {types}: error {error}"


def run(simrun, scratch):
    count = failed = 0
    rng = np.random.default_rng(7)
    for checker, table in ((check, rows()), (check_mma, MMA)):
        for row in table:
            count += 1
            problem = checker(simrun, scratch, row, rng)
            if problem:
                failed += 1
                print("FAIL", problem[:600])
    return count, failed
