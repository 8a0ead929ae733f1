"""How a reading fits into the buffer: whether it takes all bytes, and what fills the slots that would be padding."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from strided.diagnosis.identification.candidates import HEADERS, Reading
from strided.diagnosis.identification.evidence import Evidence
from strided.diagnosis.identification.sampling import Source
from strided.runtime.aliases import Table
from strided.wording import counted

#: The most that unexplained bytes say, in nats.
_MOST = 2000.0
#: Slots looked at for padding: anywhere in the buffer, and at its end; and how rare constants are among values that
#: fill nothing but padding.
_SLOTS, _TAIL, _RARE = 2048, 64, 20
#: The most constants that padding holds, as words of a pattern do, and how many slots each but the first one costs.
CONSTANTS, PRICE = 8, 16


def placement(reading: Reading, size: int) -> Evidence:
    """How well the size fits. Bytes that a reading leaves unexplained speak against it."""
    if reading.missing_bytes:
        needed = size + reading.missing_bytes
        sentence = f"size: the buffer lacks {reading.missing_bytes:,} of {counted(needed, 'byte')}"
        return Evidence("size", -8 - min(reading.missing_bytes / 20, _MOST), sentence)
    if reading.excess_bytes:
        sentence = f"size: {counted(reading.excess_bytes, 'byte lies', 'bytes lie')} behind the array"
        if not reading.has_rest:
            return Evidence("size", -4 - min(reading.excess_bytes / 20, _MOST), f"{sentence}, from rounding up")
        return Evidence("size", -10 - min(reading.excess_bytes / 4, _MOST), sentence)
    if reading.offset:
        if reading.offset in HEADERS:
            sentence = f"size: {reading.offset:,} bytes lie in front, as headers do"
            return Evidence("size", -5 - reading.offset / 50, sentence)
        sentence = f"size: {counted(reading.offset, 'byte is', 'bytes are')} left in front"
        return Evidence("size", -10 - min(reading.offset / 4, _MOST), sentence)
    return Evidence("size", 0.0, f"size: the array takes exactly the {counted(size, 'byte')}")


def padding(source: Source, reading: Reading) -> tuple[Evidence, tuple[bytes, ...]]:
    """Whether a few constants fill what would be padding, while the values are others; and the constants, if so.

    Or one constant fills the array, while the padding holds others: a buffer that was set to one value. The constants
    are bytes in the order of memory, so that readings in either order of bytes know them again.
    """
    nothing = Evidence("padding", 0.0, ""), ()
    shape = reading.shape
    slots = shape.expansion.allocated_elements
    if slots == shape.size:
        return nothing
    offsets = _looked_at(slots)
    values, inside = source.fetch(reading, offsets)
    empty = (shape.expansion.coordinates_at(offsets)[1] >= 0) & inside
    number = int(np.count_nonzero(empty))
    if number < 2 or _is_part_of_each_byte(reading, offsets[inside], empty[inside]):
        return nothing
    words = values.view(np.uint8).reshape(len(values), -1)
    full = inside & ~empty
    constants, same = _constants(words, empty)
    if not constants:
        return _equal_elements(reading, words, full, empty), ()
    rare = (np.count_nonzero(full) + 2) / (np.count_nonzero(full & same) + 1)
    if len(constants) > 1 and rare <= _RARE:
        return _equal_elements(reading, words, full, empty), ()
    weight = (number - PRICE * (len(constants) - 1)) * math.log(rare / 2) if rare > 2 else 0.0
    one = "" if len(constants) == 1 else f"one of {len(constants)} constants, such as "
    shown = f"{one}0x{constants[0][::-1].tobytes().hex()}"
    found = Evidence("padding", weight, f"padding: all {number:,} slots of it that were looked at hold {shown}")
    return found, tuple(reading.in_memory(c.tobytes()) for c in constants) if rare > _RARE else ()


def _looked_at(slots: int) -> Table:
    """Slots that are looked at for padding: anywhere, and at the end; all of a few."""
    if slots <= _SLOTS:
        return np.arange(slots)
    rng = np.random.default_rng(11)
    return np.concatenate([rng.integers(0, slots, _SLOTS), np.arange(slots - _TAIL, slots)])


def _is_part_of_each_byte(reading: Reading, offsets: Table, empty: npt.NDArray[np.bool_]) -> bool:
    """Whether its place in a byte tells if a packed element is padding: so the bits of wider elements differ."""
    places = 8 // reading.shape.element_bits
    if places < 2:
        return False
    count, padded = (np.bincount(offsets % places, weights, places) for weights in (None, empty))
    return bool(((padded == 0) | (padded == count)).all())


def _constants(
    words: npt.NDArray[np.uint8], empty: npt.NDArray[np.bool_]
) -> tuple[list[npt.NDArray[np.uint8]], npt.NDArray[np.bool_]]:
    """The constants that fill the empty slots, and which of all slots hold one; none if they are too many.

    >>> words, empty = np.array([[1], [7], [7]], np.uint8), np.array([False, True, True])
    >>> found, same = _constants(words, empty)
    >>> [constant.tolist() for constant in found], same.tolist()
    ([[7]], [False, True, True])
    """
    constants: list[npt.NDArray[np.uint8]] = []
    same = np.zeros(len(words), np.bool_)
    number = np.count_nonzero(empty)
    while (others := empty & ~same).any():
        if len(constants) == CONSTANTS or len(constants) * PRICE >= number:
            return [], same
        constants.append(words[np.argmax(others)])
        same |= (words == constants[-1]).all(axis=1)
    return constants, same


def _equal_elements(
    reading: Reading, words: npt.NDArray[np.uint8], full: npt.NDArray[np.bool_], empty: npt.NDArray[np.bool_]
) -> Evidence:
    """Whether all elements hold one constant, and the padding mostly others."""
    number = int(np.count_nonzero(full))
    constant = words[np.argmax(full)]
    same = (words == constant).all(axis=1)
    rare = (np.count_nonzero(empty) + 2) / (np.count_nonzero(empty & same) + 1)
    # Of small numbers that are not packed, half of each byte is zero, and such halves are no elements.
    if reading.shape.element_bits < 8 or number < 2 or rare <= 2 or not same[full].all():
        return Evidence("padding", 0.0, "")
    shown = f"all {number:,} elements that were looked at hold 0x{constant[::-1].tobytes().hex()}"
    return Evidence("padding", number * math.log(rare / 2), f"padding: {shown}, and most of the padding does not")
