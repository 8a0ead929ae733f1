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

from strided.kernels import SHORT_ROW_BYTES
from strided.planning.axis_maps import evenly
from strided.planning.boxes import Axis, Box, Spans, cut, joined, room_of, split
from strided.planning.nest_step import NestStep, nest_step_of
from strided.planning.offset_tables import (
    AxisRange,
    TaskRanges,
    boxes_of,
    length_of,
    nearness,
    phase_of,
    tile_period_of,
)
from strided.planning.select_kernel import WORD_BITS, Matched, match
from strided.planning.vector_step import VectorStep
from strided.runtime import limits

#: Time of a kernel in the cache for each bit on its wider side, `rows` being 1. Measured: see docs/maintainers.md.
_COST = {
    "deinterleave8": 1.15,
    "interleave8": 1.3,
    "deinterleave_bits": 1.2,
    "interleave_bits": 1.0,
    "unpack": 1.05,
    "pack": 1.0,
    "pack_words": 1.0,
    "transpose64": 1.15,
    "transpose32": 1.5,
    "transpose16": 1.55,
    "transpose8": 1.85,
    "transpose_runs": 1.5,
}
#: Those that turn squares, and the time that a bit of a square takes which is not there.
_SQUARES = {"transpose64", "transpose32", "transpose16", "transpose8"}
_GAP_COST = 0.75
#: The time that a kernel takes for each run that it writes alone and that is shorter than two lines, in bits; and a
#: transposition whose runs lie on few pages, or at few places of many, where they fight for the same few lines of the
#: caches, or follow each other only as far as they share words of the source.
_RUN_COST, _NEAR_RUN_COST, _ALIKE_RUN_COST, _WORD_RUN_COST = 1000.0, 500.0, 2500.0, 1500.0
_LONG_RUN_BITS = 1024
#: The same for each row that is copied as one, and besides if it lies in memory, apart from others; on its own line.
_SHORT_ROW_COST, _APART_COST, _FAR_COST = 60.0, 25.0, 400.0
#: The same for each run that is packed or unpacked, up to eight times as long.
_PACKED_RUN_COST = 1500.0
#: The same for each word that `pack_words` fills.
_FILLED_WORD_COST = 150.0
#: The time that a bit takes which comes from memory once more, for a second step.
_AGAIN = 0.75
#: The part of a box that a second step may take without being compared with other ways: one of so many.
LITTLE_LEFT = 256
#: How much longer a transposition takes that reads words alone: of each tile it wants few at a time.
_FAR_WORDS = 1.1
#: How much longer stages take between two blocks, of which each is half as large.
_HALF_BLOCKS = 1.25
#: The time that a kernel takes for each element that the nest moves, in bits.
_NEST_COST = 400.0
_NEST_BITS_COST = 4000.0
#: The same for each word that the nest fetches from the target: it waits for memory.
_FETCH_COST = 3000.0


class StagingLayout(NamedTuple):
    """The layout of a block: dense, rows in whole words.

    Attributes
    ----------
    bits : int
        Bits of one element.
    order : tuple of int
        Places of the axes, the contiguous one last.
    row_elements : int
        Elements of which a row has a multiple, if not those of a word.
    """

    bits: int
    order: tuple[int, ...]
    row_elements: int = 1

    def strides(self, lengths: Sequence[int]) -> tuple[list[int], int]:
        """The step of every axis in a block of these extents, and the size of the block, in bits."""
        stride, strides = self.bits, [0] * len(self.order)
        for k in reversed(self.order):
            strides[k] = stride
            stride *= lengths[k]
            if k == self.order[-1]:
                stride += -stride % max(WORD_BITS, self.row_elements * self.bits)
        return strides, stride


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
        return f"{self.kernel} over {extents} in blocks of {lengths}, {self.bits[1]} bits each"

    def tasks(self) -> Iterator[TaskRanges]:
        """Boxes for threads to share, one block each."""
        axes = self.box.axes
        order = sorted(range(len(axes)), key=lambda k: -nearness(axes[k].target))
        return boxes_of(axes, order, self.lengths, self.lengths)

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
        near = nest.axes[nest.q]
        return nest.kernel == "nest_bits" and (near.source.unit_stride, near.target.unit_stride) != (1, 1)

    @property
    def is_good(self) -> bool:
        """Whether vector kernels do nearly all of it."""
        done = sum(step.elements * step.bits for step in self.steps)
        return 4 * sum(box.elements * min(bits) for box, bits in self.rest) <= done > 0

    @property
    def cost(self) -> float:
        """The time it takes, about: bits moved, each weighted by its kernel."""
        return _cost(self.steps, self.rest, self.in_memory)


