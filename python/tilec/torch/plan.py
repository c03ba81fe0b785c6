"""plan.py - a launch plan: all that a call's shapes, strides, types and values decide, worked out once.

What docs/metadata.md asks of a launcher, but for what _launch.c does at each launch: addresses, tensor
maps, the stream.  Every refusal is made here, in words, before anything is launched.
"""
import re
import struct
import warnings
from dataclasses import dataclass

import torch

from tilec.torch import interpret
from tilec.torch.elements import ELEMENTS
from tilec.torch.error import Error
from tilec.torch.expressions import evaluate, follow
from tilec.torch.gpu import DEVICE_TYPE, gpu as gpu_of, launcher, zeros
from tilec.torch.interpret import WITHOUT
from tilec.torch.watch import is_deterministic, only_warns

MOST_TILES = 2**31 - 2**16

DTYPES = {name: row.torch for name, row in ELEMENTS.items()}
NAMES = {row.torch: name for name, row in reversed(ELEMENTS.items()) if row.torch}
BYTES = {name: row.bytes for name, row in ELEMENTS.items()}
_FORMAT = {"u64": "<Q", "s64": "<q", "s32": "<i", "u32": "<I", "f32": "<f"}
# CUtensorMapSwizzle, CUtensorMapL2promotion
_MAP_SWIZZLE = {0: 0, 32: 1, 64: 2, 128: 3}
_MAP_PROMOTION = {0: 0, 64: 1, 128: 2, 256: 3}
_MAP_ROUNDED = {"tf32": 11}  # CUtensorMapDataType of copies that round
UNIT = 256  # addresses in a workspace are multiples of it


@dataclass
class Described:
    """A tensor as the kernel sees it; `index` is that of the plan."""
    name: str
    dtype: str
    shape: tuple
    stride: tuple
    index: int = -1

    @property
    def bytes(self):
        if 0 in self.shape:
            return 0
        return (sum((n - 1) * s for n, s in zip(self.shape, self.stride)) + 1) * BYTES[self.dtype]


def described(name, tensor, order):
    """`order`: which dimension of the tensor is each of the kernel's; None: the same."""
    if tensor.layout != torch.strided:
        raise Error(f"{name} is not a strided tensor ({tensor.layout}): give {name}.to_dense()")
    if tensor.dtype not in NAMES:
        taken = ", ".join(dict.fromkeys(str(dtype).removeprefix("torch.") for dtype in DTYPES.values() if dtype))
        raise Error(f"{name} is {tensor.dtype}, which kernels do not take: they take {taken}")
    shape, stride = tuple(tensor.shape), tuple(tensor.stride())
    if order and len(order) == len(shape):
        shape, stride = tuple(shape[d] for d in order), tuple(stride[d] for d in order)
    return Described(name, NAMES[tensor.dtype], shape, stride)


def wrong_device(kernel, name, tensor):
    said = f"{kernel}: {name} is on the device '{tensor.device}', and kernels run on "
    if WITHOUT:
        return said + f"the CPU where TILEC_INTERPRET is set: give {name}.cpu()"
    return said + f"a GPU: give {name}.cuda(), or set TILEC_INTERPRET=1, with which CPU tensors go through the interpreter"


def refuse_devices(kernel, tensors):
    """What is not on one GPU, all tensors by name; the name of one."""
    first = None
    for name, tensor in tensors.items():
        if tensor.device.type != DEVICE_TYPE:
            raise Error(wrong_device(kernel, name, tensor))
        if first is not None and tensor.device != tensors[first].device:
            raise Error(f"{kernel}: {name} is on {tensor.device}, but {first} on {tensors[first].device}: all "
                        "tensors of a launch must be on one GPU")
        first = first or name
    return first


def same_gpu(kernel, tensors):
    """The GPU that all tensors (by name) are on."""
    return gpu_of(tensors[refuse_devices(kernel, tensors)].device.index or 0)


def sizes_of(meta, tensors, env, shared=()):
    """The named sizes of a kernel, from the shapes of its tensors; checks that they agree.  `shared`: of other kernels."""
    found, source = {}, {}
    for t in meta["tensors"]:
        have = tensors.get(t["name"])
        if have is None:
            continue
        if len(have.shape) != len(t["shape"]):
            raise Error(f"{meta['name']}: {t['name']} must have {len(t['shape'])} dimensions "
                        f"[{', '.join(map(str, t['shape']))}], not {len(have.shape)}")
        for d, (want, extent) in enumerate(zip(t["shape"], have.shape)):
            if isinstance(want, int):
                if want != extent:
                    raise Error(f"{meta['name']}: dimension {d} of {t['name']} must be {want}, not {extent}")
            elif found.setdefault(want, extent) != extent:
                raise Error(f"{meta['name']}: dimension {d} of {t['name']} is {extent}, but {want} is "
                            f"{found[want]} ({source[want]})")
            else:
                source.setdefault(want, f"dimension {d} of {t['name']}")
    for name in meta["sizes"]:
        if name not in found and env.get(name) is not None:
            found[name] = int(env[name])
    for name, value in found.items():
        if not 0 <= value < 2**31:
            raise Error(f"{meta['name']}: {name} = {value} does not fit 32 bits")
    return follow(meta, found, {**dict(shared), **env})


