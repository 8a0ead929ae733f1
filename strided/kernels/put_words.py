"""Rows put into words that they share: those of one word together, whether they are all of its rows or some.

`put_rows`, which is handed in, writes up to 16 words: those bits that are ones in a mask, and no others. It is
`put_bytes` or `put_bits`; `put_masked` does the same for words that other kernels have made. `row_driver` says what the
tables mean.
"""

from __future__ import annotations

from strided.kernels import CACHED, bitfields, simd_bytes
from strided.kernels.compile import ZERO, part, separate
from strided.kernels.held_run import move_end, move_run
from strided.kernels.row_parts import Pieces, Place, Word
from strided.kernels.shared_rows import GATHERED_ROW, SIDE, is_complete
from strided.kernels.tables import begin

#: A word of which all is written.
EVERY_BIT = (1 << 32) - 1
# Behind `SIDE` in the scratch: where rows begin, four lines of words, places of what is copied of rows, and that.
_ROWS, _MADE, _SPILLED, _SPILL = SIDE, SIDE + 256, SIDE + 512, SIDE + 1024


@part
def put_at_once(braid, fetch, patch, widths, source, target, tables, streaming, scratch):
    """Copy what `tables` describe if it stays in the cache, and pieces are long enough; whether it was done.

    `braid` puts the rows of a word together, wherever they lie; the others are as for `shared_rows.drive_shared`.
    """
    outer, rows, pieces, row_cuts, piece_cuts = tables
    s_lane, t_lane, shared = widths
    if streaming or source.size > CACHED:
        return False
    for p in range(len(pieces)):
        if pieces[p, 2] * s_lane < 64:
            return False
    room = simd_bytes.address(scratch) + 255 & -256
    fixed = s_lane, t_lane, 64 * s_lane // t_lane, shared, streaming, room
    end = simd_bytes.address(source) + source.size
    for o in range(len(outer)):
        s, t = simd_bytes.address(source) + outer[o, 0], simd_bytes.address(target) + outer[o, 1]
        for r in range(len(row_cuts) - 1):
            for c in range(len(piece_cuts) - 1):
                cut = Pieces(pieces, piece_cuts[c], piece_cuts[c + 1], len(pieces))
                i, last = row_cuts[r], row_cuts[r + 1]
                while i < last:
                    to = t + rows[i, 1]
                    if is_complete(rows, i, last, shared):
                        for p in range(cut.start, cut.stop):
                            braid(begin(rows) + 24 * i, s + pieces[p, 0], to + pieces[p, 1], pieces[p, 2] * s_lane)
                        i += shared
                    else:
                        word = Word(True, ZERO, end, False)
                        i += patch(fetch, fixed, Place(s, to), rows, i, last, cut, ZERO + GATHERED_ROW, word)
    return True


