#!/usr/bin/env bash
# cvt.rn.f32 of s8 and s16 is an I2F, of u8, u16, s32 and u32 an I2FP, from sm_89 on (ptxas 13.5.37).
# Guess: a signed byte is converted as an unsigned one is; the sign is one more bit.
# Seen: I2FP, which came with sm_89 beside I2F, knows 32 bits alone. ptxas widens what is unsigned to it, and
# takes I2F.S8 and I2F.S16 for what is signed. Where PTX makes an s32 of the byte first, it is I2FP.
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

folder = sys.argv[1]
tools = folder + "/tools/nvidia/cu13/bin/"
PTX = """.version 8.7
.target sm_CHIP
.address_size 64
.visible .entry k(.param .u64 p) {
    .reg .b64 %p; .reg .b32 %r<4>; .reg .b16 %h; .reg .f32 %f;
    ld.param.u64 %p, [p];
    LINES
    st.global.f32 [%p + 64], %f;
    ret;
}"""
WAYS = {
    "s8": "ld.global.s8 %h, [%p]; cvt.rn.f32.s8 %f, %h;",
    "s16": "ld.global.s16 %h, [%p]; cvt.rn.f32.s16 %f, %h;",
    "s8 by s32": "ld.global.s8 %h, [%p]; cvt.s32.s8 %r1, %h; cvt.rn.f32.s32 %f, %r1;",
    "u8": "ld.global.u8 %h, [%p]; cvt.rn.f32.u8 %f, %h;",
    "u16": "ld.global.u16 %h, [%p]; cvt.rn.f32.u16 %f, %h;",
    "s32": "ld.global.s32 %r1, [%p]; cvt.rn.f32.s32 %f, %r1;",
}


def conversion(lines, chip):
    with open(folder + "/k.ptx", "w") as file:
        file.write(PTX.replace("CHIP", chip).replace("LINES", lines))
    subprocess.run([tools + "ptxas", "-arch=sm_" + chip, "-o", folder + "/k.cubin", folder + "/k.ptx"], check=True)
    sass = subprocess.run([tools + "nvdisasm", "-c", folder + "/k.cubin"], check=True, capture_output=True, text=True).stdout
    return " ".join(re.findall(r"\bI2F\S*", sass))


for name, lines in WAYS.items():
    made = {chip: conversion(lines, chip) for chip in ("80", "89", "90", "100", "120")}
    print(name, made)
    assert made.pop("80").startswith("I2F") and len(set(made.values())) == 1, (name, made)
    assert made["90"].startswith("I2F.S" if name in ("s8", "s16") else "I2FP.F32"), (name, made)
PYTHON
