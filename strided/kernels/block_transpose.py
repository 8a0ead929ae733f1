"""Square blocks whose sides are a line of 64 bytes, transposed in registers, while others are read and written."""

from __future__ import annotations

from functools import partial

from llvmlite import ir
from numba.core import cgutils, types

from strided.kernels.lines_besides import Besides, ask_for_rows, keep
from strided.kernels.llvm import (
    INT64,
    INTEGER,
    LINE,
    VECTOR,
    as_bytes,
    concatenated,
    function_of,
    joined,
    loaded,
    operation,
    pointer_to,
    register_bytes,
    stream,
    wall,
)
from strided.kernels.squares import Square, columns_of, entry, put_rows, put_units, transposed


def _put_columns(builder, square, addresses, places, besides, group, once=False):
    """Write the columns of 16 rows of 64 bytes that lie at some addresses.

    With `once`, each row is read once if there are registers for all: where rows lie at multiples of a page, few of
    their lines stay in the first-level cache.
    """
    together = max(8, register_bytes() // 4)  # with 64 bytes, whole lines are written
    share = together // 4
    lines = []
    if once and together == square.count:
        lines = transposed(builder, [loaded(builder, address, VECTOR, 32) for address in addresses])
    for begin in range(0, square.count, together):
        own = addresses[begin : begin + together]
        for column in range(0, square.count, 4):
            targets = [builder.add(place, INT64(4 * begin)) for place in places[column : column + 4]]
            if lines:
                values = lines[column : column + 4]
            else:
                values = columns_of(builder, [builder.add(row, INT64(4 * column)) for row in own], 32)
            put_rows(builder, values, targets)
            wall(builder)  # or LLVM takes on more rows at once than there are registers
            line = begin + share * column // 4
            besides.go_on(builder, square, group, range(line, line + share), () if begin else targets)


def _square64(square, builder, sources, source, targets, target, room, *others):
    rows = [loaded(builder, entry(builder, sources, source, k), VECTOR, square.bits) for k in range(square.count)]
    rows = [square.inner_turned(builder, row) for row in rows]
    places = [entry(builder, targets, target, k) for k in range(square.count)]
    put_rows(builder, transposed(builder, rows), places)
    Besides(*others).go_on(builder, square, INT64(0), range(square.count), places)
    builder.ret_void()


def _square32(square, builder, sources, source, targets, target, room, *others):
    rows = [entry(builder, sources, source, k) for k in range(square.count)]
    places = [entry(builder, targets, target, k) for k in range(square.count)]
    _put_columns(builder, square, rows, places, Besides(*others), INT64(0), once=True)
    builder.ret_void()


def _squares_of_words(square, builder, sources, source, targets, target, room, *others):
    """Elements of less than a word: words of several rows first, in `room`, and then squares of words."""
    count, each = square.count, square.each
    with cgutils.for_range(builder, INT64(count)) as loop:
        first = builder.mul(loop.index, INT64(each))
        put_units(builder, square, sources, source, room, loop.index, first)
    wall(builder)
    with cgutils.for_range(builder, INT64(each)) as loop:
        base = builder.add(room, builder.mul(loop.index, INT64(count * LINE)))
        first = builder.mul(loop.index, INT64(4))
        numbers = [k // 4 * 4 * each + k % 4 for k in range(count)]
        places = [entry(builder, targets, target, first, number) for number in numbers]
        rows = [builder.add(base, INT64(row * LINE)) for row in range(count)]
        _put_columns(builder, square, rows, places, Besides(*others), loop.index)
    builder.ret_void()


def _turn(bits, inner=0):
    """The operation that turns squares of elements of `bits`: see `Square`."""
    square = Square(bits, inner)
    body = partial({64: _square64, 32: _square32}.get(bits, _squares_of_words), square)

    @operation(types.void, *[INTEGER] * 12)
    def turn(builder, sources, source, targets, target, room, asked, ask_base, ask_lines, done, done_base, held, kept):
        """Transpose a square block whose sides are 64 bytes; ask for, and write, as many lines as it has.

        ``sources, source, targets, target``: addresses of tables of row offsets, each with what is added to all; and
        `room`, 4 KB that begin at a multiple of 64. Then ``asked, ask_base, ask_lines``, rows of which so many lines
        each are asked for, a `CHUNK` unless `asks_any`, from the first one on that begins in them; and ``done,
        done_base, held, kept``, rows to which `row_lines` lines each are streamed. They lie from `held` on, one row
        behind the other. If rows do not begin with lines, the last 64 bytes of each are at `kept`, and new ones come
        there. `asked`, `done` and `kept` may be 0 for none.
        """
        arguments = [sources, source, targets, target, room, asked, ask_base, ask_lines, done, done_base, held, kept]
        name = f"strided_turn{square.kind}"
        builder.call(function_of(builder.module, name, ir.VoidType(), [INT64] * 12, body), arguments)

    return turn


def _put_line(builder, line, number, targets, target, kept, keeps):
    """Write a line of the row with this number; with `keeps`, the one that it ends, and keep it."""
    place = entry(builder, targets, target, number)
    if keeps:
        before, phase = builder.add(kept, INT64(LINE * number)), builder.and_(place, INT64(LINE - 1))
        new, line, place = line, joined(builder, before, line, phase), builder.sub(place, phase)
        keep(builder, new, before)
    stream(builder, line, pointer_to(builder, place, line.type))


def _whole_lines(square, builder, sources, source, targets, target, kept, present, asked, ask_base):
    """Columns of whole lines, four at a time."""
    bits = square.bits
    rows = [entry(builder, sources, source, k) for k in range(512 // bits)]
    high = min(len(rows), 8 * register_bytes() // bits)

    def columns(offset):
        addresses = [builder.add(row, INT64(offset)) for row in rows]
        parts = [columns_of(builder, addresses[k : k + high], bits) for k in range(0, len(rows), high)]
        return [as_bytes(builder, concatenated(builder, list(column))) for column in zip(*parts, strict=True)]

    for first in range(0, len(rows), 4):
        own = range(first, first + 4)
        lines = [square.inner_turned(builder, line) for k in own[:: square.side] for line in columns(k * bits // 8)]
        with builder.if_else(builder.icmp_signed("==", kept, INT64(0))) as branches:
            for keeps, branch in enumerate(branches):
                with branch:
                    for k, line in zip(own, lines, strict=True):
                        with builder.if_then(builder.icmp_signed("<", INT64(k), present), likely=True):
                            _put_line(builder, line, k, targets, target, kept, keeps)
        wall(builder)
        ask_for_rows(builder, (asked, ask_base, None), own, len(rows))
    builder.ret_void()


def _turn_lines(bits, inner=0):
    """The operation that turns squares past the caches, for elements of 32 and 64 bits where there is AVX2."""
    square = Square(bits, inner)

    @operation(types.void, *[INTEGER] * 8)
    def turn_lines(builder, sources, source, targets, target, kept, present, asked, ask_base):
        """Transpose a square block straight to where it belongs, past the caches; ask for as many lines as it has.

        Arguments as `turn` has them. Of the target only the first `present` rows are there. If they do not begin with
        lines, `kept` is where the last 64 bytes of each are, which begins with a multiple of 4 bytes: the line that
        these end is written, and the new ones come there. Else it is 0.
        """
        arguments = [sources, source, targets, target, kept, present, asked, ask_base]
        name, body = f"strided_turn_lines{square.kind}", partial(_whole_lines, square)
        builder.call(function_of(builder.module, name, ir.VoidType(), [INT64] * 8, body), arguments)

    return turn_lines


turn8, turn16, turn32, turn64 = (_turn(bits) for bits in (8, 16, 32, 64))
turn_pairs = _turn(64, inner=16)
turn_lines32, turn_lines64 = (_turn_lines(bits) for bits in (32, 64))
turn_pair_lines = _turn_lines(64, inner=16)
