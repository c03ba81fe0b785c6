"""packed.py - attention over sequences that lie one behind the other in one tensor, by the kernels of examples/."""
import functools

import torch

from tilec.torch import attend, gradient, values as numbers
from tilec.torch.error import Error
from tilec.torch.gpu import DEVICE_TYPE
from tilec.torch.kernel import Kernel
from tilec.torch.watch import constant, is_eager

# Rows in no sequence, and those of a sequence beyond the longest one's, are zeros (no key: L is -inf), not what memory held.
# A program for each place: what lies before its sequence, and behind the last one.
REST = """
kernel {name}<T: type = bf16, {sizes}>({tensors}, longest: i32)
{{
    grid b in P + 1, h in {heads};
    let before = load {starts}[max(b - 1, 0)];
    let start = where(b < P, load {starts}[min(b, P - 1)], {rows});
    let begin = where(b == 0, 0, where(b < P, min(before + longest, start), before));
    for i in 0..cdiv(start - begin, 64) {{
        let m = tiles(begin..start, 64)[i];
        {stores}
    }}
}}
"""
FORWARD_REST = REST.format(
    name="attention_varlen_rest", sizes="DV: int = 128", heads="Hq", starts="starts_q", rows="Tq",
    tensors="starts_q: in i32[P], O: out T[Tq, Hq, DV], L: out f32[Hq, Tq]",
    stores="store O[m, h, :] = zeros<f32>[64, DV] as T; store L[h, m] = zeros<f32>[64] - inf;")
BACKWARD_REST = REST.format(
    name="attention_varlen_bwd_rest", sizes="D: int = 128, DV: int = D", heads="Hk", starts="starts_k", rows="Tk",
    tensors="starts_k: in i32[P], dK: out T[Tk, Hk, D], dV: out T[Tk, Hk, DV]",
    stores="store dK[m, h, :] = zeros<f32>[64, D] as T; store dV[m, h, :] = zeros<f32>[64, DV] as T;")
OF_ALL = """
kernel attention_varlen_bwd_delta_of_all<T: type = bf16, D: int = 128, DV: int = D, M: int = 64>
(   O: in T[Tq, Hq, DV], dO: in T[Tq, Hq, DV], L: in f32[Hq, Tq], dL: in f32[Hq, Tq], starts_q: in i32[P],
    delta: out f32[Hq, R] align(16), L2: out f32[Hq, R] align(16), longest: i32)
{
    grid i in cdiv(longest, M), h in Hq, b in P - 1;
    let start = load starts_q[b];
    let r = tiles(load starts_q[b + 1] - start, M)[i];
    let m = r + start;
    let lse = load L[h, m];
    store delta[h, r + aligned(start, b)] = row_dot(load O[m, h, :], load dO[m, h, :]) - load dL[h, m];
    store L2[h, r + aligned(start, b)] = where(lse == -inf, 1e30, base2(1.0) * lse);
}
"""
FORWARD = ("attention_varlen", "attention_varlen_rest")
BACKWARD = ("attention_varlen_bwd_delta", "attention_varlen_bwd", "attention_varlen_bwd_convert", "attention_varlen_bwd_rest")
VALUES = ("longest", "scale", "softcap", "CAUSAL", "WINDOW", "SOFTCAP")


