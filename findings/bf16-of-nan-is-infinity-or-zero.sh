#!/usr/bin/env bash
# apache-tvm 0.27.0.post1 (llvm) and halide 21.0.0 (CPU): f32 cast to bf16 where the f32 is NaN.
# Guess: NaN stays NaN, as of cvt.rn.bf16.f32, PyTorch and ml_dtypes.
# Seen: both add half a unit to the bits and cut: NaN 0x7f800001 becomes infinity, 0x7fffffff -0, 0xffffffff 0;
# only NaNs in the middle stay NaN. 0x7fffffff is what CUDA's instructions make of every NaN.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q apache-tvm==0.27.0.post1 halide==21.0.0 numpy==2.3.5 ml_dtypes==0.5.4
"$folder/venv/bin/python" - <<'PYTHON'
import halide as hl
import ml_dtypes
import numpy as np
import tvm
from tvm import te

nans = np.array([0x7F800001, 0x7FFFFFFF, 0xFFFFFFFF, 0x7FC00000], np.uint32).view(np.float32)

a = te.placeholder((4,), "float32", name="a")
b = te.compute((4,), lambda i: a[i].astype("bfloat16"), name="b")
module = tvm.IRModule({"main": te.create_prim_func([a, b]).with_attr("global_symbol", "main")})
result = tvm.runtime.empty((4,), "bfloat16")
tvm.compile(module, target="llvm")["main"](tvm.runtime.tensor(nans), result)
seen = {"tvm": result.numpy().astype(np.float32)}

x, kernel = hl.Var("x"), hl.Func("kernel")
kernel[x] = hl.cast(hl.Float(32), hl.cast(hl.BFloat(16), hl.Buffer(nans)[x]))
seen["halide"] = np.array(kernel.realize([4]))

for name, values in seen.items():
    print(f"{name}: {[float(v) for v in values]} for {[hex(v) for v in nans.view(np.uint32)]}")
    assert values[0] == np.inf and values[1] == 0 and values[2] == 0 and np.isnan(values[3])
    assert np.signbit(values[1]) and not np.signbit(values[2])
PYTHON
