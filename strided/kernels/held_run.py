"""A run of bytes put together in the scratch before it is written by whole lines.

It is named by where its first byte belongs in the target and where its last one ends, and lies at `place` from the
start of its first line on.
"""

from __future__ import annotations

from strided.kernels import simd_bytes
from strided.kernels.compile import part, separate

#: Bytes that are put together before they are written.
RUN_BYTES = 1 << 14


@part
def drain(run, streaming, place):
    """Write the whole lines of a run; where the rest, moved to the front, begins."""
    begin, end = run
    line, front = begin & -64, place
    if begin > line and end >= line + 64:
        simd_bytes.move(begin, place + (begin & 63), line + 64 - begin)
        begin, line, place = line + 64, line + 64, place + 64
    if begin > line:
        return begin
    while line + 64 <= end:
        simd_bytes.put(line, simd_bytes.load(place), streaming)
        line += 64
        place += 64
    simd_bytes.store(front, simd_bytes.load(place))
    return line


@part
def finish(run, streaming, place):
    """Write all of a run."""
    begin, end = run
    if end > begin:
        begin = drain(run, streaming, place)
        simd_bytes.move(begin, place + (begin & 63), end - begin)


@part
def begun_at(held, t, streaming, place):
    """The run `held` if it ends where the next bytes belong, at `t`; else it is written, and a new one begins there."""
    if t == held[1]:
        return held
    finish(held, streaming, place)
    return t, t


@part
def move_run(target, source, size):
    """Copy a short run: exactly its bytes, in two halves that overlap, or in pieces."""
    if size >= 32:
        for k in range(0, size - 31, 32):
            simd_bytes.copy32(target + k, source + k)
        simd_bytes.copy32(target + size - 32, source + size - 32)
    elif size >= 16:
        simd_bytes.copy16(target, source)
        simd_bytes.copy16(target + size - 16, source + size - 16)
    elif size >= 8:
        simd_bytes.copy8(target, source)
        simd_bytes.copy8(target + size - 8, source + size - 8)
    elif size >= 4:
        simd_bytes.copy4(target, source)
        simd_bytes.copy4(target + size - 4, source + size - 4)
    else:
        for k in range(size):
            simd_bytes.put_byte(target + k, simd_bytes.byte(source + k))


@separate
def move_end(target, source, size):
    """The same where it is called too rarely, or from too many places, to be worth its own code in each."""
    move_run(target, source, size)
