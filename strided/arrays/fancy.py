"""Fast paths for large selections by index arrays; `masks` has those for masks.

- ``a[i, j]`` with index arrays of the result's shape: one kernel checks and wraps the indices, and reads the elements.
- ``a[rows]``, ``a[:, columns]`` and ``a[np.ix_(...)]``: an element's offset is the sum of an outer and an inner offset.
  These are in two short tables; if elements are contiguous, the kernels of conversions copy them.

If none applies, `transfer.gather_scatter` reads the elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from strided import kernels
from strided.addressing.address_map import AddressMap
from strided.arrays import blocks
from strided.arrays.base import Array, ArrayBase
from strided.arrays.keys import Integers
from strided.kernels import CACHED, CHECK, DIVIDE, FETCH, FETCHED, POINTS, SHIFT, SPLIT
from strided.planning.boxes import WORD_BITS
from strided.runtime import limits
from strided.runtime.aliases import Offsets, Table
from strided.runtime.cache import forgettable
from strided.runtime.threads import get_num_threads, run
from strided.transfer.bounds import check_offsets, holds, holds_view
from strided.transfer.executor import BoundKernel, ElementFormat, bind
from strided.transfer.flat_memory import address_of, read_only
from strided.transfer.program import scratch
from strided.transfer.region import Region

#: Elements in one task, and the fewest for the kernel for index arrays: for fewer NumPy is faster.
_TASK_ELEMENTS, _LEAST_POINTS = 1 << 17, 1 << 11
#: The fewest and the most inner offsets of a table.
_LEAST_INNER, _MOST_INNER = 8, 1 << 16
#: The least average length of runs for vector kernels.
_LEAST_RUN = 8
#: For `gather_lines`: the least bytes of the array, the least share of them that is selected (one in this many), and
#: the fewest elements of a block along the other axes.
_LARGE_BYTES = 1 << 22
_FEW_LINES = 8
_LEAST_COLUMNS = 16


def is_large(source: Region, size: int) -> bool:
    """Whether a selection of `size` elements is worth a kernel, and the kernels can read the source."""
    least = limits.current.indexed_elements if kernels.is_loaded() else limits.current.loading_elements
    regular = source.map.is_regular and source.map.ndim > 0
    return 0 < size >= least and source.bits <= 128 and not source.unit_bits and regular


def _is_narrow(map_: AddressMap, sizes: Sequence[int]) -> bool:
    """Whether 32-bit arithmetic suffices for indices into axes of these sizes."""
    ends = (t.start + max(0, t.step * (n - 1)) for n, own in zip(map_.shape, map_.axes, strict=True) for t in own)
    return max(*sizes, *ends) < 1 << 31 and map_.upper_bound <= 1 << 32


def _steps(source: Region, arrays: Sequence[Integers], sizes: Sequence[int]) -> tuple[npt.NDArray[np.int64], int]:
    """The table `steps` and the base for the kernel `gather_points`; each index array has one axis."""
    rows, base = _address_steps(source.map, arrays, sizes)
    if source.buffer.size > CACHED:
        rows += ((FETCH, 0, 0, first, 0, 0) for first in range(0, POINTS, FETCHED))
    return np.array(rows, np.int64), base


def _address_steps(
    map_: AddressMap, arrays: Sequence[Integers], sizes: Sequence[int]
) -> tuple[list[tuple[int, ...]], int]:
    """`_steps` without those that prefetch elements."""
    checks = [(address_of(x), x.strides[0], n) for x, n in zip(arrays, sizes, strict=True)]
    rows: list[tuple[int, ...]] = []
    base, axes = map_.slopes
    if len(arrays) == len(axes):
        for check, (_, slope, carries) in zip(checks, axes, strict=True):
            rows += [(CHECK, 2, slope, *check), *_divisions(carries, 2)]
        return rows, base
    # Split flat indices into those of the axes; the remainder is the index along the last axis.
    base += sum(start // weight * factor for n, _, own in axes if n == 1 for start, _, weight, factor in own)
    *wide, (_, last, left) = [axis for axis in axes if axis[0] != 1] or [(1, 0, ())]
    rows.append((CHECK, 2, last, *checks[0]))
    below = map_.size
    for n, slope, carries in wide:
        below //= n
        rows += [(SPLIT, 2, slope - last * below, below, _logarithm(below), 0), *_divisions(carries, 3)]
    rows += _divisions(left, 2)
    return rows, base


def _divisions(carries: Sequence[tuple[int, int, int, int]], own: int) -> Iterator[tuple[int, ...]]:
    """The kernel's steps for the carries of an axis whose indices are in its list `own`."""
    shifted = (0, 1)
    for start, step, weight, factor in carries:
        if (start, step) not in {(0, 1), shifted}:
            yield (SHIFT, own, 0, start, step, 0)
            shifted = start, step
        yield (DIVIDE, own if (start, step) == (0, 1) else 4, factor, weight, _logarithm(weight), 0)


