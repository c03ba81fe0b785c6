"""wire.py - as what keys and values travel from process to process (ring.py): tensors of their rows, K's and V's, and behind
these tensors that go whole."""
import torch

LARGEST = 0.875 * 2**9  # of e4m3: what torch.frexp gives of it
LEAST = -100  # exponents of scales whose reciprocal is a number in float32


class Plain:
    """As they are."""

    def packed(self, k, v):
        """What is sent."""
        return k, v

    def opened(self, tensors):
        """What is computed with, of what came."""
        return tensors

    own = packed  # what this process computes with


class Scaled(Plain):
    """Bytes that are e4m3, with the scales that this process's keys and values have: its steps read them as they are."""

    def __init__(self, scale_k, scale_v):
        self.scales = scale_k, scale_v

    def packed(self, k, v):
        return k, v, *self.scales

    own = packed


class Rounded(Plain):
    """16 bits become e4m3 with a scale for each sequence and head, on the way to others alone; gradients are those of what
    was computed with."""

    def __init__(self, blocks, dtype):
        self.blocks, self.dtype = blocks, dtype

    def packed(self, k, v):
        scales = scales_of(k), scales_of(v)
        return *[self.blocks.encode(*pair) for pair in zip((k, v), scales)], *scales

    def opened(self, tensors):
        return [self.blocks.decode(*pair, self.dtype) for pair in zip(tensors[:2], tensors[2:])]


def scales_of(x):
    """float32 [B, heads] of [B, rows, heads, D]: the least powers of two by which all numbers are in the range of e4m3, NaN
    where one is none: e4m3 has no infinity, and not all that round to it keep a NaN for one."""
    x = x.detach()
    most = torch.linalg.vector_norm(x, torch.inf, dim=(1, 3), dtype=torch.float64 if x.dtype == torch.float64 else torch.float32)
    mantissa, exponent = torch.frexp(most.float())
    exponent = (exponent - 9 + (mantissa > LARGEST / 2**9)).clamp(min=LEAST)
    return torch.where(torch.isfinite(most), torch.ldexp(torch.ones_like(mantissa), exponent), torch.nan)
