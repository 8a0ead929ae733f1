"""The elements on which a hypothesis is tried: few mismatches at first, which end most of them, then more.

A hypothesis about single elements is a `Test`. One about the whole array must also hold for elements that happen to be
equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from strided.diagnosis.bit_patterns import patterns
from strided.diagnosis.difference.operands import Operand, Points
from strided.diagnosis.difference.places import LEAST_SHARE
from strided.diagnosis.difference.result import Pattern, percent
from strided.diagnosis.difference.tally import Tally
from strided.diagnosis.difference.values import Mask, Tolerance, are_equal

Values = npt.NDArray[Any]
#: Where in a the elements at some indices come from, and which of these places exist.
IndexMap = Callable[[Points], tuple[Points, Mask]]

#: Mismatches on which a hypothesis is tried at first, and those on which it is tried then.
_FEW, _SAMPLE = 64, 4096


class Probe(NamedTuple):
    """Some indices, and b's values there."""

    points: Points
    values: Values


#: The part of some elements that a hypothesis explains.
Test = Callable[[Probe], float]


@dataclass(frozen=True, slots=True)
class Observations:
    """Two arrays that differ, of rank 1 or more, and some of their elements.

    Attributes
    ----------
    a, b : Operand
    tolerance : Tolerance
    tally : Tally
    few, some, every : Probe
        Mismatches, each a part of the next one; `every` has all that the tally kept.
    anywhere : Probe
        Elements of the whole array, whether they differ or not: all of them if they are few.
    value_counts : ndarray
        How often each distinct value of b occurs in `some`.
    """

    a: Operand
    b: Operand
    tolerance: Tolerance
    tally: Tally
    few: Probe
    some: Probe
    every: Probe
    anywhere: Probe
    value_counts: npt.NDArray[np.int64]

    @classmethod
    def at(cls, samples: tuple[Points, ...], a: Operand, b: Operand, tolerance: Tolerance, tally: Tally) -> Self:
        """The observations at the indices of `few`, `some`, `every` and `anywhere`."""
        few, some, every, anywhere = (Probe(points, b.at(points)) for points in samples)
        counts = np.unique(patterns(some.values), axis=0, return_counts=True)[1]
        return cls(a, b, tolerance, tally, few, some, every, anywhere, counts)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tally.shape

    def share_of_mismatches(self, test: Test) -> float:
        """The part of the mismatches that a hypothesis about them alone explains; 0 if too few."""
        return _share((self.few, self.some, self.every), test)

    def share_in_whole_array(self, test: Test, least: float = LEAST_SHARE) -> float:
        """The part of the mismatches that a hypothesis about the whole array explains; 0 if less than `least`."""
        return _share((self.few, self.some, self.anywhere, self.every), test, least)

    def holds_everywhere(self, test: Test) -> bool:
        """Whether a hypothesis about the whole array explains all elements that are tried."""
        return self.share_in_whole_array(test, least=1) == 1

    def moved(self, source: IndexMap) -> Test:
        """The hypothesis that b has its elements from some places of a."""

        def test(probe: Probe) -> float:
            origin, exists = source(probe.points)
            same = are_equal(self.a.at(readable(origin, exists)), probe.values, self.tolerance)
            return share_of(same & exists)

        return test

    def exchanged(self) -> Observations:
        """The same elements with a and b exchanged, for a hypothesis that makes a of b."""
        samples = (self.few.points, self.some.points, self.every.points, self.anywhere.points)
        return Observations.at(samples, self.b, self.a, self.tolerance, self.tally)

    def sentence(self, words: str, share: float, test: Test) -> str:
        """A hypothesis, and how much it explains.

        What explains all mismatches may be refuted by elements that are equal. It then says what has happened only
        where a and b differ, such as in one row.
        """
        place = "where a and b differ, " if share == 1 and test(self.anywhere) < 1 else ""
        tried = f"{self.tally.places.size:,} mismatches that were tried"
        if share == 1:
            every = tried if self.tally.level else f"{self.tally.count:,} mismatches"
            return f"{place}{words}: this explains all {every}"
        return f"{words}: this explains {percent(share)} of the {tried if self.tally.level else 'mismatches'}"


def observations_of(a: Operand, b: Operand, tolerance: Tolerance, tally: Tally) -> Observations:
    """The observations that a pass over two arrays leaves."""
    rng = np.random.default_rng(0)
    chosen = tally.points(rng.permutation(tally.places)[:_SAMPLE])
    total = math.prod(tally.shape)
    places = rng.integers(0, total, _SAMPLE) if total > _SAMPLE else rng.permutation(total)
    samples = (first(chosen), chosen, tally.points(tally.places), tally.points(places))
    return Observations.at(samples, a, b, tolerance, tally)


def most_explained(causes: Iterable[Pattern]) -> Pattern | None:
    """The one of some causes that explains the most, the first of equals; after one that explains all none is tried."""
    best: Pattern | None = None
    for found in causes:
        if best is None or found.share > best.share:
            best = found
        if found.share == 1:
            break
    return best


def existing(origin: Callable[[Points], Points]) -> IndexMap:
    """A source of elements all of which exist in a."""

    def source(points: Points) -> tuple[Points, Mask]:
        return origin(points), np.ones(points[0].shape, bool)

    return source


def first(points: Points) -> Points:
    """The first few of some indices."""
    return tuple(i[:_FEW] for i in points)


def readable(points: Points, exists: Mask) -> Points:
    """Indices that may be read: 0 for those that do not exist."""
    return tuple(np.where(exists, i, 0) for i in points)


def share_of(mask: Mask) -> float:
    """The part of a mask that is true."""
    return float(np.count_nonzero(mask) / mask.size)


def _share(probes: Sequence[Probe], test: Test, least: float = LEAST_SHARE) -> float:
    """The part of the last probe that a hypothesis explains; 0 once it explains too little of one."""
    share = 0.0
    for probe in probes:
        share = test(probe)
        if share < least:
            return 0.0
    return share
