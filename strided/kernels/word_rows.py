"""Rows taken out of words that they share, all rows of a word at once: each word is read once.

`row_driver` says what the tables mean. Rows that follow each other in a streamed target are put together in the scratch
and written by whole lines. Where rows are long or lie apart there, `row_driver.drive` serves better: it keeps its place
in a line from one piece to the next.
"""

from __future__ import annotations

from strided.kernels import NEAR, simd_bytes
from strided.kernels.compile import ZERO, part
from strided.kernels.held_run import drain, finish

# The scratch: the places of the rows of a word, words at the end of the source, rows of them, rows that are not
# wanted, and the run that is held.
_WORDS, _ROWS, _UNWANTED, _RUN = 64, 512, 1024, 4096
#: Bytes of a row from which on `drive` is as fast, and of rows put together that are written at once.
_LONG_ROW, _RUN_BYTES = 1 << 10, 1 << 14
#: Bytes of the source that are asked for ahead, by whole words of a row.
_AHEAD = 4096


@part
def take_apart(unzip, shared, source, target, tables, streaming, scratch):
    """Copy what `tables` describe, if this is the way; whether it was done.

    `unzip` takes apart the words that make a line of each of the `shared` rows.
    """
    outer, rows, pieces, _, _ = tables
    size = _row_bytes(pieces, 4 // shared)
    if streaming and not (0 < size < _LONG_ROW and _follow(rows, size)):
        return False
    # Shared by all parts: rows that share a word, bytes of a row, scratch memory, the end of the source.
    room = simd_bytes.address(scratch) + 63 & -64
    end = simd_bytes.address(source) + source.size
    fixed = ZERO + shared, size, room, end
    ahead = max(1, _AHEAD // max(1, 4 * size // (4 // shared)) * shared)
    held = ZERO, ZERO
    for o in range(outer.shape[0]):
        i = ZERO
        while i < rows.shape[0]:
            count = _sharing(rows, i, size, streaming)
            s = simd_bytes.address(source) + outer[o, 0] + rows[i, 0]
            t = simd_bytes.address(target) + outer[o, 1] + rows[i, 1]
            lead = _lead(outer, rows, o, i + ahead) - outer[o, 0] - rows[i, 0] if source.size > NEAR else ZERO
            members = rows[i, 2], count
            if streaming:
                held = _by_run(unzip, fixed, s, t + pieces[0, 1], members, pieces, lead, held)
            else:
                _directly(unzip, fixed, s, simd_bytes.address(target) + outer[o, 1], rows, i, members, pieces, lead)
            i += count
    if streaming:
        finish(held, ZERO + 1, room + _RUN)
        simd_bytes.fence()
    return True


@part
def _row_bytes(pieces, width):
    """Bytes of a row of the target; 0 if a piece does not go on where whole lines of the one before it end."""
    for p in range(1, pieces.shape[0]):
        before = pieces[p - 1, 2] * width
        if before & 63 or pieces[p, 1] != pieces[p - 1, 1] + before:
            return ZERO
    last = pieces.shape[0] - 1
    return pieces[last, 1] + pieces[last, 2] * width - pieces[0, 1] if last >= 0 else ZERO


@part
def _follow(rows, size):
    """Whether the first rows go on in the target where the one before them ends."""
    return rows.shape[0] > 1 and rows[1, 1] == rows[0, 1] + size


@part
def _sharing(rows, i, size, streaming):
    """How many rows from row `i` on are neighbours in the same words, and in a streamed target follow each other."""
    count = ZERO + 1
    while (
        i + count < rows.shape[0]
        and rows[i + count, 0] == rows[i, 0]
        and rows[i + count, 2] == rows[i, 2] + count
        and (not streaming or rows[i + count, 1] == rows[i, 1] + count * size)
    ):
        count += 1
    return count


@part
def _lead(outer, rows, o, i):
    """Where the words of row `i` begin, counted on into the next matrices."""
    o += i // rows.shape[0]
    return outer[min(o, outer.shape[0] - 1), 0] + rows[i % rows.shape[0], 0]


@part
def _take(unzip, fixed, s, count, lead, places, at):
    """Take apart the words of a line, of which `count` are wanted, and ask for those `lead` bytes on."""
    shared, _, room, end = fixed
    if lead:
        for k in range(0, 64 * shared, 64):
            simd_bytes.prefetch(s + lead + k)
    if s + 64 * shared > end:
        simd_bytes.move(room + _WORDS, s, 4 * count)
        s = room + _WORDS
    unzip(s, places, at)


@part
def _by_run(unzip, fixed, s, t, members, pieces, lead, held):
    """Add the rows of a word, which begin at `t` in the target, to the run that is held; that run."""
    shared, size, room, _ = fixed
    member, count = members
    begin, end = held
    if t != end:
        finish(held, ZERO + 1, room + _RUN)
        begin, end = t, t
    to = room + _RUN + end - (begin & -64)
    for k in range(shared):
        wanted = member <= k < member + count
        simd_bytes.put_integer(room + 8 * k, to + (k - member) * size if wanted else room + _UNWANTED)
    lanes = 16 * shared
    # The last line of every row comes first: what it writes behind the row is overwritten by what belongs there.
    for p in range(pieces.shape[0] - 1, -1, -1):
        at = pieces[p, 1] - pieces[0, 1]
        for c in range((pieces[p, 2] - 1) // lanes * lanes, -1, -lanes):
            some = min(lanes, pieces[p, 2] - c)
            _take(unzip, fixed, s + pieces[p, 0] + 4 * c, some, lead, room, at + c * 4 // shared)
    end += count * size
    if end - begin >= _RUN_BYTES:
        begin = drain((begin, end), ZERO + 1, room + _RUN)
    return begin, end


@part
def _directly(unzip, fixed, s, target, rows, i, members, pieces, lead):
    """Write the rows of a word, the first of them row `i`, where they belong."""
    shared, _, room, _ = fixed
    member, count = members
    lanes, width = 16 * shared, 4 // shared
    for p in range(pieces.shape[0]):
        t = target + pieces[p, 1]
        all_rows = count == shared
        for k in range(shared):
            place = t + rows[i + k, 1] if all_rows else room + _ROWS + 64 * k
            simd_bytes.put_integer(room + 8 * k, place)
        if all_rows and pieces[p, 2] >= lanes:
            for c in range(0, pieces[p, 2], lanes):
                # The last line overlaps the one before it.
                first = min(c, pieces[p, 2] - lanes)
                _take(unzip, fixed, s + pieces[p, 0] + 4 * first, lanes, lead, room, first * width)
            continue
        for k in range(shared):
            simd_bytes.put_integer(room + 8 * k, room + _ROWS + 64 * k)
        for c in range(0, pieces[p, 2], lanes):
            some = min(lanes, pieces[p, 2] - c)
            _take(unzip, fixed, s + pieces[p, 0] + 4 * c, some, lead, room, ZERO)
            for k in range(count):
                place = t + rows[i + k, 1] + c * width
                simd_bytes.move(place, room + _ROWS + 64 * (member + k), some * width)
