"""Copies along lanes: tiled, interleaved and row-major buffers into one another.

A copy is three tables of byte offsets, which add up: `outer` (source, target), `rows` (source, target, member) and
`pieces` (source, target, lanes). The lanes of a piece are neighbours on both sides. Clipped tiles, windows and odd
sizes are only other tables. `row_cuts` and `piece_cuts` say where rows and pieces are cut into blocks, one block being
done after the other::

    for each outer: for each block of rows: for each block of pieces: for each row in it: for each piece in it

On the zipped side of a layout with sub-tiles, T(8,128)(2,1) for one, a lane is a word of 4 bytes that several rows
share. Its rows all give the offset of the word, `member` says which of them a row is.

Where the target is streamed it is written in whole lines. What a piece leaves of a line stays in a register, and the
piece, row or matrix that goes on where this one ended completes it. So odd sizes, and targets that begin somewhere in a
line, cost little.
"""

from __future__ import annotations

from strided.kernels import lanes
from strided.kernels.compile import BYTES, LIST, NUMBER, TABLE, WRITABLE, ZERO, kernel, part

SCRATCH_BYTES = 1 << 18
"""What every kernel that takes scratch memory needs of it at most."""

ARGUMENTS = (BYTES, WRITABLE, TABLE, TABLE, TABLE, LIST, LIST, NUMBER, WRITABLE)

BLANK = 1 << 60
"""A source offset, of a row or a piece, that stands for no source: what the scratch begins with goes there.

The scratch then begins with 128 bytes of one element, over and over. Where a word's rows are not all there, blank ones
are left alone.
"""

# What the rows of a group are. Uneven ones are brought together in the scratch, so many bytes of each at a time.
_EVEN, _UNEVEN, _BLANK, _ALONE = range(4)
_GATHERED = 1088

# Every load of a line has another one prefetched: the same piece's in the next block, where that is not so far that the
# line would be gone again when its turn comes, else one so many bytes on.
_FAR, _AHEAD = 1 << 17, 1024


@part
def walk(fetch, spill, aim, patch, widths, source, target, tables, streaming, scratch, options):
    """Copy what `tables` say.

    `fetch` makes one line of the target, `spill` moves what a fetch reads to where it may read more, `aim` tells how to
    fetch a given row, and `patch` writes a row alone where the others of its words are not there. `widths` are the
    bytes of a lane in a row of the source, those in the target, and the rows that share a lane of the target.
    """
    outer, rows, pieces, row_cuts, piece_cuts = tables
    s_lane, t_lane, shared = widths
    step = 64 * s_lane // t_lane
    turns = max(1, step >> 6) - 1
    start = lanes.address(source)
    room = lanes.address(scratch) + 128 + 255 & -256
    blank = lanes.address(scratch)
    line = room, room, lanes.zero()
    for o in range(outer.shape[0]):
        for r in range(row_cuts.shape[0] - 1):
            for p in range(piece_cuts.shape[0] - 1):
                lead = _lead(outer, rows, pieces, row_cuts, piece_cuts, o, r, p)
                cut = piece_cuts[p], piece_cuts[p + 1]
                i = row_cuts[r]
                while i < row_cuts[r + 1]:
                    s = start + outer[o, 0] + rows[i, 0]
                    t = lanes.address(target) + outer[o, 1] + rows[i, 1]
                    member = rows[i, 2]
                    group, pitch = _group(rows, i, row_cuts[r + 1], shared)
                    reach = pitch * (shared - 1)
                    bounds = start - min(0, reach), start + source.size - step - max(0, reach)
                    how = aim(member, pitch, options)
                    if group == _ALONE:
                        for k in range(cut[0], cut[1]):
                            if rows[i, 0] < BLANK and pieces[k, 0] < BLANK:
                                place = t + pieces[k, 1], s + pieces[k, 0], pieces[k, 2] * t_lane
                                patch(fetch, spill, place, step, how, bounds, room, member)
                        i += 1
                    elif group == _UNEVEN:
                        apart = aim(member, ZERO + _GATHERED, options)
                        base = start + outer[o, 0]
                        line = _gather(
                            fetch, spill, widths, rows, i, pieces, cut, base, t, apart, streaming, room, blank, line
                        )
                        i += shared
                    else:
                        ahead = lead + (member & turns) * 64, pitch, shared - 1
                        if group == _BLANK:
                            s = start + BLANK
                        line = _row(
                            fetch,
                            spill,
                            t_lane,
                            pieces,
                            cut,
                            s,
                            t,
                            step,
                            how,
                            bounds,
                            ahead,
                            streaming,
                            room,
                            blank,
                            line,
                        )
                        i += shared
    _flush(line, room)
    if streaming:
        lanes.fence()


