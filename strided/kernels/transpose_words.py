"""Transposes of words that rows share on both sides, where the words of one side are the rows of the other.

As with ``s4[m,n]`` from ``{1,0:T(8,128)(8,1)E(4)}`` to ``{0,1:T(8,128)(8,1)E(4)}``: eight words of the source that
follow each other, which eight rows share, are eight words of the target. Such a block of 32 bytes is itself a square of
elements, to be turned. One of 16 bits has 8 bytes, one of bytes 16; one of 2 bits is a line, one of single bits two.

The tables are those of `transpose`, with blocks for elements. They are so wide that little is needed: for a run of the
target some blocks, each from another row of the source. Those that share its lines go to the next runs at once.
Of 16 bits they are narrower: `transpose_pairs` is faster where there are many rows and columns.
"""

from __future__ import annotations

from typing import NamedTuple

from llvmlite import ir
from numba.core import types

from strided.kernels import simd_bytes
from strided.kernels.compile import BYTES, LIST, NUMBER, TABLE, WRITABLE, ZERO, kernel, part, separate
from strided.kernels.exchange_rows import exchanged
from strided.kernels.held_run import move_end
from strided.kernels.llvm import (
    INT64,
    INTEGER,
    LINE,
    VECTOR,
    Vector,
    as_bytes,
    concatenated,
    entries,
    loaded,
    operation,
    put_lines,
    same,
    shuffled,
    splat,
)
from strided.kernels.put_words import EVERY_BIT, mask_of, put_masked
from strided.kernels.squares import transposed
from strided.kernels.transpose_squares import (
    HELD,
    SPILL,
    SQUARE,
    TARGETS,
    Bounds,
    Following,
    Here,
    Rows,
    ask,
    asking,
    matrices_ahead,
    passes,
    sources_of,
    wanted_at,
)

_ARGUMENTS = (BYTES, WRITABLE, TABLE, LIST, LIST, TABLE, TABLE, NUMBER, NUMBER, NUMBER, WRITABLE)
#: Those of packed elements: `high_first` as in `packed_runs`, besides. (With ``& 1`` LLVM knows that it is 0 or 1.)
_PACKED_ARGUMENTS = (*_ARGUMENTS, NUMBER)

#: Bytes of a run of the target that are written before those of the next one.
_RUN = 512
#: Bytes of rows, and of matrices, up to which the same part of the next ones is asked for, not the next part.
_NEXT = 1 << 16
#: Runs of the target until one is written whose end is asked for.
_ENDS_AHEAD = 8

_WORDS = VECTOR.of(32)


class _Group(NamedTuple):
    """Rows of the source that are moved together: their part of the table, and how many these are."""

    rows: int
    count: int
    #: Where they begin in the source, and their blocks in runs of the target.
    s: int
    t: int
    #: Words that are wanted of the last block.
    last: int


class _Words(NamedTuple):
    """What is there of the last block of each row."""

    #: How many words, and the bits that are written of a word of what they become.
    count: int
    mask: int


def _turned_in_bytes(builder, line, bits, flip):
    """A line of words, of which neighbours, and then those twice as far apart, exchange what lies as far in a byte.

    `flip` is not 0 where the first element of a byte lies in its high bits.
    """
    is_high = splat(builder, builder.icmp_signed("!=", flip, INT64(0)), ir.VectorType(ir.IntType(1), _WORDS.count))
    step = 1
    while step * bits < 8:
        apart = step * bits
        low = sum(((1 << apart) - 1) << k for k in range(0, 32, 2 * apart))
        # Of the first and of the second word of a pair: bits that stay, that come from below, and from above.
        first, second = (low, low << apart, 0), (low << apart, 0, low)

        def bits_of(part, pair, step=step):
            return ir.Constant(_WORDS, [pair[k & step > 0][part] for k in range(_WORDS.count)])

        stay, up, down = (
            builder.select(is_high, bits_of(part, (second, first)), bits_of(part, (first, second))) for part in range(3)
        )
        other = shuffled(builder, line, line, [k ^ step for k in range(_WORDS.count)])
        raised = builder.and_(builder.shl(other, same(_WORDS, apart)), up)
        lowered = builder.and_(builder.lshr(other, same(_WORDS, apart)), down)
        line = builder.or_(builder.and_(line, stay), builder.or_(raised, lowered))
        step *= 2
    return line


