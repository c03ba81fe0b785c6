"""_signature.py - what a kernel takes, read from its head as the compiler prints it.

    kernel scale<T: type = f16, D: int = 128, N: int = auto>(X: in T[S, D], Y: out T[S, D], a: f32)

A type parameter that is the element type of a tensor, and an integer one that stands alone as an extent,
get their values from the tensors of a call.
"""
import re
from dataclasses import dataclass, field




@dataclass(frozen=True)
class Tensor:
    name: str
    mode: str  # in, out, inout
    dtype: str  # f16 .., or the name of a type parameter
    dims: tuple  # expressions


@dataclass(frozen=True)
class Constant:
    name: str
    kind: str  # type, int, bool, f32
    default: str  # an expression, a type, "auto" or None


@dataclass
class Signature:
    name: str
    constants: list = field(default_factory=list)
    tensors: list = field(default_factory=list)
    scalars: dict = field(default_factory=dict)  # type by name

    def constant(self, name):
        return next((c for c in self.constants if c.name == name), None)


_MARK = re.compile(r"[][(){},>]")


def _split(text):
    """The parts between commas that are in no bracket."""
    parts, depth, start = [], 0, 0
    for mark in _MARK.finditer(text):
        c = mark.group()
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append(text[start:mark.start()])
            start = mark.end()
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def _closing(text, start, close):
    """Where the bracket that was opened just before `start` is closed."""
    depth = 0
    for mark in _MARK.finditer(text, start):
        c = mark.group()
        if c == close and depth == 0:
            return mark.start()
        depth += (c in "([{") - (c in ")]}")
    raise ValueError("the head of a kernel cannot be read")


PACKED = ("i4", "u4", "e2m1")  # types of which two elements are a byte of a tensor


def _constant(text):
    match = re.fullmatch(r"(\w+): (\w+)(?: = (.*))?", text, re.S)
    if not match:
        raise ValueError(f"the compile-time parameter '{text}' cannot be read")
    return Constant(*match.groups())


def signatures(text):
    """The kernels of a program as `--emit=ast` prints it, in order."""
    found = []
    for match in re.finditer(r"\bkernel (\w+)([<(])", text):
        signature, at = Signature(match.group(1)), match.end()
        if match.group(2) == "<":
            end = _closing(text, at, ">")
            signature.constants = [_constant(part) for part in _split(text[at:end])]
            at = text.index("(", end) + 1
        for part in _split(text[at:_closing(text, at, ")")]):
            tensor = re.fullmatch(r"(\w+):\s+(in|out|inout)\s+(\w+)\[(.*)\](?:\s+align\(.*\))?", part, re.S)
            scalar = re.fullmatch(r"(\w+):\s+(\w+)", part)
            if tensor:
                name, mode, dtype, dims = tensor.groups()
                dims = _split(dims)
                if dtype in PACKED:
                    dims = [*dims[:-1], f"cdiv({dims[-1]}, 2)"]
                signature.tensors.append(Tensor(name, mode, dtype, tuple(dims)))
            elif scalar:
                signature.scalars[scalar.group(1)] = scalar.group(2)
            else:
                raise ValueError(f"the parameter '{part}' of kernel '{signature.name}' cannot be read")
        found.append(signature)
    return found
