#!/usr/bin/env python3
"""sampling.py - examples/sampling.tile in the interpreter and the simulator: what may be drawn is worked out here in float64.

    sampling.py --tilec T --tilerun R

Rows have options and logits of their own: ties, equal logits, infinities, NaN, a row of nothing, numbers at both ends.  A token is right
if its sums of probabilities hold u, within the rounding of f32; sets within it of a limit may have the tokens there or not.
"""
import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import ladder  # noqa: E402

SOURCE = os.path.join(ladder.ROOT, "examples", "sampling.tile")
SLACK = 2e-5
LARGEST_U = 1 - 2.0**-24


def kept(x, t, k, p, m, slack):
    """Weights of what is left of a row; limits are moved by `slack`."""
    x = np.where(np.isnan(x), -np.inf, x)
    if t == 0:
        k, t = 1, 1.0
    most = x.max()
    if most == -np.inf:
        return np.zeros(len(x))
    with np.errstate(invalid="ignore"):
        w = np.where(x == most, 1.0, np.exp((x - most) / t))
    left = (w >= m * (1 + slack)) & (x > -np.inf)
    if k > 0:
        left &= x >= np.sort(x)[::-1][min(k, len(x)) - 1]
    if p < 1:
        order = np.unique(x[left])[::-1]
        sums = np.array([w[left & (x >= value)].sum() for value in order])
        left &= x >= order[np.argmax(sums >= min(p * (1 + slack), 1) * sums[-1])]
    return np.where(left, w, 0.0)


def allowed(token, x, u, t, k, p, m):
    """Whether a token may be the one that is drawn."""
    for slack in (0, -SLACK, SLACK):
        w = kept(x, t, k, p, m, slack)
        if not w.any():
            return token == -1
        ends = np.cumsum(w) / w.sum()
        if 0 <= token < len(x) and w[token] > 0:
            goal, begin = 0.0 if t == 0 else u, ends[token] - w[token] / w.sum()
            if t == 0 and token == np.flatnonzero(w)[0] or t > 0 and begin - SLACK <= goal <= ends[token] + SLACK:
                return True
    return False


