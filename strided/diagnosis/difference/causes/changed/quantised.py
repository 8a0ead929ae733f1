"""b is a rounded to multiples of one number, as if it had been integers of 8 bits or fewer with one scale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from strided.diagnosis.difference.causes.chance import is_no_chance
from strided.diagnosis.difference.causes.evidence import Evidence, Probe, share_of
from strided.diagnosis.difference.causes.number_text import grouped, range_words, shortest
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.values import common_dtype, converted, is_float

Doubles = npt.NDArray[np.float64]

#: The fewest and the most levels: fewer are found by chance, and integers of 8 bits have no more.
_LEAST_LEVELS, _MOST_LEVELS = 4, 256
#: Bits that it takes to choose the scale and the range.
_CHOICE_BITS = 64.0
#: The types in which a scale is multiplied, before the product is rounded to b's.
_PRODUCTS = (np.dtype(np.float32), np.dtype(np.float64))


class _Grid(NamedTuple):
    """Multiples of a scale, from the least to the greatest one."""

    scale: float
    least: float
    most: float


def quantised(evidence: Evidence) -> Pattern | None:
    """The scale of which b's values are multiples, the nearest ones to a's."""
    dtype = common_dtype(evidence.a.dtype, evidence.b.dtype)
    if dtype is None or not is_float(dtype) or dtype.kind == "c" or not is_no_chance(evidence, _CHOICE_BITS):
        return None

    def doubles(values: npt.NDArray[np.generic]) -> Doubles:
        return converted(values, dtype).astype(np.float64)

    with np.errstate(all="ignore"):
        if not any(_grids(doubles(evidence.some.values))):
            return None
        for grid, product in _choices(doubles(evidence.every.values)):

            def test(probe: Probe, grid: _Grid = grid, product: np.dtype[Any] = product) -> float:
                with np.errstate(all="ignore"):
                    number = np.rint(doubles(evidence.a.at(probe.points)) / grid.scale)
                    made = (np.clip(number, grid.least, grid.most) * grid.scale).astype(product).astype(dtype)
                    return share_of(made == converted(probe.values, dtype))

            if share := evidence.share_in_whole_array(test):
                scale = _shown(grid.scale)
                words = f"b is a rounded to multiples of {grouped(scale)}"
                numbers = np.rint(doubles(evidence.a.at(evidence.every.points)) / grid.scale)
                least = _shown(grid.least * grid.scale) if (numbers < grid.least).any() else ""
                most = _shown(grid.most * grid.scale) if (numbers > grid.most).any() else ""
                if least or most:
                    words += f" and clipped {range_words(least, most)}"
                return Pattern("quantised", scale, share, evidence.sentence(words, share, test))
    return None


def _shown(number: float) -> str:
    """A number of f32 in full, others to as many digits as that has."""
    single = np.float32(number)
    return shortest(single, single.dtype) if single == number else f"{number:.9g}"


def _choices(values: Doubles) -> Iterator[tuple[_Grid, np.dtype[Any]]]:
    for grid in _grids(values):
        for product in _PRODUCTS:
            yield grid, product


def _grids(values: Doubles) -> Iterator[_Grid]:
    """The scales of which some values may be multiples, and which of them these are.

    >>> [round(grid.scale, 12) for grid in _grids(np.array([0.3, -0.6, 0.0, 0.9, 0.9]))]
    [0.3, 0.3]
    """
    levels = np.unique(values)
    if not _LEAST_LEVELS <= levels.size <= _MOST_LEVELS or not np.isfinite(levels).all():
        return
    # The least of them tell the scale well enough for the next ones, rounded as they are, and so on.
    scale = float(np.diff(levels).min())
    if np.ptp(levels) >= _MOST_LEVELS * scale:
        return
    for most in (2, 8, 32, _MOST_LEVELS):
        near = levels[np.abs(levels) < (most + 0.5) * scale]
        numbers = np.rint(near / scale)
        if numbers.any():
            scale = float(near @ numbers / (numbers @ numbers))
    # The level that is the scale itself, and that which fits all of them best.
    numbers = np.rint(levels / scale)
    nearest = np.argmin(np.where(numbers == 0, np.inf, np.abs(numbers)))
    for each in (float(levels[nearest] / numbers[nearest]), scale):
        yield _Grid(each, float(numbers.min()), float(numbers.max()))
