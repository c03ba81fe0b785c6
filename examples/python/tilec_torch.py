"""tilec_torch.py - load a PTX file that tilec made and launch its kernels on PyTorch tensors.

One file, to copy into a project: ctypes over the CUDA Driver API, nothing else.  The PTX file
says what it needs to be launched (docs/metadata.md), so there is nothing to configure:

    import torch, tilec_torch
    attn = tilec_torch.load("attn.ptx")
    out = attn.launch(Q=q, K=k, V=v, scale=0.125)         # missing outputs are made
    out["O"], out["L"]

Tensors may have any strides that the kernel accepts (the last dimension contiguous); sizes come
from the tensors and are checked against each other; kernels run on the tensors' GPU, on torch's
current stream there, and may be launched by any thread.  torch.compile leaves launches alone.

`attention(q, k, v, ...)` below is a torch.autograd.Function over a forward and a backward module.
"""

import contextlib
import ctypes
import json
import os
import re
import struct

ABI = 1  # of the metadata this file understands
SYMBOL = "tilec_metadata"


class TilecError(RuntimeError):
    """A launch that the kernel cannot run, or a call of the driver that failed."""


# ---- metadata: the JSON object in the PTX file -------------------------------------------------


def read_metadata(ptx_text):
    """The metadata of a PTX file, as a dict; TilecError when it has none that can be read."""
    match = re.search(r"\b" + SYMBOL + r"\s*\[\s*\d*\s*\]\s*=\s*\{([^}]*)\}", ptx_text)
    if not match:
        raise TilecError(f"no constant '{SYMBOL}' in the PTX: tilec did not make this file")
    data = bytes(int(number, 0) for number in match.group(1).replace(",", " ").split())
    return check_metadata(data)


def check_metadata(data):
    meta = json.loads(data.split(b"\0", 1)[0].decode())
    if meta.get("tilec") != ABI:
        raise TilecError(f"the metadata has version {meta.get('tilec')}, this launcher reads {ABI}")
    return meta


_TOKEN = re.compile(r"\s*(?:(\d+\.\d*(?:[eE][-+]?\d+)?|\d+)|([A-Za-z_]\w*)|(&&|\|\||[<>=!]=|[-+*/%<>!(),]))")
_BINARY = [["||"], ["&&"], ["==", "!="], ["<", "<=", ">", ">="], ["+", "-"], ["*", "/", "%"]]


def _divide(a, b):
    if b == 0:
        raise TilecError("division by zero in a launch expression")
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def compile_expression(text):
    """A function of a dict of names, for an expression of the metadata (C's operators, and min,
    max, cdiv)."""
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not match:
            raise TilecError(f"launch expression '{text}': unexpected '{text[position:]}'")
        tokens.append(match.groups())
        position = match.end()
    tokens.append((None, None, ""))
    at = 0

    def operator():
        return tokens[at][2]

    def expect(what):
        nonlocal at
        if operator() != what:
            raise TilecError(f"launch expression '{text}': expected '{what}'")
        at += 1

    def primary():
        nonlocal at
        number, name, symbol = tokens[at]
        at += 1
        if number is not None:
            value = float(number) if re.search(r"[.eE]", number) else int(number)
            return lambda env: value
        if name in ("min", "max", "cdiv") and operator() == "(":
            expect("(")
            a = binary(0)
            expect(",")
            b = binary(0)
            expect(")")
            if name == "cdiv":
                return lambda env: _divide(a(env) + b(env) - 1, b(env))
            pick = min if name == "min" else max
            return lambda env: pick(a(env), b(env))
        if name in ("true", "false"):
            return lambda env: int(name == "true")
        if name is not None:
            return lambda env: env[name]
        if symbol == "(":
            inside = binary(0)
            expect(")")
            return inside
        if symbol == "-":
            a = primary()
            return lambda env: -a(env)
        if symbol == "!":
            a = primary()
            return lambda env: int(not a(env))
        raise TilecError(f"launch expression '{text}': expected a value")

    operations = {
        "||": lambda a, b: lambda e: int(bool(a(e)) or bool(b(e))),
        "&&": lambda a, b: lambda e: int(bool(a(e)) and bool(b(e))),
        "==": lambda a, b: lambda e: int(a(e) == b(e)),
        "!=": lambda a, b: lambda e: int(a(e) != b(e)),
        "<": lambda a, b: lambda e: int(a(e) < b(e)),
        "<=": lambda a, b: lambda e: int(a(e) <= b(e)),
        ">": lambda a, b: lambda e: int(a(e) > b(e)),
        ">=": lambda a, b: lambda e: int(a(e) >= b(e)),
        "+": lambda a, b: lambda e: a(e) + b(e),
        "-": lambda a, b: lambda e: a(e) - b(e),
        "*": lambda a, b: lambda e: a(e) * b(e),
        "/": lambda a, b: lambda e: _divide(a(e), b(e)),
        "%": lambda a, b: lambda e: a(e) - _divide(a(e), b(e)) * b(e),
    }

    def binary(level):
        nonlocal at
        if level == len(_BINARY):
            return primary()
        left = binary(level + 1)
        while operator() in _BINARY[level]:
            make = operations[operator()]
            at += 1
            left = make(left, binary(level + 1))
        return left

    result = binary(0)
    if operator() != "" or tokens[at][:2] != (None, None):
        raise TilecError(f"launch expression '{text}': text after its end")
    return result


# ---- the driver --------------------------------------------------------------------------------

_driver = None
_contexts = {}  # by device: its primary context, which is PyTorch's, too
DEVICE_TYPE = "cuda"  # of the tensors
ZERO_CLOCKS = 2000  # what it takes to fill sums with zeros in front of a kernel: about a microsecond on an H200


def driver():
    """libcuda, opened at the first use."""
    global _driver
    if _driver is None:
        try:
            _driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise TilecError(f"the CUDA driver cannot be opened: {error}") from error
        _check(_driver.cuInit(0), "cuInit")
    return _driver


def _check(result, what):
    if result == 0:
        return
    name, text = ctypes.c_char_p(), ctypes.c_char_p()
    _driver.cuGetErrorName(result, ctypes.byref(name))
    _driver.cuGetErrorString(result, ctypes.byref(text))
    raise TilecError(
        f"{what}: {(name.value or b'error').decode()} ({result}): {(text.value or b'').decode()}")


