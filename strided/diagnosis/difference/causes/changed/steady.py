"""b is a plus a constant, or a times a constant, in all mismatches."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from strided.diagnosis.difference.causes.number_text import grouped, shortest
from strided.diagnosis.difference.causes.observations import Observations, Probe, Values
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.values import common_dtype, converted

#: Up to this magnitude, double precision holds integers, their differences and quotients exactly.
_EXACT = 2.0**52


def steady(observed: Observations) -> Pattern | None:
    """The constant that every mismatch is offset or scaled by, exactly; not a factor of -1, which changes the sign."""
    # A few mismatches suffice to refute most constants.
    if _number(observed, observed.few) is None or (found := _number(observed, observed.every)) is None:
        return None
    kind, operator, number = found
    tally = observed.tally
    words = "every mismatch" if not tally.level else f"all {tally.places.size:,} mismatches that were tried"
    return Pattern(kind, number, 1.0, f"in {words} b {operator} a is {grouped(number)}")


def _number(observed: Observations, probe: Probe) -> tuple[str, str, str] | None:
    """The kind of pattern, the operator and the constant that turn a into b; None if there is none."""
    if (pair := _doubles(observed.a.at(probe.points), probe.values)) is None:
        return None
    if (offset := _offset(*pair)) is not None:
        return "offset", "-", shortest(offset, np.dtype(np.float64))
    if (factor := _factor(*pair)) is not None:
        return "scale", "/", shortest(factor, np.dtype(np.float64))
    return None


def _doubles(a: Values, b: Values) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None:
    """Both in double precision; None unless that is exact, all are finite, and each has more than one value."""
    dtype = common_dtype(a.dtype, b.dtype)
    if dtype is None or dtype.kind in "bc":
        return None
    with np.errstate(invalid="ignore"):  # of NaN
        x, y = (converted(each, dtype).astype(np.float64) for each in (a, b))
    if not np.isfinite([x, y]).all() or (dtype.kind in "iu" and np.abs([x, y]).max() > _EXACT):
        return None
    return (x, y) if (x != x[0]).any() and (y != y[0]).any() else None


def _offset(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float | None:
    """The constant b - a, if it was found without rounding.

    >>> _offset(np.array([1.0, 2.0]), np.array([4.0, 5.0])), _offset(np.array([1.0, 2.0]), np.array([2.0, 4.0]))
    (3.0, None)
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = b - a
        exact = (found == found[0]) & (a + found == b) & (b - found == a)
    return float(found[0]) if exact.all() else None


def _factor(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float | None:
    """The constant b / a, if it was found without rounding.

    >>> _factor(np.array([1.0, 3.0]), np.array([0.5, 1.5])), _factor(np.array([0.0, 3.0]), np.array([1.0, 1.5]))
    (0.5, None)
    """
    if not a.all():
        return None
    with np.errstate(over="ignore", under="ignore"):
        found = b / a
        exact = (found == found[0]) & (a * found == b)
    return float(found[0]) if exact.all() and math.isfinite(found[0]) and found[0] not in (-1, 0) else None
