#!/usr/bin/env bash
# brevitas 0.13.4, torch 2.15.0: MXInt8Weight (MXINT8: blocks of 32, a power of two as scale).
# Guess: as the MX format's text has it the scale's exponent is the one of the greatest magnitude, and codes go up to almost
# two scales (127/64): the greatest weight of a block is off by at most 1/64 of the scale.
# Seen: codes go up to almost one scale: the greatest weight of every block is cut, 8 to 7.9375 and 15.5 to 7.9375, too, as is 12
# beside it. MXFloat8e4m3Weight of the same package gives 8 and 12, and of 15.5 the 14 that the MX format's text has.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 numpy==2.3.5 "setuptools<81"
"$folder/venv/bin/pip" install -q brevitas==0.13.4
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import torch
from brevitas.nn import QuantLinear
from brevitas.quant.mx_quant_ocp import MXFloat8e4m3Weight, MXInt8Weight


def through(quantiser, numbers):
    layer = QuantLinear(32, 1, bias=False, weight_quant=quantiser)
    layer.weight.data = torch.nn.functional.pad(torch.tensor([numbers]), (0, 32 - len(numbers)))
    layer.eval()
    made = layer.quant_weight()
    return getattr(made, "value", made).detach()[0, : len(numbers)].tolist()


for numbers, cut in (([8.0, 7.5, 4.0], [7.9375, 7.5, 4]), ([15.5, 12.0, 9.0, 7.5], [7.9375, 7.9375, 7.9375, 7.5]), ([1.5, -1.0, 0.5], [127 / 128, -1, 0.5])):
    whole, floating = through(MXInt8Weight, numbers), through(MXFloat8e4m3Weight, numbers)
    print(f"{numbers}: MXInt8Weight {whole}, MXFloat8e4m3Weight {floating}")
    assert whole == cut
    assert all(abs(a - b) <= abs(a) / 8 for a, b in zip(numbers, floating))
PYTHON
