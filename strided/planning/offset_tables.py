"""Tables of offsets for kernels to follow.

Along an axis the lowest digits of both sides take equal steps until one of them turns over. Such a stretch is a
*piece*: (source offset, target offset, length). Other axes are multiplied out into one table of (source offset, target
offset). Clipped tiles, windows that begin inside a tile, tiles that are out of step with each other: all of these only
change tables.

A step is carried out in tasks, boxes of the view small enough for threads to share and for Ctrl-C to be heard. Along an
axis the tables of a task depend on where it begins only as far as the tiles repeat; the rest is a shift. So an
`AxisRange` names the first range that looks the same, and the shift from there: `Tables` makes few tables only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from strided.planning.axis_maps import AxisMap, RadixMap
from strided.planning.boxes import Axis, side_of
from strided.runtime import limits
from strided.runtime.aliases import Table
from strided.runtime.cache import BoundedCache

#: Tables that a step keeps for its next tasks.
_MOST_KEPT = 64
#: Groups that are shorter than the longest ones by so much are more work than they spare.
_LEAST_GROUP = 8


class AxisRange(NamedTuple):
    """A range of an axis: as from `start` to `stop`, but with `source` and `target` added to the offsets."""

    start: int
    stop: int
    source: int = 0
    target: int = 0


#: A range of every axis.
TaskRanges: TypeAlias = tuple[AxisRange, ...]
#: What makes the table of a range of an axis, from `start` to `stop`.
_Make: TypeAlias = Callable[[Axis, int, int], Table]


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
        self.repeat = _repeat_of(axis)
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


def _repeat_of(axis: Axis) -> int:
    """The number of indices after which all digits of both sides but the last repeat."""
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


def tile_period_of(axis: Axis) -> int:
    """The number of indices after which the tiles of an axis repeat on both sides; 1 without tiles."""
    return math.lcm(*(m.period for side in (axis.source, axis.target) for m in side.radix_maps))


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
    whole = tile_period_of(axis)
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
    alike, most = math.lcm(multiple, _repeat_of(axis)), limits.current.group_rows
    return most // alike * alike


class Tables:
    """The tables of one step, each made once.

    All offsets are in the unit of the axes.
    """

    def __init__(self, axes: Sequence[Axis]) -> None:
        self._axes = axes
        # Few ranges repeat.
        self._made = BoundedCache[tuple[object, ...], Table](_MOST_KEPT)

    def get(self, kind: str, place: int, part: AxisRange, make: _Make) -> Table:
        """The table of one kind for a range of the axis at `place`: ``make(axis, start, stop)``, called once."""
        key = (kind, place, part.start, part.stop)
        table = self._made.get(key)
        if table is None:
            table = self._made.keep(key, make(self._axes[place], part.start, part.stop))
        return table

    def outer(
        self, bases: tuple[int, int], places: Sequence[int], parts: TaskRanges, groups: tuple[int, _Make] | None = None
    ) -> Table:
        """(source offset, target offset) of every combination of indices of several axes.

        Last of the `groups` of one more axis: its place, and what makes their offsets. Bases are included, and the
        shifts of all `parts`, those of other axes too.
        """
        makers = [(k, offsets_of) for k in places] + ([] if groups is None else [groups])
        key = tuple([(k, parts[k].start, parts[k].stop) for k, _ in makers])
        table = self._made.get(key)
        if table is None:
            table = np.zeros((1, 2), np.int64)
            for k, make in makers:
                table = _combined(table, make(self._axes[k], parts[k].start, parts[k].stop))
            self._made.keep(key, table)
        source, target = bases
        for part in parts:
            source, target = source + part.source, target + part.target
        return moved(table, source, target)


def moved(table: Table, source: int, target: int) -> Table:
    """A table of (source offset, target offset) with so much added to both."""
    # By columns: along two numbers, NumPy takes ten times as long.
    result = np.empty_like(table)
    np.add(table[:, 0], source, out=result[:, 0])
    np.add(table[:, 1], target, out=result[:, 1])
    return result


def _combined(table: Table, more: Table) -> Table:
    """(source offset, target offset) of every sum of a row of one table and a row of the other, which runs faster."""
    result = np.empty((len(table), len(more), 2), np.int64)
    for side in (0, 1):
        np.add.outer(table[:, side], more[:, side], out=result[..., side])
    return result.reshape(-1, 2)


def offsets_of(axis: Axis, start: int, stop: int) -> Table:
    """(source offset, target offset) of every index in a range of an axis."""
    return np.stack([axis.source.table(start, stop), axis.target.table(start, stop)], axis=1)


def groups_of(axis: Axis, start: int, stop: int, multiple: int) -> Table:
    """(source offset, target offset) of the equal groups that make up a range of an axis, less those of the first.

    Groups are multiples of `multiple`. Tables of one are those of all others, but for a shift: a long range whose
    tables would fill a cache is better taken as groups. Else the range is a single one.
    """
    count, most = stop - start, most_grouped(axis, multiple)
    size = count
    if 0 < 2 * most <= count and (start + phase_of(axis, multiple)) % multiple == 0:
        alike = math.lcm(multiple, _repeat_of(axis))
        sizes = range(most, max(1, most // _LEAST_GROUP) - 1, -alike)
        size = next((n for n in sizes if count % n == 0), count)
    first = np.arange(start, stop, size, dtype=np.int64)
    return np.stack([side.offsets_at(first) - side.at(start) for side in (axis.source, axis.target)], axis=1)


def source_offsets(axis: Axis, start: int, stop: int) -> Table:
    """Source offset of every index in a range of an axis."""
    return axis.source.table(start, stop)


def target_offsets(axis: Axis, start: int, stop: int) -> Table:
    """Target offset of every index in a range of an axis."""
    return axis.target.table(start, stop)


def source_runs(axis: Axis, start: int, stop: int) -> Table:
    """(offset, first index, length) of the runs of the source in a range of an axis."""
    return _runs(axis.source, start, stop)


def target_runs(axis: Axis, start: int, stop: int) -> Table:
    """(offset, first index, length) of the runs of the target in a range of an axis."""
    return _runs(axis.target, start, stop)


def _runs(side: AxisMap, start: int, stop: int) -> Table:
    """(offset, first index, length) of the runs of one side, indices counted from `start`."""
    ends = cuts(start, stop, side.radix_maps)
    return np.stack([side.offsets_at(ends[:-1]), ends[:-1] - start, np.diff(ends)], axis=1)


def block_limits(axis: Axis, start: int, stop: int, block: int) -> Table:
    """The ends of blocks of `block` indices, which begin with tiles, counted from `start`."""
    if not block:
        return np.array([0, stop - start], np.int64)
    first = start + block - (start + phase_of(axis, block)) % block
    return np.concatenate([[start], np.arange(first, stop, block), [stop]]).astype(np.int64) - start


def piece_ends(axis: Axis, start: int, stop: int, block: int = 0) -> Table:
    """The ends of the pieces of a range of an axis, cut where blocks of `block` indices end, too, if that is not 0."""
    ends = cuts(start, stop, (*axis.source.radix_maps, *axis.target.radix_maps))
    if not block:
        return ends
    return distinct(np.sort(np.concatenate([ends, start + block_limits(axis, start, stop, block)])))


def pieces_of(axis: Axis, start: int, stop: int, block: int = 0) -> Table:
    """(source offset, target offset, length) of the pieces of a range of an axis, cut as `piece_ends` says."""
    ends = piece_ends(axis, start, stop, block)
    heads = ends[:-1]
    return np.stack([axis.source.offsets_at(heads), axis.target.offsets_at(heads), np.diff(ends)], axis=1)


def cuts(start: int, stop: int, radix_maps: Sequence[RadixMap]) -> Table:
    """The ends of a range of indices, and every index in it at which the lowest digit of a radix map turns over."""
    ends = np.array([start, stop], np.int64)
    found = [ends]
    for radix_map in radix_maps:
        if radix_map.turn:
            # Every turn begins anew, and has the same cuts.
            turns = np.arange(start // radix_map.turn, -(-stop // radix_map.turn), dtype=np.int64) * radix_map.turn
            inside = cuts(0, radix_map.turn, (radix_map._replace(turn=0),))[:-1]
            places = np.add.outer(turns, inside).ravel()
            found.append(places[(start < places) & (places < stop)])
        elif radix_map.sizes and radix_map.step >= radix_map.unit:
            # Every step passes a multiple of the unit, or many: there are more of these than indices.
            found.append(np.arange(start + 1, stop, dtype=np.int64))
        elif radix_map.sizes:
            # start + step * v reaches a multiple of the unit.
            first = (radix_map.start + radix_map.step * start) // radix_map.unit + 1
            last = (radix_map.start + radix_map.step * (stop - 1)) // radix_map.unit
            turns = np.arange(first, last + 1, dtype=np.int64) * radix_map.unit - radix_map.start
            found.append(-(-turns // radix_map.step))
    return distinct(np.sort(np.concatenate(found))) if len(found) > 1 else ends


def distinct(ordered: Table) -> Table:
    """Numbers in order, each once.

    `numpy.unique` collects them in C++, without the GIL: a thread that is there when the interpreter ends aborts it.
    """
    found: Table = ordered[np.append(True, ordered[1:] != ordered[:-1])]
    return found


def nearness(side: AxisMap) -> int:
    """The distance to the next index along an axis; infinite if nothing changes along it."""
    return abs(side.unit_stride) or 1 << 62


def farthest_first(axes: Sequence[Axis], side: int) -> list[int]:
    """The places of axes, those first that go far on a side (1 source, 2 target)."""
    return sorted(range(len(axes)), key=lambda k: -nearness(side_of(axes[k], side)))
