"""Long rows taken out of words that they share, past the caches: span by span, and each span in two steps.

The words of some rows are taken apart into the scratch, a span of every row. Then row by row is written from there by
whole lines: what is left of a line goes before the next span. So it is all the same where in a line a row begins.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from strided.kernels import simd_bytes
from strided.kernels.compile import ZERO, part, separate
from strided.kernels.held_run import NONE, Run, begun_at, finish, put_at
from strided.kernels.lines_ahead import ask_for, ask_for_ends, place_of
from strided.kernels.llvm import asks_near
from strided.kernels.tables import begin
from strided.kernels.word_lines import OWN, Words, all_follow, near, put_place, ragged, row_bytes, sharing, take

# Bytes of each row that are taken apart at once, and rows at least, if there are as many: short turns keep memory busy.
_SPAN, _ROWS = 512, 8
# Bytes of the source that are asked for ahead, and those of short pieces: half of them while words are taken apart, the
# others while rows are written. The first-level cache keeps fewer.
_AHEAD, _AHEAD_FEW = 1 << 13 if asks_near() else 1 << 14, 1 << 12
# Words of pieces below which these lie in too few lines for the second-level cache.
_FEW = 64
# Most rows of a block.
_MOST = 64
# The scratch: where words are and how many rows come before each, where rows go, the lines in which these begin, the
# line between two rows, places that are asked for, the steps of a span, and rows, each behind a line: what the span
# before has left of one.
_WORDS, _PLACES, _HEADS, _HELD, _ASKED = OWN, OWN + 1600, OWN + 3200, OWN + 7296, OWN + 7552
_STEPS, _LEFT, _PITCH = OWN + 15744, OWN + 19840, 576
# Where the list of what is asked for leaves room for no more than words ask for of their own row.
_FULL = _STEPS - 3072
_TAKEN = _LEFT + 64
# The int64 of a step of a span: see `_plan_span`. The last ones are a `_Place`.
_STEP_WORDS, _STEP_LANES, _STEP_WANTED, _STEP_LATER, _STEP_AHEAD = 0, 1, 2, 3, 4


class _Walk(NamedTuple):
    """The way through the tables: a block of rows of a matrix, and how their pieces are asked for."""

    outer: Any
    rows: Any
    pieces: Any
    #: The matrix, the first row of the block, and how many rows it has.
    o: int
    i: int
    count: int
    #: Lanes by which pieces are asked for: see `_unit`.
    unit: int
    #: Whether pieces have few words.
    few: int


class _Place(NamedTuple):
    """A lane of a piece in a later block: how many blocks on, and bytes of the source to there."""

    piece: int
    lane: int
    blocks: int
    far: int


class _Block(NamedTuple):
    """Rows of the target that are written side by side."""

    #: The address of their part of the table, and that from which their offsets count.
    rows: int
    origin: int
    count: int
    #: Bytes of each.
    size: int


class _Plan(NamedTuple):
    """The steps of a span: how many, and what is asked for of the next block's words, as `_more_words` tells."""

    count: int
    times: int
    jump: int


