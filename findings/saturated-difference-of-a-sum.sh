#!/usr/bin/env bash
# sub.sat.s32 of a sum and one of its terms is folded by ptxas 13.0.88, not by 13.5.37.
# Guess: add.s32 wraps, so sub.sat.s32 (x + k) - k saturates where x + k has wrapped: 1 + 2147483647 is
# -2147483648, and 2147483647 less than that is clamped to -2147483648.
# Seen: 13.0 makes x of it, with no saturation left, as if the addition could not wrap: results of sums that
# wrap differ by the assembler's version.  A difference alone saturates.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps --target "$folder/tools" nvidia-cuda-nvdisasm==13.5.37
for version in 13.0.88 13.5.37; do
    "$folder/venv/bin/pip" install -q --no-deps --target "$folder/$version" \
        "nvidia-cuda-nvcc==$version"
done
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import re
import subprocess
import sys

FOLDER = sys.argv[1]
BIN = "/nvidia/cu13/bin/"


def instructions(version, body):
    with open(FOLDER + "/k.ptx", "w") as file:
        file.write(f""".version 8.1
.target sm_90
.address_size 64
.visible .entry f(.param .u64 out, .param .u32 pk) {{
    .reg .b64 %o, %t; .reg .b32 %x, %k, %c, %e, %r;
    ld.param.u64 %o, [out]; ld.param.u32 %k, [pk]; mov.u32 %r, %tid.x;
    mul.wide.u32 %t, %r, 4; add.u64 %o, %o, %t;
    ld.global.u32 %x, [%o];
    {body}
    st.global.u32 [%o], %e;
    ret; }}""")
    subprocess.run([f"{FOLDER}/{version}{BIN}ptxas", "-arch", "sm_90", FOLDER + "/k.ptx", "-o", FOLDER + "/k.cubin"], check=True)
    text = subprocess.run([f"{FOLDER}/tools{BIN}nvdisasm", "-c", FOLDER + "/k.cubin"], check=True, capture_output=True, text=True).stdout
    return re.findall(r"^\s+/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\d )?([A-Z0-9]+)", text, re.M)


for version in ("13.0.88", "13.5.37"):
    plain = instructions(version, "mov.u32 %e, %x;")
    sum_first = instructions(version, "add.s32 %c, %x, %k; sub.sat.s32 %e, %c, %k;")
    alone = instructions(version, "sub.sat.s32 %e, %x, %k;")
    count = {name: sum(op in ("SEL", "PLOP3", "ISETP", "IADD3", "VIADD", "FSEL") for op in code)
             for name, code in (("x", plain), ("(x + k) - k", sum_first), ("x - k", alone))}
    print("ptxas", version, "instructions of arithmetic and choice:", count)
    assert count["x"] == 0 and count["x - k"] >= 3, count
    assert (count["(x + k) - k"] == 0) == (version == "13.0.88"), count
PYTHON
