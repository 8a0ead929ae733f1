"""Transposes between runs of two, three or four elements and as many rows: channels, pairs, corners.

In the runs the elements of the rows take turns, so registers put lines of all rows together, or take them apart, at
once: no square has to be turned. `transpose` says what the tables mean; one side has a single piece, of few elements.
"""

from __future__ import annotations

from strided.kernels import NEAR, simd_bytes, zip_rows
from strided.kernels.compile import ZERO, kernel, part, separate
from strided.kernels.held_run import NONE, begun_at, finish, grown, move_run, put_at
from strided.kernels.lines_ahead import ask_for
from strided.kernels.transpose_joined import evenly
from strided.kernels.transpose_squares import ARGUMENTS

_AHEAD = 4096  # bytes that rows are asked for ahead
_RUN = 1024  # where in the scratch a run is put together, behind what is no whole line


def _few_rows(bits):
    """What zips two to four rows, and what picks a line of each of as many rows that take turns."""
    if bits == 64:
        (two,), ((evens, odds),) = zip_rows.ZIPS[64], zip_rows.PICKS[64]

        @part
        def zip_two(few, rows, target):
            two(rows[0], rows[1], target)

        @part
        def pick_two(few, s):
            a, b = evens(s), odds(s)
            return a, b, b, b

        return zip_two, pick_two

    two, three, four = zip_rows.ZIPS[bits]
    (evens, odds), (third0, third1, third2), (fourth0, fourth1, fourth2, fourth3) = zip_rows.PICKS[bits]

    @part
    def zips(few, rows, target):
        if few == 2:
            two(rows[0], rows[1], target)
        elif few == 3:
            three(rows[0], rows[1], rows[2], rows[3], target)
        else:
            four(rows[0], rows[1], rows[2], rows[3], target)

    @part
    def pick(few, s):
        if few == 2:
            a, b = evens(s), odds(s)
            return a, b, b, b
        if few == 3:
            a, b, c = third0(s), third1(s), third2(s)
            return a, b, c, c
        return fourth0(s), fourth1(s), fourth2(s), fourth3(s)

    return zips, pick


@separate
def _together(zips, width, starts, ends, tables, rows, streaming, room):
    """Put rows together that lie in few runs of the source."""
    outer, _, _, p_pieces, q_pieces = tables
    few, first = q_pieces[0, 2], rows[0] + 8 * q_pieces[0, 1]
    held, even = NONE, False
    for o in range(outer.shape[0]):
        for i in range(p_pieces.shape[0]):
            s = starts[0] + outer[o, 0] + p_pieces[i, 0]
            t = starts[1] + outer[o, 1] + q_pieces[0, 0]
            targets, count, on = rows[1] + 8 * p_pieces[i, 1], p_pieces[i, 2], ZERO
            if i + 1 < p_pieces.shape[0]:
                on = p_pieces[i + 1, 0] - p_pieces[i, 0]
            elif o + 1 < outer.shape[0]:
                on = outer[o + 1, 0] - outer[o, 0] + p_pieces[0, 0] - p_pieces[i, 0]
            while count > 0:
                n = count if even else evenly(targets, count, few * width)
                held = begun_at(held, t + simd_bytes.integer(targets), streaming, room + _RUN)
                held = _zip(zips, width, (first, s), (n, few), on, held, streaming, room, ends)
                even = p_pieces.shape[0] == 1 and n == p_pieces[i, 2]
                targets, s, count = targets + 8 * n, s + n * width, count - n
    finish(held, streaming, room + _RUN)


