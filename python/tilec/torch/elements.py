"""elements.py - the element types: what each is in PyTorch, in memory, in the driver and as a scalar of a call."""
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Element:
    """`torch`: PyTorch's, None where it has none; `map`: the driver's in tensor maps (CUtensorMapDataType); `schema`: of scalars,
    in the schemas of operators; `ends`: of integers, the least and the greatest."""
    torch: object
    bytes: int
    map: int
    schema: str = None
    ends: tuple = None


ELEMENTS = {
    "f32": Element(torch.float32, 4, 7, "float"),
    "f16": Element(torch.float16, 2, 6),
    "bf16": Element(torch.bfloat16, 2, 9),
    "e4m3": Element(getattr(torch, "float8_e4m3fn", None), 1, 0),
    "e5m2": Element(getattr(torch, "float8_e5m2", None), 1, 0),
    "e8m0": Element(getattr(torch, "float8_e8m0fnu", None), 1, 0),
    "i32": Element(torch.int32, 4, 3, "int", (-2**31, 2**31 - 1)),
    "u32": Element(getattr(torch, "uint32", None), 4, 2, "int", (0, 2**32 - 1)),
    "i8": Element(torch.int8, 1, 0, ends=(-2**7, 2**7 - 1)),
    "u8": Element(torch.uint8, 1, 0, ends=(0, 2**8 - 1)),
    "bool": Element(torch.bool, 1, 0, "bool", (0, 1)),
    # two to a byte: tensors of bytes, or of PyTorch's pairs where it has them
    "i4": Element(torch.uint8, 1, 0, ends=(-8, 7)),
    "u4": Element(torch.uint8, 1, 0, ends=(0, 15)),
    "e2m1": Element(getattr(torch, "float4_e2m1fn_x2", None) or torch.uint8, 1, 0),
}
