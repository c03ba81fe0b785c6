#!/usr/bin/env python3
"""tensor_memory_chains.py - chains product, arithmetic, product with results in tensor memory (sm_100): right, without faults, and proved.

    tensor_memory_chains.py --tilec T --tilerun R [--ptxas P] [--part K/N]

Attention forward and two layers in one kernel, and loops that show one thing each, run in the simulator under eight
seeds (--seeds) against NumPy in float64.  ptxas takes each without spills.  Of what the roles do to each other every operation
is left out once: the verifier or check-roles refuses what comes of it.
"""
import os
import re
import sys

import numpy as np

import attention
import ladder
from attention import Wrong, call, make
from tensor_memory import arguments, refused, run_part, too_early, without_first_value

OF_PLAN = ("correction=1", "cluster=2", "stages=3", "persistent=0", "clc=1") # what a case's plan has besides its consumers
MLP = os.path.join(ladder.ROOT, "examples", "mlp.tile")

# Two products side by side and one behind them; the first sum of all is scaled in each iteration, without a branch.
TWO = """
kernel two<T: type = bf16>(X: in T[S, 64] align(16), A: in T[64, F] align(16), B: in T[64, F] align(16),
                           W: in T[F, 48] align(16), Y: out f32[S, 48], f: f32)
{
    grid m in tiles(S, 128);
    let x = load X[m, :];
    var acc = zeros<f32>[128, 48] + 1.0;
    for n in tiles(F, 64) {
        let up = mma(x, load A[:, n]);
        let gate = mma(x, load B[:, n]);
        acc = mma((up * max(gate, 0.0)) as T, load W[n, :], acc * f);
    }
    store Y[m, :] = acc;
}
"""
# No second product: a row's largest score.
TOP = """
kernel top<T: type = bf16>(X: in T[S, 64] align(16), A: in T[F, 64] align(16), Y: out f32[S])
{
    grid m in tiles(S, 128);
    let x = load X[m, :];
    var most = zeros<f32>[128] - 1.0e30;
    for n in tiles(F, 96) {
        most = max(most, max(mma(x, load A[n, :].T), axis=1));
    }
    store Y[m] = most;
}
"""

# Conditions on the place in a row, which are bits of a word; and one on the score, which is none.
MASKED = """
kernel masked<T: type = bf16, N: int = 96>(X: in T[S, 64] align(16), A: in T[F, 64] align(16), B: in i32[S], Y: out f32[S], w: i32)
{
    grid m in tiles(S, 128);
    let x = load X[m, :];
    let b = load B[m];
    var most = zeros<f32>[128] - 1.0e30;
    for n in tiles(F, N) {
        let s = mma(x, load A[n, :].T);
        let place = n[None, :];
        let row = m[:, None];
        let near = place <= row + 7 && !(place < row - w);
        let late = 2 + row > 9 + b[:, None] - place || place == 3;
        let t = mask(s, (near || row - place >= 40 || b[:, None] > 3) && place != row);
        most = max(most, max(mask(mask(t, 5 - place < row), late || s > 9.0), axis=1));
    }
    store Y[m] = most;
}
"""

# Exponentials of loaded numbers, one of each row's: the others are masked.
EXP2 = """
kernel powers<T: type = bf16>(X: in T[S, 64] align(16), A: in T[128, 64] align(16), B: in i32[S], Y: out f32[S], c: f32)
{
    require c > 0.0, "the factor must be positive";
    grid m in tiles(S, 128);
    let x = load X[m, :];
    let b = load B[m];
    var total = zeros<f32>[128];
    for n in tiles(128, 64) {
        let s = mma(x, load A[n, :].T);
        let p = exp2(s * c - (max(s, axis=1) * c)[:, None]);
        total = total + sum(where(n[None, :] == b[:, None], p, 0.0), axis=1);
    }
    store Y[m] = total;
}
"""

