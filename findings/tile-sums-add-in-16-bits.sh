#!/usr/bin/env bash
# Sums of 16-bit tiles: triton 3.9.0 (sm_90) and warp-lang 1.19.0 (its CPU device).
# Guess: tl.sum and wp.tile_sum of 16 bits add in float32 and round once, as sums of torch and NumPy's
# einsum with a wider type do; tl.max of bf16, which is made in f32 (max.f32), points that way.
# Seen: tl.sum and tl.cumsum add in the tile's type from the first to the last: add.bf16, add.f16.
# wp.tile_sum of 4,096 ones of float16 is 2048.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 triton==3.9.0 warp-lang==1.19.0
cat >"$folder/seen.py" <<'PYTHON'
import re

import numpy as np
import triton
import triton.language as tl
import warp as wp
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def total(X, Y, N: tl.constexpr):
    tl.store(Y, tl.sum(tl.load(X + tl.arange(0, N))))


@triton.jit
def running(X, Y, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(Y + i, tl.cumsum(tl.load(X + i)))


@triton.jit
def most(X, Y, N: tl.constexpr):
    tl.store(Y, tl.max(tl.load(X + tl.arange(0, N))))


def operations(kernel, dtype):
    source = ASTSource(kernel, {"X": "*" + dtype, "Y": "*" + dtype, "N": "constexpr"}, {"N": 512})
    ptx = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]
    return sorted(set(re.findall(r"\b(?:add|max)\.b?f\w+", ptx)))


@wp.kernel
def tile_total(x: wp.array(dtype=wp.float16), y: wp.array(dtype=wp.float16)):
    wp.tile_store(y, wp.tile_sum(wp.tile_load(x, shape=4096)))


seen = {(kernel.__name__, t): operations(kernel, t) for kernel in (total, running, most) for t in ("bf16", "fp16")}
for key, value in seen.items():
    print(*key, value)
wp.config.quiet = True
ones, y = wp.array(np.ones(4096, np.float16), device="cpu"), wp.zeros(1, dtype=wp.float16, device="cpu")
wp.launch_tiled(tile_total, dim=[1], inputs=[ones, y], block_dim=64, device="cpu")
print("warp, 4096 ones:", y.numpy()[0])
for t, short in (("bf16", "bf16"), ("fp16", "f16")):
    for name in ("total", "running"):
        assert seen[name, t] and all(re.fullmatch(rf"add\.(rn\.)?{short}(x2)?", op) for op in seen[name, t]), seen
    assert "max.f32" in seen["most", t]
assert y.numpy()[0] == 2048
PYTHON
HOME=$folder TRITON_CACHE_DIR=$folder/triton "$folder/venv/bin/python" "$folder/seen.py"
