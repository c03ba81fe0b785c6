#!/usr/bin/env python3
"""tf32.py - casts to tf32 and products of it, in the simulator for every target, and in the interpreter.

    tf32.py --tilec T --tilerun R [--only TEXT]

Casts: f32 around each rounding boundary, of every exponent, beside NumPy: to the nearest, ties to even, NaNs stay NaNs, as bits, on targets
that have no instruction for it, too.  Products: of numbers with many digits within the error that docs/language.md states of the sum of
|a b| of what was rounded; of few digits exact.  Whole and cut tiles, inner extents that are no multiple of an instruction's, of one, rows
before the first, operands along the inner dimension and across it, one in two products, arithmetic between products, types that are cast.
With plans for warp groups: operands that copies round on their way, ties of both kinds, one that is computed, one that is read as f32, too.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402

ARCHES = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")
WARP = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
CASTS = """
kernel casts(A: in f32[N], B: in bf16[N], I: in i32[N], U: in u32[N], C: out f32[N], D: out f32[N], E: out f32[N], F: out f32[N], G: out f32[N])
{
    grid n in tiles(N, 256);
    let x = load A[n] as tf32;
    store C[n] = x as f32;
    store D[n] = load B[n] as tf32 as f32;
    store E[n] = load I[n] as tf32 as f32;
    store F[n] = load U[n] as tf32 as f32;
    store G[n] = where(n < 100, x, 1.0005) as f32;
}
"""
GEMM = """
kernel g<TM: int, TN: int, TK: int>(A: in f32[{a}]{align}, B: in f32[{b}]{align}, C: out f32[M, N]{align}) {{
    grid n in tiles(N, TN), m in tiles(M, TM);
    var acc = full<f32>[TM, TN](1.0);
    for k in tiles(K, TK) {{ acc = mma({x} as tf32, {y} as tf32, acc); }}
    store C[m, n] = acc;
}}
"""
CHAIN = """
// rows before the first, a computed operand, one in two products, arithmetic between products
kernel chain<TM: int, TN: int, TK: int>(A: in f32[M, 40], B: in f32[N, 40], C: out f32[M, 24], D: in f32[N, 24])
{
    grid m in tiles(M, TM);
    let q = (load A[m - 3, :] * 0.5) as tf32;
    var acc = zeros<f32>[TM, 24];
    for n in tiles(N, TN) {
        let k = load B[n, :] as tf32;
        let s = mma(q, k.T) + mma(k, q.T).T;
        acc = mma((s * 0.25) as tf32, load D[n - 1, :] as tf32, acc * 0.5);
    }
    store C[m, :] = acc;
}
"""
ROLES = """
kernel twice<TM: int, TN: int, TK: int>(A: in f32[M, K] align(16), B: in f32[N, K] align(16), C: out f32[M, N]) {
    grid n in tiles(N, TN), m in tiles(M, TM);
    var acc = full<f32>[TM, TN](1.0);
    var most = zeros<f32>[TM];
    for k in tiles(K, TK) {
        let a = load A[m, k];
        most = max(most, max(abs(a), axis=1));
        acc = mma(FIRST as tf32, (load B[n, k]).T as tf32, acc);
    }
    store C[m, n] = acc LAST;
}
"""
OPERANDS = {"copied": ("(load A[m, k])", ""), "computed": ("(a * 2.0)", "* 0.5 + 0.5"), "read": ("a", "+ where(most[:, None] < 0.0, 1.0, 0.0)")}
GROUP = "k8.f32.tf32.tf32"  # of wgmma, of any number of columns
ONE, TWO = (f"tcgen05.mma.cta_group::{n}.kind::tf32" for n in (1, 2))
PLANNED = [("sm_90", 64, 32, "consumers=2,stages=3", GROUP), ("sm_90", 128, 64, "consumers=1,stages=2", GROUP),
           ("sm_90", 64, 32, "consumers=2,stages=2", GROUP), ("sm_100", 128, 32, "consumers=2,stages=2", ONE),
           ("sm_100", 128, 32, "consumers=1,stages=3,cluster=2", TWO), ("sm_103", 128, 16, "consumers=1,stages=2", ONE),
           ("sm_120", 64, 32, "consumers=2,stages=2", WARP)]
# how operands lie: along the inner dimension, across it; computed, so that what is behind the end is not zero
A = {"n": ("M, K", "load A[m, k]"), "t": ("K, M", "(load A[k, m]).T"), "c": ("M, K", "(load A[m, k] + 3.0)")}
B = {"n": ("K, N", "load B[k, n]"), "t": ("N, K", "(load B[n, k]).T"), "c": ("K, N", "(load B[k, n] + 3.0)")}
SIZES = [((64, 64, 64), (64, 64, 32), "nn", " align(16)"), ((50, 37, 21), (32, 32, 16), "nt", ""), ((1, 1, 1), (16, 16, 8), "tn", ""),
         ((33, 40, 20), (32, 16, 20), "tt", " align(16)"), ((64, 32, 1000), (64, 32, 40), "nt", " align(16)"),
         ((33, 40, 41), (32, 16, 20), "cc", "")]


def rounded(x):
    """To 11 digits."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    kept = ((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), kept)


