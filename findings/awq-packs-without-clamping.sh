#!/usr/bin/env bash
# autoawq 0.2.9, torch 2.15.0: a weight outside of the range that its scale and zero point have.
# Guess: WQLinear_GEMM.from_linear saturates it, as its quantizer does, or is wrong for that weight.
# Seen: codes are not cut to four bits. One of -2 has ones in all bits above: the other seven columns
# of its word become 15, the greatest weight; one of 17 sets the lowest bit of the next nibble, two
# columns on.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 accelerate==1.15.0 setuptools
"$folder/venv/bin/pip" install -q --no-deps --no-build-isolation autoawq==0.2.9
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.util
import os
import sys
import types

import torch

root = os.path.dirname(importlib.util.find_spec("awq").origin)
for name in "awq", "awq.modules", "awq.modules.linear":  # their __init__ want an older transformers
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [os.path.join(root, *name.split(".")[1:])]
from awq.modules.linear.gemm import WQLinear_GEMM  # noqa: E402
from awq.utils.packing_utils import dequantize_gemm  # noqa: E402


def codes(at, weight):
    """Of eight columns, all weights 0 (code 8) but one of row 0; a step is 0.125."""
    linear = torch.nn.Linear(32, 32, bias=False)
    linear.weight.data.zero_()
    linear.weight.data[at, 0] = weight
    made = WQLinear_GEMM.from_linear(linear, 4, 32, scales=torch.full((1, 32), 0.125), zeros=torch.full((1, 32), 8.0))
    steps = dequantize_gemm(made.qweight, made.qzeros, made.scales, 4, 32)[0, :8] / 0.125
    return [int(x) + 8 for x in steps]


low, least, high = codes(0, -1.25), codes(0, -1.0), codes(0, 1.125)
print("a code of -2:", low)
print("a code of 0:", least)
print("a code of 17:", high)
assert low == [14] + [15] * 7 and least == [0] + [8] * 7 and high == [1, 8, 9] + [8] * 5
PYTHON
