#!/usr/bin/env bash
# cvt.rna.tf32.f32, the rounding that CUTLASS and PyTorch use, is four instructions; cvt.rn.tf32
# is one (ptxas 13.5.37).
# Guess: the older rounding (since sm_80) is the one that the hardware has; .rn, which came with
# sm_90, is at best as cheap.
# Seen: on sm_80 to sm_120 .rna is a comparison, integer additions and a mask; .rn is one F2FP on
# sm_90 and sm_100.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps --target "$folder/tools" \
    nvidia-cuda-nvcc==13.5.37 nvidia-cuda-nvdisasm==13.5.37
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import collections
import re
import subprocess
import sys

FOLDER = sys.argv[1]
TOOLS = FOLDER + "/tools/nvidia/cu13/bin/"


def count(arch, body):
    """How often each instruction of the machine code stands in a kernel with this body."""
    with open(FOLDER + "/k.ptx", "w") as file:
        file.write(f""".version 8.8
.target {arch}
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in) {{
    .reg .b64 %o, %i, %t; .reg .b32 %r<16>; .reg .f32 %f<16>; .reg .b16 %h<4>;
    ld.param.u64 %o, [out]; ld.param.u64 %i, [in]; mov.u32 %r0, %tid.x;
    mul.wide.u32 %t, %r0, 16; add.u64 %o, %o, %t; add.u64 %i, %i, %t;
    {body}
    ret; }}""")
    subprocess.run([TOOLS + "ptxas", "-arch", arch, FOLDER + "/k.ptx", "-o", FOLDER + "/k.cubin"],
                   check=True)
    text = subprocess.run([TOOLS + "nvdisasm", "-c", FOLDER + "/k.cubin"],
                          check=True, capture_output=True, text=True).stdout
    return collections.Counter(
        re.findall(r"/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\w+ )?([A-Z]\w*)", text))


good = True
for arch in ["sm_80", "sm_90a", "sm_100a", "sm_120a"]:
    ops = count(arch, "ld.global.b32 %r1, [%i]; cvt.rna.tf32.f32 %r2, %r1; st.global.b32 [%o], %r2;")
    print(f"{arch} .rna: {ops['F2FP']} F2FP, {ops['FSETP']} FSETP, {ops['LOP3']} LOP3")
    good &= (ops["F2FP"], ops["FSETP"], ops["LOP3"]) == (0, 1, 1)
for arch in ["sm_90a", "sm_100a"]:
    ops = count(arch, "ld.global.b32 %r1, [%i]; cvt.rn.tf32.f32 %r2, %r1; st.global.b32 [%o], %r2;")
    print(f"{arch} .rn: {ops['F2FP']} F2FP, {ops['FSETP']} FSETP, {ops['LOP3']} LOP3")
    good &= (ops["F2FP"], ops["FSETP"], ops["LOP3"]) == (1, 0, 0)
sys.exit(not good)
PYTHON
