"""attend.py - attention by the kernels of examples/: forward, backward, and few queries."""
import functools
import math
import os

import torch

from tilec.torch import gradient, parts, values as numbers, ways
from tilec.torch.code import Source
from tilec.torch.error import Error
from tilec.torch.gpu import DEVICE_TYPE
from tilec.torch.kernel import Kernel
from tilec.torch.plan import Builder
from tilec.torch.watch import constant, is_eager

TYPES = {"T": ("f16", "bf16")}
E4M3 = getattr(torch, "float8_e4m3fn", None)
HEADS_FIRST = (0, 2, 1, 3)
CONVERT = "attention_bwd_convert"  # a program without it leaves the sums of dQ as they are
BACKWARD = ("attention_bwd_delta", "attention_bwd", CONVERT)
DETERMINISTIC = ("attention_bwd_delta", "attention_bwd_dkdv", "attention_bwd_dq")
FEW = ("attention_bwd_dq_first", "attention_bwd_dkdv")
SPLIT = ("attention_bwd_delta", "attention_bwd_split", CONVERT, "attention_bwd_combine")
SPLIT_DETERMINISTIC = ("attention_bwd_delta", "attention_bwd_dkdv_split", "attention_bwd_dq", "attention_bwd_combine")
# Where all keys are one tile, delta is the mean of what it is taken off: no rounding of O is in it, nor one of L.  Not where O is
# of more keys.
OF_TILE, OF_TILE_OF_ALL = "attention_bwd_dq_of_tile", "attention_bwd_dq_of_tile_of_all"
ONE_TILE = ((OF_TILE, "attention_bwd_dkdv"), (OF_TILE, "attention_bwd_dkdv_split", "attention_bwd_combine"))
WAYS = {False: ((BACKWARD, SPLIT), (DETERMINISTIC, SPLIT_DETERMINISTIC)), True: ((DETERMINISTIC, SPLIT_DETERMINISTIC),)}
# Where L, too, has a gradient: d L / d score is the probability, as that of O has it less delta.
DELTA, DELTA_OF_ALL = "attention_bwd_delta", "attention_bwd_delta_of_all"
OF_ALL = """
kernel attention_bwd_delta_of_all<T: type = bf16, D: int = 128, DV: int = D, M: int = 64>
(   O: in T[B, Sq, Hq, DV], dO: in T[B, Sq, Hq, DV], L: in f32[B, Hq, Sq], dL: in f32[B, Hq, Sq],
    delta: out f32[B, Hq, Sq] align(16), L2: out f32[B, Hq, Sq] align(16))
{
    grid m in tiles(Sq, M), h in Hq, b in B;
    let lse = load L[b, h, m];
    store delta[b, h, m] = row_dot(load O[b, m, h, :], load dO[b, m, h, :]) - load dL[b, h, m];
    store L2[b, h, m] = where(lse == -inf, 1e30, base2(1.0) * lse);
}
"""
# With the function's parameters, and what a gradient of L takes off delta.
ONE_TILE_TEXT = """
kernel {name}<T: type = bf16, D: int = 128, DV: int = D, M: int = auto, N: int = auto, CAUSAL: bool = false,
              WINDOW: int = 0, RIGHT: int = -1, SOFTCAP: bool = false, ALIBI: bool = false>
(   Q: in T[B, Sq, Hq, D], K: in T[B, Sk, Hk, D], V: in T[B, Sk, Hk, DV], dO: in T[B, Sq, Hq, DV], L: in f32[B, Hq, Sq], {tensors}
    dQ: out T[B, Sq, Hq, D], delta: out f32[B, Hq, Sq] align(16), L2: out f32[B, Hq, Sq] align(16), scale: f32, softcap: f32)
{{
    require Hq % Hk == 0, "the query heads must be a multiple of the key heads";
    require Sk <= N, "the keys must be a tile";
    grid m in tiles(Sq, M), h in Hq, b in B;
    let options = (causal = CAUSAL, window = WINDOW, right = RIGHT, softcap = SOFTCAP, alibi = ALIBI);
    let n = tiles(Sk, N)[0];
    let k = load K[b, n, h / (Hq / Hk), :];
    let lse = load L[b, h, m];
    let l2 = where(lse == -inf, 1e30, base2(1.0) * lse);
    let (p, t) = probabilities(load Q[b, m, h, :], k, l2, m, n, Sk - Sq, alibi_slope(h, Hq), scale, softcap, options);
    let dp = mma(load dO[b, m, h, :], (load V[b, n, h / (Hq / Hk), :]).T);
    let row = sum(p * dp, axis=1) / max(sum(p, axis=1), 1e-30){less};
    var ds = p * (dp - row[:, None]);
    if options.softcap {{ ds *= 1.0 - t * t; }}
    store dQ[b, m, h, :] = (mma(ds as T, k) * scale) as T;
    store delta[b, h, m] = row;
    store L2[b, h, m] = l2;
}}
"""
MORE = ONE_TILE_TEXT.format(name=OF_TILE, tensors="", less="")
MORE_OF_ALL = OF_ALL + ONE_TILE_TEXT.format(name=OF_TILE_OF_ALL, tensors="dL: in f32[B, Hq, Sq],", less=" - load dL[b, h, m]")
PRODUCTS = ("attention_bwd", "attention_bwd_dkdv", "attention_bwd_dq",  # of these all consist, but for what moves data
            "attention_bwd_split", "attention_bwd_dkdv_split")
