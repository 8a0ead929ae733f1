"""Squares whose sides are a line of 64 bytes: rows of them in registers become columns.

A step from row to row, or from place to place, is looked up in a table of offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

from strided.kernels.llvm import INT64, LINE, VECTOR, Vector, concatenated, loaded, pointer_to, shuffled, units


@dataclass(frozen=True)
class Square:
    """The elements of a square, of `bits` each.

    With `inner`, each is itself a square of two by two elements of so many bits, and is turned, too.
    """

    bits: int
    inner: int = 0

    @property
    def word(self) -> int:
        """Bits of the words that are turned: an element, or several that lie in a column."""
        return max(self.bits, 32)

    @property
    def each(self) -> int:
        """Rows whose elements make a word."""
        return self.word // self.bits

    @property
    def count(self) -> int:
        """Words of a line."""
        return 512 // self.word

    @property
    def side(self) -> int:
        """Elements of 16 bytes."""
        return 128 // self.bits

    @property
    def kind(self) -> str:
        """What tells functions for these squares from others."""
        return f"{self.bits}_{self.inner}" if self.inner else str(self.bits)

    def inner_turned(self, builder, line):
        """A line of elements, with each turned if it is a square of two by two."""
        if not self.inner:
            return line
        parts = builder.bitcast(line, VECTOR.of(self.inner))
        turned = [k + step for k in range(0, parts.type.count, 4) for step in (0, 2, 1, 3)]
        return builder.bitcast(shuffled(builder, parts, parts, turned), line.type)


def entry(builder, table, base, *numbers):
    """An address from a table: the entry at the sum of some numbers, and `base`."""
    for number in numbers:
        table = builder.add(table, INT64(8 * number) if isinstance(number, int) else builder.shl(number, INT64(3)))
    return builder.add(builder.load(pointer_to(builder, table, INT64), align=8), base)


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


def columns_of(builder, addresses, bits):
    """The columns of elements of `bits` of 16 bytes of the rows at so many addresses, one vector a column.

    Runs of 16 bytes side by side need no exchange between parts of a register, which is dear.
    """
    run, each = Vector(16), 128 // bits
    runs = [[loaded(builder, address, run) for address in addresses[k::each]] for k in range(each)]
    return units(builder, [concatenated(builder, own) for own in runs], bits, 128)


def put_rows(builder, rows, addresses):
    """Write vectors to their addresses."""
    for row, address in zip(rows, addresses, strict=True):
        builder.store(row, pointer_to(builder, address, row.type), align=1)


def put_units(builder, square, sources, source, room, group, first):
    """Put words made of `square.each` rows from `first` on into the room: for each of their runs of 16 bytes a line."""
    lines = [entry(builder, sources, source, first, k) for k in range(square.each)]
    rows = [loaded(builder, line, VECTOR, square.bits) for line in lines]
    for k, words in enumerate(units(builder, rows, square.bits, 32)):
        place = builder.add(room, builder.mul(builder.add(group, INT64(k * square.count)), INT64(LINE)))
        builder.store(words, pointer_to(builder, place, words.type), align=LINE)
