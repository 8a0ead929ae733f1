"""b is a, quantised: rounded to multiples of one scale, as by integers of at most 8 bits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import numpy.typing as npt

from strided.diagnosis.difference.causes.chance import is_no_chance
from strided.diagnosis.difference.causes.number_text import grouped, range_words, shortest
from strided.diagnosis.difference.causes.observations import Observations, Probe, Test, most_explained, share_of
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.values import common_dtype, converted, is_float

Doubles = npt.NDArray[np.float64]

#: The fewest levels, since fewer occur by chance, and the most, which is what 8 bits have.
_LEAST_LEVELS, _MOST_LEVELS = 4, 256
#: How many levels near zero may determine the scale by themselves.
_NEAR_ZERO = 8
#: The information in the choice of a scale and a range, in bits.
_CHOICE_BITS = 64.0
#: The types in which the scale may be multiplied before the product is rounded to b's type.
_PRODUCTS = (np.dtype(np.float32), np.dtype(np.float64))


class _Grid(NamedTuple):
    """The multiples of a scale in a range."""

    scale: float
    least: float
    most: float


def quantised(observed: Observations) -> Pattern | None:
    """The scale of which b's values are multiples, each the nearest to a's."""
    dtype = common_dtype(observed.a.dtype, observed.b.dtype)
    if dtype is None or not is_float(dtype) or dtype.kind == "c" or not is_no_chance(observed, _CHOICE_BITS):
        return None
    eps = _eps(observed.b.dtype)
    with np.errstate(all="ignore"):
        if not any(_grids(_doubles(observed.some.values, dtype), eps)):
            return None
        grids = _grids(_doubles(observed.every.values, dtype), eps)
        return most_explained(_patterns(observed, grids, dtype))


def _patterns(observed: Observations, grids: Iterable[_Grid], dtype: np.dtype[Any]) -> Iterator[Pattern]:
    """The pattern of each grid that explains the mismatches."""
    for grid, product in ((grid, product) for grid in grids for product in _PRODUCTS):
        test = _test(observed, grid, product, dtype)
        if share := observed.share_in_whole_array(test):
            scale = _shown(grid.scale)
            words = f"b is a rounded to multiples of {grouped(scale)}"
            numbers = np.rint(_doubles(observed.a.at(observed.every.points), dtype) / grid.scale)
            least = _shown(grid.least * grid.scale) if (numbers < grid.least).any() else ""
            most = _shown(grid.most * grid.scale) if (numbers > grid.most).any() else ""
            if least or most:
                words += f" and clipped {range_words(least, most)}"
            yield Pattern("quantised", scale, share, observed.sentence(words, share, test))


def _test(observed: Observations, grid: _Grid, product: np.dtype[Any], dtype: np.dtype[Any]) -> Test:
    """The hypothesis that b has the nearest multiples of a scale, computed in the type `product`."""

    def test(probe: Probe) -> float:
        number = np.rint(_doubles(observed.a.at(probe.points), dtype) / grid.scale)
        made = (np.clip(number, grid.least, grid.most) * grid.scale).astype(product).astype(dtype)
        return share_of(made == converted(probe.values, dtype))

    return test


def _doubles(values: npt.NDArray[np.generic], dtype: np.dtype[Any]) -> Doubles:
    return converted(values, dtype).astype(np.float64)


def _shown(number: float) -> str:
    """A float32 number in full, others to as many digits as float32 has.

    >>> _shown(float(np.float32(0.1))), _shown(0.1), _shown(1e300), _shown(1e-300)
    ('0.1', '0.1', '1e+300', '1e-300')
    """
    with np.errstate(over="ignore", under="ignore"):
        single = np.float32(number)
    return shortest(single, single.dtype) if float(single) == number else f"{number:.9g}"


def _eps(dtype: np.dtype[Any]) -> float:
    """The machine epsilon of a type of floats; 0 for other types."""
    return float(ml_dtypes.finfo(dtype).eps) if is_float(dtype) else 0.0  # type: ignore[no-untyped-call]


def _grids(values: Doubles, eps: float) -> Iterator[_Grid]:
    """The grids that values may lie on; `eps` is the machine epsilon of their type.

    >>> [round(grid.scale, 12) for grid in _grids(np.array([0.3, -0.6, 0.0, 0.9, 0.9]), 2.0**-52)]
    [0.3, 0.3, 0.3]
    """
    levels = np.unique(values)
    if not _LEAST_LEVELS <= levels.size <= _MOST_LEVELS or not np.isfinite(levels).all():
        return
    # In a type of few bits, large levels are rounded by as much as the scale; levels near zero determine it.
    near_zero = np.sort(levels[np.argsort(np.abs(levels), kind="stable")[:_NEAR_ZERO]])
    for first in dict.fromkeys(float(np.diff(each).min()) for each in (levels, near_zero)):
        if np.ptp(levels) < _MOST_LEVELS * first:
            for scale in _scales(levels, first, eps):
                numbers = np.rint(levels / scale)
                yield _Grid(scale, float(numbers.min()), float(numbers.max()))


def _scales(levels: Doubles, scale: float, eps: float) -> Iterator[float]:
    """Better estimates of a scale, given levels and a first estimate.

    These are the level that is the scale itself; the middle of the scales whose rounded multiples are all of the
    levels; or, if there are none, the best fit.
    """
    # The smallest levels determine the scale well enough to number the next ones, and so on.
    for most in (2, 8, 32, _MOST_LEVELS):
        near = levels[np.abs(levels) < (most + 0.5) * scale]
        numbers = np.rint(near / scale)
        if numbers.any():
            scale = float(near @ numbers / (numbers @ numbers))
    numbers = np.rint(levels / scale)
    if not numbers.any():  # the sum of large levels overflowed
        return
    sizes, numbers = np.abs(levels[numbers != 0]), np.abs(numbers[numbers != 0])
    half_steps = np.exp2(np.frexp(sizes)[1] - 2) * eps
    nearest = np.argmin(numbers)
    yield float(sizes[nearest] / numbers[nearest])
    yield float(((sizes - half_steps) / numbers).max() + ((sizes + half_steps) / numbers).min()) / 2
    yield scale
