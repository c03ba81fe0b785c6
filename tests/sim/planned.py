#!/usr/bin/env python3
"""planned.py - kernels whose warp groups share the work, in the simulator against float64.

    planned.py --tilec T --tilerun R                    the cases that are written down here
    planned.py --tilec T --tilerun R --random N         N programs, sizes and plans drawn at random
                                     [--from SEED] [--seeds K] [--jobs J] [--print] [NAME..]
    .. --every N                                        of the written cases an N-th part, drawn by their names
    .. --arch sm_100                                    consumers of 128 rows, products in tensor memory

Every plan that the compiler takes must run right: no finding, every byte of an output written, the
same bits under all seeds (but for sums by atomics), and an error of at most twice that of the same
computation with what a 16-bit program stores rounded to 16 bits.  A plan may be refused; not too many
are.  A drawn case is made from its seed alone: --random 1 --from SEED runs it again.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zlib
from collections import namedtuple

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "run"))
import attention  # noqa: E402
import ladder  # noqa: E402
import planned_programs  # noqa: E402

EXAMPLES = pathlib.Path(ladder.ROOT) / "examples"

# inputs, outputs: {name: (values, dtype)}, {name: (wanted, allowed error, dtype)}; summed: outputs
# that come from atomic additions, and what they begin with
Program = namedtuple("Program", "source kernel defines scalars inputs outputs summed",
                     defaults=((),))
Case = namedtuple("Case", "name program plan sm_count flags", defaults=((),))


# of a target: the rows of a consumer's tile, and what its products are called
ARCHES = {"sm_90": (64, "wgmma.mma_async"), "sm_100": (128, "tcgen05.mma")}


class Refused(Exception):
    pass


# ---- running -----------------------------------------------------------------------------------


def call(command, limit=600):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise attention.Wrong(f"longer than {limit} s: " + " ".join(map(str, command))) from None
    if done.returncode != 0:
        raise attention.Wrong(" ".join(map(str, command)) + "\n" + done.stderr + done.stdout)
    return done.stderr + done.stdout


def compile_program(options, program, plan, flags, folder):
    ptx = os.path.join(folder, "kernel.ptx")
    source = str(program.source)
    if "\n" in source:  # a text of its own
        source = os.path.join(folder, "program.tile")
        pathlib.Path(source).write_text(program.source, encoding="utf-8")
    command = [options.tilec, source, "-arch", options.arch, "--kernel", program.kernel,
               "--verify", "--remarks", "--plan=" + plan, *flags, "-o", ptx]
    for name, value in program.defines.items():
        command += ["-D", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    why = re.search(r"remark: no plan for warp groups in kernel '\w+': (.*)|"
                    r"error: (kernel '\w+' needs \d+ bytes of shared memory)", done.stderr)
    if why and done.returncode in (0, 1):
        raise Refused(why[1] or why[2])
    if done.returncode != 0:
        raise attention.Wrong(" ".join(command) + "\n" + done.stderr)
    with open(ptx, encoding="utf-8") as file:
        text = file.read()
    if ARCHES[options.arch][1] not in text:
        raise attention.Wrong("there is no product of warp groups, and no remark says why")
    takes = "clc=1" in plan and "persistent=0" not in plan and options.arch == "sm_100"
    if takes != ("clusterlaunchcontrol.try_cancel" in text) or (takes and "tile_counter" in text):
        raise attention.Wrong("cluster launch control is not as the plan has it")
    return ptx


def run(options, case):
    """None, or what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        simulate(options, case, compile_program(options, case.program, case.plan, case.flags, folder), folder)


def simulate(options, case, ptx, folder):
    program = case.program
    command = [options.tilerun, ptx, "--device", "sim", "--seeds", str(options.seeds), *getattr(options, "more", []),
               "--sm-count", str(case.sm_count)]
    for name, (values, dtype) in program.inputs.items():
        path = os.path.join(folder, name + ".npy")
        np.save(path, np.ascontiguousarray(ladder.to_bits(values, dtype)))
        command += ["--in", f"{name}={path}"]
    for name, value in program.scalars.items():
        command += ["--set", f"{name}={value}"]
    for name in program.outputs:
        command += ["--out", f"{name}={os.path.join(folder, name + '-out.npy')}"]
    said = call(command)
    for line in said.splitlines():
        if "were not written" in line:
            raise attention.Wrong(line)
        if "differs between seeds" in line and line.split()[2] not in program.summed:
            raise attention.Wrong(line)
    for name, (want, allowed, dtype) in program.outputs.items():
        found = np.load(os.path.join(folder, name + "-out.npy"))
        compare(name, ladder.from_bits(found, dtype), want, allowed)


def compare(name, found, want, allowed):
    if found.shape != want.shape:
        raise attention.Wrong(f"{name} has the shape {found.shape}, expected {want.shape}")
    infinite = np.isinf(want)
    if not np.array_equal(found[infinite], want[infinite]):
        raise attention.Wrong(f"{name} is not infinite where it should be")
    with np.errstate(invalid="ignore"):
        error = np.where(infinite, 0, np.abs(found - want)).max()
    if not error <= allowed:  # NaN fails
        raise attention.Wrong(f"{name}: error {error:.3g}, allowed {allowed:.3g}")


# ---- programs ----------------------------------------------------------------------------------


def outputs(exact, plain, dtypes):
    """Outputs with the error that is allowed them, from exact and 16-bit values."""
    out = {}
    for name, dtype in dtypes.items():
        finite = np.isfinite(exact[name])
        error = np.abs(np.where(finite, plain[name], 0) - np.where(finite, exact[name], 0)).max()
        out[name] = (exact[name], 2 * error + 1e-5, dtype)
    return out


def attention_defines(case, m, n):
    return {"T": case.dtype, "D": case.d, "DV": case.dv, "M": m, "N": n, "CAUSAL": case.causal,
            "WINDOW": case.window, "RIGHT": case.right, "SOFTCAP": case.softcap, "ALIBI": case.alibi}


def attention_data(case, batch):
    # A case has numbers of its own: those of the others, and their rounding, do not change with the list.
    random = np.random.default_rng(zlib.crc32(repr((case, batch)).encode()))
    draw = lambda *size: ladder.rounded(random.standard_normal((batch, *size)), case.dtype)
    q, k = draw(case.rows, case.heads, case.d), draw(case.keys, case.kv_heads, case.d)
    v, g = draw(case.keys, case.kv_heads, case.dv), draw(case.rows, case.heads, case.dv)
    scale = float(np.float32(case.d ** -0.5))

    def compute(exact):
        each = [attention.reference(case, *x, scale, exact) for x in zip(q, k, v, g)]
        return {name: np.stack([one[name] for one in each]) for name in each[0]}

    have = {"Q": q, "K": k, "V": v, "dO": g}
    return ({name: (x, case.dtype) for name, x in have.items()}, compute(True), compute(False),
            {"scale": scale, "softcap": attention.SOFTCAP})


class Later:
    """A program that is made when it is first looked at; of a sample's cases most are not."""

    def __init__(self, make):
        self.make = make

    def __getattr__(self, name):
        self.__dict__.update(self.make()._asdict())
        return self.__dict__[name]


def later(make):
    return lambda *arguments, **named: Later(lambda: make(*arguments, **named))


@later
def forward(case, random, m=64, n=64, lazy=True, batch=1):
    inputs, exact, plain, scalars = attention_data(case, batch)
    del inputs["dO"]
    return Program(EXAMPLES / "attention.tile", "attention",
                   {**attention_defines(case, m, n), "LAZY": lazy}, scalars, inputs,
                   outputs(exact, plain, {"O": case.dtype, "L": "f32"}))


