"""The elements on which a hypothesis is tested: first few mismatches, which refute most hypotheses, then more.

A hypothesis is a `Test`. One about the whole array must also hold for elements that are equal.
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
#: Maps indices of b to the indices of a that its elements come from, and a mask of those that exist.
IndexMap = Callable[[Points], tuple[Points, Mask]]

#: How many mismatches a hypothesis is tested on first, and then.
_FEW, _SAMPLE = 64, 4096


class Probe(NamedTuple):
    """Indices, and b's values there."""

    points: Points
    values: Values


#: Returns the share of a probe's elements that a hypothesis explains.
Test = Callable[[Probe], float]


@dataclass(frozen=True, slots=True)
class Observations:
    """Two differing arrays, of rank 1 or more, and samples of their elements.

    Attributes
    ----------
    a, b : Operand
    tolerance : Tolerance
    tally : Tally
    few, some, every : Probe
        Mismatches, each a subset of the next; `every` has all that the tally kept.
    anywhere : Probe
        A sample of the whole array, or all elements if they are few.
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
        """The share of the mismatches that a hypothesis about them explains; 0 if it is too small."""
        return _share((self.few, self.some, self.every), test)

    def share_in_whole_array(self, test: Test, least: float = LEAST_SHARE) -> float:
        """The share of the mismatches that a hypothesis about the whole array explains; 0 if less than `least`."""
        return _share((self.few, self.some, self.anywhere, self.every), test, least)

    def holds_everywhere(self, test: Test) -> bool:
        """Whether a hypothesis about the whole array explains all tested elements."""
        return self.share_in_whole_array(test, least=1) == 1

    def moved(self, source: IndexMap) -> Test:
        """The hypothesis that b's elements come from the places of a that `source` gives."""

        def test(probe: Probe) -> float:
            origin, exists = source(probe.points)
            same = are_equal(self.a.at(readable(origin, exists)), probe.values, self.tolerance)
            return share_of(same & exists)

        return test

    def exchanged(self) -> Observations:
        """The observations with a and b exchanged, to test the reverse hypothesis."""
        samples = (self.few.points, self.some.points, self.every.points, self.anywhere.points)
        return Observations.at(samples, self.b, self.a, self.tolerance, self.tally)

    def sentence(self, words: str, share: float, test: Test) -> str:
        """A sentence on a hypothesis and how much it explains.

        If it explains all mismatches but is refuted by equal elements, it applies only where a and b differ, such as in
        one row, and the sentence says so.
        """
        place = "where a and b differ, " if share == 1 and test(self.anywhere) < 1 else ""
        tried = f"{self.tally.places.size:,} mismatches that were tried"
        if share == 1:
            every = tried if self.tally.level else f"{self.tally.count:,} mismatches"
            return f"{place}{words}: this explains all {every}"
        return f"{words}: this explains {percent(share)} of the {tried if self.tally.level else 'mismatches'}"


def observations_of(a: Operand, b: Operand, tolerance: Tolerance, tally: Tally) -> Observations:
    """The observations after a pass over two arrays."""
    rng = np.random.default_rng(0)
    chosen = tally.points(rng.permutation(tally.places)[:_SAMPLE])
    total = math.prod(tally.shape)
    places = rng.integers(0, total, _SAMPLE) if total > _SAMPLE else rng.permutation(total)
    samples = (first(chosen), chosen, tally.points(tally.places), tally.points(places))
    return Observations.at(samples, a, b, tolerance, tally)


def most_explained(causes: Iterable[Pattern]) -> Pattern | None:
    """The cause that explains the most, the first of equals; stops at one that explains everything."""
    best: Pattern | None = None
    for found in causes:
        if best is None or found.share > best.share:
            best = found
        if found.share == 1:
            break
    return best


def existing(origin: Callable[[Points], Points]) -> IndexMap:
    """An index map whose sources all exist in a."""

    def source(points: Points) -> tuple[Points, Mask]:
        return origin(points), np.ones(points[0].shape, bool)

    return source


def first(points: Points) -> Points:
    """The first few points."""
    return tuple(i[:_FEW] for i in points)


def readable(points: Points, exists: Mask) -> Points:
    """The points with 0 in place of indices that do not exist, so that all can be read."""
    return tuple(np.where(exists, i, 0) for i in points)


def share_of(mask: Mask) -> float:
    """The share of a mask that is true."""
    return float(np.count_nonzero(mask) / mask.size)


def _share(probes: Sequence[Probe], test: Test, least: float = LEAST_SHARE) -> float:
    """The share of the last probe that a hypothesis explains; 0 as soon as it explains too little of a probe."""
    share = 0.0
    for probe in probes:
        share = test(probe)
        if share < least:
            return 0.0
    return share
