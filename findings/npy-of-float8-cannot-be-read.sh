#!/usr/bin/env bash
# What NumPy 2.3.5 and safetensors.numpy 0.8.0 write of narrow floats they do not read again.
# Guess: what np.save and safetensors.numpy.save take without an error, the load beside it gives
# back.
# Seen: the header of an .npy of float8_e5m2 says <f1, which np.load refuses; bfloat16 comes back
# as |V2, other types of ml_dtypes as |V1; safetensors.numpy.load has a KeyError for each of them.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 ml-dtypes==0.5.4 safetensors==0.8.0
"$folder/venv/bin/python" - <<'PYTHON'
import io

import ml_dtypes
import numpy as np
import safetensors.numpy

for name, comes_back in [("float8_e5m2", None), ("float8_e4m3fn", "|V1"), ("bfloat16", "|V2"),
                         ("float8_e8m0fnu", "|V1"), ("int4", "|V1")]:
    values, file = np.ones(4, getattr(ml_dtypes, name)), io.BytesIO()
    np.save(file, values)
    file.seek(0)
    try:
        seen = np.load(file).dtype.str
        print(f"np.load of {name}: dtype {seen}")
    except ValueError as error:
        seen = None
        print(f"np.load of {name}: {error}")
    assert seen == comes_back, (name, seen)
for name in ["float8_e5m2", "float8_e4m3fn", "bfloat16"]:
    written = safetensors.numpy.save({"x": np.ones(4, getattr(ml_dtypes, name))})
    try:
        safetensors.numpy.load(written)
    except KeyError as error:
        print(f"safetensors.numpy.load of {name}: KeyError {error}")
    else:
        raise SystemExit(f"{name} can be read now")
PYTHON