# Exponents that nothing bounds: of each row one.
ANY_EXP2 = """
kernel powers<T: type = bf16>(X: in T[S, 64] align(16), A: in T[128, 64] align(16), Z: in f32[S], B: in i32[S], Y: out f32[S])
{
    grid m in tiles(S, 128);
    let x = load X[m, :];
    let b = load B[m];
    let z = load Z[m];
    var total = zeros<f32>[128];
    for n in tiles(128, 64) {
        let p = exp2(mma(x, load A[n, :].T) - z[:, None]);
        total = total + sum(where(n[None, :] == b[:, None], p, 0.0), axis=1);
    }
    store Y[m] = total;
}
"""

# All products have a computed left operand.
SCALED = """
kernel scaled<T: type = bf16>(X: in T[S, F] align(16), W: in T[F, 96] align(16), Y: out f32[S, 96], f: f32)
{
    grid m in tiles(S, 128);
    var acc = zeros<f32>[128, 96];
    for n in tiles(F, 64) { acc = mma(((load X[m, n] as f32) * f) as T, load W[n, :], acc); }
    store Y[m, :] = acc;
}
"""
# The result of a product with a computed operand is read by nothing but arithmetic on what the loop carries.
ADDED = """
kernel added<T: type = bf16>(X: in T[S, F] align(16), W: in T[F, 96] align(16), Y: out f32[S, 96], f: f32)
{
    grid m in tiles(S, 128);
    var acc = zeros<f32>[128, 96];
    for n in tiles(F, 64) { acc = acc + mma(((load X[m, n] as f32) * f) as T, load W[n, :]); }
    store Y[m, :] = acc;
}
"""
# A second product's result is used in the iteration; a first product adds to a sum that the iteration changes.
USED = """
kernel used<T: type = bf16>(X: in T[S, 64] align(16), A: in T[64, F] align(16), W: in T[F, 48] align(16), Y: out f32[S, 48])
{
    grid m in tiles(S, 128);
    let x = load X[m, :];
    var acc = zeros<f32>[128, 48];
    for n in tiles(F, 64) { acc = acc + mma(mma(x, load A[:, n]) as T, load W[n, :]); }
    store Y[m, :] = acc;
}
"""
CHANGED = """
kernel changed<T: type = bf16>(X: in T[S, 64] align(16), A: in T[64, F] align(16), W: in T[F, 48] align(16),
                               U: in T[S, F] align(16), V: in T[F, 64] align(16), R: in f32[S], Y: out f32[S, 48],
                               Z: out f32[S, 64])
{
    grid m in tiles(S, 128);
    let x = load X[m, :];
    var acc = zeros<f32>[128, 48];
    var total = zeros<f32>[128, 64];
    for n in tiles(F, 64) {
        acc = mma(mma(x, load A[:, n]) as T, load W[n, :], acc);
        total = mma(load U[m, n], load V[n, :], total * (load R[m])[:, None]);
    }
    store Y[m, :] = acc;
    store Z[m, :] = total;
}
"""
BOTH = """
kernel both<T: type = bf16>(X: in T[S, 64] align(16), A: in T[64, F] align(16), W: in T[F, 48] align(16),
                            V: in T[F, 48] align(16), Y: out f32[S, 48])
{
    grid m in tiles(S, 128);
    let x = load X[m, :];
    var a = zeros<f32>[128, 48];
    var b = zeros<f32>[128, 48];
    for n in tiles(F, 64) {
        let s = mma(x, load A[:, n]);
        if any(s > 4.0) { a = a * 0.5; b = b * 0.25; }
        a = mma(s as T, load W[n, :], a);
        b = mma(s as T, load V[n, :], b);
    }
    store Y[m, :] = a + b;
}
"""