def _cost(
    steps: Sequence[VectorStep],
    rest: Sequence[tuple[Box, tuple[int, int]]],
    in_memory: tuple[bool, bool] | None = None,
) -> float:
    if in_memory is None and steps:
        spans = [last - first for first, last in steps[0].spans]
        in_memory = spans[0] >= limits.current.staging_bytes, spans[1] >= limits.current.staging_bytes
    return sum(step.elements * max(step.widths) * _bit_cost(step, in_memory) for step in steps) + sum(
        box.elements * (_NEST_COST if min(bits) >= 8 else _NEST_BITS_COST) for box, bits in rest
    )


def _bit_cost(step: VectorStep, in_memory: tuple[bool, bool] | None) -> float:
    cost = _COST.get(step.kernel, 1.0)
    if step.kernel in _SQUARES:
        cost += _GAP_COST * (1 / step.fullness - 1)
    run, long = _RUN_COST, _LONG_RUN_BITS
    if step.kernel == "pack_words":
        run = _FILLED_WORD_COST
    elif step.kernel in ("pack", "unpack"):
        run, long = _PACKED_RUN_COST, 8 * _LONG_RUN_BITS
    elif step.kernel == "short_rows":
        run = _short_row_cost(step, in_memory)
    if step.is_transposition:
        places = step.run_places
        run = _RUN_COST if places > 8 else _ALIKE_RUN_COST if places else _NEAR_RUN_COST
        if step.goes_on_in_words:
            run, long = _WORD_RUN_COST, 3 * _LONG_RUN_BITS
    if 0 < step.run_bits < long:
        cost += run * (1 / step.run_bits - 1 / long)
    return cost


def _short_row_cost(step: VectorStep, in_memory: tuple[bool, bool] | None) -> float:
    cost = _SHORT_ROW_COST
    for side, far in zip(step.axes[step.row][1:], in_memory or (False, False), strict=True):
        apart = 8 * abs(side.unit_stride)
        if far and apart != step.run_bits:
            cost += _APART_COST if apart <= limits.current.line_bits else _FAR_COST
    return cost


