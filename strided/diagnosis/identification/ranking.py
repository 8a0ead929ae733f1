"""Values by their ranks, and beside others drawn at random: what can be compared whatever the units are."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from strided.diagnosis.identification.levels import Floats
from strided.runtime.aliases import Table

#: Values that others are ranked among.
_QUANTILES = 1024


def ranks(numbers: Floats, among: Floats) -> Floats:
    """The place of each value among others, from 0 to 1: outliers and units play no part. NaN is last."""
    if not len(among):
        return np.zeros(len(numbers))
    reference = np.sort(among)[:: max(1, len(among) // _QUANTILES)]
    held = reference[reference == reference]
    first = np.flatnonzero(np.append(True, held[1:] != held[:-1])[: len(held)])
    found = np.full(len(numbers), len(held) / len(reference))
    # Numbers in order are counted many times as fast as each is searched for: those that equal one quantile, and those
    # between it and the next, have one place. NaNs are left out: with one of them NumPy sorts several times as slowly.
    told = np.flatnonzero(numbers == numbers)
    order = told[np.argsort(numbers[told])]
    ordered = numbers[order]
    ends = np.stack([np.searchsorted(ordered, held[first], side) for side in ("left", "right")], axis=1).reshape(-1)
    equal = np.diff(first, append=len(held))
    places = np.append(np.stack([first, first + equal / 2], axis=1), len(held))
    found[order] = np.repeat(places, np.diff(ends, prepend=0, append=len(order))) / len(reference)
    return found


def shuffled_differences(u: Floats) -> Floats:
    """Differences of values drawn at random, one for each."""
    differences: Floats = np.abs(u - u[_others(len(u))])
    return differences


@lru_cache(maxsize=64)
def permutation(seed: int, count: int) -> npt.NDArray[np.int64]:
    """A random order of so many values; many readings have equally many."""
    found = np.random.default_rng(seed).permutation(count)
    found.flags.writeable = False  # it is shared
    return found


@lru_cache(maxsize=64)
def _others(count: int) -> Table:
    """Another of so many values for each, at random."""
    found = np.roll(permutation(3, count), 1)
    found.flags.writeable = False  # it is shared
    return found
