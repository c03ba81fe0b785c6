#!/usr/bin/env bash
# paddlepaddle 3.3.1 on the CPU: float32 cast to float8_e4m3fn and float8_e5m2, and back.
# Guess: NaN stays NaN in both, and what is above the largest number becomes the largest, or in both what the type has above it
# (NaN, infinity).
# Seen: to float8_e4m3fn NaN is 448, as infinity is, so a check for NaN behind the cast finds none; but 465 to 479 are NaN. To float8_e5m2 NaN stays and
# infinity is 57344, as 65536 is; but 61440 to 65535 are infinite. Nothing else is NaN or infinite in either.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 setuptools paddlepaddle==3.3.1
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import numpy as np
import paddle


def through(kind, numbers):
    return paddle.to_tensor(np.array(numbers, np.float32)).astype(kind).astype("float32").numpy()


nan, inf = float("nan"), float("inf")
for kind, numbers, expected in (
    ("float8_e4m3fn", [448.0, 464.0, 465.0, 479.0, 480.0, 1e9, inf, -inf, nan], [448, 448, nan, nan, 448, 448, 448, -448, 448]),
    ("float8_e5m2", [57344.0, 61439.0, 61440.0, 65535.0, 65536.0, 1e9, inf, -inf, nan], [57344, 57344, inf, inf, 57344, 57344, 57344, -57344, nan]),
):
    seen = through(kind, numbers)
    print(kind, ", ".join(f"{a}: {b}" for a, b in zip(numbers, seen)))
    assert np.array_equal(seen, np.array(expected, np.float32), equal_nan=True)
PYTHON
