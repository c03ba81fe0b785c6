#!/usr/bin/env bash
# onnxsim 0.8.1, onnx 1.23.2, onnxruntime 1.32.0 (CPU): simplify of x * a * b, two Mul by constants.
# Guess: either both Mul stay, as two Add by constants do, or they become one where the product of the constants is a finite number.
# Seen: in float32 they become one Mul by a * b, be it infinite: of x * 1e20 * 1e20 0 is 0 and 1e-30 is 1e10; simplified they are NaN and
# infinite. The other way round an overflow is gone: x * 1e30 * 1e-30 of 1e10 is infinite before and 1e10 after. simplify says that
# its check is True. In float16 both Mul stay.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 onnx==1.23.2 onnxruntime==1.32.0 onnxsim==0.8.1
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime
import onnxsim
from onnx import helper, numpy_helper


def both(operation, kind, numbers, a, b):
    """Results before and after simplify, and how many nodes are left."""
    x = np.array(numbers, kind)
    of = helper.np_dtype_to_tensor_dtype(x.dtype)
    nodes = [helper.make_node(operation, ["x", "a"], ["t"]), helper.make_node(operation, ["t", "b"], ["y"])]
    constants = [numpy_helper.from_array(np.array(value, kind), name) for name, value in (("a", a), ("b", b))]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", of, x.shape)], [helper.make_tensor_value_info("y", of, x.shape)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    simple, check = onnxsim.simplify(model)
    assert check
    results = [onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0] for m in (model, simple)]
    print(f"{operation} of {np.dtype(kind)} {numbers} by {a} and {b}: before {results[0].tolist()}, after {results[1].tolist()}")
    return results, len(simple.graph.node)


(before, after), left = both("Mul", np.float32, [0.0, 1e-30, -1e-30], 1e20, 1e20)
assert left == 1 and np.allclose(before, [0, 1e10, -1e10])
assert np.isnan(after[0]) and after[1:].tolist() == [np.inf, -np.inf]
(before, after), left = both("Mul", np.float32, [1e10, 1e-10], 1e30, 1e-30)
assert left == 1 and before[0] == np.inf and np.allclose(after, [1e10, 1e-10])
(before, after), left = both("Mul", np.float16, [0.0, 0.5], 256, 256)
assert left == 2 and before.tolist() == after.tolist() == [0, 32768]
(before, after), left = both("Add", np.float32, [1.0, 2.0], 1e8, -1e8)
assert left == 2 and before.tolist() == after.tolist() == [0, 0]
PYTHON