def compiled(options, folder, source, defines, flags, consumers=1):
    ptx = os.path.join(folder, "chain.ptx")
    asked = [flag for flag in flags if flag in OF_PLAN]
    apart = "correction=1" in asked
    plan = ",".join([f"--plan=consumers={consumers},stages={3 if 'stages=3' in asked else 2}", *(f for f in asked if f != "stages=3")])
    call([options.tilec, source, "-arch", "sm_100", "--verify", plan, *(f for f in flags if f.startswith("-")), "-o", ptx,
          *(f"-D{name}={value}" for name, value in defines.items())])
    with open(ptx, encoding="utf-8") as file:
        text = file.read()
    if "tcgen05.mma" not in text or ("// correction," in text) != apart:
        raise Wrong("there is no tcgen05.mma, or a correction role that was not asked for, or none that was")
    if ("tcgen05.mma.cta_group::2" in text) != ("cluster=2" in asked):
        raise Wrong("there are products of two blocks that were not asked for, or none that were")
    if options.ptxas:
        said = call([options.ptxas, "-arch=sm_100a", "-v", ptx, "-o", os.path.join(folder, "chain.cubin")])
        if "0 bytes spill stores, 0 bytes spill loads" not in said:
            raise Wrong("ptxas spills:\n" + said)
    return ptx


def run(options, folder, ptx, arrays, scalars, outputs):
    command = [options.tilerun, ptx, "--device", "sim", "--seeds", str(options.seeds)]
    call(ladder.with_arrays(command, folder, arrays, scalars, outputs))
    return ladder.loaded(folder, outputs)


def near(name, have, want, allowed):
    if have.shape != want.shape or not np.array_equal(have[np.isinf(want)], want[np.isinf(want)]):
        raise Wrong(f"{name}: another shape, or not infinite where it should be")
    with np.errstate(invalid="ignore"):
        error = np.where(np.isinf(want), 0, np.abs(have - want)).max()
    if not error <= allowed:
        raise Wrong(f"{name}: error {error:.3g}, allowed {allowed:.3g}")


def attend(options, folder, case, consumers):
    random = np.random.default_rng(5)
    draw = lambda *size: ladder.rounded(random.standard_normal(size), case.dtype)
    q, k = draw(case.rows, case.heads, case.d), draw(case.keys, case.kv_heads, case.d)
    v, g = draw(case.keys, case.kv_heads, case.dv), draw(case.rows, case.heads, case.dv)
    scale = float(np.float32(case.d ** -0.5))
    if "grow" in case.flags: # every later key scores higher: the sum is rescaled in every iteration
        k = ladder.rounded(k * np.linspace(0.2, 12, case.keys)[:, None, None], case.dtype)
    exact, plain = (attention.reference(case, q, k, v, g, scale, e) for e in (True, False))
    defines = {"T": case.dtype, "D": case.d, "DV": case.dv, "CAUSAL": str(case.causal).lower(), "WINDOW": case.window,
               "SOFTCAP": str(bool(case.softcap)).lower(), "ALIBI": str(case.alibi).lower(), "M": 128, "N": 128}
    defines.update(flag[2:].split("=") for flag in case.flags if flag.startswith("-D"))
    flags = [f for f in case.flags if f.startswith("-f") or f in OF_PLAN]
    ptx = compiled(options, folder, attention.FORWARD, defines, flags, consumers)
    have = run(options, folder, ptx, {n: ladder.to_bits(x, case.dtype)[None] for n, x in (("Q", q), ("K", k), ("V", v))},
               {"scale": scale, "softcap": attention.SOFTCAP}, ["O", "L"])
    for name, dtype in (("O", case.dtype), ("L", "f32")):
        want = exact[name]
        with np.errstate(invalid="ignore"):
            allowed = 2 * np.where(np.isinf(want), 0, np.abs(plain[name] - want)).max() + 1e-5
        near(name, ladder.from_bits(have[name], dtype)[0], want, allowed)


