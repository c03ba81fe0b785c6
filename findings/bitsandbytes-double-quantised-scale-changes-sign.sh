#!/usr/bin/env bash
# bitsandbytes 0.50.2, torch 2.15.0: NF4 with compress_statistics=True (double quantisation) where blocks
# differ in size.
# Guess: a block's scale, kept in 8 bits, is a few percent off, as a weight is; its sign is what it was.
# Seen: scales are stored less their mean, in parts of the greatest of 256 of them. Beside one outlier of 50
# those of small blocks come back twice as large, and some below zero: each weight of the block has
# the other sign. Nothing is said of it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0
"$folder/venv/bin/pip" install -q bitsandbytes==0.50.2
"$folder/venv/bin/python" - <<'PYTHON' 2>/dev/null
import torch
from bitsandbytes.functional import dequantize_4bit, quantize_4bit

torch.manual_seed(0)
size = torch.logspace(-3, -0.5, 256)[:, None]  # of the blocks' weights: 0.001 to 0.3
weight = size * torch.randn(256, 64)
weight[17, 5] = 50  # an outlier


def back(**more):
    return dequantize_4bit(*quantize_4bit(weight, blocksize=64, quant_type="nf4", **more))


plain, double = back(), back(compress_statistics=True)
ratios = ((double * plain).sum(1) / (plain * plain).sum(1))
ratios[17] = 1
print("scales over what they were: least", ratios.min().item(), "greatest", ratios.max().item())
print("blocks with the other sign:", int((ratios < 0).sum()))
assert (ratios < 0).sum() > 5 and ratios.max() > 2
PYTHON
