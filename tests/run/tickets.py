#!/usr/bin/env python3
"""tickets.py - let old = atomic_add X[i] += 1; and of atomic_max and atomic_min: places in a list, what programs of a launch
give each other, own statements before, elements outside of the tensor.

    tickets.py --tilec T --tilerun R

Compiled, in the simulator under several seeds, and in the reference interpreter, against NumPy.  Which program comes first is
not said: each output is the same in every order, or says itself whether it is right.
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import ladder  # noqa: E402
import scans  # noqa: E402

# Rows that are positive go to a list, in any order of tiles; each program takes as many places as it has.
PLACES = """
kernel places(X: in i32[S], Next: inout i32[3], List: out i32[S], Twice: out i32[P], Sum: inout i32[1], Hist: inout i32[4],
              Outside: out i32[P, 2]) {{
    require P == cdiv(S, {rows});
    grid m in tiles(S, {rows});
    let x = load X[m];
    let count = sum(where(m < S, 1, 0));
    let at = atomic_add Next[0] += count;
    store List[tiles(at..at + count, {rows})[0]] = x;
    let place = atomic_add Next[1] += 1;
    store Twice[place] = 2 * place;
    for k in 0..3 {{
        let t = atomic_add Next[2] += 1;
        atomic_add Sum[0] += t;
        if t % 2 == 0 {{
            let h = atomic_add Hist[t & 3] += 1;
            atomic_max Hist[(t & 2) + 1] = h;       // how often before
        }}
    }}
    let none = atomic_add Next[m.number + 3] += 5;
    let less = atomic_max Next[-1 - m.number] = 5;
    store Outside[m.number, 0] = none;
    store Outside[m.number, 1] = less;
}}
"""


def places(s, rows):
    x, p = np.random.default_rng([s, rows]).integers(-99, 99, s), -(-s // rows)
    t = np.arange(3 * p)
    even = [int(np.sum(t % 4 == k)) for k in (0, 2)]
    want = {"List": lambda y: np.array_equal(np.sort(y), np.sort(x)), "Twice": 2 * np.arange(p), "Sum": [t.sum()],
            "Next": [s, p, 3 * p], "Hist": [even[0], max(even[0] - 1, 0), even[1], max(even[1] - 1, 0)],
            "Outside": np.zeros((p, 2))}
    zeros = {"Next": 3, "Sum": 1, "Hist": 4}
    inputs = {"X": x.astype(np.int32), **{n: np.zeros(k, np.int32) for n, k in zeros.items()}}
    return (PLACES.format(rows=rows), inputs, {n: v if callable(v) else np.array(v, np.int32) for n, v in want.items()}, [],
            {"P": p})


# What each program adds to is its own; other threads have added to it before.  Raised and lowered elements are all programs'.
OWN = """
kernel own(X: in {t}[G, 512], O: inout {t}[G], V: inout {t}[G, 512], A: out {t}[G], B: out {t}[G], E: out {t}[G],
           N: inout {t}[2], Sum: inout {t}[1]{more}) {{
    grid g in G;
    let x = load X[g, :];
    atomic_add V[g, :] += x;
    let c = atomic_add V[g, 511] += {two};
    let a = atomic_add O[g] += {two};
    atomic_add O[g] += {three};
    let b = atomic_add O[g] += a;
    store A[g] = a;
    store B[g] = b;
    store E[g] = c;
    let n = atomic_add N[0] += {two};
    atomic_add Sum[0] += n;{raise}
}}
"""
RAISE = """
    let m = load X[g, 5];
    let before = atomic_max M[0] = m;
    atomic_max M[1] = max(before, m);
    let above = atomic_min M[2] = m;
    atomic_min M[3] = min(above, m);"""
NANS = """
    let same = atomic_max M[4] = load X[g, 6];      // NaN
    let too = atomic_min M[5] = load X[g, 6];
    atomic_max M[6] = abs(same + 2.0) + abs(too - 2.0);"""


def own(t, g):
    r = np.random.default_rng([len(t), g])
    x, o, v = (r.integers(0 if t == "u32" else -4, 5, s).astype(np.float64) for s in ((g, 512), g, (g, 512)))
    raises, zero = t in ("f32", "i32", "u32"), "" if t in ("i32", "u32") else ".0"
    source = OWN.format(t=t, two="2" + zero, three="3" + zero, more=f", M: inout {t}[7]" if raises else "",
                        **{"raise": RAISE * raises + NANS * (t == "f32")})
    want = {"A": o, "B": o + 5, "O": 2 * o + 5, "E": v[:, 511] + x[:, 511], "V": v + x + 2 * (np.arange(512) == 511), "N": [2 * g, 0],
            "Sum": [g * (g - 1)]}
    was = {"O": o, "V": v, "N": np.zeros(2), "Sum": np.zeros(1)}
    if raises:
        if t == "f32":
            x[0, 5] = x[:, 6] = np.nan
            want["V"] = v + x + 2 * (np.arange(512) == 511)
        was["M"] = np.array([-3, -3, 3, 3, -2, 2, 0]) if t != "u32" else np.array([1, 1, 3, 3, 0, 0, 0])
        most, least = np.fmax.reduce([was["M"][0], *x[:, 5]]), np.fmin.reduce([was["M"][2], *x[:, 5]])
        want["M"] = [most, most, least, least, *was["M"][4:]]

    def stored(y):
        return np.array(y).astype(np.uint32) if t == "u32" else scans.stored(np.array(y, np.float64), t)
    return source, {n: stored(y) for n, y in {**was, "X": x}.items()}, {n: stored(y) for n, y in want.items()}, []


def main():
    cases = [(f"places-{s}-{rows}", *places(s, rows)) for s, rows in ((1, 8), (100, 16), (333, 32))]
    cases += [(f"own-{t}", *own(t, 7)) for t in ("f32", "i32", "u32", "bf16", "f16")]
    return scans.judge(cases, __doc__)


if __name__ == "__main__":
    sys.exit(main())
