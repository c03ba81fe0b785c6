#!/usr/bin/env python3
"""attention_paged_fp8.py - examples/attention_paged_fp8.tile in the interpreter and the simulator, against float64.

    attention_paged_fp8.py --tilec T --tilerun R

Pages in any order, with numbers behind the last key and pages that no sequence has; sequences of no key, of fewer keys than queries,
and of several pages; programs that share them, more than there are tiles; grouped heads, padded groups, several queries.
"""
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402
from float8_codes import NUMBERS, codes  # noqa: E402

SOURCE = os.path.join(ladder.ROOT, "examples", "attention_paged_fp8.tile")
GROUP, WARP, WIDE = "wgmma.mma_async.sync.aligned.m64n64k32.f32.e4m3.e4m3", "m16n8k32.row.col.f32.e4m3.e4m3", "f32.f16.f16"


def cases():
    """arch, options, head dimension, keys of a page, group, its rows, queries, programs, lengths, what must be in the PTX"""
    lengths = [333, 64, 0, 1]
    yield "sm_90", [], 128, 64, 8, 8, 1, 3, lengths, GROUP
    yield "sm_90", [], 64, 128, 4, 4, 3, 2, lengths, GROUP
    yield "sm_90", ["--plan=consumers=2,stages=2,pipelined=0"], 128, 64, 3, 4, 2, 5, lengths, GROUP
    yield "sm_90", [], 128, 32, 1, 1, 1, 2, [70, 129], "m64n32k32.f32.e4m3.e4m3"
    yield "sm_90", ["--plan=none"], 64, 64, 8, 8, 1, 2, lengths, WARP
    for arch in ("sm_80", "sm_89", "sm_100", "sm_120"):
        yield arch, [], 64, 64, 4, 4, 2, 2, lengths, WIDE if arch == "sm_80" else WARP
    yield "interpreter", [], 64, 64, 3, 4, 2, 3, [100, 0, 30], ""


def wanted(q, k, v, lengths, group, scale):
    """[B, Sq, H, D] in float64, what errors are in proportion to, logarithms of sums [B, H, Sq], and what scores may be off by."""
    lost = 0.0
    o, size, lse = np.zeros(q.shape), np.full(q.shape, 2.0**-13), np.full((len(lengths), q.shape[2], q.shape[1]), -np.inf)
    for b, n in enumerate(lengths):
        for h in range(q.shape[2]):
            keys, values = k[b, :n, h // group], v[b, :n, h // group]
            for s in range(q.shape[1]):
                seen = s + n - q.shape[1] + 1
                if seen <= 0:
                    continue
                x = keys[:seen] @ q[b, s, h] * scale
                lost = max(lost, np.max(np.abs(keys[:seen]) @ np.abs(q[b, s, h])) * scale * (q.shape[3] / 32 + 1) * 2.0**-13)
                p = np.exp(x - x.max())
                lse[b, h, s] = np.log(p.sum()) + x.max()
                o[b, s, h], size[b, s, h] = p @ values[:seen] / p.sum(), p @ np.abs(values[:seen]) / p.sum() + 2.0**-9 * np.abs(values).max()
    return o, size, lse, lost


def judge(options, folder, case):
    arch, flags, d, page, group, rows, queries, programs, lengths, need = case
    os.mkdir(folder)
    r, ptx, heads = np.random.default_rng([d, page, queries]), os.path.join(folder, "k.ptx"), 2
    entries, batch = max(-(-max(lengths) // page), 1), len(lengths)
    pages = batch * entries + 3
    q = ladder.rounded(r.normal(size=(batch, queries, heads * group, d)) * r.choice([1, 0.01, 3], size=(1, 1, heads * group, 1)), "bf16")
    x = {"K": codes(r.normal(size=(pages, page, heads, d)) * 2, "e4m3"), "V": codes(r.normal(size=(pages, heads, d, page)) + 0.5, "e4m3")}
    scales = {name: r.uniform(0.5, 1, heads).astype(np.float32) for name in ("KS", "VS")}
    table = r.permutation(pages)[:batch * entries].reshape(batch, entries).astype(np.int32)
    given = {"Q": ladder.to_bits(q, "bf16"), **x, **scales, "table": table, "lengths": np.array(lengths, np.int32)}
    defines = [word for name, value in {"D": d, "PS": page, "G": group, "GP": rows}.items() for word in ("-D", f"{name}={value}")]
    first = [options.tilec, "run", SOURCE, *defines]
    if arch != "interpreter":
        done = subprocess.run([options.tilec, SOURCE, "-arch", arch, "--verify", "-Wno-plan", "-o", ptx, *defines, *flags], capture_output=True, text=True)
        if done.returncode:
            return ladder.failure(done)
        with open(ptx, encoding="utf-8") as file:
            if need not in file.read():
                return f"has no {need}"
        first = [options.tilerun, ptx, "--device", "sim"]
    done = subprocess.run(ladder.with_arrays(first, folder, given, {"scale": d**-0.5, "X": programs}, ["O_part", "L_part"]),
                          capture_output=True, text=True)
    if done.returncode:
        return ladder.failure(done)
    got = ladder.loaded(folder, ["O_part", "L_part"])
    o_part, l_part = got["O_part"][..., :group, :].astype(np.float64), got["L_part"][:, :, :, :group].astype(np.float64)
    number, by = NUMBERS["e4m3"], lambda name, axes: scales[name].astype(np.float64)[axes]
    k = (number[x["K"]] * by("KS", (None, None, slice(None), None)))[table].reshape(batch, entries * page, heads, d)
    v = (number[x["V"]] * by("VS", (None, slice(None), None, None))).transpose(0, 3, 1, 2)[table].reshape(batch, entries * page, heads, d)
    o, size, lse, lost = wanted(q, k, v, lengths, group, d**-0.5)
    most = l_part.max(1, keepdims=True)
    weight = np.exp(l_part - np.where(np.isinf(most), 0, most))
    total = weight.sum(1)
    with np.errstate(divide="ignore"):
        found_l = (np.log(total) + np.where(np.isinf(most[:, 0]), 0, most[:, 0])).reshape(batch, heads * group, queries)
    share = (weight / np.maximum(total, 1e-30)[:, None]).transpose(0, 1, 4, 2, 3)[..., None]
    found = (share * np.where(np.isfinite(o_part), o_part, 0)).sum(1).reshape(batch, queries, heads * group, d)
    if not np.array_equal(np.isneginf(found_l), np.isneginf(lse)):
        return "L is not -inf where there is no key, or elsewhere"
    off, known = np.max(np.abs(found - o) / size), np.isfinite(lse)
    off_l = np.max(np.abs(found_l[known] - lse[known]), initial=0)
    # weights have eight bits, and each product of 32 of the inner dimension loses less than 2^-13 of what it is added to: scores, too
    if not off <= 2.0**-8 + 2.0**-9 + max(lengths) / 32 * 2.0**-13 + lost or not off_l <= 2.0**-8 + lost:
        return f"O is off by {off:.3g} of the sum of |p v|, L by {off_l:.3g}; scores may be by {lost:.3g}"
    return ""


if __name__ == "__main__":
    sys.exit(ladder.judge_all(judge, cases()))