def sliding(random, heads, s, d, dtype, n, window, m=64):
    draw = lambda *size: ladder.rounded(random.standard_normal((heads, s, *size)) / 4, dtype)
    q, k, v = draw(d), draw(d), draw(d)
    factor, c = (ladder.rounded(random.standard_normal(x), "f32") for x in ((heads, s), (heads, s, d)))
    ahead = np.arange(s)[:, None] - np.arange(s)
    seen = (ahead >= 0) & (ahead < window)

    def compute(cut):
        p = np.where(seen, np.exp2(q @ k.transpose(0, 2, 1)), 0)
        y = (cut(p) @ v) * factor[:, :, None] + c
        return {"Y": y, "X": y.sum(axis=2), "Z": y.sum(axis=(0, 1))}

    out = outputs(compute(lambda a: a), compute(lambda a: ladder.rounded(a, dtype)),
                  {"Y": "f32", "X": "f32", "Z": "f32"})
    return Program(HERE / "planned" / "sliding.tile", "sliding",
                   {"T": dtype, "D": d, "M": m, "N": n, "WINDOW": window}, {},
                   {"Q": (q, dtype), "K": (k, dtype), "V": (v, dtype), "G": (factor, "f32"), "C": (c, "f32"),
                    "Z": (np.zeros(d), "f32")}, out, ("Z",))


def nested_votes(random, s, c, d, limit, dtype="bf16", n=64):
    draw = lambda *size: ladder.rounded(random.standard_normal(size) / 2, dtype)
    q, k, v = draw(s, d), draw(c, d), draw(c, d)

    def compute(cut):
        scores = np.minimum(q @ k.T, limit)
        p = np.exp2(scores - scores.max(axis=1, keepdims=True))
        return {"O": cut(p / p.sum(axis=1, keepdims=True)) @ v}

    out = outputs(compute(lambda a: a), compute(lambda a: ladder.rounded(a, dtype)), {"O": "f32"})
    return Program(HERE / "planned" / "nested_votes.tile", "nested_votes", {"T": dtype, "D": d, "M": 64, "N": n},
                   {"limit": limit}, {"Q": (q, dtype), "K": (k, dtype), "V": (v, dtype)}, out)


@later
def decode(case, random, ms, n, batch=1):
    """attention_decode: the heads that share keys are rows of one tile."""
    inputs, exact, plain, scalars = attention_data(case, batch)
    del inputs["dO"]
    return Program(EXAMPLES / "attention_decode.tile", "attention_decode",
                   {"T": case.dtype, "D": case.d, "DV": case.dv, "G": case.heads // case.kv_heads,
                    "MS": ms, "N": n, "CAUSAL": case.causal, "WINDOW": case.window},
                   {"scale": scalars["scale"]}, inputs, outputs(exact, plain, {"O": case.dtype, "L": "f32"}))


def packed(random, kv, group, sq, sk, d, dv, dtype, causal, by_head, ms, n):
    draw = lambda *size: ladder.rounded(random.standard_normal(size) / 4, dtype)
    h = kv * group
    q, k, v = draw(h, sq, d), draw(kv, sk, d), draw(kv, sk, dv)
    f, x = (ladder.rounded(random.standard_normal(h), "f32") for _ in range(2))
    seen = np.arange(sk) <= np.arange(sq)[:, None] + sk - sq if causal else True

    def compute(cut):
        scores = cut(np.where(seen, ladder.product("hqd,hkd->hqk", q, k.repeat(group, axis=0)), 0))
        acc = ladder.product("hqk,hkd->hqd", scores, v.repeat(group, axis=0))
        sums = x.copy()
        sums[::group] += acc.sum(axis=(1, 2)).reshape(kv, group).sum(axis=1)
        return {"Y": cut(acc * f[:, None, None]), "X": sums}, np.abs(acc).sum()

    (exact, size), (plain, _) = compute(lambda a: a), compute(lambda a: ladder.rounded(a, dtype))
    out = outputs(exact, plain, {"Y": dtype})
    error = np.abs(exact["X"] - plain["X"]).max()
    out["X"] = (exact["X"], 2 * error + 1e-6 * size + 1e-5, "f32")
    return Program(HERE / "planned" / "packed.tile", "packed",
                   {"T": dtype, "D": d, "DV": dv, "G": group, "MS": ms, "N": n, "CAUSAL": causal,
                    "BY_HEAD": by_head}, {},
                   {"Q": (q, dtype), "K": (k, dtype), "V": (v, dtype), "f": (f, "f32"), "X": (x, "f32")},
                   out, ("X",))


