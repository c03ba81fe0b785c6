#!/usr/bin/env bash
# mma.sync of e4m3: an instruction of its own on sm_89 and sm_120, none on sm_90, sm_100 and
# sm_103 (ptxas 13.5.37).
# Guess: Hopper and datacentre Blackwell, whose FP8 rate is what they are sold by, have at least
# what an RTX 4090 has.
# Seen: there ptxas unpacks the operands to f16 and makes two HMMA and four FADD of it: no faster
# than f16, and other sums.
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
    mov.f32 %f0, 0f00000000; mov.f32 %f1, %f0; mov.f32 %f2, %f0; mov.f32 %f3, %f0;
    mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%f0, %f1, %f2, %f3},
        {%r1, %r2, %r3, %r4}, {%r1, %r2}, {%f0, %f1, %f2, %f3};
    st.global.v4.f32 [%o], {%f0, %f1, %f2, %f3};"""
seen = {}
for arch in ["sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a"]:
    ops = count(arch, BODY)
    seen[arch] = (ops["QMMA"], ops["HMMA"], ops["FADD"])
    print(f"{arch}: {ops['QMMA']} QMMA, {ops['HMMA']} HMMA, {ops['FADD']} FADD, {ops['F2FP']} F2FP")
sys.exit(seen != {"sm_89": (1, 0, 0), "sm_90a": (0, 2, 4), "sm_100a": (0, 2, 4), "sm_103a": (0, 2, 4), "sm_120a": (1, 0, 0)})
PYTHON
