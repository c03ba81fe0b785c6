#!/usr/bin/env bash
# ex2.approx of f16x2 and bf16x2 saves nothing on sm_90 and sm_100, half on sm_103 (ptxas
# 13.5.37).
# Guess: the packed form does two exponentials for one, as packed additions do, on each chip that
# takes it.
# Seen: two MUFU.EX2 and a PRMT on sm_90, sm_100 and sm_120; one MUFU.EX2 on sm_103 alone.  sm_103
# has no form for two f32.
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


seen = {}
for arch in ["sm_90a", "sm_100a", "sm_103a", "sm_120a"]:
    ops = [count(arch, f"ld.global.b32 %r1, [%i]; ex2.approx.{kind} %r2, %r1; st.global.b32 [%o], %r2;")
           for kind in ["f16x2", "ftz.bf16x2"]]
    seen[arch] = [o["MUFU"] for o in ops]
    print(f"{arch}: MUFU of f16x2, bf16x2: {seen[arch]}")
sys.exit(seen != {"sm_90a": [2, 2], "sm_100a": [2, 2], "sm_103a": [1, 1], "sm_120a": [2, 2]})
PYTHON
