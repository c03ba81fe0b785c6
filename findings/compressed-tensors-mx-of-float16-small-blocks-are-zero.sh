#!/usr/bin/env bash
# compressed-tensors 0.20.0, torch 2.15.0: MXFP4, MXFP6 and MXFP8 weights (groups of 32, scales e8m0) of a model in float16.
# Guess: what comes of float16 comes of the same numbers in bfloat16, as the scale is a power of two; a small block keeps its
# numbers, as e8m0 goes down to 2^-127.
# Seen: the scale is made in the weights' type. Of a float16 block whose greatest number rounds below 2^-14 it is 1, so that all of
# it becomes 0; of one from 57344 on (in MXFP6 65504) it is infinite and the block NaN. In bfloat16 both are kept.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 numpy==2.3.5 transformers==5.24.0 compressed-tensors==0.20.0
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import math

import torch
from compressed_tensors.quantization import QuantizationArgs
from compressed_tensors.quantization.lifecycle.forward import fake_quantize
from compressed_tensors.quantization.utils import calculate_qparams


def through(bits, number, kind):
    """The scale of a block of one number, and the number after quantisation."""
    block = torch.full((1, 32), number, dtype=kind)
    args = QuantizationArgs(num_bits=bits, type="float", strategy="group", group_size=32, symmetric=True, scale_dtype=torch.uint8, zp_dtype=torch.uint8)
    scale, zero = calculate_qparams(block.amin(-1, keepdim=True), block.amax(-1, keepdim=True), args)
    return scale.item(), fake_quantize(block, scale, zero, args)[0, 0].item()


for bits in (4, 6, 8):
    for number, narrow in ((2.0**-14, 2.0**-14), (2.0**-15, 0), (2.0**-20, 0), (49152.0, 49152.0), (65504.0, math.nan)):
        half, brain = (through(bits, number, kind) for kind in (torch.float16, torch.bfloat16))
        print(f"MXFP{bits} of {number}: float16 scale {half[0]}, {half[1]}; bfloat16 scale {brain[0]}, {brain[1]}")
        assert half[1] == narrow or math.isnan(half[1]) and math.isnan(narrow)
        assert abs(brain[1] - number) < number / 100
        assert half[0] == (1 if narrow == 0 else math.inf if math.isnan(narrow) else brain[0])
PYTHON
