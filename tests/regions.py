"""Regions for tests, with guard bytes around their buffers, and what a copy must make of them.

The expectation shares no code with plans, kernels or `strided.transfer`: it goes through the map's offsets bit by bit.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

import strided as sd
from strided.addressing.address_map import AddressMap
from strided.transfer.copy import Region

Bytes = npt.NDArray[np.uint8]

#: Bytes in front of and behind every buffer, which nothing may touch.
GUARD = 192


def map_of(text: str) -> AddressMap:
    """The map of a whole array."""
    shape = sd.parse(text)
    assert isinstance(shape, sd.Shape)
    return shape.address_map


def row_major(shape: tuple[int, ...]) -> AddressMap:
    return AddressMap.from_strides(shape, [math.prod(shape[k + 1 :]) for k in range(len(shape))])


def window(map_: AddressMap, *slices: slice) -> AddressMap:
    """A view of a map, axis by axis."""
    for axis, part in enumerate(slices):
        start, stop, step = part.indices(map_.shape[axis])
        map_ = map_.sliced(axis, start, step, len(range(start, stop, step)))
    return map_


class Guarded:
    """A region inside memory full of random bytes.

    Its buffer begins `phase` bytes past a line, and has `spare` bytes behind the last element.
    """

    def __init__(self, map_: AddressMap, bits: int, *, seed: int, phase: int = 0, spare: int = 0, **how: Any) -> None:
        size = -(-map_.upper_bound * bits // 8) + spare
        self.memory = np.random.default_rng(seed).integers(0, 256, size + 2 * GUARD + 128, dtype=np.uint8)
        start = GUARD - (self.memory.ctypes.data + GUARD) % 64 + 64 + phase % 64
        self.start, self.stop = start, start + size
        self.region = Region(self.memory[start : start + size], map_, bits, **how)

    def read_only(self) -> Region:
        self.memory.flags.writeable = False
        return Region(self.memory[self.start : self.stop], *self.region[1:])


def bits_at(region: Region) -> npt.NDArray[np.int64]:
    """The first bit of every element, counted in its byte from the low end."""
    unit = region.unit_bits or region.bits
    places = np.asarray(region.map.offsets(), np.int64).reshape(-1) * unit
    if region.bits < 8 and not region.low_first:
        places = places // 8 * 8 + (8 - region.bits - places % 8)
    return places


def patterns(region: Region) -> npt.NDArray[np.uint8]:
    """The bits of every element, (elements, bits)."""
    flat = np.unpackbits(region.buffer, bitorder="little")
    return flat[bits_at(region)[:, None] + np.arange(region.bits)]


def expected(source: Region, destination: Guarded) -> Bytes:
    """The destination's memory after a copy, guards included."""
    region = destination.region
    found = patterns(source)
    if source.bits < region.bits:
        above = found[:, -1:] if source.signed else np.zeros_like(found[:, -1:])
        found = np.concatenate([found, np.repeat(above, region.bits - source.bits, axis=1)], axis=1)
    flat = np.unpackbits(destination.memory, bitorder="little")
    places = bits_at(region) + 8 * destination.start
    flat[places[:, None] + np.arange(region.bits)] = found[:, : region.bits]
    return np.packbits(flat, bitorder="little")
