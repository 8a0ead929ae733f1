"""b's rows were read with a wrong pitch, so that each is shifted further than the one before.

Rows that are padded in memory were read as if they were not, or the reverse. Rows lie along the most minor axis, or are
planes, in the order of b's memory or in row-major order. Elements that would come from padding, or from beyond an end,
neither refute the hypothesis nor count as explained.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from strided.diagnosis.difference.causes.chance import is_no_chance
from strided.diagnosis.difference.causes.moved.distances import Hashes, in_turn
from strided.diagnosis.difference.causes.moved.value_numbers import numbers_at
from strided.diagnosis.difference.causes.observations import Observations, Probe, Test, share_of
from strided.diagnosis.difference.operands import Operand, Points
from strided.diagnosis.difference.places import Numbers
from strided.diagnosis.difference.result import Pattern, percent
from strided.diagnosis.difference.values import are_equal

#: Length of a sequence of elements that identifies a place, and of the window in which a row's start is searched for.
_IN_TURN, _WINDOW = 16, 1 << 12
#: The most places that are tried as a row's start.
_TRIED = 4
#: The share of the mismatches that must come from elements of a rather than padding.
_LEAST_KNOWN = 0.5


class _Rows(NamedTuple):
    """Rows of `size` elements that lie `pitch` apart in b but were read `size` apart, or the reverse."""

    size: int
    pitch: int
    is_padded: bool

    @property
    def pitches(self) -> tuple[int, int]:
        """The real pitch in b, and the pitch with which b was read."""
        return (self.pitch, self.size) if self.is_padded else (self.size, self.pitch)


def row_pitch(observed: Observations) -> Pattern | None:
    """The real pitch of the rows, and the pitch with which they were read."""
    if len(observed.shape) < 2:
        return None
    order = _Order(observed)
    for rows in order.likeliest():
        share = observed.share_in_whole_array(_test(observed, order, rows), _LEAST_KNOWN)
        if not share or not is_no_chance(observed, math.log2(_WINDOW)):
            continue
        real, read = rows.pitches
        which = "" if rows.size == observed.shape[order.axes[-1]] else f" of {rows.size:,} elements"
        others = "padding" if rows.is_padded else "from beyond the end"
        sentence = (
            f"b was read as if its rows{which} began {read:,} elements apart instead of {real:,}: "
            f"this explains {percent(share)} of the mismatches; the others are {others}"
        )
        return Pattern("pitch", f"{real} read as {read}", share, sentence)
    return None


class _Order:
    """The order of elements in b's memory if that has no tiles, else row-major order."""

    def __init__(self, observed: Observations) -> None:
        self._observations = observed
        whole, rank = observed.b.whole, len(observed.shape)
        layout = None if whole is None else whole.layout
        self.axes = tuple(range(rank)) if layout is None or layout.tiles else layout.minor_to_major[::-1]
        self._shape = tuple(observed.shape[k] for k in self.axes)
        self.total = math.prod(self._shape)

    def places(self, points: Points) -> Numbers:
        """The positions, in this order, of the elements at some indices."""
        return np.asarray(np.ravel_multi_index(tuple(points[k] for k in self.axes), self._shape))

    def points(self, places: Numbers) -> Points:
        """The indices of the elements at some positions."""
        found = np.unravel_index(places, self._shape)
        return tuple(found[self.axes.index(k)] for k in range(len(self.axes)))

    def likeliest(self) -> Iterator[_Rows]:
        """Candidate rows and planes, by where the second row, or that of the first mismatch, begins in b or in a."""
        first = int(self.places(self._observations.tally.points(self._observations.tally.first[:1])).min())
        sizes = dict.fromkeys(math.prod(self._shape[k:]) for k in range(len(self._shape) - 1, 0, -1))
        for size in sizes:
            for row in dict.fromkeys((max(1, first // size), first // size + 1)):
                if size > 1 and (row + 1) * size <= self.total:
                    yield from self._pitches(size, row)

    def _pitches(self, size: int, row: int) -> Iterator[_Rows]:
        start, length = row * size, min(size, _IN_TURN)
        # Only padding of less than a row is searched for.
        stop = min(self.total, start + min(row * size, _WINDOW) + length)
        a, b = (self._hashes(each, start, stop, length) for each in (self._observations.a, self._observations.b))
        for is_padded, one, other in ((True, a, b), (False, b, a)):
            for moved in (np.flatnonzero(other[1:] == one[0])[:_TRIED] + 1).tolist():
                if moved % row == 0:
                    yield _Rows(size, size + moved // row, is_padded)

    def _hashes(self, operand: Operand, start: int, stop: int, length: int) -> Hashes:
        return in_turn(numbers_at(operand, self._observations, self.points(np.arange(start, stop))), length)


def _test(observed: Observations, order: _Order, rows: _Rows) -> Test:
    """The hypothesis that b has such rows; elements from padding neither refute it nor count as explained."""
    real, read = rows.pitches

    def test(probe: Probe) -> float:
        row, within = np.divmod(order.places(probe.points), real)
        origin = row * read + within
        exists = (within < rows.size) & (origin < order.total)
        points = order.points(np.where(exists, origin, 0))
        same = are_equal(observed.a.at(points), probe.values, observed.tolerance)
        return 0.0 if (~same & exists).any() else share_of(exists)

    return test
