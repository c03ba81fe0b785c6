"""experts.py - the experts of a mixture, by the kernels of examples/experts.tile."""
import functools
from dataclasses import dataclass

import torch

from tilec.torch import attend, values as numbers
from tilec.torch.code import Source
from tilec.torch.error import Error
from tilec.torch.gpu import DEVICE_TYPE
from tilec.torch.kernel import Kernel
from tilec.torch.plan import same_gpu
from tilec.torch.watch import constant, is_eager

OF_X, OF_SCORES = (torch.float16, torch.bfloat16), (torch.float32, torch.bfloat16, torch.float16)
TYPES = {"T": ("f16", "bf16"), "TL": ("f32", "bf16", "f16")}
MOST_EXPERTS, MOST_OF_A_TOKEN = 4096, 64
ROUTERS = {"routed": "experts_router", "biased": "experts_router_biased", "given": "experts_count"}
VALUES = {"routed": ("scale", "KK", "SIGMOID", "NORMALIZE"), "biased": ("scale", "KK", "GROUPS", "BEST", "NORMALIZE"), "given": ("KK",)}


OF_PLANS, NO_PLANS = "sm_90", ("", "")  # the target whose plans are written
WHOLE_TILES = ("sm_100", "sm_103")  # targets whose products have 128 rows; elsewhere two programs of 64 share a tile
FEW_TOKENS, ONE_BY_ONE = 128, 1


@dataclass(frozen=True)
class Form:
    """Rows of a tile of the list, few: the weights are the rows of products, columns and depth of both products' tiles, plans; fp8: weights
    of 8 bits, whose products have a depth of 128; rows: tokens of a program of what is not a product, 0: as the kernels have it;
    whole: a program has a tile's rows."""
    tm: int = 128
    few: bool = False
    gate_up: tuple = (128, 64)
    down: tuple = (256, 64)
    plans: tuple = ("", "")
    fp8: bool = False
    rows: int = 0
    whole: bool = False


def form_for(tokens, top_k, experts, arch, fp8=False):
    """The form that was the quickest where it was measured (H200): by how many tokens an expert has on average."""
    each, rows, on_h200 = tokens * top_k / experts, ONE_BY_ONE if tokens <= FEW_TOKENS else 0, arch == OF_PLANS
    if fp8:
        tm = 16 if each <= 12 else 32 if each <= 24 else 64 if each <= 96 else 128
        return Form(tm, True, (max(tm, 64),), (max(tm, 64),), fp8=True, rows=rows)
    if each <= 12:
        return Form(16, True, (64, 128), (64, 128), ("consumers=1,stages=6", "consumers=1,stages=8") if on_h200 else NO_PLANS, rows=rows)
    if each <= 24:
        return Form(32, True, (64, 128), (64, 128), ("consumers=1,stages=5", "consumers=2,stages=5") if on_h200 else NO_PLANS, rows=rows)
    return Form(64, False, (128, 64), (128, 64), rows=rows) if each <= 48 else Form(rows=rows, whole=arch in WHOLE_TILES)


def places_of(pairs, experts, tm):
    """How many tiles of rows there are at most."""
    alone = min(pairs, experts)
    return alone + (pairs - alone) // tm


@functools.lru_cache(maxsize=None)
def _source(names, plans):
    """These kernels alone: their neighbours are not compiled with them."""
    with open(attend.program("experts.tile")) as opened:
        head, *kernels = opened.read().split("\nkernel ")
    plans = dict(plans)
    return Source(head + "".join(f"\n{plans.get(name, '')}\nkernel {text}" for text in kernels for name in [text.partition("<")[0]] if name in names))


def _pairs(tensors, values):
    return tensors["X"].shape[0] * values["KK"]


def _settled(tm, tensors, values):
    return {**values, "Y": places_of(_pairs(tensors, values), tensors["G"].shape[0], tm)}


def _names(kind, form):
    if form.fp8:
        products = "experts_permute_fp8", "experts_gate_up_fp8", "experts_swiglu_fp8", "experts_down_fp8"
    else:
        products = "experts_permute", *(f"experts_{name}{'_few' if form.few else ''}" for name in ("gate_up", "down"))
    return ROUTERS[kind], "experts_places", *products, "experts_combine"


def _called(kind, fp8):
    return f"moe_{kind}_fp8" if fp8 else f"moe_{kind}"


@functools.lru_cache(maxsize=None)
def kernel_of(kind, form):
    names = _names(kind, form)
    gate_up, down = names[3], names[-2]
    defines = {"TM": form.tm, **{f"{name}.{of}": value for name, pair in ((gate_up, form.gate_up), (down, form.down)) for of, value in zip(("TN", "TK"), pair)}}
    defines.update({f"{name}.M": form.rows for name in (names[0], names[2], names[-1]) if form.rows})
    defines.update({f"{name}.M": form.tm for name in (gate_up, down) if form.whole})
    plans = tuple((name, f"@plan({plan})") for name, plan in zip((gate_up, down), form.plans) if plan)
    return Kernel(_source(names, plans), names, returns=("Z",), types=TYPES, defines=defines, name=_called(kind, form.fp8))


