"""b is a with the indices of one or more dimensions reversed. All elements are compared before this is reported."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from strided.diagnosis.difference.causes.all_elements import MOST_DIMENSIONS, proof
from strided.diagnosis.difference.causes.chance import is_no_chance
from strided.diagnosis.difference.causes.derived import view_of
from strided.diagnosis.difference.causes.observations import IndexMap, Observations, existing
from strided.diagnosis.difference.result import Pattern


def reversed_axes(observed: Observations) -> Pattern | None:
    """The fewest dimensions that are reversed."""
    shape = observed.shape
    choices = list(_choices(shape))
    if observed.tally.negated == observed.tally.count:  # as for a symmetric ramp
        return None
    if not choices or not is_no_chance(observed, math.log2(len(choices))):
        return None
    for axes in choices:
        if not observed.holds_everywhere(observed.moved(_reversal(shape, axes))):
            continue
        view = view_of(observed.a, tuple(slice(None, None, -1 if k in axes else 1) for k in range(len(shape))))
        if (end := proof(view, observed.b, observed.tolerance)) is not None:
            *others, last = map(str, axes)
            names = f"dimensions {', '.join(others)} and {last}" if others else f"dimension {last}"
            along = f" along {names}" if len(shape) > 1 else ""
            where = f"reversed along {', '.join(map(str, axes))}"
            return Pattern("order", where, 1.0, f"b is a with the indices{along} in reverse order{end}")
    return None


def _choices(shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Dimensions to reverse. One of size 2 is not reversed by itself: that would be a shift by one."""
    axes = [k for k, n in enumerate(shape) if n > 1]
    yield from ((k,) for k in axes if shape[k] > 2)
    for number in range(2, len(axes) + 1) if len(axes) <= MOST_DIMENSIONS else (len(axes),):
        yield from itertools.combinations(axes, number)


def _reversal(shape: tuple[int, ...], axes: tuple[int, ...]) -> IndexMap:
    return existing(lambda points: tuple(shape[k] - 1 - i if k in axes else i for k, i in enumerate(points)))
