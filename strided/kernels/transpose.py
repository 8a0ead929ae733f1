"""Transposes: neighbours in the source go to different rows of the target, and the other way round.

`p` counts along the runs of the source, `q` along those of the target. Element (p, q) comes from ``source_rows[q]``
plus its place in a piece of p, and goes to ``target_rows[p]`` plus its place in a piece of q. A piece is (offset,
number of its first p or q, count). So tiles on either side are only other tables. All offsets are in bytes and add up.

Blocks are squares of 64 bytes a side. In the cache they are turned straight from one side to the other. Beyond it, how
memory is touched counts more than anything else: see `_staged`.
"""

from __future__ import annotations

from strided.kernels import lanes
from strided.kernels.compile import BYTES, LIST, NUMBER, TABLE, WRITABLE, ZERO, kernel, part

# Measured on 256 MB, in time per line against a plain copy's: rows written one line at a time take twice as long as by
# pairs; 64 rows read side by side one line at a time half as long again as by four; rows at powers of two fight for the
# sets of the first-level cache; a load that must wait for a store behind streaming stores waits for memory.
_CHUNK = 256  # bytes read of one row before the next row's turn
_BAND = 2048  # rows of the target done before the next lines of any: each may carry 64 bytes, 128 KB in all
_RING = 128  # rows held back before they are written
_LAG = 64

# The scratch: 4 KB for `turn`, 4 KB each for square and rows of `_edge`, tables, then rows held, staged and carried.
_HELD_ROW, _STAGE_ROW = 192, _CHUNK + 128
_SQUARE, _SPILL, _SOURCES, _TARGETS = 1 << 12, 2 << 12, 3 << 12, (3 << 12) + 2048
_HELD = 4 << 12
_STAGE = _HELD + _RING * _HELD_ROW
_CARRIED = _STAGE + 128 * _STAGE_ROW


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
                        _staged(turn, width, origin, goal, extent, after, streaming, room, bounds)
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
    sources, targets = room + _SOURCES, room + _TARGETS
    for k in range(64 // width):
        s = origin[1] + lanes.integer(origin[0] + 8 * min(k, extent[1] - 1))
        if s + 64 > bounds[1]:
            lanes.move(room + _SPILL + 64 * k, s, extent[0] * width)
            s = room + _SPILL + 64 * k
        lanes.put_integer(sources + 8 * k, s)
        lanes.put_integer(targets + 8 * k, 64 * k)
    turn(sources, ZERO, targets, room + _SQUARE, ZERO, room)
    for k in range(extent[0]):
        t = goal[1] + lanes.integer(goal[0] + 8 * k)
        lanes.move(t, room + _SQUARE + 64 * k, extent[1] * width)


@part
def _staged(turn, width, origin, goal, extent, after, streaming, room, bounds):
    """Turn a band by reading `_CHUNK` bytes of each row at a time and writing pairs of lines.

    Rows of the source are copied to the scratch. From there blocks are turned into a ring of rows of two lines, which
    are written `_LAG` rows later. A row that does not begin with a line keeps its last 64 bytes for its next two lines.
    """
    side = 64 // width
    targets = room + _TARGETS
    for k in range(_RING):
        lanes.put_integer(targets + 8 * k, room + _HELD + _HELD_ROW * k + 64)
    carries = _carries(goal, extent[0])
    for q in range(0, extent[1], 2 * side):
        count = min(2 * side, extent[1] - q)
        ends = q == 0, q + count == extent[1]
        rows = origin[0] + 8 * q, origin[1]
        for p in range(0, extent[0] + _LAG, side):
            if p < extent[0]:
                within = p * width % _CHUNK
                if within == 0:
                    run = p * width, min(_CHUNK, (extent[0] - p) * width)
                    _stage(rows, run, 2 * side, count, room, bounds)
                _ask(origin, (p, q), extent, after, width)
                slot = p % _RING
                turn(room + _SOURCES, within, targets + 8 * slot, ZERO, ZERO, room)
                if count > side:
                    turn(room + _SOURCES + 8 * side, within, targets + 8 * slot, ZERO + 64, ZERO, room)
                if carries and not ends[0]:
                    for k in range(side):
                        carried = lanes.load(room + _CARRIED + 64 * (p + k))
                        lanes.store(room + _HELD + _HELD_ROW * (slot + k), carried)
            if p >= _LAG:
                done = p - _LAG
                held = (room + _HELD + _HELD_ROW * (done % _RING), room + _CARRIED + 64 * done)
                own = goal[0] + 8 * done, goal[1] + q * width
                _write(own, held, min(side, extent[0] - done), count * width, ends, carries, streaming)


@part
def _carries(goal, count):
    """Whether any row of the target begins elsewhere than with a line."""
    phases = ZERO
    for k in range(count):
        phases |= goal[1] + lanes.integer(goal[0] + 8 * k)
    return phases & 63 != 0


@part
def _stage(rows, run, side, count, room, bounds):
    """Copy a run of bytes of some rows to the scratch, by whole lines, and note where each then begins."""
    for k in range(side):
        s = rows[1] + run[0] + lanes.integer(rows[0] + 8 * min(k, count - 1))
        line, stop = s & -64, s + run[1] + 63 & -64
        place = room + _STAGE + _STAGE_ROW * k
        lanes.put_integer(room + _SOURCES + 8 * k, place + s - line)
        if bounds[0] <= line and stop <= bounds[1]:
            while line < stop:
                lanes.store(place, lanes.load(line))
                line += 64
                place += 64
        else:
            lanes.move(place + s - line, s, run[1])


@part
def _ask(origin, at, extent, after, width):
    """Ask for a share of the next chunk's lines, so that all are on their way when this chunk is done."""
    side = 64 // width
    p, q = at
    within = p * width % _CHUNK
    sources, s = origin[0] + 8 * q, origin[1] + p * width - within + _CHUNK
    count = extent[1] - q
    if p + (_CHUNK - within) // width >= extent[0]:
        sources, s, count = origin[0] + 8 * (q + 2 * side), origin[1] + ZERO, extent[1] - q - 2 * side
        if count <= 0:
            sources, s, count = after[0], after[1], extent[1]
    share = 2 * side * 64 // _CHUNK
    first = within // 64 * share
    for k in range(first, min(first + share, count)):
        place = s + lanes.integer(sources + 8 * k)
        for line in range(63, _CHUNK, 64):
            lanes.prefetch(place + line)


@part
def _write(goal, held, rows, count, ends, carries, streaming):
    """Write what is complete of some rows.

    At ``held[0]``, one `_HELD_ROW` apart, are the 64 bytes of a row before its place, then `count` new ones that belong
    there. `ends` tells whether the row begins with the new ones, and whether it ends with them.
    """
    slot, carried = held
    for k in range(rows):
        t = goal[1] + lanes.integer(goal[0] + 8 * k)
        phase = t & 63
        if count == 128 and (phase == 0 or not (ends[0] or ends[1])):
            first, second = (lanes.load(slot + 64 - phase), lanes.load(slot + 128 - phase))
            lanes.put(t - phase, first, streaming)
            lanes.put(t - phase + 64, second, streaming)
        else:
            _write_end(t - phase, phase, slot + 64 - phase, count, ends, streaming)
        if carries:
            lanes.store(carried, lanes.load(slot + 128))
        slot += _HELD_ROW
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
