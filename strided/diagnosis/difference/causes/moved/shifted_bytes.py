"""b is a, shifted in memory by a number of bytes, which need not be a whole number of elements.

The memory is that of either array, in any layout: the other array is laid out like it, with unknown padding. Packed
elements are shifted by whole elements: here each has a byte. A shift is reported only if every compared element of b
whose bytes come from elements of a is equal to the last bit. Elements from padding, or from beyond an end, neither
refute the hypothesis nor count as explained.

Near a mismatch, each byte votes for its distance. Further away a run of bytes is searched for, because a dump that is
read from a wrong offset may begin anywhere. If a run occurs repeatedly, the nearest place is preferred.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import AddressMap
from strided.arrays.layout_array import LayoutArray
from strided.diagnosis.difference.causes.chance import is_no_chance
from strided.diagnosis.difference.causes.moved.distances import likeliest_steps, window
from strided.diagnosis.difference.causes.moved.slots import at_slots, distance, memories, slots_of
from strided.diagnosis.difference.causes.observations import Observations, Probe, Test, Values, readable, share_of
from strided.diagnosis.difference.operands import Operand
from strided.diagnosis.difference.places import LEAST_SHARE, Numbers
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.scan import same_layout
from strided.diagnosis.difference.values import Mask, converted
from strided.layout.element_types import element_type_of_dtype

Bytes = npt.NDArray[np.uint8]
#: Single bytes repeat often: only a sequence of so many identifies a place.
_IN_TURN = 16
#: Bytes of a run, and how many of them must be distinct, so that it is probably unique; runs and places to try.
_RUN_BYTES, _LEAST_DIFFERENT, _RUNS, _PLACES = 64, 8, 8, 2
#: Bytes on both sides of a run in which it is searched for, and bytes to search at a time. The other array is laid out
#: for this if it takes no more bytes.
_FAR_BYTES, _BLOCK_BYTES = 1 << 29, 1 << 22
#: The share of the mismatches that must come from elements of a: less than half, because a small sample may have fewer.
_LEAST_KNOWN = 1 / 3


class _SlotBytes(NamedTuple):
    """The content of slots: their bytes, a row each; which slots are known; and which hold an element."""

    bytes: Bytes
    known: Mask
    element: Mask


def shifted_bytes(observed: Observations) -> Pattern | None:
    """A shift by bytes in the memory of b, or in that of a."""
    if element_type_of_dtype(observed.a.dtype) != element_type_of_dtype(observed.b.dtype):
        return None
    for memory in memories(observed):
        for step in _steps(observed, memory.array):
            test = _moved(observed, memory.array, step)
            share = observed.share_in_whole_array(test, _LEAST_KNOWN) if step else 0
            if share and is_no_chance(observed, math.log2(2 * _size(memory.array))):
                where = distance(step * min(8, memory.array._memory.bits))
                words = observed.sentence(f"b is a moved by {where} {memory.words}", share, test)
                others = "" if share == 1 else "; the others come from beyond an end, or from padding"
                return Pattern("shift", where, share, words + others)
    return None


def _steps(observed: Observations, memory: LayoutArray) -> Iterator[int]:
    """Candidate distances in bytes: by the bytes around a mismatch, then by runs found anywhere."""
    centre = int(slots_of(memory, tuple(i[:1] for i in observed.some.points)).item())
    near = window(centre, memory.spec.slots)
    before, after = (_held(each, memory, near).bytes.reshape(-1) for each in (observed.a, observed.b))
    yield from likeliest_steps([(before.astype(np.uint64), after.astype(np.uint64))], _IN_TURN)
    found = Counter(_far_steps(observed, memory))
    yield from sorted(found, key=lambda step: (-found[step], abs(step)))[:_PLACES]


def _far_steps(observed: Observations, memory: LayoutArray) -> Iterator[int]:
    """Distances from the places of runs of bytes in a to those in b."""
    runs = _runs(observed, memory)
    if not runs or (laid_out := _laid_out(observed.a, memory)) is None:
        return
    size = memory.dtype.itemsize
    start, stop = max(0, min(runs) - _FAR_BYTES), min(_size(laid_out), max(runs) + _FAR_BYTES)
    for first in range(start, stop, _BLOCK_BYTES):
        if observed.a.whole is not None:
            observed.a.whole.region  # noqa: B018  # checks that a mapped file is still there
        last = min(first + _BLOCK_BYTES + _RUN_BYTES, _size(laid_out))
        block = _in_slots(laid_out, slice(first // size, last // size)).tobytes()[: _BLOCK_BYTES + _RUN_BYTES - 1]
        observed.a.release()
        for begin, run in runs.items():
            own = begin - first
            if 0 <= own < _BLOCK_BYTES:
                places = [block.rfind(run, 0, own + _RUN_BYTES - 1), block.find(run, own)]  # the nearest on either side
            else:
                places = [block.find(run)]
            yield from (own - place for place in places if place >= 0)


def _runs(observed: Observations, memory: LayoutArray) -> dict[int, bytes]:
    """Runs of bytes of b at mismatches that are distinctive enough to search for, by their start."""
    size = memory.dtype.itemsize
    runs = {}
    for slot in slots_of(memory, tuple(i[:_RUNS] for i in observed.some.points)).tolist():
        held = _held(observed.b, memory, slot + np.arange(_RUN_BYTES // size))
        run = held.bytes.tobytes()
        if held.known.all() and len(set(run)) >= _LEAST_DIFFERENT:
            runs[slot * size] = run
    return runs


def _laid_out(operand: Operand, memory: LayoutArray) -> LayoutArray | None:
    """An operand in the layout of a memory; None if it would have to be converted and is too large."""
    own = _own(operand, memory)
    if own is None and memory.xla_shape.buffer_byte_size <= _FAR_BYTES:
        return LayoutArray.from_numpy(np.asarray(operand.array), memory.xla_shape)
    return own


def _moved(observed: Observations, memory: LayoutArray, step: int) -> Test:
    """The hypothesis that each byte of b comes exactly from `step` bytes before."""
    slots, cut = divmod(-step, memory.dtype.itemsize)

    def test(probe: Probe) -> float:
        first = slots_of(memory, probe.points) + slots
        one = _held(observed.a, memory, first)
        other = _held(observed.a, memory, first + 1) if cut else one
        made = np.concatenate([one.bytes[:, cut:], other.bytes[:, :cut]], axis=1)
        same = (made == _bytes_of(probe.values)).all(axis=1)
        elements = one.element & other.element
        if (~same & elements).any():
            return 0.0
        share = share_of(same & one.known & other.known)
        # Zeros of b may come from padding by chance: they support a shift only if nearly all bytes are explained.
        return share if share >= LEAST_SHARE or share_of(elements) >= _LEAST_KNOWN else 0.0

    return test


def _held(operand: Operand, memory: LayoutArray, slots: Numbers) -> _SlotBytes:
    """An operand's content in slots of a memory; including padding, if it is the operand's own memory."""
    index, element = at_slots(memory, slots)
    own = _own(operand, memory)
    if own is not None:
        known = (slots >= 0) & (slots < _size(own) // own.dtype.itemsize)
        return _SlotBytes(_in_slots(own, np.where(known, slots, 0)), known, element)
    found = _bytes_of(operand.at(readable(index, element)))
    found[~element] = 0
    return _SlotBytes(found, element, element)


def _own(operand: Operand, memory: LayoutArray) -> LayoutArray | None:
    """The operand's own array if its memory has the same shape and layout."""
    own = operand.whole
    return own if own is not None and same_layout(own, memory) else None


def _size(array: LayoutArray) -> int:
    """Bytes of a buffer's slots; packed elements count as one byte each."""
    size = array.dtype.itemsize
    return array.spec.slots if array._memory.bits < 8 else array._memory.buffer.size // size * size


def _in_slots(array: LayoutArray, slots: Numbers | slice) -> Bytes:
    """The bytes in some slots of a buffer, a row each."""
    if array._memory.bits < 8:
        in_turn = array._with_map(AddressMap.from_strides((array.spec.slots,), (1,)))
        return _bytes_of(np.asarray(in_turn[slots]))
    buffer = array.region.buffer
    return buffer[: _size(array)].reshape(-1, array.dtype.itemsize)[slots]


def _bytes_of(values: Values) -> Bytes:
    """The bytes of each value as in a buffer, a row each."""
    native = np.ascontiguousarray(converted(values, values.dtype))
    return native.view(np.uint8).reshape(values.size, -1)
