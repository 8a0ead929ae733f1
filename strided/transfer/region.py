"""Regions: a flat buffer, and the map of a view on it.

Conversions need nothing else, so a file in a TPU layout and a reversed ndarray are treated alike.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import AddressMap
from strided.planning.plan import Storage, span_of
from strided.runtime.aliases import Bytes
from strided.transfer.flat_memory import BYTE, address_of, bytes_at, empty_aligned


class Region(NamedTuple):
    """A view on a flat buffer.

    Attributes
    ----------
    buffer : ndarray of uint8
        The whole buffer: contiguous, with one axis, possibly read-only.
    map : AddressMap
        Shape of the view, and where its elements lie.
    bits : int
        Bits of one element in the buffer: 1, 2, 4, 8, 16, 32, 64 or 128.
    low_first : bool
        For packed elements: whether the first element of a byte lies in its low bits.
    signed : bool
        For packed elements: whether values are sign-extended when they are unpacked.
    unit_bits : int
        The unit of offsets in bits; 0 means `bits`.
    """

    buffer: Bytes
    map: AddressMap
    bits: int
    low_first: bool = True
    signed: bool = False
    unit_bits: int = 0

    @property
    def storage(self) -> Storage:
        """The element format, for planning."""
        return _storage(self.bits, self.unit_bits, self.low_first)

    @property
    def elements(self) -> int:
        """Number of elements that fit in the buffer."""
        return self.buffer.size * 8 // self.bits


#: Cached, because making one takes a noticeable part of a small copy.
_storage = lru_cache(maxsize=256)(Storage)


def region_of_ndarray(x: npt.NDArray[Any]) -> Region:
    """The region of an ndarray with any strides.

    >>> region_of_ndarray(np.zeros((4, 6), np.float32)[::2, ::-1]).map.strides
    (12, -1)
    """
    if type(x) is not np.ndarray:
        x = x.view(np.ndarray)
    bits = 8 * x.itemsize
    if x.flags.c_contiguous:
        # Takes a third of the time of `Region(...)`, which matters for small copies.
        return tuple.__new__(Region, (x.ravel().view(BYTE), _row_major(x.shape), bits, True, False, 0))
    low, high = np.lib.array_utils.byte_bounds(x)
    # The stride of a field of a structured array need not be a multiple of its item size.
    unit = math.gcd(x.itemsize, *x.strides)
    strides = [s // unit for s in x.strides]
    map_ = AddressMap.from_strides(x.shape, strides, (address_of(x) - low) // unit)
    flat = bytes_at(low, high - low, x, writeable=x.flags.writeable)
    return Region(flat, map_, bits, True, False, 0 if unit == x.itemsize else 8 * unit)


def dense_region(shape: tuple[int, ...], itemsize: int) -> Region:
    """A row-major region in new memory, with elements of `itemsize` bytes and undefined contents."""
    return Region(empty_aligned(math.prod(shape) * itemsize), _row_major(shape), 8 * itemsize)


@lru_cache(maxsize=256)
def _row_major(shape: tuple[int, ...]) -> AddressMap:
    return AddressMap.from_strides(shape, [math.prod(shape[k + 1 :]) for k in range(len(shape))])


def may_overlap(first: Region, second: Region) -> bool:
    """Whether two regions may share a byte: if their spans overlap. False is certain."""
    if not np.may_share_memory(first.buffer, second.buffer):
        return False
    if first.map.size == 0 or second.map.size == 0:
        return False
    a, b = (addresses_of(region) for region in (first, second))
    return a[0] < b[1] and b[0] < a[1]


def addresses_of(region: Region) -> tuple[int, int]:
    """The address of the first byte of a region, and the address past its last byte."""
    address = address_of(region.buffer)
    span = span_of(region.map, region.storage) or (0, region.buffer.size)
    return address + span[0], address + span[1]
