#!/usr/bin/env python3
"""chains.py - small programs beside attention: products in every order, compared with NumPy in float64.

    chains.py --tilec T --tilerun R [--all] [--only NAME] [--seed N] [--list]

Each program chains products in another way: an operand of several products, a sum that is scaled or looked
at between its products, values of one stage behind the other's, loops beside and in each other.  Each is
compiled for every target, at -O0 and -O3, with and without plans for warp groups, with other tiles and
sizes that leave rests, with one pass switched off, and runs in the simulator.  Without --all a part of that grid.

A setting is wrong when the compiler crashes or leaves something unproved, when the simulator finds a
fault, or when a number is off by more than the roundings of the program explain: the reference is
computed with them and without, and differs by as much as one more rounding would.
"""
import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
import zlib

import numpy as np

import ladder

SIGMA = 0.5  # of the inputs: sums of products stay near 1


class Ref:
    """What a reference computes with: the inputs, the sizes, and the rounding of `as T`."""

    def __init__(self, case, tensors, exact):
        self.__dict__.update(tensors)
        self.case, self.exact = case, exact
        self.__dict__.update(case.tiles)

    def t(self, x):
        return x if self.exact else ladder.rounded(x, self.case.dtype)

    def over(self, n, tile):
        """The ranges of tiles(n, tile), without their padding."""
        return [slice(k, min(k + tile, n)) for k in range(0, n, tile)]


PROGRAMS = []


class Program:
    def __init__(self, name, text, tensors, ref, scalars=None, plans=True, columns=1):
        self.name, self.text, self.tensors, self.ref = name, text, tensors, ref
        self.scalars = scalars or {}
        self.plans = plans  # worth trying plans on
        PROGRAMS.append(self)

    def source(self):
        modes = {"in": "in ", "out": "out", "inout": "inout"}
        tensors = ", ".join(f"{n}: {modes[m]} {t}[{', '.join(d)}]" for n, (m, t, d) in self.tensors.items())
        scalars = "".join(f", {n}: {'i32' if isinstance(v, int) else 'f32'}" for n, v in self.scalars.items())
        return ("use mask;\nkernel k<T: type = bf16, M: int = 64, N: int = 64, N2: int = 64, D: int = 64, E: int = 64>\n"
                f"(   {tensors}{scalars})\n{{\n{self.text}}}\n")


Q = ("in", "T", ["R", "D"])
K = ("in", "T", ["C", "D"])
V = ("in", "T", ["C", "E"])
O = ("out", "f32", ["R", "E"])
HEAD = "    grid m in tiles(R, M);\n    let q = load Q[m, :];\n    var acc = zeros<f32>[M, E];\n"
END = "    store O[m, :] = acc;\n"
QKV = {"Q": Q, "K": K, "V": V, "O": O}


def loop(body, over="n in tiles(C, N)"):
    return f"    for {over} {{\n" + "".join(f"        {line}\n" for line in body) + "    }\n"


S = "let s = mma(q, (load K[n, :]).T);"


def simple(name, body, step, extra=None, more=None, end=END, head=HEAD, scalars=None, begin=None):
    """A loop over the columns that carries acc: step(r, acc, rows of K and V) gives the next one."""
    tensors = dict(QKV, **(extra or {}))

    def ref(r):
        acc = np.zeros((r.Q.shape[0], r.E)) if begin is None else begin(r)
        for n in r.over(r.K.shape[0], r.N):
            acc = step(r, acc, n)
        return {"O": acc if more is None else more(r, acc)}
    Program(name, head + loop(body) + end, tensors, ref, scalars=scalars)


def scores(r, n):
    return r.Q @ r.K[n].T


simple("after", [S, "acc = mma(s as T, load V[n, :], acc);", "acc = acc * 0.5;"],
       lambda r, acc, n: (acc + r.t(scores(r, n)) @ r.V[n]) * 0.5)
simple("before", [S, "acc = mma(s as T, load V[n, :], acc * 0.5);"],
       lambda r, acc, n: acc * 0.5 + r.t(scores(r, n)) @ r.V[n])
simple("both", [S, "acc = acc * 0.5;", "acc = mma(s as T, load V[n, :], acc);", "acc = acc * 0.75;"],
       lambda r, acc, n: (acc * 0.5 + r.t(scores(r, n)) @ r.V[n]) * 0.75)
simple("chain", [S, "acc = mma(s as T, load V[n, :], acc);", "acc = mma(exp(s) as T, load V[n, :], acc * 0.5);"],
       lambda r, acc, n: (acc + r.t(scores(r, n)) @ r.V[n]) * 0.5 + r.t(np.exp(scores(r, n))) @ r.V[n])
simple("two_times", [S, "acc = mma(s as T, load V[n, :], acc);", "acc = mma(exp(s) as T, load V[n, :], acc);"],
       lambda r, acc, n: acc + (r.t(scores(r, n)) + r.t(np.exp(scores(r, n)))) @ r.V[n])
simple("greatest", [S, "acc = mma(s as T, load V[n, :], acc);", "acc = max(acc, -1.0);"],
       lambda r, acc, n: np.maximum(acc + r.t(scores(r, n)) @ r.V[n], -1.0))
simple("chosen", [S, "acc = mma(s as T, load V[n, :], acc);", "acc = where(acc > 1.0, acc * 0.5, acc + 0.25);"],
       lambda r, acc, n: (lambda a: np.where(a > 1, a * 0.5, a + 0.25))(acc + r.t(scores(r, n)) @ r.V[n]))
