"""Words that rows share on both sides of a copy, along another axis on each: their steps.

As many words as rows share one are a square of elements, of which rows and columns change places. Where the words of
both sides lie along the same axis, the plan chooses ``exchange``; where those of one side lie along the rows of the
other, ``transpose_words``, or ``transpose_pairs`` for many of 16 bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from strided.planning.axis_maps import evenly
from strided.planning.box_steps import Case, case_of, is_short, step_of, transposed
from strided.planning.boxes import WORD_BITS, Axis, Box, Spans, cut, grouped, split
from strided.planning.longer_runs import is_run
from strided.planning.vector_step import VectorStep

#: Rows and columns of 16 bits from which on pairs of words are turned by squares of them.
_MANY_PAIRS = 96


class Turned(NamedTuple):
    """The steps that turn words, and boxes left over."""

    steps: tuple[VectorStep, ...]
    left: tuple[Box, ...] = ()


def words_turned(asked: Case, room: Spans | None) -> Turned | None:
    """The steps of words that rows share on both sides, along another axis on each; None if no kernel takes them.

    `room` as for `select_kernel.match`.
    """
    box, inner, other, bits, target_bits = asked
    side = WORD_BITS // bits
    rows, columns = box.axes[inner], box.axes[other]
    if bits != target_bits or side < 2 or inner == other:
        return None
    if rows.source.unit_stride != bits or columns.target.unit_stride != bits:
        return None
    first = grouped(box, inner, side)
    second = None if first is None else grouped(first[0], other, side)
    if first is None or second is None:
        return None
    apart = second[1].source.unit_stride, first[1].target.unit_stride
    if not (is_run(first[1], (bits, apart[1])) and is_run(second[1], (apart[0], bits))):
        return None
    if apart != (WORD_BITS, WORD_BITS):
        counts = rows.extent, columns.extent
        found = _exchanged(second[0], (inner, other), counts, bits, apart)
    elif bits == 16 and (rows.extent % 2 or columns.extent % 2) and min(rows.extent, columns.extent) >= _MANY_PAIRS:
        return _pairs_turned(asked, room)
    else:
        members = (rows.extent - 1) % side + 1, (columns.extent - 1) % side + 1
        step = _transpose_words(second[0], inner, other, bits, members)
        found = () if step is None else (step,)
    return Turned(found) if found and (room is None or all(_is_inside(step, room) for step in found)) else None


def _exchanged(
    box: Box, places: tuple[int, int], counts: tuple[int, int], bits: int, apart: tuple[int, int]
) -> tuple[VectorStep, ...]:
    """The steps that move words along the same lanes on both sides, those of full squares first; none if they cannot.

    At `places` the box has words of which rows share those of the source, and those of the target: as many rows as
    `counts` says. Words of a square lie `apart`, in the source and in the target.
    """
    side = WORD_BITS // bits
    steps = []
    for ranges in itertools.product(*(_full_and_rest(count, side) for count in counts)):
        part, members = box, (ranges[0][2], ranges[1][2])
        # From the last place on, for an axis of a single index is left out.
        for place, (start, stop, _) in sorted(zip(places, ranges, strict=True), reverse=True):
            part = part.with_axes(place, [cut(part.axes[place], start, stop)])
        found = case_of(part, WORD_BITS, WORD_BITS)
        if found is None or found.near_source != found.near_target:
            return ()
        lane = found.near_source
        if is_short(part, lane, WORD_BITS) or {own.unit_stride for own in part.axes[lane][1:]} != {WORD_BITS}:
            return ()
        words = Axis(max(members), *map(evenly, apart))
        whole = part._replace(axes=(*part.axes, words))
        step = step_of(f"exchange{bits}", whole, WORD_BITS, len(part.axes), lane, members=members)
        if step is None:
            return ()
        steps.append(step)
    return tuple(steps)


def _full_and_rest(count: int, side: int) -> Iterator[tuple[int, int, int]]:
    """The words that so many rows fill, from and to, with the rows of each; then the one that the others share."""
    full, left = divmod(count, side)
    if full:
        yield 0, full, side
    if left:
        yield full, full + 1, left


def _transpose_words(box: Box, inner: int, other: int, bits: int, members: tuple[int, int]) -> VectorStep | None:
    """The step that moves squares which are runs of words on both sides, as single elements.

    At `inner` the box has groups of rows that share words of the source, at `other` those of rows that share words of
    the target; `members` tells how many of its last ones are there.
    """
    wide = WORD_BITS // bits * WORD_BITS
    for place in (inner, other):
        axis = box.axes[place]
        if axis.extent == 1:
            # Whatever follows a single square, it is a run.
            alone = Axis(1, evenly(wide), evenly(wide))
            bases = box.source_base + axis.source.at(0), box.target_base + axis.target.at(0)
            box = Box(*bases, (*box.axes[:place], alone, *box.axes[place + 1 :]))
    kernel = f"transpose_words{bits}"
    if members == (WORD_BITS // bits,) * 2:
        step = transposed(Case(box, other, inner, wide, wide), kernel)
        if bits == 16 and step is not None and _are_many(step):
            step = replace(step, kernel="transpose_pairs")
    elif box.axes[other].source.unit_stride == box.axes[inner].target.unit_stride == wide:
        step = step_of(kernel, box, wide, inner, other)
    else:
        return None
    return None if step is None else replace(step, members=members)


def _are_many(step: VectorStep) -> bool:
    """Whether a transposition of pairs of words has long runs on both sides."""
    return min(step.square_runs) * 2 >= _MANY_PAIRS


def _pairs_turned(asked: Case, room: Spans | None) -> Turned | None:
    """The steps that turn words of two rows, where rows or words on either side are odd: those leave something over."""
    box, inner, other, bits, _ = asked
    boxes = [box]
    for place in sorted((inner, other), reverse=True):
        parts = [split(part, place, 2) for part in boxes]
        boxes = [each for found in parts for each in found or ()]
        if None in parts:
            return None
    whole = max(boxes, key=lambda part: part.elements)
    pairs = case_of(whole, bits, bits)
    if pairs is None or any(whole.axes[k].extent != 2 for k in (pairs.near_source, pairs.near_target)):
        return None
    found = words_turned(pairs, room)
    return None if found is None else found._replace(left=tuple(part for part in boxes if part is not whole))


def _is_inside(step: VectorStep, room: Spans) -> bool:
    """Whether all bytes that a step touches may be."""
    return all(own[0] <= low and high <= own[1] for (low, high), own in zip(step.spans, room, strict=True))