def _turned(builder, line, bits, flip):
    """A line of blocks with each turned; of a block of two lines, as far as what changes places lies in one."""
    unit = VECTOR.of(max(8, bits))
    line = builder.bitcast(_turned_in_bytes(builder, builder.bitcast(line, _WORDS), bits, flip), unit)
    # Whole bytes, or elements, are left: as many rows and columns of them, in words so far apart.
    each, side, units = max(1, 8 // bits), min(32 // bits, _WORDS.count), 32 // unit.element.width
    count = side // each
    picks = []
    for place in range(unit.count):
        word, column = divmod(place, units)
        row, near = divmod(word % side, each)
        from_word = word // side * side + column % count * each + near
        picks.append(units * from_word + column // count * count + row)
    return as_bytes(builder, shuffled(builder, line, line, picks))


def _turn(bits):
    block = 128 // bits
    together = max(1, LINE // block)

    @operation(types.void, *[INTEGER] * 5)
    def turn(builder, rows, source, target, flip, streaming):
        """Turn a line of blocks, or two lines of one, to `target`; past the caches or not.

        The blocks lie at offsets from a table, which begins at `rows`, with `source` added to them.
        """
        places = entries(builder, rows, source, together)
        if block > LINE:
            lines = [loaded(builder, builder.add(*places, INT64(k)), VECTOR) for k in (0, LINE)]
        else:
            lines = [concatenated(builder, [loaded(builder, place, Vector(block)) for place in places])]
        made = [_turned(builder, line, bits, flip) for line in lines]
        if len(made) > 1:
            halves = exchanged(builder, [builder.bitcast(line, _WORDS) for line in made], 16)
            made = [as_bytes(builder, line) for line in halves]
        put_lines(builder, made, [builder.add(target, INT64(LINE * k)) for k in range(len(made))], streaming)

    @operation(types.void, *[INTEGER] * 6)
    def turn_square(builder, rows, source, places, target, flip, streaming):
        """Turn the blocks of a line of as many rows as it has blocks, to as many; past the caches or not.

        These begin at offsets from a table, too, at `places`, with `target` added to them.
        """
        lines = [
            loaded(builder, place, VECTOR, min(64, 8 * block)) for place in entries(builder, rows, source, together)
        ]
        made = [_turned(builder, line, bits, flip) for line in transposed(builder, lines)]
        put_lines(builder, made, entries(builder, places, target, together), streaming)

    return turn, turn_square


turn_blocks16, turn_square16 = _turn(16)
turn_blocks8, turn_square8 = _turn(8)
turn_blocks4, turn_square4 = _turn(4)
turn_blocks2, _ = _turn(2)
turn_blocks1, _ = _turn(1)


@part
def _never(rows, source, places, target, flip, streaming):
    """In place of what turns a square, for blocks that are no part of a line."""


@part
def _transpose(turn, square, shared, source, target, tables, members, streaming, scratch, flip):
    """Copy what the tables describe, in blocks of as many words as rows share one.

    `members` tells how many words are wanted of the last block of a run of the target, and of the source how many words
    the last block of a row has.
    """
    (_, matrices), (_, q_count), (_, p_count), _, (q_pieces, across) = tables
    row = 4 * shared * p_count
    on = matrices_ahead(q_count * row)
    there = _Words(members[1], mask_of(members[1], shared, flip))
    room = simd_bytes.address(scratch) + 63 & -64
    bounds = Bounds(simd_bytes.address(source), simd_bytes.address(source) + source.size, ZERO + 1)
    starts = bounds.begin, simd_bytes.address(target)
    for o in range(matrices):
        later = min(o + on, matrices - 1)
        for j in range(across):
            q = ZERO
            while q < simd_bytes.cell(q_pieces, j, 2):
                here = _group(shared, tables, starts, members[0], (o, j, q))
                if q_count * row <= _NEXT:
                    then = _group(shared, tables, starts, members[0], (later, j, q))
                else:
                    then = _group(shared, tables, starts, members[0], _behind(tables, o, later, j, q + here.count))
                _move(turn, square, shared, tables, here, then, there, streaming, room, bounds, flip)
                q += here.count
    if streaming:
        simd_bytes.fence()


@part
def _group(shared, tables, starts, words, place):
    """The group from row `q` of a piece on: ``o, j, q = place``. At the end of a run, `words` are wanted."""
    (outer, _), (source_rows, _), _, _, (q_pieces, across) = tables
    o, j, q = place
    left = simd_bytes.cell(q_pieces, j, 2) - q
    # Few that would be left over go with the others.
    count = left if 8 * shared * left <= 3 * _RUN else ZERO + _RUN // (4 * shared)
    last = words if j + 1 == across and count == left else ZERO + shared
    rows = source_rows + 8 * (simd_bytes.cell(q_pieces, j, 1) + q)
    t = starts[1] + simd_bytes.cell2(outer, o, 1) + simd_bytes.cell(q_pieces, j, 0) + 4 * shared * q
    return _Group(rows, count, starts[0] + simd_bytes.cell2(outer, o, 0), t, last)


@part
def _behind(tables, o, later, j, q):
    """The place behind a group of rows that ends before row `q`; behind the last one of a matrix, that of `later`."""
    _, _, _, _, (q_pieces, across) = tables
    if q < simd_bytes.cell(q_pieces, j, 2):
        return o, ZERO + j, q
    if j + 1 < across:
        return o, ZERO + j + 1, ZERO
    return later, ZERO, ZERO


@part
def _move(turn, square, shared, tables, here, then, there, streaming, room, bounds, flip):
    """Move some rows, and ask for those wanted `then`."""
    _, _, (target_rows, p_count), (p_pieces, along), _ = tables
    rows, count, s, t, _ = here
    width = 4 * shared
    # What is read in little time is asked for while the same piece of rows before it is, since pieces differ in size.
    near = count * p_count * width <= _NEXT
    _, ended, _, begin, words = then if near else here
    stop = begin + ended * width - 4 * (shared - words)
    if streaming and p_count and there.count < shared:
        # All of the last run is read before it is written.
        for line in range(-ended * width, 63, 64):
            simd_bytes.prefetch(stop + simd_bytes.item(target_rows, p_count - 1) + line)
    for i in range(along):
        size, first = simd_bytes.cell(p_pieces, i, 2) * width, simd_bytes.cell(p_pieces, i, 1)
        n = i if near else (i + 1) % along
        ahead, many, base, _, _ = then if near or n == 0 else here
        following = Following(
            ahead,
            base + simd_bytes.cell(p_pieces, n, 0),
            many,
            simd_bytes.cell(p_pieces, n, 2) * width + 63 >> 6,
        )
        at = s + simd_bytes.cell(p_pieces, i, 0)
        whole = size - width if there.count < shared and i + 1 == along else size
        plan = asking(Here(rows, at, count), following, size + 63 >> 6, ZERO + 1, 64, bounds)
        done = ZERO
        while done < size:
            for line in range(done + 63 >> 6, done + width + 63 >> 6):
                ask(wanted_at(plan, line), ZERO, False)
            p = first + done // width
            if streaming:
                _ask_for_ends(tables[2], p if near else p + _ENDS_AHEAD, max(1, 16 // shared), stop)
            blocks = (size - done) // width, (whole - done) // width
            goals = target_rows + 8 * p, t
            done += width * _put_some_runs(
                turn, square, shared, here, at + done, goals, blocks, there, streaming, room, bounds, flip
            )


@part
def _put_some_runs(turn, square, shared, here, at, goals, blocks, there, streaming, room, bounds, flip):
    """Write as many runs as a line of a row has blocks, or as there are; how many.

    `blocks` tells how many are left of a row, and how many of these are whole, from `at` on; `goals` where the table of
    the runs' offsets goes on, and what is added to these. The others are as for `_move`.
    """
    rows, count, _, _, last = here
    together = 16 // shared  # blocks of a line; one has more
    if together > 1 and blocks[1] >= together:
        _put_runs(square, shared, (rows, count), at, goals, last, streaming, room, flip)
        return ZERO + together
    if together > 1 and not passes(Rows(rows, at), count, bounds):
        runs = min(blocks[0], together)
        some = runs, min(runs, blocks[1])
        _put_last(square, shared, here, at, goals, some, there.mask, streaming, room, flip)
        return runs
    goal = goals[1] + simd_bytes.integer(goals[0])
    if blocks[1] > 0:
        _put_run(turn, shared, (rows, count), at, goal, last, streaming, room, flip)
    else:
        _put_some(turn, shared, (rows, count), at, goal, (last, there.count), there.mask, room, flip)
    return ZERO + 1


@part
def _ask_for_ends(runs, first, count, stop):
    """Ask for the lines in which some runs of the target end, and which they do not fill: `count` from `first` on."""
    places, most = runs
    for p in range(first, min(first + count, most)):
        end = stop + simd_bytes.item(places, p)
        if end & 63:
            simd_bytes.prefetch(end)


@part
def _put_run(turn, shared, here, at, to, last, streaming, room, flip):
    """Write a run of blocks at `to`, one from each row, `at` bytes from where the table says.

    Of the last one `last` words are wanted.
    """
    rows, count = here
    width = 4 * shared
    past = ZERO + (streaming != 0 and to & 63 == 0)
    together = max(1, 64 // width)
    part = ZERO + (last < shared)
    for k in range(0, count - part - together + 1, together):
        turn(rows + 8 * k, at, to + width * k, flip, past)
    left = (count - part) % together + part
    if left:
        some = sources_of(Rows(rows + 8 * (count - left), at), left, ZERO + together, room)
        turn(some, at, room + SQUARE, flip, ZERO)
        move_end(to + width * (count - left), room + SQUARE, left * width - 4 * (shared - last))


@part
def _put_runs(square, shared, here, at, goals, last, streaming, room, flip):
    """The same for a line of blocks of each row, at once: each block of a line begins, or goes on with, another run."""
    rows, count = here
    places, to = goals
    width = 4 * shared
    together = max(1, 64 // width)
    phases = ZERO
    for k in range(together):
        phases |= to + simd_bytes.item(places, k)
    past = ZERO + (streaming != 0 and phases & 63 == 0)
    whole = count - (last < shared)
    whole -= whole % together
    for k in range(0, whole, together):
        square(rows + 8 * k, at, places, to + width * k, flip, past)
    if whole < count:
        some = sources_of(Rows(rows + 8 * whole, at), count - whole, ZERO + together, room)
        for k in range(together):
            simd_bytes.put_item(room + TARGETS, k, 64 * k)
        square(some, at, room + TARGETS, room + SQUARE, flip, ZERO)
        size = (count - whole) * width - 4 * (shared - last)
        for k in range(together):
            move_end(to + simd_bytes.item(places, k) + width * whole, room + SQUARE + 64 * k, size)


@separate
def _put_last(square, shared, here, at, goals, runs, mask, streaming, room, flip):
    """The same for the blocks of a line that are left, from where each row has a line that may be read.

    `runs` tells how many there are, and how many of these are written as a whole; of the words of the others no more
    than `mask`.
    """
    rows, count, _, _, last = here
    places, to = goals
    width = 4 * shared
    together = 64 // width
    for k in range(together):
        simd_bytes.put_item(room + TARGETS, k, 2 * _RUN * k)
    for k in range(0, count, together):
        some = sources_of(Rows(rows + 8 * k, at), min(together, count - k), ZERO + together, room)
        square(some, at, room + TARGETS, room + HELD + width * k, flip, ZERO)
    size = count * width - 4 * (shared - last)
    for k in range(runs[0]):
        goal, made, done = to + simd_bytes.item(places, k), room + HELD + 2 * _RUN * k, ZERO
        if k < runs[1] and goal & 63 == 0:
            while done + 64 <= size:
                simd_bytes.put(goal + done, simd_bytes.load(made + done), streaming)
                done += 64
        while done < size:
            some = mask if k >= runs[1] else ZERO + EVERY_BIT
            put_masked(goal + done, made + done, min(64, size - done), some, shared, ZERO, room + SPILL)
            done += 64


@separate
def _put_some(turn, shared, here, at, to, members, mask, room, flip):
    """The same where blocks have fewer words than rows share one: of each word that is written, no more than `mask`.

    `members`: words of the last block that are wanted, and words that each has.
    """
    rows, count = here
    last, there = members
    width, together = 4 * shared, max(1, 16 // shared)
    for k in range(together):
        simd_bytes.put_item(room + TARGETS, k, width * k)
    for k in range(0, count, together):
        now = min(together, count - k)
        for n in range(now):
            simd_bytes.move(room + SPILL + width * n, at + simd_bytes.integer(rows + 8 * (k + n)), 4 * there)
        turn(room + TARGETS, room + SPILL, room + SQUARE, flip, ZERO)
        size = now * width - (4 * (shared - last) if k + now == count else ZERO)
        for line in range(0, size, 64):
            goal = to + width * k + line
            put_masked(goal, room + SQUARE + line, min(64, size - line), mask, shared, ZERO, room + SPILL + 1024)


@kernel(*_ARGUMENTS)
def transpose_words16(
    source, target, outer, source_rows, target_rows, p_pieces, q_pieces, in_source, in_target, streaming, scratch
):
    """Words that two rows of 16 bits share on both sides."""
    tables = simd_bytes.tables(outer, source_rows, target_rows, p_pieces, q_pieces)
    members = in_source, in_target
    _transpose(turn_blocks16, turn_square16, 2, source, target, tables, members, streaming, scratch, ZERO)


@kernel(*_ARGUMENTS)
def transpose_words8(
    source, target, outer, source_rows, target_rows, p_pieces, q_pieces, in_source, in_target, streaming, scratch
):
    """Words that four rows of 8 bits share on both sides."""
    tables = simd_bytes.tables(outer, source_rows, target_rows, p_pieces, q_pieces)
    members = in_source, in_target
    _transpose(turn_blocks8, turn_square8, 4, source, target, tables, members, streaming, scratch, ZERO)


@kernel(*_PACKED_ARGUMENTS)
def transpose_words4(
    source,
    target,
    outer,
    source_rows,
    target_rows,
    p_pieces,
    q_pieces,
    in_source,
    in_target,
    streaming,
    scratch,
    high_first,
):
    """Words that eight rows of 4 bits share on both sides."""
    tables = simd_bytes.tables(outer, source_rows, target_rows, p_pieces, q_pieces)
    members = in_source, in_target
    _transpose(turn_blocks4, turn_square4, 8, source, target, tables, members, streaming, scratch, high_first & 1)


@kernel(*_PACKED_ARGUMENTS)
def transpose_words2(
    source,
    target,
    outer,
    source_rows,
    target_rows,
    p_pieces,
    q_pieces,
    in_source,
    in_target,
    streaming,
    scratch,
    high_first,
):
    """Words that sixteen rows of 2 bits share on both sides."""
    tables = simd_bytes.tables(outer, source_rows, target_rows, p_pieces, q_pieces)
    members = in_source, in_target
    _transpose(turn_blocks2, _never, 16, source, target, tables, members, streaming, scratch, 3 * (high_first & 1))


@kernel(*_PACKED_ARGUMENTS)
def transpose_words1(
    source,
    target,
    outer,
    source_rows,
    target_rows,
    p_pieces,
    q_pieces,
    in_source,
    in_target,
    streaming,
    scratch,
    high_first,
):
    """Words that 32 rows of single bits share on both sides."""
    tables = simd_bytes.tables(outer, source_rows, target_rows, p_pieces, q_pieces)
    members = in_source, in_target
    _transpose(turn_blocks1, _never, 32, source, target, tables, members, streaming, scratch, 7 * (high_first & 1))
