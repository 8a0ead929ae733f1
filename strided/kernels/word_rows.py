"""Rows taken out of words that they share, all rows of a word at once: each word is read once.

`row_driver` says what the tables mean. Rows that follow each other in a streamed target are put together in the scratch
and written by whole lines. Where they are long, `long_rows` serves better, and where they lie apart `row_driver.drive`:
both keep their places in lines from one piece to the next.
"""

from __future__ import annotations

from typing import NamedTuple

from strided.kernels import NEAR, simd_bytes
from strided.kernels.compile import ZERO, part
from strided.kernels.held_run import NONE, begun_at, finish, grown, move_run, put_at
from strided.kernels.lines_ahead import ask_for, ask_for_ends, ask_for_gap, gap_behind, place_of
from strided.kernels.row_driver import sums
from strided.kernels.row_parts import NO_GAP
from strided.kernels.tables import begin
from strided.kernels.word_lines import (
    LINES,
    OWN,
    PLACES,
    Words,
    all_follow,
    near,
    put_place,
    ragged,
    row_bytes,
    sharing,
    take,
)

# Where in the scratch are the run that is held, and rows that are not wanted.
_RUN, _UNWANTED = OWN, 5 << 15
#: Bytes of the source that are asked for ahead, by whole words of a row or whole matrices of up to so many bytes, by
#: pieces of longer rows; and groups of rows that the ends of runs are.
_AHEAD, _FAR, _ENDS_AHEAD = 4096, 1 << 15, 8
#: Bytes of a row up to which its last line comes first: the CPU foresees longer ones better from front to back.
_FEW_LINES = 192


class _Lead(NamedTuple):
    """How far on words are asked for, 0 for none, and whether for the first-level cache."""

    on: int
    near: bool


class _Members(NamedTuple):
    """Rows of a word that are wanted: the first one, and how many."""

    first: int
    count: int


@part
def take_apart(unzip, shared, width, longest, source, target, tables, streaming, scratch, how):
    """Copy what `tables` describe, if this is the way; whether it was done.

    `unzip` takes apart the words that make a line of each of the `shared` rows, whose lanes have `width` bytes in the
    target, as `how` says, and reads no lines but those of the words that are wanted. It may use a kilobyte of the
    scratch, from `BYTES` on. Streamed rows are shorter than `longest` bytes, which is 4 KB at most.
    """
    outer, rows, pieces, _, _ = tables
    size = row_bytes(pieces, width)
    if streaming and not (0 < size < longest and _follow(rows, size)):
        return False
    room = simd_bytes.address(scratch) + 63 & -64
    shape = Words(ZERO + shared, ZERO + width, size, room, simd_bytes.address(source) + source.size)
    for k in range(shared):
        put_place(room + PLACES, k, room + LINES + 64 * k)
    words = 4 * sums(pieces)[0]
    ahead = _rows_ahead(rows, shared, words) if source.size > NEAR else ZERO
    starts = simd_bytes.address(source), simd_bytes.address(target)
    if streaming:
        _by_runs(unzip, shape, starts, outer, rows, pieces, ahead, how)
        return True
    for o in range(len(outer)):
        origin = starts[0] + outer[o, 0], starts[1] + outer[o, 1]
        i = ZERO
        while i < len(rows):
            lead = place_of(outer, rows, o, i + ahead, 0) - outer[o, 0] - rows[i, 0] if ahead else ZERO
            last = i + 1 if ahead else near(rows, i, pieces)
            first = i
            for p in range(len(pieces)):
                if ahead and words > _FAR:
                    lead = _piece_ahead(pieces, p)
                i = first
                while i < last:
                    count = sharing(rows, i, len(rows))
                    members = _Members(rows[i, 2], count)
                    _directly(unzip, shape, origin, rows, i, members, pieces, p, _Lead(lead, False), how)
                    i += count
            i = max(i, last)
    return True