def _context(device):
    if device not in _contexts:
        context, handle = ctypes.c_void_p(), ctypes.c_int()
        _check(driver().cuDeviceGet(ctypes.byref(handle), device), "cuDeviceGet")
        _check(driver().cuDevicePrimaryCtxRetain(ctypes.byref(context), handle), "cuDevicePrimaryCtxRetain")
        _contexts[device] = context.value
    return _contexts[device]


@contextlib.contextmanager
def on_device(device):
    """The GPU with this number and its context are current: a thread, like that of a backward pass, has
    none until it first calls CUDA's runtime, and the driver does not help itself."""
    now, context = ctypes.c_void_p(), _context(device)
    with _torch().cuda.device(device):
        _check(driver().cuCtxGetCurrent(ctypes.byref(now)), "cuCtxGetCurrent")
        pushed = now.value != context
        if pushed:
            _check(driver().cuCtxPushCurrent_v2(ctypes.c_void_p(context)), "cuCtxPushCurrent")
        try:
            yield
        finally:
            if pushed:
                driver().cuCtxPopCurrent_v2(ctypes.byref(now))


@contextlib.contextmanager
def _while_capturing():
    """What is not part of a CUDA graph is done, though one is being captured."""
    mode = ctypes.c_int(2)  # CU_STREAM_CAPTURE_MODE_RELAXED
    _check(driver().cuThreadExchangeStreamCaptureMode(ctypes.byref(mode)), "cuThreadExchangeStreamCaptureMode")
    try:
        yield
    finally:
        driver().cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


def lasting_zeros(bytes_):
    """The address of zeros on the current device that are never given back.  They are not PyTorch's: its
    memory may belong to a CUDA graph that is being warmed up, and serves something else in the next run."""
    address, stream, size = ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_size_t(max(bytes_, 16))
    with _while_capturing():
        _check(driver().cuMemAlloc_v2(ctypes.byref(address), size), f"{bytes_} bytes for a kernel")
        _check(driver().cuStreamCreate(ctypes.byref(stream), 1), "cuStreamCreate")  # beside the default one
        _check(driver().cuMemsetD8Async(address, ctypes.c_ubyte(0), size, stream), "cuMemsetD8Async")
        _check(driver().cuStreamSynchronize(stream), "cuStreamSynchronize")
        driver().cuStreamDestroy_v2(stream)
    return address.value


def check_arch(arch, capability):
    """Whether code for `arch` ("sm_90a") runs on a GPU of this (major, minor) capability."""
    match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch)
    if not match:
        raise TilecError(f"unknown architecture '{arch}' in the metadata")
    need, suffix = (int(match.group(1)), int(match.group(2))), match.group(3)
    if suffix == "a" and capability != need:
        reason = "runs on that GPU alone"
    elif suffix == "f" and (capability[0] != need[0] or capability < need):
        reason = "runs on that family alone"
    elif capability < need:
        reason = "needs that GPU or a newer one"
    else:
        return
    raise TilecError(f"the code is for {arch} and {reason}; this GPU is "
                     f"sm_{capability[0]}{capability[1]}: compile with -arch sm_{capability[0]}{capability[1]}")


class _LaunchAttribute(ctypes.Structure):  # CUlaunchAttribute
    _fields_ = [("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16)]


class _LaunchConfig(ctypes.Structure):  # CUlaunchConfig
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("n", ctypes.c_uint)]


CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
STREAM_SERIALIZATION = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
SM_SHARED = 81  # CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_FORMAT = {"u64": "<Q", "s64": "<q", "s32": "<i", "u32": "<I", "f32": "<f"}
# CUtensorMapDataType, CUtensorMapSwizzle, CUtensorMapL2promotion
_MAP_TYPE = {**dict.fromkeys(("bool", "e4m3", "e5m2", "e8m0", "i8", "u8"), 0), "u32": 2, "i32": 3, "f16": 6, "f32": 7,
             "bf16": 9, "tf32": 11}
_MAP_SWIZZLE = {0: 0, 32: 1, 64: 2, 128: 3}
_MAP_PROMOTION = {0: 0, 64: 1, 128: 2, 256: 3}


def _torch():
    import torch
    return torch


def _uncompiled(function):
    """torch.compile calls the function and does not look into it: its graphs would take up the memory
    that launches keep."""
    try:
        import torch
        return torch.compiler.disable(function)
    except (ImportError, AttributeError):  # no PyTorch, or one before 2.1
        return function


NARROW = {"e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "e8m0": "float8_e8m0fnu", "i8": "int8", "u8": "uint8", "u32": "uint32"}


def torch_dtype(name):
    """PyTorch's of an element type; packed types are "u8" in the metadata."""
    torch = _torch()
    found = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "i32": torch.int32,
             "bool": torch.bool}.get(name) or getattr(torch, NARROW.get(name, ""), None)
    if found is None:
        raise TilecError(f"PyTorch {torch.__version__} has no tensors of {name}")
    return found


# ---- tensor maps -------------------------------------------------------------------------------

_zeros = {}  # by device: the address of 16 bytes of zeros, for the maps of empty tensors


def _zeros_of(device):
    if device not in _zeros:
        _zeros[device] = lasting_zeros(16)
    return _zeros[device]


def map_values(recipe, dtype_bytes, shape, strides):
    """Sizes and strides (in bytes, of dimensions 1 and up) of a tensor map, innermost first; of an
    empty tensor: those of one element (docs/metadata.md, "Tensor maps")."""
    size, pitches, span = [], [], dtype_bytes
    for i, d in enumerate(recipe["dims"]):
        extent = 1 if 0 in shape else shape[d]
        pitch = dtype_bytes
        if i > 0:
            pitch = strides[d] * dtype_bytes if extent > 1 else (span + 15) // 16 * 16
            if not 0 <= pitch < 2**40 or pitch % 16:
                raise TilecError(f"stride {d} of {recipe['tensor']} is {pitch} bytes; a tensor map takes "
                                 "multiples of 16 below 2^40")
            pitches.append(pitch)
        size.append(extent)
        span = max(span, extent * pitch)
    return size, pitches


def end_boxes(recipe, size, pitches, shape):
    """Where a dimension is named twice, boxes end before the tensor does (docs/metadata.md): how far the map begins before
    it, in bytes."""
    dims = recipe["dims"]
    d = dims.index(dims[-1])
    if d + 1 == len(dims) or 0 in shape:
        return 0
    pitches[-1] = pitches[d - 1]
    size[d], size[-1] = recipe["box"][d], size[-1] + 1
    return size[d] * pitches[-1]


def encode_map(recipe, dtype, tensor):
    """The 128 bytes of the tensor map of `tensor`."""
    size, pitches = map_values(recipe, tensor.element_size(), tensor.shape, tensor.stride())
    before = end_boxes(recipe, size, pitches, tensor.shape)
    rank = len(size)
    base = tensor.data_ptr() if tensor.numel() else _zeros_of(number_of(tensor.device))
    if base % 16:
        raise TilecError(f"the address of {recipe['tensor']} must be a multiple of 16 bytes for its tensor map")
    room = ctypes.create_string_buffer(128 + 63)
    at = (ctypes.addressof(room) + 63) // 64 * 64  # the alignment that the driver wants
    result = driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(at), _MAP_TYPE[recipe.get("dtype", dtype)], rank, ctypes.c_void_p(base - before),
        (ctypes.c_uint64 * rank)(*size), (ctypes.c_uint64 * rank)(*pitches),
        (ctypes.c_uint32 * rank)(*recipe["box"]), (ctypes.c_uint32 * rank)(*[1] * rank),
        0, _MAP_SWIZZLE[recipe["swizzle"]], _MAP_PROMOTION[recipe["l2_promotion"]], 0)
    _check(result, f"cuTensorMapEncodeTiled for {recipe['tensor']}")
    return ctypes.string_at(at, 128)


