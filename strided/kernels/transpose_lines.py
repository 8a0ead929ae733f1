"""Transposes of long rows beyond the caches whose squares are written straight from registers, line by line.

That saves the way through the ring, on CPUs that stream single lines well, and where lines written one after the other
lie in different places of the caches. The ends of rows are left to `transpose_ring`.
"""

from __future__ import annotations

from strided.kernels import simd_bytes
from strided.kernels.compile import ZERO, part, separate
from strided.kernels.llvm import is_zen5
from strided.kernels.transpose_squares import Following, Here, ask, asking, does_more, wanted_at

# Rows that tell how all of them lie, and lines behind which places are the same again. As in a way of the second-level
# cache: on Zen 3 rows at multiples of 2 KB take 1.2 times as long straight, others two thirds to nine tenths.
_LOOKED_AT, _PLACES = 64, 1024
# On Zen 5, as in a way of the first-level cache: rows at multiples of 512 bytes take 1.5 times as long. But not if they
# hardly go around the ring: it takes as many of them, and twice as many if there are gaps between those of the source.
_LOOKED_AT_IN_MANY, _PLACES_OF_MANY, _MANY = (16, 64, 48) if is_zen5() else (_LOOKED_AT, _PLACES, 0)


@separate
def apart(goal, count, keeps, follow, room):
    """Whether lines of `count` rows of the target are best written so: they lie apart.

    `keeps`: some do not begin with lines. `follow`: the rows of the source lie one behind the other.
    """
    is_many = count >= (_MANY if follow else 2 * _MANY)
    places = ZERO + (_PLACES_OF_MANY if is_many else _PLACES)
    for k in range(0, places, 64):
        simd_bytes.store(room + k, simd_bytes.zero())
    found, most = ZERO, min(_LOOKED_AT_IN_MANY if is_many else _LOOKED_AT, count)
    for k in range(most):
        place = room + ((goal.start + simd_bytes.item(goal.table, k)) // 64 & places - 1)
        found += 1 - simd_bytes.byte(place)
        simd_bytes.put_byte(place, ZERO + 1)
    return 4 * found >= 3 * most


@part
def apart_or_kept(goal, count, keeps, follow, room):
    """The same on Zen 5: what is kept of rows costs little there, and the ring more."""
    return keeps or apart(goal, count, keeps, follow, room)


@part
def always(goal, count, keeps, follow, room):
    """The same for elements of 64 bits on Zen 5."""
    return True


def lines_by(turn):
    """What writes lines so, by an operation that turns a square."""

    @separate
    def by_lines(width, here, following, extent, goal, bounds):
        """Turn whole squares of some rows of the source, `extent` elements of each, to where they belong.

        `goal`: a table of the offsets of the target's rows, what is added to them, and where the last 64 bytes of each
        are kept, or 0 if all begin with a line.
        """
        side = 64 // width
        together = ZERO + side * (2 if width == 8 else 1)  # rows of the source whose lines are written by turns
        for q in range(0, here.count, together):
            rows, count = here.table + 8 * q, min(together, here.count - q)
            after, left = following, here.count - q - count
            if left > 0:
                after = Following(rows + 8 * count, here.start, min(together, left), extent)
            plan = asking(Here(rows, here.start, count), after, extent, count // side, width, bounds)
            for p in range(0, extent, side):
                wanted = wanted_at(plan, p)
                t, kept = goal.start + q * width, goal.kept + 64 * p if goal.kept else ZERO
                for k in range(0, count, side):
                    asked = ask(wanted, k // side, does_more(width, side, side))
                    at = here.start + p * width, goal.table + 8 * p
                    turn(rows + 8 * k, *at, t + k * width, kept, extent - p, *asked[:2])

    return by_lines


@part
def never(goal, count, keeps, follow, room):
    """In place of `apart`, for a CPU or elements that lines are not written so for: it takes no time to compile."""
    return False


@part
def nothing(width, here, following, extent, goal, bounds):
    """In place of what writes lines."""
