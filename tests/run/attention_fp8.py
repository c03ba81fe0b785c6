#!/usr/bin/env python3
"""attention_fp8.py - examples/attention_fp8.tile in the interpreter and the simulator, against float64.

    attention_fp8.py --tilec T --tilerun R

Scales of heads, grouped heads, masks, whose hidden iterations are skipped, keys whose number is no multiple of a tile, of 16 or of
2, rows without a key, and scores that grow along the keys, for which maxima are raised in each tile; weights that go to the
second product through lanes, not through shared memory.
"""
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402
from float8_codes import NUMBERS, codes  # noqa: E402

SOURCE = os.path.join(ladder.ROOT, "examples", "attention_fp8.tile")
GROUP, WARP, WIDE = "wgmma.mma_async.sync.aligned.m64n%dk32.f32.e4m3.e4m3", "m16n8k32.row.col.f32.e4m3.e4m3", "f32.f16.f16"
B, HQ, HK = 2, 4, 2


def cases():
    """arch, options, queries, keys, whether scores grow, what must be in the PTX."""
    def roles(d, n, consumers):
        return ["-D", f"D={d}", "-D", "M=64", "-D", f"N={n}", f"--plan=consumers={consumers},stages=2"]
    causal, window, apart = ["-D", "CAUSAL=true"], ["-D", "CAUSAL=true", "-D", "WINDOW=70"], ["-D", "FAST=false"]
    for k, (d, n, consumers) in enumerate([(64, 128, 3), (64, 64, 4), (128, 128, 2), (128, 64, 3), (128, 96, 2), (256, 64, 2)]):
        needs = [GROUP % n, GROUP % d]
        more = [[], causal, window][k % 3]
        yield "sm_90", roles(d, n, consumers) + more, 200, 333, False, needs
        yield "sm_90", roles(d, n, consumers) + [[], causal][k % 2], 70, 49, k % 2 == 0, needs
    yield "sm_90", roles(64, 64, 2) + apart, 100, 300, True, [GROUP % 64]
    yield "sm_90", roles(64, 64, 2) + causal, 150, 70, True, [GROUP % 64]  # queries before the first key
    yield "sm_90", ["-D", "D=64", "-D", "CAUSAL=true"], 300, 300, True, ["wgmma.mma_async"]
    for k, arch in enumerate(["sm_80", "sm_89", "sm_90", "sm_100", "sm_120"]):
        needs = [WIDE if arch == "sm_80" else WARP]
        yield arch, ["-D", f"D={64 << k % 2}", "--plan=none", *[[], causal, window][k % 3]], 70, 150, k % 2 == 0, needs
    for more in ([], window + apart):
        yield "interpreter", ["-D", "D=64", "-D", "M=64", "-D", "N=64", *more], 50, 77, True, []


def wanted(x, values, options, scale):
    """O, L and what errors of O are in proportion to."""
    q, k, v = (NUMBERS["e4m3"][x[n]] for n in "QKV")
    group = HQ // HK
    k, v, ks, vs = (np.repeat(a, group, axis) for a, axis in ((k, 2), (v, 1), (values["KS"], 1), (values["VS"], 1)))
    unit = (values["QS"].astype(np.float64) * ks * scale)[:, :, None, None]
    s = np.einsum("bqhd,bkhd->bhqk", q, k) * unit
    at, key = np.arange(s.shape[2])[:, None] + s.shape[3] - s.shape[2], np.arange(s.shape[3])[None]
    if "CAUSAL=true" in options:
        s = np.where(key <= at, s, -np.inf)
    if "WINDOW=70" in options:
        s = np.where(key > at - 70, s, -np.inf)
    most = s.max(3, keepdims=True)
    p = np.exp(s - np.where(np.isinf(most), 0, most))
    total = p.sum(3, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = np.log(total)[..., 0] + most[..., 0]
    p /= np.maximum(total, 1e-30)
    mix = lambda p, v: np.einsum("bhqk,bhdk->bqhd", p, v * vs[:, :, None, None])
    return mix(p, v), lse, mix(p, np.abs(v)) + np.abs(v).max() * 2.0**-13


def judge(options, folder, case):
    arch, defines, rows, keys, grows, needs = case
    os.mkdir(folder)
    r, ptx = np.random.default_rng([rows, keys]), os.path.join(folder, "k.ptx")
    d = int(next(word for word in defines if word.startswith("D="))[2:])
    drawn = {"Q": r.normal(size=(B, rows, HQ, d)), "K": r.normal(size=(B, keys, HK, d)), "V": r.normal(size=(B, HK, d, keys)) + 0.5}
    if grows:
        drawn["K"] += np.arange(keys)[:, None, None] / keys
        drawn["Q"] += 0.5
    x = {name: codes(8 * values, "e4m3") for name, values in drawn.items()}
    values = {name: (r.uniform(0.5, 1, (B, n)) / 8).astype(np.float32) for name, n in (("QS", HQ), ("KS", HK), ("VS", HK))}
    first, padded = [options.tilec, "run", SOURCE, *defines], -(-keys // 16) * 16
    if arch != "interpreter":
        done = subprocess.run([options.tilec, SOURCE, "-arch", arch, "--verify", "--remarks", "-o", ptx, *defines], capture_output=True, text=True)
        if done.returncode:
            return ladder.failure(done)
        with open(ptx, encoding="utf-8") as file:
            text = file.read()
        missing = [need for need in needs if need not in text]
        if "are not skipped" in done.stderr:
            return "iterations that a mask hides are not skipped"
        if missing or "st.shared.u8" in text and "wgmma" in text:
            return f"has no {missing}" if missing else "writes its weights to shared memory"
        first = [options.tilerun, ptx, "--device", "sim"]
    strides = ["--strides", f"V={HK * d * padded},{d * padded},{padded}"]
    done = subprocess.run(ladder.with_arrays(first, folder, {**x, **values}, {"scale": d**-0.5}, ["O", "L"]) +
                          (strides if arch != "interpreter" else []), capture_output=True, text=True)
    if done.returncode:
        return ladder.failure(done)
    got = ladder.loaded(folder, ["O", "L"])
    o, lse, size = wanted(x, values, defines, d**-0.5)
    off = np.max(np.abs(ladder.from_bits(got["O"], "bf16") - o) / size)
    known = np.isfinite(lse)
    off_l = np.max(np.abs(got["L"][known] - lse[known]), initial=0)
    if not np.array_equal(np.isneginf(got["L"]), ~known):
        return "L is not -inf where there is no key, or elsewhere"
    # weights have four bits, O eight, and each product of 32 of the inner dimension loses less than 2^-13 of what it is added to
    if not off <= 2.0**-4 + 2.0**-8 + keys / 32 * 2.0**-13 or not off_l <= 2.0**-7:
        return f"O is off by {off:.3g} of the sum of |p v|, L by {off_l:.3g}"
    return ""


if __name__ == "__main__":
    sys.exit(ladder.judge_all(judge, cases()))