def strides_to_pass(meta, t, have):
    """Checks type and strides; 0 where an extent of 1 makes a stride meaningless."""
    if DTYPES[have.dtype] not in (DTYPES[t["dtype"]], DTYPES[t.get("packed", t["dtype"])]):
        raise Error(f"{meta['name']}: {t['name']} must be {t['dtype']}, not {have.dtype}")
    if 0 in have.shape:  # of nothing any strides are right
        return [0] * len(have.shape)
    strides = [s if n > 1 else 0 for n, s in zip(have.shape, have.stride)]
    if strides and have.shape[-1] > 1 and strides[-1] != 1:
        raise Error(f"{meta['name']}: the last dimension of {t['name']} must be contiguous (its stride is "
                    f"{strides[-1]})")
    for d, stride in enumerate(strides[:-1]):
        if stride * BYTES[have.dtype] % t["align"]:
            raise Error(f"{meta['name']}: stride {d} of {t['name']} is {stride * BYTES[have.dtype]} bytes; it must "
                        f"be a multiple of {t['align']}")
    return strides


def refuse_overlap(meta, have):
    """An output that is given has a place for each of its elements."""
    span = 1
    for stride, extent in sorted((s, n) for s, n in zip(have.stride, have.shape) if n > 1 and 0 not in have.shape):
        if stride < span:
            raise Error(f"{meta['name']}: several elements of the output {have.name} lie in one place (strides {have.stride} of "
                        f"{have.shape}): give a tensor that is not expanded")
        span += (extent - 1) * stride


def refuse_any_order(meta, t):
    """What torch.use_deterministic_algorithms() asks for."""
    if not is_deterministic() or not t["atomic"] or ELEMENTS[t["dtype"]].ends:
        return
    said = (f"{meta['name']} adds to {t['name']} in any order, so that its result has other last bits in each run, and "
            "torch.use_deterministic_algorithms(True) is set")
    if not only_warns():
        raise Error(said)
    warnings.warn(said, stacklevel=2)


