"""Places in memory: the slots of a buffer, one for each element or element of padding."""

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
    """The memory of an array, and what a sentence calls it."""

    array: LayoutArray
    words: str


def memories(observed: Observations) -> Iterator[Memory]:
    """The memory of b, and that of a if equal elements lie elsewhere there."""
    a, b = in_memory(observed.a), in_memory(observed.b)
    if b is not None:
        yield Memory(b, "in memory")
    if a is not None and (b is None or not same_layout(a, b)):
        yield Memory(a, "in the memory of a")


def in_memory(operand: Operand) -> LayoutArray | None:
    """The array, if it is all of a buffer in whose slots its elements can be told from padding."""
    whole = operand.whole
    return None if whole is None or whole.address_map.irregular else whole


def distance(bits: int) -> str:
    """How far apart two places in memory are, for a sentence.

    >>> distance(-64), distance(4)
    ('-8 bytes', '4 bits')
    """
    return counted(bits, "bit") if bits % 8 else counted(bits // 8, "byte")


def slots_of(array: LayoutArray, points: Points) -> Numbers:
    """The slots of the elements at some indices."""
    return np.asarray(array.address_map.offset_of(points))


def at_slots(array: LayoutArray, slots: Numbers) -> tuple[Points, Mask]:
    """The indices of the elements in some slots, and which slots exist and hold one."""
    inside = (slots >= 0) & (slots < array.spec.slots)
    index, over = array.xla_shape.expansion.coordinates_at(np.where(inside, slots, 0))
    return index, inside & (over < 0)


def from_slots(array: LayoutArray, origin: Callable[[Numbers], Numbers]) -> IndexMap:
    """The source of elements that come from other slots: `origin` takes the slots of b, and gives those of a."""

    def source(points: Points) -> tuple[Points, Mask]:
        return at_slots(array, origin(slots_of(array, points)))

    return source
