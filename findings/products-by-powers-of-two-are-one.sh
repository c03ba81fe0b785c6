#!/usr/bin/env bash
# ptxas 13.5.37: x * y * 0.5 of f32.
# Guess: two roundings, each product's to nearest even, with or without .rn: the ISA lets an instruction without it be
# fused with an addition, and says of no other. So where x * y is over the greatest number the result is infinite.
# Seen: a mul.f32 and behind it a product by 2, 4, 8 or one over them are one FMUL.M2 to .M8 or .D2 to .D8: no infinity
# between, and of a small x * y one rounding. A .rn in the second changes nothing, in the first it does, as -fmad=false
# does; by 16 or by -2 it is two.
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


def made(arch, body, *options):
    """The arithmetic of a kernel's machine code."""
    with open(FOLDER + "/k.ptx", "w") as file:
        file.write(f""".version 8.8
.target {arch}
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in) {{
    .reg .b64 %o, %i; .reg .f32 %x, %y, %z; ld.param.u64 %o, [out]; ld.param.u64 %i, [in];
    ld.global.f32 %x, [%i]; ld.global.f32 %y, [%i+8]; {body} st.global.f32 [%o], %z; ret; }}""")
    subprocess.run([TOOLS + "ptxas", "-arch", arch, *options, FOLDER + "/k.ptx", "-o", FOLDER + "/k.cubin"], check=True)
    text = subprocess.run([TOOLS + "nvdisasm", "-c", FOLDER + "/k.cubin"], check=True, capture_output=True, text=True).stdout
    return re.findall(r"/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\w+ )?((?:FMUL|FADD|FSEL)[\w.]*)", text)


good = True
for second, options, expected in [
        ("mul.f32 %z, %z, 0f40000000", (), ["FMUL.M2"]), ("mul.f32 %z, %z, 0f41000000", (), ["FMUL.M8"]),
        ("mul.f32 %z, %z, 0f3F000000", (), ["FMUL.D2"]), ("mul.f32 %z, %z, 0f3E000000", (), ["FMUL.D8"]),
        ("mul.f32 %z, %z, 0f41800000", (), ["FMUL"] * 2), ("mul.f32 %z, %z, 0fC0000000", (), ["FMUL"] * 2),
        ("mul.rn.f32 %z, %z, 0f3F000000", (), ["FMUL.D2"]), ("mul.f32 %z, %z, 0f3F000000", ("-fmad=false",), ["FMUL"] * 2)]:
    for arch in ("sm_80", "sm_90", "sm_100", "sm_120"):
        seen = made(arch, f"mul.f32 %z, %x, %y; {second};", *options)
        print(arch, *options, f"mul.f32 %z, %x, %y; {second}:", *seen)
        good &= seen == expected
    good &= made("sm_90", f"mul.rn.f32 %z, %x, %y; {second};") == ["FMUL"] * 2
sys.exit(not good)
PYTHON
