#!/usr/bin/env python3
"""float8.py - e4m3 and e5m2 in the interpreter and in the simulator.

    float8.py --tilec T --tilerun R [--all]

Casts of all codes, and of numbers around each boundary of rounding, beside a table written from the rules of docs/language.md
(nearest, ties to the even code, saturating, a NaN stays one); loads, stores, where, .T, scalars, branches, which keep every code.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402
from float8_codes import FORMS, NUMBERS, codes, finite  # noqa: E402

OTHER = {"e4m3": "e5m2", "e5m2": "e4m3"}
SOURCE = """
kernel casts<T: type = e4m3, O: type = e5m2>(X: in f32[N], H: in f16[65536], B: in bf16[65536], I: in i32[P], C: in T[256], D: in O[256],
    XT: out T[N], HT: out T[65536], BT: out T[65536], IT: out T[P], LT: out T[4],
    CX: out f32[256], CH: out f16[256], CB: out bf16[256], CI: out i32[256], CO: out O[256])
{
    grid g in 1;
    for n in tiles(N, 256) { store XT[n] = load X[n] as T; }
    for n in tiles(65536, 1024) { store HT[n] = load H[n] as T; store BT[n] = load B[n] as T; }
    for n in tiles(P, 256) { store IT[n] = load I[n] as T; }
    store LT[0] = (load C[1]) as f32 as T;
    store LT[1] = 1000000 as T;
    store LT[2] = 0.3 as T;
    store LT[3] = load C[3];
    let c = load C[:];
    let bad = (c as f32) - (c as f32) != 0.0;
    store CX[:] = c as f32;
    store CH[:] = c as f16;
    store CB[:] = c as bf16;
    store CI[:] = where(bad, full<T>[256](0), c) as i32;
    store CO[:] = c as O;
}
kernel moves<T: type = e4m3, A: int = 32, W: int = 16>(X: in T[M, N], C: in bool[M, N], P: in i32[M],
    Y: out T[N, M], R: out T[M, N], S: out T[N], F: out T[M, N], V: out f32[M, N])
{
    grid g in 1;
    for m in tiles(M, A) {
        for n in tiles(N, W) {
            let x = load X[m, n];
            let c = load C[m, n];
            var y = where(c, x, 3.5);
            for i in 3 { if i == 1 { y = where(c, y, load X[m, n + 1]); } }
            store Y[n, m] = y.T;
            store R[m, n] = load X[load P[m], n];
            store F[m, n] = full<T>[A, W](0.875);
            store V[m, n] = (where(c, (load X[m, 0])[:, None], x)) as f32;
        }
    }
    for n in tiles(N, W) { store S[n] = load X[0, n]; }
}
"""
ARCHS = ("interpreter", "sm_80", "sm_89", "sm_90", "sm_100")


def around(form):
    """f32 at and beside each number, each middle of two, and powers of two far beyond both ends."""
    below = NUMBERS[form][finite(form)]
    points = np.concatenate([below, (below[1:] + below[:-1]) / 2, [below[-1] * 17 / 16, below[-1] * 33 / 32, below[-1] * 9 / 8],
                             2.0 ** np.arange(-149, 128)]).astype(np.float32)
    points = np.concatenate([points, np.nextafter(points, np.float32(np.inf)), np.nextafter(points, np.float32(-np.inf))])
    return np.concatenate([points, -points, np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 3.4e38], np.float32)])


def casts(form):
    x, c = around(form), NUMBERS[form]
    halves = np.arange(65536, dtype=np.uint16)
    with np.errstate(invalid="ignore"):
        wide = {"H": halves.view(np.float16).astype(np.float64), "B": ladder.from_bits(halves, "bf16").astype(np.float64)}
    i = np.unique([s * (2**k + d) for k in range(31) for d in (-3, -2, -1, 0, 1, 2, 3) for s in (-1, 1)] + list(range(-600, 600)))
    i = i.astype(np.int32)
    inputs = {"X": x, "H": halves.view(np.float16), "B": halves, "I": i, "C": np.arange(256, dtype=np.uint8), "D": np.arange(256, dtype=np.uint8)}
    with np.errstate(invalid="ignore"):
        want = {"XT": codes(x.astype(np.float64), form), "HT": codes(wide["H"], form), "BT": codes(wide["B"], form),
                "IT": codes(i.astype(np.float64), form), "LT": np.concatenate([codes(np.array([c[1], 1e6, 0.3]), form), [3]]).astype(np.uint8),
                "CX": c.astype(np.float32), "CH": c.astype(np.float16), "CB": ladder.to_bits(c.astype(np.float32), "bf16"),
                "CI": np.where(np.isfinite(c), c, 0).astype(np.int32), "CO": codes(c, OTHER[form])}
    return "casts", {"T": form, "O": OTHER[form]}, inputs, want, {name: OTHER[form] if name == "CO" else form for name in want}


def moves(form, rows, columns, a, w):
    r = np.random.default_rng([rows, columns])
    x = r.integers(0, 256, (rows, columns)).astype(np.uint8)
    c, p = r.random((rows, columns)) < 0.5, r.integers(0, rows, rows).astype(np.int32)
    const = lambda v: codes(np.array([float(v)]), form)[0]
    right = np.concatenate([x[:, 1:], np.zeros((rows, 1), np.uint8)], axis=1)
    # elements outside of the tensor read as zero, of X beside the last column
    want = {"Y": np.where(c, np.where(c, x, const(3.5)), right).T.copy(), "R": x[p], "S": x[0], "F": np.full((rows, columns), const(0.875), np.uint8),
            "V": NUMBERS[form][np.where(c, x[:, :1], x)].astype(np.float32)}
    return "moves", {"T": form, "A": a, "W": w}, {"X": x, "C": c, "P": p}, want, {name: form for name in want}


def same(got, want, form, exact):
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if want.dtype == np.uint8:  # codes; what a NaN's bits are is not said
        none = np.isnan(NUMBERS[form])
        return bool(np.all((got == want) | (none[got] & none[want] & (not exact))))
    if want.dtype == np.uint16:  # bf16
        nans = lambda v: v & 0x7fff > 0x7f80
        return bool(np.all((got == want) | (nans(got) & nans(want))))
    return np.array_equal(got, want, equal_nan=want.dtype.kind == "f") and (want.dtype.kind != "f" or np.array_equal(
        np.signbit(got) | np.isnan(got), np.signbit(want) | np.isnan(want)))


def command(options, folder, arch, flags, case):
    kernel, defines, inputs, want, _ = case
    os.mkdir(folder)
    at = lambda name: os.path.join(folder, name)
    with open(at("k.tile"), "w", encoding="utf-8") as file:
        file.write(SOURCE)
    defined = [word for name, value in defines.items() for word in ("-D", f"{name}={value}")] + ["--kernel", kernel]
    first = [options.tilec, "run", at("k.tile"), *defined]
    if arch != "interpreter":
        subprocess.run([options.tilec, at("k.tile"), "-arch", arch, "--verify", *defined, *flags, "-o", at("k.ptx")], check=True)
        first = [options.tilerun, at("k.ptx"), "--device", "sim"]
    return ladder.with_arrays(first, folder, inputs, {}, want)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    wrong, n = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            cases = [casts(form), moves(form, 64, 32, 32, 16), moves(form, 37, 27, 32, 16)]
            cases += [moves(form, 50, 50, a, w) for a, w in ((8, 64), (64, 8), (1, 32), (128, 4))] if options.all else []
            for case in cases:
                for arch in ARCHS:
                    for flags in ([], ["-O0"]) if options.all and arch != "interpreter" else ([],):
                        n += 1
                        where = os.path.join(folder, str(n))
                        done = subprocess.run(command(options, where, arch, flags, case), capture_output=True, text=True)
                        what = f"{form} {case[0]} {case[1]} {arch} {flags}"
                        if done.returncode:
                            wrong.append(f"{what}: {done.stdout}{done.stderr}")
                            continue
                        for name, got in ladder.loaded(where, case[3]).items():
                            exact = case[0] == "moves" and arch != "interpreter"
                            if not same(got, case[3][name], case[4][name], exact):
                                k = np.flatnonzero((got != case[3][name]).reshape(-1))[:5] if got.shape == case[3][name].shape else got.shape
                                wrong.append(f"{what}: {name} {got.dtype} differs at {k}: {got.reshape(-1)[k]} for {case[3][name].reshape(-1)[k]}")
    print("\n".join(wrong + [f"{n} runs, {len(wrong)} wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
