"""Square blocks whose sides are a line of 64 bytes, transposed in registers.

A processor looks ahead over some hundred instructions only: what is asked for in one go is waited for. So each line
that is turned asks for one that is wanted later, and both go on at once.
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types

from strided.kernels.llvm import (
    INT64,
    INTEGER,
    LINE,
    VECTOR,
    as_bytes,
    ask_for,
    function_of,
    loaded,
    operation,
    pointer_to,
    shuffled,
    wall,
)


def _transposed(builder, rows):
    """A square, one vector a row, with rows and columns exchanged."""
    count = rows[0].type.count
    step = 1
    while step < count:  # rows `step` apart exchange halves of every run of 2 * step elements
        low = [k if not k & step else count + k - step for k in range(count)]
        high = [k + step if not k & step else count + k for k in range(count)]
        rows = [
            shuffled(builder, *((rows[k - step], row, high) if k & step else (row, rows[k + step], low)))
            for k, row in enumerate(rows)
        ]
        step *= 2
    return rows


def _interleaved(builder, first, second, bits):
    """The elements of two vectors in turn: of the low half of every 16 bytes, and of the high half."""
    first, second = (builder.bitcast(vector, VECTOR.of(bits)) for vector in (first, second))
    count, each = first.type.count, 128 // bits
    for half in (0, each // 2):
        picks = (run + half + k // 2 + k % 2 * count for run in range(0, count, each) for k in range(each))
        yield shuffled(builder, first, second, picks)


def _words(builder, rows, bits):
    """Vectors of words of 32 bits, made of one element of each row; the k-th holds the k-th 4 of every 16 of them."""
    if bits == 32:
        return [builder.bitcast(row, VECTOR.of(32)) for row in rows]
    pairs = [_interleaved(builder, a, b, bits) for a, b in zip(rows[::2], rows[1::2], strict=True)]
    return [word for group in zip(*pairs, strict=True) for word in _words(builder, group, 2 * bits)]


def _turn(bits):
    word = max(bits, 32)
    each, count = word // bits, 512 // word

    def entry(builder, table, base, *numbers):
        """An address from a table: the entry at the sum of some numbers, and `base`."""
        for number in numbers:
            table = builder.add(table, builder.mul(number, INT64(8)))
        return builder.add(builder.load(pointer_to(builder, table, INT64), align=8), base)

    def put_rows(builder, rows, addresses):
        for row, address in zip(rows, addresses, strict=True):
            row = as_bytes(builder, row)
            builder.store(row, pointer_to(builder, address, row.type), align=1)

    def ask(builder, asked, first, lines):
        with builder.if_then(builder.icmp_signed("!=", asked, INT64(0))):
            for k in range(lines):
                ask_for(builder, entry(builder, asked, INT64(0), first, INT64(k)))

    def square(builder, sources, source, targets, target, room, asked):
        ask(builder, asked, INT64(0), count)
        rows = [loaded(builder, entry(builder, sources, source, INT64(k)), VECTOR, bits) for k in range(count)]
        places = [entry(builder, targets, target, INT64(k)) for k in range(count)]
        put_rows(builder, _transposed(builder, rows), places)
        builder.ret_void()

    def squares(builder, sources, source, targets, target, room, asked):
        with cgutils.for_range(builder, INT64(count)) as loop:
            first = builder.mul(loop.index, INT64(each))
            ask(builder, asked, first, each)
            lines = [entry(builder, sources, source, first, INT64(k)) for k in range(each)]
            rows = [loaded(builder, line, VECTOR, bits) for line in lines]
            for k, words in enumerate(_words(builder, rows, bits)):
                place = builder.add(room, builder.mul(builder.add(loop.index, INT64(k * count)), INT64(LINE)))
                builder.store(words, pointer_to(builder, place, words.type), align=LINE)
        wall(builder)
        with cgutils.for_range(builder, INT64(each)) as loop:
            base = builder.add(room, builder.mul(loop.index, INT64(count * LINE)))
            rows = [loaded(builder, builder.add(base, INT64(k * LINE)), VECTOR, 32) for k in range(count)]
            first = builder.mul(loop.index, INT64(4))
            numbers = [INT64(k // 4 * 4 * each + k % 4) for k in range(count)]
            places = [entry(builder, targets, target, first, number) for number in numbers]
            put_rows(builder, _transposed(builder, rows), places)
        builder.ret_void()

    @operation(types.void, *[INTEGER] * 6)
    def turn(builder, sources, source, targets, target, room, asked):
        """Transpose a square block whose sides are 64 bytes, and ask for as many lines as it has.

        `sources` and `targets` are the addresses of tables of row offsets, which `source` and `target` are added to;
        `asked` is that of a table of places, which may be any, or 0. `room`, 4 KB, must begin at a multiple of 64.
        """
        body = square if each == 1 else squares
        arguments = [sources, source, targets, target, room, asked]
        builder.call(function_of(builder.module, f"strided_turn{bits}", ir.VoidType(), [INT64] * 6, body), arguments)

    return turn


turn8, turn16, turn32, turn64 = _turn(8), _turn(16), _turn(32), _turn(64)