simple("by_row", [S, "let top = max(s, axis=1);", "acc = mma(s as T, load V[n, :], acc);",
                  "acc = acc + top[:, None];"],
       lambda r, acc, n: acc + r.t(scores(r, n)) @ r.V[n] + scores(r, n).max(1)[:, None])
simple("scaled_by_row", [S, "let top = max(s, axis=1);", "acc = mma(s as T, load V[n, :], acc * 0.5);",
                         "acc = acc * exp(-abs(top))[:, None];"],
       lambda r, acc, n: (acc * 0.5 + r.t(scores(r, n)) @ r.V[n]) * np.exp(-abs(scores(r, n).max(1)))[:, None])
simple("looked_at", ["let norm = max(abs(acc), axis=1) + 1.0;", S,
                     "acc = mma(s as T, load V[n, :], acc / norm[:, None]);"],
       lambda r, acc, n: acc / (abs(acc).max(1) + 1)[:, None] + r.t(scores(r, n)) @ r.V[n])
simple("late_sum", [S, "acc = mma(s as T, load V[n, :], acc);", "total = total * 0.5 + sum(acc, axis=1);"],
       lambda r, acc, n: (lambda a: (a, acc[1] * 0.5 + a.sum(1)))(acc[0] + r.t(scores(r, n)) @ r.V[n]),
       head=HEAD + "    var total = zeros<f32>[M];\n", end="    store O[m, :] = acc + total[:, None];\n",
       begin=lambda r: (np.zeros((r.Q.shape[0], r.E)), np.zeros(r.Q.shape[0])),
       more=lambda r, acc: acc[0] + acc[1][:, None])
simple("fresh_late", [S, "let t = mma(s as T, load V[n, :]);", "acc = acc * 0.5 + t;"],
       lambda r, acc, n: acc * 0.5 + r.t(scores(r, n)) @ r.V[n])
simple("fresh_twice", [S, "let t = mma(s as T, load V[n, :]);", "acc = acc + t * t;"],
       lambda r, acc, n: acc + (r.t(scores(r, n)) @ r.V[n]) ** 2)
simple("two_sums", [S, "acc = mma(s as T, load V[n, :], acc);", "let p = exp(s) as T;",
                    "other = mma(p, load W[n, :], other * 0.5);"],
       lambda r, acc, n: (acc[0] + r.t(scores(r, n)) @ r.V[n],
                          acc[1] * 0.5 + r.t(np.exp(scores(r, n))) @ r.W[n]),
       extra={"W": V}, head=HEAD + "    var other = zeros<f32>[M, E];\n",
       end="    store O[m, :] = acc + other;\n",
       begin=lambda r: (np.zeros((r.Q.shape[0], r.E)), np.zeros((r.Q.shape[0], r.E))),
       more=lambda r, acc: acc[0] + acc[1])
simple("exchanged", [S, "let t = mma(s as T, load V[n, :], acc);", "acc = other;", "other = t * 0.5;"],
       lambda r, acc, n: (acc[1], (acc[0] + r.t(scores(r, n)) @ r.V[n]) * 0.5),
       head=HEAD + "    var other = full<f32>[M, E](1.0);\n", end="    store O[m, :] = acc + other * 2.0;\n",
       begin=lambda r: (np.zeros((r.Q.shape[0], r.E)), np.ones((r.Q.shape[0], r.E))),
       more=lambda r, acc: acc[0] + 2 * acc[1])
simple("used_again", [S, "let t = mma(s as T, load V[n, :], acc);", "acc = t + acc * 0.5;"],
       lambda r, acc, n: acc * 1.5 + r.t(scores(r, n)) @ r.V[n])
simple("kept_sum", ["let x = acc * 0.5;", S, "acc = mma(s as T, load V[n, :], acc);", "acc = acc + x;"],
       lambda r, acc, n: acc * 1.5 + r.t(scores(r, n)) @ r.V[n])
simple("kept_choice", ["let x = where(acc > 0.5, acc, 0.25);", S, "acc = mma(s as T, load V[n, :], acc) + x;"],
       lambda r, acc, n: acc + r.t(scores(r, n)) @ r.V[n] + np.where(acc > 0.5, acc, 0.25))
simple("both_ways", [S, "other = mma(exp(s) as T, load V[n, :], acc);", "acc = mma(s as T, load V[n, :], acc);"],
       lambda r, acc, n: (acc[0] + r.t(scores(r, n)) @ r.V[n], acc[0] + r.t(np.exp(scores(r, n))) @ r.V[n]),
       head=HEAD + "    var other = zeros<f32>[M, E];\n", end="    store O[m, :] = acc + other;\n",
       begin=lambda r: (np.zeros((len(r.Q), r.E)), np.zeros((len(r.Q), r.E))), more=lambda r, acc: acc[0] + acc[1])
simple("score_late", [S, "acc = mma(s as T, load V[n, :], acc) + sum(s * s, axis=1)[:, None];", "last = s;"],
       lambda r, acc, n: acc + r.t(scores(r, n)) @ r.V[n] + (scores(r, n) ** 2).sum(1)[:, None],
       head=HEAD + "    var last = zeros<f32>[M, N];\n")
