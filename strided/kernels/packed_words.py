"""Words of packed elements out of rows of bytes: the elements of a word lie side by side in both.

Words that follow each other in the target have their bytes in different rows of the source: this is a transposition of
words, which are packed on the way. It is done in squares of sixteen rows by four words, which make four lines.
"""

from __future__ import annotations

from strided.kernels import NEAR, packed_elements, simd_bytes
from strided.kernels.compile import BYTES, NUMBER, TABLE, WRITABLE, ZERO, kernel, part
from strided.kernels.held_run import move_end
from strided.kernels.put_words import put_bytes

_ROWS, _WORDS = 16, 4  # of a square
# Where the scratch holds tables, the lines of a square, and rows that are copied there, each on its own line or two.
_TABLE, _COPIED, _LINES, _COPIES = 128, 512, 1024, 2048
_COPY_BYTES = 128
# Bytes of each row of the source that are asked for ahead; where rows are shorter, so many of all rows. So many rows on
# are lines of the target that are filled in part, at least a line's.
_AHEAD, _AHEAD_SHORT = 512, 1 << 15


@part
def _mask(count, bits, flip):
    """The bits of a word that belong to so many of its first elements."""
    whole, rest = count * bits >> 3, count * bits & 7
    return (1 << 8 * whole) - 1 | ((1 << rest) - 1 << (8 - rest) * flip) << 8 * whole


@part
def _word_of_line(to, element, bits):
    """Which word of a line of the target begins with an element."""
    return to + (element * bits >> 3) >> 2 & _ROWS - 1


@part
def _survey(rows, count, each, first):
    """Whether rows that do not follow the row before them begin a line of the target where that one ends a line.

    And the farthest in the source. The first row begins with word `first` of a line.
    """
    even, farthest, next_one = True, ZERO, simd_bytes.cell(rows, ZERO, 1)
    origin = next_one - first * each
    for k in range(count):
        place = simd_bytes.cell(rows, k, 1)
        even &= place == next_one or (place - origin | next_one - origin) & (_ROWS * each - 1) == 0
        farthest, next_one = max(farthest, simd_bytes.cell(rows, k, 0)), place + each
    return even, farthest


@part
def _rows_from(rows, left, each, first, even):
    """How many of the `left` rows of a table are words that follow each other in a line, from its word `first` on."""
    most = min(left, _ROWS - first)
    if even:
        return most
    count, place = ZERO, simd_bytes.cell(rows, ZERO, 1)
    while count < most and simd_bytes.cell(rows, count, 1) == place:
        count, place = count + 1, place + each
    return count


@part
def _words_from(pieces, p, last, each):
    """How many pieces from piece `p` on are words of a square: whole ones, but for the last, side by side."""
    count = ZERO + 1
    while (
        count < _WORDS
        and p + count < last
        and pieces[p + count - 1, 2] == each
        and pieces[p + count, 0] == pieces[p, 0] + count * each
    ):
        count += 1
    return count


@part
def _counted_on(rows, place):
    """A matrix and a row, the row counted on into the next matrices."""
    o, i = place
    while i >= len(rows):
        o, i = o + 1, i - len(rows)
    return o, i


@part
def _pack_square(bits, table, at, ahead, flip, target):
    if bits == 4:
        packed_elements.pack_square4(table, at, ahead, flip, target)
    elif bits == 2:
        packed_elements.pack_square2(table, at, ahead, flip, target)
    else:
        packed_elements.pack_square1(table, at, ahead, flip, target)


@part
def _repeat_last(rows, count, room):
    """Make a table of rows, of which the last one stands for those that are missing."""
    for k in range(_ROWS):
        simd_bytes.put_integer(room + _TABLE + 24 * k, simd_bytes.cell(rows, min(k, count - 1), 0))


@part
def _copy_rows(table, at, size, room):
    """Copy some bytes of each row to the scratch, and make a table of where they are then."""
    for k in range(_ROWS):
        place = room + _COPIES + _COPY_BYTES * k
        simd_bytes.move(place, at + simd_bytes.cell(table, k, 0), size)
        simd_bytes.put_integer(room + _COPIED + 24 * k, place)


@part
def _pack_line(bits, table, at, ahead, flip):
    if bits == 4:
        return packed_elements.pack_line4(table, at, ahead, flip)
    if bits == 2:
        return packed_elements.pack_line2(table, at, ahead, flip)
    return packed_elements.pack_line1(table, at, ahead, flip)