class Prepared:
    """A launch whose arguments are checked and packed: `run()` costs one driver call.

    `tensors` is kept for its memory, `scratch` has the bytes of each scratch by its offset."""

    def __init__(self, kernel, device, grid, packed, tensors, scratch):
        self.kernel, self.device, self.grid, self.packed, self.tensors = kernel, device, grid, packed, tensors
        self.scratch = scratch
        base = ctypes.addressof(packed)
        offsets = [p["offset"] for p in kernel.meta["params"]]
        self.pointers = (ctypes.c_void_p * max(len(offsets), 1))(*[base + o for o in offsets])

    @_uncompiled
    def run(self, stream=None):
        if 0 in self.grid:
            return
        with on_device(self.device):
            if stream is None:
                stream = _torch().cuda.current_stream().cuda_stream
            held = []  # until the launch is in the stream
            for offset, bytes_ in self.scratch.items():
                address, kept = self.kernel.scratch(offset, bytes_, stream, self.device)
                held.append(kept)
                struct.pack_into("<Q", self.packed, offset, address)
            self.kernel.call(self.device, self.grid, self.pointers, stream)


class Kernel:
    """One kernel of a module."""

    def __init__(self, module, meta):
        self.module, self.meta, self.name = module, meta, meta["name"]
        self.grid_functions = [compile_expression(text) for text in meta["grid"]]
        self.requires = [(compile_expression(r["condition"]), r) for r in meta["require"]]
        self.follows = {name: compile_expression(text) for name, text in meta.get("follows", {}).items()}
        self.memory_sizes = {p["name"]: compile_expression(p["size"]) for p in meta["params"]
                             if p["kind"] in ("scratch", "workspace")}
        self.functions = {}  # by device
        self.scratches = {}  # by device, stream, parameter and size
        variants = meta.get("variants", [])
        self.variants = [Kernel(module, {**meta, **variant, "variants": []}) for variant in variants]
        self.cost = compile_expression(meta["cost"]) if "cost" in meta else None

    def form(self, env):
        """The kernel, or the variant of it that these sizes take: the one with the least cost."""
        return min([self, *self.variants], key=lambda kernel: kernel.cost(env)) if self.variants else self

    def scratch(self, offset, bytes_, stream, device):
        """The address of memory that is zero now and that each launch leaves zero, and what owns it.
        Launches of one stream share it; a graph that is being captured gets its own, cleared in the graph."""
        torch = _torch()
        if torch.cuda.is_current_stream_capturing():
            cleared = torch.zeros(bytes_, dtype=torch.uint8, device=f"{DEVICE_TYPE}:{device}")
            return cleared.data_ptr(), cleared
        key = (device, stream, offset, bytes_)
        if key not in self.scratches:
            self.scratches[key] = lasting_zeros(bytes_)
        return self.scratches[key], None

    def workspaces(self, env):
        """Bytes of each workspace, by name."""
        kernel = self.form(env) if any(p["kind"] == "workspace" for p in self.meta["params"]) else self
        return {p["name"]: kernel.memory_size(p["name"], env) for p in kernel.meta["params"]
                if p["kind"] == "workspace"}

    def memory_size(self, name, env):
        bytes_ = self.memory_sizes[name](env)
        if not isinstance(bytes_, int) or bytes_ < 0:
            raise TilecError(f"{self.name}: {name} would have {bytes_} bytes")
        return bytes_

    def sizes(self, tensors, values, complete=True):
        """The named sizes and scalars, from the tensors and from `values`, and facts of the device."""
        env, source = {}, {}
        for t in self.meta["tensors"]:
            tensor = tensors.get(t["name"])
            if tensor is None:
                continue
            if tensor.dim() != len(t["shape"]):
                raise TilecError(f"{self.name}: {t['name']} must have {len(t['shape'])} dimensions "
                                 f"[{', '.join(map(str, t['shape']))}], not {tensor.dim()}")
            for d, (want, have) in enumerate(zip(t["shape"], tensor.shape)):
                if isinstance(want, int):
                    if want != have:
                        raise TilecError(f"{self.name}: dimension {d} of {t['name']} must be {want}, "
                                         f"not {have}")
                elif env.setdefault(want, have) != have:
                    raise TilecError(f"{self.name}: dimension {d} of {t['name']} is {have}, but {want} "
                                     f"is {env[want]} ({source[want]})")
                else:
                    source.setdefault(want, f"dimension {d} of {t['name']}")
        for name in self.meta["sizes"]:
            if name in values:
                env.setdefault(name, int(values[name]))
        for name, value in env.items():
            if not 0 <= value < 2**31:
                raise TilecError(f"{self.name}: {name} = {value} does not fit 32 bits")
        for s in self.meta["scalars"]:
            if s["name"] in values:
                value = values[s["name"]]
                env[s["name"]] = float(value) if s["type"] == "f32" else int(value)
            elif complete:
                raise TilecError(f"{self.name}: no value for the scalar '{s['name']}'")
        for name, value in list(self.follows.items()) * len(self.follows):  # each may need another
            try:
                env.setdefault(name, value(env))
            except (TilecError, KeyError, ZeroDivisionError):  # of what is not known yet
                continue
            if not 0 <= env[name] < 2**31:
                raise TilecError(f"{self.name}: {name} would be {env[name]}: a size is from 0 to 2147483647")
        return {**env, **self.module.facts(number_of(device_of(tensors.values())))}

    def shape(self, tensor, env):
        missing = [d for d in tensor["shape"] if not isinstance(d, int) and d not in env]
        if missing:
            raise TilecError(f"{self.name}: the shape of {tensor['name']} needs {missing[0]}, which no "
                             f"given tensor has")
        return [d if isinstance(d, int) else env[d] for d in tensor["shape"]]

    def prepare(self, tensors, values, workspaces=None):
        """Checks and packs a launch.  Every tensor must be there; workspaces that are not are made."""
        device = check_devices(self.name, tensors)
        env = self.sizes(tensors, values)
        for condition, r in self.requires:
            if not condition(env):
                raise TilecError(f"{self.name}: {r['message'] or 'requires ' + r['condition']}")
        used, strides = [], {}
        for t in self.meta["tensors"]:
            tensor = tensors.get(t["name"])
            if tensor is None:
                raise TilecError(f"{self.name}: no tensor for '{t['name']}'")
            if tensor.dtype != torch_dtype(t["dtype"]):
                raise TilecError(f"{self.name}: {t['name']} must be {t['dtype']}, not {tensor.dtype}")
            strides[t["name"]] = self.check_layout(t, tensor)
            used.append(tensor)
        for name in self.meta["sizes"]:
            if name not in env:
                raise TilecError(f"{self.name}: no value for the size '{name}'")
        form = self.form(env)
        grid = tuple(int(f(env)) for f in form.grid_functions)
        if grid[0] > 2**31 - 1 or grid[1] > 65535 or grid[2] > 65535 or min(grid) < 0:
            raise TilecError(f"{self.name}: the grid {grid} is beyond what CUDA launches")
        with on_device(device):
            return form.pack(device, grid, env, tensors, strides, used, workspaces or {})

    def pack(self, device, grid, env, tensors, strides, used, workspaces):
        params = self.meta["params"]
        total = max([p["offset"] + p["bytes"] for p in params], default=1)
        packed, scratch = ctypes.create_string_buffer(total), {}
        for p in params:
            value = 0
            if p["kind"] == "tensormap":
                recipe = self.meta["tensormaps"][p["map"]]
                dtype = next(t["dtype"] for t in self.meta["tensors"] if t["name"] == p["tensor"])
                try:
                    data = encode_map(recipe, dtype, tensors[p["tensor"]])
                except TilecError as error:
                    raise TilecError(f"{self.name}: {error}") from None
                struct.pack_into("128s", packed, p["offset"], data)
                continue
            if p["kind"] == "scratch":
                if self.memory_size(p["name"], env):
                    scratch[p["offset"]] = self.memory_size(p["name"], env)
            elif p["kind"] == "workspace":
                if p["name"] not in workspaces:
                    workspaces[p["name"]] = make_workspace(self.memory_size(p["name"], env), used)
                used.append(workspaces[p["name"]])
                value = used[-1].data_ptr()
            elif p["kind"] == "zero":
                value = 0
            elif p["kind"] == "pointer":
                value = tensors[p["tensor"]].data_ptr()
            elif p["kind"] == "stride":
                value = strides[p["tensor"]][p["dim"]]
            elif p["kind"] in ("size", "scalar"):
                value = env[p["name"]]
            else:
                raise TilecError(f"{self.name}: this launcher does not make a parameter of kind "
                                 f"'{p['kind']}'")
            struct.pack_into(_FORMAT[p["type"]], packed, p["offset"], value)
        return Prepared(self, device, grid, packed, used, scratch)

    def check_layout(self, t, tensor):
        """The strides to pass (0 where an extent of 1 makes them meaningless)."""
        size = tensor.element_size()
        if tensor.numel() and tensor.data_ptr() % t["align"]:
            raise TilecError(f"{self.name}: the address of {t['name']} must be a multiple of "
                             f"{t['align']} bytes")
        strides = [s if n > 1 else 0 for s, n in zip(tensor.stride(), tensor.shape)]
        if strides and tensor.shape[-1] > 1 and strides[-1] != 1:
            raise TilecError(f"{self.name}: the last dimension of {t['name']} must be contiguous "
                             f"(its stride is {strides[-1]})")
        for d, stride in enumerate(strides[:-1]):
            if stride * size % t["align"]:
                raise TilecError(f"{self.name}: stride {d} of {t['name']} is {stride * size} bytes; it "
                                 f"must be a multiple of {t['align']}")
        return strides

    def refuses_layout(self, t, tensor):
        try:
            self.check_layout(t, tensor)
        except TilecError:
            return True
        return False

    def function(self, device):
        if device not in self.functions:
            handle, shared = ctypes.c_void_p(), self.meta["shared"]
            with _while_capturing():
                _check(driver().cuModuleGetFunction(ctypes.byref(handle), self.module.handle(device),
                                                    self.meta["entry"].encode()), "cuModuleGetFunction")
                if shared > 48 * 1024:
                    _check(driver().cuFuncSetAttribute(handle, MAX_DYNAMIC_SHARED, shared),
                           f"{self.name} needs {shared} bytes of shared memory")
            self.functions[device] = handle
        return self.functions[device]

    def call(self, device, grid, pointers, stream):
        block, shared, n = self.meta["block"], self.meta["shared"], 0
        attributes = (_LaunchAttribute * 2)()
        if self.meta["cluster"] != [1, 1, 1]:
            attributes[n].id, attributes[n].value[0:3] = CLUSTER_DIMENSION, self.meta["cluster"]
            n += 1
        # The kernel waits by itself for those before it; old drivers do not take that into a graph.
        if self.meta.get("early_start") and not _torch().cuda.is_current_stream_capturing():
            attributes[n].id, attributes[n].value[0] = STREAM_SERIALIZATION, 1
            n += 1
        if n == 0:
            result = driver().cuLaunchKernel(self.function(device), *grid, block, 1, 1, shared,
                                             ctypes.c_void_p(stream), pointers, None)
        else:
            config = _LaunchConfig(grid=grid, block=(block, 1, 1), shared=shared, stream=stream,
                                   attributes=ctypes.addressof(attributes), n=n)
            result = driver().cuLaunchKernelEx(ctypes.byref(config), self.function(device), pointers, None)
        _check(result, f"launching {self.name}")