@part
def _lead(outer, rows, pieces, row_cuts, piece_cuts, o, r, p):
    """Bytes of the source from a piece of this block to its like in the next block."""
    here = pieces[piece_cuts[p], 0]
    if p + 2 < piece_cuts.shape[0]:
        return pieces[piece_cuts[p + 1], 0] - here
    here += rows[row_cuts[r], 0] - pieces[0, 0]
    if r + 2 < row_cuts.shape[0]:
        return rows[row_cuts[r + 1], 0] - here
    if o + 1 < outer.shape[0]:
        lead = outer[o + 1, 0] - outer[o, 0] + rows[0, 0] - here
        if abs(lead) <= _FAR:
            return lead
    return _AHEAD


@part
def _group(rows, i, stop, shared):
    """What the rows of a group are, beginning with row `i`, and how far apart in the source where that is even."""
    blank = 1 if rows[i, 0] >= BLANK else 0
    if shared == 1:
        return _BLANK if blank else _EVEN, ZERO
    if rows[i, 2] != 0 or i + shared > stop:
        return _ALONE, ZERO
    pitch = rows[i + 1, 0] - rows[i, 0]
    even = True
    for k in range(1, shared):
        if rows[i + k, 2] != k or rows[i + k, 1] != rows[i, 1]:
            return _ALONE, ZERO
        blank += 1 if rows[i + k, 0] >= BLANK else 0
        even &= rows[i + k, 0] - rows[i + k - 1, 0] == pitch
    if blank == shared:
        return _BLANK, ZERO
    return (_EVEN, pitch) if even and blank == 0 else (_UNEVEN, ZERO)


@part
def _gather(fetch, spill, widths, rows, i, pieces, cut, base, t, how, streaming, room, blank, line):
    """Copy a group whose rows lie anywhere, by way of the scratch."""
    s_lane, t_lane, shared = widths
    step = 64 * s_lane // t_lane
    side = room + 8192
    for p in range(cut[0], cut[1]):
        place = t + pieces[p, 1]
        count = pieces[p, 2] * s_lane
        if pieces[p, 0] >= BLANK:
            line = _blank(blank, place, pieces[p, 2] * t_lane, streaming, room, line)
            continue
        for done in range(0, count, _GATHERED - 64):
            part = min(_GATHERED - 64, count - done)
            for k in range(shared):
                if rows[i + k, 0] < BLANK:
                    lanes.move(side + _GATHERED * k, base + rows[i + k, 0] + pieces[p, 0] + done, part)
                else:
                    for b in range(0, part, 64):
                        lanes.store(side + _GATHERED * k + b, lanes.load(blank))
            to = place + done * t_lane // s_lane, side, part * t_lane // s_lane
            bounds = side - 64, side + _GATHERED * shared
            if streaming and not place & t_lane - 1:
                line = _piece(fetch, spill, to, step, how, bounds, (ZERO, ZERO, ZERO), streaming, room, line)
            else:
                _plain(fetch, spill, to, step, how, bounds, room)
    return line


