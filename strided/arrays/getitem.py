"""``a[key]`` and ``a[key] = value``.

A key is classified once (`classify`); what it selects is then read or written in the way that suits its kind.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import EllipsisType
from typing import Any, Self, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import AddressMap
from strided.arrays import blocks, fancy, masks
from strided.arrays.base import Array, ArrayBase, broadcasts, move
from strided.arrays.classify import Copy, Mask, Outer, Points, classify, element_at, indexed, view_at
from strided.arrays.encode import as_array, cast, shape_of
from strided.arrays.keys import refuse
from strided.planning.plan import span_of
from strided.runtime import limits
from strided.runtime.locks import own_lock
from strided.transfer import copy as transfer

#: Entries of a key that leave a view, whatever the rank of the array.
_Slices: TypeAlias = slice | EllipsisType | None
#: Types of entries of a key, beside index arrays.
_BASIC = {int, slice, type(None), type(...)}
#: The fewest packed elements for which all are converted, to be set by NumPy: so many, and one of so many places there.
_LEAST_CONVERTED, _CONVERTED = 1 << 10, 16
#: Held while packed elements are written: their neighbours in the byte are written back with them.
packed_lock = own_lock(threading.RLock)
_NO_LOCK = nullcontext()


class Indexing(ArrayBase):
    """Mixin: indexing and assignment."""

    __slots__ = ()

    @overload
    def __getitem__(self, key: tuple[()]) -> Any: ...
    @overload
    def __getitem__(self, key: _Slices | tuple[_Slices, ...]) -> Self: ...
    @overload
    def __getitem__(self, key: Any) -> Any: ...
    def __getitem__(self, key: Any) -> Any:
        selected: Any = self._basic(key)
        if selected is None:
            if self._is_sooner_gathered(_most_indices(key)):
                return self._values()[key]
            selected = classify(self._map, _as_ndarrays(key))
        if type(selected) is int:
            return self._memory.value_at(selected)
        if type(selected) is AddressMap:
            return self._with_map(selected)
        if type(selected) is Copy:
            return self._with_map(selected.map).to_numpy()
        if type(selected) is not Outer:
            points = type(selected) is Points
            found = self._at_points(selected.arrays) if points else masks.gather(self, selected.mask)
            if found is not None:
                return found
            selected = indexed(self._map, selected[0])
        return self._gathered(selected.shape, selected.arrays)

    def _select(self, key: Any) -> Any:
        """What a key selects: one of the kinds that `classify` lists."""
        selected = self._basic(key)
        return classify(self._map, _as_ndarrays(key)) if selected is None else selected

    def _basic(self, key: Any) -> int | AddressMap | None:
        """The element or view that a key of the common kinds selects; None for any other key."""
        entries = key if type(key) is tuple else (key,)
        offset = element_at(self._map, entries)
        return view_at(self._map, entries) if offset is None else offset

    def _is_sooner_gathered(self, count: int) -> bool:
        """Whether NumPy gathers from all values sooner than it takes to find where those at `count` indices lie."""
        if self.size <= limits.current.whole_elements:
            return count > 0
        return 0 < count and max(count, self.size) <= limits.current.loading_elements and self.is_strided

    def _at_points(self, arrays: Sequence[npt.NDArray[Any]]) -> Array | None:
        """The elements at index arrays of one shape, or at flat ones; None if few, or if one is out of bounds."""
        source = self.region
        if not fancy.is_large(source, arrays[0].size):
            return None
        out = np.empty(arrays[0].shape, self.dtype)
        return out if fancy.gather_points(source, arrays, out) else None

    def _gathered(self, shape: tuple[int, ...], index: Sequence[Any]) -> Array:
        """The elements at arrays of indices, which broadcast to a shape; in the order that is read fastest."""
        source = self.region
        if not fancy.is_large(source, math.prod(shape)):
            out = np.empty(shape, self.dtype)
            transfer.gather_at(source, index, out)
            return out
        lanes, ndim = fancy.lane_axis(self._map, index, len(shape)), len(shape)
        moved = (*shape[:lanes], *shape[lanes + 1 :], shape[lanes])
        index = [np.moveaxis(np.reshape(at, (1,) * (ndim - np.ndim(at)) + np.shape(at)), lanes, -1) for at in index]
        out = np.empty(moved, self.dtype)
        if not (fancy.gather_lines(self, index, out) or fancy.gather_sums(source, index, out)):
            transfer.gather_at(source, index, out)
        return np.moveaxis(out, -1, lanes)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._memory.begin_writing()
        selected: Any = self._basic(key)
        if selected is None:
            if self.is_strided:
                self._as_strided()[_apart(_as_ndarrays(key), self._memory.buffer)] = _as_ndarray(value)
            else:
                self._set_chosen(key, value)
        elif type(selected) is int:
            self._set_element(selected, value)
        else:
            self._with_map(selected)._assign(value, key, self)

    def _set_chosen(self, key: Any, value: Any) -> None:
        """Set what a key selects that `_basic` does not know."""
        try:
            selected: Any = classify(self._map, _as_ndarrays(key))
            if type(selected) is Mask and self._set_masked(selected.mask, value, key):
                return
            if type(selected) is Points or type(selected) is Mask:
                selected = indexed(self._map, selected[0])
        except Exception:
            self._judge(key, value)  # NumPy may look at the value first
            raise
        if type(selected) is int:
            self._set_element(selected, value)
        elif type(selected) is Outer:
            self._set_elements(selected, value, key)
        else:
            map_ = selected.map if type(selected) is Copy else selected
            self._with_map(map_)._assign(value, key, self)

    def _set_elements(self, selected: Outer, value: Any, key: Any) -> None:
        """Set the elements at the index arrays that `key` stands for."""
        shape, index, is_mask = selected
        if 0 in shape:
            self._judge(key, value)
            return
        # NumPy assigns at most one axis of values to a mask of the whole array, and casts no others, which may warn.
        is_mask_refused = is_mask and len(shape_of(value)) > 1
        if is_mask_refused and isinstance(value, (np.ndarray, ArrayBase)):
            self._judge(key, value)
        values = self._cast(as_array(value), key, shape)
        if is_mask_refused or not broadcasts(values.shape, shape):
            refuse(self.shape, _as_ndarrays(key), shape_of(value))
        self._put(index, _spread(values, shape))

    def _set_masked(self, mask: npt.NDArray[np.bool_], value: Any, key: Any) -> bool:
        """Set the elements that a mask of this array's shape chooses; False if that is left to other ways."""
        if mask.size < limits.current.loading_elements:
            return False
        count, shape = int(np.count_nonzero(mask)), shape_of(value)
        if not count or shape not in ((), (1,), (count,)) or self._map.is_spread:
            return False
        values = self._cast(as_array(value), key, (count,))
        if values.shape == (1,):
            values = values.reshape(())
        masks.scatter(self, mask, values)
        return True

    def _set_element(self, offset: int, value: Any) -> None:
        """Set one element; the dtype converts the value as in NumPy."""
        memory = self._memory
        if isinstance(value, ArrayBase):
            value = value.to_numpy()
        if memory.bits >= 8:
            memory.elements[offset] = value
            return
        one = np.empty(1, memory.dtype)
        one[0] = value
        byte, place = divmod(offset * memory.bits, 8)
        shift = place if memory.bitorder == "little" else 8 - memory.bits - place
        mask, pattern = (1 << memory.bits) - 1, transfer.pattern_of(one, memory.bits)
        with packed_lock():
            memory.buffer[byte] = memory.buffer.item(byte) & ~(mask << shift) | pattern << shift

    def _cast(self, value: Any, key: Any, shape: tuple[int, ...]) -> Array:
        """A value for a selection of a shape, cast to this array's type; leading axes of one entry dropped."""
        ndim = len(shape)
        if isinstance(value, (np.ndarray, ArrayBase)) and not _fits(value.shape, shape):
            self._judge(key, value)  # NumPy refuses it without a cast, which may warn
        try:
            values = cast(value, self.dtype)
        except Exception:
            self._judge(key, value)
            raise
        if values.ndim > ndim and not isinstance(value, (np.ndarray, ArrayBase)):
            # NumPy takes no more levels of nested sequences than there are axes.
            self._judge(key, value)
        while values.ndim > ndim and values.shape[0] == 1:
            values = values[0]
        return values

    def _judge(self, key: Any, value: Any) -> None:
        """Raise what NumPy raises for this assignment, if anything."""
        self.stand_in(writeable=True)[_as_ndarrays(key)] = _as_ndarray(value)

    def _put(self, index: Sequence[Any], values: Array) -> None:
        """Set the elements at arrays of indices in bounds, which broadcast to the shape of the values."""
        target = self.region
        if np.may_share_memory(values, target.buffer):
            values = values.copy()
        if fancy.is_large(target, values.size):
            with _writing(target.bits):
                if fancy.scatter_sums(target, index, values):
                    return
        if self._is_sooner_converted(values.size):
            # NumPy goes through index arrays in the order of their memory: so the last of several values stays.
            in_order, values = tuple(np.asarray(at, order="C") for at in index), np.asarray(values, order="C")
            self._set_converted(lambda every: every.__setitem__(in_order, values))
            return
        self._scatter(transfer.offsets_at(self._map, index, values.shape), values)

    def _scatter(self, offsets: npt.NDArray[np.int64], values: Array) -> None:
        self._memory.begin_writing()
        with _writing(self._memory.bits):
            transfer.scatter(self.region, offsets, values)

    def _is_sooner_converted(self, count: int) -> bool:
        """Whether `_set_converted` sets so many elements sooner than `_scatter`, and is able to."""
        map_, memory = self._map, self._memory
        if memory.bits >= 8 or count < _LEAST_CONVERTED or not map_.is_regular or map_.is_spread:
            return False
        span = span_of(map_, memory.region.storage)
        return span is not None and 8 * (span[1] - span[0]) <= count * _CONVERTED * memory.bits

    def _set_converted(self, change: Callable[[Array], None]) -> None:
        """Have all values changed in an ndarray; of the buffer, only bytes that this changes are written."""
        self._memory.begin_writing()
        region, values = self._region_alone(), np.empty(self.shape, self.dtype)
        own = region.buffer
        with packed_lock():
            # Others may write to the raw buffer meanwhile, elsewhere: what they wrote there must stay.
            before = transfer.copied(own)
            after = transfer.copied(before)
            transfer.copy(region._replace(buffer=before), transfer.region_of_ndarray(values))
            change(values)
            transfer.copy(transfer.region_of_ndarray(values), region._replace(buffer=after))
            np.copyto(own, after, where=after != before)

    def _region_alone(self) -> transfer.Region:
        """The region of a regular view, with little of the buffer but the bytes in which its elements lie."""
        region = self.region
        span = span_of(region.map, region.storage)
        if span is not None and 2 * span[0] > span[1]:  # else the map stays, whose plan is remembered
            region = blocks.near(region)
            span = span_of(region.map, region.storage)
        assert span is not None, "the view is regular"
        return region._replace(buffer=region.buffer[: span[1]])

    def _assign(self, value: Any, key: Any, whole: ArrayBase) -> None:
        """Set every element of this view, which is ``whole[key]``."""
        if not self.size:
            whole._judge(key, value)
            return
        if self.size <= limits.current.small_elements and self.is_strided:
            self._as_strided()[...] = _as_ndarray(value)
            return
        pattern = None
        if isinstance(value, ArrayBase) and value.dtype == self.dtype:
            source = value.region
            while len(source.map.shape) > self.ndim and source.map.shape[0] == 1:
                source = source._replace(map=source.map.at(0, 0))
        else:
            values = whole._cast(value, key, self.shape)
            source = transfer.region_of_ndarray(values)
            if values.size == 1 and self.size > limits.current.small_elements:
                pattern = transfer.pattern_of(values, self._memory.bits)
        spread, target = source, self.region
        if source.map.shape != self.shape:
            if not broadcasts(source.map.shape, self.shape):
                refuse(whole.shape, key, shape_of(value))
            spread = source._replace(map=source.map.broadcast_to(self.shape))
        for axis in reversed(range(self.ndim)):
            if target.map.is_still(axis):
                # All values along a broadcast axis go to one element; the last one stays.
                last = self.shape[axis] - 1
                spread, target = (r._replace(map=r.map.at(axis, last)) for r in (spread, target))
        with _writing(self._memory.bits):
            _store(spread, target, pattern)


