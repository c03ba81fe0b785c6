#!/usr/bin/env python3
"""experts_chain.py - examples/experts.tile, all its kernels one behind the other, in the interpreter and the simulator, against float64.

    experts_chain.py --tilec T --tilerun R

Experts without a token, one token, all tokens to one expert, 1 to 8 experts of a token, sizes that fill no tile, tokens counted in
several chunks, the ways of today's models to choose.
"""
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import float8_codes  # noqa: E402
import ladder  # noqa: E402

SOURCE = os.path.join(ladder.ROOT, "examples", "experts.tile")
SMALL = {"TN": 64, "TK": 32}
FEW = ("experts_gate_up_few", "experts_down_few")
MANY = ("experts_gate_up", "experts_down")
ROUTING = {"CHUNK": 16}
LISTS = ["Row", "End", "Expert"]


def cases():
    """arch, tokens, experts, experts of a token, D, F, options: a bias and groups, sigmoids, not normalised; the scores; plan, products"""
    yield "interpreter", 37, 8, 2, 72, 40, {"few": True}, ""
    yield "interpreter", 50, 16, 8, 64, 40, {"groups": (4, 2), "scale": 2.5}, ""
    yield "interpreter", 20, 5, 1, 40, 24, {"sigmoid": True, "normalize": False, "dtype": "f16"}, ""
    yield "sm_90", 150, 6, 2, 72, 88, {"one": True}, "wgmma"
    yield "sm_90", 70, 12, 8, 136, 72, {"few": True, "normalize": False}, "wgmma"
    yield "sm_90", 1, 40, 8, 72, 40, {"few": True, "dtype": "f16"}, "wgmma"
    yield "sm_90", 40, 4, 1, 200, 72, {"sigmoid": True, "normalize": False}, "wgmma"
    yield "sm_90", 9, 12, 3, 72, 40, {"few": True, "one": True, "given": True}, "wgmma"
    yield "sm_80", 45, 16, 4, 72, 40, {"groups": (8, 3), "scale": 1.5}, "mma.sync"
    yield "sm_80", 5, 8, 2, 72, 40, {"few": True, "sigmoid": True, "normalize": True}, "mma.sync"
    yield "sm_100", 45, 5, 2, 72, 40, {"given": True}, ""
    yield "sm_100", 150, 4, 2, 72, 88, {"rows": 128, "multiplies": "tcgen05.mma", "one": True}, "tcgen05.mma"
    yield "interpreter", 20, 3, 2, 128, 256, {"fp8": True, "few": True}, ""
    yield "sm_90", 30, 4, 2, 256, 128, {"fp8": True, "few": True, "one": True}, "wgmma"
    yield "sm_80", 5, 4, 3, 128, 128, {"fp8": True, "few": True, "dtype": "f16"}, "mma"
    yield "sm_100", 9, 4, 2, 128, 128, {"fp8": True, "few": True, "given": True}, ""
    yield "sm_120", 33, 8, 8, 72, 40, {"few": True}, "mma.sync"


