"""mma.sync of the forms that sim_mma_forms.c has, against NumPy: kinds with narrow types and block scales, sparse A,
integers of 4 bits, single bits, m8n8k4.  Registers are filled here by the figures of PTX ISA 9.7.14.5 and 9.7.14.6.
"""
import numpy as np

from sm100 import FORMATS

HEAD = ".version {version}\n.target {target}\n.address_size 64\n"


def kernel(instruction, registers, results, version, target):
    """An entry k(out, words): each lane loads its words into the registers, in order, and stores the results."""
    n, names = len(registers), ", ".join(registers)
    lines = [HEAD.format(version=version, target=target), ".visible .entry k(.param .u64 po, .param .u64 pw)", "{",
             f"    .reg .b32 t, {names}{''.join(f', d{i}' for i in range(results))};",
             "    .reg .b64 at, off; .reg .b16 z, o; mov.u32 t, %tid.x; mov.b16 z, 0; mov.b16 o, 1;",
             f"    ld.param.u64 at, [pw]; mul.wide.u32 off, t, {4 * n}; add.u64 at, at, off;"]
    lines += [f"    ld.global.b32 {name}, [at+{4 * i}];" for i, name in enumerate(registers)]
    lines += [f"    {instruction}",
              f"    ld.param.u64 at, [po]; mul.wide.u32 off, t, {4 * results}; add.u64 at, at, off;"]
    lines += [f"    st.global.b32 [at+{4 * i}], d{i};" for i in range(results)]
    return "\n".join([*lines, "    ret;", "}"]) + "\n"


def listed(letter, n):
    return "{" + ", ".join(f"{letter}{i}" for i in range(n)) + "}"


def pack(codes, bits):
    return sum(int(c) << (bits * i) for i, c in enumerate(codes)) & 0xFFFFFFFF


def operand(kind, shape, rng):
    """(values, what stands in the register for each)."""
    if kind in FORMATS:
        table = FORMATS[kind][0]
        fine = np.flatnonzero(np.isfinite(table) & (np.abs(table) <= 16))
        codes = rng.choice(fine, size=shape)
        return table[codes], codes
    if kind in ("s4", "u4", "s8", "u8", "b1"):
        bits = int(kind[1:])
        low = -(1 << bits - 1) if kind[0] == "s" else 0
        values = rng.integers(low, low + (1 << bits), size=shape)
        return values.astype(float), values & ((1 << bits) - 1)
    values = rng.integers(-8, 9, size=shape).astype(float)
    if kind == "f16":
        return values, values.astype(np.float16).view(np.uint16)
    wide = values.astype(np.float32).view(np.uint32)
    return values, wide >> 16 if kind == "bf16" else wide


def in_register(kind, codes, container):
    """Elements of 4 bits in a byte lie in its bits 2 to 5."""
    return codes << 2 if kind == "e2m1" and container == 8 else codes


