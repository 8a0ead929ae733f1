"""Transposes: neighbours in the source go to different rows of the target, and the other way round.

`p` counts along the runs of the source, `q` along those of the target. Element (p, q) comes from ``source_rows[q]``
plus its place in a piece of p, and goes to ``target_rows[p]`` plus its place in a piece of q. A piece is (offset,
number of its first p or q, count). So tiles on either side are only other tables. All offsets are in bytes and add up.

A block of 64 bytes along q by 16 of p, or 8 of 64 bits, is turned in registers. Blocks follow each other along p, so
that the source is read in order. The target is written in whole lines: right away where its rows all begin at the same
place in a line, else every row carries the rest of a line over to its next block.
"""

from __future__ import annotations

from strided.kernels import lanes
from strided.kernels.compile import BYTES, LIST, NUMBER, TABLE, WRITABLE, ZERO, kernel, part

_BAND = 1024  # rows of the target done at a time: what they carry, 128 KB, stays in the second-level cache
_CARRY = 128  # bytes of scratch a row carries: its block before and its new one

# Offsets in the scratch: tables and squares of `_edge`, then the table of carried rows and those rows.
_SQUARE, _SPILL, _SLOTS = 1024, 1024 + (1 << 12), 1 << 14
_CARRIED = _SLOTS + 8 * (_BAND + 16)


@part
def _walk(turn, kind, source, target, tables, streaming, scratch):
    """Copy what the tables say. `kind`: bytes of an element, lines done side by side, bytes to prefetch ahead."""
    outer, source_rows, target_rows, p_pieces, q_pieces = tables
    width = kind[0]
    room = lanes.address(scratch) + 63 & -64
    finish = lanes.address(source) + source.size
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
                    phase = _phase(goal, p_count) if streaming else 0
                    if phase < 0 or phase % width:
                        _carried(turn, kind, origin, goal, extent, streaming, room, finish)
                    else:
                        _direct(turn, kind, origin, goal, extent, -phase & 63, streaming, room, finish)
    if streaming:
        lanes.fence()


@part
def _phase(goal, count):
    """Where in a line all rows of the target begin; -1 where they do not agree."""
    targets, target = goal
    phase = target + lanes.integer(targets) & 63
    for k in range(1, count):
        if target + lanes.integer(targets + 8 * k) & 63 != phase:
            return -1
    return phase


