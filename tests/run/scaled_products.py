#!/usr/bin/env python3
"""scaled_products.py - products of e4m3, e5m2 and e2m1 with scales of blocks, in the simulator for every target, and in the interpreter.

    scaled_products.py --tilec T --tilerun R [--only TEXT]

Beside float64: scales of e8m0 for 32 elements and of e4m3 for 16 of e2m1, of one side or both, types mixed, operands along the inner
dimension and across it, over a first dimension; cut rows, columns and blocks, sizes of 1, rows before the first; one operand in two
products with other scales, arithmetic between products, scales that a kernel makes.  Scales differ by powers of two from block to block,
so that a neighbour's, or another row's, is far off.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402
from float8_codes import NUMBERS, codes as rounded  # noqa: E402

NATIVE = ("sm_120",)
ISSUED_BY_THREADS = ("sm_100", "sm_103")
ARCHES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
HALF = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E2M1 = np.concatenate([HALF, -HALF])
BLOCK = {"e8m0": 32, "e4m3": 16}
GEMM = """
kernel g<TM: int, TN: int, TK: int>(A: in {ta}[{a}]{align}, B: in {tb}[{b}]{align}{sizes}, C: out f32[M, N]{align}) {{
    grid n in tiles(N, TN), m in tiles(M, TM);
    var acc = full<f32>[TM, TN](1.0);
    for k in tiles(K, TK) {{ acc = mma({x}, {y}, acc{scales}); }}
    store C[m, n] = acc;
}}
"""
OTHERS = """
// rows before the first and scales with them; one operand with other scales in each product; arithmetic between products
kernel chain<TM: int, TN: int>(A: in e2m1[M, 64], S: in e8m0[M, 2], T: in e4m3[M, 4], B: in e4m3[N, 64], U: in e8m0[N, 2], D: in e5m2[N, 24], C: out f32[M, 24])
{
    grid m in tiles(M, TM);
    let q = load A[m - 3, :];
    var acc = zeros<f32>[TM, 24];
    for n in tiles(N, TN) {
        let k = load B[n, :];
        let s = mma(q, k.T, scale_a = load S[m - 3, :]) + mma(q, k.T, scale_a = load T[m - 3, :], scale_b = (load U[n, :]).T);
        let most = max(max(abs(s), axis = 1), 1.0);
        let scale = (most * 0.0078125) as e8m0;
        let p = s * rcp(scale as f32)[:, None];
        acc = mma(round(p) as e4m3, load D[n, :], acc * 0.5, scale_a = full<e8m0>[TM, TN / 32](2.0));
    }
    store C[m, :] = acc;
}
// scales that are NaN, and elements that are not zero, where both are padding
kernel made<TM: int, TN: int>(A: in e4m3[M, K], F: in f32[M, cdiv(K, 32)], B: in e5m2[K, N], G: in f32[cdiv(K, 32), N], C: out f32[M, N])
{
    grid m in tiles(M, TM), n in tiles(N, TN);
    var acc = zeros<f32>[TM, TN];
    for k in tiles(K, 128) {
        let s = tiles(cdiv(K, 32), 4)[k.number];
        let (f, g, a) = (load F[m, s], load G[s, n], (load A[m, k] as f32 + 1.0) as e4m3);
        acc = mma(a, load B[k, n], acc, scale_a = (f * f / f) as e8m0, scale_b = (g / g * g) as e8m0);
    }
    store C[m, n] = acc;
}
// extents that are numbers
kernel fixed<TM: int, TN: int>(A: in e4m3[M, 96], S: in e8m0[M, 3], B: in e2m1[M, 48], U: in e4m3[M, 3], C: out f32[2, M, M])
{
    grid m in tiles(M, TM), n in tiles(M, TN);
    let (a, b) = (load A[m, :], load B[n, :]);
    store C[0, m, n] = mma(a, (load A[n, :]).T, scale_a = load S[m, :], scale_b = (load S[n, :]).T);
    store C[1, m, n] = mma(load B[m, :], b.T, scale_b = (load U[n, :]).T);
}
kernel batches<TM: int, TN: int>(A: in e4m3[H, M, 64], S: in e8m0[H, M, 2], B: in e5m2[H, 64, N], U: in e8m0[H, 2, N], C: out f32[H, M, N])
{
    grid m in tiles(M, TM), n in tiles(N, TN), h in tiles(H, 2);
    store C[h, m, n] = mma(load A[h, m, :], load B[h, :, n], scale_a = load S[h, m, :], scale_b = load U[h, :, n]);
}
"""
# how operands lie: along the inner dimension, across it
A = {"n": ("M, K", "load A[m, k]", "M, {g}", "load SA[m, {k}]"), "t": ("K, M", "(load A[k, m]).T", "{g}, M", "(load SA[{k}, m]).T")}
B = {"n": ("K, N", "load B[k, n]", "{g}, N", "load SB[{k}, n]"), "t": ("N, K", "(load B[n, k]).T", "N, {g}", "(load SB[n, {k}]).T")}
# types of A, its scales, B, its scales; (M, N, K), tiles; how they lie; blocks at the end may be cut; what instruction takes scales
MX8, MX4, NV4 = ("mxf8f6f4.block_scale.scale_vec::1X", "mxf4.block_scale.scale_vec::2X", "mxf4nvf4.block_scale.scale_vec::4X")
CASES = [
    ("e4m3", "e8m0", "e4m3", "e8m0", (64, 64, 256), (64, 64, 128), "nt", "", MX8),
    ("e5m2", "e8m0", "e4m3", "", (50, 40, 96), (32, 32, 64), "nn", "", MX8),
    ("e4m3", "", "e2m1", "e8m0", (33, 24, 80), (32, 16, 32), "nt", "cut"),
    ("e4m3", "e8m0", "e2m1", "e8m0", (70, 50, 352), (64, 64, 128), "nt", "", MX8),
    ("e2m1", "e8m0", "e5m2", "", (20, 33, 96), (16, 32, 64), "nn", "", MX8),
    ("e2m1", "", "e4m3", "e8m0", (34, 48, 160), (32, 16, 96), "tt", "", MX8),
    ("e2m1", "e4m3", "e2m1", "e4m3", (64, 48, 128), (32, 32, 64), "nt", "", NV4),
    ("e2m1", "e4m3", "e2m1", "e8m0", (20, 18, 160), (16, 16, 96), "tn", ""),
    ("e2m1", "e8m0", "e5m2", "e8m0", (1, 1, 32), (16, 16, 32), "nt", "", MX8),
    ("e2m1", "", "e2m1", "e4m3", (40, 34, 48), (32, 32, 32), "nn", ""),
    ("e5m2", "e8m0", "e5m2", "e8m0", (40, 33, 36), (16, 32, 64), "tt", "cut"),
    ("e4m3", "e8m0", "e5m2", "e8m0", (37, 130, 352), (64, 128, 256), "nt", "", MX8),
    ("e4m3", "", "e4m3", "e8m0", (5, 19, 160), (16, 48, 32), "tt", "", MX8),
    ("e2m1", "e8m0", "e2m1", "e8m0", (33, 21, 288), (32, 32, 192), "nt", "", MX4),
    ("e2m1", "e8m0", "e2m1", "", (70, 40, 96), (64, 32, 32), "nt", "", MX4),
    ("e2m1", "e4m3", "e2m1", "", (18, 33, 240), (16, 64, 96), "nt", "", NV4),
    ("e2m1", "e4m3", "e2m1", "e4m3", (130, 129, 304), (128, 128, 128), "nt", "", NV4),
    ("e2m1", "e4m3", "e2m1", "e4m3", (70, 96, 1024), (64, 32, 256), "nt", "", NV4),
]
# the same with a warp group that copies and two that compute
PLANNED = [
    ("e4m3", "e8m0", "e5m2", "e8m0", (200, 160, 384), (64, 48, 128), "nt", "", MX8),
    ("e5m2", "", "e4m3", "e8m0", (70, 96, 448), (64, 32, 64), "nt", "", MX8),
    ("e2m1", "e8m0", "e2m1", "", (130, 96, 448), (64, 32, 192), "nt", "", MX4),
    ("e2m1", "e4m3", "e2m1", "e4m3", (300, 160, 1024), (64, 64, 256), "nt", "", NV4),
]
# the same on sm_100, where products that a thread issues take scales
ISSUED = [
    ("e4m3", "e8m0", "e5m2", "e8m0", (128, 64, 1152), (128, 64, 128), "nt", "", MX8),
    ("e4m3", "e8m0", "e5m2", "e8m0", (300, 160, 384), (128, 48, 128), "nt", "", MX8),
    ("e5m2", "e8m0", "e5m2", "e8m0", (200, 352, 1024), (128, 224, 256), "nt", "", MX8),
    ("e5m2", "e8m0", "e4m3", "e8m0", (130, 64, 192), (128, 32, 64), "tn", "", MX8),
    ("e2m1", "e8m0", "e2m1", "e8m0", (130, 96, 448), (128, 64, 128), "nt", "", MX4),
    ("e2m1", "e4m3", "e2m1", "e4m3", (300, 160, 1024), (128, 96, 256), "nt", "", NV4),
    ("e2m1", "e4m3", "e2m1", "e4m3", (70, 288, 320), (128, 256, 128), "nt", "", NV4),
]
# with four stages a warp loads the scales of two iterations at once: none left over, one; behind other tiles; lines at odd places
PAIRED = [
    ("e4m3", "e8m0", "e4m3", "e8m0", (700, 480, 1024), (128, 224, 128), "nt", "", MX8),
    ("e5m2", "e8m0", "e4m3", "e8m0", (900, 160, 640), (128, 32, 128), "nt", "", MX8),
    ("e4m3", "e8m0", "e4m3", "e8m0", (400, 96, 1088), (128, 96, 128), "nt", "", MX8),
    ("e2m1", "e8m0", "e2m1", "e8m0", (640, 128, 1280), (128, 64, 128), "nt", "", MX4),
    # fewer stages of scales than of tiles
    ("e2m1", "e4m3", "e2m1", "e4m3", (565, 288, 1024), (128, 224, 256), "nt", "", NV4),
    ("e4m3", "e8m0", "e5m2", "e8m0", (300, 480, 640), (128, 256, 64), "nt", "", MX8),
]
# faults in their PTX: what they are, where, what stands there then
COPY = r"@%\w+ tcgen05\.cp[^;]*;"
PLANTED = [
    ("A's scales are not copied", COPY, ""),
    ("B's scales are not copied", f"({COPY}.*?){COPY}", r"\1"),
    ("B's scales are copied to A's place", r"(tcgen05\.cp\S+ )(\[%\w+\])(.*?tcgen05\.cp\S+ )\[%\w+\]", r"\1\2\3\2"),
    ("A's and B's scales are exchanged", r"(block_scale\S+ [^;]*?, )(\[%\w+\]), (\[%\w+\])", r"\1\3, \2"),
    ("the scales of another block", r"(mov\.b32 %\w+, )(\d+)(;[^;]*block_scale.*?mov\.b32 %\w+, )\d+(;[^;]*block_scale)", r"\1\2\3\2\4"),
    ("no fence behind stores of scales", r"(st\.shared\.v4\.b32[^;]*;\s*)fence\.proxy\.async\.shared::cta;", r"\1"),
    ("no fence behind the waits for them", r"tcgen05\.fence::after_thread_sync;((?:(?!tcgen05).)*)tcgen05\.fence::after_thread_sync;((?:(?!tcgen05).)*tcgen05\.cp)", r"\1\2"),
    ("scales of other lines", r"(st\.shared\.v4\.b32 [^{]*\{)(%\w+), (%\w+)", r"\1\3, \2"),
    ("a stage that is not empty", r"mbarrier\.try_wait[^;]*;\s*@!%\w+ bra \$\w+;(\s*st\.shared\.v4)", r"\1"),
]
PAIRED_PLANTED = [
    ("words of two stages exchanged", r"(ld\.global\.v2\.b32 \{)(%\w+), (%\w+)", r"\1\3, \2"),
    ("the second stage is the first", r"(setp\.eq\.s32 %\w+, %\w+, 2;(?:(?!add\.s32).)*)add\.s32 (%\w+), \2, 1;", r"\1"),
]


def draw(r, dtype, *shape):
    """Codes, and their numbers."""
    if dtype == "e2m1":
        codes = r.integers(0, 16, shape).astype(np.uint8)
        return codes, E2M1[codes]
    numbers = NUMBERS[dtype]
    fits = np.flatnonzero(np.isfinite(numbers) & (np.abs(numbers) <= 448))
    codes = fits[r.integers(0, len(fits), shape)].astype(np.uint8)
    return codes, numbers[codes]


def draw_scales(r, dtype, *shape):
    if dtype == "e8m0":
        codes = (127 + r.integers(-12, 13, shape)).astype(np.uint8)
        return codes, np.exp2(codes.astype(float) - 127)
    codes = r.integers(1, 0x7E, shape).astype(np.uint8)
    return codes, NUMBERS["e4m3"][codes]


def packed(dtype, codes):
    """As it is in memory: two of e2m1 to a byte, the first in the lower half."""
    if dtype != "e2m1":
        return np.ascontiguousarray(codes)
    even = np.concatenate([codes, np.zeros((*codes.shape[:-1], codes.shape[-1] % 2), np.uint8)], axis=-1)
    return np.ascontiguousarray(even[..., ::2] | even[..., 1::2] << 4)


def wide(scales, block, inner):
    return np.repeat(scales, block, axis=-1)[..., :inner]


class Tester:
    def __init__(self, options):
        self.options, self.n, self.bad, self.planted, self.edit = options, 0, [], ("", ""), None

    def run(self, arch, label, source, defines, inputs, want, size, inner, kernel="g", native=(), plan="none"):
        if self.options.only not in f"{arch} {label}":
            return
        self.n += 1
        with tempfile.TemporaryDirectory() as folder:
            at = lambda name: os.path.join(folder, name)  # noqa: E731
            with open(at("k.tile"), "w", encoding="utf-8") as file:
                file.write(source.replace(*self.planted))
            defined = [f for name, v in defines.items() for f in ("-D", f"{name}={v}")]
            first = [self.options.tilec, "run", at("k.tile"), "--kernel", kernel, *defined]
            if arch != "interpreter":
                done = subprocess.run([self.options.tilec, at("k.tile"), "-arch", arch, "--kernel", kernel, f"--plan={plan}", "--verify", "-o", at("k.ptx"), *defined],
                                      capture_output=True, text=True)
                if done.returncode:
                    return self.wrong(arch, label, done.stderr)
                with open(at("k.ptx"), encoding="utf-8") as file:
                    kinds = {line.split("kind::")[1].split(".f32.")[0].split()[0] for line in file if "kind::" in line}
                with open(at("k.ptx"), encoding="utf-8") as file:
                    copied = "cp.async.bulk.tensor" in file.read()
                if copied != (plan != "none"):
                    self.wrong(arch, label, "there are no roles" if plan != "none" else "there are roles")
                if kinds != set(native):
                    self.wrong(arch, label, f"multiplied by {kinds or 'no instruction that takes scales'}")
                if self.edit:
                    with open(at("k.ptx"), encoding="utf-8") as file:
                        ptx, n = self.edit[0].subn(self.edit[1], file.read(), count=1)
                    with open(at("k.ptx"), "w", encoding="utf-8") as file:
                        file.write(ptx if n else "the place was not found")
                    if not n:
                        raise SystemExit(f"{label}: nothing to edit: {self.edit[0].pattern}")
                first = [self.options.tilerun, at("k.ptx"), "--device", "sim"]
            sets = {"N": want.shape[-1]} if kernel == "g" and "e2m1" in source else {}
            done = subprocess.run(ladder.with_arrays(first, folder, inputs, sets, ["C"]), capture_output=True, text=True)
            if done.returncode or "were not written" in done.stdout + done.stderr:
                return self.wrong(arch, label, done.stdout + done.stderr)
            got = ladder.loaded(folder, ["C"])["C"].astype(np.float64)
            if got.shape != want.shape:
                return self.wrong(arch, label, f"{got.shape}")
            worst = np.max(np.abs(got - want) / np.maximum(size, 1e-30))
            if not worst <= (inner + 2) * 2.0**-23:
                self.wrong(arch, label, f"off by {worst:.3g} of the sum of |a b|")

    def chain(self, arch):
        r, m, n = np.random.default_rng(3), 37, 70
        (a, x), (b, y), (d, z) = draw(r, "e2m1", m, 64), draw(r, "e4m3", n, 64), draw(r, "e5m2", n, 24)
        (s, sn), (t, tn), (u, un) = draw_scales(r, "e8m0", m, 2), draw_scales(r, "e4m3", m, 4), draw_scales(r, "e8m0", n, 2)
        before = lambda v, zero: np.concatenate([np.full((3, v.shape[1]), zero), v[:-3]])  # noqa: E731
        one, two = before(x, 0) * wide(before(sn, 2.0**-127), 32, 64), before(x, 0) * wide(before(tn, 0), 16, 64)
        want, size = np.zeros((m, 24)), np.zeros((m, 24))
        for at in range(0, n, 32):
            k, scaled = y[at:at + 32], y[at:at + 32] * wide(un[at:at + 32], 32, 64)
            left = one @ k.T + two @ scaled.T
            most = np.maximum(np.max(np.abs(left), axis=1), 1) * 2.0**-7
            p = left / np.exp2(np.ceil(np.log2(most)))[:, None]
            q = 2 * NUMBERS["e4m3"][rounded(np.round(p), "e4m3")]
            want, size = want * 0.5 + q @ z[at:at + 32], size * 0.5 + np.abs(q) @ np.abs(z[at:at + 32])
        inputs = {"A": packed("e2m1", a), "S": s, "T": t, "B": b, "U": u, "D": d}
        self.run(arch, "chain", OTHERS, {"TM": 16, "TN": 32}, inputs, want, size, n, "chain",
                 [MX8] if arch in NATIVE else [])

    def made(self, arch):
        r, m, n, k = np.random.default_rng(5), 20, 34, 190
        (a, x), (b, y) = draw(r, "e4m3", m, k), draw(r, "e5m2", k, n)
        f, g = (np.exp2(r.integers(-6, 7, shape)).astype(np.float32) for shape in ((m, 6), (6, n)))
        x, y = NUMBERS["e4m3"][rounded(x + 1, "e4m3")] * wide(f, 32, k), y * np.repeat(g, 32, axis=0)[:k]
        self.run(arch, "made", OTHERS, {"TM": 16, "TN": 16}, {"A": a, "F": f, "B": b, "G": g}, x @ y, np.abs(x) @ np.abs(y), k, "made")

    def fixed(self, arch):
        r, n = np.random.default_rng(6), 45
        (a, x), (b, y) = draw(r, "e4m3", n, 96), draw(r, "e2m1", n, 48)
        (s, sn), (u, un) = draw_scales(r, "e8m0", n, 3), draw_scales(r, "e4m3", n, 3)
        x, z = x * wide(sn, 32, 96), y * wide(un, 16, 48)
        want, size = (np.stack([f(x) @ f(x).T, f(y) @ f(z).T]) for f in (lambda v: v, np.abs))
        inputs = {"A": a, "S": s, "B": packed("e2m1", b), "U": u}
        self.run(arch, "fixed", OTHERS, {"TM": 32, "TN": 16}, inputs, want, size, 96, "fixed", [MX8, NV4] if arch in NATIVE else [])

    def batches(self, arch):
        r, h, m, n = np.random.default_rng(4), 3, 20, 34
        (a, x), (b, y) = draw(r, "e4m3", h, m, 64), draw(r, "e5m2", h, 64, n)
        (s, sn), (u, un) = draw_scales(r, "e8m0", h, m, 2), draw_scales(r, "e8m0", h, 2, n)
        x, y = x * wide(sn, 32, 64), y * np.repeat(un, 32, axis=1)
        inputs = {"A": a, "S": s, "B": b, "U": u}
        self.run(arch, "batches", OTHERS, {"TM": 16, "TN": 16}, inputs, x @ y, np.abs(x) @ np.abs(y), 64, "batches")

    def plants_issued(self):
        """Faults in the PTX of a thread's product: each must be found, by numbers or as a finding."""
        before = self.bad
        for stages, (label, pattern, becomes) in [(2, fault) for fault in PLANTED] + [(4, fault) for fault in PAIRED_PLANTED]:
            self.bad, self.edit = [], (re.compile(pattern, re.S), becomes)
            self.gemm("sm_100", PAIRED[0] if stages == 4 else ISSUED[0], f"consumers=1,stages={stages}", True)
            if not self.bad and self.options.only in "sm_100":
                before.append(f"a planted fault was not found: {label}")
        self.bad, self.edit = before, None

    def plants(self):
        """Faults in the source: each must be found."""
        before, case = self.bad, CASES[3]
        for was, becomes in ((".number]", ".number + 1]"), ("SA[m", "SA[m + 1"), ("SB[n", "SB[n - 1")):
            self.bad, self.planted = [], (was, becomes)
            self.gemm("interpreter", case)
            if not self.bad and self.options.only in "interpreter":
                before.append(f"a planted fault was not found: {becomes}")
        self.bad, self.planted = before, ("", "")

    def wrong(self, arch, label, text):
        self.bad.append(f"{arch} {label}: {text[:700]}")

    def gemm(self, arch, case, plan="none", issued=False):
        ta, sa, tb, sb, (m, n, k), tiles, lies, cut, *native = case
        r, block = np.random.default_rng([m, n, k]), {"A": BLOCK.get(sa, 1), "B": BLOCK.get(sb, 1)}
        blocks = lambda name: (k + block[name] - 1) // block[name]  # noqa: E731
        (x, a), (y, b) = draw(r, ta, m, k), draw(r, tb, n, k)
        inputs = {"A": packed(ta, x.T if lies[0] == "t" else x), "B": packed(tb, y if lies[1] == "t" else y.T)}
        sizes, scales = "", ""
        for name, dtype, way, lie, line, outer in (("A", sa, A, lies[0], m, "n"), ("B", sb, B, lies[1], n, "t")):
            if dtype:
                codes, numbers = draw_scales(r, dtype, line, blocks(name))
                inputs["S" + name] = np.ascontiguousarray(codes if lie == outer else codes.T)
                g = f"cdiv(K, {block[name]})" if cut else f"K / {block[name]}"
                sizes += f", S{name}: in {dtype}[{way[lie][2].format(g=g)}]" + " align(16)" * (k % 1024 == 0)
                scales += f", scale_{name.lower()} = {way[lie][3].format(k=f'tiles({g}, TK / {block[name]})[k.number]')}"
                a, b = (a * wide(numbers, block[name], k), b) if name == "A" else (a, b * wide(numbers, block[name], k))
        align = " align(16)" if k % 64 == 0 and n % 32 == 0 else ""
        source = GEMM.format(ta=ta, tb=tb, a=A[lies[0]][0], b=B[lies[1]][0], x=A[lies[0]][1], y=B[lies[1]][1], align=align, sizes=sizes,
                             scales=scales)
        self.run(arch, f"{case}", source, dict(zip(("TM", "TN", "TK"), tiles)), inputs, a @ b.T + 1, np.abs(a) @ np.abs(b.T) + 1, k,
                 native=native if arch in NATIVE or issued else [], plan=plan)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--only", default="")
    test = Tester(parser.parse_args())
    for k, arch in enumerate(("interpreter", *ARCHES)):
        for i, case in enumerate(CASES):
            if arch in ("interpreter", "sm_80", "sm_90", *NATIVE) or (i + k) % 3 == 0:
                test.gemm(arch, case)
        test.chain(arch)
        test.batches(arch)
        test.fixed(arch)
        test.made(arch)
    for arch in NATIVE:
        for case in PLANNED:
            test.gemm(arch, case, "consumers=2,stages=2")
    for arch in ISSUED_BY_THREADS:
        for case in ISSUED:
            test.gemm(arch, case, "consumers=1,stages=2", True)
        for case in ISSUED[:2] + ISSUED[3:] + PAIRED:
            test.gemm(arch, case, "consumers=1,stages=4,persistent=1", True)
    test.plants()
    test.plants_issued()
    print("\n".join(test.bad + [f"{test.n} products, {len(test.bad)} wrong"]))
    return 1 if test.bad else 0


if __name__ == "__main__":
    sys.exit(main())
