"""Transposes: neighbours in the source go to different rows of the target, and vice versa.

`p` counts along the runs of the source, `q` along those of the target. Element (p, q) comes from ``source_rows[q]``
plus its place in a piece of p, and goes to ``target_rows[p]`` plus its place in a piece of q. A piece is (offset,
number of its first p or q, count). So tiles on either side only change tables. All offsets are in bytes and add up.

Blocks are squares of 64 bytes a side. In the cache they are turned straight from one side to the other. Beyond it, how
memory is touched counts more than anything else: see `transpose_ring`.
"""

from __future__ import annotations

from strided.kernels import NEAR, block_transpose, part_transpose, simd_bytes
from strided.kernels.compile import ZERO, kernel, part, separate
from strided.kernels.held_run import Run, finish, move_end
from strided.kernels.llvm import is_zen5, streams_lines
from strided.kernels.transpose_joined import Joined, by_run, follow, is_short, prepare_run
from strided.kernels.transpose_lines import always, apart, apart_or_kept, lines_by, never, nothing
from strided.kernels.transpose_ring import NO_RING, NOT_LATE, by_ring, finish_ring, prepare_ring
from strided.kernels.transpose_squares import (
    ARGUMENTS,
    BAND,
    CHUNK,
    NOTHING,
    RUN,
    SQUARE,
    TARGETS,
    Bounds,
    Extent,
    Following,
    Here,
    Origin,
    Rows,
    ask,
    asking,
    inside,
    matrices_ahead,
    next_band,
    sharing,
    sources_of,
    turning,
    wanted_at,
)

_SIDE_BY_SIDE = 64  # rows of the source that are read on before the next ones, if not from the cache


@part
def _transpose(turn, suits, by_lines, width, source, target, tables, streaming, scratch):
    """Copy what the tables describe, in elements of `width` bytes."""
    (outer, matrices), (source_rows, count), (target_rows, goals), p_table, (q_pieces, across) = tables
    p_pieces, along = p_table
    room = simd_bytes.address(scratch) + 63 & -64
    s_end = simd_bytes.address(source) + source.size
    # Of rows that lie in a line, one is asked for.
    bounds = Bounds(simd_bytes.address(source), s_end, sharing(source_rows, count))
    held, far = Joined(ZERO, ZERO, ZERO, room + RUN), ZERO
    late = NOT_LATE
    for k in range(count):
        far = max(far, simd_bytes.item(source_rows, k))
    ring = prepare_ring(width, p_table, room) if streaming else NO_RING
    alike = along == 1 and simd_bytes.cell(p_pieces, 0, 2) <= BAND
    # If all rows of the target follow each other, those of every piece do.
    first = Here(source_rows + 8 * simd_bytes.cell(q_pieces, 0, 1), ZERO, simd_bytes.cell(q_pieces, 0, 2))
    short = across == 1 and is_short(source_rows, count, first.count * width, width)
    all_run_on = short and not alike and follow(target_rows, goals, first.count * width, width, streaming) == goals
    if all_run_on:
        prepare_run(width, first.count * width, first.table, first.count, room)
    run_on = ZERO
    on = matrices_ahead(goals * count * width)
    for o in range(matrices):
        for i in range(along):
            band, stop = ZERO, simd_bytes.cell(p_pieces, i, 2)
            while band < stop:
                p_count = min(BAND, stop - band)
                targets = target_rows + 8 * (simd_bytes.cell(p_pieces, i, 1) + band)
                s = bounds.begin + simd_bytes.cell2(outer, o, 0) + simd_bytes.cell(p_pieces, i, 0) + band * width
                t = simd_bytes.address(target) + simd_bytes.cell2(outer, o, 1)
                if all_run_on:
                    run_on = p_count
                elif short and not (alike and o > 0 and band == 0 and (run_on == 0 or run_on == p_count)):
                    run_on = follow(targets, p_count, first.count * width, width, streaming)
                    if run_on:
                        prepare_run(width, first.count * width, first.table, first.count, room)
                        p_count = run_on
                band += p_count
                # What comes next is told, so that its lines can be on their way.
                after = next_band(outer, min(o + on, matrices - 1), p_table, o, i, (band, p_count), width, s)
                if run_on:
                    origin, extent = Origin(first.table, s, far), Extent(p_count, first.count)
                    t += simd_bytes.cell(q_pieces, 0, 0) + simd_bytes.integer(targets)
                    held = by_run(
                        turn, width, first.count * width, origin, t, extent, after, held, streaming, room, bounds
                    )
                    continue
                for j in range(across):
                    origin = Origin(source_rows + 8 * simd_bytes.cell(q_pieces, j, 1), s, far)
                    goal = Rows(targets, t + simd_bytes.cell(q_pieces, j, 0))
                    extent = Extent(p_count, simd_bytes.cell(q_pieces, j, 2))
                    n = j + 1 if j + 1 < across else ZERO
                    rows = source_rows + 8 * simd_bytes.cell(q_pieces, n, 1)
                    following = Following(
                        rows, s if n else after.start, simd_bytes.cell(q_pieces, n, 2), p_count if n else after.count
                    )
                    if streaming:
                        late = by_ring(
                            turn, suits, by_lines, width, ring, origin, goal, extent, following, late, room, bounds
                        )
                    else:
                        _direct(turn, width, origin, goal, extent, following, room, bounds)
    finish(Run(held.begin, held.end, held.base), streaming, held.place)
    if streaming:
        finish_ring(width, ring, late, room)
        simd_bytes.fence()