@part
def _direct(turn, kind, origin, goal, extent, head, streaming, room, finish):
    """Turn all blocks of a band, straight to where they belong; `head` bytes come before the first line."""
    width, together, _ = kind
    squares = 64 // width
    q = ZERO
    while q < extent[1]:
        count = min(squares, extent[1] - q)
        if q == 0 and head:
            count = min(count, head // width)
        lines = min(together, (extent[1] - q) // squares) if count == squares else 1
        _column(turn, kind, origin, goal, (extent[0], count), q, lines, streaming, room, finish)
        q += lines * count


@part
def _column(turn, kind, origin, goal, extent, q, lines, streaming, room, finish):
    """Turn the blocks of one stretch of q, in squares of some lines a side."""
    width, together, ahead = kind
    sources, source = origin[0] + 8 * q, origin[1]
    targets, target = goal[0], goal[1] + q * width
    squares, rows = 64 // width, _rows(width)
    side = together * squares
    for p in range(0, extent[0], side):
        for line in range(lines):
            at = sources + line * 512 // width, target + 64 * line
            for k in range(p, min(p + side, extent[0]), rows):
                if k + rows > extent[0] or extent[1] < squares:
                    present = min(rows, extent[0] - k), extent[1]
                    _edge(turn, kind, (at[0], source + k * width), (targets + 8 * k, at[1]), present, room, finish)
                    continue
                if ahead:
                    # Some blocks side by side read the same lines: each asks for its share of the next ones.
                    share = 64 // (rows * width)
                    for i in range((k - p) // rows % share, squares, share):
                        lanes.prefetch(lanes.integer(at[0] + 8 * i) + source + p * width + ahead)
                turn(at[0], source + k * width, targets + 8 * k, at[1], streaming)


@part
def _rows(width):
    return 8 if width == 8 else 16


@part
def _edge(turn, kind, origin, goal, extent, room, finish):
    """Turn a block of which only `extent` (p, q) is there; neither reads nor writes the rest."""
    width = kind[0]
    for k in range(64 // width):
        s = origin[1] + lanes.integer(origin[0] + 8 * min(k, extent[1] - 1))
        if s + _rows(width) * width > finish:
            lanes.move(room + _SPILL + 64 * k, s, extent[0] * width)
            s = room + _SPILL + 64 * k
        lanes.put_integer(room + 8 * k, s)
    for k in range(_rows(width)):
        lanes.put_integer(room + 512 + 8 * k, 64 * k)
    turn(room, ZERO, room + 512, room + _SQUARE, ZERO)
    for k in range(extent[0]):
        t = goal[1] + lanes.integer(goal[0] + 8 * k)
        lanes.move(t, room + _SQUARE + 64 * k, extent[1] * width)


@part
def _carried(turn, kind, origin, goal, extent, streaming, room, finish):
    """Turn all blocks of a band by way of the scratch, where every row keeps what does not yet make a line."""
    width = kind[0]
    squares, rows = 64 // width, _rows(width)
    slots, carried = room + _SLOTS, room + _CARRIED
    for k in range(extent[0] + rows):
        lanes.put_integer(slots + 8 * k, carried + _CARRY * k + 64)
    for q in range(0, extent[1], squares):
        count = min(squares, extent[1] - q)
        ends = q == 0, q + squares >= extent[1]
        for p in range(0, extent[0], rows):
            at = origin[0] + 8 * q, origin[1] + p * width
            present = min(rows, extent[0] - p)
            if present == rows and count == squares:
                turn(at[0], at[1], slots + 8 * p, ZERO, ZERO)
            else:
                _edge(turn, kind, at, (slots + 8 * p, ZERO), (present, count), room, finish)
            for k in range(p, p + present):
                t = goal[1] + lanes.integer(goal[0] + 8 * k) + q * width
                _complete(t, carried + _CARRY * k, count * width, ends, streaming)


@part
def _complete(t, slot, count, ends, streaming):
    """Write what is complete of a row: at `slot` are the 64 bytes before `t`, then `count` new ones that belong there.

    `ends` tells whether the row begins with the new ones, and whether it ends with them.
    """
    phase = t & 63
    line = t - phase
    if ends[0]:
        lanes.move(t, slot + 64, min(64 - phase, count))
    elif phase + count >= 64:
        lanes.put(line, lanes.load(slot + 64 - phase), streaming)
    else:
        lanes.move(line, slot + 64 - phase, phase + count)
    if ends[1] and phase + count > 64:
        lanes.move(line + 64, slot + 128 - phase, phase + count - 64)
    lanes.store(slot, lanes.load(slot + 64))


# --- widths ---------------------------------------------------------------------------------------------------------


@part
def _turn8(sources, source, targets, target, streaming):
    lanes.turn8(sources, source, targets, target, streaming)


@part
def _turn16(sources, source, targets, target, streaming):
    lanes.turn16(sources, source, targets, target, streaming)


@part
def _turn32(sources, source, targets, target, streaming):
    lanes.turn32(sources, source, targets, target, streaming)


@part
def _turn64(sources, source, targets, target, streaming):
    lanes.turn64(sources, source, targets, target, streaming)


_ARGUMENTS = (BYTES, WRITABLE, TABLE, LIST, LIST, TABLE, TABLE, NUMBER, WRITABLE)


@kernel(*_ARGUMENTS)
def transpose8(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 8 bits."""
    tables = outer, source_rows, target_rows, p_pieces, q_pieces
    # More rows of the source are read side by side than hardware follows: so ask for their next lines.
    _walk(_turn8, (1, 1, 64), source, target, tables, streaming, scratch)


@kernel(*_ARGUMENTS)
def transpose16(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 16 bits."""
    tables = outer, source_rows, target_rows, p_pieces, q_pieces
    _walk(_turn16, (2, 1, 0), source, target, tables, streaming, scratch)


@kernel(*_ARGUMENTS)
def transpose32(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 32 bits."""
    tables = outer, source_rows, target_rows, p_pieces, q_pieces
    _walk(_turn32, (4, 2, 0), source, target, tables, streaming, scratch)


@kernel(*_ARGUMENTS)
def transpose64(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 64 bits."""
    tables = outer, source_rows, target_rows, p_pieces, q_pieces
    _walk(_turn64, (8, 2, 0), source, target, tables, streaming, scratch)
