"""table.py - the rows of engine.py: what a kernel is, where it stands, how many lines it may have, what it is run with.

A row's function takes a generator of random numbers and yields cases.  Arrays hold what the kernel sees: numbers that its type has.
"""
import os
import sys
from dataclasses import dataclass, field

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run"))
import float8_codes  # noqa: E402
import packed_codes  # noqa: E402

INTEGERS = {"i32": np.int32, "u32": np.uint32, "i8": np.int8, "u8": np.uint8, "bool": np.bool_}
ALLOWED = {"bf16": 2e-2, "f16": 2e-3, "f32": 1e-4}  # of the largest value; all else is exact


def to_bits(x, dtype):
    """An array as files have it."""
    x = np.asarray(x)
    if dtype in INTEGERS:
        return x.astype(INTEGERS[dtype])
    if dtype == "bf16":
        bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
        return ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    if dtype in float8_codes.FORMS:
        return float8_codes.codes(x.astype(np.float64), dtype)
    if dtype == "e8m0":
        return (np.log2(x) + 127).astype(np.uint8)
    if dtype in packed_codes.NUMBERS:
        return packed_codes.pack(packed_codes.codes(x.astype(np.float64), dtype))
    return x.astype({"f16": np.float16, "f32": np.float32}[dtype])


def from_bits(x, dtype, like=None):
    if dtype == "bf16":
        return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if dtype in float8_codes.FORMS:
        return float8_codes.NUMBERS[dtype][x]
    if dtype == "e8m0":
        return 2.0 ** (x.astype(np.float64) - 127)
    if dtype in packed_codes.NUMBERS:
        codes = np.stack([x & 15, x >> 4], axis=-1).reshape(*x.shape[:-1], -1)
        return packed_codes.NUMBERS[dtype][codes[..., :like]]
    return x if dtype in INTEGERS else x.astype(np.float64)


class Array:
    def __init__(self, values, dtype):
        self.dtype, self.bits = dtype, np.ascontiguousarray(to_bits(values, dtype))
        self.values = from_bits(self.bits, dtype, np.asarray(values).shape[-1])


@dataclass
class Case:
    """One file, or some kernels of it, with what goes in and what must come out: name: values, or (values, allowed)."""
    inputs: dict
    wanted: dict
    outputs: dict  # name: type
    defines: dict = field(default_factory=dict)
    sets: dict = field(default_factory=dict)
    kernel: str = ""
    file: str = ""  # where a row has several


@dataclass
class Row:
    number: int
    kernel: str      # what it computes
    files: list      # the first is what the row is; below tests/engine/ or examples/
    listed: int      # lines without comments that it may have, 0: as many as it likes
    cases: object
    sm_90: str       # what multiplies: wgmma, mma, - where there is no product
    sm_100: str
    other: str = ""  # "a trick: ..", "impossible: .."; else it is natural


# What the language does not have, and will not.
ROWS = {74: Row(74, "all-reduce in a product, kernels of whole layers", [], 0, None, "-", "-", "impossible: memory of other GPUs, blocks that wait for others")}
NATURAL = 62  # of them


def row(number, kernel, files, listed, sm_90="-", sm_100="-", other=""):
    def keep(cases):
        ROWS[number] = Row(number, kernel, files.split(), listed, cases, sm_90, sm_100, other)
        return cases
    return keep


def normal(random, dtype, *shape, size=1.0):
    return Array(random.normal(size=shape) * size, dtype)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def logsumexp(x, axis=-1):
    m = x.max(axis, keepdims=True)
    m = np.where(np.isinf(m), 0, m)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x - m).sum(axis)) + m.squeeze(axis)


def rounded(x, dtype="bf16"):
    return from_bits(to_bits(x, dtype), dtype)
