"""What a key selects of a view with an address map: an element, a view, or elements by index arrays.

Most keys select an element or a view; fast paths handle these in one pass (`element_at`, `view_at`). `classify`
handles all keys, by way of their normal form (`keys`), and returns an `Element`, `View`, `Copy`, `Points`, `Mask` or
`Outer`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import MAX_NDIM, AddressMap
from strided.addressing.digits import Term
from strided.arrays.keys import IndexRange, Selection, index_arrays, is_mask_of, normalise, range_of_slice

#: An element is represented by its offset, a view by its map.
Element: TypeAlias = int
View: TypeAlias = AddressMap


class Copy(NamedTuple):
    """A basic selection of which NumPy returns a copy, not a view."""

    map: AddressMap


class Points(NamedTuple):
    """One index array for each axis, all of the same shape. They are not checked; `indexed` checks them."""

    arrays: tuple[npt.NDArray[Any], ...]


class Mask(NamedTuple):
    """A boolean mask of the whole array; `indexed` turns it into index arrays."""

    mask: npt.NDArray[np.bool_]


class Outer(NamedTuple):
    """One index array for each axis, in bounds, that broadcast to `shape`; `is_mask` if they come from a mask."""

    shape: tuple[int, ...]
    arrays: list[Any]
    is_mask: bool


def classify(source: AddressMap, key: Any) -> Element | View | Copy | Points | Mask | Outer:
    """What a key selects of a view with this map.

    Raises
    ------
    IndexError, TypeError, ValueError
        As in NumPy; `indexed` checks `Points` and `Mask`.
    """
    entries, shape = key if type(key) is tuple else (key,), source.shape
    if len(entries) == 1 and type(entries[0]) is np.ndarray and is_mask_of(entries[0], shape):
        return Mask(entries[0])
    if len(entries) == len(shape) > 0 and all(_is_index_array(x) and x.shape == entries[0].shape for x in entries):
        return Points(entries)
    return indexed(source, key)


def _is_index_array(x: Any) -> bool:
    return type(x) is np.ndarray and x.dtype.kind in "iu" and x.ndim > 0


def indexed(source: AddressMap, key: Any) -> Element | View | Copy | Outer:
    """What a key selects, checked; masks and points become `Outer` index arrays.

    Raises
    ------
    IndexError, TypeError, ValueError
        As in NumPy.
    """
    selection = normalise(key, source.shape)
    if selection.is_element:
        return int(source.offset_of(selection.items))  # type: ignore[arg-type]
    if selection.is_basic:
        return Copy(view(source, selection)) if selection.copies else view(source, selection)
    return Outer(*index_arrays(selection), selection.is_mask)


def element_at(source: AddressMap, key: tuple[Any, ...]) -> int | None:
    """The offset, in elements, of the element that a key of integers selects; None for any other key.

    >>> element_at(AddressMap.from_strides((3, 5), (5, 1)), (2, -1))
    14
    """
    if len(key) != len(source.shape) or source.irregular:
        return None
    offset, axes = source.slopes
    for i, (n, slope, carries) in zip(key, axes, strict=True):
        if type(i) is not int:
            if not isinstance(i, np.integer) or i.dtype.kind == "m":  # timedelta64 is a subclass of np.integer
                return None
            i = int(i)
        if i < 0:
            i += n
        if not 0 <= i < n:
            return None
        offset += i * slope
        for start, step, weight, factor in carries:
            offset += (start + step * i) // weight * factor
    return offset


def view_at(source: AddressMap, key: tuple[Any, ...]) -> AddressMap | None:
    """The map of the view that a key of integers, slices, ``None`` and one ``...`` selects; None for any other key.

    A fast path: the result of `normalise` and `view` in one pass.
    """
    if source.irregular:
        return None
    sizes, own, base = source.shape, source.axes, source.base
    shape: list[int] = []
    axes: list[tuple[Term, ...]] = []
    axis, ndim, dots = 0, len(sizes), False
    for place, entry in enumerate(key):
        if entry is None:
            shape.append(1)
            axes.append(())
            continue
        if entry is Ellipsis:
            size = ndim - axis - sum(e is not None for e in key[place + 1 :])
            if dots or size < 0:
                return None
            shape += sizes[axis : axis + size]
            axes += own[axis : axis + size]
            axis, dots = axis + size, True
            continue
        if axis == ndim:
            return None
        n, terms = sizes[axis], own[axis]
        if type(entry) is slice:
            if entry.start is not None or entry.stop is not None or entry.step is not None:
                try:
                    first, by, n = range_of_slice(entry, n)
                except (TypeError, ValueError):
                    return None
                terms = tuple([Term(start + step * first, step * by, digits) for start, step, digits in terms])
            shape.append(n)
            axes.append(terms)
        elif type(entry) is int and -n <= entry < n:
            i = entry + n if entry < 0 else entry
            for start, step, digits in terms:
                c = start + step * i
                for weight, size, stride in digits:
                    base += c // weight % size * stride
        else:
            return None
        axis += 1
    if len(shape) + ndim - axis > MAX_NDIM:
        return None
    whole_shape, whole_axes = (*shape, *sizes[axis:]), (*axes, *own[axis:])
    if whole_shape == sizes and base == source.base and whole_axes == own:
        return source  # the same object, so that ``a[:]`` uses its cached properties
    return AddressMap.unchecked(whole_shape, base, whole_axes, (), source.upper_bound)


def view(source: AddressMap, selection: Selection) -> AddressMap:
    """The map of the view that a basic selection selects."""
    result, axis = source, 0
    for item in selection.items:
        if item is None:
            result = result.with_axis(axis)
            axis += 1
        elif isinstance(item, IndexRange):
            if item != (0, 1, result.shape[axis]):
                result = result.sliced(axis, *item)
            axis += 1
        else:
            assert isinstance(item, int)
            result = result.at(axis, item)
    return result
