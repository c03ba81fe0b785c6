#!/usr/bin/env bash
# mlx 0.32.4 on the CPU: what mx.quantize makes of blocks in mode "mxfp4" and "mxfp8".
# Guess: as the MX format's text has it: scales from 2^-127 to 2^127, at whose ends they stay, ties to
# even, and a block with an infinity is NaN or saturates.
# Seen: the exponent of a small block's scale wraps: 1e-40 comes back as 1e37, 1e-38 as infinity, of mxfp8
# 7e-38, too. Ties of E2M1 go towards zero (of 6, 0.75, 1.75, 3.5 come 0.5, 1.5, 3). A block with an
# infinity or a NaN is zeros in mxfp4, and +-896 in mxfp8.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "mlx[cpu]==0.32.4" numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)


def back(mode, *values):
    x = np.zeros((1, 32), np.float32)
    x[0, : len(values)] = values
    given = {"group_size": 32, "bits": 8 if mode == "mxfp8" else 4, "mode": mode}
    made = mx.dequantize(*mx.quantize(mx.array(x), **given), **given)
    return np.array(made.astype(mx.float32))[0, : len(values)].tolist()


small = {mode: [back(mode, x)[0] for x in (1e-40, 1e-38, 7e-38)] for mode in ("mxfp4", "mxfp8")}
ties = back("mxfp4", 6, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5)
broken = {mode: back(mode, float("inf"), 1) + back(mode, float("nan"), 1) for mode in small}
print("blocks of 1e-40, 1e-38, 7e-38:", small)
print("6, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5:", ties)
print("inf, 1 and nan, 1:", broken)
assert small["mxfp4"][0] > 1e36 and small["mxfp4"][1] == np.inf and small["mxfp4"][2] < 1e-37
assert small["mxfp8"][0] > 1e36 and small["mxfp8"][1:] == [np.inf] * 2
assert ties == [6, 0, 0.5, 1, 1.5, 2, 3, 4]
assert broken == {"mxfp4": [0] * 4, "mxfp8": [896] * 4}
PYTHON