def boundaries():
    lows = np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x2FFF, 0x3000, 0x3001, 0x7FEFFF, 0x7FF000, 0x7FFFFF, 0x400000])
    bits = np.arange(512, dtype=np.uint32)[:, None] << np.uint32(23) | lows[None, :].astype(np.uint32)
    return bits.ravel().view(np.float32)


class Tester:
    def __init__(self, options):
        self.options, self.n, self.bad = options, 0, []

    def run(self, arch, label, source, defines, inputs, names, plan="none", needs=""):
        """The results; None: it failed."""
        if self.options.only not in f"{arch} {label}":
            return None
        self.n += 1
        with tempfile.TemporaryDirectory() as folder:
            at = lambda name: os.path.join(folder, name)  # noqa: E731
            with open(at("k.tile"), "w", encoding="utf-8") as file:
                file.write(source)
            defined = [f for name, v in defines.items() for f in ("-D", f"{name}={v}")]
            first = [self.options.tilec, "run", at("k.tile"), *defined]
            if arch != "interpreter":
                done = subprocess.run([self.options.tilec, at("k.tile"), "-arch", arch, f"--plan={plan}", "--verify", "-o", at("k.ptx"), *defined],
                                      capture_output=True, text=True)
                if done.returncode:
                    return self.bad.append(f"{arch} {label}: {done.stderr}")
                with open(at("k.ptx"), encoding="utf-8") as file:
                    if needs not in file.read():
                        return self.bad.append(f"{arch} {label}: has no {needs}")
                first = [self.options.tilerun, at("k.ptx"), "--device", "sim"]
            done = subprocess.run(ladder.with_arrays(first, folder, inputs, {}, names), capture_output=True, text=True)
            if done.returncode or "were not written" in done.stdout + done.stderr:
                return self.bad.append(f"{arch} {label}: {done.stdout}{done.stderr}")
            return ladder.loaded(folder, names)

    def casts(self, arch):
        x, r = boundaries(), np.random.default_rng(1)
        tops = (x.view(np.uint32) >> 16).astype(np.uint16)
        whole = r.integers(-2**31, 2**31 - 1, len(x), dtype=np.int64)
        got = self.run(arch, "casts", CASTS, {}, {"A": x, "B": tops, "I": whole.astype(np.int32), "U": (whole + 2**31).astype(np.uint32)}, "CDEFG")
        wide = (tops.astype(np.uint32) << 16).view(np.float32)
        place = np.arange(len(x))
        want = {"C": rounded(x), "D": wide, "E": rounded(whole.astype(np.int32).astype(np.float32)),
                "F": rounded((whole + 2**31).astype(np.uint32).astype(np.float32)), "G": np.where(place < 100, rounded(x), np.float32(1.0 + 2.0**-10))}
        for name, value in want.items() if got else ():
            tiny = (np.abs(value) < 2.0**-126) & (got[name] == 0)  # may be taken as zero
            wrong = ~((got[name].view(np.uint32) == value.view(np.uint32)) | (np.isnan(got[name]) & np.isnan(value)) | tiny)
            if wrong.any():
                at = np.flatnonzero(wrong)[0]
                self.bad.append(f"{arch} casts: {name}[{at}] is {got[name][at]!r} for {value[at]!r}; {wrong.sum()} of {len(x)} differ")

    def gemm(self, arch, case, plan="none", needs=WARP, few=False):
        (m, n, k), tiles, lies, align = case
        r = np.random.default_rng([m, n, k])
        draw = lambda *shape: (r.integers(-8, 9, shape) if few else r.standard_normal(shape) * np.exp2(r.integers(-4, 5, shape))).astype(np.float32)  # noqa: E731
        x, y = draw(m, k), draw(n, k)
        source = GEMM.format(a=A[lies[0]][0], x=A[lies[0]][1], b=B[lies[1]][0], y=B[lies[1]][1], align=align)
        inputs = {"A": np.ascontiguousarray(x.T if lies[0] == "t" else x), "B": np.ascontiguousarray(y if lies[1] == "t" else y.T)}
        got = self.run(arch, f"{case} {plan}", source, dict(zip(("TM", "TN", "TK"), tiles)), inputs, ["C"], plan, needs)
        a, b = (rounded(v + np.float32(3) if lie == "c" else v).astype(np.float64) for v, lie in zip((x, y), lies))
        self.judge(arch, case, got, a @ b.T + 1, np.abs(a) @ np.abs(b.T) + 1, 0 if few else (k + 2) * 2.0**-23)

    def chain(self, arch):
        r = np.random.default_rng(3)
        m, n, draw = 70, 90, lambda *shape: r.integers(-4, 5, shape).astype(np.float32)
        x, y, z = draw(m, 40), draw(n, 40), draw(n, 24)
        got = self.run(arch, "chain", CHAIN, {"TM": 32, "TN": 32, "TK": 32}, {"A": x, "B": y, "D": z}, ["C"], needs=WARP)
        before, above = np.zeros((3, 40)), np.zeros((1, 24))
        q, want, size = np.concatenate([before, x[:-3]]) * 0.5, 0, 0
        d = np.concatenate([above, z[:-1]])
        for at in range(0, n, 32):
            s = rounded(2 * (q @ y[at:at + 32].T) * 0.25).astype(np.float64)
            want, size = want * 0.5 + s @ d[at:at + 32], size * 0.5 + np.abs(s) @ np.abs(d[at:at + 32])
        self.judge(arch, "chain", got, want, size, 34 * 2.0**-23)

    def planned(self, arch, rows, inner, plan, needs, way):
        """By the instruction of its warp groups, but where what is computed is not in registers there."""
        m, n, k = 200, 100, 68
        r = np.random.default_rng([rows, inner])
        x, y = (r.standard_normal((side, k)).astype(np.float32) for side in (m, n))
        for v in (x, y):  # half of them lie between two numbers of tf32
            v.view(np.uint32)[:, ::2] = v.view(np.uint32)[:, ::2] & 0xFFFFE000 | 0x1000
        source = ROLES.replace("FIRST", OPERANDS[way][0]).replace("LAST", OPERANDS[way][1])
        needs = needs if way == "copied" or needs == GROUP else WARP
        got = self.run(arch, f"{way} {rows} {plan}", source, {"TM": rows, "TN": 64, "TK": inner}, {"A": x, "B": y}, ["C"], plan, needs)
        a, b = rounded(x).astype(np.float64), rounded(y).astype(np.float64)
        self.judge(arch, f"{way} {plan}", got, a @ b.T + 1, np.abs(a) @ np.abs(b.T) + 1, (k + 2) * 2.0**-23)

    def judge(self, arch, label, got, want, size, limit):
        if got:
            worst = np.max(np.abs(got["C"].astype(np.float64) - want) / np.maximum(size, 1e-30))
            if not worst <= limit:
                self.bad.append(f"{arch} {label}: off by {worst:.3g} of the sum of |a b|, {limit:.3g} is stated")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--only", default="")
    test = Tester(parser.parse_args())
    for k, arch in enumerate(("interpreter", *ARCHES)):
        test.casts(arch)
        test.chain(arch)
        for i, case in enumerate(SIZES):
            if arch in ("interpreter", "sm_80", "sm_90") or (i + k) % 2 == 0:
                test.gemm(arch, case)
        test.gemm(arch, SIZES[k % 6], few=True)
    for k, row in enumerate(PLANNED):
        test.planned(*row, "copied")
        test.planned(*row, ("computed", "read")[k % 2])
    for line in test.bad:
        print(line[:700])
    print(f"{test.n} runs, {len(test.bad)} wrong")
    return 1 if test.bad else 0


if __name__ == "__main__":
    sys.exit(main())