def attention_cases():
    """(consumers, case): one tile of queries in a block, or two, the second of which may have no rows, or fewer keys."""
    out = []
    for dtype in ("bf16", "f16"):
        for d in (64, 128):
            for causal in (False, True):
                out += [(n, make(300, 700, dtype, d=d, causal=causal, heads=2, kv_heads=1)) for n in (1, 2)]
    out += [(1, make(1, 1)), (1, make(130, 5, causal=True)), (1, make(140, 400, flags=["grow"])),
            (1, make(200, 260, d=64, dv=128)), (1, make(200, 260, d=96, flags=["-DN=64"]))]
    out += [(2, make(1, 1)), (2, make(257, 5, causal=True)), (2, make(130, 400, d=128, flags=["grow"])),
            (2, make(300, 140, d=64, dv=128, causal=True)), (2, make(200, 260, d=96)), (1, make(140, 200, d=8, dv=24, causal=True)), (2, make(270, 140, d=72, causal=True)),
            (2, make(300, 300, d=192, flags=["-DN=64"])), (2, make(600, 520, d=128, causal=True, window=150))]
    out += [(n, case) for n in (1, 2) for case in
            (make(400, 130, causal=True, heads=2), make(140, 400, "f16", d=128, causal=True, flags=["grow"]),
             make(256, 384, flags=["-DLAZY=false"]), make(130, 520, causal=True, window=150), make(130, 200, softcap=True),
             make(140, 200, d=64, causal=True, heads=2, alibi=True), make(150, 300, causal=True, flags=["-fno-split-loops"]))]
    # sums changed by a role of their own: operands over results, with a place of their own, one tile of queries, no iteration
    apart = lambda *a, flags=(), **k: make(*a, flags=["correction=1", *flags], **k)
    out += [(n, case) for n in (1, 2) for case in
            (apart(300, 700, d=128, heads=2, kv_heads=1), apart(400, 130, d=128, causal=True, heads=2), apart(1, 1),
             apart(257, 5, causal=True), apart(140, 400, d=128, flags=["grow"]), apart(140, 400, "f16", causal=True, flags=["grow"]),
             apart(200, 260, d=64, dv=128), apart(256, 384, d=128, flags=["-DLAZY=false"]), apart(130, 520, causal=True, window=150),
             apart(150, 300, d=96, softcap=True), apart(140, 200, d=128, causal=True, heads=2, alibi=True),
             apart(270, 140, d=72, causal=True), apart(150, 300, d=128, causal=True, flags=["-fno-split-loops"]))]
    out += [(1, apart(140, 200, d=256, causal=True, flags=["-DN=64"])), (2, apart(200, 300, d=192, flags=["-DN=64"])), (3, apart(300, 150, d=16, flags=["-DN=64"]))]
    return [(f"{n} consumers, " + attention.name_of(case), lambda o, f, n=n, case=case: attend(o, f, case, n))
            for n, case in out]


def layers(options, folder, dtype, rows, width, defines, consumers, flags=()):
    random = np.random.default_rng(6)
    defines = {"T": dtype, "D": 64, "M": 128, **defines}
    d, dv = defines["D"], defines.get("DV", defines["D"])
    draw = lambda *size: ladder.rounded(random.standard_normal(size), dtype)
    x, w1, w2 = draw(rows, d), draw(d, width) / 8, draw(width, dv)
    b1, b2 = (random.standard_normal(n).astype(np.float32) for n in (width, dv))
    ptx = compiled(options, folder, MLP, defines, flags, consumers)
    have = run(options, folder, ptx, {**{n: ladder.to_bits(a, dtype) for n, a in (("X", x), ("W1", w1), ("W2", w2))},
                                      "b1": b1, "b2": b2}, {}, ["Y"])["Y"]
    w1 = ladder.rounded(w1, dtype)
    hidden = ladder.gelu_tanh(x @ w1 + b1)
    want = hidden @ w2 + b2
    near("Y", ladder.from_bits(have, dtype), want, 4 * ladder.EPSILON[dtype] * np.abs(want).max())


def two(options, folder, consumers=1, d=64):
    random = np.random.default_rng(7)
    x, a, b, w = (ladder.rounded(random.standard_normal(s), "bf16") for s in ((200, d), (d, 320), (d, 320), (320, 48)))
    source = os.path.join(folder, "two.tile")
    with open(source, "w", encoding="utf-8") as file:
        file.write(TWO.replace("S, 64]", f"S, {d}]").replace("[64, F]", f"[{d}, F]"))
    ptx = compiled(options, folder, source, {}, [], consumers)
    have = run(options, folder, ptx, {n: ladder.to_bits(v, "bf16") for n, v in zip("XABW", (x, a, b, w))}, {"f": 0.5}, ["Y"])
    want = np.ones((200, 48))
    for n in range(0, 320, 64):
        hidden = (x @ a[:, n:n + 64]) * np.maximum(x @ b[:, n:n + 64], 0)
        want = want * 0.5 + ladder.rounded(hidden, "bf16") @ w[n:n + 64]
    near("Y", have["Y"], want, 2e-4 * np.abs(want).max())


