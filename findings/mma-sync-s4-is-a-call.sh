#!/usr/bin/env bash
# mma.sync of s4 (m16n8k64): one IMMA up to sm_89, a call of over a hundred instructions from
# sm_90 on (ptxas 13.5.37).
# Guess: 4-bit integer products, native from sm_75 to sm_89, are native on newer chips, or ptxas
# refuses them there.
# Seen: no error and no warning on sm_90, sm_100 and sm_120: operands are unpacked to s8 by some
# 90 LOP3 and shifts for two IMMA.
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


BODY = """ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%i];
    mov.b32 %r5, 0; mov.b32 %r6, 0; mov.b32 %r7, 0; mov.b32 %r8, 0;
    mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%r5, %r6, %r7, %r8},
        {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%r5, %r6, %r7, %r8};
    st.global.v4.b32 [%o], {%r5, %r6, %r7, %r8};"""
good = True
for arch, native in [("sm_80", True), ("sm_89", True), ("sm_90a", False), ("sm_100a", False), ("sm_120a", False)]:
    ops = count(arch, BODY)
    logic = ops["LOP3"] + ops["SHF"]
    print(f"{arch}: {ops['IMMA']} IMMA, {ops['CALL']} CALL, {logic} LOP3 and SHF")
    good &= (ops["IMMA"], ops["CALL"], logic > 80) == ((1, 0, False) if native else (2, 1, True))
sys.exit(not good)
PYTHON
