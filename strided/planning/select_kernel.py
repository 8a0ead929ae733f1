"""Which kernel suits a box: its two nearest axes decide.

The nearest axis of a side is the one with the smallest step. If both sides have the same one, whole runs are copied
(``rows``, or ``copy`` if all is one run). If not, the copy is a transposition (``transpose8`` to ``transpose64``). A
sub-tile such as ``(2,1)`` puts neighbouring rows into one word of 32 bits; if one side alone has that, rows are taken
apart (``deinterleave``) or put together (``interleave``). If both sides have it, or runs are as short for another
reason, each run becomes one wider element and the question is asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from strided.planning.access_order import outer_order, row_and_outer
from strided.planning.axis_maps import AxisMap, RadixMap, evenly
from strided.planning.boxes import WORD_BITS, Axis, Box, Spans, cut, divided, grouped, side_of, split
from strided.planning.longer_runs import (
    as_run,
    is_run,
    lanes_joined,
    last_word_apart,
    lengthened,
    pairs_apart,
    tile_by_tile,
    whole_run,
    words_beside,
    words_cut,
    words_joined,
)
from strided.planning.offset_tables import nearness
from strided.planning.vector_step import VectorStep
from strided.runtime import limits

#: The widest element that kernels move.
_WIDEST_BITS = 64
#: Rows and columns of 16 bits from which on pairs of words are turned by squares of them.
_MANY_PAIRS = 96
#: Runs of so many bits can be moved as single elements.
_ELEMENT_BITS = (8, 16, 32, _WIDEST_BITS)


class Matched(NamedTuple):
    """Steps that copy a box, and narrow boxes left over, each with the bits of its elements on both sides."""

    steps: tuple[VectorStep, ...]
    rest: tuple[tuple[Box, tuple[int, int]], ...] = ()


class _Case(NamedTuple):
    """A box, the places of the nearest axes on both sides, and the bits of an element on both sides."""

    box: Box
    near_source: int
    near_target: int
    source_bits: int
    target_bits: int


def match(
    box: Box,
    source_bits: int,
    target_bits: int,
    *,
    widen: bool = True,
    sparse: bool = False,
    room: Spans | None = None,
) -> Matched | None:
    """The steps that copy a box, or None if only the general nest does.

    `widen` is false if neighbours may not be moved as one: packed elements in opposite orders. Elements are `sparse` if
    few of those in a line are wanted. `room` is all that may be touched on both sides; without it, the first and the
    last words are taken as a whole.
    """
    near = _nearest(box, 1), _nearest(box, 2)
    if near[0] is None or near[1] is None:
        return None
    asked = _Case(box, near[0], near[1], source_bits, target_bits)
    # Words and runs of packed elements are moved as they are: not from one order in bytes to the other.
    as_they_are = widen or min(source_bits, target_bits) >= 8
    if as_they_are and (squares := _squares(asked, room)) is not None:
        return squares
    runs = (_transpose_runs,) if as_they_are else ()
    for attempt in (*runs, _short_rows, _rows, _deinterleave, _interleave, _transpose, _packed):
        step = attempt(asked)
        if step is not None:
            return Matched((step,)) if room is None else _within(asked, step, room)
    found = _widened(asked, room) if widen else None
    step = None if found is not None else _short_rows(asked, wide=True, single=sparse)
    return found if step is None else Matched((step,))


def _within(asked: _Case, step: VectorStep, room: Spans) -> Matched | None:
    """A step; if it touches bytes behind its room, the steps of its box without the last words.

    None if it touches bytes before its room.
    """
    bits = asked.source_bits, asked.target_bits
    if any(span[0] < own[0] for span, own in zip(step.spans, room, strict=True)):
        return None
    beyond = [side for side in (1, 2) if step.spans[side - 1][1] > room[side - 1][1]]
    if not beyond:
        return Matched((step,))
    *parts, last = last_word_apart(asked.box, beyond[0], bits[beyond[0] - 1])
    steps: list[VectorStep] = []
    rest = [(last, bits)]
    for part in parts:
        found = match(part, *bits, widen=False, room=room) or Matched((), ((part, bits),))
        steps += found.steps
        rest += found.rest
    return Matched(tuple(steps), tuple(rest)) if steps else None


def _nearest(box: Box, side: int) -> int | None:
    """The place of the axis with the smallest step on one side; None if it goes backwards, or nothing moves."""
    sides = [side_of(axis, side) for axis in box.axes]
    if not sides:
        return None
    place = min(range(len(sides)), key=lambda k: (nearness(sides[k]), -box.axes[k].extent))
    return place if sides[place].unit_stride > 0 else None


def _rows(asked: _Case) -> VectorStep | None:
    box, lane, other, bits, target_bits = asked
    axis = box.axes[lane]
    if lane != other or bits != target_bits or bits % 8:
        return None
    if axis.source.unit_stride != bits or axis.target.unit_stride != bits:
        return None
    if axis.run * bits < limits.current.run_bits and len(box.axes) > 1:
        return None
    if len(box.axes) == 1 and not axis.source.unit and not axis.target.unit:
        return _step_of("copy", box, bits, None, lane)
    return _step_of("rows", box, bits, None, lane)


def _short_rows(asked: _Case, *, wide: bool = False, single: bool = False) -> VectorStep | None:
    """The step that copies rows too short for `rows`, which are one run on both sides.

    Those that can be wider elements only if `wide`, elements that are no neighbours only if `single`: the nest copies
    these as fast, but asks for nothing that comes from memory.
    """
    box, lane, other, bits, target_bits = asked
    if lane != other or bits != target_bits or bits % 8:
        return None
    whole = as_run(box, lane, bits)
    if whole is None:
        return _step_of("short_rows", box, bits, None, None) if single else None
    run = box.axes[lane].extent * bits
    if len(box.axes) < 2 or run > limits.current.short_row_bits or (not wide and run in _ELEMENT_BITS):
        return None
    return _step_of("short_rows", whole, bits, None, lane)


def _row_of(box: Box, lane: int) -> int | None:
    """The axis next to the lanes: the one with the smallest step in the target."""
    others = [k for k in range(len(box.axes)) if k != lane]
    return min(others, key=lambda k: (nearness(box.axes[k].target), -box.axes[k].extent), default=None)


def _deinterleave(asked: _Case) -> VectorStep | None:
    box, _, lane, bits, target_bits = asked
    if target_bits != max(8, bits) or box.axes[lane].target.unit_stride != target_bits or _is_short(box, lane, bits):
        return None
    return _interleaved("deinterleave", box, lane, 1, bits)


def _interleave(asked: _Case) -> VectorStep | None:
    box, lane, _, source_bits, bits = asked
    if source_bits != max(8, bits) or box.axes[lane].source.unit_stride != source_bits or _is_short(box, lane, bits):
        return None
    return _interleaved("interleave", box, lane, 2, bits)


def _is_short(box: Box, lane: int, bits: int) -> bool:
    """Whether the lanes come in pieces too short for vectors."""
    axis = box.axes[lane]
    return axis.run * bits < min(limits.current.run_bits, axis.extent * bits)


def _interleaved(name: str, box: Box, lane: int, side: int, bits: int) -> VectorStep | None:
    """The step if the lanes of one side (1 source, 2 target) are words of 32 bits that hold several rows, else None.

    Words begin at multiples of 32 bits if all of them can, else with the byte of their first element: neither begins
    before the buffer.
    """
    if bits not in (1, 2, 4, 8, 16) or side_of(box.axes[lane], side).unit_stride != WORD_BITS:
        return None
    rows = WORD_BITS // bits
    kernel = f"{name}{bits}" if bits >= 8 else f"{name}_bits"
    row = next((k for k, a in enumerate(box.axes) if k != lane and side_of(a, side).unit_stride == bits), None)
    base = box[side - 1]
    assert isinstance(base, int)
    if side == 1 and (row is None or not tile_by_tile(box, lane, row, bits)):
        box, lane, row = lengthened(box, lane, row, max(8, bits), 2)
    strides = [s for k, a in enumerate(box.axes) if k != row for m in side_of(a, side).radix_maps for s in m.strides]
    inside = base % (8 if any(stride % WORD_BITS for stride in strides) else WORD_BITS)
    if row is not None:
        if (side, rows) == (2, 2):
            box, lane, row = pairs_apart(box, lane, row)
        box, lane, row = lanes_joined(box, lane, row, side, rows)
    if row is None:
        # Every row is the only one of its words.
        member = 0 if inside % bits else inside // bits
        box = _moved(box, side, -member * bits)
        return _step_of(kernel, box, bits, None, lane, interleaved=side, member=member)
    axis = box.axes[row]
    radix_map = side_of(axis, side).radix_map
    if radix_map is None:
        return None
    if radix_map.sizes and radix_map.unit == rows:
        words = radix_map._replace(strides=(0, *radix_map.strides[1:]))
    elif not radix_map.sizes and radix_map.start + axis.extent <= rows:
        first = radix_map.start
        if inside % bits == 0 and first + inside // bits + axis.extent <= rows:
            # Count the rows from the first one of the word.
            first += inside // bits
            box = _moved(box, side, -inside)
        words = RadixMap(first, 1, (rows,), (0, 0))
    else:
        return None
    shared = AxisMap(0, (words,))
    axis = axis._replace(source=shared) if side == 1 else axis._replace(target=shared)
    box = box._replace(axes=(*box.axes[:row], axis, *box.axes[row + 1 :]))
    return _step_of(kernel, box, bits, row, lane, interleaved=side, rows=rows)


def _moved(box: Box, side: int, by: int) -> Box:
    """A box that begins `by` bits further on, on one side."""
    if side == 1:
        return box._replace(source_base=box.source_base + by)
    return box._replace(target_base=box.target_base + by)


def _transpose_runs(asked: _Case) -> VectorStep | None:
    """The step that moves short runs, which both sides have, as elements of a transposition."""
    box, lane, other, bits, target_bits = asked
    whole = as_run(box, lane, bits) if lane == other and bits == target_bits else None
    run = box.axes[lane].extent * bits
    if whole is None or run % 8 or run > limits.current.moved_run_bits or run in _ELEMENT_BITS:
        return None
    box = whole.with_axes(lane, [])
    near = _nearest(box, 1), _nearest(box, 2)
    if near[0] is None or near[1] is None:
        return None
    return _transposed(_Case(box, near[0], near[1], run, run), "transpose_runs")


def _squares(asked: _Case, room: Spans | None) -> Matched | None:
    """The steps of words that rows share on both sides, along another axis on each; None if no kernel takes them.

    As many words as rows share one are a square of elements, of which rows and columns change places.
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
        return _halves_turned(asked, room)
    else:
        members = (rows.extent - 1) % side + 1, (columns.extent - 1) % side + 1
        step = _transpose_words(second[0], inner, other, bits, members)
        found = () if step is None else (step,)
    return Matched(found) if found and (room is None or all(_is_inside(step, room) for step in found)) else None


