"""Rows that share words of the target: those of one word go in together where they are all there, and evenly spaced."""

from __future__ import annotations

from strided.kernels import simd_bytes
from strided.kernels.compile import ZERO, part, separate
from strided.kernels.lines_ahead import ROWS_AHEAD, ask_for_end, ask_for_words, side_by_side
from strided.kernels.row_driver import copy_piece, copy_plain, copy_row, drive, sums
from strided.kernels.row_parts import Ahead, How, Known, Piece, Place, Word

_NOTHING_AHEAD = Ahead(ZERO, ZERO, ZERO, ZERO + 1)
# Kinds of groups of rows.
_EVEN, _UNEVEN, _ALONE = range(3)
# Where unevenly spaced rows are brought together in the scratch, and bytes from one row to the next.
SIDE, GATHERED_ROW = 8192, 1088

# So many complete words for each that is not are not streamed, if all lie side by side, in rows of so many lanes.
_MIXED, _MIXED_LANES = 3, (48, 128)
# Fewer rows, if they share words, come together in them line by line as fast as memory takes them, and so many do where
# pieces have fewer than 64 lanes.
_FEW_SHARED = 8


@part
def drive_shared(fetch, spill, aim, block, widths, source, target, tables, streaming, scratch, options):
    """`row_driver.drive` for rows that share lanes of the target.

    `block` is one of those made by `blocks`.
    """
    outer, rows, pieces, row_cuts, _ = tables
    lanes, phases = sums(pieces)
    mixed = streaming and _are_mixed(outer, rows, pieces, widths[2])
    # Rows of pieces not much shorter than 64 lanes are put into words by lines, those of few rows if they have as many;
    # words that are streamed begin with a line.
    long = ZERO + (lanes > 16 * len(pieces)) + (lanes >= 64 * len(pieces))
    group, pitch = _alike(rows, row_cuts, widths[2])
    known = Known(group, pitch, long, phases, mixed, lanes * widths[0])
    streams = ZERO if mixed else streaming
    drive(fetch, spill, aim, block, known, widths, source, target, tables, streams, scratch, options)


def blocks(patch):
    """The `block` of `drive_shared`.

    `patch` writes a row whose word is not complete, or several, and tells how many. Where pieces are long enough, it
    puts the rows of a word together line by line, and serves for those of complete words of many rows, too.
    """

    @part
    def block(fetch, spill, aim, fixed, origin, chosen, cut, lead, later, ends, options, known, line):
        """Copy the pieces of one block of rows; return the line begun."""
        _, t_lane, step, shared, streaming, _ = fixed
        mixed = known.mixed
        rows, i, last = chosen
        asks = later.end > 0 and cut.stop == cut.count
        while i < last:
            place, member = Place(origin.source + rows[i, 0], origin.target + rows[i, 1]), rows[i, 2]
            if known.group == _EVEN:
                group, pitch = (known.group if _is_whole(rows, i, last, shared) else ZERO + _ALONE), known.pitch
            else:
                group, pitch = _group(rows, i, last, shared)
            reach = pitch * (shared - 1)
            manner = aim(member, pitch, options)
            how = How(manner, ends.begin - min(0, reach), ends.end - step - max(0, reach))
            by_lines = shared >= _FEW_SHARED and known.long > (shared == _FEW_SHARED)
            by_lines = by_lines and not (streaming and (place.target | known.phases) & 63)
            if group == _ALONE or by_lines:
                manner = aim(member, ZERO + GATHERED_ROW, options)
                word = Word(known.long > 0, lead.on * lead.far, ends.end, group != _ALONE)
                at = Place(origin.source, place.target)
                done = patch(fetch, fixed, at, rows, i, last, cut, manner, word)
                if group == _ALONE and (streaming or mixed):
                    ask_for_words(origin.target, rows, i, done, shared if mixed else ZERO, later, cut, t_lane)
                elif asks:
                    ask_for_end(origin.target, rows, i + ROWS_AHEAD * shared, later)
                i += done
            elif group == _UNEVEN:
                manner = aim(member, ZERO + GATHERED_ROW, options)
                line = _gather(fetch, spill, fixed, origin.source, place.target, rows, i, cut, manner, line)
                i += shared
            else:
                # Each row goes on where the one before it ends, or not.
                joins = shared >= _FEW_SHARED and pitch == known.dense
                ahead = side_by_side(lead, place.source, shared) if joins else Ahead(lead.on, pitch, lead.far, ZERO + 1)
                if mixed:
                    ask_for_words(origin.target, rows, i, ZERO + shared, shared, later, cut, t_lane)
                elif asks:
                    ask_for_end(origin.target, rows, i + ROWS_AHEAD * shared, later)
                line = copy_row(fetch, spill, fixed, place, cut, how, ahead, line)
                i += shared
        return line

    return block


