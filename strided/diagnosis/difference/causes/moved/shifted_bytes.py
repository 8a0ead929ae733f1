"""b is a, moved in memory by bytes that are no whole number of elements: bytes of two elements then make one.

The memory is that of either array, in any layout: the other array's elements are taken as they would lie in it. What
its padding would hold is not known then. A movement is named only if each compared element of b that two elements of a
make is equal to the last bit. What comes from padding, or from beyond an end, refutes nothing and is not explained.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from strided.arrays.layout_array import LayoutArray
from strided.diagnosis.difference.causes.evidence import Evidence, Probe, Test, Values, readable, share_of
from strided.diagnosis.difference.causes.moved.distances import likeliest_steps, window
from strided.diagnosis.difference.causes.moved.slots import at_slots, memories, slots_of
from strided.diagnosis.difference.operands import Operand
from strided.diagnosis.difference.places import Numbers
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.scan import same_layout
from strided.diagnosis.difference.values import Mask, converted
from strided.layout.element_types import element_type_of_dtype
from strided.wording import counted

Bytes = npt.NDArray[np.uint8]
#: Single bytes come again and again: only so many in turn identify a place.
_IN_TURN = 16


class _Slots(NamedTuple):
    """What some slots hold: bytes, a row for each slot; which slots are known; which of these hold an element."""

    bytes: Bytes
    known: Mask
    element: Mask


def shifted_bytes(evidence: Evidence) -> Pattern | None:
    """The movement by bytes in the memory of b, or in that of a."""
    if element_type_of_dtype(evidence.a.dtype) != element_type_of_dtype(evidence.b.dtype):
        return None
    for memory in memories(evidence):
        size = memory.array.dtype.itemsize
        if memory.array._memory.bits != 8 * size or size == 1:
            continue
        for step in _steps(evidence, memory.array):
            test = _moved(evidence, memory.array, step)
            if step % size and (share := evidence.share_in_whole_array(test)):
                where = counted(step, "byte")
                words = f"b is a moved by {where} {memory.words}"
                return Pattern("shift", where, share, evidence.sentence(words, share, test))
    return None


def _steps(evidence: Evidence, memory: LayoutArray) -> Iterator[int]:
    """By how many bytes b may be moved, as the bytes around a mismatch have it."""
    centre = int(slots_of(memory, tuple(i[:1] for i in evidence.some.points)).item())
    near = window(centre, memory.spec.slots)
    before, after = (_held(each, memory, near).bytes.reshape(-1) for each in (evidence.a, evidence.b))
    yield from likeliest_steps([(before.astype(np.uint64), after.astype(np.uint64))], _IN_TURN)


def _moved(evidence: Evidence, memory: LayoutArray, step: int) -> Test:
    """The hypothesis that b has its bytes from so many bytes before, exactly."""
    slots, cut = divmod(-step, memory.dtype.itemsize)

    def test(probe: Probe) -> float:
        first = slots_of(memory, probe.points) + slots
        one, other = (_held(evidence.a, memory, each) for each in (first, first + 1))
        made = np.concatenate([one.bytes[:, cut:], other.bytes[:, :cut]], axis=1)
        same = (made == _bytes_of(probe.values)).all(axis=1)
        if (~same & one.element & other.element).any():
            return 0.0
        return share_of(same & one.known & other.known)

    return test


def _held(operand: Operand, memory: LayoutArray, slots: Numbers) -> _Slots:
    """What an operand has in some slots of a memory. Of its own memory that is known, padding and all."""
    index, element = at_slots(memory, slots)
    own = operand.whole
    if own is not None and same_layout(own, memory):
        size = memory.dtype.itemsize
        rows = own._memory.buffer[: own._memory.buffer.size // size * size].reshape(-1, size)
        known = (slots >= 0) & (slots < len(rows))
        return _Slots(rows[np.where(known, slots, 0)], known, element)
    found = _bytes_of(operand.at(readable(index, element)))
    found[~element] = 0
    return _Slots(found, element, element)


def _bytes_of(values: Values) -> Bytes:
    """The bytes of each value, a row for each, as a buffer holds them."""
    native = np.ascontiguousarray(converted(values, values.dtype))
    return native.view(np.uint8).reshape(values.size, -1)
