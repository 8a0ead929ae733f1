"""Blocks: boxes that cover an array and are read or written one at a time.

Code that processes all elements of an array, which may be larger than memory, does so in blocks. The shape of a block
depends on its use: whole tiles that are contiguous in the buffer (`tile_block`), one run in an order of dimensions
(`run_block`), or long runs in two layouts (`common_block`). `boxes` lists blocks; `tile_boxes` and `run_boxes` list
those of the first two kinds.
"""

from __future__ import annotations

import contextvars
import itertools
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from strided.addressing.address_map import MAX_NDIM, AddressMap
from strided.addressing.digits import Term
from strided.arrays.base import Array, ArrayBase
from strided.layout import Shape
from strided.runtime.cache import BoundedCache
from strided.runtime.threads import run, threads_in_python
from strided.transfer import copy as transfer

#: Bytes of values in a block: they stay in a core's private cache between conversion and use.
BLOCK_BYTES = 1 << 21

#: The shortest run, in elements, that NumPy reads fast in place.
_RUN = 16
#: The length of a block along the axes `along`, if there is room.
_ALONG = 16
#: Maps of blocks that a reader caches: a regular array has few different ones, an irregular one may have many.
_MOST_MAPS = 256

#: A block: start and stop along every axis.
Box: TypeAlias = tuple[slice, ...]


def boxes(cuts: Sequence[Sequence[slice]], order: Sequence[int] | None = None) -> Iterator[Box]:
    """All blocks, given the ranges into which each axis is cut.

    The last axis varies fastest, or the last one in `order`, which lists all axes.

    >>> [tuple((s.start, s.stop) for s in box) for box in boxes(even_cuts((2, 5), (1, 3)))]
    [((0, 1), (0, 3)), ((0, 1), (3, 5)), ((1, 2), (0, 3)), ((1, 2), (3, 5))]
    """
    order = range(len(cuts)) if order is None else order
    places = [order.index(axis) for axis in range(len(cuts))]
    for picked in itertools.product(*(cuts[axis] for axis in order)):
        yield tuple([picked[place] for place in places])


def even_cuts(shape: Sequence[int], block: Sequence[int]) -> list[list[slice]]:
    """The ranges of equal blocks along each axis; the last one may be shorter."""
    return [
        [slice(start, min(start + size, n)) for start in range(0, n, size)] or [slice(0, 0)]
        for n, size in zip(shape, block, strict=True)
    ]


def are_runs(cuts: Sequence[Sequence[slice]]) -> bool:
    """Whether the blocks of these cuts are contiguous runs in row-major order.

    >>> are_runs(even_cuts((2, 5), (1, 3))), are_runs(even_cuts((4, 6), (2, 3)))
    (True, False)
    """
    last = max((axis for axis, ranges in enumerate(cuts) if len(ranges) > 1), default=0)
    return all(block.stop - block.start == 1 for ranges in cuts[:last] for block in ranges)


