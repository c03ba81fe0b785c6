#!/usr/bin/env python3
"""against_float64.py - the examples give the right numbers, as tile IR: against float64, after the passes
that every compilation runs and after those of -O3 that work on whole tiles.

    against_float64.py TILEC EXAMPLES
"""
import os
import subprocess
import sys

import numpy as np

import interpret
from interpret import compile_file, round_to

ALWAYS = ["simplify", "imply_masks"]
OPTIMISED = ["simplify", "imply_masks", "split-loops", "fuse"]


class Tester:
    def __init__(self, tilec, folder):
        self.tilec, self.folder, self.bad, self.count = tilec, folder, 0, 0

    def kernels(self, name, defines, passes):
        return compile_file(self.tilec, os.path.join(self.folder, name + ".tile"), defines, passes)

    def near(self, what, have, want, tolerance):
        self.count += 1
        same = np.isinf(want) & (have == want)
        error = np.max(np.where(same, 0, np.abs(have - np.where(same, 0, want))), initial=0)
        if not error <= tolerance * max(1, np.max(np.abs(want[~np.isinf(want)]), initial=0)):
            self.bad += 1
            print(f"{what}: error {error}, at most {tolerance} is right")


def reference(q, k, v, g, scale, cap, o):
    """Forward and backward of attention in float64."""
    group = q.shape[2] // k.shape[2]
    kk, vv = np.repeat(k, group, 2), np.repeat(v, group, 2)
    sq, sk, heads = q.shape[1], k.shape[1], q.shape[2]
    x = np.einsum("bihd,bjhd->bhij", q, kk) * scale
    t = np.tanh(x / cap)
    s = cap * t if o.get("SOFTCAP") else x
    i, j = np.arange(sq)[:, None] + sk - sq, np.arange(sk)[None, :]
    if o.get("ALIBI"):
        slope = 2.0 ** (-8 * (np.arange(heads) + 1) / heads)
        s = s - slope[None, :, None, None] * np.abs(i - j)
    seen = np.ones((sq, sk), bool)
    if o.get("CAUSAL"):
        seen &= j <= i
    if o.get("WINDOW"):
        seen &= j > i - o["WINDOW"]
    if "RIGHT" in o:
        seen &= j <= i + o["RIGHT"]
    s = np.where(seen, s, -np.inf)
    top = np.where(seen.any(1)[:, None], np.max(s, -1, keepdims=True), 0)
    total = np.exp(s - top).sum(-1, keepdims=True)
    p = np.exp(s - top) / np.where(total > 0, total, 1)
    r = {"L": np.where(total > 0, top + np.log(np.where(total > 0, total, 1)), -np.inf)[..., 0],
         "O": np.einsum("bhij,bjhd->bihd", p, vv)}
    dp = np.einsum("bihd,bjhd->bhij", g, vv)
    ds = p * (dp - np.einsum("bihd,bihd->bhi", g, r["O"])[..., None]) * scale
    if o.get("SOFTCAP"):
        ds *= 1 - t * t
    r["dQ"] = np.einsum("bhij,bjhd->bihd", ds, kk)
    for name, y in [("dK", np.einsum("bhij,bihd->bjhd", ds, q)),
                    ("dV", np.einsum("bhij,bihd->bjhd", p, g))]:
        r[name] = y.reshape(*y.shape[:2], k.shape[2], group, y.shape[3]).sum(3)
    return r


