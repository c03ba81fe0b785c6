#!/usr/bin/env bash
# tinygrad 0.14.0: x.cast(half).cast(float), and the same by fp8, on its PYTHON device and, with clang, CPU.
# Guess: two casts round to the narrow type and back, as everywhere where quantisation is tried out in
# float32.
# Seen: of half both casts are taken out: 1 + 2^-11 and 65520 stay what they are. fp8e4m3 on the CPU is
# cut to 448 and not rounded (1.0625 stays), on PYTHON both. bfloat16 is rounded. With contiguous() between
# the casts half is, too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q tinygrad==0.14.0
for device in PYTHON $(command -v clang >/dev/null && echo CPU); do
DEV=$device "$folder/venv/bin/python" - <<'PYTHON'
import os

from tinygrad import Tensor, dtypes

device = os.environ["DEV"]


def there_and_back(dtype, values, between=lambda x: x):
    return between(Tensor(values, dtype=dtypes.float32).cast(dtype)).cast(dtypes.float32).tolist()


half = there_and_back(dtypes.float16, [1 + 2**-11, 65520.0])
apart = there_and_back(dtypes.float16, [1 + 2**-11, 65520.0], lambda x: x.contiguous())
narrow = there_and_back(dtypes.fp8e4m3, [1.0625, 1000.0])
brain = there_and_back(dtypes.bfloat16, [1 + 2**-8])
print(device, "half:", half, "contiguous:", apart, "fp8e4m3:", narrow, "bfloat16:", brain)
assert half == [1 + 2**-11, 65520.0] and apart == [1, float("inf")] and brain == [1]
assert narrow == [1.0625 if device == "CPU" else 1, 448]
PYTHON
done