@separate
def _direct(turn, width, origin, goal, extent, following, room, bounds):
    """Turn all blocks of a band from where they are to where they belong, along the target's rows."""
    side = 64 // width
    # In short rows the next line is not what is wanted next, and from far away it comes too late.
    near = bounds.end - bounds.begin <= 2 * NEAR and extent.p * width >= CHUNK and extent.q >= side
    overlaps = extent.p >= side and extent.q >= side
    # Squares begin where lines do, on both sides. The first ones have some of the next, which costs less in long rows.
    before = ZERO, ZERO
    if overlaps:
        before = _before(origin, extent.p, width), _before(goal, extent.q, width)
    # From far away a few rows are read on and on; in the cache those of the target are written so.
    bands = 1 if near else max(1, extent.q // _SIDE_BY_SIDE)
    for k in range(bands):
        first = k * _SIDE_BY_SIDE
        rows = extent.q - first if k + 1 == bands else _SIDE_BY_SIDE
        across = (rows + side - 1) // side
        sources = origin.table + 8 * first
        after = following
        if k + 1 < bands:
            after = Following(sources + 8 * rows, origin.start, rows, extent.p)
        begin = -before[1] if k == 0 else (side - before[1]) % side
        plan = asking(Here(sources, origin.start, rows), after, extent.p, across, width, bounds)
        for p in range(-before[0], extent.p, side):
            wanted = wanted_at(plan, p)
            # What is left over is turned with some of what comes before it, once more, if it is not much smaller.
            count = min(side, extent.p - p)
            column = max(ZERO, min(p, extent.p - side)) if overlaps and 4 * count > side else p
            for q in range(begin, rows, side):
                row = max(ZERO, min(first + q, extent.q - side))
                at = Rows(origin.table + 8 * row, origin.start + column * width)
                if near:
                    _ask_beside(side, sources + 8 * min(q + side, rows - side), origin.start + p * width + 64)
                else:
                    ask(wanted, (q - begin) // side, False)
                to = Rows(goal.table + 8 * column, goal.start + row * width)
                if extent.q < side:
                    _edge(turn, width, at, to, Extent(count, extent.q), room, bounds)
                elif column != p or count == side:
                    turn(at.table, at.start, to.table, to.start, room, NOTHING, (side, side))
                else:
                    _narrow(turn, width, at, to, count, room, bounds)


@part
def _before(rows, extent, width):
    """How many elements before the first one of rows a line begins, if it does for all; 0 for rows of few lines.

    There are two rows at least.
    """
    phase = simd_bytes.integer(rows.table) + rows.start & 63
    alike = phase == simd_bytes.integer(rows.table + 8) + rows.start & 63 and phase & width - 1 == 0
    return phase // width if alike and extent * width >= CHUNK else ZERO


@part
def _ask_beside(rows, table, s):
    """Ask for a line of each of some rows: what follows the lines of the next square, wanted after all along these.

    Caches fetch lines in pairs, so that those of the next square are there, too.
    """
    for k in range(rows):
        simd_bytes.prefetch(s + simd_bytes.integer(table + 8 * k))


@separate
def _narrow(turn, width, origin, goal, count, room, bounds):
    """Turn a block of which only `count` p are there, all q of each."""
    side = 64 // width
    simd_bytes.move(room + TARGETS, goal.table, 8 * count)
    for k in range(count, side):
        # What is written of others is not wanted.
        simd_bytes.put_item(room + TARGETS, k, room + SQUARE - goal.start)
    at = inside(origin, side, count * width, bounds, room)
    turn(at.table, at.start, room + TARGETS, goal.start, room, NOTHING, (side, count))


@separate
def _edge(turn, width, origin, goal, extent, room, bounds):
    """Turn a block of which only `extent` (p, q) is there; neither reads nor writes the rest."""
    targets = room + TARGETS
    for k in range(64 // width):
        simd_bytes.put_item(targets, k, 64 * k)
    at = Rows(sources_of(origin, extent.q, 64 // width, room), origin.start)
    at = inside(at, 64 // width, extent.p * width, bounds, room)
    turn(at.table, at.start, targets, room + SQUARE, room, NOTHING, (extent.q, extent.p))
    for k in range(extent.p):
        t = goal.start + simd_bytes.integer(goal.table + 8 * k)
        move_end(t, room + SQUARE + 64 * k, extent.q * width)


@part
def _turn64(sources, source, targets, target, room, others, present):
    block_transpose.turn64(sources, source, targets, target, room, *others)


@part
def _turn_pairs(sources, source, targets, target, room, others, present):
    block_transpose.turn_pairs(sources, source, targets, target, room, *others)


_turn8 = turning(1, block_transpose.turn8, part_transpose.turn_part8)
_turn16 = turning(2, block_transpose.turn16, part_transpose.turn_part16)
_turn32 = turning(4, block_transpose.turn32, part_transpose.turn_part32)


_suits32, _suits64, _lines32, _lines64, _pair_lines = never, never, nothing, nothing, nothing
if streams_lines():
    _suits32, _suits64 = (apart_or_kept, always) if is_zen5() else (apart, apart)
    _lines32, _lines64 = lines_by(block_transpose.turn_lines32), lines_by(block_transpose.turn_lines64)
    _pair_lines = lines_by(block_transpose.turn_pair_lines)


@kernel(*ARGUMENTS)
def transpose8(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 8 bits."""
    tables = simd_bytes.tables(outer, source_rows, target_rows, p_pieces, q_pieces)
    _transpose(_turn8, never, nothing, 1, source, target, tables, streaming, scratch)


@kernel(*ARGUMENTS)
def transpose16(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 16 bits."""
    tables = simd_bytes.tables(outer, source_rows, target_rows, p_pieces, q_pieces)
    _transpose(_turn16, never, nothing, 2, source, target, tables, streaming, scratch)


@kernel(*ARGUMENTS)
def transpose32(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 32 bits."""
    tables = simd_bytes.tables(outer, source_rows, target_rows, p_pieces, q_pieces)
    _transpose(_turn32, _suits32, _lines32, 4, source, target, tables, streaming, scratch)


@kernel(*ARGUMENTS)
def transpose64(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 64 bits."""
    tables = simd_bytes.tables(outer, source_rows, target_rows, p_pieces, q_pieces)
    _transpose(_turn64, _suits64, _lines64, 8, source, target, tables, streaming, scratch)


@kernel(*ARGUMENTS)
def transpose_pairs(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Pairs of words that two rows of 16 bits share on both sides, themselves turned: see `transpose_words`."""
    tables = simd_bytes.tables(outer, source_rows, target_rows, p_pieces, q_pieces)
    _transpose(_turn_pairs, _suits32, _pair_lines, 8, source, target, tables, streaming, scratch)
