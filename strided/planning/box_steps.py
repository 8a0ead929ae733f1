"""Vector steps of boxes: the axes that a kernel runs along, and offsets in the units that it counts."""

from __future__ import annotations

from typing import NamedTuple

from strided.planning.access_order import outer_order, row_and_outer
from strided.planning.boxes import WORD_BITS, Box, in_units, nearest_place, side_of
from strided.planning.longer_runs import lengthened, whole_run
from strided.planning.vector_step import VectorStep
from strided.runtime import limits


class Case(NamedTuple):
    """A box, the places of the nearest axes on both sides, and the bits of an element on both sides."""

    box: Box
    near_source: int
    near_target: int
    source_bits: int
    target_bits: int


def nearest(box: Box, side: int) -> int | None:
    """The place of the axis with the smallest step on one side; None if it goes backwards, or nothing moves."""
    place = nearest_place(box.axes, side, range(len(box.axes)))
    return None if place is None or side_of(box.axes[place], side).unit_stride <= 0 else place


def case_of(box: Box, source_bits: int, target_bits: int) -> Case | None:
    """A box with its nearest axes; None if a side has none that goes forwards."""
    near_source, near_target = nearest(box, 1), nearest(box, 2)
    if near_source is None or near_target is None:
        return None
    return Case(box, near_source, near_target, source_bits, target_bits)


def is_short(box: Box, lane: int, bits: int) -> bool:
    """Whether the lanes come in pieces too short for vectors."""
    axis = box.axes[lane]
    return axis.run * bits < min(limits.current.run_bits, axis.extent * bits)


def transposed(asked: Case, kernel: str) -> VectorStep | None:
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
    return step_of(kernel, box, bits, row, lane)


def step_of(
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
    scaled = in_units(box, units)
    if scaled is None:
        return None
    if row is None:
        row, outer = row_and_outer(kernel, scaled.axes, lane)
    else:
        outer = outer_order(scaled.axes, [k for k in (row, lane) if k is not None])
    # Words of packed elements are read and written again, with all that lies in them.
    strides = [s for axis in box.axes for m in axis.target.radix_maps for s in m.strides]
    divides = kernel != "interleave_bits" or not any(s % WORD_BITS for s in strides)
    return VectorStep(
        kernel=kernel,
        source_base=scaled.source_base,
        target_base=scaled.target_base,
        axes=scaled.axes,
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