def _exchanged(
    box: Box, places: tuple[int, int], counts: tuple[int, int], bits: int, apart: tuple[int, int]
) -> tuple[VectorStep, ...]:
    """The steps that move words along the same lanes on both sides, those of full squares first; none if they cannot.

    At `places` the box has words of which rows share those of the source, and those of the target: as many rows as
    `counts` says. Words of a square lie `apart`, in the source and in the target.
    """
    side = WORD_BITS // bits
    parts: list[tuple[Box, tuple[int, ...]]] = [(box, ())]
    # From the last place on, for an axis of a single index is left out.
    for k in sorted((0, 1), key=lambda k: -places[k]):
        full, left = divmod(counts[k], side)
        ranges = [(0, full, side)] if full else []
        ranges += [(full, full + 1, left)] if left else []
        parts = [
            (part.with_axes(places[k], [cut(part.axes[places[k]], start, stop)]), (*members, members_now))
            for part, members in parts
            for start, stop, members_now in ranges
        ]
    steps = []
    for part, found in parts:
        members = (found[0], found[1]) if places[0] > places[1] else (found[1], found[0])
        near = _nearest(part, 1), _nearest(part, 2)
        if near[0] is None or near[0] != near[1] or _is_short(part, near[0], WORD_BITS):
            return ()
        if {own.unit_stride for own in part.axes[near[0]][1:]} != {WORD_BITS}:
            return ()
        words = Axis(max(members), *map(evenly, apart))
        whole = part._replace(axes=(*part.axes, words))
        step = _step_of(f"exchange{bits}", whole, WORD_BITS, len(part.axes), near[0], members=members)
        if step is None:
            return ()
        steps.append(step)
    return tuple(steps)


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
        step = _transposed(_Case(box, other, inner, wide, wide), kernel)
        if bits == 16 and step is not None and _are_many(step):
            step = replace(step, kernel="transpose_pairs")
    elif box.axes[other].source.unit_stride == box.axes[inner].target.unit_stride == wide:
        step = _step_of(kernel, box, wide, inner, other)
    else:
        return None
    return None if step is None else replace(step, members=members)


