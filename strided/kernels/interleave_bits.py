"""Rows of elements of fewer than eight bits, out of words that they share, and into these; elsewhere each is a byte.

`bits`, `signed` and `high_first` are as in `packed_runs`.
"""

from __future__ import annotations

from strided.kernels import bitfields, simd_bytes
from strided.kernels.compile import NUMBER, ZERO, kernel, part
from strided.kernels.long_rows import take_long
from strided.kernels.put_words import put_bits, put_together
from strided.kernels.row_driver import ARGUMENTS, drive, rows_alone, spill_run
from strided.kernels.shared_rows import blocks, drive_shared
from strided.kernels.tables import row_tables
from strided.kernels.word_lines import BYTES, begin_lines, put_place, ragged, sharing
from strided.kernels.word_rows import take_apart

_LONG_ROW = 320  # bytes of a row from which on `drive` takes streamed rows out of words as fast as `take_apart`
_LONG_PIECE = 320  # words of a piece from which on `drive` does so where pieces or rows end inside lines, too
_PLACES = BYTES + 256  # where the scratch of `take_apart` holds the places of the bytes of words


@part
def _fields(s, how):
    skip, shift, mask, sign = how
    return simd_bytes.narrow(bitfields.fields8(s, skip), shift, mask, sign)


@part
def _place(member, pitch, options):
    bits, flip, sign = options
    shift = member * bits ^ flip
    return shift >> 3, shift & 7, (1 << bits) - 1, sign


@part
def _unzip(s, wanted, places, at, size, room, how):
    """Take `size` bytes of all rows out of words, 64 or more: the last line overlaps the one before it.

    Of the words, the first `wanted` bytes count.
    """
    for k in range(4):
        put_place(room + _PLACES, k, room + BYTES + 64 * k)
    for c in range(0, size, 64):
        first = min(c, size - 64)
        bitfields.unzip_line8(s + 4 * first, wanted - 4 * first, room + _PLACES, ZERO)
        _put_lines(places, at + first, room, how)


@part
def _put_lines(places, at, room, how):
    """Write a line of each row of bytes that hold several."""
    bits, flip, sign = how
    number = ZERO
    for k in range(4):
        line = simd_bytes.load(room + BYTES + 64 * k)
        for shift in range(0, 8, bits):
            row = simd_bytes.narrow(line, shift ^ flip, (1 << bits) - 1, sign)
            simd_bytes.store(simd_bytes.cell(places, number, 1) + at, row)
            number += 1


@part
def _together(rows, pieces, bits, streaming):
    """Whether enough rows of each word are wanted for all of them to be taken out of it at once."""
    shared, count = 32 // bits, sharing(rows, ZERO, len(rows))
    for p in range(len(pieces)):
        if not streaming and pieces[p, 2] >= 64:
            return count == shared
    return 2 * count >= shared


@part
def _are_cut(target, outer, rows, pieces):
    """Whether `drive` would often stop at an edge: in rows of several short pieces, these or the rows end inside lines.

    What two pieces share of the target, a line, is fetched once for each.
    """
    if len(pieces) < 2 or pieces[len(pieces) >> 1, 2] >= _LONG_PIECE:
        return False
    return ragged(pieces, 1) > 0 or not begin_lines(target, outer, rows, pieces)


@part
def _braid(s, how):
    pitch, bits, flip = how
    return bitfields.braid_packed(s, pitch, bits, flip)


@part
def _spill(room, s, count, how):
    pitch, bits, flip = how
    place = room
    for _ in range(0, 32, bits):
        simd_bytes.move(place, s, count)
        place += 64
        s += pitch
    return room, (ZERO + 64, bits, flip)


@part
def _apart(member, pitch, options):
    bits, flip = options
    return pitch, bits, flip


@part
def _patch(fetch, fixed, place, rows, i, last, cut, manner, word):
    _, bits, flip = manner
    return put_together(fetch, put_bits, bits, flip, fixed, place, rows, i, last, cut, manner, word)


_blocks = blocks(_patch)


@kernel(*ARGUMENTS, NUMBER, NUMBER, NUMBER)
def deinterleave_bits(
    source, target, outer, rows, pieces, row_cuts, piece_cuts, streaming, scratch, bits, signed, high_first
):
    """Take rows of elements out of words that 32 / `bits` of them share, into bytes; tables as in `drive`."""
    tables = row_tables(outer, rows, pieces, row_cuts, piece_cuts)
    options = bits, (8 - bits) * high_first, signed << bits - 1
    if _together(tables[1], tables[2], bits, streaming):
        if take_apart(_unzip, 32 // bits, 1, _LONG_ROW, source, target, tables, streaming, scratch, options):
            return
        if streaming and _are_cut(target, *tables[:3]):
            if take_long(_unzip, 32 // bits, 1, _LONG_ROW, source, target, tables, scratch, options):
                return
    shared, widths = 32 // bits, (4, 1, 1)
    drive(_fields, spill_run, _place, rows_alone, shared, widths, source, target, tables, streaming, scratch, options)


@kernel(*ARGUMENTS, NUMBER, NUMBER)
def interleave_bits(source, target, outer, rows, pieces, row_cuts, piece_cuts, streaming, scratch, bits, high_first):
    """Put rows of bytes into words that 32 / `bits` of them share; tables as in `drive`.

    Rows that are alone keep the bits of others by reading and writing whole bytes: threads may not share their words.
    """
    tables = row_tables(outer, rows, pieces, row_cuts, piece_cuts)
    options = bits, (8 - bits) * high_first
    drive_shared(
        _braid, _spill, _apart, _blocks, (1, 4, 32 // bits), source, target, tables, streaming, scratch, options
    )
