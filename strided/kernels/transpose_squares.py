"""Squares of a transposition: where their rows are read from, what is asked for meanwhile, and the map of the scratch.

`transpose` says what the tables mean; its ways of writing what was turned share these. What they hand on goes by these
names, a table being the address of some int64:

- `origin`: rows of the source; `goal`: those of the target; `here` and `following`: rows that are read, and then
- `extent`: an `Extent`, or how many p where it is one number; `present`: rows and columns of a square
- `others`: what the turning of a square does besides, the last seven arguments of `block_transpose.turn8`; `asked`: the
  first three of these
- `room`: the scratch, from a multiple of 64 on; `width`: bytes of an element
"""

from __future__ import annotations

from typing import NamedTuple

from strided.kernels import NEAR, SHORT_ROW_BYTES, lines_besides, simd_bytes
from strided.kernels.compile import BYTES, LIST, NUMBER, TABLE, WRITABLE, ZERO, part, separate
from strided.kernels.held_run import HELD_BYTES, RUN_BYTES
from strided.kernels.lines_besides import CHUNK

ARGUMENTS = (BYTES, WRITABLE, TABLE, LIST, LIST, TABLE, TABLE, NUMBER, WRITABLE)
"""Arguments of transposes: source, target, the five tables, whether to stream, scratch."""

# Measured on 256 MB, in time per line against a plain copy's: a load that must wait for a store behind streaming stores
# waits for memory; lines written while others are turned, not after them, take a seventh less.
BAND = 2048  # rows of the target done before the next lines of any: of each 64 bytes may be kept, 128 KB in all
LAG = 128  # lines held back before they are written; the ring holds twice as many

# The scratch: 4 KB for `turn`, 4 KB for a square, 8 KB for rows, tables, the ring, what is kept of rows, a run of them,
# and the places of rows in the ring.
SQUARE, SPILL, SOURCES, _SPILLED, TARGETS = 1 << 12, 2 << 12, 4 << 12, (4 << 12) + 1024, (4 << 12) + 2048
HELD = 5 << 12
KEPT = HELD + 2 * 64 * LAG
RUN = KEPT + 64 * BAND
RUN_SIZE = RUN_BYTES + HELD_BYTES + 64 * SHORT_ROW_BYTES + 256  # and as much again behind it
PLACES = RUN + 2 * RUN_SIZE

_SOON = 4096  # bytes of small matrices that are read until one is wanted that is asked for
_SHORT = 192  # bytes of rows of which the first line is asked for with what lies before them

NOTHING = (ZERO,) * 7  # that is asked for or written while a square is turned
NOTHING_WRITTEN = NOTHING[3:]


class Bounds(NamedTuple):
    """The addresses at which the source begins and ends, and how many of its rows lie in a line."""

    begin: int
    end: int
    sharing: int


class Rows(NamedTuple):
    """Rows of one side: a table of their offsets, and the address that these count from."""

    table: int
    start: int


class Extent(NamedTuple):
    """How many p and how many q."""

    p: int
    q: int


class Band(NamedTuple):
    """Where the source of a band begins, and how many p it has."""

    start: int
    count: int


class Origin(NamedTuple):
    """Rows of the source, with the largest of all offsets."""

    table: int
    start: int
    far: int


class Here(NamedTuple):
    """Rows of the source that are read, and how many these are."""

    table: int
    start: int
    count: int


class Following(NamedTuple):
    """The rows that are read next, how many these are, and how many p each has."""

    table: int
    start: int
    count: int
    extent: int


class _Share(NamedTuple):
    """What is asked for with each square: bytes of each row, rows, and rows that its turning asks for besides."""

    size: int
    rows: int
    besides: int


class _Plan(NamedTuple):
    """How rows are asked for while others are turned, chunk by chunk: see `asking`."""

    here: Here
    #: The rows that follow.
    following: Here
    #: Bytes of a chunk, and where the last one begins.
    chunk: int
    last: int
    #: Squares side by side.
    across: int
    width: int
    #: For the next chunk of the same rows, for the last one of these, and for the rows that follow.
    next_share: _Share
    last_share: _Share
    following_share: _Share
    #: Rows in a line.
    sharing: int


class _Wanted(NamedTuple):
    """What is asked for while the squares at one p are turned."""

    rows: Here
    #: Squares before these with which shares were asked for.
    before: int
    share: _Share
    #: Rows in a line.
    sharing: int


_asks_any = part(lines_besides.asks_any)
row_lines = part(lines_besides.row_lines)


@separate
def sharing(rows, count):
    """How many rows lie in a line with the first one, at even steps: members of a word, but not those of the next."""
    found = ZERO + 1
    if count < 2:
        return found
    first = simd_bytes.integer(rows)
    step = abs(simd_bytes.integer(rows + 8) - first)
    while found < min(count, 64) and (found + 1) * step <= 64:
        if abs(simd_bytes.integer(rows + 8 * found) - first) != found * step:
            break
        found += 1
    return found