def in_blocks(r, *shape):
    """Weights in e4m3 with a scale for 128 x 128 each: their codes, the scales, what they stand for."""
    codes = r.integers(0, 256, shape).astype(np.uint8)
    codes[codes & 127 == 127] = 0  # NaN
    scales = (r.uniform(0.5, 2, (*shape[:-2], shape[-2] // 128, shape[-1] // 128)) * 0.02 * shape[-1]**-0.5).astype(np.float32)
    return codes, scales, float8_codes.NUMBERS["e4m3"][codes] * scales.astype(np.float64).repeat(128, -2).repeat(128, -1)


def rounded_fp8(x):
    """Rows rounded to e4m3 with a scale for each 128."""
    parts = x.astype(np.float32).reshape(*x.shape[:-1], -1, 128)
    s = np.maximum(np.abs(parts).max(-1, keepdims=True), np.float32(1e-10)) / np.float32(448)
    return (float8_codes.NUMBERS["e4m3"][float8_codes.codes((parts / s).astype(np.float64), "e4m3")] * s).reshape(x.shape)


def routed(r, scores, kk, bias, options):
    """The weights and the experts of each token."""
    e = np.exp(scores - scores.max(1, keepdims=True))
    s = 1 / (1 + np.exp(-scores)) if options.get("sigmoid") or options.get("groups") else e / e.sum(1, keepdims=True)
    choice = s + bias if options.get("groups") else s
    if options.get("groups"):
        groups, best = options["groups"]
        by_group = choice.reshape(len(s), groups, -1)
        order = np.argsort(-np.sort(by_group, axis=2)[:, :, -2:].sum(2), axis=1, kind="stable")[:, :best]
        open_ = np.zeros((len(s), groups), bool)
        np.put_along_axis(open_, order, True, axis=1)
        choice = np.where(open_[:, :, None], by_group, -np.inf).reshape(s.shape)
    ids = np.argsort(-choice, axis=1, kind="stable")[:, :kk]
    w = np.take_along_axis(s, ids, 1)
    return w * options.get("scale", 1.0) / (w.sum(1, keepdims=True) if options.get("normalize", True) else 1), ids


class Chain:
    """Kernels one behind the other; they find the tensors of those before by name."""

    def __init__(self, options, folder, arch):
        self.options, self.folder, self.arch, self.tensors, self.ptx = options, folder, arch, {}, ""

    def run(self, kernel, defines, names, outputs, sets=None):
        words = [word for name, value in defines.items() for word in ("-D", f"{name}={value}")] + ["--kernel", kernel]
        command, ptx = [self.options.tilec, "run", SOURCE, *words], os.path.join(self.folder, kernel + ".ptx")
        if self.arch != "interpreter":
            done = subprocess.run([self.options.tilec, SOURCE, "-arch", self.arch, "--verify", "-Wno-plan", "-o", ptx, *words], capture_output=True, text=True)
            if done.returncode:
                raise ValueError(f"{kernel}: {ladder.failure(done)}")
            with open(ptx, encoding="utf-8") as file:
                self.ptx = file.read()
            command = [self.options.tilerun, ptx, "--device", "sim", "--seeds", "2"]
        given = {name: self.tensors[name] for name in names}
        done = subprocess.run(ladder.with_arrays(command, self.folder, given, sets or {}, outputs), capture_output=True, text=True)
        if done.returncode:
            raise ValueError(f"{kernel}: {ladder.failure(done)}")
        self.tensors.update(ladder.loaded(self.folder, outputs))

    def products(self, how, dtype, kk, tile):
        gate_up, down = FEW if how.get("few") else MANY
        self.run("experts_permute", {"T": dtype, "KK": kk}, ["X", "Place"], ["P"])
        sizes = {"T": dtype, "TM": tile, **SMALL, **({"M": how["rows"]} if "rows" in how else {})}
        self.run(gate_up, sizes, ["P", "G", *LISTS], ["H"])
        if how.get("multiplies", "") not in self.ptx:
            raise ValueError(f"no {how['multiplies']} in {gate_up}")
        self.run(down, sizes, ["H", "W", *LISTS], ["O"])


def off(have, want, allowed):
    """What is wrong with a result, "" for nothing."""
    error = np.abs(have - want) - allowed * np.abs(want).max(initial=0)
    return "" if error.max(initial=-1) <= 0 else f"an error of {np.abs(have - want).max():.2e}, {np.abs(want).max():.2e} is the largest"


def judge(options, folder, case):
    arch, s, e, kk, d, f, how, multiplies = case
    os.mkdir(folder)
    r, dtype, tile = np.random.default_rng([s, e, kk, d]), how.get("dtype", "bf16"), 16 if how.get("few") else 128
    def number(*shape, scale=1.0):
        return ladder.rounded(r.normal(size=shape) * scale, dtype)
    x, g, w = number(s, d), number(e, 2, f, d, scale=d**-0.5), number(e, d, f, scale=f**-0.5)
    if how.get("fp8"):
        (g_codes, g_scales, g), (w_codes, w_scales, w) = in_blocks(r, e, 2 * f, d), in_blocks(r, e, d, f)
        g = g.reshape(e, 2, f, d)
    scores, bias = r.normal(size=(s, e)).astype(np.float32), r.normal(size=e).astype(np.float32)
    if how.get("one"):
        scores[:, :kk] += 50
    weights, ids = routed(r, scores.astype(np.float64), kk, bias, how)
    chain = Chain(options, folder, arch)
    chain.tensors = {name: ladder.to_bits(value, dtype) for name, value in (("X", x), ("G", g), ("W", w))}
    if how.get("fp8"):
        chain.tensors.update(G=g_codes, SG=g_scales, W=w_codes, SW=w_scales)
    chunks = -(-s // ROUTING["CHUNK"])
    chain.tensors.update(Scores=scores.reshape(-1) if how.get("groups") else scores, Bias=bias, Count=np.zeros((chunks, e), np.int32))
    sizes, scale = {"E": e, "KK": kk, **ROUTING}, {"scale": how.get("scale", 1.0)}
    normalize = {"NORMALIZE": str(how.get("normalize", True)).lower()}
    try:
        if how.get("given"):
            ids[r.random(ids.shape) < 0.2] = -1  # of experts that are elsewhere
            ids[0, :1], ids[-1, :1] = e, e + 1
            chain.tensors.update(Id=ids.reshape(-1).astype(np.int32), Weight=weights.reshape(-1).astype(np.float32))
            chain.run("experts_count", {**sizes, "M": 16}, ["Id", "Count"], ["Count"])
        elif how.get("groups"):
            chain.run("experts_router_biased", {**sizes, **normalize, "TL": "f32", "GROUPS": how["groups"][0], "BEST": how["groups"][1]},
                      ["Scores", "Bias", "Count"], ["Weight", "Id", "Count"], scale)
        else:
            chain.run("experts_router", {**sizes, **normalize, "TL": "f32", "SIGMOID": str(bool(how.get("sigmoid"))).lower()},
                      ["Scores", "Count"], ["Weight", "Id", "Count"], scale)
        if not np.array_equal(chain.tensors["Id"].reshape(s, kk), ids):
            return "other experts are chosen"
        here = (ids >= 0) & (ids < e)
        wrong = off(chain.tensors["Weight"].reshape(s, kk), weights, 1e-5)
        if wrong:
            return "weights: " + wrong
        if not np.array_equal(chain.tensors["Count"].sum(0), np.bincount(ids[here], minlength=e)):
            return "Count is wrong"
        pairs = s * kk
        places = min(pairs, e) + (pairs - min(pairs, e)) // tile
        chain.run("experts_places", {**sizes, "TM": tile, "A": 64}, ["Id", "Count"], ["Place", "Row", "End", "Expert"], {"Y": places})
        place = chain.tensors["Place"].reshape(s, kk)
        if not np.array_equal(place[here].argsort(), np.argsort(ids[here], kind="stable")) or (place[~here] != -1).any():
            return "Place is wrong"
        ends = np.cumsum(np.bincount(ids[here], minlength=e))
        tiles = [(at, ends[i], i) for i in range(e) for at in range(ends[i - 1] if i else 0, ends[i], tile)]
        tiles += [(ends[-1], ends[-1], e - 1)] * (places - len(tiles))
        if not np.array_equal(np.stack([chain.tensors[name] for name in LISTS], 1), tiles):
            return "the list of tiles is wrong"
        if how.get("fp8"):
            chain.run("experts_permute_fp8", {"T": dtype, "KK": kk}, ["X", "Place"], ["P", "SP"])
            chain.run("experts_gate_up_fp8", {"T": dtype, "TM": tile}, ["P", "SP", "G", "SG", *LISTS], ["A"])
            chain.run("experts_swiglu_fp8", {"T": dtype}, ["A"], ["H", "SH"])
            chain.run("experts_down_fp8", {"T": dtype, "TM": tile}, ["H", "SH", "W", "SW", *LISTS], ["O"])
        else:
            chain.products(how, dtype, kk, tile)
        if multiplies not in chain.ptx:
            return f"no {multiplies} in the PTX"
        chain.run("experts_combine", {"T": dtype, "KK": kk}, ["O", "Place", "Weight"], ["Z"])
    except ValueError as wrong:
        return str(wrong)
    z, rounded = np.zeros((s, d)), lambda y: ladder.rounded(y, dtype)  # noqa: E731
    x = rounded_fp8(x) if how.get("fp8") else x
    for k in range(kk):
        at = np.where(here[:, k], ids[:, k], 0)
        a = np.einsum("sd,scfd->scf", x, g[at])
        a = rounded(a) if how.get("fp8") else a
        h = a[:, 0] / (1 + np.exp(-a[:, 0])) * a[:, 1]
        h = rounded_fp8(h) if how.get("fp8") else rounded(h)
        z += (weights * here)[:, k, None] * rounded(np.einsum("sf,sdf->sd", h, w[at]))
    # a hidden number of 8 bits may be rounded to its other neighbour
    return off(ladder.from_bits(chain.tensors["Z"], dtype), z, 0.02 if how.get("fp8") else 4 * ladder.EPSILON[dtype])


if __name__ == "__main__":
    sys.exit(ladder.judge_all(judge, cases()))
