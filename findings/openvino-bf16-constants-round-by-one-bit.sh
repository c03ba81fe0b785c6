#!/usr/bin/env bash
# openvino 2026.4.1: Convert of f32 to bf16, i4 and u4, of a constant (folded, as weights are) and of a parameter (its CPU device).
# Guess: to bf16 to nearest even in both; i4 has 16 values, and what is beyond saturates or wraps, in both alike.
# Seen: of a constant bf16 is rounded up only where the number below has an odd code, and else cut off: 7.4 is 7.375, and 1.0077 is
# 1 though 1.0078125 is a bf16. At run time it is rounded. i4 of a constant wraps (8 is -8, 20 is 4); at run time
# Convert to i4 and back leaves 8 and 20 as they are, u4 of -1 is 255: there it is 8 bits wide.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 openvino==2026.4.1
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import openvino.opset13 as op
from openvino import Core, Model, Type

core = Core()


def both(kind, values):
    """There and back, of a constant and of a parameter."""
    x = np.array(values, np.float32)
    constant = Model([op.convert(op.convert(op.constant(x), kind), Type.f32)], [])
    parameter = op.parameter([len(x)], Type.f32)
    variable = Model([op.convert(op.convert(parameter, kind), Type.f32)], [parameter])
    hint = {"INFERENCE_PRECISION_HINT": "f32"}
    made = [core.compile_model(model, "CPU", hint)(given)[0].tolist() for model, given in ((constant, []), (variable, [x]))]
    print(kind, values, "constant", made[0], "parameter", made[1])
    return made


folded, run = both(Type.bf16, [7.4, 1.0077, 1.0079, 1.0119, 1 + 2 ** -8, 1 + 3 * 2 ** -8])
assert folded == [7.375, 1, 1.0078125, 1.015625, 1, 1.015625]
assert run == [7.40625, 1.0078125, 1.0078125, 1.015625, 1, 1.015625]
assert both(Type.i4, [7, 8, 20, -9]) == [[7, -8, 4, 7], [7, 8, 20, -9]]
assert both(Type.u4, [15, 16, -1]) == [[15, 0, 15], [15, 16, 255]]
PYTHON