def _writing(bits: int) -> AbstractContextManager[Any]:
    """What is held while elements of so many bits are written."""
    return packed_lock() if bits < 8 else _NO_LOCK


def _fits(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether values of a shape broadcast to a selection of another one, leading axes of one entry dropped."""
    lead = max(0, len(given) - len(shape))
    return all(n == 1 for n in given[:lead]) and broadcasts(given[lead:], shape)


def _store(source: transfer.Region, target: transfer.Region, pattern: int | None) -> None:
    """Copy to a region; with a `pattern`, which all elements of the source have, many times as fast."""
    if pattern is None:
        move(source, target)
    else:
        transfer.fill(target, pattern)


def _most_indices(key: Any) -> int:
    """Entries, at least 1, of the largest index array or mask of a key that certainly copies; 0 for any other key."""
    most = 0
    for entry in key if type(key) is tuple else (key,):
        if type(entry) is list and {*map(type, entry)} == {int}:  # NumPy makes an index array of it
            most = max(most, len(entry))
        elif type(entry) is np.ndarray and entry.ndim > 0 and entry.dtype.kind in "iub":
            most = max(most, entry.size, 1)
        elif type(entry) not in _BASIC:
            return 0
    return most


def _as_ndarrays(key: Any) -> Any:
    """A key with ndarrays in place of our arrays: only for ndarrays does NumPy keep the dtype of an empty index."""
    if type(key) is tuple:
        return tuple(map(_as_ndarray, key))
    return _as_ndarray(key)


def _as_ndarray(x: Any) -> Any:
    """An ndarray of the values of one of our arrays, to be read only; anything else as it is."""
    return x._values() if isinstance(x, ArrayBase) else x


def _apart(key: Any, written: npt.NDArray[np.uint8]) -> Any:
    """A key whose mask lies outside the memory that is written: NumPy goes on reading it meanwhile."""
    if type(key) is tuple:
        return tuple(_apart(x, written) for x in key)
    return key.copy() if type(key) is np.ndarray and np.may_share_memory(key, written) else key


def _spread(values: Array, shape: tuple[int, ...]) -> Array:
    """Values broadcast to a shape. (``numpy.broadcast_to`` stops at 32 axes.)"""
    if values.shape == shape:
        return values
    if len(shape) <= 32:
        return np.broadcast_to(values, shape)
    spread = np.empty(shape, values.dtype)
    spread[...] = values
    return spread