@part
def matrices_ahead(size):
    """How many matrices of `size` bytes on lies the one whose lines are asked for while one is turned."""
    return max(1, _SOON // max(1, size))


@part
def next_band(outer, later, p_pieces, o, i, band, width, s):
    """The band after this one; of a matrix's last band, the first one of `later`.

    `band` tells where in its piece this one ends, and its width; `s` where its source begins.
    """
    pieces, count = p_pieces
    end, wide = band
    left = simd_bytes.cell(pieces, i, 2) - end
    if left > 0:
        return Band(s + wide * width, min(BAND, left))
    n = i + 1 if i + 1 < count else ZERO
    if n == 0 and o == later:
        return Band(s, ZERO)
    s += simd_bytes.cell(pieces, n, 0) - simd_bytes.cell(pieces, i, 0) - (end - wide) * width
    if n == 0:
        s += simd_bytes.cell2(outer, later, 0) - simd_bytes.cell2(outer, o, 0)
    return Band(s, simd_bytes.cell(pieces, n, 2))


@part
def sources_of(origin, count, rows, room):
    """A table of so many row offsets: that of `origin`, or where `count` is less one that repeats the last row."""
    if count >= rows:
        return origin.table
    simd_bytes.move(room + SOURCES, origin.table, 8 * count)
    for k in range(count, rows):
        simd_bytes.put_item(room + SOURCES, k, simd_bytes.integer(origin.table + 8 * count - 8))
    return room + SOURCES


@part
def passes(at, rows, bounds):
    """Whether 64 bytes of each row pass the end of the source."""
    last = simd_bytes.item(at.table, ZERO)
    for k in range(1, rows):
        last = max(last, simd_bytes.item(at.table, k))
    return at.start + last + 64 > bounds.end


@separate
def inside(at, rows, count, bounds, room):
    """The same rows, or where 64 bytes of one pass the end of the source, copies of the `count` that each has."""
    if not passes(at, rows, bounds):
        return at
    for k in range(rows):
        place = room + SPILL + 64 * k
        simd_bytes.move(place, at.start + simd_bytes.integer(at.table + 8 * k), min(64, count))
        simd_bytes.put_integer(room + _SPILLED + 8 * k, place)
    return Rows(room + _SPILLED, ZERO)


@part
def asking(here, following, extent, across, width, bounds):
    """How rows are asked for while others are turned, so that all that is read next is there in time: see `ask`.

    While the squares of a chunk are turned, `across` side by side, the next chunk of the same rows is asked for, and at
    the end of the rows the first chunk of those that follow: see `_chunks`. Rows have `extent` p.
    """
    size, most = extent * width, following.extent * width
    chunk, last = _chunks(size)
    rest, squares = size - last, chunk // 64 * across
    if 2 * most >= 3 * CHUNK:
        most = _chunks(most)[0]
    count, later = here.count, following.count
    if bounds.end - bounds.begin <= NEAR:
        count, later = ZERO, ZERO
    return _Plan(
        here,
        Here(following.table, following.start, following.count),
        chunk,
        last,
        across,
        width,
        _share(count, squares, chunk, width),
        _share(count, squares, rest, width),
        _share(later, max(1, rest >> 6) * across, most, width),
        bounds.sharing,
    )


@part
def _chunks(size):
    """Bytes of a chunk of a row of so many, and where its last one begins.

    What is left behind that one belongs to it, if it is less than half of another. Of few chunks all are alike, where
    the last one would be short: while it is turned, a whole one of the rows that follow is asked for.
    """
    count = (size + CHUNK // 2) // CHUNK
    chunk = ZERO + CHUNK
    if 2 <= count <= 3 and CHUNK // 2 <= size % CHUNK < CHUNK * 3 // 4:
        chunk = size // count + 63 & -64
    return chunk, max(ZERO, count - 1) * chunk


@part
def _share(count, squares, size, width):
    """What is asked for with each of some squares, of so many rows."""
    lines = max(1, size + 63 >> 6)
    side = 64 // width
    besides = side // lines if size == CHUNK or _asks_any(side) else ZERO
    rows = (count + squares - 1) // squares
    # A few more than a share are asked for besides, too: others are waited for.
    if rows < besides < 2 * rows:
        rows = besides
    return _Share(size, rows, besides)


@part
def wanted_at(plan, p):
    """What is asked for while the squares at p are turned; `plan` is what `asking` answers."""
    here, chunk, last, width = plan.here, plan.chunk, plan.last, plan.width
    begin = min(p * width // chunk * chunk, last)
    rows, share = Here(here.table, here.start + begin + chunk, here.count), plan.next_share
    if begin == last:
        rows, share = plan.following, plan.following_share
    elif begin + chunk == last:
        share = plan.last_share
    return _Wanted(rows, (p * width - begin >> 6) * plan.across, share, plan.sharing)


@part
def ask(wanted, k, besides):
    """Ask for the share of the k-th square side by side, or tell which rows its turning is to ask for, if it does.

    The answer is a table of offsets, or 0, what is added to all, and how many lines of each row are asked for.
    """
    (rows, s, count), before, (size, share, most), sharing = wanted
    first = (before + k) * share
    stop = min(first + share, count)
    asked = ZERO
    if besides and 0 < most <= share and first < count and count >= most and sharing == 1:
        asked = rows + 8 * min(first, count - most)
        first += most
    # A row's first byte may lie in the line that ends what is before it in memory, which has been asked for already if
    # rows are short. Of longer ones it is asked for, by its last byte: what stores begin at is found more slowly.
    for n in range(first, stop, sharing):
        place = s + simd_bytes.integer(rows + 8 * n)
        place = place | 63 if size > _SHORT else place + 63
        for line in range(0, size, 64):
            simd_bytes.prefetch(place + line)
    return asked, s, size + 63 >> 6


@part
def does_more(width, rows, columns):
    """Whether the turning of a square does more besides: not where it turns a small part of one."""
    return width == 8 or width * min(rows, columns) > 32


def turning(width, whole, some):
    """What turns squares of elements of `width` bytes, by an operation for whole squares and one for small parts."""

    @part
    def turn(sources, source, targets, target, room, others, present):
        """Turn what is present (rows, columns) of a square; of a small part of one, nothing else."""
        if does_more(width, present[0], present[1]):
            whole(sources, source, targets, target, room, *others)
            return
        some(sources, source, targets, target, room, present[0], present[1])

    return turn
