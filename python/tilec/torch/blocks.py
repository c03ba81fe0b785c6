"""blocks.py - what one process computes of attention that is spread over several: by kernels."""
import functools
import re

import torch

from tilec.torch import attend, eight, packed
from tilec.torch.code import Source
from tilec.torch.error import Error
from tilec.torch.kernel import Kernel

# ALiBi where heads and keys are some of many: which head is the first, of how many, and how far behind its place by the
# agreement of ends a query stands.
PLACED = {"alibi_slope(h, Hq)": "alibi_slope(h + first_head, all_heads)", "Sk - Sq": "Sk - Sq + shift",
          "scale: f32, softcap: f32)": "scale: f32, softcap: f32, first_head: i32, all_heads: i32, shift: i32)"}
PLACES = ("first_head", "all_heads", "shift")
# dQ is added to what is there, less its scale, by each kernel that has it; dK and dV that are added to others are float32, as
# the kernels have them before they round.
SUMMED = {r"\bdQ:\s*out\s+T\[": "dQ_sum: inout f32[", r"store dQ\[([^;]*)\] = \(dq \* scale\) as T;": r"store dQ_sum[\1] = load dQ_sum[\1] + dq;"}
WIDE = {r"(\bd[KV]:\s*out\s+)T\b": r"\1f32", r"(store d[KV]\[[^;]*) as T;": r"\1 as f32;"}
# Keys and values on their way (wire.py).
WIRE = """
kernel wire_encode<T: type = bf16, D: int = 128, M: int = 64>
(   X: in T[B, S, H, D], W: in f32[B, H], C: out e4m3[B, S, H, D])
{
    grid m in tiles(S, M), h in H, b in B;
    store C[b, m, h, :] = ((load X[b, m, h, :]) as f32 * (1.0 / load W[b, h])) as e4m3;
}

kernel wire_decode<T: type = bf16, D: int = 128, M: int = 64>
(   C: in e4m3[B, S, H, D], W: in f32[B, H], X: out T[B, S, H, D])
{
    grid m in tiles(S, M), h in H, b in B;
    store X[b, m, h, :] = ((load C[b, m, h, :]) as f32 * load W[b, h]) as T;
}
"""
# What becomes of sums: scaled and rounded once, or two of them one.
SUMS = """
kernel sums_scaled<T: type = bf16, D: int = 128, M: int = 64>
(   P: in f32[B, S, H, D], O: out T[B, S, H, D], scale: f32)
{
    grid m in tiles(S, M), h in H, b in B;
    store O[b, m, h, :] = (load P[b, m, h, :] * scale) as T;
}

kernel sums_added<TP: type = f32, TQ: type = bf16, T: type = bf16, D: int = 128, M: int = 64>
(   P: in TP[B, S, H, D], Q: in TQ[B, S, H, D], O: out T[B, S, H, D])
{
    grid m in tiles(S, M), h in H, b in B;
    store O[b, m, h, :] = ((load P[b, m, h, :]) as f32 + (load Q[b, m, h, :]) as f32) as T;
}
"""


def _placed(name):
    with open(attend.program(name)) as file:
        text = file.read()
    for have, want in PLACED.items():
        if have not in text:
            raise Error(f"{name} has no '{have}' that could be placed")
        text = text.replace(have, want)
    return text


def _summed(text, keys):
    """A backward without the kernel that converts sums of dQ, which they stay."""
    before, _, rest = text.partition(f"kernel {attend.CONVERT}<")
    text = before + rest[rest.find("kernel "):]
    for have, want in (SUMMED | WIDE if keys else SUMMED).items():
        text, count = re.subn(have, want, text)
        if not count:
            raise Error(f"the backward has no '{have}' that could be a sum")
    return Source(text)


def _without_convert(choose, *given):
    names, values = choose(*given)
    return tuple(name for name in names if name != attend.CONVERT), values


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
def summed_placed_backward(keys):
    return Kernel(_summed(_placed("attention_bwd.tile"), keys), attend.DETERMINISTIC, returns=GRADIENTS[1:], given=("dQ_sum",),
                  name="attention_placed_backward_summed" + "_keys" * keys, **PLACED_OPTIONS)


