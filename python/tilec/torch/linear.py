"""linear.py - the cross-entropy of a linear layer without its logits in memory, by the kernels of examples/linear_cross_entropy.tile.

Gradients compute logits again, of some classes at a time (BYTES of their gradients), so that all of dW is made once and dX is added to.
"""
import functools

import torch

from tilec.torch import attend, gradient, operators, values as numbers
from tilec.torch.error import Error
from tilec.torch.gpu import DEVICE_TYPE
from tilec.torch.kernel import Kernel

TYPES = {"T": ("f16", "bf16")}
TILE = 256  # classes of a tile
BYTES = 2**28  # of the logits' gradients, at a time
SOURCE, NAME = "linear_cross_entropy.tile", "linear_cross_entropy"


@functools.lru_cache(maxsize=None)
def _kernel(*names, returns, values=()):
    return Kernel(attend.program(SOURCE), [f"{NAME}_{name}" for name in names], returns=returns, types=TYPES, values=values,
                  name=f"{NAME}_{names[-1]}")


def _forward_kernel():
    return _kernel("parts", "rows", returns=("Loss", "L"), values=("softcap", "smoothing", "S", "SMOOTH", "SOFTCAP"))


def _logits_kernel():
    return _kernel("logits", returns=("G",), values=("first", "classes", "softcap", "smoothing", "SMOOTH", "SOFTCAP"))


def _forward(x, weight, target, softcap, smoothing):
    parts = -(-weight.shape[0] // TILE) if smoothing else 0
    return _forward_kernel().run(x, weight, target, softcap, smoothing, parts, smoothing > 0, softcap > 0)


def _step(rows):
    """Classes at a time: as many tiles as have BYTES, and one at least."""
    return max(BYTES // (2 * max(rows, 1)) // TILE, 1) * TILE


def _backward(d_loss, d_lse, x, weight, target, lse, softcap, smoothing, of_x, of_weight):
    rows, classes = x.shape[0], weight.shape[0]
    valid = (target >= 0) & (target < classes)
    b = torch.where(valid, d_loss, 0.0) if d_loss is not None else torch.zeros_like(lse)
    a = b if d_lse is None else b + d_lse
    scale = torch.maximum(a.abs().amax(), b.abs().amax()) if rows else lse.new_ones(())  # a power of two, by which gradients of f16 are normal numbers
    scale = torch.where(scale > 0, torch.exp2(torch.ceil(torch.log2(scale))), 1.0).view(1)
    a, b = a / scale, b / scale
    dx = torch.zeros(x.shape, dtype=torch.float32, device=x.device) if of_x else None
    dw = torch.empty(weight.shape, dtype=weight.dtype, device=weight.device) if of_weight else None
    options = softcap, smoothing, smoothing > 0, softcap > 0
    for first in range(0, classes if rows else 0, _step(rows)):
        w = weight[first:first + _step(rows)]
        g = _logits_kernel().run(x, w, target, lse, a, b, first, classes, *options)
        if of_weight:
            _kernel("dw", returns=("dW",))(G=g, X=x, Scale=scale, dW=dw[first:first + len(w)])
        if of_x:
            _kernel("dx", returns=("dX",))(G=g, W=w, Scale=scale, dX=dx)
    if of_weight and not rows:
        dw.zero_()
    return dx.to(x.dtype) if of_x else x.new_empty(0), dw if of_weight else weight.new_empty(0)


def _fake_forward(x, weight, target, softcap, smoothing):
    return tuple(x.new_empty(x.shape[0], dtype=torch.float32) for _ in range(2))


def _fake_backward(d_loss, d_lse, x, weight, target, lse, softcap, smoothing, of_x, of_weight):
    return x.new_empty(x.shape if of_x else 0), weight.new_empty(weight.shape if of_weight else 0)


def _setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3], output[1])
    ctx.values = inputs[3:]
    ctx.set_materialize_grads(False)


def _differentiate(ctx, d_loss, d_lse):
    of_x, of_weight = ctx.needs_input_grad[:2]
    made = None, None
    if d_loss is not None or d_lse is not None:
        given = [None if d is None else d.contiguous() for d in (d_loss, d_lse)]
        made = torch.ops.tilec.linear_cross_entropy_backward(*given, *ctx.saved_tensors, *ctx.values, of_x, of_weight)
        made = [d if wanted else None for d, wanted in zip(made, (of_x, of_weight))]
    return *made, None, None, None


def _refuse_second(ctx, *grads):
    raise Error(gradient.NO_SECOND.format(NAME))


