#!/usr/bin/env bash
# pychop 0.6.2 with NumPy: Chop(exp_bits, sig_bits), which simulates narrow floating-point types.
# Guess: above the largest number it gives infinity or stays at the largest.
# Seen: the binade above the largest is 0: with Chop(4, 3), whose largest is 240, 256 to 511 become 0, 512
# infinity; with Chop(5, 10), that is f16, 65536 and 70000 become 0, and 1e6 infinity. What rounds up over the
# largest becomes a number that the type does not have: 248 is 256, 65520 is 65536.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q pychop==0.6.2 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import pychop
from pychop import Chop

pychop.backend("numpy")
cases = {(4, 3): [240, 248, 256, 448, 511, 512], (5, 10): [65504, 65520, 65536, 70000, 1e6]}
seen = {t: [float(Chop(*t)(np.array([float(x)]))[0]) for x in values] for t, values in cases.items()}
for t, values in cases.items():
    print(f"Chop{t}: {values} become {seen[t]}")
assert seen[4, 3] == [240, 256, 0, 0, 0, np.inf]
assert seen[5, 10] == [65504, 65536, 0, 0, np.inf]
PYTHON