@part
def _piece_ahead(pieces, p):
    """Bytes from a piece to the one whose words are asked for meanwhile, where rows are long; 0 behind the last one."""
    on = p + max(1, _AHEAD // max(1, 4 * pieces[p, 2]))
    return pieces[on, 0] - pieces[p, 0] if on < len(pieces) else ZERO


@part
def _rows_ahead(rows, shared, size):
    """How many rows on lie the words, `size` bytes for each row, that are asked for while those of a row are read.

    Where fewer rows share the first or the last words of a matrix, row i + n may share the same words as row i + n + 1:
    some words would be left out, and others asked for twice. All are asked for by those at their place in a matrix
    before.
    """
    on, count = max(1, _AHEAD // max(1, size)) * shared, len(rows)
    if count > 0 and (rows[0, 2] or count % shared) and count // shared * size <= _FAR:
        on = (on + count - 1) // count * count
    return on


@part
def _by_runs(unzip, shape, starts, outer, rows, pieces, ahead, how):
    """Take rows apart that follow each other in a streamed target."""
    size, room = shape.size, shape.room
    asks = not all_follow(outer, rows, size)
    by_lines = ragged(pieces, shape.width) == 0
    # Words of few rows come faster from the second-level cache.
    soon = shape.shared >= 8 and _leave_lines(rows, pieces)
    gap = gap_behind(rows, pieces, 4) if ahead and shape.shared == 2 else NO_GAP
    last = pieces[len(pieces) - 1, 0]
    held = NONE
    for o in range(len(outer)):
        i = ZERO
        while i < len(rows):
            count = _following(rows, i, size)
            s = starts[0] + outer[o, 0] + rows[i, 0]
            t = starts[1] + outer[o, 1] + rows[i, 1] + pieces[0, 1]
            lead = place_of(outer, rows, o, i + ahead, 0) - outer[o, 0] - rows[i, 0] if ahead else ZERO
            if asks:
                later = place_of(outer, rows, o, i + _ENDS_AHEAD * count, 1)
                ask_for_ends(starts[1] + later + pieces[0, 1], count * size)
            members = _Members(rows[i, 2], count)
            held = _by_run(unzip, shape, s, t, members, pieces, by_lines, _Lead(lead, soon), held, how)
            ask_for_gap(s + last + lead, gap)
            i += count
    finish(held, ZERO + 1, room + _RUN)
    simd_bytes.fence()


@part
def _leave_lines(rows, pieces):
    """Whether lines that nobody wants lie between the words of one piece and those that come next.

    The CPU then foresees little, and the second-level cache may have some lines too late, or no longer.
    """
    size = 4 * pieces[0, 2]
    step = abs(pieces[1, 0] - pieces[0, 0]) if len(pieces) > 1 else ZERO
    i = sharing(rows, ZERO, len(rows))
    if i < len(rows):
        own = abs(rows[i, 0] - rows[0, 0])
        step = min(step, own) if step else own
    return step >= size + 64


@part
def _follow(rows, size):
    """Whether the first rows go on in the target where the one before them ends."""
    return len(rows) > 1 and rows[1, 1] == rows[0, 1] + size


@part
def _following(rows, i, size):
    """How many rows from row `i` on are neighbours in the same words, and follow each other in the target."""
    count, last = ZERO + 1, sharing(rows, i, len(rows))
    while count < last and rows[i + count, 1] == rows[i, 1] + count * size:
        count += 1
    return count


@part
def _take(unzip, shape, s, count, lead, places, at, how):
    """Take apart the words of a line, of which `count` are wanted, and ask for those that `lead` tells."""
    if lead.on:
        # Lines come in pairs.
        for k in range(0, 4 * count + 127 & -128, 64):
            ask_for(s + lead.on + k, lead.near)
    take(unzip, shape, s, count, 4 * count, places, at, how)


@part
def _by_run(unzip, shape, s, t, members, pieces, by_lines, lead, held, how):
    """Add the rows of a word, which begin at `t` in the target, to the run that is held; that run."""
    size, room = shape.size, shape.room
    member, count = members
    held = begun_at(held, t, ZERO + 1, room + _RUN)
    to = put_at(held, room + _RUN)
    for k in range(shape.shared):
        wanted = member <= k < member + count
        put_place(room, k, to + (k - member) * size if wanted else room + _UNWANTED)
    if by_lines and size <= _FEW_LINES:
        _last_line_first(unzip, shape, s, pieces, lead, how)
    else:
        _in_turn(unzip, shape, s, members, pieces, lead, how)
    return grown(held, count * size, ZERO + 1, room + _RUN)


@part
def _last_line_first(unzip, shape, s, pieces, lead, how):
    """Take rows apart, the last line of every row first: what that writes behind it, what belongs there overwrites."""
    width, room = shape.width, shape.room
    lanes, last = 64 // width, len(pieces) - 1
    whole = (pieces[last, 2] - 1) // lanes * lanes
    at, left = pieces[last, 1] - pieces[0, 1] + whole * width, pieces[last, 2] - whole
    _take(unzip, shape, s + pieces[last, 0] + 4 * whole, left, lead, room, at, how)
    for p in range(len(pieces)):
        at = pieces[p, 1] - pieces[0, 1]
        for c in range(0, pieces[p, 2] if p < last else whole, lanes):
            _take(unzip, shape, s + pieces[p, 0] + 4 * c, ZERO + lanes, lead, room, at + c * width, how)


@part
def _in_turn(unzip, shape, s, members, pieces, lead, how):
    """The same from the first line on: what a piece writes behind it, the next one overwrites.

    Where that would pass the end of the row, no more is written than belongs there.
    """
    width, size, room = shape.width, shape.size, shape.room
    lanes = 64 // width
    for p in range(len(pieces)):
        for c in range(0, pieces[p, 2], lanes):
            some, words = min(lanes, pieces[p, 2] - c), s + pieces[p, 0] + 4 * c
            at = pieces[p, 1] - pieces[0, 1] + c * width
            passes = at + 64 > size
            _take(unzip, shape, words, some, lead, room + PLACES * passes, ZERO if passes else at, how)
            if passes:
                for k in range(members.first, members.first + members.count):
                    place = simd_bytes.cell(room, k, 1) + at
                    line = simd_bytes.load(room + LINES + 64 * k)
                    simd_bytes.store(place, simd_bytes.blend(some * width, line, simd_bytes.load(place)))


@part
def _directly(unzip, shape, origin, rows, i, members, pieces, p, lead, how):
    """Write a piece of the rows of a word, the first of them row `i`, where it belongs."""
    width, room = shape.width, shape.room
    member, count = members
    lanes, size = 64 // width, pieces[p, 2]
    words, t = origin[0] + rows[i, 0] + pieces[p, 0], origin[1] + pieces[p, 1]
    if count == shape.shared and size >= lanes:
        table = begin(rows) + 24 * i
        if not lead.on:
            unzip(words, 4 * size, table, t, size * width, room, how)
            return
        # Line by line: where much is asked for at once, what is wanted sooner waits.
        for c in range(0, size, lanes):
            first = min(c, size - lanes)
            _take(unzip, shape, words + 4 * first, lanes, lead, table, t + first * width, how)
        return
    for c in range(0, size, lanes):
        some = min(lanes, size - c)
        _take(unzip, shape, words + 4 * c, some, lead, room + PLACES, ZERO, how)
        for k in range(count):
            place = t + rows[i + k, 1] + c * width
            move_run(place, room + LINES + 64 * (member + k), some * width)
