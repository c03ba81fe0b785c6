#!/usr/bin/env bash
# onnx 1.23.2 (its reference), onnxruntime 1.32.0 (CPU): Attention of opsets 23 and 24, is_causal=1,
# two queries and three keys; all keys given as K, or the first as past_key and two as K.
# Guess: the same three keys give the same result, since past keys are only put in front.
# Seen: different results. The mask is shifted by the number of past keys: with all keys given as K,
# query i sees keys up to i, and no query sees the last key; with one key past, up to i + 1.
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


def attention(past, opset):
    feed = dict(q=q, k=k[:, :, past:], v=v[:, :, past:])
    inputs, outputs = ["q", "k", "v"], ["y"]
    if past:
        feed.update(pk=k[:, :, :past], pv=v[:, :, :past])
        inputs, outputs = inputs + ["", "pk", "pv"], ["y", "all_k", "all_v"]
    graph = helper.make_graph([helper.make_node("Attention", inputs, outputs, is_causal=1)], "g",
                              [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n, x in feed.items()],
                              [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=11)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [runs(None, feed)[0][0, 0] for runs in (ReferenceEvaluator(model).run, session.run)]


def expected(offset):
    score = q[0, 0] @ k[0, 0].T / np.sqrt(8)
    score[np.arange(3)[None] > np.arange(2)[:, None] + offset] = -np.inf
    p = np.exp(score - score.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True) @ v[0, 0]


for opset in (23, 24):
    for past in (0, 1):
        for who, y in zip(("onnx", "onnxruntime"), attention(past, opset)):
            seen = [offset for offset in (0, 1) if np.allclose(y, expected(offset), atol=1e-5)]
            print(f"{who}, opset {opset}, {past} of 3 keys past: query i sees keys up to i + {seen}")
            assert seen == [past]
PYTHON
"$folder/venv/bin/python" "$folder/seen.py"
