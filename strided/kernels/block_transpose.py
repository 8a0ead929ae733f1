"""Square blocks whose sides are a line of 64 bytes, transposed in registers.

A processor looks ahead over some hundred instructions only: what is asked for or streamed in one go is waited for. So
with each line that is turned, one that is wanted later is asked for and one that was turned before is written.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types

from strided.kernels.llvm import (
    INT64,
    INTEGER,
    LINE,
    VECTOR,
    Vector,
    as_bytes,
    ask_for,
    blended,
    concatenated,
    function_of,
    joined,
    loaded,
    operation,
    pointer_to,
    register_bytes,
    shuffled,
    stream,
    units,
    wall,
)


def transposed(builder, rows):
    """A square, one line of 64 bytes a row, with rows and columns exchanged: a line has as many columns as rows.

    Columns of less than 16 bytes change places within these first, where every CPU has instructions for it.
    """
    bits = 8 * LINE // len(rows)
    each = max(1, 128 // bits)
    groups = [units(builder, rows[k : k + each], bits, max(128, bits)) for k in range(0, len(rows), each)]
    columns = [_runs_exchanged(builder, own, own[0].type.count // len(own)) for own in zip(*groups, strict=True)]
    return [column for some in zip(*columns, strict=True) for column in some]


def _runs_exchanged(builder, lines, each):
    """The same for one, two or four lines with as many columns of so many elements of the vectors."""
    if len(lines) == 1:
        return list(lines)
    halves = []
    for odd in (0, 1):  # even columns of two lines, side by side, and odd ones: these of two pairs are sorted so again
        picks = [k for k in range(2 * lines[0].type.count) if k // each % 2 == odd]
        pairs = [shuffled(builder, a, b, picks) for a, b in zip(lines[::2], lines[1::2], strict=True)]
        halves.append(_runs_exchanged(builder, pairs, each))
    return [column for some in zip(*halves, strict=True) for column in some]


def _columns(builder, addresses, bits):
    """The columns of elements of `bits` of 16 bytes of the rows at so many addresses, one vector a column.

    Runs of 16 bytes side by side need no exchange between parts of a register, which is dear.
    """
    run, each = Vector(16), 128 // bits
    runs = [[loaded(builder, address, run) for address in addresses[k::each]] for k in range(each)]
    return units(builder, [concatenated(builder, own) for own in runs], bits, 128)


#: Rows of which what is kept is asked for before it is wanted.
KEPT_AHEAD = 16


def row_lines(width):
    """How many lines of a row of the target are written at once: two, or what 32 rows of the source make."""
    return max(2, width // 2)


def _turn(bits, inner=0):
    """The operations that turn squares of elements of `bits`; with `inner`, each is a square of such elements itself.

    Then this is turned, too.
    """
    word = max(bits, 32)
    each, count, side = word // bits, 512 // word, 128 // bits
    across = row_lines(bits // 8)
    kind = f"{bits}_{inner}" if inner else str(bits)

    def entry(builder, table, base, *numbers):
        """An address from a table: the entry at the sum of some numbers, and `base`."""
        for number in numbers:
            table = builder.add(table, INT64(8 * number) if isinstance(number, int) else builder.shl(number, INT64(3)))
        return builder.add(builder.load(pointer_to(builder, table, INT64), align=8), base)

    def put_rows(builder, rows, addresses):
        for row, address in zip(rows, addresses, strict=True):
            builder.store(row, pointer_to(builder, address, row.type), align=1)

    def stream_rows(builder, done, done_base, held, kept, first, count, keeps):
        """Write some of the rows `done`, from the one with the number `first` on.

        With `keeps` each begins with what is kept of it, and its last 64 bytes are kept for the next time.
        """
        for row in range(count):
            number = builder.add(first, INT64(row))
            place = entry(builder, done, done_base, number)
            phase = builder.and_(place, INT64(LINE - 1))
            line = builder.sub(place, phase)
            begin = builder.add(held, builder.mul(number, INT64(across * LINE)))
            values = [
                loaded(builder, builder.sub(builder.add(begin, INT64(k * LINE)), phase), VECTOR) for k in range(across)
            ]
            if keeps:
                before = builder.add(kept, builder.mul(number, INT64(LINE)))
                last = loaded(builder, builder.sub(builder.add(before, INT64(LINE)), phase), VECTOR)
                values[0] = blended(builder, phase, last, values[0])
                value = loaded(builder, builder.add(begin, INT64((across - 1) * LINE)), VECTOR)
                builder.store(value, pointer_to(builder, before, value.type), align=LINE)
                ask_for(builder, builder.add(before, INT64(KEPT_AHEAD * LINE)), 1, write=True)
            for k, value in enumerate(values):
                stream(builder, value, pointer_to(builder, builder.add(line, INT64(k * LINE)), value.type))

    def besides(builder, others, group, lines, places):
        """Ask for some lines, and write some, of the `count` that are the share of a group of rows.

        If none are written, those are asked for that follow the lines at `places`, to be written next.
        """
        asked, ask_base, done, done_base, held, kept = others
        with builder.if_then(builder.icmp_signed("!=", asked, INT64(0))):
            for k in lines:
                row = entry(builder, asked, ask_base, builder.mul(group, INT64(count // 8)), k // 8)
                # Where a row begins within a line, that line was asked for before.
                ask_for(builder, builder.add(row, INT64(k % 8 * LINE + LINE - 1)))
        with builder.if_else(builder.icmp_signed("==", done, INT64(0))) as (alone, writing):
            with alone:
                for place in places:
                    ask_for(builder, builder.add(place, INT64(LINE)), 1, write=True)
            with writing:
                first = builder.add(builder.mul(group, INT64(count // across)), INT64(lines.start // across))
                rows = done, done_base, held, kept, first, len(lines) // across
                with builder.if_else(builder.icmp_signed("==", kept, INT64(0))) as (plain, keeping):
                    with plain:
                        stream_rows(builder, *rows, False)
                    with keeping:
                        stream_rows(builder, *rows, True)

    def put_columns(builder, addresses, places, others, group, once=False):
        """Write the columns of 16 rows of 64 bytes that lie at some addresses.

        With `once`, each row is read once if there are registers for all: where rows lie at multiples of a page, few of
        their lines stay in the first-level cache.
        """
        together = max(8, register_bytes() // 4)  # with 64 bytes, whole lines are written
        share = together // 4
        lines = []
        if once and together == count:
            lines = transposed(builder, [loaded(builder, address, VECTOR, 32) for address in addresses])
        for begin in range(0, count, together):
            own = addresses[begin : begin + together]
            for column in range(0, count, 4):
                targets = [builder.add(place, INT64(4 * begin)) for place in places[column : column + 4]]
                if lines:
                    values = lines[column : column + 4]
                else:
                    values = _columns(builder, [builder.add(row, INT64(4 * column)) for row in own], 32)
                put_rows(builder, values, targets)
                wall(builder)  # or LLVM takes on more rows at once than there are registers
                line = begin + share * column // 4
                besides(builder, others, group, range(line, line + share), () if begin else targets)

    def inner_turned(builder, line):
        """A line of elements, with each turned if it is a square of two by two."""
        if not inner:
            return line
        parts = builder.bitcast(line, VECTOR.of(inner))
        turned = [k + step for k in range(0, parts.type.count, 4) for step in (0, 2, 1, 3)]
        return builder.bitcast(shuffled(builder, parts, parts, turned), line.type)

    def square64(builder, sources, source, targets, target, room, *others):
        rows = [loaded(builder, entry(builder, sources, source, k), VECTOR, bits) for k in range(count)]
        rows = [inner_turned(builder, row) for row in rows]
        places = [entry(builder, targets, target, k) for k in range(count)]
        put_rows(builder, transposed(builder, rows), places)
        besides(builder, others, INT64(0), range(count), places)
        builder.ret_void()

    def square32(builder, sources, source, targets, target, room, *others):
        rows = [entry(builder, sources, source, k) for k in range(count)]
        places = [entry(builder, targets, target, k) for k in range(count)]
        put_columns(builder, rows, places, others, INT64(0), once=True)
        builder.ret_void()

    def put_units(builder, sources, source, room, group, first):
        """Put words made of `each` rows from `first` on into the room: for each of their runs of 16 bytes a line."""
        lines = [entry(builder, sources, source, first, k) for k in range(each)]
        rows = [loaded(builder, line, VECTOR, bits) for line in lines]
        for k, words in enumerate(units(builder, rows, bits, 32)):
            place = builder.add(room, builder.mul(builder.add(group, INT64(k * count)), INT64(LINE)))
            builder.store(words, pointer_to(builder, place, words.type), align=LINE)

    def squares(builder, sources, source, targets, target, room, *others):
        with cgutils.for_range(builder, INT64(count)) as loop:
            first = builder.mul(loop.index, INT64(each))
            put_units(builder, sources, source, room, loop.index, first)
        wall(builder)
        with cgutils.for_range(builder, INT64(each)) as loop:
            base = builder.add(room, builder.mul(loop.index, INT64(count * LINE)))
            first = builder.mul(loop.index, INT64(4))
            numbers = [k // 4 * 4 * each + k % 4 for k in range(count)]
            places = [entry(builder, targets, target, first, number) for number in numbers]
            rows = [builder.add(base, INT64(row * LINE)) for row in range(count)]
            put_columns(builder, rows, places, others, loop.index)
        builder.ret_void()

    def put_in_order(builder, sources, source, targets, target, room, wide, quarters):
        """Write all columns of 4 or 8 words, in order, as far as `wide`: so many quarters of a line of each."""
        rows = range(4 * quarters)
        if each > 1:
            turns = [[builder.add(room, INT64((turn * count + k) * LINE)) for k in rows] for turn in range(each)]
        else:
            turns = [[entry(builder, sources, source, k) for k in rows]]
        with cgutils.for_range(builder, builder.udiv(builder.add(wide, INT64(side - 1)), INT64(side))) as loop:
            along, column = builder.mul(loop.index, INT64(16)), builder.mul(loop.index, INT64(side))
            for turn, lines in enumerate(turns):
                values = _columns(builder, [builder.add(line, along) for line in lines], 32)
                put_rows(builder, values, [entry(builder, targets, target, column, 4 * turn + k) for k in range(4)])
                wall(builder)

    def put_some(builder, sources, source, targets, target, first, column, runs, columns):
        """Write some columns from `column` on, as far as `runs` times 16 bytes of rows from `first` on make them."""
        begin, goal = (
            builder.add(base, builder.mul(number, INT64(bits // 8)))
            for base, number in ((source, column), (target, first))
        )
        rows = [entry(builder, sources, begin, first, k) for k in range(runs * side)]
        places = [entry(builder, targets, goal, column, k) for k in range(columns)]
        put_rows(builder, _columns(builder, rows, bits)[:columns], places)
        wall(builder)

    def part_of_square(builder, sources, source, targets, target, room, high, wide):
        def up(number, unit):
            return builder.udiv(builder.add(number, INT64(unit - 1)), INT64(unit))

        def fits(most, number):
            return builder.if_then(builder.icmp_signed("<=", number, INT64(most)))

        def put_all(runs, columns):
            whole, across = runs * side, up(wide, columns)
            with cgutils.for_range(builder, across) as over, cgutils.for_range(builder, up(high, whole)) as down:
                first, column = builder.mul(down.index, INT64(whole)), builder.mul(over.index, INT64(columns))
                put_some(builder, sources, source, targets, target, first, column, runs, columns)
            builder.ret_void()

        most = max(2, register_bytes() // 16)
        for columns in (side // 2, side):
            with fits(columns, wide):
                for runs in dict.fromkeys((2, most)):
                    if (runs, columns) != (most, side):
                        with fits(4 * side if runs == most else runs * side, high):
                            put_all(runs, columns)
        groups = up(high, each)
        low, broad = builder.icmp_signed("<=", groups, INT64(8)), builder.icmp_signed(">", wide, INT64(side))
        with builder.if_then(builder.and_(low, broad)):
            if each > 1:
                with cgutils.for_range(builder, groups) as loop:
                    put_units(builder, sources, source, room, loop.index, builder.mul(loop.index, INT64(each)))
                wall(builder)
            for quarters in (1, 2):
                with fits(4 * quarters, groups):
                    put_in_order(builder, sources, source, targets, target, room, wide, quarters)
                    builder.ret_void()
        put_all(most, side)

    def square_of_lines(builder, sources, source, targets, target, kept, present, asked, ask_base):
        """Columns of whole lines, four at a time."""
        rows = [entry(builder, sources, source, k) for k in range(512 // bits)]
        high = min(len(rows), 8 * register_bytes() // bits)

        def columns(offset):
            addresses = [builder.add(row, INT64(offset)) for row in rows]
            parts = [_columns(builder, addresses[k : k + high], bits) for k in range(0, len(rows), high)]
            return [as_bytes(builder, concatenated(builder, list(column))) for column in zip(*parts, strict=True)]

        def put(line, number, keeps):
            place = entry(builder, targets, target, number)
            if keeps:
                before, phase = builder.add(kept, INT64(LINE * number)), builder.and_(place, INT64(LINE - 1))
                new, line, place = line, joined(builder, before, line, phase), builder.sub(place, phase)
                builder.store(new, pointer_to(builder, before, new.type), align=LINE)
                ask_for(builder, builder.add(before, INT64(KEPT_AHEAD * LINE)), 1, write=True)
            stream(builder, line, pointer_to(builder, place, line.type))

        for first in range(0, len(rows), 4):
            own = range(first, first + 4)
            lines = [inner_turned(builder, line) for k in own[::side] for line in columns(k * bits // 8)]
            with builder.if_else(builder.icmp_signed("==", kept, INT64(0))) as branches:
                for keeps, branch in enumerate(branches):
                    with branch:
                        for k, line in zip(own, lines, strict=True):
                            with builder.if_then(builder.icmp_signed("<", INT64(k), present), likely=True):
                                put(line, k, keeps)
            wall(builder)
            with builder.if_then(builder.icmp_signed("!=", asked, INT64(0))):
                for k in own:
                    row = entry(builder, asked, ask_base, k // 8)
                    ask_for(builder, builder.add(row, INT64(k % 8 * LINE + LINE - 1)))
        builder.ret_void()

    @operation(types.void, *[INTEGER] * 11)
    def turn(builder, sources, source, targets, target, room, asked, ask_base, done, done_base, held, kept):
        """Transpose a square block whose sides are 64 bytes; ask for, and write, as many lines as it has.

        ``sources, source, targets, target``: addresses of tables of row offsets, each with what is added to all; and
        `room`, 4 KB that begin at a multiple of 64. Then ``asked, ask_base``, rows of which eight lines each are asked
        for, from the first one on that begins in them; and ``done, done_base, held, kept``, rows to which
        `row_lines` lines each are streamed. They lie from `held` on, one row behind the other. If rows do not begin
        with lines, the last 64 bytes of each are at `kept`, and new ones come there. `asked`, `done` and `kept` may be
        0 for none.
        """
        body = {64: square64, 32: square32}.get(bits, squares)
        arguments = [sources, source, targets, target, room, asked, ask_base, done, done_base, held, kept]
        builder.call(function_of(builder.module, f"strided_turn{kind}", ir.VoidType(), [INT64] * 11, body), arguments)

    @operation(types.void, *[INTEGER] * 7)
    def turn_part(builder, sources, source, targets, target, room, high, wide):
        """The same for the first `high` rows and `wide` columns of a block; what lies behind them is undefined.

        Rows and columns are done in groups, so that all of `sources` and `targets` may be touched, and 64 bytes of a
        row of the source. If `high` elements are at most 32 bytes, 16 or 32 bytes of each row of the target
        are written, one row after the other.
        """
        name, arguments = f"strided_turn_part{kind}", [sources, source, targets, target, room, high, wide]
        function = function_of(builder.module, name, ir.VoidType(), [INT64] * 7, part_of_square)
        builder.call(function, arguments)

    @operation(types.void, *[INTEGER] * 8)
    def turn_lines(builder, sources, source, targets, target, kept, present, asked, ask_base):
        """The same straight to where it belongs, past the caches, for elements of 32 and 64 bits where there is AVX2.

        Of the target only the first `present` rows are there. If they do not begin with lines, `kept` is where the last
        64 bytes of each are, which begins with a multiple of 4 bytes: the line that these end is written, and the new
        ones come there. Else it is 0.
        """
        arguments = [sources, source, targets, target, kept, present, asked, ask_base]
        name = f"strided_turn_lines{kind}"
        builder.call(function_of(builder.module, name, ir.VoidType(), [INT64] * 8, square_of_lines), arguments)

    return turn, turn_part, turn_lines


turn8, turn_part8, _ = _turn(8)
turn16, turn_part16, _ = _turn(16)
turn32, turn_part32, turn_lines32 = _turn(32)
turn64, _, turn_lines64 = _turn(64)
turn_pairs, _, turn_pair_lines = _turn(64, inner=16)
