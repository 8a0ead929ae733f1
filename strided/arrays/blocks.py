"""Arrays in windows: boxes of whole tiles that are converted one at a time.

What has to look at every element of an array that may be larger than memory goes through it in windows of about
`WINDOW_BYTES`. Their edges lie on tiles, so that no tile is read twice, and they grow along the axes that lie closest
together in the buffer, so that a file is read in its own order.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from strided.addressing.address_map import AddressMap
from strided.addressing.digits import Term
from strided.arrays.base import Array, ArrayBase
from strided.layout import Shape
from strided.layout.element_types import MAX_NDIM
from strided.runtime.cache import BoundedCache
from strided.transfer import copy as transfer

#: Bytes of values in a window: they stay in a core's own cache between being converted and being used.
WINDOW_BYTES = 1 << 21

#: Maps of windows that a reader keeps: those of a regular array are few, those of others may be as many as windows.
_MOST_MAPS = 256

#: A window: start and stop along every axis.
Box: TypeAlias = tuple[tuple[int, int], ...]


def tile_of(map_: AddressMap) -> tuple[tuple[int, int], ...]:
    """Along every axis the size of a tile, in entries of the axis, and where the first tile edge is.

    >>> import strided as sd
    >>> a = sd.LayoutArray(bytes(18432), "bf16[17,300]{1,0:T(8,128)(2,1)}")
    >>> tile_of(a.address_map), tile_of(a[3:, ::2].address_map)
    (((8, 0), (128, 0)), ((8, 5), (64, 0)))
    """
    return tuple(_tile(terms) for terms in map_.axes)


def _tile(terms: tuple[Term, ...]) -> tuple[int, int]:
    if len(terms) != 1:
        return 1, 0
    start, step, digits = terms[0]
    below = math.prod(d.size for d in digits[:-1])
    if below == 1 or step == 0:
        return 1, 0
    if step in (1, -1):
        return below, -start % below if step > 0 else (start + 1) % below
    return max(1, below // math.gcd(below, step)), 0


def window_shape(map_: AddressMap, elements: int) -> tuple[int, ...]:
    """The shape of windows of about so many elements: whole tiles, as many as lie together in the buffer.

    >>> import strided as sd
    >>> window_shape(sd.parse("f32[4096,4096]{1,0:T(8,128)}").address_map, 1 << 18)
    (64, 4096)
    """
    shape = [min(n, size) for n, (size, _) in zip(map_.shape, tile_of(map_), strict=True)]
    for axis in sorted(range(map_.ndim), key=lambda k: _outer_stride(map_.axes[k])):
        room = elements // max(1, math.prod(shape))
        if room > 1:
            n, size = map_.shape[axis], shape[axis]
            shape[axis] = min(n, size * room)
    return tuple(max(1, n) for n in shape)


def _outer_stride(terms: tuple[Term, ...]) -> int:
    """Elements from one tile to the next: the axis of the least lies closest together."""
    return max((abs(t.step * d.stride) for t in terms for d in t.digits[-1:]), default=0)


def cuts(map_: AddressMap, window: Sequence[int], *, whole_tiles: bool = False) -> list[list[tuple[int, int]]]:
    """For every axis the (start, stop) of its windows; they begin on tile edges where there are any.

    With `whole_tiles` a window that ends inside a tile has that part of it for itself.
    """
    found = []
    for n, w, (size, first) in zip(map_.shape, window, tile_of(map_), strict=True):
        edges = [0, *range(first if first else w, n, w), n] if size > 1 and n else [*range(0, n, w), n]
        last = n - (n - first) % size
        if whole_tiles and size > 1 and edges[-2:-1] < [last] < edges[-1:]:
            edges.insert(-1, last)
        found.append(list(itertools.pairwise(edges)))
    return found


def boxes(map_: AddressMap, elements: int, *, whole_tiles: bool = False) -> Iterator[Box]:
    """Windows of about so many elements that cover a view."""
    yield from itertools.product(*cuts(map_, window_shape(map_, elements), whole_tiles=whole_tiles))


def part(array: ArrayBase, box: Box) -> Any:
    """The view of a window."""
    map_ = array._map
    for axis, (start, stop) in enumerate(box):
        if (start, stop) != (0, array.shape[axis]):
            map_ = map_.sliced(axis, start, 1, stop - start)
    return array._with_map(map_)


def digits_of(array: ArrayBase, box: Box) -> tuple[Array, tuple[int, ...]] | None:
    """A window as an ndarray on the array's own memory, with an axis for every digit, and how many each axis has.

    Within whole tiles a layout is plain strides: only, the coordinate along an axis is made of several digits. The
    digits of an axis stand together, major first. None where a digit is not filled, or elements are packed.

    >>> import strided as sd
    >>> a = sd.LayoutArray.from_numpy(np.arange(16).reshape(4, 4), "{1,0:T(2,2)}")
    >>> values, counts = digits_of(a, ((0, 4), (2, 4)))
    >>> values.shape, counts, values.reshape(4, 2).tolist()
    ((2, 2, 2), (2, 1), [[2, 3], [6, 7], [10, 11], [14, 15]])
    """
    memory, map_ = array._memory, array._map
    if memory.bits < 8 or map_.irregular:
        return None
    base, shape, strides, counts = map_.base, [], [], []
    for (start, stop), terms in zip(box, map_.axes, strict=True):
        n = stop - start
        if len(terms) > 1:
            return None
        found = terms[0].moved(start).linear(n) if terms else (0, Term(0, 1, ()))
        if found is None:
            return None
        constant, (_, _, digits) = found
        *lower, _ = digits or (None,)
        below = math.prod(d.size for d in lower)
        if n % below:
            return None
        base += constant
        sizes = [n // below, *(d.size for d in reversed(lower))]
        shape += sizes
        strides += [d.stride * array.itemsize for d in reversed(digits)] or [0]
        counts.append(len(sizes))
    if len(shape) > MAX_NDIM:
        return None
    return np.ndarray(shape, array.dtype, memory.buffer, base * array.itemsize, strides), tuple(counts)


class Reader:
    """Windows of an array as ndarrays, for several threads at once.

    An array of plain strides is not copied at all. Of any other, each thread converts a window at a time into memory of
    its own, which the next call from the same thread overwrites.
    """

    def __init__(self, array: ArrayBase) -> None:
        self._array = array
        self._whole = array._as_strided() if array.is_strided else None
        if self._whole is not None:
            self._whole.flags.writeable = False
        self._own = threading.local()
        #: The maps of windows, each once: plans are remembered by them.
        self._maps = BoundedCache[AddressMap, AddressMap](_MOST_MAPS)

    def __call__(self, box: Box) -> Array:
        """The values in a window, read-only where they are the array's own memory."""
        if self._whole is not None:
            return self._whole[tuple(slice(start, stop) for start, stop in box)]
        array = self._array
        shape = tuple(stop - start for start, stop in box)
        nbytes = math.prod(shape) * array.itemsize
        scratch = getattr(self._own, "scratch", None)
        if scratch is None or scratch.size < nbytes:
            scratch = self._own.scratch = transfer.empty_aligned(nbytes)
        values: Array = scratch[:nbytes].view(array.dtype).reshape(shape)
        region = near(part(array, box).region)
        region = region._replace(map=self._maps.get(region.map) or self._maps.keep(region.map, region.map))
        transfer.copy(region, transfer.region_of_ndarray(values))
        return values