def _in_form(kind, fp8, tensors, values):
    """The kernel for the number of tokens."""
    pairs, experts = _pairs(tensors, values), tensors["G"].shape[0]
    if not pairs:
        return None
    form = form_for(tensors["X"].shape[0], values["KK"], experts, same_gpu("moe", tensors).arch, fp8)
    return kernel_of(kind, form), tensors, {**values, "Y": places_of(pairs, experts, form.tm)}


@functools.lru_cache(maxsize=None)
def forward_kernel(kind, fp8=False):
    form = Form(16, True, fp8=True) if fp8 else Form()
    names = _names(kind, form)
    return Kernel(_source(names, ()), names, returns=("Z",), types=TYPES, defines={"TM": form.tm}, values=VALUES[kind],
                  settle=functools.partial(_settled, form.tm), instead=functools.partial(_in_form, kind, fp8), name=_called(kind, fp8))


_operators = {}


@constant
def _prepare(kind, fp8):
    """As attend.py's: what torch.compile does when it traces, and traces nothing of."""
    _operators[kind, fp8] = forward_kernel(kind, fp8).registered()
    return True


def _said(tensor):
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}" if isinstance(tensor, torch.Tensor) else type(tensor).__name__


def _tensor(name, given, dtypes, shape, wanted):
    """A tensor with one of these types and this shape, in which -1 is any extent; what is wanted, in words."""
    fits = isinstance(given, torch.Tensor) and given.dtype in dtypes and given.dim() == len(shape) and all(a in (-1, b) for a, b in zip(shape, given.shape))
    if not fits:
        raise Error(f"moe: {name} is {_said(given)}; it must be {wanted}")
    return given if given.is_contiguous() else given.contiguous()


def _groups(groups, experts):
    try:
        count, best = (int(numbers.plain("moe", "groups", value)) for value in groups)
    except (TypeError, ValueError):
        raise Error(f"moe: groups are (how many there are, how many are chosen), not {groups!r}") from None
    if count < 1 or experts % count or not 1 <= best <= count or experts // count < 2 and best < count:
        raise Error(f"moe: {experts} experts cannot be in {count} groups of two or more, of which {best} are chosen")
    return count, best


def _whole(name, value, least, most):
    value = numbers.plain("moe", name, value)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise Error(f"moe: {name} is a whole number from {least} to {most}, not {value}")
    return value


