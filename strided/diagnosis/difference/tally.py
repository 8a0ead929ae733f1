"""What a pass over two arrays counts: mismatches, their distances, and a sample of their places.

Its size does not grow with the number of elements or mismatches, except for counts along axes that are not too long.
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

#: The most mismatches whose places are kept, of more an even sample; and about how many of one block.
_MOST_PLACES, _BLOCK_PLACES = 1 << 16, 1 << 13
#: The longest axis along which the mismatches at each index are counted.
_COUNTED = 1 << 22

Places = npt.NDArray[np.int64]


class Increment(NamedTuple):
    """What some elements add to the attributes of a `Tally`; the first two fields are masks."""

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
    """The counts of a pass.

    Attributes
    ----------
    count, unordered : int
        The numbers of mismatches, and of those with a NaN.
    max_abs, max_rel, max_steps
        Maxima over all elements.
    histogram : ndarray of int64
        Mismatches by steps: entry k counts those from ``2**k`` to ``2**(k+1) - 1``.
    per_axis : dict of int to ndarray of int64
        Mismatches at each index of an axis, for axes of at most `_COUNTED` indices.
    cells : Folding
    map_counts, nan_counts : ndarray
        Mismatches in each cell of the map, and those with a NaN.
    places : ndarray of int64
        Flat indices of the mismatches, or of an even sample of them.
    level : int
        The sample has one of every ``2**level`` places.
    first : list of int
        The smallest flat indices.
    changed_bits : int
        Bits that change in any mismatch; 0 if the types differ.
    same_bits : int
        Mismatches with equal bits: NaN, if it equals nothing.
    negated : int
        Mismatches that are negatives of each other.
    padding_bytes, element_bytes : int
        Differing bytes of padding, and of elements; 0 if the layouts differ.
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
        # An array without elements may have huge axes.
        counted = () if 0 in self.shape else enumerate(self.shape)
        self.per_axis = {k: np.zeros(n, np.int64) for k, n in counted if n <= _COUNTED}
        self.map_counts, self.nan_counts = self.cells.counts(), self.cells.counts()

    def points(self, places: Places | Sequence[int]) -> Points:
        """The indices, by axis, of flat indices."""
        return tuple(np.unravel_index(np.asarray(places, np.int64), self.shape)) if self.shape else ()

    def indices(self, places: Places | Sequence[int]) -> list[tuple[int, ...]]:
        """The indices, each as a tuple, of flat indices."""
        points = self.points(places)
        return list(zip(*(i.tolist() for i in points), strict=True)) if points else [()] * len(places)

    def add(self, part: Increment) -> None:
        """Add the counts of a part of a block."""
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
        """Arguments for `keep`: the places of a block's first mismatches, those of a sample, and the sample's level."""
        inside = np.flatnonzero(mask)
        count, level = len(inside), 0
        ranks = np.arange(count)
        if count > _MOST_PLACES:
            level = (count // _BLOCK_PLACES).bit_length()
            # A hash picks one of several neighbours: with an even step, all might lie in one lane.
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
        """Add the first places of a block's mismatches, and a sample with one of every ``2**level``."""
        self.first = sorted([*self.first, *first.tolist()])[: self.limit]
        before, self.level = self.level, max(self.level, level)
        self.places = np.concatenate([_thinned(self.places, before, self.level), _thinned(places, level, self.level)])
        while self.places.size > _MOST_PLACES:
            self.places = _thinned(self.places, self.level, self.level + 1)
            self.level += 1


def _thinned(places: Places, level: int, wanted: int) -> Places:
    """Thin a sample of level `level` to level `wanted`."""
    if level == wanted:
        return places
    # Each level tests one bit of the hash.
    own = _mixed(places) >> np.uint64(64 - wanted) & np.uint64((1 << wanted - level) - 1)
    found: Places = places[own == 0]
    return found


def _mixed(numbers: Places) -> npt.NDArray[np.uint64]:
    """Hashes of numbers, without the pattern of the numbers.

    The sample is picked by this hash of the place, so that it depends neither on threads nor on the order of blocks.
    """
    found: npt.NDArray[np.uint64] = numbers.astype(np.uint64) * FIBONACCI
    found ^= found >> np.uint64(32)
    found *= FIBONACCI
    return found
