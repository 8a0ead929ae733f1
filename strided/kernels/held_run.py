"""A run of bytes put together in the scratch before it is written by whole lines: write combining, in software.

What goes on with a run is put at ``put_at(run, place)``, `place` being the address of the scratch, and then `grown` is
told of it.

Streaming stores in one go are waited for, and a processor does not look ahead as far as behind them. So lines are
written a few at a time, as the run grows, and while something else is computed. The last ones are held back: to load
what was just stored in parts takes until all stores before it are through, streaming ones among them.
"""

from __future__ import annotations

from typing import NamedTuple

from strided.kernels import simd_bytes
from strided.kernels.compile import ZERO, part, separate

#: Bytes of a run in the scratch from which on the rest moves to its front.
RUN_BYTES = 1 << 14
#: Bytes of it that are held back.
HELD_BYTES = 512


class Run(NamedTuple):
    """Bytes of the target that are not written yet."""

    #: Where the first one belongs, and where the last one ends.
    begin: int
    end: int
    #: Where the first byte of the scratch belongs: a multiple of 64.
    base: int


#: A run of nothing.
NONE = Run(ZERO, ZERO, ZERO)


@part
def put_at(run, place):
    """The address where the next bytes of a run go."""
    return place + run.end - run.base


@part
def grown(run, count, streaming, place):
    """The run with so many bytes more, which have been put behind it; lines that are not held back are written."""
    end = run.end + count
    begin, _, base = written(Run(run.begin, end, run.base), end - HELD_BYTES, streaming, place)
    if begin - base >= RUN_BYTES:
        for k in range(0, end - begin, 64):
            simd_bytes.store(place + k, simd_bytes.load(place + begin - base + k))
        base = begin
    return Run(begin, end, base)


@part
def written(run, stop, streaming, place):
    """Write the whole lines of a run that end up to `stop`; what is left of it."""
    begin, end, base = run
    if begin & 63 and (begin & -64) + 64 <= stop:
        line = (begin & -64) + 64
        simd_bytes.move(begin, place + begin - base, line - begin)
        begin = line
    while begin + 64 <= stop:
        simd_bytes.put(begin, simd_bytes.load(place + begin - base), streaming)
        begin += 64
    return Run(begin, end, base)


@part
def finish(run, streaming, place):
    """Write all of a run."""
    begin, end, base = written(run, run.end, streaming, place)
    if end > begin:
        simd_bytes.move(begin, place + begin - base, end - begin)


@part
def begun_at(run, t, streaming, place):
    """A run if it ends where the next bytes belong, at `t`; else it is written, and a new one begins there."""
    if t == run.end:
        return run
    finish(run, streaming, place)
    return Run(t, t, t & -64)


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
