"""A run of bytes put together in the scratch before it is written by whole lines.

It is named by where its first byte belongs in the target and where its last one ends, and lies at `place` from the
start of its first line on.
"""

from __future__ import annotations

from strided.kernels import simd_bytes
from strided.kernels.compile import part


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
