"""Transposes: neighbours in the source go to different rows of the target, and vice versa.

`p` counts along the runs of the source, `q` along those of the target. Element (p, q) comes from ``source_rows[q]``
plus its place in a piece of p, and goes to ``target_rows[p]`` plus its place in a piece of q. A piece is (offset,
number of its first p or q, count). So tiles on either side only change tables. All offsets are in bytes and add up.

Blocks are squares of 64 bytes a side. In the cache they are turned straight from one side to the other. Beyond it, how
memory is touched counts more than anything else: see `_by_ring`.
"""

from __future__ import annotations

from strided.kernels import NEAR, SHORT_ROW_BYTES, block_transpose, simd_bytes
from strided.kernels.compile import BYTES, LIST, NUMBER, TABLE, WRITABLE, ZERO, kernel, part
from strided.kernels.few_rows import few_rows, is_even, is_few, part_few, take_turns, zip_few
from strided.kernels.held_run import RUN_BYTES, drain, finish, move_run

# Measured on 256 MB, in time per line against a plain copy's: rows written one line at a time take twice as long as by
# pairs; 64 rows read side by side one line at a time half as long again as by eight; lines asked for before they are
# wanted take a third less; a load that must wait for a store behind streaming stores waits for memory; lines written
# while others are turned, not after them, take a seventh less.
_SOON = 4096  # bytes of small matrices that are read until one is wanted that is asked for
_CHUNK = 512  # bytes of one row that are asked for one after the other; the turning of a square asks for so many
_BAND = 2048  # rows of the target done before the next lines of any: of each 64 bytes may be kept, 128 KB in all
_LAG = 128  # lines held back before they are written; the ring holds twice as many

# The scratch: 4 KB for `turn`, 4 KB for a square, 8 KB for rows, tables, the ring, what is kept of rows, a run of them,
# and the places of rows in the ring.
_SQUARE, _SPILL, _SOURCES, _SPILLED, _TARGETS = 1 << 12, 2 << 12, 4 << 12, (4 << 12) + 1024, (4 << 12) + 2048
_HELD = 5 << 12
_KEPT = _HELD + 2 * 64 * _LAG
_RUN = _KEPT + 64 * _BAND
_PLACES = _RUN + RUN_BYTES + 64 * SHORT_ROW_BYTES + 128


_PAST = ZERO + 1  # the caches
_NOTHING = (ZERO,) * 6  # that is asked for or written while a square is turned


