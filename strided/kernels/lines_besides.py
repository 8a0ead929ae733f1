"""What goes on besides, while a square is turned: lines that are wanted later are asked for, and others are written.

A processor looks ahead over some hundred instructions only: what is asked for or streamed in one go is waited for. So
with each line that is turned, one that is wanted later is asked for and one that was turned before is written.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from strided.kernels.llvm import INT64, LINE, VECTOR, ask_for, blended, loaded, pointer_to, stream
from strided.kernels.squares import entry

#: Rows of which what is kept is asked for before it is wanted.
KEPT_AHEAD = 16


def row_lines(width):
    """How many lines of a row of the target are written at once: two, or what 32 rows of the source make."""
    return max(2, width // 2)


class Besides(NamedTuple):
    """Rows to ask for, and rows to write, as integers of the code that is built: see `block_transpose.turn8`."""

    asked: Any
    ask_base: Any
    done: Any
    done_base: Any
    held: Any
    kept: Any

    def go_on(self, builder, square, group, lines, places):
        """Ask for some lines, and write some, of the `square.count` that are the share of a group of rows.

        If none are written, those are asked for that follow the lines at `places`, to be written next.
        """
        across = row_lines(square.bits // 8)
        ask_for_rows(builder, self.asked, self.ask_base, lines, group, square.count // 8)
        with builder.if_else(builder.icmp_signed("==", self.done, INT64(0))) as (alone, writing):
            with alone:
                for place in places:
                    ask_for(builder, builder.add(place, INT64(LINE)), 1, write=True)
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


def ask_for_rows(builder, asked, ask_base, lines, group=INT64(0), rows=0):  # noqa: B008 a constant
    """Ask for lines of the rows at `asked`, eight of each, if that is not 0, of which a group has so many."""
    with builder.if_then(builder.icmp_signed("!=", asked, INT64(0))):
        for k in lines:
            row = entry(builder, asked, ask_base, builder.mul(group, INT64(rows)), k // 8)
            # Where a row begins within a line, that line was asked for before.
            ask_for(builder, builder.add(row, INT64(k % 8 * LINE + LINE - 1)))


def keep(builder, line, place):
    """Keep the last line of a row for the next time, and ask for what is kept of a row that comes later."""
    builder.store(line, pointer_to(builder, place, line.type), align=LINE)
    ask_for(builder, builder.add(place, INT64(KEPT_AHEAD * LINE)), 1, write=True)
