"""Transposes: neighbours in the source go to different rows of the target, and the other way round.

`p` counts along the runs of the source, `q` along those of the target. Element (p, q) comes from ``source_rows[q]``
plus its place in a piece of p, and goes to ``target_rows[p]`` plus its place in a piece of q. A piece is (offset,
number of its first p or q, count). So tiles on either side are only other tables. All offsets are in bytes and add up.

Blocks are squares of 64 bytes a side. In the cache they are turned straight from one side to the other. Beyond it, how
memory is touched counts more than anything else: see `_by_ring`.
"""

from __future__ import annotations

from strided.kernels import lanes
from strided.kernels.compile import BYTES, LIST, NUMBER, TABLE, WRITABLE, ZERO, kernel, part

# Measured on 256 MB, in time per line against a plain copy's: rows written one line at a time take twice as long as by
# pairs; 64 rows read side by side one line at a time half as long again as by eight; lines asked for before they are
# wanted take a third less; a load that must wait for a store behind streaming stores waits for memory.
_CHUNK = 512  # bytes of one row that are asked for at once
_BAND = 1024  # rows of the target done before the next lines of any: each may carry 64 bytes, 64 KB in all
_ROWS = 32  # rows of the source that are read side by side; as many more where they make less than two lines
_LAG = 128  # lines held back before they are written; the ring holds twice as many

# The scratch: 4 KB for `turn` and for the square of `_edge`, 8 KB for rows, tables, then the ring, and what is carried.
_SQUARE, _SPILL, _SOURCES, _SPILLED, _TARGETS = 1 << 12, 2 << 12, 4 << 12, (4 << 12) + 1024, (4 << 12) + 2048
_HELD = 5 << 12
_CARRIED = _HELD + 3 * 64 * _LAG


@part
def _walk(turn, width, source, target, tables, streaming, scratch):
    """Copy what the tables say, in elements of `width` bytes."""
    outer, source_rows, target_rows, p_pieces, q_pieces = tables
    room = lanes.address(scratch) + 63 & -64
    bounds = lanes.address(source), lanes.address(source) + source.size
    for o in range(outer.shape[0]):
        for i in range(p_pieces.shape[0]):
            for band in range(0, p_pieces[i, 2], _BAND):
                p_count = min(_BAND, p_pieces[i, 2] - band)
                targets = lanes.address(target_rows) + 8 * (p_pieces[i, 1] + band)
                s = lanes.address(source) + outer[o, 0] + p_pieces[i, 0] + band * width
                for j in range(q_pieces.shape[0]):
                    origin = lanes.address(source_rows) + 8 * q_pieces[j, 1], s
                    goal = targets, lanes.address(target) + outer[o, 1] + q_pieces[j, 0]
                    extent = p_count, q_pieces[j, 2]
                    if streaming:
                        # What comes next is told, so that its lines can be on their way.
                        after = lanes.address(source_rows) + 8 * q_pieces[(j + 1) % q_pieces.shape[0], 1], s
                        if j + 1 == q_pieces.shape[0]:
                            if band + _BAND < p_pieces[i, 2]:
                                after = after[0], s + _BAND * width
                            elif i + 1 < p_pieces.shape[0]:
                                after = after[0], s - band * width + p_pieces[i + 1, 0] - p_pieces[i, 0]
                            elif o + 1 < outer.shape[0]:
                                first = outer[o + 1, 0] + p_pieces[0, 0]
                                after = after[0], lanes.address(source) + first
                        _by_ring(turn, width, origin, goal, extent, after, streaming, room, bounds)
                    else:
                        _direct(turn, width, origin, goal, extent, room, bounds)
    if streaming:
        lanes.fence()


@part
def _direct(turn, width, origin, goal, extent, room, bounds):
    """Turn all blocks of a band from where they are to where they belong, along the target's rows."""
    side = 64 // width
    for p in range(0, extent[0], side):
        for q in range(0, extent[1], side):
            at = origin[0] + 8 * q, origin[1] + p * width
            to = goal[0] + 8 * p, goal[1] + q * width
            present = min(side, extent[0] - p), min(side, extent[1] - q)
            if present[0] == side and present[1] == side:
                turn(at[0], at[1], to[0], to[1], ZERO, room)
            else:
                _edge(turn, width, at, to, present, room, bounds)


