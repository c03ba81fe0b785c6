#!/usr/bin/env bash
# halide 21.0.0 on the CPU: / and % of i32, and shifts by negative amounts.
# Guess: as C has it (cut towards zero), or as Python has it (floor).
# Seen: neither: the remainder is never negative, so 7 / -2 is -3 and -7 / -2 is 4, with remainder 1 each; Python
# has -4 and 3. By 0 both are 0, without a fault; a shift by -1 shifts the other way.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q halide==21.0.0 numpy==2.3.5
"$folder/venv/bin/python" - <<'PYTHON'
import operator

import halide as hl
import numpy as np

x = hl.Var("x")


def run(operation, left, right):
    a, b = (hl.Buffer(np.array(values, np.int32)) for values in (left, right))
    kernel = hl.Func("kernel")
    kernel[x] = operation(a[x], b[x])
    return np.array(kernel.realize([len(left)])).tolist()


left, right = [7, -7, 7, -7, 5], [2, 2, -2, -2, 0]
seen = {o.__name__: run(o, left, right) for o in (operator.truediv, operator.mod)}
shifts = run(operator.lshift, [8, 8], [1, -1]) + run(operator.rshift, [8, 8], [1, -1])
print(left, "by", right, seen)
print("8 << 1, 8 << -1, 8 >> 1, 8 >> -1:", shifts)
assert seen == {"truediv": [3, -4, -3, 4, 0], "mod": [1, 1, 1, 1, 0]}
assert shifts == [16, 4, 4, 16]
PYTHON
