#!/usr/bin/env python3
"""interpret.py - the examples in the reference interpreter, against NumPy in float64.

    interpret.py --tilec T

Nothing is compiled.  f32 results must agree to 1e-5, others as what a 16-bit program stores; and the
bounds of additions to memory hold in every order.
"""
import argparse
import itertools
import os
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import attention  # noqa: E402
import ladder  # noqa: E402


def interpret(tilec, source, folder, defines, inputs, sets, outputs, flags=()):
    """The outputs as they lie in their files, and what was said."""
    command = [tilec, "run", source, *flags]
    for name, value in defines.items():
        command += ["-D", f"{name}={value}"]
    command = ladder.with_arrays(command, folder, inputs, sets, outputs)
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise attention.Wrong(" ".join(command) + "\n" + done.stderr)
    return ladder.loaded(folder, outputs), done.stderr


def example(name):
    return os.path.join(ladder.ROOT, "examples", name + ".tile")


def check_ladder(tilec, folder):
    for case in [c for make in ladder.CASES.values() for c in make(np.random.default_rng(1))]:
        inputs = {n: ladder.to_bits(x, dtype) for n, (x, dtype) in case.inputs.items()}
        got, said = interpret(tilec, example(case.example), folder, case.defines, inputs, case.scalars,
                              case.outputs)
        for name, want in case.outputs.items():
            have = ladder.from_bits(got[name], case.out_dtype)
            error = ladder.largest_error(have, want) / max(ladder.largest(want), 1e-30)
            yield (f"{case.example} {case.name} {name}", said or
                   (None if error <= max(case.slack, 1) * ladder.EPSILON[case.out_dtype] else
                    f"off by {error:.1e}"))


def attention_defines(case):
    return {"T": case.dtype, "D": case.d, "DV": case.dv, "CAUSAL": str(case.causal).lower(), "WINDOW": case.window,
            "RIGHT": case.right, "SOFTCAP": str(case.softcap).lower(), "ALIBI": str(case.alibi).lower()}


def check_attention(tilec, folder):
    make = attention.make
    cases = [make(1, 1), make(7, 3), make(65, 129, causal=True), make(130, 100, causal=True, heads=4, kv_heads=2),
             make(70, 90, "f16", window=20, right=10), make(90, 120, "f16", softcap=True), make(90, 70, softcap=True),
             make(120, 90, causal=True, alibi=True, heads=2, kv_heads=2), make(50, 64, d=24, dv=72),
             make(90, 40, window=2 ** 31 - 1, right=2 ** 31 - 1)]
    for case in cases:
        random = np.random.default_rng(2)
        draw = lambda *size: ladder.rounded(random.standard_normal(size), case.dtype)
        q, g = draw(case.rows, case.heads, case.d), draw(case.rows, case.heads, case.dv)
        k, v = draw(case.keys, case.kv_heads, case.d), draw(case.keys, case.kv_heads, case.dv)
        scale = float(np.float32(case.d ** -0.5))
        exact, plain = (attention.reference(case, q, k, v, g, scale, e) for e in (True, False))
        bits = {n: ladder.to_bits(x[None], case.dtype) for n, x in [("Q", q), ("K", k), ("V", v), ("dO", g)]}
        sets = {"scale": scale, "softcap": attention.SOFTCAP}
        defines = attention_defines(case)
        found, _ = interpret(tilec, example("attention"), folder, defines,
                             {n: bits[n] for n in "QKV"}, sets, ["O", "L"])
        # all kernels of the file, one after the other: of what several compute, the last one counts
        given = {**bits, "O": found["O"], "L": found["L"]}
        back, _ = interpret(tilec, example("attention_bwd"), folder, defines, given, {**sets, "P": case.heads},
                            ["dQ", "dK", "dV", "L2", "delta"])
        given = {**bits, **{n: back.pop(n) for n in ("L2", "delta")}}
        kinds = {"": {**found, **back}}
        sums = {"dQ_sum": np.zeros((1, case.rows, case.heads, case.d), np.float32)}
        for kernel, more in (("attention_bwd", sums), ("attention_bwd_dkdv", {})):
            kinds[f" of {kernel}"], _ = interpret(tilec, example("attention_bwd"), folder, defines, {**given, **more}, sets,
                                                  ["dK", "dV"], ["--kernel", kernel])
        for which, results in kinds.items():
            for name, bits_out in results.items():
                have = ladder.from_bits(bits_out, "f32" if name == "L" else case.dtype)[0]
                with np.errstate(invalid="ignore"):
                    error = np.abs(np.where(have == exact[name], 0, have - exact[name])).max()
                    most = np.abs(np.where(plain[name] == exact[name], 0, plain[name] - exact[name])).max()
                yield (f"attention {attention.name_of(case)} {name}{which}",
                       None if error <= 2 * most + 1e-5 else f"off by {error:.1e}, NumPy by {most:.1e}")


