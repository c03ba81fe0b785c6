"""torch.py - as much of PyTorch as torch_program.py and tilec_torch.py use, over NumPy arrays on the
CPU, for machines without PyTorch."""

import types

import numpy as np

float16, float32, int32, int8, uint8, bool = np.float16, np.float32, np.int32, np.int8, np.uint8, np.bool_  # noqa: A001
bfloat16 = np.dtype("V2")


class device:  # noqa: N801
    def __init__(self, kind, index=None):
        self.type, self.index = kind, index

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other):
        return str(self) == str(other)


class Tensor:
    def __init__(self, array):
        self.array, self.device = array, device("cpu")
        self.dtype, self.shape = array.dtype.type, array.shape

    def dim(self):
        return self.array.ndim

    def numel(self):
        return self.array.size

    def element_size(self):
        return self.array.itemsize

    def stride(self, d=None):
        strides = tuple(s // self.array.itemsize for s in self.array.strides)
        return strides if d is None else strides[d]

    def data_ptr(self):
        return self.array.ctypes.data

    def zero_(self):
        self.array[...] = 0
        return self

    def copy_(self, other):
        self.array[...] = other.array
        return self

    def contiguous(self):
        return Tensor(np.ascontiguousarray(self.array))

    def new_zeros(self, *shape):
        return zeros(*shape, dtype=self.dtype)

    def sum(self, axis):
        return Tensor(self.array.sum(axis))

    def __getitem__(self, key):
        return Tensor(self.array[key])

    def __rmul__(self, factor):
        return Tensor((factor * self.array).astype(self.array.dtype))


def zeros(*shape, dtype=float32, device=None):
    shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    count = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    room = np.zeros(count + 512, np.uint8)
    start = -room.ctypes.data % 512
    return Tensor(room[start:start + count].view(dtype).reshape(shape))


def empty(*shape, dtype=float32, device=None):
    tensor = zeros(*shape, dtype=dtype)
    tensor.array.view(np.uint8)[...] = 0xA5
    return tensor


def empty_strided(shape, strides, dtype=float32, device=None):
    count = sum((n - 1) * s for n, s in zip(shape, strides)) + 1 if 0 not in shape else 0
    array = empty(count, dtype=dtype).array
    return Tensor(np.lib.stride_tricks.as_strided(array, shape, [s * array.itemsize for s in strides]))


def randn(*shape):
    return zeros(*shape).copy_(Tensor(np.random.default_rng(1).standard_normal(shape).astype(np.float32)))


def from_numpy(array):
    return zeros(*array.shape, dtype=array.dtype.type).copy_(Tensor(array))


def equal(a, b):
    return np.array_equal(a.array, b.array)


def allclose(a, b):
    return np.allclose(a.array, b.array, rtol=1e-5)


cuda = types.SimpleNamespace()
autograd = types.SimpleNamespace(Function=object)