@functools.lru_cache(maxsize=None)
def summed_backward(deterministic, keys):
    """The backward of attend.forward_kernel("bshd", deterministic) for some of the keys of which O is: dQ is added to dQ_sum, with
    `keys` dK and dV are float32, and delta always comes from O."""
    with open(attend.program("attention_bwd.tile")) as file:
        return attend.backward_kernel("bshd", deterministic, _summed(file.read(), keys), "attention_backward_summed" + "_keys" * keys,
                                      summed=True)


@functools.lru_cache(maxsize=None)
def _sums_kernel(name, types):
    return Kernel(Source(SUMS), (name,), types={name: attend.TYPES["T"] + ("f32",) for name in types})


@functools.lru_cache(maxsize=None)
def _wire_kernel(name):
    return Kernel(Source(WIRE), (name,), types=attend.TYPES)


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
        kernel = self.kernel(mask).backward
        made = kernel.run(*self._given(kernel, mask, Q=q, K=k, V=v, O=o, L=lse, dO=grad))
        return [x[None] for x in made] if mask.starts is not None else made

    def query_sums(self, q):
        """Where backward_parts adds dQ, less its scale: zeros in float32, whose rows begin where tensor maps can."""
        d = q.shape[3]
        made = torch.zeros((*q.shape[:3], -(-d // 4) * 4), dtype=torch.float32, device=q.device)
        return made if d % 4 == 0 else made[:, :, :, :d]

    def backward_parts(self, q, k, v, o, lse, grad, mask, sums, keys=True):
        """dK, dV by some of the keys of which o and lse are, where `keys` says so float32 but for several sequences in one
        launch; dQ is added to `sums`."""
        if mask.starts is not None:
            dq, *those = self.backward(q, k, v, o, lse, grad, mask)
            sums.add_(dq, alpha=1 / mask.scale)
            return those
        kernel = summed_placed_backward(keys) if mask.alibi else summed_backward(self.deterministic, keys)
        return kernel.run(*self._given(kernel, mask, Q=q, K=k, V=v, O=o, L=lse, dO=grad, dQ_sum=sums))

    def query_gradient(self, sums, scale, dtype):
        """dQ of its sums."""
        out = torch.empty(sums.shape, dtype=dtype, device=sums.device)
        _sums_kernel("sums_scaled", ("T",))(P=sums, O=out, scale=scale)
        return out

    def add(self, a, b, out):
        """The sum of two parts of gradients, rounded once."""
        _sums_kernel("sums_added", ("TP", "TQ", "T"))(P=a, Q=b, O=out)

    def encode(self, x, scales):
        """Bytes that are e4m3, which times these scales are x rounded."""
        made = torch.empty(x.shape, dtype=attend.E4M3, device=x.device)
        _wire_kernel("wire_encode")(X=x, W=scales, C=made)
        return made.view(torch.uint8)

    def decode(self, codes, scales, dtype):
        made = torch.empty(codes.shape, dtype=dtype, device=codes.device)
        _wire_kernel("wire_decode")(C=codes.view(attend.E4M3), W=scales, X=made)
        return made

    def _given(self, kernel, mask, **have):
        if mask.starts is not None:
            have = {name: x[0] for name, x in have.items()}
            have["starts_q"] = have["starts_k"] = _starts(mask.starts, have["Q"].device)
        return *[have[name] for name in kernel.inputs], *_given(kernel, mask)

    def merge(self, o, lse, more, more_lse):
        """Adds a result to (o, lse), o float32 or of the type of q, in place."""
        _merge_kernel()(P=more, LP=more_lse, O=o, L=lse)


class Eight(Blocks):
    """Of bytes that are e4m3, with the scales of q; forward alone."""

    def __init__(self, scale_q):
        super().__init__()
        self.scale_q = scale_q

    def packs(self, mask):
        return False

    def forward(self, q, k, v, scale_k, scale_v, mask):
        q, k, v = (x.view(attend.E4M3) for x in (q, k, v))
        return eight.forward_kernel("bshd").run(v, q, k, self.scale_q, scale_k, scale_v, mask.scale, mask.causal, mask.window)
