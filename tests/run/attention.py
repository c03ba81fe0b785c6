#!/usr/bin/env python3
"""attention.py - attention forward and backward in the simulator against float64, NumPy only.

    attention.py --tilec T --tilerun R [--part K/N]

A result is accepted when its largest error is at most twice that of the same computation with what
a 16-bit program stores rounded to 16 bits, plus 1e-5.  Where softcap is a number, the queries are as
large as FlashAttention-3's tests have them, and its rule is kept, too.  tests/gpu/grid.py has the large
grid, for a GPU.
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
SOFTCAP = 2.0  # where a case only says that there is one

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
    # most tiles of queries, or all but one row, see no key
    out += [make(700, 60, d=128, causal=True, arch="sm_90", heads=2, kv_heads=1), make(450, 1, causal=True, arch="sm_90"),
            make(65, 64, causal=True, arch="sm_90"), make(420, 100, d=192, dv=128, causal=True, arch="sm_100"),
            make(300, 40, causal=True, window=20, arch="sm_90", deterministic=True), make(500, 130, window=20, right=10, arch="sm_90")]
    for d in [8, 16, 24, 40, 72, 80, 96, 112, 128, 192, 256]:
        out.append(make(70, 90, d=d, causal=True, arch="sm_90"))
    out += [make(70, 90, d=192, dv=128), make(70, 90, d=64, dv=128), make(70, 90, d=128, dv=64)]
    # backward: a product is waited for before the one that consumers share; the least tiles; tiles divided
    out += [make(130, 150, d=d, dv=dv, arch="sm_90", causal=d == dv, heads=2, kv_heads=1)
            for d, dv in [(192, 128), (192, 192), (256, 96), (128, 256)]]
    # .. and shares that reach over the last column
    out += [make(200, 300, d=96, arch="sm_90", heads=2, kv_heads=1),
            make(130, 333, d=80, arch="sm_90", causal=True, window=100)]
    for dtype in ["f16", "bf16"]:
        out.append(make(140, 140, dtype, heads=4, kv_heads=2, causal=True))
        out.append(make(100, 200, dtype, heads=2, kv_heads=1, window=40))
        out.append(make(200, 150, dtype, causal=True, window=33))
        out.append(make(130, 130, dtype, window=20, right=10))
        out.append(make(330, 300, dtype, causal=True, window=140, arch="sm_80" if dtype == "f16" else "sm_90"))
        out.append(make(90, 120, dtype, softcap=True))
        out.append(make(120, 90, dtype, causal=True, alibi=True, heads=2, kv_heads=2))
        for cap in [15.0, 50.0]:  # one key a row: O is V, and nothing comes back to Q and K
            out += [make(100, 1, dtype, softcap=cap, arch="sm_90", heads=2, kv_heads=1), make(70, 3, dtype, softcap=cap),
                    make(113, 140, dtype, softcap=cap, causal=cap == 50, arch="sm_90", deterministic=cap == 15)]
        out += [make(66, 70, dtype, d=128, softcap=50.0, window=12, right=7, arch="sm_90", heads=2, kv_heads=1),
                make(65, 40, dtype, d=256, softcap=15.0, causal=True), make(40, 1, dtype, d=128, softcap=15.0)]
    for arch in ["sm_80", "sm_90", "sm_100"]:
        for flags in [["-O0"], ["-O1"], ["-O3"]]:
            out.append(make(150, 200, causal=True, flags=flags, arch=arch))
    out += [make(150, 200, causal=True, arch="sm_86"), make(140, 150, d=128, causal=True, arch="sm_89"),
            make(70, 90, d=256, arch="sm_86", heads=2, kv_heads=1),
            make(20, 35, d=300, arch="sm_86", causal=True), make(20, 18, d=513, arch="sm_80"), make(90, 120, "f16", softcap=True, arch="sm_89"),
            make(150, 200, causal=True, arch="sm_120", flags=["-DM=64", "-DN=64", "--plan=consumers=1,stages=2"]),
            make(130, 150, "f16", d=40, window=33, arch="sm_120", flags=["-DM=64", "-DN=32", "--plan=consumers=2,stages=1"]),
            make(140, 150, causal=True, arch="sm_120"), make(260, 300, causal=True, d=64, arch="sm_103"),
            make(70, 90, d=128, arch="sm_120", heads=2, kv_heads=1)]
    for name in ["swizzle", "pipeline", "split-loops", "fuse", "ldmatrix-x4", "stage-output",
                 "keep-operands", "launch-order", "share", "hoist", "refill"]:
        out.append(make(150, 200, causal=True, window=70, flags=["-fno-" + name]))
    for rows, keys, arch in [(300, 413, "sm_80"), (413, 300, "sm_90"), (333, 333, "sm_100")]:
        # tiles of queries and keys that do not fall together
        out.append(make(rows, keys, causal=True, flags=["-DM=48", "-DN=64", "--plan=none"], arch=arch))
    out.append(make(333, 333, causal=True, flags=["-DM=48", "-DN=64", "-fno-align-tiles"]))
    for d in [64, 256]:  # operands that take turns
        out += [make(130, 200, d=d, causal=True, flags=["--stages=1"])]
    # backward: a stage that is filled again under the last product, for several heads and for one tile
    out += [make(150, 100, heads=2, kv_heads=1, flags=["--stages=1", *flags]) for flags in ([], ["-fno-refill"])]
    out += [make(140, 130, d=192, heads=2, kv_heads=1, causal=True), make(70, 64, d=256, heads=2, kv_heads=1), make(130, 60, d=256, window=40)]
    out += [make(150, 200, causal=True, heads=2, kv_heads=1, deterministic=True),
            make(64, 70, d=128, deterministic=True)]
    return out


def name_of(case):
    parts = [f"{k}={v}" for k, v in case._asdict().items() if v not in (False, (), -1)]
    return " ".join(parts)


# ---- the reference -----------------------------------------------------------------------------


def cap_of(case):
    return SOFTCAP if case.softcap is True else float(case.softcap)


def places(case):
    """Where the queries and the keys stand."""
    return np.arange(case.rows)[:, None] + case.keys - case.rows, np.arange(case.keys)[None, :]


def softmax(case, s):
    """The probabilities of scores behind the masks, and the logarithm of each row's sum."""
    i, j = places(case)
    hidden = np.zeros((case.rows, case.keys), bool)
    if case.causal:
        hidden |= j > i
    if case.window > 0:
        hidden |= j <= i - case.window
    if case.right >= 0:
        hidden |= j > i + case.right
    s = np.where(hidden, -np.inf, s)
    top = s.max(axis=-1, keepdims=True)
    top = np.where(np.isinf(top), 0, top)
    e = np.exp(s - top)
    total = e.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + top)[..., 0]
    return e / np.where(total == 0, 1, total), lse


