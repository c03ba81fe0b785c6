#!/usr/bin/env python3
"""products8.py - products of i8 and u8, which are exact, beside NumPy's: in the simulator for every target, and in the interpreter.
Types mixed, operands that lie along the inner dimension and across it, computed ones, ragged sizes, sums of 16,384 products at
the ends of the types, roles of warp groups (ROLES names the instruction that must be there).

    products8.py --tilec T --tilerun R
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402

ARCHES = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"]
ARRAY = {"i8": np.int8, "u8": np.uint8}
HEAD = "<TA: type = i8, TB: type = i8, A: int = 64, B: int = 64, K0: int = 64>"
GRID = "grid m in tiles(M, A), n in tiles(N, B); var acc = full<i32>[A, B]({first});"
# What stands in memory: rows of the left operand, of the right one; then how tiles of them are loaded.
WAYS = {"nt": ("M, K", "N, K", "load X[m, k]", "(load Y[n, k]).T"), "nn": ("M, K", "K, N", "load X[m, k]", "load Y[k, n]"),
        "tn": ("K, M", "K, N", "(load X[k, m]).T", "load Y[k, n]"), "tt": ("K, M", "N, K", "(load X[k, m]).T", "(load Y[n, k]).T")}
FIRST = {"": 0, " align(16)": 7}  # what sums begin with
GEMM = "kernel {way}" + HEAD + "(X: in TA[{x}]{align}, Y: in TB[{y}]{align}, C: out i32[M, N]) {{ " + GRID + """
    for k in tiles(K, K0) {{ acc = mma({a}, {b}, acc); }}
    store C[m, n] = acc; }}
"""
SOURCE = "".join(GEMM.format(way=way + ("_a" if align else ""), x=x, y=y, a=a, b=b, align=align, first=FIRST[align])
                 for align in ("", " align(16)") for way, (x, y, a, b) in WAYS.items()) + """
