#!/usr/bin/env bash
# sm_120 lacks arithmetic of sm_100 that is no matter of its tensor cores (ptxas 13.5.37).
# Guess: both are Blackwell; without tcgen05 an RTX 5090's arithmetic is a B200's.
# Seen: of two f32 additions packed (add.rn.f32x2) sm_120 makes two FADD, of max(max(a, b), c) two
# FMNMX where sm_100 has one FMNMX3, and it refuses redux.sync of f32.
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


PAIRS = ".reg .b64 %q<4>; ld.global.v2.b64 {%q0, %q1}, [%i]; add.rn.f32x2 %q2, %q0, %q1; st.global.b64 [%o], %q2;"
MAX3 = "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%i]; max.f32 %f5, %f1, %f2; max.f32 %f5, %f5, %f3; st.global.f32 [%o], %f5;"
REDUX = "ld.global.f32 %f1, [%i]; redux.sync.max.f32 %f2, %f1, 0xffffffff; st.global.f32 [%o], %f2;"
seen = {}
for arch in ["sm_100a", "sm_103a", "sm_120a"]:
    pairs, most = count(arch, PAIRS), count(arch, MAX3)
    try:
        redux = count(arch, REDUX)["CREDUX"]
    except subprocess.CalledProcessError:
        redux = None
    seen[arch] = (pairs["FADD2"], pairs["FADD"], most["FMNMX3"], most["FMNMX"], redux)
    print(f"{arch}: FADD2, FADD, FMNMX3, FMNMX, CREDUX: {seen[arch]}")
sys.exit(seen != {"sm_100a": (1, 0, 1, 0, 1), "sm_103a": (1, 0, 1, 0, 1), "sm_120a": (0, 2, 0, 2, None)})
PYTHON
