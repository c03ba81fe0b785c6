#!/usr/bin/env bash
# transformers 5.24.0, torch 2.15.0: what gpt-oss's MXFP4 becomes where a scale is 255.
# Guess: scales are e8m0, whose code 255 is a NaN (OCP MX 1.0), so the block is NaN.
# Seen: convert_moe_packed_tensors takes them for exponents less 127: 255 is 2^128, and of the weights
# 0.5 is 2^127, 0 is 0 and all else infinite. Codes 0 to 254 are exact, subnormal results kept.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 transformers==5.24.0
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" - <<'PYTHON'
import torch
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

codes = torch.tensor([2 * i | (2 * i + 1) << 4 for i in range(8)] * 2, dtype=torch.uint8)
sizes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)
numbers = torch.cat([sizes, -sizes] * 2)
scales = torch.arange(256, dtype=torch.uint8).reshape(1, 256, 1)
got = convert_moe_packed_tensors(codes.expand(1, 256, 1, 16).contiguous(), scales)[0].T
exact = (numbers * torch.exp2(torch.arange(256, dtype=torch.float64) - 127)[:, None]).to(torch.bfloat16)
print("scale 255:", got[255, :8].tolist())
print("scale 0:", got[0, :8].tolist())
assert torch.equal(got[:255], exact[:255])
assert got[255, :3].tolist() == [0, 2.0**127, float("inf")] and not got.isnan().any()
assert got[0, 1].item() == 2.0**-128
PYTHON
