"""quantised.py - products by weights of 4 and 8 bits in the layouts of docs/quantised.md, by the kernels of examples/quantised/.

A layout has a kernel that dequantises its weights, and the product by a matrix behind it.
"""
import functools
import math
import weakref
from dataclasses import dataclass

import torch

from tilec.torch import attend, fused
from tilec.torch.code import Source
from tilec.torch.elements import ELEMENTS
from tilec.torch.error import Error
from tilec.torch.gpu import DEVICE_TYPE
from tilec.torch.kernel import Kernel
from tilec.torch.plan import same_gpu
from tilec.torch.watch import constant, is_eager

TYPES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}
OF_X = ("f16", "bf16")
BYTES = (torch.uint8, torch.int8)
GROUP = 32  # of which groups in order are multiples
# of bitsandbytes 0.50, as its quantize_4bit() gives them
NF4 = (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
       -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
       0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0)


@dataclass(frozen=True)
class Given:
    """What a call gives beside x."""
    layout: str
    k: int
    weight: object
    scales: object
    zeros: object
    index: object
    global_scale: object
    table: object

    def tensor(self, name, dtypes, *shapes, wanted):
        """A tensor that has one of these types and shapes, in which -1 is any extent; what is `wanted`, in words."""
        have = getattr(self, name)
        if not isinstance(have, torch.Tensor):
            raise Error(f"matmul: {name} must be a tensor, not {type(have).__name__}: the layout '{self.layout}' has {wanted}")
        fits = any(len(shape) == have.dim() and all(a in (-1, b) for a, b in zip(shape, have.shape)) for shape in shapes)
        if have.dtype not in dtypes or not fits:
            raise Error(f"matmul: {name} is {str(have.dtype).removeprefix('torch.')} {list(have.shape)}; with K = {self.k} the layout "
                        f"'{self.layout}' has {wanted}")
        if not torch.compiler.is_compiling() and have.is_neg():  # (an operator sees to it)
            have = have.resolve_neg()
        return have if have.is_contiguous() else have.contiguous()

    def multiple(self, of):
        if self.k % of:
            raise Error(f"matmul: K, the last dimension of x, is {self.k}; of the layout '{self.layout}' it is a multiple of {of}")

    def refuse(self, *names):
        for name in names:
            if getattr(self, name) is not None:
                raise Error(f"matmul: the layout '{self.layout}' has no {name}")


