#!/usr/bin/env bash
# mlx 0.32.4 on the CPU: mx.load of a GGUF file (gguf 0.19.0) with one tensor of MXFP4, or with tensors of BF16.
# Guess: a type that it does not know is an error that names it, as of Q5_0, or that tensor is left out; BF16 is mx.bfloat16, as of
# safetensors.
# Seen: the MXFP4 tensor and all behind it in the file are missing, a plain F32 among them, with no error and no warning; what stands before it is there.
# BF16 becomes float16: 1e5 is infinite and 1e-9 is 0. F32 beside it stays F32.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 gguf==0.19.0 "mlx[cpu]==0.32.4"
"$folder/venv/bin/python" - "$folder/t.gguf" <<'PYTHON'
import sys

import gguf
import mlx.core as mx
import numpy as np
from gguf import GGMLQuantizationType as Type

PATH = sys.argv[1]


def read(*tensors):
    """What mlx finds in a file of these tensors (name, number, type), each of 32 times the number."""
    file = gguf.GGUFWriter(PATH, "llama")
    for name, number, kind in tensors:
        file.add_tensor(name, gguf.quants.quantize(np.full((1, 32), number, np.float32), kind), raw_dtype=kind)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    assert [t.name for t in gguf.GGUFReader(PATH).tensors] == [name for name, _, _ in tensors]
    return {name: (str(x.dtype).split(".")[-1], x[0, 0].item()) for name, x in mx.load(PATH).items()}


cut = read(("first", 1.0, Type.F32), ("second", 1.0, Type.MXFP4), ("third", 1.0, Type.F32))
print("of F32, MXFP4, F32:", cut)
assert cut == {"first": ("float32", 1)}
narrow = read(("large", 1e5, Type.BF16), ("small", 1e-9, Type.BF16), ("plain", 1e5, Type.F32))
print("of BF16, BF16, F32:", narrow)
assert narrow == {"large": ("float16", float("inf")), "small": ("float16", 0), "plain": ("float32", 1e5)}
PYTHON
