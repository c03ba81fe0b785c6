#!/usr/bin/env bash
# safetensors 0.8.0 with NumPy: save and load of ml_dtypes' bfloat16, float8_e4m3fn, float8_e5m2, float8_e8m0fnu.
# Guess: what safetensors.numpy writes, safetensors.numpy reads.
# Seen: all four are written, with types BF16, F8_E4M3, F8_E5M2, F8_E8M0 in the header; load raises KeyError of that
# name. float4_e2m1fn and int4 are refused by save.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q safetensors==0.8.0 ml_dtypes==0.5.4 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import json

import ml_dtypes
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn", "int4"):
    tensor = np.ones((2, 4)).astype(getattr(ml_dtypes, name))
    try:
        data = save({"x": tensor})
    except SafetensorError:
        print(f"{name}: save refuses it")
        assert name in ("float4_e2m1fn", "int4")
        continue
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["x"]
    try:
        load(data)
        raise SystemExit(f"{name} is read now")
    except KeyError as error:
        print(f"{name}: written as {header['dtype']}, load raises KeyError {error}")
        assert error.args == (header["dtype"],)
PYTHON
