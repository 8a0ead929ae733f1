"""Transposes whose elements are runs of bytes, such as the channels of a pixel, or a row of a small tile.

`transpose` says what the tables mean. An element has any number of bytes. It is read and written as it is, so nothing
has to be turned: what counts is that lines on both sides are used up while they are in the cache.
"""

from __future__ import annotations

from strided.kernels import simd_bytes
from strided.kernels.compile import NUMBER, ZERO, kernel, part
from strided.kernels.transpose import ARGUMENTS, move_run

_WRITTEN = 512  # bytes of a row of the target that are written at once, made of as many runs of the source
_READ = 512  # bytes of each of these that are used up before the next ones
_MOST_ROWS = 64  # runs of the source that are read side by side
_ROOM = 1 << 12  # where the scratch holds a part of a row: a run that begins before it fits in front


@part
def _put(row, part, rows, s, size, streaming, room):
    """Write the bytes `part`, from and to, of a row of the target; the row begins at `row`, and its runs lie at `s`."""
    begin, end = part
    first, last = (begin - row) // size, (end - row + size - 1) // size
    if not streaming:
        for q in range(first, last):
            move_run(row + q * size, s + simd_bytes.integer(rows + 8 * q), size)
        return
    line, held = begin & -64, room + _ROOM
    place = held + row - line
    for q in range(first, last):
        move_run(place + q * size, s + simd_bytes.integer(rows + 8 * q), size)
    if begin > line:
        simd_bytes.move(begin, held + (begin & 63), min(end, line + 64) - begin)
        line, held = line + 64, held + 64
    while line + 64 <= end:
        simd_bytes.put(line, simd_bytes.load(held), streaming)
        line, held = line + 64, held + 64
    if line < end:
        simd_bytes.move(line, held, end - line)


@part
def _ask(rows, s, count, share, wanted):
    """Prefetch one of `share` shares of `count` runs: the bytes that are used up of each."""
    which, size = wanted
    each = (count + share - 1) // share
    for q in range(which * each, min(count, which * each + each)):
        place = s + simd_bytes.integer(rows + 8 * q)
        for k in range(0, size + 63, 64):
            simd_bytes.prefetch(place + k)


@part
def _turn(rows, s, targets, t, extent, size, streaming, room):
    """Copy all elements (p, q) of a piece on both sides."""
    length = extent[1] * size
    # Short rows have too few whole lines to be streamed.
    whole = ZERO + (streaming != 0 and length >= _WRITTEN)
    written = max(64, min(_WRITTEN, _MOST_ROWS * size) & -64)
    across, most = max(1, _READ // size), written // size + 2
    for p in range(0, extent[0], across):
        count = min(across, extent[0] - p)
        # Rows of the target begin anywhere in a line, and their parts end with one where they are streamed.
        for begin in range(0, length + 63 * whole, written):
            q = min(extent[1], (begin + written) // size)
            for k in range(count):
                if streaming and q < extent[1]:
                    _ask(rows + 8 * q, s + p * size, min(most, extent[1] - q), count, (k, count * size))
                elif streaming and p + across < extent[0]:
                    _ask(rows, s + (p + across) * size, min(most, extent[1]), count, (k, count * size))
                row = t + simd_bytes.integer(targets + 8 * (p + k))
                start = (row & -64 if whole else row) + begin
                ends = max(row, start), min(row + length, start + written)
                if ends[0] < ends[1]:
                    _put(row, ends, rows, s + (p + k) * size, size, whole, room)


@kernel(*ARGUMENTS, NUMBER)
def transpose_runs(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch, size):
    """Elements of `size` bytes."""
    room = simd_bytes.address(scratch) + 63 & -64
    for o in range(outer.shape[0]):
        for i in range(p_pieces.shape[0]):
            for j in range(q_pieces.shape[0]):
                rows = simd_bytes.address(source_rows) + 8 * q_pieces[j, 1]
                targets = simd_bytes.address(target_rows) + 8 * p_pieces[i, 1]
                s = simd_bytes.address(source) + outer[o, 0] + p_pieces[i, 0]
                t = simd_bytes.address(target) + outer[o, 1] + q_pieces[j, 0]
                _turn(rows, s, targets, t, (p_pieces[i, 2], q_pieces[j, 2]), size, streaming, room)
    if streaming:
        simd_bytes.fence()
