"""A vector kernel over a box, as a step of a plan.

`strided.kernels` has the kernels. `vector_tasks` cuts a step into tasks, and `vector_tables` makes the tables of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from strided.planning import vector_tables, vector_tasks
from strided.planning.access_order import PAGE_BYTES, outer_order, row_and_outer
from strided.planning.axis_maps import AxisMap
from strided.planning.boxes import LINE_BYTES, WORD_BITS, Axis, Box, Spans, bytes_of, cut, side_of
from strided.planning.kernel_kinds import KINDS, Form, Kind
from strided.planning.offset_tables import Tables
from strided.planning.task_ranges import TaskRanges
from strided.wording import counted


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
    lacking : int
        Bytes that the last word of each row of the target lacks.
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
    lacking: int = 0
    divides: bool = True
    units: tuple[int, int] = (8, 8)

    @property
    def kind(self) -> Kind:
        """What is known of the kernel."""
        return KINDS[self.kernel]

    @property
    def elements(self) -> int:
        """Elements that the kernel copies, of its own width."""
        return math.prod(axis.extent for axis in self.axes)

    def __str__(self) -> str:
        extents = " x ".join(str(self.axes[k].extent) for k in self.order)
        return f"{self.kernel} over {extents}, {counted(self.bits, 'bit')} each"

    @property
    def widths(self) -> tuple[int, int]:
        """Bits of one element in the source and in the target; neighbours that were joined count as one element."""
        packed = self.kind.packed
        return 8 if packed == 2 else self.bits, 8 if packed == 1 else self.bits

    @property
    def order(self) -> tuple[int, ...]:
        """Places of all axes, outermost first."""
        return (*self.outer, *(k for k in (self.row, self.lane) if k >= 0))

    def between(self, in_memory: tuple[bool, bool]) -> VectorStep:
        """The same step for sides that lie in memory or in the cache."""
        if not self.kind.free_rows:
            inner = [k for k in (self.row, self.lane) if k >= 0]
            return replace(self, outer=outer_order(self.axes, inner, in_memory))
        row, outer = row_and_outer(self.kernel, self.axes, None if self.lane < 0 else self.lane, in_memory)
        return self if row is None else replace(self, row=row, outer=outer)

    @property
    def is_transposition(self) -> bool:
        """Whether the target is contiguous along the rows instead of the lanes."""
        return self.kind.form is Form.TRANSPOSITION

    @property
    def has_short_rows(self) -> bool:
        """Whether its rows are short runs, evenly spaced: moved whole, and in no table."""
        return self.kind.form is Form.RUNS

    @property
    def packs_words(self) -> bool:
        """Whether each row becomes words of packed elements, which are read and written as a whole."""
        return self.kind.form is Form.WORDS

    @property
    def is_exchange(self) -> bool:
        """Whether rows that share words become others that do, along the same lanes: those of a square are the rows."""
        return self.kind.form is Form.EXCHANGE

    @property
    def fullness(self) -> float:
        """The share of its squares that a transposition fills. Parts of them are turned by halves of their sides."""
        if (along := self.turns_along) is not None:
            # Rows are moved by lines, as far as tiles do not cut them.
            return min(1.0, along.run * self.bits / (8 * LINE_BYTES))
        half = max(LINE_BYTES * 4, self.bits * 8)
        sides = [run * self.bits for run in self.square_runs]
        return math.prod(side / (-(-side // half) * half) for side in sides)

    @property
    def square_runs(self) -> tuple[int, int]:
        """The elements that follow each other along the lanes in the source, and along the rows in the target."""
        lane, row = self.axes[self.lane], self.axes[self.row]
        return lane.source.run(lane.extent), row.target.run(row.extent)

    @property
    def turns_along(self) -> Axis | None:
        """The axis along which elements of few rows take turns on one side of a transposition: no part of a square."""
        if not self.kind.squares:
            return None
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
        if self.has_short_rows:
            return self.bits * (1 if self.lane < 0 else lane.extent)
        if not self.is_transposition:
            # Rows of words are written together, but not read.
            together = max(1, self.rows // 2) if self.interleaved == 2 else 1
            return lane.run * max(self.widths) * together
        run = row.target.run(row.extent) * self.bits - 8 * self.lacking
        goes_on = lane.extent > 1 and lane.target.unit_stride * 8 == run and not lane.target.unit
        return 0 if goes_on else run

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
    def zipped_run_bits(self) -> int:
        """Bits of a row of the target in which elements of several rows take turns, if rows begin inside of lines.

        Else 0.
        """
        run = 0
        if self.interleaved == 2:
            run = self.axes[self.lane].run * WORD_BITS
        elif self.turns_along is self.axes[self.lane]:
            run = self.elements * self.bits // math.prod(self.axes[k].extent for k in self.outer)
        return run if self._leaves_lines(self.outer) else 0

    def _leaves_lines(self, places: tuple[int, ...]) -> bool:
        """Whether a step along some axes goes from the start of a line of the target to the inside of one."""
        return any(s % LINE_BYTES for k in places for m in self.axes[k].target.radix_maps for s in m.strides)

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
        if self.packs_words and side == 2:
            # Words are read as a whole.
            lane = self.axes[self.lane]
            words = AxisMap(lane.target.base, (lane.target.radix_maps[0].with_unit_stride(0),))
            return bytes_of(box.with_axes(self.lane, [lane._replace(target=words)]), side, self.units[1], WORD_BITS)
        if self.interleaved != side:
            low, high = bytes_of(box, side, self.units[side - 1], bits)
            return low, high - self.lacking * (side == 2)
        if side == 1 or self.kind.packed:
            # Words are read as a whole, and those of packed elements are written again.
            return bytes_of(box, side, 8, WORD_BITS)
        # Rows of whole bytes are written alone where they do not fill their words.
        if self.rows == 1:
            box = box._replace(target_base=box.target_base + self.member * bits // 8)
        else:
            row = self.axes[self.row]
            apart = AxisMap(0, (row.target.radix_maps[0].with_unit_stride(bits // 8),))
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
        return WORD_BITS // self.kind.bits

    @property
    def has_row_table(self) -> bool:
        """Whether a table has each of its rows, and groups of them may be matrices of their own."""
        return self.kind.form in (Form.ROWS, Form.BLOCKS, Form.WORDS)

    def tasks(self) -> Iterator[TaskRanges]:
        """Tasks for threads to share, a range of each axis."""
        return vector_tasks.tasks_of(self)

    def tables(self) -> Tables:
        """The maker of this step's tables."""
        return Tables(self.axes)

    def arguments(self, tables: Tables, parts: TaskRanges, shift: tuple[int, int] = (0, 0)) -> tuple[Any, ...]:
        """The kernel's tables for one task; `shift` moves both sides, in `units`."""
        return vector_tables.arguments_of(self, tables, parts, shift)