def _by_groups(given, n):
    """Scales and zero points of K / G groups, and G."""
    scales = given.tensor("scales", TYPES, (-1, n), wanted="scales of float16, bfloat16 or float32 [K / group, N]")
    groups = scales.shape[0]
    if not groups or given.k % groups:
        raise Error(f"matmul: there are {groups} rows of scales, which do not divide K = {given.k}")
    zeros = given.tensor("zeros", (torch.int32,), (groups, n // 8), wanted=f"zero points of int32 [K / group, N / 8], here [{groups}, {n // 8}]")
    return scales, zeros, given.k // groups


def _gptq(given):
    given.refuse("global_scale", "table")
    given.multiple(8)
    q = given.tensor("weight", (torch.int32,), (given.k // 8, -1), wanted=f"weights of int32 [K / 8, N], here [{given.k // 8}, N]")
    n = q.shape[1]
    scales, zeros, group = _by_groups(given, n)
    index = given.index
    if index is None and group % GROUP:
        index = torch.arange(given.k, dtype=torch.int32, device=q.device) // group
    more = 2 - VERSION[given.layout]
    if index is None:
        return "gptq", (q, zeros.view(torch.uint8), scales), (group, more, math.gcd(group // 8, 16))
    if index is given.index:
        index = given.tensor("index", (torch.int32, torch.int64), (given.k,), wanted="an index (g_idx) of int32 [K]").to(torch.int32)
    return "gptq by index", (q.view(torch.uint8).view(given.k // 8, n, 4), zeros.view(torch.uint8), scales, index), (more,)


def _awq(given):
    given.refuse("index", "global_scale", "table")
    q = given.tensor("weight", (torch.int32,), (given.k, -1), wanted=f"weights of int32 [K, N / 8], here [{given.k}, N / 8]")
    n = q.shape[1] * 8
    scales, zeros, group = _by_groups(given, n)
    if group % GROUP:
        raise Error(f"matmul: groups of {group} rows; of the layout 'awq' they are multiples of {GROUP}")
    q, zeros = (x.view(torch.uint8).view(x.shape[0], n // 8, 2, 2) for x in (q, zeros))
    return "awq", (q, zeros, scales), (group,)


def _pairs(given, block):
    """Weights of 4 bits along K, of which `block` have a scale."""
    given.refuse("zeros", "index")
    given.multiple(block)
    shapes = (-1, given.k // 2), (-1, given.k // 32, 16)
    q = given.tensor("weight", (torch.uint8, ELEMENTS["e2m1"].torch), *shapes, wanted=f"weights of uint8 [N, K / 2], here [N, {given.k // 2}]")
    return q.view(torch.uint8).view(q.shape[0], given.k // 2)


def _mxfp4(given):
    given.refuse("global_scale", "table")
    q, e8m0 = _pairs(given, 32), ELEMENTS["e8m0"].torch
    shape = q.shape[0], given.k // 32
    scales = given.tensor("scales", (torch.uint8, e8m0), shape, wanted=f"scales of uint8 or float8_e8m0fnu [N, K / 32], here {list(shape)}")
    return "mxfp4", (q, scales.view(torch.uint8)), ()


def _nvfp4(given):
    given.refuse("table")
    q = _pairs(given, 16)
    shape = q.shape[0], given.k // 16
    scales = given.tensor("scales", (attend.E4M3,), shape, wanted=f"scales of float8_e4m3fn [N, K / 16], here {list(shape)}")
    every = given.tensor("global_scale", (torch.float32,), (), (1,), wanted="a global_scale of float32 [1]")
    return "nvfp4", (q, scales, every.view(1)), (given.layout == "nvfp4",)


def _nf4_table(device):
    """By kernels, where a graph is captured, which copies nothing from the host."""
    if device.type != "cuda" or torch.compiler.is_compiling() or not torch.cuda.is_current_stream_capturing():
        return torch.tensor(NF4, dtype=torch.float32, device=device)
    table = torch.empty(16, dtype=torch.float32, device=device)
    for place, value in zip(table, NF4):
        place.fill_(value)
    return table


def _nf4(given):
    given.refuse("zeros", "index", "global_scale")
    given.multiple(64)
    q = given.tensor("weight", (torch.uint8,), (-1, given.k // 2), (-1, 1), wanted=f"weights of uint8 [N K / 2, 1] or [N, K / 2]").view(-1)
    n = q.shape[0] * 2 // given.k
    if n * given.k != q.shape[0] * 2:
        raise Error(f"matmul: {2 * q.shape[0]} weights are no rows of K = {given.k}")
    scales = given.tensor("scales", (torch.float32,), (n * given.k // 64,), (n, given.k // 64), wanted="scales (absmax) of float32, one of 64 weights")
    table = given.table
    if table is None:
        table = _nf4_table(q.device)
    else:
        table = given.tensor("table", (torch.float32,), (16,), wanted="a table (quant_map) of float32 [16]")
    return "nf4", (q.view(n, given.k // 2), scales.view(n, given.k // 64), table), ()


def _fp8(given):
    given.refuse("zeros", "index", "global_scale", "table")
    given.multiple(16)
    q = given.tensor("weight", (attend.E4M3,), (-1, given.k), wanted="weights of float8_e4m3fn [N, K]")
    shape = -(-q.shape[0] // 128), -(-given.k // 128)
    return "fp8", (q, given.tensor("scales", (torch.float32,), shape, wanted=f"scales of float32 for 128 x 128 weights each, here {list(shape)}")), ()


def _int8(given):
    given.refuse("zeros", "index", "global_scale", "table")
    given.multiple(16)
    q = given.tensor("weight", (torch.int8,), (-1, given.k), wanted="weights of int8 [N, K]")
    n = q.shape[0]
    return "int8", (q, given.tensor("scales", TYPES, (n,), (n, 1), wanted=f"scales of float16, bfloat16 or float32 [N] or [N, 1], here {n}").view(n)), ()


def _gguf(given, bytes_):
    given.refuse("scales", "zeros", "index", "global_scale", "table")
    given.multiple(32)
    blocks = given.k // 32
    q = given.tensor("weight", BYTES, (-1, blocks * bytes_), (-1, blocks, bytes_), wanted=f"weights of uint8 [N, K / 32 * {bytes_}], here [N, {blocks * bytes_}]")
    return q.view(torch.uint8).view(q.shape[0], blocks, bytes_)


def _q4_0(given):
    q = _gguf(given, 18)
    return "q4_0", (q.view(*q.shape, 1), q.view(torch.float16)), ()


def _q8_0(given):
    q = _gguf(given, 34)
    return "q8_0", (q.view(torch.int8), q.view(torch.float16)), ()


VERSION = {"gptq": 1, "gptq_v2": 2}
LAYOUTS = {"gptq": _gptq, "gptq_v2": _gptq, "awq": _awq, "mxfp4": _mxfp4, "nvfp4": _nvfp4, "nvfp4_multiplied": _nvfp4, "nf4": _nf4,
           "fp8_blocks": _fp8, "int8": _int8, "q4_0": _q4_0, "q8_0": _q8_0}
# what makes the matrix: file, kernel, order of the matrix, values of a call
KERNELS = {"gptq": ("gptq.tile", "gptq", "kn", ("G", "MORE", "TW")), "gptq by index": ("gptq.tile", "gptq_by_index", "kn", ("MORE",)),
           "awq": ("awq.tile", "awq", "kn", ("G",)), "mxfp4": ("blocks.tile", "mxfp4", "nk", ()), "nvfp4": ("blocks.tile", "nvfp4", "nk", ("DIVIDES",)),
           "nf4": ("blocks.tile", "nf4", "nk", ()), "fp8": ("bytes.tile", "fp8", "nk", ()), "int8": ("bytes.tile", "int8", "nk", ()),
           "q4_0": ("gguf.tile", "q4_0", "nk", ()), "q8_0": ("gguf.tile", "q8_0", "nk", ())}


@functools.lru_cache(maxsize=None)
def _text(file, kernel):
    """A kernel of a file alone: its neighbours are not compiled with it."""
    with open(attend.program(f"quantised/{file}")) as opened:
        head, *kernels = opened.read().split("\nkernel ")
    return "".join("\nkernel " + text for text in kernels if text.startswith(kernel + "<"))


# Kernels for few rows compute with words as they are, in parts of K that are added up (examples/quantised/gptq_few.tile), or with bytes (few.tile).
ROW, FEW = ("gptq_row", "sum_parts"), ("apart", "gptq_few", "sum_parts")
AWQ, GROUP_OF_AWQ, WORDS_OF_AWQ, ROWS_OF_AWQ = ("awq_few", "sum_words"), 64, 64, 16
MXFP4, ROWS_OF_MXFP4 = ("apart", "mxfp4_words", "sum_parts"), 128
INT8, ROWS_OF_INT8 = ("apart", "int8_words", "sum_rows"), 128
OF_BYTES = {"int8": "int8_few", "fp8": "fp8_few", "mxfp4": "mxfp4_few"}
ONE = 0x3f800000  # words.tile
TILE, WORDS_OF_TILE, GROUP_OF_TILE, COLUMNS = 128, 16, 128, 8  # columns of a program, words of a tile of K and its rows; of which N is a multiple
TILE_OF_ROW, MANY_COLUMNS = 256, 8192
MOST_ROWS, ROWS_ONE_BY_ONE, MOST_ROWS_OF_BYTES = 64, 1, 128
COLUMNS_OF_BYTES = 64  # of a program
# (programs of a multiprocessor, units of K that each of them has at least): on an H200 the quickest of the parts that were measured
OF_WORDS, OF_COLUMNS = ((2, 2), (4, 4), (7, 8)), ((1, 2), (2, 8))


@functools.lru_cache(maxsize=None)
def few_kernel(file, names, dtype, plan=None):
    return Kernel(attend.program(f"quantised/{file}"), names, returns=("Y",), types={"T": OF_X}, defines={"TY": dtype}, name="matmul_" + names[-1],
                  **({"plan": plan} if plan else {}))


def tile_of_rows(rows):
    return min(max(8, 1 << (rows - 1).bit_length()), 64)


def parts_of(units, programs, sm_count, limits=OF_WORDS):
    """How many parts of whole units K is divided into, where there are so many programs for each part."""
    fits = lambda p: any(p * programs <= most * sm_count and units // p >= least for most, least in limits)  # noqa: E731
    return max((p for p in range(1, units + 1) if units % p == 0 and fits(p)), default=1)


def in_parts(names, dtype, tensors, values, parts, tile=TILE):
    """The kernel, tensors and values of a call with few rows; the memory of the tensors is the same."""
    q, z, s, x = (tensors[name] for name in ("Q", "Z", "S", "X"))
    words, n = q.shape[0] // parts, q.shape[1]
    q = q.view(parts, words, n)
    z, s = z.view(parts, -1, n // 2), s.view(parts, -1, n)
    x = x.unflatten(1, (parts, words, 8))
    x = x.view(torch.int32) if names is ROW else x
    values = {**values, "one": ONE, "TN": tile, "TW": WORDS_OF_TILE, **({"T": TYPES[tensors["X"].dtype]} if names is ROW else {"TM": tile_of_rows(x.shape[0])})}
    return few_kernel("gptq_few.tile", names, dtype), {"Q": q, "Z": z, "S": s, "X": x}, values


def awq_in_parts(dtype, tensors, values, parts):
    """The same for AWQ."""
    q, z, s, x = (tensors[name] for name in ("Q", "Z", "S", "X"))
    k, words, rows = q.shape[0] // parts, q.shape[1], x.shape[0]
    q, z = (t.view(-1, words * 4).view(torch.int32).view(parts, -1, words) for t in (q, z))
    values = {**values, "one": ONE, "TM": min(tile_of_rows(rows), ROWS_OF_AWQ)}
    return few_kernel("awq_few.tile", AWQ, dtype), {"Q": q, "Z": z, "S": s.view(parts, -1, words, 8), "X": x.unflatten(1, (parts, k))}, values


def _few_of_awq(dtype, tensors, values):
    k, words, rows = *tensors["Q"].shape[:2], tensors["X"].shape[0]
    if rows > MOST_ROWS or values["G"] % GROUP_OF_AWQ or words % 4:
        return None
    programs = -(-words // WORDS_OF_AWQ) * -(-rows // ROWS_OF_AWQ)
    parts = parts_of(k // values["G"], programs, same_gpu("matmul", tensors).sm_count, OF_COLUMNS)
    return awq_in_parts(dtype, tensors, values, parts)


def int8_in_parts(dtype, tensors, values, parts, tile=TILE):
    """The same for int8."""
    q, s, x = (tensors[name] for name in ("Q", "S", "X"))
    words = q.shape[1] // 4 // parts
    values = {**values, "one": ONE, "TN": tile, "TM": tile_of_rows(x.shape[0])}
    return (few_kernel("int8_few.tile", INT8, dtype),
            {"Q": q.view(torch.int32).view(-1, parts, words), "S": s, "X": x.unflatten(1, (parts, words, 4))}, values)


def _few_of_int8(dtype, tensors, values):
    n, k = tensors["Q"].shape
    rows = tensors["X"].shape[0]
    if rows > MOST_ROWS // 2 or k % ROWS_OF_INT8:
        return _few_bytes("int8", dtype, tensors, values)
    tile = TILE // 2 if rows > 8 and n > MANY_COLUMNS else TILE
    parts = parts_of(k // ROWS_OF_INT8, -(-n // tile), same_gpu("matmul", tensors).sm_count)
    return int8_in_parts(dtype, tensors, values, parts, tile)


def mxfp4_in_parts(dtype, tensors, values, parts, tile=TILE):
    """The same for MXFP4."""
    q, s, x = (tensors[name] for name in ("Q", "S", "X"))
    words = q.shape[1] // 4 // parts
    values = {**values, "TN": tile, "TM": tile_of_rows(x.shape[0])}
    return (few_kernel("mxfp4_few.tile", MXFP4, dtype),
            {"Q": q.view(torch.int32).view(-1, parts, words), "S": s.view(-1, parts, words // 4), "X": x.unflatten(1, (parts, words, 8))}, values)


def _few_of_mxfp4(dtype, tensors, values):
    n, k = tensors["Q"].shape[0], tensors["Q"].shape[1] * 2
    if tensors["X"].shape[0] > MOST_ROWS or k % ROWS_OF_MXFP4:
        return _few_bytes("mxfp4", dtype, tensors, values)
    parts = parts_of(k // ROWS_OF_MXFP4, -(-n // TILE), same_gpu("matmul", tensors).sm_count)
    return mxfp4_in_parts(dtype, tensors, values, parts)


def _few_words(dtype, tensors, values):
    k, n, rows = tensors["Q"].shape[0] * 8, tensors["Q"].shape[1], tensors["X"].shape[0]
    if rows > MOST_ROWS or values["G"] % GROUP_OF_TILE or n % COLUMNS:
        return None
    names, tile = (ROW, TILE_OF_ROW) if rows <= ROWS_ONE_BY_ONE else (FEW, TILE)
    parts = parts_of(k // values["G"], -(-n // tile), same_gpu("matmul", tensors).sm_count)
    return in_parts(names, dtype, tensors, values, parts, tile)


def _plan_of_bytes(tiles, rows, sm_count):
    """As many programs in a block as leave each multiprocessor one (H200: 4096 columns take half of the time by one as by four)."""
    most = 4 if rows <= 16 else 2
    consumers = most if tiles >= most * sm_count * 3 // 4 else 2 if tiles >= 3 * sm_count // 2 else 1
    return f"consumers={consumers},stages={6 if consumers < 4 else 4}"


def _few_bytes(name, dtype, tensors, values):
    rows = tensors["X"].shape[0]
    if rows > MOST_ROWS_OF_BYTES:
        return None
    tile, gpu = tile_of_rows(rows), same_gpu("matmul", tensors)
    plan = _plan_of_bytes(-(-tensors["Q"].shape[0] // COLUMNS_OF_BYTES), tile, gpu.sm_count) if gpu.arch == "sm_90" else None
    return few_kernel("few.tile", (OF_BYTES[name],), dtype, plan), tensors, {**values, "TM": tile}


def _without_matrix(name, dtype, tensors, values):
    """Another kernel, which makes no matrix, or None."""
    if not tensors["X"].shape[0] or 0 in tensors["Q"].shape or any(tensor.data_ptr() % 16 for tensor in tensors.values()):
        return None
    gpu = same_gpu("matmul", tensors)
    form = fused.form_of(name, tensors, values, gpu.sm_count) if gpu.arch in fused.ARCHS else None
    if form is not None:
        return fused.call(name, dtype, tensors, values, form)
    if name == "fp8":
        return _few_bytes(name, dtype, tensors, values)
    return {"gptq": _few_words, "awq": _few_of_awq, "int8": _few_of_int8, "mxfp4": _few_of_mxfp4}[name](dtype, tensors, values)


@functools.lru_cache(maxsize=None)
def forward_kernel(name, dtype):
    """The product by weights of KERNELS[name], whose results are `dtype`."""
    file, kernel, order, values = KERNELS[name]
    product = f"product_{order}"
    return Kernel(Source(_text(file, kernel) + _text("product.tile", product)), (kernel, product), returns=("Y",), types={"T": OF_X},
                  defines={"TY": dtype}, values=values, instead=functools.partial(_without_matrix, name, dtype) if name in ("gptq", "awq", *OF_BYTES) else None, name="_".join(("matmul", *name.split(), dtype)))


_operators = {}


@constant
def _prepare(name, dtype):
    """As attend.py's: what torch.compile does when it traces, and traces nothing of."""
    _operators[name, dtype] = forward_kernel(name, dtype).registered()
    return True


_prepared = {}  # by the id of a weight, as long as it lives: of what, and what came of it


def _forget(key, reference):
    """What is kept of a weight that is gone, unless another one has its place."""
    if key in _prepared and _prepared[key][2][0] is reference:
        del _prepared[key]


def _prepared_before(layout, k, given):
    """What the layout's function gives, which for the same tensors is kept: its views take most of a call's time.  Views alone,
    since a copy would not have what is written to a tensor later."""
    if not isinstance(given[0], torch.Tensor):
        return LAYOUTS[layout](Given(layout, k, *given))  # which refuses it
    key = id(given[0])
    kept = _prepared.get(key)
    if kept is not None and kept[0] == layout and kept[1] == k:
        for now, before, place in zip(given, kept[2], kept[3]):
            if now is not (None if before is None else before()) or now is not None and now.data_ptr() != place:
                break
        else:
            return kept[4]
    made = LAYOUTS[layout](Given(layout, k, *given))
    storages = {t.untyped_storage().data_ptr() for t in given if t is not None}
    own = sum(t.untyped_storage().data_ptr() not in storages for t in made[1])  # a table, or an index of groups, that was not given
    capturing = given[0].is_cuda and torch.cuda.is_current_stream_capturing()
    if not capturing and all(t is None or t.is_contiguous() and not t.is_neg() for t in given) and own <= (given[3] is None and given[5] is None):
        gone, made = functools.partial(_forget, key), (made[0], tuple(t.detach() for t in made[1]), made[2])  # which keep no tensor of the caller's
        references = [None if t is None else weakref.ref(t, gone if i == 0 else None) for i, t in enumerate(given)]
        _prepared[key] = layout, k, references, [None if t is None else t.data_ptr() for t in given], made
    return made


def _rows(x):
    """x as a matrix whose rows are where kernels read them."""
    if not isinstance(x, torch.Tensor):
        raise Error(f"matmul: x must be a tensor, not {type(x).__name__}")
    if torch.is_autocast_enabled(DEVICE_TYPE) and x.is_floating_point():
        x = x.to(torch.get_autocast_dtype(DEVICE_TYPE))
    if x.dtype not in (torch.float16, torch.bfloat16):
        raise Error(f"matmul: x is {str(x.dtype).removeprefix('torch.')}, and products by quantised weights take float16 and bfloat16: cast it, or "
                    "use torch.autocast")
    shape = x.shape
    if not shape or not shape[-1]:
        raise Error(f"matmul: x is [.., K], and has the shape {list(shape)}")
    rows = x if len(shape) == 2 else x.reshape(-1, shape[-1])
    across, along = rows.stride()
    return rows if along == 1 and across % 8 == 0 else rows.contiguous()


def matmul(x, weight, scales=None, zeros=None, *, layout, index=None, global_scale=None, table=None, out_dtype=None):
    """x W, [.., N], of x [.., K] in float16 or bfloat16 and weights in one of the layouts of docs/quantised.md, as checkpoints have them.

    layout      weight, scales, zeros
    gptq        qweight int32 [K / 8, N], scales [K / group, N], qzeros int32 [K / group, N / 8], stored less one; gptq_v2: as they are.
                With act-order `index` is g_idx [K]
    awq         qweight int32 [K, N / 8], scales [K / group, N], qzeros int32 [K / group, N / 8]
    mxfp4       blocks uint8 [N, K / 32, 16] or [N, K / 2], scales uint8 [N, K / 32]
    nvfp4       weight_packed uint8 [N, K / 2], weight_scale float8_e4m3fn [N, K / 16], and `global_scale` float32 [1], which divides;
                nvfp4_multiplied: one that multiplies (ModelOpt's weight_scale_2)
    fp8_blocks  weight float8_e4m3fn [N, K], weight_scale_inv float32 of blocks of 128 x 128
    int8        int8 [N, K], scales [N]
    nf4         uint8 [N K / 2, 1], absmax float32; `table` is its quant_map, if it is another one
    q4_0, q8_0  the bytes of GGUF's blocks, uint8 [N, bytes of a row]

    The result has the type of x, or `out_dtype` (float16, bfloat16, float32).  Weights are rounded to the type of x; sums are float32.
    """
    x_rows = _rows(x)
    if layout not in LAYOUTS:
        raise Error(f"matmul: the layout '{layout}' is not known, but {', '.join(LAYOUTS)}")
    out_dtype = x_rows.dtype if out_dtype is None else out_dtype
    if out_dtype not in TYPES:
        raise Error(f"matmul: out_dtype is float16, bfloat16 or float32, not {out_dtype}")
    dtype, given = TYPES[out_dtype], (weight, scales, zeros, index, global_scale, table)
    if torch.compiler.is_compiling() or not is_eager():
        name, tensors, values = LAYOUTS[layout](Given(layout, x_rows.shape[1], *given))
        _prepare(name, dtype)
        out = _operators[name, dtype](*tensors, x_rows, *values)
    else:
        name, tensors, values = _prepared_before(layout, x_rows.shape[1], given)
        kernel = forward_kernel(name, dtype)
        if torch.is_grad_enabled() and x_rows.requires_grad:
            out = kernel.call((*tensors, x_rows), values)
        else:
            out = kernel.run(*tensors, x_rows.resolve_neg() if x_rows.is_neg() else x_rows, *values)
    return out if x.dim() == 2 else out.view(*x.shape[:-1], out.shape[1])