def reference(case, q, k, v, g, scale, exact):
    """O, L, dQ, dK, dV for one batch, [S, H, D]."""
    cut = (lambda x: x) if exact else (lambda x: ladder.rounded(x, case.dtype))
    group = case.heads // case.kv_heads
    kk, vv = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    s = cut(ladder.product("qhd,khd->hqk", q, kk)) * scale
    inner = 1.0
    if case.softcap:
        t = np.tanh(s / cap_of(case))
        s, inner = cap_of(case) * t, 1.0 - t * t
    if case.alibi:
        i, j = places(case)
        slope = 2.0 ** (-8.0 * (np.arange(case.heads) + 1) / case.heads)
        s = s - slope[:, None, None] * np.abs(i - j)
    p, lse = softmax(case, s)
    p = cut(p)
    o = cut(ladder.product("hqk,khd->qhd", p, vv))
    dp = cut(ladder.product("qhd,khd->hqk", g, vv))
    delta = ladder.product("qhd,qhd->hq", g, o)[..., None]
    ds = cut(p * (dp - delta) * inner)
    dq = cut(ladder.product("hqk,khd->qhd", ds, kk) * scale)
    dk = ladder.product("hqk,qhd->khd", ds, q) * scale
    dv = ladder.product("hqk,qhd->khd", p, g)
    dk = cut(dk.reshape(case.keys, case.kv_heads, group, case.d).sum(axis=2))
    dv = cut(dv.reshape(case.keys, case.kv_heads, group, case.dv).sum(axis=2))
    return {"O": o, "L": lse, "dQ": dq, "dK": dk, "dV": dv}


def in_pytorch(case, q, k, v, g, scale):
    """What PyTorch gives in 16 bits for a softcap, operation by operation: each result is rounded."""
    cut = lambda x: ladder.rounded(x, case.dtype)
    cap, group = cap_of(case), case.heads // case.kv_heads
    kk, vv = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
    scaled = cut(kk * scale)
    t = cut(np.tanh(cut(cut(ladder.product("qhd,khd->hqk", q, scaled)) / cap)))
    p = cut(softmax(case, cut(t * cap))[0])
    o = cut(ladder.product("hqk,khd->qhd", p, vv))
    dp = cut(ladder.product("qhd,khd->hqk", g, vv))
    ds = cut(p * (dp - (p * dp).sum(axis=-1, keepdims=True)))
    ds = cut(cut(cut(ds * cap) * (1 - t * t)) / cap)
    dk = cut(cut(ladder.product("hqk,qhd->khd", ds, q)) * scale)
    dv = cut(ladder.product("hqk,qhd->khd", p, g))
    shared = lambda x: cut(x.reshape(case.keys, case.kv_heads, group, x.shape[-1]).sum(axis=2))
    return {"O": o, "dQ": cut(ladder.product("hqk,khd->qhd", ds, scaled)), "dK": shared(dk), "dV": shared(dv)}


def flash_rule(case, name, found, exact, pytorch):
    """FlashAttention-3's rule for a softcap: (error, allowed error), both against rounded exact values."""
    cut = lambda x: ladder.rounded(x, case.dtype)
    want = cut(exact)
    noise = 2 * np.abs(cut(cut(want + 0.3) - 0.3) - want).max() + (3e-4 if name.startswith("d") else 0)
    return np.abs(found - want).max(), 3 * np.abs(pytorch - want).max() + noise