simple("before_scores", [S, "acc = mma((s * last) as T, load V[n, :], acc);", "last = s + 1.0;"],
       lambda r, acc, n: (acc[0] + r.t(scores(r, n) * acc[1][:, :n.stop - n.start]) @ r.V[n],
                          np.concatenate([scores(r, n) + 1, acc[1][:, n.stop - n.start:]], axis=1)),
       head=HEAD + "    var last = full<f32>[M, N](0.5);\n", begin=lambda r: (np.zeros((len(r.Q), r.E)), np.full((len(r.Q), r.N), 0.5)),
       more=lambda r, acc: acc[0])
simple("begun_kept", [S, "acc = mma(s as T, load V[n, :], acc);"],
       lambda r, acc, n: acc + r.t(scores(r, n)) @ r.V[n], extra={"A": ("in", "f32", ["R", "E"])},
       head=HEAD.replace("var acc = zeros<f32>[M, E]", "let a = load A[m, :];\n    let b = a * 2.0;\n    var acc = a + 1.0"),
       begin=lambda r: r.A + 1, end="    store O[m, :] = acc + a + b;\n", more=lambda r, acc: acc + 3 * r.A)
simple("square_scores", ["let s = mma(q, (load K[n, :]).T);", "let p = s * s;", "let t = mma(q, (load P[n, :]).T, p);",
                         "acc = mma((t + p * 0.5) as T, load V[n, :], acc);"],
       lambda r, acc, n: acc + r.t(scores(r, n) ** 2 * 1.5 + r.Q @ r.P[n].T) @ r.V[n], extra={"P": K})
simple("of_sum", [S, "acc = mma(s as T, load V[n, :], acc * 0.5);", "acc = mma((acc * 0.125) as T, load W[:, :]);"],
       lambda r, acc, n: r.t((acc * 0.5 + r.t(scores(r, n)) @ r.V[n]) * 0.125) @ r.W,
       extra={"W": ("in", "T", ["E", "E"])})
simple("of_carried", [S, "acc = mma((acc * 0.125) as T, load W[:, :], mma(s as T, load V[n, :]));"],
       lambda r, acc, n: r.t(acc * 0.125) @ r.W + r.t(scores(r, n)) @ r.V[n],
       extra={"W": ("in", "T", ["E", "E"])})
simple("three", [S, "let t = mma(s as T, load V[n, :]);", "acc = mma((t * 0.25) as T, load W[:, :], acc);"],
       lambda r, acc, n: acc + r.t(r.t(scores(r, n)) @ r.V[n] * 0.25) @ r.W, extra={"W": ("in", "T", ["E", "E"])})
simple("begun", [S, "acc = mma(s as T, load V[n, :], acc);"],
       lambda r, acc, n: acc + r.t(scores(r, n)) @ r.V[n], extra={"A": ("in", "f32", ["R", "E"])},
       head=HEAD.replace("zeros<f32>[M, E]", "load A[m, :]"), begin=lambda r: r.A)
simple("begun_product", [S, "acc = mma(s as T, load V[n, :], acc);"],
       lambda r, acc, n: acc + r.t(scores(r, n)) @ r.V[n], extra={"W": ("in", "T", ["D", "E"])},
       head=HEAD.replace("zeros<f32>[M, E]", "mma(q, load W[:, :])"), begin=lambda r: r.Q @ r.W)
simple("ended_product", [S, "acc = mma(s as T, load V[n, :], acc);"],
       lambda r, acc, n: acc + r.t(scores(r, n)) @ r.V[n], extra={"W": ("in", "T", ["E", "E"])},
       end="    store O[m, :] = mma((acc * 0.125) as T, load W[:, :], acc);\n",
       more=lambda r, acc: acc + r.t(acc * 0.125) @ r.W)
simple("softmax", [S, "let t = max(top, max(s, axis=1));", "let a = exp(top - t);", "let p = exp(s - t[:, None]);",
                   "total = total * a + sum(p, axis=1);", "top = t;",
                   "acc = mma(p as T, load V[n, :], acc * a[:, None]);"],
       lambda r, acc, n: softmax_step(r, acc, n),
       head=HEAD + "    var top = full<f32>[M](-inf);\n    var total = zeros<f32>[M];\n",
       end="    store O[m, :] = acc / total[:, None];\n",
       begin=lambda r: (np.zeros((r.Q.shape[0], r.E)), np.full(r.Q.shape[0], -np.inf), np.zeros(r.Q.shape[0])),
       more=lambda r, acc: acc[0] / acc[2][:, None])
simple("softmax_after", [S, "let t = max(top, max(s, axis=1));", "let a = exp(top - t);", "let p = exp(s - t[:, None]);",
                         "total = total * a + sum(p, axis=1);", "top = t;",
                         "acc = mma(p as T, load V[n, :], acc * a[:, None]);", "acc = acc * 0.75;", "total = total * 0.75;"],
       lambda r, acc, n: tuple(x if k == 1 else x * 0.75 for k, x in enumerate(softmax_step(r, acc, n))),
       head=HEAD + "    var top = full<f32>[M](-inf);\n    var total = zeros<f32>[M];\n",
       end="    store O[m, :] = acc / total[:, None];\n",
       begin=lambda r: (np.zeros((r.Q.shape[0], r.E)), np.full(r.Q.shape[0], -np.inf), np.zeros(r.Q.shape[0])),
       more=lambda r, acc: acc[0] / acc[2][:, None])
