#!/usr/bin/env python3
"""scans.py - cumsum and cummax, of every type, axis and way, of tiles of any size.

    scans.py --tilec T --tilerun R

Rows and columns whole and cut, tiles of one element to those that a block shares along both axes, results of products
among them; compiled, in the simulator, and in the reference interpreter, against NumPy.  The terms are whole numbers,
so that sums are exact in any order.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import ladder  # noqa: E402

# of a name of a result: function, axis, backwards
TILES = {"A": ("cumsum", 0, False), "B": ("cumsum", 1, False), "E": ("cumsum", 0, True), "F": ("cumsum", 1, True),
         "G": ("cummax", 0, False), "H": ("cummax", 1, True)}
ROWS = {"A": ("cumsum", 0, False), "B": ("cumsum", 0, True), "E": ("cummax", 0, False), "F": ("cummax", 0, True)}


def call(what, x):
    name, axis, back = what
    return f"{name}({x}, axis={axis}{', reverse=true' if back else ''})"


def tile_source(dtype, tile):
    outs = "".join(f", {n}: out {dtype}[S, C]" for n in TILES)
    text = f"kernel scans(X: in {dtype}[S, C]{outs}, Z: out {dtype}[S]) {{\n    grid m in tiles(S, {tile[0]}), n in tiles(C, {tile[1]});\n"
    text += f"    let x = load X[m, n];\n"
    text += "".join(f"    store {n}[m, n] = {call(what, 'x')};\n" for n, what in TILES.items())
    # padding stays padding: of rows that one tile has whole
    return text + f"    if C <= {tile[1]} {{ store Z[m] = max({call(TILES['B'], 'x')}, axis=1); }}\n}}\n"


def row_source(dtype, tile):
    outs = "".join(f", {n}: out {dtype}[C]" for n in ROWS)
    text = f"kernel scans(X: in {dtype}[C]{outs}) {{\n    grid n in tiles(C, {tile[0]});\n    let x = load X[n];\n"
    return text + "".join(f"    store {n}[n] = {call(what, 'x')};\n" for n, what in ROWS.items()) + "}\n"


def product_source(dtype, tile):
    """Scans of a sum of products, which lies as products leave it; carried by a loop, too."""
    return f"""
