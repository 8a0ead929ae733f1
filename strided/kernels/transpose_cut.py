"""Transposes of words into short rows that end inside of a word: all rows of the target follow each other.

As with ``u8[n,70]`` from ``{0,1:T(8,128)(4,1)}`` to row-major order: 18 words, of which the last one is half full,
become a row of 70 bytes. `transpose` says what the tables mean; there is one piece of q.
"""

from __future__ import annotations

from strided.kernels import block_transpose, part_transpose, simd_bytes
from strided.kernels.compile import BYTES, LIST, NUMBER, TABLE, WRITABLE, ZERO, kernel, part
from strided.kernels.held_run import Run, finish
from strided.kernels.transpose_joined import Joined, by_run, evenly, prepare_run
from strided.kernels.transpose_squares import RUN, Bounds, Extent, Origin, matrices_ahead, next_band, sharing, turning

_turn32 = turning(4, block_transpose.turn32, part_transpose.turn_part32)


@part
def _transpose(lacking, source, target, tables, streaming, scratch):
    """Copy what the tables describe."""
    (outer, matrices), (source_rows, count), (target_rows, goals), p_table, (q_pieces, _) = tables
    p_pieces, along = p_table
    room, size = simd_bytes.address(scratch) + 63 & -64, 4 * count - lacking
    s_end = simd_bytes.address(source) + source.size
    bounds = Bounds(simd_bytes.address(source), s_end, sharing(source_rows, count))
    held, far = Joined(ZERO, ZERO, ZERO, room + RUN), ZERO
    for k in range(count):
        far = max(far, simd_bytes.item(source_rows, k))
    rows = source_rows + 8 * simd_bytes.cell(q_pieces, 0, 1)
    prepare_run(4, size, rows, count, room)
    on = matrices_ahead(goals * count * 4)
    for o in range(matrices):
        for i in range(along):
            band, stop = ZERO, simd_bytes.cell(p_pieces, i, 2)
            while band < stop:
                targets = target_rows + 8 * (simd_bytes.cell(p_pieces, i, 1) + band)
                s = bounds.begin + simd_bytes.cell2(outer, o, 0) + simd_bytes.cell(p_pieces, i, 0) + 4 * band
                t = simd_bytes.address(target) + simd_bytes.cell2(outer, o, 1) + simd_bytes.cell(q_pieces, 0, 0)
                t += simd_bytes.integer(targets)
                p_count = evenly(targets, stop - band, size)
                band += p_count
                after = next_band(outer, min(o + on, matrices - 1), p_table, o, i, (band, p_count), 4, s)
                origin, extent = Origin(rows, s, far), Extent(p_count, count)
                held = by_run(_turn32, 4, size, origin, t, extent, after, held, streaming, room, bounds)
    finish(Run(held.begin, held.end, held.base), streaming, held.place)
    if streaming:
        simd_bytes.fence()


@kernel(BYTES, WRITABLE, TABLE, LIST, LIST, TABLE, TABLE, NUMBER, NUMBER, WRITABLE)
def transpose_cut32(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, lacking, streaming, scratch):
    """Words of 32 bits; the last one of each row of the target lacks up to three bytes."""
    tables = simd_bytes.tables(outer, source_rows, target_rows, p_pieces, q_pieces)
    _transpose(lacking, source, target, tables, streaming, scratch)
