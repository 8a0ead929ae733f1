"""b has the indices along one dimension in another order: channels, heads, shards, or interleaved halves.

Each index gets a hash of its values on a few lines along the dimension. If a and b have the same hashes, these show
where each index went. All elements are compared before an order is reported.

If all rows are alike, as in a mask with a single true value in each, b may seem reordered by chance. So most of the
moved rows must be unique. There must also be more than one value at each index, because any permutation of single
values is an order of them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from strided.diagnosis.difference.causes.all_elements import proof
from strided.diagnosis.difference.causes.chance import is_no_chance
from strided.diagnosis.difference.causes.derived import Reordered, has_views
from strided.diagnosis.difference.causes.moved.distances import FNV_PRIME, Hashes
from strided.diagnosis.difference.causes.moved.value_numbers import numbers_at
from strided.diagnosis.difference.causes.observations import IndexMap, Observations, existing
from strided.diagnosis.difference.operands import Points
from strided.diagnosis.difference.places import Numbers
from strided.diagnosis.difference.result import Pattern

#: The longest dimension along which an order is searched for.
_LONGEST = 1 << 16
#: Lines to refute most orders, lines to distinguish rows, and the most elements of the latter together.
_FEW_LINES, _LINES, _ELEMENTS = 1, 32, 1 << 17
#: The most indices of an order that a sentence lists, and how many of a longer one it shows.
_LISTED, _SHOWN = 8, 6


def reordered(observed: Observations) -> Pattern | None:
    """The dimension whose indices b has in another order, and that order."""
    for axis, size in enumerate(observed.shape):
        if (order := _order_along(observed, axis)) is None:
            continue
        if not observed.holds_everywhere(observed.moved(_source(axis, order))):
            continue
        # An array in many buffers would be read again and again.
        view = Reordered(observed.a, axis, order) if has_views(observed.a) else None
        if (end := proof(view, observed.b, observed.tolerance)) is None:
            continue
        said = _described(order)
        units = f"blocks of {said.block:,} indices" if said.block > 1 else "indices"
        within = f" in each {said.period:,} indices" if said.period < size else ""
        sentence = f"b has the {units} along dimension {axis} in another order: {said.listed}{within}{end}"
        return Pattern("order", f"{said.listed} along {axis}", 1.0, sentence)
    return None


def _source(axis: int, order: Numbers) -> IndexMap:
    return existing(lambda points: (*points[:axis], order[points[axis]], *points[axis + 1 :]))


def _order_along(observed: Observations, axis: int) -> Numbers | None:
    """For each index of b, the index of a with its values; None if a few lines refute every order."""
    size = observed.shape[axis]
    if not 2 < size <= _LONGEST or math.prod(observed.shape) == size:
        return None
    for lines in (_FEW_LINES, max(2, min(_LINES, _ELEMENTS // size))):
        points = _lines(observed, axis, lines)
        flat = tuple(i.reshape(-1) for i in points)
        before, after = (numbers_at(x, observed, flat).reshape(points[0].shape) for x in (observed.a, observed.b))
        a, b = (_row_hashes(each) for each in (before, after))
        if not np.array_equal(np.sort(a), np.sort(b)):
            return None
    order = _matched(a, b)
    moved = np.flatnonzero(order != np.arange(size))
    counts = np.unique(a, return_inverse=True, return_counts=True)
    alone = counts[2][counts[1].reshape(-1)] == 1
    if 2 * np.count_nonzero(alone[moved]) < moved.size or (before[moved] == before[moved, :1]).all():
        return None
    return order if moved.size and is_no_chance(observed, math.lgamma(moved.size + 1) / math.log(2)) else None


def _lines(observed: Observations, axis: int, count: int) -> Points:
    """Points on lines along an axis through mismatches: a row for each index, a column for each line."""
    size = observed.shape[axis]
    places = np.stack([i[: 2 * count] for k, i in enumerate(observed.some.points) if k != axis])
    places = np.unique(places, axis=1)[:, :count] if count > 1 else places[:, :count]
    rest = iter(places)
    along = np.arange(size)[:, None]
    grid = [along if k == axis else next(rest)[None, :] for k in range(len(observed.shape))]
    return tuple(np.broadcast_arrays(*grid))


def _row_hashes(rows: Hashes) -> Hashes:
    total = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        total = total * FNV_PRIME + (column ^ column >> np.uint64(29))
    return total


def _matched(a: Hashes, b: Hashes) -> Numbers:
    """For each hash of b, the place of an equal one of a, its own place if possible; both have equal multisets.

    >>> _matched(np.array([5, 7, 7, 9], np.uint64), np.array([7, 9, 7, 5], np.uint64)).tolist()
    [1, 3, 2, 0]
    """
    order = np.arange(a.size)
    moved = np.flatnonzero(a != b)
    order[moved[np.argsort(b[moved], kind="stable")]] = moved[np.argsort(a[moved], kind="stable")]
    return order


class _Described(NamedTuple):
    """A description of an order: the size of its blocks, its period, and the list of blocks."""

    block: int
    period: int
    listed: str


def _described(order: Numbers) -> _Described:
    """The shortest description of an order.

    >>> _described(np.array([2, 3, 0, 1, 6, 7, 4, 5]))
    _Described(block=2, period=4, listed='1, 0')
    >>> _described(np.arange(20).reshape(2, 10).T.reshape(-1))
    _Described(block=1, period=20, listed='0, 10, 1, 11, 2, 12, ...')
    """
    size = order.size
    divisors = [k for k in range(1, size + 1) if size % k == 0]
    starts = np.arange(size)
    period = next(k for k in divisors if (order == starts // k * k + order[starts % k]).all())
    own = order[:period]
    inside = np.arange(period)
    block = next(
        k
        for k in reversed(divisors)
        if period % k == 0 and (own == own[inside // k * k] + inside % k).all() and not (own[::k] % k).any()
    )
    units = (own[::block] // block).tolist()
    shown = units if len(units) <= _LISTED else [*units[:_SHOWN], "..."]
    return _Described(block, period, ", ".join(map(str, shown)))
