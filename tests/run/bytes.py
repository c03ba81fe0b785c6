#!/usr/bin/env python3
"""bytes.py - i8 and u8 in the interpreter and in the simulator: casts of all codes, and of numbers around each boundary,
beside a table written from the rules of docs/language.md; loads, stores, where, .T, comparisons, scalars, lists of places.

    bytes.py --tilec T --tilerun R
"""
import argparse
import math
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402

ENDS = {"i8": (-128, 127), "u8": (0, 255)}
ARRAY = {"i8": np.int8, "u8": np.uint8, "i32": np.int32, "bool": np.bool_, "f32": np.float32, "f16": np.float16, "bf16": np.uint16}
SOURCE = """
kernel casts<FROM: type = f32, TO: type = i8>(X: in FROM[N], Y: out TO[N])
{
    grid n in tiles(N, 256);
    store Y[n] = load X[n] as TO;
}
// scalars, through registers of all threads
kernel each<FROM: type = f32, TO: type = i8>(X: in FROM[N], Y: out TO[N])
{
    grid n in N;
    store Y[n] = load X[n] as TO;
}
kernel rounds<T: type = f32>(X: in T[N], Y: out T[N], Z: out i8[N])
{
    grid n in tiles(N, 256);
    store Y[n] = round(load X[n]);
    store Z[n] = round(load X[n]) as i8;
}
kernel moves<T: type = i8, A: int = 32, B: int = 16>(X: in T[M, N], C: in bool[M, N], P: in i32[M],
    Y: out T[N, M], Z: out bool[M, N], R: out T[M, N], S: out T[N], E: out bool[M], V: out f16[M, N], W: out T[M, N])
{
    grid g in 1;
    for m in tiles(M, A) {
        for n in tiles(N, B) {
            let x = load X[m, n];
            let c = load C[m, n];
            var y = where(c, x, 100);
            for i in 3 { if i == 1 { y = where(y == 3, load X[m, n + 1], y); } }
            store Y[n, m] = y.T;
            store Z[m, n] = x != (load X[m, n + 1]);
            store R[m, n] = load X[load P[m], n];
            store V[m, n] = ((load X[m, n])[:, :] as i32 - 3) as f16;
            store W[m, n] = full<T>[A, B](7);
        }
        store E[m] = any(load X[m, iota(B)] == 3, axis = 1);
    }
    for n in tiles(N, B) { store S[n] = load X[0, n]; }
}
"""


def whole(x, type):
    """The rule: cut toward zero, saturate; a NaN is 0."""
    least, most = ENDS[type]
    if math.isnan(x):
        return 0
    return most if x >= most + 1 else least if x <= least - 1 else int(x)


def numbers(source):
    """Of type `source` as numbers, and the array."""
    if source in ENDS:
        values = np.arange(ENDS[source][0], ENDS[source][1] + 1)
        return [int(v) for v in values], values.astype(ARRAY[source])
    if source == "bool":
        return [0, 1], np.array([False, True])
    if source == "i32":
        near = [*range(-300, 600), *(s * 2**k + d for k in range(8, 31) for s in (-1, 1) for d in (-1, 0, 1)), 2**31 - 1, -2**31]
        return near, np.array(near, np.int32)
    if source != "f32":  # every code
        codes = np.arange(1 << 16).astype(np.uint16)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            wide = codes.view(np.float16).astype(np.float64) if source == "f16" else ladder.from_bits(codes, "bf16")
        return [float(v) for v in wide], codes.view(np.float16) if source == "f16" else codes
    near = np.arange(-132, 262).astype(np.float32)
    near = np.concatenate([near, near + np.float32(0.5), np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))])
    far = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-38, 0.99999994, -0.99999994, 3e38, -3e38]
    far += [s * (2.0**k + d) for k in (15, 16, 23, 31, 32, 63, 64) for s in (-1, 1) for d in (-1, 0, 1)]
    x = np.concatenate([near, np.array(far).astype(np.float32)])
    return [float(v) for v in x], x


def wanted(values, source, to):
    if to in ENDS:
        return np.array([whole(v, to) for v in values]).astype(ARRAY[to])
    return np.array(values).astype(np.int32) if to == "i32" else ladder.to_bits(values, to)  # exact: of 8 bits