@part
def _lead(on, few, size):
    """How far ahead lines of `few` runs of `size` bytes are asked for, the next ones being `on` bytes further on.

    And whether into the first-level cache. Short runs come again at the same distance; if there are gaps between them,
    some memory has lines in the second-level cache too late, half of the time.
    """
    if size >= _AHEAD:
        return ZERO + _AHEAD, False
    return on * max(1, _AHEAD // (few * (size + 63 & -64))), abs(on) >= few * size + 64


@part
def _zip(zips, width, origin, extent, on, held, streaming, room, ends):
    """Put as many elements of as few rows together as `extent` says; what comes next is `on` bytes further on.

    They join the run that is held; the answer is that run.
    """
    rows, s = origin
    count, few = extent
    first, second = s + simd_bytes.integer(rows), s + simd_bytes.integer(rows + 8)
    third, fourth = s + simd_bytes.integer(rows + 8 * min(2, few - 1)), s + simd_bytes.integer(rows + 8 * (few - 1))
    farthest = max(max(first, second), max(third, fourth))
    lead, near = _lead(on, few, count * width)
    for at in range(0, count * width, 64):
        new = min(64, count * width - at)
        lines = first + at, second + at, third + at, fourth + at
        if ends[1] - ends[0] > NEAR:
            for line in lines:
                ask_for(line + lead, near)
        if farthest + at + 64 > ends[1]:
            for k in range(4):
                simd_bytes.move(room + 64 * k, lines[k], new)
            lines = room, room + 64, room + 128, room + 192
        zips(few, lines, put_at(held, room + _RUN))
        held = grown(held, few * new, streaming, room + _RUN)
    return held


@separate
def _apart(pick, width, starts, ends, tables, rows, streaming, room):
    """Take rows apart that take turns in runs of the source."""
    outer, _, _, p_pieces, q_pieces = tables
    few, targets = p_pieces[0, 2], rows[1] + 8 * p_pieces[0, 1]
    even = False
    for o in range(outer.shape[0]):
        for j in range(q_pieces.shape[0]):
            s, t = starts[0] + outer[o, 0] + p_pieces[0, 0], starts[1] + outer[o, 1] + q_pieces[j, 0]
            sources, count, on = rows[0] + 8 * q_pieces[j, 1], q_pieces[j, 2], ZERO
            if j + 1 < q_pieces.shape[0]:
                on = simd_bytes.integer(rows[0] + 8 * q_pieces[j + 1, 1]) - simd_bytes.integer(sources)
            elif o + 1 < outer.shape[0]:
                on = outer[o + 1, 0] - outer[o, 0] + simd_bytes.integer(rows[0]) - simd_bytes.integer(sources)
            while count > 0:
                n = count if even else evenly(sources, count, few * width)
                at = s + simd_bytes.integer(sources)
                _pick(pick, width, at, (targets, t), (few, n), on, streaming, room, ends)
                even = q_pieces.shape[0] == 1 and n == q_pieces[j, 2]
                sources, t, count = sources + 8 * n, t + n * width, count - n


@part
def _pick(pick, width, s, goal, extent, on, streaming, room, ends):
    """Take as many elements of as few rows apart as `extent` says, past the caches if all rows begin with lines."""
    few, count = extent
    targets, t = goal
    first, second = t + simd_bytes.integer(targets), t + simd_bytes.integer(targets + 8)
    third = t + simd_bytes.integer(targets + 8 * min(2, few - 1))
    fourth = t + simd_bytes.integer(targets + 8 * (few - 1))
    past = streaming * ((first | second | third | fourth) & 63 == 0)
    size = count * width
    whole = size & -64
    lead, near = _lead(on, 1, few * size)
    if ends[1] - ends[0] <= NEAR:
        lead = ZERO
    for done in range(0, whole, 64):
        if lead:
            for k in range(0, 64 * few, 64):
                ask_for(s + lead + k, near)
        a, b, c, d = pick(few, s)
        _put(first + done, a, past)
        _put(second + done, b, past)
        if few > 2:
            _put(third + done, c, past)
        if few > 3:
            _put(fourth + done, d, past)
        s += 64 * few
    if whole < size:
        if lead:
            for k in range(0, few * (size - whole) + 63, 64):
                ask_for(s + lead + k, near)
        if s + 64 * few > ends[1]:
            simd_bytes.move(room, s, few * (size - whole))
            s = room
        a, b, c, d = pick(few, s)
        simd_bytes.store(room + 256, a)
        simd_bytes.store(room + 320, b)
        simd_bytes.store(room + 384, c)
        simd_bytes.store(room + 448, d)
        for k in range(few):
            move_run(t + simd_bytes.integer(targets + 8 * k) + whole, room + 256 + 64 * k, size - whole)


@part
def _put(t, line, past):
    if past:
        simd_bytes.put(t, line, past)
    else:
        simd_bytes.store(t, line)


@part
def _few(zips, pick, width, source, target, tables, streaming, scratch):
    """Copy what the tables describe, in elements of `width` bytes."""
    _, source_rows, target_rows, p_pieces, q_pieces = tables
    room = simd_bytes.address(scratch) + 63 & -64
    starts = simd_bytes.address(source), simd_bytes.address(target)
    ends = starts[0], starts[0] + source.size
    rows = simd_bytes.address(source_rows), simd_bytes.address(target_rows)
    few, first, most = p_pieces[0, 2], min(2, source_rows.shape[0]), 2 if width == 8 else 4
    # Where both are few, how the rows lie decides; the first two of many may be the end of one run and the next one's.
    many = q_pieces.shape[0] > 1 or q_pieces[0, 2] > most
    turns = many or evenly(rows[0], first, few * width) == first
    if p_pieces.shape[0] == 1 and 1 < few <= most and turns:
        _apart(pick, width, starts, ends, tables, rows, streaming, room)
    else:
        _together(zips, width, starts, ends, tables, rows, streaming, room)
    if streaming:
        simd_bytes.fence()


_zips8, _pick8 = _few_rows(8)
_zips16, _pick16 = _few_rows(16)
_zips32, _pick32 = _few_rows(32)
_zips64, _pick64 = _few_rows(64)


@kernel(*ARGUMENTS)
def transpose_few8(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 8 bits."""
    tables = outer, source_rows, target_rows, p_pieces, q_pieces
    _few(_zips8, _pick8, 1, source, target, tables, streaming, scratch)


@kernel(*ARGUMENTS)
def transpose_few16(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 16 bits."""
    tables = outer, source_rows, target_rows, p_pieces, q_pieces
    _few(_zips16, _pick16, 2, source, target, tables, streaming, scratch)


@kernel(*ARGUMENTS)
def transpose_few32(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 32 bits."""
    tables = outer, source_rows, target_rows, p_pieces, q_pieces
    _few(_zips32, _pick32, 4, source, target, tables, streaming, scratch)


@kernel(*ARGUMENTS)
def transpose_few64(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 64 bits."""
    tables = outer, source_rows, target_rows, p_pieces, q_pieces
    _few(_zips64, _pick64, 8, source, target, tables, streaming, scratch)
