#!/usr/bin/env bash
# numba-cuda 0.30.4 (numba 0.68.1, NumPy 2.3.5): one kernel in Numba's CUDA simulator and as the PTX
# that the same package makes of it for sm_90.
# Guess: the simulator gives what compiled code gives, up to roundings of the last digit.
# Seen: scalars of the simulator are NumPy's and follow its rules, compiled ones follow Numba's.
#   a[0] + a[1] of int8: 100 + 100 is -56 in the simulator, 200 compiled (add.s64);
#   x * 0.1 of float32: rounded to float32 in the simulator, a product of f64 compiled;
#   min(nan, 1.5): nan in the simulator, 1.5 compiled (min.f32 drops a NaN);
#   x % y of float32: exact in the simulator, x - floor(x / y) * y with each step rounded when
#   compiled, so 7 % 0.1 is 0.0999999 in one and 0 in the other.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 numba==0.68.1 "numba-cuda[cu13]==0.30.4" nvidia-nvvm==13.0.88
cat >"$folder/seen.py" <<'PYTHON'
import re
import sys
import warnings

import numpy as np
from numba import cuda, float32, float64, int8, int64

warnings.simplefilter("ignore")


def kernel(a, x, s, f):
    s[0] = a[0] + a[1]
    f[0] = x[0] * 0.1
    f[1] = min(x[1], x[2])
    f[2] = x[3] % x[4]


if sys.argv[1] == "simulated":
    a = np.array([100, 100], np.int8)
    x = np.array([1.1, np.nan, 1.5, 7, 0.1], np.float32)
    s, f = np.zeros(1, np.int64), np.zeros(3)
    cuda.jit(kernel)[1, 1](a, x, s, f)
    rounded = x[3] - np.floor(x[3] / x[4]) * x[4]
    print("simulated:", s, f, "; the compiled steps of % in float32 give", rounded)
    assert s[0] == -56 and f[0] == np.float32(1.1) * np.float32(0.1) != np.float64(x[0]) * 0.1
    assert np.isnan(f[1]) and 0.0999 < f[2] < 0.1 and rounded == 0
else:
    ptx, _ = cuda.compile_ptx(kernel, (int8[:], float32[:], int64[:], float64[:]), cc=(9, 0))
    steps = [n for n in re.findall(r"^\s+([a-z0-9.]+)\s", ptx, re.M) if re.search(r"^(mul.f|min|div.rn|cvt.rmi|sub.f|ld.*s8)", n)]
    sums = re.findall(r"^\s+(add\.\w+)\s+%rd\d+, %rd\d+, %rd\d+;\n\s+(?:cvta.*;\n\s+)*st\.", ptx, re.M)
    print("compiled:", steps, sums)
    assert [n for n in steps if n[0] != "l"] == ["mul.f64", "min.f32", "div.rn.f32", "cvt.rmi.f32.f32", "mul.f32", "sub.f32"]
    assert len([n for n in steps if n[0] == "l"]) == 2 and "add.s16" not in ptx and "cvt.s8" not in ptx
PYTHON
export HOME=$folder
NUMBA_ENABLE_CUDASIM=1 "$folder/venv/bin/python" "$folder/seen.py" simulated
"$folder/venv/bin/python" "$folder/seen.py" compiled
