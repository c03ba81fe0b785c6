"""wgmma, tensor copies, bulk reductions and stmatrix against NumPy.

Kernels are written here as text.  Operands of wgmma are laid out by the canonical layouts of PTX ISA
9.7.15.5.1.2.1 (shapes and strides as printed there), not by the formula of the simulator; boxes of
tensor copies are cut out of padded arrays.  Values are small integers, or sums that f32 holds
exactly, so that results must be equal.
"""
import pathlib
import subprocess

import numpy as np

import foreign_mma

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
SEEDS = 3


def execute(simrun, scratch, text, inputs, out_bytes, options, seed):
    """Runs entry k(out, inputs..).  Returns (problem, bytes of out)."""
    path = scratch / "sm90.ptx"
    path.write_text(text)
    arguments = [simrun, str(path), "--seed", str(seed), *options, f"out:{scratch}/out:{out_bytes}"]
    for i, value in enumerate(inputs):
        if isinstance(value, str):
            arguments.append(value.replace("SCRATCH", str(scratch)))
        else:
            (scratch / f"in{i}").write_bytes(np.ascontiguousarray(value).tobytes())
            arguments.append(f"in:{scratch}/in{i}")
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        return f"exit {done.returncode}: {(done.stdout + done.stderr)[:600]}", None
    return None, (scratch / "out").read_bytes()


# ---------------------------------------------------------------------------- number formats


def bits_of(values, kind):
    """Exact values to the bytes of a format; of single bits, to bytes of eight columns."""
    if kind == "b1":
        return np.packbits(np.asarray(values, np.uint8), axis=1, bitorder="little")
    x = np.asarray(values, np.float64)
    if kind == "bf16":
        return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if kind == "f16":
        return x.astype(np.float16).view(np.uint16)
    if kind == "tf32":
        return x.astype(np.float32).view(np.uint32)
    if kind in ("s8", "u8"):
        return x.astype(np.int64).astype(np.uint8)
    exponent, mantissa = (4, 3) if kind == "e4m3" else (5, 2)
    bias = 2 ** (exponent - 1) - 1
    out = np.zeros(x.shape, np.uint8)
    fraction, power = np.frexp(np.abs(x))  # in [0.5, 1) * 2^power; normal numbers only
    e = power - 1 + bias
    m = np.round((fraction * 2 - 1) * 2**mantissa).astype(np.int64)
    nonzero = x != 0
    out[nonzero] = ((e << mantissa) | m)[nonzero].astype(np.uint8)
    out[x < 0] |= 0x80
    return out


SIZE = {"bf16": 2, "f16": 2, "tf32": 4, "s8": 1, "u8": 1, "e4m3": 1, "e5m2": 1, "b1": 1}
K = {2: 16, 4: 8, 1: 32}


def small(rng, shape, kind):
    low = 0 if kind == "u8" else -8
    return rng.integers(low, 9, size=shape).astype(np.float64)


# ---------------------------------------------------------------------------- canonical layouts


