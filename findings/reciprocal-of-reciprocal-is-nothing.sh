#!/usr/bin/env bash
# ptxas 13.5.37: rcp.approx.ftz.f32 of rcp.approx.ftz.f32.
# Guess: ptxas fuses a product with a sum where it may (-fmad), and else makes of each instruction what it says; the
# result is off by a few bits, and a subnormal x is an infinity and then 0.
# Seen: both are gone, with -fmad=false and at -O1, too: x comes back as it was, subnormal or not. With .f64, without
# .ftz, or with a negation between them, both stay; of ex2.approx and lg2.approx, too.
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


def made(arch, kind, body, *options):
    """The arithmetic of a kernel's machine code."""
    with open(FOLDER + "/k.ptx", "w") as file:
        file.write(f""".version 8.8
.target {arch}
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in) {{
    .reg .b64 %o, %i; .reg .{kind} %x, %z; ld.param.u64 %o, [out]; ld.param.u64 %i, [in];
    ld.global.{kind} %x, [%i]; {body} st.global.{kind} [%o], %z; ret; }}""")
    subprocess.run([TOOLS + "ptxas", "-arch", arch, *options, FOLDER + "/k.ptx", "-o", FOLDER + "/k.cubin"], check=True)
    text = subprocess.run([TOOLS + "nvdisasm", "-c", FOLDER + "/k.cubin"], check=True, capture_output=True, text=True).stdout
    return re.findall(r"/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\w+ )?((?:MUFU|FMUL|FADD|FSEL)[\w.]*)", text)


twice = "rcp.approx.ftz.f32 %z, %x; rcp.approx.ftz.f32 %z, %z;"
good = all(len(made(arch, "f32", twice.replace(".ftz", ""))) > 2 for arch in ("sm_80", "sm_90", "sm_100"))
for kind, body, options, expected in [
        ("f32", twice, (), []), ("f32", twice, ("-fmad=false",), []), ("f32", twice, ("-O1",), []),
        ("f32", "rcp.approx.ftz.f32 %z, %x; neg.f32 %z, %z; rcp.approx.ftz.f32 %z, %z;", (), ["MUFU.RCP"] * 2),
        ("f64", twice.replace("f32", "f64"), (), ["MUFU.RCP64H"] * 2),
        ("f32", "lg2.approx.ftz.f32 %z, %x; ex2.approx.ftz.f32 %z, %z;", (), ["MUFU.LG2", "MUFU.EX2"])]:
    for arch in ("sm_80", "sm_90", "sm_100"):
        seen = made(arch, kind, body, *options)
        print(arch, *options, body, seen)
        good &= seen == expected
sys.exit(not good)
PYTHON
