"""Filling the padding of a buffer.

XLA does not specify the content of padding. This package never reads it as data, and writes it only when it makes a
buffer, or on request.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import AddressMap
from strided.arrays.base import LayoutBuffer
from strided.arrays.buffer_spec import BufferSpec
from strided.errors import UnsupportedError
from strided.layout import PaddingValue
from strided.planning.plan import FillStep, Storage, plan_fill
from strided.runtime import limits
from strided.runtime.cache import forgettable
from strided.transfer import copy as transfer
from strided.transfer.chunks import chunks

#: The overhead of a run, as the contiguous bytes that are filled in the same time: for buffers that fit in the cache,
#: for larger ones, and the largest size that fits.
_RUN_BYTES, _FAR_RUN_BYTES, _CACHED_BYTES = 1 << 10, 1 << 8, 1 << 21
#: Slots that `unused_slots` yields at a time.
_CHUNK_SLOTS = 1 << 20

_NAMES = {kind.name.removesuffix("_PAD").lower(): kind for kind in list(PaddingValue)[1:]}  # all but INVALID_PAD


def padding_scalar(padding: Any, dtype: np.dtype[Any]) -> Any:
    """The padding value as a 0-d array of a dtype; None for "unknown".

    Lowest and highest are infinities if the dtype has them, as in XLA's legacy padding for maxima and minima.

    Raises
    ------
    ValueError
        `padding` is an unknown word.
    TypeError, OverflowError
        `padding` is None; or, as in NumPy, the dtype cannot represent it.
    UnsupportedError
        Complex dtypes have no lowest or highest value.

    >>> padding_scalar("lowest", np.dtype(np.int8))
    array(-128, dtype=int8)
    """
    if padding is None or (isinstance(padding, str) and padding not in _NAMES):  # NumPy would convert None to NaN
        error = TypeError if padding is None else ValueError
        raise error(f"padding is a value or one of {', '.join(map(repr, _NAMES))}, not {padding!r}")
    if isinstance(padding, str):
        padding = _NAMES[padding]
    if not isinstance(padding, PaddingValue):
        scalar = np.empty((), dtype)
        scalar[...] = padding
        return scalar
    if padding is PaddingValue.UNKNOWN_PAD:
        return None
    if padding in (PaddingValue.ZERO_PAD, PaddingValue.INVALID_PAD):
        return np.zeros((), dtype)
    if padding is PaddingValue.ONE_PAD:
        return np.ones((), np.int8).astype(dtype)
    return _extreme(dtype, highest=padding is PaddingValue.HIGHEST_PAD)


def _extreme(dtype: np.dtype[Any], *, highest: bool) -> Any:
    """The lowest or highest value of a dtype; for bool and dtypes of ml_dtypes, found among all values."""
    if dtype.kind == "c":
        raise UnsupportedError(f"{dtype} has no lowest or highest value")
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return np.array(ends.max if highest else ends.min, dtype)
    if dtype.kind == "f":
        return np.array(np.inf if highest else -np.inf, dtype)
    every = np.arange(256 ** min(2, dtype.itemsize), dtype=np.uint16)
    values = every.astype(np.uint8).view(dtype) if dtype.itemsize == 1 else every.view(dtype)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        numbers = np.asarray(values, np.float64)
    best = np.nanargmax(numbers) if highest else np.nanargmin(numbers)
    return values[best].reshape(())


def fill_padding(memory: LayoutBuffer, value: Any) -> None:
    """Set all padding of a buffer to a value (a 0-d array of its dtype), before its elements are written.

    Other slots may be set, too. Bits after the last packed slot are cleared if the value is all zeros.
    """
    buffer, spec, bits = memory.buffer, memory.spec, memory.bits
    pattern = transfer.pattern_of(value, bits)
    maps, slot_bits = _filled(spec, bits), spec.slots * bits
    if maps is None and not pattern and slot_bits <= 8 * limits.current.shared_fill_bytes:
        buffer[: -(-slot_bits // 8)] = 0
        return
    if slot_bits % 8 and not pattern:
        buffer[slot_bits // 8] = 0
    for map_ in (_all_slots(spec.slots),) if maps is None else maps:
        transfer.fill(transfer.Region(buffer, map_, bits, memory.bitorder == "little"), pattern, spare=spec.slots)


def refill_padding(memory: LayoutBuffer, value: Any) -> None:
    """Set all padding of a buffer to a value (a 0-d array of its dtype), and no other slots.

    Bits after the last packed slot are cleared if the value is all zeros.
    """
    spec, region = memory.spec, memory.region
    pattern = transfer.pattern_of(value, memory.bits)
    if spec.padding_maps is None:
        for offsets in unused_slots(spec):
            transfer.scatter(region, offsets, np.full(offsets.shape, value))
    for map_ in spec.padding_maps or ():
        transfer.fill(region._replace(map=map_), pattern)
    if not pattern:
        memory.buffer[-1:] &= np.uint8(0xFF ^ unused_bits(spec, low_first=region.low_first))


def unused_bits(spec: BufferSpec, *, low_first: bool) -> int:
    """The bits of the last byte of a buffer that belong to no slot, as a mask."""
    used = spec.slots * spec.element_bits % 8
    if not used:
        return 0
    return 0xFF << used & 0xFF if low_first else 0xFF >> used


def unused_slots(spec: BufferSpec) -> Iterator[npt.NDArray[np.int64]]:
    """The slots that hold no element, in order, for specs without padding maps. Takes a byte of memory per slot."""
    unused = np.ones(spec.slots, np.bool_)
    for box in chunks(spec.address_map.shape):
        unused[spec.address_map.offsets(box)] = False
    for start in range(0, spec.slots, _CHUNK_SLOTS):
        yield np.flatnonzero(unused[start : start + _CHUNK_SLOTS]) + start


@lru_cache(maxsize=256)
def _all_slots(count: int) -> AddressMap:
    """A map of all slots; cached, because conversions are found by the identity of maps."""
    return AddressMap.from_strides((count,), (1,))


@forgettable
@lru_cache(maxsize=512)
def _filled(spec: BufferSpec, bits: int) -> tuple[AddressMap, ...] | None:
    """Maps of the padding, or None to fill all slots, if that is faster or there are no padding maps."""
    maps, size = spec.padding_maps, -(-spec.slots * bits // 8)
    if maps is None:
        return None
    plans = [plan_fill(map_, Storage(bits), spec.slots) for map_ in maps]
    if None in plans:
        return None
    steps = [step for plan in plans if plan is not None for step in plan.steps if isinstance(step, FillStep)]
    run = _RUN_BYTES if size <= _CACHED_BYTES else _FAR_RUN_BYTES
    return None if sum(step.filled_bytes + run * step.runs.number for step in steps) > size else maps
