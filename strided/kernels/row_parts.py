"""What the parts of `row_driver`, `shared_rows` and `put_words` hand to each other, and to `lines_ahead`.

Names cost nothing: the machine code is that of plain tuples. But Numba takes no field for a constant. So `fixed`, which
has some, is a plain tuple: what stays the same for a whole copy. It has, in this order,

- `s_lane` and `t_lane`: bytes of a lane in the source, and in the target
- `step`: bytes of the source that make a line of the target
- `shared`: rows that share a lane of the target
- `streaming`: whether lines go past the caches
- `room`: scratch memory, from a multiple of 256 on

Tables are those that `row_driver` tells of; every other number is an int64, a size in bytes or an address if it is not
said what else.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from strided.kernels.compile import ZERO


class Place(NamedTuple):
    """Where a matrix begins on both sides, or a row."""

    source: int
    target: int


class Piece(NamedTuple):
    """Where a piece begins on both sides, and its size in the target."""

    source: int
    target: int
    size: int


class Rows(NamedTuple):
    """A block of rows: those of the table from one to another."""

    table: Any
    start: int
    stop: int


class Pieces(NamedTuple):
    """A block of pieces: those of the table, which has so many, from one to another."""

    table: Any
    start: int
    stop: int
    count: int


class Ends(NamedTuple):
    """The addresses at which the source begins and ends."""

    begin: int
    end: int


class How(NamedTuple):
    """How a row is fetched, and the lowest and the highest address from which a fetch reads the source alone."""

    #: What `fetch` takes, whatever that is.
    manner: Any
    low: int
    high: int


class Line(NamedTuple):
    """The line of the target begun and not yet written."""

    #: Where its first byte belongs, and where its last one ends.
    first: int
    end: int
    #: All of it, as a vector.
    carry: Any


class Gap(NamedTuple):
    """From where to where lines nobody wants follow a piece, counted from where that begins: see `gap_behind`."""

    start: int
    stop: int


NO_GAP = Gap(ZERO, ZERO)


class Lead(NamedTuple):
    """What is asked for while a block is copied."""

    #: From the first piece of the block to the first one of that which is asked for.
    on: int
    #: Whether the source lies beyond the caches.
    far: int
    #: Size of a row whose two ends are asked for; 0 for none.
    tail: int
    #: Behind short pieces.
    gap: Gap


class Ahead(NamedTuple):
    """What `lines_ahead.ask` takes: the lines that are asked for with each line of a row."""

    #: From here to there.
    lead: int
    #: From one row to the next; of rows that share no lanes of the target, how many lines are asked for.
    pitch: int
    #: Whether the source lies beyond the caches: else nothing is asked for with lines that are not streamed.
    far: int
    #: The rows of which each line is asked for in turn, 1 for others.
    dense: int


class Later(NamedTuple):
    """What tells which line of the target a later row ends in."""

    #: Rows of a matrix.
    count: int
    #: From where a row begins to where it ends, as `lines_ahead.end_of_rows` tells it; 0 if nothing is asked for.
    end: int
    #: Where rows of a later matrix begin.
    target: int


class Known(NamedTuple):
    """What `shared_rows.drive_shared` has found out of all rows that share lanes of the target."""

    #: The kind of all groups, and what lies between rows of each in the source.
    group: int
    pitch: int
    #: How long pieces are: see `drive_shared`; and where in lines of the target they begin: bits of all of them.
    long: int
    phases: int
    #: Whether complete words lie among many that are not.
    mixed: int
    #: What a row has of the source.
    dense: int


class Word(NamedTuple):
    """What `put_words` is told of the rows of a word."""

    #: Whether pieces are long.
    long: bool
    #: How far on the source is asked for, 0 for nothing, and where it ends.
    lead: int
    end: int
    #: Whether all its rows are there.
    complete: bool
