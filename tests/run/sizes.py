#!/usr/bin/env python3
"""sizes.py - dimensions of tensors that follow from names (docs/language.md, section 3), in the simulator and in the
interpreter, beside NumPy: outputs whose shape nobody gives, names that only an expression has, and what is refused.

    sizes.py --tilec T --tilerun R
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

# Y = what is said of the others; {name: shape} of what comes in, what comes out, and why not
SOURCE = """
// C / 32 and cdiv(C, 48): C is known from X, the outputs follow
kernel scales<R0: int = 4>(X: in f32[R, C], S: out f32[R, C / 32], N: out f32[cdiv(C, 48), R]) {
    grid r in tiles(R, R0), c in tiles(C / 32, 4);
    let blocks = C / 32;
    for k in c.first..min(c.first + 4, blocks) { store S[r, k] = max(abs(load X[r, iota(32) + k * 32]), axis = 1); }
    if c.number == 0 {
        for n in tiles(C, 48) { store N[n.number, r] = sum(load X[r, n], axis = 1); }
    }
}
// 2 * C alone defines C, once for all: Y has the same dimension
kernel halves<N: int = 32>(X: in f32[R, 2 * C], Y: in f32[2 * C], Z: out f32[R, C + 1]) {
    grid r in R, c in tiles(C, N);
    store Z[r, c] = load X[r, c] * load X[r, c + C] + load Y[c];
    if c.number == 0 {
        var all = 0.0;
        for j in tiles(2 * C, N) { all += sum(load Y[j]); }
        store Z[r, C] = all;
    }
}
// C is Z's own dimension, and X says what it is where Z is not given; X is taken whole, in rows of tiles of another size
kernel gate<N: int = 16>(X: in bf16[R, C * 2] align(16), Z: out bf16[R, C]) {
    grid r in tiles(R, 8), c in tiles(C, N);
    store Z[r, c] = ((load X[r, c] as f32) * (load X[r, c + C] as f32)) as bf16;
}
// two names, one of them known from elsewhere; and a parameter
kernel heads<N: int = 16>(X: in f32[S, H * D], W: in f32[H], Y: out f32[S, H, D], E: out f32[S + 2 * n - 1], n: i32) {
    grid s in S, h in H;
    for d in tiles(D, N) { store Y[s, h, d] = load W[h] * load X[s, d + h * D]; }
    if s + h == 0 { for e in tiles(S + 2 * n - 1, N) { store E[e] = (e + n) as f32; } }
}
// names follow from what is given, wherever it stands: not from outputs
kernel chain<N: int = 4>(Z: out f32[C - B], W: in f32[C * 3], Y: in f32[B + A], V: inout f32[A + C], X: in f32[2 * A], Q: out f32[(C - B) * A, cdiv(A + B, 4)]) {
    grid z in tiles(C - B, N), v in tiles(A + C, N), q in tiles((C - B) * A, N);
    let said = (C * 100 + B * 10 + A) as f32;
    if v.number + q.number == 0 { store Z[z] = said; }
    if z.number + q.number == 0 { store V[v] = said; }
    if z.number + v.number > 0 { return; }
    for y in tiles(cdiv(A + B, 4), N) { store Q[q, y] = said; }
}
// what lies behind the middle; 8 - A is refused where A is more
kernel ends<N: int = 4>(X: in f32[A], Y: out f32[8 - A], Z: out f32[(A + 1) / 2]) {
    grid z in tiles((A + 1) / 2, N);
    store Z[z] = load X[z];
    if z.number == 0 { for y in tiles(8 - A, N) { store Y[y] = 1.0; } }
}
"""


def scales(r, c):
    x = np.random.default_rng(1).standard_normal((r, c)).astype(np.float32)
    wide = np.zeros((r, -(-c // 48) * 48), np.float32)
    wide[:, :c] = x
    return {"X": x}, {"S": np.abs(x.reshape(r, c // 32, 32)).max(2, initial=0), "N": wide.reshape(r, -1, 48).sum(2).T}


def halves(r, c):
    random = np.random.default_rng(2)
    x, y = (random.standard_normal(shape).astype(np.float32) for shape in ((r, 2 * c), (2 * c,)))
    z = np.concatenate([x[:, :c] * x[:, c:] + y[:c], np.full((r, 1), y.sum())], 1)
    return {"X": x, "Y": y}, {"Z": z}


def gate(r, c):
    x = np.random.default_rng(3).integers(-8, 8, (r, 2 * c)).astype(np.float32)
    bits = lambda v: (np.ascontiguousarray(v, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return {"X": bits(x)}, {"Z": bits(x[:, :c] * x[:, c:])}


def heads(s, h, d, n):
    random = np.random.default_rng(4)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((s, h * d), (h,)))
    return {"X": x, "W": w, "n": n}, {"Y": w[:, None] * x.reshape(s, h, d), "E": np.arange(s + 2 * n - 1) + n}


def chain(a, b, c):
    said = 100.0 * c + 10 * b + a
    of = {"W": 3 * c, "Y": a + b, "X": 2 * a}
    want = {"Z": (c - b,), "V": (a + c,), "Q": ((c - b) * a, -(-(a + b) // 4))}
    return {k: np.zeros(n, np.float32) for k, n in of.items()}, {k: np.full(shape, said) for k, shape in want.items()}


def ends(a):
    x = np.arange(a).astype(np.float32)
    return {"X": x}, {"Y": np.ones(8 - a), "Z": x[:(a + 1) // 2]}


# kernel, sizes of the case, and of each tile size another
RIGHT = [(scales, (9, 96)), (scales, (1, 32)), (scales, (5, 480)), (halves, (3, 35)), (halves, (1, 1)), (halves, (4, 64)),
         (gate, (5, 8)), (gate, (17, 40)), (gate, (1, 1)), (heads, (3, 2, 20, 1)), (heads, (1, 1, 1, 4)), (heads, (5, 3, 16, 0)),
         (chain, (1, 2, 7)), (chain, (5, 0, 1)), (ends, (1,)), (ends, (3,)), (ends, (7,))]
ZEROS = lambda *shape: np.zeros(shape, np.float32)
# kernel, what is given, what is said of it by tilerun and by the interpreter
WRONG = [
    ("scales", {"X": ZEROS(2, 97)}, "C must be a multiple of 32: dimension 1 of S is C / 32", "C = 97 is no multiple of 32 ["),
    ("scales", {"X": ZEROS(2, 64), "S": ZEROS(2, 3)}, "dimension 1 of S must be C / 32", "dimension 1 of S is 2 here, and 3 in its array"),
    ("halves", {"X": ZEROS(2, 71), "Y": ZEROS(71)}, "dimension 1 of X must be 2 * C", "dimension 1 of X is 70 here, and 71 in its array"),
    ("halves", {"X": ZEROS(2, 70), "Y": ZEROS(72)}, "dimension 0 of Y is 72, but X_dim1 is 70", "dimension 0 of Y is 70 here, and 72 in its array"),
    ("gate", {"X": np.zeros((2, 70), np.uint16), "C": 36}, "dimension 1 of X must be C * 2", "dimension 1 of X is 72 here, and 70 in its array"),
    ("heads", {"X": ZEROS(2, 7), "W": ZEROS(2), "n": 1}, "dimension 1 of X must be H * D", "dimension 1 of X is 6 here, and 7 in its array"),
    ("heads", {"X": ZEROS(2, 6), "W": ZEROS(2), "n": -4}, "E_dim0 = S + 2 * n - 1 would be -7", "this dimension would be -7"),
    ("ends", {"X": ZEROS(9)}, "Y_dim0 = 8 - A would be -1", "this dimension would be -1"),
    ("ends", {"X": ZEROS(4)}, "A + 1 must be a multiple of 2", "A + 1 = 5 is no multiple of 2 [")]


def launch(options, name, path, given, wanted, folder):
    command = [options.tilec, "run", path, "--kernel", name] if path.endswith(".tile") else [options.tilerun, path, "--device", "sim"]
    for key, value in given.items():
        if isinstance(value, int):
            command += ["--set", f"{key}={value}"]
            continue
        np.save(os.path.join(folder, key + ".npy"), value)
        command += ["--in", f"{key}={folder}/{key}.npy"]
    for key in wanted:
        command += ["--out", f"{key}={folder}/{key}-out.npy"]
    return subprocess.run(command, capture_output=True, text=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    bad, n = 0, 0

    def check(right, what, text):
        nonlocal bad, n
        n += 1
        if not right:
            bad += 1
            print(f"{what}: {text}")

    with tempfile.TemporaryDirectory() as folder:
        tile = os.path.join(folder, "s.tile")
        with open(tile, "w", encoding="utf-8") as file:
            file.write(SOURCE.replace("S: out", "S: inout"))
        for way in ["run", "sm_80", "sm_90", "sm_100", "sm_120 -O0"]:
            paths = {}
            for name in {kernel.__name__ for kernel, _ in RIGHT}:
                paths[name] = tile if way == "run" else os.path.join(folder, f"{name}.ptx")
                if way != "run":
                    done = subprocess.run([options.tilec, tile, "--kernel", name, "-arch", *way.split(), "--verify", "-o", paths[name]],
                                          capture_output=True, text=True)
                    check(done.returncode == 0, f"{name}, {way}", done.stderr)
            for kernel, sizes in RIGHT:
                given, wanted = kernel(*sizes)
                done = launch(options, kernel.__name__, paths[kernel.__name__], given, wanted, folder)
                what = f"{kernel.__name__} {sizes}, {way}"
                check(done.returncode == 0 and "not written" not in done.stderr, what, done.stderr)
                for key, want in wanted.items() if done.returncode == 0 else ():
                    have = np.load(f"{folder}/{key}-out.npy")
                    check(have.shape == want.shape and np.allclose(have, want, 1e-5, 1e-5), what, f"{key} is wrong: {have.shape} {want.shape}")
            for name, given, *words in WRONG if way in ("run", "sm_90") else ():
                done = launch(options, name, paths[name], given, ["Z" if name in ("halves", "gate", "ends") else "S" if name == "scales" else "Y"], folder)
                check(done.returncode == 1 and words[way == "run"] in done.stderr, f"{name}, {way}", f"expected '{words[way == 'run']}', not: {done.stderr}")
    print(f"{n} checks, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
