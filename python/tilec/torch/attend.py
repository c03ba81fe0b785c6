"""attend.py - attention by the kernels of examples/: forward, backward, and few queries."""
import functools
import os

import torch

from tilec.torch import gradient, ways
from tilec.torch.error import Error
from tilec.torch.expressions import divide, evaluate
from tilec.torch.gpu import DEVICE_TYPE
from tilec.torch.kernel import Kernel, is_eager
from tilec.torch.plan import Builder

TYPES = {"T": ("f16", "bf16")}
HEADS_FIRST = (0, 2, 1, 3)
BACKWARD = ("attention_bwd_delta", "attention_bwd", "attention_bwd_convert")
DETERMINISTIC = ("attention_bwd_delta", "attention_bwd_dkdv", "attention_bwd_dq")
SPLIT = ("attention_bwd_delta", "attention_bwd_split", "attention_bwd_convert", "attention_bwd_combine")
SPLIT_DETERMINISTIC = ("attention_bwd_delta", "attention_bwd_dkdv_split", "attention_bwd_dq", "attention_bwd_combine")
WAYS = {False: ((BACKWARD, SPLIT), (DETERMINISTIC, SPLIT_DETERMINISTIC)), True: ((DETERMINISTIC, SPLIT_DETERMINISTIC),)}
PRODUCTS = ("attention_bwd", "attention_bwd_dkdv", "attention_bwd_dq",  # of these all consist, but for what moves data
            "attention_bwd_split", "attention_bwd_dkdv_split")
VALUES = ("scale", "softcap", "CAUSAL", "WINDOW", "RIGHT", "SOFTCAP", "ALIBI")
MANY_ROWS = 1024  # of keys to a multiprocessor, from which on its programs are so many that parts of them do not pay
LEAST_KEYS = 64  # that a program goes through
COMBINE_CLOCKS = 9000  # of the kernel that puts parts together ..
PASS_CLOCKS = 1000  # .. for each PASS parts after the first, ..
PASS = 16
PART_BYTES = 500  # .. which are written and read at so many bytes a clock
WORTH = 1.03  # what two kernels must bring over one
FEW_ROWS = 64  # query rows that share a head of K and V, up to which keys are dealt to several programs
TILE_ROWS = (128, 192)  # that a block has at a time, mostly


def program(name):
    """The path of a program that comes with the package, or lies beside it in the sources."""
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (os.path.join(here, "kernels"), os.path.join(here, "..", "..", "..", "examples")):
        path = os.path.normpath(os.path.join(folder, name))
        if os.path.isfile(path):
            return path
    raise Error(f"{name} is missing: the package is not installed whole")


def _orders(layout, names):
    if layout == "bshd":
        return {}
    if layout == "bhsd":
        return dict.fromkeys(names, HEADS_FIRST)
    raise Error(f"the layout '{layout}' is not known: bshd (rows before heads) or bhsd")


@functools.lru_cache(maxsize=None)
def forward_kernel(layout, deterministic):
    order = _orders(layout, ("Q", "K", "V", "O", "dO", "dQ", "dK", "dV"))
    suffix = ("" if layout == "bshd" else "_" + layout) + ("_deterministic" if deterministic else "")
    names = dict.fromkeys(name for both in WAYS[deterministic] for name in (*both[0], *both[1]))  # each once
    backward = Kernel(program("attention_bwd.tile"), names, order=order, types=TYPES, values=VALUES,
                      choose=functools.partial(_choose_backward, deterministic), returns=("dQ", "dK", "dV"),
                      name="attention_backward" + suffix)
    return Kernel(program("attention.tile"), order=order, returns=("O", "L"), backward=backward, types=TYPES,
                  values=VALUES, choose=_with_scale, instead=functools.partial(_by_groups, layout),
                  name="attention" + suffix)


_operators = {}  # by layout and whether deterministic