@part
def take_long(unzip, shared, width, least, source, target, tables, scratch, how):
    """Copy what `tables` describe to a streamed target, if its rows have `least` bytes; whether it was done.

    The other arguments are as for `word_rows.take_apart`.
    """
    outer, rows, pieces, _, _ = tables
    size = row_bytes(pieces, width)
    if size < least:
        return False
    room = simd_bytes.address(scratch) + 63 & -64
    starts = simd_bytes.address(source), simd_bytes.address(target)
    shape = Words(ZERO + shared, ZERO + width, size, room, starts[0] + source.size)
    for k in range(shared):
        put_place(room, k, room + _TAKEN + k * _PITCH)
    asks, held = not all_follow(outer, rows, size), NONE
    unit, few = _unit(pieces, width), ZERO + (pieces[len(pieces) >> 1, 2] < _FEW)
    widest = ZERO
    for o in range(len(outer)):
        origin = starts[0] + outer[o, 0], starts[1] + outer[o, 1] + pieces[0, 1]
        i = ZERO
        while i < len(rows):
            last = max(near(rows, i, pieces), min(i + _ROWS, len(rows)))
            words, count = _block(rows, i, last, shared, room)
            widest = max(widest, words)
            block = _Block(begin(rows) + 24 * i, origin[1], count, size)
            for n in range(i + count, i + 2 * count if asks else ZERO):
                ask_for_ends(starts[1] + place_of(outer, rows, o, n, 1) + pieces[0, 1], size)
            walk = _Walk(outer, rows, pieces, o, i, count, unit, few)
            here, done = (ZERO, ZERO), ZERO
            while done < size:
                here, some, plan = _plan_span(walk, here, words, widest, width, room + _STEPS)
                for w in range(0, words, max(1, _ROWS // shared)):
                    band = w, min(words, w + max(1, _ROWS // shared))
                    asked = _take_span(unzip, shape, origin[0], band, walk, plan, how)
                    _write_span(block, band, done, some, asked, few, room)
                done += some
            held = _join(block, held, room)
            i += count
    finish(held, ZERO + 1, room + _HELD)
    simd_bytes.fence()
    return True


@part
def _block(rows, i, last, shared, room):
    """Choose rows from row `i` on that go side by side: how many words they share, and how many they are."""
    words, count = ZERO, ZERO
    while words < _MOST // shared and i + count < last:
        simd_bytes.put_integer(room + _WORDS + 24 * words, rows[i + count, 0])
        put_place(room + _WORDS, words, count)
        for _ in range(sharing(rows, i + count, last)):
            put_place(room + _PLACES, count, room + _TAKEN + (words * shared + rows[i + count, 2]) * _PITCH)
            count += 1
        words += 1
    put_place(room + _WORDS, words, count)
    return words, count


@part
def _ahead(walk, here, words, width):
    """What is taken apart so much later than a piece's lane: a piece's lane, so many blocks on, and bytes to these."""
    p, c = here
    most = _AHEAD_FEW if walk.few else _AHEAD
    return _gone(walk, _Place(p, ZERO, ZERO, ZERO), c + max(1, most * width // (4 * words * _SPAN)) * _SPAN // width)


@part
def _unit(pieces, width):
    """Lanes by which pieces are asked for: all of short ones, a line's of long ones, 1 where some end inside lines.

    Those at the ends may be shorter than the others. They count as whole units: what is asked for begins with a piece
    where what is read does.
    """
    if ragged(pieces, width) > 0:
        return ZERO + 1
    most = pieces[len(pieces) >> 1, 2]
    alike = most >= max(1, pieces[0, 2], pieces[len(pieces) - 1, 2]) and not most & most - 1
    return most if alike and most * width <= _SPAN else ZERO + 64 // width


@part
def _units(lanes, unit):
    """Lanes by whole units."""
    return lanes + unit - 1 & -unit


@part
def _gone(walk, place, lanes):
    """A place as `_ahead` tells it, so many lanes on."""
    outer, rows, pieces, o, i, count, unit, _ = walk
    p, c, blocks, far = place
    c += lanes
    while c >= _units(pieces[p, 2], unit):
        c -= _units(pieces[p, 2], unit)
        p += 1
        if p == len(pieces):
            p, blocks = ZERO, blocks + 1
            far = place_of(outer, rows, o, i + blocks * count, 0) - place_of(outer, rows, o, i, 0)
    return _Place(p, c, blocks, far)


@part
def _plan_span(walk, here, words, widest, width, steps):
    """Write down the steps of a span from a piece's lane on: where it ends, the bytes of a row, and how to do it.

    A step is where its words are, how many lanes are taken apart, how many are asked for meanwhile, and where these
    are. What is written of a line behind a piece, the next piece overwrites; the span ends where it could not be kept.
    """
    pieces, unit = walk.pieces, walk.unit
    each, (p, c), size, count, asked = 64 // width, here, ZERO, ZERO, ZERO
    ahead = _ahead(walk, here, widest, width)
    while p < len(pieces) and size <= _SPAN - 64 and count < _MOST:
        some = min(pieces[p, 2] - c, (_SPAN - size >> 6) * each)
        if unit > 1:
            some = min(some, _units(pieces[ahead.piece, 2], unit) - ahead.lane)
        on = _units(pieces[p, 2], unit) - c if c + some == pieces[p, 2] else some
        # No more than the list of what is asked for has room for.
        wanted = min(on, pieces[ahead.piece, 2] - ahead.lane, 3 * _SPAN // width - asked)
        step = pieces[p, 0] + 4 * c, some, wanted, ahead.far + pieces[ahead.piece, 0] + 4 * ahead.lane
        for k in range(4):
            simd_bytes.put_item(steps + 64 * count, ZERO + k, step[k])
            simd_bytes.put_item(steps + 64 * count, ZERO + _STEP_AHEAD + k, ahead[k])
        ahead, count, size, asked = _gone(walk, ahead, on), count + 1, size + some * width, asked + max(ZERO, wanted)
        c += some
        if c == pieces[p, 2]:
            p, c = p + 1, ZERO
    times, jump = _more_words(walk, words, widest)
    return (p, c), size, _Plan(count, times, jump)


@part
def _more_words(walk, words, widest):
    """How many words of the next block, where that has more, are asked for by each one, and bytes between them."""
    rows, i, count = walk.rows, walk.i, walk.count
    first = sharing(rows, ZERO, len(rows))
    if words >= widest or i + count < len(rows) or first >= len(rows):
        return ZERO + 1, ZERO
    return (widest + words - 1) // words, (rows[first, 0] - rows[0, 0]) * words


@part
def _take_span(unzip, shape, start, band, walk, plan, how):
    """Take the steps of a span with a band of words; the end of the list of what is to be asked for.

    Of pieces that end inside lines, no others are asked for and read than those with something that is wanted.
    """
    shared, width, room = shape.shared, shape.width, shape.room
    each, asked, size = 64 // width, room + _ASKED, ZERO
    for n in range(plan.count):
        step = room + _STEPS + 64 * n
        words, some = simd_bytes.item(step, ZERO + _STEP_WORDS), simd_bytes.item(step, ZERO + _STEP_LANES)
        wanted, later = simd_bytes.item(step, ZERO + _STEP_WANTED), simd_bytes.item(step, ZERO + _STEP_LATER)
        begun = _Place(
            simd_bytes.item(step, ZERO + _STEP_AHEAD),
            simd_bytes.item(step, ZERO + _STEP_AHEAD + 1),
            simd_bytes.item(step, ZERO + _STEP_AHEAD + 2),
            simd_bytes.item(step, ZERO + _STEP_AHEAD + 3),
        )
        for w in range(band[0], band[1]):
            word, at = start + simd_bytes.cell(room + _WORDS, w, 0), w * shared * _PITCH + size
            if walk.unit == 1:
                ahead = begun
                for k in range(0, some, each):
                    s, lanes = word + words + 4 * k, min(each, some - k)
                    ahead, asked = _ask(walk, ahead, word, lanes, asked, room + _STEPS)
                    take(unzip, shape, s, lanes, 4 * lanes, room, at + k * width, how)
                continue
            for k in range(0, some, each):
                if k < wanted:
                    asked = _ask_lines(word + later + 4 * k, each, asked)
                take(unzip, shape, word + words + 4 * k, min(each, some - k), 4 * each, room, at + k * width, how)
            for k in range(_units(some, each), wanted, each):
                asked = _ask_lines(word + later + 4 * k, each, asked)
            for m in range(1, plan.times if begun.blocks else ZERO):
                for k in range(0, wanted if asked < room + _FULL else ZERO, each):
                    asked = _ask_lines(word + later + 4 * k + m * plan.jump, each, asked)
        size += some * width
    return asked


@part
def _ask_lines(begin, lanes, asked):
    """Ask for so many words, whole lines: every other one now, those between are added to a list, which has room."""
    for line in range(begin, begin + 4 * lanes, 128):
        simd_bytes.prefetch(line)
        simd_bytes.put_integer(asked, line + 64)
        asked += 8
    return asked


@part
def _ask(walk, ahead, word, lanes, asked, end):
    """Ask for so many lanes of words: every other line now, those between are added to a list, at most up to `end`.

    The answer is what comes next.
    """
    pieces, few = walk.pieces, walk.few
    while lanes > 0:
        p, c, _, far = ahead
        some, s = min(lanes, pieces[p, 2] - c), word + far + pieces[p, 0] + 4 * c
        for line in range(s & -64 if c == 0 else s + 63 & -64, s + 4 * some, 128):
            ask_for(line, few)
            if line + 64 < s + 4 * some and asked < end:
                simd_bytes.put_integer(asked, line + 64)
                asked += 8
        lanes -= some
        ahead = _gone(walk, ahead, some)
    return ahead, asked


@part
def _write_span(block, band, done, size, asked, few, room):
    """Write the whole lines of a span of rows, but for the one in which a row begins, after `done` bytes of each."""
    rows, origin = block.rows, block.origin
    now = room + _ASKED
    for n in range(simd_bytes.cell(room + _WORDS, band[0], 1), simd_bytes.cell(room + _WORDS, band[1], 1)):
        t, place = origin + simd_bytes.cell(rows, n, 1) + done, simd_bytes.cell(room + _PLACES, n, 1)
        if done < 64:
            simd_bytes.store(room + _HEADS + 64 * n, simd_bytes.load(place - done))
        line, end = max(t & -64, t - done + 63 & -64), t + size
        while line + 64 <= end:
            simd_bytes.put(line, simd_bytes.load(place + line - t), ZERO + 1)
            if line & 64 and now < asked:
                ask_for(simd_bytes.integer(now), few)
                now += 8
            line += 64
        simd_bytes.store(place - 64, simd_bytes.load(place + size - 64))
    while now < asked:
        ask_for(simd_bytes.integer(now), few)
        now += 8


@separate
def _join(block, held, room):
    """Write the lines in which rows of a block begin and end, each row's last line with the next one's first."""
    rows, origin, count, size = block
    for k in range(2 * count):
        n = k >> 1
        t, source = origin + simd_bytes.cell(rows, n, 1), room + _HEADS + 64 * n
        some = -t & 63
        if k & 1:
            some = t + size & 63
            t, source = t + size - some, simd_bytes.cell(room + _PLACES, n, 1) - some
        if some:
            begin, end, base = begun_at(held, t, ZERO + 1, room + _HELD)
            simd_bytes.store(put_at(Run(begin, end, base), room + _HELD), simd_bytes.load(source))
            end += some
            held = Run(begin, end, base)
            if not end & 63:
                finish(held, ZERO + 1, room + _HELD)
                held = Run(end, end, end)
    return held
