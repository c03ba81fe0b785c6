"""launch.py - a launcher to copy: the kernels of a PTX file on NumPy arrays, with ctypes alone.

    tilec ../attention.tile -arch sm_90 -D D=64 -D CAUSAL=true -o attention.ptx
    python3 launch.py attention.ptx

`launch` reads from the file what a launch takes (docs/metadata.md): sizes, the grid, tensor maps,
the scratch from which blocks draw their tiles, workspaces.  It does so for kernels of warp groups
as for all others.  tilec_torch.py does the same for PyTorch, with all checks, and keeps what can
be used again.
"""
import ctypes
import json
import math
import re
import sys

import numpy as np

BYTES = {"f16": 2, "bf16": 2, "f32": 4, "i32": 4, "bool": 1}
MAP_TYPE = {**dict.fromkeys(("bool", "i8", "u8", "e4m3", "e5m2", "e8m0"), 0), "u32": 2, "i32": 3, "f16": 6, "f32": 7,
            "bf16": 9, "tf32": 11}  # CUtensorMapDataType
MAP_SWIZZLE = {0: 0, 32: 1, 64: 2, 128: 3}
MAP_PROMOTION = {0: 0, 64: 1, 128: 2, 256: 3}
TYPE = {"u64": ctypes.c_uint64, "s64": ctypes.c_int64, "s32": ctypes.c_int32, "u32": ctypes.c_uint32,
        "f32": ctypes.c_float}


class LaunchConfig(ctypes.Structure):  # CUlaunchConfig
    _fields_ = [("extents", ctypes.c_uint * 6), ("shared", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.c_void_p), ("n_attributes", ctypes.c_uint)]


