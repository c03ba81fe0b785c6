"""packed_codes.py - what i4, u4 and e2m1 are, as docs/language.md has them: the number of each code, the code of a number, and bytes."""
import numpy as np

SIZES = [0.0, 0.5, 1, 1.5, 2, 3, 4, 6]  # of e2m1: 2 bits of exponent, bias 1, one of the fraction
NUMBERS = {"u4": np.arange(16.0), "i4": np.array([*range(8), *range(-8, 0)], float), "e2m1": np.array(SIZES + [-x for x in SIZES])}


def codes(values, form):
    """The rule, of float64 numbers: integers cut toward zero and saturate, a NaN is 0; e2m1 is the nearest, ties to the even code."""
    if form != "e2m1":
        low, high = NUMBERS[form].min(), NUMBERS[form].max()
        return (np.clip(np.trunc(np.nan_to_num(values, nan=0, posinf=99, neginf=-99)), low, high).astype(np.int64) & 15).astype(np.uint8)
    size = np.minimum(np.abs(values), 6)
    sizes = np.array(SIZES)
    at = np.searchsorted(sizes, size, "right") - 1
    up = np.minimum(at + 1, 7)
    middle = (sizes[at] + sizes[up]) / 2
    code = np.where((size > middle) | ((size == middle) & (at % 2 == 1)), up, at)
    return (code + 8 * np.signbit(values)).astype(np.uint8)


def pack(elements, spare=0):
    """Rows of codes as rows of bytes, the first element in the lower half; `spare` is what an odd row's last byte has above."""
    if elements.shape[-1] % 2:
        elements = np.concatenate([elements, np.full(elements.shape[:-1] + (1,), spare, np.uint8)], axis=-1)
    return elements[..., 0::2] | elements[..., 1::2] << 4