simple("branch", [S, "if s0 > 0 { acc = mma(s as T, load V[n, :], acc); } else { acc = acc * 0.5; }"],
       lambda r, acc, n: acc + r.t(scores(r, n)) @ r.V[n], scalars={"s0": 1})
simple("branch_rows", [S, "acc = mma(s as T, load V[n, :], acc);",
                       "if any(s > 3.0) { acc = acc * 0.5 + 1.0; }"],
       lambda r, acc, n: branch_rows(r, acc, n))
simple("branch_early", [S, "var f = s;", "if any(s > 3.0) { f = s * 0.5; }", "acc = mma(f as T, load V[n, :], acc);"],
       lambda r, acc, n: branch_early(r, acc, n))
simple("masked", ["let s = mask_causal(mma(q, (load K[n, :]).T), m, n, 5);",
                  "acc = mma(exp(s) as T, load V[n, :], acc * 0.5);", "acc = acc + 0.125;"],
       lambda r, acc, n: acc * 0.5 + r.t(np.exp(causal(scores(r, n), n, 5))) @ r.V[n] + 0.125)
simple("causal", ["let s = mask_causal(mma(q, (load K[n, :]).T), m, n, 5);",
                  "acc = mma(exp(s) as T, load V[n, :], acc);"],
       lambda r, acc, n: acc + r.t(np.exp(causal(scores(r, n), n, 5))) @ r.V[n])
simple("vector", [S, "let w = load W[n];", "acc = mma((s * w[None, :]) as T, load V[n, :], acc);", "acc = acc * 0.5;"],
       lambda r, acc, n: (acc + r.t(scores(r, n) * r.W[n][None, :]) @ r.V[n]) * 0.5, extra={"W": ("in", "f32", ["C"])})
simple("two_scores", [S, "let u = mma(load P[m, :], (load K[n, :]).T);", "acc = mma((s * u) as T, load V[n, :], acc);"],
       lambda r, acc, n: acc + r.t(scores(r, n) * (r.P @ r.K[n].T)) @ r.V[n], extra={"P": Q})
simple("turned", ["let s = mma(q, load KT[:, n]);", "acc = mma(s as T, (load VT[:, n]).T, acc);", "acc = acc * 0.5;"],
       lambda r, acc, n: (acc + r.t(r.Q @ r.KT[:, n]) @ r.VT[:, n].T) * 0.5,
       extra={"KT": ("in", "T", ["D", "C"]), "VT": ("in", "T", ["E", "C"])})
simple("turned_sum", [S, "acc = mma((load V[n, :]).T, (s as T).T, acc);", "acc = acc * 0.5;"],
       lambda r, acc, n: (acc + r.V[n].T @ r.t(scores(r, n)).T) * 0.5, end="    store O[m, :] = acc.T;\n",
       head=HEAD.replace("[M, E]", "[E, M]"), begin=lambda r: np.zeros((r.E, r.Q.shape[0])), more=lambda r, acc: acc.T)
simple("itself", [S, "let k = load K[n, :];", "let g = mma(k, k.T);", "acc = mma(mma(s as T, g as T) as T, load V[n, :], acc);"],
       lambda r, acc, n: acc + r.t(r.t(scores(r, n)) @ r.t(r.K[n] @ r.K[n].T)) @ r.V[n])
simple("square", ["let g = mma(q, q.T);", S, "acc = mma(mma(g as T, s as T) as T, load V[n, :], acc);"],
       lambda r, acc, n: acc + square(r, n) @ r.V[n])


def softmax_step(r, acc, n):
    s = scores(r, n)
    t = np.maximum(acc[1], s.max(1))
    a, p = np.exp(acc[1] - t), np.exp(s - t[:, None])
    return acc[0] * a[:, None] + r.t(p) @ r.V[n], t, acc[2] * a + p.sum(1)


def by_program(r, f):
    """Of each program of the grid by itself: its rows."""
    return np.concatenate([f(m) for m in r.over(r.Q.shape[0], r.M)])


def branch_rows(r, acc, n):
    s = scores(r, n)
    return by_program(r, lambda m: (lambda a: a * 0.5 + 1 if (s[m] > 3).any() else a)(
        acc[m] + r.t(s[m]) @ r.V[n]))


def branch_early(r, acc, n):
    s = scores(r, n)
    return by_program(r, lambda m: acc[m] + r.t(s[m] * (0.5 if (s[m] > 3).any() else 1)) @ r.V[n])


def causal(s, n, offset):
    rows, cols = np.arange(s.shape[0])[:, None], np.arange(n.start, n.stop)[None, :]
    return np.where(cols <= rows + offset, s, -np.inf)


def square(r, n):
    return by_program(r, lambda m: r.t(r.t(r.Q[m] @ r.Q[m].T) @ r.t(scores(r, n)[m])))


# ---- several loops, and sums in memory ----

def keep(r):
    s = [r.Q @ r.K[n].T for n in r.over(len(r.K), r.N)]
    s = np.concatenate(s, axis=1)
    return {"S": s, "G": r.G + r.t(s).T @ r.Q}


KEEP = {"Q": Q, "K": K, "S": ("out", "f32", ["R", "C"]), "G": ("inout", "f32", ["C", "D"])}
Program("keep", HEAD.replace("    var acc = zeros<f32>[M, E];\n", "") + loop([S, "store S[m, n] = s;"]) +
        loop([S, "atomic_add G[n, :] += mma((s as T).T, q);"]), KEEP, keep)
