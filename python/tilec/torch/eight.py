"""eight.py - attention of tensors of 8 bits, with a scale for each head (attend.py)."""
import functools

import torch

from tilec.torch import attend, values as numbers
from tilec.torch.error import Error
from tilec.torch.kernel import Kernel
from tilec.torch.watch import constant, is_eager

VALUES = ("scale", "CAUSAL", "WINDOW")
KERNELS = ("attention_fp8_turn", "attention")
TURN = """
// V with its keys side by side, as products of 8 bits read them.
kernel attention_fp8_turn<T: type = e4m3, DV: int = 128, R: int = 128>
(   W: in T[B, Sk, Hk, DV], V: out T[B, Hk, DV, Sk] align(16))
{
    grid n in tiles(Sk, R), h in Hk, b in B;
    store V[b, h, :, n] = (load W[b, n, h, :]).T;
}
"""


@functools.lru_cache(maxsize=None)
def forward_kernel(layout):
    return Kernel(attend.with_more("attention_fp8.tile", TURN), KERNELS, order=attend._orders(layout, ("W", "Q", "K", "O")),
                  returns=("O", "L"), choose=attend._with_scale, types={"T": ("e4m3",)}, values=VALUES,
                  settle=functools.partial(attend._settle, 1 if layout == "bshd" else 2),
                  name="attention_fp8" + ("" if layout == "bshd" else "_" + layout))


_operators = {}  # by layout


@constant
def _prepare(layout):
    """As attend.py's: what torch.compile does when it traces, and traces nothing of."""
    _operators[layout] = forward_kernel(layout).registered()
    return True


def _scales(name, given, like, heads):
    """A scale for each sequence and head of them."""
    shape = like.shape[0], like.shape[heads]
    if not isinstance(given, torch.Tensor):
        given = 1.0 if given is None else float(numbers.plain("attention", name, given))
        return torch.full(shape, given, dtype=torch.float32, device=like.device)
    if tuple(given.shape) == shape and given.dtype == torch.float32:
        return given
    try:
        return given.to(torch.float32).expand(shape).contiguous()
    except RuntimeError:
        raise Error(f"attention: {name} has the shape {list(given.shape)}: it is a number, or [B, heads], [heads] or [], of {shape[0]} "
                    f"sequences and {shape[1]} heads") from None


def checked(q, k, v, scales, values, layout):
    """The scales of q, k and v, a float32 [B, heads] each, behind what is refused; attend.py has checked that q is e4m3."""
    _, _, _, _, right, capped, alibi = values
    if capped or alibi or right >= 0:
        raise Error("attention: tensors of 8 bits go without a softcap, ALiBi and `right`: give float16 or bfloat16")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 4 or x.dtype != attend.E4M3:
            raise Error(f"attention: {name} has {x.dim()} dimensions and the type {x.dtype}; q, k and v of 8 bits are [B, S, H, D] "
                        "in torch.float8_e4m3fn")
    heads = 2 if layout == "bshd" else 1
    given = [_scales(name, x, like, heads) for name, x, like in zip(("scale_q", "scale_k", "scale_v"), scales, (q, k, k))]
    if torch.is_grad_enabled() and any(x.requires_grad for x in (q, k, v, *given)):
        raise Error("attention: tensors of 8 bits and their scales have no gradients here: detach them, or give float16 or bfloat16")
    return given


def attention(q, k, v, scales, values, layout):
    """(O, L): attend.py has checked that q is e4m3."""
    scale, _, causal, window, *_ = values
    if not torch.compiler.is_compiling():
        attend.forward_kernel(layout, False).check_tensors((q, k, v))
    arguments = v, q, k, *checked(q, k, v, scales, values, layout), scale, causal, window
    if torch.compiler.is_compiling() or not is_eager():
        _prepare(layout)
        return _operators[layout](*arguments)
    return forward_kernel(layout).run(*arguments)