def near(region: transfer.Region) -> transfer.Region:
    """The same elements, counted from near the first one: windows that are alike are then planned alike, once."""
    map_ = region.map
    if map_.irregular:
        return region
    base, axes = map_.base, []
    for n, terms in zip(map_.shape, map_.axes, strict=True):
        moved = []
        for term in terms:
            found = term.linear(n)
            base += 0 if found is None else found[0]
            moved.append(term if found is None else found[1])
        axes.append(tuple(moved))
    unit = region.storage.unit
    # Whole bytes from the start, as many as no element reaches back over.
    lowest = base + sum(min(0, _least(n, t)) for n, terms in zip(map_.shape, axes, strict=True) for t in terms)
    skipped = max(0, lowest) * unit // 8
    base -= skipped * 8 // unit
    moved_map = AddressMap.unchecked(map_.shape, base, tuple(axes), (), map_.upper_bound - skipped * 8 // unit)
    return transfer.Region(
        region.buffer[skipped:], moved_map, region.bits, region.low_first, region.signed, region.unit_bits
    )


def _least(n: int, term: Term) -> int:
    """The least that a term adds: less than nothing only where a stride is negative."""
    return sum((d.size - 1) * d.stride for d in term.digits if d.stride < 0)


def blocks(shape: Sequence[int], limit: int, order: Sequence[int] | None = None) -> Iterator[tuple[slice, ...]]:
    """Boxes of at most about `limit` elements that cover a shape, in the order of its elements.

    `order` lists the dimensions from most major to most minor, and says what the order of elements is; row-major
    without it. Cuts fall on multiples of usual tile sizes where boxes are long enough.

    >>> [tuple((s.start, s.stop) for s in box) for box in blocks((2, 5), 3)]
    [((0, 1), (0, 3)), ((0, 1), (3, 5)), ((1, 2), (0, 3)), ((1, 2), (3, 5))]
    """
    order = range(len(shape)) if order is None else order
    if math.prod(shape) <= limit:
        yield tuple(slice(0, n) for n in shape)
        return
    inner = [math.prod(shape[d] for d in order[k + 1 :]) for k in range(len(order))]
    cut = next(k for k, below in enumerate(inner) if below <= limit)
    step = max(1, limit // inner[cut])
    step -= step % next(g for g in (1024, 128, 32, 8, 1) if g <= step)
    outer, dimension = order[:cut], order[cut]
    for place in np.ndindex(*(shape[d] for d in outer)):
        box = [slice(0, n) for n in shape]
        for d, i in zip(outer, place, strict=True):
            box[d] = slice(i, i + 1)
        for start in range(0, shape[dimension], step):
            box[dimension] = slice(start, min(start + step, shape[dimension]))
            yield tuple(box)


def both_ways(shape: Shape, other: Shape, limit: int) -> Iterator[tuple[slice, ...]]:
    """Boxes of at most about `limit` elements that cover an array and are long runs in two layouts of it.

    They are whole tiles, and grow along the minor dimensions of the layout in which they are shorter runs.

    >>> import strided as sd
    >>> first, second = sd.parse("f32[64,64,64]{2,1,0}"), sd.parse("f32[64,64,64]{0,1,2}")
    >>> next(both_ways(first, second, 1 << 13))
    (slice(0, 64, None), slice(0, 2, None), slice(0, 64, None))
    """
    dimensions = shape.dimensions
    layouts = [each.layout for each in (shape, other) if each.layout is not None]
    sides = [min(1, n) for n in dimensions]
    for layout in layouts:
        for d, n in zip(
            layout.minor_to_major, reversed(layout.tiles[0].dimensions) if layout.tiles else (), strict=False
        ):
            grown = min(dimensions[d], math.lcm(max(1, sides[d]), max(1, n)))
            if math.prod(sides) // max(1, sides[d]) * grown <= limit:
                sides[d] = grown
    growing = True
    while growing:
        growing = False
        for _, d in sorted(run for layout in layouts for run in _run(layout.minor_to_major, sides, dimensions)):
            grown = min(dimensions[d], 2 * sides[d])
            if math.prod(sides) // sides[d] * grown <= limit:
                sides[d], growing = grown, True
                break
    for place in np.ndindex(*(-(-n // max(1, side)) for n, side in zip(dimensions, sides, strict=True))):
        yield tuple(
            slice(i * side, min(n, (i + 1) * side)) for i, side, n in zip(place, sides, dimensions, strict=True)
        )


def _run(minor_to_major: Sequence[int], sides: Sequence[int], shape: Sequence[int]) -> list[tuple[int, int]]:
    """How long the runs of a box are, in elements, and the dimension along which they could be longer, if any."""
    length = 1
    for d in minor_to_major:
        length *= sides[d]
        if sides[d] < shape[d]:
            return [(length, d)]
    return []
