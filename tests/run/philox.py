#!/usr/bin/env python3
"""philox.py - the module `random`: Philox 4x32-10 beside the published vectors of Random123 and NumPy, and dropout, whose pattern
is a function of the place: the same with other tiles, in a backward, and in any part of a tensor.

    philox.py --tilec T --tilerun R
"""
import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bytes as narrow  # noqa: E402
from words import TARGETS  # noqa: E402

# kat_vectors of Random123: counter, key, result
PUBLISHED = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]
SOURCE = """
use random;
kernel words(C: in u32[4, N], Y: out u32[4, N], k0: u32, k1: u32) {
    grid n in tiles(N, 32);
    let w = philox((load C[0, n], load C[1, n], load C[2, n], load C[3, n]), k0, k1);
    store Y[0, n] = w.0;
    store Y[1, n] = w.1;
    store Y[2, n] = w.2;
    store Y[3, n] = w.3;
}
// constants in place of a key and of parts of the counter
kernel constants(C: in u32[4, N], Y: out u32[4, N]) {
    grid n in tiles(N, 32);
    let w = philox((load C[0, n], 0x85A308D3, 3, 0), 0xA4093822, 42);
    store Y[0, n] = w.0;
    store Y[1, n] = philox((1, 2, 3, 0xFFFFFFFF), load C[0, n], k1 = 0).3;
    store Y[2, n] = philox((1, 2, 3, 4), 5, 6).2;
    store Y[3, n] = w.3;
}
// each element is kept with probability `keep`, and then divided by it
fn dropout(x, m, n, columns, seed, keep) {
    return where(uniform(seed, m[:, None] * columns + n[None, :]) < keep, x / keep, 0.0);
}
kernel forward<M: int = 16, N: int = 32>(X: in f32[R, C], Y: out f32[R, C], seed: u32, keep: f32) {
    grid m in tiles(R, M);
    for n in tiles(C, N) { store Y[m, n] = dropout(load X[m, n], m, n, C, seed, keep); }
}
// dX = dropout(dY): nothing of the forward is kept
kernel backward<M: int = 64>(G: in f32[R, C], D: out f32[R, C], seed: u32, keep: f32) {
    grid m in tiles(R, M), j in cdiv(C, 16);
    let n = tiles(C, 16)[j];
    store D[m, n] = dropout(load G[m, n], m, n, C, seed, keep);
}
// a scalar place, and one of u32
kernel single(Y: out f32[N], Z: out f32[N], P: in u32[N], seed: u32) {
    grid n in N;
    store Y[n] = uniform(seed, n);
    store Z[n] = uniform(7, load P[n]);
}
// dropout on the way into a product
kernel layer(X: in f16[R, 64], W: in f16[64, 64], Y: out f32[R, 64], seed: u32) {
    grid m in tiles(R, 64);
    let kept = uniform(seed, m[:, None] * 64 + iota(64)[None, :]) < 0.5;
    store Y[m, :] = mma(where(kept, load X[m, :], 0.0), load W[:, :]);
}
"""


def philox(counter, key):
    c, k = [np.asarray(x, np.uint64) for x in counter], [int(x) for x in key]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(second >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), second & low, (first >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), first & low]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return [x.astype(np.uint32) for x in c]


def uniform(seed, places):
    none = np.zeros_like(places)
    return (philox((places, none, none, none), (seed, 0))[0] >> 8).astype(np.float32) * np.float32(2.0**-24)


class Tester(narrow.Tester):
    source = SOURCE

    def all_of(self, arch, flags):
        for counter, key, result in PUBLISHED:
            column = np.array(counter, np.uint32)[:, None]
            self.run(arch, flags, "words", {}, {"C": column}, {"Y": np.array(result, np.uint32)[:, None]}, {"k0": key[0], "k1": key[1]})
        draw = np.random.default_rng(1)
        counters = draw.integers(0, 2**32, (4, 50), np.uint32)
        self.run(arch, flags, "words", {}, {"C": counters}, {"Y": np.stack(philox(counters, (5, 2**32 - 1)))}, {"k0": 5, "k1": 2**32 - 1})
        none = np.zeros(50, np.uint32)
        w = philox((counters[0], none + 0x85A308D3, none + 3, none), (0xA4093822, 42))
        other = [philox((none + 1, none + 2, none + 3, none + np.uint32(2**32 - 1)), (int(k), 0))[3][0] for k in counters[0]]
        fixed = philox((none + 1, none + 2, none + 3, none + 4), (5, 6))[2]
        self.run(arch, flags, "constants", {}, {"C": counters}, {"Y": np.stack([w[0], np.array(other), fixed, w[3]])})
        rows, columns = 37, 45
        x = draw.integers(-8, 9, (rows, columns)).astype(np.float32)
        for seed in (0, 2**32 - 1):
            kept = uniform(seed, np.arange(rows * columns).reshape(rows, columns)) < np.float32(0.75)
            want = np.where(kept, x / np.float32(0.75), np.float32(0))
            sets = {"seed": seed, "keep": 0.75}
            for defines in ({}, {"M": 8, "N": 64}):
                # quotients by a scalar may be off by two units
                self.run(arch, flags, "forward", defines, {"X": x}, {"Y": want}, sets, 1e-6)
            self.run(arch, flags, "backward", {}, {"G": x}, {"D": want}, sets, 1e-6)
        places = draw.integers(0, 2**32, 60, np.uint32)
        self.run(arch, flags, "single", {}, {"P": places}, {"Y": uniform(9, np.arange(60)), "Z": uniform(7, places)}, {"seed": 9})
        a, w = (draw.integers(-2, 3, (n, 64)).astype(np.float16) for n in (100, 64))
        kept = uniform(3, np.arange(6400).reshape(100, 64)) < 0.5
        self.run(arch, flags, "layer", {}, {"X": a, "W": w}, {"Y": np.where(kept, a, 0).astype(np.float32) @ w.astype(np.float32)}, {"seed": 3})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    tester = Tester(parser.parse_args())
    mean = uniform(1, np.arange(1 << 16))
    assert abs(mean.mean() - 0.5) < 0.005 and mean.min() >= 0 and mean.max() < 1
    for arch in ["interpreter", *TARGETS]:
        tester.all_of(arch, [])
    tester.all_of("sm_90", ["-O0"])
    print(f"{tester.n} runs, {tester.bad} wrong")
    return 1 if tester.bad else 0


if __name__ == "__main__":
    sys.exit(main())
