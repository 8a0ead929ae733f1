"""Tables of offsets: what kernels walk along.

Along an axis the lowest digits of both sides take equal steps until one of them turns over. Such a stretch is a
*piece*: (source offset, target offset, length). Other axes are multiplied out into one table of (source offset, target
offset). Clipped tiles, windows that begin inside a tile, tiles that are out of step with each other: all of these are
only other tables.

A step is carried out in tasks, boxes of the view small enough for threads to share and for Ctrl-C to be heard. The
tasks of one step repeat along most axes, so a `Tables` keeps what it has made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from strided.plan.axes import Side, Walk
from strided.plan.boxes import Axis

Table: TypeAlias = npt.NDArray[np.int64]
Ranges: TypeAlias = tuple[tuple[int, int], ...]

#: The longest range of an axis in one task, in indices; a table of offsets then takes a megabyte at most.
MOST_INDICES = 1 << 16
#: Tables that a step keeps for its next tasks.
_MOST_KEPT = 32


def boxes_of(
    axes: Sequence[Axis], order: Sequence[int], lengths: Sequence[int], grains: Sequence[int]
) -> Iterator[Ranges]:
    """Boxes that cover all axes, walked through in an order (outermost first), no longer than `lengths` along each.

    Where a length is a multiple of the grain of its axis, cuts lie at coordinates that are multiples of the grain.
    """
    box = [(0, axis.extent) for axis in axes]

    def along(depth: int) -> Iterator[Ranges]:
        if depth == len(order):
            yield tuple(box)
            return
        place = order[depth]
        extent, length = axes[place].extent, lengths[place]
        start, phase = 0, phase_of(axes[place], grains[place]) if length % grains[place] == 0 else 0
        while start < extent:
            stop = min(extent, start + length - phase)
            phase = 0
            box[place] = (start, stop)
            yield from along(depth + 1)
            start = stop

    return along(0)


def phase_of(axis: Axis, grain: int) -> int:
    """How far the first index of an axis is past a multiple of `grain`, where digits turn over at such."""
    for side in (axis.target, axis.source):
        for walk in side.walks:
            if walk.sizes and (walk.period % grain == 0 or grain % walk.unit == 0):
                return walk.start % grain
    return 0


def grain_of(axis: Axis) -> int:
    """The number of indices after which the tiles of an axis repeat on both sides; 1 where there are none."""
    return math.lcm(*(walk.period for side in (axis.source, axis.target) for walk in side.walks))


def length_of(axis: Axis, budget: int, grain: int = 1) -> int:
    """How much of an axis one task takes: all of it, or as many whole tiles as its budget of indices holds."""
    budget = max(1, min(budget, MOST_INDICES))
    if axis.extent <= budget:
        return axis.extent
    whole = grain_of(axis)
    for tile in (whole, *(w.unit for s in (axis.target, axis.source) for w in s.walks)):
        if 1 < tile <= budget:
            return budget - budget % tile
    return max(grain, budget - budget % grain)


class Tables:
    """The tables of one step, each made once.

    All offsets are in the unit of the axes.
    """

    def __init__(self, axes: Sequence[Axis]) -> None:
        self._axes = axes
        self._made: dict[tuple[str, int, int, int], Table] = {}

    def made(self, kind: str, place: int, start: int, stop: int, make: Callable[[int, int, int], Table]) -> Table:
        """The table of one kind for a range of the axis at `place`: ``make(place, start, stop)``, called once."""
        key = (kind, place, start, stop)
        table = self._made.get(key)
        if table is None:
            table = make(place, start, stop)
            # Along an axis that is cut, tables do not come again: keep only so many. Two threads may make the same one.
            if len(self._made) > _MOST_KEPT:
                self._made.clear()
            self._made[key] = table
        return table

    def outer(self, bases: tuple[int, int], places: Sequence[int], box: Ranges) -> Table:
        """(source offset, target offset) of every combination of indices of several axes, bases included."""
        table = np.array([bases], np.int64)
        for k in places:
            more = self.made("offsets", k, *box[k], self._offsets)
            table = table + more if len(more) == 1 else (table[:, None, :] + more[None, :, :]).reshape(-1, 2)
        return table

    def _offsets(self, place: int, start: int, stop: int) -> Table:
        axis = self._axes[place]
        return np.stack([axis.source.table(start, stop), axis.target.table(start, stop)], axis=1)

    def pieces(self, place: int, start: int, stop: int) -> Table:
        """(source offset, target offset, length) of the pieces of a range of an axis."""
        return self.made("pieces", place, start, stop, lambda k, a, b: pieces_of(self._axes[k], a, b))


def pieces_of(axis: Axis, start: int, stop: int) -> Table:
    """(source offset, target offset, length) of the pieces of a range of an axis."""
    limits = cuts(start, stop, (*axis.source.walks, *axis.target.walks))
    heads = limits[:-1]
    return np.stack([axis.source.offsets_at(heads), axis.target.offsets_at(heads), np.diff(limits)], axis=1)


def cuts(start: int, stop: int, walks: Sequence[Walk]) -> Table:
    """The ends of a range of indices, and every index in it at which the lowest digit of a walk has turned over."""
    ends = np.array([start, stop], np.int64)
    found = [ends]
    for walk in walks:
        if walk.sizes:
            # start + step * v reaches a multiple of the unit.
            first = (walk.start + walk.step * start) // walk.unit + 1
            last = (walk.start + walk.step * (stop - 1)) // walk.unit
            turns = np.arange(first, last + 1, dtype=np.int64) * walk.unit - walk.start
            found.append(-(-turns // walk.step))
    return np.unique(np.concatenate(found)) if len(found) > 1 else ends


def nearness(side: Side) -> int:
    """How far the next index along an axis is; a side that stands still is infinitely far."""
    return abs(side.unit_stride) or 1 << 62