@later
def backward(kernel, case, random, m=64, n=64, batch=1, parts=0):
    """One of attention_bwd_dq, attention_bwd_dkdv, attention_bwd; of those with parts of dK and dV."""
    inputs, exact, plain, scalars = attention_data(case, batch)
    lse = exact["L"]
    l2 = np.where(np.isinf(lse), np.float64(np.float32(1e30)), lse * 1.4426950408889634)
    delta = ladder.product("bqhd,bqhd->bhq", inputs["dO"][0], exact["O"])
    inputs.update({"L2": (l2, "f32"), "delta": (delta, "f32")})
    if kernel.endswith("_split"):
        each = case._replace(kv_heads=parts)  # a key head for each part: its gradients are the part's
        data, scalars["P"] = [inputs[name][0] for name in ("Q", "K", "V", "dO")], parts
        data[1:3] = (np.repeat(x, parts // case.kv_heads, axis=2) for x in data[1:3])
        of_parts = [[attention.reference(each, *x, scalars["scale"], e) for x in zip(*data)] for e in (True, False)]
        of_parts = [{"dK_part": np.stack([x["dK"] for x in got]) / scalars["scale"],
                     "dV_part": np.stack([x["dV"] for x in got])} for got in of_parts]
        out = outputs(*of_parts, {"dK_part": "f32", "dV_part": "f32"})
    else:
        wanted = ["dQ"] if kernel.startswith("attention_bwd_dq") else ["dK", "dV"]
        out = outputs(exact, plain, {name: case.dtype for name in wanted})
    if kernel == "attention_bwd_dq_first":  # finds delta and L2 itself
        o = ladder.rounded(exact["O"], case.dtype)
        delta = ladder.product("bqhd,bqhd->bhq", inputs["dO"][0], o)
        inputs = {name: inputs[name] for name in ("Q", "K", "V", "dO")} | {"O": (o, case.dtype), "L": (lse, "f32")}
        out |= {"delta": (delta, 1e-4 * (1 + np.abs(delta).max()), "f32"), "L2": (l2, 1e-4 * (1 + np.abs(l2[l2 < 1e29]).max(initial=0)), "f32")}
    if kernel in ("attention_bwd", "attention_bwd_split"):
        inputs["dQ_sum"] = (np.zeros_like(exact["dQ"]), "f32")
        error = np.abs(plain["dQ"] - exact["dQ"]).max()
        out["dQ_sum"] = (exact["dQ"] / scalars["scale"], 2 * error / scalars["scale"] + 1e-4, "f32")
    return Program(EXAMPLES / "attention_bwd.tile", kernel, attention_defines(case, m, n), scalars,
                   inputs, out, ("dQ_sum",))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + np.exp(-x))


ACTIVATIONS = [lambda x: x, lambda x: np.maximum(x, 0), gelu, silu]


def gemm(random, m, n, k, dtype, activation, tm, tn, tk):
    a, b = (ladder.rounded(random.standard_normal(s), dtype) for s in ((m, k), (k, n)))
    bias = ladder.rounded(random.standard_normal(n), "f32")
    want = ACTIVATIONS[activation](a @ b + bias)
    allowed = 2 * ladder.EPSILON[dtype] * np.abs(want).max()
    return Program(EXAMPLES / "gemm.tile", "gemm",
                   {"T": dtype, "ACTIVATION": activation, "TM": tm, "TN": tn, "TK": tk}, {},
                   {"A": (a, dtype), "B": (b, dtype), "bias": (bias, "f32")},
                   {"C": (want, allowed, dtype)})


def gemm_tn(random, m, n, k, dtype, tm, tn, tk):
    a, b = (ladder.rounded(random.standard_normal(s), dtype) for s in ((k, m), (n, k)))
    want = a.T @ b.T
    return Program(HERE / "planned" / "gemm_tn.tile", "gemm_tn",
                   {"T": dtype, "TM": tm, "TN": tn, "TK": tk}, {},
                   {"A": (a, dtype), "B": (b, dtype)},
                   {"C": (want, 1e-5 * np.abs(want).max() + 1e-5, "f32")})


def gram(random, m, k, n, dtype, r, tk, tn):
    a, b, c = (ladder.rounded(random.standard_normal(s), dtype) for s in ((m, k), (m, n), (k, n)))
    want = c + a.T @ b
    return Program(HERE / "planned" / "gram.tile", "gram",
                   {"T": dtype, "R": r, "TK": tk, "TN": tn}, {},
                   {"A": (a, dtype), "B": (b, dtype), "C": (c, "f32")},
                   {"C": (want, 1e-5 * np.abs(want).max() + 1e-5, "f32")}, ("C",))


def mlp(random, s, f, d, dv, dtype, gated, m, n, result=None):
    draw = lambda *size: ladder.rounded(random.standard_normal(size) / 4, dtype)
    x, w1, w3, w2 = draw(s, d), draw(f, d), draw(f, d), draw(f, dv)
    bias = ladder.rounded(random.standard_normal(f), "f32")

    def compute(cut):
        h = x @ w1.T + bias
        h = silu(h) * (x @ w3.T) if gated else np.maximum(h, 0)
        return {"Y": cut(cut(h) @ w2), "R": h.sum(axis=1)}

    exact, plain = compute(lambda a: a), compute(lambda a: ladder.rounded(a, dtype))
    out = outputs(exact, plain, {"Y": result or dtype})
    out["R"] = (exact["R"], 1e-4 * np.abs(exact["R"]).max() + 1e-4, "f32")
    return Program(HERE / "planned" / "mlp.tile", "mlp",
                   {"T": dtype, "D": d, "DV": dv, "GATED": gated, "M": m, "N": n, "TY": result or dtype}, {},
                   {"X": (x, dtype), "W1": (w1, dtype), "W2": (w2, dtype), "W3": (w3, dtype),
                    "b": (bias, "f32")}, out)


def linear(random, h, sq, sk, d, dv, dtype, causal, store, m, n):
    draw = lambda *size: ladder.rounded(random.standard_normal(size) / 2, dtype)
    q, k, v = draw(h, sq, d), draw(h, sk, d), draw(h, sk, dv)
    s = ladder.product("hqd,hkd->hqk", q, k)
    if causal:
        s = np.where(np.arange(sk)[None, :] <= np.arange(sq)[:, None] + sk - sq, s, 0.0)

    def compute(cut):
        return {"Y": cut(ladder.product("hqk,hkd->hqd", cut(s), v))}

    exact, plain = compute(lambda a: a), compute(lambda a: ladder.rounded(a, dtype))
    out = outputs(exact, plain, {"Y": dtype})
    out["X"] = (s.max(axis=-1), 1e-5 * np.abs(s).max() + 1e-5, "f32")
    out["P"] = (s if store else np.zeros_like(s), 1e-5 * np.abs(s).max() + 1e-5, "f32")
    inputs = {"Q": (q, dtype), "K": (k, dtype), "V": (v, dtype), "P": (np.zeros_like(s), "f32")}
    return Program(HERE / "planned" / "linear.tile", "linear",
                   {"T": dtype, "D": d, "DV": dv, "CAUSAL": causal, "STORE": store, "M": m, "N": n},
                   {}, inputs, out)


def under_way(random, h, sq, sk, d, dv, dtype, n, greatest, carried):
    draw = lambda *size: ladder.rounded(random.standard_normal(size) / 2, dtype)
    q, k, w = draw(h, sq, d), draw(h, sk, d), draw(h, sq, dv)
    s = ladder.product("hqd,hkd->hqk", q, k)

    def compute(cut):
        return {"Z": ladder.product("hqk,hqd->hkd", cut(s), w)}

    out = outputs(compute(lambda a: a), compute(lambda a: ladder.rounded(a, dtype)), {"Z": "f32"})
    size = 1e-5 * np.abs(s).max() + 1e-5
    out["R"] = (np.maximum(s.max(axis=2), 0) if greatest else np.zeros((h, sq)), size, "f32")
    out["S"] = (s.sum(axis=2) + sk if carried else np.zeros((h, sq)), 8 * size, "f32")
    return Program(HERE / "planned" / "under_way.tile", "under_way",
                   {"T": dtype, "D": d, "DV": dv, "N": n, "GREATEST": greatest, "CARRIED": carried}, {},
                   {"Q": (q, dtype), "K": (k, dtype), "W": (w, dtype), "Z": (np.zeros((h, sk, dv)), "f32")},
                   out, ("Z",))


def turned(random, m, n, d, dv, dtype, nt):
    draw = lambda *size: ladder.rounded(random.standard_normal(size) / 4, dtype)
    x, w, y = draw(m, d), draw(n, d), draw(m, dv)
    s = x @ w.T

    def compute(cut):
        p, q = cut(s * 0.5 + 1.0), cut(s * s * 0.25)
        c = np.zeros((n, dv))
        for at in range(0, m, 64):
            c = c * 0.5 + 2 * q[at:at + 64].T @ y[at:at + 64]
        return {"A": p.T @ y, "C": c, "Z": q @ w}

    out = outputs(compute(lambda a: a), compute(lambda a: ladder.rounded(a, dtype)), {"A": "f32", "C": "f32", "Z": "f32"})
    return Program(HERE / "planned" / "turned.tile", "turned", {"T": dtype, "D": d, "DV": dv, "NT": nt}, {},
                   {"X": (x, dtype), "W": (w, dtype), "Y": (y, dtype), "Z": (np.zeros((m, d)), "f32")}, out, ("Z",))


def beside(random, rows, columns, dtype):
    """A sum over the loop's rows of what a tile of memory was added to, and another keeps: consumers may divide them."""
    x, y, bias = (ladder.rounded(random.standard_normal((rows, n)), dtype) / 4 for n in (64, 64, columns))
    w, kept = ladder.rounded(random.standard_normal((columns, 64)), dtype) / 4, random.random((rows, columns)) < 0.7

    def make():
        s = np.where(kept, x @ w.T + bias, 0.5)
        out = outputs(*({"O": cut(s).T @ y} for cut in (lambda a: a, lambda a: ladder.rounded(a, dtype))), {"O": "f32"})
        return Program(HERE / "planned" / "beside.tile", "beside", {"T": dtype}, {},
                       {"X": (x, dtype), "W": (w, dtype), "Y": (y, dtype), "Bias": (bias, dtype), "Kept": (kept, "bool")}, out)

    return Later(make)


def halves(random, m, n, k, dtype, tm, tn):
    """Scaled products, added up, of two tiles of rows (`tm` is 64, and `tn` says whether results of both fit), or of one that the compiler
    halves."""
    a, w = (ladder.rounded(random.standard_normal((rows, k)), dtype) / 4 for rows in (m, n))
    scales, row = random.random((-(-k // 64), m), dtype=np.float32) + np.float32(0.5), random.random(n, dtype=np.float32)
    longer = np.append(random.random(m, dtype=np.float32), np.full(5, np.nan, np.float32))
    two = tm == 64 and tn < 256

    def make():
        scaled = a * np.repeat(scales.astype(np.float64), 64, axis=0)[:k].T
        factor, added = (1, 0) if two else (1 + (np.arange(m)[:, None] + np.arange(n)) % 2, row + longer[:m, None])
        out = outputs(*({"C": (x @ w.T.astype(x.dtype)) * factor + added} for x in (scaled, scaled.astype(np.float32))), {"C": "f32"})
        defines = {"T": dtype, "TN": tn} if two else {"T": dtype, "TM": tm, "TN": tn}
        inputs = {"A": (a, dtype), "W": (w, dtype), "S": (scales, "f32")}
        return Program(HERE / "planned" / "halves.tile", "halves" if two else "whole", defines, {},
                       inputs if two else {**inputs, "R": (row, "f32"), "P": (longer, "f32")}, out)

    return Later(make)


def common(random, sq, sk, dtype, n):
    """Scores that a tile of memory is added to, the same for all consumers."""
    q, k, v = (ladder.rounded(random.standard_normal((s, 64)), dtype) / 4 for s in (sq, sk, sk))
    rows = random.integers(-9, 10, (sk, 64)).astype(np.int8)

    def make():
        # the tile has 64 rows, of the queries' number in their tile
        s = q @ k.T + 0.125 * rows.T[np.arange(sq) % 64]
        out = outputs(*({"O": cut(s) @ v} for cut in (lambda a: a, lambda a: ladder.rounded(a, dtype))), {"O": "f32"})
        return Program(HERE / "planned" / "common.tile", "common", {"T": dtype, "N": n}, {},
                       {"Q": (q, dtype), "K": (k, dtype), "V": (v, dtype), "Rows": (rows, "i8")}, out)

    return Later(make)


def prefix(random, heads, s, columns, d):
    q, k = (random.standard_normal((heads, s, d)).astype(np.float16) / 4 for _ in range(2))

    def make():
        dots = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1)
        p = np.where(np.arange(s) <= np.arange(s)[:, None], np.exp2(dots), 0)
        out = outputs(*({"Y": cut(p) @ k} for cut in (lambda a: a, lambda a: ladder.rounded(a, "f16"))), {"Y": "f32"})
        padded = np.pad(k, [(0, 0), (0, columns - s), (0, 0)])
        return Program(HERE / "planned" / "prefix.tile", "prefix", {"T": "f16", "D": d}, {},
                       {"Q": (q, "f16"), "K": (padded, "f16")}, out)

    return Later(make)


# ---- cases that are written down ---------------------------------------------------------------


def written_cases(optional):
    """`optional`: passes that can be switched off."""
    random = np.random.default_rng(11)
    at = attention.make

    def case(name, program, plan="consumers=2", sm_count=132):
        return Case(f"{name} {plan} sms={sm_count}", program, plan, sm_count)

    def fwd(plan="consumers=2", sm_count=132, n=64, lazy=True, **features):
        batch = features.pop("batch", 1)
        spec = at(features.pop("rows", 150), features.pop("keys", 200), **features)
        name = f"attention {attention.name_of(spec)} N={n}" + ("" if lazy else " LAZY=false")
        return case(name, forward(spec, random, 64, n, lazy, batch), plan, sm_count)

    # head dimensions, dtypes
    for d, dv, plan in [(40, 40, "consumers=2,stages=3"), (64, 64, "consumers=4,stages=4,q_stages=2"),
                        (80, 80, "consumers=3,stages=2"), (96, 96, "consumers=3,stages=3"),
                        (128, 128, "consumers=3,stages=3,q_stages=2"), (192, 128, "consumers=2,stages=2"),
                        (256, 256, "consumers=2,stages=2,q_stages=1"), (8, 8, "consumers=2"),
                        (64, 128, "consumers=2"), (128, 64, "consumers=2")]:
        yield fwd(plan, d=d, dv=dv, causal=d % 3 == 0, dtype="f16" if d in (40, 256) else "bf16",
                  rows=200 if d < 192 else 130, keys=180 if d < 192 else 130)
    # numbers of consumers and stages, the ways to go through the grid
    for consumers in [1, 2, 3, 4]:
        for stages in [1, 2, 4]:
            yield fwd(f"consumers={consumers},stages={stages},q_stages={1 + stages % 2}", 2, causal=True,
                      heads=2, kv_heads=1, rows=270, keys=200)
    for ways in ["persistent=0", "pipelined=0", "persistent=0,pipelined=0", "dynamic=0", "pingpong=1",
                 "pingpong=1,dynamic=0"]:
        for causal in [False, True]:
            yield fwd(f"consumers=2,stages=2,{ways}", 1, causal=causal, heads=2, kv_heads=2)
    for rows, causal in [(30, False), (200, True)]:  # two blocks of an SM
        yield fwd("consumers=1,stages=2,blocks=2", 1, causal=causal, heads=2, kv_heads=1, rows=rows)
    # masks and lengths
    for features in [dict(window=40), dict(window=33, causal=True), dict(window=20, right=10),
                     dict(window=130, causal=True, rows=350, keys=333),
                     dict(softcap=True, dtype="f16"), dict(alibi=True, causal=True, heads=2),
                     dict(heads=4, kv_heads=2, causal=True), dict(heads=3, kv_heads=1)]:
        features.setdefault("kv_heads", features.get("heads", 1))
        yield fwd("consumers=3,stages=2", 2, batch=2, **features)
    for rows, keys in [(1, 1), (1, 300), (300, 1), (64, 64), (65, 129), (257, 100), (100, 257),
                       (129, 64)]:
        for causal in [False, True]:
            yield fwd("consumers=2,stages=2", 1, rows=rows, keys=keys, causal=causal, n=80)
    yield fwd("consumers=2,stages=2", 3, n=48, lazy=False, causal=True)
    yield fwd("consumers=4,stages=2", 3, n=128, lazy=False, window=70)
    yield fwd("consumers=4,stages=2", 1, n=16, causal=True, rows=300, keys=1400)  # long tiles: consumers begin apart
    # sections of heads: 16 and the 21 that are left; 16, 16, 5 of few tiles; 22 and 24, or 16 and 30 without a counter
    for heads, rows, columns in [(37, 520, 16384), (37, 150, 16384), (46, 530, 23000)]:
        program = prefix(np.random.default_rng(6), heads, rows, columns, 64)
        for plan in ["consumers=1,stages=2", "consumers=1,stages=2,persistent=0"]:
            yield case(f"prefix {heads=} {rows=} {columns=}", program, plan, 5)
    # windows that slide, drawn from either end, whole and of which one block or none is left; one of 150 has no
    # tile with both edges
    for features in [dict(causal=True, window=70), dict(causal=True, window=150),
                     dict(window=90, right=40), dict(window=20, right=100),
                     dict(causal=True, window=1, rows=300), dict(causal=True, window=300, rows=130, keys=450),
                     dict(causal=True, window=64, rows=450, keys=130)]:
        features = dict(rows=400, keys=400, d=64, dv=64, heads=2, kv_heads=1) | features
        for ways in ["consumers=2,stages=2,q_stages=2,pingpong=1", "consumers=3,stages=2", "consumers=4,stages=2", "consumers=1,stages=2",
                     "consumers=2,stages=2,persistent=0", "consumers=3,stages=1"]:  # with one stage the next tile is told late
            yield fwd(ways, 3, **features)
        yield fwd("consumers=3,stages=2,dynamic=0", 1, **features)  # dealt out
        spec = at(features.pop("rows"), features.pop("keys"), **features)
        for kernel, m, ways in [("attention_bwd_dq", 64, "consumers=2,stages=2"), ("attention_bwd_dkdv", 64, "consumers=2,stages=2"),
                                ("attention_bwd", 64, "consumers=2,stages=2,q_stages=2,pingpong=1"),
                                ("attention_bwd", 96, "consumers=2,stages=2,persistent=0,pingpong=1")]:
            yield case(f"{kernel} {attention.name_of(spec)} M={m} drawn", backward(kernel, spec, random, m),
                       ways, 3)
    spec = at(400, 300, causal=True, window=100, d=128, dv=128)
    yield case(f"attention_bwd_dkdv {attention.name_of(spec)} M=128 drawn",
               backward("attention_bwd_dkdv", spec, random, 128), "consumers=2,stages=1,cooperative=1", 2)
    # tiles that are counted from the end: the first has one consumer, two, or all; one tile; no mask for what lies
    # in front; a loop that begins at the first program's mask
    for rows in [1, 64, 65, 200, 257, 448]:
        for plan in ["consumers=3,stages=2,q_stages=2", "consumers=4,stages=2", "consumers=2,stages=2,q_stages=2,persistent=0",
                     "consumers=3,stages=2,dynamic=0", "consumers=3,stages=2,pipelined=0"]:
            yield fwd(plan, 2, rows=rows, keys=rows, d=64, dv=64, heads=2, kv_heads=1, causal=True)
        for plan in ["consumers=2,stages=2,dynamic=1", "consumers=3,stages=2,q_stages=2", "consumers=4,stages=2,persistent=0"]:
            yield case(f"sliding rows={rows}", sliding(random, 2, rows, 64, "bf16", 80, 150), plan, 2)
    for kernel in ["attention_bwd_dq", "attention_bwd_dkdv"]:
        for plan in ["consumers=3,stages=2", "consumers=2,stages=2,dynamic=0"]:
            spec = at(260, 300, causal=True, heads=2, kv_heads=1)
            yield case(f"{kernel} {attention.name_of(spec)} from the end", backward(kernel, spec, random), plan, 2)
    # tiles of memory that no product reads
    plans = ["consumers=2,stages=2", "consumers=3,stages=3", "consumers=2,stages=1", "consumers=2,stages=2,pipelined=0", "consumers=2,stages=2,q_stages=2",
             "consumers=1,stages=2,persistent=0", "consumers=4,stages=4,q_stages=2"]
    for seed, plan in zip([0, 5, 6, 7, 10, 11, 13, 14, 15, 16, 17, 18, 19, 20], plans * 2):  # whose tiles have pipelines
        text, inputs, wanted, summed, name = planned_programs.make(np.random.default_rng([seed, 9]), 64, np.random.default_rng([seed, 10]))
        yield case(f"tiles {seed} {name}", Program(text, "made", {}, {}, inputs, wanted, summed), plan, 3)
    for rows, columns in [(300, 144), (128, 64), (70, 208)]:
        for plan in ["consumers=2,stages=1,cooperative=1", "consumers=2,stages=1,cooperative=1,persistent=0", "consumers=2,stages=2", "consumers=1,stages=3"]:
            yield case(f"beside {rows=} {columns=}", beside(np.random.default_rng(12), rows, columns, "bf16"), plan, 2)
    for m, tm, tn, plan in [(300, 64, 128, "consumers=2,stages=3"), (130, 64, 128, "consumers=1,stages=4"), (300, 64, 64, "consumers=2,stages=3"),
                            (300, 128, 128, "consumers=2,stages=2"), (172, 128, 128, "consumers=1,stages=3,persistent=0"),
                            (172, 64, 256, "consumers=2,stages=2"), (300, 128, 64, "consumers=2,stages=2")]:
        yield case(f"halves {m=} {tm=} {tn=}", halves(np.random.default_rng(13), m, 392, 328, "bf16", tm, tn), plan, 2)
    for n, plan in [(32, "consumers=2,stages=2"), (96, "consumers=1,stages=1"), (64, "consumers=3,stages=3"), (32, "consumers=2,stages=2,pipelined=0")]:
        yield case(f"common N={n}", common(np.random.default_rng(13), 200, 176, "bf16", n), plan, 4)
    # without this pass and that one; -O1
    spec = at(150, 200, causal=True, window=70)
    program = forward(spec, random)
    for flags in [["-O1"]] + [["-fno-" + name] for name in optional if name not in ("plan", "check-roles")]:
        yield Case(f"attention {attention.name_of(spec)} {flags[0]}", program, "consumers=2", 2, tuple(flags))
    # backward
    for kernel, plan in [("attention_bwd_dq", "consumers=2"), ("attention_bwd_dq", "consumers=3,pipelined=0"),
                         ("attention_bwd_dkdv", "consumers=2"), ("attention_bwd_dkdv", "consumers=1"),
                         ("attention_bwd", "consumers=2"), ("attention_bwd", "consumers=2,stages=1,persistent=0")]:
        for features in [dict(causal=True, heads=4, kv_heads=2, rows=150, keys=170),
                         dict(softcap=True, rows=100, keys=90), dict(window=50, rows=130, keys=140)]:
            spec = at(**features)
            yield case(f"{kernel} {attention.name_of(spec)}", backward(kernel, spec, random), plan, 2)
    # .. with dK and dV in parts: a program for each query head, or for two
    for kernel, m, plan in [("attention_bwd_dkdv_split", 48, "consumers=2,stages=2"), ("attention_bwd_dkdv_split", 64, "consumers=1"),
                            ("attention_bwd_split", 80, "consumers=2,stages=2,persistent=0,pingpong=1"),
                            ("attention_bwd_split", 64, "consumers=2,stages=2")]:
        for parts, features in [(4, dict(causal=True, heads=4, kv_heads=1, rows=150, keys=170)),
                                (2, dict(heads=4, kv_heads=1, rows=100, keys=90, alibi=True)),
                                (4, dict(window=50, heads=8, kv_heads=2, rows=70, keys=140))]:
            spec = at(d=128 if m == 80 else 64, dv=128 if m == 80 else 64, **features)
            yield case(f"{kernel} {attention.name_of(spec)} M={m} {parts=}",
                       backward(kernel, spec, random, m, parts=parts), plan, 2)
    # a product that the consumers share out, in tiles whose results take nearly all registers
    for features in [dict(causal=True, heads=2, kv_heads=1, rows=170, keys=150), dict(rows=85, keys=130)]:
        for m, plan in [(80, "consumers=2,stages=2,persistent=0,pingpong=1"), (48, "consumers=2,stages=2,pingpong=0")]:
            spec = at(d=128, dv=128, **features)
            yield case(f"attention_bwd {attention.name_of(spec)} M={m}",
                       backward("attention_bwd", spec, random, m), plan, 2)
    # .. divided by rows, and with the first product an iteration ahead
    for features in [dict(causal=True, heads=2, kv_heads=1, rows=300, keys=250), dict(rows=200, keys=130, dtype="f16"),
                     dict(window=70, rows=400, keys=300)]:
        for m, plan in [(128, "consumers=2,stages=2,persistent=0,pingpong=1"), (96, "consumers=2,stages=2,persistent=0,pipelined=0"),
                        (48, "consumers=3,stages=2,persistent=0"), (128, "consumers=2,stages=1,pingpong=1"),
                        (128, "consumers=2,stages=2,q_stages=2,pingpong=1"), (128, "consumers=2,stages=2,q_stages=2,dynamic=0,pingpong=1"),
                        (48, "consumers=3,stages=3,q_stages=2,dynamic=0")]:
            spec = at(d=64, dv=64, **features)
            yield case(f"attention_bwd {attention.name_of(spec)} M={m}",
                       backward("attention_bwd", spec, random, m), plan, 1 if "stages" in plan else 2)
    # .. in programs that begin the loop apart, with and without masks that need to know where they are
    for features in [dict(rows=530, keys=460), dict(rows=512, keys=330, alibi=True, heads=2, kv_heads=1),
                     dict(rows=400, keys=256, softcap=True)]:
        for d, m, plan in [(64, 32, "consumers=2,stages=2,persistent=0,pingpong=1"), (64, 64, "consumers=2,stages=2"),
                           (128, 48, "consumers=2,stages=2,persistent=0,pingpong=1")]:
            spec = at(d=d, dv=d, **features)
            yield case(f"attention_bwd {attention.name_of(spec)} M={m}",
                       backward("attention_bwd", spec, random, m), plan, 2)
    # .. in tiles that begin where the mask does, also of a block whose last consumers have no keys, and of
    # programs that do not share a product; where one consumer's window ends while another's diagonal still cuts
    for features in [dict(rows=420, keys=420), dict(rows=300, keys=413, softcap=True), dict(rows=413, keys=300),
                     dict(rows=333, keys=260, window=90), dict(rows=420, keys=420, window=130)]:
        spec = at(d=64, dv=64, causal=True, **features)
        for kernel, m, plan in [("attention_bwd", 80, "consumers=2,stages=2,persistent=0,pingpong=1"),
                                ("attention_bwd", 48, "consumers=3,stages=2"), ("attention_bwd_dkdv", 80, "consumers=2"),
                                ("attention_bwd_dkdv", 48, "consumers=1")]:
            yield case(f"{kernel} {attention.name_of(spec)} M={m}", backward(kernel, spec, random, m), plan, 2)
    # delta and L2 are found before the loop, and leave behind it
    for features in [dict(rows=300, keys=200, causal=True, heads=2, kv_heads=1), dict(rows=65, keys=1), dict(rows=1, keys=70, window=20),
                     dict(rows=200, keys=130, softcap=True, dtype="f16"), dict(rows=130, keys=300, d=128, dv=64)]:
        spec = at(**dict(d=64, dv=64) | features)
        for plan in ["consumers=2,stages=2", "consumers=3,stages=2,pipelined=0", "consumers=2,stages=2,persistent=0,q_stages=2", "consumers=1,stages=2"]:
            yield case(f"attention_bwd_dq_first {attention.name_of(spec)}", backward("attention_bwd_dq_first", spec, random), plan, 2)
    # a consumer's own dimension is the columns: P and dS are right operands, through shared memory
    for features in [dict(d=192, dv=192, rows=200, keys=200, causal=True, heads=2, kv_heads=1), dict(d=192, dv=192, rows=130, keys=95),
                     dict(d=192, dv=192, rows=1, keys=1), dict(d=192, dv=192, rows=64, keys=97, window=40, dtype="f16"),
                     dict(d=192, dv=128, rows=150, keys=100, softcap=True), dict(d=64, dv=64, rows=200, keys=70, heads=3, kv_heads=3, alibi=True)]:
        spec = at(**features)
        for n, plan in [(48, "consumers=2,stages=1,persistent=0"), (48, "consumers=2,stages=1"), (16, "consumers=2,stages=2,persistent=0")]:
            yield case(f"attention_bwd {attention.name_of(spec)} turned N={n}", backward("attention_bwd", spec, random, 64, n), plan, 2)
    for m, n, d, dv, dtype, nt, plan in [(200, 150, 64, 128, "bf16", 48, "consumers=2,stages=1"), (65, 1, 64, 64, "f16", 16, "consumers=2,stages=2"),
                                         (1, 63, 128, 64, "bf16", 32, "consumers=2,stages=1,persistent=0"),
                                         (300, 97, 64, 128, "bf16", 48, "consumers=2,stages=2,pingpong=1")]:
        yield case(f"turned {m}x{n}x{d}x{dv} {dtype} NT={nt}", turned(np.random.default_rng(7), m, n, d, dv, dtype, nt), plan, 2)
    # consumers that divide the tiles of the main loop
    for features in [dict(d=256, dv=256, causal=True, heads=2, kv_heads=1, rows=150, keys=70),
                     dict(d=256, dv=256, rows=129, keys=65, dtype="f16"),
                     dict(d=128, dv=128, rows=270, keys=130, causal=True, heads=2),
                     dict(d=128, dv=128, rows=260, keys=90, window=50),
                     dict(d=128, dv=256, rows=100, keys=150, softcap=True, alibi=True),
                     dict(d=128, dv=128, rows=1, keys=1), dict(d=128, dv=128, rows=300, keys=64, right=20),
                     # shares of the columns that are whole atom columns of the narrower swizzles, or inside of one
                     dict(d=192, dv=192, causal=True, heads=2, kv_heads=1, rows=150, keys=70),
                     dict(d=192, dv=192, rows=129, keys=65, dtype="f16"),
                     dict(d=160, dv=192, rows=140, keys=70, window=50), dict(d=192, dv=96, rows=130, keys=130, causal=True),
                     dict(d=64, dv=160, rows=200, keys=60),
                     # a second stage of Q: the next scores begin in the iteration before, and, of a loop with masks, in some of it
                     dict(d=192, dv=192, rows=650, keys=200), dict(d=160, dv=160, rows=700, keys=130, causal=True, heads=2, kv_heads=1),
                     dict(d=192, dv=128, rows=513, keys=640, window=200, heads=2), dict(d=192, dv=192, rows=384, keys=64, softcap=True),
                     dict(d=160, dv=128, rows=640, keys=1, alibi=True)]:
        spec = at(**features)
        yield case(f"attention_bwd {attention.name_of(spec)} M=128",
                   backward("attention_bwd", spec, random, 128, 64), "consumers=2,stages=1,persistent=0,cooperative=1", 2)
        yield case(f"attention_bwd_dq {attention.name_of(spec)} N=128",
                   backward("attention_bwd_dq", spec, random, 64, 128), "consumers=2,stages=1,persistent=0,cooperative=1", 1)
        yield case(f"attention_bwd_dkdv {attention.name_of(spec)} M=128",
                   backward("attention_bwd_dkdv", spec, random, 128, 64),
                   "consumers=2,stages=1,cooperative=1" + (",persistent=0" if features["d"] > 128 else ""), 1)
    spec = at(140, 130, d=192, dv=192, causal=True, heads=4, kv_heads=1)
    yield case(f"attention_bwd_dkdv_split {attention.name_of(spec)} M=128", backward("attention_bwd_dkdv_split", spec, random, 128, 64, parts=2),
               "consumers=2,stages=1,persistent=0,cooperative=1", 2)
    # other programs
    for m, n, k, activation, tiles, plan in [
            (200, 136, 96, 3, (64, 64, 64), "consumers=2"), (130, 72, 200, 1, (64, 72, 32), "consumers=3"),
            (70, 520, 264, 2, (64, 256, 64), "consumers=2,stages=3"),
            (300, 64, 128, 0, (128, 64, 128), "consumers=1,stages=2"), (1, 8, 8, 0, (64, 8, 16), "consumers=2"),
            # several blocks of rows in a consumer; a swizzle atom column of the result at a time, and all at once
            (300, 392, 72, 2, (128, 192, 64), "consumers=2,stages=2"), (200, 136, 96, 1, (192, 64, 32), "consumers=1"),
            (330, 400, 40, 0, (128, 64, 16), "consumers=3"), (90, 400, 200, 3, (64, 256, 64), "consumers=2,stages=4"),
            # transposed products, of any multiple of 16 rows, whose results leave through shared memory
            (100, 200, 96, 1, (48, 64, 32), "consumers=2,stages=2"), (300, 264, 136, 2, (144, 128, 64), "consumers=2,stages=3"),
            (170, 136, 40, 0, (80, 64, 16), "consumers=3,stages=2"), (33, 72, 24, 3, (16, 64, 16), "consumers=1,stages=3"),
            # patches of 8 and 3 tiles along m; of 4 pairs and 1
            (700, 48, 32, 0, (64, 16, 32), "consumers=1"), (530, 48, 16, 1, (64, 16, 16), "consumers=2")]:
        yield case(f"gemm {m}x{n}x{k} {tiles}",
                   gemm(random, m, n, k, "bf16", activation, *tiles), plan, 2)
    for m, d, dv, plan in [(128, 64, 64, "consumers=2,stages=2"), (192, 32, 40, "consumers=1,pipelined=0"),
                           (128, 40, 64, "consumers=2,stages=3,pingpong=1")]:
        spec = at(270, 200, d=d, dv=dv, causal=d == 64, heads=2, kv_heads=1)
        yield case(f"attention M={m} {attention.name_of(spec)}", forward(spec, random, m, 48), plan, 2)
    for plan, limit in [("consumers=1,stages=2", 3.0), ("consumers=2,stages=2", 1.5), ("consumers=3,stages=2", 4.0)]:
        yield case(f"nested votes {limit}", nested_votes(np.random.default_rng(5), 150, 400, 64, limit), plan, 2)
    yield case("gemm_tn", gemm_tn(random, 200, 136, 96, "f16", 64, 64, 64), "consumers=2", 3)
    yield case("gemm_tn", gemm_tn(random, 200, 136, 96, "bf16", 128, 64, 64), "consumers=2", 3)
    yield case("gemm_tn", gemm_tn(random, 72, 200, 130 // 8 * 8, "bf16", 64, 128, 32), "consumers=3", 1)
    yield case("gram", gram(random, 200, 136, 96, "bf16", 64, 64, 64), "consumers=2", 3)
    yield case("gram", gram(random, 100, 200, 130 // 8 * 8, "f16", 96, 64, 40), "consumers=3,stages=1", 1)
    yield case("mlp", mlp(random, 200, 300, 64, 64, "bf16", False, 64, 64), "consumers=2,stages=2", 2)
    yield case("mlp gated", mlp(random, 150, 200, 96, 64, "f16", True, 64, 48), "consumers=2,stages=3", 1)
    # what leaves over the stage of what a consumer loads once, and what has no room there
    for d, dv, result, plan, sms in [(64, 64, None, "consumers=2,stages=2,q_stages=2", 1),
                                     (128, 64, None, "consumers=3,stages=1,q_stages=3", 2),
                                     (64, 32, "f32", "consumers=2,stages=2,q_stages=2,pingpong=1", 1),
                                     (128, 64, "f32", "consumers=1,stages=2,q_stages=2", 2),
                                     (64, 64, "f32", "consumers=2,stages=2,q_stages=2", 2),
                                     (64, 128, None, "consumers=2,stages=2,q_stages=2", 2),
                                     (128, 128, None, "consumers=2,stages=2,q_stages=2,persistent=0", 2)]:
        yield case(f"mlp {d} {dv} {result}",
                   mlp(random, 500, 130, d, dv, "bf16", False, 64, 64, result), plan, sms)
    for group, ms, plan in [(4, 16, "consumers=1,stages=2"), (4, 16, "consumers=2,stages=2,q_stages=2"), (8, 8, "consumers=2"), (2, 32, "consumers=1,stages=1"),
                            (16, 4, "consumers=3,stages=2")]:
        for by_head in [False, True]:
            yield case(f"packed {group=} {by_head=}",
                       packed(random, 2, group, 21, 150, 64, 64, "bf16", by_head, by_head, ms, 64), plan, 2)
        yield case(f"packed, several tiles a block {group=}",
                   packed(random, 2, group, 5 * ms, 40, 64, 64, "f16", False, False, ms, 64), plan, 1)
        spec = attention.make(21, 150, d=128, heads=2 * group, kv_heads=2, causal=True)
        yield case(f"decode {attention.name_of(spec)}", decode(spec, random, ms, 48, 2), plan, 3)
    for causal in [False, True]:
        for store in [False, True]:
            yield case(f"linear causal={causal} store={store}",
                       linear(random, 2, 150, 200, 64, 64, "bf16", causal, store, 64, 64),
                       "consumers=2,stages=2", 2)
    for greatest, carried, n, plan in [(True, False, 64, "consumers=2,stages=3"), (True, False, 32, "consumers=2,stages=2,pingpong=1"),
                                       (False, True, 64, "consumers=2,stages=3"), (True, True, 32, "consumers=2,stages=3,pingpong=1")]:
        yield case(f"under_way {greatest=} {carried=} N={n}",
                   under_way(random, 2, 200, 210, 64, 64, "bf16", n, greatest, carried), plan, 2)


def written_cases_sm100(_optional):
    """Cluster launch control: one tile, some, many, ragged ones; alike and of different lengths; pairs of blocks."""
    random = np.random.default_rng(12)
    at = attention.make

    def case(name, program, plan):
        return Case(f"{name} {plan}", program, plan, 2)

    for m, n, k, tiles, plan in [
            (100, 64, 64, (128, 64, 64), "consumers=1,stages=2"), (130, 64, 72, (128, 64, 64), "consumers=1,stages=3,cluster=2"),
            (700, 304, 136, (128, 64, 64), "consumers=1,stages=3"), (700, 392, 72, (128, 128, 64), "consumers=2,stages=3"),
            (700, 392, 72, (128, 128, 64), "consumers=1,stages=3,cluster=2"), (900, 328, 8, (128, 64, 64), "consumers=1,stages=1"),
            (1300, 304, 200, (128, 64, 64), "consumers=2,stages=2,cluster=2"), (256, 32, 64, (128, 32, 64), "consumers=1,stages=4,cluster=2")]:
        yield case(f"gemm {m}x{n}x{k} {tiles}", gemm(random, m, n, k, "bf16", 1, *tiles), plan + ",clc=1")
    for rows, keys, features, plan in [
            (100, 90, {"causal": True}, "consumers=2,stages=2"), (300, 300, {"causal": True, "heads": 2}, "consumers=2,stages=2"),
            (900, 300, {"causal": True, "heads": 3}, "consumers=2,stages=2"), (600, 600, {"causal": True}, "consumers=2,stages=1,dynamic=0"),
            (600, 200, {"d": 128, "heads": 2}, "consumers=2,stages=2"), (520, 130, {"heads": 2}, "consumers=1,stages=3,q_stages=2"),
            (700, 700, {"causal": True, "window": 100, "heads": 2}, "consumers=2,stages=2"),
            (400, 400, {"causal": True, "d": 40}, "consumers=1,stages=2")]:
        spec = at(rows, keys, **features)
        yield case(f"attention {attention.name_of(spec)}", forward(spec, random, 128, 128), plan + ",clc=1")
    for kernel, causal in [("attention_bwd", False), ("attention_bwd", True), ("attention_bwd_dq", True)]:
        spec = at(150, 300, causal=causal, heads=2)
        yield case(f"{kernel} {attention.name_of(spec)}", backward(kernel, spec, random, 128, 128),
                   "consumers=1,stages=1,clc=1")
    yield case("mlp", mlp(random, 700, 300, 64, 64, "bf16", False, 128, 64), "consumers=2,stages=2,clc=1")
    yield from small_cases_sm100()


def small_cases_sm100():
    """Sums, chains and graphs of products, with and without pairs of blocks: what faults are planted into (plant.py)."""
    random = np.random.default_rng(17)
    at = attention.make

    def case(name, program, plan):
        return Case(f"small {name} {plan}", program, plan, 2)

    for tiles, plan in [((128, 64, 64), "consumers=1,stages=2"), ((128, 64, 32), "consumers=2,stages=2"),
                        ((128, 64, 64), "consumers=1,stages=2,cluster=2"), ((128, 32, 64), "consumers=2,stages=1,cluster=2,persistent=0")]:
        yield case(f"gemm {tiles}", gemm(random, 390, 72, 104, "bf16", 1, *tiles), plan)
    for features, plan in [({"causal": True}, "consumers=2,stages=2"), ({}, "consumers=2,stages=2,correction=1"),
                           ({"heads": 2, "kv_heads": 1}, "consumers=1,stages=1"), ({"causal": True}, "consumers=1,stages=2,pipelined=0"),
                           ({"window": 60}, "consumers=2,stages=2,q_stages=2,persistent=0"), ({}, "consumers=1,stages=2,cluster=2"),
                           ({"heads": 2, "kv_heads": 2}, "consumers=2,stages=2,cluster=2,persistent=0"),
                           ({"causal": True, "heads": 2}, "consumers=2,stages=3,correction=1,dynamic=0")]:
        spec = at(300, 150, **(dict(d=64, dv=64, heads=1, kv_heads=1) | features))
        yield case(f"attention {attention.name_of(spec)}", forward(spec, random, 128, 32, lazy="correction" in plan), plan)
    for kernel, causal, plan in [("attention_bwd", False, "consumers=1,stages=1"), ("attention_bwd", True, "consumers=1,stages=2,persistent=0"),
                                 ("attention_bwd_dq", True, "consumers=1,stages=1"), ("attention_bwd_dkdv", False, "consumers=1,stages=2")]:
        spec = at(150, 200, causal=causal, heads=2, kv_heads=1, d=64, dv=64)
        yield case(f"{kernel} {attention.name_of(spec)}", backward(kernel, spec, random, 128, 128), plan)
    yield case("mlp", mlp(random, 300, 150, 64, 64, "bf16", False, 128, 32), "consumers=1,stages=2,cluster=2")
    yield case("mlp gated", mlp(random, 150, 150, 64, 64, "f16", True, 128, 32), "consumers=1,stages=2")


WRITTEN = {"sm_90": written_cases, "sm_100": written_cases_sm100}

# ---- cases drawn at random ---------------------------------------------------------------------


def draw_plan(random):
    pick = lambda *choices: choices[random.integers(len(choices))]
    plan = {"consumers": pick(1, 2, 2, 3, 4), "stages": pick(1, 2, 3, 4), "stages": pick(1, 1, 2, 3)}
    for name, value in [("persistent", 0), ("pipelined", 0), ("dynamic", 0), ("pingpong", 1)]:
        drawn = random.random()
        if drawn < 0.3:
            plan[name] = value
    return ",".join(f"{k}={v}" for k, v in plan.items())


def draw_attention(random):
    pick = lambda *choices: choices[random.integers(len(choices))]
    d = pick(8, 16, 32, 40, 48, 64, 64, 80, 96, 112, 128, 128, 160, 192, 256)
    kv = pick(1, 1, 2)
    features = {"d": d, "dv": pick(d, d, 64, 128, 8 * int(random.integers(1, 17))),
                "dtype": pick("f16", "bf16"), "kv_heads": kv, "heads": kv * pick(1, 1, 2, 3),
                "causal": random.random() < 0.4}
    if random.random() < 0.3:
        features["window"] = int(random.integers(1, 200))
    if random.random() < 0.15:
        features["right"] = int(random.integers(0, 100))
    features["softcap"] = random.random() < 0.15
    features["alibi"] = random.random() < 0.15
    most = 260 if d <= 96 else 160
    return attention.make(int(random.integers(1, most)), int(random.integers(1, most)), **features)


def drawn_case(seed, own=64):
    """`own`: the rows of a consumer's tile."""
    random = np.random.default_rng(seed)
    pick = lambda *choices: choices[random.integers(len(choices))]
    eight = lambda low, high: 8 * int(random.integers(low // 8, high // 8 + 1))
    plan, dtype = draw_plan(random), pick("f16", "bf16")
    kind = pick("forward", "forward", "forward", "dq", "dkdv", "bwd", "gemm", "gemm", "gemm_tn",
                "gram", "mlp", "linear", "decode", "packed", *["made"] * 8)
    if kind == "made":
        tiles = np.random.default_rng([seed, 8])
        text, inputs, wanted, summed, name = planned_programs.make(random, own, tiles if tiles.random() < 0.4 else None)
        program = Program(text, "made", {}, {}, inputs, wanted, summed)
    elif kind == "forward":
        spec, n, lazy = draw_attention(random), eight(8, 160), bool(random.random() < 0.7)
        n = n if random.random() < 0.2 else (n + 8) // 16 * 16 or 16
        batch = pick(1, 1, 2)
        m = own if random.random() < 0.8 or own > 64 else pick(2, 3) * own  # several blocks of rows in a consumer
        program, name = forward(spec, random, m, n, lazy, batch), f"{batch=} {attention.name_of(spec)} M={m} N={n} {lazy=}"
    elif kind in ("dq", "dkdv", "bwd"):
        spec = draw_attention(random)
        if kind == "bwd" and random.random() < 0.8:  # few plans fit otherwise
            spec = spec._replace(d=pick(64, 64, 128), dv=pick(64, 64, 128, 40))
            plan = re.sub(r"consumers=\d,stages=\d,stages=\d", f"consumers=2,stages={pick(1, 2)},q_stages=1", plan)
        m, n = (own, own // 4 * int(random.integers(1, 7)))
        if kind != "dq":
            m, n = n * (2 if kind == "bwd" and spec.d == 64 and random.random() < 0.3 else 1), m
        kernel = "attention_bwd" + ("" if kind == "bwd" else "_" + kind)
        batch, parts = pick(1, 1, 2), 0
        if kind != "dq" and spec.heads > spec.kv_heads and np.random.default_rng([seed, 6]).random() < 0.4:  # likewise
            kernel, parts = kernel + "_split", spec.heads
        program = backward(kernel, spec, random, m, n, batch, parts)
        name = f"{batch=} {parts=} {attention.name_of(spec)} M={m} N={n}"
    elif kind in ("gemm", "gemm_tn", "gram"):
        m, n, k = eight(8, 400), eight(8, 400), eight(8, 300)
        tiles = [own * pick(1, 1, 1, 2, 3), eight(8, 256), 16 * int(random.integers(1, 9))]
        if random.random() < 0.3:
            tiles[0], tiles[1] = tiles[1], tiles[0]
        name = f"{m}x{n}x{k} {dtype} {tiles}"
        if kind == "gemm":
            program = gemm(random, m, n, k, dtype, int(random.integers(4)), *tiles)
        elif kind == "gemm_tn":
            program = gemm_tn(random, m, n, k, dtype, *tiles)
        else:
            program = gram(random, m, k, n, dtype, tiles[2], tiles[0], tiles[1])
    elif kind in ("decode", "packed"):
        group = pick(1, 2, 4, 8, 16, 64)
        ms = own // group
        kv, n, by_head = pick(1, 2), 16 * int(random.integers(1, 9)), bool(random.random() < 0.5)
        spec = draw_attention(random)._replace(kv_heads=kv, heads=kv * group, softcap=False, alibi=False,
                                               right=-1)
        spec = spec._replace(rows=min(spec.rows, pick(1, 2, 5, 8, 40, 2 * ms)))
        batch = pick(1, 1, 2)
        if kind == "decode":
            program, name = decode(spec, random, ms, n, batch), f"{batch=} {attention.name_of(spec)} N={n}"
        else:
            program = packed(random, kv, group, spec.rows, spec.keys, spec.d, spec.dv, spec.dtype,
                             spec.causal, by_head, ms, n)
            name = f"{attention.name_of(spec)} {by_head=} N={n}"
    elif kind == "mlp":
        sizes = (int(random.integers(1, 250)), int(random.integers(1, 250)), eight(8, 128), eight(8, 128))
        gated, n = bool(random.random() < 0.5), 16 * int(random.integers(1, 9))
        program, name = mlp(random, *sizes, dtype, gated, own, n), f"{sizes} {dtype} {gated=} N={n}"
    else:
        sizes = (pick(1, 2), int(random.integers(1, 250)), int(random.integers(1, 250)),
                 eight(8, 128), eight(8, 128))
        causal, store = bool(random.random() < 0.5), bool(random.random() < 0.3)
        n = 16 * int(random.integers(1, 9))
        program = linear(random, *sizes, dtype, causal, store, own, n)
        name = f"{sizes} {dtype} {causal=} {store=} N={n}"
    other = np.random.default_rng([seed, 3])  # of its own, likewise
    if other.random() < 0.05:
        size = (int(other.integers(1, 3)), int(other.integers(1, 500)), 8 * int(other.integers(1, 17)))
        n, window = 16 * int(other.integers(1, 9)), int(other.integers(1, 300))
        kind, program, name = "sliding", sliding(other, *size, dtype, n, window, own), f"{size} {dtype} {window=} N={n}"
    sms = pick(1, 2, 3, 5, 132)
    if own > 64:  # fewer fit into tensor memory, and products that form a graph have one
        several = kind not in ("dq", "dkdv", "bwd") and (kind != "made" or np.random.default_rng([seed, 4]).random() < 0.3)
        plan = re.sub(r"consumers=\d", f"consumers={np.random.default_rng([seed, 5]).integers(1, 4) if several else 1}", plan)
    if own > 64 and np.random.default_rng([seed, 2]).random() < 0.3:  # of its own: all else stays as it was
        plan += ",cluster=2"
    if own > 64 and np.random.default_rng([seed, 6]).random() < 0.3:  # likewise
        plan += ",clc=1"
    if own > 64 and kind in ("forward", "decode", "packed") and np.random.default_rng([seed, 7]).random() < 0.5:
        plan = plan.replace(",cluster=2", "") + ",correction=1"
    return Case(f"seed {seed}: {kind} {name} {plan} sms={sms}", program, plan, sms)


# ---- all of it ---------------------------------------------------------------------------------


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--tilerun", required=True)
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--arch", default="sm_90", choices=ARCHES)
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="SEED")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--part", default="0/1", help="K/N: every N-th written case from K on")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--print", action="store_true")
    parser.add_argument("--keep", metavar="FOLDER", help="for the texts of programs that are wrong")
    parser.add_argument("names", nargs="*", help="only cases with one of these words in their name")
    options = parser.parse_args()
    part, parts = map(int, options.part.split("/"))

    def one(make):
        case = make()
        if options.names and not any(n in case.name for n in options.names):
            return None
        try:
            run(options, case)
            return case.name, "right", ""
        except Refused as refused:
            return case.name, "refused", str(refused)
        except attention.Wrong as wrong:
            if options.keep and "\n" in str(case.program.source):
                kept = pathlib.Path(options.keep) / (case.name.split(":")[0].replace(" ", "-") + ".tile")
                kept.write_text(case.program.source, encoding="utf-8")
            return case.name, "wrong", str(wrong).strip()[:3000]

    if options.random:
        makers = [lambda s=s: drawn_case(s, ARCHES[options.arch][0]) for s in range(options.first, options.first + options.random)]
    else:
        # (not every N-th: the cases come in pairs, causal and not)
        makers = [lambda c=c: c for c in list(WRITTEN[options.arch](ladder.optional_passes(options.tilec)))[part::parts]
                  if zlib.crc32(c.name.encode()) % options.every == 0]
    count = {"right": 0, "refused": 0, "wrong": 0}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for result in filter(None, pool.map(one, makers)):
            name, outcome, said = result
            count[outcome] += 1
            if outcome == "wrong" or options.print or (outcome == "refused" and not options.random):
                print(f"{outcome} {name}" + (": " + said if said else ""), flush=True)
    print(f"{count['right']} right, {count['refused']} refused, {count['wrong']} wrong")
    ran = sum(count.values())
    most = 0.4 if options.arch == "sm_90" else 0.7
    few = count["refused"] > (most * ran if options.random and ran >= 20 else ran if options.random else 0)
    return 1 if count["wrong"] or few or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
