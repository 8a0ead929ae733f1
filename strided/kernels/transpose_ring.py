"""Transposes of long rows beyond the caches: some lines of each are written, held back in a ring until they are."""

from __future__ import annotations

from strided.kernels import simd_bytes
from strided.kernels.compile import ZERO, part, separate
from strided.kernels.held_run import move_end
from strided.kernels.transpose_squares import (
    HELD,
    KEPT,
    LAG,
    NOTHING,
    PLACES,
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
#: As `ends`: rows neither begin nor end here.
_NEITHER = ZERO, ZERO


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
    return lines, half


@separate
def by_ring(turn, suits, by_lines, width, ring, origin, goal, extent, after, late, room, bounds):
    """Turn a band by writing some lines of each of its rows, then the next lines of each.

    Where rows of the target begin at multiples of 4 bytes and lie as `suits` says, whole blocks are written by
    `by_lines`, of `transpose_lines`.

    Squares are turned into a ring of rows; each is written half a ring later, while others are turned. A row that does
    not begin with a line keeps its last 64 bytes for its next lines.

    `ring` is what `prepare_ring` tells. `late` is the half ring that is still to be written, of whole lines: a table of
    the rows' offsets in the target, or 0 for none; what is added to them; where their last 64 bytes are kept, or 0; the
    row of the ring behind them; and how many there are. The answer is the same for the next band.
    """
    side = 64 // width
    lines, half = ring
    stop = (extent[0] + side - 1) // side * side
    clear = origin[1] + extent[0] * width + origin[2] + 64 <= bounds[1]
    phases = _phases(goal, extent[0])
    keeps = phases & 63 != 0
    straight = phases & 3 == 0 and extent[0] >= 2 * side and extent[1] >= lines * side
    if straight:
        follow = simd_bytes.integer(origin[0] + 8) - simd_bytes.integer(origin[0]) == extent[0] * width
        straight = suits(goal, extent[0], keeps, follow, room)
    for q in range(0, extent[1], lines * side):
        count = min(lines * side, extent[1] - q)
        across = (count + side - 1) // side
        ends = ZERO + (q == 0), ZERO + (q + count == extent[1])
        whole = count == lines * side and not (keeps and (ends[0] or ends[1]))
        sources = sources_of((origin[0] + 8 * q, origin[1]), count, across * side, room)
        safe = clear or not passes((sources, origin[1] + extent[0] * width), across * side, bounds)
        here = sources, origin[1], count
        following = after[0], after[1], min(lines * side, after[2]), after[3]
        if not ends[1]:
            following = origin[0] + 8 * (q + count), origin[1], min(lines * side, extent[1] - q - count), extent[0]
        if straight and whole and safe:
            place = goal[0], goal[1] + q * width, (room + KEPT) * keeps
            by_lines(width, here, following, extent[0], place, bounds)
            continue
        plan = asking(here, following, extent[0], across, width, bounds)
        first = late[3]
        own = goal[0], goal[1] + q * width, (room + KEPT) * keeps
        # What need not be written at once is written with what comes next, unless `by_lines` may do that: it reads what
        # is kept of all rows.
        by_turns = count == lines * side and lines == row_lines(width)
        leaves = whole and by_turns and not straight and stop >= half
        for p in range(0, stop if leaves else stop + half, side):
            slot = (first + p) % (2 * half)
            due, n, rows, size = (
                (late[:3], p, late[4], 64 * lines) if p < half else (own, p - half, extent[0], count * width)
            )
            held = room + HELD + 64 * lines * ((slot + half) % (2 * half))
            besides = due[0] != 0 and by_turns and (whole or p < half) and n + side <= rows and p < stop
            besides = besides and does_more(width, side, min(side, extent[0] - p))
            if p < stop:
                if ends[0] or ends[1]:
                    _ask_ends(own, p, min(side, extent[0] - p), count * width, ends)
                wanted = wanted_at(plan, p)
                for k in range(across):
                    present = min(side, count - side * k), min(side, extent[0] - p)
                    asked = ask(wanted, k, does_more(width, present[0], present[1]))
                    done = NOTHING[3:]
                    if besides:
                        share = side // lines * k
                        kept = due[2] + 64 * (n + share) if due[2] else ZERO
                        done = due[0] + 8 * (n + share), due[1], held + 64 * lines * share, kept
                    at = sources + 8 * side * k, origin[1] + p * width
                    if not safe:
                        at = inside(at, side, (extent[0] - p) * width, bounds, room)
                    turn(at[0], at[1], room + PLACES + 8 * slot, 64 * k, room, (*asked, *done), present)
            if due[0] != 0 and not besides:
                edges = ends[0] * (p >= half), ends[1] * (p >= half)
                _write(due, n, held, min(side, rows - n), (lines, size), edges)
        late = ZERO, ZERO, ZERO, ZERO, ZERO
        if leaves:
            n = stop - half
            late = own[0] + 8 * n, own[1], (own[2] + 64 * n) * keeps, (first + stop) % (2 * half), extent[0] - n
    return late


@separate
def finish_ring(width, ring, late, room):
    """Write what is still to be written, if anything is."""
    lines, half = ring
    if late[0]:
        for n in range(0, half, 64 // width):
            held = room + HELD + 64 * lines * ((late[3] + half + n) % (2 * half))
            _write(late[:3], n, held, min(64 // width, late[4] - n), (lines, 64 * lines), _NEITHER)


@part
def _phases(goal, count):
    """The bits of where rows of the target begin, those of all of them: the lowest six tell if all begin with lines."""
    phases = ZERO
    for k in range(count):
        phases |= goal[1] + simd_bytes.item(goal[0], k)
    return phases


@separate
def _ask_ends(goal, first, rows, size, ends):
    """Ask for the lines of the target in which some rows begin and end, if they fill these in part."""
    for k in range(first, first + rows):
        t = goal[1] + simd_bytes.integer(goal[0] + 8 * k)
        if ends[0] and t & 63:
            simd_bytes.prefetch(t)
        if ends[1] and t + size & 63:
            simd_bytes.prefetch(t + size)


@separate
def _write(goal, n, held, rows, size, ends):
    """Write what is complete of some rows, from the n-th one on, of those that `goal` tells as `late` does.

    From `held` on there are up to ``size[0]`` lines, ``size[1]`` bytes, of each. `ends` tells whether the row begins
    with these, and ends with them.
    """
    lines, count = size
    for k in range(n, n + rows):
        t = goal[1] + simd_bytes.integer(goal[0] + 8 * k)
        phase = t & 63
        kept = goal[2] + 64 * k
        if ends[0] or ends[1]:
            _write_end(t, held, kept, count, ends)
        else:
            first = simd_bytes.load(held - phase)
            if goal[2]:
                first = simd_bytes.blend(phase, simd_bytes.load(kept + 64 - phase), first)
            simd_bytes.put(t - phase, first, _PAST)
            for j in range(64, 64 * lines, 64):
                simd_bytes.put(t - phase + j, simd_bytes.load(held - phase + j), _PAST)
        if goal[2]:
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
    if phase and (ends[0] or stop < 64):
        if not ends[0]:
            move_end(line, kept + 64 - phase, phase)
        move_end(t, held, min(count, 64 - phase))
    elif phase:
        first = simd_bytes.blend(phase, simd_bytes.load(kept + 64 - phase), simd_bytes.load(held - phase))
        simd_bytes.put(line, first, _PAST)
    while done + 64 <= stop:
        simd_bytes.put(line + done, simd_bytes.load(held - phase + done), _PAST)
        done += 64
    if ends[1] and done < stop:
        move_end(line + done, held - phase + done, stop - done)
