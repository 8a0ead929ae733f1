"""Boxes made over so that a kernel finds long runs: axes joined with those that count on from them, or cut.

Each of these gives back the same copy. A kernel takes axes by their places, so the new places come along. `bits` are
those of an element, offsets count bits, and a `side` is 1 for the source and 2 for the target.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from strided.planning.access_order import PAGE_BYTES, farthest_first
from strided.planning.axis_maps import AxisMap, evenly
from strided.planning.boxes import WORD_BITS, Axis, Box, cut, side_of, split
from strided.runtime import limits

_Place = TypeVar("_Place", int, int | None)

#: Fewer words that follow each other are no better moved together.
_LEAST_WORDS = 16
#: More words that follow each other are cut, if that leaves nothing: a table of 24 bytes for each stays in the cache.
_MOST_WORDS = 1024
#: Bits of rows that are long enough to be written to other places each.
_LONG_PAIR_BITS = 2048
#: Rows to as many places are no longer written a few lines each.
_MOST_PLACES = 512


def lengthened(
    box: Box, place: int, other: _Place, bits: int, side: int, *, tiled: bool = True
) -> tuple[Box, int, _Place]:
    """The same box, and the new places of two of its axes, the first joined with axes that count on from it on a side.

    Enough of them to make it long. On the other side such runs may lie anywhere, if `tiled` in tiles too: a table says
    where.
    """
    axes, extent = list(box.axes), box.axes[place].extent
    near, far = (_has_digits, _counts) if tiled else (_is_plain, _is_plain)
    run, table = side_of(axes[place], side), side_of(axes[place], 3 - side)
    if not far(table):
        return box, place, other
    while _is_plain(run) and extent * bits < 8 * limits.current.long_row_bytes:
        others = (k for k in range(len(axes)) if k not in (place, other))
        on = [k for k in others if side_of(axes[k], side).unit_stride == extent * bits]
        if not on or not near(side_of(axes[on[0]], side)) or not far(side_of(axes[on[0]], 3 - side)):
            break
        run, table = side_of(axes[on[0]], side).after(extent), side_of(axes[on[0]], 3 - side).around(table, extent)
        extent *= axes[on[0]].extent
        del axes[on[0]]
        place, other = place - (place > on[0]), other if other is None else other - (other > on[0])
    axes[place] = Axis(extent, *((run, table) if side == 1 else (table, run)))
    return box._replace(axes=tuple(axes)), place, other


def whole_run(box: Box, place: int, other: int, bits: int, side: int) -> tuple[Box, int, int]:
    """The same box, and where two of its axes are now: a run of the first that is short on a side made longer.

    If another axis counts on from such a run, the first axis is cut where its run ends, and joined with that one.
    """
    unit = side_of(box.axes[place], side).unit
    others = [axis for k, axis in enumerate(box.axes) if k not in (place, other)]
    on = any(side_of(axis, side).unit_stride == unit * bits for axis in others)
    apart = _stretches(box, place, other, unit) if on and 0 < unit * bits < limits.current.line_bits else None
    if apart is None or len(apart[0].axes) == len(box.axes):
        return box, place, other
    longer = lengthened(*apart, bits, side)
    return longer if len(longer[0].axes) <= len(box.axes) else (box, place, other)


def as_run(box: Box, place: int, bits: int) -> Box | None:
    """The same box, in which an axis that is one run on both sides begins at 0; None if it is none."""
    if not is_run(box.axes[place], (bits, bits)):
        return None
    extent, *sides = box.axes[place]
    source, target = (side.at(0) for side in sides)
    axes = (*box.axes[:place], Axis(extent, evenly(bits), evenly(bits)), *box.axes[place + 1 :])
    return Box(box.source_base + source, box.target_base + target, axes)


def is_run(axis: Axis, steps: tuple[int, int]) -> bool:
    """Whether all of an axis is one run on both sides, of so many bits from one index to the next."""
    for side, step in zip(axis[1:], steps, strict=True):
        own = side.radix_map
        if own is None or own.strides[0] != step or (own.sizes and own.start % own.unit + axis.extent > own.unit):
            return False
    return True


def tile_by_tile(box: Box, lane: int, row: int, bits: int) -> bool:
    """Whether rows are best taken out of one tile of words after the other, in the order of the source.

    So if each tile's part of a row lies on a page of its own, rows of words do not, and all give whole lines.
    """
    line, axis, words = limits.current.line_bits, box.axes[lane], box.axes[row].source.radix_map
    lanes, width, each = axis.source.radix_map, max(8, bits), WORD_BITS // bits
    if words is None or lanes is None or box.axes[row].extent % each or box.axes[row].extent > _MOST_PLACES:
        return False
    run = lanes.unit or axis.extent
    if words.strides[1:2] != (run * WORD_BITS,) or (bits < 8 and lanes.unit):
        return False
    others = [other for k, other in enumerate(box.axes) if k != lane]
    on = [other.source.unit_stride for other in others if other.target.unit_stride == axis.extent * width]
    if not on or abs(lanes.strides[1] if lanes.unit else on[0]) < 8 * PAGE_BYTES:
        return False
    return not any(n % line for n in (box.target_base, run * width, *target_steps(others)))


def pairs_apart(box: Box, lane: int, row: int) -> tuple[Box, int, int]:
    """The same box, and where lanes and rows are now: the two rows of a word of the target without those of others.

    So if other rows follow each other in the source up to where the next one of these begins, long ones that go to few
    places: then both rows' are read front to back, and written as many places at a time.
    """
    run = 16 * box.axes[lane].extent
    if run < _LONG_PAIR_BITS or run % limits.current.line_bits or box.axes[row].extent <= 2:
        return box, lane, row
    on = (axis for k, axis in enumerate(box.axes) if k not in (lane, row) and axis.source.unit_stride == run)
    if not any(a.extent <= _MOST_PLACES and a.extent * run == box.axes[row].source.unit_stride for a in on):
        return box, lane, row
    apart = _stretches(box, row, lane, 2)
    return (box, lane, row) if apart is None else (apart[0], apart[2], apart[1])


def lanes_joined(box: Box, lane: int, row: int, side: int, rows: int) -> tuple[Box, int, int]:
    """The same box, and where lanes and rows are now: the lanes longer if those of the next word's rows follow on."""
    apart = _stretches(box, row, lane, rows) if box.axes[row].extent > rows else None
    if apart is None:
        return box, lane, row
    cut_box, row_now, lane_now = apart
    longer, lane_then, row_then = lengthened(cut_box, lane_now, row_now, WORD_BITS, side, tiled=False)
    return (box, lane, row) if len(longer.axes) > len(box.axes) else (longer, lane_then, row_then)