Program("keep_one", HEAD.replace("    var acc = zeros<f32>[M, E];\n", "") +
        loop([S, "store S[m, n] = s;", "atomic_add G[n, :] += mma((s as T).T, q);"]), KEEP, keep)
Program("keep_back", HEAD.replace("    var acc = zeros<f32>[M, E];\n", "") +
        loop([S, "atomic_add G[n, :] += mma((s as T).T, q);"]) + loop([S, "store S[m, n] = s;"]), KEEP, keep)


def two_pass(r):
    s = r.Q @ r.K.T
    top = s.max(1)
    lse = top + np.log(np.exp(s - top[:, None]).sum(1))
    p = np.exp(s - lse[:, None])
    return {"O": r.t(p) @ r.V, "L": lse}


TWO = (HEAD + "    var top = full<f32>[M](-inf);\n    var total = zeros<f32>[M];\n" +
       loop([S, "let t = max(top, max(s, axis=1));",
             "total = total * exp(top - t) + sum(exp(s - t[:, None]), axis=1);", "top = t;"]) +
       "    let lse = top + log(total);\n" +
       loop(["let p = exp(mma(q, (load K[n, :]).T) - lse[:, None]);", "acc = mma(p as T, load V[n, :], acc);"],
            "n in tiles(C, N2)") + END + "    store L[m] = lse;\n")
Program("two_pass", TWO, dict(QKV, L=("out", "f32", ["R"])), two_pass)
Program("two_loops", HEAD + loop([S, "acc = mma(s as T, load V[n, :], acc);"]) + "    acc = acc * 0.5;\n" +
        loop(["let s = mma(q, (load K[n, :]).T);", "acc = mma(exp(s) as T, load V[n, :], acc);"], "n in tiles(C, N2)") + END,
        QKV, lambda r: {"O": r.t(r.Q @ r.K.T) @ r.V * 0.5 + r.t(np.exp(r.Q @ r.K.T)) @ r.V})
Program("side_by_side", HEAD + loop([S, "store S[m, n] = s;"]) +
        loop(["let k = load K[n, :];", "acc = mma((mma(q, k.T) * 0.5) as T, k, acc);"], "n in tiles(C, N2)") + END,
        {"Q": Q, "K": K, "S": ("out", "f32", ["R", "C"]), "O": O},
        lambda r: {"S": r.Q @ r.K.T, "O": r.t(r.Q @ r.K.T * 0.5) @ r.K} if r.D == r.E else None)


def scaled_after(r):
    acc = np.zeros((len(r.Q), r.E))
    g = np.array(r.G)
    for n in r.over(len(r.K), r.N):
        s = scores(r, n)
        acc = (acc * 0.5 + r.t(s) @ r.V[n]) * 0.5
        for m in r.over(len(r.Q), r.M):
            g[n] += r.t(s[m].max(1)[:, None] + r.W[n][None, :]).T @ r.Q[m]
    return {"O": acc, "G": g}


Program("scaled_after", HEAD + loop([
    S, "let top = max(s, axis=1);", "acc = mma(s as T, load V[n, :], acc * 0.5);", "acc = acc * 0.5;",
    "let t = top[:, None] + (load W[n])[None, :];", "atomic_add G[n, :] += mma((t as T).T, q);"]) + END,
    dict(QKV, W=("in", "f32", ["C"]), G=("inout", "f32", ["C", "D"])), scaled_after)


def back(r):
    """One step of a backward pass: programs are tiles of keys, the loop goes over queries."""
    s = r.Q @ r.K.T
    p = np.exp(s * 0.25)
    dp = r.P @ r.V.T
    ds = p * dp
    return {"dV": r.t(p).T @ r.P, "dK": r.t(ds).T @ r.Q, "G": r.G + r.t(ds) @ r.K}


Program("backward", """    grid n in tiles(C, M);
    let k = load K[n, :];
    let v = load V[n, :];
    var dv = zeros<f32>[M, E];
    var dk = zeros<f32>[M, D];
    for m in tiles(R, N) {
        let q = load Q[m, :];
        let g = load P[m, :];
        let p = exp(mma(q, k.T) * 0.25);
        dv = mma((p as T).T, g, dv);
        let ds = (p * mma(g, v.T)) as T;
        dk = mma(ds.T, q, dk);
        atomic_add G[m, :] += mma(ds, k);
    }
    store dV[n, :] = dv;
    store dK[n, :] = dk;
""", {"Q": Q, "K": K, "V": V, "P": ("in", "T", ["R", "E"]), "dV": ("out", "f32", ["C", "E"]),
      "dK": ("out", "f32", ["C", "D"]), "G": ("inout", "f32", ["R", "D"])}, back)
Program("backward_scaled", """    grid n in tiles(C, M);
    let k = load K[n, :];
    let v = load V[n, :];
    var dv = zeros<f32>[M, E];
    var dk = zeros<f32>[M, D];
    for m in tiles(R, N) {
        let q = load Q[m, :];
        let g = load P[m, :];
        let p = exp(mma(q, k.T) * 0.25);
        dv = mma((p as T).T, g, dv) * 0.5;
        let ds = (p * mma(g, v.T)) as T;
        dk = mma(ds.T, q, dk * 0.5);
        atomic_add G[m, :] += mma(ds, k) * 2.0;
    }
    store dV[n, :] = dv;
    store dK[n, :] = dk;
""", {"Q": Q, "K": K, "V": V, "P": ("in", "T", ["R", "E"]), "dV": ("out", "f32", ["C", "E"]),
      "dK": ("out", "f32", ["C", "D"]), "G": ("inout", "f32", ["R", "D"])},
        lambda r: backward_scaled(r))


