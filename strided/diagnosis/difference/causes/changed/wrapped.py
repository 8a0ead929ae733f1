"""b has a's whole numbers wrapped to a narrower integer type: modulo a power of two."""

from __future__ import annotations

import numpy as np

from strided.diagnosis.difference.causes.chance import is_no_chance
from strided.diagnosis.difference.causes.observations import Observations, Probe, Values, share_of
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.values import common_dtype, converted, is_float

#: Widths of the types, and the information in the choice of one of them, in bits.
_WIDTHS, _CHOICE_BITS = (8, 16, 32, 4, 2), 4.0


def wrapped(observed: Observations) -> Pattern | None:
    """The type that explains all mismatches, and whose range holds all other elements."""
    dtype = common_dtype(observed.a.dtype, observed.b.dtype)
    if dtype is None or is_float(dtype) or dtype.kind == "b" or not is_no_chance(observed, _CHOICE_BITS):
        return None
    few = converted(observed.few.values, np.dtype(np.int64))
    for bits in _WIDTHS:
        for name, low in ((f"s{bits}", -(1 << bits - 1)), (f"u{bits}", 0)):
            if few.min() < low or few.max() >= low + (1 << bits):
                continue

            def test(probe: Probe, bits: int = bits, low: int = low) -> float:
                a, b = (converted(each, np.dtype(np.int64)) for each in (observed.a.at(probe.points), probe.values))
                return share_of(_wrapped(a, bits, low) == b)

            if observed.share_in_whole_array(test) == 1:
                sentence = observed.sentence(f"b is a wrapped to {name}, modulo {1 << bits:,}", 1, test)
                return Pattern("wrap", name, 1.0, sentence)
    return None


def _wrapped(values: Values, bits: int, low: int) -> Values:
    """Integers modulo ``2**bits``, in the range that begins at `low`.

    >>> _wrapped(np.array([127, 128, -129]), 8, -128).tolist()
    [127, -128, 127]
    """
    found: Values = (values - low & (1 << bits) - 1) + low
    return found
