"""An upper bound of the padding in use at one time, for unknown live ranges.

Slots of one allocation that share bytes are not in use at the same time. So the bound is the largest total padding of
slots that share no bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import NamedTuple


class Slot(NamedTuple):
    """Bytes of an allocation, and how many of them are padding."""

    allocation: Hashable
    offset: int
    size: int
    padding: int


def most_padding(slots: Iterable[Slot]) -> int:
    """The most padding of slots that share no bytes, in bytes.

    >>> most_padding([Slot(0, 0, 100, 60), Slot(0, 0, 50, 30), Slot(0, 50, 50, 40), Slot(1, 0, 8, 4)])
    74
    """
    groups: dict[Hashable, list[Slot]] = defaultdict(list)
    for slot in slots:
        groups[slot.allocation].append(slot)
    return sum(_most(group) for group in groups.values())


def covered(slots: Iterable[Slot]) -> int:
    """The bytes of all allocations that belong to any slot.

    >>> covered([Slot(0, 0, 100, 60), Slot(0, 50, 100, 30), Slot(1, 8, 8, 4)])
    158
    """
    found, stops = 0, dict[Hashable, int]()
    for slot in sorted(slots, key=lambda slot: slot.offset):
        stop = slot.offset + slot.size
        found += max(0, stop - max(slot.offset, stops.get(slot.allocation, 0)))
        stops[slot.allocation] = max(stop, stops.get(slot.allocation, 0))
    return found


def _most(slots: list[Slot]) -> int:
    slots.sort(key=lambda slot: slot.offset + slot.size)
    stops = [slot.offset + slot.size for slot in slots]
    best = [0]
    for n, slot in enumerate(slots):
        before = bisect_right(stops, slot.offset, 0, n)
        best.append(max(best[-1], best[before] + slot.padding))
    return best[-1]