def row_major(shape, dtype, align):
    """Strides in C order, with space between rows where they have to be aligned."""
    unit = max(1, align // BYTES[dtype])
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step = (step * extent + unit - 1) // unit * unit
    return tuple(strides)


def map_values(recipe, have):
    """Sizes and pitches (bytes, of dimensions 1 and up) of a tensor map, innermost first."""
    unit, size, pitches, span = BYTES[have.dtype], [], [], BYTES[have.dtype]
    for i, d in enumerate(recipe["dims"]):
        extent, pitch = (1 if 0 in have.shape else have.shape[d]), unit
        if i > 0:
            pitch = have.stride[d] * unit if extent > 1 else (span + 15) // 16 * 16
            if not 0 <= pitch < 2**40 or pitch % 16:
                raise Error(f"stride {d} of {recipe['tensor']} is {pitch} bytes; a tensor map takes multiples of "
                            "16 below 2^40")
            pitches.append(pitch)
        size.append(extent)
        span = max(span, extent * pitch)
    before = end_boxes(recipe, size, pitches, have)
    return tuple(size), tuple(pitches), before


def end_boxes(recipe, size, pitches, have):
    """Where a dimension is named twice, boxes end before the tensor does (docs/metadata.md): how far the map
    begins before it, in bytes."""
    d = recipe["dims"].index(recipe["dims"][-1])
    if d + 1 == len(size) or 0 in have.shape:
        return 0
    pitches[-1] = pitches[d - 1]
    size[d], size[-1] = recipe["box"][d], size[-1] + 1
    return size[d] * pitches[-1]


class Builder:
    """Puts the plan of one call together."""

    def __init__(self, kernel, tensors, values):
        self.kernel, self.values = kernel, values
        self.gpu = same_gpu(kernel.name, tensors)
        self.tensors = {name: described(name, tensor, kernel.order.get(name)) for name, tensor in tensors.items()}
        for index, have in enumerate(self.tensors.values()):
            have.index = index
        self.n_inputs = len(self.tensors)
        self.aligns = [1] * self.n_inputs
        self.made, self.pieces, self.workspace = [], [], 0
        self.zeroed, self.spaces = [], {}

    def add(self, meta, t, align, env, returned):
        """A tensor that the call makes: one that it returns, or a part of the workspace."""
        missing = [d for d in t["shape"] if not isinstance(d, int) and d not in env]
        if missing:
            raise Error(f"{meta['name']}: the shape of {t['name']} needs {missing[0]}, which no given tensor has")
        shape = tuple(d if isinstance(d, int) else env[d] for d in t["shape"])
        have = Described(t["name"], t["dtype"], shape, row_major(shape, t["dtype"], align))
        self.tensors[t["name"]] = have
        if t["mode"] == "inout" or t["atomic"]:
            self.zeroed.append(have)
        if not returned and not WITHOUT:
            self.pieces.append((have, self.take(have.bytes)))
            return
        order = self.kernel.order.get(t["name"]) or tuple(range(len(shape)))
        place = [order.index(d) for d in range(len(shape))]
        arguments = (tuple(shape[d] for d in place), tuple(have.stride[d] for d in place))
        have.index = self.n_inputs + len(self.made)
        self.made.append((torch.empty_strided, arguments, {"dtype": DTYPES[t["dtype"]], "device": self.gpu.device}))

    def take(self, bytes_):
        """Where in the workspace so many bytes are."""
        at = self.workspace
        self.workspace += -(-bytes_ // UNIT) * UNIT
        return at

    def finish_memory(self):
        """Numbers the parts of the workspace, behind all tensors that are made."""
        if not self.pieces:
            return ()
        base = self.n_inputs + len(self.made)
        self.made.append((torch.empty, (max(self.workspace, 1),), {"dtype": torch.uint8, "device": self.gpu.device}))
        placed = []
        for i, (have, offset) in enumerate(self.pieces):
            have.index = base + 1 + i
            placed.append((base, offset))
        return tuple(placed)

    def memory_size(self, meta, parameter, env):
        bytes_ = evaluate(parameter["size"], env)
        if not isinstance(bytes_, int) or bytes_ < 0:
            raise Error(f"{meta['name']}: {parameter['name']} would have {bytes_} bytes")
        return bytes_

    def space(self, name, bytes_):
        """A workspace that kernels share by its name."""
        if name not in self.spaces:
            self.spaces[name] = Described(name, "bool", (bytes_,), (1,))
            self.pieces.append((self.spaces[name], self.take(bytes_)))
        return self.spaces[name]

    def step(self, meta, code, env):
        """The launch of a kernel; None when its grid is empty."""
        name, params = meta["name"], meta["params"]
        for required in meta["require"]:
            if not holds(required["condition"], env):
                raise Error(f"{name}: {required['message'] or 'requires ' + required['condition']}")
        strides = {t["name"]: strides_to_pass(meta, t, self.tensors[t["name"]]) for t in meta["tensors"]}
        for t in meta["tensors"]:
            have = self.tensors[t["name"]]
            refuse_any_order(meta, t)
            if have.index < self.n_inputs and t["mode"] != "in":
                refuse_overlap(meta, have)
            if have.index < self.n_inputs and have.bytes:
                self.aligns[have.index] = max(self.aligns[have.index], t["align"])
        grid = tuple(int(evaluate(text, env)) for text in meta["grid"])
        check_grid(meta, grid, env)
        if 0 in grid:
            return None
        if WITHOUT:
            return interpret.step(self.kernel, code, meta, self.tensors, env)
        packed = bytearray(max(p["offset"] + p["bytes"] for p in params))
        addresses, maps, scratch = [], [], []
        for p in params:
            kind, value = p["kind"], 0
            if kind == "tensormap":
                maps.append(self.tensor_map(meta, p))
                continue
            if kind == "pointer":
                addresses.append((p["offset"], self.tensors[p["tensor"]].index))
            elif kind == "stride":
                value = strides[p["tensor"]][p["dim"]]
            elif kind in ("size", "scalar"):
                value = env[p["name"]]
            elif kind == "scratch":
                bytes_ = self.memory_size(meta, p, env)
                if bytes_:
                    scratch.append((p["offset"], bytes_))
            elif kind == "workspace":
                addresses.append((p["offset"], self.spaces[p["name"]].index))
            elif kind != "zero":
                raise Error(f"{name}: this launcher does not make a parameter of kind '{kind}'")
            struct.pack_into(_FORMAT[p["type"]], packed, p["offset"], value)
        return (code.function(self.gpu, meta), grid, meta["block"], meta["shared"], tuple(meta["cluster"]),
                bool(meta.get("early_start")), bytes(packed), tuple(p["offset"] for p in params), tuple(addresses),
                tuple(maps), tuple(scratch))

    def tensor_map(self, meta, p):
        recipe = meta["tensormaps"][p["map"]]
        have = self.tensors[p["tensor"]]
        size, pitches, before = map_values(recipe, have)
        index, address = have.index, before
        if 0 in have.shape:  # the driver takes no map of nothing: one of a zero (docs/metadata.md)
            index, address = -1, zeros(self.gpu.number, 16)
        elif index < self.n_inputs:
            self.aligns[index] = max(self.aligns[index], 16)
        rounded = _MAP_ROUNDED.get(recipe.get("dtype"), ELEMENTS[have.dtype].map)
        return (p["offset"], index, address, rounded, size, pitches, tuple(recipe["box"]),
                _MAP_SWIZZLE[recipe["swizzle"]], _MAP_PROMOTION[recipe["l2_promotion"]])


def values_in(text, env):
    """The names in a launch expression, but those of the device, and their values."""
    names = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", text))
    return ", ".join(f"{name} = {env[name]}" for name in names if name in env and not name.startswith("sm_"))


def check_grid(meta, grid, env):
    """Refuses a grid that CUDA does not launch, and more tiles than the blocks of a persistent kernel, which go
    through them by number, can count: numbers have 32 bits, also the one behind the last tile."""
    for axis, (n, text, most) in enumerate(zip(grid, meta["grid"], (2**31 - 1, 65535, 65535))):
        if not 0 <= n <= most:
            raise Error(f"{meta['name']}: the grid's dimension {axis} is {text} = {n}, with {values_in(text, env)}; "
                        f"CUDA allows 0 to {most}")
    text = meta["grid"][0]
    if "sm_count" in text and evaluate(text, {**env, "sm_count": 2**32 - 1}) > MOST_TILES:
        raise Error(f"{meta['name']}: there are more than {MOST_TILES} tiles, which its blocks cannot count: the grid is "
                    f"{text}, with {values_in(text, env)}")


def holds(condition, env):
    try:
        return evaluate(condition, env)
    except Error:  # a division by zero: sizes that cannot be
        return False


def scalars_of(meta, values):
    """The scalars of a kernel from the values of the call."""
    found = {}
    for s in meta["scalars"]:
        value = values.get(s["name"])
        if value is None:
            raise Error(f"{meta['name']}: no value for the scalar '{s['name']}'")
        found[s["name"]] = int(value) if ELEMENTS[s["type"]].ends else float(value)
    return found


def form_of(meta, env):
    """Of a kernel with variants: the form that takes these sizes, the one with the least cost."""
    forms = [meta, *meta.get("variants", ())]
    if len(forms) == 1:
        return meta
    try:
        return {**meta, **min(forms, key=lambda form: evaluate(form["cost"], env))}
    except Error:  # a division by zero: what is wrong with the sizes, the checks of the launch say
        return meta


def make_plan(kernel, tensors, values):
    """The Plan of a call: tensors and values by name."""
    b = Builder(kernel, tensors, values)
    code = kernel.code(b.gpu, b.tensors, values)
    names, values = kernel.chosen(code, b.gpu, b.tensors, values)
    metas = [code.kernels[name] for name in names]
    shared = {}
    for meta in metas:
        shared = {**sizes_of(meta, b.tensors, values), **shared}
    for meta in metas:  # what is made; a later kernel finds the tensors of an earlier one
        env = {**shared, **sizes_of(meta, b.tensors, values, shared)}
        for t in meta["tensors"]:
            if t["name"] in b.tensors:
                continue
            if t["mode"] == "in":
                raise Error(f"{meta['name']}: no tensor for '{t['name']}'")
            align = max(u["align"] for m in metas for u in m["tensors"] if u["name"] == t["name"])
            b.add(meta, t, align, env, t["name"] in kernel.returns)
    envs = []
    for k, meta in enumerate(metas):
        envs.append({**shared, **sizes_of(meta, b.tensors, values, shared), **scalars_of(meta, values), **b.gpu.facts})
        metas[k] = meta = form_of(meta, envs[-1])
        for p in meta["params"]:
            if p["kind"] == "workspace" and not WITHOUT:
                b.space(p["name"], max(b.memory_size(meta, p, envs[-1]), 1))
    pieces = b.finish_memory()
    steps = [b.step(meta, code, env) for meta, env in zip(metas, envs)]
    zeroed = [(have.index, have.bytes) for have in b.zeroed if have.bytes]
    for name, align in zip(tensors, b.aligns):
        if tensors[name].numel() and tensors[name].data_ptr() % align:
            raise Error(f"{kernel.name}: the address of {name} must be a multiple of {align} bytes")
    returns = tuple(b.tensors[name].index for name in kernel.returns)
    return launcher().Plan(b.gpu.handle, tuple(align - 1 for align in b.aligns), tuple(b.made), pieces, returns,
                           len(returns) == 1, tuple(zeroed + [step for step in steps if step is not None]))