@part
def _row(fetch, spill, t_lane, pieces, cut, s_row, t_row, step, how, bounds, ahead, streaming, room, blank, line):
    """Copy one row's pieces of a block; the line begun, as it then is.

    Where the target goes on from one block to the next, the limit between them moves to the next limit of a line.
    """
    p, last = cut
    skip, extra = 0, 0
    if streaming:
        skip, extra = _seam(pieces, p, t_row, t_lane), _seam(pieces, last, t_row, t_lane)
    while p < last or (p == last and extra):
        t = t_row + pieces[p, 1] + skip
        s = s_row + pieces[p, 0] + (skip * step >> 6)
        count = pieces[p, 2] * t_lane - skip if p < last else extra
        if s >= BLANK:
            line = _blank(blank + (skip & 15), t, count, streaming, room, line)
        elif streaming and not t & t_lane - 1:
            line = _piece(fetch, spill, (t, s, count), step, how, bounds, ahead, streaming, room, line)
        else:
            _plain(fetch, spill, (t, s, count), step, how, bounds, room)
        skip = 0
        p += 1
    return line


@part
def _seam(pieces, p, t_row, t_lane):
    """Bytes at the start of a piece that complete the line in which the piece before it ends."""
    if p == 0 or p == pieces.shape[0] or pieces[p - 1, 1] + pieces[p - 1, 2] * t_lane != pieces[p, 1]:
        return 0
    return min(-(t_row + pieces[p, 1]) & 63 & -t_lane, pieces[p, 2] * t_lane)


@part
def _piece(fetch, spill, place, step, how, bounds, ahead, streaming, room, line):
    """Copy a piece by whole lines.

    `line` is the one begun and not yet written: where its first byte belongs, where its last one ends, and all of it.
    """
    t, s, count = place
    first, end, carry = line
    lead, pitch, turns = ahead
    if t != end:
        _flush(line, room)
        first, end = t, t
    filled = end & 63
    if filled:
        lanes.prefetch(s + lead + (end >> 6 & turns) * pitch)
        carry = lanes.blend(filled, carry, _edge(fetch, spill, s, filled, count, step, how, bounds, room))
        filled = min(64 - filled, count)
        end += filled
        s += filled * step >> 6
        count -= filled
        if end & 63:
            return first, end, carry
        if first == end - 64:
            lanes.put(first, carry, streaming)
        else:
            _flush((first, end, carry), room)
    while count >= 64:
        lanes.prefetch(s + lead + (end >> 6 & turns) * pitch)
        lanes.put(end, fetch(s, how), streaming)
        end += 64
        s += step
        count -= 64
    first = end
    if count:
        lanes.prefetch(s + lead + (end >> 6 & turns) * pitch)
        carry = _edge(fetch, spill, s, ZERO, count, step, how, bounds, room)
        end += count
    return first, end, carry


@part
def _blank(blank, t, count, streaming, room, line):
    """Set a piece to the pattern at `blank`, as if it had been copied."""
    first, end, carry = line
    if not streaming:
        while count > 0:
            lanes.move(t, blank, min(64, count))
            t += 64
            count -= 64
        return line
    if t != end:
        _flush(line, room)
        first, end = t, t
    filled = end & 63
    if filled:
        carry = lanes.blend(filled, carry, lanes.load(blank + (-filled & 15)))
        made = min(64 - filled, count)
        end += made
        count -= made
        if end & 63:
            return first, end, carry
        if first == end - 64:
            lanes.put(first, carry, streaming)
        else:
            _flush((first, end, carry), room)
        blank += made & 15
    while count >= 64:
        lanes.put(end, lanes.load(blank), streaming)
        end += 64
        count -= 64
    first = end
    if count:
        carry = lanes.load(blank)
        end += count
    return first, end, carry


@part
def _flush(line, room):
    """Write a line that will not be completed."""
    first, end, carry = line
    if end > first:
        lanes.store(room, carry)
        lanes.move(first, room + (first & 63), end - first)


@part
def _plain(fetch, spill, place, step, how, bounds, room):
    """Copy a piece by stores of any alignment."""
    t, s, count = place
    if count < 64:
        lanes.store(room, _edge(fetch, spill, s, ZERO, count, step, how, bounds, room))
        lanes.move(t, room, count)
        return
    rest = count - 64
    while rest > 0:
        lanes.store(t, fetch(s, how))
        t += 64
        s += step
        rest -= 64
    # The last line overlaps the one before it.
    lanes.store(t + rest, fetch(s + (rest * step >> 6), how))


