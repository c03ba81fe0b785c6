"""values.py - the numbers of a call: what Python and NumPy have, as the parameters of kernels take them."""
import math
import numbers
import struct

import torch

from tilec.torch.elements import ELEMENTS
from tilec.torch.error import Error

PLAIN = frozenset((float, int, bool, type(None)))  # what goes as it is
SYMBOLS = torch.SymInt, torch.SymFloat, torch.SymBool  # of a trace
LARGEST_F32, LARGEST_I32 = 3.4028235677973366e38, 2**31 - 1  # from the first on it would round to infinity


def plain(kernel, name, value, none=True):
    """A bool, an int or a float, of NumPy's, too; None stands for what has no value, where there is such."""
    if value is None and not none:
        raise Error(f"{kernel}: {name} must be a number, not None")
    if type(value) in PLAIN or isinstance(value, SYMBOLS):
        return value
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return bool(value)
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    raise Error(f"{kernel}: {name} must be a number or a bool, not {type(value).__name__}")


def check(kernel, name, kind, value):
    """Refuses what the parameter would hold as another number."""
    if kind == "f32":
        if abs(value) >= LARGEST_F32 and (isinstance(value, int) or math.isfinite(value)):
            raise Error(f"{kernel}: {name} = {value} does not fit f32, whose largest number is 3.4e38")
    elif isinstance(value, float) and not value.is_integer():
        raise Error(f"{kernel}: {name} must be a whole number, not {value}")
    elif kind == "bool" and value not in (0, 1):
        raise Error(f"{kernel}: {name} must be a bool, not {value}")
    else:
        least, most = ELEMENTS.get(kind, ELEMENTS["i32"]).ends
        if not least <= value <= most:
            raise Error(f"{kernel}: {name} = {value} does not fit {'32 bits' if least < 0 else f'{kind}, which is from 0 to {most}'}")


def as_kind(kind, value):
    """A value that was checked, as text and arithmetic take it: what a requirement is about is what the kernel has."""
    if value is None or kind == "f32":
        return value if value is None else struct.unpack("f", struct.pack("f", value))[0]
    return bool(value) if kind == "bool" else int(value)