OPTIONS = ("scale", "softcap", "causal", "window", "right", "alibi")
VALUES = ("scale", "softcap", "CAUSAL", "WINDOW", "RIGHT", "SOFTCAP", "ALIBI")
MANY_ROWS = 1024  # of keys to a multiprocessor, from which on its programs are so many that parts of them do not pay
TILE_OF_QUERIES = 64  # of dQ's programs
MOST_GRID = 65535  # programs along a dimension of CUDA's grids but the first
FEW_HEAD, SUMS_HEAD = 192, 96  # head dimensions up to which FEW is quicker than DETERMINISTIC, and than BACKWARD
FEW_ROWS = 64  # query rows that share a head of K and V, up to which keys are dealt to several programs
TILE_ROWS = (128, 192)  # that a block has at a time, mostly
LEAST_TILES = 4  # of 64 query rows to a multiprocessor, from which on there are programs enough
MOST_SCALE = 2.0**16  # of larger scores f32 has no digits behind the point, of which gradients would be made
LEAST_SCALE = 2.0**-120  # of smaller ones what is divided by them is infinite
LEAST_CAP = 2.0**-64
NO_CAP = 2.0**64  # from which on the tangent is its argument, in f32
WIDE = 2**16  # a limit of so many keys is none where it leaves all of them; under it sequences that grow keep their kernel
SPLIT_KEYS = 512  # under which they are not worth sharing among programs with many query rows


def program(name):
    """The path of a program that comes with the package, or lies beside it in the sources."""
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (os.path.join(here, "kernels"), os.path.join(here, "..", "..", "..", "examples")):
        path = os.path.normpath(os.path.join(folder, name))
        if os.path.isfile(path):
            return path
    raise Error(f"{name} is missing: the package is not installed whole")


def with_more(name, text):
    """A program of the package, and more kernels."""
    with open(program(name)) as file:
        return Source(file.read() + text)


def _orders(layout, names):
    if layout == "bshd":
        return {}
    if layout == "bhsd":
        return dict.fromkeys(names, HEADS_FIRST)
    raise Error(f"the layout {layout!r} is not known: bshd (rows before heads) or bhsd")


def _of_all(names):
    return tuple({DELTA: DELTA_OF_ALL, OF_TILE: OF_TILE_OF_ALL}.get(name, name) for name in names)


def _common(layout, deterministic, name):
    """What the kernels of a layout have in common: of the forward and its backwards."""
    order = _orders(layout, ("Q", "K", "V", "O", "dO", "dQ", "dK", "dV"))
    suffix = ("" if layout == "bshd" else "_" + layout) + ("_deterministic" if deterministic else "")
    return {"order": order, "types": TYPES, "values": VALUES,
            "settle": functools.partial(_settle, 1 if layout == "bshd" else 2), "name": name + suffix}


