#!/usr/bin/env python3
"""packed.py - i4, u4 and e2m1 in memory: loads and stores at every alignment, odd extents and offsets, and what breaks the rules.

   packed.py --tilec T --tilerun R [--all]

Two elements share a byte, the first one is the lower half; rows begin at bytes.  Everything is compared with NumPy, byte by byte, in the
interpreter and in the simulator.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402
from float8_codes import NUMBERS as FLOATS, codes as float8  # noqa: E402
from packed_codes import NUMBERS, codes, pack  # noqa: E402

SOURCE = """
kernel plain<T: type, A: int, B: int>(X: in T[K, N], Y: out f32[K, N], Z: out T[K, N]) {
    grid k in tiles(K, A), n in tiles(N, B);
    let x = load X[k, n];
    store Y[k, n] = x as f32 * ((shape(x, 1) / B) as f32);
    let U = dtype(x);
    store Z[k, n] = x as U;                        // as it is
}
kernel shifted<T: type, A: int, B: int>(X: in T[K, N], Y: out f32[K, N], Z: out f32[K, N], V: out T[K, M]) {
    grid k in tiles(K, A), n in tiles(N, B);
    store Y[k, n] = load X[k, n - 3] as f32;       // an odd place, and some before the first
    store Z[k, n] = load X[k, n + 2] as f32;       // some behind the last
    let v = load X[k, n + 4] as T;
    if n.first == 0 { store V[k, iota(B)] = (load X[k, iota(B) + 4]); }
}
kernel ranges<T: type, A: int, B: int>(X: in T[K, N], L: in i32[G], Y: out f32[K, N], Z: out T[K, N]) {
    grid k in tiles(K, A), g in G - 1;
    for n in tiles(load L[g]..load L[g + 1], B) {  // they begin and end where they like, Z's at even places
        store Y[k, n] = load X[k, n] as f32;
        store Z[k, n] = load X[k, n] as f32 as T;
    }
}
kernel places<T: type, A: int, B: int>(X: in T[K, N], P: in i32[Q], E: in i32[A, B], Y: out f32[K, Q], Z: out f32[K], R: out f32[Q, N], O: out f32[A, B]) {
    grid k in tiles(K, A), q in tiles(Q, B);
    store Y[k, q] = load X[k, load P[q]] as f32;
    if q.number == 0 { store Z[k] = load X[k, 3] as f32; }
    if k.number == 0 {
        for n in tiles(N, B) { store R[q, n] = load X[load P[q], n] as f32; }
        if q.number == 0 { store O[:, :] = load X[1, load E[:, :]] as f32; }
    }
}
// parts of packs along a row: of GPTQ's words, of AWQ's, and beside a range of a row
kernel packs<T: type, A: int, B: int>(X: in T[K, N, 8], U: in T[K, N, 2, 4], V: in T[K, N], Y: out f32[8 * K, N], Z: out f32[K, 8 * N], R: out f32[K, N]) {
    grid k in tiles(K, A), n in tiles(N, B);
    let (word, j) = pack(k, iota(8));
    store Y[tiles(8 * K, 8 * A)[k.number], n] = load X[word, n, j] as f32;
    let (at, q, h) = pack(n, iota(4), iota(2));
    store Z[k, tiles(8 * N, 8 * B)[n.number]] = load U[k, at, h, q] as f32;
    let (some, one) = pack(k, iota(1));
    store R[k, n] = load V[some, n] as f32;
}
// the part along a row has an end, odd ones among them: what lies behind it does not count
kernel ends<T: type, B: int>(X: in T[K, N], Y: out f32[P]) {
    grid p in P;
    var total = 0.0;
    for n in tiles(N, B) {
        let (row, m) = pack(iota(2) + 2 * p, n);
        total += sum(load X[row, m] as f32 + 1.0);
    }
    store Y[p] = total;
}
kernel three<T: type>(X: in T[L, K, N], C: in i32[40], Y: out f32[L, K, N], Z: inout T[L, K, N], R: out f32[L, K, N]) {
    grid l in tiles(L, 2), k in tiles(K, 4), n in tiles(N, 16);
    store Y[l, k, n] = load X[l, k, n] as f32;
    store Z[l, k, n] = load X[l, k, n];
    if l.number < 0 { store Z[0, k, n] = (load C[iota(16) + 3] + k.first)[None, :] as T; }  // compiles: it has no padding
    store R[l, k, n] = load X[l, k, n - 2] as f32;
}
kernel whole<T: type, C: int, D: int>(X: in T[K, C], U: in T[K, 3, 2 * H], Y: out f32[K, C], Z: out T[K, D], V: out T[K, 3, 2 * H], S: out f32[K]) {
    grid k in K;
    store Y[k, :] = load X[k, :] as f32;
    store Z[k, :] = (iota(D) + k) as T;
    for h in tiles(2 * H, 16) { store V[k, :, h] = load U[k, :, h]; }
    store S[k] = sum((load X[k, :]) as f32);
}
kernel w4a16<T: type, A: int, B: int, C: int>
(   X: in bf16[M, K] align(16), W: in T[K, N] align(16), scale: in f32[N], Y: out f32[M, N])
{
    grid n in tiles(N, B), m in tiles(M, A);
    var acc = zeros<f32>[A, B];
    for k in tiles(K, C) {
        let b = (load W[k, n] as f32 * scale[None, :]) as bf16;
        acc = mma(load X[m, k], b, acc);
    }
    store Y[m, n] = acc;
}
kernel casts<T: type>
(   X: in f32[A], H: in f16[B], G: in bf16[C], I: in i32[D], J: in i8[256], U: in u8[256], E: in e4m3[F], W: in T[16],
    XT: out T[A], HT: out T[B], GT: out T[C], IT: out T[D], JT: out T[256], UT: out T[256], ET: out T[F], OT: out T[4],
    WX: out f32[16], WH: out f16[16], WG: out bf16[16], WI: out i32[16], WJ: out i8[16], WU: out u8[16], WE: out e4m3[16])
{
    grid g in 1;
    for a in tiles(A, 256) { store XT[a] = load X[a] as T; }
    for b in tiles(B, 1024) { store HT[b] = load H[b] as T; }
    for c in tiles(C, 1024) { store GT[c] = load G[c] as T; }
    for d in tiles(D, 256) { store IT[d] = load I[d] as T; }
    for f in tiles(F, 256) { store ET[f] = load E[f] as T; }
    store JT[:] = load J[:] as T;
    store UT[:] = load U[:] as T;
    store OT[:] = 2.75 as T;
    let w = load W[:];
    store WX[:] = w as f32;
    store WH[:] = w as f16;
    store WG[:] = w as bf16;
    store WI[:] = w as i32;
    store WJ[:] = w as i8;
    store WU[:] = w as u8;
    store WE[:] = w as e4m3;
}
""".replace("* scale[None", "* (load scale[n])[None")
# Wrong programs, and what tilec run finds; the same kernels compile.
WRONG = """
kernel odd<T: type>(X: in f32[N], Y: out T[N], at: i32) {
    grid g in 1;
    store Y[iota(8) + at] = load X[iota(8)] as T;
}
kernel shared<T: type>(X: in f32[N], Y: out T[N], step: i32) {
    grid g in 3;
    let n = tiles(g * step..g * step + step, 8)[0];
    store Y[n] = load X[n] as T;
}
kernel nan(X: in f32[N], Y: out e2m1[N]) {
    grid n in tiles(N, 8);
    store Y[n] = load X[n] as e2m1;
}
"""
FINDINGS = [
    ("odd", {"at": 3}, 16, "Y[10] is stored without the other element of its byte: a store of u4 begins at an even place"),
    ("odd", {"at": -1}, 16, "Y[6] is stored without the other element of its byte"),
    ("odd", {"at": 9}, 17, "Y[9] is stored without the other element of its byte"),
    ("odd", {"at": 2}, 16, None),
    ("odd", {"at": 10}, 17, None),  # ends the row
    ("shared", {"step": 5}, 15, "Y[4] is stored without the other element of its byte"),
    ("shared", {"step": 6}, 15, None),
    ("nan", {}, 16, "e2m1 has no NaN, and one is cast to it"),
]


def shifted(x, by, n):
    """Element j is x[j + by], zero outside."""
    out = np.zeros((x.shape[0], n), x.dtype)
    for j in range(n):
        if 0 <= j + by < x.shape[1]:
            out[:, j] = x[:, j + by]
    return out


def casts(form):
    """All codes, all 16-bit floats, f32 around each boundary."""
    number = np.unique(NUMBERS[form])
    points = np.concatenate([number, (number[1:] + number[:-1]) / 2, [255, 256, 6.5, 7, 16, 127, 128, 3e9, 2.0**-126, 2.0**-149, np.inf, 0]]).astype(np.float32)
    points = np.concatenate([points, np.nextafter(points, np.float32(np.inf)), np.nextafter(points, np.float32(-np.inf))])
    x = np.concatenate([points, -points] + ([] if form == "e2m1" else [[np.nan]])).astype(np.float32)
    bits = np.arange(65536, dtype=np.uint16)
    real = lambda v: np.ones(v.shape, bool) if form != "e2m1" else ~np.isnan(v)
    with np.errstate(invalid="ignore"):
        h, g = bits.view(np.float16), ladder.from_bits(bits, "bf16").astype(np.float64)
    h, gbits, g = h[real(h)], bits[real(g)], g[real(g)]
    i = np.array([*range(-300, 300), 2**31 - 1, -2**31, 65536, -65536], np.int32)
    e = np.flatnonzero(real(FLOATS["e4m3"])).astype(np.uint8)
    j = np.arange(-128, 128, dtype=np.int8)
    inputs = {"X": x, "H": h, "G": gbits, "I": i, "J": j, "U": j.view(np.uint8), "E": e, "W": pack(np.arange(16, dtype=np.uint8))}
    to = lambda v: pack(codes(np.asarray(v, np.float64), form))
    w, whole = NUMBERS[form], np.trunc(NUMBERS[form])
    want = {"XT": to(x), "HT": to(h), "GT": to(g), "IT": to(i), "JT": to(j), "UT": to(j.view(np.uint8)), "ET": to(FLOATS["e4m3"][e]),
            "OT": to(np.full(4, 2.75)), "WX": w.astype(np.float32), "WH": w.astype(np.float16), "WG": ladder.to_bits(w.astype(np.float32), "bf16"),
            "WI": whole.astype(np.int32), "WJ": whole.astype(np.int8), "WU": np.maximum(whole, 0).astype(np.uint8), "WE": float8(w, "e4m3")}
    return "casts", {"T": form}, inputs, {n: len(inputs[k]) for n, k in {"A": "X", "B": "H", "C": "G", "D": "I", "F": "E"}.items()}, want


def cases(options):
    yield from map(casts, NUMBERS)
    r = np.random.default_rng(5)
    tiles = [(16, 32), (8, 64)] + ([(1, 16), (64, 8), (32, 128)] if options.all else [])
    for at, form in enumerate(NUMBERS):
        number = NUMBERS[form]
        for k, n in [(20, 50), (9, 51), (3, 1), (17, 64)][:4 if options.all else 3]:
            a, b = tiles[(at + n) % len(tiles)]
            x = r.integers(0, 16, (k, n)).astype(np.uint8)
            y, given = number[x].astype(np.float32), {"X": pack(x, spare=5)}
            name = {"T": form, "A": a, "B": b}
            yield "plain", name, given, {"N": n}, {"Y": y, "Z": pack(x)}
            m = 2 * b + 1
            v = shifted(x, 4, m)
            v[:, b:] = 0
            yield "shifted", name, given, {"N": n, "M": m}, {"Y": shifted(y, -3, n), "Z": shifted(y, 2, n), "V": (pack(v), pack(v) * 0 + (np.arange((m + 1) // 2) < b // 2))}
            starts = np.unique(np.minimum(np.array([0, 14, 22, n // 2 * 2]), n)).astype(np.int32)
            ended = np.append(starts, n).astype(np.int32)
            yield "ranges", name, {**given, "L": ended}, {"N": n}, {"Y": y, "Z": pack(x)}
            p = np.concatenate([r.integers(-2, n + 2, 30), [n, n - 1, 0, -1]]).astype(np.int32)
            e = r.integers(-1, n + 1, (a, b)).astype(np.int32)
            pick = lambda v, i: np.where((i >= 0) & (i < len(v)), v[np.clip(i, 0, len(v) - 1)], 0).astype(np.float32)
            if k > 1 and n > 3:
                rows = np.stack([y[i] if 0 <= i < k else y[0] * 0 for i in p])
                yield "places", name, {**given, "P": p, "E": e}, {"N": n}, {
                    "Y": np.stack([pick(row, p) for row in y]), "Z": y[:, 3].copy(), "R": rows, "O": pick(y[1], e)}
        for k, n, a, b in [(5, 11, 4, 8), (9, 33, 2, 16)]:
            x, u, v = (r.integers(0, 16, s).astype(np.uint8) for s in [(k, n, 8), (k, n, 2, 4), (k, n)])
            yield "packs", {"T": form, "A": a, "B": b}, {"X": pack(x), "U": pack(u), "V": pack(v)}, {"N": n}, {
                "Y": number[x].transpose(0, 2, 1).reshape(8 * k, n).astype(np.float32),
                "Z": number[u].transpose(0, 1, 3, 2).reshape(k, 8 * n).astype(np.float32), "R": number[v].astype(np.float32)}
            both = np.concatenate([number[v], np.zeros((k % 2, n))]).reshape(-1, 2 * n)
            yield "ends", {"T": form, "B": b}, {"X": pack(v, spare=5)}, {"N": n, "P": len(both)}, {"Y": (both + 1).sum(axis=1).astype(np.float32)}
        x = r.integers(0, 16, (3, 5, 21)).astype(np.uint8)
        left = np.concatenate([np.zeros((3, 5, 2)), number[x][:, :, :-2]], axis=2)
        yield "three", {"T": form}, {"X": pack(x, spare=3), "Z": pack(x * 0, spare=7), "C": np.zeros(40, np.int32)}, {"N": 21}, {
            "Y": number[x].astype(np.float32), "Z": pack(x), "R": left.astype(np.float32)}
        for c, d in (27, 28), (64, 16):
            k, h = 5, 9
            x, u = r.integers(0, 16, (k, c)).astype(np.uint8), r.integers(0, 16, (k, 3, 2 * h)).astype(np.uint8)
            whole = np.arange(d)[None, :] + np.arange(k)[:, None]
            yield "whole", {"T": form, "C": c, "D": d}, {"X": pack(x), "U": pack(u)}, {}, {
                "Y": number[x].astype(np.float32), "Z": pack(codes(whole.astype(np.float64), form)), "V": pack(u), "S": number[x].sum(axis=1).astype(np.float32)}
        m, n, k = 70, 82, 66
        w, s = r.integers(0, 16, (k, n)).astype(np.uint8), np.exp2(r.integers(-3, 3, n)).astype(np.float32)
        x = r.integers(-4, 5, (m, k)).astype(np.float32)
        yield "w4a16", {"T": form, "A": 64, "B": 64, "C": 64}, {"X": ladder.to_bits(x, "bf16"), "W": pack(w), "scale": s}, {}, {
            "Y": (x.astype(np.float64) @ (number[w] * s)).astype(np.float32)}


def same(got, want):
    if isinstance(want, tuple):  # bytes, and which of them are written
        want, written = want
        return got.shape == want.shape and np.array_equal(got * written, want * written)
    return got.dtype == want.dtype and np.array_equal(got, want)


def run(options, folder, arch, case, flags=()):
    kernel, defines, inputs, sets, want = case
    os.mkdir(folder)
    at = lambda name: os.path.join(folder, name)
    with open(at("k.tile"), "w", encoding="utf-8") as file:
        file.write(SOURCE)
    defined = [word for name, value in defines.items() for word in ("-D", f"{name}={value}")] + ["--kernel", kernel]
    first = [options.tilec, "run", at("k.tile"), *defined]
    if arch != "interpreter":
        done = subprocess.run([options.tilec, at("k.tile"), "-arch", arch, "--verify", *defined, *flags, "-o", at("k.ptx")], capture_output=True, text=True)
        if done.returncode:
            return ladder.failure(done)
        first = [options.tilerun, at("k.ptx"), "--device", "sim"]
    done = subprocess.run(ladder.with_arrays(first, folder, inputs, sets, want), capture_output=True, text=True)
    if done.returncode:
        return ladder.failure(done)
    said = ""
    for name, got in ladder.loaded(folder, want).items():
        if not same(got, want[name]):
            wanted = want[name][0] if isinstance(want[name], tuple) else want[name]
            k = np.argwhere(got != wanted)[:4] if got.shape == wanted.shape else (got.shape, wanted.shape)
            said += f"{name} {got.dtype} differs at {k}; "
    return said


def find(options, folder, case):
    kernel, sets, n, want = case
    os.mkdir(folder)
    at = lambda name: os.path.join(folder, name)
    with open(at("k.tile"), "w", encoding="utf-8") as file:
        file.write(WRONG)
    x = np.arange(n, dtype=np.float32)
    x[3] = np.nan if kernel == "nan" else x[3]
    type_ = [] if kernel == "nan" else ["-D", "T=u4"]
    first = [options.tilec, "run", at("k.tile"), "--kernel", kernel, *type_]
    done = subprocess.run(ladder.with_arrays(first, folder, {"X": x}, {**sets, "N": n}, ["Y"]), capture_output=True, text=True)
    said = done.stdout + done.stderr
    return "" if (done.returncode == 0) == (want is None) and (want is None or want in said) else said or "nothing is found"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    wrong, n = [], 0
    arches = ["interpreter", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120"]
    with tempfile.TemporaryDirectory() as folder:
        for at, case in enumerate(cases(options)):
            some = arches if options.all or case[0] == "casts" else ["interpreter", arches[1 + at % 7], arches[1 + (at + 3) % 7]]
            for arch in some:
                what = f"{case[0]} {case[1]} {arch}"
                if options.only in what:
                    n += 1
                    said = run(options, os.path.join(folder, str(n)), arch, case)
                    wrong += [f"{what}: {said}"] if said else []
        for case in FINDINGS:
            if options.only in str(case):
                n += 1
                said = find(options, os.path.join(folder, str(n)), case)
                wrong += [f"{case}: {said}"] if said else []
    print("\n".join(wrong + [f"{n} runs, {len(wrong)} wrong"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
