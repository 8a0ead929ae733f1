"""Tables of offsets for kernels to follow.

Along an axis the lowest digits of both sides take equal steps until one of them turns over. Such a stretch is a
*piece*: (source offset, target offset, length). Other axes are multiplied out into one table of (source offset, target
offset). Clipped tiles, windows that begin inside a tile, tiles that are out of step with each other: all of these only
change tables.

Tables of ranges that look the same are made once: `Tables` keeps them, and `task_ranges` says which those are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from strided.planning.axis_maps import AxisMap, RadixMap
from strided.planning.boxes import Axis
from strided.planning.task_ranges import AxisRange, TaskRanges, most_grouped, phase_of, repeat_of
from strided.runtime.aliases import Table
from strided.runtime.cache import BoundedCache

#: Tables that a step keeps for its next tasks.
_MOST_KEPT = 64
#: Groups that are shorter than the longest ones by so much are more work than they spare.
_LEAST_GROUP = 8

#: What makes the table of a range of an axis, from `start` to `stop`.
_Make: TypeAlias = Callable[[Axis, int, int], Table]


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
        alike = math.lcm(multiple, repeat_of(axis))
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
