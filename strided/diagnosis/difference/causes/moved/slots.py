"""Slots of a buffer, each of which holds an element or padding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from strided.arrays.layout_array import LayoutArray
from strided.diagnosis.difference.causes.observations import IndexMap, Observations
from strided.diagnosis.difference.operands import Operand, Points
from strided.diagnosis.difference.places import Numbers
from strided.diagnosis.difference.scan import same_layout
from strided.diagnosis.difference.values import Mask
from strided.wording import counted


class Memory(NamedTuple):
    """The memory of an array, and words for it in a sentence."""

    array: LayoutArray
    words: str


def memories(observed: Observations) -> Iterator[Memory]:
    """The memory of b, and that of a if its layout is different."""
    a, b = in_memory(observed.a), in_memory(observed.b)
    if b is not None:
        yield Memory(b, "in memory")
    if a is not None and (b is None or not same_layout(a, b)):
        yield Memory(a, "in the memory of a")


def in_memory(operand: Operand) -> LayoutArray | None:
    """The array if it is a whole buffer whose slots can be mapped to elements or padding; else None."""
    whole = operand.whole
    return None if whole is None or whole.address_map.irregular else whole


def distance(bits: int) -> str:
    """A distance in memory, for a sentence.

    >>> distance(-64), distance(4)
    ('-8 bytes', '4 bits')
    """
    return counted(bits, "bit") if bits % 8 else counted(bits // 8, "byte")


def slots_of(array: LayoutArray, points: Points) -> Numbers:
    """The slots of the elements at some indices."""
    return np.asarray(array.address_map.offset_of(points))


def at_slots(array: LayoutArray, slots: Numbers) -> tuple[Points, Mask]:
    """The indices of the elements in some slots, and which slots exist and hold an element."""
    inside = (slots >= 0) & (slots < array.spec.slots)
    index, over = array.xla_shape.expansion.coordinates_at(np.where(inside, slots, 0))
    return index, inside & (over < 0)


def from_slots(array: LayoutArray, origin: Callable[[Numbers], Numbers]) -> IndexMap:
    """The index map for elements that come from other slots: `origin` maps slots of b to slots of a."""

    def source(points: Points) -> tuple[Points, Mask]:
        return at_slots(array, origin(slots_of(array, points)))

    return source
