#!/usr/bin/env python3
"""ranges.py - padding, as docs/language.md (section 7) has it: small programs against NumPy.

    ranges.py --tilec T --tilerun R [--only NAME] [--part I/N]

Each case is a program in the language and the same in Python, over tiles that know along each dimension which
elements are padding.  Ranges that are shifted, that end inside of the tensor or behind it, that have no padding, in
packs; what loops carry, branches that are not taken and loops without iterations; stores and additions, between
elements that must stay as they are.  What is not to be read is NaN and infinity.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np

CONFIGS = [("sm_80", "-O0"), ("sm_80", "-O3"), ("sm_90", "-O0"), ("sm_90", "-O3"), ("sm_100", "-O3"),
           ("sm_80", "-O3 -fno-split-loops -fno-stage-output"), ("sm_90", "-O3 -fno-plan")]


class Range:
    def __init__(self, start, hi, n, shift=0, pad=None):
        self.index = start + shift + np.arange(n)
        self.pad = self.index - shift >= hi if pad is None else pad

    def __add__(self, by):
        moved = Range(0, 0, len(self.index), 0, self.pad)
        moved.index = self.index + by
        return moved

    def tile(self):
        return Tile(self.index.astype(np.float64), [self.pad])


def iota(n):
    return Range(0, 1 << 30, n)


def tiles(lo, hi, n):
    return [Range(start, hi, n) for start in range(lo, hi, n)]


def pack(a, b):
    """Both parts, as ranges over all combinations."""
    na, nb = len(a.index), len(b.index)
    first, second = Range(0, 0, 0), Range(0, 0, 0)
    first.index, second.index = np.repeat(a.index, nb), np.tile(b.index, na)
    first.pad = second.pad = np.repeat(a.pad, nb) | np.tile(b.pad, na)
    first.packed = second.packed = True
    return first, second


class Tile:
    """Values, and for each dimension which of its elements are padding."""

    def __init__(self, value, pads=None):
        self.value = np.asarray(value, np.float64)
        self.pads = [np.zeros(n, bool) for n in self.value.shape] if pads is None else pads

    def with_(self, other, f):
        other = other if isinstance(other, Tile) else Tile(other)
        with np.errstate(all="ignore"):
            value = f(self.value, other.value)
        pads = [np.zeros(n, bool) for n in value.shape]
        for t in (self, other):
            for k, pad in enumerate(t.pads):
                at = k + value.ndim - t.value.ndim
                if len(pad) == value.shape[at]:
                    pads[at] = pads[at] | pad
        return Tile(value, pads)

    def __add__(self, other):
        return self.with_(other, np.add)

    def __sub__(self, other):
        return self.with_(other, np.subtract)

    def __mul__(self, other):
        return self.with_(other, np.multiply)

    def map(self, f):
        with np.errstate(all="ignore"):
            return Tile(f(self.value), self.pads)

    def exp(self):
        return self.map(np.exp)

    def bf16(self):
        return self.map(lambda v: bf16(v).astype(np.float64))

    def T(self):
        return Tile(self.value.T, self.pads[::-1])

    def rows(self):
        return Tile(self.value[:, None], [self.pads[0], np.zeros(1, bool)])

    def cols(self):
        return Tile(self.value[None, :], [np.zeros(1, bool), self.pads[0]])

    def outside(self, pads=None):
        out = np.zeros(self.value.shape, bool)
        for k, pad in enumerate(self.pads if pads is None else pads):
            out |= pad.reshape([-1 if i == k else 1 for i in range(self.value.ndim)])
        return out

    def reduce(self, f, neutral, axis=None):
        axes = range(self.value.ndim) if axis is None else [axis]
        skip = self.outside([pad if k in axes else np.zeros(len(pad), bool) for k, pad in enumerate(self.pads)])
        value = f(np.where(skip, neutral, self.value), axis=axis)
        return Tile(value, [] if axis is None else [pad for k, pad in enumerate(self.pads) if k != axis])

    def sum(self, axis=None):
        return self.reduce(np.sum, 0.0, axis)

    def max(self, axis=None):
        return self.reduce(np.max, -np.inf, axis)


def mma(a, b, acc=None):
    skip = a.pads[1] | b.pads[0]
    value = np.where(skip[None, :], 0.0, a.value) @ np.where(skip[:, None], 0.0, b.value)
    out = Tile(value, [a.pads[0], b.pads[1]])
    return out if acc is None else acc + out


def keep(new, old, *ranges):
    """An assignment in loops over `ranges` to what is declared outside of them."""
    gone = [np.any([r.pad for r in ranges if len(r.pad) == len(pad)] + [np.zeros(len(pad), bool)], axis=0)
            for pad in new.pads]
    inside = ~new.outside([pad & g for pad, g in zip(new.pads, gone)])
    value = np.where(inside, new.value, old.value)
    return Tile(value, [(pad & ~g) | o for pad, g, o in zip(new.pads, gone, old.pads)])


def keep_columns(new, old, n):
    """The same where rows and columns are equally many, and n is along the columns."""
    value = np.where(n.pad[None, :], old.value, new.value)
    return Tile(value, [new.pads[0] | old.pads[0], old.pads[1]])


def indices(tensor, subs):
    """The subscripts as arrays that broadcast, whether each element is there, and the padding of each dimension."""
    arrays, pads, shape, packed = [], [], [], None
    for d, sub in enumerate(subs):
        if isinstance(sub, slice):
            sub = Range(0, 1 << 30, tensor.shape[d])
        if isinstance(sub, (int, np.integer)):
            arrays.append((None, np.array(sub)))
        elif getattr(sub, "packed", False) and packed is not None:
            pads[packed] = pads[packed] | sub.pad
            arrays.append((packed, sub.index))
        else:
            if getattr(sub, "packed", False):
                packed = len(pads)
            arrays.append((len(pads), sub.index))
            pads.append(sub.pad)
            shape.append(len(sub.index))
    full = [a if at is None else a.reshape([-1 if k == at else 1 for k in range(len(shape))]) for at, a in arrays]
    there = np.ones(shape, bool)
    for a, n in zip(full, tensor.shape):
        there = there & (a >= 0) & (a < n)
    clipped = tuple(np.broadcast_to(np.clip(a, 0, n - 1), shape) for a, n in zip(full, tensor.shape))
    return clipped, there, pads


def load(tensor, *subs):
    at, there, pads = indices(tensor, subs)
    tile = Tile(np.where(there, tensor[at], 0.0), pads)
    tile.value = np.where(tile.outside(), np.nan, tile.value)  # what is padding means nothing
    return tile


def write(tensor, subs, tile, add=False):
    at, there, pads = indices(tensor, subs)
    tile = Tile(np.zeros(there.shape), pads) + tile
    inside = there & ~tile.outside()
    where = tuple(a[inside] for a in at)
    if add:
        np.add.at(tensor, where, tile.value[inside])
    else:
        tensor[where] = tile.value[inside]


# ---- the programs ----

CASES = {}


def case(source, sizes=(5, 32, 70), dtype=None, **shapes):
    def add(f):
        CASES[f.__name__] = (source.replace(": out ", ": inout "), f, sizes, dtype or {}, shapes)
        return f
    return add


@case("""kernel k(X: in f32[C], A: out f32[1], B: out f32[1], D: out f32[1]) {
    grid g in 1;
    store A[0] = sum(exp(load X[iota(32)]));
    store B[0] = sum(exp(load X[iota(32) + (-7)]));
    var d = 0.0;
    for n in tiles(C, 32) { d += sum(exp(load X[n + 1])); }
    store D[0] = d;
}""", X="C", A="1", B="1", D="1")
def iota_pad(t, c):
    t.A[0] = load(t.X, iota(32)).exp().sum().value
    t.B[0] = load(t.X, iota(32) + (-7)).exp().sum().value
    t.D[0] = sum(load(t.X, n + 1).exp().sum().value for n in tiles(0, c, 32))


@case("""kernel k(X: in f32[C], A: out f32[C], B: out f32[1], lo: i32, hi: i32) {
    grid g in 1;
    var total = 0.0;
    for n in tiles(lo..hi, 16) {
        let x = load X[n];
        store A[n] = x * 2.0;
        total += sum(exp(x));
        total += sum(n as f32) * 0.01 + max((n + 3) as f32) * 0.01;
    }
    store B[0] = total;
}""", X="C", A="C", B="1", lo="3", hi="C - 2")
def bounded(t, c):
    total = 0.0
    for n in tiles(3, c - 2, 16):
        x = load(t.X, n)
        write(t.A, (n,), x * 2.0)
        total += x.exp().sum().value + n.tile().sum().value * 0.01 + (n + 3).tile().max().value * 0.01
    t.B[0] = total


@case("""kernel k(X: in f32[C, 64], P: in i32[4], A: out f32[C, 64], B: inout f32[C, 64], D: inout i32[C], N: out f32[64]) {
    grid b in 3;
    let lo = load P[b];
    let hi = load P[b + 1];
    var total = zeros<f32>[64];
    for n in tiles(lo..hi, 32) {
        let x = load X[n, :];
        store A[n, :] = exp(x);
        atomic_add B[n, :] += x * 3.0;
        atomic_add D[n] += n;
        total = total + sum(exp(x), axis=0);
    }
    if b == 1 { store N[:] = total; }
}""", dtype={"P": "parts", "D": "i32"}, X="C,64", P="4", A="C,64", B="C,64", D="C", N="64", poison="X")
def packed_sequences(t, c):
    for b in range(3):
        lo, hi = int(t.P[b]), int(t.P[b + 1])
        total = np.zeros(64)
        for n in tiles(lo, hi, 32):
            x = load(t.X, n, slice(None))
            write(t.A, (n, slice(None)), x.exp())
            write(t.B, (n, slice(None)), x * 3.0, add=True)
            write(t.D, (n,), n.tile(), add=True)
            total += x.exp().sum(0).value
        if b == 1:
            t.N[:] = total


@case("""kernel k(Q: in bf16[C, 64], K: in bf16[C, 64], V: in bf16[C, 64], P: in i32[4], O: out f32[C, 64], G: inout f32[C, 64], longest: i32) {
    grid m in tiles(longest, 64), b in 3;
    let lo = load P[b];
    let hi = load P[b + 1];
    let r = m + lo;
    if hi > lo {
        var acc = zeros<f32>[64, 64];
        for i in tiles(0..hi - lo, 32) {
            let n = i + lo;
            let s = mma(load Q[r, :], (load K[n, :]).T) * 0.1;
            acc = mma(s as bf16, load V[n, :], acc);
            atomic_add G[n, :] += mma((s as bf16).T, load Q[r, :]);
        }
        for i in tiles(0..min(hi - lo, longest), 64) {
            let n = i + lo;
            if all(n == r) { store O[n, :] = acc; }
        }
    }
}""", sizes=(40, 150), dtype={"P": "parts", "Q": "bf16", "K": "bf16", "V": "bf16"}, Q="C,64", K="C,64", V="C,64", P="4",
      O="C,64", G="C,64", longest="200", poison="QKV", tolerance=2e-2)
def attention_parts(t, c):
    for b in range(3):
        lo, hi = int(t.P[b]), int(t.P[b + 1])
        for m in tiles(0, 200, 64):
            r = m + lo
            if hi <= lo:
                continue
            acc = Tile(np.zeros((64, 64)))
            for i in tiles(0, hi - lo, 32):
                n = i + lo
                s = mma(load(t.Q, r, slice(None)), load(t.K, n, slice(None)).T()) * 0.1
                acc = keep(mma(s.bf16(), load(t.V, n, slice(None)), acc), acc, i)
                write(t.G, (n, slice(None)), mma(s.bf16().T(), load(t.Q, r, slice(None))), add=True)
            for i in tiles(0, min(hi - lo, 200), 64):
                n = i + lo
                both = n.tile().with_(r.tile(), np.equal)
                if both.value[~both.pads[0]].all():
                    write(t.O, (n, slice(None)), acc)


@case("""kernel k(X: in f32[C], A: out f32[C], B: out f32[C]) {
    grid m in tiles(C, 32);
    store A[m] = load X[m - 1] + load X[m + 1];
    store B[m] = load X[m] * 0.0 + max(load X[m + 1]);
}""", X="C", A="C", B="C")
def neighbours(t, c):
    for m in tiles(0, c, 32):
        write(t.A, (m,), load(t.X, m + -1) + load(t.X, m + 1))
        write(t.B, (m,), load(t.X, m) * 0.0 + load(t.X, m + 1).max().value)


@case("""kernel k(X: in f32[C], A: inout f32[200], B: inout f32[200], off: i32) {
    grid m in tiles(C, 32);
    store A[m + off] = load X[m];
    atomic_add B[m + off] += load X[m];
    let r = iota(32) + 120;
    if sum(m) > 0 { atomic_add B[r] += load X[m]; }
}""", X="C", A="200", B="200", off="17")
def shifted_stores(t, c):
    for m in tiles(0, c, 32):
        write(t.A, (m + 17,), load(t.X, m))
        write(t.B, (m + 17,), load(t.X, m), add=True)
        if m.tile().sum().value > 0:
            write(t.B, (iota(32) + 120,), load(t.X, m), add=True)


@case("""kernel k(X: in f32[C, 64], B: out f32[C], n: i32) {
    grid m in tiles(C, 64);
    var t = full<f32>[64](1.0);
    if n > 3 { t = sum(load X[m, :], axis=1); }
    var u = full<f32>[64](1.0);
    for k in 0..n { u = u * 0.5 + sum(load X[m, :], axis=1); }
    var v = u;
    var w = t;
    for k in 0..n { v = w; w = load X[m, 3]; }
    store B[m] = t * 0.0 + sum(t) + 2.0 * max(u) + 4.0 * sum(v) + 8.0 * sum(w);
}""", X="C,64", B="C", n=(0, 1, 2, 5))
def ways(t, c, n):
    for m in tiles(0, c, 64):
        one = Tile(np.ones(64))
        rows = load(t.X, m, slice(None)).sum(1)
        tt = rows if n > 3 else one
        u = one
        for _ in range(n):
            u = u * 0.5 + rows
        v, w = u, tt
        for _ in range(n):
            v, w = w, load(t.X, m, 3)
        total = tt.sum().value + 2 * u.max().value + 4 * v.sum().value + 8 * w.sum().value
        write(t.B, (m,), tt * 0.0 + total)


@case("""kernel k(X: in f32[C, 64], Y: in f32[C, 64], A: inout f32[64, 64], n: i32) {
    grid m in tiles(C, 64);
    if sum(m) >= 0 {
        var t = full<f32>[64, 64](1.0);
        if n > 0 { t = load X[m, :]; if n > 1 { t = exp(load Y[m, :]); } }
        var u = t;
        for k in 1..n { u = u + t; }
        if sum(m) < 5000 { store A[iota(64), :] = u; }
    }
}""", sizes=(5, 32, 64), X="C,64", Y="C,64", A="64,64", n=(0, 1, 2, 3))
def ways_stored(t, c, n):
    for m in tiles(0, c, 64):
        tile = Tile(np.ones((64, 64)))
        if n > 0:
            tile = load(t.Y, m, slice(None)).exp() if n > 1 else load(t.X, m, slice(None))
        u = tile
        for _ in range(1, n):
            u = u + tile
        write(t.A, (iota(64), slice(None)), u)


@case("""kernel k(X: in f32[C, 64], A: out f32[64], B: out f32[64], D: out f32[64], flag: i32) {
    grid g in 1;
    var all = full<f32>[32](0.5);
    var some = full<f32>[32](0.5);
    var rows = zeros<f32>[64];
    for n in tiles(C, 32) {
        let x = sum(load X[n, :], axis=1);
        let next = all + exp(x);
        rows = rows + sum(next);
        all = next;
        rows = rows + sum(all);
        if flag > 0 { some = x; }
        var mine = zeros<f32>[32];
        mine = x;
        rows = rows + max(mine + 1.0) + sum(some);
        for j in tiles(C, 32) { mine = mine + sum(load X[j, :], axis=1) * 0.1; }
        rows = rows + sum(mine);
    }
    store A[:] = rows;
    store B[iota(32)] = all;
    store D[iota(32)] = some + sum(some) * 0.1;
}""", X="C,64", A="64", B="64", D="64", flag=(0, 1))
def carried(t, c, flag):
    total, some = Tile(np.full(32, 0.5)), Tile(np.full(32, 0.5))
    rows = 0.0
    for n in tiles(0, c, 32):
        x = load(t.X, n, slice(None)).sum(1)
        following = total + x.exp()
        rows += following.sum().value
        total = keep(following, total, n)
        rows += total.sum().value
        if flag:
            some = keep(x, some, n)
        mine = x
        rows += (mine + 1.0).max().value + some.sum().value
        for j in tiles(0, c, 32):
            new = load(t.X, j, slice(None)).sum(1) * 0.1
            # of the outer loop's range it has the padding of both, of the inner one's it keeps
            value = np.where(j.pad, mine.value, mine.value + new.value)
            mine = Tile(value, [mine.pads[0]])
        rows += mine.sum().value
    t.A[:] = rows
    write(t.B, (iota(32),), total)
    write(t.D, (iota(32),), some + some.sum().value * 0.1)


@case("""kernel k(X: in f32[C, 64], T: in i32[4], A: out f32[C, 64], B: out f32[C], D: out f32[3, 4], E: inout f32[64],
         n: i32) {
    grid i in 4, b in 3;
    let lo = load T[b];
    let m = tiles(lo..load T[b + 1], 16)[i];       // behind the last one: no elements
    let x = load X[m, :] + 0.5;
    store A[m, :] = x;
    store B[m] = sum(x, axis=1) * 0.1 + (m - lo) as f32;
    var most = max(x);
    atomic_add E[:] += sum(x, axis=0);
    for j in 0..n {
        let k = tiles(lo..load T[b + 1], 8)[j * 2];
        atomic_add E[iota(8)] += max(load X[k, j], -100.0) * 0.25;
        most = most + sum(load X[k + 1, j]);
    }
    store D[b, i] = max(most, -100.0);   // of nothing: -inf
}""", sizes=(1, 17, 61), dtype={"T": "parts"}, X="C,64", T="4", A="C,64", B="C", D="3,4", E="64", n=(0, 3))
def numbered(t, c, n):
    def numbered_tile(b, i, size):
        return Range(int(t.T[b]) + i * size, int(t.T[b + 1]), size)
    for b in range(3):
        for i in range(4):
            m = numbered_tile(b, i, 16)
            x = load(t.X, m, slice(None)) + 0.5
            write(t.A, (m, slice(None)), x)
            write(t.B, (m,), x.sum(1) * 0.1 + m.tile() - float(t.T[b]))
            most = x.max().value
            write(t.E, (slice(None),), x.sum(0), add=True)
            for j in range(n):
                k = numbered_tile(b, 2 * j, 8)
                write(t.E, (iota(8),), load(t.X, k, j).map(lambda v: np.maximum(v, -100.0)) * 0.25, add=True)
                most = most + load(t.X, k + 1, j).sum().value
            t.D[b, i] = max(most, -100.0)


@case("""kernel k(X: in f32[C], T: in i32[4], A: out f32[C], D: out f32[2], N: out i32[6], n: i32) {
    grid g in 1;
    var (total, count, last) = (0.0, 0, -1);
    var t = full<f32>[16](0.5);
    for k in tiles(C, 16) while total < 9.0 {           // looked at before each iteration: it may go past
        let x = load X[k];
        total += sum(abs(x));
        t = t + x;                                      // keeps what it had where k is padding
        count += 1;
        store A[k] = x + (total * 0.0);
        for j in 0..C while j * j < n && total >= 0.0 { last = j; }
    }
    store D[0] = total;
    store D[1] = sum(t);
    store N[0] = count;
    store N[1] = last;
    var place = 0;
    for i in 0..C while place < C && load X[place] > -0.4 {  // read only where there is such a place
        place += 1 + i % 2;
    }
    store N[2] = place;
    var (a, b) = (0, 0);
    for i in 3..n while i != 5 { a += 1; if i > 3 { for j in i..n while true { b += 1; } } }
    for i in 0..n while false { a += 1000; }
    store N[3] = a;
    store N[4] = b;
    store N[5] = sum(load T[iota(4)]);
}""", sizes=(1, 16, 33, 70), dtype={"T": "parts", "N": "i32"}, X="C", T="4", A="C", D="2", N="6", n=(0, 4, 6, 40))
def whiles(t, c, n):
    total, count, last, place, a, b = 0.0, 0, -1, 0, 0, 0
    v = Tile(np.full(16, 0.5))
    for k in tiles(0, c, 16):
        if not total < 9.0:
            break
        x = load(t.X, k)
        total += x.map(np.abs).sum().value
        v = keep(v + x, v, k)
        count += 1
        write(t.A, (k,), x)
        last = max([last] + [j for j in range(c) if j * j < n])
    for i in range(c):
        if not (place < c and t.X[place] > np.float32(-0.4)):
            break
        place += 1 + i % 2
    for i in range(3, n):
        if i == 5:
            break
        a += 1
        b += n - i if i > 3 else 0
    t.D[:] = total, v.sum().value
    t.N[:] = count, last, place, a, b, t.T.sum()


@case("""kernel k(X: in f32[C, 64], T: in i32[4], Y: inout f32[C, 64], D: inout f32[8], n: i32) {
    grid i in 4, b in 3;
    let m = tiles(load T[b]..load T[b + 1], 16)[i];
    if m.first >= load T[b + 1] { return; }             // nothing to do
    let x = load X[m, :] * 2.0;
    var t = sum(x);
    if b == n { return; }
    if n < 0 { t = 5.0; }
    store Y[m, :] = x;
    atomic_add D[b] += 1.0 + t;
}""", sizes=(1, 17, 61), dtype={"T": "parts"}, X="C,64", T="4", Y="C,64", D="8", n=(-1, 0, 2))
def returns(t, c, n):
    for b in range(3):
        for first in range(int(t.T[b]), int(t.T[b + 1]), 16):
            m = Range(first, int(t.T[b + 1]), 16)
            x = load(t.X, m, slice(None)) * 2.0
            if b != n:
                write(t.Y, (m, slice(None)), x)
                t.D[b] += 1.0 + (5.0 if n < 0 else x.sum().value)


@case("""kernel k(X: in f32[C], T: in i32[4], A: inout i32[4, 3, 5], B: out i32[C], D: out f32[1], E: inout f32[99], lo: i32) {
    grid i in 4, b in 3;
    let m = tiles(load T[b]..load T[b + 1], 16)[i];         // all padding, where i is behind the last one
    let o = m - 9;                                          // begins before 0
    store A[i, b, 0] = m.first;
    store A[i, b, 1] = m.number * 100 + o.number;
    store A[i, b, 2] = o.first - (iota(8) + 3).first + iota(8).number;
    var (f, s) = (0, 0);
    for n in tiles(lo..C, 7) { f += n.first * (n.number + 1); s = s * 3 % 1001 + (n - 40).first + n.number; }
    for n in tiles(C, 1) { s += n.first - n.number; }       // nothing
    store A[i, b, 3] = f;
    store A[i, b, 4] = s;
    if i + b == 0 {
        var x = 0.0;
        for n in tiles(C, 32) {
            let w = load X[n];
            store B[n] = n - n.first + n.number * 1000;     // along the tile, and of the tile
            x += sum(w) * (n.number + 1) as f32 + load X[n.first];
            let (p, q) = pack(n, iota(2));
            atomic_add E[iota(1) + n.number] += sum(load X[p]) - n.first as f32;
        }
        store D[0] = x;
    }
}""", sizes=(1, 7, 33, 61), dtype={"T": "parts", "A": "i32", "B": "i32"}, X="C", T="4", A="4,3,5", B="C", D="1", E="99", lo=(-3, 0, 5))
def firsts(t, c, lo):
    for b in range(3):
        for i in range(4):
            first = int(t.T[b]) + i * 16
            t.A[i, b, :3] = first, i * 101, first - 12
            f, s = 0, 0
            for k, n in enumerate(range(lo, c, 7)):
                f += n * (k + 1)
                s = int(np.fmod(s * 3, 1001)) + n - 40 + k
            t.A[i, b, 3:] = f, s
    x = 0.0
    for k, n in enumerate(tiles(0, c, 32)):
        w = load(t.X, n)
        write(t.B, (n,), n.tile() - float(n.index[0]) + k * 1000.0)
        x += w.sum().value * (k + 1) + t.X[n.index[0]]
        p, _ = pack(n, iota(2))
        t.E[k] += load(t.X, p).sum().value - n.index[0]
    t.D[0] = x


@case("""kernel k(X: in f32[C, 6, 64], Y: in f32[C, 6], A: out f32[C, 6, 64], B: inout f32[C, 6], D: out f32[64, 64],
         E: inout f32[C, 8], F: out f32[C]) {
    grid m in tiles(C, 16);
    let (s, h) = pack(m, iota(4));
    let (u, v) = pack(m + 1, iota(4) + 4);
    let x = load X[s, h, :];
    store A[s, h, :] = x + (load Y[s, h])[:, None];
    atomic_add B[u, v] += max(x, axis=1);
    if min(m) < 16 { store D[iota(64), :] = x; }
    atomic_add E[s, h + 3] += load Y[s, h];
    store F[m] = (load Y[m, 1]) * 0.0 + sum(exp(load Y[s, h + 4])) + sum(exp(load Y[0, h])) + sum(h as f32) + max(s as f32);
}""", X="C,6,64", Y="C,6", A="C,6,64", B="C,6", D="64,64", E="C,8", F="C")
def packs(t, c):
    for m in tiles(0, c, 16):
        s, h = pack(m, iota(4))
        u, v = pack(m + 1, iota(4) + 4)
        x = load(t.X, s, h, slice(None))
        write(t.A, (s, h, slice(None)), x + load(t.Y, s, h).rows())
        write(t.B, (u, v), x.max(1), add=True)
        if m.index[0] < 16:
            write(t.D, (iota(64), slice(None)), x)
        h3, h4 = pack(m, iota(4) + 3), pack(m, iota(4) + 4)
        write(t.E, h3, load(t.Y, s, h), add=True)
        write(t.F, (m,), load(t.Y, m, 1) * 0.0 + load(t.Y, *h4).exp().sum().value +
              load(t.Y, 0, h).exp().sum().value + h.tile().sum().value + s.tile().max().value)


@case("""kernel k(X: in f32[C, 64], W: in f32[C], A: out f32[C, 64], B: out f32[C], D: inout f32[C, C], hi: i32) {
    grid m in tiles(C, 32);
    for n in tiles(hi, 32) {
        let both = (load W[n])[:, None] + (load W[m])[None, :];
        atomic_add D[n, m] += both;
        if min(m) < 32 { store B[n] = sum(exp(both), axis=1) * 0.0 + load W[n]; }
        let two = load W[m] + load W[n];
        atomic_add D[m, 0] += two;
        atomic_add D[0, n + 1] += two + sum(exp(two));
    }
}""", sizes=(20, 40, 70), X="C,64", W="C", B="C", D="C,C", hi=(-3, 0, 1, 33, 64))
def two_ranges(t, c, hi):
    for m in tiles(0, c, 32):
        for n in tiles(0, hi, 32):
            both = load(t.W, n).rows() + load(t.W, m).cols()
            write(t.D, (n, m), both, add=True)
            if m.index[0] < 32:
                write(t.B, (n,), both.exp().sum(1) * 0.0 + load(t.W, n))
            two = load(t.W, m) + load(t.W, n)
            write(t.D, (m, 0), two, add=True)
            write(t.D, (0, n + 1), two + two.exp().sum().value, add=True)


@case("""kernel k(A: in bf16[C, 64], B: in bf16[C, 64], W: in f32[C], Y: out f32[64, 64], Z: inout f32[64, 64], hi: i32) {
    grid g in 1;
    var acc = zeros<f32>[64, 64];
    var other = zeros<f32>[64, 64];
    for n in tiles(0..hi, 32) {
        acc = mma((load A[n, :]).T, load B[n, :], acc);
        let e = (load A[n, :] as f32) * exp(load W[n] * 40.0)[:, None];
        other = mma((load A[n + 1, :]).T, e as bf16, other);
        other = mma((load A[iota(32), :]).T, load B[n, :], other);
    }
    store Y[:, :] = acc;
    store Z[:, :] = other;
}""", sizes=(40, 70), dtype={"A": "bf16", "B": "bf16"}, A="C,64", B="C,64", W="C", Y="64,64", Z="64,64", hi=(0, 1, 31, 39),
      poison_from="hi", tolerance=2e-2)
def products(t, c, hi):
    acc, other = Tile(np.zeros((64, 64))), Tile(np.zeros((64, 64)))
    for n in tiles(0, hi, 32):
        a, b = load(t.A, n, slice(None)), load(t.B, n, slice(None))
        acc = mma(a.T(), b, acc)
        e = a * (load(t.W, n) * 40.0).exp().rows()
        other = mma(load(t.A, n + 1, slice(None)).T(), e.bf16(), other)
        first = load(t.A, iota(32), slice(None))
        other = mma(first.T(), b, other)
    t.Y[:, :] = acc.value
    t.Z[:, :] = other.value


@case("""kernel fz<T: type = bf16, M: int = 64, N: int = 32, K: int = 64>(Q: in T[R, K], KK: in T[C, K], Z: out f32[R], ka: i32) {
    grid m in tiles(R, M);
    var c4 = full<f32>[M, N](0.0);
    for n in tiles(C, N) {
        if any((m)[:, None] + (n % 7)[None, :] > 5) {
            c4 = c4 * 0.5 + where((m / 2)[:, None] + (n - ka)[None, :] > 5, 0.5, 0.5) * 0.5 * 0.5;
        }
    }
    let v16 = max(c4, axis=1) * 0.1;
    store Z[m] = v16 + 0.25;
}""", sizes=(5, 32, 70), dtype={"Q": "bf16", "KK": "bf16"}, Q="R,64", KK="C,64", Z="R", R="9", ka="3")
def pad_branch(t, c):
    for m in tiles(0, 9, 64):
        c4 = Tile(np.zeros((64, 32)))
        for n in tiles(0, c, 32):
            x = m.tile().rows() + n.tile().map(lambda v: v % 7).cols()
            if (x.value > 5)[~x.outside()].any():
                c4 = keep(c4 * 0.5 + (x * 0.0 + 0.125), c4, n)
        write(t.Z, (m,), c4.max(1) * 0.1 + 0.25)


@case("""kernel k(X: in f32[C], Y: in i32[C], A: out f32[100], B: out i32[100], D: out f32[1]) {
    grid g in 1;
    for n in tiles(100, 64) {
        let x = load X[n];
        store A[n] = exp(x);
        store B[n] = load Y[n - 2] + n;
    }
    var best = full<f32>[64](-inf);
    var sums = zeros<f32>[64];
    for n in tiles(0..C, 64) { best = max(best, load X[n]); sums = sums + load X[n + 2]; }
    store D[0] = max(best) + sum(sums);
}""", dtype={"Y": "i32", "B": "i32"}, X="C", Y="C", A="100", B="100", D="1", sizes=(5, 64, 70))
def over_another_size(t, c):
    for n in tiles(0, 100, 64):
        write(t.A, (n,), load(t.X, n).exp())
        write(t.B, (n,), load(t.Y, n + -2) + n.tile())
    best, sums = Tile(np.full(64, -np.inf)), Tile(np.zeros(64))
    for n in tiles(0, c, 64):
        best = keep(best.with_(load(t.X, n), np.maximum), best, n)
        sums = keep(sums + load(t.X, n + 2), sums, n)
    t.D[0] = best.max().value + sums.sum().value


@case("""kernel k(Q: in bf16[C, 64], K: in bf16[R, 64], V: in bf16[R, 64], W: in f32[R] align(16), O: out f32[300, 64],
         L: out f32[300], T: out f32[C, 64], off: i32) {
    grid m in tiles(C, 64);
    let q = load Q[m, :];
    var acc = zeros<f32>[64, 64];
    var t = zeros<f32>[64, 64];
    var top = full<f32>[64](-inf);
    for n in tiles(R, 64) {
        let s = mma(q, (load K[n, :]).T) * 0.1;
        let w = s + (load W[n + 1])[None, :];
        t = t + exp(w);
        top = max(top, max(w, axis=1));
        acc = mma(w as bf16, load V[n, :], acc);
    }
    store O[m + off, :] = acc;
    store L[m + off] = sum(t, axis=1) + top;
    store T[m, :] = t;
}""", sizes=(40, 150), dtype={"Q": "bf16", "K": "bf16", "V": "bf16"}, Q="C,64", K="R,64", V="R,64", W="R", O="300,64",
      L="300", T="C,64", off="17", R="100", tolerance=2e-2)
def warp_groups(t, c): # have a plan on sm_90
    for m in tiles(0, c, 64):
        acc, total, top = Tile(np.zeros((64, 64))), Tile(np.zeros((64, 64))), Tile(np.full(64, -np.inf))
        for n in tiles(0, 100, 64):
            s = mma(load(t.Q, m, slice(None)), load(t.K, n, slice(None)).T()) * 0.1
            w = s + load(t.W, n + 1).cols()
            total = keep_columns(total + w.exp(), total, n)
            top = top.with_(w.max(1), np.maximum)
            acc = mma(w.bf16(), load(t.V, n, slice(None)), acc)
        write(t.O, (m + 17, slice(None)), acc)
        write(t.L, (m + 17,), total.sum(1).with_(top, np.add))
        write(t.T, (m, slice(None)), total)


@case("""kernel k(A: in bf16[C, 64], B: in bf16[64, R] align(16), O: out bf16[200, 160] align(16), S: out bf16[200, 160],
         G: inout f32[200, 160] align(16), hi: i32) {
    grid m in tiles(C, 64), n in tiles(R, 64);
    var acc = zeros<f32>[64, 64];
    for k in tiles(64, 32) { acc = mma(load A[m, k], load B[k, n], acc); }
    store O[m + 3, n + 8] = acc as bf16;
    store S[m, n + 1] = acc as bf16;
    for c in tiles(hi, 64) { atomic_add G[m, c] += acc; }
}""", sizes=(37, 130), dtype={"A": "bf16", "B": "bf16", "O": "bf16", "S": "bf16"}, A="C,64", B="64,R", O="200,160",
      S="200,160", G="200,160", R="88", hi=(0, 33, 100), tolerance=2e-2)
def sixteen_bits(t, c, hi):
    for m in tiles(0, c, 64):
        for n in tiles(0, 88, 64):
            acc = mma(load(t.A, m, slice(None)), load(t.B, slice(None), n))
            write(t.O, (m + 3, n + 8), acc.bf16())
            write(t.S, (m, n + 1), acc.bf16())
            for col in tiles(0, hi, 64):
                write(t.G, (m, col), acc, add=True)


@case("kernel k(X: in f32[C], S: out f32[1]) {\n grid g in 1; var s = 0.0;\n" +
      "".join(f" for r{i} in tiles(C - {i}, 64) {{\n" for i in range(10)) +
      " s += sum(exp((" + " + ".join(f"load X[r{i}]" for i in range(10)) + ") * 0.1));\n" + "}" * 10 +
      " store S[0] = s;\n}", sizes=(20, 66), X="C", S="1")
def many_ranges(t, c):
    def inner(i, x):
        if i == 10:
            return (x * 0.1).exp().sum().value
        return sum(inner(i + 1, x + load(t.X, r)) for r in tiles(0, c - i, 64))
    t.S[0] = inner(0, Tile(np.zeros(64)))


# ---- running them ----

class Tensors:
    pass


def bf16(x):
    """Rounded to bf16, as float32."""
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def make(rng, name, shape, dtype, written):
    if dtype == "parts":  # where sequences begin: one of them is empty, and the last does not reach the end
        c = Tensors.c
        return np.array([1, c // 2, c // 2, c - 2], np.int32)
    if dtype == "i32":
        return np.full(shape, 7, np.int32) if written else rng.integers(-5, 5, shape).astype(np.int32)
    if written:
        return np.full(shape, 0.5, np.float32) # of bf16, too
    x = rng.standard_normal(shape).astype(np.float32)
    return bf16(x) if dtype == "bf16" else x


def poison(x, rows):
    x[rows[::2]], x[rows[1::2]] = np.nan, np.inf


def run(options, folder, ptx, source, function, dtypes, shapes, c, scalar):
    shapes = dict(shapes)
    tolerance, poisoned = shapes.pop("tolerance", 1e-5), shapes.pop("poison", "")
    poison_from = shapes.pop("poison_from", None)
    Tensors.c = c
    rng = np.random.default_rng(c)
    sizes = {"C": c, "R": int(shapes.get("R", 9))}
    t, files, sets, outs = Tensors(), [], [], []
    for name, text in shapes.items():
        if f"{name}: i32" in source:
            sets += ["--set", f"{name}={scalar if isinstance(text, tuple) else eval(text, {}, sizes)}"]
            continue
        if f"{name}: in" not in source:
            continue
        shape = tuple(eval(d, {}, sizes) for d in text.split(","))
        written = f"{name}: in " not in source
        x = make(rng, name, shape, dtypes.get(name), written)
        if poisoned and name in poisoned:
            poison(x, np.array([0, c - 2, c - 1]))
        if poison_from and not written and x.shape[0] == c:
            poison(x, np.arange(scalar + 1, c))
        path = os.path.join(folder, name + ".npy")
        if dtypes.get(name) == "bf16":
            np.save(path, (x.view(np.uint32) >> 16).astype(np.uint16))
        else:
            np.save(path, x)
        files += ["--in", f"{name}={path}"]
        if written:
            outs.append(name)
        setattr(t, name, x.astype(np.float64))
    with np.errstate(all="ignore"):
        function(t, c) if scalar is None else function(t, c, scalar)
    for name in outs:
        files += ["--out", f"{name}={os.path.join(folder, name + '.out.npy')}"]
    command = [options.tilec, "run", ptx] if ptx.endswith(".tile") else [options.tilerun, "--device", "sim", ptx]
    done = subprocess.run([*command, *files, *sets], capture_output=True, text=True)
    if done.returncode != 0:
        return [f"exit {done.returncode}: {done.stdout[-300:]}{done.stderr[-300:]}"]
    wrong = []
    for name in outs:
        got, right = np.load(os.path.join(folder, name + ".out.npy")), getattr(t, name)
        if got.dtype == np.uint16:
            got = (got.astype(np.uint32) << 16).view(np.float32)
        got = got.astype(np.float64)
        with np.errstate(all="ignore"):
            error = np.where((got == right) | (np.isnan(got) & np.isnan(right)), 0, np.abs(got - right) / np.maximum(np.abs(right), 1))
        if not np.all(error < tolerance):
            at = np.unravel_index(np.argmax(np.where(np.isnan(error), np.inf, error)), error.shape)
            wrong.append(f"{name}{list(map(int, at))} is {got[at]}, not {right[at]}")
    return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--only")
    parser.add_argument("--part", default="0/1")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    failed = total = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, (source, function, sizes, dtypes, shapes)) in enumerate(CASES.items()):
            if options.only not in (None, name) or number % parts != part:
                continue
            path, ptx = os.path.join(folder, "k.tile"), os.path.join(folder, "k.ptx")
            with open(path, "w") as file:
                file.write(source)
            scalars = next((v for v in shapes.values() if isinstance(v, tuple)), (None,))
            for arch, flags in CONFIGS + [("tilec", "run")]:
                if flags == "run": # the reference interpreter
                    ptx = path
                    done = subprocess.CompletedProcess([], 0)
                else:
                    done = subprocess.run([options.tilec, path, "-arch", arch, *flags.split(), "-o", ptx],
                                          capture_output=True, text=True)
                if done.returncode != 0:
                    print(f"{name}, {arch} {flags}: {done.stderr}")
                    failed += 1
                    continue
                for c in sizes:
                    for scalar in scalars:
                        total += 1
                        for text in run(options, folder, ptx, source, function, dtypes, shapes, c, scalar):
                            print(f"{name}, {arch} {flags}, C = {c}, {scalar}: {text}")
                            failed += 1
    print(f"{total} launches, {failed} wrong results")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