def check_decode(tilec, folder):
    for rows, keys, group, splits, causal in [(1, 200, 8, 3, True), (7, 3, 4, 2, True), (20, 90, 4, 0, True), (20, 90, 4, 0, False), (3, 70, 4, 2, False)]:
        case = attention.make(rows, keys, d=64, heads=2 * group, kv_heads=2, causal=causal)
        random = np.random.default_rng(4)
        draw = lambda *size: ladder.rounded(random.standard_normal(size), "bf16")
        q, k, v = draw(rows, 2 * group, 64), draw(keys, 2, 64), draw(keys, 2, 64)
        exact, plain = (attention.reference(case, q, k, v, np.zeros_like(q), 0.125, e) for e in (True, False))
        inputs = {n: ladder.to_bits(x[None], "bf16") for n, x in [("Q", q), ("K", k), ("V", v)]}
        defines = {"D": 64, "G": group, "N": 64, "CAUSAL": str(causal).lower()}
        source = example("attention_decode")
        if splits == 0:
            got, _ = interpret(tilec, source, folder, defines, inputs, {"scale": 0.125}, ["O", "L"],
                               ["--kernel", "attention_decode"])
        else:
            parts, _ = interpret(tilec, source, folder, {**defines, "GP": group + 1}, inputs,
                                 {"scale": 0.125, "X": splits}, ["O_part", "L_part"],
                                 ["--kernel", "attention_decode_split"])
            got, _ = interpret(tilec, source, folder, {"D": 64, "G": group}, parts, {"Hq": 2 * group}, ["O", "L"],
                               ["--kernel", "attention_decode_combine"])
        for name in "OL":
            have = ladder.from_bits(got[name], "bf16" if name == "O" else "f32")[0]
            with np.errstate(invalid="ignore"):
                error = np.abs(np.where(have == exact[name], 0, have - exact[name])).max()
                most = np.abs(np.where(plain[name] == exact[name], 0, plain[name] - exact[name])).max()
            yield (f"decode {rows} {keys} {splits} {name}",
                   None if error <= 2 * most + 1e-5 else f"off by {error:.1e}, NumPy by {most:.1e}")


def check_bounds(tilec, folder):
    """What `--tolerance` says of additions to memory, which may come in any order."""
    source = os.path.join(folder, "additions.tile")
    with open(source, "w", encoding="utf-8") as file:
        file.write("kernel k(X: in f32[B], Z: inout f32[1]) { grid b in B; atomic_add Z[0] += load X[b]; }\n")
    for terms, exact in [([1.0, 2.0, 4.0, 0.125], True),
                         ([1 + 2.0**-23, -0.5 - 2.0**-23, 4.0], False),  # their low digits cancel in this order
                         ([1.0, -1.0, 2.0**24], False),                  # so do these, to nothing
                         ([2.0**-20, 2.0**-20, 64.0], False),            # exact only as long as they are small
                         ([1.0, 1.0, 1.0, 1.0, 2.0**24], False)]:        # those before the large one are exact together
        bound = os.path.join(folder, "bound.npy")
        x = np.array(terms, np.float32)
        interpret(tilec, source, folder, {}, {"X": x}, {}, ["Z"], ["--tolerance", f"Z={bound}"])
        have = np.load(bound)[0]
        sums = {float(np.add.accumulate(x[list(order)])[-1]) for order in itertools.permutations(range(len(x)))}
        far = max(abs(s - float(np.sum(x, dtype=np.float64))) for s in sums)
        wrong = f"the bound is {have}, and {far} off in some order" if (have == 0) != exact or have < far else None
        yield f"the sum of {terms}", wrong


def check_sums(tilec, folder):
    """An exact sum with a term that is not: its own terms may be added to that one by one."""
    source, bound = (os.path.join(folder, name) for name in ("sums.tile", "bound.npy"))
    with open(source, "w", encoding="utf-8") as file:
        file.write("kernel k(X: in f32[N], Y: in f32[M], Z: out f32[3, M]) {\n    grid m in tiles(M, 16);\n"
                   "    let s = sum(load X[tiles(N, 32)[0]]);\n    let y = load Y[m];\n    store Z[0, m] = y + s;\n"
                   "    store Z[1, m] = fma(y, 1.0, s * 2.0);\n    store Z[2, m] = s;\n}\n")
    x = np.ones(31, np.float32)
    y = np.random.default_rng(1).uniform(0, 1, 64).astype(np.float32)
    got, _ = interpret(tilec, source, folder, {}, {"X": x, "Y": y}, {"M": len(y)}, ["Z"], ["--tolerance", f"Z={bound}"])
    have = np.load(bound)
    for k, factor in enumerate([1, 2]):
        total = np.add.accumulate(np.concatenate([[y], np.outer(factor * x, np.ones_like(y))]), dtype=np.float32)[-1]
        far = np.abs(total.astype(np.float64) - got["Z"][k])
        yield f"31 terms of {factor}", None if (far <= have[k]).all() else f"the bounds are {have[k].max()}, and {far.max()} off one by one"
    yield "the sum alone", None if (have[2] == 0).all() else "is not exact"