FUNCTIONS = {"min": min, "max": max, "cdiv": lambda a, b: (a + b - 1) // b, "true": 1, "false": 0}


def value(expression, names):
    """Of an expression of the metadata: C's operators, on sizes, so that `//` rounds as C does."""
    text = re.sub("!(?!=)", " not ", expression.replace("&&", " and ").replace("||", " or "))
    return eval(re.sub("/", "//", text), {"__builtins__": {}}, {**FUNCTIONS, **names})


class Device:
    def __init__(self, ordinal=0):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, self.context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), ordinal)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), device)
        self.facts = {}  # that launch expressions may ask for
        for name, attribute in (("sm_count", 16), ("sm_shared", 81)):
            fact = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(fact), attribute, device)
            self.facts[name] = fact.value

    def call(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name}: error {result} of cuda.h")

    def memory(self, size, content=None):
        """The address of new memory, with `content` in it, else zeros."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(size, 16)))
        self.call("cuMemsetD8_v2", address, ctypes.c_ubyte(0), ctypes.c_size_t(max(size, 16)))
        if content is not None and size > 0:
            self.call("cuMemcpyHtoD_v2", address, content.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(size))
        return address.value

    def tensor_map(self, recipe, tensor, array, address):
        """128 bytes: which box a copy brings, of which tensor (`dims` counts from the innermost out)."""
        if array.size == 0:  # no map describes it; one of a zero reads as zeros everywhere
            array, address = np.zeros([1] * array.ndim, array.dtype), self.memory(16)
        dims, box, twice = recipe["dims"], recipe["box"], recipe["dims"].index(recipe["dims"][-1])
        rank, sizes = len(dims), [array.shape[d] for d in dims]
        strides = [(array.strides[d] + 15) // 16 * 16 for d in dims[1:]]
        if twice + 1 < rank and array.size > 0:  # boxes end before the tensor does
            sizes[twice], sizes[-1] = box[twice], sizes[-1] + 1
            address -= box[twice] * strides[-1]
        room = ctypes.create_string_buffer(128 + 63)
        at = (ctypes.addressof(room) + 63) // 64 * 64
        self.call("cuTensorMapEncodeTiled", ctypes.c_void_p(at), MAP_TYPE[recipe.get("dtype", tensor["dtype"])], rank,
                  ctypes.c_void_p(address), (ctypes.c_uint64 * rank)(*sizes),
                  (ctypes.c_uint64 * rank)(*strides), (ctypes.c_uint32 * rank)(*recipe["box"]),
                  (ctypes.c_uint32 * rank)(*[1] * rank), 0, MAP_SWIZZLE[recipe["swizzle"]],
                  MAP_PROMOTION[recipe["l2_promotion"]], 0)
        return ctypes.create_string_buffer(ctypes.string_at(at, 128), 128)


def chosen(kernel, names):
    """Of a kernel with variants: the form with the least cost for these sizes."""
    forms = [kernel, *kernel.get("variants", [])]
    return kernel if len(forms) == 1 else {**kernel, **min(forms, key=lambda form: value(form["cost"], names))}


def launch(path, arrays, scalars, device):
    """Runs all kernels of the file, in order; `arrays` has contiguous arrays by name, bf16 as uint16,
    and takes up what the kernels write."""
    text = open(path, encoding="utf-8").read()
    numbers = re.search(r"tilec_metadata\[\d+\] = \{([^}]*)\}", text)[1]
    meta = json.loads(bytes(map(int, numbers.split(","))).split(b"\0")[0])
    module, functions, sizes, workspace = ctypes.c_void_p(), [], {}, {}
    device.call("cuCtxSetCurrent", device.context)  # each thread has its own
    device.call("cuModuleLoadData", ctypes.byref(module), text.encode())
    at = {name: device.memory(array.nbytes, array) for name, array in arrays.items()}
    for kernel in meta["kernels"]:
        for t in kernel["tensors"]:
            array = arrays.get(t["name"])
            if array is None or array.ndim != len(t["shape"]) or array.itemsize != BYTES[t["dtype"]] or \
                    not array.flags.c_contiguous:
                raise ValueError(f"{t['name']} must be a contiguous array of {t['dtype']} with {len(t['shape'])} "
                                 "dimensions")
            for extent, name in zip(array.shape, t["shape"]):
                expected = name if isinstance(name, int) else sizes.setdefault(name, extent)
                if extent != expected:
                    raise ValueError(f"{t['name']}: {extent} where {name} is {expected}")
    for kernel in meta["kernels"] * 2:  # sizes that no tensor has, by those that one has
        for name, text in kernel.get("follows", {}).items():
            if name not in sizes and all(n in {**sizes, **scalars} for n in re.findall(r"[A-Za-z_]\w*", text) if n not in FUNCTIONS):
                sizes[name] = value(text, {**sizes, **scalars})
    names = {**sizes, **scalars, **device.facts}
    kernels = [chosen(kernel, names) for kernel in meta["kernels"]]
    for kernel in kernels:
        for p in kernel["params"]:
            if p["kind"] == "workspace":  # one for all kernels that name it
                workspace[p["name"]] = max(value(p["size"], names), workspace.get(p["name"], 0))
    workspace = {name: device.memory(size) for name, size in workspace.items()}
    for kernel in kernels:
        for need in kernel["require"]:
            if not value(need["condition"], names):
                raise ValueError(need["message"] or need["condition"])
        tensors = {t["name"]: t for t in kernel["tensors"]}

        def argument(p):
            if p["kind"] == "tensormap":
                return device.tensor_map(kernel["tensormaps"][p["map"]], tensors[p["tensor"]],
                                         arrays[p["tensor"]], at[p["tensor"]])
            array = arrays.get(p.get("tensor"))
            return TYPE[p["type"]]({
                "pointer": lambda: at[p["tensor"]],
                "stride": lambda: array.strides[p["dim"]] // array.itemsize if array.shape[p["dim"]] > 1 else 0,
                "size": lambda: sizes[p["name"]], "scalar": lambda: scalars[p["name"]],
                "scratch": lambda: device.memory(value(p["size"], names)),  # zero, and zero again after it
                "workspace": lambda: workspace[p["name"]], "zero": lambda: 0}[p["kind"]]())

        values = [argument(p) for p in kernel["params"]]
        pointers = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        function, grid = ctypes.c_void_p(), [value(axis, names) for axis in kernel["grid"]]
        device.call("cuModuleGetFunction", ctypes.byref(function), module, kernel["entry"].encode())
        device.call("cuFuncSetAttribute", function, 8, kernel["shared"])
        early = (ctypes.c_uint32 * 18)(6, 0, 1)  # CUlaunchAttribute: programmatic stream serialization
        config = LaunchConfig((*grid, kernel["block"], 1, 1), kernel["shared"], None, ctypes.addressof(early),
                              1 if kernel.get("early_start") else 0)
        if 0 not in grid:  # of clusters there are whole ones, and their size is in the PTX
            device.call("cuLaunchKernelEx", ctypes.byref(config), function, pointers, None)
    device.call("cuCtxSynchronize")
    for name, array in arrays.items():
        if array.nbytes > 0:
            device.call("cuMemcpyDtoH_v2", array.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(at[name]),
                        ctypes.c_size_t(array.nbytes))


def main():
    rows, heads, depth = 300, 2, 64
    rng = np.random.default_rng(0)
    # a bf16 is the upper half of an f32
    arrays = {n: (rng.standard_normal((1, rows, heads, depth), np.float32).view(np.uint32) >> 16).astype(np.uint16)
              for n in "QKVO"}
    arrays["L"] = np.zeros((1, heads, rows), np.float32)
    launch(sys.argv[1], arrays, {"scale": 1 / math.sqrt(depth), "softcap": 0.0}, Device())
    q, k, v, o = ((arrays[n].astype(np.uint32) << 16).view(np.float32).astype(np.float64) for n in "QKVO")
    s = np.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(depth) + np.triu(np.full((rows, rows), -np.inf), 1)
    p = np.exp(s - s.max(-1, keepdims=True))
    error = np.abs(np.einsum("bhij,bjhd->bihd", p / p.sum(-1, keepdims=True), v) - o).max()
    print(f"{rows} tokens, {heads} heads: largest error {error:.5f}")
    return 0 if error < 0.03 else 1  # bf16 keeps 8 bits of results up to about 4


if __name__ == "__main__":
    sys.exit(main())