def attention(tester, passes, b, sq, sk, hq, hk, d, dv, m, n, dtype="bf16", size=1.0, **options):
    random = np.random.default_rng(sq * 1000 + sk)
    scale, cap = d ** -0.5, 5.0
    draw = lambda *shape: round_to(random.standard_normal(shape) * size, dtype)
    t = {"Q": draw(b, sq, hq, d), "K": draw(b, sk, hk, d), "V": draw(b, sk, hk, dv),
         "dO": draw(b, sq, hq, dv)}
    for name, shape in [("O", (b, sq, hq, dv)), ("L", (b, hq, sq)), ("L2", (b, hq, sq)),
                        ("delta", (b, hq, sq)), ("dQ", (b, sq, hq, d)), ("dK", (b, sk, hk, d)),
                        ("dV", (b, sk, hk, dv))]:
        t[name] = np.full(shape, np.nan, np.float32)
    t["dQ_sum"] = np.zeros((b, sq, hq, d), np.float32)
    want = reference(*(t[name].astype(np.float64) for name in ("Q", "K", "V", "dO")), scale, cap,
                     options)
    what = f"{b, sq, sk, hq, hk, d, dv} {dtype} {options} {passes[-1]}"
    sizes = {"B": b, "Sq": sq, "Sk": sk, "Hq": hq, "Hk": hk}
    scalars = {"scale": scale, "softcap": cap}
    defines = {"T": dtype, "D": d, "DV": dv, "M": m, "N": n, **options}
    forward = tester.kernels("attention", defines, passes)
    interpret.run(forward["attention"], t, sizes, scalars)
    tester.near(what + " L", t["L"], want["L"], 1e-5)
    tester.near(what + " O", t["O"], want["O"], 0.01)
    defines.pop("LAZY", None)
    backward = tester.kernels("attention_bwd", defines, passes)
    for names in [["delta", None, "convert"], ["dkdv", "dq"]]:
        for name in names:
            kernel = "attention_bwd" + (f"_{name}" if name else "")
            interpret.run(backward[kernel], t, sizes, scalars)
        for name in ["dQ", "dK", "dV"]:
            tester.near(f"{what} {name} ({names[-1]})", t[name], want[name], 0.015)
            t[name][:] = np.nan


def attention_cases(tester, passes):
    for case, options in [((1, 32, 32, 1, 1, 16, 16, 16, 16), {}),
                          ((1, 37, 45, 2, 1, 16, 24, 16, 16), {}),
                          ((2, 37, 45, 4, 2, 16, 8, 16, 32), {"CAUSAL": 1}),
                          ((1, 45, 37, 2, 2, 16, 16, 16, 16), {"CAUSAL": 1}),
                          ((1, 50, 70, 1, 1, 16, 16, 16, 16), {"CAUSAL": 1, "WINDOW": 11}),
                          ((1, 70, 50, 1, 1, 16, 16, 16, 16), {"WINDOW": 11, "RIGHT": 3}),
                          ((1, 70, 5, 1, 1, 8, 8, 16, 16), {"CAUSAL": 1, "RIGHT": 2}),
                          ((1, 50, 70, 2, 1, 16, 16, 16, 16),
                           {"CAUSAL": 1, "SOFTCAP": 1, "ALIBI": 1}),
                          ((1, 33, 65, 2, 1, 16, 16, 16, 16), {"SOFTCAP": 1, "size": 2.0}),
                          ((1, 50, 70, 2, 1, 16, 16, 32, 16), {"ALIBI": 1, "LAZY": 1}),
                          ((1, 50, 70, 2, 1, 16, 16, 32, 16),
                           {"CAUSAL": 1, "LAZY": 1, "size": 3.0}),
                          ((1, 1, 1, 1, 1, 8, 8, 16, 16), {"dtype": "f16"})]:
        attention(tester, passes, *case, **options)


