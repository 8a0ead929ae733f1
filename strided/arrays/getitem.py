"""``a[key]`` and ``a[key] = value``.

A key is classified once (`classify`); then there is a way to read and to write each kind of selection.
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

#: Entries of a key that always select a view.
_Slices: TypeAlias = slice | EllipsisType | None
#: Types of basic entries of a key.
_BASIC = {int, slice, type(None), type(...)}
#: Packed elements are set in a converted array if there are at least this many, and at least one in this many slots.
_LEAST_CONVERTED, _CONVERTED = 1 << 10, 16
#: Held while packed elements are written, because the other elements of their bytes are rewritten, too.
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
        """The fast path: the element or view that a basic key selects; None for any other key."""
        entries = key if type(key) is tuple else (key,)
        offset = element_at(self._map, entries)
        return view_at(self._map, entries) if offset is None else offset

    def _is_sooner_gathered(self, count: int) -> bool:
        """Whether NumPy gathers from all values faster than the offsets of `count` indices are computed."""
        if self.size <= limits.current.whole_elements:
            return count > 0
        return 0 < count and max(count, self.size) <= limits.current.loading_elements and self.is_strided

    def _at_points(self, arrays: Sequence[npt.NDArray[Any]]) -> Array | None:
        """The elements at index arrays of one shape, or at flat indices; None if too few, or one is out of bounds."""
        source = self.region
        if not fancy.is_large(source, arrays[0].size):
            return None
        out = np.empty(arrays[0].shape, self.dtype)
        return out if fancy.gather_points(source, arrays, out) else None

    def _gathered(self, shape: tuple[int, ...], index: Sequence[Any]) -> Array:
        """The elements at index arrays that broadcast to a shape, in the memory order that is fastest to read."""
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
        if selected is None and self.is_strided:
            key, value = (_apart(_as_ndarrays(x), self._memory.buffer) for x in (key, value))
            self._as_strided()[key] = value
            return
        try:
            if selected is None:
                selected = classify(self._map, _as_ndarrays(key))
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
        """Set the elements at index arrays, which `key` selects."""
        shape, index, is_mask = selected
        if 0 in shape:
            self._judge(key, value)
            return
        # For a mask of the whole array, NumPy refuses values of more than one axis, without casting (which may warn).
        is_refused = is_mask and len(shape_of(value)) > 1
        if is_refused and isinstance(value, (np.ndarray, ArrayBase)):
            self._judge(key, value)
        values = self._cast(as_array(value), key, shape)
        if is_refused or not broadcasts(values.shape, shape):
            refuse(self.shape, _as_ndarrays(key), shape_of(value))
        self._put(index, _spread(values, shape))

    def _set_masked(self, mask: npt.NDArray[np.bool_], value: Any, key: Any) -> bool:
        """Set the elements of a mask of this array's shape. Returns False if another way must do it."""
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
        """Set one element; the value is cast as in NumPy."""
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
        """A value for a selection of a shape, cast to this array's dtype, without leading axes of size 1."""
        ndim = len(shape)
        if isinstance(value, (np.ndarray, ArrayBase)) and not _fits(value.shape, shape):
            self._judge(key, value)  # NumPy refuses it before the cast, which may warn
        try:
            values = cast(value, self.dtype)
        except Exception:
            self._judge(key, value)
            raise
        if values.ndim > ndim and not isinstance(value, (np.ndarray, ArrayBase)):
            # NumPy refuses sequences that are nested deeper than there are axes.
            self._judge(key, value)
        while values.ndim > ndim and values.shape[0] == 1:
            values = values[0]
        return values

    def _judge(self, key: Any, value: Any) -> None:
        """Make NumPy check this assignment on a stand-in: raises what NumPy raises, if anything."""
        self.stand_in(writeable=True)[_as_ndarrays(key)] = _as_ndarray(value)

    def _put(self, index: Sequence[Any], values: Array) -> None:
        """Set the elements at index arrays in bounds, which broadcast to the shape of the values."""
        target = self.region
        if np.may_share_memory(values, target.buffer):
            values = values.copy()
        if fancy.is_large(target, values.size):
            with _writing(target.bits):
                if fancy.scatter_sums(target, index, values):
                    return
        if self._is_sooner_converted(values.size):
            # NumPy assigns in the memory order of index arrays, so make it C order for the last value to stay.
            in_order, values = tuple(np.asarray(at, order="C") for at in index), np.asarray(values, order="C")
            self._set_converted(lambda every: every.__setitem__(in_order, values))
            return
        self._scatter(transfer.offsets_at(self._map, index, values.shape), values)

    def _scatter(self, offsets: npt.NDArray[np.int64], values: Array) -> None:
        self._memory.begin_writing()
        with _writing(self._memory.bits):
            transfer.scatter(self.region, offsets, values)

    def _is_sooner_converted(self, count: int) -> bool:
        """Whether `_set_converted` can set `count` elements, faster than `_scatter`."""
        map_, memory = self._map, self._memory
        if memory.bits >= 8 or count < _LEAST_CONVERTED or not map_.is_regular or map_.is_spread:
            return False
        span = span_of(map_, memory.region.storage)
        return span is not None and 8 * (span[1] - span[0]) <= count * _CONVERTED * memory.bits

    def _set_converted(self, change: Callable[[Array], None]) -> None:
        """Apply `change` to an ndarray of all values, and write the bytes that differ afterwards to the buffer."""
        self._memory.begin_writing()
        region, values = self._region_alone(), np.empty(self.shape, self.dtype)
        own = region.buffer
        with packed_lock():
            # Other threads may write to other bytes of the buffer meanwhile, which must stay.
            before = transfer.copied(own)
            after = transfer.copied(before)
            transfer.copy(region._replace(buffer=before), transfer.region_of_ndarray(values))
            change(values)
            transfer.copy(transfer.region_of_ndarray(values), region._replace(buffer=after))
            np.copyto(own, after, where=after != before)

    def _region_alone(self) -> transfer.Region:
        """The region of a regular view, with the buffer reduced to about the bytes of its elements."""
        region = self.region
        span = span_of(region.map, region.storage)
        if span is not None and 2 * span[0] > span[1]:  # otherwise keep the map, whose plan is cached
            region = blocks.rebased(region)
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
                # All values along a broadcast axis are assigned to one element; the last one stays.
                last = self.shape[axis] - 1
                spread, target = (r._replace(map=r.map.at(axis, last)) for r in (spread, target))
        with _writing(self._memory.bits):
            _store(spread, target, pattern)


