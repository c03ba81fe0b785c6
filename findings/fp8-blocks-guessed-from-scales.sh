#!/usr/bin/env bash
# transformers 5.24.0, torch 2.15.0: FP8 weights with blocks of 128 x 128 whose last block is cut.
# Guess: weight_block_size of the configuration says what a block is, at every size; weights of 576
# rows (as a DeepSeek kv_a_proj) have five scales along them; what dequantises gives one result.
# Seen: Fp8Quantize leaves 576 rows as they are, with no scale and no word. Fp8Dequantize takes the
# rows divided by the number of scales for the block: 576 by 5 is an error, but 192 by 2 are blocks of
# 96, and rows 96 to 127 get the wrong scale. _dequantize_fp8_weight, which backward uses, knows
# blocks of 128, but in bf16 rounds the scale first: a fourth of the weights differ from the other's.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - <<'PYTHON'
from types import SimpleNamespace as Of

import torch
from transformers.integrations.finegrained_fp8 import (Fp8Dequantize, Fp8Quantize,
                                                       _dequantize_fp8_weight)

torch.manual_seed(0)
quantizer = Of(quantization_config=Of(weight_block_size=(128, 128), scale_fmt="float"))
cut = Fp8Quantize(quantizer).convert({"a.weight": torch.randn(576, 256)})
whole = Fp8Quantize(quantizer).convert({"a.weight": torch.randn(256, 256)})
q, scale = whole["a.weight"], whole["a.weight_scale_inv"]
one, other = Fp8Dequantize(quantizer)._dequantize_one, _dequantize_fp8_weight


def differ(rows, dtype):
    """In which rows the two differ, and how many weights."""
    unlike = one(q[:rows], scale, dtype) != other(q[:rows], scale, [128, 128], dtype)
    return torch.where(unlike.any(dim=1))[0].tolist(), unlike.sum().item()


rows, n = differ(192, torch.float32)
share = differ(256, torch.bfloat16)[1] / 65536
try:
    one(torch.zeros(576, 128).to(torch.float8_e4m3fn), torch.ones(5, 1))
    said = ""
except ValueError as error:
    said = str(error)
print("576 rows quantized:", {name: x.dtype for name, x in cut.items()})
print("576 rows with 5 scales:", said)
print(f"192 rows with 2 scales: {n} weights differ, in rows {rows[0]} to {rows[-1]}")
print(f"256 rows, bf16: {share:.3f} of the weights differ")
assert {name: x.dtype for name, x in cut.items()} == {"a.weight": torch.float32}
assert differ(256, torch.float32)[1] == 0 and "not divisible" in said
assert rows == list(range(96, 128)) and 0.2 < share < 0.35
PYTHON
