"""b's rows were read too near to each other, or too far apart: each one is moved by a number of elements more.

The rows have padding behind them, and were read without it, or the other way. Rows are those of all elements in the
order of b's memory, or in row-major order: along the nearest axis, or planes of them. What is read from padding, or
from beyond an end, refutes nothing and is not explained.
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

#: Elements in turn that identify a place, and among how many of them a row's beginning is looked for.
_IN_TURN, _WINDOW = 16, 1 << 12
#: Places that are tried for a row's beginning.
_TRIED = 4
#: The part of the mismatches that must come from a, not from padding.
_LEAST_KNOWN = 0.5


class _Rows(NamedTuple):
    """Rows of so many elements that lie `pitch` apart in b, read as if they lay `size` apart; or the other way."""

    size: int
    pitch: int
    is_padded: bool

    @property
    def pitches(self) -> tuple[int, int]:
        """How far apart they lie in b, and how far apart they were taken to lie."""
        return (self.pitch, self.size) if self.is_padded else (self.size, self.pitch)


def row_pitch(observed: Observations) -> Pattern | None:
    """How far apart the rows are, and how far apart they were taken to be."""
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
        """The numbers of the elements at some indices."""
        return np.asarray(np.ravel_multi_index(tuple(points[k] for k in self.axes), self._shape))

    def points(self, places: Numbers) -> Points:
        """The indices of the elements of some numbers."""
        found = np.unravel_index(places, self._shape)
        return tuple(found[self.axes.index(k)] for k in range(len(self.axes)))

    def likeliest(self) -> Iterator[_Rows]:
        """Rows and planes whose second one, or that with the first mismatch, b has somewhat further on; or a has it."""
        first = int(self.places(self._observations.tally.points(self._observations.tally.first[:1])).min())
        sizes = dict.fromkeys(math.prod(self._shape[k:]) for k in range(len(self._shape) - 1, 0, -1))
        for size in sizes:
            for row in dict.fromkeys((max(1, first // size), first // size + 1)):
                if size > 1 and (row + 1) * size <= self.total:
                    yield from self._pitches(size, row)

    def _pitches(self, size: int, row: int) -> Iterator[_Rows]:
        start, length = row * size, min(size, _IN_TURN)
        # Padding is less than a row, as far as it is looked for.
        stop = min(self.total, start + min(row * size, _WINDOW) + length)
        a, b = (self._hashes(each, start, stop, length) for each in (self._observations.a, self._observations.b))
        for is_padded, one, other in ((True, a, b), (False, b, a)):
            for moved in (np.flatnonzero(other[1:] == one[0])[:_TRIED] + 1).tolist():
                if moved % row == 0:
                    yield _Rows(size, size + moved // row, is_padded)

    def _hashes(self, operand: Operand, start: int, stop: int, length: int) -> Hashes:
        return in_turn(numbers_at(operand, self._observations, self.points(np.arange(start, stop))), length)


def _test(observed: Observations, order: _Order, rows: _Rows) -> Test:
    """The hypothesis that b has its elements where such rows lie: all that do not come from padding."""
    real, read = rows.pitches

    def test(probe: Probe) -> float:
        row, within = np.divmod(order.places(probe.points), real)
        origin = row * read + within
        exists = (within < rows.size) & (origin < order.total)
        points = order.points(np.where(exists, origin, 0))
        same = are_equal(observed.a.at(points), probe.values, observed.tolerance)
        return 0.0 if (~same & exists).any() else share_of(exists)

    return test
