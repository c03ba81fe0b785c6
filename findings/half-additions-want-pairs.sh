#!/usr/bin/env bash
# red.global.add of one f16 or bf16 is a compare-and-swap loop; of two side by side it is one
# instruction (ptxas 13.5.37).
# Guess: the scalar form, in PTX since 6.3 (f16) and 7.8 (bf16), is at least as cheap as the
# packed one.
# Seen: ATOMG.CAS on the 32-bit word around it, in a loop, on sm_90 and sm_100; the packed form is
# one RED.
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
for arch in ["sm_90a", "sm_100a"]:
    for kind in ["f16", "bf16"]:
        one = count(arch, f"ld.global.b16 %h1, [%i]; red.global.add.noftz.{kind} [%o], %h1;")
        two = count(arch, f"ld.global.b32 %r1, [%i]; red.global.add.noftz.{kind}x2 [%o], %r1;")
        print(f"{arch} {kind}: alone {one['ATOMG']} ATOMG, {one['REDG']} REDG; a pair {two['ATOMG']} ATOMG, {two['REDG']} REDG")
        good &= (one["ATOMG"], one["REDG"], two["ATOMG"], two["REDG"]) == (1, 0, 0, 1)
sys.exit(not good)
PYTHON