def _are_many(step: VectorStep) -> bool:
    """Whether a transposition of pairs of words has long runs on both sides."""
    lane, row = step.axes[step.lane], step.axes[step.row]
    runs = lane.source.unit or lane.extent, row.target.unit or row.extent
    return min(*runs, lane.extent, row.extent) * 2 >= _MANY_PAIRS


def _halves_turned(asked: _Case, room: Spans | None) -> Matched | None:
    """The steps that turn words of two rows, where rows or words on either side are odd: those leave something over."""
    box, inner, other, bits, _ = asked
    boxes = [box]
    for place in sorted((inner, other), reverse=True):
        parts = [split(part, place, 2) for part in boxes]
        boxes = [each for found in parts for each in found or ()]
    whole = max(boxes, key=lambda part: part.elements)
    near = _nearest(whole, 1), _nearest(whole, 2)
    if near[0] is None or near[1] is None or any(whole.axes[k].extent != 2 for k in near if k is not None):
        return None
    found = _squares(_Case(whole, near[0], near[1], bits, bits), room)
    left = [
        match(part, bits, bits, widen=False, sparse=True, room=room) or Matched((), ((part, (bits, bits)),))
        for part in boxes
        if part is not whole
    ]
    return None if found is None else _together([found, *left])


def _is_inside(step: VectorStep, room: Spans) -> bool:
    """Whether all bytes that a step touches may be."""
    return all(own[0] <= low and high <= own[1] for (low, high), own in zip(step.spans, room, strict=True))


