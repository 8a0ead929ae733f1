"""Copies along lanes, line by line: what the kernels of `interleave` and `interleave_bits` have in common.

A copy is three tables of byte offsets, which add up: `outer` (source, target), `rows` (source, target, member) and
`pieces` (source, target, lanes). The lanes of a piece are neighbours on both sides. Clipped tiles, windows and odd
sizes only change the tables. `row_cuts` and `piece_cuts` cut rows and pieces into blocks, done one after the other::

    for each outer: for each block of rows: for each block of pieces: for each row in it: for each piece in it

On the interleaved side of a layout with sub-tiles, such as T(8,128)(2,1), a lane is a word of 4 bytes that several
rows share. These rows all give the offset of the word; `member` says which of them a row is.

A streamed target is written in whole lines. What a piece leaves of a line stays in a register, and the
piece, row or matrix that goes on where this one ended completes it. So odd sizes, and targets that begin inside a
line, cost little.

What one part hands to the next goes by the same names here and in `shared_rows` and `put_words`, and has its fields
in `row_parts`: `fixed`, `how`, `line`, `lead`, `ahead`, `later` and `ends` are what the classes of these names say;
`origin` is the `Place` of a matrix and `place` that of a row, `piece` a part of a row, `chosen` a block of `Rows` and
`cut` one of `Pieces`.
"""

from __future__ import annotations

from strided.kernels import CACHED, simd_bytes
from strided.kernels.compile import BYTES, LIST, NUMBER, TABLE, WRITABLE, ZERO, part, separate
from strided.kernels.lines_ahead import (
    ROWS_AHEAD,
    ask,
    ask_for_end,
    ask_for_gap,
    block_ahead,
    end_of_rows,
    gap_behind,
    have_gaps,
    lead_of,
    lines_in_turn,
    next_block,
)
from strided.kernels.row_parts import NO_GAP, Ahead, Ends, How, Later, Lead, Line, Piece, Pieces, Place, Rows

ARGUMENTS = (BYTES, WRITABLE, TABLE, TABLE, TABLE, LIST, LIST, NUMBER, WRITABLE)
"""Arguments of these kernels: source, target, the five tables, whether to stream, scratch."""

# Where in the scratch, behind the line begun, a fetch finds what it would read beyond an end of the source.
_SPILLED = 1024