kernel scans(X: in bf16[S, K], Y: in bf16[C, K], A: out f32[S, C], B: out f32[S, C], R: out f32[S]) {{
    grid m in tiles(S, {tile[0]}), n in tiles(C, {tile[1]});
    var acc = zeros<f32>[{tile[0]}, {tile[1]}];
    for k in tiles(K, 32) {{
        acc = mma(load X[m, k], (load Y[n, k]).T, acc);
    }}
    store A[m, n] = cumsum(acc, axis=1);
    store B[m, n] = cumsum(acc, axis=0, reverse=true);
    var top = full<f32>[{tile[0]}](-inf);
    for k in tiles(K, 32) {{
        let s = mma(load X[m, k], (load Y[n, k]).T);
        top = max(top, max(cumsum(s, axis=1), axis=1));
    }}
    store R[m] = top;
}}
"""


def scanned(x, what, tile):
    """By NumPy, tile by tile."""
    name, axis, back = what
    size, out = tile[axis], x.astype(np.float64)
    for at in range(0, x.shape[axis], size):
        part = tuple(slice(at, at + size) if d == axis else slice(None) for d in range(x.ndim))
        way = (lambda a: np.flip(a, axis)) if back else (lambda a: a)
        out[part] = way({"cumsum": np.add, "cummax": np.maximum}[name].accumulate(way(out[part]), axis=axis))
    return out


def stored(x, dtype):
    return x.astype(np.int32) if dtype == "i32" else ladder.to_bits(ladder.rounded(x, dtype), dtype)


def make(kind, dtype, shape, tile):
    """Source, inputs, and what is right."""
    r = np.random.default_rng([len(dtype), *shape, *tile])
    if kind == "products":
        rows, columns, depth = shape
        x, y = r.integers(-3, 4, (rows, depth)).astype(np.float64), r.integers(-3, 4, (columns, depth)).astype(np.float64)
        full, parts = x @ y.T, [x[:, k:k + 32] @ y[:, k:k + 32].T for k in range(0, depth, 32)]
        want = {"A": scanned(full, TILES["B"], tile), "B": scanned(full, TILES["E"], tile),
                "R": np.max([np.add.accumulate(p, axis=1).max(axis=1) for p in parts], axis=0)}
        return (product_source(dtype, tile), {"X": stored(x, "bf16"), "Y": stored(y, "bf16")},
                {n: stored(v, "f32") for n, v in want.items()})
    x = r.integers(-9, 10, shape).astype(np.float64)
    of = ROWS if len(shape) == 1 else TILES
    want = {n: stored(scanned(x, what, tile), dtype) for n, what in of.items()}
    if len(shape) == 2 and shape[1] <= tile[1]:
        want["Z"] = stored(ladder.rounded(np.add.accumulate(x, axis=1), dtype).max(axis=1) if dtype != "i32" else
                           np.add.accumulate(x, axis=1).max(axis=1), dtype)
    source = row_source(dtype, tile) if len(shape) == 1 else tile_source(dtype, tile)
    return source, {"X": stored(x, dtype)}, want


CASES = [("tiles", t, s, n) for t in ("f32", "i32") for s, n in [
    ((1, 1), (1, 1)), ((21, 37), (16, 32)), ((64, 64), (64, 64)), ((5, 200), (8, 128)), ((33, 100), (16, 24)),
    ((130, 7), (128, 8)), ((3, 900), (1, 1024)), ((70, 3), (64, 1)), ((19, 50), (48, 80))]]
CASES += [("tiles", t, s, n) for t in ("bf16", "f16") for s, n in [((21, 37), (16, 32)), ((40, 70), (64, 64))]]
CASES += [("rows", t, s, n) for t in ("f32", "i32", "f16") for s, n in [
    ((1,), (1,)), ((100,), (32,)), ((1000,), (1024,)), ((300,), (96,)), ((5,), (7,))]]
CASES += [("products", "f32", s, n) for s, n in [((70, 30, 64), (64, 32)), ((128, 64, 96), (128, 64)), ((130, 100, 64), (64, 128))]]
ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120")


def ways(number):
    """Flags: each case on three targets and on all of them together, with few and with many warps."""
    for k in range(3):
        yield ["-arch", ARCHS[(number + 3 * k) % len(ARCHS)], ("-O3", "-O0")[(number + k) % 4 == 3], f"--warps={(4, 1, 8)[(number + k) % 3]}"]


def written(folder, name, source, inputs):
    folder = os.path.join(folder, name)
    os.mkdir(folder)
    with open(os.path.join(folder, "k.tile"), "w", encoding="utf-8") as file:
        file.write(source)
    for n, x in inputs.items():
        np.save(os.path.join(folder, n + ".npy"), x)
    return folder


def arguments(folder, inputs, want, sizes):
    return [f for n in inputs for f in ("--in", f"{n}={os.path.join(folder, n)}.npy")] + \
           [f for n in want for f in ("--out", f"{n}={os.path.join(folder, n)}.npy")] + \
           [f for of in sizes for n, size in of.items() for f in ("--set", f"{n}={size}")]


def same(x, y):
    """A NaN has any bits; what depends on the order of programs says itself whether it is right."""
    if callable(y):
        return y(x)
    if x.dtype == np.uint16 and y.dtype == np.uint16:
        x, y = ladder.from_bits(x, "bf16"), ladder.from_bits(y, "bf16")
    return np.array_equal(x, y, equal_nan=x.dtype.kind == "f")


def judge(cases, about):
    """Whether all are right, run and interpreted: (name, source, inputs, what is right, further outputs[, sizes that no input
    has])."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    options = parser.parse_args()
    runs, batch, wrong = [], [], []
    with tempfile.TemporaryDirectory() as top:
        for number, (name, source, inputs, want, more, *sizes) in enumerate(cases):
            outs = {**want, **dict.fromkeys(more)}
            at = written(top, f"{name} interpreted".replace(" ", "-"), source, inputs)
            done = subprocess.run([options.tilec, "run", os.path.join(at, "k.tile")] + arguments(at, inputs, outs, sizes),
                                  capture_output=True, text=True)
            if done.returncode != 0:
                wrong.append(f"{name}: {done.stderr}")
            else:
                runs.append((at, want))
            for flags in ways(number):
                at = written(top, name + "".join(flags), source, inputs)
                ptx = os.path.join(at, "k.ptx")
                done = subprocess.run([options.tilec, os.path.join(at, "k.tile"), "-o", ptx, "--verify"] + flags, capture_output=True, text=True)
                if done.returncode != 0:
                    wrong.append(f"{name} {' '.join(flags)}: {done.stderr}")
                    continue
                runs.append((at, want))
                batch.append(" ".join([ptx, "--device", "sim", "--seeds", "2"] + arguments(at, inputs, outs, sizes)))
        said = subprocess.run([options.tilerun, "--batch"], input="\n".join(batch) + "\n", capture_output=True, text=True, check=True).stdout
        if said.count("status 0\n") != len(batch):
            wrong.append(f"not all runs ended well:\n{said}")
        for at, want in runs:
            for n, x in want.items():
                path = os.path.join(at, n + ".npy")
                if not os.path.exists(path) or not same(np.load(path), x):
                    wrong.append(f"{os.path.basename(at)}: {n} is wrong")
    print("\n".join(wrong + [f"{len(runs)} runs, {len(wrong)} wrong"]))
    return 1 if wrong else 0


def main():
    cases = []
    for kind, dtype, shape, tile in CASES:
        name = f"{kind}-{dtype}-{'x'.join(map(str, shape))}-{'x'.join(map(str, tile))}"
        cases.append((name, *make(kind, dtype, shape, tile), ["Z"] if kind == "tiles" else []))
    return judge(cases, __doc__)


if __name__ == "__main__":
    sys.exit(main())
