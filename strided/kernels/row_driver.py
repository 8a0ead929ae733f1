"""Copies along lanes, line by line: what the kernels of `interleave` and `subbyte` have in common.

A copy is three tables of byte offsets, which add up: `outer` (source, target), `rows` (source, target, member) and
`pieces` (source, target, lanes). The lanes of a piece are neighbours on both sides. Clipped tiles, windows and odd
sizes only change the tables. `row_cuts` and `piece_cuts` cut rows and pieces into blocks, done one after the other::

    for each outer: for each block of rows: for each block of pieces: for each row in it: for each piece in it

On the interleaved side of a layout with sub-tiles, such as T(8,128)(2,1), a lane is a word of 4 bytes that several
rows share. These rows all give the offset of the word; `member` says which of them a row is.

A streamed target is written in whole lines. What a piece leaves of a line stays in a register, and the
piece, row or matrix that goes on where this one ended completes it. So odd sizes, and targets that begin inside a
line, cost little.
"""

from __future__ import annotations

from strided.kernels import CACHED, simd_bytes
from strided.kernels.compile import BYTES, LIST, NUMBER, TABLE, WRITABLE, ZERO, part, separate
from strided.kernels.lines_ahead import (
    ROWS_AHEAD,
    ask,
    ask_for_end,
    ask_for_words,
    end_of_rows,
    lead_of,
    matrices_ahead,
    side_by_side,
)

ARGUMENTS = (BYTES, WRITABLE, TABLE, TABLE, TABLE, LIST, LIST, NUMBER, WRITABLE)
"""Arguments of these kernels: source, target, the five tables, whether to stream, scratch."""

_NOTHING_AHEAD = ZERO, ZERO, ZERO, ZERO + 1
# Kinds of groups of rows.
_EVEN, _UNEVEN, _ALONE = range(3)
# Where unevenly spaced rows are brought together in the scratch, and bytes from one row to the next.
SIDE, GATHERED_ROW = 8192, 1088

# So many complete words for each that is not are not streamed, if all lie side by side.
_MIXED = 3
# So many rows, if they share words, come together in them as fast as from memory line by line.
_FEW_SHARED = 8


