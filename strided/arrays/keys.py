"""The meaning of the key in ``a[key]`` for an array of a given shape.

`normalise` turns a key into a `Selection`: an item for each axis, with starts and sizes computed. For keys with index
arrays, `index_arrays` computes one index array for each axis, in the shape of the result.

Invalid keys raise NumPy's own exceptions: the key is applied to an array of the same shape that takes no memory
(`refuse`).
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import MAX_NDIM

Integers: TypeAlias = npt.NDArray[np.intp]

#: With this many index arrays, let NumPy check whether they are too many: its limit depends on the version.
_MANY_ARRAYS = 30


class IndexRange(NamedTuple):
    """Indices ``start, start + step, ...`` of one axis, `size` of them."""

    start: int
    step: int
    size: int

    def indices(self, first: int = 0, stop: int | None = None) -> npt.NDArray[np.intp]:
        """The indices as an array: all, or a part of them (positions `first` to `stop`)."""
        return np.arange(first, self.size if stop is None else stop, dtype=np.intp) * self.step + self.start

    def as_slice(self) -> slice:
        """The slice that selects these indices.

        >>> IndexRange(4, -2, 3).as_slice()
        slice(4, None, -2)
        """
        stop = self.start + self.step * self.size
        return slice(self.start, None if stop < 0 else stop, self.step)


class Flag(NamedTuple):
    """A 0-d boolean: it acts as an index array of one entry (true) or none (false), but takes no axis."""

    value: bool


#: One entry of a key. None is a new axis; an array holds the indices of one axis.
Item: TypeAlias = int | IndexRange | Flag | Integers | None


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The normal form of a key, with an item for each axis of the array.

    Attributes
    ----------
    items : tuple of Item
        In the order of the key; indices are non-negative and in bounds.
    is_basic : bool
        Whether there are no index arrays, so that the selection is a view.
    copies : bool
        Whether NumPy returns a copy of that view, because a 0-d array was given for an integer.
    is_element : bool
        Whether it selects a single element: an integer for each axis, and nothing else.
    is_mask : bool
        Whether it is a single mask of the whole array.
    before_ellipsis : int
        Number of items before the ellipsis, -1 if there is none. An ellipsis separates index arrays even if it stands
        for no axis.
    """

    items: tuple[Item, ...]
    is_basic: bool
    copies: bool
    is_element: bool
    is_mask: bool
    before_ellipsis: int


def refuse(shape: tuple[int, ...], key: Any, value_shape: tuple[int, ...] | None = None) -> NoReturn:
    """Raise what NumPy raises for this key: for reading, or for assigning values of a shape."""
    stand_in = _stand_in(shape)
    if value_shape is None:
        stand_in[key]
    else:
        stand_in[key] = np.broadcast_to(np.zeros((), np.bool_), value_shape)
    raise IndexError(f"key {key!r} does not fit an array of shape {shape}")


def length_of(shape: tuple[int, ...]) -> int:
    """``len`` of an array of this shape; TypeError for a 0-d one."""
    if not shape:
        raise TypeError("len() of unsized object")
    return shape[0]


