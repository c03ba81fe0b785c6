"""The tests of silicon.py: PTX, inputs, and how closely GPU and simulator must agree.

Single instructions are lines of text: `{d} {a} {b} {c}` stand for registers, and each of the 1024
lanes has its own operands: edge values first, then random ones.  values.py has 293 more, whose
definitions are in Python.
"""
import re

import numpy as np

import values

LANES = values.LANES


class Rule:
    """How results compare.  kind: bits, or the format of floats; tolerance in units of the last place
    (of the GPU's result), or absolute, or in units of `scale`, an array."""

    def __init__(self, kind="bits", tolerance=0.0, absolute=False, scale=None, packed=False):
        self.kind, self.tolerance, self.absolute = kind, float(tolerance), absolute
        self.scale, self.packed = scale, packed


class Test:
    """args: ("in" | "out" | "inout", array), ("u32" | "u64" | "f32", value), ("map", (spec, array)) for
    a tensor map over an array, spec as of simrun; in the kernel's order.  What is written is compared,
    of the arguments the first `outputs` if given.  faults: does what is forbidden; may end in a fault of the GPU.
    simulated: the target that the simulator is told, whose sums are the GPU's."""

    def __init__(self, group, name, ptx, args, rule=None, grid=(1, 1, 1), block=(LANES, 1, 1), shared=0,
                 arch=80, lanes=False, outputs=None, entry="k", faults=False, simulated=None):
        self.group, self.name, self.ptx, self.args, self.rule = group, name, ptx, args, rule or Rule()
        self.grid, self.block, self.shared, self.arch, self.lanes = grid, block, shared, arch, lanes
        self.outputs, self.entry, self.faults = outputs, entry, faults
        self.simulated = simulated


def header(arch, version="8.0"):
    return f".version {version}\n.target sm_{arch}\n.address_size 64\n"


# ------------------------------------------------------------------------ single instructions

PACKED = {"f16x2": "f16", "bf16x2": "bf16"}


