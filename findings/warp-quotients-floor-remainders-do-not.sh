#!/usr/bin/env bash
# warp-lang 1.19.0: // and % of negative numbers in a kernel (seen on its CPU device).
# Guess: both as in Python, or both as in C: a == (a // b) * b + a % b either way.
# Seen: // goes down (-7 // 2 is -4) and % goes with the dividend (-7 % 2 is -1), of int32 and of float32
# alike; so an index that is taken apart by both and put together is another one.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 warp-lang==1.19.0
cat >"$folder/seen.py" <<'PYTHON'
import numpy as np
import warp as wp

wp.config.quiet = True


@wp.kernel
def of_ints(a: wp.array(dtype=wp.int32), b: wp.array(dtype=wp.int32), q: wp.array(dtype=wp.int32), r: wp.array(dtype=wp.int32)):
    i = wp.tid()
    q[i] = a[i] // b[i]
    r[i] = a[i] % b[i]


@wp.kernel
def of_floats(a: wp.array(dtype=float), b: wp.array(dtype=float), q: wp.array(dtype=float), r: wp.array(dtype=float)):
    i = wp.tid()
    q[i] = a[i] // b[i]
    r[i] = a[i] % b[i]


for kernel, dtype in ((of_ints, np.int32), (of_floats, np.float32)):
    a, b = np.array([-7, 7, -7, 7], dtype), np.array([2, -2, -2, 2], dtype)
    given = [wp.array(x, device="cpu") for x in (a, b, 0 * a, 0 * a)]
    wp.launch(kernel, 4, inputs=given, device="cpu")
    q, r = (x.numpy() for x in given[2:])
    print(dtype.__name__, "//:", q, "%:", r, "(a // b) * b + a % b:", q * b + r)
    assert q.tolist() == [-4, -4, 3, 3] and r.tolist() == [-1, 1, -1, 1]
PYTHON
HOME=$folder "$folder/venv/bin/python" "$folder/seen.py"
