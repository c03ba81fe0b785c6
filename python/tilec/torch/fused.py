"""fused.py - products by quantised weights that become floats on their way into products (examples/quantised/tiles.tile): no matrix
is made, and weights are copied ahead of them.  For targets whose products take an operand from registers.
"""
import functools
from dataclasses import dataclass

import torch

from tilec.torch import attend
from tilec.torch.code import Source
from tilec.torch.kernel import Kernel

ARCHS = ("sm_90",)
OF_X = ("f16", "bf16")
OF_BYTES = {"int8": "int8_few", "fp8": "fp8_few"}  # few.tile
# Above, a matrix that is made once costs less than weights that are unpacked for each 256 rows (H200): of one that stays in L2, and of others
MOST_ROWS = {"gptq": (512, 2048), "awq": (2048, 2048), "mxfp4": (1280, 1280), "int8": (2560, 2560), "fp8": (2560, 2560)}
OF_L2 = 40 << 20
AS_WORDS = {"gptq": 1}  # up to so many rows, if K is whole, kernels of warps that compute with words (gptq_few.tile) are quicker
LEAST_TILES = 4  # of K, in a part


@dataclass(frozen=True)
class Form:
    """Rows, columns and depth of a tile, whether sums are scaled in place of weights, consumers in a block, stages, and parts of K."""
    tm: int
    tn: int
    tk: int
    sums: bool
    consumers: int
    stages: int
    parts: int = 1


@functools.lru_cache(maxsize=None)
def _kernel(file, names, dtype, plan):
    """Kernels of a file alone, with its functions: its others are not compiled with them."""
    with open(attend.program(f"quantised/{file}")) as opened:
        head, *kernels = opened.read().split("\nkernel ")
    text = head + "".join("\nkernel " + text for text in kernels if text.startswith(tuple(name + "<" for name in names)))
    return Kernel(Source(text), names, returns=("Y",), types={"T": OF_X}, defines={"TY": dtype}, name="matmul_" + names[0], plan=plan)


def _by_columns(name):
    """Whether a row of the weights has one of K."""
    return name in ("gptq", "awq")


def _as_words(name, tensors):
    """Tensors as tiles.tile has them; the memory is the same."""
    words = {"gptq": "Z", "awq": "QZ", "mxfp4": "QS"}.get(name, "")
    return {**tensors, **{of: tensors[of].flatten(1).view(torch.int32) for of in words}}


def form_of(name, tensors, values, sm_count):
    """The form that was the quickest where it was measured (H200, 4096 x 4096 and 28672 x 8192); None: there is none."""
    rows, k = tensors["X"].shape
    n, group = (tensors["S"].shape[1], values["G"]) if _by_columns(name) else (tensors["Q"].shape[0], 128)
    depth = 128 if group % 128 == 0 else 64
    if rows > MOST_ROWS[name][2 * n * k > OF_L2] or group % depth or n % (32 if _by_columns(name) else 8) or k % 128:
        return None
    if name == "mxfp4" and any(tensors[of].storage_offset() % 4 for of in "QS"):  # no words begin there
        return None

    def parts(tiles, consumers):
        """As many as leave each consumer a tile."""
        units, most = k // group, sm_count * consumers // tiles
        return max((p for p in range(1, min(most, k // depth // LEAST_TILES) + 1) if units % p == 0), default=1)

    columns = -(-n // 64)
    if rows <= 16:
        few, tm = parts(columns, 4), 8 if rows <= 8 else 16
        if few == 1 and rows <= AS_WORDS.get(name, 0):
            return None
        return Form(tm, 128, depth, True, 2, 4) if name == "gptq" and few == 1 and rows <= 8 else Form(tm, 64, depth, True, 4, 4, few)
    if rows <= 64:
        tm, wide = 32 if rows <= 32 else 64, columns >= 3 * sm_count
        return Form(tm, 128, depth, True, 2, 3) if wide else Form(tm, 64, depth, True, 2, 4, parts(columns, 2))
    tiles = -(-rows // 64) * columns
    if tiles <= sm_count:
        alone = 4 * tiles >= 3 * sm_count
        return Form(64, 64, depth, True, 1, 6) if alone else Form(64, 64, depth, True, 2, 4, parts(tiles, 2))
    tm = next((tm for tm in (256, 128) if rows > tm // 2 and 2 * -(-rows // tm) * columns >= 3 * sm_count), 64)
    if tm == 128 and depth == 128 and columns >= 3 * sm_count:
        return Form(128, 128, 128, False, 2, 3)
    return Form(tm, 64, depth, False, 2, 3 if tm == 256 else 4)


def call(name, dtype, tensors, values, form):
    """The kernel, tensors and values of a call."""
    tensors, plan = _as_words(name, tensors), f"consumers={form.consumers},stages={form.stages}"
    values = {of: value for of, value in values.items() if of in ("G", "MORE")}
    values.update(TM=form.tm, TN=form.tn, **({} if name == "fp8" and form.sums else {"TK": form.tk}))
    if form.parts == 1 and (name == "int8" or name == "fp8" and form.sums):
        return _kernel("few.tile", (OF_BYTES[name],), dtype, plan), tensors, values
    if form.parts == 1:
        values.update({"SUMS": form.sums} if _by_columns(name) else {})
        return _kernel("tiles.tile", (name + "_tiles",), dtype, plan), tensors, values
    whole = {"S": tensors["S"]} if name == "int8" else {}
    of_k = {of: t for of, t in tensors.items() if of != "X" and of not in whole}
    of_k = {of: t.view(form.parts, -1, t.shape[1]) if _by_columns(name) else t.view(t.shape[0], form.parts, -1) for of, t in of_k.items()}
    names = name + "_parts", "sum_rows" if whole else "sum_parts"
    return _kernel("tiles.tile", names, dtype, plan), {**of_k, **whole, "X": tensors["X"].unflatten(1, (form.parts, -1))}, values
