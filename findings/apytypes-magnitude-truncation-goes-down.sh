#!/usr/bin/env bash
# apytypes 0.5.1: QuantizationMode.TRN_MAG, which its reference calls "magnitude truncation (round towards zero)", of floating point.
# Guess: the same numbers as TO_ZERO, of APyFloat as of APyFixed; what is above the largest number stays at it.
# Seen: of APyFixed so it is. Of APyFloat it rounds down: -1.0625 becomes -1.125 with three bits of fraction, -2^-10 the smallest
# subnormal number, -2^-9, and 300, above e4m3's largest here, 240, infinity, where TO_ZERO gives 240. 1.0625 becomes 1 in both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q apytypes==0.5.1
"$folder/venv/bin/python" - <<'PYTHON'
from apytypes import APyFixed, APyFloat, APyFloatQuantizationContext, QuantizationMode

numbers = [1.0625, -1.0625, 2.0**-10, -(2.0**-10), 300.0, -300.0]
seen = {}
for mode in (QuantizationMode.TO_ZERO, QuantizationMode.TRN_MAG):
    with APyFloatQuantizationContext(mode):
        of_float = [float(APyFloat.from_float(x, exp_bits=5, man_bits=10).cast(exp_bits=4, man_bits=3)) for x in numbers]
    of_fixed = [
        float(APyFixed.from_float(x, int_bits=8, frac_bits=8).cast(int_bits=8, frac_bits=1, quantization=mode))
        for x in (0.75, -0.75)
    ]
    seen[mode] = of_float, of_fixed
    print(f"{mode.name}: APyFloat {numbers} -> {of_float}; APyFixed [0.75, -0.75] -> {of_fixed}")
least, infinity = 2.0**-9, float("inf")
assert seen[QuantizationMode.TO_ZERO] == ([1, -1, 0, 0, 240, -240], [0.5, -0.5])
assert seen[QuantizationMode.TRN_MAG] == ([1, -1.125, 0, -least, infinity, -infinity], [0.5, -0.5])
PYTHON