def rows_of(r, v, dtype):
    """(logits, u, temperature, k, p, min-p) of rows"""
    flat, steep = r.normal(size=v), 6 * r.normal(size=v)
    some = np.where(r.random(v) < 0.3, flat, -np.inf)
    odd = steep.copy()
    odd[r.integers(0, v, 5)] = np.nan
    two = flat.copy()
    two[[v // 3, v - 1]] = np.inf
    equal, none = np.full(v, 1.5), np.full(v, -np.inf)
    zeros = np.where(r.random(v) < 0.5, 0.0, -0.0)
    last = np.full(v, -3.0)
    last[-1] = 9.0
    huge = np.where(r.random(v) < 0.5, 1e30, -1e30)
    cases = [(steep, 1, 50, 1, 0), (steep, 0.7, 20, 0.9, 0), (steep, 1, 0, 0.9, 0), (flat, 1, 0, 1, 0), (flat, 1.3, 0, 0.5, 0),
             (flat, 1, 1, 1, 0), (flat, 1, v + 9, 1, 0), (flat, 1, 3, 1e-6, 0), (steep, 1, 0, 1, 0.1), (steep, 1, 40, 0.95, 0.02),
             (steep, 0, 50, 0.3, 0), (equal, 1, 5, 0.5, 0), (equal, 0, 0, 1, 0), (none, 1, 5, 0.5, 0), (some, 1, 9, 0.8, 0),
             (some, 1, 0, 0.99, 0), (odd, 1, 30, 0.9, 0), (two, 1, 10, 0.9, 0), (zeros, 1, 1, 1, 0), (last, 1, 1, 1, 0), (last, 20, 0, 1, 0),
             (huge, 1, 0, 0.7, 0), (np.full(v, np.nan), 1, 0, 1, 0), (flat, 1, 0, 0.0, 0), (-np.abs(steep), 0.5, 33, 0.8, 1.0)]
    for i, (x, t, k, p, m) in enumerate(cases):
        for u in (0.0, LARGEST_U, r.random()) if i < 10 else (r.random(),):
            yield ladder.rounded(x, dtype), u, t, k, p, m


def cases():
    """arch, type, extent of rows, N, H, L, the options of all rows (None: each its own)"""
    yield "interpreter", "bf16", 1000, 512, 128, 64, None
    yield "sm_90", "bf16", 1000, 512, 128, 4, None
    yield "sm_90", "f32", 4099, 1024, 64, 64, None
    yield "sm_80", "f16", 700, 256, 64, 2, None
    yield "sm_100", "f32", 130, 256, 128, 64, None
    yield "sm_120", "bf16", 2048, 512, 64, 8, None
    yield "sm_90", "f32", 1, 256, 128, 64, None
    yield "sm_90", "bf16", 3001, 1024, 128, 8, (0.8, 7, 0.9, 0.0)
    yield "sm_120", "f32", 600, 256, 64, 2, (1.0, 0, 0.6, 0.05)


# by kernel: compile-time parameters, scalars, inputs, outputs
SCALARS, EACH = ("temperature", "top_k", "top_p", "min_p"), ("ROW_T", "ROW_K", "ROW_P", "ROW_M")
OPTIONS, OF_P = ("Temp", "TopK", "TopP", "MinP"), (("T", "N", "P", "ROW_T", "ROW_P"), ("temperature", "top_p"))
LISTED = "List", "Count", "Top", "All", "Goal", "Low", "Flat"
KERNELS = {
    "parts": (("T", "N", "H", "ROW_T"), ("temperature",), ("X", "Temp"), ("Greatest", "Most", "Sum")),
    "groups": (("N", "P", "H", "L", "GROUPS", *EACH), SCALARS, ("Greatest", "Most", "Sum", "U", *OPTIONS), (*LISTED, "Ends")),
    "draw": (("T", "H", "L", "FLAT", *EACH), SCALARS, ("X", "U", *OPTIONS, *LISTED), ("Token",)),
    "first": (("T", "N", "ROW_T"), ("temperature",), ("X", "Temp", "Flat", "Top", "Ends"), ("PivotA", "ShareA")),
    "turn": (*OF_P, ("X", "Temp", "TopP", "Flat", "Top", "All", "PivotA", "ShareA"), ("PivotB", "ShareB")),
    "return": (*OF_P, ("X", "Temp", "TopP", "Flat", "Top", "All", "PivotB", "ShareB"), ("PivotA", "ShareA")),
    "kept": (*OF_P, ("X", "Temp", "TopP", "Flat", "Top", "All", "PivotA", "ShareA"), ("Between", "Kept")),
    "flat": (("T", "N", "P", "H", "L", "ROW_T", "ROW_P"), ("temperature", "top_p"),
             ("X", "U", "Temp", "TopP", "Flat", "Top", "All", "List", "Count", "Between", "Kept"), ("Token",)),
}


def executed(options, folder, arch, name, have, values, pitch):
    """What a kernel writes."""
    constants, scalars, inputs, outputs = KERNELS[name]
    words = [word for c in constants if c in values for word in ("-D", f"{c}={values[c]}")] + ["--kernel", "sampling_" + name]
    command, ptx = [options.tilec, "run", SOURCE, *words], os.path.join(folder, name + ".ptx")
    if arch != "interpreter":
        done = subprocess.run([options.tilec, SOURCE, "-arch", arch, "--verify", "-o", ptx, *words], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(ladder.failure(done))
        command = [options.tilerun, ptx, "--device", "sim", "--seeds", "2"] + (["--strides", f"X={pitch}"] if "X" in inputs else [])
    sets = {s: values[s] for s in scalars}
    done = subprocess.run(ladder.with_arrays(command, folder, {i: have[i] for i in inputs}, sets, outputs), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(name + ": " + ladder.failure(done))
    return ladder.loaded(folder, outputs)


def judge(options, folder, case):
    arch, dtype, v, parts, group, listed, same = case
    os.mkdir(folder)
    r = np.random.default_rng([v, parts, group])
    rows = list(rows_of(r, v, dtype))
    if same:
        rows = [(x, u, *same) for x, u, *_ in rows]
    x, u, t, k, p, m = (np.array([row[i] for row in rows]) for i in range(6))
    u, t, p, m = (np.asarray(a, np.float32) for a in (u, t, p, m))
    values = {"T": dtype, "N": parts, "P": 32, "H": group, "L": listed, "GROUPS": 256, **dict(zip(SCALARS, same or (1.0, 0, 1.0, 0.0))),
              **({} if same else dict.fromkeys(EACH, "true"))}
    have = {"X": ladder.to_bits(x, dtype), "U": u, "Temp": t, "TopK": k.astype(np.int32), "TopP": p, "MinP": m}
    try:
        def run(name, **more):
            have.update(executed(options, folder, arch, name, have, {**values, **more}, v + 5))  # rows have space between them

        for name in ("parts", "groups", "draw"):
            run(name)
        tokens = [("draw", have["Token"])]
        run("draw", FLAT="true")
        drawn = have["Token"]
        for turns in (1, 3) if dtype == "f32" else (0, 1):  # before some rows are narrowed down, and then
            for name in ("first", *("turn", "return") * turns, "kept", "flat"):
                run(name)
            tokens.append((f"flat, {turns} turns", np.where(have["Flat"] > 0, have["Token"], drawn)))
    except RuntimeError as error:
        return str(error)
    given = [(float(row[0]), int(row[1]), float(row[2]), float(row[3])) for row in zip(t, k, p, m)]
    for what, token in tokens:
        wrong = [(i, int(token[i])) for i in range(len(x)) if not allowed(token[i], x[i], float(u[i]), *given[i])]
        if wrong:
            return f"{what}: {len(wrong)} of {len(x)} tokens are wrong: (row, token) {wrong[:6]}"
    options.flat = getattr(options, "flat", 0) + int(have["Flat"].sum())
    return ""


if __name__ == "__main__":
    sys.exit(ladder.judge_all(judge, cases()))