def moe(x, scores, w_gate_up, w_down, top_k=None, *, scoring="softmax", normalize=True, bias=None, groups=None, scale=1.0, weights=None, ids=None,
        scale_gate_up=None, scale_down=None):
    """The weighted sum, [.., D], of what top_k of E experts make of each row of x [.., D]: (silu(x Wg^T) * (x Wu^T)) Wd^T.

    x          float16 or bfloat16
    scores     [.., E] float32, bfloat16 or float16: the router's logits; None: `weights` and `ids` are given
    w_gate_up  [E, 2 F, D], the type of x: the F rows of Wg, then those of Wu.  w_down: [E, D, F]
    scoring    softmax: of all scores; sigmoid
    normalize  the weights of a token sum to 1
    bias       [E] float32, of sigmoids: added for the choice alone
    groups     (n, k), of sigmoids: the experts are in n groups in order, of which the k are open whose two best have the greatest sum
    scale      of all weights
    scale_gate_up, scale_down  of weights in float8_e4m3fn, float32 [E, 2 F / 128, D / 128] and [E, D / 128, F / 128]: a scale for 128 x 128
               each. Rows of x and hidden rows are rounded to e4m3 with a scale for each 128; D and F are multiples of 128
    weights, ids  [.., top_k], float32 and int32, in place of scores.  Ids beside 0 .. E - 1 are of experts that are elsewhere

    Equal scores go to the expert with the lower number.  Products are rounded to the type of x, sums are float32, in the order of a
    token's experts: each run gives the same bits.  Nothing is read on the host.
    """
    if not isinstance(x, torch.Tensor):
        raise Error(f"moe: x must be a tensor, not {type(x).__name__}")
    if torch.is_autocast_enabled(DEVICE_TYPE) and x.is_floating_point():
        dtype = torch.get_autocast_dtype(DEVICE_TYPE)
        x, w_gate_up, w_down = (t.to(dtype) if isinstance(t, torch.Tensor) and t.dtype in (torch.float32, *OF_X) else t for t in (x, w_gate_up, w_down))
    if x.dtype not in OF_X or not x.dim():
        raise Error(f"moe: x is {_said(x)}; it must be float16 or bfloat16 [.., D]: cast it, or use torch.autocast")
    d, fp8 = x.shape[-1], getattr(w_gate_up, "dtype", None) == attend.E4M3
    of_w = attend.E4M3 if fp8 else x.dtype
    said = str(of_w).removeprefix("torch.")
    g = _tensor("w_gate_up", w_gate_up, (of_w,), (-1, -1, d), f"{said} [E, 2 F, {d}], as x has {d} columns")
    experts, both, _ = g.shape
    if not 1 <= experts <= MOST_EXPERTS or both % 2 or both % 16 or d % 8 or not both or not d:
        raise Error(f"moe: w_gate_up is [{experts}, {both}, {d}]: there are 1 to {MOST_EXPERTS} experts, and D and F are multiples of 8")
    w = _tensor("w_down", w_down, (of_w,), (experts, d, both // 2), f"{said} [E, D, F], here {[experts, d, both // 2]}")
    if fp8:
        if d % 128 or both % 256:
            raise Error(f"moe: w_gate_up is [{experts}, {both}, {d}]: of float8_e4m3fn, D and F are multiples of 128")
        shapes = [experts, both // 128, d // 128], [experts, d // 128, both // 256]
        given = (("scale_gate_up", scale_gate_up, shapes[0]), ("scale_down", scale_down, shapes[1]))
        g_scales, w_scales = (_tensor(name, value, (torch.float32,), shape, f"float32 {shape}: a scale for 128 x 128 weights each") for name, value, shape in given)
    elif scale_gate_up is not None or scale_down is not None:
        raise Error(f"moe: scale_gate_up and scale_down are of weights in float8_e4m3fn, and these are {said}")
    lead = x.shape[:-1]
    rows = x if x.dim() == 2 else x.reshape(-1, d)
    across, along = rows.stride()
    rows = rows if along == 1 and across % 8 == 0 else rows.contiguous()
    products = (g, g_scales, w, w_scales) if fp8 else (g.view(experts, 2, both // 2, d), w)
    if scores is None:
        if isinstance(ids, torch.Tensor) and ids.dtype == torch.int64:
            ids = ids.to(torch.int32)
        if not isinstance(ids, torch.Tensor) or not ids.dim():
            raise Error("moe: without scores there are weights and ids, both [.., top_k]")
        if scoring != "softmax" or bias is not None or groups is not None or scale != 1.0:
            raise Error("moe: scoring, bias, groups and scale are about scores, and weights and ids are given")
        top_k = _whole("top_k", ids.shape[-1] if top_k is None else top_k, 1, MOST_OF_A_TOKEN)
        ids = _tensor("ids", ids, (torch.int32,), (*lead, top_k), f"int32 {[*lead, top_k]}")
        weights = _tensor("weights", weights, (torch.float32,), (*lead, top_k), f"float32 {[*lead, top_k]}")
        kind, arguments = "given", (ids.reshape(-1), rows, *products, weights.reshape(-1), top_k)
    else:
        if weights is not None or ids is not None:
            raise Error("moe: weights and ids are given in place of scores, which must be None then")
        if scoring not in ("softmax", "sigmoid"):
            raise Error(f"moe: scoring is 'softmax' or 'sigmoid', not {scoring!r}")
        if scoring == "softmax" and (bias is not None or groups is not None):
            raise Error("moe: bias and groups are for scoring='sigmoid'")
        top_k = _whole("top_k", top_k, 1, min(experts, MOST_OF_A_TOKEN))
        scores = _tensor("scores", scores, OF_SCORES, (*lead, experts), f"float32, bfloat16 or float16 {[*lead, experts]}")
        scale, normalize = float(numbers.plain("moe", "scale", scale, none=False)), bool(normalize)
        if bias is None and groups is None:
            kind, arguments = "routed", (scores.reshape(-1, experts), rows, *products, scale, top_k, scoring == "sigmoid", normalize)
        else:
            count, best = (1, 1) if groups is None else _groups(groups, experts)
            if best < count and top_k > best * (experts // count):
                raise Error(f"moe: {best} of {count} groups have {best * (experts // count)} experts, fewer than top_k = {top_k}")
            bias = torch.zeros(experts, dtype=torch.float32, device=x.device) if bias is None else bias
            bias = _tensor("bias", bias, (torch.float32,), (experts,), f"float32 [{experts}]")
            kind, arguments = "biased", (scores.reshape(-1), bias, rows, *products, scale, top_k, count, best, normalize)
    if torch.compiler.is_compiling() or not is_eager():
        _prepare(kind, fp8)
        out = _operators[kind, fp8](*arguments)
    else:
        kernel = forward_kernel(kind, fp8)
        out = kernel.call(arguments[:len(kernel.inputs)], arguments[len(kernel.inputs):])
    return out if x.dim() == 2 else out.view(*lead, d)
