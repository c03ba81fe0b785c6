#!/usr/bin/env python3
"""attention.py - attention forward and backward in the simulator against float64, NumPy only.

    attention.py --tilec T --tilerun R [--part K/N]

A result is accepted when its largest error is at most twice that of the same computation with what
a 16-bit program stores rounded to 16 bits, plus 1e-5.  tests/gpu/grid.py has the large grid, for a GPU.
"""
import argparse
import os
import subprocess
import sys
import tempfile
from collections import namedtuple

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import ladder  # noqa: E402

FORWARD = os.path.join(ladder.ROOT, "examples", "attention.tile")
BACKWARD = os.path.join(ladder.ROOT, "examples", "attention_bwd.tile")
SOFTCAP = 2.0

Case = namedtuple("Case", "dtype d dv rows keys heads kv_heads causal window right softcap alibi "
                          "flags arch deterministic")


def make(rows, keys, dtype="bf16", d=64, dv=None, heads=1, kv_heads=1, causal=False, window=0,
         right=-1, softcap=False, alibi=False, flags=(), arch="sm_80", deterministic=False):
    return Case(dtype, d, dv or d, rows, keys, heads, kv_heads, causal, window, right, softcap,
                alibi, tuple(flags), arch, deterministic)


def cases():
    out = []
    for rows, keys in [(1, 1), (1, 130), (7, 3), (64, 64), (65, 129), (150, 100), (130, 260)]:
        out += [make(rows, keys), make(rows, keys, causal=True)]
    for d in [8, 16, 24, 40, 72, 80, 96, 112, 128, 192, 256]:
        out.append(make(70, 90, d=d, causal=True, arch="sm_90"))
    out += [make(70, 90, d=192, dv=128), make(70, 90, d=64, dv=128), make(70, 90, d=128, dv=64)]
    for dtype in ["f16", "bf16"]:
        out.append(make(140, 140, dtype, heads=4, kv_heads=2, causal=True))
        out.append(make(100, 200, dtype, heads=2, kv_heads=1, window=40))
        out.append(make(200, 150, dtype, causal=True, window=33))
        out.append(make(130, 130, dtype, window=20, right=10))
        out.append(make(330, 300, dtype, causal=True, window=140, arch="sm_80" if dtype == "f16" else "sm_90"))
        out.append(make(90, 120, dtype, softcap=True))
        out.append(make(120, 90, dtype, causal=True, alibi=True, heads=2, kv_heads=2))
    for arch in ["sm_80", "sm_90", "sm_100"]:
        for flags in [["-O0"], ["-O1"], ["-O3"]]:
            out.append(make(150, 200, causal=True, flags=flags, arch=arch))
    for name in ["swizzle", "pipeline", "split-loops", "fuse", "ldmatrix-x4", "stage-output",
                 "keep-operands", "launch-order", "share", "hoist"]:
        out.append(make(150, 200, causal=True, window=70, flags=["-fno-" + name]))
    for rows, keys, arch in [(300, 413, "sm_80"), (413, 300, "sm_90"), (333, 333, "sm_100")]:
        # tiles of queries and keys that do not fall together
        out.append(make(rows, keys, causal=True, flags=["-DM=48", "-DN=64", "--plan=none"], arch=arch))
    out.append(make(333, 333, causal=True, flags=["-DM=48", "-DN=64", "-fno-align-tiles"]))
    for d in [64, 256]:  # operands that take turns
        out += [make(130, 200, d=d, causal=True, flags=["--stages=1"])]
    out += [make(150, 200, causal=True, heads=2, kv_heads=1, deterministic=True),
            make(64, 70, d=128, deterministic=True)]
    return out


def name_of(case):
    parts = [f"{k}={v}" for k, v in case._asdict().items() if v not in (False, (), -1)]
    return " ".join(parts)


# ---- the reference -----------------------------------------------------------------------------


def reference(case, q, k, v, g, scale, exact):
    """O, L, dQ, dK, dV for one batch, [S, H, D]."""
    cut = (lambda x: x) if exact else (lambda x: ladder.rounded(x, case.dtype))
    group = case.heads // case.kv_heads
    kk, vv = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    s = cut(np.einsum("qhd,khd->hqk", q, kk)) * scale
    inner = 1.0
    if case.softcap:
        t = np.tanh(s / SOFTCAP)
        s, inner = SOFTCAP * t, 1.0 - t * t
    i = np.arange(case.rows)[:, None] + case.keys - case.rows
    j = np.arange(case.keys)[None, :]
    if case.alibi:
        slope = 2.0 ** (-8.0 * (np.arange(case.heads) + 1) / case.heads)
        s = s - slope[:, None, None] * np.abs(i - j)
    hidden = np.zeros((case.rows, case.keys), bool)
    if case.causal:
        hidden |= j > i
    if case.window > 0:
        hidden |= j <= i - case.window
    if case.right >= 0:
        hidden |= j > i + case.right
    s = np.where(hidden, -np.inf, s)
    top = s.max(axis=-1, keepdims=True)
    # BOUNDED: exponentials are relative to a score of 0, and rounded as they are: the only key of a row
    # does not have the probability 1 exactly, which it has relative to the greatest score.
    bounded = case.softcap and not case.alibi and case.dtype != "f16"
    top = np.where(np.isinf(top) | bounded, 0, top)
    e = np.exp(s - top)
    total = e.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[..., 0]
    total = np.where(total == 0, 1, total)
    p = cut(e / total)
    o = cut(np.einsum("hqk,khd->qhd", cut(e) / total if bounded else p, vv))
    dp = cut(np.einsum("qhd,khd->hqk", g, vv))
    delta = np.einsum("qhd,qhd->hq", g, o)[..., None]
    ds = cut(p * (dp - delta) * inner)
    dq = cut(np.einsum("hqk,khd->qhd", ds, kk) * scale)
    dk = np.einsum("hqk,qhd->khd", ds, q) * scale
    dv = np.einsum("hqk,qhd->khd", p, g)
    dk = cut(dk.reshape(case.keys, case.kv_heads, group, case.d).sum(axis=2))
    dv = cut(dv.reshape(case.keys, case.kv_heads, group, case.dv).sum(axis=2))
    return {"O": o, "L": lse, "dQ": dq, "dK": dk, "dV": dv}


