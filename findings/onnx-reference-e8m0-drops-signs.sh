#!/usr/bin/env bash
# onnx 1.23.2's reference evaluator: Cast of float32 to FLOAT8E8M0, compared with onnxruntime 1.32.0.
# Guess: a type without a sign treats a negative number as below its range, and a power of two that it can represent stays the same, in both.
# Seen: in the reference -3 becomes 4, as 3 does, whatever `saturate` says; in onnxruntime it is the smallest number, 2^-127, and without `saturate` NaN.
# The reference rounds 2^-127 itself up to 2^-126 (round_mode "up", the default). In the reference infinity is NaN even with `saturate`, in
# onnxruntime 2^127; 0 without `saturate` is 2^-127 in the reference, NaN in onnxruntime. Between 2^-126 and 2^127 both agree in all
# three modes.
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


def both(saturate, mode, values):
    x = np.array(values, np.float32)
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0, saturate=saturate, round_mode=mode),
             helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [len(x)])],
                              [helper.make_tensor_value_info("z", TensorProto.FLOAT, [len(x)])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=12)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    made = [run.run(None, {"x": x})[0].astype(np.float64) for run in (ReferenceEvaluator(model), session)]
    print("saturate", saturate, mode, values, "reference", made[0].tolist(), "onnxruntime", made[1].tolist())
    return made


nan, inf, least, most = np.nan, np.inf, 2.0**-127, 2.0**127
odd = [-3, -inf, 0, least, inf, 3e38]
reference, runtime = both(1, "up", odd)
assert np.array_equal(reference, [4, nan, least, 2 * least, nan, most], equal_nan=True)
assert np.array_equal(runtime, [least, least, least, least, most, most])
reference, runtime = both(0, "up", odd)
assert np.array_equal(reference, [4, nan, least, 2 * least, nan, nan], equal_nan=True)
assert np.array_equal(runtime, [nan, nan, nan, least, nan, nan], equal_nan=True)
for mode in ("up", "down", "nearest"):
    for saturate in (0, 1):
        reference, runtime = both(saturate, mode, [2.0**-126, 1.1, 1.5, 2, 2.9, 3, 5e30, most, nan])
        assert np.array_equal(reference, runtime, equal_nan=True)
PYTHON
