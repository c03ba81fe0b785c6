"""torch_plain.py - plain operations in place of tilec's kernels of attention, for checks of what surrounds them on a machine
without a GPU: torch_models.py and torch_families.py with TILEC_MODELS_ON=cpu.

What the kernels refuse is refused here too: operands of other types than two of 16 bits, heads that do not fit.
"""
import torch

from torch_product import reference


TYPES = [torch.float16, torch.bfloat16]


def _checked(q, k, v):
    from tilec.torch import Error

    for name, x in zip("QKV", (q, k, v)):
        if x.dim() != 4:
            raise Error(f"attention: {name} has {x.dim()} dimensions, not 4")
        if x.dtype not in TYPES:
            raise Error(f"attention: {name} is {x.dtype}, and the kernel takes f16 and bf16")
        if x.dtype != q.dtype:
            raise Error(f"attention: {name} is {x.dtype}, and Q {q.dtype}")
    if k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3] or q.shape[2] % k.shape[2]:
        raise Error(f"attention: Q {list(q.shape)}, K {list(k.shape)} and V {list(v.shape)} do not fit")


def attention(q, k, v, *, causal=False, window=None, right=None, softcap=0.0, scale=None, alibi=False, layout="bshd",
              deterministic=False, return_lse=False):
    """tilec.torch.attention."""
    if layout == "bhsd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    _checked(q, k, v)
    out, lse = reference(q.float(), k.float(), v.float(), causal, window, right, softcap, scale, alibi)
    out = out.to(q.dtype).contiguous()
    out = out.transpose(1, 2) if layout == "bhsd" else out
    return (out, lse) if return_lse else out


class Kernel:
    """As much of attend.forward_kernel()'s as the operators of torch.compile use."""
    inputs, returns, name = ("Q", "K", "V"), ("O", "L"), "attention"
    constants = {}
    values = ("scale", "softcap", "CAUSAL", "WINDOW", "RIGHT", "SOFTCAP", "ALIBI")

    def __init__(self, backward=None):
        self.backward, self.backward_of_all = backward, None

    def run(self, q, k, v, scale, softcap, causal, window, right, has_softcap, alibi):
        limits = {"window": None if window == 0 else window, "right": None if right == -1 else right}
        return attention(q, k, v, causal=causal, softcap=softcap if has_softcap else 0.0, scale=scale, alibi=alibi,
                         return_lse=True, **limits)


class Backward(Kernel):
    inputs, returns, name = ("Q", "K", "V", "O", "dO", "L"), ("dQ", "dK", "dV"), "attention_backward"

    def run(self, q, k, v, out, grad, lse, scale, softcap, causal, window, right, has_softcap, alibi):
        """By formulas: an operator's code is not recorded by autograd."""
        group, heads = q.shape[2] // k.shape[2], k.shape[2]
        q64, k64, v64, o64, g64 = (x.double().transpose(1, 2) for x in (q, k, v, out, grad))
        k64, v64 = (x.repeat_interleave(group, 1) for x in (k64, v64))
        scale = q.shape[3] ** -0.5 if scale is None else scale
        s = scale * q64 @ k64.transpose(2, 3)
        slope = 1.0
        if has_softcap:
            s = softcap * torch.tanh(s / softcap)
            slope = 1 - (s / softcap) ** 2
        after = torch.arange(k.shape[1])[None] - (torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1])
        right = 0 if causal else right
        seen = (after <= right) | (torch.tensor(right) < 0)
        if window:
            seen = seen & (after > -window)
        p = torch.exp(s - lse.double()[..., None]).masked_fill(~seen, 0)
        ds = scale * slope * p * (g64 @ v64.transpose(2, 3) - (g64 * o64).sum(-1, keepdim=True))
        summed = lambda x: x.reshape(x.shape[0], heads, group, *x.shape[2:]).sum(2)  # noqa: E731
        made = ds @ k64, summed(ds.transpose(2, 3) @ q64), summed(p.transpose(2, 3) @ g64)
        return tuple(x.transpose(1, 2).to(q.dtype) for x in made)


def instead_of_kernels(any_type=False):
    """Puts the stand-ins where tilec.torch.transformers calls kernels; `any_type`: they take float32 too, so that what
    differs from a reference is not rounding."""
    from tilec.torch import attend

    if any_type:
        TYPES.append(torch.float32)
    kernel = Kernel(Backward())
    attend.attention = attention
    attend.forward_kernel = lambda layout, deterministic: kernel