def _together(found: Sequence[Matched]) -> Matched:
    """What several matches do, and what they leave over."""
    return Matched(*(tuple(chain.from_iterable(parts)) for parts in zip(*found, strict=True)))


def _transpose(asked: _Case) -> VectorStep | None:
    bits = asked.source_bits
    if bits != asked.target_bits or not 8 <= bits <= _WIDEST_BITS:
        return None
    step = _transposed(asked, f"transpose{bits}")
    if step is None or step.fullness * limits.current.turned_squares < 1:
        return None
    lane = step.axes[step.lane]
    if min(lane.extent, lane.source.unit or lane.extent) == 1:
        return None
    return step if step.turns_along is None else replace(step, kernel=f"transpose_few{bits}")


def _transposed(asked: _Case, kernel: str) -> VectorStep | None:
    """The step of a transposition; None if a side is not contiguous."""
    box, lane, row, bits, _ = asked
    if lane == row:
        return None
    if box.axes[lane].source.unit_stride != bits or box.axes[row].target.unit_stride != bits:
        return None
    # A short run that goes on along another axis first: else the other side would take that axis.
    box, lane, row = whole_run(box, lane, row, bits, 1)
    box, row, lane = whole_run(box, row, lane, bits, 2)
    # Rows of the target first, unless runs of the source alone are short: both may go on along the same axis.
    line = limits.current.line_bits
    if box.axes[lane].extent * bits < line <= box.axes[row].extent * bits:
        box, lane, row = lengthened(box, lane, row, bits, 1)
    box, row, lane = lengthened(box, row, lane, bits, 2)
    box, lane, row = lengthened(box, lane, row, bits, 1)
    return _step_of(kernel, box, bits, row, lane)