def check_rows(tilec, folder):
    """Behind a branch by rows that is taken, what it has changed, and what is made of that, may be rounded as another multiple; else nothing may."""
    source, bound = (os.path.join(folder, name) for name in ("rows.tile", "bound.npy"))
    values = ["x", "x * 2.0", "top", "acc + x", "back(top)", "where(x > 0.0, x, acc)"]
    with open(source, "w", encoding="utf-8") as file:
        file.write("fn back(t) { let u = t * 1.0; return u; }\nkernel k(X: in f32[N], Z: out f32[R, N], C: f32) {\n    grid n in tiles(N, 8);\n"
                   "    let x = load X[n];\n    var top = x;\n    var acc = zeros<f32>[8];\n"
                   "    @by_rows if any(exp(x) > C) { top = top * 4.0; acc += x; }\n" +
                   "".join(f"    store Z[{k}, n] = (({text}) as f16) as f32;\n" for k, text in enumerate(values)) + "}\n")
    x = np.array([1.5, 3.25, 1 / 3, 5, 6, 7, 8, 1.0625], np.float32)
    for c in (0.0, 1e9, 2980.9585):  # the last one is exp(8) but for rounding
        interpret(tilec, source, folder, {}, {"X": x}, {"R": len(values), "C": c}, ["Z"], ["--tolerance", f"Z={bound}"])
        loose = (np.load(bound) > 0).all(axis=1)
        want = 2 * [c == 2980.9585] + 4 * [c != 1e9]
        yield f"values behind a branch by rows, more than {c}", None if list(loose) == want else f"have tolerances: {loose}"


# expressions of x and y: [1/3 rounded anew, 2, -0.0, NaN, inf, -inf, 3e38], [3, 3e38, 1, 1, 1, inf, -3e38]; the index, the
# result there, and whether it is known (exactly, or it is not known at all)
KNOWN = [
    ("where(r != r, 1.0, 0.0)", 0, 0, True), ("where(r >= r, 1.0, 0.0)", 0, 1, True), ("where(r < r, 1.0, 0.0)", 1, 0, True),
    ("r - r", 1, 0, True), ("where(x != x, 1.0, 0.0)", 3, 1, True), ("x + y", 3, np.nan, True), ("x * y", 3, np.nan, True),
    ("r * 3.0", 3, np.nan, True), ("x - x", 4, np.nan, True), ("x + y", 5, np.nan, True), ("x * 0.0", 4, np.nan, True),
    ("sqrt(x)", 5, np.nan, True), ("x / x", 2, np.nan, True), ("fma(x, y, y)", 3, np.nan, True), ("x * 2.0", 6, np.inf, True),
    ("x * 2.0 + y", 6, np.inf, False), ("x * 2.0 + 1.0", 6, np.inf, True), ("sum(x)", 0, np.nan, True),
    ("sum(where(x == x, x, 0.0))", 0, np.nan, True), ("sum(where(x > 2.5, x, 0.0))", 0, np.inf, True),
    ("sum(where(x > 1e38 && x < 3.1e38, x, 0.0)) * 2.0", 6, np.inf, True),
    ("sum(where(abs(x) < 1e39 && x > 1e37, x, 0.0)) + sum(where(abs(x) < 3.1e38 && x > 1e37, x, 0.0)) + y", 6, np.inf, False),
    ("max(x, y)", 3, 1, True), ("(x as f16) as f32", 3, np.nan, True),
]


def check_known(tilec, folder):
    """NaNs, infinities and what is compared with itself: known where every compiled kernel makes the same of them."""
    x = np.array([1, 2, -0.0, np.nan, np.inf, -np.inf, 3e38], np.float32)
    y = np.array([3, 3e38, 1, 1, 1, np.inf, -3e38], np.float32)
    source, bound = (os.path.join(folder, name) for name in ("known.tile", "bound.npy"))
    with open(source, "w", encoding="utf-8") as file:
        lines = [f"    store Z[{k}, n] = {text};" for k, (text, *_) in enumerate(KNOWN)]
        file.write("kernel k(X: in f32[N], Y: in f32[N], Z: out f32[R, N]) {\n    grid n in tiles(N, 8);\n    let x = load X[n];\n"
                   "    let y = load Y[n];\n    let r = exp(x) / y;\n" + "\n".join(lines) + "\n}\n")
    got, _ = interpret(tilec, source, folder, {}, {"X": x, "Y": y}, {"R": len(KNOWN)}, ["Z"],
                       ["--nan=ignore", "--tolerance", f"Z={bound}"])
    tolerance = np.load(bound)
    for k, (text, at, want, known) in enumerate(KNOWN):
        have, off = got["Z"][k, at], tolerance[k, at]
        good = (have == want or (have != have and want != want)) and off == (0 if known else np.inf)
        yield f"{text} of {x[at]} and {y[at]}", None if good else f"is {have} within {off}, expected {want}, known: {known}"


def main(checks):
    """Each check yields (what was looked at, what is wrong with it or None)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    options = parser.parse_args()
    failed = total = 0
    with tempfile.TemporaryDirectory() as folder:
        for check in checks:
            for name, wrong in check(options.tilec, folder):
                total += 1
                if wrong:
                    failed += 1
                    print(f"{name}: {wrong}")
    print(f"{total} results, {failed} wrong")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main([check_ladder, check_attention, check_decode, check_bounds, check_sums, check_rows, check_known]))
