"""Forms of PTX that other compilers write, against Python: member masks, and more.

A case gives the text of an entry k(out, inputs..), its inputs and what it must write.  What must come out
is computed here from the PTX ISA's text.
"""
import pathlib
import subprocess

import numpy as np

import foreign_mma
import foreign_video

SEEDS = 2


def execute(simrun, scratch, text, inputs, out_bytes, options=(), seed=0):
    """Runs the module.  Returns (problem, bytes of out)."""
    path = scratch / "foreign.ptx"
    path.write_text(text)
    arguments = [simrun, str(path), "--seed", str(seed), *options, f"out:{scratch}/out:{out_bytes}"]
    for i, value in enumerate(inputs):
        if isinstance(value, str):
            arguments.append(value.replace("SCRATCH", str(scratch)))
        else:
            (scratch / f"in{i}").write_bytes(np.ascontiguousarray(value).tobytes())
            arguments.append(f"in:{scratch}/in{i}")
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode or "note: " in done.stdout:
        return f"exit {done.returncode}: {(done.stdout + done.stderr)[:600]}", None
    return None, (scratch / "out").read_bytes()


def per_lane(body, registers="", head="", target="sm_80", version="8.0", threads=32, inputs=0):
    """An entry of which each thread stores `d` at its place; `t` is the thread."""
    return f""".version {version}
.target {target}
.address_size 64
{head}
.visible .entry k(.param .u64 po{"".join(f", .param .u64 p{i}" for i in range(inputs))})
.reqntid {threads}
{{
    .reg .b32 t, d, x, y, z, m; .reg .pred p, q; .reg .b64 at, off;
    {registers}
    mov.u32 t, %tid.x;
{body}
    ld.param.u64 at, [po]; mul.wide.u32 off, t, 4; add.u64 at, at, off;
    st.global.b32 [at], d;
    ret;
}}
"""


def expect(want, text, inputs=(), options=(), files=None):
    """A case whose output are the 32-bit words `want`."""
    want = np.ascontiguousarray(want).view(np.uint32).ravel()

    def case(simrun, scratch, seed):
        for name, array in (files or {}).items():
            (scratch / name).write_bytes(array.tobytes())
        problem, out = execute(simrun, scratch, text, inputs, want.nbytes, options, seed)
        if problem:
            return problem
        got = np.frombuffer(out, np.uint32)
        wrong = np.flatnonzero(got != want)
        if wrong.size:
            i = wrong[0]
            return f"word {i} is {got[i]:#x}, not {want[i]:#x} ({wrong.size} are wrong)"
        return None
    return case


def refuses(said, text, options=(), inputs=()):
    """A case that must end with exit status 1 and these words."""
    def case(simrun, scratch, seed):
        problem, _ = execute(simrun, scratch, text, inputs, 128, options, seed)
        return None if problem and "exit 1: " in problem and said in problem else f"not refused: {problem}"
    return case


# ---------------------------------------------------------------------------- text

SPACES = """    mov .u32 x, %tid
        .x;
    @! p add /* a comment */ .u32 d , x, WARP_SZ;
    @p add .u32 d, x, 1 ;
    ld .param .u64 at , [ po ];
    shl .b32 y, x, 2; cvt .u64 .u32 off, y; add .u64 at, at, off;
    st .global .L1::no_allocate .u32 [ at ], d; ld .global .L1::no_allocate .u32 d, [ at + 0 ];"""

UNSUPPORTED = "istypep.texref p, x;"
MODULE = f""".version 8.0
.target sm_80
.address_size 64
.func helper(.param .u64 q) {{ .reg .pred p; .reg .b64 x; {UNSUPPORTED} ret; }}
.func middle(.param .u64 q) {{ {{ .param .u64 a; .reg .b64 x; ld.param.u64 x, [q]; st.param.u64 [a], x; call helper, (a); }} ret; }}
.visible .entry bad(.param .u64 po) {{ .reg .pred p; .reg .b64 x; {UNSUPPORTED} ret; }}
.visible .entry calls(.param .u64 po) {{ {{ .param .u64 a; st.param.u64 [a], 0; call middle, (a); }} ret; }}
.visible .entry points(.param .u64 po)
{{
    .reg .b64 f;
    mov.u64 f, middle;
    {{ .param .u64 a; st.param.u64 [a], 0; P: .callprototype _ (.param .u64 _); call f, (a), P; }}
    ret;
}}
.visible .entry good(.param .u64 po)
{{
    .reg .b64 at, f; .reg .b32 t;
    mov.u64 f, middle;
    ld.param.u64 at, [po]; mov.u32 t, 7; st.global.u32 [at], t;
    ret;
}}
"""