@part
def _transpose(turn, zips, pick, width, source, target, tables, streaming, scratch):
    """Copy what the tables describe, in elements of `width` bytes."""
    outer, source_rows, target_rows, p_pieces, q_pieces = tables
    room = simd_bytes.address(scratch) + 63 & -64
    if take_turns(width, target, tables, streaming):
        part_few(pick, width, source, target, tables, streaming, room + _SQUARE)
        return
    # The source's first byte and where it ends, and how many of its rows lie in a line: one of these is asked for.
    sharing = ZERO + 1
    if source_rows.shape[0] > 1:
        sharing = max(sharing, 64 // max(1, abs(source_rows[1] - source_rows[0])))
    bounds = simd_bytes.address(source), simd_bytes.address(source) + source.size, sharing
    held, far = (ZERO, ZERO), ZERO
    late = ZERO, ZERO, ZERO, ZERO
    for k in range(source_rows.shape[0]):
        far = max(far, source_rows[k])
    lines = _prepare_ring(width, p_pieces, room) if streaming else ZERO
    alike = p_pieces.shape[0] == 1 and p_pieces[0, 2] <= _BAND
    # If all rows of the target follow each other, those of every piece do.
    every = simd_bytes.address(target_rows), target_rows.shape[0]
    all_run_on = not alike and _runs_on(source_rows, every[0], every[1], q_pieces, width, streaming)
    if all_run_on:
        _prepare_run(width, simd_bytes.address(source_rows) + 8 * q_pieces[0, 1], q_pieces[0, 2], room)
    runs_on = all_run_on
    on = max(1, _SOON // max(1, target_rows.shape[0] * source_rows.shape[0] * width))
    for o in range(outer.shape[0]):
        for i in range(p_pieces.shape[0]):
            for band in range(0, p_pieces[i, 2], _BAND):
                p_count = min(_BAND, p_pieces[i, 2] - band)
                targets = simd_bytes.address(target_rows) + 8 * (p_pieces[i, 1] + band)
                s = simd_bytes.address(source) + outer[o, 0] + p_pieces[i, 0] + band * width
                # What comes next is told, so that its lines can be on their way.
                after = _next_band(outer, on, p_pieces, o, i, band, width, s)
                if not all_run_on and (o == 0 or not alike):
                    runs_on = _runs_on(source_rows, targets, p_count, q_pieces, width, streaming)
                    if runs_on:
                        _prepare_run(width, simd_bytes.address(source_rows) + 8 * q_pieces[0, 1], q_pieces[0, 2], room)
                if runs_on:
                    origin = simd_bytes.address(source_rows) + 8 * q_pieces[0, 1], s, far
                    t = simd_bytes.address(target) + outer[o, 1] + q_pieces[0, 0] + simd_bytes.integer(targets)
                    extent = p_count, q_pieces[0, 2]
                    held = _by_run(turn, zips, width, origin, t, extent, after, held, streaming, room, bounds)
                    continue
                for j in range(q_pieces.shape[0]):
                    origin = simd_bytes.address(source_rows) + 8 * q_pieces[j, 1], s, far
                    goal = targets, simd_bytes.address(target) + outer[o, 1] + q_pieces[j, 0]
                    extent = p_count, q_pieces[j, 2]
                    n = (j + 1) % q_pieces.shape[0]
                    rows = simd_bytes.address(source_rows) + 8 * q_pieces[n, 1]
                    following = rows, s if n else after[0], q_pieces[n, 2], p_count if n else after[1]
                    if streaming:
                        late = _by_ring(turn, width, lines, origin, goal, extent, following, late, room, bounds)
                    else:
                        _direct(turn, width, origin, goal, extent, following, room, bounds)
    finish(held, streaming, room + _RUN)
    if streaming:
        _finish_ring(width, lines, late, room)
        simd_bytes.fence()


@part
def _next_band(outer, on, p_pieces, o, i, band, width, s):
    """Where the source of the band after this one begins, and its width; of a small matrix, that so many further on."""
    if band + _BAND < p_pieces[i, 2]:
        return s + _BAND * width, min(_BAND, p_pieces[i, 2] - band - _BAND)
    if i + 1 < p_pieces.shape[0]:
        return s - band * width + p_pieces[i + 1, 0] - p_pieces[i, 0], p_pieces[i + 1, 2]
    if o + 1 < outer.shape[0]:
        later = outer[min(o + on, outer.shape[0] - 1), 0]
        return s - band * width - outer[o, 0] - p_pieces[i, 0] + later + p_pieces[0, 0], p_pieces[0, 2]
    return s, ZERO


@part
def _runs_on(source_rows, targets, count, q_pieces, width, streaming):
    """Whether rows of the target are short, and each begins where the one before it ends."""
    size = q_pieces[0, 2] * width
    # Whole squares can be turned to where they belong.
    direct = not (streaming or size & 63 or count * width < 64)
    if q_pieces.shape[0] > 1 or size > SHORT_ROW_BYTES or direct:
        return False
    # Many rows at multiples of a page would fight for the same few sets of the caches.
    if source_rows.shape[0] > 128 and not (source_rows[1] - source_rows[0]) & 4095:
        return False
    return is_even(targets, count, size)


@part
def _direct(turn, width, origin, goal, extent, following, room, bounds):
    """Turn all blocks of a band from where they are to where they belong, along the target's rows."""
    side = 64 // width
    across = (extent[1] + side - 1) // side
    for p in range(0, extent[0], side):
        wanted = _wanted((origin[0], origin[1], extent[1]), following, p, extent[0], width, bounds)
        for q in range(0, extent[1], side):
            _ask(wanted, q // side, across, 0)
            at = origin[0] + 8 * q, origin[1] + p * width
            to = goal[0] + 8 * p, goal[1] + q * width
            present = min(side, extent[0] - p), min(side, extent[1] - q)
            if present[0] == side and present[1] == side:
                turn(at[0], at[1], to[0], to[1], room, _NOTHING, (side, side))
            else:
                _edge(turn, width, at, to, present, room, bounds)


@part
def _edge(turn, width, origin, goal, extent, room, bounds):
    """Turn a block of which only `extent` (p, q) is there; neither reads nor writes the rest."""
    targets = room + _TARGETS
    for k in range(64 // width):
        simd_bytes.put_integer(targets + 8 * k, 64 * k)
    at = _sources(origin, extent[1], 64 // width, room), origin[1]
    at = _inside(at, 64 // width, extent[0] * width, bounds, room)
    turn(at[0], at[1], targets, room + _SQUARE, room, _NOTHING, (extent[1], extent[0]))
    for k in range(extent[0]):
        t = goal[1] + simd_bytes.integer(goal[0] + 8 * k)
        move_run(t, room + _SQUARE + 64 * k, extent[1] * width)


@part
def _sources(origin, count, rows, room):
    """A table of so many row offsets: that of `origin`, or where `count` is less one that repeats the last row."""
    if count >= rows:
        return origin[0]
    for k in range(rows):
        simd_bytes.put_integer(room + _SOURCES + 8 * k, simd_bytes.integer(origin[0] + 8 * min(k, count - 1)))
    return room + _SOURCES


@part
def _passes(at, rows, bounds):
    """Whether 64 bytes of each row pass the end of the source."""
    last = simd_bytes.integer(at[0])
    for k in range(1, rows):
        last = max(last, simd_bytes.integer(at[0] + 8 * k))
    return at[1] + last + 64 > bounds[1]


@part
def _inside(at, rows, count, bounds, room):
    """The same rows, or where 64 bytes of one pass the end of the source, copies of the `count` that each has."""
    if not _passes(at, rows, bounds):
        return at
    for k in range(rows):
        place = room + _SPILL + 64 * k
        simd_bytes.move(place, at[1] + simd_bytes.integer(at[0] + 8 * k), min(64, count))
        simd_bytes.put_integer(room + _SPILLED + 8 * k, place)
    return room + _SPILLED, ZERO


@part
def _prepare_run(width, rows, count, room):
    """Make the tables of `_by_run` for `count` rows of the source, wherever they begin."""
    side = 64 // width
    whole = count // side
    for k in range(side):
        simd_bytes.put_integer(room + _TARGETS + 8 * k, count * width * k)
        simd_bytes.put_integer(room + _TARGETS + 8 * side + 8 * k, 64 * k)
    if count > whole * side:
        _sources((rows + 8 * whole * side, ZERO), count - whole * side, side, room)


@part
def _by_run(turn, zips, width, origin, t, extent, after, held, streaming, room, bounds):
    """Turn rows that follow each other in the target, from `t` on, all of each at once.

    They are put together in the scratch and written by whole lines. `held` is what is there: where in the target its
    first byte belongs, and where its last one ends. The scratch keeps it from the start of a line on.
    """
    side = 64 // width
    size, whole, rest = extent[1] * width, extent[1] // side, extent[1] % side
    begin, end = held
    if t != end:
        finish(held, streaming, room + _RUN)
        begin, end = t, t
    rows, s, far = origin
    if is_few(width, extent[1]):
        return zip_few(
            zips, width, origin, extent, after[0] - s, (begin, end), streaming, (room + _SPILL, room + _RUN), bounds
        )
    places, apart = room + _TARGETS, room + _TARGETS + 8 * side
    here, following = (rows, s, extent[1]), (rows, after[0], extent[1], after[1])
    count = (extent[1] + side - 1) // side
    last = room + _SOURCES if rest else rows
    safe = s + extent[0] * width + far + 64 <= bounds[1]
    # What is written behind a row is overwritten: by whole squares, or by the next row if rows are written in order.
    in_place = whole > 0 or width == 8 or size <= 32 or (width == 4 and simd_bytes.writes_by_mask())
    for p in range(0, extent[0], side):
        new = min(side, extent[0] - p)
        wanted = _wanted(here, following, p, extent[0], width, bounds)
        to = room + _RUN + end - (begin & -64)
        # The last square of all rows comes first: what it writes behind the ends is overwritten by what belongs there.
        if rest:
            asked = _ask(wanted, whole, count, _asks(width, rest, new))
            at = last, s + p * width
            if not safe:
                at = _inside(at, side, (extent[0] - p) * width, bounds, room)
            if in_place:
                turn(at[0], at[1], places, to + 64 * whole, room, (*asked, *_NOTHING[2:]), (rest, new))
            else:
                turn(at[0], at[1], apart, room + _SQUARE, room, (*asked, *_NOTHING[2:]), (rest, new))
                for k in range(new):
                    simd_bytes.store(to + size * k + 64 * whole, simd_bytes.load(room + _SQUARE + 64 * k))
        for j in range(whole):
            asked = _ask(wanted, j, count, _asks(width, side, new))
            at = rows + 8 * side * j, s + p * width
            if not safe:
                at = _inside(at, side, (extent[0] - p) * width, bounds, room)
            turn(at[0], at[1], places, to + 64 * j, room, (*asked, *_NOTHING[2:]), (side, new))
        end += size * new
        if end - begin >= RUN_BYTES:
            begin = drain((begin, end), streaming, room + _RUN)
    return begin, end


_lines = part(block_transpose.row_lines)


@part
def _prepare_ring(width, p_pieces, room):
    """Make the table of places of the ring's rows; how many lines of a row are put there at once.

    More of few rows, so that all of these are there before any is written.
    """
    most, lines = ZERO, ZERO + _lines(width)
    for k in range(p_pieces.shape[0]):
        most = max(most, p_pieces[k, 2])
    while 2 * lines * max(most, 64 // width) <= _LAG:
        lines *= 2
    for k in range(2 * (_LAG // lines)):
        simd_bytes.put_integer(room + _PLACES + 8 * k, room + _HELD + 64 * lines * k)
    return lines


@part
def _by_ring(turn, width, lines, origin, goal, extent, after, late, room, bounds):
    """Turn a band by writing some lines of each of its rows, then the next lines of each.

    Squares are turned into a ring of rows; each is written half a ring later, while others are turned. A row that does
    not begin with a line keeps its last 64 bytes for its next lines.

    `late` is the half ring that is still to be written, of whole lines: a table of the rows' offsets in the target, or
    0 for none; what is added to them; where their last 64 bytes are kept, or 0; and the row of the ring behind them.
    The answer is the same for the next band.
    """
    side = 64 // width
    half = _LAG // lines
    stop = (extent[0] + side - 1) // side * side
    clear = origin[1] + extent[0] * width + origin[2] + 64 <= bounds[1]
    keeps = _keeps(goal, extent[0])
    for q in range(0, extent[1], lines * side):
        count = min(lines * side, extent[1] - q)
        across = (count + side - 1) // side
        ends = q == 0, q + count == extent[1]
        whole = count == lines * side and not (keeps and (ends[0] or ends[1]))
        sources = _sources((origin[0] + 8 * q, origin[1]), count, across * side, room)
        safe = clear or not _passes((sources, origin[1] + extent[0] * width), across * side, bounds)
        here = sources, origin[1], count
        following = after[0], after[1], min(lines * side, after[2]), after[3]
        if not ends[1]:
            following = origin[0] + 8 * (q + count), origin[1], min(lines * side, extent[1] - q - count), extent[0]
        first = late[3]
        own = goal[0], goal[1] + q * width, (room + _KEPT) * keeps
        # What need not be written at once is written with what comes next.
        leaves = whole and lines == _lines(width) and stop == extent[0] and stop >= half
        for p in range(0, stop if leaves else stop + half, side):
            slot = (first + p) % (2 * half)
            due, n, rows, size = (
                (late[:3], p, half, 64 * lines) if p < half else (own, p - half, extent[0], count * width)
            )
            held = room + _HELD + 64 * lines * ((slot + half) % (2 * half))
            besides = due[0] != 0 and (whole or p < half) and count == lines * side and p + side <= extent[0]
            if p < stop:
                if ends[0] or ends[1]:
                    _ask_ends(own, p, min(side, extent[0] - p), count * width, ends)
                wanted = _wanted(here, following, p, extent[0], width, bounds)
                for k in range(across):
                    present = min(side, count - side * k), min(side, extent[0] - p)
                    asked = _ask(wanted, k, across, _asks(width, present[0], present[1]))
                    done = _NOTHING[2:]
                    if besides:
                        share = side // lines * k
                        kept = due[2] + 64 * (n + share) if due[2] else ZERO
                        done = due[0] + 8 * (n + share), due[1], held + 64 * lines * share, kept
                    at = sources + 8 * side * k, origin[1] + p * width
                    if not safe:
                        at = _inside(at, side, (extent[0] - p) * width, bounds, room)
                    turn(at[0], at[1], room + _PLACES + 8 * slot, 64 * k, room, (*asked, *done), present)
            if due[0] != 0 and not besides:
                edges = ends[0] and p >= half, ends[1] and p >= half
                _write(due, n, held, min(side, rows - n), (lines, size), edges, room)
        late = ZERO, ZERO, ZERO, ZERO
        if leaves:
            n = extent[0] - half
            late = own[0] + 8 * n, own[1], (own[2] + 64 * n) * keeps, (first + stop) % (2 * half)
    return late


@part
def _finish_ring(width, lines, late, room):
    """Write what is still to be written, if anything is."""
    half = _LAG // lines
    if late[0]:
        for n in range(0, half, 64 // width):
            held = room + _HELD + 64 * lines * ((late[3] + half + n) % (2 * half))
            _write(late[:3], n, held, 64 // width, (lines, 64 * lines), (False, False), room)


@part
def _keeps(goal, count):
    """Whether any row of the target begins elsewhere than with a line."""
    phases = ZERO
    for k in range(count):
        phases |= goal[1] + simd_bytes.integer(goal[0] + 8 * k)
    return phases & 63 != 0


@part
def _wanted(here, following, p, extent, width, bounds):
    """What is asked for while the squares at p are turned, so that all that is read next is there in time.

    That is a share of the next chunk of the rows `here`, or of the first one of those `following`: a table of offsets,
    where the runs begin, the number of rows, and of those that follow the elements of a run; here there are `extent`.
    The answer has the bytes of a chunk besides, and how many rows lie in a line.
    """
    if bounds[1] - bounds[0] <= NEAR:
        return here[0], here[1], ZERO, ZERO, ZERO + 1
    size = extent * width
    chunk = _CHUNK
    while chunk >= 2 * size and chunk > 64:
        chunk >>= 1
    within = p * width & chunk - 1
    rows, s, count = here
    done = p * width - within + chunk
    steps = min(chunk, size - done + chunk) >> 6
    s += done
    left = min(chunk, size - done)
    if done >= size:
        rows, s, count, left = following
        left = min(left * width, _CHUNK)
    share = count
    while steps > 1:
        share = share + 1 >> 1
        steps >>= 1
    first = (within >> 6) * share
    return rows + 8 * first, s, min(share, count - first), left, bounds[2]


@part
def _ask(wanted, k, across, most):
    """Ask for the share of the k-th square across, or tell which `most` rows of whole chunks its turning is to ask for.

    The answer is a table of offsets, or 0, and what is added to all.
    """
    rows, s, count, size, sharing = wanted
    each = count if across == 1 else (count + across - 1) // across
    first, stop = k * each, min(k * each + each, count)
    if stop - first == most and size == _CHUNK:
        return rows + 8 * first, s
    for n in range(first, stop, sharing):
        place = s + simd_bytes.integer(rows + 8 * n)
        for line in range(63, size + 63, 64):
            simd_bytes.prefetch(place + line)
    return ZERO, ZERO


@part
def _ask_ends(goal, first, rows, size, ends):
    """Ask for the lines of the target in which some rows begin and end, if they fill these in part."""
    for k in range(first, first + rows):
        t = goal[1] + simd_bytes.integer(goal[0] + 8 * k)
        if ends[0] and t & 63:
            simd_bytes.prefetch(t)
        if ends[1] and t + size & 63:
            simd_bytes.prefetch(t + size)


@part
def _asks(width, rows, columns):
    """How many chunks the turning of a square asks for: none where it turns a small part of one, alone."""
    return ZERO + 8 // width if width == 8 or width * min(rows, columns) > 32 else ZERO


@part
def _write(goal, n, held, rows, size, ends, room):
    """Write what is complete of some rows, from the n-th one on, of those that `goal` tells as `late` does.

    From `held` on there are up to ``size[0]`` lines, ``size[1]`` bytes, of each. `ends` tells whether the row begins
    with these, and ends with them.
    """
    lines, count = size
    for k in range(n, n + rows):
        t = goal[1] + simd_bytes.integer(goal[0] + 8 * k)
        phase = t & 63
        first = simd_bytes.load(held - phase)
        if goal[2]:
            kept = goal[2] + 64 * k
            if not ends[0]:
                first = simd_bytes.blend(phase, simd_bytes.load(kept + 64 - phase), first)
            simd_bytes.store(kept, simd_bytes.load(held + 64 * lines - 64))
        simd_bytes.store(room + _SQUARE, first)
        for j in range(64, 64 * lines + 64, 64):
            simd_bytes.store(room + _SQUARE + j, simd_bytes.load(held - phase + j))
        _write_end(t - phase, phase, room + _SQUARE, count, ends)
        held += 64 * lines


@part
def _write_end(line, phase, held, count, ends):
    """The same for one row, of which `held` belongs to `line`, from its byte `phase` on new."""
    stop = phase + count
    done = ZERO
    if ends[0] and phase:
        done = min(64, stop)
        move_run(line + phase, held + phase, done - phase)
    while done + 64 <= stop:
        simd_bytes.put(line + done, simd_bytes.load(held + done), _PAST)
        done += 64
    if ends[1]:
        move_run(line + done, held + done, stop - done)


# --- widths ---------------------------------------------------------------------------------------------------------


def _turning(width, whole, some):
    @part
    def turn(sources, source, targets, target, room, others, present):
        """Turn what is present (rows, columns) of a square; of a small part of one, alone."""
        if _asks(width, present[0], present[1]):
            whole(sources, source, targets, target, room, *others)
            return
        some(sources, source, targets, target, room, present[0], present[1])

    return turn


_zips8, _pick8 = few_rows(8)
_zips16, _pick16 = few_rows(16)
_zips32, _pick32 = few_rows(32)
_zips64, _pick64 = few_rows(64)


@part
def _turn64(sources, source, targets, target, room, others, present):
    block_transpose.turn64(sources, source, targets, target, room, *others)


_turn8 = _turning(1, block_transpose.turn8, block_transpose.turn_part8)
_turn16 = _turning(2, block_transpose.turn16, block_transpose.turn_part16)
_turn32 = _turning(4, block_transpose.turn32, block_transpose.turn_part32)

ARGUMENTS = (BYTES, WRITABLE, TABLE, LIST, LIST, TABLE, TABLE, NUMBER, WRITABLE)


@kernel(*ARGUMENTS)
def transpose8(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 8 bits."""
    tables = outer, source_rows, target_rows, p_pieces, q_pieces
    _transpose(_turn8, _zips8, _pick8, 1, source, target, tables, streaming, scratch)


@kernel(*ARGUMENTS)
def transpose16(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 16 bits."""
    tables = outer, source_rows, target_rows, p_pieces, q_pieces
    _transpose(_turn16, _zips16, _pick16, 2, source, target, tables, streaming, scratch)


@kernel(*ARGUMENTS)
def transpose32(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 32 bits."""
    tables = outer, source_rows, target_rows, p_pieces, q_pieces
    _transpose(_turn32, _zips32, _pick32, 4, source, target, tables, streaming, scratch)


@kernel(*ARGUMENTS)
def transpose64(source, target, outer, source_rows, target_rows, p_pieces, q_pieces, streaming, scratch):
    """Elements of 64 bits."""
    tables = outer, source_rows, target_rows, p_pieces, q_pieces
    _transpose(_turn64, _zips64, _pick64, 8, source, target, tables, streaming, scratch)