def backward_kernel(layout, deterministic, source, name, of_all=False, summed=False):
    """summed: dQ is added to a given dQ_sum, of which this program converts nothing."""
    names = dict.fromkeys(name for both in WAYS[deterministic] for name in (*both[0], *both[1]))  # each once
    if summed:
        names.pop(CONVERT, None)
    results = {"returns": ("dK", "dV"), "given": ("dQ_sum",)} if summed else {"returns": ("dQ", "dK", "dV")}
    return Kernel(source, _of_all(names) if of_all else names, **results,
                  choose=functools.partial(_choose_backward, deterministic, of_all), **_common(layout, deterministic, name))


@functools.lru_cache(maxsize=None)
def forward_kernel(layout, deterministic):
    backward = functools.partial(backward_kernel, layout, deterministic, with_more("attention_bwd.tile", MORE), "attention_backward")
    of_all = functools.partial(backward_kernel, layout, deterministic, with_more("attention_bwd.tile", MORE_OF_ALL),
                               "attention_backward_of_all", True)
    return Kernel(program("attention.tile"), returns=("O", "L"), backward=backward, backward_of_all=of_all, choose=_with_scale,
                  instead=functools.partial(_other_programs, layout), **_common(layout, deterministic, "attention"))


_operators = {}  # by layout and whether deterministic


@constant
def _prepare(layout, deterministic):
    """Puts the operator in the table; torch.compile does this when it traces, and traces nothing of it."""
    _operators[layout, deterministic] = forward_kernel(layout, deterministic).registered()
    return True


def _check(values):
    """Refuses values that kernels would take to mean that there is no such option, or of which they would make no numbers."""
    if (values.get("WINDOW") or 0) < 0:
        raise Error("attention: the window is the number of keys that a query sees up to its place, 1 or more (None: any)")
    if (values.get("RIGHT") or 0) < -1:
        raise Error("attention: `right` is the number of keys that a query sees after its place, 0 or more (None: any)")
    softcap = values.get("softcap") or 0
    if not (softcap == 0 or softcap >= LEAST_CAP):
        raise Error("attention: the softcap is positive (2^-64 or more), or 0 where there is none")
    scale = values.get("scale")
    if scale is not None and not LEAST_SCALE <= scale <= MOST_SCALE:
        raise Error(f"attention: the scale must be positive and at most {MOST_SCALE:.0f} (and 2^-120 or more), and is {scale}")


def _wide(name, limit, others, keys):
    """A limit of the keys that a query sees, or nothing where it leaves all of these."""
    if limit is None or limit < WIDE:
        return limit
    if limit >= keys:
        return 0 if name == "WINDOW" else -1
    if limit + others > numbers.LARGEST_I32:
        raise Error(f"attention: {name.lower()} = {limit} and {others} rows are more than 32 bits have")
    return limit


def _refuse_nothing(heads, q, k, v):
    """Refuses vectors of no numbers, and no heads."""
    if 0 in (*q[-1:], *v[-1:]):
        raise Error(f"attention: head dimensions are 1 or more, not {q[-1]} and {v[-1]}")
    if 0 in (*q[heads:heads + 1], *k[heads:heads + 1]):
        raise Error(f"attention: there are {q[heads]} heads of queries and {k[heads]} of keys, and must be 1 or more")


def _settle(rows, tensors, values):
    """The values of a call of tensors whose dimension `rows` are queries and keys."""
    _check(values)
    q, k, v = (tensors[name].shape for name in ("Q", "K", "V" if "V" in tensors else "W"))  # W: which becomes V (eight.py)
    if len(q) == len(k) == len(v):
        _refuse_nothing(2 if rows == 1 else 1, q, k, v)
    if len(q) > rows < len(k):
        for name, others, keys in (("WINDOW", q[rows], k[rows]), ("RIGHT", k[rows], q[rows])):
            if name in values:
                values[name] = _wide(name, values[name], others, keys)
    return values


def _scale(tensors, values):
    """The values with a scale."""
    scale, shape = values.get("scale"), tensors["Q"].shape
    # of nothing any scale is right
    return {**values, "scale": (shape[-1] or 1) ** -0.5 if scale is None and len(shape) else scale}


def limits(window, right):
    """WINDOW and RIGHT of the kernels, where 0 and -1 mean that there is no limit; no tensor has so many rows as the largest
    number."""
    window = 0 if window is None or window >= numbers.LARGEST_I32 else -1 if window <= 0 else window
    return window, -1 if right is None or right >= numbers.LARGEST_I32 else -2 if right < 0 else right


