"""A vector kernel and the tables that it takes, as a step of a plan.

`strided.kernels` has the kernels and says what tables mean. This module cuts a step into tasks, and each task into
blocks, so that lines stay in the cache until they are used up and targets are written front to back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from strided.escape import counted
from strided.planning.access_order import FREE_ROWS, PAGE_BYTES, of_a_page, outer_order, row_and_outer, stride_of
from strided.planning.axis_maps import AxisMap
from strided.planning.boxes import WORD_BITS, Axis, Box, Spans, bytes_of, cut, side_of
from strided.planning.offset_tables import (
    Tables,
    TaskRanges,
    block_limits,
    boxes_of,
    cuts,
    groups_of,
    length_of,
    most_grouped,
    nearness,
    pieces_of,
    source_offsets,
    source_runs,
    target_offsets,
    target_runs,
    tile_period_of,
)
from strided.runtime import limits
from strided.runtime.aliases import Table
from strided.runtime.threads import get_num_threads

#: Bytes of a line; a cut between threads off the lines makes both write one slowly.
_LINE_BYTES = 64
#: Lines of a row of the target that a transposition writes at once, or a multiple.
_TURNED_LINES = 4
#: Rows that are taken out of words side by side, if there are as many.
_ROWS_OF_WORDS = 8
#: Tasks that every thread has at least, if they are large enough: the last ones end at about the same time.
_TASKS_OF_THREAD = 4
#: Words that follow each other in most tiles.
_WORDS_OF_TILE = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStep:
    """A step of a plan: a vector kernel over a box.

    Attributes
    ----------
    kernel : str
        Name of the kernel.
    source_base, target_base : int
        Offset of the first element, in `units`.
    axes : tuple of Axis
        The axes. On an interleaved side the row axis gives the offset of the word that a row shares.
    outer : tuple of int
        Places of the axes besides the two below, outermost first.
    row, lane : int
        Places of the axes that the kernel is made for; -1 for no row axis, or if every row is a single element, for no
        lanes. The lanes are the source's nearest axis; for a transposition, the rows are the target's.
    bits : int
        Bits of one element; of the packed one if one side is packed.
    interleaved : int
        Which side has words shared by rows: 0 none, 1 the source, 2 the target.
    rows : int
        How many rows share a word.
    member : int
        Which row of its word every row is, if no two share one.
    members : (int, int)
        Where rows share words on both sides, along another axis on each, how many of those of a word of the source, and
        of the target, are there. In a transposition those of the last words, all being there of others.
    divides : bool
        Whether threads may share it: not if two could meet in a byte of packed elements.
    units : (int, int)
        Bits that one offset of the source and of the target counts.
    """

    kernel: str
    source_base: int
    target_base: int
    axes: tuple[Axis, ...]
    outer: tuple[int, ...]
    row: int
    lane: int
    bits: int
    interleaved: int = 0
    rows: int = 1
    member: int = 0
    members: tuple[int, int] = (0, 0)
    divides: bool = True
    units: tuple[int, int] = (8, 8)

    @property
    def elements(self) -> int:
        """Elements that the kernel copies, of its own width."""
        return math.prod(axis.extent for axis in self.axes)

    def __str__(self) -> str:
        extents = " x ".join(str(self.axes[k].extent) for k in self._order)
        return f"{self.kernel} over {extents}, {counted(self.bits, 'bit')} each"

    @property
    def widths(self) -> tuple[int, int]:
        """Bits of one element in the source and in the target; neighbours that were joined count as one element."""
        if self.kernel in ("unpack", "deinterleave_bits"):
            return self.bits, 8
        return (8, self.bits) if self.kernel in ("pack", "pack_words", "interleave_bits") else (self.bits, self.bits)

    @property
    def _order(self) -> tuple[int, ...]:
        return (*self.outer, *(k for k in (self.row, self.lane) if k >= 0))

    def between(self, in_memory: tuple[bool, bool]) -> VectorStep:
        """The same step for sides that lie in memory or in the cache."""
        if self.kernel not in FREE_ROWS:
            inner = [k for k in (self.row, self.lane) if k >= 0]
            return replace(self, outer=outer_order(self.axes, inner, in_memory))
        row, outer = row_and_outer(self.kernel, self.axes, None if self.lane < 0 else self.lane, in_memory)
        return self if row is None else replace(self, row=row, outer=outer)

    @property
    def is_transposition(self) -> bool:
        """Whether the target is contiguous along the rows instead of the lanes."""
        return self.kernel.startswith("transpose")

    @property
    def is_exchange(self) -> bool:
        """Whether rows that share words become others that do, along the same lanes: those of a square are the rows."""
        return self.kernel.startswith("exchange")

    @property
    def fullness(self) -> float:
        """The share of its squares that a transposition fills. Parts of them are turned by halves of their sides."""
        if (along := self.turns_along) is not None:
            # Rows are moved by lines, as far as tiles do not cut them.
            runs = along.extent, *(side.unit for side in along[1:] if side.unit)
            return min(1.0, min(runs) * self.bits / (8 * _LINE_BYTES))
        half = max(_LINE_BYTES * 4, self.bits * 8)
        lane, row = self.axes[self.lane], self.axes[self.row]
        runs = lane.source.unit or lane.extent, row.target.unit or row.extent
        sides = [min(run, axis.extent) * self.bits for run, axis in zip(runs, (lane, row), strict=True)]
        return math.prod(side / (-(-side // half) * half) for side in sides)

    @property
    def turns_along(self) -> Axis | None:
        """The axis along which elements of few rows take turns on one side of a transposition: no part of a square."""
        lane, row = self.axes[self.lane], self.axes[self.row]
        for few, along, side in ((lane, row, 1), (row, lane, 2)):
            if (
                2 <= few.extent <= (4 if self.bits < 64 else 2)
                and not side_of(few, side).unit
                and side_of(along, side).unit_stride * 8 == few.extent * self.bits
            ):
                return along
        return None

    @property
    def run_bits(self) -> int:
        """Bits of a run that is written alone; 0 if transposed runs go on where the ones before them end."""
        lane, row = self.axes[self.lane], self.axes[self.row]
        if self.kernel == "short_rows":
            return self.bits * (1 if self.lane < 0 else lane.extent)
        if not self.is_transposition:
            # Rows of words are written together, but not read.
            together = max(1, self.rows // 2) if self.interleaved == 2 else 1
            return lane.run * max(self.widths) * together
        run = min(row.target.unit or row.extent, row.extent) * self.bits
        return 0 if lane.target.unit_stride * 8 == run and not lane.target.unit else run

    @property
    def goes_on_in_words(self) -> bool:
        """Whether rows of a transposition's target follow each other, as many as share words of the source."""
        target = self.axes[self.lane].target
        return target.unit * self.bits == WORD_BITS and target.unit_stride * 8 == self.run_bits

    @property
    def is_ragged(self) -> bool:
        """Whether rows of a transposition's target begin inside of lines."""
        return self._leaves_lines((self.lane,))

    @property
    def share_in_part(self) -> float:
        """The share of rows put into words whose words they do not fill, if the first one begins a word."""
        if self.interleaved != 2 or self.row < 0:
            return 0.0
        extent = self.axes[self.row].extent
        return extent % self.rows / extent

    @property
    def zipped_run_bits(self) -> int:
        """Bits of a row of the target in which elements of several rows take turns, if rows begin inside of lines.

        Else 0.
        """
        run = 0
        if self.interleaved == 2:
            run = self.axes[self.lane].run * WORD_BITS
        elif self.kernel.startswith("transpose_few") and self.turns_along is self.axes[self.lane]:
            run = self.elements * self.bits // math.prod(self.axes[k].extent for k in self.outer)
        return run if self._leaves_lines(self.outer) else 0

    def _leaves_lines(self, places: tuple[int, ...]) -> bool:
        """Whether a step along some axes goes from the start of a line of the target to the inside of one."""
        return any(s % _LINE_BYTES for k in places for m in self.axes[k].target.radix_maps for s in m.strides)

    @property
    def run_places(self) -> int:
        """At how many places of pages the rows of a transposition's target begin; 0 if they share pages."""
        steps = [abs(s) for m in self.axes[self.lane].target.radix_maps for s in m.strides]
        return min((PAGE_BYTES // math.gcd(s, PAGE_BYTES) for s in steps if s >= PAGE_BYTES), default=0)

    @property
    def spans(self) -> Spans:
        """The bytes, from and to, that the kernel touches in the source and in the target."""
        return self._span(1), self._span(2)

    def _span(self, side: int) -> tuple[int, int]:
        box, bits = Box(self.source_base, self.target_base, self.axes), self.widths[side - 1]
        if self.members != (0, 0):
            return self._span_of_words(box, side)
        if self.kernel == "pack_words" and side == 2:
            # Words are read as a whole.
            lane = self.axes[self.lane]
            radix_map = lane.target.radix_maps[0]
            words = AxisMap(lane.target.base, (radix_map._replace(strides=(0, *radix_map.strides[1:])),))
            return bytes_of(box.with_axes(self.lane, [lane._replace(target=words)]), side, self.units[1], WORD_BITS)
        if self.interleaved != side:
            return bytes_of(box, side, self.units[side - 1], bits)
        if self.kernel not in ("interleave8", "interleave16"):
            # Words are read as a whole, and those of packed elements are written again.
            return bytes_of(box, side, 8, WORD_BITS)
        # Rows of whole bytes are written alone where they do not fill their words.
        if self.rows == 1:
            box = box._replace(target_base=box.target_base + self.member * bits // 8)
        else:
            row = self.axes[self.row]
            radix_map = row.target.radix_maps[0]
            apart = AxisMap(0, (radix_map._replace(strides=(bits // 8, *radix_map.strides[1:])),))
            box = box.with_axes(self.row, [row._replace(target=apart)])
        return bytes_of(box, side, 8, bits)

    def _span_of_words(self, box: Box, side: int) -> tuple[int, int]:
        """The bytes of words that rows share on both sides: as many of the source as rows share one of the target."""
        there = self.members[2 - side]
        if not self.is_transposition:
            return bytes_of(box.with_axes(self.row, [cut(self.axes[self.row], 0, there)]), side, 8, WORD_BITS)
        place = self.lane if side == 1 else self.row
        last = self.axes[place].extent - 1
        parts = (
            (cut(self.axes[place], 0, last), self.bits),
            (cut(self.axes[place], last, last + 1), there * WORD_BITS),
        )
        spans = [bytes_of(box.with_axes(place, [axis]), side, 8, bits) for axis, bits in parts if axis.extent]
        return min(low for low, _ in spans), max(high for _, high in spans)

    @property
    def is_partial(self) -> bool:
        """Whether some words that rows share on both sides are not full."""
        return self.members != (0, 0) and min(self.members) < self.shared

    @property
    def shared(self) -> int:
        """How many rows share a full word on both sides, along another axis on each."""
        return (
            self.bits // WORD_BITS if self.is_transposition else WORD_BITS // int(self.kernel.removeprefix("exchange"))
        )

    def tasks(self) -> Iterator[TaskRanges]:
        """Boxes for threads to share, a range of each axis."""
        lengths, budget = [1] * len(self.axes), self._task_elements()
        periods = [tile_period_of(axis) for axis in self.axes]
        turns = self.turns_along if self.kernel.startswith("transpose_few") else None
        for k in (self.lane, self.row):
            if k >= 0:
                least, most = self._range_of(k, budget)
                pieces = not self.is_transposition and (k == self.lane or self.kernel == "short_rows")
                group = most_grouped(self.axes[k], self._rows_alike) if k == self.row and self._has_rows else 0
                if 0 < 2 * group <= most:
                    lengths[k] = length_of(self.axes[k], most, group, in_groups=True)
                else:
                    lengths[k] = length_of(self.axes[k], most, least, in_pieces=pieces)
                if (k == self.lane and self.kernel == "short_rows") or (k == self.row and self.is_exchange):
                    lengths[k] = self.axes[k].extent
                budget = max(1, budget // lengths[k])
                if lengths[k] % periods[k]:
                    periods[k] = least
                if turns is not None and self.axes[k] is not turns:
                    # Elements of few rows stay together: no tile of the other side cuts them.
                    lengths[k], periods[k] = self.axes[k].extent, 1
        # First of every outer axis what stays on a few pages of one side, which is worth larger tasks if that leaves
        # enough of them; then as much of the inner ones as may be.
        inner = math.prod(lengths)
        for share, most in ((2 * PAGE_BYTES, min(4 * budget, self.elements // inner // 16)), (1 << 62, budget)):
            for k in reversed(self.outer):
                near = min(nearness(self.axes[k].source), nearness(self.axes[k].target))
                others = math.prod(lengths) // inner // lengths[k]
                length = length_of(self.axes[k], min(-(-share // near), most // others))
                lengths[k] = max(lengths[k], length)
        return boxes_of(self.axes, self._order, lengths, periods, to_ends=self.is_partial)

    def _range_of(self, k: int, budget: int) -> tuple[int, int]:
        """Of what the lanes, or the rows, of a task are a multiple, and how many they are at most."""
        line = max(1, _LINE_BYTES * 8 // max(8, self.bits))
        if k == self.lane:
            rows = self.axes[self.row].extent if self.row >= 0 else 1
            if self.is_transposition:
                return line, min(budget, max(limits.current.transposed_lanes, budget // rows))
            # Words that rows share lie near each other, and so do those of a tile that follow each other.
            beside = _WORDS_OF_TILE if self.kernel == "pack_words" else _ROWS_OF_WORDS if self.interleaved == 1 else 1
            return line, max(1, budget // min(beside, rows))
        least, few = max(self._least_words, self.rows), limits.current.far_rows
        if self.is_transposition:
            least = few = _TURNED_LINES * line
        if self._goes_on_beside_rows():
            return least, min(budget, max(few, self._least_rows()))
        return least, budget

    def _goes_on_beside_rows(self) -> bool:
        """Whether rows lie on pages of their own in the source, and those of an outer axis beside them.

        Or, where they are turned, those of the elements of a word do, and few bytes are read of each. A task that takes
        few rows goes on soon where these end, on pages that are known, in lines that are there.
        """
        together = max(1, WORD_BITS // self.bits) if self.is_transposition else 1
        if self.kernel in FREE_ROWS or of_a_page(self.axes[self.row].source) > together:
            return False
        if self.is_transposition and self.axes[self.lane].extent * self.bits > 8 * _TURNED_LINES * _LINE_BYTES:
            return False
        return any(nearness(self.axes[k].source) < PAGE_BYTES for k in self.outer)

    def _least_rows(self) -> int:
        """Rows that make a task worth preparing, with all of the other axes."""
        width = max(8, self.bits) // 8
        row = width * self.elements // self.axes[self.row].extent
        return -(-(limits.current.vector_task_bytes // 4) // row)

    def _task_elements(self) -> int:
        """Elements of one task: all, or enough to be worth one and few enough that threads end together."""
        width = max(8, self.bits) // 8
        size = self.elements * width
        task = limits.current.vector_task_bytes
        if size > task:
            most = max(min(task, size // 8), min(8 * task, size // limits.current.many_tasks))
            size = max(task // 4, min(most, size // (_TASKS_OF_THREAD * get_num_threads())))
        return max(1, size // width)

    def tables(self) -> Tables:
        """The maker of this step's tables."""
        return Tables(self.axes)

    def arguments(self, tables: Tables, box: TaskRanges, shift: tuple[int, int] = (0, 0)) -> tuple[Any, ...]:
        """The kernel's tables for one task.

        `shift` moves both sides, in `units`.
        """
        bases = self.source_base + shift[0], self.target_base + shift[1]
        lane = box[self.lane]
        if self.kernel == "copy":
            axis, count = self.axes[self.lane], (lane.stop - lane.start) * self.bits // 8
            source, target = lane.source + axis.source.at(lane.start), lane.target + axis.target.at(lane.start)
            return bases[0] + source, bases[1] + target, count
        # Groups of rows are matrices of their own, so that one table of few rows serves for all.
        groups = (self.row, self._groups) if self._has_rows and self.row >= 0 else None
        outer = tables.outer(bases, self.outer, box, groups)
        if self.kernel == "short_rows":
            row, size = self.axes[self.row], self.run_bits // 8
            runs = tables.get("runs", self.row, box[self.row], pieces_of)
            return outer, runs, row.source.unit_stride, row.target.unit_stride, size
        if self.is_transposition:
            return (
                outer,
                tables.get("source rows", self.row, box[self.row], source_offsets),
                tables.get("target rows", self.lane, lane, target_offsets),
                tables.get("source runs", self.lane, lane, source_runs),
                tables.get("target runs", self.row, box[self.row], target_runs),
                *self._members_of(box),
            )
        pieces = tables.get("pieces", self.lane, lane, self._pieces)
        plain = self.kernel in ("pack", "pack_words", "unpack") or self.is_exchange
        if self.row < 0:
            rows = np.array([[0, 0, self.member]])
            return (outer, rows, pieces) if plain else (outer, rows, pieces, _ends(1), _ends(len(pieces)))
        part = box[self.row]
        count = len(outer) // math.prod(box[k].stop - box[k].start for k in self.outer)
        part = part._replace(stop=part.start + (part.stop - part.start) // count)
        rows = tables.get("rows", self.row, part, self._rows)
        if plain:
            return outer, rows, pieces, *self._members_of(box)
        row_cuts = tables.get("row cuts", self.row, part, self._row_cuts)
        return outer, rows, pieces, row_cuts, tables.get("piece cuts", self.lane, lane, self._piece_cuts)

    def _members_of(self, box: TaskRanges) -> tuple[int, ...]:
        """The members for a kernel that takes them: all, but in the last words of a transposition."""
        if not self.members[0] or self.kernel == "transpose_pairs":
            return ()
        if not self.is_transposition:
            return self.members
        ends = (box[k].stop == self.axes[k].extent for k in (self.row, self.lane))
        return tuple(own if at_end else self.shared for own, at_end in zip(self.members, ends, strict=True))

    @property
    def _has_rows(self) -> bool:
        """Whether a table has each of its rows, and groups of them may be matrices of their own."""
        return not (self.is_transposition or self.is_exchange or self.kernel in ("copy", "short_rows"))

    @property
    def _rows_alike(self) -> int:
        """Of what a group of rows is a multiple, so that none cuts a word, a line of words or a block of rows."""
        return math.lcm(self._least_words, self.rows, self._block()[0] or 1)

    @property
    def _least_words(self) -> int:
        """Rows of a line of the target, if each is a word in it."""
        return _LINE_BYTES * 8 // WORD_BITS if self.kernel == "pack_words" else 1

    def _groups(self, axis: Axis, start: int, stop: int) -> Table:
        """(source offset, target offset) of groups of rows, less those of the first."""
        return groups_of(axis, start, stop, self._rows_alike)

    def _pieces(self, axis: Axis, start: int, stop: int) -> Table:
        """(source offset, target offset, length) of pieces, in lanes, but in bytes for `rows` and `exchange`."""
        table = pieces_of(axis, start, stop)
        if self.kernel == "rows" or self.is_exchange:
            table[:, 2] *= self.bits // 8
        return table

    def _rows(self, axis: Axis, start: int, stop: int) -> Table:
        """(source offset, target offset, which row of its word) of the rows."""
        table = np.zeros((stop - start, 3), np.int64)
        table[:, 0], table[:, 1] = axis.source.table(start, stop), axis.target.table(start, stop)
        if self.rows == 1:
            table[:, 2] = self.member
        else:
            first = (axis.source if self.interleaved == 1 else axis.target).radix_maps[0].start
            table[:, 2] = np.arange(first + start, first + stop) % self.rows
        return table

    def _block(self) -> tuple[int, int]:
        """Rows and lanes of one block; 0 means all.

        If the target is tiled: one of its tiles, so that it is written front to back, or some rows of a few tiles if
        tiles are tall, or a page of tiles that are a single row of words. If only the source is: the rows of its tiles,
        and as many tiles side by side as stay in the first-level cache until they are used up.
        """
        lane, row = self.axes[self.lane], self.axes[self.row]
        if row.extent * lane.extent * self.bits <= 8 * 2 * limits.current.tiled_block_bytes:
            return 0, 0
        if lane.target.unit:
            rows = max(self.rows, tile_period_of(row._replace(source=_STILL)))
            # More rows at once are more streams than the CPU fetches ahead.
            few = max(self.rows, limits.current.streams)
            if rows > few and rows % few == 0:
                return few, 4 * lane.target.unit
            tiles = PAGE_BYTES * 8 // (rows * lane.target.unit * self.bits) if rows == self.rows else 1
            return rows, max(1, tiles) * lane.target.unit
        if not lane.source.unit:
            return self.rows, 0
        rows = max(self.rows, tile_period_of(row._replace(target=_STILL)))
        tile_bytes = lane.source.unit * lane.source.unit_stride * rows // self.rows
        # Words that rows share are read once for each: a page of them is best, unless rows then end in broken lines.
        page = self.rows > 1 and tile_bytes < PAGE_BYTES and not stride_of(row.target) % _LINE_BYTES
        lanes = max(1, (PAGE_BYTES if page else limits.current.tiled_block_bytes) // tile_bytes) * lane.source.unit
        return (0, 0) if lane.extent <= lanes else (rows, lanes)

    def _row_cuts(self, axis: Axis, start: int, stop: int) -> Table:
        """The limits of blocks of rows."""
        return block_limits(axis, start, stop, self._block()[0])

    def _piece_cuts(self, axis: Axis, start: int, stop: int) -> Table:
        """The limits of blocks of pieces, which are whole pieces."""
        pieces = cuts(start, stop, (*axis.source.radix_maps, *axis.target.radix_maps)) - start
        return np.unique(np.searchsorted(pieces, block_limits(axis, start, stop, self._block()[1])))


_STILL = AxisMap(0, ())


def _ends(count: int) -> Table:
    return np.array([0, count], np.int64)
