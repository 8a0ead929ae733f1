"""Which kernel suits a box: its two nearest axes decide.

The nearest axis of a side is the one with the smallest step. If both sides have the same one, whole runs are copied
(``rows``, or ``copy`` if all is one run). If not, the copy is a transposition (``transpose8`` to ``transpose64``). A
sub-tile such as ``(2,1)`` puts neighbouring rows into one word of 32 bits; if one side alone has that, rows are taken
apart (``deinterleave``) or put together (``interleave``). If both sides have it, along different axes, words are turned
(``exchange``, ``transpose_words``); along the same one, or if runs are as short for another reason, each run becomes
one wider element and the question is asked again, though the last one may be cut (``transpose_cut32``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple, TypeAlias

from strided.kernels import SHORT_ROW_BYTES
from strided.planning.axis_maps import AxisMap, RadixMap
from strided.planning.box_steps import Case, case_of, is_short, step_of, transposed
from strided.planning.boxes import WORD_BITS, Axis, Box, Spans, cut, grouped, nearest_place, side_of, split_digits
from strided.planning.longer_runs import (
    as_run,
    is_run,
    lanes_joined,
    last_word_apart,
    lengthened,
    pairs_apart,
    target_steps,
    tile_by_tile,
    words_beside,
    words_cut,
    words_joined,
)
from strided.planning.task_ranges import word_multiple
from strided.planning.vector_step import VectorStep
from strided.planning.word_squares import words_turned
from strided.runtime import limits

#: The widest element that kernels move.
_WIDEST_BITS = 64
#: Runs of so many bits can be moved as single elements.
_ELEMENT_BITS = (8, 16, 32, _WIDEST_BITS)
#: Rows of up to four words are no squares: `transpose_few`, and what cuts them then, is as fast.
_LEAST_CUT_BYTES = 16

#: Boxes that no vector kernel takes, each with the bits of its elements on both sides.
Rest: TypeAlias = tuple[tuple[Box, tuple[int, int]], ...]


class Matched(NamedTuple):
    """Steps that copy a box, and narrow boxes left over."""

    steps: tuple[VectorStep, ...]
    rest: Rest = ()


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
    asked = case_of(box, source_bits, target_bits)
    if asked is None:
        return None
    # Words and runs of packed elements are moved as they are: not from one order in bytes to the other.
    as_they_are = widen or min(source_bits, target_bits) >= 8
    if as_they_are and (turned := words_turned(asked, room)) is not None:
        return _together([Matched(turned.steps), *_left_over(turned.left, source_bits, room)])
    # What `_transpose_runs` takes, `_short_rows` or `_rows` would take, too, and what `_short_rows` takes, `_rows`.
    runs = (_transpose_runs, _transpose_cut) if as_they_are else ()
    for attempt in (*runs, _short_rows, _rows, _deinterleave, _interleave, _transpose, _packed):
        step = attempt(asked)
        if step is not None:
            return Matched((step,)) if room is None else _within(asked, step, room)
    found = _widened(asked, room) if widen else None
    step = None if found is not None else _short_rows(asked, wide=True, single=sparse)
    return found if step is None else Matched((step,))


def _within(asked: Case, step: VectorStep, room: Spans) -> Matched | None:
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


def _rows(asked: Case) -> VectorStep | None:
    box, lane, other, bits, target_bits = asked
    axis = box.axes[lane]
    if lane != other or bits != target_bits or bits % 8:
        return None
    if axis.source.unit_stride != bits or axis.target.unit_stride != bits:
        return None
    if axis.run * bits < limits.current.run_bits and len(box.axes) > 1:
        return None
    if len(box.axes) == 1 and not axis.source.unit and not axis.target.unit:
        return step_of("copy", box, bits, None, lane)
    return step_of("rows", box, bits, None, lane)


def _short_rows(asked: Case, *, wide: bool = False, single: bool = False) -> VectorStep | None:
    """The step that copies rows too short for `rows`, which are one run on both sides.

    Those that can be wider elements only if `wide`, elements that are no neighbours only if `single`: the nest copies
    these as fast, but asks for nothing that comes from memory.
    """
    box, lane, other, bits, target_bits = asked
    if lane != other or bits != target_bits or bits % 8:
        return None
    whole = as_run(box, lane, bits)
    if whole is None:
        return step_of("short_rows", box, bits, None, None) if single else None
    run = box.axes[lane].extent * bits
    if len(box.axes) < 2 or run > limits.current.short_row_bits or (not wide and run in _ELEMENT_BITS):
        return None
    return step_of("short_rows", whole, bits, None, lane)


def _deinterleave(asked: Case) -> VectorStep | None:
    box, _, lane, bits, target_bits = asked
    if target_bits != max(8, bits) or box.axes[lane].target.unit_stride != target_bits or is_short(box, lane, bits):
        return None
    return _interleaved("deinterleave", box, lane, 1, bits)


def _interleave(asked: Case) -> VectorStep | None:
    box, lane, _, source_bits, bits = asked
    if source_bits != max(8, bits) or box.axes[lane].source.unit_stride != source_bits or is_short(box, lane, bits):
        return None
    return _interleaved("interleave", box, lane, 2, bits)


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
    if side == 1 and (row is None or not tile_by_tile(box, lane, row, bits)):
        box, lane, row = lengthened(box, lane, row, max(8, bits), 2)
    strides = [s for k, a in enumerate(box.axes) if k != row for m in side_of(a, side).radix_maps for s in m.strides]
    inside = box.base(side) % (8 if any(stride % WORD_BITS for stride in strides) else WORD_BITS)
    if row is not None:
        if (side, rows) == (2, 2):
            box, lane, row = pairs_apart(box, lane, row)
        box, lane, row = lanes_joined(box, lane, row, side, rows)
    if row is None:
        # Every row is the only one of its words.
        member = 0 if inside % bits else inside // bits
        box = _moved(box, side, -member * bits)
        return step_of(kernel, box, bits, None, lane, interleaved=side, member=member)
    axis = box.axes[row]
    radix_map = side_of(axis, side).radix_map
    if radix_map is None:
        return None
    if radix_map.sizes and radix_map.unit == rows:
        words = radix_map.with_unit_stride(0)
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
    return step_of(kernel, box, bits, row, lane, interleaved=side, rows=rows)


def _moved(box: Box, side: int, by: int) -> Box:
    """A box that begins `by` bits further on, on one side."""
    if side == 1:
        return box._replace(source_base=box.source_base + by)
    return box._replace(target_base=box.target_base + by)


def _transpose_runs(asked: Case) -> VectorStep | None:
    """The step that moves short runs, which both sides have, as elements of a transposition."""
    box, lane, other, bits, target_bits = asked
    whole = as_run(box, lane, bits) if lane == other and bits == target_bits else None
    run = box.axes[lane].extent * bits
    if whole is None or run % 8 or run > limits.current.moved_run_bits or run in _ELEMENT_BITS:
        return None
    moved = case_of(whole.with_axes(lane, []), run, run)
    return None if moved is None else transposed(moved, "transpose_runs")


def _transpose_cut(asked: Case) -> VectorStep | None:
    """The step that moves whole words, which rows share in the source, to short rows that end inside of a word."""
    box, place, other, bits, target_bits = asked
    size = box.axes[place].extent * bits // 8
    if bits not in (8, 16) or bits != target_bits or place != other:
        return None
    if size * 8 % WORD_BITS == 0 or not _LEAST_CUT_BYTES < size <= SHORT_ROW_BYTES:
        return None
    found = grouped(box, place, WORD_BITS // bits)
    if found is None or not is_run(found[1], (bits, bits)) or found[0].axes[place].target.unit:
        return None
    words = case_of(found[0], WORD_BITS, WORD_BITS)
    # Rows follow each other along the lanes.
    if words is None or words.near_target != place or words.box.axes[words.near_source].target.unit_stride != 8 * size:
        return None
    step = transposed(words, "transpose_cut32")
    if step is None or step.axes[step.row].extent != words.box.axes[place].extent:
        return None
    return replace(step, lacking=-size % (WORD_BITS // 8))


def _transpose(asked: Case) -> VectorStep | None:
    bits = asked.source_bits
    if bits != asked.target_bits or not 8 <= bits <= _WIDEST_BITS:
        return None
    step = transposed(asked, f"transpose{bits}")
    if step is None or step.fullness * limits.current.turned_squares < 1:
        return None
    lane = step.axes[step.lane]
    if lane.source.run(lane.extent) == 1:
        return None
    return step if step.turns_along is None else replace(step, kernel=f"transpose_few{bits}")


def _packed(asked: Case) -> VectorStep | None:
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
        row = nearest_place(box.axes, 2, [k for k in range(len(box.axes)) if k != lane])
    found = step_of(kernel, box, bits, row, lane, units=(source_bits, target_bits))
    if found is None or target_bits == 8:
        return found
    others = [a for k, a in enumerate(box.axes) if k != lane]
    own = [n for m in axis.target.radix_maps for n in (m.at(0), *m.strides[1:])]
    # Tasks end on tiles: of the target, unless these are bytes, and of the source.
    is_one = len(axis.target.radix_maps) == 1 or word_multiple(axis, 8 // bits) == 8 // bits
    is_whole = is_one and not any(m.sizes and m.start * bits % 8 for m in axis.source.radix_maps)
    meets = any(n % 8 for n in (box.target_base, *target_steps(others), *own))
    return found if is_whole and not meets else replace(found, divides=False)


def _widened(asked: Case, room: Spans | None) -> Matched | None:
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
    left = [
        box.with_axes(place, [cut(box.axes[place], first, last)])
        for first, last in ((0, head), (head + count * times, extent))
        if first < last
    ]
    wide = Axis.of_radix_maps(count, *(_grouped(m._replace(start=m.start + head), times) for m in radix_maps))
    shift = [m.at(head) - side.at(0) for m, side in zip(radix_maps, wide[1:], strict=True)]
    moved = Box(box.source_base + shift[0], box.target_base + shift[1], box.axes)
    found = match(moved.with_axes(place, [wide]), bits * times, bits * times, sparse=bool(left), room=room)
    if found is None:
        return None
    return _together([found, *_left_over(left, bits, room)])


def _left_over(boxes: Sequence[Box], bits: int, room: Spans | None) -> list[Matched]:
    """The steps of what wide elements, or pairs of words, leave over."""
    return [
        match(box, bits, bits, widen=False, sparse=True, room=room) or Matched((), ((box, (bits, bits)),))
        for box in boxes
    ]


def _together(found: Sequence[Matched]) -> Matched:
    """What several matches do, and what they leave over."""
    return Matched(*(tuple(chain.from_iterable(parts)) for parts in zip(*found, strict=True)))


def _grouped(radix_map: RadixMap, times: int) -> RadixMap:
    """The radix map of a coordinate that counts `times` at once, which divide the lowest digit."""
    digits = split_digits(radix_map, times)
    assert digits is not None
    return digits[1]._replace(start=radix_map.start // times)