@part
def drive(fetch, spill, aim, gather, patch, widths, source, target, tables, streaming, scratch, options):
    """Copy what `tables` describe.

    `fetch` makes one line of the target, `spill` moves what a fetch reads to where it may read more, `aim` tells how to
    fetch a given row. `widths` are the bytes of a lane in a row of the source, those in the target, and the rows that
    share a lane of the target. Where they do, `gather` copies rows that lie unevenly, and `patch` writes a row whose
    word is not complete, or several, and tells how many. Where pieces are long enough, it puts the rows of a word
    together line by line, and serves for those of complete words of many rows, too.
    """
    outer, rows, pieces, row_cuts, piece_cuts = simd_bytes.tables(*tables)
    s_lane, t_lane, shared = widths
    room = simd_bytes.address(scratch) + 255 & -256
    # Shared by all parts: bytes of a lane on both sides, bytes of the source that make a line, rows that share a lane,
    # whether to stream, scratch memory.
    fixed = s_lane, t_lane, 64 * s_lane // t_lane, shared, streaming, room
    ends = simd_bytes.address(source), simd_bytes.address(source) + source.size
    line = room, room, simd_bytes.zero()
    end = end_of_rows(fixed, rows, pieces)
    far = ZERO + (source.size > CACHED)
    lanes, phases = _sums(pieces)
    # Rows of pieces not much shorter than 64 lanes are put into words by lines; words that are streamed begin with one.
    long = lanes > 16 * pieces[1], phases
    alike = _alike(rows, row_cuts, shared)
    on = matrices_ahead(lanes * s_lane * rows[1])
    matrices = max(1, ROWS_AHEAD * shared // max(1, rows[1]))
    mixed = streaming and _are_mixed(outer, rows, pieces, shared)
    if mixed:
        fixed = s_lane, t_lane, 64 * s_lane // t_lane, shared, ZERO, room
    t = simd_bytes.address(target)
    for o in range(outer[1]):
        origin = ends[0] + simd_bytes.cell2(outer[0], o, 0), t + simd_bytes.cell2(outer[0], o, 1)
        beyond = t + simd_bytes.cell2(outer[0], min(o + matrices, outer[1] - 1), 1)
        later = rows[1], end, beyond
        for r in range(row_cuts[1] - 1):
            chosen = rows[0], simd_bytes.item(row_cuts[0], r), simd_bytes.item(row_cuts[0], r + 1)
            for p in range(piece_cuts[1] - 1):
                first, last = simd_bytes.item(piece_cuts[0], p), simd_bytes.item(piece_cuts[0], p + 1)
                cut = pieces[0], first, last, pieces[1]
                lead = lead_of(outer, rows, pieces, row_cuts, piece_cuts, o, r, p, on)
                line = _block(
                    fetch,
                    spill,
                    aim,
                    gather,
                    patch,
                    fixed,
                    origin,
                    chosen,
                    cut,
                    (lead, far),
                    later,
                    ends,
                    options,
                    (*long, mixed),
                    alike,
                    lanes * s_lane,
                    line,
                )
    flush(line, room)
    if streaming:
        simd_bytes.fence()


@separate
def _are_mixed(outer, rows, pieces, shared):
    """Whether complete words and many that are not lie side by side, in short rows that end inside a line.

    The CPU then fetches lines of complete ones with those of the others, and to stream these takes twice as long.
    """
    if shared == 1 or outer[1] < 2 or pieces[1] != 1 or not simd_bytes.cell(pieces[0], 0, 2) & 15:
        return False
    words, complete, pitch, i = ZERO, ZERO, ZERO, ZERO
    first = simd_bytes.cell(rows[0], 0, 1)
    while i < rows[1]:
        begin, place = i, simd_bytes.cell(rows[0], i, 1)
        while i < rows[1] and simd_bytes.cell(rows[0], i, 1) == place:
            i += 1
        if words == 1:
            pitch = place - first
        words += 1
        complete += i - begin == shared
    step = simd_bytes.cell2(outer[0], 1, 1) - simd_bytes.cell2(outer[0], 0, 1)
    return 0 < complete <= _MIXED * (words - complete) and step == words * pitch


@separate
def _sums(pieces):
    """The lanes of all pieces, and where in lines of the target these begin: bits of all of them."""
    lanes, phases = ZERO, ZERO
    for p in range(pieces[1]):
        lanes += simd_bytes.cell(pieces[0], p, 2)
        phases |= simd_bytes.cell(pieces[0], p, 1) & 63
    return lanes, phases


@part
def _block(
    fetch, spill, aim, gather, patch, fixed, origin, chosen, cut, lead, later, ends, options, long, alike, dense, line
):
    """Copy the pieces of one block of rows; return the line begun."""
    step, shared = fixed[2], fixed[3]
    rows, i, last = chosen
    asks = later[1] > 0 and cut[2] == cut[3]
    while i < last:
        s, t, member = (
            origin[0] + simd_bytes.cell(rows, i, 0),
            origin[1] + simd_bytes.cell(rows, i, 1),
            simd_bytes.cell(rows, i, 2),
        )
        group, pitch = alike if alike[0] == _EVEN else _group(rows, i, last, shared)
        reach = pitch * (shared - 1)
        how = aim(member, pitch, options), ends[0] - min(0, reach), ends[1] - step - max(0, reach)
        by_lines = shared > _FEW_SHARED and long[0] and not (fixed[4] and (t | long[1]) & 63)
        if group == _ALONE or by_lines:
            manner = aim(member, ZERO + GATHERED_ROW, options)
            ahead = long[0], lead[0] * lead[1], ends[1], group != _ALONE
            done = patch(fetch, fixed, (origin[0], t), rows, i, last, cut, manner, ahead)
            if group == _ALONE and (fixed[4] or long[2]):
                ask_for_words(origin[1], rows, i, done, later, cut, fixed[1])
            elif asks:
                ask_for_end(origin[1], rows, i + ROWS_AHEAD * shared, later)
            i += done
        elif group == _UNEVEN:
            line = gather(
                fetch, spill, fixed, origin[0], t, rows, i, cut, aim(member, ZERO + GATHERED_ROW, options), line
            )
            i += shared
        else:
            if shared >= _FEW_SHARED and pitch == dense:
                # Each goes on where the one before it ends.
                ahead = side_by_side(lead, s, shared)
            else:
                # Rows that share words of the source ask for different ones of their lines.
                ahead = lead[0] + (member & max(1, step >> 6) - 1) * 64, pitch, lead[1], ZERO + 1
            if long[2]:
                ask_for_words(origin[1], rows, i, ZERO + shared, later, cut, fixed[1])
            elif asks:
                ask_for_end(origin[1], rows, i + ROWS_AHEAD * shared, later)
            line = _row(fetch, spill, fixed, (s, t), cut, how, ahead, line)
            i += shared
    return line


@part
def _group(rows, i, last, shared):
    """The kind of the group that begins with row `i`, and bytes between its rows in the source if they are even."""
    if shared == 1:
        return _EVEN, ZERO
    if not is_complete(rows, i, last, shared):
        return _ALONE, ZERO
    pitch = simd_bytes.cell(rows, i + 1, 0) - simd_bytes.cell(rows, i, 0)
    even = True
    for k in range(i + 2, i + shared):
        even &= simd_bytes.cell(rows, k, 0) - simd_bytes.cell(rows, k - 1, 0) == pitch
    return (_EVEN, pitch) if even else (_UNEVEN, ZERO)


@part
def _alike(rows, row_cuts, shared):
    """The kind of all groups of rows, and bytes between the rows of each in the source; uneven if they differ.

    Groups of few rows are uneven here: they are looked at one by one in no time.
    """
    pitch = ZERO
    if shared < _FEW_SHARED:
        return ZERO + _UNEVEN, ZERO
    for r in range(row_cuts[1] - 1):
        last = simd_bytes.item(row_cuts[0], r + 1)
        for i in range(simd_bytes.item(row_cuts[0], r), last, shared):
            group, own = _group(rows[0], i, last, shared)
            if i == 0:
                pitch = own
            if group != _EVEN or own != pitch:
                return ZERO + _UNEVEN, ZERO
    return ZERO + _EVEN, pitch


@part
def is_complete(rows, i, last, shared):
    """Whether the rows from row `i` on are all rows of a word of the target, in their order."""
    if i + shared > last:
        return False
    for k in range(shared):
        if simd_bytes.cell(rows, i + k, 2) != k or simd_bytes.cell(rows, i + k, 1) != simd_bytes.cell(rows, i, 1):
            return False
    return True


@part
def _row(fetch, spill, fixed, place, cut, how, ahead, line):
    """Copy a row's pieces of a block; return the line begun.

    Where the target goes on from one block to the next, the limit between them moves to the next limit of a line.
    """
    _, t_lane, step, _, streaming, _ = fixed
    pieces, p, last, _ = cut
    skip, extra = ZERO, ZERO
    if streaming:
        skip, extra = _seam(cut, p, place[1], t_lane), _seam(cut, last, place[1], t_lane)
    while p < last or (p == last and extra > 0):
        s = place[0] + simd_bytes.cell(pieces, p, 0) + (skip * step >> 6)
        t = place[1] + simd_bytes.cell(pieces, p, 1) + skip
        count = simd_bytes.cell(pieces, p, 2) * t_lane - skip if p < last else extra
        if streaming and not t & t_lane - 1:
            line = _piece(fetch, spill, fixed, (s, t, count), how, ahead, line)
        else:
            _plain(fetch, spill, fixed, (s, t, count), how, ahead)
        skip = ZERO
        p += 1
    return line


@part
def _seam(cut, p, t_row, t_lane):
    """Bytes at the start of a piece that complete the line in which the piece before it ends."""
    pieces, _, _, count = cut
    if p == 0 or p == count:
        return ZERO
    begins = simd_bytes.cell(pieces, p, 1)
    if simd_bytes.cell(pieces, p - 1, 1) + simd_bytes.cell(pieces, p - 1, 2) * t_lane != begins:
        return ZERO
    return min(-(t_row + begins) & 63 & -t_lane, simd_bytes.cell(pieces, p, 2) * t_lane)


@part
def _piece(fetch, spill, fixed, place, how, ahead, line):
    """Copy a piece by whole lines.

    `line` is the one begun and not yet written: where its first byte belongs, where its last one ends, and all of it.
    """
    _, _, step, shared, streaming, room = fixed
    s, t, count = place
    first, end, carry = line
    if t != end:
        flush(line, room)
        first, end = t, t
    filled = end & 63
    if filled:
        ask(s, end, step, shared, ahead)
        more = edge(fetch, spill, s, filled, count, step, how, room)
        line, made = go_on((first, end, carry), more, count, streaming, room)
        first, end, carry = line
        if end & 63:
            return line
        s += made * step >> 6
        count -= made
    while count >= 64:
        ask(s, end, step, shared, ahead)
        simd_bytes.put(end, fetch(s, how[0]), streaming)
        end += 64
        s += step
        count -= 64
    first = end
    if count:
        ask(s, end, step, shared, ahead)
        carry = edge(fetch, spill, s, ZERO, count, step, how, room)
        end += count
    return first, end, carry


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
            flush((first, end, carry), room)
    return (first, end, carry), made


@part
def flush(line, room):
    """Write a line that will not be completed."""
    first, end, carry = line
    if end > first:
        simd_bytes.store(room, carry)
        simd_bytes.move(first, room + (first & 63), end - first)


@part
def _plain(fetch, spill, fixed, place, how, ahead):
    """Copy a piece by stores of any alignment. What comes next is asked for only where it comes from memory."""
    step, shared, room = fixed[2], fixed[3], fixed[5]
    s, t, count = place
    if count < 64:
        if ahead[2]:
            ask(s, t, step, shared, ahead)
        simd_bytes.store(room, edge(fetch, spill, s, ZERO, count, step, how, room))
        simd_bytes.move(t, room, count)
        return
    rest = count - 64
    while rest > 0:
        if ahead[2]:
            ask(s, t, step, shared, ahead)
        simd_bytes.store(t, fetch(s, how[0]))
        t += 64
        s += step
        rest -= 64
    # The last line overlaps the one before it.
    if ahead[2]:
        ask(s, t, step, shared, ahead)
    simd_bytes.store(t + rest, fetch(s + (rest * step >> 6), how[0]))


@part
def edge(fetch, spill, s, back, count, step, how, room):
    """A fetch of `count` bytes, behind `back` others, that reads nothing outside the source for the rest.

    `how` to fetch, and the least and the largest place from where that reads the source alone.
    """
    manner, low, high = how
    s -= back * step >> 6
    if s < low or s > high:
        s, manner = spill(room + 1024, s + (back * step >> 6), min(count, 64) * step >> 6, manner)
        s -= back * step >> 6
    return fetch(s, manner)


# --- rows that share lanes of the target ----------------------------------------------------------------------------


@part
def gather(fetch, spill, fixed, start, t, rows, i, cut, manner, line):
    """Copy a group whose rows lie anywhere, by way of the scratch."""
    s_lane, t_lane, _, shared, streaming, room = fixed
    side = room + SIDE
    how = manner, side - 64, side + GATHERED_ROW * shared
    pieces, first, last, _ = cut
    for p in range(first, last):
        place = t + simd_bytes.cell(pieces, p, 1)
        count = simd_bytes.cell(pieces, p, 2) * s_lane
        for done in range(0, count, GATHERED_ROW - 64):
            some = min(GATHERED_ROW - 64, count - done)
            for k in range(shared):
                s = start + simd_bytes.cell(rows, i + k, 0) + simd_bytes.cell(pieces, p, 0)
                simd_bytes.move(side + GATHERED_ROW * k, s + done, some)
            to = side, place + done * t_lane // s_lane, some * t_lane // s_lane
            if streaming and not place & t_lane - 1:
                line = _piece(fetch, spill, fixed, to, how, _NOTHING_AHEAD, line)
            else:
                _plain(fetch, spill, fixed, to, how, _NOTHING_AHEAD)
    return line


@part
def no_gather(fetch, spill, fixed, start, t, rows, i, cut, manner, line):
    """For targets that no rows share: no group is uneven."""
    return line


@part
def no_patch(fetch, fixed, place, rows, i, last, cut, manner, ahead):
    """For targets that no rows share: no row is alone."""
    return ZERO + 1


@part
def spill_run(room, s, count, manner):
    """What a fetch reads of words, and of runs of bytes."""
    simd_bytes.move(room, s, count)
    return room, manner
