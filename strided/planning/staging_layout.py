"""The blocks of staged copies: how their elements lie, how long they are, and what is near on either side of a box."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from strided.kernels import SHORT_ROW_BYTES
from strided.planning.axis_maps import AxisMap
from strided.planning.boxes import WORD_BITS, Axis, Box, side_of
from strided.planning.task_ranges import length_of, word_multiple
from strided.runtime import limits

#: Rows of this size or more, at multiples of that, would fight for the same few places of the first-level cache.
_LONG_ROW_BITS, _ALIKE_BITS = 8 * 768, 8 * 256


class StagingLayout(NamedTuple):
    """The layout of a block: dense, rows mostly in whole words, and a line behind each of those that would lie alike.

    Attributes
    ----------
    bits : int
        Bits of one element.
    order : tuple of int
        Places of the axes, the contiguous one last.
    row_bits : int
        Bits of which a row has a multiple: those of a word or more, or of an element, for rows without gaps.
    """

    bits: int
    order: tuple[int, ...]
    row_bits: int = WORD_BITS

    @property
    def has_gaps(self) -> bool:
        """Whether there may be something between rows."""
        return self.row_bits >= WORD_BITS

    def strides(self, lengths: Sequence[int]) -> tuple[list[int], int]:
        """The step of every axis in a block of these extents, and the size of the block, in bits."""
        stride, strides = self.bits, [0] * len(self.order)
        for k in reversed(self.order):
            strides[k] = stride
            stride *= lengths[k]
            if k == self.order[-1]:
                stride += -stride % self.row_bits
                if self.has_gaps and stride >= _LONG_ROW_BITS and stride % _ALIKE_BITS == 0:
                    stride += limits.current.line_bits
        return strides, stride


class Near(NamedTuple):
    """The axes along which elements of one side are neighbours, and those whose rows share words there."""

    lanes: list[int]
    rows: list[int]


def near_axes(box: Box, side: int, bits: int) -> Near:
    """The nearest axes of one side of a box (1 source, 2 target), for elements of `bits`."""
    sides = [side_of(axis, side) for axis in box.axes]
    near = [k for k, own in enumerate(sides) if own.unit_stride == bits]
    words = [k for k, own in enumerate(sides) if own.unit_stride == WORD_BITS]
    each = WORD_BITS // bits if bits < WORD_BITS and words else 0
    rows = [k for k in near if each in (m.unit for m in sides[k].radix_maps) or box.axes[k].extent <= each]
    # Without neighbours, every row is the only one of its words.
    return Near([*words, *(k for k in near if k not in rows)], rows) if each and (rows or not near) else Near(near, [])


def run_on(box: Box, side: int, bits: int, apart: int) -> int:
    """The elements of a run on one side (1 source, 2 target) along all axes but the one at `apart`."""
    own = [(side_of(axis, side), axis.extent) for k, axis in enumerate(box.axes) if k != apart]
    run = 1
    for axis_map, extent in sorted(own, key=lambda pair: pair[0].distance):
        if axis_map.unit_stride != run * bits:
            break
        run *= axis_map.unit or extent
    return run


def block_lengths(
    axes: Sequence[Axis], near: Sequence[Near], staging: Sequence[StagingLayout], bits: tuple[int, int]
) -> tuple[int, ...]:
    """The extents of a block: long along contiguous axes, short along rows of words."""
    budget = _budget(staging)
    word = max(1, WORD_BITS // min(layout.bits for layout in staging))
    lanes = [layout.order[-1] for layout in staging]
    source, target = near
    # Blocks end with lines: elements of one along the nearest axes.
    lines: dict[int, int] = {}
    for k, side in (*((k, axes[k].source) for k in source.lanes), *((k, axes[k].target) for k in target.lanes)):
        lines[k] = max(lines.get(k, 1), limits.current.line_bits // side.unit_stride)
    lengths = [1] * len(axes)
    for k, goal in _goals(axes, source, target, staging, bits):
        # Runs take whole words, and threads do not meet in those of the target.
        multiple = word if k in lanes else 1
        others = math.prod(-(-n // word) * word if i in lanes else n for i, n in enumerate(lengths) if i != k)
        room = budget // others // multiple * multiple
        most, apart = min(goal, room), 1
        if axes[k].target.unit_stride == bits[1] < 8:
            apart = WORD_BITS // bits[1]
            # Blocks that end inside of words, as those of long tiles do, are not shared.
            whole = word_multiple(axes[k], apart)
            apart = whole if whole <= room else apart
        line = math.lcm(apart, lines.get(k, 1))
        lengths[k] = max(lengths[k], length_of(axes[k], most, line if most >= 2 * line else apart))
    return tuple(min(length, axis.extent) for length, axis in zip(lengths, axes, strict=True))


def _budget(staging: Sequence[StagingLayout]) -> int:
    """Elements for which each block has room, if they are as wide as the widest."""
    return limits.current.staging_bytes // len(staging) * 8 // max(layout.bits for layout in staging)


def _goals(
    axes: Sequence[Axis], source: Near, target: Near, staging: Sequence[StagingLayout], bits: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    """Axes, and extents that a block should have along each, what matters most first; later ones may be larger."""
    lanes = [layout.order[-1] for layout in staging]
    long = limits.current.staging_lane_bytes * 8 // max(layout.bits for layout in staging)
    yield from ((k, 128) for k in lanes)
    yield from ((k, max(axes[k].period, WORD_BITS // min(bits))) for k in (*source.rows, *target.rows))
    yield from ((k, min(8, axes[k].period)) for k in range(len(axes)))
    yield from ((k, 8) for k in (*source.lanes, *target.lanes) if k not in lanes)
    # Short rows of the target are then written whole, one after the other. Words make long pieces by their rows
    # already: a side without them comes first.
    if not target.rows:
        yield from ((k, axes[k].extent if is_short_row(axes[k], bits[1]) else 256) for k in target.lanes)
    if not source.rows:
        yield from ((k, 256) for k in source.lanes)
    if target.rows:
        yield from ((k, axes[k].extent if is_short_row(axes[k], WORD_BITS) else 256) for k in target.lanes)
    elif source.rows:
        # Tiles of words are long pieces already: then rows of the target, whose ends are written twice.
        yield from ((k, 8 * SHORT_ROW_BYTES // bits[1]) for k in target.lanes)
    # Rows of packed elements that are cut anyway: those of the target matter more whose ends are written twice.
    is_cut = bits[0] < 8 and not source.rows and any(axes[k].extent > long for k in source.lanes)
    is_ragged = not target.rows and any(side.unit_stride % limits.current.line_bits for side in _apart(axes, target))
    if is_cut and is_ragged:
        yield from ((k, long) for k in target.lanes)
    widths = (WORD_BITS, WORD_BITS) if source.rows and target.rows else bits
    yield from _onward(axes, 2, target, widths[1])
    yield from _onward(axes, 1, source, widths[0])
    yield from ((k, long) for k in (*lanes, *source.lanes, *target.lanes))
    # Rows along an axis that is near on neither side would take all room: lines are read, and written, once.
    line = limits.current.line_bits
    if not {*lanes}.intersection((*source.lanes, *source.rows, *target.lanes, *target.rows)):
        yield from ((k, a.extent) for k, a in enumerate(axes) if k not in lanes and a.distance < line)
    yield from ((k, _budget(staging)) for k in (*source.lanes, *target.lanes, *reversed(staging[0].order)))


def _apart(axes: Sequence[Axis], near: Near) -> Iterator[AxisMap]:
    """The target's side of the axes that are not near there."""
    return (axis.target for k, axis in enumerate(axes) if k not in near.lanes and axis.extent > 1)


def _onward(axes: Sequence[Axis], side: int, near: Near, bits: int) -> Iterator[tuple[int, int]]:
    """The axes along which short rows of one side (1 source, 2 target) go on, and how far, until they are long.

    `bits` are those of an element, or of words where rows share them on both sides: on one, they are long enough.
    """
    steps = [side_of(axis, side).unit_stride for axis in axes]
    run = axes[near.lanes[0]].extent * bits if near.lanes and (bits == WORD_BITS or not near.rows) else 0
    while 0 < run < 8 * limits.current.long_row_bytes:
        on = [k for k, axis in enumerate(axes) if axis.extent > 1 and steps[k] == run]
        if not on:
            return
        yield on[0], 8 * limits.current.long_row_bytes // run
        run *= axes[on[0]].extent


def is_short_row(axis: Axis, bits: int) -> bool:
    """Whether an axis that is contiguous in the target is one short run there."""
    return axis.extent * bits <= 8 * SHORT_ROW_BYTES and not any(m.sizes for m in axis.target.radix_maps)
