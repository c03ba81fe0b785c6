#!/usr/bin/env bash
# triton 3.9.0: the type of an operation on tensors of two types.
# Guess: as its text on promotion has it, the kind decides before the width: int32 and bf16 is bf16 (its own example), as int32 and
# fp16 is fp16. The text makes no exception for quotients, so of 16-bit floats they are 16 bits wide.
# Seen: int32 and bf16 is fp32 (of +, *, where, maximum); int32 and fp16 is fp16, in which 65520 is infinite. / and % of
# 16-bit floats, and of int8 and int8 the /, are fp32. (That fp16 and bf16 is fp16 is as documented; torch and jax take f32.)
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q numpy==2.3.5 triton==3.9.0
cat >"$folder/seen.py" <<'PYTHON'
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def operation(X, Y, Z, OP: tl.constexpr):
    i = tl.arange(0, 128)
    x = tl.load(X + i)
    y = tl.load(Y + i)
    if OP == 0:
        z = x + y
    elif OP == 1:
        z = x * y
    elif OP == 2:
        z = tl.where(i > 3, x, y)
    elif OP == 3:
        z = tl.maximum(x, y)
    elif OP == 4:
        z = x / y
    elif OP == 5:
        z = x % y
    elif OP == 6:
        z = x * 2.5
    tl.static_assert(z.dtype == Z.dtype.element_ty)
    tl.store(Z + i, z)


def type_of(x, y, op):
    """The one type for which the assertion in the kernel holds."""
    for z in ("fp16", "bf16", "fp32", "i8", "i32"):
        source = ASTSource(operation, {"X": "*" + x, "Y": "*" + y, "Z": "*" + z, "OP": "constexpr"}, {"OP": op})
        try:
            triton.compile(source, target=GPUTarget("cuda", 90, 32))
        except triton.CompilationError:
            continue
        return z
    return None


NAMES = ["+", "*", "where", "maximum", "/", "%", "* 2.5"]
good = True
for x, y, expected in [("i32", "bf16", ["fp32"] * 4), ("i32", "fp16", ["fp16"] * 4), ("fp16", "bf16", ["fp16"] * 4 + ["fp32"] * 2),
                       ("bf16", "fp16", ["fp16"] * 4), ("fp16", "fp16", ["fp16"] * 4 + ["fp32"] * 2 + ["fp16"]),
                       ("bf16", "bf16", ["bf16"] * 4 + ["fp32"] * 2 + ["bf16"]), ("i8", "i8", ["i8"] * 4 + ["fp32", "i8", "fp32"])]:
    seen = [type_of(x, y, op) for op in range(len(expected))]
    print(x, y, ", ".join(f"{name}: {z}" for name, z in zip(NAMES, seen)))
    good &= seen == expected
raise SystemExit(not good)
PYTHON
HOME=$folder TRITON_CACHE_DIR=$folder/triton "$folder/venv/bin/python" "$folder/seen.py"