def tile_edges_of(map_: AddressMap) -> tuple[tuple[int, int], ...]:
    """The size of a tile along each axis, in indices of the axis, and the index of the first tile edge.

    >>> import strided as sd
    >>> a = sd.LayoutArray(bytes(18432), "bf16[17,300]{1,0:T(8,128)(2,1)}")
    >>> tile_edges_of(a.address_map), tile_edges_of(a[3:, ::2].address_map)
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


def tile_block(map_: AddressMap, elements: int, along: Sequence[int] = ()) -> tuple[int, ...]:
    """The shape of blocks of about this many elements: whole tiles that are contiguous in the buffer.

    Along the axes `along`, a block has several indices even if they lie far apart in the buffer.

    >>> import strided as sd
    >>> tile_block(sd.parse("f32[4096,4096]{1,0:T(8,128)}").address_map, 1 << 18)
    (64, 4096)
    >>> tile_block(sd.parse("f32[100,512,512]{2,1,0:T(8,128)}").address_map, 1 << 18, along=(0,))
    (16, 32, 512)
    """
    shape = [min(n, size) for n, (size, _) in zip(map_.shape, tile_edges_of(map_), strict=True)]
    for axis in along:
        room = min(_ALONG, elements // max(1, math.prod(shape)))
        shape[axis] = min(map_.shape[axis], shape[axis] * max(1, room // max(1, shape[axis])))
    for axis in sorted(range(map_.ndim), key=lambda k: _outer_stride(map_.axes[k])):
        room = elements // max(1, math.prod(shape))
        shape[axis] = min(map_.shape[axis], shape[axis] * max(1, room))
    return tuple(max(1, n) for n in shape)


def _outer_stride(terms: tuple[Term, ...]) -> int:
    """Elements from one tile to the next along an axis."""
    return max((abs(t.step * d.stride) for t in terms for d in t.digits[-1:]), default=0)


def tile_cuts(
    map_: AddressMap, elements: int, *, whole_tiles: bool = False, along: Sequence[int] = ()
) -> list[list[slice]]:
    """The ranges along each axis of blocks of about this many elements; they begin at tile edges if there are any.

    `along` is that of `tile_block`. With `whole_tiles`, a last block that ends inside a tile is cut in two: whole tiles
    and the remainder.
    """
    found = []
    for n, step, (size, first) in zip(map_.shape, tile_block(map_, elements, along), tile_edges_of(map_), strict=True):
        edges = [0, *range(first or step, n, step), n] if n else []
        last = n - (n - first) % size
        if whole_tiles and size > 1 and edges[-2:-1] < [last] < edges[-1:]:
            edges.insert(-1, last)
        found.append([slice(*pair) for pair in itertools.pairwise(edges)])
    return found


def tile_boxes(map_: AddressMap, itemsize: int, *, whole_tiles: bool = False) -> Iterator[Box]:
    """The blocks of `tile_cuts` of about `BLOCK_BYTES`, for elements of `itemsize` bytes."""
    return boxes(tile_cuts(map_, max(1, BLOCK_BYTES // itemsize), whole_tiles=whole_tiles))


def part(array: ArrayBase, box: Box) -> Any:
    """The view of a block."""
    map_ = array._map
    for axis, block in enumerate(box):
        if (block.start, block.stop) != (0, array.shape[axis]):
            map_ = map_.sliced(axis, block.start, 1, block.stop - block.start)
    return array._with_map(map_)


def digits_of(array: ArrayBase, box: Box) -> tuple[Array, tuple[int, ...]] | None:
    """A block as an ndarray on the same memory with an axis for each digit, and the number of digits of each axis.

    Within whole tiles, each digit of a coordinate has a stride. The digits of an axis are adjacent, major first. None
    if the block does not fill a digit, or elements are packed.

    >>> import strided as sd
    >>> a = sd.LayoutArray.from_numpy(np.arange(16).reshape(4, 4), "{1,0:T(2,2)}")
    >>> values, counts = digits_of(a, np.s_[0:4, 2:4])
    >>> values.shape, counts, values.reshape(4, 2).tolist()
    ((2, 2, 2), (2, 1), [[2, 3], [6, 7], [10, 11], [14, 15]])
    """
    map_ = array._map
    if array._memory.bits < 8 or map_.irregular:
        return None
    base, shape, strides, counts = map_.base, [], [], []
    for block, terms in zip(box, map_.axes, strict=True):
        n = block.stop - block.start
        if len(terms) > 1:
            return None
        found = terms[0].moved(block.start).linear(n) if terms else (0, Term(0, 1, ()))
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
    return np.ndarray(shape, array.dtype, array.region.buffer, base * array.itemsize, strides), tuple(counts)


def long_runs(values: Array) -> list[int]:
    """The axes along which elements are contiguous and long enough for NumPy to be fast."""
    runs = zip(values.shape, values.strides, strict=True)
    return [k for k, (n, stride) in enumerate(runs) if n >= _RUN and stride == values.itemsize]


def in_memory_order(values: Array) -> Array:
    """The elements raveled in memory order, without a copy if they are contiguous.

    >>> in_memory_order(np.arange(6).reshape(2, 3).T).tolist()
    [0, 1, 2, 3, 4, 5]
    """
    return values.transpose(memory_order(values.strides)).reshape(-1)


def memory_order(strides: Sequence[int]) -> list[int]:
    """The axes in memory order, major first.

    >>> memory_order((4, -24, 8))
    [1, 2, 0]
    """
    return sorted(range(len(strides)), key=lambda axis: -abs(strides[axis]))


class Reader:
    """Reads blocks of an array as ndarrays; several threads may use it at once.

    A strided array is not copied, unless `row_major` is true. For other arrays, each thread converts a block into its
    own memory, which the thread's next call overwrites.
    """

    def __init__(self, array: ArrayBase, *, row_major: bool = False) -> None:
        self._array = array
        self._whole = array._as_strided() if array.is_strided and not row_major else None
        if self._whole is not None:
            self._whole.flags.writeable = False
        self._own = threading.local()
        #: One object for equal maps, because plans are cached by the identity of maps.
        self._maps = BoundedCache[AddressMap, AddressMap](_MOST_MAPS)

    def __call__(self, box: Box) -> Array:
        """The values in a block, read-only if they are the array's own memory."""
        if self._whole is not None:
            key: Any = (*box, ...)  # a 0-d array, not a scalar, which would change booleans with bytes other than 0, 1
            found: Array = self._whole[key]
            return found
        array = self._array
        shape = tuple(block.stop - block.start for block in box)
        nbytes = math.prod(shape) * array.itemsize
        scratch = getattr(self._own, "scratch", None)
        if scratch is None or scratch.size < nbytes:
            scratch = self._own.scratch = transfer.empty_aligned(nbytes)
        values: Array = scratch[:nbytes].view(array.dtype).reshape(shape)
        region = rebased(part(array, box).region)
        region = region._replace(map=self._maps.get(region.map) or self._maps.keep(region.map, region.map))
        transfer.copy(region, transfer.region_of_ndarray(values))
        return values