@part
def _put_words(t, line, count, size, how, ahead, streaming, room):
    """Write `count` words, of whose bits those of their first `size` elements are wanted; the others stay.

    So far `ahead` is a line that is filled in part as well.
    """
    bits, flip, each = how
    if count == _ROWS and size == each:
        if streaming and not t & 63:
            simd_bytes.put(t, simd_bytes.load(line), streaming)
        else:
            simd_bytes.store(t, simd_bytes.load(line))
        return
    mask, bytes_ = _mask(size, bits, flip), 4 * count
    if count == _ROWS:
        simd_bytes.prefetch(t + ahead)
        words = simd_bytes.choose(simd_bytes.load(t), simd_bytes.load(line), mask)
        if mask >> 24:
            simd_bytes.store(t, words)
        else:
            put_bytes(t, words, bytes_, mask, room)
    elif size == each:
        move_end(t, line, bytes_)
    else:
        simd_bytes.move(room, t, bytes_)
        put_bytes(t, simd_bytes.choose(simd_bytes.load(room), simd_bytes.load(line), mask), bytes_, mask, room)


@kernel(BYTES, WRITABLE, TABLE, TABLE, TABLE, NUMBER, NUMBER, NUMBER, WRITABLE)
def pack_words(source, target, outer, rows, pieces, bits, high_first, streaming, scratch):
    """Copy runs of bytes to words of packed elements: pieces of up to a word each, which begin with words.

    As `packed_runs.pack`; words are read as a whole, and of those that a piece fills in part only bytes with its
    elements written. Rows are the words that follow each other.
    """
    each = 32 // bits
    how = bits, high_first, each
    room = simd_bytes.address(scratch) + 63 & -64
    begin, to = simd_bytes.address(source), simd_bytes.address(target)
    ends, last, table = begin + source.size, len(pieces), simd_bytes.address(rows)
    if last == 0 or len(rows) == 0 or len(outer) == 0:
        return
    width = pieces[last - 1, 0] + pieces[last - 1, 2] - pieces[0, 0]
    long = width >= 2 * _AHEAD
    soon = ZERO, ZERO + _ROWS if long else -(-_AHEAD_SHORT // max(1, _ROWS * width)) * _ROWS
    surveyed = _word_of_line(to, outer[0, 1] + rows[0, 1] + pieces[0, 1], bits)
    even, farthest = _survey(table, len(rows), each, surveyed)
    for o in range(len(outer)):
        s, i = begin + outer[o, 0], ZERO
        as_surveyed = even and _word_of_line(to, outer[o, 1] + rows[0, 1] + pieces[0, 1], bits) == surveyed
        while i < len(rows):
            here = table + 24 * i
            first = _word_of_line(to, outer[o, 1] + rows[i, 1] + pieces[0, 1], bits)
            count = _rows_from(here, len(rows) - i, each, first, as_surveyed)
            soon = _counted_on(rows, soon)
            next_one = min(soon[0], len(outer) - 1)
            kept_ahead = (outer[next_one, 1] + rows[soon[1], 1] - outer[o, 1] - rows[i, 1]) * bits >> 3
            ahead = ZERO + _AHEAD * (source.size > NEAR)
            if ahead and not long:
                ahead = outer[next_one, 0] + rows[soon[1], 0] - outer[o, 0] - rows[i, 0]
                spread = rows[i + count - 1, 0] - rows[i, 0]
                if 0 <= spread < 64 * _ROWS:
                    # Rows that share lines.
                    for k in range(0, spread + width, 64):
                        simd_bytes.prefetch(s + rows[i, 0] + pieces[0, 0] + k + ahead)
                    ahead = ZERO
            soon = soon[0], soon[1] + count
            t = outer[o, 1] + rows[i, 1]
            i += count
            if count < _ROWS:
                _repeat_last(here, count, room)
                here = room + _TABLE
            p = ZERO
            while p < last:
                words = _words_from(pieces, p, last, each)
                own, at = here, s + pieces[p, 0]
                if at + farthest + (_WORDS if words > 1 else 1) * each > ends:
                    _copy_rows(here, at, (words - 1) * each + pieces[p + words - 1, 2], room)
                    own, at = room + _COPIED, ZERO
                if words > 1:
                    _pack_square(bits, own, at, ahead, high_first, room + _LINES)
                else:
                    simd_bytes.store(room + _LINES, _pack_line(bits, own, at, ahead, high_first))
                for k in range(words):
                    place = to + ((t + pieces[p + k, 1]) * bits >> 3)
                    line, size = room + _LINES + 64 * k, pieces[p + k, 2]
                    _put_words(place, line, count, size, how, kept_ahead, streaming, room)
                p += words
    if streaming:
        simd_bytes.fence()