def _packed(asked: _Case) -> VectorStep | None:
    """Packed elements side by side, to or from bytes side by side."""
    box, lane, other, source_bits, target_bits = asked
    bits = min(source_bits, target_bits)
    axis = box.axes[lane]
    if lane != other or source_bits == target_bits or bits >= 8:
        return None
    words = words_beside(box, lane, bits) if target_bits < 8 else None
    if words is None and axis.run < limits.current.packed_run_elements and len(box.axes) > 1:
        return None
    if axis.source.unit_stride != source_bits or axis.target.unit_stride != target_bits:
        return None
    if words is not None:
        box, lane, words = words_cut(*words_joined(box, lane, words, WORD_BITS // bits))
        axis = box.axes[lane]
    kernel = "unpack" if source_bits < 8 else "pack" if words is None else "pack_words"
    row = words
    if kernel == "unpack" and axis.run * target_bits % limits.current.line_bits:
        # What rows leave of lines is completed by those that follow on.
        row = _row_of(box, lane)
    found = _step_of(kernel, box, bits, row, lane, units=(source_bits, target_bits))
    others = [a.target for k, a in enumerate(box.axes) if k != lane]
    between = [m.at(0) + stride for side in others for m in side.radix_maps for stride in m.strides]
    whole = not any(n % 8 for n in (box.target_base, *between, *(m.at(0) for m in axis.target.radix_maps)))
    # Tasks end on tiles of the source.
    whole = whole and not any(m.sizes and m.start * bits % 8 for m in axis.source.radix_maps)
    return found if found is None or whole or target_bits == 8 else replace(found, divides=False)


def _step_of(
    kernel: str,
    box: Box,
    bits: int,
    row: int | None,
    lane: int | None,
    *,
    interleaved: int = 0,
    rows: int = 1,
    member: int = 0,
    members: tuple[int, int] = (0, 0),
    units: tuple[int, int] = (8, 8),
) -> VectorStep | None:
    """The step of a box, with offsets in `units` of bits; None if an offset is no multiple of its unit."""
    axes = []
    if box.source_base % units[0] or box.target_base % units[1]:
        return None
    for axis in box.axes:
        source, target = divided(axis.source, units[0]), divided(axis.target, units[1])
        if source is None or target is None:
            return None
        axes.append(Axis(axis.extent, source, target))
    if row is None:
        row, outer = row_and_outer(kernel, axes, lane)
    else:
        outer = outer_order(axes, [k for k in (row, lane) if k is not None])
    # Words of packed elements are read and written again, with all that lies in them.
    strides = [s for axis in box.axes for m in axis.target.radix_maps for s in m.strides]
    divides = kernel != "interleave_bits" or not any(s % WORD_BITS for s in strides)
    return VectorStep(
        kernel=kernel,
        source_base=box.source_base // units[0],
        target_base=box.target_base // units[1],
        axes=tuple(axes),
        outer=outer,
        row=-1 if row is None else row,
        lane=-1 if lane is None else lane,
        bits=bits,
        interleaved=interleaved,
        rows=rows,
        member=member,
        members=members,
        divides=divides,
        units=units,
    )


def _widened(asked: _Case, room: Spans | None) -> Matched | None:
    """The steps with each short run as one wider element; the remainder is left over."""
    box, place, other, bits, target_bits = asked
    radix_maps = box.axes[place].radix_maps
    if bits != target_bits or place != other or radix_maps is None or any(m.strides[0] != bits for m in radix_maps):
        return None
    source, target = radix_maps
    extent = box.axes[place].extent
    times = _WIDEST_BITS // bits
    # A remainder of each of many straight runs is worse than narrower elements.
    straight = not source.sizes and not target.sizes and len(box.axes) > 1
    while times > 1 and (any(m.sizes and m.unit % times for m in radix_maps) or (straight and extent % times)):
        times //= 2
    if times < 2 or (source.start - target.start) % times:
        return None
    # Bases move to where a wide element begins.
    head = min(extent, -target.start % times if target.sizes else -source.start % times)
    count = (extent - head) // times
    if not count:
        return None
    left = []
    for first, last in ((0, head), (head + count * times, extent)):
        if first < last:
            part = box.with_axes(place, [cut(box.axes[place], first, last)])
            left.append(
                match(part, bits, bits, widen=False, sparse=True, room=room) or Matched((), ((part, (bits, bits)),))
            )
    wide = Axis.of_radix_maps(count, *(_grouped(m._replace(start=m.start + head), times) for m in radix_maps))
    grouped = wide.source.radix_maps[0], wide.target.radix_maps[0]
    shift = [m.at(head) - g.at(0) for m, g in zip(radix_maps, grouped, strict=True)]
    moved = Box(box.source_base + shift[0], box.target_base + shift[1], box.axes)
    found = match(moved.with_axes(place, [wide]), bits * times, bits * times, sparse=bool(left), room=room)
    if found is None:
        return None
    return _together([found, *left])


def _grouped(radix_map: RadixMap, times: int) -> RadixMap:
    """The radix map of a coordinate that counts `times` at once."""
    start = radix_map.start // times
    if not radix_map.sizes:
        return RadixMap(start, 1, (), (radix_map.strides[0] * times,))
    if radix_map.unit == times:
        return RadixMap(start, 1, radix_map.sizes[1:], radix_map.strides[1:])
    return RadixMap(
        start,
        1,
        (radix_map.unit // times, *radix_map.sizes[1:]),
        (radix_map.strides[0] * times, *radix_map.strides[1:]),
    )
