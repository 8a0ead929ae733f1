"""``a.flat``: the elements in row-major order, read and assigned by flat index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NoReturn

import numpy as np
import numpy.typing as npt

from strided.arrays.base import Array, ArrayBase, as_converted
from strided.arrays.encode import cast_as_array, shape_of
from strided.arrays.flags import Flags
from strided.arrays.keys import IndexRange, normalise
from strided.transfer import copy as transfer

#: Elements whose offsets iteration computes at a time. Values are read one by one: they may change in the meantime.
_AHEAD = 1 << 12
#: Elements whose offsets an assignment computes at a time, so that indices and offsets stay in the cache.
_WRITTEN = 1 << 16


class Flat:
    """An iterator over an array's elements that can be indexed, like NumPy's ``flatiter``.

    >>> import strided as sd
    >>> a = sd.LayoutArray.from_numpy(np.arange(6).reshape(2, 3), "{0,1:T(2,2)}")
    >>> a.flat[1:4].tolist(), next(a.flat)
    ([1, 2, 3], np.int64(0))
    """

    __slots__ = ("_array", "_next", "_offsets", "_start")

    def __init__(self, array: ArrayBase) -> None:
        self._array = array
        self._next = 0
        self._start = 0
        self._offsets: list[int] = []

    @property
    def base(self) -> ArrayBase:
        """The array."""
        return self._array

    @property
    def index(self) -> int:
        """Flat index of the next element."""
        return self._next

    @property
    def coords(self) -> tuple[int, ...]:
        """Index of the next element; after the last one, the first index of the row past the end."""
        place, found = self._next, list[int]()
        for n in reversed(self._array.shape[1:]):
            place, k = divmod(place, max(1, n))
            found.append(k)
        return (place, *reversed(found)) if self._array.ndim else ()

    def copy(self) -> Array:
        """All elements in a one-dimensional ndarray."""
        return self._array.to_numpy().reshape(-1)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The elements in a one-dimensional ndarray: the array's memory if contiguous, otherwise a read-only copy."""
        if Flags(self._array).c_contiguous:
            return np.array(self._array.as_strided().reshape(-1), dtype=dtype, copy=copy)
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        return as_converted(self.copy(), dtype, copy)

    def __len__(self) -> int:
        return self._array.size

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        array = self._array
        if self._next >= array.size:
            raise StopIteration
        if not self._start <= self._next < self._start + len(self._offsets):
            self._start = self._next
            places = np.arange(self._next, min(self._next + _AHEAD, array.size))
            self._offsets = transfer.offsets_at(array._map, self._index_of(places), places.shape).tolist()
        value = array._memory.value_at(self._offsets[self._next - self._start])
        self._next += 1
        return value

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as NumPy's own

    def __eq__(self, other: object) -> Any:
        return self.copy() == other

    def __ne__(self, other: object) -> Any:
        return self.copy() != other

    def __lt__(self, other: Any) -> Any:
        return self.copy() < other

    def __le__(self, other: Any) -> Any:
        return self.copy() <= other

    def __gt__(self, other: Any) -> Any:
        return self.copy() > other

    def __ge__(self, other: Any) -> Any:
        return self.copy() >= other

    def __getitem__(self, key: Any) -> Any:
        array, self._next = self._array, 0  # as in NumPy, indexing resets the iterator
        key = _plain(key)
        if type(key) is np.ndarray and key.dtype.kind in "iu" and key.ndim:
            found = array._at_points([key])
            if found is not None:
                return found
        places = self._places(key)
        if isinstance(places, int):
            return array[self._index_of(places)]
        if isinstance(places, IndexRange):
            return self._at_range(places)
        if places.dtype == np.bool_:
            return array[places.reshape(array.shape)]
        return array._gathered(places.shape, self._index_of(places))

    def _at_range(self, places: IndexRange) -> Array:
        """The elements at evenly spaced flat indices, in a new ndarray."""
        array = self._array
        if places == self._whole:
            return self.copy()
        if not places.size or places.size * np.intp(0).itemsize < array.nbytes:
            indices = places.indices()
            found = array._at_points([indices])
            return array._gathered(indices.shape, self._index_of(indices)) if found is None else found
        # Converting all elements takes less memory and time than listing these indices.
        return self.copy()[places.as_slice()].copy()

    def __setitem__(self, key: Any, value: Any) -> None:
        array, self._next = self._array, 0
        if not array._memory.buffer.flags.writeable:
            raise ValueError("underlying array is read-only")
        key = _plain(key)
        if isinstance(key, tuple) and all(entry is Ellipsis for entry in key):
            self._judge(key, value)  # NumPy 2.4 and later refuse it
        try:
            places = self._places(key)
        except Exception:
            self._judge(key, value)  # NumPy may look at the value first
            if 0 in shape_of(value):
                return  # and not at the key if there are no values
            raise
        if isinstance(places, int):
            try:
                array[self._index_of(places)] = value
            except Exception:
                self._judge(places, value)  # NumPy's message differs here
                raise
            return
        is_mask = isinstance(places, np.ndarray) and places.dtype == np.bool_
        count = int(np.count_nonzero(places)) if is_mask else places.size
        if not count:
            self._judge(key, value)
            return
        try:
            values = cast_as_array(value, array.dtype).reshape(-1)
        except Exception:
            self._judge(key, value)
            raise
        if not values.size:
            return
        if is_mask:
            array[places.reshape(array.shape)] = _repeated(values, count)
        elif isinstance(places, IndexRange) and places == self._whole:
            array[...] = values.reshape(()) if values.size == 1 else _repeated(values, count).reshape(array.shape)
        else:
            self._put(places, _repeated(values, count))

    def _put(self, places: IndexRange | npt.NDArray[np.intp], values: Array) -> None:
        """Set the elements at flat indices to as many values. If indices repeat, the last value stays."""
        array, buffer = self._array, self._array._memory.buffer
        if array._is_sooner_converted(values.size):
            # NumPy assigns in the memory order of the indices, so make it C order for the last value to stay.
            key = places.as_slice() if isinstance(places, IndexRange) else np.ascontiguousarray(places).reshape(-1)
            array._set_converted(lambda every: every.reshape(-1).__setitem__(key, values))
            return
        if np.may_share_memory(values, buffer):
            values = values.copy()
        if isinstance(places, np.ndarray) and np.may_share_memory(places, buffer):
            places = places.copy()
        for start in range(0, values.size, _WRITTEN):
            own = values[start : start + _WRITTEN]
            if isinstance(places, IndexRange):
                some = places.indices(start, start + own.size)
            else:
                some = places.reshape(-1)[start : start + own.size]
            array._scatter(transfer.offsets_at(array._map, self._index_of(some), some.shape), own)

    def __delitem__(self, key: Any) -> NoReturn:
        raise TypeError("Cannot delete iterator elements")

    def _judge(self, key: Any, value: Any) -> None:
        """Make NumPy check this assignment on a stand-in: raises what NumPy raises, if anything."""
        self._array.stand_in(writeable=True).flat[key] = value

    @property
    def _whole(self) -> IndexRange:
        """The flat indices of all elements, in order."""
        return IndexRange(0, 1, self._array.size)

    def _is_mask(self, key: Any) -> bool:
        """Whether a key is a mask of all elements; not for 0-d arrays, where NumPy has other error messages."""
        array = self._array
        return type(key) is np.ndarray and key.dtype == np.bool_ and key.shape == (array.size,) and array.ndim > 0

    def _places(self, key: Any) -> Any:
        """The flat indices that a key selects, or a mask of all elements."""
        if self._is_mask(key):
            return key
        entry = key[0] if isinstance(key, tuple) and len(key) == 1 else key
        if isinstance(key, tuple) and not key:
            entry = Ellipsis
        if entry is None or isinstance(entry, tuple) or _is_flag(entry):
            self._refuse(key, IndexError("unsupported iterator index"))
        try:
            (item,) = normalise(entry, (self._array.size,)).items
        except (IndexError, TypeError, ValueError) as error:
            self._refuse(key, error)
        assert isinstance(item, (int, IndexRange, np.ndarray))
        return item

    def _index_of(self, places: Any) -> tuple[Any, ...]:
        """`np.unravel_index` for flat indices or arrays of them, also for 0-d arrays."""
        return np.unravel_index(places, self._array.shape) if self._array.ndim else ()

    def _refuse(self, key: Any, error: Exception) -> NoReturn:
        """Raise what NumPy raises for this key, otherwise the given error."""
        self._array.stand_in().flat[key]
        raise error


def _plain(key: Any) -> Any:
    """A key with layout arrays replaced by ndarrays: NumPy's iterator would treat them as lists."""
    if isinstance(key, ArrayBase):
        return np.asarray(key)
    return (_plain(key[0]),) if type(key) is tuple and len(key) == 1 else key


def _is_flag(entry: Any) -> bool:
    """Whether a key is a boolean or a list of booleans, which NumPy's iterator does not accept as a mask."""
    if isinstance(entry, list):
        return bool(entry) and all(isinstance(item, (bool, np.bool_)) for item in entry)
    is_truth = isinstance(entry, (bool, np.bool_))
    return is_truth or (isinstance(entry, np.ndarray) and entry.ndim == 0 and entry.dtype == np.bool_)


def _repeated(values: Array, size: int) -> Array:
    """The first `size` values, repeated if there are too few."""
    if values.size == 1:
        return np.broadcast_to(values, size)
    return values[:size] if values.size >= size else np.resize(values, size)