def small_examples(tester, passes):
    random = np.random.default_rng(7)
    draw = lambda dtype, *shape: round_to(random.standard_normal(shape), dtype)
    x = draw("f32", 1500)
    t = {"X": x, "Y": np.full(1500, np.nan, np.float32)}
    interpret.run(tester.kernels("copy", {}, passes)["copy"], t, {"S": 1500}, {})
    tester.near("copy", t["Y"], x, 0)

    t = {"X": draw("bf16", 37, 300), "Y": draw("bf16", 37, 300),
         "Z": np.full((37, 300), np.nan, np.float32)}
    interpret.run(tester.kernels("add", {}, passes)["add"], t, {"R": 37, "C": 300}, {"a": 2.5})
    tester.near("add", t["Z"], round_to(np.float32(2.5) * t["X"] + t["Y"], "bf16"), 0)

    t = {"X": draw("f32", 37, 300) * 9, "Y": np.full((37, 300), np.nan, np.float32)}
    kernel = tester.kernels("row_softmax", {}, passes)["row_softmax"]
    interpret.run(kernel, t, {"R": 37, "C": 300}, {})
    e = np.exp(t["X"].astype(np.float64) - t["X"].max(1, keepdims=True))
    # The maxima, and so lse, reach 32 here: rounding lse, x - lse and the product with log2(e) in
    # f32 each move the exponent by up to 32 * 2^-24, relative to probabilities of at most 1.
    tester.near("row_softmax", t["Y"], e / e.sum(1, keepdims=True), 3 * 32 * 2.0 ** -24)

    t = {"A": draw("bf16", 50, 70), "B": draw("bf16", 70, 40), "bias": draw("f32", 40)}
    product = t["A"].astype(np.float64) @ t["B"] + t["bias"]
    sigmoid = 1 / (1 + np.exp(-product))
    gelu = 0.5 * product * (1 + np.tanh(0.7978845608028654 * (product + 0.044715 * product ** 3)))
    for number, want in enumerate([product, np.maximum(product, 0), gelu, product * sigmoid]):
        t["C"] = np.full((50, 40), np.nan, np.float32)
        defines = {"TM": 16, "TN": 32, "TK": 16, "ACTIVATION": number}
        interpret.run(tester.kernels("gemm", defines, passes)["gemm"], t,
                      {"M": 50, "N": 40, "K": 70}, {})
        tester.near(f"gemm {number}", t["C"], want, 0.004)

    # heads packed into rows, a causal mask, three programs that share the keys
    t = {"Q": draw("bf16", 1, 5, 6, 16), "K": draw("bf16", 1, 70, 2, 16), "V": draw("bf16", 1, 70, 2, 16)}
    empty = lambda *shape: np.full(shape, np.nan, np.float32)
    t |= {"O": empty(1, 5, 6, 16), "L": empty(1, 6, 5), "O_part": empty(1, 3, 5, 2, 4, 16),
          "L_part": empty(1, 3, 2, 4, 5)}
    sizes = {"B": 1, "Sq": 5, "Sk": 70, "Hq": 6, "Hk": 2, "X": 3, "P": 4}
    kernels = tester.kernels("attention_decode", {"D": 16, "DV": 16, "G": 3, "GP": 4, "MS": 4, "N": 32}, passes)
    s = 0.25 * np.einsum("qhd,khd->hqk", t["Q"][0].astype(np.float64), t["K"][0].repeat(3, axis=1))
    s = np.where(np.arange(70) <= np.arange(5)[:, None] + 65, s, -np.inf)
    total = np.exp(s).sum(-1)
    want = np.einsum("hqk,khd->qhd", np.exp(s) / total[..., None], t["V"][0].repeat(3, axis=1))
    for ways in [["attention_decode"], ["attention_decode_split", "attention_decode_combine"]]:
        t["O"][:], t["L"][:] = np.nan, np.nan
        for name in ways:
            interpret.run(kernels[name], t, sizes, {"scale": 0.25})
        tester.near(ways[0], t["O"][0], want, 0.02)
        tester.near(ways[0] + " L", t["L"][0], np.log(total), 1e-4)


def main():
    tester = Tester(os.path.abspath(sys.argv[1]), sys.argv[2])
    np.seterr(all="ignore")
    listed = subprocess.run([tester.tilec, "--list-passes"], capture_output=True, check=True)
    known = {line.split()[0] for line in listed.stdout.decode().split("\n") if line.strip()}
    for passes in [ALWAYS, OPTIMISED]:
        assert set(passes) <= known, f"passes of {passes} are unknown"
        small_examples(tester, passes)
        attention_cases(tester, passes)
    print(f"{tester.count} comparisons, {tester.bad} bad")
    return 1 if tester.bad or tester.count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
