"""tcgen05 against NumPy: every kind, layouts of shared and tensor memory, ld, st, cp.

Kernels are written here as text.  Operands are laid out by the canonical layouts of PTX ISA 9.7.16.3.3
(as CuTe shapes and strides), not by the formula of the simulator.  Integer-valued operands make most
results exact; other cases state their tolerance.
"""
import struct
import subprocess

import numpy as np

COLUMNS = 512
SEEDS = 3

# ---------------------------------------------------------------------------- number formats


def small_float(bits, exponent, mantissa, special):
    """Values of all codes of a format; special: 'nan' (e4m3), 'ieee' (e5m2), None."""
    table = []
    bias = 2 ** (exponent - 1) - 1
    for code in range(1 << bits):
        sign = -1.0 if code >> (bits - 1) else 1.0
        e = code >> mantissa & ((1 << exponent) - 1)
        m = code & ((1 << mantissa) - 1)
        if special == "ieee" and e == (1 << exponent) - 1:
            value = np.nan if m else np.inf
        elif special == "nan" and code & 0x7F == 0x7F:
            value = np.nan
        elif e == 0:
            value = m * 2.0 ** (1 - bias - mantissa)
        else:
            value = (1 + m * 2.0 ** -mantissa) * 2.0 ** (e - bias)
        table.append(sign * value)
    return np.array(table)


FORMATS = {
    "e4m3": (small_float(8, 4, 3, "nan"), 0), "e5m2": (small_float(8, 5, 2, "ieee"), 1),
    "e2m3": (small_float(6, 2, 3, None), 3), "e3m2": (small_float(6, 3, 2, None), 4),
    "e2m1": (small_float(4, 2, 1, None), 5),
}


