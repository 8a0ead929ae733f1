"""Which indices of the whole array a view covers.

A view made by slicing, transposing and broadcasting covers indices ``start, start + step, ...`` in each dimension. From
these follow whether two views share an element, which strides the same view of an ndarray would have, and how several
views can be converted together.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from strided.addressing.address_map import AddressMap
from strided.arrays.base import ArrayBase
from strided.arrays.keys import IndexRange
from strided.layout import Shape


class IndexRanges(NamedTuple):
    """The indices that a view covers.

    Attributes
    ----------
    dimensions : tuple of IndexRange
        The indices in each dimension of the whole array.
    axes : tuple of (int or None)
        The dimension of each axis of the view; None for a broadcast axis.
    """

    dimensions: tuple[IndexRange, ...]
    axes: tuple[int | None, ...]


def index_ranges_of(view: ArrayBase) -> IndexRanges | None:
    """The indices that a view covers; None if it is empty, or not made by slicing, transposing and broadcasting.

    >>> import strided as sd
    >>> a = sd.LayoutArray(bytes(128), "f32[4,8]{1,0:T(2,4)}")
    >>> index_ranges_of(a.T[::-1, 2]).dimensions
    (IndexRange(start=2, step=1, size=1), IndexRange(start=7, step=-1, size=8))
    """
    if not view.size or view._memory.bits != view.spec.element_bits:
        return None
    return _index_ranges(view._map, view.spec.address_map)


@lru_cache(maxsize=512)
def _index_ranges(map_: AddressMap, whole: AddressMap) -> IndexRanges | None:
    """`index_ranges_of` for the map of a view that is not empty, and that of the whole array."""
    first = _first_index(map_, whole)
    if first is None:
        return None
    dimensions = [IndexRange(i, 1, 1) for i in first]
    axes: list[int | None] = []
    for axis, n in enumerate(map_.shape):
        moved = [] if n == 1 else _moved(map_, axis, whole)
        if moved is None or len(moved) > 1:
            return None
        for d, start, step in moved:
            if d in axes or start != first[d]:
                return None
            dimensions[d] = IndexRange(start, step, n)
        axes.append(moved[0][0] if moved else None)
    return IndexRanges(tuple(dimensions), tuple(axes))


def _first_index(map_: AddressMap, whole: AddressMap) -> list[int] | None:
    """The index of a view's first element in the whole array; None if unknown."""
    if map_.irregular:
        return [start for start, _ in map_.irregular[0].coordinates]
    offset = rest = int(map_.offset_of((0,) * map_.ndim))
    index = [0] * whole.ndim
    digits = [(digit, d) for d, terms in enumerate(whole.axes) for term in terms for digit in term.digits]
    for (weight, size, stride), d in sorted(digits, key=lambda item: -item[0].stride):
        if stride > 0:
            value = min(rest // stride, size - 1)
            index[d] += value * weight
            rest -= value * stride
    # The greedy division fails if strides overlap, so check the result.
    return index if whole.offset_of(index) == offset else None


def _moved(map_: AddressMap, axis: int, whole: AddressMap) -> list[tuple[int, int, int]] | None:
    """The dimensions whose index changes along an axis, with start and step; None if unknown."""
    if map_.irregular:
        return [(d, c, steps[axis]) for d, (c, steps) in enumerate(map_.irregular[0].coordinates) if steps[axis]]
    found = []
    for start, step, digits in map_.axes[axis]:
        same = [d for d in range(whole.ndim) if whole.shape[d] > 1 and [t.digits for t in whole.axes[d]] == [digits]]
        if len(same) != 1:
            return None
        found.append((same[0], start, step))
    return found


def strides_in_order(view: ArrayBase) -> tuple[int, ...] | None:
    """The strides, in elements, of the same view of an ndarray whose axes have the layout's order in memory.

    For a strided view these are its own strides. None if unknown.

    >>> import strided as sd
    >>> a = sd.LayoutArray(bytes(128), "f32[4,8]{1,0:T(2,4)}")
    >>> strides_in_order(a.T[::2])
    (2, 8)
    """
    if view._map.strides is not None:
        return view._map.strides
    spec, found = view.spec, index_ranges_of(view)
    if found is None or not isinstance(spec, Shape):
        return None
    whole, next_ = {}, 1
    for d in view.layout.minor_to_major:
        whole[d] = next_
        next_ *= spec.dimensions[d]
    return tuple(0 if d is None else whole[d] * found.dimensions[d].step for d in found.axes)
