"""Parts of square blocks, where a matrix ends or is narrow, transposed in registers."""

from __future__ import annotations

from functools import partial

from llvmlite import ir
from numba.core import cgutils, types

from strided.kernels.llvm import INT64, INTEGER, LINE, function_of, operation, register_bytes, wall
from strided.kernels.squares import Square, columns_of, entry, put_rows, put_units


def _rounded_up(builder, number, unit):
    """How many units a number makes, the last one in part."""
    return builder.udiv(builder.add(number, INT64(unit - 1)), INT64(unit))


def _fits(builder, most, number):
    """A branch for numbers up to `most`."""
    return builder.if_then(builder.icmp_signed("<=", number, INT64(most)))


def _put_in_order(builder, square, sources, source, targets, target, room, wide, quarters):
    """Write all columns of 4 or 8 words, in order, as far as `wide`: so many quarters of a line of each."""
    side, each, rows = square.side, square.each, range(4 * quarters)
    if each > 1:
        turns = [[builder.add(room, INT64((turn * square.count + k) * LINE)) for k in rows] for turn in range(each)]
    else:
        turns = [[entry(builder, sources, source, k) for k in rows]]
    with cgutils.for_range(builder, _rounded_up(builder, wide, side)) as loop:
        along, column = builder.mul(loop.index, INT64(16)), builder.mul(loop.index, INT64(side))
        for turn, lines in enumerate(turns):
            values = columns_of(builder, [builder.add(line, along) for line in lines], 32)
            put_rows(builder, values, [entry(builder, targets, target, column, 4 * turn + k) for k in range(4)])
            wall(builder)


def _put_some(builder, square, sources, source, targets, target, first, column, runs, columns):
    """Write some columns from `column` on, as far as `runs` times 16 bytes of rows from `first` on make them."""
    begin, goal = (
        builder.add(base, builder.mul(number, INT64(square.bits // 8)))
        for base, number in ((source, column), (target, first))
    )
    rows = [entry(builder, sources, begin, first, k) for k in range(runs * square.side)]
    places = [entry(builder, targets, goal, column, k) for k in range(columns)]
    put_rows(builder, columns_of(builder, rows, square.bits)[:columns], places)
    wall(builder)


def _part_of_square(square, builder, sources, source, targets, target, room, high, wide):
    side, each = square.side, square.each

    def put_all(runs, columns):
        whole = runs * side
        with cgutils.for_range(builder, _rounded_up(builder, wide, columns)) as over:
            with cgutils.for_range(builder, _rounded_up(builder, high, whole)) as down:
                first, column = builder.mul(down.index, INT64(whole)), builder.mul(over.index, INT64(columns))
                _put_some(builder, square, sources, source, targets, target, first, column, runs, columns)
        builder.ret_void()

    most = max(2, register_bytes() // 16)
    for columns in (side // 2, side):
        with _fits(builder, columns, wide):
            for runs in dict.fromkeys((2, most)):
                if (runs, columns) != (most, side):
                    with _fits(builder, 4 * side if runs == most else runs * side, high):
                        put_all(runs, columns)
    groups = _rounded_up(builder, high, each)
    low, broad = builder.icmp_signed("<=", groups, INT64(8)), builder.icmp_signed(">", wide, INT64(side))
    with builder.if_then(builder.and_(low, broad)):
        if each > 1:
            with cgutils.for_range(builder, groups) as loop:
                put_units(builder, square, sources, source, room, loop.index, builder.mul(loop.index, INT64(each)))
            wall(builder)
        for quarters in (1, 2):
            with _fits(builder, 4 * quarters, groups):
                _put_in_order(builder, square, sources, source, targets, target, room, wide, quarters)
                builder.ret_void()
    put_all(most, side)


def _turn_part(bits):
    """The operation that turns parts of squares of elements of `bits`."""
    square = Square(bits)

    @operation(types.void, *[INTEGER] * 7)
    def turn_part(builder, sources, source, targets, target, room, high, wide):
        """Transpose the first `high` rows and `wide` columns of a block; what lies behind them is undefined.

        ``sources, source, targets, target``: addresses of tables of row offsets, each with what is added to all; and
        `room`, 4 KB that begin at a multiple of 64. Rows and columns are done in groups, so that all of `sources` and
        `targets` may be touched, and 64 bytes of a row of the source. If `high` elements are at most 32 bytes, 16 or 32
        bytes of each row of the target are written, one row after the other.
        """
        name, arguments = f"strided_turn_part{square.kind}", [sources, source, targets, target, room, high, wide]
        function = function_of(builder.module, name, ir.VoidType(), [INT64] * 7, partial(_part_of_square, square))
        builder.call(function, arguments)

    return turn_part


turn_part8, turn_part16, turn_part32 = (_turn_part(bits) for bits in (8, 16, 32))
