"""What goes on besides, while a square is turned: lines that are wanted later are asked for, and others are written.

A processor looks ahead over some hundred instructions only: what is asked for or streamed in one go is waited for. So
with each line that is turned, one that is wanted later is asked for and one that was turned before is written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir

from strided.kernels.llvm import INT64, LINE, VECTOR, ask_for, blended, loaded, pointer_to, stream
from strided.kernels.squares import entry

# Measured on 256 MB, in time per line against a plain copy's: rows written one line at a time take twice as long as by
# pairs; 64 rows read side by side one line at a time half as long again as by eight; lines asked for before they are
# wanted take a third less.

#: Rows of which what is kept is asked for before it is wanted.
KEPT_AHEAD = 16
#: Bytes of one row that are asked for one after the other; those of its last chunk, which may have half of another.
CHUNK = 512
MOST_LINES = 3 * CHUNK // 2 // LINE


def row_lines(width):
    """How many lines of a row of the target are written at once: two, or what 32 rows of the source make."""
    return max(2, width // 2)


class Besides(NamedTuple):
    """Rows to ask for, and rows to write, as integers of the code that is built: see `block_transpose.turn8`."""

    asked: Any
    ask_base: Any
    ask_lines: Any
    done: Any
    done_base: Any
    held: Any
    kept: Any

    def go_on(self, builder, square, group, lines, places):
        """Ask for some lines, and write some, of the `square.count` that are the share of a group of rows.

        If none are written, those are asked for that follow the lines at `places`, to be written next.
        """
        across = row_lines(square.bits // 8)
        asking = self.asked, self.ask_base, self.ask_lines
        ask_for_rows(builder, asking, lines, 512 // square.bits, group, square.count)
        with builder.if_else(builder.icmp_signed("==", self.done, INT64(0))) as (alone, writing):
            with alone:
                for place in places:
                    ask_for(builder, builder.add(place, INT64(LINE)), near=True, write=True)
            with writing:
                first = builder.add(builder.mul(group, INT64(square.count // across)), INT64(lines.start // across))
                count = len(lines) // across
                with builder.if_else(builder.icmp_signed("==", self.kept, INT64(0))) as (plain, keeping):
                    with plain:
                        self._stream(builder, across, first, count, keeps=False)
                    with keeping:
                        self._stream(builder, across, first, count, keeps=True)

    def _stream(self, builder, across, first, count, *, keeps):
        """Write some of the rows `done`, from the one with the number `first` on.

        With `keeps` each begins with what is kept of it, and its last 64 bytes are kept for the next time.
        """
        for row in range(count):
            number = builder.add(first, INT64(row))
            place = entry(builder, self.done, self.done_base, number)
            phase = builder.and_(place, INT64(LINE - 1))
            line = builder.sub(place, phase)
            begin = builder.add(self.held, builder.mul(number, INT64(across * LINE)))
            values = [
                loaded(builder, builder.sub(builder.add(begin, INT64(k * LINE)), phase), VECTOR) for k in range(across)
            ]
            if keeps:
                before = builder.add(self.kept, builder.mul(number, INT64(LINE)))
                last = loaded(builder, builder.sub(builder.add(before, INT64(LINE)), phase), VECTOR)
                values[0] = blended(builder, phase, last, values[0])
                keep(builder, loaded(builder, builder.add(begin, INT64((across - 1) * LINE)), VECTOR), before)
            for k, value in enumerate(values):
                stream(builder, value, pointer_to(builder, builder.add(line, INT64(k * LINE)), value.type))


def asks_any(side):
    """Whether other parts of rows than chunks are asked for while squares of so many elements a side are turned.

    Smaller ones do not take long enough for lines that are looked up; nor are their few lines waited for.
    """
    return side > 16


def ask_for_rows(builder, asking, lines, side, group=INT64(0), count=0):  # noqa: B008 a constant
    """Ask for some lines of a group of `count`, of the `side` that are asked for while a square is turned.

    `asking`: a table of the rows' offsets, or 0 for none, what is added to them, and how many lines of each are wanted.
    """
    table, base, each = asking
    chunk = CHUNK // LINE

    def ask_for_chunks():
        first = builder.mul(group, INT64(count // chunk))
        for k in lines:
            row = builder.or_(entry(builder, table, base, first, k // chunk), INT64(LINE - 1))
            ask_for(builder, builder.add(row, INT64(k % chunk * LINE)))

    def ask_for_any():
        first = builder.add(builder.mul(each, INT64(side)), builder.mul(group, INT64(count)))
        place = builder.add(_order(builder, side), builder.mul(first, INT64(16)))
        for k in lines:
            row, along = (entry(builder, place, INT64(0), 2 * k + part) for part in (0, 1))
            ask_for(builder, builder.add(entry(builder, table, base, row), along))

    with builder.if_then(builder.icmp_signed("!=", table, INT64(0))):
        if not asks_any(side):
            ask_for_chunks()
            return
        with builder.if_else(builder.icmp_signed("==", each, INT64(chunk))) as (whole, other):
            with whole:
                ask_for_chunks()
            with other:
                ask_for_any()


def _order(builder, side):
    """Where a table lies, for each number of lines of a row, of the `side` that are asked for one after the other.

    An entry is the number of the row, and the bytes from its beginning. What is left over asks for the last line once
    more.
    """
    name = f"strided_asked{side}"
    if name not in builder.module.globals:
        numbers = [0] * 2 * side
        for each in range(1, MOST_LINES + 1):
            last = side // each * each - 1
            for row, line in (divmod(min(k, last), each) for k in range(side)):
                numbers += [row, LINE * line + LINE - 1]
        kind = ir.ArrayType(INT64, len(numbers))
        table = ir.GlobalVariable(builder.module, kind, name)
        table.initializer, table.global_constant, table.linkage = ir.Constant(kind, numbers), True, "internal"
    return builder.ptrtoint(builder.module.globals[name], INT64)


def keep(builder, line, place):
    """Keep the last line of a row for the next time, and ask for what is kept of a row that comes later."""
    builder.store(line, pointer_to(builder, place, line.type), align=LINE)
    ask_for(builder, builder.add(place, INT64(KEPT_AHEAD * LINE)), near=True, write=True)