GRID = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 po, .param .u64 ps)
.reqntid 1
{
    .reg .b32 h, l, b, n, v, i; .reg .b64 at, bar, s; .reg .pred p;
    mov.u32 h, %envreg1; mov.u32 l, %envreg2; mov.b64 bar, {l, h}; mov.u32 b, %ctaid.x;
    ld.param.u64 at, [po]; ld.param.u64 s, [ps]; mul.wide.u32 s, b, 4;
    ld.param.u64 at, [ps]; add.u64 s, s, at; add.u32 v, b, 1; st.global.u32 [s], v;
    setp.eq.u32 p, b, 0; selp.u32 n, 0x7ffffffd, 1, p;
    atom.add.release.gpu.global.u32 n, [bar+4], n;
WAIT:
    ld.acquire.gpu.global.u32 i, [bar+4]; xor.b32 i, i, n; setp.ge.s32 p, i, 0;
    @p bra WAIT;
    ld.global.u32 v, [at]; ld.global.u32 i, [at+4]; add.u32 v, v, i;
    ld.global.u32 i, [at+8]; add.u32 v, v, i; ld.global.u32 i, [at+12]; add.u32 v, v, i;
    ld.param.u64 at, [po]; mul.wide.u32 s, b, 4; add.u64 at, at, s; st.global.u32 [at], v;
    ret;
}
"""


def text_cases():
    yield "blanks before modifiers", expect(
        (LANE + 1).astype(np.uint32), per_lane("    setp.ge.u32 p, t, 0;\n" + SPACES))
    yield "an entry that can run", expect(np.array([7], np.uint32), MODULE, options=["--entry", "good", "--block", "1"])
    for entry in ("bad", "calls", "points"):
        yield f"an entry that cannot: {entry}", refuses("istypep.texref", MODULE, ["--entry", entry, "--block", "1"])
    lane7 = np.full(32, 7, np.uint32)
    yield "directives of PTX 9.5", expect(lane7, per_lane("    ld.param.u32 d, [h+4];", version="9.5", target="sm_90a",
                                                   head='.file 2 "x.py"')
                                          .replace("po)", "po, .hidden .param .align 8 .b8 h[8])")
                                          .replace("{", ".language 7 {", 1) + """.nv_intermediate_source_section {
.code_block { .ir_name: "tile ir" .sourceFileName: 2
.source_begin
entry @k(%a: "tile) { { it's no PTX
.source_end
} }
""", inputs=["struct:8", "@4=u32:7"])
    # cooperative groups: the upper and the lower half of the address of the size and the barrier of a grid
    yield "the barrier of a grid", expect(np.full(4, 10, np.uint32), GRID, options=["--grid", "4", "--threads", "1"],
                                          inputs=["scratch:16"])
    yield "functions in initialisers", expect(
        np.where(LANE % 2, LANE + 1, LANE * 3).astype(np.uint32), per_lane("""
    and.b32 x, t, 1; cvt.u64.u32 off, x; shl.b64 off, off, 3; mov.u64 at, table; add.u64 at, at, off;
    ld.global.u64 off, [at];
    { .param .b32 a; st.param.b32 [a], t; .param .b32 r;
      P: .callprototype (.param .b32 _) _ (.param .b32 _); call (r), off, (a), P; ld.param.u32 d, [r]; }""", head="""
.func (.param .b32 r) three(.param .b32 a);
.global .align 8 .u64 table[2] = {three, one};
.func (.param .b32 r) one(.param .b32 a) { .reg .u32 x; ld.param.u32 x, [a]; add.u32 x, x, 1; st.param.b32 [r], x; ret; }
.func (.param .b32 r) three(.param .b32 a) { .reg .u32 x; ld.param.u32 x, [a]; mul.lo.u32 x, x, 3; st.param.b32 [r], x; ret; }"""
            .replace(".global", ".func (.param .b32 r) one(.param .b32 a);\n.global")))
    yield "no entry that can run", refuses("foreign.ptx:11", per_lane("    " + UNSUPPORTED))


# ---------------------------------------------------------------------------- member masks

LANE = np.arange(32)


def tile_mask(width):
    """PTX: m = the mask of the lane's tile of `width` lanes."""
    return (f"    and.b32 x, t, {32 - width}; mov.u32 m, {(1 << width) - 1}; shl.b32 m, m, x;")


def mask_cases():
    lane = LANE
    for width in (2, 4, 8, 16):
        tile = lane // width
        mask = np.array([((1 << width) - 1) << (width * i) for i in tile], np.uint64)
        setup = tile_mask(width)
        clamp = (32 - width) << 8 | 0x1f
        yield f"shfl of tiles of {width}", expect(
            (lane ^ width // 2).astype(np.uint32),
            per_lane(f"{setup}\n    shfl.sync.bfly.b32 d, t, {width // 2}, {clamp}, m;"))
        yield f"shfl.idx of tiles of {width}", expect(
            (tile * width + 1).astype(np.uint32),
            per_lane(f"{setup}\n    shfl.sync.idx.b32 d, t, 1, {clamp}, m;"))
        yield f"redux of tiles of {width}", expect(
            np.array([sum(lane[tile == i]) for i in tile], np.uint32),
            per_lane(f"{setup}\n    redux.sync.add.u32 d, t, m;"))
        odd = np.array([1 << int(i) if i % 3 == 0 else 0 for i in lane], np.uint64)
        yield f"ballot of tiles of {width}", expect(
            np.array([odd[tile == i].sum() for i in tile], np.uint32),
            per_lane(f"{setup}\n    rem.u32 x, t, 3; setp.eq.u32 p, x, 0;\n"
                     "    vote.sync.ballot.b32 d, p, m;"))
        any5, all5 = tile == 5 // width, lane >= 5
        every = np.array([all(all5[tile == i]) for i in tile])
        same = np.array([len(set(all5[tile == i])) == 1 for i in tile])
        yield f"votes of tiles of {width}", expect(
            (any5 * 1 + every * 2 + same * 4).astype(np.uint32),
            per_lane(f"""{setup}
    setp.eq.u32 p, t, 5; vote.sync.any.pred p, p, m; selp.u32 d, 1, 0, p;
    setp.ge.u32 p, t, 5; vote.sync.all.pred q, p, m; selp.u32 x, 2, 0, q; add.u32 d, d, x;
    vote.sync.uni.pred q, p, m; selp.u32 x, 4, 0, q; add.u32 d, d, x;"""))
        key = lane % 3
        yield f"match.any of tiles of {width}", expect(
            np.array([sum(1 << int(j) for j in lane if tile[j] == tile[i] and key[j] == key[i])
                      for i in lane], np.uint32),
            per_lane(f"{setup}\n    rem.u32 x, t, 3; match.any.sync.b32 d, x, m;"))
        equal = lane < 8
        yield f"match.all of tiles of {width}", expect(
            np.array([int(mask[i]) if len(set(equal[tile == tile[i]])) == 1 else 0 for i in lane],
                     np.uint32),
            per_lane(f"{setup}\n    setp.lt.u32 p, t, 8; selp.u32 x, 1, 2, p;\n"
                     "    match.all.sync.b32 d|q, x, m;"))
        yield f"elect of tiles of {width}", expect(
            (tile * width + 1000 * (lane % width == 0)).astype(np.uint32),
            per_lane(f"{setup}\n    elect.sync d|p, m; @p add.u32 d, d, 1000;",
                     target="sm_90a"))
    yield "redux with the mask of match", expect(
        np.where(lane % 2, 256, 240).astype(np.uint32),
        per_lane("    and.b32 x, t, 1; match.any.sync.b32 m, x, 0xffffffff; redux.sync.add.s32 d, t, m;"))
    # Groups by a remainder come to the instruction one after the other, in a loop, and wait for the last.
    yield "groups that come apart", expect(
        np.array([sum(j for j in lane if j % 5 == i % 5) for i in lane], np.uint32),
        per_lane("""    rem.u32 x, t, 5; match.any.sync.b32 m, x, 0xffffffff;
    and.b32 y, t, 3;
WORK:
    setp.eq.u32 p, y, 0;
    @p bra MEET;
    sub.u32 y, y, 1;
    bra WORK;
MEET:
    redux.sync.add.u32 d, t, m;"""))
    # Lanes of both sides of a branch meet at different bar.warp.sync, by quarters of the warp; each quarter
    # exchanges through shared memory.
    yield "bar.warp.sync of tiles at two places", expect(
        (lane ^ 1).astype(np.uint32), per_lane(f"""{tile_mask(8)}
    mov.u32 y, s; shl.b32 x, t, 2; add.u32 y, y, x; xor.b32 z, y, 4;
    and.b32 x, t, 1; setp.eq.u32 p, x, 0;
    st.shared.u32 [y], t;
    @p bra EVEN;
    bar.warp.sync m;
    ld.shared.u32 d, [z];
    bra DONE;
EVEN:
    bar.warp.sync m;
    ld.shared.u32 d, [z];
DONE:""", registers=".shared .align 4 .b8 s[128];"))
    # The upper half leaves; the lower one names only itself, and then all that are left.
    yield "lanes that have exited", expect(
        np.where(lane < 16, 120, 7).astype(np.uint32), per_lane("""
    setp.ge.u32 p, t, 16; mov.u32 d, 7; mov.u32 m, 0xffff; @p mov.u32 m, 0xffff0000;
    redux.sync.add.u32 x, t, m;
    @p bra OUT;
    redux.sync.add.u32 d, t, 0xffff;
OUT:"""))


def matrix_cases():
    """ldmatrix that widens 16 elements of 4 or 6 bits to bytes; nobody writes the padding."""
    for bits, word in ((4, "b4x16_p64"), (6, "b6x16_p32")):
        rng = np.random.default_rng(bits)
        rows = rng.integers(0, 1 << bits, size=(32, 16))
        packed = np.zeros((32, 16), np.uint8)
        for row, codes in zip(packed, rows):
            number = sum(int(c) << bits * i for i, c in enumerate(codes))
            row[:] = np.frombuffer(number.to_bytes(16, "little"), np.uint8)
        for shape, count in (("m8n16", 1), ("m8n16", 2), ("m8n16", 4), ("m16n16", 1), ("m16n16", 2)):
            n = count * (2 if shape == "m16n16" else 1)
            if shape == "m8n16":
                want = [rows[8 * j + lane // 4, 4 * (lane % 4):4 * (lane % 4) + 4] for j in range(n) for lane in LANE]
            else:
                want = [rows[16 * (j // 2) + 4 * (lane % 4):16 * (j // 2) + 4 * (lane % 4) + 4, lane // 4 + 8 * (j % 2)]
                        for j in range(n) for lane in LANE]
            want = sum((np.array(want, np.uint32) << (8 * np.arange(4, dtype=np.uint32))).T)
            store = "st.shared.v2.b32 [y], {x, z};" + (" st.shared.b32 [y+8], m;" if bits == 6 else "")
            names = ", ".join(f"r{j}" for j in range(n))
            body = f"""    ld.param.u64 at, [p0]; mul.wide.u32 off, t, 16; add.u64 at, at, off;
    ld.global.v2.b32 {{x, z}}, [at]; ld.global.b32 m, [at+8]; mov.u32 y, s; mad.lo.u32 y, t, 16, y;
    {store} bar.warp.sync -1;
    ldmatrix.sync.aligned.{shape}.x{count}{".trans" if shape == "m16n16" else ""}.shared.b8x16.{word} {{{names}}}, [y];
    mov.b32 d, r0; ld.param.u64 at, [po]; mul.wide.u32 off, t, 4; add.u64 at, at, off;
""" + "\n".join(f"    st.global.b32 [at+{128 * j}], r{j};" for j in range(n))
            yield f"ldmatrix {shape} x{count} {word}", expect(want, per_lane(
                body, registers=f".shared .align 16 .b8 s[512]; .reg .b32 {names};", target="sm_120a", version="8.8",
                inputs=1), inputs=[packed])


# ---------------------------------------------------------------------------- conversions, video, malloc


def stochastic(x, random, bits, kind):
    """cvt.rs in fractions: up with the probability of what is cut off."""
    from fractions import Fraction
    mantissa, lowest, largest = {"f16": (10, -14, 65504), "bf16": (7, -126, float.fromhex("0x1.fep127")),
                                 "e4m3": (3, -6, 448), "e5m2": (2, -14, 57344), "e2m1": (1, 0, 6), "e2m3": (3, 0, 7.5),
                                 "e3m2": (2, -2, 28)}[kind]
    magnitude = Fraction(abs(float(x)))
    exponent = max(lowest, int(np.floor(np.log2(float(magnitude)))) if magnitude else lowest)
    quantum = Fraction(2) ** (exponent - mantissa)
    out = min(float((magnitude / quantum + Fraction(int(random), 1 << bits)) // 1 * quantum), largest)
    if kind == "f16":
        return int(np.float16(np.copysign(out, x)).view(np.uint16))
    if kind == "bf16":
        return int(np.float32(np.copysign(out, x)).view(np.uint32)) >> 16
    table = foreign_mma.FORMATS[kind][0]
    return int(np.flatnonzero((table == np.copysign(out, x)) & (np.signbit(table) == np.signbit(x)))[0])


def convert_cases():
    rng = np.random.default_rng(9)
    x = (rng.standard_normal((32, 4)) * np.exp(rng.uniform(-3, 5, (32, 4)))).astype(np.float32)
    x[0] = [0, -0.0, 1, -1e9]
    random = rng.integers(0, 1 << 32, 32, dtype=np.uint64).astype(np.uint32)
    head = """    ld.param.u64 at, [p0]; mul.wide.u32 off, t, 16; add.u64 at, at, off;
    ld.global.v4.f32 {f0, f1, f2, f3}, [at]; ld.param.u64 at, [p1]; mul.wide.u32 off, t, 4; add.u64 at, at, off;
    ld.global.b32 x, [at];
"""
    names = dict(registers=".reg .f32 f<4>; .reg .b16 h;", target="sm_100a", version="8.7", inputs=2)
    for kind, bits in (("f16", 13), ("bf16", 16)):
        want = [stochastic(a[0], r >> 16 & (1 << bits) - 1, bits, kind) << 16
                | stochastic(a[1], r & (1 << bits) - 1, bits, kind) for a, r in zip(x, random.astype(int))]
        yield f"cvt.rs.{kind}x2", expect(np.array(want, np.uint32), per_lane(
            head + f"    cvt.rs.satfinite.{kind}x2.f32 d, f0, f1, x;", **names), inputs=[x, random])
    for kind in ("e4m3", "e5m2", "e2m1", "e2m3", "e3m2"):
        each = 4 if kind == "e2m1" else 8
        want = [sum(stochastic(a[i], r >> 16 if i < 2 else r & 0xFFFF, 16, kind) << each * (3 - i) for i in range(4))
                for a, r in zip(x, random.astype(int))]
        to, widen = ("h", " cvt.u32.u16 d, h;") if kind == "e2m1" else ("d", "")
        yield f"cvt.rs.{kind}x4", expect(np.array(want, np.uint32), per_lane(
            head + f"    cvt.rs.satfinite.{kind}x4.f32 {to}, {{f0, f1, f2, f3}}, x;{widen}", **names), inputs=[x, random])
    halves = rng.integers(0, 0x7F80, (32, 2)).astype(np.uint32)  # bf16, not negative
    halves[0] = [0x3F80, 0x4000]
    words = halves[:, 0] << 16 | halves[:, 1]
    for rounding, up in (("rz", False), ("rp", True)):
        want = [sum(min(254, (int(h) >> 7) + (up and int(h) & 0x7F != 0)) << 8 * (1 - i) for i, h in enumerate(pair))
                if all(h >= 0x80 for h in pair) else None for pair in halves]
        keep = np.array([w is not None for w in want])
        words_kept = np.where(keep, words, 0x3F803F80).astype(np.uint32)
        want = np.array([w if w is not None else 0x7F7F for w in want], np.uint32)
        yield f"cvt.{rounding}.ue8m0x2.bf16x2", expect(want, per_lane(f"""    ld.param.u64 at, [p0];
    mul.wide.u32 off, t, 4; add.u64 at, at, off; ld.global.b32 x, [at];
    cvt.{rounding}.satfinite.ue8m0x2.bf16x2 h, x; cvt.u32.u16 d, h;""", registers=".reg .b16 h;", target="sm_100a",
            version="8.6", inputs=1), inputs=[words_kept])


def video_cases():
    rng = np.random.default_rng(4)
    a, b, c = (rng.integers(0, 1 << 32, 32, dtype=np.uint64).astype(np.uint32) for _ in range(3))
    operations = {"vadd": lambda x, y: x + y, "vsub": lambda x, y: x - y, "vabsdiff": lambda x, y: abs(x - y),
                  "vmin": min, "vmax": max, "vavrg": lambda x, y: (x + y + (x + y >= 0)) >> 1}

    def lanes(word, n, signed):
        bits = 32 // n
        values = [int(word) >> bits * i & (1 << bits) - 1 for i in range(n)]
        return [v - (1 << bits) if signed and v >> bits - 1 else v for v in values]

    for name, f in operations.items():
        for n in (2, 4):
            for types, tail in (("u32.u32.u32", ""), ("s32.s32.s32", ".sat"), ("u32.u32.u32", ".sat"),
                                ("u32.s32.u32", ".sat"), ("u32.u32.u32", ".add"), ("s32.s32.s32", ".add")):
                td, ta, tb = types.split(".")
                bits, want = 32 // n, []
                low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if td == "s32" else (0, (1 << bits) - 1)
                for x, y, z in zip(a, b, c):
                    parts = [f(i, j) for i, j in zip(lanes(x, n, ta == "s32"), lanes(y, n, tb == "s32"))]
                    if tail == ".add":
                        want.append((int(z) + sum(parts)) & 0xFFFFFFFF)
                        continue
                    parts = [max(low, min(high, v)) for v in parts] if tail else parts
                    want.append(sum((v & (1 << bits) - 1) << bits * i for i, v in enumerate(parts)))
                loads = "".join(f"    ld.param.u64 at, [p{i}]; add.u64 at, at, off; ld.global.b32 {r}, [at];\n"
                                for i, r in enumerate("xyz"))
                yield f"{name}{n}.{types}{tail}", expect(np.array(want, np.uint32), per_lane(
                    "    mul.wide.u32 off, t, 4;\n" + loads + f"    {name}{n}.{types}{tail} d, x, y, z;", inputs=3),
                    inputs=[a, b, c])


HEAP = """
.extern .func (.param .b64 r) malloc (.param .b64 n);
.extern .func free (.param .b64 p);"""


def heap_cases():
    body = """    shl.b32 x, t, 2; add.u32 x, x, 8; cvt.u64.u32 off, x;
    { .param .b64 n; st.param.b64 [n], off; .param .b64 r; call.uni (r), malloc, (n); ld.param.b64 at, [r]; }
    setp.eq.u64 p, at, 0; mov.u32 d, 0;
    @p bra OUT;
    add.u64 off, at, off; st.u32 [at], t; st.u32 [off+-4], 5; bar.sync 0; ld.u32 d, [at]; ld.u32 x, [off+-4];
    add.u32 d, d, x;
    { .param .b64 n; st.param.b64 [n], at; call.uni free, (n); }
OUT:"""
    yield "malloc", expect((np.arange(64) + 5).astype(np.uint32), per_lane(body, head=HEAP, threads=64))
    yield "malloc of too much", expect(np.zeros(32, np.uint32), per_lane(
        body.replace("cvt.u64.u32 off, x;", "cvt.u64.u32 off, x; shl.b64 off, off, 30;"), head=HEAP))


def stack_cases():
    """alloca of a size that differs by lane, across a call, and freed again."""
    lane = np.arange(32, dtype=np.uint32)
    head = """.func (.param .u32 r) fill(.param .u64 fp, .param .u32 fn)
{
    .reg .b64 a, b; .reg .b32 n, i, s; .reg .pred p;
    ld.param.u64 a, [fp]; ld.param.u32 n, [fn]; cvt.u64.u32 b, n; mul.lo.u64 b, b, 4;
    alloca.u64 b, b, 64; mov.u32 i, 0; mov.u32 s, 0;
L:  st.local.u32 [a], i; st.local.u32 [b], 7; add.u64 a, a, 4; add.u64 b, b, 4; add.u32 i, i, 1; add.u32 s, s, i;
    setp.lt.u32 p, i, n; @p bra L;
    st.param.u32 [r], s; ret;
}"""
    yield "alloca", expect(lane * (lane + 1) // 2 + (lane + 1) * (lane + 2) // 2 + 5, per_lane("""    add.u32 m, t, 1; mul.wide.u32 size, m, 4;
    alloca.u64 a, 4; st.local.u32 [a], 5;
    stacksave.u64 top;
    alloca.u64 b, size, 8; mov.u64 first, b;
    { .param .u64 p0; .param .u32 p1; .param .u32 r0; st.param.u64 [p0], b; st.param.u32 [p1], m;
      call (r0), fill, (p0, p1); ld.param.u32 d, [r0]; }
    mov.u32 x, 0;
SUM: ld.local.u32 y, [b]; add.u32 d, d, y; add.u64 b, b, 4; add.u32 x, x, 1; setp.lt.u32 p, x, m; @p bra SUM;
    ld.local.u32 y, [a]; add.u32 d, d, y;
    stackrestore.u64 top; alloca.u64 b, size; setp.ne.u64 p, b, first; @p trap;
    and.b64 top, b, 7; setp.ne.u64 p, top, 0; @p trap;
    st.local.u32 [b], 3; ld.local.u32 y, [a]; setp.ne.u32 p, y, 5; @p trap;""",
        registers=".reg .b64 a, b, top, size, first;", head=head))
    yield "alloca of 32 bits", expect(lane ^ 0x55, per_lane("""    alloca.u32 x, 64, 1024; and.b32 y, x, 1023; setp.ne.u32 p, y, 0; @p trap;
    xor.b32 y, t, 0x55; st.local.u32 [x+60], y; ld.local.u32 d, [x+60];"""))
    yield "alloca of too much", refuses("the stack of a thread grew", per_lane(
        "    alloca.u64 off, 0x7fffffff; st.local.u32 [off], t;"))


def async_cases():
    """st.async and red.async that release to global memory: of every width, and a flag behind data."""
    lane = np.arange(32, dtype=np.uint32)
    for kind, mask in (("u8", 0xFF), ("b16", 0xFFFF), ("u32", 0xFFFFFFFF)):
        body = f"""    ld.param.u64 at, [p0]; mul.wide.u32 off, t, 4; add.u64 at, at, off;
    mul.lo.u32 x, t, 0x01010101; cvt.u16.u32 h, x; fence.acq_rel.sys;
    st.async.mmio.release.sys.global.{kind} [at], {'x' if kind == 'u32' else 'h'}; fence.acq_rel.sys;
    ld.relaxed.sys.global.u32 d, [at];"""
        yield f"st.async of {kind}", expect(lane * 0x01010101 & mask, per_lane(
            body, registers=".reg .b16 h;", target="sm_100", version="8.7", inputs=1), inputs=["zero:128"])
    yield "red.async to global", expect(lane + 7, per_lane("""    ld.param.u64 at, [p0]; mul.wide.u32 off, t, 4; add.u64 at, at, off;
    st.global.u32 [at], t; mov.u32 x, 7; red.async.release.gpu.global.add.u32 [at], x; fence.acq_rel.gpu;
    ld.relaxed.gpu.global.u32 d, [at];""", target="sm_100", version="8.7", inputs=1), inputs=["zero:128"])


def packed_map_cases():
    """Tensor copies of packed types: 3 x 128 elements at (128, -1) of 4 rows of 384."""
    for kind, bits, padded in (("16u4_8", 4, False), ("16u4_16", 4, True), ("16u6_16", 6, True)):
        rng = np.random.default_rng(bits)
        per = bits * 2  # bytes of 16 elements
        rows = rng.integers(0, 256, (4, 24, per), dtype=np.uint8)
        box = np.zeros((3, 8, 16 if padded else per), np.uint8)
        box[1:, :, :per] = rows[:2, 8:16]
        n = box.nbytes
        text = f""".version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 po, .param .align 64 .b8 tm[128])
.reqntid 1
{{
    .shared .align 128 .b8 s[512]; .shared .align 8 .b64 mb;
    .reg .b32 a, m, c, r, i; .reg .b64 o, map; .reg .pred p;
    ld.param.u64 o, [po]; mov.b64 map, tm; mov.u32 a, s; mov.u32 m, mb; mov.u32 c, 128; mov.u32 r, -1;
    mbarrier.init.shared::cta.b64 [m], 1; fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [m], {n};
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [a], [map, {{c, r}}], [m];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 p, [m], 0;
    @!p bra WAIT;
    mov.u32 i, 0;
COPY:
    ld.shared.u32 c, [a]; st.global.u32 [o], c; add.u32 a, a, 4; add.u64 o, o, 4; add.u32 i, i, 4;
    setp.lt.u32 p, i, {n};
    @p bra COPY;
    ret;
}}
"""
        yield f"a map of {kind}", expect(box, text, inputs=[f"map:{kind}:0:384x4:128x3:in:SCRATCH/rows"], files={
            "rows": rows})


def multimem_cases():
    """Of one device: the memory itself.  out = in, +1 by red, read back by ld_reduce."""
    values = np.arange(32, dtype=np.float32)
    yield "multimem", expect(values * 2 + 3, per_lane("""    ld.param.u64 at, [p0]; mul.wide.u32 off, t, 4; add.u64 at, at, off;
    multimem.ld_reduce.relaxed.sys.global.add.f32 f, [at]; add.f32 f, f, f;
    multimem.st.relaxed.sys.global.f32 [at], f; mov.f32 f, 0f40400000;
    multimem.red.relaxed.sys.global.add.f32 [at], f; multimem.ld_reduce.weak.global.add.f32 f, [at]; mov.b32 d, f;""",
        registers=".reg .f32 f;", target="sm_90", version="8.3", inputs=1), inputs=[values])
    bits = np.arange(32, dtype=np.uint32) * 0x01010101
    yield "multimem of bits", expect(bits | 1, per_lane("""    ld.param.u64 at, [p0]; mul.wide.u32 off, t, 4; add.u64 at, at, off;
    mov.u32 x, 1; multimem.red.release.gpu.global.or.b32 [at], x; multimem.ld_reduce.acquire.gpu.global.and.b32 d, [at];""",
        target="sm_90", version="8.3", inputs=1), inputs=[bits])


def im2col_kernel(start, mode, offsets, nbytes, target="sm_90a", version="8.0"):
    """An entry k(out, map) that writes what one load brings."""
    rank, names = len(start), [f"c{i}" for i in range(len(start))]
    return f""".version {version}
.target {target}
.address_size 64
.visible .entry k(.param .u64 po, .param .align 64 .b8 tm[128])
.reqntid 1
{{
    .shared .align 128 .b8 s[4096]; .shared .align 8 .b64 mb;
    .reg .b32 a, m, v, i, c<5>; .reg .b16 h<3>; .reg .b64 o, map; .reg .pred p;
    ld.param.u64 o, [po]; mov.b64 map, tm; mov.u32 a, s; mov.u32 m, mb;
    {"".join(f"mov.u32 {name}, {c}; " for name, c in zip(names, start))}
    {"".join(f"mov.b16 h{i}, {x}; " for i, x in enumerate(offsets))}
    cp.async.bulk.prefetch.tensor.{rank}d.L2.global.{mode} [map, {{{", ".join(names)}}}], {{{", ".join(f"h{i}" for i in range(len(offsets)))}}};
    mbarrier.init.shared::cta.b64 [m], 1; fence.proxy.async.shared::cta;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [m], {nbytes};
    cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}.mbarrier::complete_tx::bytes [a], [map, {{{", ".join(names)}}}], [m], {{{", ".join(f"h{i}" for i in range(len(offsets)))}}};
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 p, [m], 0;
    @!p bra WAIT;
    mov.u32 i, 0;
COPY:
    ld.shared.u32 v, [a]; st.global.u32 [o], v; add.u32 a, a, 4; add.u64 o, o, 4; add.u32 i, i, 4;
    setp.lt.u32 p, i, {nbytes};
    @p bra COPY;
    ret;
}}
"""


def im2col_wide_cases():
    """Copies of the modes im2col::w and im2col::w::128 against the rows of W that they walk (PTX ISA 5.5.5)."""
    rng = np.random.default_rng(7)
    for sizes, channels, pixels, lower, upper, step, start, halo, offset in (
            ((16, 9, 7, 6), 16, 24, 0, 0, 1, (0, 2, 3, 0), 0, 0),     # through images, at one H
            ((16, 9, 7, 6), 8, 14, 0, 0, 1, (8, 2, 3, 1), 2, 0),      # two more pixels behind the last one
            ((16, 9, 7, 6), 8, 18, -1, -1, 2, (0, -1, 0, 0), 1, 1),   # every second one from the corner, moved
            ((8, 7, 7, 4), 8, 13, -1, -1, 3, (0, -1, 6, 0), 0, 2),
            ((8, 12, 9), 8, 17, -2, 0, 1, (0, -4, 7), 0, 0),          # left of the corner; beyond the last image
            ((8, 5, 3, 2, 3), 16, 9, 0, 2, 1, (0, 0, -1, 1, 1), 0, 0),  # an H outside
            ((8, 40, 2, 9), 8, None, 0, -2, 1, (0, 30, 1, 0), 0, 3)):
        data = rng.integers(1, 1 << 16, sizes[::-1], dtype=np.uint16)
        count = 128 if pixels is None else pixels + halo
        # the place in W and the image of each pixel: the rest of a first row, then whole rows
        row = list(range(lower + offset, sizes[1] + upper + offset, step))
        first = list(range(start[1] + offset, sizes[1] + upper + offset, step))
        places = [(w, start[-1]) for w in first] + [(w, start[-1] + 1 + n) for n in range(count) for w in row]
        want = np.zeros((count, channels), np.uint16)
        padded = np.zeros((*data.shape[:-1], sizes[0] + channels), np.uint16)
        padded[..., :sizes[0]] = data
        for p, (w, image) in enumerate(places[:count]):
            at = (image, *start[-2:1:-1], w)
            if all(0 <= x < n for x, n in zip(at, data.shape)):
                want[p] = padded[at][start[0]:start[0] + channels]
        mode = "im2col::w::128" if pixels is None else "im2col::w"
        box = f"{channels}x{pixels or 5}^{'w128' if pixels is None else 'w'}^{lower}^{upper}"
        box += f"/1x{step}" + "x1" * (len(sizes) - 2)
        dims = "x".join(map(str, sizes))
        text = im2col_kernel(start, mode, (halo, offset), want.nbytes, "sm_100a", "8.8")
        yield f"{mode} {dims} {box}", expect(want, text, inputs=[f"map:u16:0:{dims}:{box}:in:SCRATCH/image"],
                                             files={"image": data})
    for said, mode, box, halo in (
            ("a wHalo of im2col::w::128", "im2col::w::128", "8x5^w128^0^0", 1),
            ("a halo beyond the bounding box", "im2col::w", "8x5^w^0^0", 3)):
        text = im2col_kernel((0, 2, 0), mode, (halo, 0), 128, "sm_100a", "8.8")
        yield f"{mode}, halo {halo}", refuses(said, text, inputs=[f"map:u16:0:8x9x2:{box}:scratch:1024"])


def im2col_cases():
    """Copies in the im2col mode against loops over pixels (PTX ISA 5.5.4)."""
    rng = np.random.default_rng(6)
    for sizes, channels, pixels, lower, upper, steps, start, offset in (
            ((16, 5, 4, 2), 8, 12, (-1, -1), (-1, -1), (1, 1), (8, -1, -1, 0), (1, 2)),
            ((16, 5, 4, 2), 16, 9, (0, 0), (0, 0), (1, 1), (0, 3, 2, 0), (0, 0)),
            ((8, 7, 6, 3), 8, 8, (-1, -1), (-1, -1), (2, 2), (0, 1, -1, 1), (2, 0)),
            ((8, 11, 3), 8, 15, (-2,), (-2,), (1,), (0, 4, 0), (4,)),
            ((8, 4, 3, 3, 2), 8, 20, (-1, 0, -1), (0, -1, 0), (1, 1, 1), (0, 2, 1, -1, 0), (1, 0, 1))):
        data = rng.integers(1, 1 << 16, sizes[::-1], dtype=np.uint16)
        rank, want, at = len(sizes), np.zeros((pixels, channels), np.uint16), list(start[1:])
        for p in range(pixels):
            place = [x + o for x, o in zip(at, (*offset, 0))]
            if all(0 <= x < size for x, size in zip(place, sizes[1:])):
                line = data[tuple(place[::-1])]
                for c in range(channels):
                    if start[0] + c < sizes[0]:
                        want[p, c] = line[start[0] + c]
            for i in range(rank - 1):
                if i == rank - 2:
                    at[i] += 1
                    break
                at[i] += steps[i]
                if at[i] <= sizes[i + 1] - 1 + upper[i]:
                    break
                at[i] = lower[i]
        dims = "x".join(map(str, sizes))
        box = f"{channels}x{pixels}^{'x'.join(map(str, lower))}^{'x'.join(map(str, upper))}"
        box += "/1x" + "x".join(map(str, steps)) + "x1"
        text = im2col_kernel(start, "im2col", offset, want.nbytes)
        yield f"im2col {dims} {box}", expect(want, text, inputs=[f"map:u16:0:{dims}:{box}:in:SCRATCH/image"],
                                             files={"image": data})
    # a store of pixels behind one another
    text = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 tm[128])
.reqntid 24
{
    .shared .align 128 .b8 s[128];
    .reg .b32 a, t, c, z; .reg .b64 map; .reg .pred p;
    mov.b64 map, tm; mov.u32 t, %tid.x; mov.u32 a, s; mad.lo.u32 c, t, 4, a; add.u32 t, t, 1; st.shared.u32 [c], t;
    fence.proxy.async.shared::cta; bar.sync 0; setp.ne.u32 p, t, 1; mov.u32 z, 0;
    @p bra DONE;
    cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group [map, {z, z, z}], [a];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
DONE:
    ret;
}
"""
    def stored(simrun, scratch, seed):
        path = scratch / "foreign.ptx"
        path.write_text(text)
        done = subprocess.run([simrun, str(path), f"map:u16:0:8x3x2:8x6^0^0:out:{scratch}/out:96"], capture_output=True,
                              text=True)
        got = np.frombuffer((scratch / "out").read_bytes(), np.uint32) if not done.returncode else None
        return None if got is not None and (got == np.arange(24) + 1).all() else f"{done.stdout}{done.stderr} {got}"
    yield "im2col store", stored


def texture_cases():
    """tex of an object that the launch describes (sim_texture.c), against NumPy."""
    rng = np.random.default_rng(8)
    image = rng.integers(-9, 10, (5, 7)).astype(np.float32)
    bytes4 = rng.integers(0, 256, (5, 7, 4), dtype=np.uint8)
    xy = np.stack([rng.integers(-2, 9, 32), rng.integers(-2, 7, 32)], 1)
    at = np.array([xy[:, 0] + 0.25, xy[:, 1] + 0.5], np.float32).T
    x, y = np.clip(xy[:, 0], 0, 6), np.clip(xy[:, 1], 0, 4)

    def objects(kind, components, flags, height=5):
        return ["mem:32", "@0=in:SCRATCH/image", "@8=u32:7", f"@12=u32:{height}", f"@16=u32:{kind}",
                f"@20=u32:{components}", f"@24=u32:{flags}"]

    def kernel(types, coordinates, pick, dims="2d"):
        return per_lane(f"""    ld.param.u64 off, [p0]; mul.wide.u32 at, t, 8; ld.param.u64 o, [p1]; add.u64 at, at, o;
    ld.global.v2.b32 {{x, y}}, [at];
    tex.{dims}.v4.{types} {{r0, r1, r2, r3}}, [off, {coordinates}]; mov.b32 d, r{pick};""",
                        registers=".reg .b32 r<4>; .reg .b64 o;", inputs=2)
    files = {"image": image}
    yield "tex.2d.v4.f32.s32", expect(image[y, x], kernel("f32.s32", "{x, y}", 0),
                                      inputs=[*objects(0, 1, 0), xy.astype(np.int32)], files=files)
    yield "tex.2d.v4.f32.f32", expect(image[y, x], kernel("f32.f32", "{x, y}", 0),
                                      inputs=[*objects(0, 1, 0), at], files=files)
    inside = (xy[:, 0] >= 0) & (xy[:, 0] < 7) & (xy[:, 1] >= 0) & (xy[:, 1] < 5)
    yield "tex.2d, border", expect(np.where(inside, image[y, x], 0).astype(np.float32), kernel("f32.f32", "{x, y}", 0),
                                   inputs=[*objects(0, 1, 4), at], files=files)
    yield "tex.2d, normalised", expect(image[y, x], kernel("f32.f32", "{x, y}", 0), inputs=[
        *objects(0, 1, 1), (at / np.array([7, 5], np.float32)).astype(np.float32)], files=files)
    left, above = np.clip(xy[:, 0] - 1, 0, 6), np.clip(xy[:, 1], 0, 4)  # x + 0.25: a quarter of the left, y in the middle
    yield "tex.2d, linear", expect((image[above, left] * 0.25 + image[above, x] * 0.75).astype(np.float32), kernel(
        "f32.f32", "{x, y}", 0), inputs=[*objects(0, 1, 2), at], files=files)
    yield "tex.2d.v4.u32.s32", expect(bytes4[y, x, 2].astype(np.uint32), kernel("u32.s32", "{x, y}", 2),
                                      inputs=[*objects(3, 4, 0), xy.astype(np.int32)], files={"image": bytes4})
    yield "tex.1d.v4.f32.s32", expect(image[0, x], kernel("f32.s32", "{x}", 0, "1d"),
                                      inputs=[*objects(0, 1, 0, 1), xy.astype(np.int32)], files=files)
    yield "tex of fewer components", expect(np.full(32, 1, np.float32), kernel("f32.s32", "{x, y}", 3),
                                            inputs=[*objects(0, 1, 0), xy.astype(np.int32)], files=files)


def cases():
    yield from texture_cases()
    yield from im2col_cases()
    yield from im2col_wide_cases()
    yield from multimem_cases()
    yield from packed_map_cases()
    yield from convert_cases()
    yield from video_cases()
    yield from foreign_video.cases(expect, per_lane)
    yield from heap_cases()
    yield from stack_cases()
    yield from async_cases()
    yield from mask_cases()
    yield from text_cases()
    yield from matrix_cases()
    yield from foreign_mma.cases(execute)
    yield from foreign_mma.wmma_cases(execute)


def run(simrun, scratch, wanted=None):
    count = failed = 0
    for name, case in cases():
        if wanted and wanted not in name:
            continue
        count += 1
        for seed in range(SEEDS):
            problem = case(simrun, scratch, seed)
            if problem:
                failed += 1
                print(f"FAIL foreign {name}, seed {seed}: {problem}")
                break
    return count, failed


if __name__ == "__main__":
    import sys
    import tempfile
    with tempfile.TemporaryDirectory() as directory:
        ran, bad = run(sys.argv[1], pathlib.Path(directory), *sys.argv[2:3])
    print(f"{ran} tests, {bad} failures")
    sys.exit(1 if bad else 0)
