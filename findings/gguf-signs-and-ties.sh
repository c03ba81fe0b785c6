#!/usr/bin/env bash
# What gguf 0.19.0 makes of a block of weights: Q4_0's scale may be negative, Q8_0's ties go away from zero.
# Guess: a scale is the greatest magnitude over 7 or 8, not negative, so 1 and -1 come back alike,
# and a block of zeros has scale 0; ties of roundings go to even, as in NumPy and torch.
# Seen: Q4_0 divides the value of greatest magnitude, with its sign, by -8: where that is positive the
# scale is negative, 1 comes back and -1 is -0.875, in another block the other way round; the scale
# of a block of zeros is -0, codes are 8. Q8_0 rounds 0.5 to 1 and 2.5 to 3.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 gguf==0.19.0
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.quants import dequantize, quantize


def block(kind, *values):
    """The scale, the bytes of the codes, and what comes back."""
    x = np.zeros((1, 32), np.float32)
    x[0, :len(values)] = values
    q = quantize(x, kind)
    return q[0, :2].view(np.float16)[0], q[0, 2:], dequantize(q, kind)[0, :len(values)]


first, _, positive = block(Type.Q4_0, 1, -1)
second, _, negative = block(Type.Q4_0, -1, 1)
zero, codes, _ = block(Type.Q4_0)
_, ties, _ = block(Type.Q8_0, 127, 0.5, 1.5, 2.5, -0.5, -2.5)
ties = ties.view(np.int8)[:6]
print("Q4_0 of 1, -1:", first, positive)
print("Q4_0 of -1, 1:", second, negative)
print("Q4_0 of zeros:", zero, codes)
print("Q8_0 of 127, 0.5, 1.5, 2.5, -0.5, -2.5:", ties)
assert first == -0.125 and positive.tolist() == [1, -0.875]
assert second == 0.125 and negative.tolist() == [-1, 0.875]
assert zero == 0 and np.signbit(zero) and np.all(codes == 0x88)
assert ties.tolist() == [127, 1, 2, 3, -1, -3]
PYTHON