@separate
def _are_mixed(outer, rows, pieces, shared):
    """Whether complete words and many that are not lie side by side, in short rows that end inside a line.

    The CPU then fetches lines of complete ones with those of the others, and to stream these takes longer than to read
    all of them. Words of many rows take longer so, and so do shorter and longer rows.
    """
    if shared > _FEW_SHARED or len(outer) < 2 or len(pieces) != 1:
        return False
    if not (_MIXED_LANES[0] <= pieces[0, 2] < _MIXED_LANES[1] and pieces[0, 2] & 15):
        return False
    words, complete, pitch, i = ZERO, ZERO, ZERO, ZERO
    first = rows[0, 1]
    while i < len(rows):
        begin, place = i, rows[i, 1]
        while i < len(rows) and rows[i, 1] == place:
            i += 1
        if words == 1:
            pitch = place - first
        words += 1
        complete += i - begin == shared
    step = outer[1, 1] - outer[0, 1]
    return 0 < complete <= _MIXED * (words - complete) and step == words * pitch


@part
def _group(rows, i, last, shared):
    """The kind of the group that begins with row `i`, and bytes between its rows in the source if they are even."""
    if not is_complete(rows, i, last, shared):
        return _ALONE, ZERO
    pitch = rows[i + 1, 0] - rows[i, 0]
    even = True
    for k in range(i + 2, i + shared):
        even &= rows[k, 0] - rows[k - 1, 0] == pitch
    return (_EVEN, pitch) if even else (_UNEVEN, ZERO)


@part
def _alike(rows, row_cuts, shared):
    """The kind of all groups of rows, and bytes between the rows of each in the source; uneven if they differ.

    If they are even, those whose word is not complete are told by `_is_whole`. Groups of few rows are uneven here: they
    are looked at one by one in no time.
    """
    pitch, known = ZERO, False
    if shared < _FEW_SHARED:
        return ZERO + _UNEVEN, ZERO
    for r in range(len(row_cuts) - 1):
        i, last = row_cuts[r], row_cuts[r + 1]
        while i < last:
            group, own = _group(rows, i, last, shared)
            if group == _ALONE:
                if _is_whole(rows, i, last, shared):
                    return ZERO + _UNEVEN, ZERO
                i += _members(rows, i, last)
                continue
            if not known:
                pitch, known = own, True
            if group != _EVEN or own != pitch:
                return ZERO + _UNEVEN, ZERO
            i += shared
    return ZERO + _EVEN, pitch


@part
def _members(rows, i, last):
    """How many rows from row `i` on are different ones of one word, in their order."""
    count = ZERO + 1
    while i + count < last and rows[i + count, 1] == rows[i, 1] and rows[i + count, 2] > rows[i + count - 1, 2]:
        count += 1
    return count


@part
def _is_whole(rows, i, last, shared):
    """Whether the first and the last row of a word are there, as many rows apart as it has."""
    end = i + shared - 1
    return end < last and rows[i, 2] == 0 and rows[end, 2] == shared - 1 and rows[end, 1] == rows[i, 1]


@part
def is_complete(rows, i, last, shared):
    """Whether the rows from row `i` on are all rows of a word of the target, in their order."""
    if i + shared > last:
        return False
    for k in range(shared):
        if rows[i + k, 2] != k or rows[i + k, 1] != rows[i, 1]:
            return False
    return True


@part
def _gather(fetch, spill, fixed, start, t, rows, i, cut, manner, line):
    """Copy a group whose rows lie anywhere, by way of the scratch."""
    s_lane, t_lane, _, shared, streaming, room = fixed
    side, pieces = room + SIDE, cut.table
    how = How(manner, side - 64, side + GATHERED_ROW * shared)
    for p in range(cut.start, cut.stop):
        place = t + pieces[p, 1]
        count = pieces[p, 2] * s_lane
        for done in range(0, count, GATHERED_ROW - 64):
            some = min(GATHERED_ROW - 64, count - done)
            for k in range(shared):
                s = start + rows[i + k, 0] + pieces[p, 0]
                simd_bytes.move(side + GATHERED_ROW * k, s + done, some)
            piece = Piece(side, place + done * t_lane // s_lane, some * t_lane // s_lane)
            if streaming and not place & t_lane - 1:
                line = copy_piece(fetch, spill, fixed, piece, how, _NOTHING_AHEAD, line)
            else:
                copy_plain(fetch, spill, fixed, piece, how, _NOTHING_AHEAD)
    return line
