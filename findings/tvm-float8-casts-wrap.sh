#!/usr/bin/env bash
# apache-tvm 0.27.0.post1, target llvm: f32 cast to float8_e4m3fn and float8_e5m2.
# Guess: as the types are elsewhere: what is too large becomes NaN, infinity or the largest number, subnormal
# results are kept, NaN stays NaN.
# Seen: the exponent wraps. To E4M3 500 becomes -0, 1e9 0.234375, infinity 1, NaN 1.5 or 0; to E5M2 1e9
# becomes -0.21875 and infinity 1. E4M3 has no subnormal results: 2^-6 stays, 2^-7 is 0. Cast on to f32 in
# the same kernel, nothing is rounded at all: 1e9 by way of E4M3 is 1e9.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q apache-tvm==0.27.0.post1 numpy==2.3.5 ml_dtypes==0.5.4
"$folder/venv/bin/python" - <<'PYTHON'
import ml_dtypes
import numpy as np
import tvm
from tvm import te


def cast(values, to, back):
    a = te.placeholder((len(values),), "float32", name="a")
    b = te.compute((len(values),), lambda i: a[i].astype(to).astype(back), name="b")
    module = tvm.IRModule({"main": te.create_prim_func([a, b]).with_attr("global_symbol", "main")})
    result = tvm.runtime.empty((len(values),), back)
    tvm.compile(module, target="llvm")["main"](tvm.runtime.tensor(np.array(values, np.float32)), result)
    return result.numpy().astype(np.float32)


values = [1.0625, 448, 500, 1e9, np.inf, np.nan, 2.0**-6, 2.0**-7]
seen = {t: cast(values, t, t) for t in ("float8_e4m3fn", "float8_e5m2")}
through = cast(values, "float8_e4m3fn", "float32")
for t in seen:
    print(f"{t}: {[float(x) for x in seen[t]]} for {values}")
print("to float8_e4m3fn and to float32:", [float(x) for x in through])
assert seen["float8_e4m3fn"].tolist() == [1, 448, 0, 0.234375, 1, 1.5, 2.0**-6, 0]
assert np.signbit(seen["float8_e4m3fn"][2])
assert seen["float8_e5m2"].tolist()[:7] == [1, 448, 512, -0.21875, 1, 1.5, 2.0**-6]
assert through[3] == 1e9 and through[0] == 1.0625
PYTHON
