#!/usr/bin/env bash
# bitsandbytes 0.50.2, torch 2.15.0: the 16 values of quant_type="fp4".
# Guess: E2M1 as in MXFP4 and NVFP4, 0, 0.5, 1, 1.5, 2, 3, 4, 6 over 6 in the order of their codes, so that
# the codes can go to hardware that multiplies e2m1, with the scale over 6.
# Seen: codes 0 to 7 are 0, 1/192, 8/12, 1, 4/12, 6/12, 2/12, 3/12: not in order, and where E2M1 has 1/12
# there is 1/192. So no scale makes it E2M1, and 0.08 of the greatest becomes 0.005 of it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0
"$folder/venv/bin/pip" install -q bitsandbytes==0.50.2
"$folder/venv/bin/python" - <<'PYTHON' 2>/dev/null
import torch
from bitsandbytes.functional import dequantize_4bit, quantize_4bit

codes, state = quantize_4bit(torch.ones(1, 64), blocksize=64, quant_type="fp4")
bytes_ = torch.arange(32, dtype=torch.uint8).reshape(codes.shape)  # the second of each two: codes 0 to 15
values = dequantize_4bit(bytes_, state).flatten()[1:32:2]
print("of the greatest, times 12:", [round(12 * v, 4) for v in values.tolist()])
block = torch.ones(1, 64)
block[0, 0] = 0.08
back = dequantize_4bit(*quantize_4bit(block, blocksize=64, quant_type="fp4"))[0, 0].item()
print("0.08 beside 1 comes back as", back)
want = torch.tensor([0, 1 / 16, 8, 12, 4, 6, 2, 3])
assert torch.allclose(12 * values, torch.cat([want, -want]), atol=1e-3)
assert abs(back - 1 / 192) < 1e-4
PYTHON