def reader_of(x: Any, shape: tuple[int, ...]) -> Callable[[Box], Any]:
    """A function that returns the values in a block of `x` broadcast to a shape; scalars are returned as they are."""
    if isinstance(x, ArrayBase):
        return Reader(x._with_map(x._map.broadcast_to(shape)))
    if not np.ndim(x):
        return lambda box: x
    # Do not broadcast to the same shape: that may change strides, by which NumPy compares operands and results.
    values = np.asarray(x)
    spread = values if values.shape == shape else np.broadcast_to(values, shape)
    return lambda box: spread[box]


def rebased(region: transfer.Region) -> transfer.Region:
    """The same elements with offsets relative to about the first one, so that equal blocks share a plan."""
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
    # Skip whole bytes at the start that hold no element.
    lowest = base + sum(min(0, _least(t)) for terms in axes for t in terms)
    skipped = max(0, lowest) * unit // 8
    base -= skipped * 8 // unit
    # The bound must not depend on the position of the block, or maps of equal blocks would differ.
    bound = 1 + base + sum(max(0, (d.size - 1) * d.stride) for terms in axes for t in terms for d in t.digits)
    bound = min(bound, map_.upper_bound - skipped * 8 // unit)
    moved_map = AddressMap.unchecked(map_.shape, base, tuple(axes), (), bound)
    return transfer.Region(
        region.buffer[skipped:], moved_map, region.bits, region.low_first, region.signed, region.unit_bits
    )


def _least(term: Term) -> int:
    """A lower bound of what a term adds: negative only if a stride is."""
    return sum((d.size - 1) * d.stride for d in term.digits if d.stride < 0)


def run_all(work: Callable[[Any], object], pieces: Iterable[Any], *, alone: bool = False) -> None:
    """Call ``work(piece)`` for every piece, in threads with the caller's context (np.errstate); `alone`: in one."""
    calls = [(contextvars.copy_context(), piece) for piece in pieces]
    run(lambda context, piece: context.run(work, piece), calls, threads=1 if alone else threads_in_python())


def run_block(shape: Sequence[int], limit: int, order: Sequence[int] | None = None) -> tuple[int, ...]:
    """The shape of blocks of at most about `limit` elements that are runs in an order of dimensions, major first.

    The order is row-major by default. Long blocks are cut at multiples of common tile sizes.

    >>> run_block((6, 5, 40), 90)
    (1, 2, 40)
    """
    block = list(shape)
    for d in range(len(shape)) if order is None else order:
        size = math.prod(block)
        if size <= limit:
            break
        step = max(1, limit // (size // block[d]))
        block[d] = step - step % next(g for g in (1024, 128, 32, 8, 1) if g <= step)
    return tuple(max(1, n) for n in block)


def run_boxes(shape: Sequence[int], limit: int, order: Sequence[int] | None = None) -> Iterator[Box]:
    """All blocks of the shape of `run_block`, in the same order of dimensions.

    >>> [tuple((s.start, s.stop) for s in box) for box in run_boxes((2, 3), 4)]
    [((0, 1), (0, 3)), ((1, 2), (0, 3))]
    """
    return boxes(even_cuts(shape, run_block(shape, limit, order)), order)


def common_block(first: Shape, second: Shape, limit: int) -> tuple[int, ...]:
    """The shape of blocks of at most about `limit` elements that are long runs in two layouts of an array.

    They are whole tiles, and grow along the minor dimensions of the layout in which their runs are shorter.

    >>> import strided as sd
    >>> common_block(sd.parse("f32[64,64,64]{2,1,0}"), sd.parse("f32[64,64,64]{0,1,2}"), 1 << 13)
    (64, 2, 64)
    """
    shape = [max(1, n) for n in first.dimensions]
    layouts = [each.layout for each in (first, second) if each.layout is not None]
    block = [1] * len(shape)

    def grows(d: int, to: int) -> bool:
        """Enlarge the block along a dimension, unless that exceeds the limit. Returns whether it did."""
        if math.prod(block) // block[d] * to > limit:
            return False
        block[d] = to
        return True

    for layout in layouts:
        tile = reversed(layout.tiles[0].dimensions) if layout.tiles else ()
        for d, n in zip(layout.minor_to_major, tile, strict=False):
            grows(d, min(shape[d], math.lcm(block[d], max(1, n))))
    while any(
        grows(d, min(shape[d], 2 * block[d]))
        for _, d in sorted(run for layout in layouts for run in _run(layout.minor_to_major, block, shape))
    ):
        pass
    return tuple(block)


def _run(minor_to_major: Sequence[int], block: Sequence[int], shape: Sequence[int]) -> list[tuple[int, int]]:
    """The length of a block's runs in elements, and the dimension along which they could grow; [] if there is none."""
    length = 1
    for d in minor_to_major:
        length *= block[d]
        if block[d] < shape[d]:
            return [(length, d)]
    return []
