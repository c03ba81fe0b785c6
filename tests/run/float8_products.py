#!/usr/bin/env python3
"""float8_products.py - products of e4m3 and e5m2, mixed, too, by every instruction that has them, and widened where there is none.

    float8_products.py --tilec T --tilerun R

A GEMM in the simulator and in the interpreter beside float64: the error is at most 2^-6 of the sum of |a b| (docs/language.md).  Whole
and cut tiles, inner extents that are no multiple of an instruction's, operands that lie along the inner dimension and across it,
computed ones, sums of 16384 products of one sign, which instructions that keep 13 bits of a sum lose.  And products as engines scale
them: by blocks of 1 x 128 and 128 x 128 elements, by rows and columns.
"""
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402
from float8_codes import NUMBERS  # noqa: E402

SOURCE = """
kernel g<TA: type, TB: type, TM: int, TN: int, TK: int>
(A: in TA[{a}] align(16), B: in TB[{b}] align(16), C: out f32[M, N] align(16)) {{
    grid n in tiles(N, TN), m in tiles(M, TM);
    var acc = zeros<f32>[TM, TN];
    for k in tiles(K, TK) {{ acc = mma({x}, {y}, acc{fast}); }}
    store C[m, n] = acc;
}}
"""
SCALED = """
kernel blocks<TM: int, TN: int = 128, TK: int = 128>
(   A: in e4m3[M, K] align(16), B: in e4m3[N, K] align(16), SA: in f32[M, K / 128], SB: in f32[N / 128, K / 128], C: out bf16[M, N] align(16))
{
    grid n in tiles(N, TN), m in tiles(M, TM);
    var acc = zeros<f32>[TM, TN];
    for k in tiles(K, TK) {
        acc += mma(load A[m, k], (load B[n, k]).T) * (load SA[m, k.number] * load SB[n.number, k.number])[:, None];
    }
    store C[m, n] = acc as bf16;
}
kernel rows<TM: int, TN: int = 128, TK: int = 128>
(   A: in e4m3[M, K] align(16), B: in e4m3[N, K] align(16), SA: in f32[M], SB: in f32[N], C: out bf16[M, N] align(16))
{
    grid n in tiles(N, TN), m in tiles(M, TM);
    var acc = zeros<f32>[TM, TN];
    for k in tiles(K, TK) { acc = mma(load A[m, k], (load B[n, k]).T, acc); }
    store C[m, n] = (acc * (load SA[m])[:, None] * (load SB[n])[None, :]) as bf16;
}
"""
# what lies how: along the inner dimension, across it
A = {"n": ("M, K", "load A[m, k]"), "t": ("K, M", "(load A[k, m]).T"), "c": ("M, K", "(load A[m, k] as f32 * 0.5) as TA")}
B = {"n": ("K, N", "load B[k, n]"), "t": ("N, K", "(load B[n, k]).T")}
GROUP, WARP, WIDE = "k32.f32.", "mma.sync.aligned.m16n8k32.row.col.f32.", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
THREAD = "tcgen05.mma.cta_group::%d.kind::f8f6f4"
ARCHES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
ROLES = "consumers=2,stages=2"