@part
def _edge(turn, width, origin, goal, extent, room, bounds):
    """Turn a block of which only `extent` (p, q) is there; neither reads nor writes the rest."""
    targets = room + _TARGETS
    for k in range(64 // width):
        lanes.put_integer(targets + 8 * k, 64 * k)
    at = _sources(origin, extent[1], 64 // width, room), origin[1]
    if _passes(at, 64 // width, bounds):
        at = _spilled(at, 64 // width, extent[0] * width, room)
    turn(at[0], at[1], targets, room + _SQUARE, ZERO, room)
    for k in range(extent[0]):
        t = goal[1] + lanes.integer(goal[0] + 8 * k)
        lanes.move(t, room + _SQUARE + 64 * k, extent[1] * width)


@part
def _sources(origin, count, rows, room):
    """A table of so many row offsets: that of `origin`, or where `count` is less one that repeats the last row."""
    if count >= rows:
        return origin[0]
    for k in range(rows):
        lanes.put_integer(room + _SOURCES + 8 * k, lanes.integer(origin[0] + 8 * min(k, count - 1)))
    return room + _SOURCES


@part
def _passes(at, rows, bounds):
    """Whether 64 bytes of each row pass the end of the source."""
    last = lanes.integer(at[0])
    for k in range(1, rows):
        last = max(last, lanes.integer(at[0] + 8 * k))
    return at[1] + last + 64 > bounds[1]


@part
def _spilled(at, rows, count, room):
    """Copy `count` bytes of each row to where 64 can be read."""
    for k in range(rows):
        place = room + _SPILL + 64 * k
        lanes.move(place, at[1] + lanes.integer(at[0] + 8 * k), min(64, count))
        lanes.put_integer(room + _SPILLED + 8 * k, place)
    return room + _SPILLED, ZERO


@part
def _by_ring(turn, width, origin, goal, extent, after, streaming, room, bounds):
    """Turn a band by writing some lines of each of its rows, then the next lines of each.

    Blocks are turned into a ring of rows, which are written `_LAG` lines later. A row that does not begin with a line
    keeps its last 64 bytes for its next lines.
    """
    side = 64 // width
    lines = max(2, _ROWS // side)
    lag, held_row = _LAG // lines, 64 * lines + 64
    targets = room + _TARGETS
    for k in range(2 * lag):
        lanes.put_integer(targets + 8 * k, room + _HELD + held_row * k + 64)
    carries = _carries(goal, extent[0])
    for q in range(0, extent[1], lines * side):
        count = min(lines * side, extent[1] - q)
        squares = (count + side - 1) // side
        ends = q == 0, q + count == extent[1]
        sources = _sources((origin[0] + 8 * q, origin[1]), count, squares * side, room)
        safe = not _passes((sources, origin[1] + extent[0] * width), squares * side, bounds)
        for p in range(0, extent[0] + lag, side):
            if p < extent[0]:
                _ask(origin, (p, q), extent, after, width)
                at = sources, origin[1] + p * width
                if not safe and _passes(at, squares * side, bounds):
                    at = _spilled(at, squares * side, (extent[0] - p) * width, room)
                slot = p % (2 * lag)
                for k in range(squares):
                    turn(at[0] + 8 * side * k, at[1], targets + 8 * slot, 64 * k, ZERO, room)
                if carries and not ends[0]:
                    for k in range(side):
                        carried = lanes.load(room + _CARRIED + 64 * (p + k))
                        lanes.store(room + _HELD + held_row * (slot + k), carried)
            if p >= lag:
                done = p - lag
                held = (room + _HELD + held_row * (done % (2 * lag)), room + _CARRIED + 64 * done)
                own = goal[0] + 8 * done, goal[1] + q * width
                _write(own, held, min(side, extent[0] - done), (lines, count * width), ends, carries, streaming)


@part
def _carries(goal, count):
    """Whether any row of the target begins elsewhere than with a line."""
    phases = ZERO
    for k in range(count):
        phases |= goal[1] + lanes.integer(goal[0] + 8 * k)
    return phases & 63 != 0


@part
def _ask(origin, at, extent, after, width):
    """Ask for a share of the next chunk's lines, so that all are on their way when this chunk is done."""
    side = 64 // width
    together = side * max(2, _ROWS // side)
    p, q = at
    within = p * width % _CHUNK
    sources, s = origin[0] + 8 * q, origin[1] + p * width - within + _CHUNK
    count = extent[1] - q
    if p + (_CHUNK - within) // width >= extent[0]:
        sources, s, count = origin[0] + 8 * (q + together), origin[1] + ZERO, extent[1] - q - together
        if count <= 0:
            sources, s, count = after[0], after[1], extent[1]
    share = together * 64 // _CHUNK
    first = within // 64 * share
    for k in range(first, min(first + share, count)):
        place = s + lanes.integer(sources + 8 * k)
        for line in range(63, _CHUNK, 64):
            lanes.prefetch(place + line)


@part
def _write(goal, held, rows, size, ends, carries, streaming):
    """Write what is complete of some rows.

    At ``held[0]``, one after the other, are the 64 bytes of a row before its place and then up to ``size[0]`` lines,
    ``size[1]`` bytes, that belong there. `ends` tells whether the row begins with the new ones, and ends with them.
    """
    slot, carried = held
    lines, count = size
    for k in range(rows):
        t = goal[1] + lanes.integer(goal[0] + 8 * k)
        phase = t & 63
        if count == 64 * lines and (phase == 0 or not (ends[0] or ends[1])):
            for n in range(lines):
                lanes.put(t - phase + 64 * n, lanes.load(slot + 64 - phase + 64 * n), streaming)
        else:
            _write_end(t - phase, phase, slot + 64 - phase, count, ends, streaming)
        if carries:
            lanes.store(carried, lanes.load(slot + 64 * lines))
        slot += 64 * lines + 64
        carried += 64


@part
def _write_end(line, phase, held, count, ends, streaming):
    """The same for one row that begins or ends here; `held` is what belongs to `line`, from its byte `phase` on new."""
    stop = phase + count
    done = ZERO
    if ends[0] and phase:
        done = min(64, stop)
        lanes.move(line + phase, held + phase, done - phase)
    while done + 64 <= stop:
        lanes.put(line + done, lanes.load(held + done), streaming)
        done += 64
    if ends[1]:
        lanes.move(line + done, held + done, stop - done)


# --- widths ---------------------------------------------------------------------------------------------------------


@part
def _turn8(sources, source, targets, target, streaming, room):
    lanes.turn8(sources, source, targets, target, streaming, room)


@part
def _turn16(sources, source, targets, target, streaming, room):
    lanes.turn16(sources, source, targets, target, streaming, room)


@part
def _turn32(sources, source, targets, target, streaming, room):
    lanes.turn32(sources, source, targets, target, streaming, room)


@part
def _turn64(sources, source, targets, target, streaming, room):
    lanes.turn64(sources, source, targets, target, streaming, room)


_ARGUMENTS = (BYTES, WRITABLE, TABLE, LIST, LIST, TABLE, TABLE, NUMBER, WRITABLE)


@kernel(*_ARGUMENTS)
def transpose8(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 8 bits."""
    _walk(_turn8, 1, source, target, (outer, source_rows, target_rows, p_pieces, q_pieces), streaming, scratch)


@kernel(*_ARGUMENTS)
def transpose16(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 16 bits."""
    _walk(_turn16, 2, source, target, (outer, source_rows, target_rows, p_pieces, q_pieces), streaming, scratch)


@kernel(*_ARGUMENTS)
def transpose32(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 32 bits."""
    _walk(_turn32, 4, source, target, (outer, source_rows, target_rows, p_pieces, q_pieces), streaming, scratch)


@kernel(*_ARGUMENTS)
def transpose64(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 64 bits."""
    _walk(_turn64, 8, source, target, (outer, source_rows, target_rows, p_pieces, q_pieces), streaming, scratch)
