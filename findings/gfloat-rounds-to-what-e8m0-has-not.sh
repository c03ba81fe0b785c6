#!/usr/bin/env bash
# gfloat 0.5.2: round_float and encode_float with OCP's E8M0, the scales of MX formats.
# Guess: round_float gives a number of the format, so that its code means the same number.
# Seen: 2^-128 and 0 come back as they are, though E8M0 begins at 2^-127 and has no zero, and encode_float makes
# 0xff of both, which is NaN: a block whose scale rounds low becomes NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q gfloat==0.5.2 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
from gfloat import decode_float, encode_float, round_float
from gfloat.formats import format_info_ocp_e8m0 as e8m0

for x in (2.0**-126, 2.0**-127, 2.0**-128, 0.0):
    rounded = round_float(e8m0, x)
    code = encode_float(e8m0, rounded)
    back = decode_float(e8m0, code).fval
    print(f"{x}: rounded {rounded}, code {code:#x}, which is {back}")
    assert rounded == x
    assert (back != back and code == 0xFF) if x < 2.0**-127 else back == x
PYTHON
