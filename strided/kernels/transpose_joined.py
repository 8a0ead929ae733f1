"""Transposes whose rows of the target are short and follow each other: put together before they are written."""

from __future__ import annotations

from typing import NamedTuple

from strided.kernels import SHORT_ROW_BYTES, simd_bytes
from strided.kernels.compile import ZERO, part, separate
from strided.kernels.held_run import Run, begun_at, grown, written
from strided.kernels.llvm import LINE, is_zen5
from strided.kernels.transpose_squares import (
    CHUNK,
    NOTHING_WRITTEN,
    RUN,
    RUN_SIZE,
    SOURCES,
    SQUARE,
    TARGETS,
    Following,
    Here,
    Rows,
    ask,
    asking,
    does_more,
    inside,
    row_lines,
    sources_of,
    wanted_at,
)

# Which rows are put together on Zen 5; elsewhere all are. Measured with 48 MB, in time of `transpose_ring`'s way.
#: Rows of the source: lines of as many are in the first-level cache at once. Fewer take 0.7 to 0.9 of the time, more
#: 1.1 to 1.3 times; with elements of 32 bits and more it is so from fewer rows on.
_MOST, _MOST_OF_WORDS = (768, 192) if is_zen5() else (1 << 62, 1 << 62)
#: Whole lines from more rows than these take 1.1 to 1.5 times as long: read side by side, all are asked for into the
#: first-level cache, which holds a dozen lines that begin at the same place of a page. But odd numbers of lines, up to
#: so many bytes, take 0.5 to 0.9 of the time, as the ring writes pairs; so do pairs of lines of small elements.
_FEW, _ODD_BYTES = (16, 5 * LINE) if is_zen5() else (1 << 62, 0)


class Joined(NamedTuple):
    """Rows of the target put together: a `Run`, and the address in the scratch of its first byte."""

    begin: int
    end: int
    base: int
    place: int


@separate
def is_short(source_rows, count, size, width):
    """Whether rows of the target, of `size` bytes made of `count` rows, are short enough."""
    if count > (_MOST_OF_WORDS if width >= 4 else _MOST):
        return False
    if count > _FEW and size >= 2 * LINE and size & LINE - 1 == 0:
        odd, pair = size & LINE and size <= _ODD_BYTES, size == 2 * LINE and width < 4
        if not (odd or pair):
            return False
    # Many rows at multiples of a page would fight for the same few sets of the caches.
    apart = count <= 128 or (simd_bytes.integer(source_rows + 8) - simd_bytes.integer(source_rows)) & 4095
    return apart and size <= SHORT_ROW_BYTES


@separate
def follow(targets, count, size, width, streaming):
    """How many of `count` short rows of the target each begin where the one before it ends, if that is of use."""
    # Whole squares can be turned to where they belong.
    if not (streaming or size & 63 or count * width < 64):
        return ZERO
    # A few of them at once would be less of a row of the source than is asked for.
    found = evenly(targets, count, size)
    return found if found == count or found * width >= CHUNK else ZERO


@separate
def evenly(table, count, step):
    """How many of `count` int64, from the first one on, are each `step` more than the one before it."""
    n = ZERO + 1
    # Where rows are short, tables are long.
    while n + simd_bytes.STEPS <= count and simd_bytes.are_steps(table + 8 * n - 8, step):
        n += simd_bytes.STEPS
    while n < count and simd_bytes.integer(table + 8 * n) - simd_bytes.integer(table + 8 * n - 8) == step:
        n += 1
    return n


@separate
def prepare_run(width, size, rows, count, room):
    """Make the tables of `by_run` for `count` rows of the source, wherever they begin, and `size` bytes of a row."""
    side, lines = 64 // width, row_lines(width)
    whole = size >> 6
    for k in range(side):
        simd_bytes.put_item(room + TARGETS, k, size * k)
        simd_bytes.put_item(room + TARGETS, side + k, 64 * k)
    for k in range(side // lines):
        simd_bytes.put_item(room + TARGETS, 2 * side + k, 64 * lines * k)
    if count > whole * side:
        sources_of(Rows(rows + 8 * whole * side, ZERO), count - whole * side, side, room)


@part
def by_run(turn, width, size, origin, t, extent, after, held, streaming, room, bounds):
    """Turn rows of `size` bytes that follow each other in the target, from `t` on, all of each at once.

    They are put together in the scratch and written by whole lines. `held` is what is there: past the caches, rows with
    whole squares are put into two places by turns, so that some are written while the next ones are turned.
    """
    side = 64 // width
    whole = size >> 6
    rest = extent.q - whole * side
    begin, end, base = begun_at(Run(held.begin, held.end, held.base), t, streaming, held.place)
    place = held.place
    mixes = streaming and whole > 0
    rows, s, far = origin
    places, apart, by_lines = room + TARGETS, room + TARGETS + 8 * side, room + TARGETS + 16 * side
    here, following = Here(rows, s, extent.q), Following(rows, after.start, extent.q, after.count)
    count = (extent.q + side - 1) // side
    last = room + SOURCES if rest < side else rows + 8 * whole * side
    safe = s + extent.p * width + far + 64 <= bounds.end
    # What is written behind a row is overwritten: by whole squares, or by the next row if rows are written in order.
    in_place = whole > 0 or width == 8 or size <= 32 or (width == 4 and simd_bytes.writes_by_mask())
    plan = asking(here, following, extent.p, count, width, bounds)
    for p in range(0, extent.p, side):
        new = min(side, extent.p - p)
        wanted = wanted_at(plan, p)
        start, other = base, place
        if mixes:
            start, other = end & -64, 2 * (room + RUN) + RUN_SIZE - place
            simd_bytes.store(other, simd_bytes.load(place + start - base))
        to = other + end - start
        # The last square of all rows comes first: what it writes behind the ends is overwritten by what belongs there.
        if rest:
            asked = ask(wanted, whole, does_more(width, rest, new))
            at = Rows(last, s + p * width)
            if not safe:
                at = inside(at, side, (extent.p - p) * width, bounds, room)
            if in_place:
                turn(at.table, at.start, places, to + 64 * whole, room, (*asked, *NOTHING_WRITTEN), (rest, new))
            else:
                turn(at.table, at.start, apart, room + SQUARE, room, (*asked, *NOTHING_WRITTEN), (rest, new))
                for k in range(new):
                    simd_bytes.store(to + size * k + 64 * whole, simd_bytes.load(room + SQUARE + 64 * k))
        for j in range(whole):
            asked = ask(wanted, j, does_more(width, side, new))
            at = Rows(rows + 8 * side * j, s + p * width)
            if not safe:
                at = inside(at, side, (extent.p - p) * width, bounds, room)
            done = NOTHING_WRITTEN
            if mixes and begin & 63 == 0 and begin + 64 * side <= start and does_more(width, side, new):
                done = by_lines, begin, place + begin - base, ZERO
                begin += 64 * side
            turn(at.table, at.start, places, to + 64 * j, room, (*asked, *done), (side, new))
        if mixes:
            begin = written(Run(begin, end, base), start, streaming, place).begin
            end, base, place = end + size * new, start, other
        else:
            begin, end, base = grown(Run(begin, end, base), size * new, streaming, place)
    return Joined(begin, end, base, place)
