#!/usr/bin/env bash
# paddlepaddle 3.3.1 on the CPU: max, argmax, topk and argsort of numbers with a NaN, and sums of integers.
# Guess: x[argmax(x)] is max(x), with a NaN, too, as in NumPy and torch; sums of int8 are int64, as those of int32 and bool are.
# Seen: max is NaN, topk finds the NaN, argsort puts it last, and argmax passes it over: of 1, NaN, 2 it is 2; argmin does the same. A sum of int8, uint8 or int16
# stays in its type: 300 ones of int8 are 44, of bool 300.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 setuptools paddlepaddle==3.3.1
"$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import numpy as np
import paddle

for numbers in ([1.0, np.nan, 2.0], [np.nan, 1.0, 2.0], [2.0, 1.0, np.nan]):
    x = np.array(numbers, np.float32)
    t = paddle.to_tensor(x)
    top, at = paddle.topk(t, 1)
    print(f"{numbers}: max {t.max().item()} at {t.argmax().item()}, min {t.min().item()} at {t.argmin().item()}, topk {top.item()} at {at.item()}")
    assert np.isnan(t.max().item()) and np.isnan(t.min().item()) and np.isnan(top.item()) and np.isnan(x[at.item()])
    assert x[t.argmax().item()] == 2 and x[t.argmin().item()] == 1
    assert np.isnan(x[paddle.argsort(t).numpy()[-1]]) and np.isnan(x[np.argmax(x)])
for kind, result, total in (("int8", "int8", 44), ("uint8", "uint8", 44), ("int16", "int16", 300), ("int32", "int64", 300), ("bool", "int64", 300)):
    made = paddle.ones([300]).astype(kind).sum()
    print(f"sum of 300 {kind}: {made.item()} of {made.dtype}")
    assert made.dtype == getattr(paddle, result) and made.item() == total
PYTHON