@torch.compiler.assume_constant_result
def _prepare(layout, deterministic):
    """Puts the operator in the table; torch.compile does this when it traces, and traces nothing of it."""
    _operators[layout, deterministic] = forward_kernel(layout, deterministic).registered()
    return True


def _check(values):
    """Refuses values that kernels would take to mean that there is no such option."""
    if (values.get("WINDOW") or 0) < 0:
        raise Error("attention: the window is the number of keys that a query sees up to its place, 1 or more (None: any)")
    if (values.get("RIGHT") or 0) < -1:
        raise Error("attention: `right` is the number of keys that a query sees after its place, 0 or more (None: any)")
    if not (values.get("softcap") or 0) >= 0:
        raise Error("attention: the softcap is positive, or 0 where there is none")


def _scale(tensors, values):
    """The values with a scale."""
    _check(values)
    scale, shape = values.get("scale"), tensors["Q"].shape
    return {**values, "scale": shape[-1] ** -0.5 if scale is None and len(shape) else scale}


def limits(window, right):
    """WINDOW and RIGHT of the kernels, where 0 and -1 mean that there is no limit."""
    return 0 if window is None else window or -1, -1 if right is None else right if right >= 0 else -2


def _with_scale(kernel, code, gpu, tensors, values):
    return kernel.names, _scale(tensors, values)


def _backward_ways(deterministic, tensors, sm_count):
    """With sums of dQ in memory, and without; and both with dK and dV in parts, more than one of each key head."""
    whole = [(names, {}) for names, _ in WAYS[deterministic]]
    q, k = tensors["Q"].shape, tensors["K"].shape
    if len(q) != 4 or len(k) != 4 or not k[2] or q[2] % k[2] or k[0] * k[1] * k[2] >= MANY_ROWS * sm_count:
        return whole
    group = q[2] // k[2]
    return whole + [(names, {"P": k[2] * n}) for _, names in WAYS[deterministic] for n in range(2, group + 1) if group % n == 0]


def _choose_backward(deterministic, kernel, code, gpu, tensors, values):
    """What is estimated to be the quickest: without sums of dQ at small sizes, and of long heads; in parts, where programs
    that go through all query heads of a key head are too few, or too long."""
    every = _backward_ways(deterministic, tensors, gpu.sm_count)
    try:
        names, sizes = ways.least(every, PRODUCTS, code, gpu, tensors, values)
    except (Error, KeyError):  # sizes that cannot be, of which the plan says what is wrong
        names, sizes = every[0]
    return names, {**_scale(tensors, values), **sizes}


# ---- few queries ----


@functools.lru_cache(maxsize=None)
def decode_kernel(layout):
    return Kernel(program("attention_decode.tile"),
                  ("attention_decode_split", "attention_decode_combine", "attention_decode"),
                  order=_orders(layout, ("Q", "K", "V", "O")), returns=("O", "L"), choose=_choose_decode, types=TYPES,
                  name="attention_decode" + ("" if layout == "bshd" else "_" + layout))


def _few_queries(layout, tensors, values):
    """Where the queries that share a head of K and V are few, the kernels that deal the keys out."""
    q, k = tensors["Q"], tensors["K"]
    right = -1 if values["RIGHT"] is None else values["RIGHT"]
    _check(values)
    if q.dim() != 4 or k.dim() != 4 or values["SOFTCAP"] or values["ALIBI"] or right >= 0:
        return None
    rows, heads = (1, 2) if layout == "bshd" else (2, 1)
    group = q.shape[heads] // max(k.shape[heads], 1)
    if not 0 < q.shape[rows] * group <= FEW_ROWS or q.shape[heads] != group * k.shape[heads]:
        return None
    padded = group if 64 % group == 0 else 1 << group.bit_length()
    return decode_kernel(layout), tensors, {"scale": values["scale"], "G": group, "GP": padded,
                                            "CAUSAL": bool(values["CAUSAL"]), "WINDOW": values["WINDOW"] or 0}


