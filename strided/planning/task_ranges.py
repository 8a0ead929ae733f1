"""The ranges of axes that the tasks of a step take, cut where tiles end.

A step is carried out in tasks, boxes of the view small enough for threads to share and for Ctrl-C to be heard. Along an
axis the tables of a task depend on where it begins only as far as the tiles repeat; the rest is a shift. So an
`AxisRange` names the first range that looks the same, and the shift from there: few tables serve all tasks.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from strided.planning.boxes import Axis
from strided.runtime import limits


class AxisRange(NamedTuple):
    """A range of an axis: as from `start` to `stop`, but with `source` and `target` added to the offsets."""

    start: int
    stop: int
    source: int = 0
    target: int = 0


#: A range of every axis.
TaskRanges: TypeAlias = tuple[AxisRange, ...]


def first_ranges(lengths: Iterable[int]) -> TaskRanges:
    """The first ranges of all axes, of these lengths.

    >>> first_ranges([2, 3])
    (AxisRange(start=0, stop=2, source=0, target=0), AxisRange(start=0, stop=3, source=0, target=0))
    """
    return tuple([AxisRange(0, length) for length in lengths])


def task_ranges_of(
    axes: Sequence[Axis], order: Sequence[int], lengths: Sequence[int], periods: Sequence[int], *, to_ends: bool = False
) -> Iterator[TaskRanges]:
    """The ranges of tasks that cover all axes in an order (outermost first), no longer than `lengths` along each.

    Where a length is a multiple of the period of its axis, cuts lie at coordinates that are multiples of the period.
    With `to_ends` the last range of an axis, and no other, stops at its extent.
    """
    parts = [_AxisRanges(axes[k], lengths[k], periods[k], to_ends) for k in order]
    places = [order.index(k) for k in range(len(axes))]
    # The last axis of the order runs fastest. (itertools.product would list all parts of a long axis first.)
    chosen: list[AxisRange] = [AxisRange(0, 0)] * len(order)

    def along(depth: int) -> Iterator[TaskRanges]:
        for part in parts[depth]:
            chosen[depth] = part
            if depth == len(order) - 1:
                yield tuple(chosen[k] for k in places)
            else:
                yield from along(depth + 1)

    return along(0) if order else iter([()])


class _AxisRanges:
    """The ranges that an axis is cut into, in order."""

    def __init__(self, axis: Axis, length: int, period: int, to_end: bool) -> None:
        self.axis, self.length, self.to_end = axis, length, to_end
        self.head = length - (phase_of(axis, period) if length % period == 0 else 0)
        self.repeat = repeat_of(axis)
        self.known: list[AxisRange] | None = None

    def __iter__(self) -> Iterator[AxisRange]:
        return self._listed() if self.known is None else iter(self.known)

    def _listed(self) -> Iterator[AxisRange]:
        """The ranges as they are made; few are kept for the next round."""
        made: list[AxisRange] = []
        for part in self._made():
            if len(made) < limits.current.table_rows:
                made.append(part)
            yield part
        if len(made) < limits.current.table_rows:
            self.known = made

    def _made(self) -> Iterator[AxisRange]:
        start, extent = 0, self.axis.extent
        stop = min(extent, self.head)
        # All digits but the last repeat, and that goes on evenly.
        source, target = (side.at(self.repeat) - side.at(0) for side in (self.axis.source, self.axis.target))
        while start < extent:
            turns, like = (0, start) if self.to_end and stop == extent else divmod(start, self.repeat)
            yield AxisRange(like, like + stop - start, turns * source, turns * target)
            start, stop = stop, min(extent, stop + self.length)


def repeat_of(axis: Axis) -> int:
    """The number of indices, at steps of any size, after which all digits of both sides but the last repeat."""
    radix_maps = (m for side in (axis.source, axis.target) for m in side.radix_maps)
    return math.lcm(*(m.period // math.gcd(m.period, m.step) for m in radix_maps))


def phase_of(axis: Axis, period: int) -> int:
    """How far the first index of an axis is past a multiple of `period`, if digits turn over there, else 0."""
    for side in (axis.target, axis.source):
        for radix_map in side.radix_maps:
            if radix_map.sizes and (radix_map.period % period == 0 or period % radix_map.unit == 0):
                return radix_map.start % period
    return 0


def word_multiple(axis: Axis, each: int) -> int:
    """Of what indices, or coordinates in tiles, are a multiple where words of the target begin, of `each` elements.

    Tiles that are no multiple of a word end in one, and the next one begins behind it: there, tiles alone are whole.
    """
    turns = [n for m in axis.target.radix_maps for n in (m.unit, m.turn) if n % each]
    return math.lcm(*turns) if turns else each


def length_of(axis: Axis, budget: int, multiple: int = 1, *, in_pieces: bool = False, in_groups: bool = False) -> int:
    """The indices of an axis that one task takes: all, or as many whole tiles as `budget` indices hold.

    With `in_pieces` its tables have a row for each piece, not for each index; with `in_groups` for each one of a group,
    or for each group.
    """
    units = [m.unit for s in (axis.target, axis.source) for m in s.radix_maps if m.sizes]
    each = min(units, default=1 << 40) if in_pieces else multiple if in_groups else 1
    budget = max(1, min(budget, each * limits.current.table_rows))
    if axis.extent <= budget:
        return axis.extent
    whole = axis.period
    for tile in (whole, *units):
        if 1 < tile <= budget and tile % multiple == 0:
            return budget - budget % tile
    most = max(multiple, budget - budget % multiple)
    if whole == 1:
        # No tiles to end on: parts of equal size.
        parts = -(-axis.extent // most)
        return -(-axis.extent // (parts * multiple)) * multiple
    return most


def most_grouped(axis: Axis, multiple: int) -> int:
    """The most indices of an axis that are a group, as `groups_of` makes them; 0 if groups are not alike."""
    alike, most = math.lcm(multiple, repeat_of(axis)), limits.current.group_rows
    return most // alike * alike
