#!/usr/bin/env bash
# ml_dtypes 0.5.4: NaN cast to the types that have none, float4_e2m1fn, float6_e2m3fn, float6_e3m2fn.
# Guess: the largest number, as cvt.satfinite of PTX gives (6, 7.5, 28), or an error.
# Seen: zero, of the other sign: NaN becomes -0 and -NaN 0. So a block with a NaN
# looks like one with small values.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q ml_dtypes==0.5.4 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import ml_dtypes
import numpy as np

nans = np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32)
for name in ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"):
    seen = nans.astype(getattr(ml_dtypes, name)).astype(np.float32)
    print(f"{name}: NaN, -NaN become {seen.tolist()}")
    assert (seen == 0).all() and np.signbit(seen).tolist() == [True, False]
PYTHON
