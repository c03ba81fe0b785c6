#!/usr/bin/env python3
"""products.py - each chip multiplies each element type by the instruction that it has for it, as ptxas makes it.

    products.py --tilec TILEC --ptxas PTXAS [--all]

PTX may have an instruction where the chip has none: mma.sync of e4m3 is two products of f16 on sm_90 and sm_100.  What the rows of the
targets' tables say is native is found in machine code; no disassembler is needed: the lowest nine bits of an instruction name it.  (Those of
tensor memory have one name; the kind is in the descriptor.)  Of each row one product of the first chip and one of the last; --all: all.
"""
import argparse
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import counts  # noqa: E402

# Instructions by their lowest nine bits.
NAMES = {0x3c: "HMMA", 0x37: "IMMA", 0x7a: "QMMA", 0x7f: "OMMA", 0x1f0: "HGMMA", 0x1f1: "IGMMA", 0x1f3: "QGMMA", 0x1ea: "UTCMMA"}
# mma.sync with scales, by the kinds of PTX; OMMA is of 4 bits.
MX8, MX4, NV4 = ("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X",
                 "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.scale_vec::2X",
                 "mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X")
# .. and tcgen05.mma
ONE_MX8, ONE_MX4, ONE_NV4 = (f"tcgen05.mma.cta_group::1.kind::{kind}.block_scale.scale_vec::{n}X"
                             for kind, n in (("mxf8f6f4", 1), ("mxf4", 2), ("mxf4nvf4", 4)))
SCALES = {MX8: ("e8m0", 32), MX4: ("e8m0", 32), NV4: ("e4m3", 16), ONE_MX8: ("e8m0", 32), ONE_MX4: ("e8m0", 32), ONE_NV4: ("e4m3", 16)}
WARP, GROUP, ONE, TWO = "mma.sync", "wgmma.mma_async", "tcgen05.mma.cta_group::1", "tcgen05.mma.cta_group::2"
PLAN = {WARP: "none", GROUP: "consumers=2,stages=2", TWO: "consumers=1,stages=2,cluster=2",
        **dict.fromkeys((ONE, ONE_MX8, ONE_MX4, ONE_NV4), "consumers=1,stages=2")}
FLOATS8, BYTES, SIXTEEN = ["e4m3", "e5m2"], ["i8", "u8"], ["f16", "bf16"]
# targets, element types, the instruction of PTX, that of the machine; types of a list mix, but those of 16 bits.
ROWS = [
    ("sm_80 sm_86 sm_89 sm_90 sm_100 sm_103 sm_120", SIXTEEN, WARP, "HMMA"),
    ("sm_80 sm_86 sm_89 sm_90 sm_100 sm_103 sm_120", ["tf32"], WARP, "HMMA"),
    ("sm_80 sm_86 sm_89 sm_90 sm_100 sm_103 sm_120", BYTES, WARP, "IMMA"),
    ("sm_89 sm_120", FLOATS8, WARP, "QMMA"),
    ("sm_90", SIXTEEN, GROUP, "HGMMA"), ("sm_90", ["tf32"], GROUP, "HGMMA"), ("sm_90", BYTES, GROUP, "IGMMA"), ("sm_90", FLOATS8, GROUP, "QGMMA"),
    ("sm_100 sm_103", SIXTEEN, ONE, "UTCMMA"), ("sm_100 sm_103", ["tf32"], ONE, "UTCMMA"), ("sm_100 sm_103", ["tf32"], TWO, "UTCMMA"),
    ("sm_100 sm_103", FLOATS8, ONE, "UTCMMA"), ("sm_100 sm_103", FLOATS8, TWO, "UTCMMA"),
    ("sm_100", BYTES, ONE, "UTCMMA"), ("sm_100", BYTES, TWO, "UTCMMA"),
    ("sm_100 sm_103", FLOATS8, ONE_MX8, "UTCMMA"), ("sm_100 sm_103", ["e2m1"], ONE_MX4, "UTCMMA"), ("sm_100 sm_103", ["e2m1"], ONE_NV4, "UTCMMA"),
    ("sm_120", FLOATS8, MX8, "QMMA"), ("sm_120", ["e2m1"], MX4, "OMMA"), ("sm_120", ["e2m1"], NV4, "OMMA"),
]
KERNEL = """
kernel g<TM: int>(A: in {a}[M, K] align(16), B: in {b}[N, K] align(16), C: out {c}[M, N] align(16){tensors}) {{
    grid m in tiles(M, TM), n in tiles(N, 64);
    var acc = zeros<{c}>[TM, 64];
    for k in tiles(K, 64) {{ acc = mma(load A[m, k]{cast}, (load B[n, k]{cast}).T, acc{scales}); }}
    store C[m, n] = acc;
}}
"""


def scales_of(form):
    """What a kernel has besides, by whether its instruction takes scales."""
    dtype, block = SCALES.get(form, (None, 1))
    shape, part = f"K / {block}", f"tiles(K / {block}, {64 // block})[k.number]"
    return {"tensors": f", S: in {dtype}[M, {shape}], U: in {dtype}[N, {shape}]" if dtype else "",
            "scales": f", scale_a = load S[m, {part}], scale_b = (load U[n, {part}]).T" if dtype else ""}


class Tester:
    def __init__(self, options, folder):
        self.options, self.folder, self.n, self.bad = options, folder, 0, []

    def row(self, arch, a, b, form, machine):
        at = lambda name: os.path.join(self.folder, name)  # noqa: E731
        text = KERNEL.format(a="f32" if a == "tf32" else a, b="f32" if b == "tf32" else b, c="i32" if a in BYTES else "f32",
                             cast=" as tf32" if a == "tf32" else "", **scales_of(form))
        with open(at("g.tile"), "w", encoding="utf-8") as file:
            file.write(text)
        rows = 128 if form.startswith("tcgen05") else 64
        call = [self.options.tilec, at("g.tile"), "-arch", arch, f"--plan={PLAN.get(form, 'none')}", "-D", f"TM={rows}", "-o", at("g.ptx")]
        exact = arch if form == WARP else arch + "a"
        self.n += 1
        for command in call, [self.options.ptxas, "-arch", exact, at("g.ptx"), "-o", at("g.cubin")]:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                return self.bad.append(f"{arch} {a} {b}: {done.stderr[:300]}")
        with open(at("g.ptx"), encoding="utf-8") as file:
            ptx = file.read()
        named = {NAMES[low & 0x1ff] for low, _ in counts.text_of(at("g.cubin")) if low & 0x1ff in NAMES}
        if form not in ptx or named != {machine}:
            self.bad.append(f"{arch} {a} {b}: {form} {'is there' if form in ptx else 'is missing'}, and {', '.join(sorted(named)) or 'no product'}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilec", required=True)
    parser.add_argument("--ptxas", required=True)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tester = Tester(options, folder)
        for archs, types, form, machine in ROWS:
            chips = archs.split() if options.all else sorted({archs.split()[0], archs.split()[-1]})
            for k, arch in enumerate(chips):
                for i, a in enumerate(types if options.all else types[k % len(types):][:1]):  # mixes of two by turns
                    b = types[(i + k) % len(types)] if types in (FLOATS8, BYTES) else a
                    tester.row(arch, a, b, form, machine)
    for line in tester.bad:
        print(line)
    print(f"{tester.n} products, {len(tester.bad)} wrong")
    return 1 if tester.bad else 0


if __name__ == "__main__":
    sys.exit(main())
