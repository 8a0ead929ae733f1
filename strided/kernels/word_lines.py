"""Words that rows share, taken apart line by line: what the ways of doing so with rows have in common."""

from __future__ import annotations

from typing import NamedTuple

from strided.kernels import simd_bytes
from strided.kernels.compile import ZERO, part

# The scratch: where the rows of a word go, words at the end of the source, a line of each of the rows, where these go,
# what `unzip` takes, and from where on the ways have their own.
_WORDS, LINES, PLACES, BYTES, OWN = 768, 1024, 3072, 3840, 4864


class Words(NamedTuple):
    """What all parts are told of the words that are taken apart."""

    #: Rows that share a word.
    shared: int
    #: Bytes of a lane of a row, and of a whole row, in the target.
    width: int
    size: int
    #: The scratch, from a multiple of 64 on.
    room: int
    #: The address at which the source ends.
    end: int


@part
def put_place(table, k, place):
    """Have row `k` of a table like `rows`, of which nothing else is used, go to a place."""
    simd_bytes.put_integer(table + 24 * k + 8, place)


@part
def take(unzip, words, s, count, wanted, places, at, how):
    """Take apart the words of a line, of which `count` are wanted: no lines are read but those of `wanted` bytes."""
    room = words.room
    if s + 256 // words.width > words.end:
        simd_bytes.move(room + _WORDS, s, 4 * count)
        s = room + _WORDS
    unzip(s, wanted, places, at, ZERO + 64, room, how)


@part
def sharing(rows, i, last):
    """How many rows from row `i` on, before row `last`, are neighbours in the same words."""
    count = ZERO + 1
    while i + count < last and rows[i + count, 0] == rows[i, 0] and rows[i + count, 2] == rows[i, 2] + count:
        count += 1
    return count


@part
def near(rows, i, pieces):
    """The end of the rows from row `i` on that lie before its second piece: what lies side by side is read in turn."""
    step = abs(pieces[1, 0] - pieces[0, 0]) if len(pieces) > 1 else ZERO
    last = i + 1
    while last < len(rows) and abs(rows[last, 0] - rows[i, 0]) < step:
        last += 1
    return last


@part
def row_bytes(pieces, width):
    """Bytes of a row of the target; 0 if a piece does not go on where the one before it ends."""
    for p in range(1, len(pieces)):
        if pieces[p, 1] != pieces[p - 1, 1] + pieces[p - 1, 2] * width:
            return ZERO
    last = len(pieces) - 1
    return pieces[last, 1] + pieces[last, 2] * width - pieces[0, 1] if last >= 0 else ZERO


@part
def ragged(pieces, width):
    """How many pieces but the last end inside a line of a row."""
    count = ZERO
    for p in range(len(pieces) - 1):
        count += pieces[p, 2] * width & 63 != 0
    return count


@part
def begin_lines(target, outer, rows, pieces):
    """Whether the first two rows begin where lines do, if there are any."""
    if not (len(outer) and len(pieces)):
        return True
    first = simd_bytes.address(target) + outer[0, 1] + pieces[0, 1]
    for i in range(min(2, len(rows))):
        if first + rows[i, 1] & 63:
            return False
    return True


@part
def all_follow(outer, rows, size):
    """Whether every row goes on in the target where the one before it ends, so that no line is left in part."""
    for i in range(1, len(rows)):
        if rows[i, 1] != rows[i - 1, 1] + size:
            return False
    for o in range(1, len(outer)):
        if outer[o, 1] != outer[o - 1, 1] + len(rows) * size:
            return False
    return True