def _stand_in(shape: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """An array of a shape that takes no memory."""
    return np.lib.stride_tricks.as_strided(np.zeros((), np.bool_), shape, (0,) * len(shape))


def normalise(key: Any, shape: tuple[int, ...]) -> Selection:
    """The normal form of a key for an array of a shape.

    Raises
    ------
    IndexError, TypeError, ValueError
        As in NumPy.

    >>> normalise((..., slice(None, None, 2)), (3, 5)).items
    (IndexRange(start=0, step=1, size=3), IndexRange(start=0, step=2, size=3))
    """
    entries: list[Any] = []
    ellipsis, used, copies = -1, 0, False
    for given in key if isinstance(key, tuple) else (key,):
        if given is Ellipsis:
            if ellipsis >= 0:
                refuse(shape, key)
            ellipsis = len(entries)
            continue
        entry = given if given is None or isinstance(given, slice) else _indices(given, shape, key)
        copies |= isinstance(given, np.ndarray) and given.ndim == 0
        entries.append(entry)
        used += _axes_of(entry)
    if used > len(shape):
        refuse(shape, key)
    rest = [slice(None)] * (len(shape) - used)
    at = len(entries) if ellipsis < 0 else ellipsis
    items: list[Item] = []
    axis = 0
    for entry in (*entries[:at], *rest, *entries[at:]):
        items += _bound(entry, axis, shape, key)
        axis += _axes_of(entry)
    is_basic = not any(isinstance(i, (np.ndarray, Flag)) for i in items)
    ndim = sum(i is None or isinstance(i, IndexRange) for i in items)
    if not is_basic:
        if len(items) >= _MANY_ARRAYS:
            _stand_in(shape)[key]  # NumPy raises if there are too many
        items, fancy = _checked(items, shape, key)
        ndim += len(fancy)
    if ndim > MAX_NDIM:
        refuse(shape, key)
    is_element = ellipsis < 0 and is_basic and len(items) == len(shape) and all(type(i) is int for i in items)
    is_mask = ellipsis < 0 and len(entries) == 1 and is_mask_of(entries[0], shape)
    before = sum(max(1, _axes_of(entry)) for entry in entries[:ellipsis]) if ellipsis >= 0 else -1
    return Selection(tuple(items), is_basic, copies, is_element, is_mask, before)


def is_mask_of(entry: Any, shape: tuple[int, ...]) -> bool:
    """Whether an entry is a mask of an array of a shape."""
    if isinstance(entry, Flag):
        return not shape
    return isinstance(entry, np.ndarray) and entry.dtype == np.bool_ and entry.shape == shape


def range_of_slice(entry: slice, n: int) -> tuple[int, int, int]:
    """Start, step and size of a slice of `n` indices."""
    start, stop, step = entry.indices(n)
    size = len(range(start, stop, step))
    # A step past the end is never taken, and may be too large for 64 bits.
    return start if size else 0, step if size > 1 else 1, size


def _axes_of(entry: Any) -> int:
    """The number of axes that an entry takes."""
    if entry is None or isinstance(entry, Flag):
        return 0
    return entry.ndim if isinstance(entry, np.ndarray) and entry.dtype == np.bool_ else 1


def _indices(given: Any, shape: tuple[int, ...], key: Any) -> int | Flag | npt.NDArray[Any]:
    """An entry other than a slice, ellipsis or None, as an integer, a `Flag`, a mask or an array of intp."""
    if not isinstance(given, (np.ndarray, bool, np.bool_)):
        try:
            return operator.index(given)
        except TypeError:
            pass
    array = np.asarray(given)
    if array.size == 0 and array.ndim and not isinstance(given, np.ndarray):
        return array.astype(np.intp)
    if array.dtype == np.bool_:
        return array if array.ndim else Flag(bool(array))
    if array.dtype.kind not in "iu":
        refuse(shape, key)
    return array.astype(np.intp, copy=False) if array.ndim else int(array)


def _bound(entry: Any, axis: int, shape: tuple[int, ...], key: Any) -> list[Item]:
    """The items of an entry whose first axis is `axis`."""
    if entry is None or isinstance(entry, Flag):
        return [entry]
    if isinstance(entry, slice):
        try:
            return [IndexRange(*range_of_slice(entry, shape[axis]))]
        except (TypeError, ValueError):
            refuse(shape, key)  # NumPy may raise for something else first
    if isinstance(entry, int):
        n = shape[axis]
        if not -n <= entry < n:
            refuse(shape, key)
        return [entry + n if entry < 0 else entry]
    if entry.dtype == np.bool_:
        # In NumPy, a mask of size 0 along an axis fits any size.
        if not all(m in (0, n) for m, n in zip(entry.shape, shape[axis : axis + entry.ndim], strict=True)):
            refuse(shape, key)
        return list(_places(entry))
    return [entry]


def _places(mask: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.intp], ...]:
    """``mask.nonzero()``, by way of one contiguous axis, for which NumPy is many times as fast."""
    if mask.ndim < 2 or not mask.size or not mask.flags.c_contiguous:
        return mask.nonzero()
    return np.unravel_index(np.flatnonzero(mask), mask.shape)


