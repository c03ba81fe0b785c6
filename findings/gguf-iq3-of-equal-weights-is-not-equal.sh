#!/usr/bin/env bash
# libgguf 0.2.2 (ggml's quantisers), gguf 0.19.0: a block of 256 equal weights in the formats of 1 to 4 bits.
# Guess: a block has scales of its own, so equal weights, a bias or a norm say, come back equal and right but for a scale's rounding.
# Seen: in Q2_K, Q3_K, TQ1_0 and IQ4_NL they do. IQ3_S makes three numbers of 1, from 0.86 to 1.25, and IQ3_XXS two: their grids of four and eight
# weights have no point for it that the search takes. IQ2_S makes 1.06 of each, IQ1_M 1.11.
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

ones = np.ones((1, 256), np.float32)
seen = {}
for kind in (Type.Q2_K, Type.Q3_K, Type.TQ1_0, Type.IQ4_NL, Type.IQ3_S, Type.IQ3_XXS, Type.IQ2_S, Type.IQ1_M):
    raw = np.frombuffer(libgguf.quantize_rows_raw(kind, ones, 1, 256), np.uint8).reshape(1, -1)
    seen[kind.name] = np.unique(gguf.quants.dequantize(raw, kind))
    print(kind.name, seen[kind.name].round(3).tolist())
for name in ("Q2_K", "Q3_K", "TQ1_0", "IQ4_NL"):
    assert len(seen[name]) == 1 and abs(seen[name][0] - 1) < 1e-3
assert len(seen["IQ3_S"]) == 3 and seen["IQ3_S"][0] < 0.87 and seen["IQ3_S"][2] > 1.24
assert len(seen["IQ3_XXS"]) == 2 and seen["IQ3_XXS"][1] > 1.25
for name, number in (("IQ2_S", 1.06), ("IQ1_M", 1.11)):
    assert len(seen[name]) == 1 and abs(seen[name][0] - number) < 0.005
PYTHON
