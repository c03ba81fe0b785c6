#!/usr/bin/env python3
"""scales.py - e8m0 in the interpreter and in the simulator: all codes, numbers around each power of two, tiles cut by the end of a tensor.

   scales.py --tilec T --tilerun R
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402

SOURCE = """
kernel casts(X: in f32[N], H: in f16[65536], B: in bf16[65536], I: in i32[P], C: in e8m0[256],
    XT: out e8m0[N], HT: out e8m0[65536], BT: out e8m0[65536], IT: out e8m0[P], LT: out e8m0[6],
    CX: out f32[256], CB: out bf16[256], CH: out f16[256], CF: out e4m3[256])
{
    grid g in 1;
    for n in tiles(N, 256) { store XT[n] = load X[n] as e8m0; }
    for n in tiles(65536, 1024) { store HT[n] = load H[n] as e8m0; store BT[n] = load B[n] as e8m0; }
    for n in tiles(P, 256) { store IT[n] = load I[n] as e8m0; }
    store LT[0] = 0 as e8m0;
    store LT[1] = 0.3;
    store LT[2] = 3e38 as e8m0;
    store LT[3] = load C[3];
    store LT[4] = -1 as e8m0;
    store LT[5] = (load C[130]) as f32 as e8m0;
    let c = load C[:];
    store CX[:] = c as f32;
    store CB[:] = c as bf16;
    store CH[:] = c as f16;
    store CF[:] = c as e4m3;
}
kernel moves<A: int = 32, W: int = 16>(X: in e8m0[M, N], C: in bool[M, N], Y: out e8m0[N, M], Z: out e8m0[M, N], V: out f32[M, N])
{
    grid m in tiles(M, A), n in tiles(N, W);
    let c = load C[m, n];
    let x = load X[m, n + 1];                      // beside the last column code 0, which is no zero
    store Y[n, m] = where(c, x, 0.6).T;
    store Z[m, n] = zeros<e8m0>[A, W];
    store V[m, n] = x as f32;
}
// one scale for 32 neighbours, MXFP8: the power not below the greatest over 448
kernel mx(X: in bf16[M, K], Q: out e4m3[M, K], S: out e8m0[M, K / 32], Y: out f32[M, K])
{
    grid m in tiles(M, 16), j in cdiv(K, 128);
    let k = tiles(K, 128)[j];
    let x = fold(load X[m, k] as f32, 1, 32);
    let s = (max(abs(x), axis = 2) / 448.0) as e8m0;
    let q = unfold(x / (s as f32)[:, :, None], 1) as e4m3;
    store S[m, tiles(K / 32, 4)[j]] = s;
    store Q[m, k] = q;
    store Y[m, k] = unfold(fold(q as f32, 1, 32) * (s as f32)[:, :, None], 1);
}
"""
NUMBERS = np.append(2.0 ** np.arange(-127, 128), np.nan)
ARCHES = ("interpreter", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")


def codes(values):
    """The rule: the power not below, within the range; what is negative, infinite or a NaN is a NaN."""
    good = (values >= 0) & np.isfinite(values)
    at = np.searchsorted(NUMBERS[:255], np.where(good, values, 0), "left")
    return np.where(good, np.minimum(at, 254), 255).astype(np.uint8)


def casts():
    powers = np.float32(2) ** np.arange(-149, 128, dtype=np.float32)
    x = np.concatenate([powers, np.nextafter(powers, np.float32(np.inf)), np.nextafter(powers, np.float32(0)), powers * np.float32(1.5)])
    x = np.concatenate([x, -x, np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 3.4e38], np.float32)]).astype(np.float32)
    bits, i = np.arange(65536, dtype=np.uint16), np.array([*range(-70, 300), 2**31 - 1, -2**31, 2**30, 2**30 + 1], np.int32)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        wide = {"H": bits.view(np.float16).astype(np.float64), "B": ladder.from_bits(bits, "bf16").astype(np.float64)}
        from float8_codes import codes as float8
        want = {"XT": codes(x.astype(np.float64)), "HT": codes(wide["H"]), "BT": codes(wide["B"]), "IT": codes(i.astype(np.float32).astype(np.float64)),
                "LT": np.array([0, 126, 254, 3, 255, 130], np.uint8), "CX": NUMBERS.astype(np.float32), "CH": NUMBERS.astype(np.float16),
                "CB": ladder.to_bits(NUMBERS.astype(np.float32), "bf16"), "CF": float8(NUMBERS, "e4m3")}
    return "casts", {"X": x, "H": bits.view(np.float16), "B": bits, "I": i, "C": np.arange(256, dtype=np.uint8)}, want


def moves(m, n):
    r = np.random.default_rng([m, n])
    x, c = r.integers(0, 255, (m, n)).astype(np.uint8), r.random((m, n)) < 0.5
    right = np.concatenate([x[:, 1:], np.zeros((m, 1), np.uint8)], axis=1)
    return "moves", {"X": x, "C": c}, {"Y": np.where(c, right, 127).astype(np.uint8).T.copy(), "Z": np.zeros((m, n), np.uint8), "V": NUMBERS[right].astype(np.float32)}


def mx(m, k):
    from float8_codes import NUMBERS as FLOATS, codes as float8
    r = np.random.default_rng(3)
    x = ladder.rounded(r.standard_normal((m, k)) * np.exp2(r.integers(-20, 20, (m, 1))), "bf16").astype(np.float32)
    most = (np.abs(x).reshape(m, k // 32, 32).max(axis=2) / np.float32(448)).astype(np.float32)
    s = codes(most.astype(np.float64))
    q = float8(x.astype(np.float64) / np.repeat(NUMBERS[s], 32, axis=1), "e4m3")
    return "mx", {"X": ladder.to_bits(x, "bf16")}, {"Q": q, "S": s, "Y": (FLOATS["e4m3"][q] * np.repeat(NUMBERS[s], 32, axis=1)).astype(np.float32)}


def same(name, got, want):
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if name == "CB":  # what a NaN's bits are is not said
        nan = lambda v: v & 0x7fff > 0x7f80
        return bool(np.all((got == want) | (nan(got) & nan(want))))
    return np.array_equal(got, want, equal_nan=want.dtype.kind == "f") or (name == "CF" and np.array_equal(got & 127, want & 127))


def run(options, folder, arch, case):
    kernel, inputs, want = case
    os.mkdir(folder)
    at = lambda name: os.path.join(folder, name)
    with open(at("k.tile"), "w", encoding="utf-8") as file:
        file.write(SOURCE)
    first = [options.tilec, "run", at("k.tile"), "--kernel", kernel]
    if arch != "interpreter":
        done = subprocess.run([options.tilec, at("k.tile"), "-arch", arch, "--verify", "--kernel", kernel, "-o", at("k.ptx")], capture_output=True, text=True)
        if done.returncode:
            return ladder.failure(done)
        first = [options.tilerun, at("k.ptx"), "--device", "sim"]
    done = subprocess.run(ladder.with_arrays(first, folder, inputs, {}, want), capture_output=True, text=True)
    if done.returncode:
        return ladder.failure(done)
    wrong = [(name, got) for name, got in ladder.loaded(folder, want).items() if not same(name, got, want[name])]
    return "; ".join(f"{name} {got.dtype} {got.shape} differs at {np.argwhere(got != want[name])[:6].ravel()}: {got[got != want[name]][:6]} for "
                     f"{want[name][got != want[name]][:6]}" for name, got in wrong)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    wrong, n = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for arch in ARCHES:
            for case in casts(), moves(37, 27), mx(20, 160):
                n += 1
                said = run(options, os.path.join(folder, str(n)), arch, case)
                wrong += [f"{case[0]} {arch}: {said}"] if said else []
    print("\n".join(wrong + [f"{n} runs, {len(wrong)} wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
