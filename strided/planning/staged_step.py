"""Staged copies: two or three kernels in turn, through blocks that stay in the cache, for what no single one does well.

Sub-tiles on both sides along different axes are such a copy; so is a transposition of packed elements. The first stage
makes a block dense, with one axis contiguous; the next one takes the block from there. If both sides are packed, there
may be two blocks in between: one of bytes, and one of elements packed again, which can be moved several at a time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from strided.escape import counted
from strided.planning.axis_maps import evenly
from strided.planning.boxes import WORD_BITS, Axis, Box, Spans, cut, joined, room_of, side_of, split
from strided.planning.cost_model import FAR_WORDS, HALF_BLOCKS, cost_of, cost_of_fetched, cost_of_passes
from strided.planning.nest_step import NestStep, nest_step_of
from strided.planning.offset_tables import (
    AxisRange,
    TaskRanges,
    boxes_of,
    nearness,
    phase_of,
)
from strided.planning.select_kernel import Matched, match
from strided.planning.staging_blocks import Near, StagingLayout, block_lengths, near_axes, run_on
from strided.planning.vector_step import VectorStep
from strided.runtime import limits

#: Bits of the source below which a run is better read once than in two parts.
_LEAST_CUT_BITS = 8 * 512


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
        The layouts of the blocks between one kernel and the next.
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
        """Boxes for threads to share, one block each."""
        axes = self.box.axes
        order = sorted(range(len(axes)), key=lambda k: -nearness(axes[k].target))
        # An axis that fits a block is not cut, wherever its tiles begin.
        periods = [1 if n == axis.extent else n for n, axis in zip(self.lengths, axes, strict=True)]
        return boxes_of(axes, order, self.lengths, periods)

    @property
    def spans(self) -> Spans:
        """The bytes, from and to, touched in the source and in the target; both begin with a word."""
        source, target = (
            room_of(self.box._replace(axes=_in_words(self.box.axes, place, width)), self.bits)
            for place, width in zip(self.words, self.bits, strict=True)
        )
        return source[0], target[1]

    def stages(
        self, parts: TaskRanges, phase: tuple[int, int] = (0, 0)
    ) -> tuple[tuple[VectorStep | NestStep, ...], ...]:
        """The steps of each stage of one block, as if its ranges had no shift but `phase`, in bits on either side."""
        return tuple(stage.all_steps for stage in _stages(self._at(phase), parts, self.staging, self.bits, self.words))

    def kept(self, parts: TaskRanges, phase: tuple[int, int] = (0, 0)) -> tuple[VectorStep | NestStep, ...]:
        """The steps, before all others, that bring words of the target into the last block that it fills in part."""
        stage = _kept(self._at(phase), parts, self.staging, self.bits[1], self.words[1])
        return () if stage is None else stage.all_steps

    def _at(self, phase: tuple[int, int]) -> Box:
        return Box(self.box.source_base + phase[0], self.box.target_base + phase[1], self.box.axes)


class Candidate(NamedTuple):
    """A staged copy, whether vector kernels do nearly all of it, and about how long an element takes."""

    step: StagedCopy
    is_good: bool
    cost: float


class _Stage(NamedTuple):
    """Vector steps, and boxes left over with the widths of their elements.

    `between_bytes`: the elements are bytes here, but packed in another stage. `in_memory`: which sides are no blocks.
    """

    steps: tuple[VectorStep, ...]
    rest: tuple[tuple[Box, tuple[int, int]], ...] = ()
    between_bytes: bool = False
    in_memory: tuple[bool, bool] = (False, False)

    @property
    def kernel(self) -> str:
        """The kernel that does most of it."""
        return self.steps[0].kernel if self.steps else nest_step_of(*self.rest[0]).kernel

    @property
    def all_steps(self) -> tuple[VectorStep | NestStep, ...]:
        """The steps, those for what is left over last."""
        return (*self.steps, *(nest_step_of(box, bits) for box, bits in self.rest))

    @property
    def is_worth_it(self) -> bool:
        """Whether the nest for the other stage alone is better than the nest for both."""
        return self.kernel.startswith(("deinterleave", "interleave")) or self.between_bytes

    @property
    def is_scattered(self) -> bool:
        """Whether it takes packed elements one by one, not side by side."""
        if self.steps:
            return False
        nest = nest_step_of(*self.rest[0])
        strides = [(axis.source.unit_stride, axis.target.unit_stride) for axis in nest.axes]
        return nest.kernel == "nest_bits" and (not strides or strides[nest.q] != (1, 1))

    @property
    def is_good(self) -> bool:
        """Whether vector kernels do nearly all of it."""
        done = sum(step.elements * step.bits for step in self.steps)
        return 4 * sum(box.elements * min(bits) for box, bits in self.rest) <= done > 0

    @property
    def cost(self) -> float:
        """The time it takes, about: bits moved, each weighted by its kernel."""
        return cost_of(self.steps, self.rest, self.in_memory)


def staged_copy_of(
    box: Box,
    source_bits: int,
    target_bits: int,
    *,
    may_pack: bool = True,
    whole_words: bool = True,
    instead: Matched | None = None,
) -> Candidate | None:
    """The cheapest staged copy of a box, or None; None, too, if it takes longer than what it is `instead` of.

    `may_pack` is false if packed elements lie in opposite orders on the two sides; `whole_words` if nothing behind the
    last element may be touched.
    """
    bits = source_bits, target_bits
    widths = [max(8, *bits)]
    if may_pack and min(bits) < 8:
        # Several packed elements can be moved as one.
        widths.append(min(bits))
    near = near_axes(box, 1, bits[0]), near_axes(box, 2, bits[1])
    keys = list(dict.fromkeys(k for side in near for k in (*side.lanes, *side.rows)))
    rest = [k for k in range(len(box.axes)) if k not in keys]
    staging = [
        StagingLayout(w, (*rest, *(k for k in reversed(keys) if k != lane), lane)) for w in widths for lane in keys
    ]
    for side, width in enumerate(bits):
        rows = near[side].rows
        if rows and box.axes[rows[0]].extent <= WORD_BITS // width and width in widths:
            # Words as they are, in the order of the other side: taken apart there, they make its long runs.
            far = [-nearness(side_of(axis, 2 - side)) for axis in box.axes]
            order = sorted(range(len(far)), key=lambda k: (k == rows[0], far[k]))
            staging.append(StagingLayout(width, tuple(order)))
    staging = list(dict.fromkeys(staging))
    ways = (_candidate(box, bits, near, (layout,), whole_words) for layout in staging)
    found = [way for way in ways if way is not None]
    if max(bits) < 8:
        ways = (_candidate(box, bits, near, pair, whole_words) for pair in itertools.permutations(staging, 2))
        found += [way for way in ways if way is not None and way.is_good]
    elif bits[0] < 8:
        # Words that rows share are unpacked all at once.
        for layout in staging:
            if layout.bits < 8 and layout.order[-1] in near[0].rows:
                pair = layout, StagingLayout(8, layout.order, WORD_BITS // layout.bits)
                way = _candidate(box, bits, near, pair, whole_words)
                if way is not None and way.is_good and way.step.words[0] >= 0:
                    found.append(way._replace(cost=way.cost * HALF_BLOCKS))
    if instead is not None and len(instead.steps) > 1:
        way = _in_parts(box, bits, near)
        found += [] if way is None else [way]
    best = min(found, key=lambda way: (not way.is_good, way.cost), default=None)
    if best is not None and instead is not None:
        if not (best.is_good and best.cost * box.elements < cost_of_passes(instead, box.elements * max(bits))):
            return None
    return best


def _candidate(
    box: Box, bits: tuple[int, int], near: Sequence[Near], staging: tuple[StagingLayout, ...], whole_words: bool
) -> Candidate | None:
    """The staged copy through blocks of these layouts, or None if it gains nothing."""
    lengths = block_lengths(box.axes, near, staging, bits)
    if any(layout.strides(lengths)[1] > 8 * (limits.current.staging_bytes // len(staging)) for layout in staging):
        return None
    parts = tuple(AxisRange(0, length) for length in lengths)
    words = -1, -1
    if whole_words:
        words = _words_of(box, 1, near, bits, staging[0], lengths), _words_of(box, 2, near, bits, staging[-1], lengths)
        if len(staging) == 1 and -1 not in words and box.axes[words[1]].extent % (WORD_BITS // bits[1]):
            # Words of the source would take the place of what is kept of the target's.
            words = -1, words[1]
    stages = []
    for stage in _stages(box, parts, staging, bits, words):
        if stage.is_scattered or (len(staging) > 1 and not stage.is_good):
            return None
        stages.append(stage)
    good = [stage for stage in stages if stage.is_good]
    # One stage by a kernel, and the other by the nest inside the cache, can still be better than the nest alone.
    if len(good) < len(stages) and not any(stage.is_worth_it for stage in good):
        return None
    names = ", ".join(stage.kernel for stage in stages)
    divides = bits[1] >= 8 or _divides(box, bits[1], lengths)
    step = StagedCopy(kernel=names, box=box, bits=bits, staging=staging, lengths=lengths, words=words, divides=divides)
    cost = _cost_of_block(stages, _kept(box, parts, staging, bits[1], words[1]))
    first = staging[0].order[-1]
    if first in near[0].rows and lengths[first] * bits[0] <= WORD_BITS and stages[0].kernel.startswith("transpose"):
        cost += (FAR_WORDS - 1) * stages[0].cost
    cost /= math.prod(lengths)
    # The last rows may be fewer than words hold, and then take much longer.
    for k in dict.fromkeys((*near[0].rows, *near[1].rows)):
        left = box.axes[k].extent % lengths[k]
        if left:
            fewer = (*parts[:k], AxisRange(0, left), *parts[k + 1 :])
            ends = tuple(_stages(box, fewer, staging, bits, words))
            own = _cost_of_block(ends, _kept(box, fewer, staging, bits[1], words[1]))
            share = left / box.axes[k].extent
            cost = (1 - share) * cost + share * own * lengths[k] / (left * math.prod(lengths))
    return Candidate(step, len(good) == len(stages), cost)


def _cost_of_block(stages: Sequence[_Stage], kept: _Stage | None) -> float:
    return sum(stage.cost for stage in stages) + (0.0 if kept is None else cost_of_fetched(kept.steps, kept.rest))


def _in_parts(box: Box, bits: tuple[int, int], near: Sequence[Near]) -> Candidate | None:
    """The copy by several kernels, each of which does a part of every block, or None if they leave something over."""
    order = sorted(range(len(box.axes)), key=lambda k: -nearness(box.axes[k].target))
    both = (StagingLayout(max(bits), tuple(order)),) * 2
    lengths = block_lengths(box.axes, near, both, bits)
    parts = tuple(AxisRange(0, length) for length in lengths)
    (stage,) = _stages(box, parts, (), bits, (-1, -1))
    if stage.rest or len(stage.steps) < 2 or min(bits) < 8:
        return None
    names = " + ".join(dict.fromkeys(step.kernel for step in stage.steps))
    return Candidate(
        StagedCopy(kernel=names, box=box, bits=bits, staging=(), lengths=lengths), True, stage.cost / math.prod(lengths)
    )


def _divides(box: Box, bits: int, lengths: Sequence[int]) -> bool:
    """Whether blocks of these extents never meet in a byte or word of packed elements of the target."""
    # Words that rows share are written as a whole, else bytes.
    unit = WORD_BITS if any(axis.target.unit_stride == WORD_BITS for axis in box.axes) else 8
    if box.target_base % unit:
        return False
    shared = [k for k, axis in enumerate(box.axes) if any(s % unit for m in axis.target.radix_maps for s in m.strides)]
    if len(shared) > 1:
        return False
    for k in shared:
        radix_map, each = box.axes[k].target.radix_map, WORD_BITS // bits
        if lengths[k] >= box.axes[k].extent:
            continue
        # Blocks are cut at multiples of their extents.
        if radix_map is None or lengths[k] % each or (radix_map.start - phase_of(box.axes[k], lengths[k])) % each:
            return False
    return True


def words_apart(box: Box, source_bits: int, target_bits: int) -> list[Box] | None:
    """A box as several in which words of one side that may be moved as such have an axis of their own for their rows.

    None if there are no such words, or they have it already.
    """
    near = near_axes(box, 1, source_bits), near_axes(box, 2, target_bits)
    for side, bits, own, other in zip((2, 1), (source_bits, target_bits), near, near[::-1], strict=True):
        if not own.rows or not other.lanes or other.lanes[0] in (*own.lanes, *own.rows):
            continue
        rows, each = box.axes[own.rows[0]], WORD_BITS // bits
        if side == 1 and rows.extent % each and rows.extent * nearness(rows.source) < _LEAST_CUT_BITS:
            # Full words and others would be written from the same lines of the source, one after the other.
            continue
        # The other side takes words in runs, long enough for squares of them; words of few rows only along one axis.
        lane = box.axes[other.lanes[0]].extent
        run = run_on(box, side, (source_bits, target_bits)[side - 1], own.rows[0]) if bits < 8 else lane
        if run >= limits.current.square_words and rows.extent > each:
            return split(box, own.rows[0], each)
    return None


def _words_of(
    box: Box,
    side: int,
    near: Sequence[Near],
    bits: tuple[int, int],
    layout: StagingLayout,
    lengths: Sequence[int],
) -> int:
    """The axis along which one side of a box is moved by whole words, whatever lies in them besides; -1 if none.

    Its words are those of the block, whose rows are whole words.
    """
    place, width = layout.order[-1], bits[side - 1]
    sides = [side_of(axis, side) for axis in box.axes]
    each, own = WORD_BITS // width, sides[place].radix_map
    if layout.bits != width or place not in near[side - 1].rows or own is None or own.start % each:
        return -1
    if side == 2 and width >= 8:
        # What does not fill words is written by itself.
        return -1
    base = box.source_base if side == 1 else box.target_base
    strides = [s for k, other in enumerate(sides) for m in other.radix_maps for s in m.strides[k == place :]]
    if any(s % WORD_BITS for s in (base, *strides)) or (own.sizes and own.unit % each):
        return -1
    axis, length = box.axes[place], lengths[place]
    # Blocks begin with words.
    is_cut_well = length % each == phase_of(axis, length) % each == 0
    return place if length == axis.extent or is_cut_well else -1


def _in_words(axes: Sequence[Axis], place: int, bits: int) -> tuple[Axis, ...]:
    """The axes, that at `place` as long as its words; for -1 as they are."""
    return tuple(
        axis._replace(extent=axis.extent + -axis.extent % (WORD_BITS // bits)) if k == place else axis
        for k, axis in enumerate(axes)
    )


def _kept(box: Box, parts: TaskRanges, staging: Sequence[StagingLayout], bits: int, place: int) -> _Stage | None:
    """The stage from the target to the last block of its words that are filled in part, or None."""
    left = 0 if place < 0 else (parts[place].stop - parts[place].start) % (WORD_BITS // bits)
    if not left:
        return None
    axes = [cut(axis, part.start, part.stop) for axis, part in zip(box.axes, parts, strict=True)]
    strides, size = staging[-1].strides([axis.extent for axis in axes])
    first = axes[place].extent - left
    stage = Box(box.target_base + axes[place].target.at(first), first * bits, ())
    for k, (axis, step) in enumerate(zip(axes, strides, strict=True)):
        if k != place:
            stage = stage.with_axes(len(stage.axes), [Axis(axis.extent, axis.target, evenly(step))])
    words = WORD_BITS, WORD_BITS
    return _matched(joined(stage), words, (room_of(stage, words)[0], (0, size // 8)), (True, False), sparse=True)


def _stages(
    box: Box,
    parts: TaskRanges,
    staging: Sequence[StagingLayout],
    bits: tuple[int, int],
    words: tuple[int, int],
) -> Iterator[_Stage]:
    """The stages from the source through the blocks to the target.

    No stage touches anything behind the last element in the source and the target, or behind the last word along the
    axes `words`, nor behind a block.
    """
    axes = tuple(cut(axis, part.start, part.stop) for axis, part in zip(box.axes, parts, strict=True))
    widths = bits[0], *(layout.bits for layout in staging), bits[1]
    lengths = [axis.extent for axis in axes]
    strides = [layout.strides(lengths) for layout in staging]
    dense = [[evenly(step) for step in steps] for steps, _ in strides]
    sides = [axis.source for axis in axes], *dense, [axis.target for axis in axes]
    for k in range(len(staging) + 1):
        stage = Box(0 if k else box.source_base, box.target_base if k == len(staging) else 0, ())
        own = axes
        if k in (0, len(staging)):
            own = _in_words(axes, words[k > 0], bits[k > 0])
        elif staging[k].row_elements > 1:
            # Words and their elements, all side by side.
            own = _in_words(axes, words[0], bits[0])
        for axis, source, target in zip(own, sides[k], sides[k + 1], strict=True):
            stage = stage.with_axes(len(stage.axes), [Axis(axis.extent, source, target)])
        first, last = room_of(stage, widths[k : k + 2])
        room = (0, strides[k - 1][1] // 8) if k else first, (0, strides[k][1] // 8) if k < len(staging) else last
        in_memory = k == 0, k == len(staging)
        yield _matched(joined(stage), widths[k : k + 2], room, in_memory, packed=min(widths) < 8)


def _matched(
    box: Box,
    bits: tuple[int, ...],
    room: Spans,
    in_memory: tuple[bool, bool],
    *,
    packed: bool = False,
    sparse: bool = False,
) -> _Stage:
    source_bits, target_bits = bits
    found = match(box, source_bits, target_bits, sparse=sparse, room=room)
    if found is None:
        return _Stage((), ((box, (source_bits, target_bits)),), in_memory=in_memory)
    steps = tuple(step.between(in_memory) for step in found.steps)
    return _Stage(steps, found.rest, packed and min(bits) == 8, in_memory)