def top(options, folder, flags=()):
    random = np.random.default_rng(8)
    x, a = (ladder.rounded(random.standard_normal(s), "bf16") for s in ((200, 64), (300, 64)))
    source = os.path.join(folder, "top.tile")
    with open(source, "w", encoding="utf-8") as file:
        file.write(TOP)
    ptx = compiled(options, folder, source, {}, flags)
    have = run(options, folder, ptx, {"X": ladder.to_bits(x, "bf16"), "A": ladder.to_bits(a, "bf16")}, {}, ["Y"])
    near("Y", have["Y"], (x @ a.T).max(axis=1), 1e-4)


def masked(options, folder, width, flags=()):
    random = np.random.default_rng(10)
    x, a = (ladder.rounded(random.standard_normal(s), "bf16") for s in ((200, 64), (300, 64)))
    b = random.integers(-3, 6, 200).astype(np.int32)
    source = os.path.join(folder, "masked.tile")
    with open(source, "w", encoding="utf-8") as file:
        file.write(MASKED)
    ptx = compiled(options, folder, source, {"N": width}, flags)
    have = run(options, folder, ptx, {"X": ladder.to_bits(x, "bf16"), "A": ladder.to_bits(a, "bf16"), "B": b}, {"w": 20},
               ["Y"])
    scores, row, place, b = x @ a.T, np.arange(200)[:, None], np.arange(300)[None, :], b[:, None]
    kept = (((place <= row + 7) & (place >= row - 20)) | (row - place >= 40) | (b > 3)) & (place != row)
    kept &= (5 - place < row) & ((2 + row > 9 + b - place) | (place == 3) | (scores > 9))
    near("Y", have["Y"], np.maximum(np.where(kept, scores, -1e30).max(axis=1), -1e30), 1e-4)


def powers(options, folder, dtype):
    """exp2 is as accurate by polynomial as by the instruction for it, which is within 2^-22; a NaN stays one."""
    random = np.random.default_rng(11)
    rows = 2048
    x = ladder.rounded(random.uniform(-1, 1, (rows, 64)) * random.choice([1, 20, 127], (rows, 1)), dtype)
    b = (np.arange(rows) % 128).astype(np.int32)
    x[:1280] = np.repeat([-0.5, -1, -125.5, -126, -126.5, -127, -128, -150, -3000, 0], 128)[:, None] # every column of each
    x[np.arange(1280), (b[:1280] + 1) % 64] = 0
    source = os.path.join(folder, "powers.tile")
    with open(source, "w", encoding="utf-8") as file:
        file.write(EXP2)
    exponents = x[np.arange(rows), b % 64].astype(np.float32) - x.max(axis=1).astype(np.float32)
    want = np.exp2(exponents.astype(np.float64))
    known = np.tile(np.eye(64), (2, 1))
    unknown = known.copy()
    unknown[1::2] = np.nan
    for flags, some in (([], True), (["-fno-split-exp2"], False)):
        ptx = compiled(options, folder, source, {"T": dtype}, flags)
        with open(ptx, encoding="utf-8") as file:
            if ("max.NaN.f32" in file.read()) != some:
                raise Wrong(f"there should be {'some' if some else 'no'} polynomials")
        for a in (known, unknown):
            have = run(options, folder, ptx, {"X": ladder.to_bits(x, dtype), "A": ladder.to_bits(a, dtype), "B": b},
                       {"c": 1.0}, ["Y"])["Y"].astype(np.float64)
            lost = np.isnan(a[b, 0])
            if not np.isnan(have[lost]).all():
                raise Wrong(f"2^NaN is not {have[lost & ~np.isnan(have)][:4]}")
            if lost.any():
                continue # of the others, what their maximum is hangs on the NaN
            wrong = np.abs(have - want) > want * 2.0**-22 + 2.0**-126
            if wrong.any():
                raise Wrong(f"{wrong.sum()} are further off than 2^-22: 2^{exponents[wrong][:4]} is not {have[wrong][:4]}")


