"""case.py - a random program as a file that says of itself how it is run.

The line `//! {...}` of a .tile file holds, as JSON: `sizes` and `scalars` by name, `seed`, and for
tensors that are read `data` by name:
    ["q", LO, HI, BY]     whole numbers from LO to HI, divided by BY
    ["wide", SCALE]       normal numbers with all their digits
    ["odd", LO, HI, BY]   as "q", and one in eight is a NaN or infinite
    ["off", LAST, FIRST]  offsets: from FIRST, or 0, to LAST (numbers), never falling
    ["behind", ROW]       as ["q", -16, 16, 8], and NaN from this row on
    ["zero"]              zeros
    ["scales", LO, HI]    powers of two, of e8m0
    ["ends", MARGIN]      i32, many of them at the limits but for MARGIN
    ["low", VALUE, SHARE] as ["q", -16, 16, 8], and that share of the elements, some rows and the first columns of others
                          very negative: VALUE, "-inf", or "all": what masks of the field have
    ["tiny"]              subnormal numbers, zeros of both signs, and a few others
Tensors without data have ["q", -16, 16, 8].  `layout` says of tensors how they lie in memory, from the
second-last dimension's place on outwards: [dimension, gap] for each outer dimension in the order of
the strides; the gap is in units of the alignment, -1 - N a stride of N units.  `defines`: parameters that -D
gives.  A parameter that is `auto` has the value that the compiler says (`resolved`).  `tensor`: on sm_100 its products have their results in
tensor memory (of cases that once failed there).  Names that the text does not have are left aside, so a
program can be cut down and stay a case.
"""
import json
import os
import re
import sys
import zlib

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "run"))
from float8_codes import FORMS, NUMBERS, codes  # noqa: E402
from packed_codes import NUMBERS as PACKED, codes as packed_codes, pack  # noqa: E402

TENSOR = re.compile(r"\b(\w+)\s*:\s*(in|out|inout)\s+(\w+)\s*\[([^\]]*)\](?:\s*align\s*\(\s*(\d+))?")
CONST = re.compile(r"\b(\w+)\s*:\s*(?:int|type|bool)\s*=\s*(-?\w+)")
WIDTH = {"f16": 2, "bf16": 2, "bool": 1, "i8": 1, "u8": 1, "e4m3": 1, "e5m2": 1, "e8m0": 1, **dict.fromkeys(PACKED, 1)}  # of packed types a byte has two elements
GIVEN = re.compile(r"\b(\w+)\s*:\s*(?:int|bool)\b")
SCALAR = re.compile(r"\b(\w+)\s*:\s*(f32|i32|u32)\s*(?=[,)])")


def to_bits(x, dtype):
    """An array as tilerun reads it: bf16 and floats of 8 bits travel as their bits, packed types as bytes of two."""
    if dtype in PACKED:
        return pack(packed_codes(np.asarray(x, np.float64), dtype))
    if dtype == "e8m0":  # of powers of two
        return (np.log2(np.asarray(x, np.float64)) + 127).astype(np.uint8)
    if dtype in FORMS:
        return codes(np.asarray(x, np.float64), dtype)
    if dtype == "bf16":
        x = np.where(np.isnan(x), np.nan, x)  # one NaN, of which rounding makes no infinity
        bits = np.ascontiguousarray(x, dtype=np.float32).view(np.uint32).astype(np.uint64)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.asarray(x).astype({"f16": np.float16, "f32": np.float32, "i32": np.int32, "u32": np.uint32, "bool": np.bool_,
                                 "i8": np.int8, "u8": np.uint8}[dtype])


def from_bits(x, dtype):
    """Numbers; of packed types and scales the bytes, which are one or the other (but zeros of e2m1 may have either sign)."""
    if dtype == "e2m1":
        x = np.where(x & 15 == 8, x - 8, x)
        return np.where(x >> 4 == 8, x - 128, x).astype(np.float64)
    if dtype in FORMS:
        return NUMBERS[dtype][x]
    if dtype == "bf16":
        return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return x.astype(np.float64)


LOWEST = [-65504.0, -1e9, -1e30, -3.3895313892515355e38, -3.4028234663852886e38, -np.inf, 0.0]
TINY = np.array([0.0, -0.0, 1e-40, -1e-40, 6e-8, 1.5e-45, 1.2e-38, -1.2e-38, 1.0, -0.5])


