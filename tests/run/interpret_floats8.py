#!/usr/bin/env python3
"""interpret_floats8.py - what the reference interpreter says that a product of 8-bit floats, or of subnormal ones, may be off by.

    interpret_floats8.py --tilec T

Computed as tensor cores do that keep 13 bits: of 16 or 32 places at a time, in any order, all of an instruction's products and the sum
before it are cut toward zero 13 bits below the greatest exponent, and the result to 13 bits of fraction; a product has the sum of its
operands' exponents, zeros that of the least normal number, or none.  Parts of 128 are added in f32, with `fast` nothing is.
All of that lies within the interpreter's tolerance.  That is far less than the 2^-6 of the terms' sizes that the language promises
where the terms allow it, and nothing where nothing can be cut off.

Products of f16, bf16 and tf32 keep 25 bits, which is seen where an operand is subnormal; in other units they are added in f32 one by one.
"""
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import float8_codes  # noqa: E402
import interpret  # noqa: E402

LEAST = {"e4m3": -6, "e5m2": -14, "f16": -14, "bf16": -126, "tf32": -126}  # exponents of normal numbers
ROWS, COLUMNS = 32, 16
SOURCE = """kernel k<TA: type = e4m3, TB: type = e4m3, K: int = 64>(A: in TA[M, K], B: in TB[K, 16], C: in f32[M, 16], Y: out f32[M, 16], Z: out f32[M, 16]) {
    grid m in tiles(M, 32);
    store Y[m, :] = mma(load A[m, :], load B[:, :], load C[m, :]);
    store Z[m, :] = mma(load A[m, :], load B[:, :], load C[m, :], fast = true);
}
"""
# of a name: numbers of a generator, and what the tolerance without `fast` is at most, in parts of the promised one
KINDS = {
    "normal": (lambda r, size: r.normal(size=size), 0.5),
    "grid": (lambda r, size: r.integers(-24, 25, size) / 8, 0),  # products are whole 64ths, and few
    "many": (lambda r, size: r.integers(-128, 129, size) / 8, 0.4),
    "positive": (lambda r, size: r.uniform(0.5, 1, size), 1),
    "wide": (lambda r, size: np.exp2(r.uniform(-8, 8, size)) * r.choice([-1, 1], size), 0.6),
    "tiny": (lambda r, size: r.integers(-7, 8, size) * 2.0**-9, 1),  # subnormal
    "sparse": (lambda r, size: r.normal(size=size) * (r.random(size) < 0.1), 1),
    "one": (lambda r, size: np.where(r.random(size) < 0.02, 256.0, 2.0**-5) * r.choice([-1, 1], size), 1),
}


def exponents(x, form, zeros):
    _, e = np.frexp(x)
    return np.where(x == 0, LEAST[form] if zeros else -1000, np.maximum(e - 1, LEAST[form]))


def cut(x, unit):
    return np.trunc(x / unit) * unit


def instruction(a, b, c, forms, zeros, bits=13):
    """[M, k] and [k, N] and what was summed [M, N]."""
    terms = a[:, :, None] * b[None]
    of = (exponents(a, forms[0], zeros)[:, :, None] + exponents(b, forms[1], zeros)[None]).max(axis=1)
    most = np.maximum(of, np.where(c == 0, -2000, np.frexp(c)[1] - 1))
    unit = np.exp2(np.maximum(most, -400) - float(bits))
    total = cut(terms, unit[:, None]).sum(axis=1) + cut(c, unit)
    return cut(total, np.exp2(np.maximum(np.where(total == 0, 0, np.frexp(total)[1] - 1) - min(bits, 23.0), -149)))


