"""Squares of a transposition: where their rows are read from, what is asked for meanwhile, and the map of the scratch.

`transpose` says what the tables mean; its ways of writing what was turned share these.
"""

from __future__ import annotations

from strided.kernels import NEAR, SHORT_ROW_BYTES, simd_bytes
from strided.kernels.compile import BYTES, LIST, NUMBER, TABLE, WRITABLE, ZERO, part, separate
from strided.kernels.held_run import HELD_BYTES, RUN_BYTES

ARGUMENTS = (BYTES, WRITABLE, TABLE, LIST, LIST, TABLE, TABLE, NUMBER, WRITABLE)
"""Arguments of transposes: source, target, the five tables, whether to stream, scratch."""

# Measured on 256 MB, in time per line against a plain copy's: rows written one line at a time take twice as long as by
# pairs; 64 rows read side by side one line at a time half as long again as by eight; lines asked for before they are
# wanted take a third less; a load that must wait for a store behind streaming stores waits for memory; lines written
# while others are turned, not after them, take a seventh less.
CHUNK = 512  # bytes of one row that are asked for one after the other; the turning of a square asks for so many
BAND = 2048  # rows of the target done before the next lines of any: of each 64 bytes may be kept, 128 KB in all
LAG = 128  # lines held back before they are written; the ring holds twice as many

# The scratch: 4 KB for `turn`, 4 KB for a square, 8 KB for rows, tables, the ring, what is kept of rows, a run of them,
# and the places of rows in the ring.
SQUARE, SPILL, SOURCES, _SPILLED, TARGETS = 1 << 12, 2 << 12, 4 << 12, (4 << 12) + 1024, (4 << 12) + 2048
HELD = 5 << 12
KEPT = HELD + 2 * 64 * LAG
RUN = KEPT + 64 * BAND
PLACES = RUN + RUN_BYTES + HELD_BYTES + 64 * SHORT_ROW_BYTES + 256

NOTHING = (ZERO,) * 6  # that is asked for or written while a square is turned


@part
def sources_of(origin, count, rows, room):
    """A table of so many row offsets: that of `origin`, or where `count` is less one that repeats the last row."""
    if count >= rows:
        return origin[0]
    simd_bytes.move(room + SOURCES, origin[0], 8 * count)
    for k in range(count, rows):
        simd_bytes.put_item(room + SOURCES, k, simd_bytes.integer(origin[0] + 8 * count - 8))
    return room + SOURCES


@part
def passes(at, rows, bounds):
    """Whether 64 bytes of each row pass the end of the source."""
    last = simd_bytes.item(at[0], ZERO)
    for k in range(1, rows):
        last = max(last, simd_bytes.item(at[0], k))
    return at[1] + last + 64 > bounds[1]


@separate
def inside(at, rows, count, bounds, room):
    """The same rows, or where 64 bytes of one pass the end of the source, copies of the `count` that each has."""
    if not passes(at, rows, bounds):
        return at
    for k in range(rows):
        place = room + SPILL + 64 * k
        simd_bytes.move(place, at[1] + simd_bytes.integer(at[0] + 8 * k), min(64, count))
        simd_bytes.put_integer(room + _SPILLED + 8 * k, place)
    return room + _SPILLED, ZERO


@part
def wanted_next(here, following, p, extent, width, bounds):
    """What is asked for while the squares at p are turned, so that all that is read next is there in time.

    That is a share of the next chunk of the rows `here`, or of the first one of those `following`: a table of offsets,
    where the runs begin, the number of rows, and of those that follow the elements of a run; here there are `extent`.
    The answer is the table, what is added to its offsets, the first row of the share, the row behind it, and how many
    rows the table has; the bytes of a chunk, and how many rows lie in a line.
    """
    if bounds[1] - bounds[0] <= NEAR:
        return here[0], here[1], ZERO, ZERO, ZERO, ZERO, ZERO + 1
    size = extent * width
    chunk = CHUNK
    while chunk >= 2 * size and chunk > 64:
        chunk >>= 1
    within = p * width & chunk - 1
    rows, s, count = here
    done = p * width - within + chunk
    steps = min(chunk, size - done + chunk) >> 6
    s += done
    left = min(chunk, size - done)
    if done >= size:
        rows, s, count, left = following
        left = min(left * width, CHUNK)
    share = count
    while steps > 1:
        share = share + 1 >> 1
        steps >>= 1
    share = _as_many(share, max(1, 8 // width), left)
    first = min((within >> 6) * share, count)
    return rows, s, first, min(first + share, count), count, left, bounds[2]


@part
def _as_many(rows, most, size):
    """How many rows are asked for in one go instead of some: `most`, if whole chunks of more than half are wanted.

    So many are asked for one by one while a square is turned; others are waited for.
    """
    return most if most < 2 * rows and rows < most and size == CHUNK else rows


@part
def ask(wanted, k, across, most):
    """Ask for the share of the k-th square across, or tell which `most` rows of whole chunks its turning is to ask for.

    The answer is a table of offsets, or 0, and what is added to all.
    """
    rows, s, begin, end, count, size, sharing = wanted
    each = _as_many((end - begin + across - 1) // across, most, size)
    first = begin + k * each
    stop = min(first + each, end)
    if each == most and size == CHUNK and first < end and count >= most:
        return rows + 8 * min(first, count - most), s
    for n in range(first, stop, sharing):
        place = s + simd_bytes.integer(rows + 8 * n)
        for line in range(63, size + 63, 64):
            simd_bytes.prefetch(place + line)
    return ZERO, ZERO


@part
def asks(width, rows, columns):
    """How many chunks the turning of a square asks for: none where it turns a small part of one, alone."""
    return ZERO + 8 // width if width == 8 or width * min(rows, columns) > 32 else ZERO


def turning(width, whole, some):
    @part
    def turn(sources, source, targets, target, room, others, present):
        """Turn what is present (rows, columns) of a square; of a small part of one, alone."""
        if asks(width, present[0], present[1]):
            whole(sources, source, targets, target, room, *others)
            return
        some(sources, source, targets, target, room, present[0], present[1])

    return turn