def backward_scaled(r):
    dv, dk, g = np.zeros((len(r.K), r.E)), np.zeros((len(r.K), r.D)), np.array(r.G)
    for m in r.over(len(r.Q), r.N):
        p = np.exp(r.Q[m] @ r.K.T * 0.25)
        dv = (dv + r.t(p).T @ r.P[m]) * 0.5
        ds = r.t(p * (r.P[m] @ r.V.T))
        dk = dk * 0.5 + ds.T @ r.Q[m]
        g[m] += 2 * (ds @ r.K)
    return {"dV": dv, "dK": dk, "G": g}


def nested(r, reset):
    acc = np.zeros((len(r.Q), r.E))
    for h in range(3):
        if reset:
            acc = acc * 0.5
        for n in r.over(len(r.K), r.N):
            acc = acc + r.t(scores(r, n) * (h + 1)) @ r.V[n]
    return {"O": acc}


for reset in (False, True):
    Program("nested" + "_scaled" * reset, HEAD + "    for h in 0..count {\n" + ("        acc = acc * 0.5;\n" if reset else "") +
            loop([S, "acc = mma((s * (h + 1) as f32) as T, load V[n, :], acc);"]) + "    }\n" + END, QKV,
            (lambda flag: lambda r: nested(r, flag))(reset), scalars={"count": 3})
Program("nested_none", HEAD + "    for h in 0..count {\n" + loop([S, "acc = mma(s as T, load V[n, :], acc);"]) +
        "    }\n" + END, QKV, lambda r: {"O": np.zeros((len(r.Q), r.E))}, scalars={"count": 0})


def linear(r):
    """Linear attention: programs are columns of V, the loop carries a state."""
    out, state = np.zeros((len(r.K), r.V.shape[1])), np.zeros((r.D, r.V.shape[1]))
    for n in r.over(len(r.K), r.N):
        s = np.tril(r.P[n] @ r.K[n].T)
        out[n] = r.P[n] @ r.t(state) + r.t(s) @ r.V[n]
        state = state * 0.5 + r.K[n].T @ r.V[n]
    return {"O": out}


Program("linear", """    grid e in tiles(X, M);
    var state = zeros<f32>[D, M];
    for n in tiles(C, N) {
        let q = load P[n, :];
        let k = load K[n, :];
        let v = load V[n, e];
        let s = mma(q, k.T);
        let c = where(n[:, None] >= n[None, :], s, 0.0);
        store O[n, e] = mma(c as T, v, mma(q, state as T));
        state = mma(k.T, v, state * 0.5);
    }
""", {"P": K, "K": K, "V": ("in", "T", ["C", "X"]), "O": ("out", "f32", ["C", "X"])}, linear)


def inner_operand(r):
    """A tile kept over an inner loop, loaded in an outer one."""
    acc = np.zeros((len(r.Q), r.E))
    for n in r.over(len(r.K), r.N):
        k = r.K[n]
        s = r.Q @ k.T
        for j in r.over(len(r.P), r.N2):
            acc = acc + r.t(r.t(s * 0.25) @ r.t(k @ r.P[j].T * 0.25)) @ r.W[j]
    return {"O": acc}


Program("kept_inside", HEAD + """    for n in tiles(C, N) {
        let k = load K[n, :];
        let s = (mma(q, k.T) * 0.25) as T;
        for j in tiles(Y, N2) {
            let t = (mma(k, (load P[j, :]).T) * 0.25) as T;
            acc = mma(mma(s, t) as T, load W[j, :], acc);
        }
    }
""" + END, {"Q": Q, "K": K, "P": ("in", "T", ["Y", "D"]), "W": ("in", "T", ["Y", "E"]), "O": O}, inner_operand)


def gemm(r):
    return {"S": np.maximum(r.Q @ r.K.T, 0.25)}


Program("gemm_loop", """    grid m in tiles(R, M);
    for n in tiles(C, N) {
        var acc = zeros<f32>[M, N];
        for d in tiles(X, N2) { acc = mma(load Q[m, d], (load K[n, d]).T, acc); }
        store S[m, n] = max(acc, 0.25);
    }
""", {"Q": ("in", "T", ["R", "X"]), "K": ("in", "T", ["C", "X"]), "S": ("out", "f32", ["R", "C"])}, gemm)
Program("gemm", """    grid m in tiles(R, M), n in tiles(C, N);
    var acc = zeros<f32>[M, N];
    for d in tiles(X, N2) { acc = mma(load Q[m, d], (load K[n, d]).T, acc); }
    store S[m, n] = max(acc, 0.25);
""", {"Q": ("in", "T", ["R", "X"]), "K": ("in", "T", ["C", "X"]), "S": ("out", "f32", ["R", "C"])}, gemm)


def decayed(r):
    acc = np.zeros((len(r.Q), len(r.K)))
    for d in r.over(r.Q.shape[1], r.N2):
        acc = (acc + r.Q[:, d] @ r.K[:, d].T) * 0.5
    return {"S": acc}


