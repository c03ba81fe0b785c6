#!/usr/bin/env bash
# onnxruntime 1.32.0 and onnx 1.23.2's reference: Cast of float to INT4, UINT4 and INT8.
# Guess: a cast to an integer type cuts the fraction off, to 4 bits as to 8, in both.
# Seen: so does the reference, and onnxruntime to 8 bits. To 4 bits onnxruntime rounds, halves away from
# zero: -0.5 is -1, 1.5 is 2, 2.5 is 3; and 7.5, which the reference makes 7, is rounded first and
# then -8. QuantizeLinear rounds halves to even in both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 onnx==1.23.2 onnxruntime==1.32.0
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

x = np.array([-1.5, -0.5, 0.5, 1.5, 2.5, 7.4, 7.5], np.float32)


def both(kind, quantised=False):
    def tensor(name):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [len(x)])

    if quantised:
        nodes = [helper.make_node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=kind), helper.make_node("DequantizeLinear", ["y", "s"], ["z"])]
    else:
        nodes = [helper.make_node("Cast", ["x"], ["y"], to=kind), helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT)]
    one = [helper.make_tensor("s", TensorProto.FLOAT, [], [1.0])] if quantised else []
    graph = helper.make_graph(nodes, "g", [tensor("x")], [tensor("z")], one)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [run.run(None, {"x": x})[0].tolist() for run in (ReferenceEvaluator(model), session)]


cut = [-1, 0, 0, 1, 2, 7, 7]
four, eight, quantised = both(TensorProto.INT4), both(TensorProto.INT8), both(TensorProto.INT4, True)
print(x.tolist())
for name, made in (("INT4", four), ("INT8", eight), ("QuantizeLinear, INT4", quantised)):
    print(f"{name}: reference {made[0]}, onnxruntime {made[1]}")
assert eight == [cut, cut] and four == [cut, [-2, -1, 1, 2, 3, 7, -8]]
assert quantised == [[-2, 0, 0, 2, 2, 7, 7]] * 2
PYTHON
