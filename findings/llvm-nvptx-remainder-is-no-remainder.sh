#!/usr/bin/env bash
# llvmlite 0.50.0 (LLVM 22.1): frem of float for NVPTX, without fast-math flags, at each level of optimisation.
# Guess: it is fmod, as LLVM's reference has it, whose result is exact and smaller than the divisor: a loop, as CUDA's fmodf, or an error
# for want of a library.
# Seen: div.rn, cut to an integer, and one fma.rn, on sm_80, sm_90 and sm_100. Done by these steps in float32 1 % 0.1f is -1.5e-8 and not
# 0.09999999, as the quotient is rounded up to 10, and 1e10 % 3 is 256 and not 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q llvmlite==0.50.0
"$folder/venv/bin/python" - <<'PYTHON'
import math
import re
import struct
from fractions import Fraction

import llvmlite.binding as llvm

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()


def instructions(cpu, features, level):
    source = 'target triple = "nvptx64-nvidia-cuda"\ndefine float @f(float %a, float %b) {\n%r = frem float %a, %b\nret float %r\n}'
    module = llvm.parse_assembly(source)
    machine = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=cpu, features=features, opt=level)
    text = machine.emit_assembly(module)
    return [name for name in re.findall(r"^\s+([a-z][\w.]+)\s", text, re.M) if not name.startswith(("ld.", "st.", "ret"))]


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


def stepwise(a, b):
    """What those instructions give; the one rounding of fma is made of an exact fraction."""
    quotient = Fraction(math.trunc(f32(a / b)))
    return f32(float(Fraction(a) - quotient * Fraction(b)))


for cpu, features in (("sm_80", "+ptx78"), ("sm_90", "+ptx84"), ("sm_100", "+ptx88")):
    for level in (0, 3):
        seen = instructions(cpu, features, level)
        print(cpu, f"-O{level}", " ".join(seen))
        assert [x for x in seen if x.startswith(("div", "cvt", "fma"))] == ["div.rn.f32", "cvt.rzi.f32.f32", "fma.rn.f32"]
        assert not any(x.startswith(("call", "bra")) for x in seen)
tenth = f32(0.1)
for a, b in ((7.0, 2.0), (1.0, tenth), (1e10, 3.0)):
    print(f"{a} % {b}: fmod {math.fmod(a, b)}, by these instructions {stepwise(a, b)}")
assert stepwise(7.0, 2.0) == 1
assert math.fmod(1.0, tenth) > 0.0999 and -2e-8 < stepwise(1.0, tenth) < 0
assert math.fmod(1e10, 3.0) == 1 and stepwise(1e10, 3.0) == 256
PYTHON