// both operands computed; a product alone, one that adds to a constant, and sums that change between products
kernel computed<TA: type = i8, TB: type = i8, A: int = 64, B: int = 64, K0: int = 64>
(   X: in TA[M, K], Y: in TB[N, K], U: in f32[M, K], C: out i32[M, N], D: out i32[M, N], E: out i32[M, N], F: out bf16[M, N], S: in f32[N])
{
    grid m in tiles(M, A), n in tiles(N, B);
    var (acc, twice, alone) = (full<i32>[A, B](7), zeros<i32>[A, B], zeros<i32>[A, B]);
    for k in tiles(K, K0) {
        let x = load X[m, k];
        let y = where((load Y[n, k]) == 3, load Y[n, k + 1], load Y[n, k]);
        acc = mma(x, y.T, acc);
        twice = mma((load U[m, k]) as TA, y.T, twice * 2 - 1);
        alone += mma(x, (load Y[n, k]).T);
    }
    store C[m, n] = acc;
    store D[m, n] = twice;
    store E[m, n] = alone;
    store F[m, n] = (alone as f32 * (load S[n])[None, :]) as bf16;
}
"""
SOURCE += """
// for warp groups: a computed left operand, sums that change between products and behind the loop, rows of the right tensor
kernel left<TA: type = i8, TB: type = i8, A: int = 64, B: int = 64, K0: int = 64>
(   X: in TA[M, K] align(16), Y: in TB[N, K] align(16), U: in f32[M], C: out i32[M, N], D: out bf16[N, M])
{
    grid m in tiles(M, A);
    let q = load X[m, iota(K0)];
    for n in tiles(N, B) {
        let s = mma(q, (load Y[n, iota(K0)]).T);
        store C[m, n] = s + 1;
        store D[n, m] = (s as f32 * (load U[m])[:, None]).T as bf16;
    }
}
kernel chain<TA: type = i8, TB: type = i8, A: int = 64, B: int = 64, K0: int = 64>
(   X: in TA[M, K0] align(16), Y: in TB[N, K0] align(16), V: in TB[64, N] align(16), C: out i32[M, 64])
{
    grid m in tiles(M, A);
    let q = load X[m, :];
    var acc = zeros<i32>[A, 64];
    for n in tiles(N, B) {
        let s = mma(q, (load Y[n, :]).T);
        acc = mma(min(max(s / 512, -100), 100) as TA, (load V[:, n]).T, acc);
    }
    store C[m, :] = acc;
}
"""
SOURCE += """
// weights and activations of 8 bits: rows of activations are quantised, each with a scale, and multiplied
kernel quantise<D: int = 256>(X: in bf16[M, D], A: out i8[M, D], SA: out f32[M])
{
    grid m in tiles(M, 16);
    let x = load X[m, :] as f32;
    let most = max(max(abs(x), axis = 1), 1e-10);
    store A[m, :] = round(x * (127.0 / most)[:, None]) as i8;
    store SA[m] = most / 127.0;
}
kernel w8a8<TM: int = 64, TN: int = 64, TK: int = 128>
(   A: in i8[M, K] align(16), B: in i8[N, K] align(16), SA: in f32[M], SB: in f32[N], C: out bf16[M, N])
{
    grid m in tiles(M, TM), n in tiles(N, TN);
    var acc = zeros<i32>[TM, TN];
    for k in tiles(K, TK) { acc = mma(load A[m, k], (load B[n, k]).T, acc); }
    store C[m, n] = (acc as f32 * (load SA[m])[:, None] * (load SB[n])[None, :]) as bf16;
}
"""


class Tester:
    def __init__(self, options):
        self.tilec, self.tilerun = options.tilec, options.tilerun
        self.bad = self.n = 0

    def run(self, arch, flags, kernel, defines, inputs, want, needs=None):
        self.n += 1
        label = f"{kernel} {defines} {[x.shape for x in inputs.values()]} {arch} {flags}"
        with tempfile.TemporaryDirectory() as folder:
            source, ptx = os.path.join(folder, "p.tile"), os.path.join(folder, "p.ptx")
            with open(source, "w", encoding="utf-8") as file:
                file.write(SOURCE)
            defined = [word for name, value in defines.items() for word in ("-D", f"{name}={value}")]
            command = [self.tilec, "run", source, "--kernel", kernel, *defined]
            if arch != "interpreter":
                made = subprocess.run([self.tilec, source, "-arch", arch, "--kernel", kernel, "--verify", *defined, *flags, "-o", ptx],
                                      capture_output=True, text=True)
                if made.returncode:
                    return self.wrong(label, made.stderr)
                with open(ptx, encoding="utf-8") as file:
                    if needs and needs not in file.read():
                        return self.wrong(label, f"has no {needs}")
                command = [self.tilerun, ptx, "--device", "sim"]
            done = subprocess.run(ladder.with_arrays(command, folder, inputs, {}, want), capture_output=True, text=True)
            if done.returncode or "were not written" in done.stderr + done.stdout:
                return self.wrong(label, done.stdout + done.stderr)
            for name, got in ladder.loaded(folder, want).items():
                differ = np.argwhere(got != want[name])
                if len(differ):
                    at = tuple(differ[0])
                    self.wrong(label, f"{name}: {len(differ)} of {got.size} differ, the first at {at}: {got[at]} for {want[name][at]}")

    def wrong(self, label, text):
        self.bad += 1
        print(f"{label}: {text[:700]}")

    def gemm(self, arch, flags, way, types, m, n, k, defines, ends=False, needs=None):
        draw = np.random.default_rng(m * n + k)
        make = lambda type, *shape: (np.full(shape, np.iinfo(ARRAY[type]).min or 255) if ends else  # noqa: E731
                                     draw.integers(np.iinfo(ARRAY[type]).min, np.iinfo(ARRAY[type]).max, shape, endpoint=True)).astype(ARRAY[type])
        x, y = make(types[0], m, k), make(types[1], n, k)
        want = x.astype(np.int64) @ y.astype(np.int64).T + FIRST[" align(16)" if way.endswith("_a") else ""]
        turned = way.removesuffix("_a")
        self.run(arch, flags, way, {"TA": types[0], "TB": types[1], **defines},
                 {"X": x if turned[0] == "n" else np.ascontiguousarray(x.T), "Y": y if turned[1] == "t" else np.ascontiguousarray(y.T)},
                 {"C": want.astype(np.int32)}, needs)

    def computed(self, arch, flags, types, m, n, k, defines):
        draw = np.random.default_rng(m + n + k)
        make = lambda type, *shape: draw.integers(np.iinfo(ARRAY[type]).min, np.iinfo(ARRAY[type]).max, shape, endpoint=True).astype(ARRAY[type])  # noqa: E731
        x, y, u, s = make(types[0], m, k), make(types[1], n, k), draw.standard_normal((m, k)).astype(np.float32) * 150, draw.random(n).astype(np.float32)
        y[draw.random(y.shape) < 0.3] = 3
        info, k0 = np.iinfo(ARRAY[types[0]]), defines.get("K0", 64)
        v = np.clip(np.trunc(u), info.min, info.max).astype(np.int64)
        chosen = np.where(y == 3, np.concatenate([y[:, 1:], np.zeros((n, 1), y.dtype)], axis=1), y).astype(np.int64)
        twice = np.zeros((m, n), np.int64)
        for at in range(0, k, k0):
            twice = v[:, at:at + k0] @ chosen[:, at:at + k0].T + twice * 2 - 1
        alone = x.astype(np.int64) @ y.astype(np.int64).T
        want = {"C": x.astype(np.int64) @ chosen.T + 7, "D": twice, "E": alone}
        want = {name: array.astype(np.int32) for name, array in want.items()}
        self.run(arch, flags, "computed", {"TA": types[0], "TB": types[1], **defines}, {"X": x, "Y": y, "U": u, "S": s},
                 {**want, "F": ladder.to_bits(alone.astype(np.float32) * s[None, :], "bf16")})


    def left(self, arch, flags, types, m, n, k, defines, needs):
        draw = np.random.default_rng(m + n + k)
        make = lambda type, *shape: draw.integers(np.iinfo(ARRAY[type]).min, np.iinfo(ARRAY[type]).max, shape, endpoint=True).astype(ARRAY[type])  # noqa: E731
        x, y, u = make(types[0], m, k), make(types[1], n, k), draw.random(m).astype(np.float32)
        s = x.astype(np.int64) @ y.astype(np.int64).T
        want = {"C": (s + 1).astype(np.int32), "D": ladder.to_bits((s.astype(np.float32) * u[:, None]).T, "bf16")}
        self.run(arch, flags, "left", {"TA": types[0], "TB": types[1], "K0": k, **defines}, {"X": x, "Y": y, "U": u}, want, needs)

    def chain(self, arch, flags, types, m, n, k, needs):
        draw = np.random.default_rng(m + n + k)
        make = lambda type, *shape: draw.integers(np.iinfo(ARRAY[type]).min, np.iinfo(ARRAY[type]).max, shape, endpoint=True).astype(ARRAY[type])  # noqa: E731
        x, y, v = make(types[0], m, k), make(types[1], n, k), make(types[1], 64, n)
        s = x.astype(np.int64) @ y.astype(np.int64).T
        p = np.clip(np.trunc(s / 512), -100, 100).astype(np.int64)
        p = np.clip(p, np.iinfo(ARRAY[types[0]]).min, np.iinfo(ARRAY[types[0]]).max)
        self.run(arch, flags, "chain", {"TA": types[0], "TB": types[1], "K0": k}, {"X": x, "Y": y, "V": v},
                 {"C": (p @ v.astype(np.int64).T).astype(np.int32)}, needs)


    def w8a8(self, arch, flags, m, n, defines, needs=None):
        draw = np.random.default_rng(m + n)
        x = ladder.rounded(draw.standard_normal((m, 256)), "bf16").astype(np.float32)
        most = np.maximum(np.abs(x).max(axis=1), np.float32(1e-10))
        a = np.rint(x * (np.float32(127) / most)[:, None]).astype(np.int8)
        sa, sb = most / np.float32(127), draw.random(n).astype(np.float32)
        b = draw.integers(-127, 128, (n, 256)).astype(np.int8)
        if not needs:
            self.run(arch, flags, "quantise", {}, {"X": ladder.to_bits(x, "bf16")}, {"A": a, "SA": sa})
        c = (a.astype(np.int32) @ b.astype(np.int32).T).astype(np.float32) * sa[:, None] * sb[None, :]
        self.run(arch, flags, "w8a8", defines, {"A": a, "B": b, "SA": sa, "SB": sb}, {"C": ladder.to_bits(c, "bf16")}, needs)


# Of roles: target, its instruction, rows of a consumer's tile, plans.
ROLES = [("sm_90", "wgmma.mma_async", 64, ["consumers=2,stages=2", "consumers=1,stages=3", "consumers=3,stages=2"]),
         ("sm_100", "kind::i8", 128, ["consumers=1,stages=2", "consumers=2,stages=3", "consumers=1,stages=4,persistent=0"])]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    tester = Tester(parser.parse_args())
    mixes = [("i8", "i8"), ("i8", "u8"), ("u8", "i8"), ("u8", "u8")]
    everywhere = ["interpreter", *ARCHES]
    for at, arch in enumerate(everywhere):
        tester.gemm(arch, [], "nt", mixes[at % 4], 70, 50, 100, {})
        tester.gemm(arch, [], "nt_a", mixes[(at + 1) % 4], 70, 50, 128, {})
        for way in "nn", "tn", "tt":
            tester.gemm(arch, [], way, mixes[(at + 2) % 4], 40, 33, 90, {"A": 32, "B": 32})
            tester.gemm(arch, [], way + "_a", mixes[(at + 3) % 4], 48, 64, 112, {"A": 32, "B": 64})
        tester.computed(arch, [], mixes[at % 4], 40, 35, 90, {"A": 32, "B": 32, "K0": 32})
    for mix in mixes:  # every mix, where operands are given either way
        tester.gemm("sm_80", [], "nt_a", mix, 16, 8, 16384, {"A": 16, "B": 8, "K0": 128}, ends=True)
        tester.gemm("sm_90", ["-O1"], "nt", mix, 33, 17, 65, {"A": 16, "B": 16, "K0": 32})
        tester.computed("sm_80", ["-O0"], mix, 33, 40, 70, {"A": 64, "B": 16, "K0": 64})
    for k0 in 16, 24, 40, 96:  # the inner extent is filled with zeros
        for way in "nt", "nt_a", "nn", "tn_a":
            tester.gemm("sm_80", [], way, mixes[k0 % 3], 20, 24, 80, {"A": 32, "B": 24, "K0": k0})
        tester.computed("sm_90", [], mixes[k0 % 3], 20, 24, 50, {"A": 16, "B": 24, "K0": k0})
    for arch in ARCHES:
        tester.w8a8(arch, [], 70, 50, {})
    for arch, needs, rows, plans in ROLES:
        tester.w8a8(arch, [f"--plan={plans[0]}"], 300, 70, {"TM": rows}, needs)
        for at, plan in enumerate(plans):
            flags, tiles = [f"--plan={plan}"], {"A": rows}
            tester.gemm(arch, flags, "nt_a", mixes[at % 4], 300, 70, 320, tiles, needs=needs)
            tester.gemm(arch, flags, "nt_a", mixes[(at + 1) % 4], 130, 16, 48, {"B": 16, "K0": 96, **tiles}, needs=needs)
            tester.gemm(arch, flags, "nt_a", mixes[(at + 2) % 4], 64, 16, 16384, {"B": 16, "K0": 128, **tiles}, ends=True, needs=needs)
            if arch == "sm_90":  # in tensor memory no loop writes, and no operand of 8 bits is computed
                tester.left(arch, flags, mixes[(at + 3) % 4], 200, 150, 64, tiles, needs)
                tester.chain(arch, flags, mixes[at % 4], 200, 150, 64, needs)
    for at, (m, n, k, tiles) in enumerate([(300, 70, 320, {}), (520, 33, 48, {"B": 32, "K0": 96}), (256, 40, 16384, {"B": 32, "K0": 128})]):
        flags, tiles = ["--plan=consumers=1,stages=2,cluster=2"], {"A": 128, **tiles}  # both blocks of a pair
        tester.gemm("sm_100", flags, "nt_a", mixes[at], m, n, k, tiles, ends=k > 4096, needs="cta_group::2.kind::i8")
    print(f"{tester.n} runs, {tester.bad} wrong")
    return 1 if tester.bad else 0


if __name__ == "__main__":
    sys.exit(main())