def canonical(rows, columns, element, swizzle, transposed, leading, stride):
    """Byte offset of element (row, column) of the M x K (N x K) matrix, before the swizzle.

    9.7.15.5.1.2.1 with T = 16 bytes of elements; leading and stride are byte offsets."""
    t = 16 // element
    row, column = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    if not transposed:
        inner, outer = row % 8, row // 8
        if swizzle == 0:  # ((8,m),(T,2k)) : ((1T,SBO),(1,LBO))
            return inner * 16 + outer * stride + column % t * element + column // t * leading
        width = swizzle // 16  # ((8,m),(T,2k)) : ((width T,SBO),(1,T))
        return inner * width * 16 + outer * stride + column * element
    width = max(swizzle // 16, 1)
    a, b, c = row % t, row // t % width, row // t // width
    k0, k1 = column % 8, column // 8
    if swizzle == 0:  # ((T,1,m),(8,k)) : ((1,T,SBO),(1T,LBO))
        return a * element + c * stride + k0 * 16 + k1 * leading
    # ((T,w,m),(8,k)) : ((1,T,LBO),(w T,SBO))
    return a * element + b * 16 + c * leading + k0 * width * 16 + k1 * stride


def swizzled(address, swizzle):
    mask = {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]
    return address ^ ((address >> 7 & mask) << 4)


def place(image, base, bits, swizzle, transposed, leading, stride):
    """Puts a matrix into an image of shared memory at `base`."""
    element = bits.dtype.itemsize
    offsets = swizzled(base + canonical(*bits.shape, element, swizzle, transposed, leading, stride),
                       swizzle)
    view = bits.reshape(bits.shape + (1,)).view(np.uint8)
    for i in range(element):
        image[offsets + i] = view[..., i]


def strides(rows, columns, element, swizzle, transposed):
    """Packed: the byte offsets of a matrix as an author would choose them, (leading, stride)."""
    if not transposed:
        return (rows // 8 * 128, 128) if swizzle == 0 else (16, 8 * swizzle)
    if swizzle == 0:
        return 128, columns // 8 * 128
    return columns // 8 * swizzle * 8, swizzle * 8


def descriptor(address, swizzle, leading, stride):
    mode = {0: 0, 128: 1, 64: 2, 32: 3}[swizzle]
    return address >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62


# ---------------------------------------------------------------------------- wgmma

A_BASE, B_BASE, SHARED = 0, 16384, 49152
ORIGIN = 1024  # where shared memory starts; the layouts repeat every 1024 bytes


def wgmma_kernel(n, k, d, a, b, registers_a, tail, initial):
    count = n // 4 if d == "f16" else n // 2
    regs = ", ".join(f"d{i}" for i in range(count))
    shape = f"m64n{n}k{k}"
    types = f"{d}.{a}.{b}" + (".and.popc" if a == "b1" else "")
    source = "{x0, x1, x2, x3}" if registers_a else "da"
    lines = [HEAD, ".visible .entry k(.param .u64 po, .param .u64 ps, .param .u64 pa, "
             ".param .u64 pd, .param .u64 pc)", "{",
             f"    .shared .align 1024 .b8 s[{SHARED}];",
             "    .reg .b32 t, i, v, x<4>; .reg .b64 out, src, ga, gd, gc, o, da, db; .reg .pred p;",
             f"    .reg .b32 d<{count}>;",
             "    ld.param.u64 out, [po]; ld.param.u64 src, [ps]; ld.param.u64 ga, [pa];",
             "    ld.param.u64 gd, [pd]; ld.param.u64 gc, [pc];",
             "    mov.u32 t, %tid.x;", "    shl.b32 i, t, 4;",
             "COPY:", "    cvt.u64.u32 o, i;", "    add.u64 o, o, src;",
             "    .reg .b32 y<4>;", "    ld.global.v4.u32 {y0, y1, y2, y3}, [o];",
             "    mov.u32 v, s;", "    add.u32 v, v, i;", "    st.shared.v4.u32 [v], {y0, y1, y2, y3};",
             "    add.u32 i, i, 2048;", f"    setp.lt.u32 p, i, {SHARED};", "    @p bra COPY;",
             "    fence.proxy.async.shared::cta;", "    bar.sync 0;",
             "    mul.wide.u32 o, t, 16;", "    add.u64 ga, ga, o;",
             "    ld.global.v4.u32 {x0, x1, x2, x3}, [ga];",
             "    ld.global.u64 da, [gd];", "    ld.global.u64 db, [gd+8];",
             f"    mul.wide.u32 o, t, {4 * count};", "    add.u64 out, out, o;",
             "    add.u64 gc, gc, o;"]
    for i in range(count):
        lines.append(f"    ld.global.u32 d{i}, [gc+{4 * i}];" if initial else f"    mov.b32 d{i}, 0;")
    lines += ["    wgmma.fence.sync.aligned;",
              f"    wgmma.mma_async.sync.aligned.{shape}.{types} {{{regs}}}, {source}, db, {tail};",
              "    wgmma.commit_group.sync.aligned;", "    wgmma.wait_group.sync.aligned 0;"]
    lines += [f"    st.global.u32 [out+{4 * i}], d{i};" for i in range(count)]
    return "\n".join(lines + ["    ret;", "}"]) + "\n"


def fragments_d(matrix, d):
    """[64][n] values to registers [128][count] (9.7.15.5.1.1, accumulator fragments)."""
    n = matrix.shape[1]
    thread = np.arange(128)
    w, g, t = thread // 32, thread % 32 // 4, thread % 4
    count = n // 4 if d == "f16" else n // 2
    out = np.zeros((128, count), np.uint32)
    for i in range(count):
        if d == "f16":
            row, column = 16 * w + g + 8 * (i & 1), 8 * (i >> 1) + 2 * t
            low = matrix[row, column].astype(np.float16).view(np.uint16).astype(np.uint32)
            high = matrix[row, column + 1].astype(np.float16).view(np.uint16).astype(np.uint32)
            out[:, i] = low | high << 16
        else:
            row, column = 16 * w + g + 8 * (i >> 1 & 1), 8 * (i >> 2) + 2 * t + (i & 1)
            value = matrix[row, column]
            out[:, i] = (value.astype(np.int64).astype(np.uint32) if d == "s32"
                         else value.astype(np.float32).view(np.uint32))
    return out


def fragments_a(bits):
    """[64][k] of a format to [128][4] words: row g + 8(j&1), bytes 4t + 16(j>>1)."""
    rows = np.ascontiguousarray(bits).view(np.uint32)  # [64][8]
    thread = np.arange(128)
    w, g, t = thread // 32, thread % 32 // 4, thread % 4
    return np.stack([rows[16 * w + g + 8 * (j & 1), t + 4 * (j >> 1)] for j in range(4)], axis=1)


def of_13_bits(ma, mb, c, a, b):
    """The sums as wgmma of 8-bit floats has them."""
    import sums

    def parts(matrix, kind):
        least, mantissa = (-6, 3) if kind == "e4m3" else (-14, 2)
        place = np.maximum(np.frexp(matrix)[1] - 1, least)
        return [[(int(m * 2.0**(mantissa - p)), int(p) - mantissa, int(p)) for m, p in zip(*row)] for row in zip(matrix, place)]
    c = [[sums.parts(x, "f32") for x in row] for row in c.astype(np.float32).view(np.uint32)]
    columns = parts(mb, b)
    return np.array([[sums.total(row, column, of_c, 13) for column, of_c in zip(columns, c[i])]
                     for i, row in enumerate(parts(ma, a))], np.uint32).view(np.float32)


def wgmma_case(simrun, scratch, seed, n, a, b, d, swizzle_a, swizzle_b, transpose_a=0, transpose_b=0,
               registers_a=False, scale_d=True, negate=(1, 1), saturate=False, waits=True, sp=None):
    rng = np.random.default_rng(n + seed)
    k, element = K[SIZE[a]], SIZE[a]
    if a == "b1":  # bytes of eight columns
        ma, mb = rng.integers(0, 2, (64, 8 * k)), rng.integers(0, 2, (n, 8 * k))
        ma[0], mb[0] = 1, 1
    else:
        ma, mb = small(rng, (64, k), a), small(rng, (n, k), b)
    if saturate:
        ma[:], mb[:] = 127, 127
    stored, metadata = bits_of(ma, a), []
    if sp is not None:  # k columns of A are stored, of 2 k; a warp has the metadata of its 16 rows
        k *= 2
        mb = small(rng, (n, k), b)
        parts = [foreign_mma.sparse(a, 8 * element, 16, k, sp, rng) for _ in range(4)]
        ma, stored = np.concatenate([x[0] for x in parts]), np.concatenate([x[1] for x in parts]).astype(stored.dtype)
        metadata = [x[2] for x in parts]
    image = np.zeros(SHARED + ORIGIN, np.uint8)
    image[:] = rng.integers(0, 256, size=image.size)
    la, sa = strides(64, stored.shape[1], element, swizzle_a, transpose_a)
    lb, sb = strides(n, k, element, swizzle_b, transpose_b)
    if not registers_a:
        place(image, ORIGIN + A_BASE, stored, swizzle_a, transpose_a, la, sa)
    place(image, ORIGIN + B_BASE, bits_of(mb, b), swizzle_b, transpose_b, lb, sb)
    initial = small(rng, (64, n), "s8") * (2**31 / 8 - 64 if saturate else 1)
    if saturate:
        initial = np.abs(initial)
    expected = negate[0] * ma @ (negate[1] * mb).T + (initial if scale_d else 0)
    if sp is not None and element == 1 and d == "f32":
        expected = of_13_bits(ma, mb, initial, a, b)
    if d == "s32":
        tail = f"{int(scale_d)}"
        expected = np.clip(expected, -2**31, 2**31 - 1) if saturate else expected
    else:
        tail = f"{int(scale_d)}, {negate[0]}, {negate[1]}"
        if element == 2:
            tail += f", {transpose_b}" if registers_a else f", {transpose_a}, {transpose_b}"
    text = wgmma_kernel(n, mb.shape[1], d, a, b, registers_a, tail, scale_d)
    if not waits:  # before the accumulators are read: ptxas puts the wait in
        text = text.replace("wgmma.wait_group.sync.aligned 0;", "").replace(
            "ret;", "wgmma.wait_group.sync.aligned 0; ret;")
    if sp is not None:
        text = text.replace("mma_async.sync", "mma_async.sp.sync").replace(", db, ", f", db, e, {sp}, ").replace(
            "    ld.global.u64 db, [gd+8];", "    ld.global.u64 db, [gd+8]; .reg .b32 e; mul.wide.u32 o, t, 4; "
            "add.u64 o, o, gd; ld.global.u32 e, [o+16];")
    if saturate:
        text = text.replace(f"m64n{n}k{k}.s32", f"m64n{n}k{k}.satfinite.s32")
    pair = np.array([descriptor(ORIGIN + A_BASE, swizzle_a, la, sa),
                     descriptor(ORIGIN + B_BASE, swizzle_b, lb, sb)], np.uint64)
    pair = np.concatenate([pair.view(np.uint32), *metadata]) if metadata else pair
    start = fragments_d(initial, d)
    problem, out = execute(simrun, scratch, text,
                           [image[ORIGIN:], fragments_a(stored), pair, start],
                           start.nbytes, ["--block", "128"], seed)
    if problem:
        return problem
    have, want = np.frombuffer(out, np.uint32).reshape(start.shape), fragments_d(expected, d)
    if d == "f32":
        same = have.view(np.float32) == want.view(np.float32)
    elif d == "f16":
        same = have.view(np.float16) == want.view(np.float16)
    else:
        same = have == want
    return None if np.all(same) else f"{np.sum(~same)} of {same.size} values differ"


def wgmma_cases():
    for swizzle in (0, 32, 64, 128):
        for ta in (0, 1):
            for tb in (0, 1):
                yield dict(n=64, a="bf16", b="bf16", d="f32", swizzle_a=swizzle,
                           swizzle_b=128 if swizzle == 32 else swizzle, transpose_a=ta,
                           transpose_b=tb)
        for a, b, d in (("tf32", "tf32", "f32"), ("e4m3", "e5m2", "f32"), ("e5m2", "e4m3", "f16"),
                        ("s8", "u8", "s32"), ("u8", "s8", "s32"), ("f16", "f16", "f16")):
            yield dict(n=32, a=a, b=b, d=d, swizzle_a=swizzle, swizzle_b=swizzle)
    for a, b, d in (("bf16", "bf16", "f32"), ("tf32", "tf32", "f32"), ("e4m3", "e4m3", "f32"),
                    ("s8", "s8", "s32"), ("f16", "f16", "f32")):
        yield dict(n=48, a=a, b=b, d=d, swizzle_a=0, swizzle_b=128, registers_a=True)
    yield dict(n=64, a="f16", b="f16", d="f16", swizzle_a=0, swizzle_b=128, registers_a=True,
               transpose_b=1)
    for n in (8, 16, 24, 40, 80, 96, 128, 136, 192, 248, 256):
        yield dict(n=n, a="bf16", b="bf16", d="f32", swizzle_a=128, swizzle_b=128)
    yield dict(n=256, a="f16", b="f16", d="f32", swizzle_a=64, swizzle_b=64, transpose_b=1)
    for negate in ((-1, 1), (1, -1), (-1, -1)):
        yield dict(n=16, a="bf16", b="bf16", d="f32", swizzle_a=128, swizzle_b=128, negate=negate)
        yield dict(n=16, a="tf32", b="tf32", d="f32", swizzle_a=128, swizzle_b=128, negate=negate,
                   registers_a=True)
    yield dict(n=16, a="bf16", b="bf16", d="f32", swizzle_a=32, swizzle_b=32, scale_d=False)
    yield dict(n=16, a="s8", b="s8", d="s32", swizzle_a=32, swizzle_b=32, scale_d=False)
    yield dict(n=16, a="s8", b="s8", d="s32", swizzle_a=32, swizzle_b=32, saturate=True)
    for n, swizzle in ((8, 0), (24, 32), (48, 64), (256, 128)):
        for registers in (False, True):
            yield dict(n=n, a="b1", b="b1", d="s32", swizzle_a=swizzle, swizzle_b=swizzle, registers_a=registers,
                       scale_d=n != 24)
    yield dict(n=64, a="f16", b="f16", d="f16", swizzle_a=128, swizzle_b=128, waits=False)
    for a, b, d, selector in (("f16", "f16", "f32", 0), ("bf16", "bf16", "f32", 1), ("f16", "f16", "f16", 1),
                              ("tf32", "tf32", "f32", 0), ("e4m3", "e5m2", "f32", 0), ("s8", "u8", "s32", 0)):
        for registers in (False, True):
            yield dict(n=32, a=a, b=b, d=d, swizzle_a=32, swizzle_b=64, registers_a=registers, sp=selector)
    yield dict(n=64, a="bf16", b="bf16", d="f32", swizzle_a=0, swizzle_b=0, transpose_a=1, transpose_b=1, sp=0)
    yield dict(n=256, a="bf16", b="bf16", d="f32", swizzle_a=128, swizzle_b=128, registers_a=True, waits=False)


# ---------------------------------------------------------------------------- tensor copies


def tensor_kernel(rank, coordinates, box_bytes, store, reduce, four_rows=False, span=None):
    """span: bytes of shared memory that are read or written back; those that no copy fills are zero."""
    gaps, span = span not in (None, box_bytes), span or box_bytes
    names = [f"c{i}" for i in range(len(coordinates))]
    head, mode = HEAD, "tile"
    if four_rows:
        head, mode = HEAD.replace("sm_90a", "sm_100a"), "tile::scatter4" if store else "tile::gather4"
    put = [f"    mov.u32 c{i}, {c};" for i, c in enumerate(coordinates)]
    at = "{" + ", ".join(names) + "}"
    lines = [head, ".visible .entry k(.param .u64 po, .param .align 64 .b8 tm[128], .param .u64 pi)",
             "{", "    .shared .align 1024 .b8 s[32768];", "    .shared .align 8 .b64 mb;",
             "    .reg .b32 t, a, m, i, v, x<4>, c<5>; .reg .b64 out, in, map, o; .reg .pred p, q;",
             "    ld.param.u64 out, [po]; ld.param.u64 in, [pi];",
             "    mov.b64 map, tm; cvta.param.u64 map, map;",
             "    mov.u32 t, %tid.x; mov.u32 a, s; mov.u32 m, mb;", "    setp.ne.u32 p, t, 0;", *put]
    step = f"    add.u32 i, i, 512; setp.lt.u32 q, i, {span};"
    if store:
        form = (f"cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{reduce}.tile.bulk_group"
                if reduce else f"cp.async.bulk.tensor.{rank}d.global.shared::cta.{mode}.bulk_group")
        lines += ["    shl.b32 i, t, 4;", "FILL:", "    cvt.u64.u32 o, i; add.u64 o, o, in;",
                  "    ld.global.v4.u32 {x0, x1, x2, x3}, [o]; add.u32 v, a, i;",
                  "    st.shared.v4.u32 [v], {x0, x1, x2, x3};", step, "    @q bra FILL;",
                  "    fence.proxy.async.shared::cta;", "    bar.sync 0;", "    @p bra DONE;",
                  f"    {form} [map, {at}], [a];", "    cp.async.bulk.commit_group;",
                  "    cp.async.bulk.wait_group 0;", "    st.global.u32 [out], t;", "DONE:"]
    else:
        if gaps:
            lines += ["    shl.b32 i, t, 4; mov.u32 x0, 0;", "CLEAR:", "    add.u32 v, a, i;",
                      "    st.shared.v4.u32 [v], {x0, x0, x0, x0};", step, "    @q bra CLEAR;",
                      "    fence.proxy.async.shared::cta; bar.sync 0;"]
        lines += ["    @p bra READY;", "    mbarrier.init.shared::cta.b64 [m], 1;",
                  "    fence.mbarrier_init.release.cluster;",
                  f"    mbarrier.arrive.expect_tx.shared::cta.b64 _, [m], {box_bytes};",
                  f"    cp.async.bulk.tensor.{rank}d.shared::cluster.global.{mode}"
                  f".mbarrier::complete_tx::bytes [a], [map, {at}], [m];",
                  "READY:", "    bar.sync 0;", "WAIT:",
                  "    mbarrier.try_wait.parity.shared::cta.b64 q, [m], 0;", "    @!q bra WAIT;",
                  "    shl.b32 i, t, 4;", f"    setp.ge.u32 q, i, {span};", "    @q bra DONE;",
                  "OUT:", "    add.u32 v, a, i;",
                  "    ld.shared.v4.u32 {x0, x1, x2, x3}, [v];", "    cvt.u64.u32 o, i;",
                  "    add.u64 o, o, out;", "    st.global.v4.u32 [o], {x0, x1, x2, x3};", step,
                  "    @q bra OUT;", "DONE:"]
    return "\n".join(lines + ["    ret;", "}"]) + "\n"


TENSOR = {"u8": np.uint8, "u16": np.uint16, "s32": np.int32, "f32": np.float32, "f16": np.float16,
          "bf16": np.uint16, "u64": np.uint64, "f64": np.float64, "tf32": np.uint32}


def cut(array, start, count, steps, fill):
    """A box of a NumPy array (outermost first), every steps-th element, `fill` outside."""
    out = np.full(count, fill, array.dtype)
    source = [c + s * np.arange(n) for c, n, s in zip(start, count, steps)]
    inside = [(at >= 0) & (at < n) for at, n in zip(source, array.shape)]
    target = [np.flatnonzero(i) for i in inside]
    out[np.ix_(*target)] = array[np.ix_(*(at[i] for at, i in zip(source, inside)))]
    return out


def shared_image(box, swizzle):
    """The bytes of a box as they lie in shared memory from its start.  Rows narrower than a swizzle of 128 bytes are
    128 bytes apart (an H200's)."""
    flat = np.frombuffer(np.ascontiguousarray(box).tobytes(), np.uint8)
    row = box.shape[-1] * box.itemsize
    pitch = 128 if swizzle == 128 else row
    size = flat.size // row * pitch
    image = np.zeros((size + 1023) // 1024 * 1024, np.uint8)
    at = np.arange(flat.size)
    image[swizzled(at // row * pitch + at % row, swizzle)] = flat
    return image[:size]


NAN = {2: 0x7ff7, 4: 0x7ff77ff7, 8: 0x7ff77ff77ff77ff7}  # what fills, by bytes: an H200's


def tensor_case(simrun, scratch, seed, kind, size, box, start, swizzle=0, store=False, reduce=None,
                pitch=None, steps=None, nan=False, four_rows=False):
    map_steps = steps
    """Sizes innermost first, as for the map.  pitch: elements from row to row.  four_rows: gather4 and
    scatter4; start is the column and four rows."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(TENSOR[kind])
    if nan:  # bits
        dtype = np.dtype(f"u{dtype.itemsize}")
    whole = rng.integers(0, 100, size=(*size[:0:-1], pitch or size[0])).astype(dtype)
    array = whole[..., :size[0]]
    if kind == "tf32":  # NaNs, infinities, ties of both kinds, what becomes infinite
        whole[:] = rng.choice([0x7f800001, 0xff812345, 0x7fffffff, 0x7f800000, 0x7f7fffff, 0xff7ff000, 0x3f801000, 0x3f803000, 0xbf801001,
                               0x3f801fff, 0x00001000, 0x80003000, 0x807fffff, 0x40490fdb], whole.shape)
        rounded = (array + 0xfff + (array >> 13 & 1)) & 0xffffe000
        array = np.where((array & 0x7fffffff) > 0x7f800000, 0x7fffe000, rounded)
    steps = (1, *steps[1:]) if steps else (1,) * len(box)  # the map has the inner stride, which is ignored
    count = tuple(-(-b // s) for b, s in zip(box, steps))
    if four_rows:
        count = (box[0], 4)
    content = rng.integers(0, 100, size=count[::-1]).astype(dtype)
    box_bytes = content.nbytes
    joined = lambda numbers: "x".join(map(str, numbers))
    strides = "@" + joined(whole.strides[-2::-1]) if pitch else ""
    spec = (f"map:{kind}{'+nan' if nan else ''}:{swizzle}:{joined(size)}{strides}:"
            f"{joined(box)}{'/' + joined(map_steps) if map_steps else ''}:inout:SCRATCH/tensor")
    (scratch / "tensor").write_bytes(whole.tobytes())
    image = shared_image(content, swizzle)
    text = tensor_kernel(len(size), start, box_bytes, store, reduce, four_rows, image.size)
    padding = np.zeros(512, np.uint8)
    problem, out = execute(simrun, scratch, text, [spec, np.concatenate([image, padding])],
                           4 if store else image.size, ["--block", "32"], seed)
    if problem:
        return problem
    if not store:
        fill = NAN[dtype.itemsize] if nan else 0
        if four_rows:
            parts = [cut(array, (row, start[0]), (1, box[0]), (1, 1), fill) for row in start[1:]]
            return None if out == shared_image(np.concatenate(parts), swizzle).tobytes() else "rows differ"
        want = shared_image(cut(array, start[::-1], count[::-1], steps[::-1], fill), swizzle)
        return None if out == want.tobytes() else "the box differs"
    expected = whole.copy()
    grid = np.indices(content.shape).reshape(content.ndim, -1).T
    for index in grid:
        at = tuple(int(c + i * s) for c, i, s in zip(start[::-1], index, steps[::-1]))
        if four_rows:
            at = (start[1 + index[0]], int(start[0] + index[1]))
        if all(0 <= c < n for c, n in zip(at, array.shape)):
            value = content[tuple(index)]
            old = expected[at]
            expected[at] = {None: value, "add": old + value, "min": min(old, value),
                            "max": max(old, value)}[reduce]
    have = np.frombuffer((scratch / "tensor").read_bytes(), dtype).reshape(whole.shape)
    return None if np.array_equal(have, expected) else "the tensor differs"


def tensor_cases():
    yield dict(kind="f32", size=(100,), box=(64,), start=(12,))
    yield dict(kind="f32", size=(100,), box=(64,), start=(-4,))
    yield dict(kind="s32", size=(100,), box=(64,), start=(88,))
    for swizzle, inner in ((0, 64), (32, 16), (64, 32), (128, 64)):
        for start in ((0, 0), (8, 3), (-8, -2), (56, 30), (200, 0)):
            yield dict(kind="bf16", size=(96, 40), box=(inner, 16), start=start, swizzle=swizzle)
    yield dict(kind="u8", size=(64, 9, 5), box=(16, 4, 3), start=(48, 7, -1))
    yield dict(kind="u8", size=(128, 9, 5), box=(128, 8, 2), start=(16, 3, 4), swizzle=128)
    yield dict(kind="f16", size=(24, 5, 4, 3), box=(8, 3, 2, 2), start=(16, 4, -1, 2))
    yield dict(kind="f32", size=(8, 3, 4, 3, 2), box=(4, 2, 2, 2, 2), start=(4, -1, 3, 1, 1))
    yield dict(kind="u64", size=(8, 6), box=(4, 4), start=(6, 4))
    yield dict(kind="tf32", size=(96, 40), box=(32, 16), start=(72, 28), swizzle=128)
    for reduce in (None, "add", "min", "max"):
        for start in ((0, 0), (28, 14), (4, 100)):
            yield dict(kind="s32", size=(40, 20), box=(32, 8), start=start, store=True,
                       reduce=reduce, swizzle=128)
    yield dict(kind="f32", size=(16, 4, 4), box=(8, 2, 3), start=(12, 3, 2), store=True,
               reduce="add")
    yield dict(kind="f16", size=(64, 8), box=(32, 8), start=(40, 1), store=True, swizzle=64)
    for kind, inner in (("f32", 16), ("f16", 32), ("bf16", 32), ("f64", 8)):
        yield dict(kind=kind, size=(48, 12), box=(inner, 8), start=(40, 8), swizzle=64, nan=True)
    yield dict(kind="bf16", size=(90, 40), box=(64, 16), start=(64, 30), swizzle=128, pitch=96)
    yield dict(kind="s32", size=(40, 9, 5), box=(32, 4, 3), start=(8, 6, 1), store=True, pitch=44)
    yield dict(kind="s32", size=(40, 20), box=(32, 8), start=(4, 3), steps=(1, 2), swizzle=128)
    yield dict(kind="s32", size=(40, 20), box=(32, 8), start=(4, 3), steps=(2, 2), swizzle=128)
    for box in ((32, 16), (8, 9), (48, 3)):  # rows narrower than the swizzle
        yield dict(kind="bf16", size=(96, 40), box=box, start=(-8, 35), swizzle=128)
        yield dict(kind="bf16", size=(96, 40), box=box, start=(8, 3), swizzle=128, store=True)
    yield dict(kind="s32", size=(40, 20, 3), box=(8, 4, 2), start=(36, -1, 1), steps=(1, 2, 1), swizzle=128)
    yield dict(kind="s32", size=(40, 20), box=(16, 8), start=(4, 14), store=True, reduce="add", swizzle=128)
    yield dict(kind="bf16", size=(64, 30, 9), box=(64, 7, 4), start=(8, 25, -2), steps=(1, 3, 2))


def four_rows_cases():
    """gather4 and scatter4, of sm_100."""
    for swizzle, inner in ((0, 64), (32, 16), (64, 32), (128, 64)):
        for start in ((0, 7, 3, 39, 0), (8, 2, 2, 2, 2), (-8, -1, 40, 5, 39), (64, 1, 0, 1, 0)):
            yield dict(kind="bf16", size=(96, 40), box=(inner, 1), start=start, swizzle=swizzle,
                       four_rows=True)
    yield dict(kind="f32", size=(48, 12), box=(16, 1), start=(40, 3, 12, 11, -5), swizzle=64, nan=True,
               four_rows=True)
    yield dict(kind="u8", size=(100, 9), box=(128, 1), start=(16, 8, 0, 3, 1), pitch=112, four_rows=True)
    for start in ((0, 7, 3, 39, 0), (56, 2, 41, 40, 1)):
        yield dict(kind="bf16", size=(96, 40), box=(64, 1), start=start, swizzle=128, store=True,
                   four_rows=True)


# ---------------------------------------------------------------------------- stmatrix


def stmatrix_case(simrun, scratch, seed, count, transposed):
    rng = np.random.default_rng(seed)
    tiles = rng.integers(0, 65536, size=(count, 8, 8)).astype(np.uint16)
    lane = np.arange(32)
    fragments = np.zeros((32, 4), np.uint32)
    for j in range(count):
        m = tiles[j].T if transposed else tiles[j]
        fragments[:, j] = m[lane // 4, 2 * (lane % 4)] | m[lane // 4, 2 * (lane % 4) + 1].astype(
            np.uint32) << 16
    regs = ", ".join(f"x{j}" for j in range(count))
    suffix = ".trans" if transposed else ""
    text = f"""{HEAD}.visible .entry k(.param .u64 po, .param .u64 pi)
{{
    .shared .align 16 .b8 s[512];
    .reg .b32 t, a, v, x<4>; .reg .b64 out, in, o; .reg .pred p;
    ld.param.u64 out, [po]; ld.param.u64 in, [pi];
    mov.u32 t, %tid.x; mov.u32 a, s;
    mul.wide.u32 o, t, 16;
    add.u64 in, in, o; add.u64 out, out, o;
    ld.global.v4.u32 {{x0, x1, x2, x3}}, [in];
    mad.lo.u32 v, t, 16, a;
    stmatrix.sync.aligned.m8n8.x{count}{suffix}.shared.b16 [v], {{{regs}}};
    bar.warp.sync -1;
    setp.lt.u32 p, t, {8 * count};
    @p ld.shared.v4.u32 {{x0, x1, x2, x3}}, [v];
    @p st.global.v4.u32 [out], {{x0, x1, x2, x3}};
    ret;
}}
"""
    problem, out = execute(simrun, scratch, text, [fragments], 128 * count, ["--block", "32"], seed)
    if problem:
        return problem
    return None if out == tiles.tobytes() else "the tiles differ"


def cases():
    for parameters in wgmma_cases():
        yield "wgmma", wgmma_case, parameters
    for parameters in tensor_cases():
        yield "tensor", tensor_case, parameters
    for count in (1, 2, 4):
        for transposed in (False, True):
            yield "stmatrix", stmatrix_case, dict(count=count, transposed=transposed)


def run(simrun, scratch, wanted=None):
    ran = failed = 0
    every = [*cases(), *(("gather", tensor_case, parameters) for parameters in four_rows_cases())]
    for name, function, parameters in every:
        if wanted and wanted != name:
            continue
        ran += 1
        for seed in range(SEEDS):
            problem = function(simrun, scratch, seed, **parameters)
            if problem:
                failed += 1
                print(f"FAIL sm90 {name} {parameters}, seed {seed}: {problem}")
                break
    return ran, failed


if __name__ == "__main__":
    import sys
    import tempfile
    with tempfile.TemporaryDirectory() as directory:
        total, bad = run(sys.argv[1], pathlib.Path(directory), *sys.argv[2:3])
    print(f"{total} tests, {bad} failures")
    sys.exit(1 if bad else 0)
