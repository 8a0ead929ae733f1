"""Transpositions between runs of two, three or four elements and as many rows: channels, pairs, corners.

In the runs the elements of the rows take turns, so registers put lines of all rows together, or take them apart, at
once: no square has to be turned. `transpose` says what the tables mean.
"""

from __future__ import annotations

from strided.kernels import NEAR, simd_bytes, zip_rows
from strided.kernels.compile import ZERO, part, separate
from strided.kernels.held_run import RUN_BYTES, drain, move_run

_AHEAD = 4096  # bytes that rows are asked for ahead


def few_rows(bits):
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


@part
def is_few(width, count):
    """Whether there are operations for so many rows of elements of `width` bytes."""
    return count == 2 or (width < 8 and 2 < count <= 4)


@separate
def is_even(table, count, step):
    """Whether each of so many int64 is `step` more than the one before it. Where rows are short, tables are long."""
    last = table + 8 * (count - 1)
    while table + 8 * simd_bytes.STEPS <= last:
        if not simd_bytes.are_steps(table, step):
            return False
        table += 8 * simd_bytes.STEPS
    while table < last:
        if simd_bytes.integer(table + 8) - simd_bytes.integer(table) != step:
            return False
        table += 8
    return True


@part
def zip_few(zips, width, origin, extent, on, held, streaming, places, bounds):
    """Put rows together, as `transpose_joined.by_run` does: as many elements of as few rows as `extent` says.

    What comes next is `on` bytes further on. `places` in the scratch: of 64 bytes of each row, and of the held run.
    """
    rows, s, _ = origin
    begin, end = held
    count, few = extent
    first, second = s + simd_bytes.integer(rows), s + simd_bytes.integer(rows + 8)
    third, fourth = s + simd_bytes.integer(rows + 8 * min(2, few - 1)), s + simd_bytes.integer(rows + 8 * (few - 1))
    farthest = max(max(first, second), max(third, fourth))
    # Short runs come again at the same distance.
    lead = on * max(1, _AHEAD // max(1, abs(on))) if count * width < _AHEAD else ZERO + _AHEAD
    for at in range(0, count * width, 64):
        new = min(64, count * width - at)
        lines = first + at, second + at, third + at, fourth + at
        if bounds[1] - bounds[0] > NEAR:
            for line in lines:
                simd_bytes.prefetch(line + lead)
        if farthest + at + 64 > bounds[1]:
            for k in range(4):
                simd_bytes.move(places[0] + 64 * k, lines[k], new)
            lines = places[0], places[0] + 64, places[0] + 128, places[0] + 192
        zips(few, lines, places[1] + end - (begin & -64))
        end += few * new
        if end - begin >= RUN_BYTES:
            begin = drain((begin, end), streaming, places[1])
    return begin, end


@separate
def take_turns(width, target, tables, streaming):
    """Whether few rows of the target take turns in the source's runs, and begin with lines if they are streamed."""
    outer, source_rows, target_rows, p_pieces, q_pieces = tables
    if p_pieces.shape[0] != 1 or not is_few(width, p_pieces[0, 2]):
        return False
    if streaming:
        begin = simd_bytes.address(target)
        for k in range(target_rows.shape[0]):
            begin |= target_rows[k]
        for o in range(outer.shape[0]):
            begin |= outer[o, 1]
        for j in range(q_pieces.shape[0]):
            begin |= q_pieces[j, 0]
        if begin & 63:
            return False
    return is_even(simd_bytes.address(source_rows), source_rows.shape[0], p_pieces[0, 2] * width)


@separate
def part_few(pick, width, source, target, tables, streaming, room):
    """Take rows apart that take turns. The scratch has 512 bytes from `room` on for what is no whole line."""
    outer, source_rows, target_rows, p_pieces, q_pieces = tables
    few, rows = p_pieces[0, 2], p_pieces[0, 1]
    ahead = (ZERO + _AHEAD) * (source.size > NEAR)
    for o in range(outer.shape[0]):
        for j in range(q_pieces.shape[0]):
            s = simd_bytes.address(source) + outer[o, 0] + p_pieces[0, 0] + source_rows[q_pieces[j, 1]]
            t = simd_bytes.address(target) + outer[o, 1] + q_pieces[j, 0]
            first, second = t + target_rows[rows], t + target_rows[rows + 1]
            third, fourth = t + target_rows[rows + min(2, few - 1)], t + target_rows[rows + few - 1]
            size = q_pieces[j, 2] * width
            whole = size & -64
            for done in range(0, whole, 64):
                if ahead:
                    for k in range(0, 64 * few, 64):
                        simd_bytes.prefetch(s + ahead + k)
                a, b, c, d = pick(few, s)
                _put(first + done, a, streaming)
                _put(second + done, b, streaming)
                if few > 2:
                    _put(third + done, c, streaming)
                if few > 3:
                    _put(fourth + done, d, streaming)
                s += 64 * few
            if whole < size:
                simd_bytes.move(room, s, few * (size - whole))
                a, b, c, d = pick(few, room)
                simd_bytes.store(room + 256, a)
                simd_bytes.store(room + 320, b)
                simd_bytes.store(room + 384, c)
                simd_bytes.store(room + 448, d)
                for k in range(few):
                    move_run(t + target_rows[rows + k] + whole, room + 256 + 64 * k, size - whole)
    if streaming:
        simd_bytes.fence()


@part
def _put(t, line, streaming):
    if streaming:
        simd_bytes.put(t, line, streaming)
    else:
        simd_bytes.store(t, line)