def operands(kind, count, which, rng):
    if kind in PACKED:
        low, high = (values.operands(PACKED[kind], count, which, rng) for _ in range(2))
        low, high = low.view(np.uint16).astype(np.uint32), high.view(np.uint16).astype(np.uint32)
        if kind == "bf16x2":  # values.py has no edges for bf16
            edges = np.array([0, 0x8000, 0x3F80, 0x7F80, 0xFF80, 0x7FC0, 1, 0x8001, 0x7F7F], np.uint32)
            n = len(edges)
            at = np.arange(min(n ** count, LANES // 2))
            low[: len(at)] = edges[at // n ** which % n]
        return low | high << np.uint32(16)
    return values.operands(kind, count, which, rng)


def single(group, text, dst, sources, rule, arch=80, version="8.0", name=None):
    """One instruction (or a few) on 1024 lanes."""
    rng = np.random.default_rng(len(text) * 1000 + sum(map(ord, text)))
    plain = tuple("u32" if s in PACKED else s for s in sources)
    out = "u32" if dst in PACKED else dst
    text = text.replace("{{", "{").replace("}}", "}")
    parts = re.split(r"(\{[dabc]\})", text)  # other braces are PTX
    safe = "".join(p if i % 2 else p.replace("{", "{{").replace("}", "}}") for i, p in enumerate(parts))
    ptx = values.kernel(safe, out, plain)
    ptx = re.sub(r"\.version [\d.]+\n\.target \w+\n\.address_size 64\n", header(arch, version), ptx)
    args = [("out", np.zeros(LANES, values.NUMPY[out]))]
    args += [("in", operands(s, len(sources), i, rng)) for i, s in enumerate(sources)]
    return Test(group, name or text, ptx, args, rule, arch=80 if arch == 80 else int(str(arch)[:2]),
                lanes=True)


BITS = Rule()


def exact(kind):
    """Rounded as the ISA says: the same bits, but NaN is NaN."""
    if kind in PACKED:
        return Rule(PACKED[kind], packed=True)
    return Rule(kind) if kind in ("f16", "bf16", "f32", "f64") else BITS


# Tolerances that the ISA states (PTX ISA 9.7.3, 9.7.4), in ulp where not said otherwise.  Both sides
# may be off by that much, the simulator by half a unit.
APPROXIMATE = [
    (r"div\.approx(\.ftz)?\.f32", Rule("f32", 3)),      # 2 ulp
    (r"div\.full(\.ftz)?\.f32", Rule("f32", 3)),        # 2 ulp
    (r"rcp\.approx(\.ftz)?\.f32", Rule("f32", 2)),      # 1 ulp
    (r"sqrt\.approx(\.ftz)?\.f32", Rule("f32", 3)),     # relative 2^-23
    (r"rsqrt\.approx(\.ftz)?\.f32", Rule("f32", 3)),    # relative 2^-22.9
    (r"ex2\.approx(\.ftz)?\.f32", Rule("f32", 3)),      # 2 ulp
    (r"tanh\.approx\.f32", Rule("f32", 2 ** 13)),       # relative 2^-11
    (r"rcp\.approx\.ftz\.f64", Rule("f64", 2.0 ** 33)),  # 20 bits of mantissa
    (r"rsqrt\.approx\.ftz\.f64", Rule("f64", 2.0 ** 33)),
    (r"ex2\.approx\.f16x2", Rule("f16", 3, packed=True)),         # relative 2^-9.9
    (r"ex2\.approx\.f16", Rule("f16", 3)),
    (r"ex2\.approx\.ftz\.bf16x2", Rule("bf16", 2.5, packed=True)),  # relative 2^-7
    (r"ex2\.approx\.ftz\.bf16", Rule("bf16", 2.5)),
    (r"tanh\.approx\.f16x2", Rule("f16", 2.0 ** -10, absolute=True, packed=True)),  # 2^-10.987
    (r"tanh\.approx\.f16", Rule("f16", 2.0 ** -10, absolute=True)),
    (r"tanh\.approx\.bf16x2", Rule("bf16", 2.0 ** -7, absolute=True, packed=True)),  # 2^-8
    (r"tanh\.approx\.bf16", Rule("bf16", 2.0 ** -7, absolute=True)),
]


def rule_of(text, dst):
    for pattern, rule in APPROXIMATE:
        if re.search(pattern, text):
            return rule
    return exact(dst)


def from_values():
    for row in values.rows():
        text, dst, sources = row[:3]
        if text.startswith(("max.f32 {d}, {a}, {b}, {c}", "lg2")):
            continue  # sm_100; lg2 has its own ranges below
        arch, version = (89, "8.1") if "e4m3" in text else (80, "8.0")
        if re.match(r"(add|sub|mul)\.rn\.bf16", text):
            arch = 90
        if ".f16 p|q" in text:
            text = text.replace("p|q", "p")  # ptxas: half precision gives one predicate
        group = ("across lanes" if re.search(r"shfl|redux|match|vote", text) else
                 "conversions" if text.startswith("cvt") else
                 "integer" if not re.search(r"\.(b?f16|f32|f64)\b", text) else "floating point")
        rule = rule_of(text, dst)
        if text.startswith("cvt.rn.bf16x2"):
            rule = Rule("bf16", packed=True)
        elif text.startswith("cvt.rn.f16x2"):
            rule = Rule("f16", packed=True)
        elif text.startswith("cvt.rn.f16.f32"):
            rule = Rule("f16")
        elif text.startswith("cvt.rn.bf16.f32"):
            rule = Rule("bf16")
        yield single(group, text, dst, sources, rule, arch, version)


def integer_rows():
    three = ("u32",) * 3
    for t in ("u32", "s32"):
        yield f"mul24.lo.{t} {{d}}, {{a}}, {{b}};", t, (t, t)
        yield f"mul24.hi.{t} {{d}}, {{a}}, {{b}};", t, (t, t)
        yield f"mad24.lo.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, (t, t, t)
        yield f"mad24.hi.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, (t, t, t)
        yield f"bfind.shiftamt.{t} {{d}}, {{a}};", "u32", (t,)
    yield "mad24.hi.sat.s32 {d}, {a}, {b}, {c};", "s32", ("s32",) * 3
    yield "mad.hi.sat.s32 {d}, {a}, {b}, {c};", "s32", ("s32",) * 3
    for t in ("u64", "s64"):
        yield f"bfind.shiftamt.{t} {{d}}, {{a}};", "u32", (t,)
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield f"prmt.b32.{mode} {{d}}, {{a}}, {{b}}, {{c}};", "u32", three
    for x in ("u32", "s32"):
        for y in ("u32", "s32"):
            yield f"dp4a.{x}.{y} {{d}}, {{a}}, {{b}}, {{c}};", "u32", three
            for half in ("lo", "hi"):
                yield f"dp2a.{half}.{x}.{y} {{d}}, {{a}}, {{b}}, {{c}};", "u32", three
    yield "szext.wrap.s32 {d}, {a}, {b};", "s32", ("s32", "u32")
    yield "szext.clamp.u32 {d}, {a}, {b};", "u32", ("u32", "u32")
    yield "bmsk.wrap.b32 {d}, {a}, {b};", "u32", ("u32", "u32")
    yield "bmsk.clamp.b32 {d}, {a}, {b};", "u32", ("u32", "u32")
    yield "fns.b32 {d}, {a}, 0, 3;", "u32", ("u32",)
    yield "slct.u32.s32 {d}, {a}, {b}, {c};", "u32", three
    yield "set.lt.u32.s32 {d}, {a}, {b};", "u32", ("s32", "s32")
    yield "set.ge.u32.u64 {d}, {a}, {b};", "u32", ("u64", "u64")
    for pair in ("lo", "ls", "hi", "hs"):
        yield f"setp.{pair}.u32 p, {{a}}, {{b}}; selp.u32 {{d}}, 1, 2, p;", "u32", ("u32", "u32")
    for op in ("and", "or", "xor"):
        yield (f"setp.lt.u32 q, {{a}}, {{c}}; setp.gt.{op}.s32 p|q, {{a}}, {{b}}, q; selp.u32 {{d}}, 1, 0, p;"
               " @q add.u32 {d}, {d}, 2;"), "u32", three
    yield "add.cc.u64 {d}, {a}, {b}; addc.u64 {d}, {a}, {c};", "u64", ("u64",) * 3
    yield "sub.cc.u64 {d}, {a}, {b}; subc.u64 {d}, {a}, {c};", "u64", ("u64",) * 3
    yield "mad.hi.cc.u32 {d}, {a}, {b}, {c}; addc.u32 {d}, {a}, {c};", "u32", three
    yield "mad.lo.cc.u64 {d}, {a}, {b}, {c}; madc.hi.u64 {d}, {a}, {b}, {c};", "u64", ("u64",) * 3
    for table in (0x00, 0x17, 0x2D, 0x3C, 0x55, 0x69, 0x8E, 0xB1, 0xD8, 0xEA):
        yield f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {table};", "u32", three
    yield "{{ .reg .b32 x, y; mov.b64 {{x, y}}, {a}; sub.u32 {d}, y, x; }}", "u32", ("u64",)
    yield "{{ .reg .b16 x, y; mov.b32 {{x, y}}, {a}; mov.b32 {d}, {{y, x}}; }}", "u32", ("u32",)
    yield "mov.b64 {d}, {{{b}, {a}}};", "u64", ("u32", "u32")
    for t, w in (("u8", "u32"), ("s8", "s32"), ("u16", "u32"), ("s16", "s32")):
        yield f"cvt.{t}.{w} {{d}}, {{a}};", w, (w,)
        yield f"cvt.sat.{t}.s32 {{d}}, {{a}};", "s32", ("s32",)
    for a, b in (("u32", "s64"), ("s32", "u64"), ("u64", "s32"), ("s16", "u64"), ("u32", "s16")):
        yield f"cvt.sat.{a}.{b} {{d}}, {{a}};", a, (b,)


def float_rows():
    for t in ("f32", "f64"):
        for r in ("rn", "rz", "rm", "rp"):
            for op in ("add", "sub", "mul", "div"):
                if op == "div" and r == "rn":
                    continue
                yield f"{op}.{r}.{t} {{d}}, {{a}}, {{b}};", t, (t, t)
            yield f"fma.{r}.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, (t,) * 3
            yield f"rcp.{r}.{t} {{d}}, {{a}};", t, (t,)
            yield f"sqrt.{r}.{t} {{d}}, {{a}};", t, (t,)
    for text in ("fma.rn.ftz.f32 {d}, {a}, {b}, {c};", "fma.rn.sat.f32 {d}, {a}, {b}, {c};",
                 "fma.rn.ftz.sat.f32 {d}, {a}, {b}, {c};", "mad.rn.f32 {d}, {a}, {b}, {c};"):
        yield text, "f32", ("f32",) * 3
    for text in ("mul.sat.f32 {d}, {a}, {b};", "sub.ftz.sat.f32 {d}, {a}, {b};",
                 "min.ftz.f32 {d}, {a}, {b};", "max.ftz.NaN.f32 {d}, {a}, {b};",
                 "min.NaN.f32 {d}, {a}, {b};",
                 "div.rn.ftz.f32 {d}, {a}, {b};", "div.approx.f32 {d}, {a}, {b};",
                 "div.approx.ftz.f32 {d}, {a}, {b};", "div.full.ftz.f32 {d}, {a}, {b};"):
        yield text, "f32", ("f32", "f32")
    for text in ("min.xorsign.abs", "max.xorsign.abs", "max.NaN.xorsign.abs"):
        for t in ("f32", "f16", "f16x2", "bf16", "bf16x2"):
            yield f"{text}.{t} {{d}}, {{a}}, {{b}};", t, (t, t), 86
    for text in ("rcp.rn.ftz.f32", "rcp.approx.ftz.f32", "sqrt.rn.ftz.f32", "sqrt.approx.f32",
                 "sqrt.approx.ftz.f32", "rsqrt.approx.ftz.f32", "neg.ftz.f32", "abs.ftz.f32"):
        yield f"{text} {{d}}, {{a}};", "f32", ("f32",)
    for text in ("neg.f64", "abs.f64", "rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"):
        yield f"{text} {{d}}, {{a}};", "f64", ("f64",)
    yield "max.f64 {d}, {a}, {b};", "f64", ("f64", "f64")
    yield "copysign.f64 {d}, {a}, {b};", "f64", ("f64", "f64")
    for what in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        for t in ("f32", "f64"):
            yield f"testp.{what}.{t} p, {{a}}; selp.u32 {{d}}, 1, 0, p;", "u32", (t,)
    yield "set.lt.f32.f32 {d}, {a}, {b};", "f32", ("f32", "f32")
    yield "set.gtu.u32.f32 {d}, {a}, {b};", "u32", ("f32", "f32")
    yield "setp.lt.ftz.f32 p, {a}, {b}; selp.u32 {d}, 1, 0, p;", "u32", ("f32", "f32")
    yield "slct.f32.f32 {d}, {a}, {b}, {c};", "f32", ("f32",) * 3
    yield "slct.ftz.u32.f32 {d}, {a}, {b}, {c};", "u32", ("u32", "u32", "f32")
    for t in ("f16", "f16x2"):
        for text in ("add", "sub", "mul", "add.ftz", "mul.ftz", "add.sat", "mul.sat", "min", "max",
                     "min.NaN", "max.ftz"):
            yield f"{text}.{t} {{d}}, {{a}}, {{b}};", t, (t, t)
        for text in ("fma.rn", "fma.rn.ftz", "fma.rn.sat", "fma.rn.relu"):
            yield f"{text}.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, (t,) * 3
        for text in ("neg", "abs", "ex2.approx", "tanh.approx"):
            yield f"{text}.{t} {{d}}, {{a}};", t, (t,)
    for t in ("bf16", "bf16x2"):
        for text in ("min", "max", "max.NaN"):
            yield f"{text}.{t} {{d}}, {{a}}, {{b}};", t, (t, t)
        for text in ("fma.rn", "fma.rn.relu"):
            yield f"{text}.{t} {{d}}, {{a}}, {{b}}, {{c}};", t, (t,) * 3
        for text in ("neg", "abs", "ex2.approx.ftz", "tanh.approx"):
            yield f"{text}.{t} {{d}}, {{a}};", t, (t,), 90
        for text in ("add", "sub", "mul"):
            yield f"{text}.{t} {{d}}, {{a}}, {{b}};", t, (t, t), 90


def conversion_rows():
    for r in ("rn", "rz"):
        for relu in ("", ".relu"):
            yield f"cvt.{r}{relu}.f16x2.f32 {{d}}, {{a}}, {{b}};", "f16x2", ("f32", "f32")
            yield f"cvt.{r}{relu}.bf16x2.f32 {{d}}, {{a}}, {{b}};", "bf16x2", ("f32", "f32")
            yield f"cvt.{r}{relu}.bf16.f32 {{d}}, {{a}};", "bf16", ("f32",)
            yield f"cvt.{r}{relu}.f16.f32 {{d}}, {{a}};", "f16", ("f32",)
    yield "cvt.rna.tf32.f32 {d}, {a};", "f32", ("f32",)
    for r in ("rm", "rp"):
        yield f"cvt.{r}.f16.f32 {{d}}, {{a}};", "f16", ("f32",)
        yield f"cvt.{r}.f32.f64 {{d}}, {{a}};", "f32", ("f64",)
    yield "cvt.rz.f32.f64 {d}, {a};", "f32", ("f64",)
    yield "cvt.rn.ftz.f32.f64 {d}, {a};", "f32", ("f64",)
    yield "cvt.rn.sat.f32.f64 {d}, {a};", "f32", ("f64",)
    yield "cvt.f64.f16 {d}, {a};", "f64", ("f16",)
    yield "cvt.rn.f16.f64 {d}, {a};", "f16", ("f64",)
    for r in ("rni", "rzi", "rmi", "rpi"):
        yield f"cvt.{r}.f32.f32 {{d}}, {{a}};", "f32", ("f32",)
        yield f"cvt.{r}.f16.f16 {{d}}, {{a}};", "f16", ("f16",)
        yield f"cvt.{r}.f64.f64 {{d}}, {{a}};", "f64", ("f64",)
        for t in ("s32", "u64"):
            yield f"cvt.{r}.{t}.f64 {{d}}, {{a}};", t, ("f64",)
        for t in ("s16", "u32", "s64"):
            yield f"cvt.{r}.{t}.f16 {{d}}, {{a}};", t, ("f16",)
    for r in ("rn", "rz", "rm", "rp"):
        for t in ("u32", "s32", "u64", "s64"):
            yield f"cvt.{r}.f32.{t} {{d}}, {{a}};", "f32", (t,)
        yield f"cvt.{r}.f64.s64 {{d}}, {{a}};", "f64", ("s64",)
        yield f"cvt.{r}.f16.s32 {{d}}, {{a}};", "f16", ("s32",)
    yield "cvt.rzi.ftz.s32.f32 {d}, {a};", "s32", ("f32",)
    yield "cvt.rzi.sat.u32.f32 {d}, {a};", "u32", ("f32",)
    yield "cvt.rni.s8.f32 {d}, {a};", "s32", ("f32",)
    for t in ("e4m3x2", "e5m2x2"):
        for relu in ("", ".relu"):
            yield f"cvt.rn.satfinite{relu}.{t}.f32 {{d}}, {{a}}, {{b}};", "u16", ("f32", "f32"), 89
            yield f"cvt.rn.satfinite{relu}.{t}.f16x2 {{d}}, {{a}};", "u16", ("f16x2",), 89
        yield f"cvt.rn.f16x2.{t} {{d}}, {{a}};", "f16x2", ("u16",), 89
        yield f"cvt.rn.relu.f16x2.{t} {{d}}, {{a}};", "f16x2", ("u16",), 89


def lane_rows():
    for mode, clamp in (("up", 0), ("down", 31), ("bfly", 31), ("idx", 31)):
        for width in (32, 8):
            c = clamp | (32 - width) << 8
            yield (f"{{ .reg .b32 x; .reg .pred r; and.b32 x, {{b}}, 31;"
                   f" shfl.sync.{mode}.b32 {{d}}|r, {{a}}, x, {c}, -1; @!r not.b32 {{d}}, {{d}}; }}"), \
                "u32", ("u32", "u32")
    for op in ("add", "min", "max"):
        for t in ("u32", "s32"):
            yield f"redux.sync.{op}.{t} {{d}}, {{a}}, -1;", "u32", ("u32",)
    for op in ("and", "or", "xor"):
        yield f"redux.sync.{op}.b32 {{d}}, {{a}}, -1;", "u32", ("u32",)
    for op in ("all", "any", "uni"):
        yield (f"setp.lt.s32 p, {{a}}, 100; vote.sync.{op}.pred q, p, -1; selp.u32 {{d}}, 1, 0, q;"), \
            "u32", ("s32",)
    yield "and.b32 {a}, {a}, 0; match.all.sync.b32 {d}|p, {a}, -1; @!p not.b32 {d}, {d};", "u32", ("u32",)
    yield "match.all.sync.b32 {d}|p, {a}, -1; @!p not.b32 {d}, {d};", "u32", ("u32",)
    yield "and.b64 {a}, {a}, 1; match.any.sync.b64 {d}, {a}, -1;", "u32", ("u64",)
    yield "setp.lt.s32 p, {a}, 0; @p activemask.b32 {d}; @!p mov.b32 {d}, 0;", "u32", ("s32",)
    for op in ("popc.u32", ):
        yield f"setp.lt.s32 p, {{a}}, 0; bar.red.{op} {{d}}, 0, p;", "u32", ("s32",)
    for op in ("and", "or"):
        yield (f"setp.lt.s32 p, {{a}}, 2000000000; barrier.sync 0; bar.red.{op}.pred q, 0, p;"
               " selp.u32 {d}, 1, 0, q;"), "u32", ("s32",)
    yield ("{{ .reg .b32 x; barrier.cta.red.popc.aligned.u32 x, 1, {a}; mov.u32 {d}, x; }}"
           .replace("{a}", "p").replace("{{ .reg", "{{ setp.eq.u32 p, {a}, 0; .reg")), "u32", ("u32",)
    for name in ("tid.x", "ntid.x", "ctaid.x", "nctaid.x", "laneid", "lanemask_lt", "lanemask_le",
                 "lanemask_eq", "lanemask_ge", "lanemask_gt"):
        yield f"mov.u32 {{d}}, %{name}; xor.b32 {{d}}, {{d}}, {{a}};", "u32", ("u32",)


def lg2_rows():
    # absolute 2^-22 where the argument is near 1, relative 2^-22 elsewhere (9.7.3.20)
    for ftz in ("", ".ftz"):
        near = f"{{{{ .reg .f32 x; and.b32 x, {{a}}, 0x007fffff; or.b32 x, x, 0x3f800000; lg2.approx{ftz}.f32 {{d}}, x; }}}}"
        near = near.replace(".reg .f32", ".reg .b32")
        yield near, "f32", ("f32",), Rule("f32", 2.0 ** -21.5, absolute=True)
        far = (f"{{{{ .reg .b32 x; and.b32 x, {{a}}, 0x01ffffff; or.b32 x, x, 0x42000000;"
               f" lg2.approx{ftz}.f32 {{d}}, x; }}}}")
        yield far, "f32", ("f32",), Rule("f32", 6)
    # sine and cosine: absolute 2^-20.5 in [-pi, pi]
    for f in ("sin", "cos"):
        yield (f"{{{{ .reg .b32 x; and.b32 x, {{a}}, 0xc07fffff; min.f32 x, x, 0f40400000;"
               f" {f}.approx.f32 {{d}}, x; }}}}"), "f32", ("f32",), Rule("f32", 2.0 ** -19.5, absolute=True)


def singles():
    yield from from_values()
    for group, table in (("integer", integer_rows), ("floating point", float_rows),
                         ("conversions", conversion_rows), ("across lanes", lane_rows)):
        for row in table():
            text, dst, sources = row[:3]
            arch = row[3] if len(row) > 3 else 80
            yield single(group, text, dst, sources, rule_of(text, dst), arch, "8.1" if arch > 80 else "8.0")
    for text, dst, sources, rule in lg2_rows():
        yield single("floating point", text.replace("{{{{", "{{").replace("}}}}", "}}"), dst, sources, rule)


# ------------------------------------------------------------------------ memory

ADDRESS = """    mov.u32 t, %tid.x;
    ld.param.u64 in, [pin];
    ld.param.u64 out, [pout];
"""


def body(text, arch=80, registers="", variables="", version="8.0"):
    return (header(arch, version) + ".visible .entry k(.param .u64 pin, .param .u64 pout)\n{\n"
            "    .reg .b16 h<9>; .reg .b32 t, s, n, r<17>; .reg .b64 in, out, at, w<9>; .reg .pred p, q;\n"
            + registers + variables + ADDRESS + text + "    ret;\n}\n")


def raw(count, seed=5):
    return np.random.default_rng(seed).integers(0, 256, count).astype(np.uint8)


def kernel(name, text, size_in, size_out, group="memory", arch=80, variables="", registers="", threads=128,
           rule=None, out_type=np.uint32, data=None, version="8.0", **more):
    data = raw(size_in, len(name)) if data is None else data
    zero = np.zeros(size_out // np.dtype(out_type).itemsize, out_type)
    return Test(group, name, body(text, arch, registers, variables, version),
                [("in", data), ("inout", zero)], rule, block=(threads, 1, 1), arch=arch if arch == 80 else 90,
                **more)


def memory_tests():
    # every type, from global through shared and local memory, sign extension included
    for t, size in (("u8", 1), ("s8", 1), ("u16", 2), ("s16", 2), ("u32", 4), ("s32", 4), ("b8", 1),
                    ("b16", 2), ("f32", 4)):
        reg = "r0" if t != "f32" else "r0"
        text = (f"    mad.wide.u32 at, t, {size}, in;\n    ld.global.{t} {reg}, [at];\n"
                f"    mov.u32 s, buffer;\n    mad.lo.u32 s, t, {size}, s;\n    st.shared.{t} [s], {reg};\n"
                f"    bar.sync 0;\n    mov.u32 s, buffer;\n    xor.b32 n, t, 37;\n    mad.lo.u32 s, n, {size}, s;\n"
                f"    ld.shared.{t} {reg}, [s];\n    st.local.{t} [mine+4], {reg};\n    ld.local.{t} {reg}, [mine+4];\n"
                "    mad.wide.u32 at, t, 4, out;\n    st.global.u32 [at], r0;\n")
        yield kernel(f"ld, st .{t} of global, shared, local", text, 128 * size, 512,
                     variables="    .shared .align 8 .b8 buffer[1024];\n    .local .align 8 .b8 mine[16];\n")
    for vector, t, size in (("v2", "b32", 8), ("v4", "b32", 16), ("v2", "b64", 16), ("v4", "b16", 8),
                            ("v4", "b8", 4), ("v2", "b16", 4), ("v2", "b8", 2)):
        count = int(vector[1])
        names = ", ".join(f"{ {'b64': 'w', 'b16': 'h', 'b8': 'h', 'b32': 'r'}[t] }{i}" for i in range(count))
        back = ", ".join(reversed(names.split(", ")))
        text = (f"    mad.wide.u32 at, t, {size}, in;\n    ld.global.nc.{vector}.{t} {{{names}}}, [at];\n"
                f"    mov.u32 s, buffer;\n    mad.lo.u32 s, t, {size}, s;\n    st.shared.{vector}.{t} [s], {{{back}}};\n"
                f"    bar.sync 0;\n    mov.u32 s, buffer;\n    xor.b32 n, t, 37;\n    mad.lo.u32 s, n, {size}, s;\n"
                f"    ld.shared.{vector}.{t} {{{names}}}, [s];\n    mad.wide.u32 at, t, {size}, out;\n"
                f"    st.global.{vector}.{t} [at], {{{names}}};\n")
        yield kernel(f"ld, st .{vector}.{t}", text, 128 * size, 128 * size,
                     variables="    .shared .align 16 .b8 buffer[2048];\n")
    # generic addresses
    text = ("    mad.wide.u32 at, t, 4, in;\n    ld.u32 r0, [at];\n    mov.u32 s, buffer;\n    mad.lo.u32 s, t, 4, s;\n"
            "    cvt.u64.u32 w0, s;\n    cvta.shared.u64 w1, w0;\n    st.u32 [w1], r0;\n    bar.sync 0;\n"
            "    cvta.to.shared.u64 w2, w1;\n    cvt.u32.u64 n, w2;\n    xor.b32 n, n, 16;\n    ld.shared.u32 r1, [n];\n"
            "    isspacep.shared p, w1;\n    selp.u32 r2, 1, 0, p;\n    isspacep.global p, w1;\n    @p add.u32 r2, r2, 2;\n"
            "    isspacep.global p, at;\n    @p add.u32 r2, r2, 4;\n    mov.u64 w3, mine;\n    cvta.local.u64 w3, w3;\n"
            "    isspacep.local p, w3;\n    @p add.u32 r2, r2, 8;\n    st.u32 [w3], r2;\n    ld.local.u32 r2, [mine];\n"
            "    xor.b32 r1, r1, r2;\n    mad.wide.u32 at, t, 4, out;\n    st.u32 [at], r1;\n")
    yield kernel("generic addresses, isspacep, cvta", text, 512, 512,
                 variables="    .shared .align 16 .b8 buffer[1024];\n    .local .align 8 .b8 mine[16];\n")
    # constants, arrays, brx, calls
    text = ("    and.b32 n, t, 3;\n    brx.idx n, LIST;\nA:  mov.u32 r0, 11;\n    bra.uni OUT;\nB:  mov.u32 r0, 22;\n"
            "    bra.uni OUT;\nC:  mov.u32 r0, 33;\n    bra.uni OUT;\nD:  mov.u32 r0, 44;\nOUT:\n"
            "    mad.wide.u32 at, t, 4, out;\n    st.global.u32 [at], r0;\n")
    ptx = kernel("brx.idx", text.replace("    brx.idx", "LIST: .branchtargets A, B, C, D;\n    brx.idx"), 512, 512,
                 group="control")
    yield ptx
    text = ("LOOP:\n    setp.eq.u32 p, t, 0;\n    @p bra END;\n    and.b32 n, t, 1;\n    setp.eq.u32 q, n, 0;\n"
            "    add.u32 s, s, 1;\n    @q bra EVEN;\n    mad.lo.u32 t, t, 3, 1;\n    bra LOOP;\nEVEN:\n    shr.u32 t, t, 1;\n"
            "    setp.gt.u32 p, t, 1;\n    @p bra LOOP;\nEND:\n    mov.u32 t, %tid.x;\n    mad.wide.u32 at, t, 4, out;\n"
            "    st.global.u32 [at], s;\n")
    yield kernel("divergent loops", "    mov.u32 s, 0;\n" + text, 512, 512, group="control")
    # atomics: one address a lane in shared memory, and one for all in global memory (no result kept)
    for op, t, size in (("add", "u32", 4), ("add", "s32", 4), ("add", "u64", 8), ("min", "u32", 4), ("min", "s32", 4),
                        ("max", "u64", 8), ("max", "s64", 8), ("and", "b32", 4), ("or", "b64", 8), ("xor", "b32", 4),
                        ("exch", "b32", 4), ("exch", "b64", 8), ("cas", "b32", 4), ("cas", "b64", 8), ("cas", "b16", 2),
                        ("inc", "u32", 4), ("dec", "u32", 4), ("add", "f32", 4), ("add", "f64", 8),
                        ("add.noftz", "f16", 2), ("add.noftz", "f16x2", 4), ("add.noftz", "bf16x2", 4)):
        r = {2: "h", 4: "r", 8: "w"}[size]
        b = {2: "b16", 4: "b32", 8: "b64"}[size]
        third = f", {r}1" if op == "cas" else ""
        for space in ("shared", "global"):
            place = (f"    mov.u32 s, buffer;\n    mad.lo.u32 s, t, {size}, s;\n    st.shared.{b} [s], {r}1;\n" if space == "shared"
                     else f"    add.u64 w6, out, 4096;\n    mad.wide.u32 w5, t, {size}, w6;\n    st.global.{b} [w5], {r}1;\n")
            where = "s" if space == "shared" else "w5"
            second = f"{r}1" if op == "cas" else f"{r}2"
            third = f", {r}2" if op == "cas" else ""
            text = (f"    mad.wide.u32 at, t, {2 * size}, in;\n    ld.global.{b} {r}1, [at];\n    ld.global.{b} {r}2, [at+{size}];\n"
                    + place + f"    atom.{space}.{op}.{t} {r}3, [{where}], {second}{third};\n"
                    f"    ld.{space}.{b} {r}4, [{where}];\n    mad.wide.u32 at, t, {2 * size}, out;\n"
                    f"    st.global.{b} [at], {r}3;\n    st.global.{b} [at+{size}], {r}4;\n")
            data, rule, out_type = None, None, np.uint32
            if "f" in t:
                kind = t.replace("x2", "")
                rng = np.random.default_rng(9)
                x = rng.standard_normal(256 * size // {"f32": 4, "f64": 8}.get(kind, 2))
                data = (values.bf16_array(x) if kind == "bf16" else
                        x.astype({"f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]))
                rule = Rule(kind)
                out_type = {"bf16": np.uint16, "f16": np.float16, "f32": np.float32, "f64": np.float64}[kind]
            yield kernel(f"atom.{space}.{op}.{t}", text, 256 * size, 8192, group="atomics", data=data,
                         variables="    .shared .align 16 .b8 buffer[1024];\n", rule=rule, out_type=out_type,
                         arch=90 if "bf16" in t else 80)
    for op, t in (("add", "u32"), ("min", "s32"), ("max", "u32"), ("xor", "b32"), ("or", "b32"), ("inc", "u32")):
        text = (f"    mad.wide.u32 at, t, 4, in;\n    ld.global.u32 r1, [at];\n"
                + ("    mov.u32 r1, 1000;\n" if op == "inc" else "") +
                f"    red.global.{op}.{t} [out], r1;\n    and.b32 n, t, 7;\n    mad.wide.u32 at, n, 4, out;\n"
                f"    red.global.{op}.{t} [at+64], r1;\n")
        yield kernel(f"red.global.{op}.{t}, shared addresses", text, 512, 128, group="atomics")
    # cp.async
    for size, cache in ((4, "ca"), (8, "ca"), (16, "ca"), (16, "cg")):
        for source in ("", "zfill"):
            src = "" if not source else ", n"
            text = (f"    mad.wide.u32 at, t, {size}, in;\n    mov.u32 s, buffer;\n    mad.lo.u32 s, t, {size}, s;\n"
                    f"    rem.u32 n, t, {size + 1};\n    cp.async.{cache}.shared.global [s], [at], {size}{src};\n"
                    "    cp.async.commit_group;\n    cp.async.wait_group 0;\n    bar.sync 0;\n    mov.u32 s, buffer;\n"
                    f"    xor.b32 n, t, 5;\n    mad.lo.u32 s, n, {size}, s;\n    mad.wide.u32 at, t, {size}, out;\n")
            for i in range(size // 4):
                text += f"    ld.shared.b32 r{i}, [s+{4 * i}];\n    st.global.b32 [at+{4 * i}], r{i};\n"
            yield kernel(f"cp.async.{cache} {size} {source}", text, 128 * size, 128 * size, group="sm_80 matrix and copy",
                         variables="    .shared .align 16 .b8 buffer[2048];\n")


def matrix_tests():
    fill = ("    mad.wide.u32 at, t, 16, in;\n    ld.global.v4.b32 {r0, r1, r2, r3}, [at];\n    mov.u32 s, buffer;\n"
            "    mad.lo.u32 n, t, 16, s;\n    st.shared.v4.b32 [n], {r0, r1, r2, r3};\n    bar.sync 0;\n")
    where = "    mul.lo.u32 n, t, 7;\n    and.b32 n, n, 31;\n    mad.lo.u32 s, n, 16, s;\n"
    for count in (1, 2, 4):
        for trans in ("", ".trans"):
            names = ", ".join(f"r{i}" for i in range(count))
            text = fill + where + f"    ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{names}}}, [s];\n"
            text += f"    mad.wide.u32 at, t, {4 * count}, out;\n"
            text += "".join(f"    st.global.b32 [at+{4 * i}], r{i};\n" for i in range(count))
            yield kernel(f"ldmatrix.x{count}{trans}", text, 512, 128 * count, group="sm_80 matrix and copy", threads=32,
                         variables="    .shared .align 16 .b8 buffer[512];\n")
            text = ("    mad.wide.u32 at, t, 16, in;\n    ld.global.v4.b32 {r0, r1, r2, r3}, [at];\n    mov.u32 s, buffer;\n"
                    "    mad.lo.u32 n, t, 16, s;\n    mov.u32 r8, 0;\n    st.shared.v4.b32 [n], {r8, r8, r8, r8};\n    bar.sync 0;\n"
                    + where + f"    stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [s], {{{names}}};\n    bar.sync 0;\n"
                    "    mov.u32 s, buffer;\n    mad.lo.u32 n, t, 16, s;\n    ld.shared.v4.b32 {r4, r5, r6, r7}, [n];\n"
                    "    mad.wide.u32 at, t, 16, out;\n    st.global.v4.b32 [at], {r4, r5, r6, r7};\n")
            yield kernel(f"stmatrix.x{count}{trans}", text, 512, 512, group="sm_90 small", threads=32, arch=90,
                         variables="    .shared .align 16 .b8 buffer[512];\n")
    text = ("    mad.wide.u32 at, t, 4, in;\n    ld.global.b32 r0, [at];\n    movmatrix.sync.aligned.m8n8.trans.b16 r1, r0;\n"
            "    mad.wide.u32 at, t, 4, out;\n    st.global.b32 [at], r1;\n")
    yield kernel("movmatrix", text, 128, 128, group="sm_80 matrix and copy", threads=32)
    text = ("    mov.u32 r0, 0;\n    elect.sync r1|p, -1;\n    @p mov.u32 r0, 1;\n    redux.sync.add.u32 r2, r0, -1;\n"
            "    mad.wide.u32 at, t, 4, out;\n    st.global.b32 [at], r2;\n")
    yield kernel("elect.sync chooses one lane", text, 128, 128, group="sm_90 small", threads=32, arch=90)


def mma_test(row, variant, made):
    shape, types = row[:2]
    ptx, inputs, _, scale = made
    out = inputs[2]
    kind = types.split(".")[0]
    # the ISA leaves order and precision of f32 sums open (9.7.14.5.14); of an H200 they are known to the bit
    rule = Rule() if kind == "s32" else Rule(kind, {"f32": 0, "f16": 0, "f64": 2.0 ** -50}[kind], scale=scale)
    arch = (90 if "f64" in types and shape != "m8n8k4" else 89 if "e4m3" in types else 80)
    ptx = re.sub(r"\.version [\d.]+\n\.target \w+", f".version {'8.7' if 'e4m3' in types else '8.0'}\n"
                 f".target sm_{arch}", ptx)
    return Test("mma.sync", f"mma {shape} {types} {variant}", ptx,
                [("inout", np.zeros_like(out))] + [("in", a) for a in inputs], rule,
                block=(32, 1, 1), arch=arch, simulated="sm_90")


def mma_tests():
    rng = np.random.default_rng(11)
    table = list(values.MMA)
    table += [("m16n8k8", "f16.f16.f16.f16", 16, 8, 2), ("m16n8k32", "s32.u8.u8.s32", 16, 32, 4),
              ("m16n8k32", "s32.u8.s8.s32", 16, 32, 4), ("m16n8k32", "s32.s8.u8.s32", 16, 32, 4),
              ("m16n8k16", "s32.s8.s8.s32", 16, 16, 4), ("m8n8k16", "s32.u8.u8.s32", 8, 16, 4),
              ("m16n8k16", "f64.f64.f64.f64", 16, 16, 1), ("m16n8k4", "f64.f64.f64.f64", 16, 4, 1)]
    for row in table:
        for variant in ("random", "cancel", "large"):
            types = row[1]
            if variant == "large" and not types.startswith("f32.bf16"):
                continue
            if variant == "cancel" and types.startswith("s32"):
                continue
            made = values.make_mma(row, rng, variant)
            if made is None:
                continue
            yield mma_test(row, variant, made)
    for row in table:  # what subnormals and zeros do to the exponent that all is cut below
        for variant in ("subnormal", "subnormal again", "zeros"):
            if row[1].split(".")[1] in ("f16", "bf16", "tf32"):
                yield mma_test(row, variant, values.make_mma(row, rng, variant.split()[0]))


def all_tests():
    yield from singles()
    yield from memory_tests()
    yield from matrix_tests()
    yield from mma_tests()
    import silicon_sm90  # it needs this module
    yield from silicon_sm90.tests()