Program("gemm_decayed", """    grid m in tiles(R, M), n in tiles(C, N);
    var acc = zeros<f32>[M, N];
    for d in tiles(X, N2) {
        acc = mma(load Q[m, d], (load K[n, d]).T, acc);
        acc = acc * 0.5;
    }
    store S[m, n] = acc;
""", {"Q": ("in", "T", ["R", "X"]), "K": ("in", "T", ["C", "X"]), "S": ("out", "f32", ["R", "C"])}, decayed)


def one_more(r):
    """The product of the iteration before, by hand."""
    acc = np.zeros((len(r.Q), r.E))
    before, at = None, None
    for n in r.over(len(r.K), r.N):
        if before is not None:
            acc = acc * 0.5 + before
        before = r.t(scores(r, n)) @ r.V[n]
    return {"O": acc + before}


simple("lagging", [S, "acc = acc * 0.5 + before;", "before = mma(s as T, load V[n, :]);"],
       lambda r, acc, n: (acc[0] * 0.5 + acc[1], r.t(scores(r, n)) @ r.V[n]),
       head=HEAD + "    var before = zeros<f32>[M, E];\n", end="    store O[m, :] = acc + before;\n",
       begin=lambda r: (np.zeros((len(r.Q), r.E)), np.zeros((len(r.Q), r.E))), more=lambda r, acc: acc[0] + acc[1])
simple("stored", [S, "acc = mma(s as T, load V[n, :], acc);", "store S[m, n] = s;"],
       lambda r, acc, n: acc + r.t(scores(r, n)) @ r.V[n], extra={"S": ("out", "f32", ["R", "C"])})
PROGRAMS[-1].ref = (lambda old: lambda r: dict(old(r), S=r.Q @ r.K.T))(PROGRAMS[-1].ref)
simple("added_up", [S, "total = total + s;", "acc = mma(s as T, load V[n, :], acc);", "acc = acc + 0.5;"],
       lambda r, acc, n: acc + r.t(scores(r, n)) @ r.V[n] + 0.5,
       head=HEAD + "    var total = zeros<f32>[M, N];\n", end="    store O[m, :] = acc + sum(total, axis=1)[:, None];\n",
       more=lambda r, acc: acc + (r.Q @ r.K.T).sum(1)[:, None])
simple("late_top", [S, "let t = mma(s as T, load V[n, :]);", "let b = max(top, max(t, axis=1));",
                    "acc = acc * 0.5 + t * b[:, None];", "top = b;"],
       lambda r, acc, n: late_top(r, acc, n), head=HEAD + "    var top = zeros<f32>[M];\n",
       end="    store O[m, :] = acc + top[:, None];\n",
       begin=lambda r: (np.zeros((len(r.Q), r.E)), np.zeros(len(r.Q))), more=lambda r, acc: acc[0] + acc[1][:, None])


def late_top(r, acc, n):
    t = r.t(scores(r, n)) @ r.V[n]
    b = np.maximum(acc[1], t.max(1))
    return acc[0] * 0.5 + t * b[:, None], b


# ---- the grid ----

TILES = [  # M, N, N2, D, E
    (64, 64, 64, 64, 64), (64, 32, 64, 64, 64), (64, 16, 48, 16, 16), (64, 80, 32, 32, 32), (64, 48, 16, 128, 64),
    (16, 64, 16, 64, 32), (32, 24, 40, 64, 24), (16, 8, 24, 16, 8), (128, 32, 64, 64, 64), (128, 64, 32, 16, 16),
    (192, 64, 32, 64, 64), (48, 40, 80, 80, 40), (64, 128, 64, 64, 128), (64, 64, 32, 64, 256)]
SIZES = [(64, 128), (100, 75), (1, 1), (130, 200), (77, 64), (200, 17), (64, 65), (1, 150)]
PLANS = ["consumers=1", "consumers=2,stages=2", "consumers=2,stages=1", "consumers=2,stages=3,q_stages=2,pingpong=1", "consumers=2,pipelined=0",
         "consumers=3,stages=2,persistent=0", "consumers=1,cooperative=1", "consumers=2,cooperative=1,stages=1,persistent=0",
         "consumers=4,stages=2,dynamic=0", "consumers=2,persistent=0,pingpong=1"]
REFUSED = ("a sum of products is used again after more is added to it", "has more registers than")