def _flag(name, value):
    if value not in (None, 0, 1):
        raise Error(f"attention: {name} must be a bool, not {value}")
    return bool(value)


def options(scale, softcap, causal, window, right, alibi):
    """The values of kernels, as VALUES has them."""
    given = scale, softcap, causal, window, right, alibi
    for value in given:
        if type(value) not in numbers.PLAIN:
            scale, softcap, causal, window, right, alibi = [numbers.plain("attention", *pair) for pair in zip(OPTIONS, given)]
            break
    if type(causal) is not bool or type(alibi) is not bool:
        causal, alibi = _flag("causal", causal), _flag("alibi", alibi)
    if type(scale) is int:
        scale = float(scale) if -MOST_SCALE < scale <= MOST_SCALE else math.inf if scale > 0 else -math.inf
    softcap = 0.0 if softcap is None or softcap >= NO_CAP else softcap
    return (scale, softcap, causal, *limits(window, right), softcap > 0, alibi)


def _with_scale(kernel, code, gpu, tensors, values):
    return kernel.names, _scale(tensors, values)


def _backward_ways(ways_of, tensors, sm_count):
    """With sums of dQ in memory, and without; and both with dK and dV in parts, more than one of each key head."""
    whole = [(names, {}) for names, _ in ways_of]
    q, k = tensors["Q"].shape, tensors["K"].shape
    if len(q) != 4 or len(k) != 4 or not k[2] or q[2] % k[2] or k[0] * k[1] * k[2] >= MANY_ROWS * sm_count:
        return whole
    group = q[2] // k[2]
    return whole + [(names, {"P": k[2] * n}) for _, names in ways_of for n in range(2, group + 1) if group % n == 0]