# Ends of the range, and what lies around them.
SPECIAL = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -1.0, 0.5, -1e-10, 1e-10, 2.0**-149, 126.5, 127.0, 127.5, np.nextafter(np.float32(128), 0), 128.0, 128.5,
           129.0, 255.0, 256.0, 2.0**22, 2.0**23, 2.0**30, 1e30, -125.5, -126.0, -126.25, -126.5, -127.0, -127.5, -128.0, -149.0, -150.0, -255.0, -256.0,
           -2.0**22, -2.0**23, -2.0**30, -1e30, np.nextafter(np.float32(-126), 0)]


def any_power(options, folder):
    """exp2 of any number, of which the compiler knows nothing: each special one in every column."""
    random = np.random.default_rng(12)
    special = np.repeat(np.array(SPECIAL, np.float32), 64)
    exponents = np.concatenate([special, random.uniform(-127, 128.5, 1024), random.uniform(-1, 1, 1024), -(2.0 ** random.uniform(-30, 0, 512))])
    exponents = exponents.astype(np.float32)
    rows = len(exponents)
    b = (np.arange(rows) % 128).astype(np.int32)
    zeros = ladder.to_bits(np.zeros((rows, 64), np.float32), "bf16")
    source = os.path.join(folder, "powers.tile")
    with open(source, "w", encoding="utf-8") as file:
        file.write(ANY_EXP2)
    with np.errstate(over="ignore"):
        want = np.exp2(exponents.astype(np.float64))
        want[exponents >= 128] = np.inf
    for flags, some in (([], True), (["-fno-split-exp2"], False)):
        ptx = compiled(options, folder, source, {}, flags)
        with open(ptx, encoding="utf-8") as file:
            if ("min.NaN.f32" in file.read()) != some:
                raise Wrong(f"there should be {'some' if some else 'no'} polynomials")
        inputs = {"X": zeros, "A": zeros[:128], "Z": -exponents, "B": b}
        have = run(options, folder, ptx, inputs, {}, ["Y"])["Y"].astype(np.float64)
        whole = np.isin(exponents, np.arange(-126, 128))
        with np.errstate(invalid="ignore"):
            near_it = np.abs(have - want) <= np.where(whole, 0, want * 2.0**-22 + 2.0**-126)
        right = np.where(np.isfinite(want), near_it, have == want)
        right |= np.isnan(want) & np.isnan(have)
        if not right.all():
            raise Wrong(f"2^{exponents[~right][:4]} is not {have[~right][:4]}")
        if np.signbit(have).any():
            raise Wrong(f"2^{exponents[np.signbit(have)][:4]} is below zero")


def scaled(options, folder, text, consumers=1, flags=()):
    """All products are second ones."""
    random = np.random.default_rng(9)
    x, w = (ladder.rounded(random.standard_normal(s), "bf16") for s in ((200, 192), (192, 96)))
    source = os.path.join(folder, "scaled.tile")
    with open(source, "w", encoding="utf-8") as file:
        file.write(text)
    ptx = compiled(options, folder, source, {}, flags, consumers)
    have = run(options, folder, ptx, {"X": ladder.to_bits(x, "bf16"), "W": ladder.to_bits(w, "bf16")}, {"f": 3.0}, ["Y"])
    near("Y", have["Y"], ladder.rounded(x * 3, "bf16") @ w, 1e-3)


def not_covered(options, folder):
    """What another way is taken for, and a warning says why."""
    in_turn = "products of loaded tiles and those with a computed operand would wait for each other"
    for text, why in ((BOTH, "one operation changes two sums in tensor memory"), (USED, in_turn), (CHANGED, in_turn)):
        source = os.path.join(folder, "not_covered.tile")
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        said = call([options.tilec, source, "-arch", "sm_100", "--verify", "-o", os.path.join(folder, "not_covered.ptx")])
        if why + " [-Wplan]" not in said:
            raise Wrong(f"no warning says '{why}':\n{said}")


