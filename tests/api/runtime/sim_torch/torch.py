"""torch.py - as much of PyTorch as tilec.torch needs to launch kernels, on tensors in the memory of the
simulator's driver: for machines without PyTorch.  No gradients, no operators."""

import ctypes
import os
import sys
import types

import numpy as np



class _Host:
    """In place of a driver, where nothing runs on a GPU: memory of this process."""
    kept = []

    def cuMemAlloc_v2(self, address, bytes_):  # noqa: N802
        self.kept.append(np.zeros(bytes_ + 256, np.uint8))
        address._obj.value = -(-self.kept[-1].ctypes.data // 256) * 256
        return 0

    def cuMemcpyHtoD_v2(self, to, at, bytes_):  # noqa: N802
        ctypes.memmove(to, at, bytes_)
        return 0

    def cuMemsetD8_v2(self, to, byte, bytes_):  # noqa: N802
        ctypes.memset(to.value, byte.value, bytes_.value)
        return 0

    cuMemcpyDtoH_v2 = cuMemcpyHtoD_v2
    cuInit = cuDevicePrimaryCtxRetain = cuCtxSetCurrent = lambda self, *arguments: 0  # noqa: N815


if os.environ.get("TILEC_INTERPRET"):
    _cuda = _Host()
else:
    _cuda = ctypes.CDLL("libcuda.so.1")
    _cuda.cuMemcpyHtoD_v2.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t]
    _cuda.cuMemcpyDtoH_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t]


class dtype:  # noqa: N801
    def __init__(self, name, itemsize):
        self.name, self.itemsize = name, itemsize

    def __repr__(self):
        return "torch." + self.name


float16, bfloat16, float32, int32, uint32, int8, uint8, bool = (  # noqa: A001
    dtype("float16", 2), dtype("bfloat16", 2), dtype("float32", 4), dtype("int32", 4), dtype("uint32", 4), dtype("int8", 1),
    dtype("uint8", 1), dtype("bool", 1))
float8_e4m3fn, float8_e5m2, float8_e8m0fnu, float4_e2m1fn_x2 = (
    dtype("float8_e4m3fn", 1), dtype("float8_e5m2", 1), dtype("float8_e8m0fnu", 1), dtype("float4_e2m1fn_x2", 1))
strided = "strided"


class device:  # noqa: N801
    def __init__(self, kind, index=None):
        self.type, self.index = kind, index

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other):
        return str(self) == str(other)


def _context():
    """The driver's context is current, as PyTorch has it."""
    context = ctypes.c_void_p()
    _cuda.cuInit(0)
    _cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    _cuda.cuCtxSetCurrent(context)


class Tensor:
    """`base` keeps the memory, `offset` is in elements."""

    is_sparse, layout, requires_grad = False, strided, False

    def __init__(self, base, shape, strides, kind, offset=0, where="cpu"):
        self.base, self.shape, self.strides, self.dtype = base, tuple(shape), tuple(strides), kind
        self.offset, self.device = offset, device(where)

    def dim(self):
        return len(self.shape)

    def numel(self):
        return int(np.prod(self.shape, dtype=np.int64))

    def stride(self):
        return self.strides

    def element_size(self):
        return self.dtype.itemsize

    def get_device(self):
        return -1 if self.device.type == "cpu" else -2

    def data_ptr(self):
        return self.base + self.offset * self.dtype.itemsize

    def transpose(self, a, b):
        shape, strides = list(self.shape), list(self.strides)
        shape[a], shape[b], strides[a], strides[b] = shape[b], shape[a], strides[b], strides[a]
        return Tensor(self.base, shape, strides, self.dtype, self.offset)

    def view(self, kind):
        """As numbers of another type of as many bytes."""
        assert kind.itemsize == self.dtype.itemsize
        return Tensor(self.base, self.shape, self.strides, kind, self.offset)

    def unbind(self, dim):
        shape, strides = (x[:dim] + x[dim + 1:] for x in (self.shape, self.strides))
        return tuple(Tensor(self.base, shape, strides, self.dtype, self.offset + i * self.strides[dim])
                     for i in range(self.shape[dim]))

    def _part(self, key):
        """Slices of the first dimensions."""
        shape, strides, offset = list(self.shape), list(self.strides), self.offset
        for d, part in enumerate(key):
            start, stop, step = part.indices(shape[d])
            offset, shape[d], strides[d] = offset + start * strides[d], len(range(start, stop, step)), step * strides[d]
        return Tensor(self.base, shape, strides, self.dtype, offset)

    def __getitem__(self, key):
        return self._part(key if isinstance(key, tuple) else (key,))

    def __setitem__(self, key, value):
        """Rows of [B, S, ..]: of each of B what follows is in one piece on both sides."""
        there = self[key]
        for mine, other in zip(there.unbind(0), value.unbind(0)):
            raw = np.zeros(other.numel() * other.dtype.itemsize, np.uint8)
            assert _cuda.cuMemcpyDtoH_v2(raw.ctypes.data, other.data_ptr(), raw.nbytes) == 0
            assert _cuda.cuMemcpyHtoD_v2(mine.data_ptr(), raw.ctypes.data, raw.nbytes) == 0

    def fill(self, byte):
        assert _cuda.cuMemsetD8_v2(ctypes.c_uint64(self.data_ptr()), ctypes.c_ubyte(byte),
                                   ctypes.c_size_t(self.numel() * self.dtype.itemsize)) == 0
        return self

    def new_zeros(self, *shape):
        return zeros(*shape, dtype=self.dtype)

    def is_neg(self):
        return False

    is_inference = is_neg

    def cuda(self):
        return self

    cpu = cuda

    def numpy(self):
        """A copy, as float32 where it is bfloat16."""
        span = sum((n - 1) * s for n, s in zip(self.shape, self.strides)) + 1 if self.numel() else 0
        raw = np.zeros(max(span, 1) * self.dtype.itemsize, np.uint8)
        if span:
            assert _cuda.cuMemcpyDtoH_v2(raw.ctypes.data, self.data_ptr(), span * self.dtype.itemsize) == 0
        if self.dtype is bfloat16:
            array = (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            array = raw.view({"bool": np.bool_}.get(self.dtype.name, "uint8" if self.dtype.name.startswith(("float8", "float4")) else self.dtype.name))
        return np.lib.stride_tricks.as_strided(array, self.shape, [s * array.itemsize for s in self.strides]).copy()


def empty_strided(shape, strides, dtype=float32, device=None):
    span = sum((n - 1) * s for n, s in zip(shape, strides)) + 1 if 0 not in shape else 0
    address = ctypes.c_uint64()
    _context()
    assert _cuda.cuMemAlloc_v2(ctypes.byref(address), max(span, 1) * dtype.itemsize) == 0
    return Tensor(address.value, shape, strides, dtype)


def empty(*shape, dtype=float32, device=None):
    shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    strides = [int(np.prod(shape[d + 1:], dtype=np.int64)) for d in range(len(shape))]
    return empty_strided(shape, strides, dtype)


def zeros(*shape, dtype=float32, device=None):
    tensor = empty(*shape, dtype=dtype)
    assert _cuda.cuMemsetD8_v2(ctypes.c_uint64(tensor.base), ctypes.c_ubyte(0),
                               ctypes.c_size_t(tensor.numel() * dtype.itemsize)) == 0
    return tensor


def from_numpy(array, dtype=None):
    """With `dtype` bfloat16: rounded from float32; of 8-bit floats: from their bits."""
    if dtype is bfloat16:
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        data, kind = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16), bfloat16
    else:
        kind = dtype or {"float16": float16, "float32": float32, "int32": int32, "uint32": uint32, "int8": int8, "uint8": uint8}[array.dtype.name]
        data = np.ascontiguousarray(array).astype("uint8" if kind.name.startswith(("float8", "float4")) else kind.name)
    tensor = empty(*array.shape, dtype=kind)
    if data.size:
        assert _cuda.cuMemcpyHtoD_v2(tensor.base, data.ctypes.data, data.nbytes) == 0
    return tensor