def words_beside(box: Box, lane: int, bits: int) -> int | None:
    """The axis along which words of the target follow each other, if every run of packed lanes is one; else None."""
    own, each = box.axes[lane].target.radix_map, WORD_BITS // bits
    if own is None or own.start % (own.unit if own.sizes else each) or (own.unit or box.axes[lane].extent) > each:
        return None
    others = [axis for k, axis in enumerate(box.axes) if k != lane]
    bases = box.target_base, *(axis.target.base for axis in box.axes)
    offsets = *bases, *own.strides[1:], *target_steps(others)
    if not _is_plain(box.axes[lane].source) or any(n % WORD_BITS for n in offsets):
        return None
    for k, axis in enumerate(box.axes):
        if axis.target.unit_stride == WORD_BITS:
            return k if axis.extent >= _LEAST_WORDS else None
    return None


def words_joined(box: Box, lane: int, words: int, each: int) -> tuple[Box, int, int]:
    """The same box, and where lanes and words are now: the lanes longer if bytes of other words go on behind them."""
    if box.axes[lane].extent % each:
        return box, lane, words
    longer, place, other = lengthened(box, lane, words, 8, 1)
    own = longer.axes[place].target.radix_map
    return (longer, place, other) if own is not None and own.unit == each else (box, lane, words)


def words_cut(box: Box, lane: int, words: int) -> tuple[Box, int, int]:
    """The same box, and where lanes and words are now: fewer words, if they are so many that their table is long."""
    apart = _stretches(box, words, lane, _MOST_WORDS) if box.axes[words].extent > _MOST_WORDS else None
    return (box, lane, words) if apart is None else (apart[0], apart[2], apart[1])


def last_word_apart(box: Box, side: int, bits: int) -> list[Box]:
    """A box in parts, of which only the last one has elements in the last word of one side."""
    parts: list[Box] = []
    while True:
        for place in farthest_first(box.axes, side):
            others, alone = _last_index_apart(box.axes[place], side)
            least = side_of(box.axes[place], side).bounds(box.axes[place].extent)[1] + bits - WORD_BITS
            if side_of(others, side).bounds(others.extent)[1] <= least:
                parts.append(box.with_axes(place, [others]))
                box = box.with_axes(place, [alone])
                break
        else:
            return [*parts, box]


def _last_index_apart(axis: Axis, side: int) -> tuple[Axis, Axis]:
    """An axis without its index that lies last on one side, and with that index alone."""
    own, top = side_of(axis, side), axis.extent - 1
    if own.at(0) > own.at(top):
        return cut(axis, 1, axis.extent), cut(axis, 0, 1)
    return cut(axis, 0, top), cut(axis, top, axis.extent)


def _stretches(box: Box, place: int, other: int, length: int) -> tuple[Box, int, int] | None:
    """A box in which an axis is cut into stretches of one length, and where these and another axis are now.

    None if it cannot be, or leaves anything over.
    """
    parts = split(box, place, length)
    return None if parts is None or len(parts) > 1 else (parts[0], place + 1, other + (other > place))


def target_steps(axes: Sequence[Axis]) -> Iterator[int]:
    """Where axes begin on the target's side, and all steps that their digits make there."""
    return (n for axis in axes for m in axis.target.radix_maps for n in (m.at(0), *m.strides))


def _has_digits(side: AxisMap) -> bool:
    """Whether the digits of one coordinate are all that an axis is on a side."""
    return side.radix_map is not None


def _counts(side: AxisMap) -> bool:
    """Whether every step along an axis is one of its coordinate on a side: none is skipped."""
    return all(m.step == 1 for m in side.radix_maps)


def _is_plain(side: AxisMap) -> bool:
    """Whether an axis begins at 0 on one side and all its steps are equal."""
    return side.radix_map is not None and not side.radix_map.sizes and not side.radix_map.start
