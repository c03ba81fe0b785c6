#!/usr/bin/env bash
# jax 0.10.2, mlx 0.32.4, onnx 1.23.2, onnxruntime 1.32.0 (all on the CPU): attention for a query
# that no key is left for (a mask with an empty row, a length of 0, a causal mask over fewer keys).
# Guess: 0, as PyTorch and FlashAttention give, or NaN; in any case nothing of what is hidden.
# Seen: ONNX gives 0. jax and mlx give the mean of all values, those behind the mask and the padding
# among them: jax for key_value_seq_lengths of 0, too (queries past query_seq_lengths give 0), and
# mlx for mask="causal" with more queries than keys, whose first rows then see every later key.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 jax==0.10.2 "mlx[cpu]==0.32.4" onnx==1.23.2 onnxruntime==1.32.0
cat >"$folder/seen.py" <<'PYTHON'
import numpy as np
import jax
import mlx.core as mx
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
import onnxruntime

random = np.random.default_rng(1)
q, k, v = (random.normal(size=(1, 1, n, 8)).astype("f") for n in (2, 3, 3))  # heads before rows
mask = np.array([[True, False, True], [False, False, False]])
mean = v[0, 0].mean(axis=0)


def says(who, row, expected):
    print(f"{who}: {row[:3]}", "(the mean of all values)" if np.allclose(row, mean, atol=1e-6) else "")
    assert np.allclose(row, expected, atol=1e-6)


attention = jax.nn.dot_product_attention  # rows before heads
rows = [x.transpose(0, 2, 1, 3) for x in (q, k, v)]
says("jax, empty row of a mask", attention(*rows, mask=mask[None, None])[0, 1, 0], mean)
says("jax, no keys by length", attention(*rows, key_value_seq_lengths=np.array([0]))[0, 1, 0], mean)
says("jax, no query by length", attention(*rows, query_seq_lengths=np.array([1]))[0, 1, 0], 0 * mean)

given = [mx.array(x) for x in (q, k, v)]
fused = mx.fast.scaled_dot_product_attention
says("mlx, empty row of a mask", np.array(fused(*given, scale=1.0, mask=mx.array(mask)))[0, 0, 1], mean)
more = mx.array(np.concatenate([q, q], axis=2))  # four queries, aligned at the end: the first has no key
says("mlx, causal, 4 queries, 3 keys", np.array(fused(more, *given[1:], scale=1.0, mask="causal"))[0, 0, 0], mean)

values = [helper.make_tensor_value_info(n, t, a.shape) for n, t, a in
          (("q", TensorProto.FLOAT, q), ("k", TensorProto.FLOAT, k), ("v", TensorProto.FLOAT, v), ("mask", TensorProto.BOOL, mask))]
graph = helper.make_graph([helper.make_node("Attention", ["q", "k", "v", "mask"], ["y"])], "g", values,
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
feed = dict(q=q, k=k, v=v, mask=mask)
says("onnx", ReferenceEvaluator(model).run(None, feed)[0][0, 0, 1], 0 * mean)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
says("onnxruntime", session.run(None, feed)[0][0, 0, 1], 0 * mean)
PYTHON
HOME=$folder "$folder/venv/bin/python" "$folder/seen.py"
