"""Scalar video instructions, and selectors and masks of those on lanes, against Python (PTX ISA 9.7.18)."""
import numpy as np

EDGES = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x80808080]


def words(seed):
    rng = np.random.default_rng(seed)
    out = rng.integers(0, 1 << 32, 32, dtype=np.uint64).astype(np.uint32)
    out[:len(EDGES)] = rng.permutation(EDGES)
    return out


def part(word, where, signed):
    shift, bits = {"": (0, 32), "h": (16, 16), "b": (8, 8)}[where[:1]]
    raw = int(word) >> shift * int(where[1:] or 0) & (1 << bits) - 1
    return raw - (1 << bits) if signed and raw >> bits - 1 else raw


def clamp(v, signed, bits):
    return max(-(1 << bits - 1), min((1 << bits - 1) - 1, v)) if signed else max(0, min((1 << bits) - 1, v))


OPERATIONS = {"vadd": lambda x, y: x + y, "vsub": lambda x, y: x - y, "vabsdiff": lambda x, y: abs(x - y),
              "vmin": min, "vmax": max, "vshl": lambda x, y: x << y, "vshr": lambda x, y: x >> y}
COMPARE = {"eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y,
           "le": lambda x, y: x <= y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y}


def scalar(name, types, sat, second, sel, a, b, c, mode=""):
    """One lane; sel: parts of d, a, b; types: of d, a, b."""
    d_signed, a_signed, b_signed = (t == "s32" for t in types)
    x, y = part(a, sel[1], a_signed), part(b, sel[2], b_signed)
    if mode:
        y = y & 31 if mode == "wrap" else min(y, 32)
    v = int(COMPARE[name](x, y)) if name in COMPARE else OPERATIONS[name](x, y)
    bits = {"": 32, "h": 16, "b": 8}[sel[0][:1]]
    v = clamp(v, d_signed, bits) if sat else v
    wide = part(c, "", d_signed)
    if sel[0]:
        shift = bits * int(sel[0][1])
        hole = (1 << bits) - 1 << shift
        return int(c) & ~hole & 0xFFFFFFFF | v << shift & hole
    v = {"": v, "add": v + wide, "min": min(v, wide), "max": max(v, wide)}[second]
    return v & 0xFFFFFFFF


def vmad(types, sel, a, b, c, negate=(0, 0, 0), po=False, sat=False, scale=0):
    a_signed, b_signed = (t == "s32" for t in types)
    signed = a_signed or b_signed or negate[0] != negate[1] or bool(negate[2])
    v = part(a, sel[0], a_signed) * part(b, sel[1], b_signed) * (-1 if negate[0] != negate[1] else 1)
    v += (-part(c, "", True) if negate[2] else part(c, "", signed)) + po
    v >>= scale
    return (clamp(v, signed, 32) if sat else v) & 0xFFFFFFFF


