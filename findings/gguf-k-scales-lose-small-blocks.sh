#!/usr/bin/env bash
# libgguf 0.2.2 (ggml's quantisers), gguf 0.19.0: blocks of small weights in the K formats and in Q4_0.
# Guess: the more bits the better, at each size; what is too small for a block's scale, a float16, becomes 0 little by little.
# Seen: in Q6_K normal weights of deviation 3e-5, which float16 itself has to 0.2 %, are all 0: what it stores in float16 is a 4096th of the
# greatest weight. Q5_K of 1e-5 and Q4_K of 3e-6 are off by more than twice the weights' size: minima go to the nearest float16, scales
# to 0, and most weights of a group become one negative number. Q4_0 is off by 11 % at 1e-6.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 gguf==0.19.0 libgguf==0.2.2
"$folder/venv/bin/python" - <<'PYTHON'
import gguf
import libgguf
import numpy as np
from gguf import GGMLQuantizationType as Type

normal = np.random.default_rng(0).normal(size=(16, 256))


def error(kind, size):
    """The error's root mean square over the weights', and how many of them are not 0."""
    weights = (normal * size).astype(np.float32)
    raw = np.frombuffer(libgguf.quantize_rows_raw(kind, weights, 16, 256), np.uint8).reshape(16, -1)
    back = gguf.quants.dequantize(raw, kind)
    return np.sqrt(((back - weights) ** 2).mean() / (weights**2).mean()), np.count_nonzero(back)


seen = {}
for kind in (Type.Q4_0, Type.Q4_K, Type.Q5_K, Type.Q6_K):
    for size in (1e-2, 3e-5, 1e-5, 3e-6, 1e-6):
        seen[kind.name, size] = error(kind, size)
    print(kind.name, ", ".join(f"{size}: {seen[kind.name, size][0]:.2f}" for name, size in seen if name == kind.name))
assert all(0 < seen["Q4_0", size][0] < 0.15 for size in (1e-2, 3e-5, 1e-5, 3e-6, 1e-6))
assert all(seen[name, 1e-2][0] < 0.1 for name in ("Q4_K", "Q5_K", "Q6_K"))
assert seen["Q6_K", 3e-5] == (1, 0)
assert seen["Q4_K", 1e-5][0] < 0.15 and seen["Q5_K", 3e-5][0] < 0.3
assert seen["Q5_K", 1e-5][0] > 2 and seen["Q4_K", 3e-6][0] > 2
PYTHON
