#!/usr/bin/env bash
# onnxruntime 1.32.0 and onnx 1.23.2's reference: Cast to FLOAT8E4M3FN and FLOAT8E5M2 with saturate=0.
# Guess: what rounds beyond the greatest number becomes NaN and infinity, so a greater x never gives a smaller finite number again.
# Seen: so it is in the reference. In onnxruntime FLOAT8E4M3FN of 465 to 479 is NaN, of 480 to 495 it is 448, and from 496 on NaN again.
# FLOAT8E5M2 of 61440 to 65535, which round to what would be next, is NaN where those above are infinite. With saturate=1, and
# to the FNUZ types, both agree.
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


def both(kind, saturate, values):
    x = np.array(values, np.float32)
    nodes = [helper.make_node("Cast", ["x"], ["y"], to=getattr(TensorProto, kind), saturate=saturate), helper.make_node("Cast", ["y"], ["z"], to=TensorProto.FLOAT)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(name, TensorProto.FLOAT, [len(x)]) for name in "x"],
                              [helper.make_tensor_value_info("z", TensorProto.FLOAT, [len(x)])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    made = [run.run(None, {"x": x})[0].tolist() for run in (ReferenceEvaluator(model), session)]
    print(kind, "saturate", saturate, values, "reference", made[0], "onnxruntime", made[1])
    return made


nan, inf = float("nan"), float("inf")
e4m3, e5m2 = [448, 464, 465, 479, 480, 495, 496, inf], [57344, 61439, 61440, 65535, 65536, inf]
reference, runtime = both("FLOAT8E4M3FN", 0, e4m3)
assert np.array_equal(reference, [448, 448] + [nan] * 6, equal_nan=True)
assert np.array_equal(runtime, [448, 448, nan, nan, 448, 448, nan, nan], equal_nan=True)
reference, runtime = both("FLOAT8E5M2", 0, e5m2)
assert reference == [57344, 57344, inf, inf, inf, inf]
assert np.array_equal(runtime, [57344, 57344, nan, nan, inf, inf], equal_nan=True)
for kind, values in (("FLOAT8E4M3FN", e4m3), ("FLOAT8E5M2", e5m2), ("FLOAT8E4M3FNUZ", e4m3), ("FLOAT8E5M2FNUZ", e5m2)):
    reference, runtime = both(kind, 1, values)
    assert reference == runtime
    if kind.endswith("FNUZ"):
        reference, runtime = both(kind, 0, values)
        assert np.array_equal(reference, runtime, equal_nan=True)
PYTHON
