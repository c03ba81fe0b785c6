#!/usr/bin/env bash
# ptxas 13.5.37: divisions by a constant, x / 8 and x % 8 of integers, x / 2 of f32 with .rn.
# Guess: a shift, a mask and a multiplication by 0.5, which is exact, as any assembler that makes a shift of a
# multiplication by 8 and an LEA of one by 5 would do; by 3 a multiplication that keeps the upper half.
# Seen: it leaves divisions to the compiler before it. Each integer one is a conversion, a reciprocal (MUFU.RCP) and
# its corrections, of 64 bits a call; div.rn.f32 by 2, and by 1, has the slow path and its call, too. div.full and
# div.approx by a constant, also by 3, are one multiplication.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps --target "$folder/tools" \
    nvidia-cuda-nvcc==13.5.37 nvidia-cuda-nvdisasm==13.5.37
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import re
import subprocess
import sys

FOLDER = sys.argv[1]
TOOLS = FOLDER + "/tools/nvidia/cu13/bin/"


def count(arch, kind, instruction):
    """Instructions of a kernel that stores instruction of one value; reciprocals; calls."""
    bits = int(kind[1:])
    with open(FOLDER + "/k.ptx", "w") as file:
        file.write(f""".version 8.8
.target {arch}
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in) {{
    .reg .b64 %o, %i; .reg .{kind} %x, %y; ld.param.u64 %o, [out]; ld.param.u64 %i, [in];
    ld.global.{kind} %x, [%i]; {instruction}; st.global.b{bits} [%o], %y; ret; }}""")
    subprocess.run([TOOLS + "ptxas", "-arch", arch, FOLDER + "/k.ptx", "-o", FOLDER + "/k.cubin"], check=True)
    text = subprocess.run([TOOLS + "nvdisasm", "-c", FOLDER + "/k.cubin"], check=True, capture_output=True, text=True).stdout
    made = re.findall(r"/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]*)", text)
    made = [name for name in made if name != "NOP"]
    return len(made), sum(name.startswith("MUFU.RCP") for name in made), sum(name.startswith("CALL") for name in made)


good = True
for arch in ("sm_80", "sm_90", "sm_100"):
    move = count(arch, "u32", "mov.b32 %y, %x")[0]
    for kind, instruction, divides in [
            ("u32", "mul.lo.u32 %y, %x, 8", False), ("u32", "mul.lo.u32 %y, %x, 5", False),
            ("u32", "div.u32 %y, %x, 8", True), ("u32", "rem.u32 %y, %x, 8", True), ("s32", "rem.s32 %y, %x, 8", True),
            ("u32", "div.u32 %y, %x, 3", True), ("u64", "div.u64 %y, %x, 8", True),
            ("f32", "div.rn.f32 %y, %x, 0f40000000", True), ("f32", "div.rn.f32 %y, %x, 0f3F800000", True),
            ("f32", "div.full.f32 %y, %x, 0f40000000", False), ("f32", "div.full.f32 %y, %x, 0f40400000", False),
            ("f32", "div.approx.f32 %y, %x, 0f40400000", False)]:
        n, reciprocals, calls = count(arch, kind, instruction)
        print(f"{arch} {instruction}: {n - move} instructions more than a copy, {reciprocals} MUFU.RCP, {calls} CALL")
        if divides:
            good &= n - move >= 10 and (reciprocals or calls) > 0
            good &= (calls > 0) == (kind in ("u64", "f32"))
        else:
            good &= n - move == 1 and not reciprocals and not calls
sys.exit(not good)
PYTHON