def device_of(tensors):
    return next((t.device for t in tensors), _torch().device(DEVICE_TYPE))


def number_of(device):
    """Of a torch.device; without a number it is the current one."""
    return _torch().cuda.current_device() if device.index is None else device.index


def check_devices(kernel, tensors):
    """The number of the GPU that all tensors are on."""
    first = None
    for name, tensor in tensors.items():
        if tensor.device.type != DEVICE_TYPE:
            raise TilecError(f"{kernel}: {name} is on the device '{tensor.device}', and kernels run on a GPU: "
                             f"give {name}.cuda()")
        if first is not None and tensor.device != tensors[first].device:
            raise TilecError(f"{kernel}: {name} is on {tensor.device}, but {first} on {tensors[first].device}: "
                             "all tensors of a launch must be on one GPU")
        first = first or name
    return number_of(device_of(tensors.values()))


def make_tensor(shape, dtype, align, device):
    """An empty tensor in C order, with space between rows where they have to be aligned."""
    torch = _torch()
    unit = max(1, align // torch.empty(0, dtype=dtype).element_size())
    strides, step = [], 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step = (step * extent + unit - 1) // unit * unit
    return torch.empty_strided(tuple(shape), tuple(strides), dtype=dtype, device=device)


def make_workspace(bytes_, tensors):
    torch = _torch()
    return torch.empty(bytes_, dtype=torch.uint8, device=device_of(tensors))


class Module:
    """A PTX file (text or path), or a cubin made from one."""

    def __init__(self, source):
        self.handles, self.device_facts = {}, {}  # by device
        self.parts = {}  # what backward_parts() chose
        self.splits = {}  # what decode_splits() chose
        self.image = source
        if isinstance(source, (str, os.PathLike)) and not str(source).lstrip().startswith("//"):
            with open(source, "rb") as file:
                self.image = file.read()
        if isinstance(self.image, str):
            self.image = self.image.encode()
        if self.image[:4] == b"\x7fELF":
            self.meta = None
            self.meta = check_metadata(self.constant(SYMBOL))
        else:
            self.meta = read_metadata(self.image.decode())
        self.kernels = [Kernel(self, meta) for meta in self.meta["kernels"]]

    def select(self, *names):
        """The same module with only these kernels, in this order."""
        part = object.__new__(Module)
        part.__dict__.update(self.__dict__)
        part.kernels = []
        for name in names:
            found = [kernel for kernel in self.kernels if kernel.name == name]
            if not found:
                raise TilecError(f"the module has no kernel '{name}', but "
                                 + ", ".join(kernel.name for kernel in self.kernels))
            part.kernels += found
        return part

    def facts(self, device=None):
        """What launch expressions may ask of a device, or of the current one."""
        device = _torch().cuda.current_device() if device is None else device
        if device not in self.device_facts:
            count = _torch().cuda.get_device_properties(device).multi_processor_count
            handle, shared = ctypes.c_int(), ctypes.c_int()
            _check(driver().cuDeviceGet(ctypes.byref(handle), device), "cuDeviceGet")
            _check(driver().cuDeviceGetAttribute(ctypes.byref(shared), SM_SHARED, handle), "cuDeviceGetAttribute")
            self.device_facts[device] = {"sm_count": count, "sm_shared": shared.value}
        return self.device_facts[device]

    def sm_count(self, device=None):
        """Multiprocessors of a device, or of the current one."""
        return self.facts(device)["sm_count"]

    def has(self, *names):
        return set(names) <= {kernel.name for kernel in self.kernels}

    def handle(self, device):
        """The module on the device, which is current."""
        torch = _torch()
        if device not in self.handles:
            if self.meta:
                check_arch(self.meta["arch"], torch.cuda.get_device_capability(device))
            log = ctypes.create_string_buffer(16384)
            keys = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER, .._SIZE_BYTES
            values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
            module = ctypes.c_void_p()
            with _while_capturing():
                result = driver().cuModuleLoadDataEx(ctypes.byref(module), self.image + b"\0", 2, keys, values)
            _check(result, f"loading the module\n{log.value.decode(errors='replace')}")
            self.handles[device] = module
        return self.handles[device]

    def constant(self, name):
        address, size, device = ctypes.c_uint64(), ctypes.c_size_t(), _torch().cuda.current_device()
        with on_device(device):
            _check(driver().cuModuleGetGlobal_v2(ctypes.byref(address), ctypes.byref(size), self.handle(device),
                                                 name.encode()), f"no constant '{name}' in the module")
            data = ctypes.create_string_buffer(size.value)
            _check(driver().cuMemcpyDtoH_v2(data, address, size), f"reading '{name}'")
        return data.raw

    def clocks(self, **arguments):
        """How many clocks the launches of all kernels take together, by the estimates in the file (`--variants=auto`); None: it has none."""
        torch, env, total = _torch(), {}, 0
        tensors = {k: v for k, v in arguments.items() if isinstance(v, torch.Tensor)}
        values = {k: v for k, v in arguments.items() if k not in tensors}
        for kernel in self.kernels:
            env = {**env, **kernel.sizes(tensors, values, complete=False)}
        for kernel in self.kernels:
            cost = kernel.form(env).cost
            if cost is None:
                return None
            total += cost(env) + ZERO_CLOCKS * sum(t["name"] not in tensors and (t["mode"] == "inout" or t["atomic"])
                                                     for t in kernel.meta["tensors"])  # which are filled with zeros first
        return total

    @_uncompiled
    def prepare(self, **arguments):
        """Checks and packs the launches of all kernels, in order; tensors are shared by name.
        Outputs and workspaces that are not given are allocated; those that a kernel adds to are
        filled with zeros at each run."""
        torch = _torch()
        tensors = {k: v for k, v in arguments.items() if isinstance(v, torch.Tensor)}
        values = {k: v for k, v in arguments.items() if not isinstance(v, torch.Tensor)}
        check_devices(self.kernels[0].name if self.kernels else "launch", tensors)
        device = device_of(tensors.values())
        shared = {}  # sizes by name, for tensors whose kernel does not fix them itself
        for kernel in self.kernels:
            shared = {**kernel.sizes(tensors, values, complete=False), **shared}
        launches, zeroed, bytes_of = [], [], {}
        for kernel in self.kernels:
            env = {**shared, **kernel.sizes(tensors, values, complete=False)}
            for t in kernel.meta["tensors"]:
                if t["name"] in tensors:
                    continue
                if t["mode"] == "in":
                    raise TilecError(f"{kernel.name}: no tensor for '{t['name']}'")
                made = make_tensor(kernel.shape(t, env), torch_dtype(t["dtype"]), t["align"], device)
                if t["mode"] == "inout" or t["atomic"]:
                    zeroed.append(made)
                tensors[t["name"]] = made
            own = {t["name"]: tensors[t["name"]] for t in kernel.meta["tensors"]}
            env = {**shared, **kernel.sizes(own, values, complete=False)}
            for name, bytes_ in kernel.workspaces(env).items():
                bytes_of[name] = max(bytes_, bytes_of.get(name, 0))
        workspaces = {name: make_workspace(bytes_, tensors.values()) for name, bytes_ in bytes_of.items()}
        for kernel in self.kernels:
            own = {t["name"]: tensors[t["name"]] for t in kernel.meta["tensors"]}
            launches.append(kernel.prepare(own, {**shared, **values}, workspaces))
        return Plan(launches, tensors, zeroed)

    @_uncompiled
    def prepare_copied(self, **arguments):
        """prepare(), with copies of those inputs that the kernels do not take as they lie in memory: `run()` copies first."""
        copies = []
        for kernel in self.kernels:
            for t in kernel.meta["tensors"]:
                tensor = arguments.get(t["name"])
                if t["mode"] != "in" or tensor is None or not kernel.refuses_layout(t, tensor):
                    continue
                arguments[t["name"]] = make_tensor(tensor.shape, tensor.dtype, t["align"], tensor.device)
                copies.append((arguments[t["name"]], tensor))
        plan = self.prepare(**arguments)
        plan.copies = copies
        return plan

    @_uncompiled
    def launch(self, **arguments):
        """Runs all kernels in order on the current stream; returns all tensors by name."""
        plan = self.prepare(**arguments)
        plan.run()
        return plan.tensors


class Plan:
    """Checked launches of all kernels of a module; `run()` may be called again and again."""

    def __init__(self, launches, tensors, zeroed):
        self.launches, self.tensors, self.zeroed = launches, tensors, zeroed
        self.copies = []  # (copy, of)

    @_uncompiled
    def run(self):
        for tensor in self.zeroed:
            tensor.zero_()
        for copy, tensor in self.copies:
            copy.copy_(tensor)
        for launch in self.launches:
            launch.run(_torch().cuda.current_stream(launch.device).cuda_stream)


def load(source):
    return Module(source)


def quickest(*ways, **arguments):
    """Of modules (see `select`) that compute the same, that whose launches take the fewest clocks by their estimates; the first,
    where one has none."""
    clocks = [way.clocks(**arguments) for way in ways]
    return ways[0 if None in clocks else clocks.index(min(clocks))]


# ---- attention with few queries ----------------------------------------------------------------


DECODE = ("attention_decode",)
DECODE_SPLIT = ("attention_decode_split", "attention_decode_combine")


def predict_splits(programs, splits, key_tiles, sm_count):
    """How long attention with few queries takes, in the times of a tile of keys that all multiprocessors load at once."""
    full, rest = divmod(programs * splits, sm_count)
    # blocks go through their programs one after the other; at the end those that are left have memory for themselves, of
    # which one multiprocessor takes no more than twice its share
    waves = full + (max(rest / sm_count, 0.55) if rest else 0)
    # a launch; the start and end of a program (half a tile); and the second kernel, which reads 16 parts at a time
    return 2.7 + waves * (key_tiles / splits + 0.5) + (1.5 + splits / 40 if splits > 1 else 0)


def choose_splits(programs, key_tiles, sm_count):
    """How many programs share the keys of each of `programs`: each has a tile of keys at least, and they are predicted to
    end first.  The figures fit 70 shapes on an H200 (3834d75) within 7 %, root of the mean square."""
    most = min(max(key_tiles, 1), cdiv(8 * sm_count, max(programs, 1)))
    times = [predict_splits(programs, splits, key_tiles, sm_count) for splits in range(1, most + 1)]
    least = min(times)
    return 1 if times[0] <= 1.05 * least else 1 + times.index(least)  # such gains do not outlast what is not predicted


LEAST_KEYS = 64  # that a program goes through
BEGIN = 14000  # clocks of a launch, and of the start and the end of its programs: the rest are their loops
# Of a kernel that puts parts together: its clocks, how many parts it reads at once, clocks of as many more, at how many bytes a
# clock parts are written and read, and the share of the first kernel's loops that is lost where nearly all multiprocessors are idle.
COMBINE_OF_ROW = (7000, 16, 1000, 500, 0.15)  # a program for each row (attention_decode_combine)
COMBINE_OF_ROWS = (10000, 1, 1100, 1300, 0)  # for several (attention_split_combine); programs begin all at once, which takes time, too
WORTH = 1.03  # what two kernels must bring over one


def idle_share(sm_count, programs):
    """Of the multiprocessors, or of their halves, those that have no program: estimates have memory at its full rate with
    fewer, but on an H200 it rises with each that reads."""
    return max(0.0, 1 - programs / (sm_count if programs <= sm_count else 2 * sm_count))


def numbers_of_parts(most, sm_count, programs):
    """To try: all at first, then one in so many, and those that fill the GPU exactly."""
    numbers, splits = {sm_count // programs, 2 * sm_count // programs}, 2
    while splits <= most:
        numbers.add(splits)
        splits += 1 + splits // 16
    return sorted(n for n in numbers if 2 <= n <= most)


def least_parts(split, combine, env, blocks, programs):
    """(clocks, parts) of the least time with two parts and more, by the compiler's estimates, where the file has them
    (--variants=auto); (0, 1) where the keys are too few.  `split` is the kernel that makes them, `env` has the sizes; `programs`
    there are without parts, and with them no more than so many `blocks` of each multiprocessor."""
    clocks, at_once, more_clocks, bytes_, idle = combine
    part = 4 * env["B"] * env["Sq"] * env["Hq"] * int(split.meta["constants"]["DV"]) // bytes_
    sm_count, programs, times = env["sm_count"], max(programs, 1), {}
    for splits in numbers_of_parts(min(cdiv(env["Sk"], LEAST_KEYS), cdiv(blocks * sm_count, programs)), sm_count, programs):
        of = {**env, "X": splits}
        first = split.form(of).cost(of)
        first += idle * idle_share(sm_count, splits * programs) * max(first - BEGIN, 0)
        times[splits] = first + clocks + (splits - 1) // at_once * more_clocks + 2 * splits * part
    return min(((time, n) for n, time in times.items()), default=(0, 1))


def least_splits(whole, split, env, programs):
    """The same where `whole` is a kernel that does without parts."""
    clocks, splits = least_parts(split, COMBINE_OF_ROW, env, 8, programs)
    return splits if whole.form(env).cost(env) > WORTH * clocks > 0 else 1


def cdiv(a, b):
    return -(-a // b)


def decode_splits(q, k, module, facts):
    """How many programs share the keys of a head of K and V."""
    key = (q.shape, cdiv(k.shape[1], LEAST_KEYS), k.shape[2], *facts.values())
    if key not in module.splits:
        whole, split = (module.select(name).kernels[0] for name in ("attention_decode", "attention_decode_split"))
        programs = cdiv(q.shape[1], int(split.meta["constants"]["MS"])) * k.shape[2] * q.shape[0]
        if whole.cost is None or split.cost is None:
            module.splits[key] = choose_splits(programs, cdiv(k.shape[1], int(split.meta["constants"]["N"])), facts["sm_count"])
        else:
            env = {"B": q.shape[0], "Sq": q.shape[1], "Hq": q.shape[2], "Hk": k.shape[2], **facts,
                   "Sk": key[1] * LEAST_KEYS}
            module.splits[key] = least_splits(whole, split, env, programs)
    return module.splits[key]


def prepare_decode(q, k, v, module, scale=None, splits=None):
    """Launches of attention for few queries, as a Plan: its tensors "O" and "L" hold the results after
    each `run()`.

    q [B, Sq, Hq, D], k [B, Sk, Hk, D], v [B, Sk, Hk, DV], as for attention(); `module` is a loaded
    examples/attention_decode.tile, compiled with G = Hq / Hk.  `splits`: how many programs share the
    keys of a head (None: as many as the GPU's multiprocessors ask for).
    """
    constants = module.select("attention_decode_split").kernels[0].meta["constants"]
    if splits is None:
        splits = decode_splits(q, k, module, module.facts(check_devices("attention_decode", {"Q": q, "K": k, "V": v})))
    scale = scale if scale is not None else q.shape[-1] ** -0.5
    if splits == 1 and constants["GP"] == constants["G"]:
        return module.select(*DECODE).prepare(Q=q, K=k, V=v, scale=scale)
    return module.select(*DECODE_SPLIT).prepare(Q=q, K=k, V=v, scale=scale, X=splits, Hq=q.shape[2])


def decode(q, k, v, module, scale=None, splits=None):
    """softmax(scale q k^T) v for few queries: (O, L)."""
    plan = prepare_decode(q, k, v, module, scale, splits)
    plan.run()
    return plan.tensors["O"], plan.tensors["L"]


# ---- attention with many keys and few programs -------------------------------------------------


SPLIT = ("attention_split", "attention_split_combine")


def split_parts(q, k, module, facts):
    """(clocks, parts): how many programs share the keys of each tile of queries, 2 or more, and how long that takes; (0, 1)
    where nothing is estimated.  `module` is a loaded examples/attention_split.tile."""
    key = ("split", q.shape, k.shape, *facts.values())
    if key not in module.splits:
        split = module.select(*SPLIT).kernels[0]
        rows, heads = int(split.meta["constants"]["MS"]), int(split.meta["constants"]["G"])
        env = {"B": q.shape[0], "Sq": q.shape[1], "Hq": q.shape[2], "Hk": k.shape[2], **facts,
               "Sk": cdiv(k.shape[1], LEAST_KEYS) * LEAST_KEYS}
        programs = cdiv(q.shape[1], rows) * (q.shape[2] // heads) * q.shape[0]
        module.splits[key] = (0, 1) if split.cost is None else least_parts(split, COMBINE_OF_ROWS, env, 3, programs)
    return module.splits[key]


def prepare_split(q, k, v, module, scale=None, splits=None):
    """Launches of attention whose programs share the keys, as a Plan; tensors as for prepare_decode()."""
    if splits is None:
        splits = split_parts(q, k, module, module.facts(check_devices("attention_split", {"Q": q, "K": k, "V": v})))[1]
    scale = scale if scale is not None else q.shape[-1] ** -0.5
    return module.select(*SPLIT).prepare(Q=q, K=k, V=v, scale=scale, X=splits)


# ---- attention with gradients ------------------------------------------------------------------


# The kernels of examples/attention_bwd.tile, in order: with atomic additions, and without; and both
# with dK and dV in parts.
BACKWARD = ("attention_bwd_delta", "attention_bwd", "attention_bwd_convert")
BACKWARD_DETERMINISTIC = ("attention_bwd_delta", "attention_bwd_dkdv", "attention_bwd_dq")
BACKWARD_FEW = ("attention_bwd_dq_first", "attention_bwd_dkdv")  # likewise, where tiles of queries are few
BACKWARD_SPLIT = ("attention_bwd_delta", "attention_bwd_split", "attention_bwd_convert", "attention_bwd_combine")
BACKWARD_SPLIT_DETERMINISTIC = ("attention_bwd_delta", "attention_bwd_dkdv_split", "attention_bwd_dq",
                                "attention_bwd_combine")
MANY_ROWS = 1024  # of keys to a multiprocessor, from which on programs are so many that parts do not pay
BYTES_PER_CLOCK = 2048  # of a large GPU's memory
LAUNCH_CLOCKS = 6000


def backward_is_few(q, k, module):
    """Whether BACKWARD_FEW is quicker than BACKWARD_DETERMINISTIC: where dQ's programs are so few that all run at once, and short."""
    if q.dim() != 4 or k.dim() != 4 or q.shape[3] > 192 or k.shape[1] > 2 * q.shape[1] or not module.has(*BACKWARD_FEW):
        return False
    return 5 * -(-q.shape[1] // 64) * q.shape[2] * q.shape[0] <= 6 * module.facts(number_of(q.device))["sm_count"]


def backward_parts(q, k, module, deterministic=False, least=1):
    """How many programs share the query heads of a key head in the way that is estimated to be the quickest: with 1
    that of BACKWARD, else of BACKWARD_SPLIT, whose P is so many times Hk; `least`: no fewer."""
    key = (q.shape, k.shape, deterministic, least, q.device.index)
    if key not in module.parts:
        module.parts[key] = _backward_parts(q, k, module, deterministic, least)
    return module.parts[key]


def _backward_parts(q, k, module, deterministic, least):
    whole, split = ("attention_bwd_dkdv", "attention_bwd_dkdv_split") if deterministic else ("attention_bwd", "attention_bwd_split")
    if q.dim() != 4 or k.dim() != 4 or not k.shape[2] or not module.has(split, "attention_bwd_combine"):
        return 1
    hq, hk, facts = q.shape[2], k.shape[2], module.facts(number_of(q.device))
    choices = [n for n in range(least, hq // hk + 1) if hq % (hk * n) == 0]
    kernels = {n: module.select(whole if n == 1 else split).kernels[0] for n in choices}
    if not choices or (least == 1 and k.numel() // k.shape[3] >= MANY_ROWS * facts["sm_count"]):
        return 1
    if any(kernel.cost is None for kernel in kernels.values()):  # there is no estimate
        return 1 if least == 1 else choices[-1]

    def clocks(n):
        env = {"B": q.shape[0], "Sq": q.shape[1], "Hq": hq, "Sk": k.shape[1], "Hk": hk, "P": hk * n, "scale": 1.0,
               "softcap": 1.0, **facts}
        moved = 12 * k.numel() * n if n > 1 else 0  # the parts are written and read, some of it in the cache
        return kernels[n].form(env).cost(env) + (LAUNCH_CLOCKS + moved / BYTES_PER_CLOCK if n > 1 else 0)
    return min(choices, key=clocks)


@_uncompiled
def attention(q, k, v, forward, backward=None, scale=None, deterministic=False, **scalars):
    """softmax(scale q k^T) v through two modules of tilec, differentiable.

    q [B, Sq, Hq, D], k [B, Sk, Hk, D], v [B, Sk, Hk, DV]: any strides the kernels accept, so
    a tensor stored as [B, H, S, D] is passed as x.transpose(1, 2).  `forward` and `backward` are
    loaded modules of examples/attention.tile and attention_bwd.tile; masks were chosen when they
    were compiled.  There is no second derivative: asking for one is an error.
    """
    if backward is not None:
        parts = backward_parts(q, k, backward, deterministic)
        if parts == 1:
            few = deterministic and backward_is_few(q, k, backward)
            backward = backward.select(*(BACKWARD_FEW if few else BACKWARD_DETERMINISTIC if deterministic else BACKWARD))
        else:
            backward = backward.select(*(BACKWARD_SPLIT_DETERMINISTIC if deterministic else BACKWARD_SPLIT))
            scalars = {**scalars, "P": parts * k.shape[2]}
    return _function().apply(q, k, v, forward, backward,
                             scale if scale is not None else q.shape[-1] ** -0.5, scalars)


_cached_function = None


def _function():
    global _cached_function
    if _cached_function is None:
        _cached_function = _make_function()
    return _cached_function


def _make_function():
    torch = _torch()

    def fill(module, scalars):  # scalars that this variant has but the caller left out are off
        names = {s["name"] for kernel in module.kernels for s in kernel.meta["scalars"]}
        return {**{name: 0.0 for name in names}, **scalars}

    class Once(torch.autograd.Function):
        """Passes gradients on, and refuses to be differentiated: they would seem not to depend on q, k, v."""

        @staticmethod
        def forward(ctx, n, *tensors):
            return tuple(tensor.clone() for tensor in tensors[:n])

        @staticmethod
        def backward(ctx, *grads):
            raise TilecError("the gradients of attention() cannot be differentiated: tilec has no second derivatives")

    class Attention(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v, forward, backward, scale, scalars):
            out = forward.launch(Q=q, K=k, V=v, **fill(forward, {**scalars, "scale": scale}))
            ctx.save_for_backward(q, k, v, out["O"], out["L"])
            ctx.backward_module, ctx.scalars = backward, {**scalars, "scale": scale}
            return out["O"]

        @staticmethod
        def backward(ctx, grad):
            if ctx.backward_module is None:
                raise TilecError("attention() was called without a backward module")
            q, k, v, o, l = ctx.saved_tensors
            if grad.stride(-1) != 1 or any(s * grad.element_size() % 16 for s in grad.stride()[:-1]):
                grad = grad.contiguous()
            module = ctx.backward_module
            known = {t["name"] for kernel in module.kernels for t in kernel.meta["tensors"]}
            given = {"Q": q, "K": k, "V": v, "O": o, "L": l, "dO": grad}
            with torch.no_grad():
                out = module.launch(**{n: t for n, t in given.items() if n in known},
                                    **fill(module, ctx.scalars))
            grads = out["dQ"], out["dK"], out["dV"]
            if torch.is_grad_enabled():  # create_graph=True
                grads = Once.apply(3, *grads, q, k, v, grad)
            return *grads, None, None, None, None

    return Attention
