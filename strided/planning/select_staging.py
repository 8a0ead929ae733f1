"""Which staged copy of a box is the best: every layout of the blocks that may do is planned, and costs decide."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from strided.planning.access_order import farthest_first
from strided.planning.boxes import WORD_BITS, Box, side_of, split
from strided.planning.cost_model import FAR_WORDS, HALF_BLOCKS, NO_GAPS, cost_of_fetched, cost_of_passes
from strided.planning.select_kernel import Matched
from strided.planning.staged_step import StagedCopy
from strided.planning.stages import Stage, kept_of, stages_of
from strided.planning.staging_layout import Near, StagingLayout, block_lengths, near_axes, run_on
from strided.planning.task_ranges import TaskRanges, first_ranges, phase_of, word_multiple
from strided.runtime import limits

#: Bits of the source below which a run is better read once than in two parts.
_LEAST_CUT_BITS = 8 * 512


class Candidate(NamedTuple):
    """A staged copy, whether vector kernels do nearly all of it, and about how long an element takes."""

    step: StagedCopy
    is_good: bool
    cost: float


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
    near = near_axes(box, 1, source_bits), near_axes(box, 2, target_bits)
    found = list(_candidates(box, bits, near, may_pack, whole_words))
    if instead is not None and len(instead.steps) > 1:
        way = _in_parts(box, bits, near)
        found += [] if way is None else [way]
    best = min(found, key=lambda way: (not way.is_good, way.cost), default=None)
    if best is not None and instead is not None:
        if not (best.is_good and best.cost * box.elements < cost_of_passes(instead, box.elements * max(bits))):
            return None
    return best


def _candidates(
    box: Box, bits: tuple[int, int], near: tuple[Near, Near], may_pack: bool, whole_words: bool
) -> Iterator[Candidate]:
    """The staged copies of a box through one block, and those through two that vector kernels do."""
    staging, without_gaps = _layouts_of(box, bits, near, may_pack)
    least = math.inf
    for layout in staging:
        way = _candidate(box, bits, near, (layout,), whole_words)
        if way is not None:
            least = min(least, way.cost) if way.is_good else least
            yield way
    if max(bits) < 8:
        # To plan a pair takes long: first come those that may be the best.
        for pair in sorted(_pairs_of(staging, without_gaps), key=lambda pair: _least_cost(bits, pair)):
            if _least_cost(bits, pair) >= least:
                break
            way = _candidate(box, bits, near, pair, whole_words)
            if way is not None and way.is_good:
                least = min(least, way.cost)
                yield way
    elif bits[0] < 8:
        # Words that rows share are unpacked all at once.
        for layout in staging:
            if layout.bits < 8 and layout.order[-1] in near[0].rows:
                pair = layout, StagingLayout(8, layout.order, 8 * WORD_BITS // layout.bits)
                way = _candidate(box, bits, near, pair, whole_words)
                if way is not None and way.is_good and way.step.words[0] >= 0:
                    yield way._replace(cost=way.cost * HALF_BLOCKS)


def _layouts_of(
    box: Box, bits: tuple[int, int], near: tuple[Near, Near], may_pack: bool
) -> tuple[list[StagingLayout], list[StagingLayout]]:
    """The layouts that a block may have, each nearest axis contiguous in some; and those of them without gaps."""
    # Several packed elements can be moved as one.
    widths = [max(8, *bits), *([min(bits)] if may_pack and min(bits) < 8 else [])]
    keys = list(dict.fromkeys(k for side in near for k in (*side.lanes, *side.rows)))
    rest = [k for k in range(len(box.axes)) if k not in keys]
    staging = [
        StagingLayout(w, (*rest, *(k for k in reversed(keys) if k != lane), lane)) for w in widths for lane in keys
    ]
    if rest and _is_small(box, bits, near):
        # Many small matrices: each is a column of the block, whose rows are then long.
        long = max(rest, key=lambda k: box.axes[k].extent)
        outer = [k for k in rest if k != long]
        staging += [StagingLayout(widths[0], (*outer, *order, long)) for order in (keys, keys[::-1])]
    without_gaps = []
    for side, width, own, other in zip((1, 2), bits, near, near[::-1], strict=True):
        rows = own.rows
        if rows and box.axes[rows[0]].extent <= WORD_BITS // width and width in widths:
            # Words as they are, in the order of the other side: taken apart there, they make its long runs.
            others = (k for k in farthest_first(box.axes, 3 - side) if k != rows[0])
            staging.append(StagingLayout(width, (*others, rows[0])))
        words = *other.rows[:1], *other.lanes[:1], *rows[:1]
        if len(set(words)) == 3 and width in widths:
            # Words of one side in rows of those of the other: squares of them are turned in the block, or on the way.
            staging.append(StagingLayout(width, (*(k for k in (*rest, *keys) if k not in words), *words)))
        if keys and width < 8:
            # Short rows that begin inside of bytes follow each other in the block as they do on this side.
            without_gaps.append(StagingLayout(8, tuple(farthest_first(box.axes, side)), 8))
    return list(dict.fromkeys([*staging, *without_gaps])), without_gaps


def _is_small(box: Box, bits: tuple[int, int], near: Sequence[Near]) -> bool:
    """Whether the axes that are nearest on the two sides make a matrix of short rows and columns, of less than a line.

    Rows that share words may be those of one word, but not of several: these are taken apart better.
    """
    extents = [box.axes[k].extent for side in near for k in (*side.lanes, *side.rows)]
    shared = [box.axes[k].extent * width for side, width in zip(near, bits, strict=True) for k in side.rows]
    is_short = bool(extents) and max(extents) * max(bits) < limits.current.line_bits
    return min(bits) >= 8 and is_short and max(shared, default=0) <= WORD_BITS


def _pairs_of(
    staging: Iterable[StagingLayout], without_gaps: Sequence[StagingLayout]
) -> Iterator[tuple[StagingLayout, StagingLayout]]:
    """The layouts of two blocks. Those `without_gaps`, in the orders of the two sides, come next to their side.

    The other way round they are never the best.
    """
    source, target = without_gaps if len(set(without_gaps)) == 2 else (None, None)
    for first, second in itertools.permutations(staging, 2):
        if first != target and second != source:
            yield first, second


def _least_cost(bits: tuple[int, int], staging: Sequence[StagingLayout]) -> float:
    """The least time that an element takes through blocks of these layouts: that of `rows` in each stage."""
    widths = [bits[0], *(layout.bits for layout in staging), bits[1]]
    return sum(map(max, itertools.pairwise(widths)))


def _candidate(
    box: Box, bits: tuple[int, int], near: Sequence[Near], staging: tuple[StagingLayout, ...], whole_words: bool
) -> Candidate | None:
    """The staged copy through blocks of these layouts, or None if it gains nothing."""
    lengths = block_lengths(box.axes, near, staging, bits)
    # An eighth more is for lines between rows.
    if any(layout.strides(lengths)[1] > 9 * (limits.current.staging_bytes // len(staging)) for layout in staging):
        return None
    parts = first_ranges(lengths)
    words = -1, -1
    if whole_words:
        words = _words_of(box, 1, near, bits, staging[0], lengths), _words_of(box, 2, near, bits, staging[-1], lengths)
        if len(staging) == 1 and -1 not in words and box.axes[words[1]].extent % (WORD_BITS // bits[1]):
            # Words of the source would take the place of what is kept of the target's.
            words = -1, words[1]
    stages = []
    for stage in stages_of(box, parts, staging, bits, words):
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
    return Candidate(step, len(good) == len(stages), _cost_of_element(step, near, stages))


def _cost_of_element(step: StagedCopy, near: Sequence[Near], stages: Sequence[Stage]) -> float:
    """The time that an element takes, about; `stages` are those of a whole block."""
    lengths, first = step.lengths, step.staging[0].order[-1]
    parts, elements = first_ranges(lengths), math.prod(lengths)
    cost = _cost_of_block(step, parts, stages)
    is_turned = bool(stages[0].steps) and stages[0].steps[0].is_transposition
    if first in near[0].rows and lengths[first] * step.bits[0] <= WORD_BITS and is_turned:
        cost += (FAR_WORDS - 1) * stages[0].cost
    cost /= elements
    # The last rows may be fewer than words hold, and then take much longer.
    for k in dict.fromkeys((*near[0].rows, *near[1].rows)):
        extent = step.box.axes[k].extent
        if left := extent % lengths[k]:
            fewer = first_ranges([*lengths[:k], left, *lengths[k + 1 :]])
            ends = _cost_of_block(step, fewer, stages_of(step.box, fewer, step.staging, step.bits, step.words))
            cost = (1 - left / extent) * cost + ends / elements * lengths[k] / extent
    return cost if all(layout.has_gaps for layout in step.staging) else NO_GAPS * cost


def _cost_of_block(step: StagedCopy, parts: TaskRanges, stages: Iterable[Stage]) -> float:
    """The time that a block takes, about, with what is fetched of words of the target."""
    kept = kept_of(step.box, parts, step.staging, step.bits[1], step.words[1])
    return sum(stage.cost for stage in stages) + (0.0 if kept is None else cost_of_fetched(kept.steps, kept.rest))


def _in_parts(box: Box, bits: tuple[int, int], near: Sequence[Near]) -> Candidate | None:
    """The copy by several kernels, each of which does a part of every block, or None if they leave something over."""
    both = (StagingLayout(max(bits), tuple(farthest_first(box.axes, 2))),) * 2
    lengths = block_lengths(box.axes, near, both, bits)
    parts = first_ranges(lengths)
    (stage,) = stages_of(box, parts, (), bits, (-1, -1))
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
        axis, own = box.axes[k], box.axes[k].target.radix_map
        if lengths[k] >= axis.extent:
            continue
        # Blocks are cut at multiples of their extents, which are to be places where words begin.
        whole = word_multiple(axis, WORD_BITS // bits)
        if own is None or any(s % unit for s in own.strides[1:]):
            return False
        if lengths[k] % whole or (own.start - phase_of(axis, lengths[k])) % whole:
            return False
    return True


def words_apart(box: Box, source_bits: int, target_bits: int) -> list[Box] | None:
    """A box as several in which words of one side that may be moved as such have an axis of their own for their rows.

    Or those that are words on both sides, apart from the last, which rows fill in part. None if there are no such
    words, or they have it already.
    """
    near = near_axes(box, 1, source_bits), near_axes(box, 2, target_bits)
    is_packed_anew = target_bits < source_bits
    for side, bits, own, other in zip((2, 1), (source_bits, target_bits), near, near[::-1], strict=True):
        if not own.rows or not other.lanes:
            continue
        rows, each = box.axes[own.rows[0]], WORD_BITS // bits
        is_cut = own.rows[0] in other.rows and rows.extent > each and rows.extent % each > 0
        if bits < 8 and is_cut and not is_packed_anew:
            # Words are moved as they are, but for those that rows fill in part. Bytes are put into words as fast whole.
            return split(box, own.rows[0], each)
        if other.lanes[0] in (*own.lanes, *own.rows):
            continue
        if side == 1 and rows.extent % each and rows.extent * rows.source.distance < _LEAST_CUT_BITS:
            # Full words and others would be written from the same lines of the source, one after the other.
            continue
        # The other side takes words in runs, long enough for squares of them; words of few rows only along one axis.
        lane = box.axes[other.lanes[0]].extent
        run = run_on(box, side, (source_bits, target_bits)[side - 1], own.rows[0]) if bits < 8 else lane
        if run >= limits.current.square_words and rows.extent > each:
            return split(box, own.rows[0], each)
    return None


def squares_apart(box: Box, bits: int) -> list[Box] | None:
    """A box of packed rows, along another axis on each side, as several whose words have axes of their own on both.

    As many words in a column as each holds elements are then a square, as they are where rows share words. None if the
    box has no such rows, not all of them begin with words, or those of one side are single words.
    """
    near = near_axes(box, 1, bits), near_axes(box, 2, bits)
    if bits >= 8 or any(own.rows or not own.lanes for own in near) or near[0].lanes[0] == near[1].lanes[0]:
        return None
    places, each = [own.lanes[0] for own in near], WORD_BITS // bits
    if any(box.axes[place].extent <= each for place in places):
        return None
    for side, place in zip((1, 2), places, strict=True):
        others = (side_of(axis, side) for k, axis in enumerate(box.axes) if k != place)
        steps = (stride for other in others for m in other.radix_maps for stride in m.strides)
        if any(step % WORD_BITS for step in (box.base(side), *steps)):
            return None
    boxes = [box]
    # From the last place on, for each split adds an axis.
    for place in sorted(places, reverse=True):
        found = [split(part, place, each) for part in boxes]
        boxes = [part for parts in found if parts is not None for part in parts]
        if None in found:
            return None
    return boxes


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
    is_whole = layout.bits == width and layout.has_gaps
    if not is_whole or place not in near[side - 1].rows or own is None or own.start % each:
        return -1
    if side == 2 and width >= 8:
        # What does not fill words is written by itself.
        return -1
    strides = [s for k, other in enumerate(sides) for m in other.radix_maps for s in m.strides[k == place :]]
    if any(s % WORD_BITS for s in (box.base(side), *strides)) or (own.sizes and own.unit % each):
        return -1
    axis, length = box.axes[place], lengths[place]
    # Blocks begin with words.
    is_cut_well = length % each == phase_of(axis, length) % each == 0
    return place if length == axis.extent or is_cut_well else -1