def lanes(name, types, tail, mask, pick, a, b, c):
    """On two or four lanes; mask and pick: which parts, by lane."""
    n = len(pick[0])
    bits, kind = 32 // n, "h" if n == 2 else "b"
    get = lambda i, signed: part((a, b)[i // n], f"{kind}{i % n}", signed)
    total, out = int(c), 0
    for i in range(n):
        x, y = get(pick[0][i], types[1] == "s32"), get(pick[1][i], types[2] == "s32")
        v = int(COMPARE[name](x, y)) if name in COMPARE else OPERATIONS[name](x, y)
        v = clamp(v, types[0] == "s32", bits) if tail == ".sat" else v
        total += v if i in mask else 0
        out |= (v if i in mask else int(c) >> bits * i) % (1 << bits) << bits * i
    return total & 0xFFFFFFFF if tail == ".add" else out


def cases(expect, per_lane):
    a, b, c = words(1), words(2), words(3)

    def kernel(instruction):
        loads = "".join(f"    ld.param.u64 at, [p{i}]; add.u64 at, at, off; ld.global.b32 {r}, [at];\n"
                        for i, r in enumerate("xyz"))
        return per_lane(f"    mul.wide.u32 off, t, 4;\n{loads}    {instruction}", inputs=3)

    def case(instruction, f):
        want = [f(*abc) for abc in zip(a, b, c)]
        return instruction, expect(np.array(want, np.uint64).astype(np.uint32), kernel(instruction),
                                   inputs=[a, b, c])

    dot = lambda where: f".{where}" if where else ""
    for name in OPERATIONS:
        shift = name in ("vshl", "vshr")
        for mode in ("clamp", "wrap") if shift else ("",):
            for types, sat, second, sel in (
                    (("u32", "u32", "u32"), 0, "", ("", "", "")), (("s32", "u32", "u32"), 1, "", ("", "", "")),
                    (("u32", "s32", "u32"), 1, "", ("", "h1", "b2")), (("s32", "s32", "s32"), 1, "add", ("", "b3", "h0")),
                    (("s32", "s32", "u32"), 0, "min", ("", "h0", "")), (("u32", "s32", "s32"), 0, "max", ("", "", "b0")),
                    (("s32", "s32", "s32"), 1, "", ("b2", "h1", "b1")), (("u32", "u32", "s32"), 1, "", ("h1", "", "")),
                    (("u32", "u32", "u32"), 0, "", ("h0", "b0", "b3"))):
                if shift:  # the amount is a byte, or all of it
                    types = types[0], types[1], "u32"
                    if second and not sat:  # an intermediate result that has more than 34 bits
                        continue
                word = f"{name}.{'.'.join(types)}{'.sat' if sat else ''}{dot(mode)}{dot(second)}"
                last = ", z" if second or sel[0] else ""
                yield case(f"{word} d{dot(sel[0])}, x{dot(sel[1])}, y{dot(sel[2])}{last};",
                           lambda p, q, r, n=name, t=types, s=sat, o=second, e=sel, m=mode:
                           scalar(n, t, s, o, e, p, q, r, m))
    for compare in COMPARE:
        for types, second, sel in ((("u32", "s32"), "", ("", "", "")), (("s32", "s32"), "add", ("", "h1", "b3")),
                                   (("u32", "u32"), "max", ("", "b0", "")), (("s32", "u32"), "", ("b1", "", "h0"))):
            last = ", z" if second or sel[0] else ""
            yield case(f"vset.{'.'.join(types)}.{compare}{dot(second)} d{dot(sel[0])}, x{dot(sel[1])}, y{dot(sel[2])}{last};",
                       lambda p, q, r, n=compare, t=types, o=second, e=sel:
                       scalar(n, ("u32", *t), 0, o, e, p, q, r))
    for types, sel, negate, po, sat, scale in (
            (("u32", "u32"), ("", ""), (0, 0, 0), 0, 0, 0), (("u32", "u32"), ("", ""), (0, 0, 0), 1, 1, 7),
            (("s32", "s32"), ("", "h1"), (0, 0, 0), 0, 1, 0), (("u32", "s32"), ("b1", ""), (1, 0, 0), 0, 1, 7),
            (("s32", "u32"), ("", ""), (0, 0, 1), 0, 0, 15), (("u32", "u32"), ("h0", "h1"), (1, 1, 0), 0, 0, 15),
            (("u32", "u32"), ("b2", "b3"), (0, 1, 0), 0, 1, 0), (("s32", "s32"), ("h0", "h0"), (0, 0, 1), 0, 1, 7)):
        signs = ["-" if x else "" for x in negate]
        word = f"vmad.s32.{'.'.join(types)}{'.po' if po else ''}{'.sat' if sat else ''}{f'.shr{scale}' if scale else ''}"
        yield case(f"{word} d, {signs[0]}x{dot(sel[0])}, {signs[1]}y{dot(sel[1])}, {signs[2]}z;",
                   lambda p, q, r, t=types, e=sel, n=negate, o=po, s=sat, k=scale: vmad(t, e, p, q, r, n, o, s, k))
    for name, types, tail, mask, one, two in (
            ("vadd2", "s32.s32.u32", ".sat", "h1", "h30", "h21"), ("vsub2", "u32.u32.u32", "", "", "h13", ""),
            ("vmin2", "s32.u32.s32", ".add", "h0", "", "h00"), ("vadd4", "u32.u32.u32", ".sat", "b310", "b7060", "b1234"),
            ("vabsdiff4", "u32.s32.s32", ".add", "b2", "b3333", ""), ("vmax4", "s32.s32.u32", "", "b3210", "", "b0123")):
        n = int(name[-1])
        pick = [[int(x) for x in reversed(s[1:])] or list(range(first, first + n)) for s, first in ((one, 0), (two, n))]
        where = [int(x) for x in mask[1:]] or list(range(n))
        yield case(f"{name}.{types}{tail} d{dot(mask)}, x{dot(one)}, y{dot(two)}, z;",
                   lambda p, q, r, o=name[:-1], t=types.split("."), k=tail, m=where, s=pick: lanes(o, t, k, m, s, p, q, r))
    for n in (2, 4):
        pick = [list(range(n)), list(range(n, 2 * n))]
        for compare, tail in (("lt", ""), ("ge", ".add")):
            mask, where = ("h0", [0]) if n == 2 else ("b31", [1, 3])
            yield case(f"vset{n}.s32.u32.{compare}{tail} d.{mask}, x, y, z;",
                       lambda p, q, r, o=compare, k=tail, m=where, s=pick: lanes(o, ("u32", "s32", "u32"), k, m, s, p, q, r))
