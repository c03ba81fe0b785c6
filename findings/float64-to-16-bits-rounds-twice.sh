#!/usr/bin/env bash
# float64 to 16 bits: torch 2.15.0, jax 0.10.2 and ml_dtypes 0.5.4 (its bfloat16) round twice, NumPy
# 2.3.5 (its float16) once.
# Guess: a conversion is one rounding to nearest even, so that a result in float64, rounded to 16 bits,
# is what a kernel can be compared with to the bit.
# Seen: all of them but NumPy go by way of float32: 1 + 2^-8 + 2^-40 is 1 in bfloat16 (right: 1 + 2^-7),
# 1 + 2^-11 + 2^-40 is 1 in float16. For float8_e4m3fn torch and ml_dtypes round twice, and jax,
# which takes the latter's types, once. So it is for integers to bfloat16 in torch: 2^24 + 2^16 + 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 ml-dtypes==0.5.4 jax==0.10.2 torch==2.15.0
"$folder/venv/bin/python" - <<'PYTHON'
import jax
import ml_dtypes
import numpy as np
import torch

jax.config.update("jax_enable_x64", True)
TYPES = {"bfloat16": (7, ml_dtypes.bfloat16), "float16": (10, np.float16), "float8_e4m3fn": (3, ml_dtypes.float8_e4m3fn)}
seen = {}
for name, (bits, dtype) in TYPES.items():
    x = np.array([1 + 2.0 ** -(bits + 1) + 2.0**-40])
    seen[name] = {
        "torch": torch.from_numpy(x).to(getattr(torch, name)).double().item(),
        "numpy": float(x.astype(dtype)[0]),
        "jax": float(jax.numpy.asarray(x).astype(getattr(jax.numpy, name))[0]),
    }
    print(name, "right:", 1 + 2.0**-bits, seen[name])
whole = torch.tensor([2**24 + 2**16 + 1]).to(torch.bfloat16).item()
print("2^24 + 2^16 + 1 in torch's bfloat16:", whole, "right:", 2**24 + 2**17)
assert seen["bfloat16"] == {"torch": 1, "numpy": 1, "jax": 1}
assert seen["float16"] == {"torch": 1, "numpy": 1 + 2**-10, "jax": 1}
assert seen["float8_e4m3fn"] == {"torch": 1, "numpy": 1, "jax": 1.125}
assert whole == 2**24
PYTHON