@functools.lru_cache(maxsize=None)
def grouped_kernel(layout):
    return Kernel(program("attention_grouped.tile"), order=_orders(layout, ("Q", "K", "V", "O")), returns=("O", "L"), choose=_with_scale,
                  types=TYPES, name="attention_grouped" + ("" if layout == "bshd" else "_" + layout))


def rows_spared(rows, group):
    """Whether the queries of a group's heads, one behind the other, need fewer tiles than those of each head."""
    return any(-(-rows * group // tile) < group * -(-rows // tile) for tile in TILE_ROWS)


def _by_groups(layout, tensors, values):
    """Where queries of several heads belong into one tile, the kernels for that."""
    few = _few_queries(layout, tensors, values)
    if few:
        return few
    q, k = tensors["Q"], tensors["K"]
    rows, heads = (1, 2) if layout == "bshd" else (2, 1)
    if q.dim() != 4 or k.dim() != 4 or values["SOFTCAP"] or values["ALIBI"] or not k.shape[heads]:
        return None
    group = q.shape[heads] // k.shape[heads]
    if group < 2 or 64 % group or q.shape[heads] != group * k.shape[heads] or not rows_spared(q.shape[rows], group):
        return None
    whole, grouped = forward_kernel(layout, False), grouped_kernel(layout)
    others = {name: values[name] for name in ("scale", "CAUSAL", "WINDOW", "RIGHT")}
    others["G"] = group
    call = Builder(whole, tensors, values)

    def clocks(kernel, values):
        code = kernel.code(call.gpu, call.tensors, values)
        name = kernel.names[0]
        return ways.clocks([name], code, call.gpu, call.tensors, _scale(call.tensors, values)) if "cost" in code.kernels[name] else None
    before, now = clocks(whole, values), clocks(grouped, others)
    return (grouped, tensors, others) if before is not None and now is not None and now < before else None


def predict_splits(programs, splits, key_tiles, sm_count):
    """How long attention with few queries takes, in the times of a tile of keys that all multiprocessors load at once."""
    full, rest = divmod(programs * splits, sm_count)
    # blocks go through their programs one after the other; at the end those that are left have memory for themselves, of
    # which one multiprocessor takes no more than twice its share
    waves = full + (max(rest / sm_count, 0.55) if rest else 0)
    # a launch; the start and end of a program (half a tile); and the second kernel, which reads 16 parts at a time
    return 2.7 + waves * (key_tiles / splits + 0.5) + (1.5 + splits / 40 if splits > 1 else 0)


@functools.lru_cache(maxsize=4096)
def choose_splits(programs, key_tiles, sm_count):
    """How many programs share the keys of each of `programs`: each has a tile of keys at least, and they are predicted to
    end first."""
    most = min(max(key_tiles, 1), divide(8 * sm_count + programs - 1, programs))
    times = [predict_splits(programs, splits, key_tiles, sm_count) for splits in range(1, most + 1)]
    least = min(times)
    return 1 if times[0] <= 1.05 * least else 1 + times.index(least)  # such gains do not outlast what is not predicted


@functools.lru_cache(maxsize=4096)
def least_splits(whole, split, sizes, part_clocks, programs):
    """The same by the compiler's estimates, `whole` of one kernel and `split` of the first of two: tuples of expressions, one
    for each form.  `sizes`: items of those known; `part_clocks`: in which memory takes a part of each result."""
    env = dict(sizes)
    most = min(-(-env["Sk"] // LEAST_KEYS), divide(8 * env["sm_count"] + programs - 1, programs))
    times = {1: min(evaluate(cost, env) for cost in whole)}
    splits = 2
    while splits <= most:
        env["X"] = splits
        combine = COMBINE_CLOCKS + (splits - 1) // PASS * PASS_CLOCKS + 2 * splits * part_clocks
        times[splits] = combine + min(evaluate(cost, env) for cost in split)
        splits += 1 + splits // 16
    least = min(times, key=times.get)
    return 1 if times[1] <= WORTH * times[least] else least


def _splits_of(code, gpu, q, k):
    """How many programs share the keys of a head of K and V, for tensors of these shapes."""
    whole, split = (code.kernels[name] for name in ("attention_decode", "attention_decode_split"))
    rows = -(-q[1] // int(split["constants"]["MS"]))
    programs = max(rows * k[2] * q[0], 1)
    if "cost" not in whole or "cost" not in split:
        return choose_splits(programs, -(-k[1] // int(split["constants"]["N"])), gpu.sm_count)
    forms = [tuple(form["cost"] for form in (meta, *meta.get("variants", ()))) for meta in (whole, split)]
    keys = -(-k[1] // LEAST_KEYS) * LEAST_KEYS  # while a cache grows, it is not worth another choice before
    sizes = (("B", q[0]), ("Sq", q[1]), ("Hq", q[2]), ("Hk", k[2]), ("Sk", keys), ("sm_count", gpu.sm_count))
    part = 4 * q[0] * q[1] * q[2] * int(split["constants"]["DV"])
    return least_splits(*forms, sizes, part // PART_BYTES, programs)


def _choose_decode(kernel, code, gpu, tensors, values):
    """One kernel, or one that splits the keys and one that combines."""
    constants = code.kernels["attention_decode_split"]["constants"]
    splits = _splits_of(code, gpu, tensors["Q"].shape, tensors["K"].shape)
    if splits == 1 and constants["GP"] == constants["G"]:
        return ["attention_decode"], _scale(tensors, values)
    return ["attention_decode_split", "attention_decode_combine"], {**_scale(tensors, values), "X": splits}


# ---- the function ----


def _autocast(tensors):
    """Under autocast: tensors in its type."""
    dtype = torch.get_autocast_dtype(DEVICE_TYPE)
    return [t.to(dtype) if t.dtype != dtype and t.is_floating_point() else t for t in tensors]


def attention(q, k, v, *, causal=False, window=None, right=None, softcap=0.0, scale=None, alibi=False,
              layout="bshd", deterministic=False, return_lse=False):
    """softmax(scale q k^T + mask) v, differentiable once.

    q [B, Sq, Hq, D], k [B, Sk, Hk, D], v [B, Sk, Hk, DV], float16 or bfloat16, Hq a multiple of Hk; with
    layout="bhsd" heads come before rows, as in PyTorch.  The last dimension is contiguous, other strides
    are any multiples of 16 bytes.  Queries and keys are aligned at their ends: query i stands at key
    i + Sk - Sq.

    causal         a query sees no key after its place
    window, right  at most so many keys up to its place, and after it; None: any
    softcap        > 0: softcap * tanh(score / softcap) in place of the score
    scale          of the scores; None: D ** -0.5
    alibi          less slope * distance, the slope of head h 2 ** (-8 (h + 1) / Hq)
    deterministic  gradients have the same bits in each run; at some sizes slower
    return_lse     also the logarithms of the sums of exponentials, float32 [B, Hq, Sq]; they have no gradient
    """
    if torch.is_autocast_enabled(DEVICE_TYPE):
        q, k, v = _autocast((q, k, v))
    values = (scale, softcap, causal, *limits(window, right), softcap > 0, alibi)
    if torch.compiler.is_compiling() or not is_eager():
        _prepare(layout, deterministic)
        out = _operators[layout, deterministic](q, k, v, *values)
        return out if return_lse else out[0]
    kernel = forward_kernel(layout, deterministic)
    try:
        recorded = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    except AttributeError:
        kernel.check_tensors((q, k, v))
        raise
    if recorded:
        return gradient.apply(kernel, (q, k, v), values, not return_lse)
    out = kernel.run(q, k, v, *values)
    return out if return_lse else out[0]
