"""What a buffer holds, one number for each slot, and where elements lie in it: the oracle of campaigns, many at a time.

It says what `tests.oracle` says, of all elements at once; tests/fuzz/test_guard_pages.py compares the two. It shares no
line with the package.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tests.oracle import COMBINE, Spec

Bytes = npt.NDArray[np.uint8]
#: One number for each slot: unsigned, or two in a row for 128 bits.
Slots = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]


def places_of(spec: Spec) -> Places:
    """The slot of every element, in the shape of the array."""
    dimensions = spec.padded_dimensions or spec.dimensions
    index = np.indices(spec.dimensions, dtype=np.int64) if spec.dimensions else np.zeros((0,), np.int64)
    order = spec.minor_to_major[::-1]
    sizes: list[int] = [dimensions[d] for d in order]
    parts: list[Places | int] = [index[d] for d in order]
    for tile in spec.tiles:
        missing = max(0, len(tile) - len(sizes))
        sizes, parts = [1] * missing + sizes, [0] * missing + parts
        first = len(sizes) - len(tile)
        outer, inner = (sizes[:first], parts[:first]), ([], [])  # type: ignore[var-annotated]
        size, part = 1, 0
        for entry, own_size, own_part in zip(tile, sizes[first:], parts[first:], strict=True):
            size, part = size * own_size, part * own_size + own_part
            if entry == COMBINE:
                continue
            outer[0].append(-(-size // int(entry)))
            outer[1].append(part // int(entry))
            inner[0].append(int(entry))
            inner[1].append(part % int(entry))
            size, part = 1, 0
        sizes, parts = outer[0] + inner[0], outer[1] + inner[1]
    place: Places | int = 0
    for size, part in zip(sizes, parts, strict=True):
        place = place * size + part
    return np.broadcast_to(np.asarray(place, np.int64), spec.dimensions)


def slots_of(buffer: Bytes, bits: int, *, high_first: bool = False) -> Slots:
    """The number in every slot of a buffer, (slots, 1) or for 128 bits (slots, 2); without what is no whole slot."""
    if bits >= 8:
        width = bits // 8
        whole = buffer[: buffer.size // width * width].tobytes()
        kind = np.dtype(f"<u{min(8, width)}")
        return np.frombuffer(whole, kind).astype(np.uint64).reshape(-1, max(1, width // 8))
    shifts = _shifts(bits, high_first=high_first)
    return ((buffer[:, None] >> shifts) & ((1 << bits) - 1)).astype(np.uint64).reshape(-1, 1)


def buffer_of(slots: Slots, bits: int, *, high_first: bool = False) -> Bytes:
    """The buffer that holds these numbers: the other way round."""
    if bits >= 8:
        kind = np.dtype(f"<u{min(8, bits // 8)}")
        return np.frombuffer(slots.astype(kind).tobytes(), np.uint8)
    shifts = _shifts(bits, high_first=high_first)
    return np.bitwise_or.reduce(slots.astype(np.uint8).reshape(-1, 8 // bits) << shifts, axis=1).astype(np.uint8)


def _shifts(bits: int, *, high_first: bool) -> Bytes:
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return shifts[::-1] if high_first else shifts


def converted(slots: Slots, source_bits: int, target_bits: int, *, signed: bool) -> Slots:
    """Numbers of one width as those of another: extended by zeros or by the sign, or the low bits."""
    if source_bits < target_bits and signed:
        sign = np.uint64(1 << (source_bits - 1))
        slots = (slots ^ sign) - sign
    return slots & np.uint64((1 << target_bits) - 1) if target_bits < 64 else slots


def bytes_until(places: Places, bits: int) -> int:
    """Bytes up to and with the last of some slots."""
    return -(-(int(places.max()) + 1) * bits // 8) if places.size else 0


def first_byte(places: Places, bits: int) -> int:
    """The first byte of some slots that begins a slot."""
    return math.floor(int(places.min()) * bits / 8) if places.size else 0
