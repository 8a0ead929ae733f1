"""The tables that the kernel of a vector step follows, for a range of every axis.

`strided.kernels` says what they mean. Each task is cut into blocks, so that lines stay in the cache until they are used
up and targets are written front to back.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from strided.planning.access_order import PAGE_BYTES
from strided.planning.boxes import LINE_BYTES, WORD_BITS, Axis
from strided.planning.kernel_kinds import Form
from strided.planning.offset_tables import (
    Tables,
    block_limits,
    distinct,
    groups_of,
    piece_ends,
    pieces_of,
    source_offsets,
    source_runs,
    target_offsets,
    target_runs,
)
from strided.planning.task_ranges import TaskRanges
from strided.runtime import limits
from strided.runtime.aliases import Table

if TYPE_CHECKING:
    from strided.planning.vector_step import VectorStep


def arguments_of(step: VectorStep, tables: Tables, parts: TaskRanges, shift: tuple[int, int]) -> tuple[Any, ...]:
    """The kernel's tables for one task.

    `shift` moves both sides, in `units`.
    """
    bases = step.source_base + shift[0], step.target_base + shift[1]
    lane = parts[step.lane]
    if step.kind.form is Form.RUN:
        axis, count = step.axes[step.lane], (lane.stop - lane.start) * step.bits // 8
        source, target = lane.source + axis.source.at(lane.start), lane.target + axis.target.at(lane.start)
        return bases[0] + source, bases[1] + target, count
    # Groups of rows are matrices of their own, so that one table of few rows serves for all.
    groups = (step.row, partial(_groups, step)) if step.has_row_table and step.row >= 0 else None
    outer = tables.outer(bases, step.outer, parts, groups)
    if step.has_short_rows:
        row, size = step.axes[step.row], step.run_bits // 8
        runs = tables.get("runs", step.row, parts[step.row], pieces_of)
        return outer, runs, row.source.unit_stride, row.target.unit_stride, size
    if step.is_transposition:
        return (
            outer,
            tables.get("source rows", step.row, parts[step.row], source_offsets),
            tables.get("target rows", step.lane, lane, target_offsets),
            tables.get("source runs", step.lane, lane, source_runs),
            tables.get("target runs", step.row, parts[step.row], target_runs),
            *_members_of(step, parts),
            *((step.lacking,) if step.lacking else ()),
        )
    pieces = tables.get("pieces", step.lane, lane, partial(_pieces, step))
    plain = step.kind.form is not Form.BLOCKS
    if step.row < 0:
        rows = np.array([[0, 0, step.member]])
        return (outer, rows, pieces) if plain else (outer, rows, pieces, _ends(1), _ends(len(pieces)))
    part = parts[step.row]
    count = len(outer) // math.prod(parts[k].stop - parts[k].start for k in step.outer)
    part = part._replace(stop=part.start + (part.stop - part.start) // count)
    rows = tables.get("rows", step.row, part, partial(_rows, step))
    if plain:
        return outer, rows, pieces, *_members_of(step, parts)
    row_cuts = tables.get("row cuts", step.row, part, partial(_row_cuts, step))
    return outer, rows, pieces, row_cuts, tables.get("piece cuts", step.lane, lane, partial(_piece_cuts, step))


def _members_of(step: VectorStep, parts: TaskRanges) -> tuple[int, ...]:
    """The members for a kernel that takes them: all, but in the last words of a transposition."""
    if not step.members[0] or step.kernel == "transpose_pairs":
        return ()
    if not step.is_transposition:
        return step.members
    ends = (parts[k].stop == step.axes[k].extent for k in (step.row, step.lane))
    return tuple(own if at_end else step.shared for own, at_end in zip(step.members, ends, strict=True))


def rows_alike(step: VectorStep) -> int:
    """Of what a group of rows is a multiple, so that none cuts a word, a line of words or a block of rows."""
    return math.lcm(least_words(step), step.rows, _block(step)[0] or 1)


def least_words(step: VectorStep) -> int:
    """Rows of a line of the target, if each is a word in it."""
    return LINE_BYTES * 8 // WORD_BITS if step.packs_words else 1


def _groups(step: VectorStep, axis: Axis, start: int, stop: int) -> Table:
    """(source offset, target offset) of groups of rows, less those of the first."""
    return groups_of(axis, start, stop, rows_alike(step))


def _pieces(step: VectorStep, axis: Axis, start: int, stop: int) -> Table:
    """(source offset, target offset, length) of pieces, in lanes, but in bytes for `rows` and `exchange`."""
    table = pieces_of(axis, start, stop, _cut(step))
    if step.kernel == "rows" or step.is_exchange:
        table[:, 2] *= step.bits // 8
    return table


def _rows(step: VectorStep, axis: Axis, start: int, stop: int) -> Table:
    """(source offset, target offset, which row of its word) of the rows."""
    table = np.zeros((stop - start, 3), np.int64)
    table[:, 0], table[:, 1] = axis.source.table(start, stop), axis.target.table(start, stop)
    if step.rows == 1:
        table[:, 2] = step.member
    else:
        first = (axis.source if step.interleaved == 1 else axis.target).radix_maps[0].start
        table[:, 2] = np.arange(first + start, first + stop) % step.rows
    return table


def _block(step: VectorStep) -> tuple[int, int]:
    """Rows and lanes of one block; 0 means all.

    If the target is tiled: one of its tiles, so that it is written front to back, or some rows of a few tiles if
    tiles are tall, or a page of tiles that are a single row of words. If only the source is: the rows of its tiles,
    and as many tiles side by side as stay in the first-level cache until they are used up. Blocks of all lanes change
    nothing but what is asked for: the same row of a later tile.
    """
    lane, row = step.axes[step.lane], step.axes[step.row]
    if row.extent * lane.extent * step.bits <= 8 * 2 * limits.current.tiled_block_bytes:
        return 0, 0
    if lane.target.unit:
        rows = max(step.rows, row.target.period)
        # More rows at once are more streams than the CPU fetches ahead.
        few = max(step.rows, limits.current.streams)
        if rows > few and rows % few == 0:
            return few, 4 * lane.target.unit
        tiles = PAGE_BYTES * 8 // (rows * lane.target.unit * step.bits) if rows == step.rows else 1
        return rows, max(1, tiles) * lane.target.unit
    if not lane.source.unit:
        return step.rows, _cut(step)
    rows = max(step.rows, row.source.period)
    tile_bytes = lane.source.unit * lane.source.unit_stride * rows // step.rows
    # Words that rows share are read once for each: small blocks are best, unless rows then end in broken lines.
    is_small = step.rows > 1 and tile_bytes < PAGE_BYTES and not row.target.unit_stride % LINE_BYTES
    block_bytes = _word_block_bytes(step) if is_small else limits.current.tiled_block_bytes
    lanes = max(1, block_bytes // tile_bytes) * lane.source.unit
    return rows, (0 if lane.extent <= lanes else lanes)


def _cut(step: VectorStep) -> int:
    """Lanes into which pieces are cut that are read once for each of the rows that share their words; 0 for any.

    Where tiles are one row of words, a row of the array is a single piece. Of longer ones than the first-level cache
    keeps, the next row would find nothing there.
    """
    lane = step.axes[step.lane]
    if step.interleaved != 1 or lane.source.unit or lane.target.unit or step.kind.form is not Form.BLOCKS:
        return 0
    lanes = _word_block_bytes(step) * 8 // WORD_BITS
    return lanes if lane.extent > 2 * lanes else 0


def _word_block_bytes(step: VectorStep) -> int:
    """Bytes of the words of a block that several rows are taken from: a page, two for more than two rows."""
    return PAGE_BYTES * min(2, step.rows // 2)


def _row_cuts(step: VectorStep, axis: Axis, start: int, stop: int) -> Table:
    """The limits of blocks of rows."""
    return block_limits(axis, start, stop, _block(step)[0])


def _piece_cuts(step: VectorStep, axis: Axis, start: int, stop: int) -> Table:
    """The limits of blocks of pieces, which are whole pieces."""
    ends = piece_ends(axis, start, stop, _cut(step)) - start
    return distinct(np.searchsorted(ends, block_limits(axis, start, stop, _block(step)[1])))


def _ends(count: int) -> Table:
    return np.array([0, count], np.int64)
