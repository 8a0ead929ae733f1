"""Rows of few bytes, such as the last axis of `u8[...,7]` in words of four: moved whole, not line by line.

A copy is two tables of byte offsets, which add up: `outer` (source, target) and `runs` (source, target, rows). The
rows of a run lie `source_step` bytes apart in the source and `target_step` in the target; each has `size` bytes. So
there is no table of rows, which would be larger than they are.

A row is read and written by one instruction each where the next row overwrites what is written behind it, else by two
that overlap. Rows of a streamed target that follow each other are put together in the scratch before they are written;
those that are whole lines need not be.
"""

from __future__ import annotations

from strided.kernels import NEAR, simd_bytes
from strided.kernels.compile import BYTES, NUMBER, TABLE, WRITABLE, ZERO, kernel, part
from strided.kernels.held_run import HELD_BYTES, NONE, begun_at, finish, grown, put_at

# Bytes of the source that are read until a matrix is wanted that is asked for. What follows in a longer one the CPU
# asks for itself, unless rows lie _FAR_STEP apart; the next such matrix is asked for if it has no more than _FAR bytes.
_SOON, _FAR, _FAR_STEP = 1 << 12, 1 << 17, 512
_LONG = 1 << 11  # bytes of a run from which on it is put together though nothing follows it


@kernel(BYTES, WRITABLE, TABLE, TABLE, NUMBER, NUMBER, NUMBER, NUMBER, WRITABLE)
def short_rows(source, target, outer, runs, source_step, target_step, size, streaming, scratch):
    """Copy rows of `size` bytes, one at least, and no other byte."""
    room = simd_bytes.address(scratch) + 63 & -64
    origin = simd_bytes.address(source), simd_bytes.address(target)
    steps = source_step, target_step
    held = NONE
    on, most = _matrices_ahead(runs, steps, size), max(1, HELD_BYTES // size)
    asks = source.size > NEAR
    for o in range(outer.shape[0]):
        later = min(o + on, outer.shape[0] - 1)
        for r in range(runs.shape[0]):
            s, t, count = origin[0] + outer[o, 0] + runs[r, 0], origin[1] + outer[o, 1] + runs[r, 1], runs[r, 2]
            stop = t + count * size
            joins = t == held.end or stop - t >= _LONG or stop == origin[1] + _next_start(outer, runs, o, r)
            joins = streaming and target_step == size and joins
            whole = streaming and not (t | target_step | size) & 63
            if asks and later > o:
                _ask(s + outer[later, 0] - outer[o, 0], count, source_step, size)
                if not (joins or whole):
                    _ask(t + outer[later, 1] - outer[o, 1], count, target_step, size)
            if whole:
                _by_lines(t, s, count, steps, size, streaming)
                continue
            if not joins:
                _copy(t, s, count, steps, size)
                continue
            held = begun_at(held, t, streaming, room)
            for first in range(0, count, most):
                some = min(most, count - first)
                _copy(put_at(held, room), s + first * source_step, some, steps, size)
                held = grown(held, some * size, streaming, room)
    finish(held, streaming, room)
    if streaming:
        simd_bytes.fence()


@part
def _matrices_ahead(runs, steps, size):
    """How many matrices of a table are soon enough; 0 where each is long."""
    rows = ZERO
    for r in range(runs.shape[0]):
        rows += runs[r, 2]
    each = max(1, rows * min(64, max(size, abs(steps[0]))))
    if each > _SOON:
        return ZERO + (each <= _FAR and abs(steps[0]) > _FAR_STEP)
    return _SOON // each


@part
def _next_start(outer, runs, o, r):
    """Where the run after this one begins in the target."""
    if r + 1 < runs.shape[0]:
        return outer[o, 1] + runs[r + 1, 1]
    return outer[min(o + 1, outer.shape[0] - 1), 1] + runs[0, 1]


@part
def _ask(place, count, step, size):
    """Prefetch the lines of a run."""
    if abs(step) > 64:
        for k in range(count):
            simd_bytes.prefetch(place + k * step)
            simd_bytes.prefetch(place + k * step + size - 1)
        return
    reach = (count - 1) * step
    place += min(0, reach)
    for k in range(0, abs(reach) + size, 64):
        simd_bytes.prefetch(place + k)


@part
def _copy(t, s, count, steps, size):
    """Copy a run of rows."""
    if size > 64:
        _by_parts(t, s, count, steps, size)
    elif size > 32:
        _by(simd_bytes.copy64, simd_bytes.copy32, 64, t, s, count, steps, size)
    elif size > 16:
        _by(simd_bytes.copy32, simd_bytes.copy16, 32, t, s, count, steps, size)
    elif size > 8:
        _by(simd_bytes.copy16, simd_bytes.copy8, 16, t, s, count, steps, size)
    elif size > 4:
        _by(simd_bytes.copy8, simd_bytes.copy4, 8, t, s, count, steps, size)
    elif size > 2:
        _by(simd_bytes.copy4, simd_bytes.copy2, 4, t, s, count, steps, size)
    else:
        _by(simd_bytes.copy2, simd_bytes.copy1, 2, t, s, count, steps, size)


@part
def _by(whole, half, width, t, s, count, steps, size):
    """Copy rows of more than half of `width` bytes and not more."""
    source_step, target_step = steps
    exact = count
    if target_step == size <= source_step:
        # As long as so many bytes are left on both sides.
        exact = min(count, (width - 1) // size)
    for _ in range(count - exact):
        whole(t, s)
        s += source_step
        t += target_step
    back = size - (width >> 1)
    for _ in range(exact):
        half(t, s)
        half(t + back, s + back)
        s += source_step
        t += target_step


@part
def _by_parts(t, s, count, steps, size):
    """Copy rows of 64 bytes and more; the last 64 of a row overlap those before."""
    for _ in range(count):
        for k in range(0, size - 64, 64):
            simd_bytes.copy64(t + k, s + k)
        simd_bytes.copy64(t + size - 64, s + size - 64)
        s += steps[0]
        t += steps[1]


@part
def _by_lines(t, s, count, steps, size, streaming):
    """Copy rows that are whole lines of the target."""
    for _ in range(count):
        for k in range(0, size, 64):
            simd_bytes.put(t + k, simd_bytes.load(s + k), streaming)
        s += steps[0]
        t += steps[1]