# ---- compiling and running ---------------------------------------------------------------------


class Wrong(Exception):
    pass


def call(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Wrong(" ".join(command) + "\n" + done.stderr + done.stdout)


def compile_case(options, case, folder):
    out = {}
    for key, source in [("forward", FORWARD), ("backward", BACKWARD)]:
        out[key] = os.path.join(folder, key + ".ptx")
        command = [options.tilec, source, "-arch", case.arch, "-o", out[key], *case.flags]
        for name, value in [("T", case.dtype), ("D", case.d), ("DV", case.dv),
                            ("CAUSAL", str(case.causal).lower()), ("WINDOW", case.window),
                            ("RIGHT", case.right), ("SOFTCAP", str(case.softcap).lower()),
                            ("ALIBI", str(case.alibi).lower())]:
            command += ["-D", f"{name}={value}"]
        call(command)
    return out


def kernel(options, folder, ptx, entry, have, inputs, outputs, scalars):
    command = [options.tilerun, ptx, "--entry", entry, "--device", "sim"]
    for name in inputs:
        path = os.path.join(folder, name + ".npy")
        np.save(path, have[name])
        command += ["--in", f"{name}={path}"]
    for name, value in scalars.items():
        command += ["--set", f"{name}={value}"]
    for name in outputs:
        command += ["--out", f"{name}={os.path.join(folder, name + '-out.npy')}"]
    call(command)
    for name in outputs:
        have[name] = np.load(os.path.join(folder, name + "-out.npy"))


def run(options, case, folder):
    random = np.random.default_rng(3)
    draw = lambda *size: ladder.rounded(random.standard_normal(size), case.dtype)
    q, k = draw(case.rows, case.heads, case.d), draw(case.keys, case.kv_heads, case.d)
    v, g = draw(case.keys, case.kv_heads, case.dv), draw(case.rows, case.heads, case.dv)
    scale = float(np.float32(case.d ** -0.5))
    exact, plain = (reference(case, q, k, v, g, scale, e) for e in (True, False))
    ptx = compile_case(options, case, folder)
    have = {n: ladder.to_bits(x, case.dtype)[None] for n, x in
            [("Q", q), ("K", k), ("V", v), ("dO", g)]}
    scalars = {"scale": scale, "softcap": SOFTCAP}
    step = lambda which, entry, inputs, outputs, sets: kernel(
        options, folder, ptx[which], entry, have, inputs.split(), outputs.split(), sets)
    step("forward", "attention", "Q K V", "O L", scalars)
    step("backward", "attention_bwd_delta", "O dO L", "delta L2", {})
    if case.deterministic:
        step("backward", "attention_bwd_dkdv", "Q K V dO L2 delta", "dK dV", scalars)
        step("backward", "attention_bwd_dq", "Q K V dO L2 delta", "dQ", scalars)
    else:
        have["dQ_sum"] = np.zeros((1, case.rows, case.heads, case.d), np.float32)
        step("backward", "attention_bwd", "Q K V dO L2 delta dQ_sum", "dQ_sum dK dV", scalars)
        step("backward", "attention_bwd_convert", "dQ_sum", "dQ", {"scale": scale})
    for name, want in exact.items():
        found = ladder.from_bits(have[name], "f32" if name == "L" else case.dtype)[0]
        infinite = np.isinf(want)
        if not np.array_equal(found[infinite], want[infinite]):
            raise Wrong(f"{name} is not infinite where it should be")
        with np.errstate(invalid="ignore"):
            error = np.where(infinite, 0, np.abs(found - want)).max()
            allowed = 2 * np.where(infinite, 0, np.abs(plain[name] - want)).max() + 1e-5
        if not error <= allowed:  # NaN fails
            raise Wrong(f"{name}: error {error:.3g}, allowed {allowed:.3g}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--part", default="0/1", help="K/N: every N-th case from K on")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))
    passed, failed = 0, 0
    for case in cases()[part::parts]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                run(options, case, folder)
                passed += 1
            except Wrong as wrong:
                failed += 1
                print(f"{name_of(case)}:\n    " + str(wrong).strip().replace("\n", "\n    "))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
