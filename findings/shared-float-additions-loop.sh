#!/usr/bin/env bash
# red.shared.add of f32 and f16x2 is a compare-and-swap loop on every chip from sm_80 to sm_120
# (ptxas 13.5.37).
# Guess: shared memory adds floats as global memory has since Kepler, so that a tile of partial
# sums in shared memory is cheap.
# Seen: ATOMS.CAST.SPIN in a loop with FADD; only integers have ATOMS.ADD (and ptxas first adds up
# the warp by REDUX there).
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


HEAD = ".shared .align 16 .b8 s[1024]; mov.u32 %r1, s; ld.global.b32 %r2, [%i]; mov.b32 %f1, %r2; st.shared.b32 [%r1], %r2; bar.sync 0;"
TAIL = "bar.sync 0; ld.shared.b32 %r3, [%r1]; st.global.b32 [%o], %r3;"
good = True
for arch in ["sm_80", "sm_90a", "sm_100a", "sm_120a"]:
    for what, add, loops in [("f32", "red.shared.add.f32 [%r1], %f1;", True), ("f16x2", "red.shared.add.noftz.f16x2 [%r1], %r2;", True),
                             ("u32", "red.shared.add.u32 [%r1], %r2;", False)]:
        ops = count(arch, HEAD + add + TAIL)
        print(f"{arch} {what}: {ops['ATOMS']} ATOMS, {ops['BSSY']} BSSY (a loop that parts the warp)")
        good &= ops["ATOMS"] == 1 and (ops["BSSY"] > 0) == loops
sys.exit(not good)
PYTHON
