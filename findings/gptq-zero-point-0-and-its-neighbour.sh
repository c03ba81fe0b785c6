#!/usr/bin/env bash
# gptqmodel 7.7.0, torch 2.15.0: a zero point of 0 in the format `gptq`, which stores one less.
# Guess: it is stored as 15, and read as (15 + 1) & 15 by all; or it can not be stored, which is said.
# Seen: the conversion takes 0x11111111 from whole words: 0 becomes 15 and borrows, so that the next
# column's zero point is one less for a reader that goes by nibbles (+ 1, & 15), and 0 reads as 16 for
# one that does not cut. Converted back by words it is right. A file with 15 written by nibbles comes
# out of the package's conversion with the neighbour's zero point one more. Nothing is said of it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 setuptools
"$folder/venv/bin/pip" install -q gptqmodel==7.7.0
"$folder/venv/bin/python" - <<'PYTHON' 2>&1 | tail -5
import types

import torch
from gptqmodel.nn_modules.qlinear.torch import TorchLinear
from gptqmodel.utils import model as conversions


def nibbles(words):
    return [int(words[0, 0]) >> 4 * i & 15 for i in range(8)]


def layer(zeros):
    linear = torch.nn.Linear(32, 32, bias=False)
    made = TorchLinear(bits=4, group_size=32, sym=False, desc_act=False, in_features=32, out_features=32,
                       bias=False, register_buffers=True)
    made.pack_original(linear, torch.full((32, 1), 0.05), zeros.reshape(32, 1), torch.zeros(32, dtype=torch.int32))
    made.post_init()
    return made


zeros = torch.full((32,), 8.0)
zeros[2] = 0
made = layer(zeros)
as_they_are = nibbles(made.qzeros)
conversions.convert_gptq_v2_to_v1_format_module(made, quantize_config=types.SimpleNamespace(bits=4, pack_dtype=torch.int32))
stored = nibbles(made.qzeros)
conversions.convert_gptq_v1_to_v2_format_module(made, bits=4, pack_dtype=torch.int32)
back = nibbles(made.qzeros)
made.qzeros.fill_(0x77777F77)
conversions.convert_gptq_v1_to_v2_format_module(made, bits=4, pack_dtype=torch.int32)
other = nibbles(made.qzeros)
print("gptq_v2:", as_they_are)
print("gptq:", stored)
print("back:", back)
print("7 7 15 7 7 7 7 7 by nibbles:", other)
assert as_they_are == [8, 8, 0, 8, 8, 8, 8, 8] == back
assert stored == [7, 7, 15, 6, 7, 7, 7, 7] and other == [8, 8, 0, 9, 8, 8, 8, 8]
PYTHON
