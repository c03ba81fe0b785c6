#!/usr/bin/env python3
"""contract.py - products and sums that an assembler makes one multiply-add of, as the simulator draws them.

    contract.py SIMRUN

Each form adds -round(a * b) to a * b: 0 where both are rounded, else what the rounding left.  Seed 0 rounds once wherever ptxas
does, seed 1 nowhere, and of the others some do and some do not; what says .rn is never one.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

LANES, SEEDS = 32, 12
ALWAYS = True
TEXT = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 i, .param .u64 o)
.reqntid 32, 1, 1
{{
.reg .pred %p<4>;
.reg .b16 %h<10>;
.reg .b32 %r<10>;
.reg .f32 %f<10>;
.reg .f64 %e<10>;
.reg .b64 %d<13>;
ld.param.u64 %d10, [i];
ld.param.u64 %d11, [o];
mov.u32 %r8, %tid.x;
mul.wide.u32 %d12, %r8, {stride};
add.u64 %d10, %d10, %d12;
add.u64 %d11, %d11, %d12;
ld.global.{load} {0}, [%d10];
ld.global.{load} {1}, [%d10 + {size}];
ld.global.{load} {2}, [%d10 + {twice}];
{body}
st.global.{load} [%d11], {9};
ret;
}}
"""
# type: (of a load, NumPy's of an element, elements, registers)
TYPES = {"f32": ("f32", "f32", 1, "f"), "f64": ("f64", "f64", 1, "e"), "f16": ("b16", "f16", 1, "h"), "bf16": ("b16", "bf16", 1, "h"),
         "f16x2": ("b32", "f16", 2, "r"), "bf16x2": ("b32", "bf16", 2, "r"), "f32x2": ("b64", "f32", 2, "d")}
# (what the product and the addend are multiplied by, whether they may be one, the body: T the type, X the registers)
FORMS = {
    "add": (1, 1, True, "mul.T X8, X0, X1; add.T X9, X8, X2;"),
    "add, the product second": (1, 1, True, "mul.T X8, X0, X1; add.T X9, X2, X8;"),
    "sub": (1, -1, True, "mul.T X8, X0, X1; sub.T X9, X8, X2;"),
    "sub, the product second": (-1, 1, True, "mul.T X8, X0, X1; sub.T X9, X2, X8;"),
    "negated": (-1, -1, True, "mul.T X8, X0, X1; neg.T X8, X8; sub.T X9, X8, X2;"),
    "a factor overwritten": (1, 1, True, "mul.T X0, X0, X1; mov.B X1, X2; add.T X9, X0, X2;"),
    "a factor overwritten behind": (1, 1, True, "mul.T X8, X0, X1; add.T X7, X8, X1; mov.B X0, X2; add.T X9, X8, X2;"),
    "under a guard": (1, 1, True, "mov.B X9, X2; setp.lt.u32 %p0, %r8, 100; mul.T X8, X0, X1; @%p0 add.T X9, X8, X2;"),
    "copied": (1, 1, True, "mul.T X8, X0, X1; mov.B X7, X8; mov.B X6, X7; add.T X9, X6, X2;"),
    "mul.rn": (1, 1, False, "mul.rn.T X8, X0, X1; add.T X9, X8, X2;"),
    "add.rn": (1, 1, False, "mul.T X8, X0, X1; add.rn.T X9, X8, X2;"),
    "sub.rn": (1, -1, False, "mul.T X8, X0, X1; sub.rn.T X9, X8, X2;"),
    "overwritten": (1, 1, False, "mul.T X8, X0, X1; mul.rn.T X8, X0, X1; add.T X9, X8, X2;"),
}
OF_F32 = {
    "stored, too": (1, 1, "may", "mul.f32 X8, X0, X1; st.global.f32 [%d11 + 4], X8; add.f32 X9, X8, X2;"),
    "read by a maximum": (1, 1, "may", "mul.f32 X8, X0, X1; add.f32 X9, X8, X2; max.f32 X7, X8, X1;"),
    "read in another block": (1, 1, "may", "mul.f32 X8, X0, X1; add.f32 X9, X8, X2; bra L; L: neg.f32 X7, X8; abs.f32 X8, X8;"),
    "ftz of one": (1, 1, False, "mul.ftz.f32 X8, X0, X1; add.f32 X9, X8, X2;"),
    "ftz": (1, 1, True, "mul.ftz.f32 X8, X0, X1; add.ftz.f32 X9, X8, X2;"),
    "absolute": (1, 1, False, "mul.f32 X8, X0, X1; abs.f32 X8, X8; add.f32 X9, X8, X2;"),
    "behind a label": (1, 1, False, "mul.f32 X8, X0, X1; setp.eq.u32 %p0, %r8, 99; @%p0 bra L; L: add.f32 X9, X8, X2;"),
}


