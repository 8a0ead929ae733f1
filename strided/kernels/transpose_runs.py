"""Transposes whose elements are runs of bytes, such as the channels of a pixel, or a row of a small tile.

`transpose` says what the tables mean. An element has any number of bytes. It is read and written as it is, so nothing
has to be turned: what counts is that lines on both sides are used up while they are in the cache. So rows of the target
take their elements one after the other, but from rows of the source that collide in the cache all take them in turn.
"""

from __future__ import annotations

from typing import NamedTuple

from strided.kernels import SHORT_ROW_BYTES, simd_bytes
from strided.kernels.compile import NUMBER, ZERO, kernel, part
from strided.kernels.held_run import HELD_BYTES, NONE, Run, begun_at, finish, grown, move_run, put_at, written
from strided.kernels.transpose_joined import evenly
from strided.kernels.transpose_squares import ARGUMENTS, Extent

_WRITTEN = 512  # bytes of a row of the target that are written at once, made of as many runs of the source
_READ = 512  # bytes of each of these that are used up before the next ones
_MOST_ROWS = 64  # runs of the source that are read side by side
_ROOM = 1 << 12  # where the scratch holds a part of a row: a run that begins before it fits in front
_RUN = 1 << 13  # where it holds short rows that follow each other
_PLACES = 1 << 16  # and the places of rows in a block, that lies behind these
_BLOCK = _PLACES + 8 * _MOST_ROWS
_IN_BLOCK = 256  # bytes of a row of the target that are put together in a block
_LARGEST = 64  # bytes of an element that is put there: larger ones come from few rows
_PAGE, _FIRST_LEVEL = 1 << 12, 1 << 15  # bytes of a page and of the first-level cache, whose sets begin anew with each
_BEYOND = 32  # bytes from the beginning of a run that are read, and written in the scratch, at once


class _Piece(NamedTuple):
    """A piece of both sides: a table of rows of the source, the address they count from, and its extent."""

    rows: int
    s: int
    extent: Extent


@part
def _gather(place, rows, s, size, beyond):
    """Copy the runs at the offsets in `rows`, from and to, to where they follow each other.

    If `beyond`, what lies behind a run may be read and written; the next one overwrites it.
    """
    first, last = rows
    if beyond and size <= 16:
        for q in range(first, last, 8):
            simd_bytes.copy16(place, s + simd_bytes.integer(q))
            place += size
    elif beyond and size <= _BEYOND:
        for q in range(first, last, 8):
            simd_bytes.copy32(place, s + simd_bytes.integer(q))
            place += size
    else:
        for q in range(first, last, 8):
            move_run(place, s + simd_bytes.integer(q), size)
            place += size


@part
def _put(row, span, rows, s, size, beyond, streaming, room):
    """Write the bytes `span`, from and to, of a row of the target; the row begins at `row`, and its runs lie at `s`."""
    begin, end = span
    first, last = (begin - row) // size, (end - row + size - 1) // size
    chosen = rows + 8 * first, rows + 8 * last
    if not streaming:
        _gather(row + first * size, chosen, s, size, ZERO)
        return
    line, held = begin & -64, room + _ROOM
    _gather(held + row - line + first * size, chosen, s, size, beyond)
    if begin > line:
        simd_bytes.move(begin, held + (begin & 63), min(end, line + 64) - begin)
        line, held = line + 64, held + 64
    while line + 64 <= end:
        simd_bytes.put(line, simd_bytes.load(held), streaming)
        line, held = line + 64, held + 64
    if line < end:
        simd_bytes.move(line, held, end - line)


@part
def _ask(rows, s, count, share, size):
    """Prefetch `size` bytes of some of `count` runs: a share, as which one it is and how many runs each has."""
    which, each = share
    for q in range(which * each, min(count, which * each + each)):
        place = s + simd_bytes.integer(rows + 8 * q)
        for k in range(0, size + 63, 64):
            simd_bytes.prefetch(place + k)