# ---- compiling and running ---------------------------------------------------------------------


class Wrong(Exception):
    pass


def call(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise Wrong(" ".join(command) + "\n" + done.stderr + done.stdout)
    return done.stdout + done.stderr


def compile_case(options, case, folder):
    out = {}
    for key, source in [("forward", FORWARD), ("backward", BACKWARD)]:
        out[key] = os.path.join(folder, key + ".ptx")
        command = [options.tilec, source, "-arch", case.arch, "-o", out[key], *case.flags]
        for name, value in [("T", case.dtype), ("D", case.d), ("DV", case.dv),
                            ("CAUSAL", str(case.causal).lower()), ("WINDOW", case.window),
                            ("RIGHT", case.right), ("SOFTCAP", str(bool(case.softcap)).lower()),
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
    size, pytorch = 1.0, None  # of queries
    if case.softcap not in (False, True):
        size = case.softcap / 4
        q = ladder.rounded(q * size, case.dtype)
        pytorch = in_pytorch(case, q, k, v, g, scale)
    exact, plain = (reference(case, q, k, v, g, scale, e) for e in (True, False))
    ptx = compile_case(options, case, folder)
    have = {n: ladder.to_bits(x, case.dtype)[None] for n, x in
            [("Q", q), ("K", k), ("V", v), ("dO", g)]}
    scalars = {"scale": scale, "softcap": cap_of(case) or SOFTCAP}
    step = lambda which, entry, inputs, outputs, sets: kernel(
        options, folder, ptx[which], entry, have, inputs.split(), outputs.split(), sets)
    step("forward", "attention", "Q K V", "O L", scalars)
    step("backward", "attention_bwd_delta", "O dO L", "delta L2", {})
    sums = np.zeros((1, case.rows, case.heads, case.d), np.float32)
    if case.deterministic:
        step("backward", "attention_bwd_dq", "Q K V dO L2 delta", "dQ", scalars)
        check(case, have, {"dQ": exact["dQ"]}, plain, size, pytorch)
        step("backward", "attention_bwd_dq_first", "Q K V O dO L", "dQ delta L2", scalars)
        step("backward", "attention_bwd_dkdv", "Q K V dO L2 delta", "dK dV", scalars)
    else:
        have["dQ_sum"] = sums
        step("backward", "attention_bwd", "Q K V dO L2 delta dQ_sum", "dQ_sum dK dV", scalars)
        step("backward", "attention_bwd_convert", "dQ_sum", "dQ", {"scale": scale})
    check(case, have, exact, plain, size, pytorch)
    if case.heads == case.kv_heads:
        return
    # dK and dV once more, in parts: as many as there can be
    scalars["P"] = case.heads
    if case.deterministic:
        step("backward", "attention_bwd_dkdv_split", "Q K V dO L2 delta", "dK_part dV_part", scalars)
    else:
        have["dQ_sum"] = sums
        step("backward", "attention_bwd_split", "Q K V dO L2 delta dQ_sum", "dQ_sum dK_part dV_part", scalars)
        step("backward", "attention_bwd_convert", "dQ_sum", "dQ", {"scale": scale})
    step("backward", "attention_bwd_combine", "dK_part dV_part", "dK dV", {"scale": scale, "Hk": case.kv_heads})
    check(case, have, exact, plain, size, pytorch)


def check(case, have, exact, plain, size, pytorch):
    for name, want in exact.items():
        found = ladder.from_bits(have[name], "f32" if name == "L" else case.dtype)[0]
        infinite = np.isinf(want)
        if not np.array_equal(found[infinite], want[infinite]):
            raise Wrong(f"{name} is not infinite where it should be")
        with np.errstate(invalid="ignore"):
            error = np.where(infinite, 0, np.abs(found - want)).max()
            allowed = 2 * np.where(infinite, 0, np.abs(plain[name] - want)).max() + 1e-5 * (size if name == "dK" else 1)
        if not error <= allowed:  # NaN fails
            raise Wrong(f"{name}: error {error:.3g}, allowed {allowed:.3g}")
        if case.softcap not in (False, True) and name != "L":
            error, allowed = flash_rule(case, name, found, want, pytorch[name])
            if not error <= allowed:
                raise Wrong(f"{name}: error {error:.3g}, by FlashAttention-3's rule {allowed:.3g}")


def arguments():
    """What the programs beside this one take, too."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--part", default="0/1", help="K/N: every N-th case from K on")
    return parser


def run_cases(options, every, one, called=name_of, failed=0):
    """Runs one(options, case, folder) for a part of the cases; the exit status."""
    part, parts = map(int, options.part.split("/"))
    passed = 0
    for case in every[part::parts]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                one(options, case, folder)
                passed += 1
            except Wrong as wrong:
                failed += 1
                print(f"{called(case)}:\n    " + str(wrong).strip().replace("\n", "\n    "))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def main():
    return run_cases(arguments().parse_args(), cases(), run)


if __name__ == "__main__":
    sys.exit(main())
