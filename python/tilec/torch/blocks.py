"""blocks.py - what one process computes of attention that is spread over several: by kernels."""
import functools
import re

import torch

from tilec.torch import attend, packed
from tilec.torch.code import Source
from tilec.torch.error import Error
from tilec.torch.kernel import Kernel

# ALiBi where heads and keys are some of many: which head is the first, of how many, and how far behind its place by the
# agreement of ends a query stands.
PLACED = {"alibi_slope(h, Hq)": "alibi_slope(h + first_head, all_heads)", "Sk - Sq": "Sk - Sq + shift",
          "scale: f32, softcap: f32)": "scale: f32, softcap: f32, first_head: i32, all_heads: i32, shift: i32)"}
PLACES = ("first_head", "all_heads", "shift")
# Gradients that are added to others (d[QKV], or d[Q] alone): float32, as the kernels have them before they round.
WIDE = {r"(\bd[{}]:\s*out\s+)T\b": r"\1f32", r"(store d[{}]\[[^;]*) as T;": r"\1 as f32;"}


def _placed(name):
    with open(attend.program(name)) as file:
        text = file.read()
    for have, want in PLACED.items():
        if have not in text:
            raise Error(f"{name} has no '{have}' that could be placed")
        text = text.replace(have, want)
    return text


def _wide(text, keys):
    for have, want in WIDE.items():
        text, count = re.subn(have.replace("{}", "QKV" if keys else "Q"), want, text)
        if not count:
            raise Error(f"the backward has no '{have}' that could be float32")
    return Source(text)


PLACED_OPTIONS = {"types": attend.TYPES, "values": attend.VALUES + PLACES, "choose": attend._with_scale}
GRADIENTS = ("dQ", "dK", "dV")


@functools.lru_cache(maxsize=None)
def placed_kernel():
    """attention.tile and its backward without atomic sums, with PLACES as more values."""
    backward = functools.partial(Kernel, Source(_placed("attention_bwd.tile")), attend.DETERMINISTIC, returns=GRADIENTS,
                                 name="attention_placed_backward", **PLACED_OPTIONS)
    return Kernel(Source(_placed("attention.tile")), returns=("O", "L"), backward=backward, name="attention_placed",
                  **PLACED_OPTIONS)


@functools.lru_cache(maxsize=None)
def wide_placed_backward(keys):
    return Kernel(_wide(_placed("attention_bwd.tile"), keys), attend.DETERMINISTIC, returns=GRADIENTS,
                  name="attention_placed_backward_wide" + "_keys" * keys, **PLACED_OPTIONS)


@functools.lru_cache(maxsize=None)
def wide_backward(deterministic, keys):
    """The backward of attend.forward_kernel("bshd", deterministic) for some of the keys of which O is: dQ is float32, with
    `keys` dK and dV, too, and delta always comes from O."""
    with open(attend.program("attention_bwd.tile")) as file:
        return attend.backward_kernel("bshd", deterministic, _wide(file.read(), keys), "attention_backward_wide" + "_keys" * keys)


@functools.lru_cache(maxsize=None)
def _merge_kernel():
    return Kernel(attend.program("attention_merge.tile"), ("attention_merge",),
                  types={**attend.TYPES, "TO": ("f16", "bf16", "f32")})


@functools.lru_cache(maxsize=256)
def _starts(starts, device):
    return torch.tensor(starts, dtype=torch.int32, device=device)


def _given(kernel, mask):
    """The values of a kernel, in its order."""
    values = {"scale": mask.scale, "softcap": mask.softcap, "CAUSAL": mask.causal, "WINDOW": mask.window,
              "RIGHT": mask.right, "SOFTCAP": mask.softcap > 0, "ALIBI": mask.alibi, "first_head": mask.first,
              "all_heads": mask.heads, "shift": mask.shift}
    if mask.starts is not None:
        values["longest"] = max(b - a for a, b in zip(mask.starts, mask.starts[1:]))
    return [values[name] for name in kernel.values]


class Blocks:
    """Attention of some rows and some keys, its gradients, and the sum of two results."""

    def __init__(self, deterministic=False):
        self.deterministic = deterministic

    def kernel(self, mask):
        if mask.starts is not None:
            return packed.packed_kernel()
        return placed_kernel() if mask.alibi else attend.forward_kernel("bshd", self.deterministic)

    def packs(self, mask):
        """Whether one launch can have several sequences."""
        return not (self.deterministic or mask.alibi or mask.right >= 0)

    def forward(self, q, k, v, mask):
        """O in the type of q, and L."""
        kernel = self.kernel(mask)
        if mask.starts is None:
            return kernel.run(q, k, v, *_given(kernel, mask))
        starts = _starts(mask.starts, q.device)
        o, lse = kernel.run(q[0], k[0], v[0], starts, starts, *_given(kernel, mask))
        return o[None], lse[None]

    def backward(self, q, k, v, o, lse, grad, mask):
        """dQ, dK, dV of these rows and all their keys."""
        return self._backward(self.kernel(mask).backward, q, k, v, o, lse, grad, mask)

    def backward_parts(self, q, k, v, o, lse, grad, mask, keys=True):
        """dQ, dK, dV by some of the keys of which o and lse are, float32 (dK and dV where `keys` says so) but for several
        sequences in one launch."""
        if mask.starts is not None:
            return self.backward(q, k, v, o, lse, grad, mask)
        backward = wide_placed_backward(keys) if mask.alibi else wide_backward(self.deterministic, keys)
        return self._backward(backward, q, k, v, o, lse, grad, mask)

    def _backward(self, backward, q, k, v, o, lse, grad, mask):
        have = {"Q": q, "K": k, "V": v, "O": o, "L": lse, "dO": grad}
        if mask.starts is not None:
            have = {name: x[0] for name, x in have.items()}
            have["starts_q"] = have["starts_k"] = _starts(mask.starts, q.device)
        made = backward.run(*[have[name] for name in backward.inputs], *_given(backward, mask))
        return [x[None] for x in made] if mask.starts is not None else made

    def merge(self, o, lse, more, more_lse):
        """Adds a result to (o, lse), o float32 or of the type of q, in place."""
        _merge_kernel()(P=more, LP=more_lse, O=o, L=lse)