def _choose(kernel, code, gpu, tensors, values):
    if len(tensors["starts_q"].shape) == 1 and not tensors["starts_q"].shape[0]:
        raise Error("starts_q has no number: it begins with 0 and has one for the end of each sequence")
    if not 0 <= values["longest"] < 2**31:
        raise Error(f"attention_varlen: the longest sequence has {values['longest']} rows")
    names, values = attend._with_scale(kernel, code, gpu, tensors, values)
    # R: what lies between the backward's kernels begins each sequence at a multiple of 4
    rows, places = (sum(tensors[name].shape[:1]) for name in ("Q", "starts_q"))
    return names, {**values, "R": -(-rows // 4) * 4 + 4 * places}


@functools.lru_cache(maxsize=None)
def packed_kernel():
    settle = functools.partial(attend._settle, 0)
    options = {"types": attend.TYPES, "values": VALUES, "settle": settle, "choose": _choose}
    made = {"returns": ("dQ", "dK", "dV"), **options}
    source, of_all = "attention_varlen_bwd.tile", ("attention_varlen_bwd_delta_of_all", *BACKWARD[1:])
    backward = functools.partial(Kernel, attend.with_more(source, BACKWARD_REST), BACKWARD, name="attention_varlen_backward", **made)
    backward_of_all = functools.partial(Kernel, attend.with_more(source, BACKWARD_REST + OF_ALL), of_all,
                                        name="attention_varlen_backward_of_all", **made)
    return Kernel(attend.with_more("attention_varlen.tile", FORWARD_REST), FORWARD, returns=("O", "L"), backward=backward,
                  backward_of_all=backward_of_all, name="attention_varlen", **options)


_operator = []


@constant
def _prepare():
    """As attend.py's: what torch.compile does when it traces, and traces nothing of."""
    _operator[:] = [packed_kernel().registered()]
    return True


def _starts(starts, what):
    if not isinstance(starts, torch.Tensor):
        raise Error(f"{what} must be a tensor of the places where sequences start, not {type(starts).__name__}")
    return starts if starts.dtype == torch.int32 else starts.to(torch.int32)


def _longest(given, starts):
    if given is not None:
        return int(numbers.plain("attention_varlen", "the longest sequence", given))
    return int((starts[1:] - starts[:-1]).max()) if starts.shape[0] > 1 else 0


def attention_varlen(q, k, v, starts_q, starts_k=None, *, longest_q=None, longest_k=None, causal=False, window=None,
                     softcap=0.0, scale=None, return_lse=False):
    """softmax(scale q k^T + mask) v of each sequence by itself, differentiable once.

    q [Tq, Hq, D], k [Tk, Hk, D], v [Tk, Hk, DV], float16 or bfloat16, Hq a multiple of Hk: the rows of all
    sequences one behind the other.  Sequence b has the queries starts_q[b] .. starts_q[b + 1] - 1 and the keys
    starts_k[b] .. starts_k[b + 1] - 1, so that both (on the GPU, int32) have a number more than there are sequences;
    without starts_k they are the same.  Lengths may be 0.  Rows in no sequence, and their gradients, are zeros (L: -inf).

    longest_q, longest_k  at least the most queries and keys of a sequence; None: read from the tensors, for which
                          the host waits.  What a sequence has beyond them is not computed
    causal .. return_lse  as of attention(), by the ends of each sequence's queries and keys; L is [Hq, Tq]
    """
    if torch.is_autocast_enabled(DEVICE_TYPE):
        q, k, v = attend._autocast((q, k, v))
    same = starts_k is None or starts_k is starts_q
    starts_q = _starts(starts_q, "starts_q")
    starts_k = starts_q if same else _starts(starts_k, "starts_k")
    compiled = torch.compiler.is_compiling() or not is_eager()
    if not compiled:
        packed_kernel().check_tensors((q, k, v, starts_q, starts_k))
        q, k, v = (x.resolve_neg() if x.is_neg() else x for x in (q, k, v))
    longest = _longest(longest_q, starts_q)
    tensors = q, k, v, starts_q, starts_k
    recorded = torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in (q, k, v))
    if compiled or recorded:  # one number serves both directions
        longest = max(longest, longest if same and longest_k is None else _longest(longest_k, starts_k))
    scale, softcap, causal, window, _, capped, _ = attend.options(scale, softcap, causal, window, None, False)
    values = (longest, scale, softcap, causal, window, capped)
    if compiled:
        _prepare()
        out = _operator[0](*tensors, *values)
    elif recorded:
        return gradient.apply(packed_kernel(), tensors, values, not return_lse)
    else:
        out = packed_kernel().run(*tensors, *values)
    return out if return_lse else out[0]
