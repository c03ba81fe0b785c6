#!/usr/bin/env bash
# onnx 1.23.2's reference evaluator (x86-64): QuantizeLinear, which the standard defines as saturating, compared with onnxruntime 1.32.0.
# Guess: what is above the range becomes the largest integer, however far above it is, as in onnxruntime.
# Seen: from 2^31 scales on, infinity included, it becomes the smallest: 3e9 with a scale of 1 is 127 in onnxruntime and -128 in the reference
# (0 in UINT8); up to 2147483520 both saturate. The quotient is cast to int32, which has no such number, before it is clipped.
# This holds for all six integer types; what is far below the range is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 onnx==1.23.2 onnxruntime==1.32.0
"$folder/venv/bin/python" -W ignore - <<'PYTHON'
import platform

import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

x = np.array([100, 1e9, 2147483520, 2**31, 3e9, np.inf, -1e10, -np.inf], np.float32)
RANGES = {"INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-32768, 32767), "UINT16": (0, 65535), "INT4": (-8, 7), "UINT4": (0, 15)}
print(platform.machine())
for kind, (least, most) in RANGES.items():
    given = [helper.make_tensor("s", TensorProto.FLOAT, [], [1.0]), helper.make_tensor("o", getattr(TensorProto, kind), [], [0])]
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "o"], ["y"]), helper.make_node("DequantizeLinear", ["y", "s", "o"], ["z"])]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [len(x)])],
                              [helper.make_tensor_value_info("z", TensorProto.FLOAT, [len(x)])], given)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    reference, runtime = [run.run(None, {"x": x})[0].tolist() for run in (ReferenceEvaluator(model), session)]
    print(kind, x.tolist(), "reference", reference, "onnxruntime", runtime)
    first = [min(100, most), most, most]
    assert runtime == first + [most] * 3 + [least] * 2
    assert reference == first + [least] * 3 + [least] * 2
PYTHON
