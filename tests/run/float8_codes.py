"""float8_codes.py - what e4m3 and e5m2 are, as docs/language.md has them: the number of each code, and the code of a number."""
from fractions import Fraction

import numpy as np

# bits of the exponent, of the fraction, the bias, the greatest number
FORMS = {"e4m3": (4, 3, 7, 448), "e5m2": (5, 2, 15, 57344)}


def number(code, form):
    exponent_bits, fraction_bits, bias, greatest = FORMS[form]
    sign, exponent = -1 if code >> 7 else 1, code >> fraction_bits & (1 << exponent_bits) - 1
    fraction = code & (1 << fraction_bits) - 1
    if form == "e4m3" and code & 127 == 127:
        return float("nan")
    if form == "e5m2" and exponent == 31:
        return float("nan") if fraction else sign * float("inf")
    scale = Fraction(2) ** ((exponent or 1) - bias - fraction_bits)
    return sign * float(scale * (fraction + (1 << fraction_bits if exponent else 0)))


NUMBERS = {form: np.array([number(code, form) for code in range(256)]) for form in FORMS}


def finite(form):
    return [k for k in range(128) if np.isfinite(NUMBERS[form][k])]


def codes(values, form):
    """The rule, of float64 numbers: nearest, ties to the even code, beyond the greatest number that number; any NaN is 0x7f."""
    below = NUMBERS[form][finite(form)]
    size = np.minimum(np.abs(values), below[-1])
    at = np.searchsorted(below, np.nan_to_num(size), "right") - 1
    up = np.minimum(at + 1, len(below) - 1)
    middle = (below[at] + below[up]) / 2  # exact in float64
    code = np.where((size > middle) | ((size == middle) & (at % 2 == 1)), up, at)
    return np.where(np.isnan(values), 127, code + 128 * np.signbit(values)).astype(np.uint8)