def _logarithm(number: int) -> int:
    """The binary logarithm of a power of two; -1 for other numbers."""
    return -1 if number & (number - 1) or number < 1 else number.bit_length() - 1


def _raveled(x: Integers) -> Integers:
    """An index array raveled; not copied if it has a single stride, or is contiguous int32."""
    if x.dtype == np.int32 and x.flags.c_contiguous:
        return x.reshape(-1)
    x = x.astype(np.int64, copy=False)
    return x if x.ndim == 1 and x.strides[0] % 8 == 0 else np.ascontiguousarray(x).reshape(-1)


def gather_points(source: Region, arrays: Sequence[Integers], out: Array) -> bool:
    """Gather the elements at index arrays into `out`, a contiguous array of their shape; negative indices wrap.

    There is one array for each axis, or a single one of flat, row-major indices. Returns False, leaving `out`
    undefined, if there are few indices, one is out of bounds, the view may exceed the buffer or needs 64-bit
    arithmetic, or the kernel is not ready.
    """
    map_ = source.map
    sizes = map_.shape if len(arrays) == map_.ndim else (map_.size,)
    if not map_.size or out.size < _LEAST_POINTS or not holds_view(source) or not _is_narrow(map_, sizes):
        return False
    if not kernels.is_ready("gather_points"):
        return False
    raveled = [_raveled(x) for x in arrays]  # must live as long as the table, which contains their addresses
    steps, base = _steps(source, raveled, sizes)
    kernel, width, from_ = kernels.load("gather_points"), out.itemsize, read_only(source.buffer)
    flip = 0 if source.low_first else 8 - source.bits
    target, failures = out.reshape(-1).view(np.uint8), []

    def task(start: int, stop: int) -> None:
        part = target[start * width : stop * width]
        failures.append(kernel(from_, part, steps, base, start, source.bits, flip, scratch()))

    count = max(1, out.size // max(_TASK_ELEMENTS, _LEAST_POINTS))
    run(task, ((k * out.size // count, (k + 1) * out.size // count) for k in range(count)), threads=get_num_threads())
    return not any(failures)


def gather_lines(array: ArrayBase, index: Sequence[Any], out: Array) -> bool:
    """Gather ``a[:, indices]`` along the axis with the smallest stride (other axes whole) into `out`.

    Elements that are adjacent in `out` lie far apart in the buffer. So blocks with that whole axis are converted, and
    the indices taken from them. Returns False, leaving `out` unchanged, for any other selection, or if too few of the
    converted elements are selected.
    """
    map_ = array._map
    if array.nbytes < _LARGE_BYTES or out.nbytes * _FEW_LINES < array.nbytes or out.ndim != map_.ndim:
        return False
    near = _nearest_axis(map_)
    others = map_.shape[:near] + map_.shape[near + 1 :]
    columns = blocks.BLOCK_BYTES // (map_.shape[near] * array.itemsize)
    if columns < _LEAST_COLUMNS:
        return False
    for axis, at in enumerate(index):
        n, behind = out.shape[axis], map_.ndim - 1 - axis
        if np.size(at) != n or np.shape(at)[-1 - behind :] != (n,) + (1,) * behind:
            return False
        if axis != near and not np.array_equal(np.ravel(at), np.arange(map_.shape[axis])):
            return False
    places, read = np.ravel(index[near]), blocks.Reader(array, row_major=True)
    whole, chosen = slice(0, map_.shape[near]), slice(None)

    def task(box: blocks.Box) -> None:
        values = read((*box[:near], whole, *box[near:]))
        out[(*box[:near], chosen, *box[near:])] = values.take(places, axis=near)

    blocks.run_all(task, blocks.run_boxes(others, columns))
    return True


def lane_axis(map_: AddressMap, index: Sequence[Any], ndim: int) -> int:
    """The axis of a selection along which it takes neighbours in the buffer, if there is one, else its last axis."""
    places = np.asarray(index[_nearest_axis(map_)])
    along = [ndim - places.ndim + axis for axis, n in enumerate(places.shape) if n != 1]
    is_run = _LEAST_RUN <= places.size == places.flat[-1] - places.flat[0] + 1  # to look at all would take long
    return along[0] if len(along) == 1 and is_run else ndim - 1


def _nearest_axis(map_: AddressMap) -> int:
    """The axis with the smallest stride."""
    steps = [
        (abs(t.step * d.stride), axis)
        for axis, own in enumerate(map_.axes)
        for t in own
        for d in t.digits
        if d.size > 1
    ]
    return min(steps, default=(0, 0))[1]


def gather_sums(source: Region, index: Sequence[Any], out: Array) -> bool:
    """Gather the elements at index arrays in bounds, which broadcast to the shape of `out`, into `out`.

    Returns False, leaving `out` unchanged, if the offsets are not sums of outer and inner ones, packed elements do not
    lie in runs, or the kernel is not ready.
    """
    tables = _outer_and_inner(source, index, out.shape)
    if tables is None:
        return False
    outer, inner = tables
    from_, target, size = read_only(source.buffer), out.reshape(-1).view(np.uint8), len(inner) * out.itemsize
    lanes = _lanes_of(source, outer, inner, reads=True)
    if lanes is None and not 8 <= source.bits <= 64:
        return False
    try:
        if lanes is not None:
            kernel = lanes.bind(source, int(target.size >= limits.current.stream_bytes))
            rows = lanes.rows(outer, np.arange(len(outer)) * size)
        else:
            gather = kernels.wanted("gather_sums")
    except kernels.NotCompiled:
        return False

    def task(start: int, stop: int) -> None:
        if lanes is not None:
            kernel(lanes.tables(rows[start:stop]))(from_, target)
        else:
            gather(from_, target[start * size : stop * size], outer[start:stop], inner, out.itemsize)

    # Preparing a task takes some microseconds, so make no more than four for each thread.
    threads = get_num_threads()
    length = max(1, _TASK_ELEMENTS // len(inner), len(outer) // (4 * threads) if threads > 1 else len(outer))
    parts = ((k, min(len(outer), k + length)) for k in range(0, len(outer), length))
    run(task, parts, threads=threads)
    return True


def scatter_sums(target: Region, index: Sequence[Any], values: Array) -> bool:
    """Write `values` at index arrays in bounds, which broadcast to their shape; for equal indices the last one stays.

    Returns False, leaving `target` unchanged, if the elements do not lie in runs, or the kernel is not ready.
    """
    tables = _outer_and_inner(target, index, values.shape)
    lanes = tables and _lanes_of(target, *tables, reads=False)
    if not tables or not lanes:
        return False
    try:
        kernel = lanes.bind(target)
    except kernels.NotCompiled:
        return False
    outer, inner = tables
    chosen = np.arange(len(outer))
    if lanes.shared > 1:
        # The kernel writes the rows of a word together, so each row must occur once, with its last values.
        order = outer.argsort(kind="stable")
        chosen = order[np.append(np.diff(outer[order]) != 0, True)]
    rows = lanes.rows(outer[chosen], chosen * (len(inner) * values.itemsize))
    # A single thread, so that the last value of a repeated index stays.
    kernel(lanes.tables(rows))(np.ascontiguousarray(values).reshape(-1).view(np.uint8), target.buffer)
    return True


def _outer_and_inner(region: Region, index: Sequence[Any], shape: tuple[int, ...]) -> tuple[Offsets, Offsets] | None:
    """Outer and inner offsets, all of whose sums are the offsets at index arrays; None if they do not split so.

    Raises
    ------
    BufferSizeError
        An element lies outside the buffer.
    """
    split = _split([np.shape(at) for at in index], shape)
    if split is None:
        return None
    shapes = shape[:split], shape[split:]
    sums: list[Any] = [region.map.base, 0]
    for terms, at in zip(region.map.axes, index, strict=True):
        places = np.asarray(at, np.int64)
        inner = any(n != 1 for n in places.shape[-len(shapes[1]) :])
        ndim = len(shapes[1]) if inner else max(0, places.ndim - len(shapes[1]))
        places = places.reshape(places.shape[-ndim:] if inner else places.shape[:ndim])
        for term in terms:
            sums[inner] = sums[inner] + term.offset_at(places)
    outer, inside = (_broadcast_flat(own, total) for own, total in zip(shapes, sums, strict=True))
    if not holds_view(region):
        check_offsets(np.array([outer.min() + inside.min(), outer.max() + inside.max()]), region.elements)
    return outer, inside


def _broadcast_flat(shape: tuple[int, ...], offsets: Any) -> Offsets:
    """Offsets broadcast to a shape and raveled."""
    if np.shape(offsets) != shape:
        offsets = np.broadcast_to(np.asarray(offsets, np.int64), shape)
    return np.ascontiguousarray(offsets).reshape(-1)


def _split(shapes: list[tuple[int, ...]], out: tuple[int, ...]) -> int | None:
    """The number of outer axes, if each index array varies only along outer or only along inner axes; else None."""
    varies = [[len(out) - len(shape) + k for k, n in enumerate(shape) if n != 1] for shape in shapes]
    for split in range(1, len(out)):
        inner = math.prod(out[split:])
        apart = all(not own or own[0] >= split or own[-1] < split for own in varies)
        if apart and _LEAST_INNER <= inner <= _MOST_INNER:
            return split
    return None


class _Lanes(NamedTuple):
    """How a kernel copies rows between a buffer and dense memory: as contiguous runs, or as members of words.

    Attributes
    ----------
    kernel : str
        Name of the kernel.
    reads : bool
        Whether the buffer is the source.
    bits, unit : int
        Bits of an element in the buffer, and the unit of the kernel's offsets in it, in bits.
    shared : int
        Number of rows that share a word; 1 if the elements of a row are contiguous.
    pieces : ndarray
        The kernel's table of pieces.
    stop : int
        Elements from the start of a row to the end of its last word.
    """

    kernel: str
    reads: bool
    bits: int
    unit: int
    shared: int
    pieces: Table
    stop: int

    def bind(self, region: Region, streaming: int = 0) -> BoundKernel:
        """The kernel with options bound for a buffer; raises NotCompiled if it is not ready."""
        sides = [(self.bits, ElementFormat(region.low_first, region.signed)), (max(8, self.bits), _DENSE)]
        (source, source_format), (target, target_format) = sides if self.reads else sides[::-1]
        return bind(self.kernel, (source, target), source_format, target_format, streaming)

    def rows(self, outer: Offsets, places: Offsets) -> Table:
        """The table of rows that begin at these element offsets and at these bytes of the dense memory."""
        table, members = np.empty((len(outer), 3), np.int64), outer & self.shared - 1
        sides = (outer - members) * self.unit >> 3, places
        table[:, 0], table[:, 1] = sides if self.reads else sides[::-1]
        table[:, 2] = members
        return table

    def tables(self, rows: Table) -> tuple[Table, ...]:
        """The kernel's tables for some of the rows, in one block."""
        if self.kernel in ("pack", "unpack"):
            return _NOWHERE, rows, self.pieces
        return _NOWHERE, rows, self.pieces, np.array([0, len(rows)]), np.array([0, len(self.pieces)])


_NOWHERE = np.zeros((1, 2), np.int64)
_DENSE = ElementFormat(True, False)


def _lanes_of(region: Region, outer: Offsets, inner: Offsets, *, reads: bool) -> _Lanes | None:
    """The kernel for rows of long contiguous runs, or of one member of consecutive words; None for other rows."""
    lanes = _lanes_at(inner.tobytes(), region.bits, reads)
    # Whole words are accessed, so the other members must be in the buffer, too.
    if lanes is None or not holds(
        region, (0, ((int(outer.max()) & -lanes.shared) + lanes.stop) * region.bits + 7 >> 3)
    ):
        return None
    return lanes


@forgettable
@lru_cache(maxsize=32)
def _lanes_at(offsets: bytes, bits: int, reads: bool) -> _Lanes | None:
    """The kernel for rows with these offsets (int64 as bytes) from the start of the row."""
    inner, width = np.frombuffer(offsets, np.int64), max(8, bits) // 8
    for shared in {1, max(1, WORD_BITS // bits)}:
        heads = np.flatnonzero(np.diff(inner, prepend=inner[0] - shared - 1) != shared)
        if _LEAST_RUN * len(heads) > len(inner) or (inner[heads] % shared).any():
            continue
        if shared > 1:
            kernel = f"{'de' if reads else ''}interleave{bits if bits >= 8 else '_bits'}"
        else:
            kernel = "rows" if bits >= 8 else "unpack" if reads else "pack"
        # Offsets and lanes of contiguous packed elements count elements, all others bytes.
        unit = 8 if shared == 1 and bits < 8 else bits
        sides = inner[heads] * unit >> 3, heads * width
        counts = np.diff(heads, append=len(inner)) * (width if shared == 1 else 1)
        pieces = np.stack([*(sides if reads else sides[::-1]), counts], axis=1)
        return _Lanes(kernel, reads, bits, unit, shared, pieces, int(inner.max()) + shared)
    return None