def narrowed(x, kind):
    """Values of a type, and their bits."""
    if kind != "bf16":
        bits = x.astype({"f32": np.float32, "f64": np.float64, "f16": np.float16}[kind])
        return bits.astype(np.longdouble), bits
    bits = x.astype(np.float32).view(np.uint32)
    bits = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.longdouble), bits


class Tester:
    def __init__(self, simrun, folder):
        self.simrun, self.folder, self.failed, self.ran = simrun, pathlib.Path(folder), 0, 0

    def results(self, name, kind, form, seed):
        """What the rounding of the product left, and what is left in the simulator."""
        by_product, by_addend, _, body = form
        load, of, n, letter = TYPES[kind]
        draw = np.random.default_rng(3)
        a, a_bits = narrowed(1 + draw.random((LANES, n)), of)
        b, b_bits = narrowed(1 + draw.random((LANES, n)), of)
        rounded, _ = narrowed(a * b, of)
        c, c_bits = narrowed(-by_product * by_addend * rounded, of)
        _, left = narrowed(by_product * (a * b - rounded), of)
        if of == "f64":  # (a long double does not hold the product)
            left = left * 0 + 1
        data = np.stack([a_bits, b_bits, c_bits, c_bits], 1)
        size = data.nbytes // LANES // 4
        registers = [f"%{letter}{k}" for k in range(10)]
        body = body.replace("T", kind).replace(".B ", f".b{8 * size} ").replace("X", f"%{letter}").replace("; ", ";\n")
        text = TEXT.format(*registers, stride=4 * size, size=size, twice=2 * size, load=load, body=body)
        (self.folder / "k.ptx").write_text(text)
        data.tofile(self.folder / "i.bin")
        done = subprocess.run([self.simrun, str(self.folder / "k.ptx"), "--seed", str(seed), f"in:{self.folder}/i.bin",
                               f"out:{self.folder}/o.bin:{data.nbytes}"], capture_output=True, text=True)
        if done.returncode:
            self.failed += 1
            print(f"{kind} {name}: {done.stdout}{done.stderr}")
            return left, left
        got = np.fromfile(self.folder / "o.bin", data.dtype).reshape(LANES, 4, n)[:, 0]
        if of == "bf16":  # zeros of either sign
            left, got = left * (left != 0x8000), got * (got != 0x8000)
        return left, (got != 0) * 1.0 if of == "f64" else got

    def form(self, name, kind, form):
        may, once = form[2], []
        if kind == "f32x2":  # ptxas 12.9 and 13.0 do not heed .rn there
            may = ALWAYS
        for seed in range(SEEDS):
            left, got = self.results(name, kind, form, seed)
            self.ran += 1
            once.append(np.array_equal(left, got))
            if not once[-1] and np.any(got):
                self.failed += 1
                print(f"{kind} {name}, seed {seed}: neither rounded once nor twice: {got[:4]} for {left[:4]}")
        good = once[0] == (may == ALWAYS) and not once[1] and any(once[2:]) and not all(once[2:]) if may else not any(once)
        if not good:
            self.failed += 1
            print(f"{kind} {name}: rounded once under seeds {[k for k, x in enumerate(once) if x]}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        tester = Tester(sys.argv[1], folder)
        for kind in TYPES:
            for name, form in FORMS.items():
                if kind != "f32x2" or name not in ("negated", "overwritten"):
                    tester.form(name, kind, form)
        for name, form in OF_F32.items():
            tester.form(name, "f32", form)
    print(f"{tester.ran} runs, {tester.failed} failed")
    return tester.failed != 0


if __name__ == "__main__":
    sys.exit(main())
