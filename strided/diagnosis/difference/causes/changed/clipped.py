"""b is a, clipped to a range as by `numpy.clip`. All elements are compared."""

from __future__ import annotations

import math

import numpy as np

from strided.arrays.base import Array
from strided.diagnosis.bit_patterns import patterns
from strided.diagnosis.difference.causes.all_elements import all_equal
from strided.diagnosis.difference.causes.derived import Changed
from strided.diagnosis.difference.causes.number_text import range_words, shortest
from strided.diagnosis.difference.causes.observations import Observations, Probe, Values
from strided.diagnosis.difference.places import LEAST_BITS
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.values import are_equal, common_dtype, converted, is_float

#: At least so many distinct values of a are out of bounds, and of b within: else values were replaced, or all lost.
_LEAST_VALUES = 3


def clipped(observed: Observations) -> Pattern | None:
    """The bounds that explain all mismatches; a bound is given only if some mismatch is beyond it."""
    dtype = common_dtype(observed.a.dtype, observed.b.dtype)
    if dtype is None or dtype.kind in "bc":
        return None
    count, total = observed.tally.count, math.prod(observed.shape)
    chosen = math.lgamma(total + 1) - math.lgamma(count + 1) - math.lgamma(total - count + 1)
    if chosen / math.log(2) < LEAST_BITS:  # by chance, the lost elements may be the least or the greatest
        return None
    # A few mismatches suffice to refute most bounds.
    if _bounds(observed, observed.few, dtype) is None or (bounds := _bounds(observed, observed.every, dtype)) is None:
        return None
    low, high = bounds

    def change(values: Array) -> Array:
        own = converted(values, dtype)
        with np.errstate(invalid="ignore"):  # of NaN
            if low is not None:
                own = np.where(own < low, low, own)
            return own if high is None else np.where(own > high, high, own)

    within = converted(observed.anywhere.values, dtype)
    for bound in bounds:
        within = within if bound is None else within[within != bound]
    beyond = converted(observed.a.at(observed.some.points), dtype)
    if min(_distinct(within), _distinct(beyond)) < _LEAST_VALUES:
        return None
    changed = Changed(observed.a, change, dtype)
    if not _holds(observed, changed, observed.anywhere) or not all_equal(changed, observed.b, observed.tolerance):
        return None
    least, most = ("" if bound is None else _shown(bound) for bound in bounds)
    words = f"b is a clipped {range_words(least, most)}: this explains all {count:,} mismatches"
    return Pattern("clip", f"{least}:{most}", 1.0, words)


def _bounds(
    observed: Observations, probe: Probe, dtype: np.dtype[np.generic]
) -> tuple[Values | None, Values | None] | None:
    """The bounds: the values of b where a is less, and where a is greater; None if they are not constant."""
    a, b = (converted(x, dtype) for x in (observed.a.at(probe.points), probe.values))
    with np.errstate(invalid="ignore"):
        raised, lowered = b[b > a], b[b < a]
    if raised.size + lowered.size < b.size or (raised != raised[:1]).any() or (lowered != lowered[:1]).any():
        return None
    return raised[0] if raised.size else None, lowered[0] if lowered.size else None


def _holds(observed: Observations, changed: Changed, probe: Probe) -> bool:
    """Whether some elements fit, which refutes most wrong hypotheses fast."""
    return bool(are_equal(changed.at(probe.points), probe.values, observed.tolerance).all())


def _shown(bound: Values) -> str:
    return shortest(bound, bound.dtype) if is_float(bound.dtype) else str(bound)


def _distinct(values: Values) -> int:
    return int(np.unique(patterns(values)).size)