def _is_few(q, k, sm_count):
    """Whether FEW is quicker than DETERMINISTIC, which has the same estimate: where dQ's programs are so few that all run at
    once, and short."""
    return (len(q) == len(k) == 4 and q[3] <= FEW_HEAD and k[1] <= 2 * q[1]
            and 5 * -(-q[1] // TILE_OF_QUERIES) * q[2] * q[0] <= 6 * sm_count)


def _present(names, code):
    return tuple(name for name in names if name != CONVERT or name in code.kernels)


def _choose_backward(deterministic, of_all, kernel, code, gpu, tensors, values):
    """What is estimated to be the quickest: without sums of dQ at small sizes, and of long heads; in parts, where programs
    that go through all query heads of a key head are too few, or too long."""
    q, k = tensors["Q"].shape, tensors["K"].shape
    if len(q) == len(k) == 4 and max(q[0], q[2]) > MOST_GRID and not of_all:
        return FEW, _scale(tensors, values)  # whose programs go through batches and heads by number
    of_tile = code.kernels.get(OF_TILE_OF_ALL if of_all else OF_TILE)  # a program without it is for some of the keys, too
    one_tile = of_tile is not None and len(k) == 4 and 0 < k[1] <= int(of_tile["constants"]["N"])
    every = _backward_ways((ONE_TILE,) if one_tile else WAYS[deterministic], tensors, gpu.sm_count)
    if of_all and one_tile:
        every = [(_of_all(names), sizes) for names, sizes in every]
    every = [(_present(names, code), sizes) for names, sizes in every]
    try:
        names, sizes = ways.least(every, PRODUCTS, code, gpu, tensors, values)
    except (Error, KeyError):  # sizes that cannot be, of which the plan says what is wrong
        names, sizes = every[0]
    if not one_tile and _is_few(q, k, gpu.sm_count) and (names == DETERMINISTIC or (names == _present(BACKWARD, code) and q[3] <= SUMS_HEAD)):
        names = DETERMINISTIC if of_all else FEW  # of two launches, which the estimates do not know of
    return _of_all(names) if of_all else names, {**_scale(tensors, values), **sizes}


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


@functools.lru_cache(maxsize=None)
def split_kernel(layout):
    return Kernel(program("attention_split.tile"), order=_orders(layout, ("Q", "K", "V", "O")), returns=("O", "L"), choose=_with_scale,
                  types=TYPES, name="attention_split" + ("" if layout == "bshd" else "_" + layout))


def _clocks(kernel, call, values):
    """What is estimated of the first kernel of a program for a call; None: nothing is."""
    code = kernel.code(call.gpu, call.tensors, values)
    name = kernel.names[0]
    known = "cost" in code.kernels[name]
    return ways.clocks([name], [name], code, call.gpu, call.tensors, _scale(call.tensors, values)) if known else None


def _shared_keys(kernel, call, values, heads):
    """[(clocks, values)] of programs that share the keys, with the rows of so many heads in a tile."""
    code = kernel.code(call.gpu, call.tensors, {**values, "G": heads})
    split, q, k = code.kernels["attention_split"], call.tensors["Q"].shape, call.tensors["K"].shape
    if "cost" not in split:
        return []
    keys = -(-k[1] // parts.LEAST_KEYS) * parts.LEAST_KEYS  # as for few queries
    sizes = (("B", q[0]), ("Sq", q[1]), ("Hq", q[2]), ("Hk", k[2]), ("Sk", keys), *call.gpu.facts.items())
    programs = -(-q[1] // int(split["constants"]["MS"])) * (q[2] // heads) * q[0]
    clocks, splits = parts.least(_forms(split), parts.OF_ROWS, sizes, _part_bytes(split, q), 3, programs)
    return [(clocks * parts.WORTH, {**values, "G": heads, "X": splits})] if splits > 1 else []


def _other_programs(layout, tensors, values):
    """Other kernels for a call where they are estimated to be the quickest: those for few queries; with queries of several
    heads in a tile; with keys that programs share, where these are few."""
    few = _few_queries(layout, tensors, values)
    if few:
        return few
    q, k = tensors["Q"], tensors["K"]
    rows, heads = (1, 2) if layout == "bshd" else (2, 1)
    if q.dim() != 4 or k.dim() != 4 or values["SOFTCAP"] or values["ALIBI"] or not k.shape[heads]:
        return None
    group = q.shape[heads] // k.shape[heads]
    if q.shape[heads] != group * k.shape[heads]:
        return None
    packs = group > 1 and 64 % group == 0
    share_tiles = packs and rows_spared(q.shape[rows], group)
    call = Builder(forward_kernel(layout, False), tensors, values)
    tiles = -(-q.shape[rows] // 64) * q.shape[heads] * q.shape[0]
    window = values["WINDOW"] or 0  # whose keys are a few parts'
    share_keys = 0 < tiles < LEAST_TILES * call.gpu.sm_count and k.shape[rows] >= SPLIT_KEYS and not 0 < window < k.shape[rows]
    if not share_tiles and not share_keys:
        return None
    least = _clocks(forward_kernel(layout, False), call, values)
    if least is None:
        return None
    taken, others = None, {name: values[name] for name in ("scale", "CAUSAL", "WINDOW", "RIGHT")}
    if share_tiles:
        of_group = {**others, "G": group}
        clocks = _clocks(grouped_kernel(layout), call, of_group)
        if clocks is not None and clocks < least:
            least, taken = clocks, (grouped_kernel(layout), tensors, of_group)
    for n in sorted({1, group if packs else 1}) if share_keys else ():
        for clocks, shared in _shared_keys(split_kernel(layout), call, others, n):
            if clocks < least:
                least, taken = clocks, (split_kernel(layout), tensors, shared)
    return taken


def _forms(meta):
    """What the compiler estimates of each form."""
    return tuple(form["cost"] for form in (meta, *meta.get("variants", ())))


def _part_bytes(split, q):
    return 4 * q[0] * q[1] * q[2] * int(split["constants"]["DV"])


def _splits_of(code, gpu, q, k):
    """How many programs share the keys of a head of K and V, for tensors of these shapes."""
    whole, split = (code.kernels[name] for name in ("attention_decode", "attention_decode_split"))
    rows = -(-q[1] // int(split["constants"]["MS"]))
    programs = max(rows * k[2] * q[0], 1)
    if "cost" not in whole or "cost" not in split:
        return parts.choose(programs, -(-k[1] // int(split["constants"]["N"])), gpu.sm_count)
    keys = -(-k[1] // parts.LEAST_KEYS) * parts.LEAST_KEYS  # while a cache grows, it is not worth another choice before
    sizes = (("B", q[0]), ("Sq", q[1]), ("Hq", q[2]), ("Hk", k[2]), ("Sk", keys), *gpu.facts.items())
    return parts.splits(_forms(whole), _forms(split), parts.OF_ROW, sizes, _part_bytes(split, q), 8, programs)


def _choose_decode(kernel, code, gpu, tensors, values):
    """One kernel, or one that splits the keys and one that combines."""
    constants = code.kernels["attention_decode_split"]["constants"]
    splits = _splits_of(code, gpu, tensors["Q"].shape, tensors["K"].shape)
    if splits == 1 and constants["GP"] == constants["G"]:
        return ["attention_decode"], _scale(tensors, values)
    return ["attention_decode_split", "attention_decode_combine"], {**_scale(tensors, values), "X": splits}


# ---- the function ----


def _autocast(tensors):
    """Under autocast: tensors in its type, but for those of float64, which it leaves alone."""
    dtype = torch.get_autocast_dtype(DEVICE_TYPE)
    return [t.to(dtype) if isinstance(t, torch.Tensor) and t.dtype.is_floating_point and t.dtype not in (dtype, torch.float64)
            and not torch.nn.parameter.is_lazy(t) else t for t in tensors]


def attention(q, k, v, *, causal=False, window=None, right=None, softcap=0.0, scale=None, alibi=False,
              layout="bshd", deterministic=False, return_lse=False, scale_q=None, scale_k=None, scale_v=None):
    """softmax(scale q k^T + mask) v, differentiable once.

    q [B, Sq, Hq, D], k [B, Sk, Hk, D], v [B, Sk, Hk, DV], float16 or bfloat16, Hq a multiple of Hk; with
    layout="bhsd" heads come before rows, as in PyTorch.  The last dimension is contiguous, other strides
    are any multiples of 16 bytes.  Queries and keys are aligned at their ends: query i stands at key
    i + Sk - Sq.

    causal         a query sees no key after its place
    window, right  at most so many keys up to its place, and after it; None: any
    softcap        > 0: softcap * tanh(score / softcap) in place of the score; None, 0 or infinity: the score
    scale          of the scores, up to 65536; None: D ** -0.5
    alibi          less slope * distance, the slope of head h 2 ** (-8 (h + 1) / Hq)
    deterministic  gradients have the same bits in each run; at some sizes slower.  So they are under
                   torch.use_deterministic_algorithms(True), too
    return_lse     also the logarithms of the sums of exponentials, float32 [B, Hq, Sq]
    scale_q, ..    with q, k and v in float8_e4m3fn: what their codes are multiplied by, a number or float32 [B, heads],
                   [heads] or []; the result is bfloat16 and has no gradients (eight.py)
    """
    if getattr(q, "dtype", torch.float32) is E4M3:
        from tilec.torch import eight
        out = eight.attention(q, k, v, (scale_q, scale_k, scale_v), options(scale, softcap, causal, window, right, alibi), layout)
        return out if return_lse else out[0]
    if scale_q is not None or scale_k is not None or scale_v is not None:
        raise Error("attention: scale_q, scale_k and scale_v are for q, k and v in float8_e4m3fn")
    if torch.is_autocast_enabled(DEVICE_TYPE):
        q, k, v = _autocast((q, k, v))
    deterministic = bool(deterministic or torch.are_deterministic_algorithms_enabled())
    values = options(scale, softcap, causal, window, right, alibi)
    if torch.compiler.is_compiling() or not is_eager():
        _prepare(layout, deterministic)
        out = _operators[layout, deterministic](q, k, v, *values)
        return out if return_lse else out[0]
    kernel = forward_kernel(layout, deterministic)
    try:
        if q.is_neg() or k.is_neg() or v.is_neg():
            q, k, v = q.resolve_neg(), k.resolve_neg(), v.resolve_neg()
        recorded = torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)
    except (AttributeError, ValueError):  # of what is no tensor, or not yet one
        kernel.check_tensors((q, k, v))
        raise
    if recorded:
        return gradient.apply(kernel, (q, k, v), values, not return_lse)
    out = kernel.run(q, k, v, *values)
    return out if return_lse else out[0]
