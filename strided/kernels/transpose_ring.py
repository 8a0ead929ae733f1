"""Transposes of long rows beyond the caches: some lines of each are written, held back in a ring until they are."""

from __future__ import annotations

from typing import NamedTuple

from strided.kernels import simd_bytes
from strided.kernels.compile import ZERO, part, separate
from strided.kernels.held_run import move_end
from strided.kernels.transpose_squares import (
    HELD,
    KEPT,
    LAG,
    NOTHING_WRITTEN,
    PLACES,
    Following,
    Here,
    Rows,
    ask,
    asking,
    does_more,
    inside,
    passes,
    row_lines,
    sources_of,
    wanted_at,
)

#: As `streaming`: past the caches.
_PAST = ZERO + 1


class Ring(NamedTuple):
    """How many lines of a row are put into the ring at once, and half its rows."""

    lines: int
    half: int


class Late(NamedTuple):
    """The half ring that is still to be written, of whole lines."""

    #: A table of the rows' offsets in the target, or 0 for none, and what is added to them.
    table: int
    start: int
    #: Where the last 64 bytes of each row are kept, or 0 if all begin with a line.
    kept: int
    #: The row of the ring behind them.
    slot: int
    #: How many there are.
    count: int


class KeptRows(NamedTuple):
    """Rows of the target, and what is kept of them: as of `Late`."""

    table: int
    start: int
    kept: int


class _Edges(NamedTuple):
    """Whether rows begin here, and whether they end."""

    begin: int
    stop: int


_NEITHER = _Edges(ZERO, ZERO)
NO_RING = Ring(ZERO, ZERO)
NOT_LATE = Late(ZERO, ZERO, ZERO, ZERO, ZERO)