def full(shape, value, dtype=None, device=None):
    return from_numpy(np.full(shape, value, np.float32))


class Host(np.ndarray):
    """Numbers that stay on the host: what masks are read from."""

    def flip(self, axis):
        return np.flip(self, axis)

    def to(self, kind):
        return self.astype(kind.name)

    def expand(self, *shape):
        return np.broadcast_to(self, [n if m < 0 else m for n, m in zip(self.shape, shape)]).view(Host)

    def nonzero(self):
        return np.argwhere(self.view(np.ndarray))


def arange(n, device=None):
    return np.arange(n).view(Host)


def stack(parts, axis=0):
    return np.stack(parts, axis)


def cat(tensors, axis=0):
    """[B, S, ..] one behind the other, copied on the host."""
    whole = np.concatenate([tensor.numpy() for tensor in tensors], axis)
    return from_numpy(whole.astype(np.float32), tensors[0].dtype)


class _Library:
    def __init__(self, *arguments):
        pass

    def define(self, text, tags=()):
        setattr(ops.tilec, text.split("(")[0], types.SimpleNamespace(default=None))

    def impl(self, *arguments, **keywords):
        pass


def _nothing(*arguments, **keywords):
    pass


Tag = types.SimpleNamespace(pt2_compliant_tag=0, needs_fixed_stride_order=1)
ops = types.SimpleNamespace(tilec=types.SimpleNamespace())
functional = types.SimpleNamespace(pad=lambda x, widths: np.pad(x, ((0, 0), widths)).view(Host))
nn = types.SimpleNamespace(Parameter=Tensor, functional=functional, Module=type("Module", (), {}),
                           parameter=types.SimpleNamespace(is_lazy=lambda tensor: False))
cuda = types.SimpleNamespace(is_current_stream_capturing=lambda: False)
_FunctionBase = type("_FunctionBase", (), {"apply": classmethod(_nothing)})
class _Module(types.ModuleType):
    """A module that programs import."""

    def __init__(self, name, **names):
        super().__init__(name)
        self.__dict__.update(names)
        sys.modules[name] = self


autograd = _Module("torch.autograd", Function=type("Function", (_FunctionBase,), {}),
                   graph=types.SimpleNamespace(increment_version=_nothing), forward_ad=types.SimpleNamespace(_current_level=-1))
_Module("torch.autograd.function", _SingleLevelFunction=object)
_Module("torch._functorch")
_Module("torch._functorch.utils", enable_single_level_autograd_function=_nothing)
_Module("torch.utils")
_Module("torch.utils.weak", WeakIdKeyDictionary=dict)
compiler = types.SimpleNamespace(is_compiling=lambda: False, disable=lambda function: function)
library = types.SimpleNamespace(Library=_Library, register_fake=_nothing, register_autograd=_nothing, register_vmap=_nothing)
SymInt, SymFloat, SymBool = (type(name, (), {}) for name in ("SymInt", "SymFloat", "SymBool"))
_C = types.SimpleNamespace(_get_deterministic_algorithms=lambda: False, _get_deterministic_algorithms_warn_only=lambda: False, _len_torch_dispatch_stack=lambda: 0, _is_tracing=lambda: False,
                           _functorch=types.SimpleNamespace(peek_interpreter_stack=lambda: None, is_legacy_batchedtensor=lambda t: False))


def are_deterministic_algorithms_enabled():
    return False


def is_grad_enabled():
    return False


def is_autocast_enabled(kind):
    return False