def cases():
    """arch, (M, N, K), tiles, plan, how operands lie, types, what must be in the PTX, data."""
    for arch in ARCHES:
        one = WIDE if arch in ("sm_80", "sm_86") else WARP
        for k, (sizes, tiles) in enumerate([((128, 128, 128), (64, 64, 64)), ((100, 72, 96), (64, 64, 64)), ((64, 64, 80), (64, 64, 16)),
                                            ((64, 96, 144), (64, 32, 48)), ((64, 64, 512), (64, 64, 256))]):
            yield arch, sizes, tiles, "none", "nt", ("e4m3", "e5m2")[k % 2:] + ("e4m3", "e5m2")[:k % 2], one, "random"
        for lies in ("nn", "tn", "tt", "ct"):
            yield arch, (64, 64, 128), (64, 64, 64), "none", lies, ("e4m3", "e4m3"), one, "random"
        yield arch, (64, 16, 16384), (64, 16, 128), "none", "nt", ("e4m3", "e4m3"), one, "ones"
        yield arch, (64, 32, 64), (64, 32, 64), "none", "nt", ("e5m2", "e5m2"), one, "small"
    for k, (sizes, tiles) in enumerate([((256, 128, 256), (64, 128, 128)), ((200, 128, 160), (64, 64, 64)), ((192, 128, 320), (64, 64, 32))]):
        types = [("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3")][k]
        yield "sm_90", sizes, tiles, ROLES, "nt", types, GROUP + ".".join(types), "random"
        yield "sm_120", sizes, tiles, ROLES, "nt", types, WARP + ".".join(types), "random"
        for arch in ("sm_100", "sm_103"):
            yield arch, sizes, (128, *tiles[1:]), "consumers=1,stages=2", "nt" if k else "nn", types, THREAD % 1, "random"
    yield "sm_90", (128, 128, 128), (64, 64, 128), ROLES, "ct", ("e4m3", "e4m3"), GROUP, "random"
    yield "sm_90", (128, 16, 16384), (64, 16, 128), ROLES, "nt", ("e4m3", "e4m3"), GROUP, "ones"
    yield "sm_120", (128, 16, 16384), (64, 16, 128), ROLES, "nt", ("e4m3", "e4m3"), WARP, "ones"
    # with `fast = true` such sums are those of the instruction, whatever they are
    yield "sm_90", (128, 16, 16384), (64, 16, 256), ROLES, "nt", ("e4m3", "e4m3"), GROUP, "fast, narrow"
    yield "sm_90", (128, 16, 16384), (64, 16, 128), "none", "nt", ("e4m3", "e4m3"), WARP, "fast"
    yield "sm_100", (128, 16, 16384), (128, 16, 128), "consumers=1,stages=2", "nt", ("e4m3", "e4m3"), THREAD % 1, "fast"
    yield "interpreter", (16, 16, 16384), (16, 16, 256), "", "nt", ("e4m3", "e4m3"), "", "fast"
    yield "sm_100", (128, 16, 16384), (128, 16, 128), "consumers=1,stages=2", "nt", ("e4m3", "e4m3"), THREAD % 1, "ones"
    yield "sm_100", (512, 256, 256), (128, 128, 64), "consumers=1,stages=2,cluster=2", "nt", ("e4m3", "e4m3"), THREAD % 2, "random"
    for lies in ("nt", "ct"):
        yield "interpreter", (100, 72, 96), (64, 64, 64), "", lies, ("e4m3", "e5m2"), "", "random"


def data(r, form, shape, kind):
    numbers = NUMBERS[form]
    if kind in ("ones", "fast", "fast, narrow"):  # products of one sign, and of 3 digits each
        return np.full(shape, np.flatnonzero(numbers == 1.75)[0], np.uint8)
    most = 4 if kind == "small" else 57344.0
    fits = np.flatnonzero(np.isfinite(numbers) & (np.abs(numbers) <= most) & ((kind != "small") | np.isin(np.abs(numbers), range(5))))
    return fits[r.integers(0, len(fits), shape)].astype(np.uint8)


def computed(codes, form):
    """Halved and rounded: that loses at most a digit of the least numbers, for which the table of the other test is."""
    from float8_codes import codes as rounded
    return rounded(NUMBERS[form][codes] * 0.5, form)


def command(options, folder, case):
    arch, (m, n, k), tiles, plan, lies, types, _, kind = case
    os.mkdir(folder)
    r = np.random.default_rng([m, n, k])
    x, y = data(r, types[0], (m, k), kind), data(r, types[1], (n, k), kind)
    at = lambda name: os.path.join(folder, name)
    with open(at("k.tile"), "w", encoding="utf-8") as file:
        file.write(SOURCE.format(a=A[lies[0]][0], x=A[lies[0]][1], b=B[lies[1]][0], y=B[lies[1]][1], fast=", fast = true" if "fast" in kind else ""))
    inputs = {"A": np.ascontiguousarray(x.T if lies[0] == "t" else x), "B": np.ascontiguousarray(y if lies[1] == "t" else y.T)}
    a, b = NUMBERS[types[0]][computed(x, types[0]) if lies[0] == "c" else x], NUMBERS[types[1]][y]
    defines = [f for name, v in zip(("TA", "TB", "TM", "TN", "TK"), (*types, *tiles)) for f in ("-D", f"{name}={v}")]
    first = [options.tilec, "run", at("k.tile"), *defines]
    used = ""
    if arch != "interpreter":
        done = subprocess.run([options.tilec, at("k.tile"), "-arch", arch, f"--plan={plan}", "--verify", "-o", at("k.ptx"), *defines],
                              capture_output=True, text=True)
        if done.returncode:
            return None, f"tilec: status {done.returncode} {done.stderr}", None, None
        with open(at("k.ptx"), encoding="utf-8") as file:
            used = file.read()
        first = [options.tilerun, at("k.ptx"), "--device", "sim"]
    return ladder.with_arrays(first, folder, inputs, {}, ["C"]), used, a @ b.T, np.abs(a) @ np.abs(b.T)


