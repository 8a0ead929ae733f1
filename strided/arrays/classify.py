"""What a key selects of an array whose elements a map locates: an element, a view, or elements one by one.

Most keys mean an element or a view, and are read in one pass (`element_at`, `view_at`). `classify` tells all kinds
apart: `Element`, `View`, `Copy`, `Points`, `Mask` and `Outer`. To do so, it takes the key's normal form (`keys`), of
which basic ones move the map (`view`).
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import MAX_NDIM, AddressMap
from strided.addressing.digits import Term
from strided.arrays.keys import IndexRange, Selection, index_arrays, is_mask_of, normalise, range_of_slice

#: What a key selects. An element is its offset; a view is its map.
Element: TypeAlias = int
View: TypeAlias = AddressMap


class Copy(NamedTuple):
    """A view of which NumPy gives a copy."""

    map: AddressMap


class Points(NamedTuple):
    """An index array of the same shape for every axis, not checked; `indexed` checks them."""

    arrays: tuple[npt.NDArray[Any], ...]


class Mask(NamedTuple):
    """A mask of the whole array; `indexed` finds its indices."""

    mask: npt.NDArray[np.bool_]


class Outer(NamedTuple):
    """Arrays of indices, one for every axis, that are in bounds and broadcast to a shape; whether a mask made them."""

    shape: tuple[int, ...]
    arrays: list[Any]
    is_mask: bool


def classify(source: AddressMap, key: Any) -> Element | View | Copy | Points | Mask | Outer:
    """What a key selects of a view with this map.

    Raises
    ------
    IndexError, TypeError, ValueError
        As NumPy does; `Points` and `Mask` are checked by `indexed`.
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
    """What a key selects, checked: masks and points become index arrays.

    Raises
    ------
    IndexError, TypeError, ValueError
        As NumPy does.
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
            if not isinstance(i, np.integer) or i.dtype.kind == "m":  # to NumPy, times are integers, too
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

    What `normalise` and `view` would find, in one pass: most keys are of this kind.
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
        return source  # what is known of it serves ``a[:]``, too
    return AddressMap.unchecked(whole_shape, base, whole_axes, (), source.upper_bound)


def view(source: AddressMap, selection: Selection) -> AddressMap:
    """The map of the view that a basic selection is."""
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
