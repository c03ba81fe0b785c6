#!/usr/bin/env bash
# mlx 0.32.4 on the CPU reads a GGUF file of Q4_K that gguf 0.19.0 wrote (blocks made by libgguf 0.2.2).
# Guess: mx.load, which makes float16 of types that it has no kernels for, gives what gguf.quants.dequantize gives, rounded to
# float16, or refuses the type, as it does Q3_K and Q5_K.
# Seen: of Q6_K and Q2_K it does. Of Q4_K every second group of 32 weights is the group before it again: groups of 1, 2, 3, .. 8 come back as
# 1, 1, 3, 3, .. 7, 7. Half of the weights are lost, without a word.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 gguf==0.19.0 libgguf==0.2.2 "mlx[cpu]==0.32.4"
"$folder/venv/bin/python" - "$folder/k.gguf" <<'PYTHON'
import sys

import gguf
import libgguf
import mlx.core as mx
import numpy as np
from gguf import GGMLQuantizationType as Type

PATH = sys.argv[1]
weights = np.repeat(np.arange(1, 9, dtype=np.float32), 32)[None] * np.where(np.arange(256) % 2, 1, 0.5).astype(np.float32)


def read(kind):
    """Of each group of 32 its second weight, read by gguf and by mlx."""
    raw = np.frombuffer(libgguf.quantize_rows_raw(kind, weights, 1, 256), np.uint8).reshape(1, -1).copy()
    file = gguf.GGUFWriter(PATH, "llama")
    file.add_tensor("w", raw, raw_dtype=kind)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    stored = gguf.GGUFReader(PATH).tensors[0]
    return gguf.quants.dequantize(stored.data, kind)[0, 1::32], np.array(mx.load(PATH)["w"].astype(mx.float32))[0, 1::32]


for kind in (Type.Q6_K, Type.Q2_K, Type.Q4_K):
    by_gguf, by_mlx = read(kind)
    print(kind.name, "gguf", by_gguf.round(1).tolist(), "mlx", by_mlx.round(1).tolist())
    if kind == Type.Q4_K:
        by_gguf = by_gguf.repeat(2)[[0, 1, 4, 5, 8, 9, 12, 13]]
        assert (by_mlx[0::2] == by_mlx[1::2]).all()
    assert np.allclose(by_gguf, by_mlx, rtol=1e-3)
PYTHON
