#!/usr/bin/env bash
# qonnx 1.0.0: FloatQuant (float_quant) with E5M2 and E4M3 whose attributes say has_inf and has_nan; beside it ml_dtypes 0.5.4.
# Guess: where max_val is not given it follows from the attributes: the codes of infinity and NaN are no numbers, so E5M2 saturates at
# 57344 and E4M3 with a NaN at 448; without saturation what is above is infinite, and infinity stays.
# Seen: the range is that of all codes: 1e9 becomes 114688 in E5M2, whose code is an infinity's, and 480 stays 480 in E4M3. Infinity becomes NaN, with has_inf, too,
# and with saturation, where 1e9 is finite. has_subnormal makes no difference: subnormal numbers are kept without it.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 ml_dtypes==0.5.4 onnx==1.23.2 onnxruntime==1.32.0 toposort==1.10
"$folder/venv/bin/pip" install -q qonnx==1.0.0 "setuptools<81"
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import ml_dtypes
import numpy as np
from qonnx.custom_op.general.floatquant import float_quant

NUMBERS = np.array([1.0625, 440.0, 480.0, 500.0, 60000.0, 1e9, np.inf, np.nan], np.float32)


def quantised(numbers, exponent, mantissa, bias, has_inf, saturation, has_subnormal=True):
    return float_quant(
        np.array(numbers, np.float32), np.float32(1), exponent, mantissa, np.float32(bias), signed=True, has_inf=has_inf, has_nan=True, has_subnormal=has_subnormal, saturation=saturation
    )


seen = {}
for name, kind, *form in (("E5M2", ml_dtypes.float8_e5m2, 5, 2, 15, True), ("E4M3", ml_dtypes.float8_e4m3fn, 4, 3, 7, False)):
    print(NUMBERS.tolist(), name, "ml_dtypes", NUMBERS.astype(kind).astype(np.float32).tolist())
    for saturation in (True, False):
        seen[name, saturation] = quantised(NUMBERS, *form, saturation)
        print(f"   qonnx, saturation {saturation}:", seen[name, saturation].tolist())
nan, inf = np.nan, np.inf
for key, expected in (
    (("E5M2", True), [1, 448, 512, 512, 57344, 114688, nan, nan]),
    (("E5M2", False), [1, 448, 512, 512, 57344, inf, nan, nan]),
    (("E4M3", True), [1, 448, 480, 480, 480, 480, nan, nan]),
    (("E4M3", False), [1, 448, 480, nan, nan, nan, nan, nan]),
):
    assert np.array_equal(seen[key], np.array(expected, np.float32), equal_nan=True), key
small = [2.0**-9, 3 * 2.0**-9, 2.0**-7]
assert all(quantised(small, 4, 3, 7, False, True, subnormal).tolist() == small for subnormal in (True, False))
PYTHON
