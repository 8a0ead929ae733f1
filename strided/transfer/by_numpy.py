"""Copies with NumPy alone: of few elements, of irregular maps, and of large arrays while kernels are being compiled.

Elements with one stride along each axis are copied as an ndarray on the same memory. Packed elements that fill whole
bytes along an axis are copied byte by byte. All others are copied one by one, at computed offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import AddressMap, IrregularTerm
from strided.addressing.digits import Term
from strided.runtime.aliases import Bytes, Offsets
from strided.runtime.threads import get_num_threads, run
from strided.transfer.bounds import refuse_outside
from strided.transfer.chunks import Chunk, chunk_lengths, chunks
from strided.transfer.program import Copy
from strided.transfer.region import Region

#: Boxes grow to each of these lengths along every axis before they grow along the last axes only. 8: packed elements
#: fill whole bytes. 256: transposes read and write equally long runs.
_BREADTHS = (8, 256)

#: Size of the cache of offsets; an entry has 32 KB at most, by `Limits.small_elements`.
_MOST_OFFSETS = 64

#: The types that elements are copied as, by their size in bytes.
WORDS: dict[int, type[Any]] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}


class CopyByNumPy:
    """A copy with NumPy, box by box, that can be interrupted and resumed. The caller has checked the bounds."""

    def __init__(self, source: Region, destination: Region) -> None:
        if min(source.bits, destination.bits) < 8:
            source, destination = _raveled(source, destination)
        shape, whole_bytes = source.map.shape, destination.bits >= 8
        lengths = chunk_lengths(shape, _BREADTHS)
        self._boxes = chunks(shape, lengths)
        self._source = _box_access(source, "source", lengths, whole_bytes)
        self._destination = _box_access(destination, "destination", lengths, whole_bytes)

    def advance(self, until: Callable[[], bool] | None = None) -> bool:
        """Copy what is left, or until `until` returns true. Returns whether all is copied."""

        def some() -> Iterator[Chunk]:
            for box in self._boxes:
                yield box
                if until is not None and until():
                    return

        run(self._copy, some(), threads=1 if self._destination.shares_bytes else get_num_threads())
        following = next(self._boxes, None)
        if following is None:
            return True
        self._boxes = chain([following], self._boxes)
        return False

    def _copy(self, *box: tuple[int, int]) -> None:
        self._destination.write(box, self._source.read(box))


def small_copy(source: Region, destination: Region) -> Copy:
    """A function that copies a view of few elements with as few NumPy calls as possible.

    It may be called with other buffers that are at least as large.

    Raises
    ------
    BufferSizeError
        Elements lie outside the buffers.
    """
    if source.map.size == 0:
        return lambda from_, to: None
    read, write = _ndarray_of(source, "source"), _ndarray_of(destination, "destination")
    if read is not None and write is not None and source.bits == destination.bits:

        def copy_strided(from_: Bytes, to: Bytes) -> None:
            write(to)[...] = read(from_)

        return copy_strided
    offsets = places = _offsets_within(source, "source")
    if write is None:
        places = _offsets_within(destination, "destination")
    # The function is cached and must not keep the buffers alive: it holds only the other fields of the regions.
    from_form, to_form, whole_bytes = source[1:], destination[1:], destination.bits >= 8

    def copy_one_by_one(from_: Bytes, to: Bytes) -> None:
        values = take(Region(from_, *from_form), offsets, whole_bytes=whole_bytes)
        if write is None:
            put(Region(to, *to_form), places, values)
        else:
            write(to)[...] = values

    return copy_one_by_one


# --- access to the elements of a region, box by box -------------------------------------------------------------------


class _BoxAccess(Protocol):
    """Reads and writes boxes of a region's elements. Packed elements are the low bits of bytes here."""

    #: Whether elements of several boxes may lie in one byte, so that only one thread may write.
    shares_bytes: bool

    def read(self, box: Chunk) -> npt.NDArray[Any]: ...

    def write(self, box: Chunk, values: npt.NDArray[Any]) -> None: ...


class _Strided:
    """Elements with one stride along each axis."""

    shares_bytes = False

    def __init__(self, elements: npt.NDArray[Any]) -> None:
        self._elements = elements

    def read(self, box: Chunk) -> npt.NDArray[Any]:
        return self._elements[_slices(box)]

    def write(self, box: Chunk, values: npt.NDArray[Any]) -> None:
        self._elements[_slices(box)] = values


class _OneByOne:
    """Elements at computed offsets. With `whole_bytes`, packed elements are read as values of whole bytes."""

    def __init__(self, region: Region, whole_bytes: bool) -> None:
        self._region, self._whole_bytes = region, whole_bytes
        self.shares_bytes = region.bits < 8

    def read(self, box: Chunk) -> npt.NDArray[Any]:
        return take(self._region, self._region.map.offsets(box), whole_bytes=self._whole_bytes)

    def write(self, box: Chunk, values: npt.NDArray[Any]) -> None:
        put(self._region, self._region.map.offsets(box), values)