@part
def _turn(rows, s, targets, t, extent, size, last, streaming, room):
    """Copy all elements (p, q) of a piece on both sides; up to `last`, bytes behind a run of row 0 may be read."""
    length = extent.q * size
    # Short rows have too few whole lines to be streamed.
    whole = ZERO + (streaming != 0 and length >= _WRITTEN)
    written = max(64, min(_WRITTEN, _MOST_ROWS * size) & -64)
    across, most = max(1, _READ // size), written // size + 2
    for p in range(0, extent.p, across):
        count = min(across, extent.p - p)
        beyond = s + (p + count) * size <= last
        # Rows of the target begin anywhere in a line, and their parts end with one where they are streamed.
        for begin in range(0, length + 63 * whole, written):
            q = min(extent.q, (begin + written) // size)
            wanted = min(most, extent.q - q if q < extent.q else extent.q)
            each = (wanted + count - 1) // count
            for k in range(count):
                if streaming and q < extent.q:
                    _ask(rows + 8 * q, s + p * size, wanted, (k, each), count * size)
                elif streaming and p + across < extent.p:
                    _ask(rows, s + (p + across) * size, wanted, (k, each), count * size)
                row = t + simd_bytes.integer(targets + 8 * (p + k))
                start = (row & -64 if whole else row) + begin
                ends = max(row, start), min(row + length, start + written)
                if ends[0] < ends[1]:
                    _put(row, ends, rows, s + (p + k) * size, size, beyond, whole, room)


@part
def _collide(rows, count, size):
    """Whether elements gathered from as many rows as a part has would push each other out of the first-level cache.

    Its sets repeat with every page: rows at a step that a large power of two divides are in few of them.
    """
    if size > _LARGEST or count < 2:
        return False
    step = simd_bytes.integer(rows + 8) - simd_bytes.integer(rows)
    return min(count, _WRITTEN // size) * min(_PAGE, step & -step) > _FIRST_LEVEL


@part
def _scatter(run, places, count, at, size, beyond, ahead):
    """Copy elements that follow each other from `run` on, one to each of the places in a table and `at` further on.

    If `beyond`, what lies behind an element may be read and written; the next one overwrites it.
    """
    end = places + 8 * count
    if beyond and size <= 16:
        for place in range(places, end, 8):
            simd_bytes.copy16(simd_bytes.integer(place) + at, run)
            simd_bytes.prefetch(run + ahead)
            run += size
    elif beyond and size <= _BEYOND:
        for place in range(places, end, 8):
            simd_bytes.copy32(simd_bytes.integer(place) + at, run)
            simd_bytes.prefetch(run + ahead)
            run += size
    else:
        for place in range(places, end, 8):
            move_run(simd_bytes.integer(place) + at, run, size)
            simd_bytes.prefetch(run + ahead)
            run += size


@part
def _by_block(rows, s, targets, t, extent, size, last, room):
    """The same, streamed, for runs of the source that collide.

    They are read one after the other, and their elements put where rows of the target grow in the scratch.
    """
    across, along = min(_MOST_ROWS, _READ // size), min(_IN_BLOCK // size, extent.q)
    pitch = 64 + along * size + _BEYOND + 63 & -64  # rows begin anywhere in a line
    for p in range(0, extent.p, across):
        count = min(across, extent.p - p)
        run, beyond = s + p * size, s + (p + count) * size <= last
        for k in range(count):
            row = t + simd_bytes.integer(targets + 8 * (p + k))
            simd_bytes.put_integer(room + _PLACES + 8 * k, room + _BLOCK + k * pitch + (row & 63))
        for begin in range(0, extent.q, along):
            end = min(extent.q, begin + along)
            for q in range(begin, end):
                wanted = q + along
                at, ahead = simd_bytes.integer(rows + 8 * q), ZERO
                if wanted < extent.q:
                    ahead = simd_bytes.integer(rows + 8 * wanted) - at
                elif p + across < extent.p:
                    ahead = simd_bytes.integer(rows + 8 * (wanted - extent.q)) + count * size - at
                _scatter(run + at, room + _PLACES, count, (q - begin) * size, size, beyond, ahead)
            for k in range(count):
                row, block = t + simd_bytes.integer(targets + 8 * (p + k)), room + _BLOCK + k * pitch
                start, stop = max(row, row + begin * size & -64), row + end * size
                held = Run(start, stop, start & -64)
                if end < extent.q:
                    rest = written(held, stop, ZERO + 1, block)
                    simd_bytes.store(block, simd_bytes.load(put_at(rest, block) - (stop & 63)))
                    simd_bytes.put_integer(room + _PLACES + 8 * k, block + (stop & 63))
                else:
                    finish(held, ZERO + 1, block)


@part
def _follow(targets, count, length):
    """Whether rows of the target are short, and each begins where the one before it ends."""
    return length <= SHORT_ROW_BYTES and evenly(targets, count, length) == count


@part
def _ask_then(then, k, count, wanted, size):
    """Prefetch the k-th of `count` shares of the first elements of the piece that comes next."""
    _ask(
        then.rows, then.s, wanted, (k, (wanted + count - 1) // count), min(then.extent.p, max(1, _READ // size)) * size
    )


@part
def _join(rows, s, t, extent, size, then, last, held, room):
    """The same for rows that follow each other from `t` on: they are put together in the scratch.

    `held` is what is there. `then` is the piece that comes next: its first elements are asked for at the end.
    """
    length, across = extent.q * size, max(1, _READ // size)
    most = max(1, HELD_BYTES // max(1, length))  # rows that are put there in one go
    held = begun_at(held, t, ZERO + 1, room + _RUN)
    for p in range(0, extent.p, across):
        count = min(across, extent.p - p)
        beyond, each = s + (p + count) * size <= last, (extent.q + count - 1) // count
        for first in range(0, count, most):
            stop = min(first + most, count)
            place = put_at(held, room + _RUN)
            for k in range(first, stop):
                if p + across < extent.p:
                    _ask(rows, s + (p + across) * size, extent.q, (k, each), count * size)
                else:
                    _ask_then(then, k, count, then.extent.q, size)
                _gather(place, (rows, rows + 8 * extent.q), s + (p + k) * size, size, beyond)
                place += length
            held = grown(held, (stop - first) * length, ZERO + 1, room + _RUN)
    return held


@part
def _next_piece(source, outer, source_rows, p_pieces, q_pieces, piece):
    """The piece behind one, ``o, i, j = piece``; the last one itself."""
    o, i, j = piece
    if j + 1 < q_pieces.shape[0]:
        j += 1
    elif i + 1 < p_pieces.shape[0]:
        i, j = i + 1, ZERO
    elif o + 1 < outer.shape[0]:
        o, i, j = o + 1, ZERO, ZERO
    rows = simd_bytes.address(source_rows) + 8 * q_pieces[j, 1]
    s = simd_bytes.address(source) + outer[o, 0] + p_pieces[i, 0]
    return _Piece(rows, s, Extent(p_pieces[i, 2], q_pieces[j, 2]))


@kernel(*ARGUMENTS, NUMBER)
def transpose_runs(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch, size):
    """Elements of `size` bytes."""
    room = simd_bytes.address(scratch) + 63 & -64
    held, far = NONE, ZERO
    for k in range(source_rows.shape[0]):
        far = max(far, source_rows[k])
    last = simd_bytes.address(source) + source.size - far - _BEYOND
    alike, follow = p_pieces.shape[0] * q_pieces.shape[0] == 1, False
    for o in range(outer.shape[0]):
        for i in range(p_pieces.shape[0]):
            targets = simd_bytes.address(target_rows) + 8 * p_pieces[i, 1]
            for j in range(q_pieces.shape[0]):
                rows = simd_bytes.address(source_rows) + 8 * q_pieces[j, 1]
                s = simd_bytes.address(source) + outer[o, 0] + p_pieces[i, 0]
                t = simd_bytes.address(target) + outer[o, 1] + q_pieces[j, 0]
                extent = Extent(p_pieces[i, 2], q_pieces[j, 2])
                if streaming and (o == 0 or not alike):
                    follow = _follow(targets, extent.p, extent.q * size)
                if follow:
                    then = _next_piece(source, outer, source_rows, p_pieces, q_pieces, (o, i, j))
                    held = _join(rows, s, t + simd_bytes.integer(targets), extent, size, then, last, held, room)
                elif streaming and _collide(rows, extent.q, size):
                    _by_block(rows, s, targets, t, extent, size, last, room)
                else:
                    _turn(rows, s, targets, t, extent, size, last, streaming, room)
    finish(held, ZERO + 1, room + _RUN)
    if streaming:
        simd_bytes.fence()
