#!/usr/bin/env bash
# llvmlite 0.50.0 (LLVM 22.1) for NVPTX: i32 and double to bfloat, on sm_80 and sm_90.
# Guess: both are rounded once on both chips, since LLVM says so of sitofp and fptrunc; or both go by way of float where the chip has
# no conversion, and are rounded twice.
# Seen: of double it takes care: on sm_80 it rounds to float, makes the last bit odd where that was not exact, and then to bfloat. Of i32 it does not: cvt.rn.f32.s32 and
# cvt.rn.bf16.f32. 2^24 + 2^16 + 1 is 16777216 on sm_80 by those two, and 16908288 on sm_90, by cvt.rn.bf16.s32.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q llvmlite==0.50.0 numpy==2.3.5 ml_dtypes==0.5.4
"$folder/venv/bin/python" - <<'PYTHON'
import re

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()


def instructions(cpu, features, kind, operation):
    source = f'target triple = "nvptx64-nvidia-cuda"\ndefine bfloat @f({kind} %a) {{\n%r = {operation} {kind} %a to bfloat\nret bfloat %r\n}}'
    machine = llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=cpu, features=features, opt=3)
    text = machine.emit_assembly(llvm.parse_assembly(source))
    return [name for name in re.findall(r"^\s+([a-z][\w.]+)\s", text, re.M) if not name.startswith(("ld.", "st.", "ret"))]


seen = {(chip, kind): instructions(chip, features, kind, operation)
        for chip, features in (("sm_80", "+ptx78"), ("sm_90", "+ptx84"))
        for kind, operation in (("i32", "sitofp"), ("double", "fptrunc"))}
for (chip, kind), names in seen.items():
    print(chip, kind, " ".join(names))
number = 2**24 + 2**16 + 1
twice = float(np.float32(np.int32(number)).astype(ml_dtypes.bfloat16))
once = float(min((2**24, 2**24 + 2**17), key=lambda x: abs(x - number)))
print(f"{number}: rounded to float and then to bfloat {twice}, rounded once {once}")
assert seen["sm_80", "i32"] == ["cvt.rn.f32.s32", "cvt.rn.bf16.f32"] and seen["sm_90", "i32"] == ["cvt.rn.bf16.s32"]
assert len(seen["sm_80", "double"]) > 5 and seen["sm_80", "double"][-1] == "cvt.rn.bf16.f32"
assert "and.b32" in seen["sm_80", "double"] and seen["sm_90", "double"] == ["cvt.rn.bf16.f64"]
assert (twice, once) == (16777216, 16908288)
PYTHON