@part
def _edge(fetch, spill, s, back, count, step, how, bounds, room):
    """A fetch of `count` bytes, behind `back` others, that reads nothing outside the source for the rest."""
    s -= back * step >> 6
    if s < bounds[0] or s > bounds[1]:
        s, how = spill(room + 1024, s + (back * step >> 6), min(count, 64) * step >> 6, how)
        s -= back * step >> 6
    return fetch(s, how)


# --- kinds ----------------------------------------------------------------------------------------------------------


@part
def spill_run(room, s, count, how):
    """Of words and of runs of bytes."""
    lanes.move(room, s, count)
    return room, how


@part
def no_patch(fetch, spill, place, step, how, bounds, room, member):
    """Rows whose target is not shared are never alone."""


@part
def _load(s, how):
    return lanes.load(s)


@part
def _anywhere(member, pitch, options):
    return 0


@part
def _fields16(s, shift):
    return lanes.fields16(s, shift)


@part
def _fields8(s, shift):
    return lanes.fields8(s, shift)


@part
def _shift(member, pitch, bits):
    return member * bits


@part
def _braid16(s, pitch):
    return lanes.braid16(s, pitch)


@part
def _braid8(s, pitch):
    return lanes.braid8(s, pitch)


@part
def _apart(member, pitch, options):
    return pitch


@part
def _spill_two(room, s, count, pitch):
    for k in range(2):
        lanes.move(room + 128 * k, s + k * pitch, count)
    return room, 128


@part
def _spill_four(room, s, count, pitch):
    for k in range(4):
        lanes.move(room + 128 * k, s + k * pitch, count)
    return room, 128


@part
def _patch(fetch, spill, place, step, how, bounds, room, member):
    """Write one row of words by a mask, so that the others are not touched."""
    t, s, count = place
    own = step >> 4
    mask = ((1 << own) - 1 << member * own) * 0x1111_1111_1111_1111
    while count > 0:
        if count < 64:
            mask &= (1 << count) - 1
        lanes.store_masked(t, _edge(fetch, spill, s, ZERO, count, step, how, bounds, room), mask)
        t += 64
        s += step
        count -= 64


@kernel(*ARGUMENTS)
def rows(source, target, outer, rows, pieces, row_cuts, piece_cuts, streaming, scratch):
    """Copy runs of bytes: a lane is a byte."""
    tables = outer, rows, pieces, row_cuts, piece_cuts
    walk(_load, spill_run, _anywhere, no_patch, (1, 1, 1), source, target, tables, streaming, scratch, 0)


@kernel(*ARGUMENTS)
def unzip16(source, target, outer, rows, pieces, row_cuts, piece_cuts, streaming, scratch):
    """Take rows of 16 bits out of words that two of them share."""
    tables = outer, rows, pieces, row_cuts, piece_cuts
    walk(_fields16, spill_run, _shift, no_patch, (4, 2, 1), source, target, tables, streaming, scratch, 16)


@kernel(*ARGUMENTS)
def unzip8(source, target, outer, rows, pieces, row_cuts, piece_cuts, streaming, scratch):
    """Take rows of 8 bits out of words that four of them share."""
    tables = outer, rows, pieces, row_cuts, piece_cuts
    walk(_fields8, spill_run, _shift, no_patch, (4, 1, 1), source, target, tables, streaming, scratch, 8)


@kernel(*ARGUMENTS)
def zip16(source, target, outer, rows, pieces, row_cuts, piece_cuts, streaming, scratch):
    """Put rows of 16 bits into words, two rows into each. Rows of one word follow each other in the table.

    A row whose words' other row is not in its block goes in alone, and the other one's bytes stay as they are.
    """
    tables = outer, rows, pieces, row_cuts, piece_cuts
    walk(_braid16, _spill_two, _apart, _patch, (2, 4, 2), source, target, tables, streaming, scratch, 0)


@kernel(*ARGUMENTS)
def zip8(source, target, outer, rows, pieces, row_cuts, piece_cuts, streaming, scratch):
    """Put rows of 8 bits into words, four rows into each, as `zip16` does with two."""
    tables = outer, rows, pieces, row_cuts, piece_cuts
    walk(_braid8, _spill_four, _apart, _patch, (1, 4, 4), source, target, tables, streaming, scratch, 0)
