"""Staged copies: two or three kernels in turn, through blocks that stay in the cache, for what no single one does well.

Sub-tiles on both sides along different axes are such a copy; so is a transposition of packed elements. The first stage
makes a block dense, with one axis contiguous; the next one takes the block from there. If both sides are packed, there
may be two blocks in between: one of bytes, and one of elements packed again, which can be moved several at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strided.planning.access_order import farthest_first
from strided.planning.boxes import Box, Spans, room_of
from strided.planning.nest_step import NestStep
from strided.planning.stages import in_words, kept_of, stages_of
from strided.planning.staging_layout import StagingLayout
from strided.planning.task_ranges import TaskRanges, task_ranges_of
from strided.planning.vector_step import VectorStep
from strided.wording import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedCopy:
    """A step of a plan: two or three kernels, one after the other, block by block.

    Attributes
    ----------
    kernel : str
        The kernels' names, as in ``"deinterleave16, transpose32"``.
    box : Box
        What is copied; offsets in bits.
    bits : (int, int)
        Bits of one element in the source and in the target.
    staging : tuple of StagingLayout
        The layouts of the blocks between one kernel and the next; none if each kernel does a part of every block.
    lengths : tuple of int
        Extents of a block.
    words : (int, int)
        Places of the axes along which the source and the target are read and written by whole words, -1 for none.
    divides : bool
        Whether threads may share it: not if two could meet in a byte of packed elements.
    """

    kernel: str
    box: Box
    bits: tuple[int, int]
    staging: tuple[StagingLayout, ...]
    lengths: tuple[int, ...]
    words: tuple[int, int] = (-1, -1)
    divides: bool = True

    @property
    def elements(self) -> int:
        """Elements copied."""
        return self.box.elements

    def __str__(self) -> str:
        extents, lengths = (" x ".join(map(str, n)) for n in ([a.extent for a in self.box.axes], self.lengths))
        return f"{self.kernel} over {extents} in blocks of {lengths}, {counted(self.bits[1], 'bit')} each"

    @property
    def block_bytes(self) -> tuple[int, ...]:
        """Bytes of the blocks between one kernel and the next."""
        return tuple(layout.strides(self.lengths)[1] // 8 for layout in self.staging)

    def tasks(self) -> Iterator[TaskRanges]:
        """Tasks for threads to share, one block each."""
        axes = self.box.axes
        order = farthest_first(axes, 2)
        # An axis that fits a block is not cut, wherever its tiles begin.
        periods = [1 if n == axis.extent else n for n, axis in zip(self.lengths, axes, strict=True)]
        return task_ranges_of(axes, order, self.lengths, periods)

    @property
    def spans(self) -> Spans:
        """The bytes, from and to, touched in the source and in the target; both begin with a word."""
        source, target = (
            room_of(self.box._replace(axes=in_words(self.box.axes, place, width)), self.bits)
            for place, width in zip(self.words, self.bits, strict=True)
        )
        return source[0], target[1]

    def stages(
        self, parts: TaskRanges, phase: tuple[int, int] = (0, 0)
    ) -> tuple[tuple[VectorStep | NestStep, ...], ...]:
        """The steps of each stage of one block, as if its ranges had no shift but `phase`, in bits on either side."""
        return tuple(
            stage.all_steps for stage in stages_of(self._at(phase), parts, self.staging, self.bits, self.words)
        )

    def kept(self, parts: TaskRanges, phase: tuple[int, int] = (0, 0)) -> tuple[VectorStep | NestStep, ...]:
        """The steps, before all others, that bring words of the target into the last block that it fills in part."""
        stage = kept_of(self._at(phase), parts, self.staging, self.bits[1], self.words[1])
        return () if stage is None else stage.all_steps

    def _at(self, phase: tuple[int, int]) -> Box:
        return Box(self.box.source_base + phase[0], self.box.target_base + phase[1], self.box.axes)