def staged_copy_of(
    box: Box,
    source_bits: int,
    target_bits: int,
    *,
    may_pack: bool = True,
    whole_words: bool = True,
    instead: Matched | None = None,
) -> StagedCopy | None:
    """The cheapest staged copy of a box, or None; None, too, if it takes longer than what it is `instead` of.

    `may_pack` is false if packed elements lie in opposite orders on the two sides; `whole_words` if nothing behind the
    last element may be touched.
    """
    bits = source_bits, target_bits
    widths = [max(8, *bits)]
    if may_pack and min(bits) < 8:
        # Several packed elements can be moved as one.
        widths.append(min(bits))
    near = _near(box, 1, bits[0]), _near(box, 2, bits[1])
    keys = list(dict.fromkeys(k for side in near for k in (*side.lanes, *side.rows)))
    rest = [k for k in range(len(box.axes)) if k not in keys]
    staging = [
        StagingLayout(w, (*rest, *(k for k in reversed(keys) if k != lane), lane)) for w in widths for lane in keys
    ]
    for side, width in enumerate(bits):
        rows = near[side].rows
        if rows and box.axes[rows[0]].extent <= WORD_BITS // width and width in widths:
            # Words as they are, in the order of the other side: taken apart there, they make its long runs.
            far = [-nearness(axis.source if side else axis.target) for axis in box.axes]
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
                    found.append(way._replace(cost=way.cost * _HALF_BLOCKS))
    if instead is not None and len(instead.steps) > 1:
        way = _in_parts(box, bits, near)
        found += [] if way is None else [way]
    best = min(found, key=lambda way: (not way.is_good, way.cost), default=None)
    if best is not None and instead is not None:
        # Each of several steps goes through memory: through all of it, or so many lines.
        whole = box.elements * max(bits)
        others = sum(
            _AGAIN * min(whole, step.elements * step.bits * limits.current.line_bits // max(1, step.run_bits))
            for step in instead.steps[1:]
        )
        if not (best.is_good and best.cost * box.elements < _cost(*instead) + others):
            return None
    return None if best is None else best.step


def leaves_gaps(found: Matched) -> bool:
    """Whether other ways may be better: squares far from full, words or rows of little, or much that is left over."""
    first, *others = found.steps
    own, left = (sum(step.elements * max(step.widths) for step in steps) for steps in ([first], others))
    if LITTLE_LEFT * left >= own:
        return True
    full = (own + left) * _COST.get(first.kernel, 1.0)
    return first.kernel in _SQUARES | {"pack_words", "short_rows"} and _cost(*found) > 1.5 * full


class _Candidate(NamedTuple):
    """A staged copy, whether vector kernels do nearly all of it, and about how long an element takes."""

    step: StagedCopy
    is_good: bool
    cost: float


def _candidate(
    box: Box, bits: tuple[int, int], near: Sequence[_Near], staging: tuple[StagingLayout, ...], whole_words: bool
) -> _Candidate | None:
    """The staged copy through blocks of these layouts, or None if it gains nothing."""
    lengths = _lengths(box.axes, near, staging, bits)
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
    kept = _kept(box, parts, staging, bits[1], words[1])
    cost = sum(stage.cost for stage in stages)
    if kept is not None:
        cost += _cost(kept.steps, ()) + _FETCH_COST * sum(words.elements for words, _ in kept.rest)
    first = staging[0].order[-1]
    if first in near[0].rows and lengths[first] * bits[0] <= WORD_BITS and stages[0].kernel.startswith("transpose"):
        cost += (_FAR_WORDS - 1) * stages[0].cost
    return _Candidate(step, len(good) == len(stages), cost / math.prod(lengths))


def _in_parts(box: Box, bits: tuple[int, int], near: Sequence[_Near]) -> _Candidate | None:
    """The copy by several kernels, each of which does a part of every block, or None if they leave something over."""
    order = sorted(range(len(box.axes)), key=lambda k: -nearness(box.axes[k].target))
    both = (StagingLayout(max(bits), tuple(order)),) * 2
    lengths = _lengths(box.axes, near, both, bits)
    parts = tuple(AxisRange(0, length) for length in lengths)
    (stage,) = _stages(box, parts, (), bits, (-1, -1))
    if stage.rest or len(stage.steps) < 2 or min(bits) < 8:
        return None
    names = " + ".join(dict.fromkeys(step.kernel for step in stage.steps))
    return _Candidate(
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


class _Near(NamedTuple):
    """The axes along which elements of one side are neighbours, and those whose rows share words there."""

    lanes: list[int]
    rows: list[int]


def _near(box: Box, side: int, bits: int) -> _Near:
    """The nearest axes of one side of a box (1 source, 2 target), for elements of `bits`."""
    sides = [axis.source if side == 1 else axis.target for axis in box.axes]
    near = [k for k, own in enumerate(sides) if own.unit_stride == bits]
    words = [k for k, own in enumerate(sides) if own.unit_stride == WORD_BITS]
    each = WORD_BITS // bits if bits < WORD_BITS and words else 0
    rows = [k for k in near if each in (m.unit for m in sides[k].radix_maps) or box.axes[k].extent <= each]
    # Without neighbours, every row is the only one of its words.
    return (
        _Near([*words, *(k for k in near if k not in rows)], rows) if each and (rows or not near) else _Near(near, [])
    )


def _run(box: Box, side: int, bits: int, apart: int) -> int:
    """The elements of a run on one side (1 source, 2 target) along all axes but the one at `apart`."""
    own = [(axis.source if side == 1 else axis.target, axis.extent) for k, axis in enumerate(box.axes) if k != apart]
    run = 1
    for axis_map, extent in sorted(own, key=lambda pair: nearness(pair[0])):
        if axis_map.unit_stride != run * bits:
            break
        run *= axis_map.unit or extent
    return run


def words_apart(box: Box, source_bits: int, target_bits: int) -> list[Box] | None:
    """A box as several in which words of one side that may be moved as such have an axis of their own for their rows.

    None if there are no such words, or they have it already.
    """
    near = _near(box, 1, source_bits), _near(box, 2, target_bits)
    for side, bits, own, other in zip((2, 1), (source_bits, target_bits), near, near[::-1], strict=True):
        if not own.rows or not other.lanes or other.lanes[0] in (*own.lanes, *own.rows):
            continue
        # The other side takes words in runs, long enough for squares of them; words of few rows only along one axis.
        lane = box.axes[other.lanes[0]].extent
        run = _run(box, side, (source_bits, target_bits)[side - 1], own.rows[0]) if bits < 8 else lane
        if run >= limits.current.square_words and box.axes[own.rows[0]].extent > WORD_BITS // bits:
            return split(box, own.rows[0], WORD_BITS // bits)
    return None


def _lengths(
    axes: Sequence[Axis], near: Sequence[_Near], staging: Sequence[StagingLayout], bits: tuple[int, int]
) -> tuple[int, ...]:
    """The extents of a block: long along contiguous axes, short along rows of words."""
    widest = max(layout.bits for layout in staging)
    budget = limits.current.staging_bytes // len(staging) * 8 // widest
    word = max(1, WORD_BITS // min(layout.bits for layout in staging))
    lanes = tuple(layout.order[-1] for layout in staging)
    long = limits.current.staging_lane_bytes * 8 // widest
    source, target = near
    goals = [
        *((k, 128) for k in lanes),
        *((k, max(tile_period_of(axes[k]), WORD_BITS // min(bits))) for k in (*source.rows, *target.rows)),
        *((k, min(8, tile_period_of(axes[k]))) for k in range(len(axes))),
        *((k, 8) for k in (*source.lanes, *target.lanes) if k not in lanes),
        # Short rows of the target are then written whole, one after the other. Words make long pieces by their rows
        # already: a side without them comes first.
        *((k, axes[k].extent if is_short_row(axes[k], bits[1]) else 256) for k in target.lanes if not target.rows),
        *((k, 256) for k in source.lanes if not source.rows),
        *((k, axes[k].extent if is_short_row(axes[k], WORD_BITS) else 256) for k in target.lanes if target.rows),
        # Tiles of words are long pieces already: then rows of the target, whose ends are written twice.
        *((k, 8 * SHORT_ROW_BYTES // bits[1]) for k in target.lanes if source.rows and not target.rows),
        *_onward(axes, 2, target, bits[1]),
        *_onward(axes, 1, source, bits[0]),
        *((k, long) for k in (*lanes, *source.lanes, *target.lanes)),
        *((k, budget) for k in (*source.lanes, *target.lanes, *reversed(staging[0].order))),
    ]
    lengths = [1] * len(axes)
    for k, goal in goals:
        # Runs take whole words, and threads do not meet in those of the target.
        multiple = word if k in lanes else 1
        others = math.prod(-(-n // word) * word if i in lanes else n for i, n in enumerate(lengths) if i != k)
        room = budget // others // multiple * multiple
        apart = WORD_BITS // bits[1] if axes[k].target.unit_stride == bits[1] < 8 else 1
        lengths[k] = max(lengths[k], length_of(axes[k], min(goal, room), apart))
    return tuple(min(length, axis.extent) for length, axis in zip(lengths, axes, strict=True))


def _onward(axes: Sequence[Axis], side: int, near: _Near, bits: int) -> Iterator[tuple[int, int]]:
    """The axes along which short rows of one side (1 source, 2 target) go on, and how far, until they are long."""
    steps = [(axis.source if side == 1 else axis.target).unit_stride for axis in axes]
    run = axes[near.lanes[0]].extent * bits if near.lanes and not near.rows else 0
    while 0 < run < 8 * limits.current.long_row_bytes:
        on = [k for k, axis in enumerate(axes) if axis.extent > 1 and steps[k] == run]
        if not on:
            return
        yield on[0], 8 * limits.current.long_row_bytes // run
        run *= axes[on[0]].extent


def is_short_row(axis: Axis, bits: int) -> bool:
    """Whether an axis that is contiguous in the target is one short run there."""
    return axis.extent * bits <= 8 * SHORT_ROW_BYTES and not any(m.sizes for m in axis.target.radix_maps)


def _words_of(
    box: Box,
    side: int,
    near: Sequence[_Near],
    bits: tuple[int, int],
    layout: StagingLayout,
    lengths: Sequence[int],
) -> int:
    """The axis along which one side of a box is moved by whole words, whatever lies in them besides; -1 if none.

    Its words are those of the block, whose rows are whole words.
    """
    place, width = layout.order[-1], bits[side - 1]
    sides = [axis.source if side == 1 else axis.target for axis in box.axes]
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
    return place if lengths[place] in (box.axes[place].extent, lengths[place] // each * each) else -1


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
