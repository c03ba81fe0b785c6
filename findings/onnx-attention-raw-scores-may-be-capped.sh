#!/usr/bin/env bash
# onnx 1.23.2 (its reference), onnxruntime 1.32.0 (CPU): Attention of opset 23 with softcap=2 and its
# fourth output, qk_matmul_output_mode 0 ("the output of the qk matmul").
# Guess: the scores before the cap, from both; y is the same.
# Seen: y is the same, but the reference hands out capped scores (none beyond 2), the same as with
# mode 1, and onnxruntime those before the cap.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 onnx==1.23.2 onnxruntime==1.32.0
cat >"$folder/seen.py" <<'PYTHON'
import numpy as np
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
import onnxruntime

random = np.random.default_rng(1)
q, k, v = (random.normal(size=(1, 1, n, 8)).astype("f") for n in (2, 3, 3))
q *= 5
feed = dict(q=q, k=k, v=v)
raw = q[0, 0] @ k[0, 0].T / np.sqrt(8)
capped = 2 * np.tanh(raw / 2)
seen = {}
for mode in (0, 1):
    node = helper.make_node("Attention", ["q", "k", "v"], ["y", "", "", "scores"], softcap=2.0, qk_matmul_output_mode=mode)
    graph = helper.make_graph([node], "g", [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n, x in feed.items()],
                              [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("y", "scores")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = [runs(None, feed) for runs in (ReferenceEvaluator(model).run, session.run)]
    assert np.allclose(results[0][0], results[1][0], atol=1e-5)
    for who, result in zip(("onnx", "onnxruntime"), results):
        kind = "raw" if np.allclose(result[1][0, 0], raw, atol=1e-4) else "capped" if np.allclose(result[1][0, 0], capped, atol=1e-4) else "?"
        print(f"{who}, mode {mode}: {kind}, largest {np.abs(result[1]).max():.3f}")
        seen[who, mode] = kind
assert seen["onnx", 0] == "capped" and seen["onnxruntime", 0] == "raw" and seen["onnx", 1] == "capped", seen
PYTHON
"$folder/venv/bin/python" "$folder/seen.py"
