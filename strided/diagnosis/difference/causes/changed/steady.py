"""b is a plus a number, or a times a number: what the mismatches have in common, wherever they lie."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from strided.diagnosis.difference.causes.number_text import grouped, shortest
from strided.diagnosis.difference.causes.observations import Observations, Probe, Values
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.values import common_dtype, converted

#: Integers that double precision holds, and the same for their differences and quotients.
_EXACT = 2.0**52


def steady(observed: Observations) -> Pattern | None:
    """The number by which every mismatch is moved or multiplied, exactly; not -1, which is a changed sign."""
    # A few mismatches refute most numbers.
    if _number(observed, observed.few) is None or (found := _number(observed, observed.every)) is None:
        return None
    kind, operator, number = found
    tally = observed.tally
    words = "every mismatch" if not tally.level else f"all {tally.places.size:,} mismatches that were tried"
    return Pattern(kind, number, 1.0, f"in {words} b {operator} a is {grouped(number)}")


def _number(observed: Observations, probe: Probe) -> tuple[str, str, str] | None:
    """What is added, or by what is multiplied, to make b of a: the kind of pattern, the operator, and the number."""
    if (pair := _doubles(observed.a.at(probe.points), probe.values)) is None:
        return None
    if (offset := _offset(*pair)) is not None:
        return "offset", "-", shortest(offset, np.dtype(np.float64))
    if (factor := _factor(*pair)) is not None:
        return "scale", "/", shortest(factor, np.dtype(np.float64))
    return None


def _doubles(a: Values, b: Values) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
    """Both in double precision, if this has them exactly, all are finite and there is more than one of either."""
    dtype = common_dtype(a.dtype, b.dtype)
    if dtype is None or dtype.kind in "bc":
        return None
    with np.errstate(invalid="ignore"):  # of NaN
        x, y = (converted(each, dtype).astype(np.float64) for each in (a, b))
    if not np.isfinite([x, y]).all() or (dtype.kind in "iu" and np.abs([x, y]).max() > _EXACT):
        return None
    return (x, y) if (x != x[0]).any() and (y != y[0]).any() else None


def _offset(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float | None:
    """What b has more than a, if no step of finding it rounds.

    >>> _offset(np.array([1.0, 2.0]), np.array([4.0, 5.0])), _offset(np.array([1.0, 2.0]), np.array([2.0, 4.0]))
    (3.0, None)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = b - a
        exact = (found == found[0]) & (a + found == b) & (b - found == a)
    return float(found[0]) if exact.all() else None


def _factor(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float | None:
    """How many times a b is, if no step of finding it rounds.

    >>> _factor(np.array([1.0, 3.0]), np.array([0.5, 1.5])), _factor(np.array([0.0, 3.0]), np.array([1.0, 1.5]))
    (0.5, None)
    """
    if not a.all():
        return None
    with np.errstate(over="ignore", under="ignore"):
        found = b / a
        exact = (found == found[0]) & (a * found == b)
    return float(found[0]) if exact.all() and math.isfinite(found[0]) and found[0] not in (-1, 0) else None