def _writing(bits: int) -> AbstractContextManager[Any]:
    """The lock to hold while elements of this width are written."""
    return packed_lock() if bits < 8 else _NO_LOCK


def _fits(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether values of shape `given` can be assigned to `shape`: they broadcast without leading axes of size 1."""
    lead = max(0, len(given) - len(shape))
    return all(n == 1 for n in given[:lead]) and broadcasts(given[lead:], shape)


def _store(source: transfer.Region, target: transfer.Region, pattern: int | None) -> None:
    """Copy to a region; or fill it, which is much faster, if all elements of the source have one `pattern`."""
    if pattern is None:
        move(source, target)
    else:
        transfer.fill(target, pattern)


def _most_indices(key: Any) -> int:
    """Size (at least 1) of the largest index array or mask of a key that certainly copies; 0 for any other key."""
    most = 0
    for entry in key if type(key) is tuple else (key,):
        if type(entry) is list and {*map(type, entry)} == {int}:  # NumPy converts it to an index array
            most = max(most, len(entry))
        elif type(entry) is np.ndarray and entry.ndim > 0 and entry.dtype.kind in "iub":
            most = max(most, entry.size, 1)
        elif type(entry) not in _BASIC:
            return 0
    return most


def _as_ndarrays(key: Any) -> Any:
    """A key with layout arrays replaced by ndarrays, for which alone NumPy keeps the dtype of an empty index."""
    if type(key) is tuple:
        return tuple(map(_as_ndarray, key))
    return _as_ndarray(key)


def _as_ndarray(x: Any) -> Any:
    """The values of a layout array as an ndarray that is only read; anything else unchanged."""
    return x._values() if isinstance(x, ArrayBase) else x


def _apart(x: Any, written: npt.NDArray[np.uint8]) -> Any:
    """A key or value with arrays copied that share the memory to be written, which NumPy would read meanwhile."""
    if type(x) is tuple:
        return tuple(_apart(part, written) for part in x)
    if isinstance(x, np.generic) or not (isinstance(x, memoryview) or hasattr(x, "__array__")):
        return x  # NumPy copies the elements of sequences
    values = np.asarray(x)
    if values.size == 0:
        return x  # NumPy takes an empty index of any dtype, unless it is an ndarray
    return values.copy() if np.may_share_memory(values, written) else values


def _spread(values: Array, shape: tuple[int, ...]) -> Array:
    """Values broadcast to a shape. (``numpy.broadcast_to`` supports at most 32 axes.)"""
    if values.shape == shape:
        return values
    if len(shape) <= 32:
        return np.broadcast_to(values, shape)
    spread = np.empty(shape, values.dtype)
    spread[...] = values
    return spread
