"""Transposes whose rows of the target are short and follow each other: put together before they are written."""

from __future__ import annotations

from strided.kernels import SHORT_ROW_BYTES, simd_bytes
from strided.kernels.compile import ZERO, part, separate
from strided.kernels.held_run import begun_at, grown, put_at
from strided.kernels.llvm import LINE, asks_near
from strided.kernels.transpose_squares import (
    CHUNK,
    NOTHING,
    RUN,
    SOURCES,
    SQUARE,
    TARGETS,
    ask,
    asking,
    does_more,
    inside,
    sources_of,
    wanted_at,
)

#: Rows of the source up to which rows of the target that are whole lines, two at least, are put together, and up to
#: which others of 32 bits and more are. On Zen 5 more of them take 1.1 to 1.5 times as long so: read side by side, all
#: are asked for into the first-level cache, which holds a dozen lines that begin at the same place of a page.
_FEW, _MANY = (16, 192) if asks_near() else (1 << 62, 1 << 62)


@separate
def is_short(source_rows, count, size, width):
    """Whether rows of the target, of `size` bytes made of `count` rows, are short enough."""
    # Many rows at multiples of a page would fight for the same few sets of the caches.
    apart = count <= 128 or (simd_bytes.integer(source_rows + 8) - simd_bytes.integer(source_rows)) & 4095
    if (count > _FEW and size >= 2 * LINE and size & LINE - 1 == 0) or (count > _MANY and width >= 4):
        return False
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
def prepare_run(width, rows, count, room):
    """Make the tables of `by_run` for `count` rows of the source, wherever they begin."""
    side = 64 // width
    whole = count // side
    for k in range(side):
        simd_bytes.put_item(room + TARGETS, k, count * width * k)
        simd_bytes.put_item(room + TARGETS, side + k, 64 * k)
    if count > whole * side:
        sources_of((rows + 8 * whole * side, ZERO), count - whole * side, side, room)


@part
def by_run(turn, width, origin, t, extent, after, held, streaming, room, bounds):
    """Turn rows that follow each other in the target, from `t` on, all of each at once.

    They are put together in the scratch and written by whole lines. `held` is what is there: where in the target its
    first byte belongs, and where its last one ends. The scratch keeps it from the start of a line on.
    """
    side = 64 // width
    size, whole, rest = extent[1] * width, extent[1] // side, extent[1] % side
    held = begun_at(held, t, streaming, room + RUN)
    rows, s, far = origin
    places, apart = room + TARGETS, room + TARGETS + 8 * side
    here, following = (rows, s, extent[1]), (rows, after[0], extent[1], after[1])
    count = (extent[1] + side - 1) // side
    last = room + SOURCES if rest else rows
    safe = s + extent[0] * width + far + 64 <= bounds[1]
    # What is written behind a row is overwritten: by whole squares, or by the next row if rows are written in order.
    in_place = whole > 0 or width == 8 or size <= 32 or (width == 4 and simd_bytes.writes_by_mask())
    plan = asking(here, following, extent[0], count, width, bounds)
    for p in range(0, extent[0], side):
        new = min(side, extent[0] - p)
        wanted = wanted_at(plan, p)
        to = put_at(held, room + RUN)
        # The last square of all rows comes first: what it writes behind the ends is overwritten by what belongs there.
        if rest:
            asked = ask(wanted, whole, does_more(width, rest, new))
            at = last, s + p * width
            if not safe:
                at = inside(at, side, (extent[0] - p) * width, bounds, room)
            if in_place:
                turn(at[0], at[1], places, to + 64 * whole, room, (*asked, *NOTHING[3:]), (rest, new))
            else:
                turn(at[0], at[1], apart, room + SQUARE, room, (*asked, *NOTHING[3:]), (rest, new))
                for k in range(new):
                    simd_bytes.store(to + size * k + 64 * whole, simd_bytes.load(room + SQUARE + 64 * k))
        for j in range(whole):
            asked = ask(wanted, j, does_more(width, side, new))
            at = rows + 8 * side * j, s + p * width
            if not safe:
                at = inside(at, side, (extent[0] - p) * width, bounds, room)
            turn(at[0], at[1], places, to + 64 * j, room, (*asked, *NOTHING[3:]), (side, new))
        held = grown(held, size * new, streaming, room + RUN)
    return held