@part
def drive(fetch, spill, aim, block, known, widths, source, target, tables, streaming, scratch, options):
    """Copy what `tables` describe.

    `fetch` makes one line of the target, `spill` moves what a fetch reads to where it may read more, `aim` tells how to
    fetch a given row. `widths` are the bytes of a lane in a row of the source, those in the target, and the rows that
    share a lane of the target. `block` copies the pieces of a block of rows: `rows_alone`, or one of those that
    `shared_rows.blocks` makes. `known` is what it is told of the tables: how many rows share a word of the source, or
    what `shared_rows.drive_shared` has found out.
    """
    outer, rows, pieces, row_cuts, piece_cuts = tables
    s_lane, t_lane, shared = widths
    room = simd_bytes.address(scratch) + 255 & -256
    fixed = s_lane, t_lane, 64 * s_lane // t_lane, shared, streaming, room
    ends = Ends(simd_bytes.address(source), simd_bytes.address(source) + source.size)
    line = Line(room, room, simd_bytes.zero())
    end = end_of_rows(fixed, rows, pieces)
    far = ZERO + (source.size > CACHED)
    lanes, _ = sums(pieces)
    size = lanes * s_lane * len(rows) // max(1, (len(row_cuts) - 1) * (len(piece_cuts) - 1))
    gaps = have_gaps(rows, pieces, lanes * s_lane)
    soon = block_ahead(outer, row_cuts, piece_cuts, size, s_lane > t_lane, gaps)
    # Lines of the target that rows share are made of lines that begin before a row, or end behind it.
    tail = lanes * s_lane if gaps and streaming and lanes * t_lane & 63 else ZERO
    short = gap_behind(rows, pieces, s_lane) if far and s_lane <= 2 * t_lane else NO_GAP
    matrices = max(1, ROWS_AHEAD * shared // max(1, len(rows)))
    t = simd_bytes.address(target)
    for o in range(len(outer)):
        origin = Place(ends.begin + outer[o, 0], t + outer[o, 1])
        beyond = t + outer[min(o + matrices, len(outer) - 1), 1]
        later = Later(len(rows), end, beyond)
        for r in range(len(row_cuts) - 1):
            chosen = Rows(rows, row_cuts[r], row_cuts[r + 1])
            for p in range(len(piece_cuts) - 1):
                cut = Pieces(pieces, piece_cuts[p], piece_cuts[p + 1], len(pieces))
                on = lead_of(outer, rows, pieces, row_cuts, piece_cuts, (o, r, p), soon)
                lead = Lead(on, far, tail, short)
                soon = next_block(row_cuts, piece_cuts, soon)
                line = block(fetch, spill, aim, fixed, origin, chosen, cut, lead, later, ends, options, known, line)
    flush(line, room)
    if streaming:
        simd_bytes.fence()


@separate
def sums(pieces):
    """The lanes of all pieces, and where in lines of the target these begin: bits of all of them."""
    lanes, phases = ZERO, ZERO
    for p in range(len(pieces)):
        lanes += pieces[p, 2]
        phases |= pieces[p, 1] & 63
    return lanes, phases


@part
def rows_alone(fetch, spill, aim, fixed, origin, chosen, cut, lead, later, ends, options, known, line):
    """Copy the pieces of one block of rows that share no lanes of the target; return the line begun."""
    _, _, step, _, _, _ = fixed
    rows, i, last = chosen
    asks = later.end > 0 and cut.stop == cut.count
    while i < last:
        place = Place(origin.source + rows[i, 0], origin.target + rows[i, 1])
        member = rows[i, 2]
        how = How(aim(member, ZERO, options), ends.begin, ends.end - step)
        is_first = i == chosen.start or rows[i - 1, 0] != rows[i, 0]
        is_last = i + 1 == last or rows[i + 1, 0] != rows[i, 0]
        first, lines = lines_in_turn(step, known, last - chosen.start, member, is_first, is_last)
        ahead = Ahead(lead.on + 64 * first, lines, lead.far, ZERO + 1)
        if asks:
            ask_for_end(origin.target, rows, i + ROWS_AHEAD, later)
        line = copy_row(fetch, spill, fixed, place, cut, how, ahead, line)
        if lead.gap.stop and member == 0 and cut.stop == cut.count:
            ask_for_gap(place.source + cut.table[cut.count - 1, 0] + lead.on, lead.gap)
        if lead.tail:
            begin = place.source + cut.table[0, 0] + lead.on
            simd_bytes.prefetch(begin - 32)
            simd_bytes.prefetch(begin + lead.tail - 1)
        i += 1
    return line


@part
def copy_row(fetch, spill, fixed, place, cut, how, ahead, line):
    """Copy a row's pieces of a block; return the line begun.

    Where the target goes on from one block to the next, the limit between them moves to the next limit of a line.
    """
    _, t_lane, step, _, streaming, _ = fixed
    pieces, p, last, _ = cut
    skip, extra = ZERO, ZERO
    if streaming:
        skip, extra = _seam(cut, p, place.target, t_lane), _seam(cut, last, place.target, t_lane)
    while p < last or (p == last and extra > 0):
        s = place.source + pieces[p, 0] + (skip * step >> 6)
        t = place.target + pieces[p, 1] + skip
        piece = Piece(s, t, pieces[p, 2] * t_lane - skip if p < last else extra)
        if streaming and not t & t_lane - 1:
            line = copy_piece(fetch, spill, fixed, piece, how, ahead, line)
        else:
            copy_plain(fetch, spill, fixed, piece, how, ahead)
        skip = ZERO
        p += 1
    return line


@part
def _seam(cut, p, t_row, t_lane):
    """Bytes at the start of a piece that complete the line in which the piece before it ends."""
    pieces = cut.table
    if p == 0 or p == cut.count:
        return ZERO
    begins = pieces[p, 1]
    if pieces[p - 1, 1] + pieces[p - 1, 2] * t_lane != begins:
        return ZERO
    return min(-(t_row + begins) & 63 & -t_lane, pieces[p, 2] * t_lane)


@part
def copy_piece(fetch, spill, fixed, piece, how, ahead, line):
    """Copy a piece by whole lines; return the line begun."""
    _, _, step, shared, streaming, room = fixed
    s, t, count = piece
    first, end, carry = line
    if t != end:
        flush(line, room)
        first, end = t, t
    filled = end & 63
    if filled:
        ask(s, end, step, shared, ahead)
        more = edge(fetch, spill, s, filled, count, step, how, room)
        line, made = go_on(Line(first, end, carry), more, count, streaming, room)
        first, end, carry = line
        if end & 63:
            return line
        s += made * step >> 6
        count -= made
    while count >= 64:
        ask(s, end, step, shared, ahead)
        simd_bytes.put(end, fetch(s, how.manner), streaming)
        end += 64
        s += step
        count -= 64
    first = end
    if count:
        ask(s, end, step, shared, ahead)
        carry = edge(fetch, spill, s, ZERO, count, step, how, room)
        end += count
    return Line(first, end, carry)


@part
def go_on(line, more, count, streaming, room):
    """Add up to `count` bytes to a line begun, and write it where it is complete; the line as it then is, how many.

    `more` holds them where they belong in the line.
    """
    first, end, carry = line
    filled = end & 63
    carry = simd_bytes.blend(filled, carry, more)
    made = min(64 - filled, count)
    end += made
    if not end & 63:
        if first == end - 64:
            simd_bytes.put(first, carry, streaming)
        else:
            flush(Line(first, end, carry), room)
    return Line(first, end, carry), made


@part
def flush(line, room):
    """Write a line that will not be completed."""
    first, end, carry = line
    if end > first:
        simd_bytes.store(room, carry)
        simd_bytes.move(first, room + (first & 63), end - first)


@part
def copy_plain(fetch, spill, fixed, piece, how, ahead):
    """Copy a piece by stores of any alignment. What comes next is asked for only where it comes from memory."""
    _, _, step, shared, _, room = fixed
    s, t, count = piece
    if count < 64:
        if ahead.far:
            ask(s, t, step, shared, ahead)
        simd_bytes.store(room, edge(fetch, spill, s, ZERO, count, step, how, room))
        simd_bytes.move(t, room, count)
        return
    rest = count - 64
    while rest > 0:
        if ahead.far:
            ask(s, t, step, shared, ahead)
        simd_bytes.store(t, fetch(s, how.manner))
        t += 64
        s += step
        rest -= 64
    # The last line overlaps the one before it.
    if ahead.far:
        ask(s, t, step, shared, ahead)
    simd_bytes.store(t + rest, fetch(s + (rest * step >> 6), how.manner))


@part
def edge(fetch, spill, s, back, count, step, how, room):
    """A fetch of `count` bytes, behind `back` others, that reads nothing outside the source for the rest."""
    manner, low, high = how
    s -= back * step >> 6
    if s < low or s > high:
        s, manner = spill(room + _SPILLED, s + (back * step >> 6), min(count, 64) * step >> 6, manner)
        s -= back * step >> 6
    return fetch(s, manner)


@part
def spill_run(room, s, count, manner):
    """What a fetch reads of words, and of runs of bytes."""
    simd_bytes.move(room, s, count)
    return room, manner