def at_ends(r, shape, margin):
    lo, hi = -2**31 + margin, 2**31 - 1 - margin
    some = np.array([lo, lo, hi, hi, lo + 1, hi - 1, 0, 1, -1, 5, 1500000000, -1500000000, 1000000000, -2000000000])
    x = np.where(r.random(shape) < 0.7, r.choice(some, shape), r.integers(lo, hi + 1, shape))
    return np.clip(np.where(r.random(shape) < 0.2, r.integers(-40, 41, shape), x), lo, hi)


def very_low(r, shape, value, share, dtype):
    x = r.integers(-16, 17, shape) / 8
    low = r.choice(LOWEST, shape) if value == "all" else np.full(shape, float(value))
    if dtype == "f16":
        low = np.where(np.isfinite(low), np.maximum(low, -65504.0), low)
    where = r.random(shape) < share
    if len(shape) > 1 and shape[-1]:
        rows = r.random(shape[:-1])[..., None]
        where |= (rows < 0.15) | ((rows > 0.5) & (np.arange(shape[-1]) < r.integers(0, shape[-1] + 1)))
    return np.where(where, low, x)


class Case:
    def __init__(self, text, defines=None):
        line = re.search(r"^//! (.*)$", text, re.M)
        self.text, self.how = text, json.loads(line[1]) if line else {}
        params = set(GIVEN.findall(re.sub(r"//.*", "", text)))
        self.given = {n: v for n, v in self.how.get("defines", {}).items() if n in params}  # by -D
        self.defines = {**self.given, **(defines or {})}
        self.sizes = self.how.get("sizes", {})
        self.parse()

    @staticmethod
    def join(text, how):
        return "//! " + json.dumps(how) + "\n" + re.sub(r"^//! .*\n", "", text, flags=re.M)

    def parse(self):
        """Tensors and scalars of all kernels: {name: (mode, dtype, dims)}."""
        code = re.sub(r"//.*", "", self.text)
        consts = dict(CONST.findall(code))
        self.autos = sorted(n for n, v in consts.items() if v == "auto")
        consts.update({n: str(self.defines.get(n, 64)) for n in self.autos})
        consts.update({n: str(v) for n, v in self.defines.items()})
        consts = {n: consts.get(v, v) for n, v in consts.items()}  # a default may name another one
        self.known = {n: int(v) for n, v in consts.items() if re.fullmatch(r"-?\d+", v)}
        self.tensors, first, self.align = {}, {}, {}
        for name, mode, dtype, dims, align in TENSOR.findall(code):
            dims = [consts.get(d.strip(), d.strip()) for d in re.split(r",(?![^(]*\))", dims) if d.strip()]
            dims = [int(d) if re.fullmatch(r"-?\d+", d) else d for d in dims]
            dtype = consts.get(dtype, dtype)
            before = self.tensors.get(name)
            # a tensor that some kernel reads before one writes it needs data
            self.tensors[name] = (before[0] if before else mode, dtype, dims)
            first.setdefault(name, mode)
            width = WIDTH.get(dtype, 4)
            if not align:
                last = -(-dims[-1] // 2) if dtype in PACKED and isinstance(dims[-1], int) else dims[-1]
                align = 16 if isinstance(last, int) and last * width % 16 == 0 else width
            self.align[name] = max(int(align), width, self.align.get(name, 1))
        heads = "".join(re.findall(r"\bkernel\s[^{]*\{", code))
        self.scalars = {n for n, t in SCALAR.findall(heads)}

    def inputs(self):
        return [n for n, (mode, _, _) in self.tensors.items() if mode != "out"]

    def outputs(self):
        code = re.sub(r"//.*", "", self.text)
        return sorted({name for name, mode, _, _, _ in TENSOR.findall(code) if mode != "in"})

    def shape(self, name):
        follows = {"cdiv": lambda a, b: -(-a // b), **self.known, **self.sizes}
        try:
            return [d if isinstance(d, int) else eval(d.replace("/", "//"), follows) for d in self.tensors[name][2]]
        except (NameError, ZeroDivisionError, SyntaxError) as none:  # of a program that was made smaller
            raise ValueError(f"a dimension of {name} has no value") from none

    def stored(self, name):
        """The shape of its array: of packed types with bytes in the last dimension."""
        shape = self.shape(name)
        return shape[:-1] + [-(-shape[-1] // 2)] if self.tensors[name][1] in PACKED else shape

    def resolved(self, defines):
        """The case with these values for what is `auto`."""
        return Case(self.text, defines) if self.autos else self

    def strides(self, name):
        """In elements; None: close together."""
        layout, shape = self.how.get("layout", {}).get(name), self.stored(name)
        if not layout or len(shape) < 2 or sorted(d for d, _ in layout) != list(range(len(shape) - 1)):
            return None
        unit = self.align[name] // WIDTH.get(self.tensors[name][1], 4)
        made, step = [1] * len(shape), max(shape[-1], 1)
        for d, gap in layout:
            made[d] = -(-step // unit) * unit + gap * unit if gap >= 0 else (-1 - gap) * unit
            step = max(step, made[d] * max(shape[d], 1))
        return made

    def array(self, name):
        strides = self.strides(name)
        if strides is None or all(gap >= 0 for _, gap in self.how["layout"][name]):
            return self.values(name, self.stored(name))
        shape = self.stored(name)  # rows share elements
        flat = self.values(name, [1 + sum((n - 1) * k for n, k in zip(shape, strides))] if min(shape) else [0])
        return np.ascontiguousarray(np.lib.stride_tricks.as_strided(
            flat, shape, [k * flat.itemsize for k in strides])) if min(shape) else np.zeros(shape, flat.dtype)

    def values(self, name, shape):
        _, dtype, _ = self.tensors[name]
        kind, *args = self.how.get("data", {}).get(name, ["q", -16, 16, 8])
        if dtype in PACKED:  # behind the end of an odd row, too
            shape = [*shape[:-1], 2 * shape[-1]]
        r = np.random.default_rng([self.how.get("seed", 0), zlib.crc32(name.encode())])
        if kind == "q":
            x = r.integers(args[0], args[1] + 1, shape) / args[2]
        elif kind == "scales":
            x = 2.0 ** r.integers(args[0], args[1] + 1, shape)
        elif kind == "odd":
            x = r.integers(args[0], args[1] + 1, shape) / args[2]
            x = np.where(r.random(shape) < 0.125, r.choice([np.nan, np.inf, -np.inf], shape), x)
        elif kind == "behind":
            x = r.integers(-16, 17, shape) / 8
            x[args[0]:] = np.nan
        elif kind == "wide":
            x = r.standard_normal(shape).clip(-3, 3) * args[0]
        elif kind == "words":
            some = np.array([0, 1, 2, 31, 32, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1])
            x = np.where(r.random(shape) < 0.5, r.choice(some, shape), r.integers(0, 2**32, shape))
        elif kind == "ends":
            x = at_ends(r, shape, args[0])
        elif kind == "low":
            x = very_low(r, shape, *args, dtype)
        elif kind == "tiny":
            x = r.choice(TINY, shape)
        elif kind == "off":
            first = args[1] if len(args) > 1 else 0
            x = np.sort(r.integers(first, args[0] + 1, shape), axis=-1)
            if x.shape[-1] > 1:
                x[..., 0], x[..., -1] = first, args[0]
        else:
            x = np.zeros(shape)
        return to_bits(x, dtype)

    def layouts(self):
        """--strides arguments of tilerun."""
        made = []
        for name in self.tensors:
            strides = self.strides(name)
            if strides:
                made += ["--strides", f"{name}={','.join(map(str, strides[:-1]))}"]
        return made

    def sets(self):
        """--set arguments: scalars, and sizes that no input has."""
        says = lambda n: self.tensors[n][2][:-1] if self.tensors[n][1] in PACKED else self.tensors[n][2]  # bytes say no extent
        seen = {d for n in self.inputs() for d in says(n)}
        dims = [d for _, _, _, d, _ in TENSOR.findall(re.sub(r"//.*", "", self.text))]  # of all kernels: one may have them otherwise
        used = {s for d in dims for s in re.findall(r"\w+", d)}
        made = [f"{n}={v}" for n, v in self.how.get("scalars", {}).items() if n in self.scalars]
        return made + [f"{n}={v}" for n, v in self.sizes.items() if n in used and n not in seen]
