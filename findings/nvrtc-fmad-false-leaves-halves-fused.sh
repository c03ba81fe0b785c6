#!/usr/bin/env bash
# NVRTC 13.5.37 with -fmad=false: x * y + z of __half and __nv_bfloat16 (ptxas 13.5.37).
# Guess: no multiplication is fused with an addition, of these types as of float, and the bits are the same
# on each chip.
# Seen: of float PTX has mul.rn and add.rn, which stay apart. Of __half, and of __nv_bfloat16 from sm_90 on,
# it has mul and add without .rn, which ptxas makes one HFMA2 of, unless it is given -fmad=false itself
# (the driver, which translates NVRTC's PTX, has its own). On sm_80 bfloat16 is two fma.rn, rounded twice: so
# one source and one option give sm_80 and sm_90 other bits. __hmul_rn and __hadd_rn stay apart.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --no-deps --target "$folder/tools" nvidia-cuda-nvrtc==13.5.37 \
    nvidia-cuda-runtime==13.5.37 nvidia-cuda-nvcc==13.5.37 nvidia-cuda-nvdisasm==13.5.37
"$folder/venv/bin/python" - "$folder" <<'PYTHON'
import ctypes
import re
import subprocess
import sys

folder = sys.argv[1]
tools = folder + "/tools/nvidia/cu13"
nvrtc = ctypes.CDLL(tools + "/lib/libnvrtc.so.13")
SOURCE = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void k(const TYPE *x, TYPE *y)
{ y[threadIdx.x] = EXPRESSION; }"""
FREE, APART = "x[0] * x[1] + x[2]", "__hadd_rn(__hmul_rn(x[0], x[1]), x[2])"


def ptx(type_, expression, chip):
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    source = SOURCE.replace("TYPE", type_).replace("EXPRESSION", expression)
    options = [f"-I{tools}/include".encode(), f"--gpu-architecture=compute_{chip}".encode(), b"-fmad=false"]
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"k.cu", 0, None, None) == 0
    assert nvrtc.nvrtcCompileProgram(program, 3, (ctypes.c_char_p * 3)(*options)) == 0
    assert nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size)) == 0
    text = ctypes.create_string_buffer(size.value)
    assert nvrtc.nvrtcGetPTX(program, text) == 0
    return text.value.decode()


def arithmetic(text, chip, *options):
    with open(folder + "/k.ptx", "w") as file:
        file.write(text)
    subprocess.run([tools + "/bin/ptxas", "-arch=sm_" + chip, *options, "-o", folder + "/k.cubin", folder + "/k.ptx"], check=True)
    sass = subprocess.run([tools + "/bin/nvdisasm", "-c", folder + "/k.cubin"], check=True, capture_output=True, text=True).stdout
    # those of registers: an HFMA2 of constants is a move
    lines = re.findall(r"\b((?:HFMA2|HMUL2|HADD2|FMUL|FADD|FFMA)\S*) ([^;]*);", sass)
    return sorted(name.split(".")[0] for name, operands in lines if len(re.findall(r"\bR\d+", operands)) > 1)


seen = {}
for type_ in ("__half", "__nv_bfloat16", "float"):
    for chip in ("80", "90", "100"):
        text = ptx(type_, FREE, chip)
        seen[type_, chip] = made = [arithmetic(text, chip), arithmetic(text, chip, "-fmad=false")]
        print(type_, "sm_" + chip, *sorted(set(re.findall(r"\b(?:mul|add|fma)\.(?:rn\.)?b?f\w+", text))), *made)
apart = [arithmetic(ptx("__half", APART, chip), chip) for chip in ("80", "90", "100")]
print("__hmul_rn and __hadd_rn:", *apart)
two = {"__half": ["HADD2", "HMUL2"], "__nv_bfloat16": ["HADD2", "HMUL2"], "float": ["FADD", "FMUL"]}
for (type_, chip), made in seen.items():
    if (type_, chip) == ("__nv_bfloat16", "80"):
        assert made == [["HFMA2", "HFMA2"]] * 2
    else:
        assert made == [two[type_] if type_ == "float" else ["HFMA2"], two[type_]], (type_, chip)
assert all(made == ["HADD2", "HMUL2"] for made in apart)
PYTHON