def scaled(options, folder, arch, kernel, rows, needs):
    """Scales, as the compiler plans them by itself: of 200 rows, 384 columns (blocks) or 300, and 256 inside."""
    os.mkdir(folder)
    r, at = np.random.default_rng(7), lambda name: os.path.join(folder, name)
    m, n, k = 200, 384 if kernel == "blocks" else 300, 256
    a, b = r.integers(0, 120, (m, k)).astype(np.uint8), r.integers(0, 120, (n, k)).astype(np.uint8)
    a, b = a + 128 * (a % 3 == 0).astype(np.uint8), b + 128 * (b % 5 == 0).astype(np.uint8)
    draw = lambda *shape: np.exp2(r.uniform(-9, 3, shape)).astype(np.float32)
    sa, sb = (draw(m, k // 128), draw(n // 128, k // 128)) if kernel == "blocks" else (draw(m), draw(n))
    wide = lambda s, down, right: np.kron(s.astype(np.float64), np.ones((down, right)))
    x, y = NUMBERS["e4m3"][a], NUMBERS["e4m3"][b]
    x *= wide(sa, 1, 128) if kernel == "blocks" else sa[:, None]
    y *= wide(sb, 128, 128) if kernel == "blocks" else sb[:, None]
    with open(at("k.tile"), "w", encoding="utf-8") as file:
        file.write(SCALED)
    first = [options.tilec, "run", at("k.tile"), "--kernel", kernel, "-D", f"TM={rows}"]
    if arch != "interpreter":
        subprocess.run([*first[:1], *first[2:], "-arch", arch, "--verify", "-o", at("k.ptx")], check=True)
        with open(at("k.ptx"), encoding="utf-8") as file:
            if needs not in file.read():
                return f"has no {needs}"
        first = [options.tilerun, at("k.ptx"), "--device", "sim"]
    done = subprocess.run(ladder.with_arrays(first, folder, {"A": a, "B": b, "SA": sa, "SB": sb}, {}, ["C"]), capture_output=True, text=True)
    if done.returncode:
        return ladder.failure(done)
    got, want = ladder.from_bits(ladder.loaded(folder, ["C"])["C"], "bf16").astype(np.float64), x @ y.T
    worst = np.max((np.abs(got - want) - 2.0**-8 * np.abs(want)) / (np.abs(x) @ np.abs(y.T)))
    return "" if worst <= 2.0**-6 and got.shape == want.shape else f"off by {worst:.3g} of the sum of |a b|"


def judge(options, folder, case):
    run, used, want, size = command(options, folder, case)
    if run is None:
        return used
    if case[6] not in used:
        return f"has no {case[6]}"
    done = subprocess.run(run, capture_output=True, text=True)
    if done.returncode:
        return ladder.failure(done)
    got = ladder.loaded(folder, ["C"])["C"].astype(np.float64)
    worst = np.max(np.abs(got - want) / np.maximum(size, 1e-30))
    if case[7] == "fast, narrow":
        return "" if 0.1 < worst < 1 else f"off by {worst:.3g}, not as a sum of 13 bits"
    limit = 0 if case[7] == "small" else 2.0**-6
    return "" if worst <= limit else f"off by {worst:.3g} of the sum of |a b|"


def scaled_products(options, folder):
    said = []
    for arch in ("interpreter", *ARCHES):
        rows = 128 if arch in ("sm_100", "sm_103") else 64
        for kernel in ("blocks", "rows"):
            if options.only in f"{kernel} {arch}":
                said.append((f"{kernel} {arch}",
                             scaled(options, os.path.join(folder, f"scaled-{len(said)}"), arch, kernel, rows,
                                    {"sm_80": WIDE, "sm_86": WIDE, "sm_90": GROUP, "sm_100": THREAD % 1, "sm_103": THREAD % 1}.get(arch, WARP))))
    return said


if __name__ == "__main__":
    sys.exit(ladder.judge_all(judge, cases(), scaled_products))
