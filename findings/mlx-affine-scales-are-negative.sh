#!/usr/bin/env bash
# mlx 0.32.4 on the CPU: the scales of mx.quantize in its mode "affine", 4 bits in groups of 32.
# Guess: scale (largest - smallest) / 15 and bias smallest, so that code 0 is the smallest value.
# Seen: where the largest value has the larger magnitude the scale is negative and code 0 is the largest value: of
# 5, 6, 7, 8 scale -0.2, bias 8, codes 15, 10, 5, 0. A group of one value has scale -1e-7, of zeros, too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "mlx[cpu]==0.32.4" numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)
for row, scale, bias in (([5, 6, 7, 8], -0.2, 8), ([-3, -2, -1, 1], 3 / 11, -3), ([1, 1, 1, 1], -1e-7, 1)):
    words, scales, biases = mx.quantize(mx.array([row * 8], mx.float32), group_size=32, bits=4)
    codes = [int(np.array(words)[0, 0]) >> 4 * k & 15 for k in range(4)]
    print(f"{row}: scale {scales.item():.3g}, bias {biases.item()}, codes {codes}")
    assert abs(scales.item() / scale - 1) < 1e-3 and biases.item() == bias
    if row[0] == 5:
        assert codes == [15, 10, 5, 0]
PYTHON