def product(rng, a, b, c, forms, step, zeros, fast):
    places = [slice(k, min(k + step, a.shape[1])) for k in range(0, a.shape[1], step)]
    parts = [places] if fast else [places[k:k + 128 // step] for k in range(0, len(places), 128 // step)]
    done = c
    for part in parts:
        total = c if fast else np.zeros_like(c)
        for k in rng.permutation(len(part)):
            total = instruction(a[:, part[k]], b[part[k]], total, forms, zeros)
        done = total if fast else (done.astype(np.float32) + total.astype(np.float32)).astype(np.float64)
    return done


def check(tilec, folder):
    source, bounds = os.path.join(folder, "product.tile"), {n: os.path.join(folder, n + ".bound.npy") for n in "YZ"}
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    rng = np.random.default_rng(5)
    for kind, (numbers, most) in KINDS.items():
        for forms in (("e4m3", "e4m3"), ("e5m2", "e4m3")):
            for inner in (16, 64, 256):
                name = f"{kind} {forms[0]} {inner}"
                codes = [float8_codes.codes(numbers(rng, size), form)
                         for size, form in zip(((ROWS, inner), (inner, COLUMNS)), forms)]
                a, b = (float8_codes.NUMBERS[form][code] for form, code in zip(forms, codes))
                c = (np.round(rng.normal(size=(ROWS, COLUMNS)) * 64) / 64).astype(np.float32)
                got, _ = interpret.interpret(tilec, source, folder, {"TA": forms[0], "TB": forms[1], "K": inner},
                                             {"A": codes[0], "B": codes[1], "C": c}, {}, ["Y", "Z"],
                                             [word for n, path in bounds.items() for word in ("--tolerance", f"{n}={path}")])
                bound, size = {n: np.load(path) for n, path in bounds.items()}, np.abs(a) @ np.abs(b)
                for step in (16, 32):
                    for zeros in (False, True):
                        for n, fast in (("Y", False), ("Z", True)):
                            have = product(rng, a, b, c.astype(np.float64), forms, step, zeros, fast)
                            over = np.abs(have - got[n]) - bound[n]
                            yield f"{name}, {step} places, {n}", f"{over.max()} beyond the tolerance" if over.max() > 0 else None
                if most == 0 and inner <= 64:
                    yield f"{name} is exact", None if not bound["Y"].any() else f"is off by {bound['Y'].max()}"
                elif most and inner <= 64:
                    part = (bound["Y"] / (2.0**-6 * size + 1e-30)).mean()
                    yield f"{name}: no wider", None if part <= most * 1.01 else f"{part:.2f} of the promised"


def check_multiplied(tilec, folder):
    """A product in front of exact ones may be a part of a multiply-add."""
    source, bound = (os.path.join(folder, name) for name in ("multiplied.tile", "bound.npy"))
    with open(source, "w", encoding="utf-8") as file:
        file.write("kernel k<T: type = e4m3>(A: in T[32, 16], B: in T[16, 16], C: in f32[32, 16], Y: out f32[32, 16], c: f32) {\n    grid m in tiles(32, 32);\n"
                   "    store Y[m, :] = mma(load A[m, :], load B[:, :], load C[m, :] * c);\n}\n")
    rng, c = np.random.default_rng(7), np.float32(0.3)
    for kind in ("e4m3", "bf16"):
        of = (lambda x: float8_codes.codes(x, "e4m3")) if kind == "e4m3" else (lambda x: interpret.ladder.to_bits(x, "bf16"))
        a, b = np.zeros((32, 16)), np.zeros((16, 16))
        a[:, 0], b[0] = 0.25, 0.5
        x = rng.uniform(-1, 1, (32, 16)).astype(np.float32)
        got, _ = interpret.interpret(tilec, source, folder, {"T": kind}, {"A": of(a), "B": of(b), "C": x}, {"c": c}, ["Y"],
                                     ["--tolerance", f"Y={bound}"])
        fused = (x.astype(np.float64) * np.float64(c) + 0.125).astype(np.float32)  # exact in float64
        far, have = np.abs(fused.astype(np.float64) - got["Y"]), np.load(bound)
        yield f"a product and 1/8, {kind}", None if (far <= have).all() and far.any() else f"the bounds are {have.max()}, and {far.max()} off as a multiply-add"


def subnormals(rng, size, least, digits, most):
    """Half of them are; the others reach up to 2^most."""
    low = rng.integers(-2**(digits - 1), 2**(digits - 1) + 1, size) * 2.0**(least - digits + 1)
    high = np.exp2(rng.integers(least, most, size)) * rng.integers(2**(digits - 1), 2**digits, size) * 2.0**(1 - digits)
    return np.where(rng.random(size) < 0.5, low, high * rng.choice([-1, 1], size)) * (rng.random(size) < 0.9)


def check_subnormals(tilec, folder):
    source, path = os.path.join(folder, "subnormals.tile"), os.path.join(folder, "Y.bound.npy")
    with open(source, "w", encoding="utf-8") as file:
        file.write("kernel k<T: type = f16, U: type = T, K: int = 64>(A: in T[M, K], B: in T[K, 16], C: in f32[M, 16], Y: out f32[M, 16]) {\n"
                   "    grid m in tiles(M, 32);\n    store Y[m, :] = mma((load A[m, :]) as U, (load B[:, :]) as U, load C[m, :]);\n}\n")
    rng = np.random.default_rng(11)

    def bounded(form, a, b, c):
        kind = {"tf32": "f32"}.get(form, form)
        got, _ = interpret.interpret(tilec, source, folder, {"T": kind, "U": form, "K": a.shape[1]},
                                     {"A": interpret.ladder.to_bits(a, kind), "B": interpret.ladder.to_bits(b, kind), "C": c}, {}, ["Y"],
                                     ["--tolerance", f"Y={path}"])
        return got["Y"].astype(np.float64), np.load(path)

    for form, digits, most, of_c in (("f16", 11, 3, (-50, 0)), ("bf16", 8, 0, (-150, -90)), ("bf16", 8, -20, (-160, -140)), ("f16", 11, -13, (-50, -25)), ("tf32", 11, 0, (-150, -90))):
        for inner in (16, 64):
            name = f"subnormal {form} below 2^{most}, {inner}"
            a, b = (subnormals(rng, size, LEAST[form], digits, most) for size in ((ROWS, inner), (inner, COLUMNS)))
            c = (rng.normal(size=(ROWS, COLUMNS)) * np.exp2(rng.integers(*of_c, (ROWS, COLUMNS)))).astype(np.float32)
            want, bound = bounded(form, a, b, c)
            chain = total = c.astype(np.float64)
            step = 8 if form == "tf32" else 16
            for k in rng.permutation(inner // step) * step:
                total = instruction(a[:, k:k + step], b[k:k + step], total, (form, form), False, 25)
            for k in range(inner):
                chain = (chain + a[:, k:k + 1] * b[k]).astype(np.float32).astype(np.float64)
            for how, have in (("as tensor cores", total), ("one by one", chain)):
                over = np.abs(have - want) - bound
                yield f"{name}, {how}", f"{over.max()} beyond the tolerance" if over.max() > 0 else None
    a, b = np.zeros((ROWS, 64)), np.zeros((64, COLUMNS))  # aligned at 2^-14, so cut at 2^-39
    a[:, 0], b[0] = 2.0**-24, 1.5
    for last, most in ((-39, 0), (-40, 4 * 2.0**-40), (-45, 4 * (2.0**-39 - 2.0**-45))):  # in each of four instructions
        c = ((rng.integers(-2**10, 2**10, (ROWS, COLUMNS)) * 2 + 1) * 2.0**last).astype(np.float32)
        want, bound = bounded("f16", a, b, c)
        off = np.abs(instruction(a[:, :16], b[:16], c.astype(np.float64), ("f16", "f16"), False, 25) - want)
        at_most = most and most + 66 * 2.0**-23 * (2.0**-23 + np.abs(c) + 2.0**-36)
        well = (off <= bound).all() and (bound <= at_most).all() and (off.max() > 0) == (most > 0)
        yield f"cut at 2^-39, multiples of 2^{last}", None if well else f"is off by {off.max()}, within {bound.max()}"


if __name__ == "__main__":
    sys.exit(interpret.main([check, check_multiplied, check_subnormals]))
