"""Arrays in blocks: boxes that cover an array and are read or written one at a time.

Code that must see every element of an array, which may be larger than memory, goes through it in blocks. The shape of a
block depends on its use: whole tiles that lie together in the buffer (`tile_block`), one run in an order of
dimensions (`run_block`), long runs in two layouts (`common_block`). `boxes` lists the blocks, `tile_boxes` and
`run_boxes` those of the first two shapes.
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

#: Bytes of values in a block: they stay in a core's own cache between being converted and being used.
BLOCK_BYTES = 1 << 21

#: Elements of the shortest run that NumPy reads fast in place.
_RUN = 16
#: Entries of an axis that a block has, if it is to be long there.
_SOME = 16
#: Maps of blocks that a reader keeps: a regular array has few, any other may have one for every block.
_MOST_MAPS = 256

#: A block: start and stop along every axis.
Box: TypeAlias = tuple[slice, ...]


def boxes(cuts: Sequence[Sequence[slice]], order: Sequence[int] | None = None) -> Iterator[Box]:
    """All blocks that the cuts along the axes make.

    The last axis varies fastest, or the last one in `order`, which lists all axes.

    >>> [tuple((s.start, s.stop) for s in box) for box in boxes(even_cuts((2, 5), (1, 3)))]
    [((0, 1), (0, 3)), ((0, 1), (3, 5)), ((1, 2), (0, 3)), ((1, 2), (3, 5))]
    """
    order = range(len(cuts)) if order is None else order
    places = [order.index(axis) for axis in range(len(cuts))]
    for picked in itertools.product(*(cuts[axis] for axis in order)):
        yield tuple([picked[place] for place in places])


def even_cuts(shape: Sequence[int], block: Sequence[int]) -> list[list[slice]]:
    """The ranges of blocks of a shape along each axis; the last one may be shorter."""
    return [
        [slice(start, min(start + size, n)) for start in range(0, n, size)] or [slice(0, 0)]
        for n, size in zip(shape, block, strict=True)
    ]


def are_runs(cuts: Sequence[Sequence[slice]]) -> bool:
    """Whether the blocks that the cuts along the axes make are runs in row-major order.

    >>> are_runs(even_cuts((2, 5), (1, 3))), are_runs(even_cuts((4, 6), (2, 3)))
    (True, False)
    """
    last = max((axis for axis, ranges in enumerate(cuts) if len(ranges) > 1), default=0)
    return all(block.stop - block.start == 1 for ranges in cuts[:last] for block in ranges)


def tile_edges_of(map_: AddressMap) -> tuple[tuple[int, int], ...]:
    """The size of a tile along each axis, in entries of the axis, and where the first tile edge is.

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
    """The shape of blocks of about this many elements: whole tiles that lie together in the buffer.

    `along` has axes of which a block has some entries, though what belongs to these lies far apart.

    >>> import strided as sd
    >>> tile_block(sd.parse("f32[4096,4096]{1,0:T(8,128)}").address_map, 1 << 18)
    (64, 4096)
    >>> tile_block(sd.parse("f32[100,512,512]{2,1,0:T(8,128)}").address_map, 1 << 18, along=(0,))
    (16, 32, 512)
    """
    shape = [min(n, size) for n, (size, _) in zip(map_.shape, tile_edges_of(map_), strict=True)]
    for axis in along:
        room = min(_SOME, elements // max(1, math.prod(shape)))
        shape[axis] = min(map_.shape[axis], shape[axis] * max(1, room // max(1, shape[axis])))
    for axis in sorted(range(map_.ndim), key=lambda k: _outer_stride(map_.axes[k])):
        room = elements // max(1, math.prod(shape))
        shape[axis] = min(map_.shape[axis], shape[axis] * max(1, room))
    return tuple(max(1, n) for n in shape)


def _outer_stride(terms: tuple[Term, ...]) -> int:
    """Elements from one tile to the next."""
    return max((abs(t.step * d.stride) for t in terms for d in t.digits[-1:]), default=0)


def tile_cuts(
    map_: AddressMap, elements: int, *, whole_tiles: bool = False, along: Sequence[int] = ()
) -> list[list[slice]]:
    """The ranges of blocks of about this many elements along each axis; they begin on tile edges if there are any.

    `along` is as in `tile_block`. With `whole_tiles`, a last block that would end inside a tile is cut in two: whole
    tiles, and the rest.
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
    """Blocks of about `BLOCK_BYTES`, of elements of `itemsize` bytes; otherwise as `tile_cuts`."""
    return boxes(tile_cuts(map_, max(1, BLOCK_BYTES // itemsize), whole_tiles=whole_tiles))


def part(array: ArrayBase, box: Box) -> Any:
    """The view of a block."""
    map_ = array._map
    for axis, block in enumerate(box):
        if (block.start, block.stop) != (0, array.shape[axis]):
            map_ = map_.sliced(axis, block.start, 1, block.stop - block.start)
    return array._with_map(map_)


def digits_of(array: ArrayBase, box: Box) -> tuple[Array, tuple[int, ...]] | None:
    """A block as an ndarray on the array's own memory, with an axis for every digit, and each axis's number of digits.

    Within whole tiles a layout is plain strides, once the coordinate along an axis is split into digits. The digits of
    an axis stand together, major first. Returns None if a digit is not filled, or elements are packed.

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
    """The axes along which elements are contiguous in memory, in runs long enough for NumPy to be fast."""
    runs = zip(values.shape, values.strides, strict=True)
    return [k for k, (n, stride) in enumerate(runs) if n >= _RUN and stride == values.itemsize]


def in_memory_order(values: Array) -> Array:
    """The elements in one axis, in the order in which they lie in memory: of a tile, without a copy.

    >>> in_memory_order(np.arange(6).reshape(2, 3).T).tolist()
    [0, 1, 2, 3, 4, 5]
    """
    return values.transpose(memory_order(values.strides)).reshape(-1)


def memory_order(strides: Sequence[int]) -> list[int]:
    """The axes in the order in which they lie in memory, major first.

    >>> memory_order((4, -24, 8))
    [1, 2, 0]
    """
    return sorted(range(len(strides)), key=lambda axis: -abs(strides[axis]))


class Reader:
    """Blocks of an array as ndarrays, for several threads at once.

    An array of plain strides is not copied, unless blocks are to be `row_major`. For any other, each thread converts
    one block at a time into its own memory, which its next call overwrites.
    """

    def __init__(self, array: ArrayBase, *, row_major: bool = False) -> None:
        self._array = array
        self._whole = array._as_strided() if array.is_strided and not row_major else None
        if self._whole is not None:
            self._whole.flags.writeable = False
        self._own = threading.local()
        #: One object for equal maps of blocks: plans are remembered by it.
        self._maps = BoundedCache[AddressMap, AddressMap](_MOST_MAPS)

    def __call__(self, box: Box) -> Array:
        """The values in a block, read-only where they are the array's own memory."""
        if self._whole is not None:
            key: Any = (*box, ...)  # an array of no axes, too: a scalar of a truth value other than 0 and 1 has byte 1
            found: Array = self._whole[key]
            return found
        array = self._array
        shape = tuple(block.stop - block.start for block in box)
        nbytes = math.prod(shape) * array.itemsize
        scratch = getattr(self._own, "scratch", None)
        if scratch is None or scratch.size < nbytes:
            scratch = self._own.scratch = transfer.empty_aligned(nbytes)
        values: Array = scratch[:nbytes].view(array.dtype).reshape(shape)
        region = near(part(array, box).region)
        region = region._replace(map=self._maps.get(region.map) or self._maps.keep(region.map, region.map))
        transfer.copy(region, transfer.region_of_ndarray(values))
        return values


def reader_of(x: Any, shape: tuple[int, ...]) -> Callable[[Box], Any]:
    """A function that gives the values in a block of something that broadcasts to a shape; a scalar stays one."""
    if isinstance(x, ArrayBase):
        return Reader(x._with_map(x._map.broadcast_to(shape)))
    if not np.ndim(x):
        return lambda box: x
    # What has the shape stays as it is: NumPy compares operands and results by their strides.
    values = np.asarray(x)
    spread = values if values.shape == shape else np.broadcast_to(values, shape)
    return lambda box: spread[box]


def near(region: transfer.Region) -> transfer.Region:
    """The same elements, with offsets counted from near the first one: equal blocks then share one plan."""
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
    # The bound must not depend on where the block lies, or no two blocks would be equal.
    bound = 1 + base + sum(max(0, (d.size - 1) * d.stride) for terms in axes for t in terms for d in t.digits)
    bound = min(bound, map_.upper_bound - skipped * 8 // unit)
    moved_map = AddressMap.unchecked(map_.shape, base, tuple(axes), (), bound)
    return transfer.Region(
        region.buffer[skipped:], moved_map, region.bits, region.low_first, region.signed, region.unit_bits
    )


def _least(term: Term) -> int:
    """The least that a term adds: negative only if a stride is."""
    return sum((d.size - 1) * d.stride for d in term.digits if d.stride < 0)


def run_all(work: Callable[[Any], object], pieces: Iterable[Any], *, alone: bool = False) -> None:
    """Call ``work(piece)`` for every piece, on threads with the caller's np.errstate, or on this one `alone`."""
    calls = [(contextvars.copy_context(), piece) for piece in pieces]
    run(lambda context, piece: context.run(work, piece), calls, threads=1 if alone else threads_in_python())


def run_block(shape: Sequence[int], limit: int, order: Sequence[int] | None = None) -> tuple[int, ...]:
    """The shape of blocks of at most about `limit` elements that are runs in an order of dimensions, major first.

    The order is row-major by default. Cuts fall on multiples of common tile sizes if blocks are long enough.

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
    """All blocks of the shape that `run_block` gives, in the same order of dimensions.

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
        """Let a side grow to a size, unless that is past the limit; whether it grew."""
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
    """How long the runs of a block are, in elements, and the dimension along which they could be longer, if any."""
    length = 1
    for d in minor_to_major:
        length *= block[d]
        if block[d] < shape[d]:
            return [(length, d)]
    return []
