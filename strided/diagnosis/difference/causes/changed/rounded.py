"""One array has the other's values in a narrower type: rounded, or truncated to fewer bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from strided.diagnosis.bit_patterns import patterns
from strided.diagnosis.difference.causes.observations import Observations, Probe, Test, Values, most_explained, share_of
from strided.diagnosis.difference.places import LEAST_SHARE
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.values import common_dtype, converted, is_float
from strided.layout.element_types import element_type_of_dtype
from strided.wording import counted

#: Types that values may be rounded to.
_NARROWER = tuple(
    map(np.dtype, (ml_dtypes.bfloat16, np.float16, np.float32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2))
)
#: The number of low bits of f32 that tf32 lacks: it has the precision of f16 and the range of f32.
_ZEROS_OF_TF32 = 13


def rounded(observed: Observations) -> Pattern | None:
    """The narrower type, or the number of lost bits, that explains the most mismatches.

    b's values are tested; if a's type is the narrower one, as in a device's weights beside a checkpoint, a's are.
    """
    a, b = observed.a.dtype, observed.b.dtype
    if _is_wider(a, b):
        return _rounded(observed, "b is a")
    return _rounded(observed.exchanged(), "a is b") if _is_wider(b, a) else None


def _is_wider(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Whether a type of real floats holds all values of another, or is the same."""
    common = common_dtype(one, other)
    return is_float(one) and one.kind != "c" and common is not None and common == one  # to NumPy, float64 == None


def _rounded(observed: Observations, subject: str) -> Pattern | None:
    dtype = observed.a.dtype
    found = converted(observed.every.values, dtype)
    zeros = min(_low_zeros(patterns(found)), int(ml_dtypes.finfo(dtype).nmant))  # type: ignore[no-untyped-call]
    if not zeros or 2 * np.count_nonzero(found) < found.size:  # zero values have zero bits anyway
        return None

    def found_by_each() -> Iterator[Pattern]:
        for where, words, change in _changes(dtype, zeros):
            test = _same_bits(observed, change)
            if share := observed.share_of_mismatches(test):
                yield Pattern("rounded", where, share, observed.sentence(f"{subject} {words}", share, test))

    return most_explained(found_by_each())


def _changes(dtype: np.dtype[Any], zeros: int) -> Iterator[tuple[str, str, Callable[[Values], Values]]]:
    """Ways to lose low bits: `where` and words of the pattern, and a function; the first of equals is preferred."""
    for narrow in (t for t in _NARROWER if t.itemsize < dtype.itemsize):
        name = element_type_of_dtype(narrow).name
        yield name, f"rounded to {name}", _rounding(narrow)
    cut = counted(zeros, "low bit")
    low = "lowest bit" if zeros == 1 else f"low {zeros} bits"
    yield cut, f"without the {low} of each element", _cutting(zeros)
    kept = counted(int(ml_dtypes.finfo(dtype).nmant) + 1 - zeros, "significant bit")  # type: ignore[no-untyped-call]
    as_tf32 = ", as tf32 has" if dtype == np.float32 and zeros == _ZEROS_OF_TF32 else ""
    yield kept, f"rounded to {kept}{as_tf32}", _rounding_bits(zeros)


def _rounding(narrow: np.dtype[Any]) -> Callable[[Values], Values]:
    return lambda x: x.astype(narrow).astype(x.dtype)


def _cutting(bits: int) -> Callable[[Values], Values]:
    return lambda x: (patterns(x) >> bits << bits).view(x.dtype)


def _rounding_bits(bits: int) -> Callable[[Values], Values]:
    """Rounding to the nearest value whose low `bits` bits are zero, halves to even."""

    def change(x: Values) -> Values:
        own = patterns(x)
        one = own.dtype.type(1)
        nearest: Values = (own + ((one << (bits - 1)) - one) + (own >> bits & one)) >> bits << bits
        return nearest.view(x.dtype)

    return change


def _same_bits(observed: Observations, change: Callable[[Values], Values]) -> Test:
    """The hypothesis that b has `change` of a's elements, compared bit by bit."""

    def test(probe: Probe) -> float:
        values = observed.a.at(probe.points)
        with np.errstate(all="ignore"):
            changed = change(values)
        return share_of(patterns(changed) == patterns(converted(probe.values, values.dtype)))

    return test


def _low_zeros(bits: npt.NDArray[Any]) -> int:
    """How many of the lowest bits are zero in nearly all patterns; 0 if all bits are.

    >>> _low_zeros(np.array([8, 16, 24], np.uint16)), _low_zeros(np.array([1, 2], np.uint16))
    (3, 0)
    """
    for count in range(8 * bits.dtype.itemsize - 1, 0, -1):
        if np.mean(bits & bits.dtype.type((1 << count) - 1) == 0) >= LEAST_SHARE:
            return count
    return 0