class _ByteByByte:
    """Packed elements that fill whole bytes along an axis, except at its end, where they are copied one by one.

    Boxes must begin at the start of a byte.
    """

    def __init__(self, region: Region, axis: int, bytes_: _BoxAccess, whole_bytes: bool) -> None:
        self._region, self._axis, self._bytes = region, axis, bytes_
        self._signed = region.signed and whole_bytes
        self._others = _OneByOne(region, whole_bytes)
        self.shares_bytes = region.map.shape[axis] % (8 // region.bits) != 0

    def _split(self, box: Chunk) -> tuple[Chunk, Chunk | None, tuple[slice, ...], tuple[slice, ...]]:
        """The box of whole bytes, the box of the remaining elements or None, and the slices of both in the box."""
        axis, each = self._axis, 8 // self._region.bits
        start, stop = box[axis]
        count = (stop - start) // each
        before, after = box[:axis], box[axis + 1 :]
        left = (*before, (start + count * each, stop), *after) if (stop - start) % each else None
        every = (slice(None),) * axis
        whole = (*before, (start // each, start // each + count), *after)
        return whole, left, (*every, slice(0, count * each)), (*every, slice(count * each, None))

    def read(self, box: Chunk) -> npt.NDArray[Any]:
        whole, left, first, last = self._split(box)
        values = _unpacked(self._bytes.read(whole), self._axis, self._region.bits, self._region.low_first, self._signed)
        if left is None:
            return values
        all_values = np.empty([b - a for a, b in box], np.uint8)
        all_values[first], all_values[last] = values, self._others.read(left)
        return all_values

    def write(self, box: Chunk, values: npt.NDArray[Any]) -> None:
        whole, left, first, last = self._split(box)
        self._bytes.write(whole, _packed(values[first], self._axis, self._region.bits, self._region.low_first))
        if left is not None:
            self._others.write(left, values[last])


def _box_access(region: Region, name: str, lengths: Sequence[int], whole_bytes: bool) -> _BoxAccess:
    """The way to access a region in boxes of these lengths."""
    ndarray_of = _ndarray_of(region, name)
    if ndarray_of is not None:
        return _Strided(ndarray_of(region.buffer))
    if region.bits < 8:
        each = 8 // region.bits
        for axis, length in reversed([*enumerate(lengths)]):
            whole = length % each == 0 or length == region.map.shape[axis] > each
            map_ = region.map.groups(axis, each) if whole else None
            if map_ is not None:
                bytes_ = _box_access(Region(region.buffer, map_, 8), name, lengths, whole_bytes)
                return _ByteByByte(region, axis, bytes_, whole_bytes)
    return _OneByOne(region, whole_bytes)


def _raveled(*regions: Region) -> tuple[Region, ...]:
    """The regions raveled, so that packed rows need not end at whole bytes; unchanged if one then has no stride."""
    raveled = []
    for region in regions:
        map_ = region.map.reshaped((region.map.size,))
        if map_ is None or map_.strides is None:
            return regions
        raveled.append(region._replace(map=map_))
    return tuple(raveled)


def _slices(box: Chunk) -> tuple[slice, ...]:
    return tuple(slice(*ends) for ends in box)


def _ndarray_of(region: Region, name: str) -> Callable[[Bytes], npt.NDArray[Any]] | None:
    """A function that returns the view as an ndarray of bit patterns on a buffer, or None if the view has no strides.

    BufferSizeError if the region's own buffer is too small.
    """
    steps = region.map.equal_steps if region.bits >= 8 else None
    if steps is None:
        return None
    shape, base, storage, word = region.map.shape, region.map.base, region.storage, WORDS[region.bits // 8]
    if 0 in shape:
        return lambda buffer: np.empty(shape, word)
    refuse_outside(region, storage.byte_span(base + steps.low, base + steps.high), name)
    unit = storage.unit // 8
    start, strides = (base + steps.first) * unit, tuple([s * unit for s in steps.strides])
    return lambda buffer: np.ndarray(shape, word, buffer, start, strides)


def _offsets_within(region: Region, name: str) -> Offsets:
    """The offsets of all elements of a small view; BufferSizeError if one lies outside the region's buffer."""
    map_ = region.map
    offsets, low, high = _offsets_from_base(map_.shape, map_.axes, map_.irregular)
    refuse_outside(region, region.storage.byte_span(map_.base + low, map_.base + high), name)
    return offsets + map_.base


@lru_cache(maxsize=_MOST_OFFSETS)
def _offsets_from_base(
    shape: tuple[int, ...], axes: tuple[tuple[Term, ...], ...], irregular: tuple[IrregularTerm, ...]
) -> tuple[Offsets, int, int]:
    """Offsets relative to the base of a map, their minimum and maximum. Views that differ in the base share them."""
    offsets = AddressMap(shape, 0, axes, irregular).offsets()
    offsets.flags.writeable = False
    return offsets, int(offsets.min()), int(offsets.max())


# --- packed elements, whole bytes at a time ---------------------------------------------------------------------------


@cache
def _table(bits: int, low_first: bool, signed: bool) -> npt.NDArray[Any]:
    """For each byte value, a word with its elements, one in each byte."""
    each = 8 // bits
    places = np.arange(each) * bits
    values = np.arange(256)[:, None] >> (places if low_first else places[::-1]) & (1 << bits) - 1
    if signed:
        values -= (values >> bits - 1) << bits
    words: npt.NDArray[Any] = values.astype(np.uint8).view(WORDS[each])[:, 0]
    return words


def _unpacked(packed: Bytes, axis: int, bits: int, low_first: bool, signed: bool) -> Bytes:
    """The elements of packed bytes, unpacked along an axis."""
    shape, each = list(packed.shape), 8 // bits
    shape[axis] *= each
    words = np.take(_table(bits, low_first, signed), packed)
    values: Bytes = words[..., None].view(np.uint8)
    return np.moveaxis(values, -1, axis + 1).reshape(shape)


def _packed(values: npt.NDArray[Any], axis: int, bits: int, low_first: bool) -> Bytes:
    """The low bits of elements, packed into bytes along an axis."""
    elements: Bytes = values.astype(np.uint8, copy=False) & np.uint8((1 << bits) - 1)
    while bits < 8:
        first, second = (elements[(slice(None),) * axis + (slice(k, None, 2),)] for k in range(2))
        low, high = (first, second) if low_first else (second, first)
        elements, bits = low | high << np.uint8(bits), 2 * bits
    return elements


# --- elements at offsets ----------------------------------------------------------------------------------------------


def _elements(region: Region) -> npt.NDArray[Any]:
    """The buffer as an array of elements, which must be whole bytes."""
    width = region.bits // 8
    return region.buffer[: region.buffer.size // width * width].view(WORDS[width])


def _by_byte(region: Region, offsets: Offsets) -> Offsets:
    """Positions of all bytes of the elements at these offsets, along a new last axis."""
    return offsets[..., None] * (region.unit_bits // 8) + np.arange(region.bits // 8)


def _bytes_and_places(bits: int, offsets: Offsets) -> tuple[Offsets, Bytes]:
    """The byte of each packed element, and its number in that byte."""
    each = 8 // bits
    return offsets >> each.bit_length() - 1, offsets.astype(np.uint8) & np.uint8(each - 1)


def _shift(region: Region, place: Any) -> Any:
    """The number of bits by which packed elements are shifted, from their numbers in the byte."""
    return (place if region.low_first else np.uint8(8 // region.bits - 1) - place) * np.uint8(region.bits)


def take(region: Region, offsets: Offsets, *, whole_bytes: bool) -> npt.NDArray[Any]:
    """The elements at offsets. Packed ones are the low bits of bytes; with `whole_bytes`, sign-extended if signed."""
    if region.bits < 8:
        byte, place = _bytes_and_places(region.bits, offsets)
        values = np.asarray(region.buffer[byte] >> _shift(region, place)) & np.uint8((1 << region.bits) - 1)
        if region.signed and whole_bytes:
            above = np.uint8((0xFF << region.bits) & 0xFF)
            values = np.where(values >> np.uint8(region.bits - 1), values | above, values)
        return values
    if region.unit_bits:
        taken: npt.NDArray[Any] = region.buffer[_by_byte(region, offsets)].view(WORDS[region.bits // 8])[..., 0]
    else:
        taken = _elements(region)[offsets]
    return taken


def put(region: Region, offsets: Offsets, values: npt.NDArray[Any]) -> None:
    """Write elements at offsets. Packed ones are the low bits of bytes in `values`."""
    if region.bits < 8:
        _put_packed(region, offsets.reshape(-1), values.reshape(-1))
    elif region.unit_bits:
        region.buffer[_by_byte(region, offsets)] = values[..., None].view(np.uint8)
    else:
        _elements(region)[offsets] = values


def _put_packed(region: Region, offsets: Offsets, values: npt.NDArray[Any]) -> None:
    """`put` of packed elements; offsets and values have one axis."""
    buffer, mask = region.buffer, np.uint8((1 << region.bits) - 1)
    byte, place = _bytes_and_places(region.bits, offsets)
    # Each assignment must write a byte at most once, or elements of one byte would overwrite each other. So write the
    # elements of one position in their bytes at a time. If an offset repeats, the last value stays.
    order = place.argsort(kind="stable")
    byte, patterns = byte[order], values[order].astype(np.uint8, copy=False) & mask
    stop = 0
    for k, count in enumerate(np.bincount(place).tolist()):
        start, stop = stop, stop + count
        at, by = byte[start:stop], _shift(region, np.uint8(k))
        buffer[at] = buffer[at] & ~(mask << by) | patterns[start:stop] << by
