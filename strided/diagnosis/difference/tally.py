"""What a pass over two arrays counts: mismatches, how far they are apart, and a sample of where they lie.

Nothing that is kept grows with the number of elements or mismatches, but for counts along axes that are not too long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from strided.arrays.blocks import Box
from strided.diagnosis.bit_patterns import FIBONACCI
from strided.diagnosis.difference.operands import Points
from strided.diagnosis.difference.values import Mask
from strided.pictures.folding import Counts, Folding

#: Mismatches whose places are kept; of more, an even sample. Of a block with more, about so many.
_MOST_PLACES, _BLOCK_PLACES = 1 << 16, 1 << 13
#: The longest axis of which it is counted how many mismatches each index has.
_COUNTED = 1 << 22

Places = npt.NDArray[np.int64]


class Increment(NamedTuple):
    """What some elements add to a `Tally`, whose attributes these are; the first two are masks."""

    unequal: Mask
    unordered: Mask
    max_abs: float
    max_rel: float
    max_steps: int
    histogram: Counts
    changed_bits: int
    same_bits: int
    negated: int


@dataclass
class Tally:
    """What a pass found.

    Attributes
    ----------
    count, unordered : int
        Mismatches, and those of them in which one is NaN.
    max_abs, max_rel, max_steps
        Over all elements.
    histogram : ndarray of int64
        Mismatches by their steps: entry k counts those from ``2**k`` to ``2**(k+1) - 1``.
    per_axis : dict of int to ndarray of int64
        Mismatches at each index of an axis, for those of at most `_COUNTED` indices.
    cells : Folding
    map_counts, nan_counts : ndarray
        Mismatches in each cell, and those of them in which one is NaN.
    places : ndarray of int64
        Flat indices of the mismatches, or of an even sample.
    level : int
        The sample has one place in ``2**level``.
    first : list of int
        The smallest flat indices.
    changed_bits : int
        Bits in which any mismatch differs; 0 where the types do.
    same_bits : int
        Mismatches that differ in no bit: NaN that equals nothing.
    negated : int
        Mismatches of which one is the other's negative.
    padding_bytes, element_bytes : int
        Bytes outside elements, and of elements, that differ; 0 for buffers in two layouts.
    """

    shape: tuple[int, ...]
    limit: int
    cells: Folding
    count: int = 0
    unordered: int = 0
    max_abs: float = 0
    max_rel: float = 0.0
    max_steps: int = 0
    histogram: Counts = field(default_factory=lambda: np.zeros(64, np.int64))
    per_axis: dict[int, Counts] = field(init=False)
    map_counts: Counts = field(init=False)
    nan_counts: Counts = field(init=False)
    places: Places = field(default_factory=lambda: np.zeros(0, np.int64))
    level: int = 0
    first: list[int] = field(default_factory=list)
    changed_bits: int = 0
    same_bits: int = 0
    negated: int = 0
    padding_bytes: int = 0
    element_bytes: int = 0

    def __post_init__(self) -> None:
        # An array without elements may have any other sizes.
        counted = () if 0 in self.shape else enumerate(self.shape)
        self.per_axis = {k: np.zeros(n, np.int64) for k, n in counted if n <= _COUNTED}
        self.map_counts, self.nan_counts = self.cells.counts(), self.cells.counts()

    def points(self, places: Places | Sequence[int]) -> Points:
        """The indices of flat ones."""
        return tuple(np.unravel_index(np.asarray(places, np.int64), self.shape)) if self.shape else ()

    def indices(self, places: Places | Sequence[int]) -> list[tuple[int, ...]]:
        """The same, each as a tuple."""
        points = self.points(places)
        return list(zip(*(i.tolist() for i in points), strict=True)) if points else [()] * len(places)

    def add(self, part: Increment) -> None:
        """Add what was found in a part of a block."""
        self.count += int(np.count_nonzero(part.unequal))
        self.unordered += int(np.count_nonzero(part.unordered))
        self.max_abs = max(self.max_abs, part.max_abs)
        self.max_rel = max(self.max_rel, part.max_rel)
        self.max_steps = max(self.max_steps, part.max_steps)
        self.histogram += part.histogram
        self.changed_bits |= part.changed_bits
        self.same_bits += part.same_bits
        self.negated += part.negated

    def places_in(self, box: Box, mask: Mask) -> tuple[Places, Places, int]:
        """What `keep` takes: places of a block's first mismatches, and of a sample, and its level, 0 if it has all."""
        inside = np.flatnonzero(mask)
        count, level = len(inside), 0
        ranks = np.arange(count)
        if count > _MOST_PLACES:
            level = (count // _BLOCK_PLACES).bit_length()
            # One of each few neighbours, as a hash has it: with an even step all might lie in one lane.
            ranks = np.arange(0, count, 1 << level)
            ranks += (_mixed(ranks) >> np.uint64(64 - level)).astype(np.int64)
            ranks = ranks[ranks < count]
        inside = inside[np.concatenate([np.arange(min(count, self.limit)), ranks])]
        flat = np.zeros(len(inside), np.int64)
        index = np.unravel_index(inside, mask.shape) if mask.ndim else ()
        for own, block, n in zip(index, box, self.shape, strict=True):
            flat *= n
            flat += own + block.start
        first, sample = np.split(flat, [len(flat) - len(ranks)])
        return first, sample, level

    def keep(self, first: Places, places: Places, level: int) -> None:
        """Add the first places of a block's mismatches, and a sample of them that has one in ``2**level``."""
        self.first = sorted([*self.first, *first.tolist()])[: self.limit]
        before, self.level = self.level, max(self.level, level)
        self.places = np.concatenate([_thinned(self.places, before, self.level), _thinned(places, level, self.level)])
        while self.places.size > _MOST_PLACES:
            self.places = _thinned(self.places, self.level, self.level + 1)
            self.level += 1


def _thinned(places: Places, level: int, wanted: int) -> Places:
    """One in ``2**wanted`` places, of a sample that has one in ``2**level``."""
    if level == wanted:
        return places
    # Each level looks at a bit of its own.
    own = _mixed(places) >> np.uint64(64 - wanted) & np.uint64((1 << wanted - level) - 1)
    found: Places = places[own == 0]
    return found


def _mixed(numbers: Places) -> npt.NDArray[np.uint64]:
    """Numbers without any pattern that those have.

    Such a hash of the place picks the sample, so that it depends neither on threads nor on the order of blocks.
    """
    found: npt.NDArray[np.uint64] = numbers.astype(np.uint64) * FIBONACCI
    found ^= found >> np.uint64(32)
    found *= FIBONACCI
    return found