class Tester:
    source = SOURCE

    def __init__(self, options):
        self.tilec, self.tilerun = options.tilec, options.tilerun
        self.bad = self.n = 0

    def run(self, arch, flags, kernel, defines, inputs, want, sets=None, slack=0):
        self.n += 1
        with tempfile.TemporaryDirectory() as folder:
            source, ptx = os.path.join(folder, "b.tile"), os.path.join(folder, "b.ptx")
            with open(source, "w", encoding="utf-8") as file:
                file.write(self.source)
            defined = [word for name, value in defines.items() for word in ("-D", f"{name}={value}")]
            command = [self.tilec, "run", source, "--kernel", kernel, *defined]
            if arch != "interpreter":
                made = subprocess.run([self.tilec, source, "-arch", arch, "--kernel", kernel, "--verify", *defined, *flags, "-o", ptx],
                                      capture_output=True, text=True)
                if made.returncode:
                    return self.wrong(arch, flags, kernel, defines, made.stderr)
                command = [self.tilerun, ptx, "--device", "sim"]
            done = subprocess.run(ladder.with_arrays(command, folder, inputs, sets or {}, want), capture_output=True, text=True)
            if done.returncode or "were not written" in done.stderr + done.stdout:
                return self.wrong(arch, flags, kernel, defines, done.stdout + done.stderr)
            for name, got in ladder.loaded(folder, want).items():
                differ = np.flatnonzero((~np.isclose(got, want[name], slack, 0) if slack else got != want[name]).reshape(-1)) if got.dtype == want[name].dtype else [0]
                if got.dtype != want[name].dtype or len(differ):
                    at = differ[0]
                    self.wrong(arch, flags, kernel, defines, f"{name} {got.dtype}: {len(differ)} differ, the first at {at}: "
                               f"{got.reshape(-1)[at]} for {want[name].reshape(-1)[at]}")

    def wrong(self, arch, flags, kernel, defines, text):
        self.bad += 1
        print(f"{kernel} {defines} {arch} {flags}: {text[:500]}")

    def casts(self, arch, kernel, source, to):
        values, array = numbers(source)
        if kernel == "each":
            step = max(1, len(values) // 150)
            values, array = values[::step], array[::step]
        self.run(arch, [], kernel, {"FROM": source, "TO": to}, {"X": array}, {"Y": wanted(values, source, to)})

    def rounds(self, arch, source):
        """To the nearest whole number, of two the even one: as Python's round."""
        values, array = numbers(source)
        kept = [k for k, v in enumerate(values) if math.isfinite(v) and abs(v) >= 2.0**-14]  # NaN is not equal to itself
        values, array = [values[k] for k in kept], array[kept]
        near = [math.copysign(round(v), v) for v in values]
        self.run(arch, [], "rounds", {"T": source}, {"X": array},
                 {"Y": ladder.to_bits(np.array(near, np.float64), source), "Z": wanted(near, source, "i8")})

    def moves(self, arch, flags, type, m, n, defines):
        draw = np.random.default_rng(m * n)
        x = draw.integers(*ENDS[type], (m, n), endpoint=True).astype(ARRAY[type])
        x[draw.random((m, n)) < 0.4] = 3
        c, p = draw.random((m, n)) < 0.5, draw.integers(-1, m + 1, m).astype(np.int32)
        after = np.concatenate([x[:, 1:], np.zeros((m, 1), x.dtype)], axis=1)
        y = np.where(c, x, 100).astype(x.dtype)
        rows = np.where(((p >= 0) & (p < m))[:, None], x[np.clip(p, 0, m - 1)], 0)
        want = {"Y": np.where(y == 3, after, y).T, "Z": x != after, "R": rows, "S": x[0],
                "E": (x[:, :defines.get("B", 16)] == 3).any(axis=1),
                "V": (x.astype(np.int32) - 3).astype(np.float16), "W": np.full_like(x, 7)}
        self.run(arch, flags, "moves", {"T": type, **defines}, {"X": x, "C": c, "P": p}, want)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    tester = Tester(parser.parse_args())
    arches = ["interpreter", "sm_80", "sm_90", "sm_100"]
    pairs = [(source, to) for source in ARRAY for to in ARRAY if source != to and to != "bool" and (source in ENDS or to in ENDS)]
    for arch in arches:
        for source in ("f32", "f16", "bf16"):
            tester.rounds(arch, source)
        for source, to in pairs:
            tester.casts(arch, "casts", source, to)
            if arch in ("interpreter", "sm_90"):
                tester.casts(arch, "each", source, to)
    for type in ENDS:
        for arch, flags in [*((arch, []) for arch in [*arches, "sm_120"]), ("sm_80", ["-O0"]), ("sm_90", ["-O1"])]:
            for m, n, defines in [(40, 48, {}), (33, 37, {}), (1, 1, {}), (70, 130, {"A": 64, "B": 64}), (5, 7, {"A": 2, "B": 4})]:
                tester.moves(arch, flags, type, m, n, defines)
    print(f"{tester.n} runs, {tester.bad} wrong")
    return 1 if tester.bad else 0


if __name__ == "__main__":
    sys.exit(main())