def _checked(items: list[Item], shape: tuple[int, ...], key: Any) -> tuple[list[Item], tuple[int, ...]]:
    """The items with index arrays checked and negative indices wrapped, and the shape that the arrays broadcast to."""
    try:
        selected = _fancy_shape(items)
    except ValueError:
        refuse(shape, key)
    checked: list[Item] = []
    axis = 0
    for item in items:
        if isinstance(item, np.ndarray) and item.size:
            n, low, high = shape[axis], int(item.min()), int(item.max())
            if low < -n or high >= n:
                if 0 not in selected:
                    refuse(shape, key)
                # NumPy accepts indices out of bounds if broadcasting leaves nothing to select.
                item = np.zeros(item.shape, np.intp)
            elif low < 0:
                item = np.where(item < 0, item + n, item)
        checked.append(item)
        axis += item is not None and not isinstance(item, Flag)
    return checked, selected


def _fancy_shape(items: list[Item] | tuple[Item, ...]) -> tuple[int, ...]:
    """The shape that all index arrays broadcast to. (``np.broadcast_shapes`` supports at most 32 axes.)"""
    shapes = [
        i.shape if isinstance(i, np.ndarray) else (int(i.value),) for i in items if isinstance(i, (np.ndarray, Flag))
    ]
    ndim = max(map(len, shapes))
    columns = zip(*((1,) * (ndim - len(s)) + s for s in shapes), strict=True)
    common = []
    for sizes in columns:
        wanted = {n for n in sizes if n != 1} or {1}
        if len(wanted) > 1:
            raise ValueError("shapes do not broadcast together")
        common.append(wanted.pop())
    return tuple(common)


def index_arrays(selection: Selection) -> tuple[tuple[int, ...], list[Any]]:
    """The shape of a selection with index arrays, and an index array for each axis that broadcasts to that shape.

    By NumPy's rule, the axes of the index arrays take the place of the arrays in the key if these are adjacent;
    otherwise they come first.

    >>> shape, (rows, columns) = index_arrays(normalise(([2, 0], slice(1, 3)), (3, 5)))
    >>> shape, rows.tolist(), columns.tolist()
    ((2, 2), [[2], [0]], [1, 2])
    """
    items = selection.items
    fancy = _fancy_shape(items)
    places = [k for k, i in enumerate(items) if isinstance(i, (int, np.ndarray, Flag))]
    side_by_side = places == list(range(places[0], places[-1] + 1)) and not (
        places[0] < selection.before_ellipsis <= places[-1]
    )
    front = sum(isinstance(i, IndexRange) or i is None for i in items[: places[0]]) if side_by_side else 0
    plain = [1 if i is None else i.size for i in items if i is None or isinstance(i, IndexRange)]
    shape = (*plain[:front], *fancy, *plain[front:])
    if 0 in shape:
        # No index is needed, and another axis may be too long to list its indices.
        return shape, [0 for i in items if i is not None and not isinstance(i, Flag)]
    arrays: list[Any] = []
    seen = 0
    for item in items:
        if isinstance(item, IndexRange):
            position = seen if seen < front else seen + len(fancy)
            indices = item.indices()
            arrays.append(indices.reshape((-1,) + (1,) * (len(shape) - 1 - position)))
            seen += 1
        elif item is None:
            seen += 1
        elif isinstance(item, np.ndarray):
            own = item.reshape((1,) * (len(fancy) - item.ndim) + item.shape)
            arrays.append(own.reshape(own.shape + (1,) * (len(plain) - front)))
        elif isinstance(item, int):
            arrays.append(item)
    return shape, arrays