@separate
def prepare_ring(width, p_pieces, room):
    """Make the table of places of the ring's rows; how many lines of a row are put there at once, and half its rows.

    More lines of few rows, so that all of these are there before any is written; and no more rows than most bands have,
    so that those of one can be written while the next ones are turned.
    """
    side, most, least = 64 // width, ZERO, ZERO + LAG
    for k in range(p_pieces[1]):
        rows = simd_bytes.cell(p_pieces[0], k, 2)
        most, least = max(most, rows), min(least, rows)
    lines = ZERO + row_lines(width)
    while 2 * lines * max(most, side) <= LAG:
        lines *= 2
    half = min(LAG // lines, max(2 * side, (least + side - 1) // side * side))
    for k in range(2 * half):
        simd_bytes.put_item(room + PLACES, k, room + HELD + 64 * lines * k)
    return Ring(lines, half)


@separate
def by_ring(turn, suits, by_lines, width, ring, origin, goal, extent, after, late, room, bounds):
    """Turn a band by writing some lines of each of its rows, then the next lines of each.

    Where rows of the target begin at multiples of 4 bytes and lie as `suits` says, whole blocks are written by
    `by_lines`, of `transpose_lines`.

    Squares are turned into a ring of rows; each is written half a ring later, while others are turned. A row that does
    not begin with a line keeps its last 64 bytes for its next lines.

    The answer is what is `late` for the next band.
    """
    side = 64 // width
    lines, half = ring
    stop = (extent.p + side - 1) // side * side
    clear = origin.start + extent.p * width + origin.far + 64 <= bounds.end
    phases = _phases(goal, extent.p)
    keeps = phases & 63 != 0
    straight = phases & 3 == 0 and extent.p >= 2 * side and extent.q >= lines * side
    if straight:
        follow = simd_bytes.integer(origin.table + 8) - simd_bytes.integer(origin.table) == extent.p * width
        straight = suits(goal, extent.p, keeps, follow, room)
    for q in range(0, extent.q, lines * side):
        count = min(lines * side, extent.q - q)
        across = (count + side - 1) // side
        ends = _Edges(ZERO + (q == 0), ZERO + (q + count == extent.q))
        whole = count == lines * side and not (keeps and (ends.begin or ends.stop))
        sources = sources_of(Rows(origin.table + 8 * q, origin.start), count, across * side, room)
        safe = clear or not passes(Rows(sources, origin.start + extent.p * width), across * side, bounds)
        here = Here(sources, origin.start, count)
        following = Following(after.table, after.start, min(lines * side, after.count), after.extent)
        if not ends.stop:
            following = Following(
                origin.table + 8 * (q + count), origin.start, min(lines * side, extent.q - q - count), extent.p
            )
        if straight and whole and safe:
            place = KeptRows(goal.table, goal.start + q * width, (room + KEPT) * keeps)
            by_lines(width, here, following, extent.p, place, bounds)
            continue
        plan = asking(here, following, extent.p, across, width, bounds)
        first = late.slot
        own = KeptRows(goal.table, goal.start + q * width, (room + KEPT) * keeps)
        # What need not be written at once is written with what comes next, unless `by_lines` may do that: it reads what
        # is kept of all rows.
        by_turns = count == lines * side and lines == row_lines(width)
        leaves = whole and by_turns and not straight and stop >= half
        for p in range(0, stop if leaves else stop + half, side):
            slot = (first + p) % (2 * half)
            due, n, rows, size = (
                (KeptRows(late.table, late.start, late.kept), p, late.count, 64 * lines)
                if p < half
                else (own, p - half, extent.p, count * width)
            )
            held = room + HELD + 64 * lines * ((slot + half) % (2 * half))
            besides = due.table != 0 and by_turns and (whole or p < half) and n + side <= rows and p < stop
            besides = besides and does_more(width, side, min(side, extent.p - p))
            if p < stop:
                if ends.begin or ends.stop:
                    _ask_ends(own, p, min(side, extent.p - p), count * width, ends)
                wanted = wanted_at(plan, p)
                for k in range(across):
                    present = min(side, count - side * k), min(side, extent.p - p)
                    asked = ask(wanted, k, does_more(width, present[0], present[1]))
                    done = NOTHING_WRITTEN
                    if besides:
                        share = side // lines * k
                        kept = due.kept + 64 * (n + share) if due.kept else ZERO
                        done = due.table + 8 * (n + share), due.start, held + 64 * lines * share, kept
                    at = Rows(sources + 8 * side * k, origin.start + p * width)
                    if not safe:
                        at = inside(at, side, (extent.p - p) * width, bounds, room)
                    turn(at.table, at.start, room + PLACES + 8 * slot, 64 * k, room, (*asked, *done), present)
            if due.table != 0 and not besides:
                edges = _Edges(ends.begin * (p >= half), ends.stop * (p >= half))
                _write(due, n, held, min(side, rows - n), (lines, size), edges)
        late = NOT_LATE
        if leaves:
            n = stop - half
            late = Late(
                own.table + 8 * n, own.start, (own.kept + 64 * n) * keeps, (first + stop) % (2 * half), extent.p - n
            )
    return late


@separate
def finish_ring(width, ring, late, room):
    """Write what is still to be written, if anything is."""
    lines, half = ring
    if late.table:
        for n in range(0, half, 64 // width):
            held = room + HELD + 64 * lines * ((late.slot + half + n) % (2 * half))
            due = KeptRows(late.table, late.start, late.kept)
            _write(due, n, held, min(64 // width, late.count - n), (lines, 64 * lines), _NEITHER)


@part
def _phases(goal, count):
    """The bits of where rows of the target begin, those of all of them: the lowest six tell if all begin with lines."""
    phases = ZERO
    for k in range(count):
        phases |= goal.start + simd_bytes.item(goal.table, k)
    return phases


@separate
def _ask_ends(goal, first, rows, size, ends):
    """Ask for the lines of the target in which some rows begin and end, if they fill these in part."""
    for k in range(first, first + rows):
        t = goal.start + simd_bytes.integer(goal.table + 8 * k)
        if ends.begin and t & 63:
            simd_bytes.prefetch(t)
        if ends.stop and t + size & 63:
            simd_bytes.prefetch(t + size)


@separate
def _write(goal, n, held, rows, size, ends):
    """Write what is complete of some rows, from the n-th one on.

    From `held` on there are up to ``size[0]`` lines, ``size[1]`` bytes, of each. `ends` tells whether the row begins
    with these, and ends with them.
    """
    lines, count = size
    for k in range(n, n + rows):
        t = goal.start + simd_bytes.integer(goal.table + 8 * k)
        phase = t & 63
        kept = goal.kept + 64 * k
        if ends.begin or ends.stop:
            _write_end(t, held, kept, count, ends)
        else:
            first = simd_bytes.load(held - phase)
            if goal.kept:
                first = simd_bytes.blend(phase, simd_bytes.load(kept + 64 - phase), first)
            simd_bytes.put(t - phase, first, _PAST)
            for j in range(64, 64 * lines, 64):
                simd_bytes.put(t - phase + j, simd_bytes.load(held - phase + j), _PAST)
        if goal.kept:
            simd_bytes.store(kept, simd_bytes.load(held + 64 * lines - 64))
        held += 64 * lines


@part
def _write_end(t, held, kept, count, ends):
    """The same for one row that begins or ends there: `count` bytes from `held` to `t`; `kept` has the line before.

    They are taken from where they are: what was just stored in parts is loaded when all streaming stores are through.
    """
    phase = t & 63
    line, stop = t - phase, phase + count
    done = ZERO + 64 * (phase != 0)
    if phase and (ends.begin or stop < 64):
        if not ends.begin:
            move_end(line, kept + 64 - phase, phase)
        move_end(t, held, min(count, 64 - phase))
    elif phase:
        first = simd_bytes.blend(phase, simd_bytes.load(kept + 64 - phase), simd_bytes.load(held - phase))
        simd_bytes.put(line, first, _PAST)
    while done + 64 <= stop:
        simd_bytes.put(line + done, simd_bytes.load(held - phase + done), _PAST)
        done += 64
    if ends.stop and done < stop:
        move_end(line + done, held - phase + done, stop - done)
