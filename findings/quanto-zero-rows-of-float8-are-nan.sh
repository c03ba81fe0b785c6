#!/usr/bin/env bash
# optimum-quanto 0.2.7, torch 2.15.0: weights with a row of zeros (a pruned channel) quantised with a scale a row.
# Guess: zeros come back as zeros, in all of its types.
# Seen: in qint8, qint4 and qint2 they do. In qfloat8_e4m3fn, qfloat8_e5m2 and qfloat8_e4m3fnuz the row is NaN: its scale is 0, and
# 0 / 0 is a NaN, which an integer code loses and a float8 keeps. Nothing is said of it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q torch==2.15.0 numpy==2.3.5 setuptools
"$folder/venv/bin/pip" install -q optimum-quanto==0.2.7
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import torch
from optimum.quanto import AbsmaxOptimizer, MaxOptimizer, qfloat8_e4m3fn, qfloat8_e4m3fnuz, qfloat8_e5m2, qint2, qint4, qint8, quantize_weight

weights = torch.tensor([[1.0, -1.0, 0.5, 0.25], [0.0, 0.0, 0.0, 0.0]])
for kind in (qint2, qint4, qint8, qfloat8_e4m3fn, qfloat8_e5m2, qfloat8_e4m3fnuz):
    made = (MaxOptimizer if kind in (qint2, qint4) else AbsmaxOptimizer)()(weights, kind, 0)
    scale, shift = made if isinstance(made, tuple) else (made, None)
    back = quantize_weight(weights, kind, 0, scale, shift) if shift is not None else quantize_weight(weights, kind, 0, scale)
    first, zeros = back.dequantize().tolist()
    print(f"{kind.name}: {first} and {zeros}")
    assert first[:2] == [1, -1]
    assert torch.tensor(zeros).isnan().all() if "float8" in kind.name else zeros == [0] * 4
PYTHON
