#!/usr/bin/env bash
# float8_e8m0fnu of ml_dtypes 0.5.4: 0 becomes NaN, and so does what rounds above 2^127.
# Guess: the scale of a block of zeros is the least power of two, 2^-127, and the largest
# saturate, as float4_e2m1fn of the same package does.
# Seen: 0 and 1.6 * 2^127 are NaN (a block of zeros then decodes to NaN), 1e-45 is 2^-127; ties go
# up (3 becomes 4).  float4_e2m1fn saturates, and of NaN it is -0; float8_e4m3fn of 465 is NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 ml-dtypes==0.5.4
"$folder/venv/bin/python" - <<'PYTHON'
import ml_dtypes
import numpy as np


def cast(kind, *values):
    with np.errstate(all="ignore"):
        return [float(x) for x in np.array(values, np.float32).astype(kind)]


nan = np.nan
e8m0 = cast(ml_dtypes.float8_e8m0fnu, 0, 1e-45, 3, 1.4, 2.0**127, 1.6 * 2.0**127, -1)
e2m1 = cast(ml_dtypes.float4_e2m1fn, nan, 100, np.inf)
e4m3 = cast(ml_dtypes.float8_e4m3fn, 448, 464, 465)
print("e8m0 of 0, 1e-45, 3, 1.4, 2^127, 1.6 * 2^127, -1:", e8m0)
print("e2m1 of NaN, 100, inf:", e2m1)
print("e4m3fn of 448, 464, 465:", e4m3)
np.testing.assert_array_equal(e8m0, [nan, 2.0**-127, 4, 1, 2.0**127, nan, nan])
np.testing.assert_array_equal(e2m1, [-0.0, 6, 6])
assert np.signbit(e2m1[0])
np.testing.assert_array_equal(e4m3, [448, 448, nan])
PYTHON