def bf16_bits(x):
    return (np.asarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


class Matrix:
    """Values by (row, k), and rows of 32 bytes of k for shared memory."""

    def __init__(self, kind, rows, k, rng):
        self.kind = kind
        if kind in FORMATS:
            table = FORMATS[kind][0]
            fine = np.flatnonzero(np.isfinite(table) & (np.abs(table) < 300))
            self.codes = rng.choice(fine, size=(rows, k)).astype(np.uint8)
            self.values = table[self.codes]
            self.container = 1
        elif kind in ("s8", "u8"):
            low, high = (-128, 128) if kind == "s8" else (0, 256)
            self.values = rng.integers(low, high, size=(rows, k)).astype(np.float64)
            self.codes = self.values.astype(np.int16).astype(np.uint8)
            self.container = 1
        else:
            self.values = rng.integers(-8, 9, size=(rows, k)).astype(np.float64)
            if kind == "bf16":
                self.codes, self.container = bf16_bits(self.values), 2
            elif kind == "f16":
                self.codes, self.container = self.values.astype(np.float16).view(np.uint16), 2
            else:
                self.codes, self.container = self.values.astype(np.float32).view(np.uint32), 4

    def chunk(self, codes):
        """16 bytes that hold the codes: 16 elements of 4 or 6 bits are packed, then padding."""
        if self.kind in ("e2m1", "e2m3", "e3m2"):
            bits = 4 if self.kind == "e2m1" else 6
            number = sum(int(c) << (bits * i) for i, c in enumerate(codes))
            return number.to_bytes(16, "little")
        return codes.tobytes()


SWIZZLES = {"none": (0, 16), "32": (6, 32), "64": (4, 64), "128": (2, 128), "128a32": (1, 128)}


def swizzle(mode, x):
    if mode == "32":
        return x ^ (x >> 3 & 0x10)
    if mode == "64":
        return x ^ (x >> 3 & 0x30)
    if mode == "128":
        return x ^ (x >> 3 & 0x70)
    if mode == "128a32":
        return x ^ (x >> 2 & 0x60)
    return x


def descriptor(leading, stride, mode):
    return leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46 | SWIZZLES[mode][0] << 61


def lay_out(matrix, mode, transposed, start, image):
    """Writes the matrix into the shared memory image from `start` on (a multiple of 1024).  Returns
    the descriptor's upper part, the byte offset of each instruction's step along k, and the end."""
    end = start
    rows, k = matrix.codes.shape
    span = SWIZZLES[mode][1]
    per = 16 // matrix.container  # elements of a 16-byte chunk
    step_k = 32 // matrix.container
    if not transposed:
        if mode == "none":  # ((8,m),(T,2k)):((1T,SBO),(1,LBO)): 8-row groups, then chunks of k
            leading, stride = rows // 8 * 128, 128
            steps = [2 * leading * s for s in range(k // step_k)]
            where = lambda r, c: r // 8 * stride + r % 8 * 16 + c * leading
        else:  # ((8,m),(T,2k)):((W,SBO),(1,T)); several atoms along k follow each other
            leading, stride = 16, 8 * span
            per_atom = span // 16
            atom = rows // 8 * 8 * span
            steps = [32 * s // span * atom + 32 * s % span for s in range(k // step_k)]
            where = lambda r, c: (r // 8 * stride + r % 8 * span + c // per_atom * atom
                                  + c % per_atom * 16)
        for r in range(rows):
            for c in range(k // per):
                at = swizzle(mode, start + where(r, c))
                image[at:at + 16] = matrix.chunk(matrix.codes[r, c * per:(c + 1) * per])
                end = max(end, at + 16)
        return descriptor(leading, stride, mode), steps, (end + 1023) // 1024 * 1024
    chunks = rows // per  # along M or N
    if mode == "none":  # ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))
        stride, leading = 128 * (k // 8), 128
        where = lambda c, j: c * stride + j // 8 * leading + j % 8 * 16
        steps = [step_k * s // 8 * leading for s in range(k // step_k)]
    elif mode == "128a32":  # 4 rows of k to a pattern
        stride, leading = 512, k // 4 * 512
        where = lambda c, j: c * 16 // 128 * leading + j // 4 * stride + j % 4 * 128 + c * 16 % 128
        steps = [step_k * s // 4 * stride for s in range(k // step_k)]
    else:  # ((T,W/16,m),(8,k)):((1,T,LBO),(W,SBO))
        stride, leading = 8 * span, k // 8 * 8 * span
        where = lambda c, j: c * 16 // span * leading + j // 8 * stride + j % 8 * span + c * 16 % span
        steps = [step_k * s // 8 * stride for s in range(k // step_k)]
    for j in range(k):
        for c in range(chunks):
            at = swizzle(mode, start + where(c, j))
            image[at:at + 16] = matrix.chunk(matrix.codes[c * per:(c + 1) * per, j])
            end = max(end, at + 16)
    return descriptor(leading, stride, mode), steps, (end + 1023) // 1024 * 1024


# ---------------------------------------------------------------------------- kernels

PROLOGUE = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 p_image, .param .u64 p_tensor, .param .u64 p_out)
.reqntid 128, 1, 1
{cluster}
{{
    .shared .align 1024 .b8 buf[{bytes}];
    .shared .align 8 .b64 mb;
    .shared .align 4 .b32 slot;
    .reg .b32 tid, s, m, t, w, tw, i, n, sl, rank, x, base;
    .reg .b32 r<{registers}>;
    .reg .b64 g, o, d, e, mbw;
    .reg .b16 both;
    .reg .pred p, lead, even, w0;
    mov.u32 tid, %tid.x;
    mov.u32 rank, %cluster_ctarank;
    mov.u32 s, buf;
    mov.u32 m, mb;
    mov.u32 sl, slot;
    setp.eq.u32 lead, tid, 0;
    setp.lt.u32 w0, tid, 32;
    setp.eq.u32 even, rank, 0;
    ld.param.u64 g, [p_image];
    mul.wide.u32 o, rank, {bytes};
    add.u64 g, g, o;
    shl.b32 i, tid, 4;
COPY:
    cvt.u64.u32 o, i;
    add.u64 o, g, o;
    ld.global.v4.b32 {{r0, r1, r2, r3}}, [o];
    add.u32 x, s, i;
    st.shared.v4.b32 [x], {{r0, r1, r2, r3}};
    add.u32 i, i, 2048;
    setp.lt.u32 p, i, {bytes};
    @p bra COPY;
    fence.proxy.async.shared::cta;
    @lead mbarrier.init.shared::cta.b64 [m], 1;
    @!w0 bra ALLOCATED;
    tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [sl], 512;
    tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
ALLOCATED:
    tcgen05.fence::before_thread_sync;
    {sync}
    tcgen05.fence::after_thread_sync;
    ld.shared.u32 t, [sl];
    shr.u32 w, tid, 5;
    shl.b32 w, w, 21;
    add.u32 tw, t, w;
    shl.b32 i, rank, 7;
    add.u32 i, i, tid;
    mul.wide.u32 o, i, 2048;
    ld.param.u64 g, [p_tensor];
    add.u64 g, g, o;
    mov.u32 i, 0;
FILL:
    ld.global.v4.b32 {{r0, r1, r2, r3}}, [g];
    ld.global.v4.b32 {{r4, r5, r6, r7}}, [g+16];
    add.u32 x, tw, i;
    tcgen05.st.sync.aligned.32x32b.x8.b32 [x], {{r0, r1, r2, r3, r4, r5, r6, r7}};
    add.u64 g, g, 32;
    add.u32 i, i, 8;
    setp.lt.u32 p, i, 512;
    @p bra FILL;
    tcgen05.wait::st.sync.aligned;
    tcgen05.fence::before_thread_sync;
    {sync}
    tcgen05.fence::after_thread_sync;
"""

ISSUE = """
    and.pred p, lead, even;
    @!p bra WAIT;
{body}
    {commit}
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 p, [m], 0;
    @!p bra WAIT;
    tcgen05.fence::after_thread_sync;
    bar.warp.sync 0xffffffff;
"""

EPILOGUE = """
    shl.b32 i, rank, 7;
    add.u32 i, i, tid;
    mul.wide.u32 o, i, 2048;
    ld.param.u64 g, [p_out];
    add.u64 g, g, o;
    mov.u32 i, 0;
DRAIN:
    add.u32 x, tw, i;
    tcgen05.ld.sync.aligned.32x32b.x8.b32 {{r0, r1, r2, r3, r4, r5, r6, r7}}, [x];
    tcgen05.wait::ld.sync.aligned;
    st.global.v4.b32 [g], {{r0, r1, r2, r3}};
    st.global.v4.b32 [g+16], {{r4, r5, r6, r7}};
    add.u64 g, g, 32;
    add.u32 i, i, 8;
    setp.lt.u32 p, i, 512;
    @p bra DRAIN;
    tcgen05.fence::before_thread_sync;
    {sync}
    @!w0 bra END;
    tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 t, 512;
END:
    ret;
}}
"""

CLUSTER_SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


class Kernel:
    """Image of shared memory and of tensor memory in, tensor memory out."""

    def __init__(self, group=1, bytes_=65536):
        self.group = group
        self.bytes = bytes_
        self.image = [bytearray(bytes_) for _ in range(group)]
        self.tensor = np.zeros((group, 128, COLUMNS), np.uint32)
        self.tensor[:] = 0x3F800000  # 1.0f, so that what must not change shows
        self.body = []
        self.after = ""
        self.target = "sm_100a"
        self.out = None

    def text(self):
        sync = CLUSTER_SYNC if self.group == 2 else "bar.sync 0;"
        fields = {"group": self.group, "sync": sync, "bytes": self.bytes, "registers": 128,
                  "cluster": ".reqnctapercluster 2, 1, 1" if self.group == 2 else ""}
        commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [m];"
        if self.group == 2:
            commit = ("mov.u16 both, 3; tcgen05.commit.cta_group::2.mbarrier::arrive::one."
                      "shared::cluster.multicast::cluster.b64 [m], both;")
        text = PROLOGUE.format(**fields)
        if self.body:
            text += ISSUE.format(body="\n".join(self.body), commit=commit)
        return (text + self.after + EPILOGUE.format(**fields)).replace("sm_100a", self.target)

    def run(self, simrun, scratch, seed):
        path = scratch / "sm100.ptx"
        path.write_text(self.text())
        (scratch / "image.bin").write_bytes(b"".join(bytes(i) for i in self.image))
        (scratch / "tensor.bin").write_bytes(self.tensor.tobytes())
        size = self.group * 128 * COLUMNS * 4
        done = subprocess.run(
            [simrun, str(path), "--grid", str(self.group), "--block", "128", "--seed", str(seed),
             f"in:{scratch}/image.bin", f"in:{scratch}/tensor.bin", f"out:{scratch}/out.bin:{size}"],
            capture_output=True, text=True)
        if done.returncode:
            return f"exit {done.returncode}: {done.stdout}{done.stderr}"
        self.out = np.frombuffer((scratch / "out.bin").read_bytes(), np.uint32)
        self.out = self.out.reshape(self.group, 128, COLUMNS)
        return None

    def mma(self, mnemonic, da, db, idesc, tail, d="t", a_memory=None, metadata=None):
        """da, db: (upper part, byte offset in buf); metadata: a column."""
        lines = ["add.u32 x, s, %d; and.b32 x, x, 0x3ffff; shr.u32 x, x, 4; cvt.u64.u32 e, x; "
                 "or.b64 e, e, 0x%x;" % (db[1], db[0])]
        if a_memory is None:
            lines.append("add.u32 x, s, %d; and.b32 x, x, 0x3ffff; shr.u32 x, x, 4; "
                         "cvt.u64.u32 d, x; or.b64 d, d, 0x%x;" % (da[1], da[0]))
            a = "d"
        else:
            a = f"[t+{a_memory}]"
        sparse = "" if metadata is None else f"[t+{metadata}], "
        lines.append(f"{mnemonic} [{d}], {a}, e, {sparse}0x{idesc:x}, {tail};")
        self.body += ["    " + line for line in lines]


def d_place(group, m_all, n_all, ws, m, n):
    """Block, lane and column of D (layouts A, B, D, E, F, G; PTX ISA 9.7.16.10.5)."""
    if group == 2:
        if m_all == 256:
            return m // 128, m % 128, n
        return m // 64, m % 64 + 64 * (n >= n_all // 2), n % (n_all // 2)
    if ws and m_all == 64:
        return 0, m + 64 * (n >= n_all // 2), n % (n_all // 2)
    if ws and m_all == 32:
        return 0, m + 32 * (n // (n_all // 4)), n % (n_all // 4)
    if m_all == 64:
        return 0, m % 16 + 32 * (m // 16), n
    return 0, m, n


CODES = {"f16": 0, "bf16": 1, "tf32": 2, "u8": 0, "s8": 1}


def type_code(kind, name):
    if kind in ("mxf4", "mxf4nvf4"):
        return 1
    return FORMATS[name][1] if name in FORMATS else CODES[name]


def gemm(kind, m, n, a="bf16", b="bf16", d="f32", group=1, ws=False, mode_a="128", mode_b="128",
         ta=False, tb=False, k_steps=2, memory_a=False, accumulate=False, negate=(0, 0),
         scale_d=None, disabled=None, saturate=False, collector="", lane=0):
    """Builds the kernel, and a function that compares the result."""
    rng = np.random.default_rng(hash((kind, m, n, a, b, mode_a, mode_b, ta, tb)) & 0xFFFF)
    kernel = Kernel(group, 131072 if group * m * n > 20000 or kind == "tf32" else 65536)
    step = {"f16": 16, "tf32": 8}.get(kind, 32)
    k = step * k_steps
    A, B = Matrix(a, m, k, rng), Matrix(b, n, k, rng)
    ends = []
    for half in range(group):  # each block holds its rows of A and of B
        rows, columns = m // group, n // group
        part_a, part_b = Matrix(a, 8, step, rng), Matrix(b, 8, step, rng)
        part_a.codes = A.codes[half * rows:(half + 1) * rows]
        part_b.codes = B.codes[half * columns:(half + 1) * columns]
        base_b = 0
        if not memory_a:
            desc_a = lay_out(part_a, mode_a, ta, 0, kernel.image[half])
            base_b = desc_a[2]
        else:
            raw = np.zeros((rows, k * A.container), np.uint8)
            raw[:] = part_a.codes.copy().view(np.uint8).reshape(rows, -1)
            words = raw.view(np.uint32)
            for r in range(rows):
                row = d_place(1, 64 if rows == 64 and group == 1 else 128, n, ws, r, 0)[1] + lane
                kernel.tensor[half, row, 256:256 + words.shape[1]] = words[r]
                if group == 2 and rows == 64:
                    kernel.tensor[half, row + 64, 256:256 + words.shape[1]] = words[r]
        desc_b = lay_out(part_b, mode_b, tb, base_b, kernel.image[half])
        assert len(kernel.image[half]) == kernel.bytes
        ends.append(base_b)
    bits = (n >> 3) << 17 | (m >> 4) << 24 | ta << 15 | tb << 16
    bits |= negate[0] << 13 | negate[1] << 14 | saturate << 3
    bits |= {"f16": 0, "f32": 1, "s32": 2}[d] << 4
    bits |= type_code(kind, a) << 7 | type_code(kind, b) << 10
    mnemonic = f"tcgen05.mma{'.ws' if ws else ''}.cta_group::{group}.kind::{kind}{collector}"
    for s in range(k_steps):
        tail = "1" if accumulate or s else "0"
        if disabled is not None:
            words = [disabled >> 32 * i & 0xFFFFFFFF for i in range(4 * group)]
            kernel.body.append("    " + " ".join(f"mov.u32 r{40 + i}, 0x{v:x};"
                                                 for i, v in enumerate(words)))
            tail = "{" + ", ".join(f"r{40 + i}" for i in range(4 * group)) + "}, " + tail
        if scale_d is not None:
            tail += f", {scale_d}"
        kernel.mma(mnemonic, None if memory_a else (desc_a[0], desc_a[1][s]),
                   (desc_b[0], ends[0] + desc_b[1][s]), bits, tail,
                   d=f"t+{lane << 16}", a_memory=(lane << 16) + 256 + 8 * s if memory_a else None)
    sign = (-1.0 if negate[0] else 1.0) * (-1.0 if negate[1] else 1.0)
    start = {"f32": 1.0, "f16": 0.0, "s32": float(0x3F800000)}[d] if accumulate else 0.0
    want = np.full((m, n), start)
    for s in range(k_steps):
        av, bv = A.values[:, s * step:(s + 1) * step], B.values[:, s * step:(s + 1) * step]
        want = want * (2.0 ** -scale_d if scale_d is not None and (s or accumulate) else 1)
        want = want + sign * (av @ bv.T)
    if saturate:
        want = np.clip(want, -2 ** 31, 2 ** 31 - 1)
    exact = a in ("f16", "bf16", "tf32", "s8", "u8") and d != "f16" and not scale_d
    bound = 0 if exact else 1e-5 * (np.abs(A.values) @ np.abs(B.values).T).max() + 1e-3
    if d == "f16":
        bound = max(1.0, np.abs(want).max() * 2.0 ** -9)

    def compare(out):
        changed = np.zeros(out.shape, bool)
        worst, place = 0.0, None
        for r in range(m):
            for c in range(n):
                at = d_place(group, m, n, ws, r, c)
                at = at[0], at[1] + lane, at[2]
                word = int(out[at])
                changed[at] = True
                if disabled is not None and disabled >> (at[0] * 128 + at[1]) & 1:
                    if word != 0x3F800000:
                        return f"disabled lane {at} was written"
                    continue
                if d == "s32":
                    got = float(np.int32(np.uint32(word)))
                elif d == "f16":
                    got = float(np.uint16(word & 0xFFFF).view(np.float16))
                else:
                    got = float(np.uint32(word).view(np.float32))
                error = abs(got - want[r, c])
                if not error <= worst:
                    worst, place = error, (r, c, at, got, want[r, c])
        if not worst <= bound:
            return f"off by {worst} (bound {bound}) at {place}"
        if not np.array_equal(out[~changed], kernel.tensor[~changed]):
            return "tensor memory outside D changed"
        return None

    return kernel, compare


def scaled(kind, m, n, a="e4m3", b="e4m3", vector=1, word="", id_a=0, id_b=0, ue4m3=False, group=1):
    """Block-scaled kinds; scale factors lie at columns 300 and 320."""
    rng = np.random.default_rng(m * n + vector)
    kernel = Kernel(group, 131072)
    k = 64 if kind != "mxf8f6f4" else 32
    A, B = Matrix(a, m, k, rng), Matrix(b, n, k, rng)
    bases = []
    for half in range(group):
        rows, columns = m // group, n // group
        base_b = 32768
        for matrix, first, count, base in ((A, half * rows, rows, 0),
                                           (B, half * columns, columns, base_b)):
            for r in range(count):
                codes = matrix.codes[first + r]
                for c in range(2):
                    if kind == "mxf8f6f4":
                        chunk = matrix.chunk(codes[c * 16:c * 16 + 16])
                    else:
                        part = codes[c * 32:c * 32 + 32]
                        chunk = (part[0::2] | part[1::2] << 4).astype(np.uint8).tobytes()
                    at = swizzle("32", base + r // 8 * 256 + r % 8 * 32 + c * 16)
                    kernel.image[half][at:at + 16] = chunk
        bases = [descriptor(16, 256, "32"), base_b]

    def factors(rows):
        if ue4m3:
            codes = rng.integers(1, 0x7E, size=(rows, vector)).astype(np.uint8)
            return codes, FORMATS["e4m3"][0][codes]
        codes = rng.integers(120, 135, size=(rows, vector)).astype(np.uint8)
        return codes, 2.0 ** (codes.astype(float) - 127)

    codes_a, sa = factors(m)
    codes_b, sb = factors(n)
    for codes, column, offset, half_rows in ((codes_a, 300, id_a, m // group),
                                             (codes_b, 320, id_b, n)):
        for r in range(codes.shape[0] if column == 320 else m):
            halves = range(group) if column == 320 else [r // half_rows]
            for half in halves:
                row = r if column == 320 else r % half_rows
                for q in range(4):
                    word32 = int(kernel.tensor[half, row % 32 + 32 * q, column + row // 32])
                    for i in range(vector):
                        shift = 8 * (offset + i)
                        word32 = word32 & ~(0xFF << shift) | int(codes[r, i]) << shift
                    kernel.tensor[half, row % 32 + 32 * q, column + row // 32] = word32
    bits = (n >> 3) << 17 | (m >> 7) << 27 | (0 if ue4m3 else 1 << 23) | id_b << 4 | id_a << 29
    bits |= type_code(kind, a) << 7 | type_code(kind, b) << 10
    kernel.mma(f"tcgen05.mma.cta_group::{group}.kind::{kind}.block_scale{word}", (bases[0], 0),
               (bases[0], bases[1]), bits, "[t+300], [t+320], 0")
    block = k // vector
    av = A.values * np.repeat(sa, block, axis=1)
    bv = B.values * np.repeat(sb, block, axis=1)
    want = av @ bv.T
    bound = 1e-6 * (np.abs(av) @ np.abs(bv).T).max()

    def compare(out):
        for r in range(m):
            for c in range(n):
                at = d_place(group, m, n, False, r, c)
                got = float(np.uint32(out[at]).view(np.float32))
                if not abs(got - want[r, c]) <= bound:
                    return f"({r}, {c}): {got}, not {want[r, c]}"
        return None

    return kernel, compare


# ---------------------------------------------------------------------------- ld, st, cp


def fragment(shape, lane, i, split):
    """Row and column of register i (PTX ISA 9.7.16.2.3.1)."""
    g, t = lane // 4, lane % 4
    if shape == "32x32b":
        return lane, i
    if shape == "16x64b":
        return g + 8 * (lane % 2), 2 * i + lane // 2 % 2
    if shape == "16x128b":
        return g + 8 * (i % 2), 4 * (i // 2) + t
    if shape == "16x256b":
        return g + 8 * (i // 2 % 2), 8 * (i // 4) + 2 * t + i % 2
    return lane % 16, i + (split if lane >= 16 else 0)


def move(shape, count, upper=False, packed=False, store=False, split=40):
    """ld from columns 0.. then a st as 32x32b to columns 256.. (or the other way round)."""
    factor = {"16x128b": 2, "16x256b": 4}.get(shape, 1)
    registers = count * factor
    kernel = Kernel()
    rng = np.random.default_rng(count)
    kernel.tensor[0, :, :] = rng.integers(0, 1 << 32, size=(128, COLUMNS), dtype=np.uint32)
    names = "{" + ", ".join(f"r{i}" for i in range(registers)) + "}"
    lane = 16 if upper else 0
    word = (".unpack::16b" if store else ".pack::16b") if packed else ""
    extra = f", {split}" if shape == "16x32bx2" else ""
    kernel.after = f"    add.u32 base, tw, {lane << 16};\n"
    if store:
        kernel.after += f"""    tcgen05.ld.sync.aligned.32x32b.x{registers}.b32 {names}, [tw+256];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.st.sync.aligned.{shape}.x{count}{word}.b32 [base]{extra}, {names};
    tcgen05.wait::st.sync.aligned;
"""
    else:
        kernel.after += f"""    tcgen05.ld.sync.aligned.{shape}.x{count}{word}.b32 {names}, [base]{extra};
    tcgen05.wait::ld.sync.aligned;
    tcgen05.st.sync.aligned.32x32b.x{registers}.b32 [tw+256], {names};
    tcgen05.wait::st.sync.aligned;
"""
    want = kernel.tensor.copy()
    for thread in range(128):
        for i in range(registers):
            row, column = fragment(shape, thread % 32, i, 0)
            if packed:
                column *= 2
            if shape == "16x32bx2" and thread % 32 >= 16:
                column += split
            row += thread // 32 * 32 + lane
            if store and packed:
                value = int(kernel.tensor[0, thread, 256 + i])
                want[0, row, column], want[0, row, column + 1] = value & 0xFFFF, value >> 16
            elif store:
                want[0, row, column] = kernel.tensor[0, thread, 256 + i]
            elif packed:
                want[0, thread, 256 + i] = (int(kernel.tensor[0, row, column]) & 0xFFFF
                                            | (int(kernel.tensor[0, row, column + 1]) & 0xFFFF) << 16)
            else:
                want[0, thread, 256 + i] = kernel.tensor[0, row, column]
    return kernel, lambda out: None if np.array_equal(out, want) else "words differ"


def load_reduced(count, op, kind, absolute=False, keep_nan=False):
    """ld.red of columns 0.., as 32x32b; what it loads goes to columns 256.., the result to 400."""
    kernel = Kernel()
    kernel.target = "sm_103a"
    rng = np.random.default_rng(count)
    words = rng.integers(0, 1 << 32, size=(128, COLUMNS), dtype=np.uint32)
    if kind == "f32":
        words = rng.standard_normal((128, COLUMNS)).astype(np.float32).view(np.uint32)
        words[:8, 0] = [0x80000000, 0, 0x7FC00001, 0xFF800000, 0x7F800000, 0xFFFFFFFF, 1, 0x80000001]
        words[:8, 1] = [0, 0x80000000, 0x3F800000, 0x7FC00000, 0xBF800000, 0x7FFFFFFF, 0x80000001, 1]
        words[:8, 2:count] = words[:8, 1:2]
    kernel.tensor[0] = words
    names = "{" + ", ".join(f"r{i}" for i in range(count)) + "}"
    word = f"{op}{'.abs' if absolute else ''}{'.NaN' if keep_nan else ''}.{kind}"
    kernel.after = f"""    .reg .b32 best;
    tcgen05.ld.red.sync.aligned.32x32b.x{count}.{word} {names}, best, [tw];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.st.sync.aligned.32x32b.x{count}.b32 [tw+256], {names};
    tcgen05.st.sync.aligned.32x32b.x1.b32 [tw+400], {{best}};
    tcgen05.wait::st.sync.aligned;
"""
    want = kernel.tensor.copy()
    want[0, :, 256:256 + count] = words[:, :count]
    for lane in range(128):
        row = words[lane, :count]
        if kind != "f32":
            numbers = row.view(np.int32) if kind == "s32" else row
            want[0, lane, 400] = np.uint32(int(min(numbers) if op == "min" else max(numbers)) & 0xFFFFFFFF)
            continue
        row = row & np.uint32(0x7FFFFFFF) if absolute else row
        real = [w for w in row if not np.isnan(w.view(np.float32))]
        if not real or (keep_nan and len(real) < count):
            want[0, lane, 400] = 0x7FFFFFFF
            continue
        order = sorted(real, key=lambda w: (float(w.view(np.float32)), not int(w) >> 31))  # -0 before +0
        want[0, lane, 400] = order[0] if op == "min" else order[-1]
    return kernel, lambda out: None if np.array_equal(out, want) else "words differ"


def copy(shape, rows, bytes_, spread=None, group=1):
    kernel = Kernel(group)
    rng = np.random.default_rng(rows)
    data = rng.integers(0, 256, size=(group, rows, bytes_)).astype(np.uint8)
    want = kernel.tensor.copy()
    for half in range(group):
        for r in range(rows):
            for c in range(bytes_ // 16):
                at = c * rows * 16 + r // 8 * 128 + r % 8 * 16
                kernel.image[half][at:at + 16] = data[half, r, c * 16:c * 16 + 16].tobytes()
        for lane in range(128):
            q, i = lane // 32, lane % 32
            row = {"02_13": q % 2 * 32 + i, "01_23": q // 2 * 32 + i, "4": i}.get(spread, lane)
            want[half, lane, 64:64 + bytes_ // 4] = data[half, row].view(np.uint32)
    upper = descriptor(rows * 16, 128, "none")
    suffix = {None: "", "4": ".warpx4"}.get(spread, f".warpx2::{spread}")
    kernel.body.append("    and.b32 x, s, 0x3ffff; shr.u32 x, x, 4; cvt.u64.u32 e, x; "
                       f"or.b64 e, e, 0x{upper:x}; tcgen05.cp.cta_group::{group}.{shape}{suffix} "
                       "[t+64], e;")
    return kernel, lambda out: None if np.array_equal(out, want) else "words differ"


def cases():
    for m, n in ((64, 8), (64, 24), (128, 8), (128, 72), (128, 256)):
        yield f"f16 {m}x{n}", gemm("f16", m, n)
    for mode in ("none", "32", "64", "128"):
        for ta, tb in ((0, 0), (1, 0), (0, 1), (1, 1)):
            yield f"f16 {mode} {ta}{tb}", gemm("f16", 128, 64, mode_a=mode, mode_b=mode, ta=ta, tb=tb,
                                               k_steps=4)
    yield "f16 f16", gemm("f16", 128, 64, a="f16", b="f16")
    yield "f16 D f16", gemm("f16", 128, 64, a="f16", b="f16", d="f16")
    yield "f16 accumulate", gemm("f16", 64, 64, accumulate=True)
    yield "f16 negate", gemm("f16", 128, 64, negate=(1, 0))
    yield "f16 scale", gemm("f16", 128, 64, accumulate=True, scale_d=3)
    yield "f16 mask", gemm("f16", 128, 64, accumulate=True, disabled=(1 << 5) | (1 << 70) | (3 << 126))
    yield "f16 memory", gemm("f16", 128, 64, memory_a=True)
    yield "f16 memory 64", gemm("f16", 64, 64, memory_a=True)
    yield "f16 upper lanes", gemm("f16", 64, 64, lane=16)
    yield "f16 memory upper lanes", gemm("f16", 64, 64, lane=16, memory_a=True)
    yield "f16 collector", gemm("f16", 128, 64, collector=".collector::a::fill")
    for m in (32, 64, 128):
        yield f"f16 ws {m}", gemm("f16", m, 128, ws=True)
    yield "tf32", gemm("tf32", 128, 64, a="tf32", b="tf32")
    yield "tf32 none", gemm("tf32", 64, 64, a="tf32", b="tf32", mode_a="none", mode_b="none")
    yield "tf32 mn", gemm("tf32", 128, 64, a="tf32", b="tf32", mode_a="128a32", mode_b="128a32", ta=1,
                          tb=1)
    yield "tf32 memory", gemm("tf32", 128, 64, a="tf32", b="tf32", memory_a=True)
    for a in FORMATS:
        yield f"f8f6f4 {a}", gemm("f8f6f4", 128, 32, a=a, b="e4m3")
        yield f"f8f6f4 b {a}", gemm("f8f6f4", 64, 48, a="e5m2", b=a, mode_b="64")
    yield "f8f6f4 mn", gemm("f8f6f4", 128, 64, a="e4m3", b="e5m2", ta=1, tb=1)
    yield "f8f6f4 memory", gemm("f8f6f4", 128, 64, a="e4m3", b="e5m2", memory_a=True)
    yield "f8f6f4 ws", gemm("f8f6f4", 32, 64, a="e4m3", b="e5m2", ws=True)
    for a, b in (("s8", "s8"), ("u8", "s8"), ("u8", "u8")):
        yield f"i8 {a} {b}", gemm("i8", 128, 48, a=a, b=b, d="s32", accumulate=True)
    yield "i8 saturate", gemm("i8", 64, 32, a="u8", b="u8", d="s32", accumulate=True, saturate=True,
                              k_steps=2)
    for m, n in ((256, 64), (256, 256), (128, 64), (128, 16)):
        yield f"f16 pair {m}x{n}", gemm("f16", m, n, group=2)
    yield "f16 pair mn", gemm("f16", 256, 128, group=2, ta=1, tb=1)
    yield "f16 pair memory", gemm("f16", 256, 64, group=2, memory_a=True)
    yield "f16 pair memory 128", gemm("f16", 128, 64, group=2, memory_a=True)
    yield "i8 pair", gemm("i8", 256, 64, a="s8", b="u8", d="s32", group=2)
    yield "f8f6f4 pair", gemm("f8f6f4", 128, 64, a="e4m3", b="e4m3", group=2)
    yield "mxf8f6f4", scaled("mxf8f6f4", 128, 64, id_a=2, id_b=1)
    yield "mxf8f6f4 4-bit", scaled("mxf8f6f4", 128, 64, a="e2m1", b="e3m2", word=".block32")
    yield "mxf4", scaled("mxf4", 128, 64, a="e2m1", b="e2m1", vector=2, id_a=2)
    yield "mxf4nvf4 2X", scaled("mxf4nvf4", 128, 40, a="e2m1", b="e2m1", vector=2,
                                word=".scale_vec::2X")
    yield "mxf4nvf4 4X", scaled("mxf4nvf4", 128, 256, a="e2m1", b="e2m1", vector=4,
                                word=".scale_vec::4X", ue4m3=True)
    yield "mxf8f6f4 pair", scaled("mxf8f6f4", 256, 64, group=2)
    for shape, counts in (("32x32b", (1, 2, 32)), ("16x64b", (1, 4, 16)), ("16x128b", (1, 8)),
                          ("16x256b", (1, 2, 8)), ("16x32bx2", (1, 4, 32))):
        for count in counts:
            for store in (False, True):
                yield f"{shape} x{count} {store}", move(shape, count, store=store)
        if shape != "32x32b":
            yield f"{shape} upper", move(shape, 2, upper=True)
        yield f"{shape} pack", move(shape, 4, packed=True)
        yield f"{shape} unpack", move(shape, 4, packed=True, store=True)
    for op in ("min", "max"):
        yield f"ld.red {op} u32", load_reduced(2, op, "u32")
        yield f"ld.red {op} s32", load_reduced(16, op, "s32")
        for absolute in (False, True):
            for keep_nan in (False, True):
                yield f"ld.red {op} f32 {absolute} {keep_nan}", load_reduced(4, op, "f32", absolute, keep_nan)
    yield "cp 128x256b", copy("128x256b", 128, 32)
    yield "cp 128x128b", copy("128x128b", 128, 16)
    yield "cp 64 02_13", copy("64x128b", 64, 16, "02_13")
    yield "cp 64 01_23", copy("64x128b", 64, 16, "01_23")
    yield "cp 32", copy("32x128b", 32, 16, "4")
    yield "cp pair", copy("128x256b", 128, 32, group=2)


def run(simrun, scratch, wanted=None, kernels=cases):
    count = failed = 0
    for name, (kernel, compare) in kernels():
        if wanted and wanted not in name:
            continue
        count += 1
        for seed in range(SEEDS):
            problem = kernel.run(simrun, scratch, seed) or compare(kernel.out)
            if problem:
                failed += 1
                print(f"FAIL sm100 {name}, seed {seed}: {problem}")
                break
    return count, failed


if __name__ == "__main__":
    import pathlib
    import sys
    import tempfile
    with tempfile.TemporaryDirectory() as directory:
        ran, bad = run(sys.argv[1], pathlib.Path(directory), *sys.argv[2:3])
    print(f"{ran} tests, {bad} failures")
    sys.exit(1 if bad else 0)
