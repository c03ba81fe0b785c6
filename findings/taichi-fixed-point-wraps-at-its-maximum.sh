#!/usr/bin/env bash
# taichi 1.7.4, on the CPU: fields of ti.types.quant.
# Guess: quant.fixed(bits=6, max_value=2) has a code for 2, its scale is 2/31, and what is beyond stays at the ends, as in
# other quantisers; a NaN in quant.float stays one.
# Seen: its scale is 2/32, and there is no saturation: 2, 1.99 and 1.97 are stored as -2, 2.5 as -1.5, 100 as 0. Unsigned it is
# the same: with max_value=1 and 4 bits 1 is 0, and -0.05 is 0.9375. quant.float(exp=5, frac=6) stores a NaN as 1.625.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 taichi==1.7.4
cat >"$folder/seen.py" <<'PYTHON'
import math

import numpy as np
import taichi as ti

ti.init(arch=ti.cpu, log_level=ti.ERROR, offline_cache=False)
VALUES = [0.05, 1.9, 1.97, 1.99, 2, 2.5, -2, -2.5, 100, 1, -0.05, math.nan]
N = len(VALUES)
signed = ti.field(ti.types.quant.fixed(bits=6, signed=True, max_value=2.0))
unsigned = ti.field(ti.types.quant.fixed(bits=4, signed=False, max_value=1.0))
narrow = ti.field(ti.types.quant.float(exp=5, frac=6, signed=True))
fixed, floats = ti.BitpackedFields(max_num_bits=32), ti.BitpackedFields(max_num_bits=32)
fixed.place(signed, unsigned)
floats.place(narrow)
ti.root.dense(ti.i, N).place(fixed)
ti.root.dense(ti.i, N).place(floats)
given = ti.field(ti.f32, N)
seen = ti.Vector.field(3, ti.f32, N)


@ti.kernel
def write():
    for i in range(N):
        signed[i] = given[i]
        unsigned[i] = given[i]
        narrow[i] = given[i]


@ti.kernel
def read():
    for i in range(N):
        seen[i] = ti.Vector([signed[i], unsigned[i], narrow[i]])


given.from_numpy(np.array(VALUES, np.float32))
write()
read()
result = {str(value): row.tolist() for value, row in zip(VALUES, seen.to_numpy())}
for value, row in result.items():
    print(value, "fixed(6, max 2):", row[0], "unsigned fixed(4, max 1):", row[1], "float(5, 6):", row[2])
first = [result[str(value)][0] for value in VALUES[:9]]
assert first == [0.0625, 1.875, -2, -2, -2, -1.5, -2, 1.5, 0], first
assert result["1"][1] == 0 and result["-0.05"][1] == 0.9375
assert result["nan"][2] == 1.625 and result["2.5"][2] == 2.5
PYTHON
"$folder/venv/bin/python" "$folder/seen.py"
