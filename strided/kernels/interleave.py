"""Tiled, interleaved and row-major buffers into one another: lanes that are neighbours on both sides.

``rows`` copies runs that both sides have. Where a sub-tile of one side puts rows of 8 or 16 bits into words,
``deinterleave`` takes them out and ``interleave`` puts them in. `row_driver.drive` says what the tables mean.
"""

from __future__ import annotations

from strided.kernels import NEAR, bitfields, simd_bytes
from strided.kernels.compile import ZERO, kernel, part
from strided.kernels.held_run import move_run
from strided.kernels.long_rows import take_long
from strided.kernels.put_words import patched, put_at_once, put_bytes, put_together
from strided.kernels.row_driver import ARGUMENTS, drive, rows_alone, spill_run
from strided.kernels.shared_rows import blocks, drive_shared
from strided.kernels.tables import row_tables
from strided.kernels.word_lines import begin_lines, near
from strided.kernels.word_rows import take_apart

#: Bytes of a row from which on streamed rows are taken out of words as fast span by span as all at once.
_LONG_ROW = 1 << 10


def _fetching(operation):
    @part
    def fetch(s, how):
        return operation(s, how)

    return fetch


def _unzipping(lines, line):
    @part
    def unzip(s, wanted, places, at, size, room, how):
        if size == 64:
            line(s, wanted, places, at)
        else:
            lines(s, places, at, size)

    return unzip


_fields16, _fields8 = _fetching(bitfields.fields16), _fetching(bitfields.fields8)
_unzip16 = _unzipping(bitfields.unzip16, bitfields.unzip_line16)
_unzip8 = _unzipping(bitfields.unzip8, bitfields.unzip_line8)
_braid16, _braid8 = _fetching(bitfields.braid16), _fetching(bitfields.braid8)


@part
def _load(s, how):
    return simd_bytes.load(s)


@part
def _anywhere(member, pitch, options):
    return 0


@part
def _skip(member, pitch, size):
    return member * size


@part
def _apart(member, pitch, options):
    return pitch


def _spilling(rows):
    @part
    def spill(room, s, count, pitch):
        for k in range(rows):
            simd_bytes.move(room + 128 * k, s + k * pitch, count)
        return room, 128

    return spill


_spill_two, _spill_four = _spilling(2), _spilling(4)


@part
def _patch16(fetch, fixed, place, rows, i, last, cut, pitch, word):
    return patched(fetch, put_bytes, 16, 0, fixed, place, rows, i, last, cut, pitch)


@part
def _patch8(fetch, fixed, place, rows, i, last, cut, pitch, word):
    return put_together(fetch, put_bytes, 8, 0, fixed, place, rows, i, last, cut, pitch, word)


_blocks16, _blocks8 = blocks(_patch16), blocks(_patch8)


@kernel(*ARGUMENTS)
def rows(source, target, outer, rows, pieces, row_cuts, piece_cuts, streaming, scratch):
    """Copy runs of bytes: a lane is a byte."""
    if not streaming and source.size <= NEAR:
        # In the cache, nothing is worth more than a copy of each piece.
        for o in range(outer.shape[0]):
            for r in range(rows.shape[0]):
                s = simd_bytes.address(source) + outer[o, 0] + rows[r, 0]
                t = simd_bytes.address(target) + outer[o, 1] + rows[r, 1]
                for p in range(pieces.shape[0]):
                    move_run(t + pieces[p, 1], s + pieces[p, 0], pieces[p, 2])
        return
    tables = row_tables(outer, rows, pieces, row_cuts, piece_cuts)
    drive(_load, spill_run, _anywhere, rows_alone, 1, (1, 1, 1), source, target, tables, streaming, scratch, 0)


@kernel(*ARGUMENTS)
def deinterleave16(source, target, outer, rows, pieces, row_cuts, piece_cuts, streaming, scratch):
    """Take rows of 16 bits out of words that two of them share."""
    tables = row_tables(outer, rows, pieces, row_cuts, piece_cuts)
    if take_apart(_unzip16, 2, 2, _LONG_ROW, source, target, tables, streaming, scratch, 0):
        return
    one_by_one = near(tables[1], ZERO, tables[2]) >= simd_bytes.reread()
    if not one_by_one and take_long(_unzip16, 2, 2, _LONG_ROW, source, target, tables, scratch, 0):
        return
    drive(_fields16, spill_run, _skip, rows_alone, 2, (4, 2, 1), source, target, tables, ZERO + 1, scratch, 2)


@kernel(*ARGUMENTS)
def deinterleave8(source, target, outer, rows, pieces, row_cuts, piece_cuts, streaming, scratch):
    """Take rows of 8 bits out of words that four of them share."""
    tables = row_tables(outer, rows, pieces, row_cuts, piece_cuts)
    if take_apart(_unzip8, 4, 1, _LONG_ROW, source, target, tables, streaming, scratch, 0):
        return
    # One by one, rows that begin inside of lines take longer, even there.
    one_by_one = near(tables[1], ZERO, tables[2]) >= simd_bytes.reread() and begin_lines(target, *tables[:3])
    if not one_by_one and take_long(_unzip8, 4, 1, _LONG_ROW, source, target, tables, scratch, 0):
        return
    drive(_fields8, spill_run, _skip, rows_alone, 4, (4, 1, 1), source, target, tables, ZERO + 1, scratch, 1)


@kernel(*ARGUMENTS)
def interleave16(source, target, outer, rows, pieces, row_cuts, piece_cuts, streaming, scratch):
    """Put rows of 16 bits into words, two rows into each. Rows of one word follow each other in the table.

    A row whose words' other row is not in its block goes in alone, and the other one's bytes stay as they are.
    """
    tables = row_tables(outer, rows, pieces, row_cuts, piece_cuts)
    if put_at_once(bitfields.braid_rows16, _braid16, _patch16, (2, 4, 2), source, target, tables, streaming, scratch):
        return
    drive_shared(_braid16, _spill_two, _apart, _blocks16, (2, 4, 2), source, target, tables, streaming, scratch, 0)


@kernel(*ARGUMENTS)
def interleave8(source, target, outer, rows, pieces, row_cuts, piece_cuts, streaming, scratch):
    """Put rows of 8 bits into words, four rows into each, as `interleave16` does with two."""
    tables = row_tables(outer, rows, pieces, row_cuts, piece_cuts)
    if put_at_once(bitfields.braid_rows8, _braid8, _patch8, (1, 4, 4), source, target, tables, streaming, scratch):
        return
    drive_shared(_braid8, _spill_four, _apart, _blocks8, (1, 4, 4), source, target, tables, streaming, scratch, 0)
