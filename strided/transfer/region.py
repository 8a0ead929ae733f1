"""Regions: a flat buffer, and the map of a view on it.

That is all that conversions know: a region of a file in some TPU layout and one of an ndarray that was sliced backwards
look alike.
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
        The whole memory, one axis, contiguous; possibly read-only.
    map : AddressMap
        Shape of the view, and where its elements lie.
    bits : int
        Bits of one element in the buffer: 1, 2, 4, 8, 16, 32, 64 or 128.
    low_first : bool
        Below eight bits: whether the first element of a byte lies in its low bits.
    signed : bool
        Below eight bits: whether a value is sign-extended as it is unpacked to a byte.
    unit_bits : int
        Bits that one step of an offset is; 0 stands for `bits`.
    """

    buffer: Bytes
    map: AddressMap
    bits: int
    low_first: bool = True
    signed: bool = False
    unit_bits: int = 0

    @property
    def storage(self) -> Storage:
        """How the elements lie, for planning."""
        return _storage(self.bits, self.unit_bits, self.low_first)

    @property
    def elements(self) -> int:
        """Elements for which the buffer has room."""
        return self.buffer.size * 8 // self.bits


#: Small copies would notice how long it takes to make one.
_storage = lru_cache(maxsize=256)(Storage)


def region_of_ndarray(x: npt.NDArray[Any]) -> Region:
    """A region of an ndarray with any strides.

    >>> region_of_ndarray(np.zeros((4, 6), np.float32)[::2, ::-1]).map.strides
    (12, -1)
    """
    if type(x) is not np.ndarray:
        x = x.view(np.ndarray)
    bits = 8 * x.itemsize
    if x.flags.c_contiguous:
        # A third of the time that Region takes, which small copies notice.
        return tuple.__new__(Region, (x.ravel().view(BYTE), _row_major(x.shape), bits, True, False, 0))
    low, high = np.lib.array_utils.byte_bounds(x)
    # Fields of records may lie at steps that are no multiple of their size.
    unit = math.gcd(x.itemsize, *x.strides)
    strides = [s // unit for s in x.strides]
    map_ = AddressMap.from_strides(x.shape, strides, (address_of(x) - low) // unit)
    flat = bytes_at(low, high - low, x, writeable=x.flags.writeable)
    return Region(flat, map_, bits, True, False, 0 if unit == x.itemsize else 8 * unit)


def dense_region(shape: tuple[int, ...], itemsize: int) -> Region:
    """A row-major region in new memory, with elements of `itemsize` bytes; its contents are undefined."""
    return Region(empty_aligned(math.prod(shape) * itemsize), _row_major(shape), 8 * itemsize)


@lru_cache(maxsize=256)
def _row_major(shape: tuple[int, ...]) -> AddressMap:
    return AddressMap.from_strides(shape, [math.prod(shape[k + 1 :]) for k in range(len(shape))])


def may_overlap(first: Region, second: Region) -> bool:
    """Whether a byte may belong to both regions: False is certain, True means that their spans meet."""
    if not np.may_share_memory(first.buffer, second.buffer):
        return False
    if first.map.size == 0 or second.map.size == 0:
        return False
    a, b = (addresses_of(region) for region in (first, second))
    return a[0] < b[1] and b[0] < a[1]


def addresses_of(region: Region) -> tuple[int, int]:
    """The first address of a region, and the one past the last."""
    address = address_of(region.buffer)
    span = span_of(region.map, region.storage) or (0, region.buffer.size)
    return address + span[0], address + span[1]