def _register():
    of = operators._library
    of.define(f"{NAME}(Tensor x, Tensor weight, Tensor target, float softcap, float smoothing) -> (Tensor, Tensor)")
    of.impl(NAME, _forward, "CompositeExplicitAutograd")
    torch.library.register_fake(f"tilec::{NAME}", _fake_forward, lib=of)
    of.define(f"{NAME}_backward(Tensor? d_loss, Tensor? d_lse, Tensor x, Tensor weight, Tensor target, Tensor lse, float softcap, float smoothing, "
              "bool of_x, bool of_weight) -> (Tensor, Tensor)")
    of.impl(f"{NAME}_backward", _backward, "CompositeExplicitAutograd")
    torch.library.register_fake(f"tilec::{NAME}_backward", _fake_backward, lib=of)
    torch.library.register_autograd(f"tilec::{NAME}", _differentiate, setup_context=_setup, lib=of)
    torch.library.register_autograd(f"tilec::{NAME}_backward", _refuse_second, lib=of)


_register()


def _name(tensor):
    return str(tensor.dtype).removeprefix("torch.")


def _operand(name, tensor, dimensions):
    """x or the weight, with rows where kernels read them."""
    if not isinstance(tensor, torch.Tensor):
        raise Error(f"{NAME}: {name} must be a tensor, not {type(tensor).__name__}")
    if torch.is_autocast_enabled(DEVICE_TYPE) and tensor.is_floating_point():
        tensor = tensor.to(torch.get_autocast_dtype(DEVICE_TYPE))
    if tensor.dtype not in (torch.float16, torch.bfloat16):
        raise Error(f"{NAME}: {name} is {_name(tensor)}, and the kernels take float16 and bfloat16: cast it, or use torch.autocast")
    if dimensions and tensor.dim() != dimensions or not tensor.dim():
        raise Error(f"{NAME}: {name} is {list(tensor.shape)}, and must be {'[classes, features]' if dimensions else '[.., features]'}")
    return tensor


def _aligned(tensor):
    """Rows of whole 16 bytes, where a copy in 16 bytes can read them."""
    across, along = tensor.stride()
    if along == 1 and not across % 8 and (torch.compiler.is_compiling() or not tensor.data_ptr() % 16):
        return tensor
    return tensor.contiguous() if tensor.stride() != (tensor.shape[1], 1) else tensor.clone()


def _limit(name, value, most=numbers.LARGEST_F32):
    value = numbers.plain(NAME, name, value, none=False)
    if not 0 <= value <= most:
        raise Error(f"{NAME}: {name} is {'from 0 to 1' if most == 1 else '0 or more'}, and not {value}")
    return float(value)


def linear_cross_entropy(x, weight, target, *, ignore_index=-100, label_smoothing=0.0, softcap=None, z_loss=0.0, reduction="mean"):
    """The cross-entropy of the logits x weight^T, [.., classes], of x [.., features] and weight [classes, features], both float16 or bfloat16, as
    torch.nn.functional.cross_entropy has it, float32; logits are float32 and never in memory as a whole.

    target           the class of each row; rows whose target is `ignore_index`, or no class, do not count
    label_smoothing  this share of a target is every class's alike
    softcap          logits become softcap * tanh(logits / softcap)
    z_loss           this times the square of the log-sum-exp is added to a row's loss
    reduction        mean (over rows that count), sum or none
    """
    x, weight = _operand("x", x, 0), _operand("weight", weight, 2)
    if x.dtype != weight.dtype:
        raise Error(f"{NAME}: x is {_name(x)} and weight {_name(weight)}: cast one of them, or use torch.autocast")
    classes, features = weight.shape
    if x.shape[-1] != features or features % 8 or not features or not classes:
        raise Error(f"{NAME}: x is {list(x.shape)} and weight {list(weight.shape)}: both have the same number of features, a multiple of 8")
    if not isinstance(target, torch.Tensor) or target.dtype not in (torch.int64, torch.int32) or target.shape != x.shape[:-1]:
        said = f"{_name(target)} {list(target.shape)}" if isinstance(target, torch.Tensor) else f"a {type(target).__name__}"
        raise Error(f"{NAME}: target is {said}, and must be int64 or int32 {list(x.shape[:-1])}, a class for each row")
    if reduction not in ("mean", "sum", "none"):
        raise Error(f"{NAME}: reduction is mean, sum or none, not {reduction}")
    smoothing, z = _limit("label_smoothing", label_smoothing, 1), _limit("z_loss", z_loss)
    cap = 0.0 if softcap is None else _limit("softcap", softcap)
    labels = target.reshape(-1)
    valid = (labels != ignore_index) & (labels >= 0) & (labels < classes)
    labels = torch.where(valid, labels, -1).to(torch.int32)
    loss, lse = torch.ops.tilec.linear_cross_entropy(_aligned(x.reshape(-1, features)), _aligned(weight), labels, cap, smoothing)
    if z:
        loss = loss + z * torch.where(valid, lse * lse, 0.0)
    if reduction == "none":
        return loss.view(target.shape)
    return loss.sum() if reduction == "sum" else loss.sum() / valid.sum()