def fragment_a(codes, m, bits):
    """Words by lane: row g, and g + 8 in odd registers of 16-row shapes; E columns a thread, 4 E a register."""
    per, out = 32 // bits, []
    k = codes.shape[1]
    for lane in range(32):
        g, t, words = lane // 4, lane % 4, []
        for block in range(k // (4 * per)):
            for half in range(m // 8):
                at = 4 * per * block + per * t
                words.append(pack(codes[g + 8 * half, at:at + per], bits))
        out.append(words)
    return np.array(out, np.uint64).astype(np.uint32)


def fragment_b(codes, bits):
    return fragment_a(codes.T, 8, bits)


C_PLACE = [(lane // 4 + 8 * (i // 2), 2 * (lane % 4) + i % 2) for lane in range(32) for i in range(4)]


def fragment_c(values, m, kind):
    flat = np.array([values[p] for p in C_PLACE if p[0] < m])
    if kind == "f16":
        return flat.astype(np.float16).view(np.uint32).reshape(32, -1)
    return flat.astype(np.float32 if kind == "f32" else np.int32).view(np.uint32).reshape(32, -1)


def sparse(kind, bits, m, k, selector, rng):
    """(values of the whole A, stored codes, metadata by lane)."""
    chunk, kept = (2, 1) if kind == "tf32" else (8, 4) if bits == 4 else (4, 2)
    values, codes = operand(kind, (m, k // 2), rng)
    whole, row_bits = np.zeros((m, k)), np.zeros(m, object)
    for row in range(m):
        for c in range(k // chunk):
            if kind == "tf32":
                at = int(rng.integers(0, 2))
                row_bits[row] |= (0b1110 if at else 0b0100) << 4 * c
                whole[row, 2 * c + at] = values[row, c]
                continue
            first, second = sorted(rng.choice(4, 2, replace=False))
            row_bits[row] |= (int(first) | int(second) << 2) << 4 * c
            for i, at in enumerate((first, second)):
                n = kept // 2
                whole[row, c * chunk + at * n:c * chunk + at * n + n] = values[row, (2 * c + i) * n:(2 * c + i) * n + n]
    total, meta = k // chunk * 4, np.full(32, 0xDEADBEEF, np.uint32)
    for g in range(8):
        low, high = row_bits[g], row_bits[g + 8]
        if total == 16:  # one thread of each quad has both rows
            meta[4 * g + selector] = low | high << 16
        elif total == 32 and bits >= 16:  # two threads: a half of the columns each, of both rows
            for half in range(2):
                part = [x >> 16 * half & 0xFFFF for x in (low, high)]
                meta[4 * g + 2 * selector + half] = part[0] | part[1] << 16
        else:  # even threads have row g, odd ones g + 8; all four: 32 bits each
            for thread in range(2 * (total // 32)):
                word = (high if thread % 2 else low) >> 32 * (thread // 2) & 0xFFFFFFFF
                meta[4 * g + 2 * selector + thread] = word
    return whole, codes, meta


def mma(shape, types, *, kind="", sp=None, scales=0, ue4m3=False, ids=((0, 0), (0, 0)), op="", target="sm_80",
        version="8.5", satfinite=False, seed=1):
    rng = np.random.default_rng(seed)
    td, ta, tb, tc = types.split(".")
    m, k = int(shape[1:].split("n")[0]), int(shape.split("k")[1])
    storage = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
    bits = storage.get(ta, 4 if "mxf4" in kind else 8)
    meta = None
    if sp is None:
        av, a = operand(ta, (m, k), rng)
    else:
        av, a, meta = sparse(ta, bits, m, k, sp, rng)
    bv, b = operand(tb, (k, 8), rng)
    c = rng.integers(-9, 10, size=(m, 8)).astype(float)
    if satfinite:
        c += 2 ** 31 - 100
    words = [fragment_a(in_register(ta, a, bits), m, bits), fragment_b(in_register(tb, b, bits), bits),
             fragment_c(c, m, tc)]
    na, nb, nc = (w.shape[1] for w in words)
    if op == "xor.popc":
        want = np.array([[sum(av[i] != bv[:, j]) for j in range(8)] for i in range(m)]) + c
    else:
        want = av @ bv + c
    registers = [f"{l}{i}" for l, n in (("a", na), ("b", nb), ("c", nc)) for i in range(n)]
    tail = ""
    if meta is not None:
        registers.append("e")
        words.append(meta[:, None])
        tail += f", e, {sp}"
    if scales:
        block = k // scales
        factors = []
        for name, lines, (byte, thread) in (("sa", 16, ids[0]), ("sb", 8, ids[1])):
            codes = rng.integers(1, 0x70, size=(lines, scales)) if ue4m3 else rng.integers(120, 135, size=(lines, scales))
            factors.append(FORMATS["e4m3"][0][codes] if ue4m3 else 2.0 ** (codes.astype(float) - 127))
            word = rng.integers(0, 1 << 32, size=32, dtype=np.uint64)
            for line in range(lines):  # rows g and g + 8 in a pair of threads of the quad; columns in one thread
                lane = 4 * (line % 8) + (2 * thread + line // 8 if name == "sa" else thread)
                for i in range(scales):
                    shift = 8 * (byte + i)
                    word[lane] = int(word[lane]) & ~(0xFF << shift) | int(codes[line, i]) << shift
            registers.append(name)
            words.append(word.astype(np.uint32)[:, None])
            tail += f", {name}, {{{byte}, {thread}}}"
        want = (av * np.repeat(factors[0], block, 1)) @ (bv * np.repeat(factors[1], block, 1).T) + c
    if satfinite:
        want = np.minimum(want, 2 ** 31 - 1)
    name = "mma" + (".sp::ordered_metadata" if sp is not None else "") + f".sync.aligned.{shape}.row.col"
    name += (f".kind::{kind}" if kind else "") + (f".block_scale.scale_vec::{scales}X" if scales else "")
    name += (".satfinite" if satfinite else "") + f".{types}" + (f".{op}" if op else "")
    name += (".ue4m3" if ue4m3 else ".ue8m0") if scales else ""
    nd = nc
    text = kernel(f"{name} {listed('d', nd)}, {listed('a', na)}, {listed('b', nb)}, {listed('c', nc)}{tail};",
                  registers, nd, version, target)
    exact = fragment_c(want, m, td)
    rounds = scales or ta in ("e4m3", "e5m2", "e3m2") or tb in ("e4m3", "e5m2", "e3m2")
    return text, np.concatenate(words, 1), exact, td, 1e-6 * np.abs(want).max() if rounds else 0


def m8n8k4(a_row, b_row, d, c):
    """Four products by quad pairs; places as 9.7.14.5.1 lists them."""
    rng = np.random.default_rng(3)
    av, bv = rng.integers(-8, 9, (4, 8, 4)).astype(float), rng.integers(-8, 9, (4, 4, 8)).astype(float)
    cv = rng.integers(-9, 10, (4, 8, 8)).astype(float)
    want = av @ bv + cv

    def halves(x):
        return np.array(x).astype(np.float16).view(np.uint32)

    def accumulator(x, lane, kind):
        q, up = lane // 4 % 4, 4 * (lane >= 16)
        if kind == "f16":
            return halves([x[q, lane % 4 + up, i] for i in range(8)])
        return np.array([x[q, (lane & 1) + (i & 2) + up, (i & 4) + (lane & 2) + (i & 1)] for i in range(8)],
                        np.float32).view(np.uint32)

    words = []
    for lane in range(32):
        q, up, t = lane // 4 % 4, 4 * (lane >= 16), lane % 4
        a = [av[q, t + up, i] if a_row else av[q, i + up, t] for i in range(4)]
        b = [bv[q, t, i + up] if b_row else bv[q, i, t + up] for i in range(4)]
        words.append(np.concatenate([halves(a), halves(b), accumulator(cv, lane, c)]))
    words = np.array(words)
    nd, nc = (8 if kind == "f32" else 4 for kind in (d, c))
    registers = ["a0", "a1", "b0", "b1", *(f"c{i}" for i in range(nc))]
    text = kernel(f"mma.sync.aligned.m8n8k4.{'row' if a_row else 'col'}.{'row' if b_row else 'col'}.{d}.f16.f16.{c} "
                  f"{listed('d', nd)}, {listed('a', 2)}, {listed('b', 2)}, {listed('c', nc)};", registers, nd, "8.0",
                  "sm_80")
    exact = np.array([accumulator(want, lane, d) for lane in range(32)])
    return text, words, exact, d, 0


def kernels():
    """(name, (text, words, what must come out, its type, how far off it may be))."""
    narrow = dict(target="sm_120a", version="9.0")
    for a, b, d in (("e4m3", "e4m3", "f32"), ("e2m3", "e2m1", "f32"), ("e2m1", "e3m2", "f16"), ("e5m2", "e2m1", "f32")):
        yield f"f8f6f4 {a} {b} {d}", mma("m16n8k32", f"{d}.{a}.{b}.{d}", kind="f8f6f4", **narrow)
    for a, b, ids in (("e4m3", "e5m2", ((0, 0), (0, 0))), ("e2m1", "e4m3", ((2, 1), (3, 2))),
                      ("e3m2", "e2m3", ((1, 0), (0, 3)))):
        yield f"mxf8f6f4 {a} {b}", mma("m16n8k32", f"f32.{a}.{b}.f32", kind="mxf8f6f4", scales=1, ids=ids, **narrow)
    for ids in (((0, 0), (2, 3)), ((2, 1), (0, 1))):
        yield f"mxf4 {ids}", mma("m16n8k64", "f32.e2m1.e2m1.f32", kind="mxf4", scales=2, ids=ids, **narrow)
        yield f"mxf4nvf4 2X {ids}", mma("m16n8k64", "f32.e2m1.e2m1.f32", kind="mxf4nvf4", scales=2, ids=ids, **narrow)
    for ids in (((0, 0), (0, 0)), ((0, 1), (0, 2))):
        yield f"mxf4nvf4 4X {ids}", mma("m16n8k64", "f32.e2m1.e2m1.f32", kind="mxf4nvf4", scales=4, ue4m3=True, ids=ids,
                                        **narrow)
    for shape in ("m8n8k32", "m16n8k32", "m16n8k64"):
        for a, b in (("s4", "s4"), ("u4", "s4"), ("u4", "u4")):
            yield f"{shape} {a} {b}", mma(shape, f"s32.{a}.{b}.s32")
        yield f"{shape} satfinite", mma(shape, "s32.u4.u4.s32", satfinite=True)
    for shape in ("m8n8k128", "m16n8k128", "m16n8k256"):
        for op in ("and.popc", "xor.popc"):
            yield f"{shape} {op}", mma(shape, "s32.b1.b1.s32", op=op)
    for shape, types, selectors in (
            ("m16n8k16", "f32.f16.f16.f32", (0, 3)), ("m16n8k32", "f32.f16.f16.f32", (0, 1)),
            ("m16n8k32", "f16.f16.f16.f16", (1,)), ("m16n8k16", "f32.bf16.bf16.f32", (2,)),
            ("m16n8k32", "f32.bf16.bf16.f32", (0,)), ("m16n8k8", "f32.tf32.tf32.f32", (1,)),
            ("m16n8k16", "f32.tf32.tf32.f32", (0, 1)), ("m16n8k32", "s32.s8.u8.s32", (0, 1)),
            ("m16n8k64", "s32.u8.s8.s32", (0,)), ("m16n8k64", "s32.s4.s4.s32", (0, 1)),
            ("m16n8k128", "s32.u4.s4.s32", (0,))):
        for selector in selectors:
            yield f"sparse {shape} {types} {selector}", mma(shape, types, sp=selector)
    yield "sparse m16n8k64 fp8", mma("m16n8k64", "f32.e4m3.e5m2.f32", sp=0, target="sm_89")
    for a, b, ids in (("e4m3", "e5m2", ((0, 0), (0, 0))), ("e2m1", "e3m2", ((3, 1), (1, 2)))):
        yield f"sparse mxf8f6f4 {a} {b}", mma("m16n8k64", f"f32.{a}.{b}.f32", sp=0, kind="mxf8f6f4", scales=1, ids=ids,
                                              **narrow)
    for kind, scales, ue4m3, ids in (("mxf4", 2, False, ((2, 1), (0, 3))), ("mxf4nvf4", 2, False, ((0, 0), (2, 2))),
                                     ("mxf4nvf4", 4, True, ((0, 1), (0, 2))), ("mxf4nvf4", 4, False, ((0, 0), (0, 1)))):
        yield f"sparse {kind} {scales}X {ids}", mma("m16n8k128", "f32.e2m1.e2m1.f32", sp=0, kind=kind, scales=scales,
                                                    ue4m3=ue4m3, ids=ids, target="sm_120a", version="9.0" if ue4m3 or scales < 4 else "9.1")
    yield "sparse f8f6f4", mma("m16n8k64", "f32.e2m1.e3m2.f32", sp=0, kind="f8f6f4", **narrow)
    for a_row in (0, 1):
        for b_row in (0, 1):
            for d, c in (("f32", "f32"), ("f16", "f16"), ("f32", "f16")):
                yield f"m8n8k4 {a_row} {b_row} {d} {c}", m8n8k4(a_row, b_row, d, c)


# ---------------------------------------------------------------------------- wmma

WMMA = [  # shape, A, B, C, D, registers of A and B
    (shape, a, a, c, d, na, nb)
    for shape, sizes in (("m16n16k16", (8, 8, 4, 4, 2, 2)), ("m8n32k16", (8, 8, 2, 8, 1, 4)),
                         ("m32n8k16", (8, 8, 8, 2, 4, 1)))
    for a, c, d, na, nb in (("f16", "f32", "f32", sizes[0], sizes[1]), ("f16", "f16", "f16", sizes[0], sizes[1]),
                            ("bf16", "f32", "f32", sizes[2], sizes[3]), ("s8", "s32", "s32", sizes[4], sizes[5]),
                            ("u8", "s32", "s32", sizes[4], sizes[5]))
] + [("m16n16k16", "f16", "f16", "f16", "f32", 8, 8), ("m16n16k16", "f16", "f16", "f32", "f16", 8, 8),
     ("m16n16k8", "tf32", "tf32", "f32", "f32", 4, 4), ("m8n8k4", "f64", "f64", "f64", "f64", 1, 1),
     ("m8n8k32", "s4", "s4", "s32", "s32", 1, 1), ("m8n8k32", "u4", "u4", "s32", "s32", 1, 1),
     ("m8n8k128", "b1", "b1", "s32", "s32", 1, 1)]


def in_memory(codes, bits, column_major, stride):
    """Bytes of a matrix with `stride` elements from line to line."""
    lines = codes.T if column_major else codes
    padded = np.zeros((lines.shape[0], stride), np.uint64)
    padded[:, :lines.shape[1]] = lines
    if bits >= 8:
        return padded.astype(f"u{bits // 8}").tobytes()
    flat = padded.ravel().reshape(-1, 8 // bits)
    return bytes(int(sum(int(x) << bits * i for i, x in enumerate(byte))) for byte in flat)


def wmma(shape, ta, tb, tc, td, na, nb, a_col=False, b_col=True, c_col=False, pad=0, shared=False, op="", seed=5):
    """(text, inputs a b c, bytes of the result with its padding zero)."""
    rng = np.random.default_rng(seed)
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    m, n, k = int(m), int(n), int(k)
    bits = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "f32": 32,
            "s32": 32}

    def accumulator(values, kind):
        dtype = {"f16": np.float16, "f32": np.float32, "s32": np.int32, "f64": np.float64}[kind]
        return values.astype(dtype).view(f"u{bits[kind] // 8}").astype(np.uint64)

    if ta == "f64":
        av, bv = rng.integers(-8, 9, (m, k)).astype(float), rng.integers(-8, 9, (k, n)).astype(float)
        a, b = av.view(np.uint64), bv.view(np.uint64)
    else:
        (av, a), (bv, b) = operand(ta, (m, k), rng), operand(tb, (k, n), rng)
    cv = rng.integers(-9, 10, (m, n)).astype(float)
    want = cv + (np.array([[np.sum(av[i] != bv[:, j]) for j in range(n)] for i in range(m)]) if op == "xor" else av @ bv)
    pad = pad if bits[ta] >= 8 else 0
    strides = [(m if a_col else k) + pad, (k if b_col else n) + pad, (m if c_col else n) + pad]
    inputs = [in_memory(x, bits[t], col, stride) for x, t, col, stride in
              ((a, ta, a_col, strides[0]), (b, tb, b_col, strides[1]), (accumulator(cv, tc), tc, c_col, strides[2]))]
    result = in_memory(accumulator(want, td), bits[td], c_col, strides[2])
    words = lambda kind: m * n // 32 // (2 if kind == "f16" else 1)
    nc, nd = words(tc), words(td)
    wide = "b64" if ta == "f64" else "b32"
    lay = lambda col: "col" if col else "row"
    types = f"{td}.{tc}" if ta == "f16" else f"{td}.{ta}.{tb}.{tc}"
    copy = "" if not shared else """
    mov.u32 x, %%tid.x; shl.b32 x, x, 2; mov.u32 y, s;
COPY:
    cvt.u64.u32 o, x; add.u64 o, o, pa; ld.global.b32 z, [o]; add.u32 w, y, x; st.shared.b32 [w], z;
    add.u32 x, x, 128; setp.lt.u32 p, x, %d; @p bra COPY;
    bar.warp.sync -1;""" % len(inputs[0])
    of_a = ("shared", "s") if shared else ("global", "pa")
    text = HEAD.format(version="8.0", target="sm_80") + f""".visible .entry k(.param .u64 qo, .param .u64 qa, .param .u64 qb, .param .u64 qc)
{{
    .shared .align 32 .b8 s[4096];
    .reg .{wide} a<{na}>, b<{nb}>, c<{nc}>, d<{nd}>; .reg .b64 pa, pb, pc, po, o; .reg .b32 x, y, z, w; .reg .pred p;
    ld.param.u64 po, [qo]; ld.param.u64 pa, [qa]; ld.param.u64 pb, [qb]; ld.param.u64 pc, [qc];{copy}
    wmma.load.a.sync.aligned.{lay(a_col)}.{shape}.{of_a[0]}.{ta} {listed('a', na)}, [{of_a[1]}], {strides[0]};
    wmma.load.b.sync.aligned.{lay(b_col)}.{shape}.global.{tb} {listed('b', nb)}, [pb], {strides[1]};
    wmma.load.c.sync.aligned.{lay(c_col)}.{shape}.global.{tc} {listed('c', nc)}, [pc]{f', {strides[2]}' if pad else ''};
    wmma.mma.{f'{op}.popc.' if op else ''}sync.aligned.{lay(a_col)}.{lay(b_col)}.{shape}.{types} {listed('d', nd)}, {listed('a', na)}, {listed('b', nb)}, {listed('c', nc)};
    wmma.store.d.sync.aligned.{lay(c_col)}.{shape}.global.{td} [po], {listed('d', nd)}{f', {strides[2]}' if pad else ''};
    ret;
}}
"""
    return text, [np.frombuffer(x, np.uint8) for x in inputs], result


def wmma_kernels():
    for row in WMMA:
        sub = row[1] in ("s4", "u4", "b1")
        op = "xor" if row[1] == "b1" else ""
        yield f"{row[:5]}", wmma(*row, op=op)
        if row[1] == "b1":
            yield f"{row[:5]} and", wmma(*row, op="and")
        if not sub:
            yield f"{row[:5]} col, padded", wmma(*row, a_col=True, b_col=False, c_col=True, pad=16)
    yield "shared", wmma(*WMMA[0], a_col=True, shared=True)


def wmma_cases(execute):
    for name, (text, inputs, result) in wmma_kernels():
        def case(simrun, scratch, seed, text=text, inputs=inputs, result=result):
            problem, out = execute(simrun, scratch, text, inputs, len(result), ["--block", "32"], seed)
            if problem:
                return problem
            got, want = np.frombuffer(out, np.uint8), np.frombuffer(result, np.uint8)
            written = got != 0xA5  # what nobody wrote: between the lines
            wrong = np.count_nonzero((got != want) & (written | (want != 0)))
            return f"{wrong} bytes differ" if wrong else None
        yield f"wmma {name}", case


def cases(execute):
    for name, (text, words, exact, kind, bound) in kernels():
        def case(simrun, scratch, seed, text=text, words=words, exact=exact, kind=kind, bound=bound):
            problem, out = execute(simrun, scratch, text, [words], exact.nbytes, ["--block", "32"], seed)
            if problem:
                return problem
            got = np.frombuffer(out, np.uint32)
            dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[kind]
            got, want = got.view(dtype).astype(float), exact.ravel().view(dtype).astype(float)
            error = np.abs(got - want).max()
            return None if error <= bound else f"error {error}, {np.count_nonzero(got != want)} differ"
        yield f"mma {name}", case
