#!/usr/bin/env bash
# gguf 0.19.0: what quantize makes of blocks of MXFP4, and what another reader of the format (ml_dtypes 0.5.4) makes of those.
# Guess: as the MX format's text has it: scales from 2^-127 on, where small blocks stay, codes to nearest even; a block with
# an infinity or a NaN is NaN, or saturates.
# Seen: the exponent is cut to 8 bits: a block whose greatest is 2^-126 gets the scale 255, which is a NaN elsewhere, and one of
# 1e-40 gets 248, 2^121; its codes are 0, so gguf itself reads zeros, and e8m0 NaNs. Ties go towards zero (of 5, 3.5,
# 2.5, 1.75, 0.75, 0.25 come 4, 3, 2, 1.5, 0.5, 0), and a block with an infinity or a NaN in it is all zeros.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 gguf==0.19.0 ml-dtypes==0.5.4
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import ml_dtypes
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize


def block(*values):
    """The scale's byte, what gguf reads and what e8m0 times e2m1 is."""
    x = np.zeros((1, 32), np.float32)
    x[0, :len(values)] = values
    q = quantize(x, Type.MXFP4)
    codes = np.concatenate([q[0, 1:] & 15, q[0, 1:] >> 4]).astype(np.uint8)
    other = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float32) * q[0, :1].view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    return int(q[0, 0]), dequantize(q, Type.MXFP4)[0, :len(values)].tolist(), other[:len(values)].tolist()


for values, scale, expected, other in [
        ((6, 5, 3.5, 2.5, 1.75, 1.25, 0.75, 0.25), 127, [6, 4, 3, 2, 1.5, 1, 0.5, 0], None),
        ((6, -5, -0.75, -0.25), 127, [6, -4, -0.5, 0], None),
        ((2.0 ** -125,), 0, [2.0 ** -125], None), ((2.0 ** -126,), 255, [0], [np.nan]), ((1e-40,), 248, [0], None),
        ((np.inf, 1), 0, [0, 0], None), ((np.nan, 1), 0, [0, 0], None)]:
    seen = block(*values)
    print(values, "scale", seen[0], "gguf", seen[1], "e8m0 and e2m1", seen[2])
    assert seen[:2] == (scale, expected)
    assert np.array_equal(seen[2], expected if other is None else other, equal_nan=True)
PYTHON