def faults(options, folder, flags):
    """Each operation that roles meet at, and each that writes tensor memory, left out of the tile IR in front of
    check-roles, or too early, or for another consumer."""
    text = call([options.tilec, attention.FORWARD, "-arch", "sm_100", *flags, "--dump-ir=order_accesses", "-o", os.devnull])
    lines = text.split("\n")
    changed = []
    for at, line in enumerate(lines):
        if re.match(r" *(producer_acquire|producer_commit|consumer_wait|consumer_release|tma_load|tmem_mma|shared_write) ", line):
            changed.append((f"{at} {line.strip()}", lines[:at] + lines[at + 1:]))
        if re.search(r" consumer\(1\)", line):
            changed.append((f"{at} of another consumer: {line.strip()}",
                            lines[:at] + [line.replace(" consumer(1)", "")] + lines[at + 1:]))
        if re.match(r" *(producer_commit|consumer_release) ", line):
            changed += too_early(lines, at, r" (tmem_mma|tmem_write|tmem_read) ", r" tmem_(mma|write) ")
        if re.match(r" *(producer_commit \$ready|consumer_release \$inv)", line): # in front of what it says is done
            back = next(i for i in range(at, 0, -1) if re.match(r" *if " if "ready" in line else r".* = convert ", lines[i]))
            changed.append((f"{at} ahead: {line.strip()}", lines[:back] + [line] + lines[back:at] + lines[at + 1:]))
    changed.append(without_first_value(lines))
    if len(changed) < 30:
        raise Wrong(f"only {len(changed)} changes")
    for _ in refused(options, folder, changed):
        pass


def main():
    every = [("the largest of a row", top), ("what is not covered", not_covered),
             ("masks", lambda o, f: masked(o, f, 96)), ("powers of bf16", lambda o, f: powers(o, f, "bf16")),
             ("powers of f16", lambda o, f: powers(o, f, "f16")), ("powers of anything", any_power), ("masks of part of a word", lambda o, f: masked(o, f, 80))]
    for n in (1, 2):
        every += [(f"{n} consumers, two products and one behind", lambda o, f, n=n: two(o, f, n)),
                  (f"{n} consumers, the same of 88 elements", lambda o, f, n=n: two(o, f, n, 88)),
                  (f"{n} consumers, a scaled operand", lambda o, f, n=n: scaled(o, f, SCALED, n)),
                  (f"{n} consumers, a result that is added", lambda o, f, n=n: scaled(o, f, ADDED, n))]
        for dtype, rows, width, defines in (("bf16", 200, 320, {"N": 64}), ("f16", 128, 256, {"N": 128}),
                                            ("bf16", 1, 16, {"N": 64}),
                                            # inner dimensions that are no multiple of 16
                                            ("bf16", 200, 320, {"D": 72, "N": 64}), ("f16", 130, 72, {"D": 8, "DV": 24, "N": 48}),
                                            ("f16", 150, 264, {"D": 120, "DV": 104, "N": 96})):
            every.append((f"{n} consumers, layers {dtype} {rows} {width}",
                          lambda o, f, a=(dtype, rows, width, defines, n): layers(o, f, *a)))
    # operands with a place of their own, and over results
    for flags in (("--plan=consumers=1,stages=2", "-DD=64", "-DM=128", "-DN=64", "-DCAUSAL=true"),
                  ("--plan=consumers=2,stages=2", "-DD=64", "-DM=128", "-DN=128", "-DCAUSAL=true"),
                  ("--plan=consumers=2,stages=2", "-DD=128", "-DM=128", "-DN=128"),
                  ("--plan=consumers=2,stages=2", "-DD=128", "-DM=128", "-DN=128", "-DCAUSAL=true"),
                  ("--plan=consumers=2,stages=2,correction=1", "-DD=128", "-DM=128", "-DN=128", "-DCAUSAL=true"),
                  ("--plan=consumers=2,stages=2,correction=1", "-DD=64", "-DM=128", "-DN=128")):
        every.append(("faults " + " ".join(flags), lambda o, f, flags=flags: faults(o, f, flags)))
    every += attention_cases()
    return run_part(arguments(), every)


if __name__ == "__main__":
    sys.exit(main())
