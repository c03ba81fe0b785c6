#!/usr/bin/env python3
"""scans_by.py - scan and reduce by functions of the program, of tuples and of single tiles, of any size.

    scans_by.py --tilec T --tilerun R

Functions that are associative and mind the order: recurrences, the last one, sums that begin anew, products of matrices,
with parts of several types; each way, along each axis, rows and columns whole and cut, padding at the end and between.
Compiled, in the simulator, and in the reference interpreter, against NumPy, which goes element by element.  All numbers
are small whole ones, so that results are exact in any order.
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import ladder  # noqa: E402
import scans  # noqa: E402

RECURRENCE = "fn f(x, y) { return (a = x.a * y.a, b = x.b * y.a + y.b); }\n"
BEST = "fn f(x, y) {\n    let later = y.v > x.v;\n    return (v = where(later, y.v, x.v), at = where(later, y.at, x.at), n = x.n + y.n);\n}\n"
ANEW = "fn f(x, y) { return (begins = x.begins || y.begins, s = where(y.begins, y.s, x.s + y.s)); }\n"
SEVEN = "fn row(a, b, c, d) { return (a * c + b * d) % 7; }\n" \
        "fn f(x, y) { return (row(x.0, x.1, y.0, y.2), row(x.0, x.1, y.1, y.3), row(x.2, x.3, y.0, y.2), row(x.2, x.3, y.1, y.3)); }\n"


def seven(x, y):
    return tuple(np.fmod(x[2 * i] * y[j] + x[2 * i + 1] * y[2 + j], 7) for i in range(2) for j in range(2))


# of a name: the function, what it does in NumPy, the tuple made of the tiles x and y, in NumPy too, results' names and types
KINDS = {
    "recurrence": (RECURRENCE, lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]), "(x, y)", lambda x, y: (np.sign(x), y), ("a", "b")),
    "best": (BEST, lambda x, y: (np.maximum(x[0], y[0]), np.where(y[0] > x[0], y[1], x[1]), x[2] + y[2]),
             "(v = x, y as i32, 1)", lambda x, y: (x, y, np.ones_like(x)), ("v", "at", "n")),
    "anew": (ANEW, lambda x, y: (x[0] | y[0], np.where(y[0], y[1], x[1] + y[1])), "(x == 2, y)",
             lambda x, y: (x == 2, y), (None, "s")),
    "seven": (SEVEN, seven, "(x as i32, y as i32, 1, 2)", lambda x, y: (x, y, np.ones_like(x), 2 * np.ones_like(x)), ("0", "1", "2", "3")),
    "last": ("fn f(x, y) { return y; }\n", lambda x, y: y, "x", lambda x, y: (x,), ("",)),
    "sum": ("fn f(x, y) { return x + y; }\n", lambda x, y: (x[0] + y[0],), "y", lambda x, y: (y,), ("",)),
}
TYPES = {"best": {"at": "i32", "n": "i32"}, "seven": dict.fromkeys("0123", "i32")}
# of a letter: the call, axis, whether backwards, whether of all
CALLS = {"P": ("scan", 0, False), "Q": ("scan", 1, False), "R": ("scan", 0, True), "T": ("scan", 1, True), "U": ("reduce", 0, False),
         "V": ("reduce", 1, False)}


def results(kind):
    return [(k, n) for k, n in enumerate(KINDS[kind][4]) if n is not None]


def type_of(kind, name, dtype):
    return TYPES.get(kind, {}).get(name, dtype)


def sourced(kind, dtype, tile, rank):
    function, _, parts, _, _ = KINDS[kind]
    shape, at = ("[S, C]", "[m, n]") if rank == 2 else ("[C]", "[n]")
    calls = {c: what for c, what in CALLS.items() if what[1] < rank}
    outs, body = "", ""
    for c, (name, axis, back) in calls.items():
        way = ", reverse=true" if back else ""
        body += f"    let {c.lower()} = {name}(f, {parts}, axis={axis}{way});\n"
        for k, n in results(kind):
            whole = name == "scan"
            tiles = "Sn" if axis == 0 else "Cn"  # tiles along the axis that is gone
            to = shape if whole else "[Cn]" if rank == 1 else f"[{tiles}, C]" if axis == 0 else f"[S, {tiles}]"
            place = at if whole else "[n.number]" if rank == 1 else "[m.number, n]" if axis == 0 else "[m, n.number]"
            outs += f", {c}{k}: out {type_of(kind, n, dtype)}{to}"
            body += f"    store {c}{k}{place} = {c.lower()}{'.' + n if n else ''};\n"
    grid = f"m in tiles(S, {tile[0]}), n in tiles(C, {tile[1]})" if rank == 2 else f"n in tiles(C, {tile[0]})"
    return (function + f"kernel scans(X: in {dtype}{shape}, Y: in {dtype}{shape}{outs}) {{\n    grid {grid};\n"
            f"    let (x, y) = (load X{at}, load Y{at});\n" + body + "}\n")


def gone_along(does, parts, axis, back, size, whole):
    """Element by element, tile by tile."""
    parts = [np.moveaxis(p, axis, 0) for p in parts]
    out = [[] for _ in parts]
    for at in range(0, parts[0].shape[0], size):
        cut = [p[at:at + size] for p in parts]
        state, states = tuple(p[-1 if back else 0] for p in cut), []
        for i in range(cut[0].shape[0]):
            i = cut[0].shape[0] - 1 - i if back else i
            state = state if not states else does(state, tuple(p[i] for p in cut))
            states.append(state)
        for o, k in zip(out, range(len(parts))):
            line = [s[k] for s in states]
            o += (line[::-1] if back else line) if whole else line[-1:]
    return [np.moveaxis(np.array(o), 0, axis) for o in out]


def stored(x, dtype):
    if dtype == "u32": # modulo 2^32
        return x.astype(np.int64).astype(np.uint32)
    return x.astype(np.int32) if dtype == "i32" else ladder.to_bits(x.astype(np.float64), dtype)


def make(kind, dtype, shape, tile):
    """Source, inputs, what is right, and sizes that no input has."""
    r = np.random.default_rng([len(kind), len(dtype), *shape, *tile])
    rank = len(shape)
    x, y = r.integers(-1, 2, shape), r.integers(-2, 3, shape)
    if kind == "best" or kind == "anew":
        x = r.integers(-9, 10, shape) if kind == "best" else r.integers(0, 3, shape)
    if kind == "seven":
        x, y = r.integers(0, 7, shape), r.integers(0, 7, shape)
    does, parts = KINDS[kind][1], KINDS[kind][3](x, y)
    if kind == "recurrence":
        parts = (x, y)
    want, sizes = {}, {}
    for c, (name, axis, back) in CALLS.items():
        if axis >= rank:
            continue
        made = gone_along(does, parts, axis, back, tile[axis], name == "scan")
        for k, n in results(kind):
            want[f"{c}{k}"] = stored(made[k], type_of(kind, n, dtype))
        if name == "reduce":
            sizes["Sn" if rank == 2 and axis == 0 else "Cn"] = made[0].shape[axis]
    return sourced(kind, dtype, tile, rank), {"X": stored(x, dtype), "Y": stored(y, dtype)}, want, sizes


SHAPES = [((1, 1), (1, 1)), ((21, 37), (16, 32)), ((64, 64), (64, 64)), ((5, 200), (8, 128)), ((33, 100), (16, 24)), ((130, 7), (128, 8)),
          ((70, 3), (64, 1)), ((19, 50), (48, 80)), ((100,), (32,)), ((1000,), (1024,)), ((5,), (7,))]
FLOATS = {"recurrence": ("f32", "f16"), "best": ("bf16",), "anew": ("f32",), "seven": (), "last": ("f16",), "sum": ("f32", "u32")}


def cases():
    """Each kind with each type on some of the shapes, all shapes among them."""
    number = 0
    for kind in KINDS:
        for dtype in FLOATS[kind] + ("i32",):
            for k in range(2):
                shape, tile = SHAPES[(number * 2 + k) % len(SHAPES)]
                source, inputs, want, sizes = make(kind, dtype, shape, tile)
                yield f"{kind}-{dtype}-{'x'.join(map(str, shape))}-{'x'.join(map(str, tile))}", source, inputs, want, [], sizes
            number += 1


# Padding between elements: those of a pack whose last range ends in a tile.
BETWEEN = RECURRENCE + """
kernel scans(X: in i32[S, H], Y: in i32[S, H], P: out i32[S, H], Q: out i32[S, H], R: out i32[Sn]) {
    grid m in tiles(S, 8);
    let (h, s) = pack(iota(4), m);
    let (x, y) = (load X[s, h], load Y[s, h]);
    store P[s, h] = scan(f, (x, y), axis=0).b;
    store Q[s, h] = scan(f, (x, y), axis=0, reverse=true).b;
    store R[m.number] = reduce(f, (x, y), axis=0).b;
}
"""
# Tiles behind the end, of nothing.
NOTHING = RECURRENCE + """
fn flag(x, y) { return x && y; }
kernel scans(X: in i32[S], Y: in i32[S], R: out i32[4], F: out f32[4], H: out f16[4], T: out bool[4]) {
    grid i in 4;
    let n = tiles(S, 16)[i];
    let (x, y) = (load X[n], load Y[n]);
    store R[i] = reduce(f, (x, y), axis=0).b;
    store F[i] = reduce(f, (x as f32, y as f32), axis=0).b;
    store H[i] = reduce(f, (x as f16, y as f16), axis=0).b;
    store T[i] = reduce(flag, x > -5, axis=0);
}
"""
# Parts that have padding along one axis each, or none; the same function for two types.
APART = """
fn f(x, y) { return (x.0 + y.0, where(y.1 > x.1, y.1, x.1), y.2); }
kernel scans(X: in i32[S], Y: in i32[C], P: out i32[S, C], Q: out f32[S, C], R: out i32[S], T: out f32[Sn, C], W: out i32[S]) {
    grid m in tiles(S, 16);
    let n = tiles(C, 32)[0];
    let (x, y) = ((load X[m])[:, None], (load Y[n])[None, :]);
    store P[m, n] = scan(f, (1, x, y), axis=0).0;
    store Q[m, n] = scan(f, (0.5, x as f32, y as f32), axis=1, reverse=true).0;
    let last = reduce(f, (1, x, y), axis=1);
    store R[m] = last.0;
    store W[m] = last.2;
    store T[m.number, n] = reduce(f, (0.5, x as f32, y as f32), axis=0).1;
}
"""
# Sums of products as they lie, carried from tile to tile along the columns; a first dimension of three.
CARRIED = RECURRENCE + """
kernel scans(X: in bf16[S, K] align(16), Y: in bf16[C, K] align(16), P: out f32[S, C], R: out f32[S], T: out f32[S, C]) {
    grid m in tiles(S, 64);
    let q = load X[m, iota(64)];
    var state = zeros<f32>[64];
    for n in tiles(C, 64) {
        let s = mma(q, (load Y[n, iota(64)]).T);
        let parts = (where(s > 40.0, 0.0, where(s > 0.0, 1.0, -1.0)), min(max(s, -3.0), 3.0));
        let t = scan(f, parts, axis=1);
        store P[m, n] = t.a * state[:, None] + t.b;
        let last = reduce(f, parts, axis=1);
        state = last.a * state + last.b;
        store T[m, n] = scan(f, parts, axis=0).b;
    }
    store R[m] = state;
}
"""


def between(rows):
    r = np.random.default_rng(rows)
    x, y = r.integers(-1, 2, (rows, 4)), r.integers(-2, 3, (rows, 4))
    want, does, last = {"P": np.zeros_like(x), "Q": np.zeros_like(x)}, KINDS["recurrence"][1], []
    for at in range(0, rows, 8):
        line = [(h, s) for h in range(4) for s in range(at, min(at + 8, rows))] # in the order of the pack
        for n, back in (("P", False), ("Q", True)):
            parts = [np.array([v[s, h] for h, s in line]) for v in (x, y)]
            for (h, s), v in zip(line, gone_along(does, parts, 0, back, len(line), True)[1]):
                want[n][s, h] = v
        last.append(want["P"][min(at + 8, rows) - 1, 3])
    want["R"] = np.array(last)
    return BETWEEN, {"X": stored(x, "i32"), "Y": stored(y, "i32")}, {n: stored(v, "i32") for n, v in want.items()}, {"Sn": len(last)}


def carried(rows, columns):
    r = np.random.default_rng([rows, columns])
    x, y = r.integers(-3, 4, (rows, 64)), r.integers(-3, 4, (columns, 64))
    s, does = (x @ y.T).astype(np.float64), KINDS["recurrence"][1]
    parts = [np.where(s > 40, 0.0, np.where(s > 0, 1.0, -1.0)), np.clip(s, -3, 3)]
    along = gone_along(does, parts, 1, False, columns, True)[1]
    want = {"P": along, "R": along[:, -1], "T": gone_along(does, parts, 0, False, 64, True)[1]}
    return CARRIED, {"X": ladder.to_bits(x, "bf16"), "Y": ladder.to_bits(y, "bf16")}, {n: stored(v, "f32") for n, v in want.items()}, {}


def apart(rows, columns):
    r = np.random.default_rng([rows, columns])
    x, y = r.integers(-9, 0, rows), r.integers(-9, 0, columns)
    greatest = [x[at:at + 16].max() for at in range(0, rows, 16)]
    want = {"P": np.repeat(np.arange(rows)[:, None] % 16 + 1, columns, axis=1), "R": np.full(rows, columns), "W": np.full(rows, y[-1])}
    want = {n: stored(v, "i32") for n, v in want.items()}
    want["Q"] = stored(np.repeat(np.arange(columns, 0, -1)[None, :] * 0.5, rows, axis=0), "f32")
    want["T"] = stored(np.repeat(np.array(greatest)[:, None], columns, axis=1), "f32")
    return APART, {"X": stored(x, "i32"), "Y": stored(y, "i32")}, want, {"Sn": len(greatest)}


def nothing(n):
    r = np.random.default_rng(n)
    x, y = r.integers(-1, 2, n), r.integers(-2, 3, n)
    lasts = gone_along(KINDS["recurrence"][1], [x, y], 0, False, 16, False)[1]
    there = np.arange(4) < len(lasts)
    lasts = np.where(there, np.resize(lasts, 4), 0)
    want = {name: stored(lasts, dtype) for name, dtype in (("R", "i32"), ("F", "f32"), ("H", "f16"))}
    return NOTHING, {"X": stored(x, "i32"), "Y": stored(y, "i32")}, {**want, "T": there.astype(np.uint8)}, {}


def special():
    for n in (1, 16, 40):
        source, inputs, want, sizes = nothing(n)
        yield f"nothing-{n}", source, inputs, want, [], sizes
    for rows in (16, 21, 3):
        source, inputs, want, sizes = between(rows)
        yield f"between-{rows}", source, inputs, want, [], sizes
    for rows, columns in ((16, 32), (21, 19), (1, 1)):
        source, inputs, want, sizes = apart(rows, columns)
        yield f"apart-{rows}-{columns}", source, inputs, want, [], sizes
    for rows, columns in ((128, 128), (100, 130), (5, 70)):
        source, inputs, want, sizes = carried(rows, columns)
        yield f"carried-{rows}-{columns}", source, inputs, want, [], sizes


if __name__ == "__main__":
    sys.exit(scans.judge([*cases(), *special()], __doc__))
