#!/usr/bin/env bash
# triton 3.9.0 with TRITON_INTERPRET=1: float32 to bfloat16, float8e4nv and float8e5 in a kernel.
# Guess: as the compiled kernel does it (cvt.rn, for FP8 satfinite), so that a kernel's numbers can be
# looked at without a GPU. That bfloat16 has no arithmetic there is documented.
# Seen: to bfloat16 it cuts off: 1.0117 is 1.0078, 3.4e38 the greatest finite number; 1e-40 grows tenfold. To
# float8e4nv 1.0625 goes up, an infinity is 256 and a NaN 384; a NaN read from memory is 480, of float8e5
# an infinity 65536.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 torch==2.15.0
"$folder/venv/bin/pip" install -q --no-deps --target "$folder/triton" triton==3.9.0
cat >"$folder/seen.py" <<'PYTHON'
import torch
import triton
import triton.language as tl


@triton.jit
def cast(X, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Y + i, tl.load(X + i).to(Y.dtype.element_ty))


def to(dtype, *values):
    x = torch.tensor(values, dtype=torch.float32)
    y = torch.zeros(4, dtype=dtype)
    cast[(1,)](x, y, 4)
    return y.float().tolist(), x.to(dtype).float().tolist()


def read(dtype, *values):
    y = torch.zeros(4)
    cast[(1,)](torch.tensor(values).to(dtype), y, 4)
    return y.tolist()


inf, nan = float("inf"), float("nan")
brain, brain_torch = to(torch.bfloat16, 1 + 3 * 2**-8, 3.4e38, 1e-40, 1.0)
eight, eight_torch = to(torch.float8_e4m3fn, 1.0625, inf, nan, 1.0)
back = read(torch.float8_e4m3fn, nan, 1.0, 1.0, 1.0), read(torch.float8_e5m2, inf, 1.0, 1.0, 1.0)
print("1 + 3/256, 3.4e38, 1e-40 as bfloat16:", brain[:3], "torch:", brain_torch[:3])
print("1.0625, inf, nan as float8e4nv:", eight[:3], "torch:", eight_torch[:3])
print("from float8e4nv's nan:", back[0][0], "from float8e5's inf:", back[1][0])
assert brain[0] == 1 + 2**-7 and 3e38 < brain[1] < inf and 9e-40 < brain[2] < 2e-39
assert brain_torch[:2] == [1 + 2**-6, inf]
assert eight[:3] == [1.125, 256, 384] and back[0][0] == 480 and back[1][0] == 65536
PYTHON
TRITON_INTERPRET=1 PYTHONPATH=$folder/triton "$folder/venv/bin/python" "$folder/seen.py"