@part
def put_together(fetch, put_rows, bits, flip, fixed, place, rows, i, last, cut, manner, word):
    """Write the rows of one word, from row `i` on: the `patch` of `drive_shared` for up to 8 bits; how many rows.

    `place` is where the matrix begins in the source, and the row in the target.
    """
    if not word.long:
        return patched(fetch, put_rows, bits, flip, fixed, place, rows, i, last, cut, manner)
    _, _, _, shared, _, room = fixed
    count, mask = (shared, ZERO + EVERY_BIT) if word.complete else _present(rows, i, last, bits, flip)
    # The rows of a byte stand in the table from its lowest bits on.
    row_flip = (8 // bits - 1) * (flip > 0) if bits < 8 else ZERO
    far = _locate(place.source, rows, i, count, shared, row_flip, room)
    pieces = cut.table
    for p in range(cut.start, cut.stop):
        s, t = pieces[p, 0], place.target + pieces[p, 1]
        lanes = pieces[p, 2]
        for c in range(0, lanes, 64):
            if mask != EVERY_BIT and simd_bytes.writes_by_mask():
                _ask_to_write(t + 4 * (c + 64), 4 * (lanes - c - 64))
            if word.lead:
                for k in range(i, i + count):
                    simd_bytes.prefetch(place.source + rows[k, 0] + s + c + word.lead)
            is_end = far + s + c + 64 > word.end
            _put_lines(put_rows, bits, fixed, s + c, t + 4 * c, min(64, lanes - c), mask, is_end)
    return count


@separate
def _ask_to_write(t, size):
    """Ask for the words that come next in a piece, of which so many bytes are left: a few lines.

    They are read before they are written. The second-level cache may have them already, but a store waits for that.
    """
    for byte in range(0, min(256, size), 64):
        simd_bytes.prefetch_to_write(t + byte)


@part
def _locate(start, rows, i, count, shared, row_flip, room):
    """Make the table of where the rows of a word begin, row k as number ``k ^ row_flip``; the last of these places."""
    far = ZERO
    if count < shared:
        # What belongs to other rows of these bytes is not written: it may be anything.
        for k in range(shared):
            simd_bytes.put_integer(room + _ROWS + 8 * k, start + rows[i, 0])
    for k in range(i, i + count):
        s = start + rows[k, 0]
        far = max(far, s)
        simd_bytes.put_integer(room + _ROWS + 8 * (rows[k, 2] ^ row_flip), s)
    return far


@part
def _put_lines(put_rows, bits, fixed, at, t, count, mask, is_end):
    """Write up to 64 words. What follows them in the source is not read where that may end."""
    _, _, _, shared, streaming, room = fixed
    sources = room + _ROWS
    if is_end:
        _spill(shared, at, count, room)
        at, sources = ZERO, room + _SPILLED
    if count == 64 and mask == EVERY_BIT:
        _braid_lines(bits, sources, at, t, streaming)
        return
    _braid_lines(bits, sources, at, room + _MADE, ZERO)
    for line in range(0, 4 * count, 64):
        # The last line of several overlaps the one before it, if that was not streamed: a part takes several steps.
        overlaps = line > 0 and (mask != EVERY_BIT or not streaming)
        k = min(line, 4 * count - 64) if overlaps else line
        size, made = min(64, 4 * count - k), room + _MADE + k
        if mask != EVERY_BIT:
            put_rows(t + k, simd_bytes.load(made), size, mask, room)
        elif size < 64:
            move_end(t + k, made, size)
        elif streaming:
            simd_bytes.put(t + k, simd_bytes.load(made), streaming)
        else:
            simd_bytes.store(t + k, simd_bytes.load(made))


@part
def _braid_lines(bits, sources, at, target, streaming):
    if bits == 8:
        bitfields.braid_lines8(sources, at, target, streaming)
    elif bits == 4:
        bitfields.braid_lines4(sources, at, target, streaming)
    elif bits == 2:
        bitfields.braid_lines2(sources, at, target, streaming)
    else:
        bitfields.braid_lines1(sources, at, target, streaming)


@part
def _spill(shared, at, count, room):
    """Copy what is there of rows that end with the source."""
    for k in range(shared):
        place = room + _SPILL + 64 * k
        simd_bytes.move(place, simd_bytes.integer(room + _ROWS + 8 * k) + at, count)
        simd_bytes.put_integer(room + _SPILLED + 8 * k, place)


@part
def patched(fetch, put_rows, bits, flip, fixed, place, rows, i, last, cut, manner):
    """The same for pieces of any length, 16 words at a time by way of the scratch; how many rows."""
    s_lane, t_lane, step, _, _, room = fixed
    pieces = cut.table
    count, mask = _present(rows, i, last, bits, flip)
    side = room + SIDE
    for p in range(cut.start, cut.stop):
        left = pieces[p, 2] * s_lane
        s, t = place.source + pieces[p, 0], place.target + pieces[p, 1]
        while left > 0:
            some = min(GATHERED_ROW, left)
            for k in range(i, i + count):
                to = side + GATHERED_ROW * rows[k, 2]
                simd_bytes.move(to, s + rows[k, 0], some)
            for done in range(0, some, step):
                size = min(step, some - done) * t_lane // s_lane
                put_rows(t, fetch(side + done, manner), size, mask, room)
                t += 64
            s, left = s + some, left - some
    return count


@part
def put_bytes(t, words, size, mask, room):
    """Write those bytes of words that are not 0 in `mask`, and touch no others: they may be another thread's."""
    if simd_bytes.writes_by_mask():
        simd_bytes.store_masked(t, words, size, mask)
        return
    # From memory: LLVM would take a vector apart in many more steps.
    simd_bytes.store(room, words)
    simd_bytes.forget_stored()
    copy_bytes(t, room, size, mask)


@part
def copy_bytes(t, words, size, mask):
    """The same for words at an address, where there is no instruction for it."""
    if size == 64:
        simd_bytes.copy_parts(t, words, mask)
        return
    for k in range(4):
        if mask >> 8 * k & 0xFF:
            for n in range(k, size, 4):
                simd_bytes.copy1(t + n, words + n)


@part
def put_bits(t, words, size, mask, room):
    """Write those bits of words that are ones in `mask`; the words are read, and written as a whole.

    Of a line that is not full one by one: to read more at once than was written at once shortly before would wait for
    all stores before it.
    """
    if size == 64:
        simd_bytes.store(t, simd_bytes.choose(simd_bytes.load(t), words, mask))
    else:
        simd_bytes.store(room, words)
        for k in range(0, size, 4):
            simd_bytes.change_word(t + k, room + k, mask)


@separate
def put_masked(t, made, size, mask, shared, streaming, room):
    """Write up to a line of words that lie at `made`, of each those bits that are ones in `mask`.

    Of words that up to four rows share, no other bytes are touched; those of packed elements are read, and written as a
    whole. Whole lines go past the caches with `streaming`: `t` is a multiple of 64 then. 64 bytes are read at `made`.
    """
    if mask == EVERY_BIT:
        if streaming and size == 64:
            simd_bytes.put(t, simd_bytes.load(made), streaming)
        else:
            move_run(t, made, size)
    elif shared > 4:
        put_bits(t, simd_bytes.load(made), size, mask, room)
    elif simd_bytes.writes_by_mask():
        simd_bytes.store_masked(t, simd_bytes.load(made), size, mask)
    else:
        copy_bytes(t, made, size, mask)


@part
def mask_of(members, shared, flip):
    """The bits of the first rows in a word that `shared` of them share, the k-th of these being ``k ^ flip``."""
    mask = ZERO
    for k in range(shared):
        if k ^ flip < members:
            mask |= (1 << 32 // shared) - 1 << k * (32 // shared)
    return mask


@part
def _present(rows, i, last, bits, flip):
    """How many rows from row `i` on are different ones of one word, and the bits of a word that they make."""
    count, mask = ZERO, ZERO
    while i + count < last:
        member = rows[i + count, 2]
        if count:
            same = rows[i + count, 1] == rows[i, 1]
            if not same or member <= rows[i + count - 1, 2]:
                break
        mask |= (1 << bits) - 1 << (member * bits ^ flip)
        count += 1
    return count, mask