class Case:
    def __init__(self, program, dtype, tiles, sizes, arch, flags):
        self.program, self.dtype, self.arch, self.flags = program, dtype, arch, flags
        self.tiles = dict(zip(("M", "N", "N2", "D", "E"), tiles))
        self.sizes = {"R": sizes[0], "C": sizes[1], "X": 16 + sizes[1] // 8 * 8, "Y": 1 + sizes[0] // 2}

    def __str__(self):
        defines = " ".join(f"-D {k}={v}" for k, v in self.tiles.items())
        sizes = " ".join(f"{k}={v}" for k, v in self.sizes.items())
        return f"{self.program.name} {self.arch} {' '.join(self.flags)} -D T={self.dtype} {defines}  {sizes}"

    def shape(self, dims):
        return [self.sizes[d] if d in self.sizes else self.tiles[d] for d in dims]


def choices(tilec):
    """(target, flags): what a program is compiled with."""
    out = [(arch, [level]) for arch in ("sm_80", "sm_90", "sm_100") for level in ("-O3", "-O0")]
    out += [("sm_90", ["--plan=none"]), ("sm_90", ["--warps=8"]), ("sm_80", ["--stages=1"]), ("sm_80", ["--stages=3"]),
            ("sm_80", ["--warps=1"]), ("sm_100", ["--warps=2"])]
    out += [("sm_90", ["--plan=" + plan]) for plan in PLANS]
    for number, name in enumerate(ladder.optional_passes(tilec)):
        out.append((("sm_80", "sm_90", "sm_100")[number % 3], [f"-fno-{name}"]))
    return out


def cases(tilec, only):
    """All settings, in an order of their own."""
    out = []
    for program in PROGRAMS:
        if only and program.name not in only:
            continue
        for (arch, flags), tiles in itertools.product(choices(tilec), TILES):
            if any("plan=consumers" in flag for flag in flags) and tiles[0] % 64 != 0:
                continue
            if any("plan=consumers" in flag for flag in flags) and tiles[0] > 64 and not flags[0].startswith("--plan=consumers=1"):
                continue
            key = zlib.crc32(f"{program.name} {arch} {flags} {tiles}".encode())
            sizes = SIZES[key % len(SIZES)]
            if key >> 8 & 1:
                sizes = (sizes[1], sizes[0])
            out.append((key >> 9, Case(program, ("bf16", "f16")[key >> 16 & 1], tiles, sizes, arch, flags)))
    out.sort(key=lambda pair: pair[0])
    return [case for _, case in out]


def inputs(case):
    random = np.random.default_rng(zlib.crc32(str(case).encode()))
    made = {}
    for name, (mode, dtype, dims) in case.program.tensors.items():
        kind = case.dtype if dtype == "T" else dtype
        if mode != "out":
            made[name] = (ladder.rounded(random.standard_normal(case.shape(dims)) * SIGMA / case.tiles["D"] ** 0.25, kind), kind)
    return made


def run(options, case, folder):
    """None: right; else what is wrong.  "refused": said so in a sentence."""
    at = lambda name: os.path.join(folder, name)  # noqa: E731
    given = inputs(case)
    wanted = case.program.ref(Ref(case, {n: x for n, (x, _) in given.items()}, False))
    if wanted is None:
        return "skipped"
    exact = case.program.ref(Ref(case, {n: x for n, (x, _) in given.items()}, True))
    with open(at("k.tile"), "w", encoding="utf-8") as file:
        file.write(case.program.source())
    command = [options.tilec, at("k.tile"), "-arch", case.arch, *case.flags, "-o", at("k.ptx"), "-D", f"T={case.dtype}"]
    for name, value in case.tiles.items():
        command += ["-D", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 1 and "error: " in done.stderr:
        return "refused: " + re.search("error: (.*)", done.stderr).group(1)
    if done.returncode != 0:
        return f"exit {done.returncode}: {done.stderr[:1500]}"
    command = [options.tilerun, at("k.ptx"), "--device", "sim"]
    for name, (values, kind) in given.items():
        np.save(at(name + ".npy"), ladder.to_bits(values, kind))
        command += ["--in", f"{name}={at(name + '.npy')}"]
    for name, value in case.program.scalars.items():
        command += ["--set", f"{name}={value}"]
    for name, value in case.sizes.items():
        inside = [n for n, (mode, _, dims) in case.program.tensors.items() if name in dims]
        if inside and not any(case.program.tensors[n][0] != "out" for n in inside):
            command += ["--set", f"{name}={value}"]
    for name in wanted:
        command += ["--out", f"{name}={at(name + '.npy')}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return f"run: exit {done.returncode}: {(done.stderr + done.stdout)[:1500]}"
    for name, want in wanted.items():
        have = np.load(at(name + ".npy")).astype(np.float64)
        if have.shape != want.shape:
            return f"{name} has the shape {have.shape}, not {want.shape}"
        allowed = 2.5 * np.abs(want - exact[name]).max() + 1e-5 * np.abs(want).max() + 1e-6
        error = np.abs(have - want).max()
        if not error <= allowed:  # NaN fails
            return f"{name}: off by {error:.3g}, allowed {allowed:.3g}; largest {np.abs(want).max():.3g}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--all", action="store_true", help="the whole grid")
    parser.add_argument("--only", action="append", help="this program")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th setting from the K-th on")
    parser.add_argument("--few", type=int, default=220, help="how many settings without --all")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    part, parts = (int(x) for x in options.part.split("/"))
    chosen = cases(options.tilec, options.only)
    chosen = chosen if options.all or options.only else chosen[:options.few]
    count = {"right": 0, "refused": 0, "skipped": 0, "wrong": 0}
    refusals = {}
    for case in chosen[part::parts]:
        with tempfile.TemporaryDirectory() as folder:
            said = run(options, case, folder)
        kind = "right" if said is None else said.split(":")[0] if said.startswith(("refused", "skipped")) else "wrong"
        count[kind] += 1
        if kind == "refused":
            refusals.setdefault(said, []).append(case)
        if kind == "wrong" or options.verbose:
            print(f"{case}: {said}", flush=True)
    for said, of in refusals.items():
        print(f"{len(of)} {said}; one of them {of[0]}")
    print(", ".join(f"{n} {what}" for what, n in count.items()))
    return 1 if count["wrong"] or not count["right"] else 0


if __name__ == "__main__":
    sys.exit(main())
