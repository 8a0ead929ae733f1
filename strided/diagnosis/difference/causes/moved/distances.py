"""Estimate the distance by which b is moved: each value that is unique in a votes for its distance to that in b."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from strided.diagnosis.bit_patterns import patterns
from strided.diagnosis.difference.places import Numbers
from strided.diagnosis.difference.values import Mask

Hashes = npt.NDArray[np.uint64]

#: The number of places in which a movement is searched for.
_WINDOW = 1 << 13
#: How many of the distances with the most votes are tried.
_TRIED = 2
#: Hashes of sequences and rows are polynomials in this, the 64-bit prime of the FNV hash: an odd factor of mixed bits.
FNV_PRIME = np.uint64(0x100000001B3)


def window(centre: int, size: int) -> Numbers:
    """A window of places around a centre, within bounds."""
    start = max(0, min(centre - _WINDOW // 2, size - _WINDOW))
    return np.arange(start, min(size, start + _WINDOW))


def numbers(values: npt.NDArray[np.generic]) -> Hashes:
    """A number for each value; equal bits have equal numbers."""
    found = patterns(values)
    return found.astype(np.uint64) if found.ndim == 1 else found[:, 0] * np.uint64(31) + found[:, 1]


def likeliest_steps(lines: Iterable[tuple[Hashes, Hashes]], length: int, exists: Mask | None = None) -> list[int]:
    """The most common nonzero distances between the places of equal numbers in a line of a and in the same line of b.

    Only numbers, or sequences of `length` numbers, that are unique in a line of a count. Numbers at slots that do not
    exist are ignored, but not within sequences.

    >>> a = np.arange(8, dtype=np.uint64)
    >>> likeliest_steps([(a, np.roll(a, 3))], 2)
    [3, -5]
    """
    votes = [_distances(in_turn(a, length), in_turn(b, length), exists if length == 1 else None) for a, b in lines]
    steps, counts = np.unique(np.concatenate(votes), return_counts=True)
    best = np.argsort(-counts, kind="stable")[:_TRIED]
    return [int(steps[k]) for k in best if counts[k] > 1 and steps[k]]


def in_turn(own: Hashes, length: int) -> Hashes:
    """A hash of the `length` numbers from each place; none where fewer follow."""
    count = max(0, own.size - length + 1)
    total = np.zeros(count, np.uint64)
    # Byte-swapped small integers have only high bits, which products never carry to low ones.
    mixed = own ^ own >> np.uint64(32)
    for k in range(length):
        total = total * FNV_PRIME + mixed[k : k + count]
    return total


def _distances(a: Hashes, b: Hashes, exists: Mask | None) -> Numbers:
    """The distance of each value that is unique in a to its place in b, where the two differ."""
    kept = np.arange(a.size) if exists is None else np.flatnonzero(exists)
    changed = kept[a[kept] != b[kept]]
    values, first, counts = np.unique(a[kept] if changed.size else a[:0], return_index=True, return_counts=True)
    once, place = values[counts == 1], kept[first[counts == 1]]
    if not once.size:
        return np.zeros(0, np.int64)
    found = np.minimum(np.searchsorted(once, b[changed]), once.size - 1)
    same = once[found] == b[changed]
    distances: Numbers = changed[same] - place[found[same]]
    return distances
