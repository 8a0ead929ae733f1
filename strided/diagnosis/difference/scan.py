"""Compare two arrays in one pass over blocks, by several threads, in bounded memory.

Two buffers in the same layout are compared as bytes first, and as elements only where bytes differ. Other pairs are
compared in blocks that are long runs in both layouts.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from strided.addressing.address_map import AddressMap
from strided.addressing.digits import offsets_along
from strided.arrays.base import Array
from strided.arrays.blocks import Box, boxes, common_block, even_cuts, run_block, tile_cuts
from strided.arrays.layout_array import LayoutArray
from strided.diagnosis.bit_patterns import patterns
from strided.diagnosis.difference.operands import Operand, Wrapped
from strided.diagnosis.difference.tally import Increment, Tally
from strided.diagnosis.difference.values import (
    Mask,
    Tolerance,
    are_same_bits,
    common_dtype,
    converted,
    is_float,
    magnitudes,
    measured,
    unequal_bits,
)
from strided.layout.sizes import tile_of
from strided.pictures.folding import folding
from strided.pictures.marks import MOST_COLUMNS, MOST_ROWS
from strided.planning.offset_tables import distinct
from strided.runtime.aliases import Progress
from strided.runtime.threads import run, threads_in_python
from strided.transfer.flat_memory import address_of

#: Bytes of values of each array in a block. With smaller blocks, threads wait for each other (`difference.Layouts`).
_BLOCK_BYTES = 1 << 21
#: Bytes of a chunk, which is compared at once, and chunks of a task.
_CHUNK_BYTES, _CHUNKS = 1 << 20, 4
#: Bytes after which pages of mapped files are released.
_RELEASED_BYTES = 1 << 26
#: Elements to measure at a time, so that a dozen temporary arrays fit the cache.
_PART_ELEMENTS = 1 << 14


def same_layout(x: LayoutArray, y: LayoutArray) -> bool:
    """Whether equal elements of two buffers lie at equal bytes."""
    return (
        x.dtype == y.dtype
        and x.address_map == y.address_map
        and x._memory.bits == y._memory.bits
        and (x._memory.bits >= 8 or x.bitorder == y.bitorder)
    )


def scan(
    a: Operand, b: Operand, tolerance: Tolerance, *, limit: int = 1, progress: Progress | None = None, until: int = 0
) -> Tally:
    """Compare two arrays of equal shape; with `until`, stop soon after that many mismatches."""
    shape = a.shape
    tile = next((tile_of(each.whole.xla_shape) for each in (a, b) if each.whole is not None), None)
    tally = Tally(shape, max(1, limit), folding(shape, MOST_ROWS, MOST_COLUMNS, tile))
    if not math.prod(shape):
        return tally
    work = _Scan(a, b, tolerance, tally, progress, until)
    if a.whole is not None and b.whole is not None and same_layout(a.whole, b.whole):
        chunks, tally.padding_bytes = _unequal_chunks(a.whole, b.whole, work)
        if not work.skips_same_bits:
            chunks[:] = True  # equal bits may be NaN
        pieces = _touching(a.whole.address_map, a.whole._memory.bits, chunks, a.dtype.itemsize)
        work.counts_bytes = True
    else:
        pieces = _boxes(a, b)
    run(work.block, ((box,) for box in pieces), threads=threads_in_python())
    tally.places.sort()  # threads finish in any order
    tally.padding_bytes = max(0, tally.padding_bytes - tally.element_bytes)
    return tally


class _Scan:
    """The state that threads share."""

    def __init__(
        self, a: Operand, b: Operand, tolerance: Tolerance, tally: Tally, progress: Progress | None, until: int
    ) -> None:
        self.a, self.b, self.tolerance, self.tally, self.until = a, b, tolerance, tally, until
        self.dtype = common_dtype(a.dtype, b.dtype)
        self.skips_same_bits = tolerance.equal_nan or not is_float(a.dtype)
        self.lock, self.progress = threading.Lock(), progress
        self.counts_bytes, self.unreleased = False, 0

    def advance(self, elements: int, nbytes: int) -> None:
        """Report progress, and release pages from time to time. The caller holds the lock."""
        self.unreleased += nbytes
        if self.unreleased >= _RELEASED_BYTES:
            self.unreleased = 0
            self.a.release()
            self.b.release()
        if self.progress is not None and elements:
            self.progress(elements)

    def block(self, box: Box) -> None:
        """Compare one block."""
        if self.until and self.tally.count >= self.until:
            return
        x, y = self.a.read(box), self.b.read(box)
        if not (self.skips_same_bits and are_same_bits(x, y)):
            with np.errstate(all="ignore"):  # of NaN and overflow
                self._compare(box, converted(x, self.dtype), converted(y, self.dtype))
        with self.lock:
            self.advance(0 if self.counts_bytes else x.size, x.nbytes)

    def _compare(self, box: Box, x: Array, y: Array) -> None:
        mask = unequal_bits(x, y, equal_nan=self.tolerance.equal_nan)
        if mask.all():
            self._mismatches(box, mask, x.reshape(-1), y.reshape(-1))
        elif mask.any():
            self._mismatches(box, mask, x[mask], y[mask])

    def _mismatches(self, box: Box, mask: Mask, x: Array, y: Array) -> None:
        element_bytes = _changed_bytes(self.a, box, mask, x, y) if self.counts_bytes else 0
        parts = [slice(k, k + _PART_ELEMENTS) for k in range(0, len(x), _PART_ELEMENTS)]
        seen = [self._measured(x[part], y[part]) for part in parts]
        unequal, unordered = (np.concatenate(masks) for masks in zip(*(each[:2] for each in seen), strict=True))
        nan = None
        if unordered.any():
            nan = mask.copy()
            nan[mask] = unordered
        if not unequal.all():
            mask[mask] = unequal
        is_full, axes = bool(mask.all()), range(mask.ndim)
        per_axis = {
            axis: mask.size // mask.shape[axis]
            if is_full
            else np.count_nonzero(mask, axis=tuple(k for k in axes if k != axis))
            for axis in self.tally.per_axis
        }
        first, places, level = self.tally.places_in(box, mask)
        tally = self.tally
        with self.lock:
            for each in seen:
                tally.add(each)
            for axis, more in per_axis.items():
                tally.per_axis[axis][box[axis]] += more
            if is_full:
                tally.cells.add_all(tally.map_counts, box)
            else:
                tally.cells.add(tally.map_counts, box, mask)
            if nan is not None:
                tally.cells.add(tally.nan_counts, box, nan)
            tally.keep(first, places, level)
            tally.element_bytes += element_bytes

    def _measured(self, x: Array, y: Array) -> Increment:
        """The increment of a tally by pairs whose bits differ."""
        found = measured(x, y, self.tolerance)
        unequal, steps = found.unequal, found.steps
        if not unequal.all():
            x, y, steps = x[unequal], y[unequal], steps[unequal]
        has_bits = self.a.dtype == self.b.dtype and x.dtype.itemsize <= 8
        changed = patterns(x) ^ patterns(y) if has_bits else np.zeros(0, np.uint8)
        return Increment(
            unequal,
            found.unordered,
            found.distance.max().item(),
            found.relative.max().item(),
            found.steps.max().item(),
            magnitudes(steps),
            int(np.bitwise_or.reduce(changed)),
            changed.size - int(np.count_nonzero(changed)),
            _negated(x, y),
        )


def _negated(x: Array, y: Array) -> int:
    """How many pairs are negatives of each other."""
    if x.dtype == y.dtype:
        return int(np.count_nonzero(x == -y)) if _has_sign(x.dtype) else 0
    if is_float(x.dtype) == is_float(y.dtype):
        return 0
    floats, integers = (x, y) if is_float(x.dtype) else (y, x)  # the least integer cannot be negated
    return integers.size - int(np.count_nonzero(unequal_bits(-floats, integers, equal_nan=True)))


def _has_sign(dtype: np.dtype[Any]) -> bool:
    return dtype.kind != "b" and not dtype.name.startswith("uint")


def _changed_bytes(a: Operand, box: Box, mask: Mask, x: Array, y: Array) -> int:
    """How many bytes of the differing elements differ."""
    array = a.array
    bits = array._memory.bits
    if bits >= 8:
        first, second = (np.ascontiguousarray(each).view(np.uint8) for each in (x, y))
        return int(np.count_nonzero(first != second))
    offsets = array.address_map.offsets([(block.start, block.stop) for block in box])
    return int(distinct(np.sort(offsets[mask] * bits // 8)).size)


# --- bytes ------------------------------------------------------------------------------------------------------------


def _unequal_chunks(a: LayoutArray, b: LayoutArray, work: _Scan) -> tuple[Mask, int]:
    """Which chunks of two buffers differ, and in how many bytes altogether."""
    # One buffer may have more padding at the end.
    size = min(a._memory.buffer.size, b._memory.buffer.size)
    x, y = a._memory.buffer[:size], b._memory.buffer[:size]
    found = np.zeros(-(-size // _CHUNK_BYTES), bool)
    words = all(address_of(each) % 8 == 0 for each in (x, y))
    differing = [0] * len(found)
    whole_tasks = -(-len(found) // _CHUNKS) * _CHUNKS

    def compare(first: int) -> None:
        for array in (a, b):
            array.region  # noqa: B018  # checks that a mapped file is still there
        last = min(first + _CHUNKS, len(found))
        for k in range(first, last):
            start, stop = k * _CHUNK_BYTES, min((k + 1) * _CHUNK_BYTES, size)
            whole = stop - (stop - start) % 8 if words else start
            one, other = x[start:stop], y[start:stop]
            if words and (x[start:whole].view(np.uint64) == y[start:whole].view(np.uint64)).all():
                one, other = x[whole:stop], y[whole:stop]
            count = int(np.count_nonzero(one != other))
            found[k], differing[k] = count > 0, count
        nbytes = min(last * _CHUNK_BYTES, size) - first * _CHUNK_BYTES
        with work.lock:
            work.advance(a.size * (first + _CHUNKS) // whole_tasks - a.size * first // whole_tasks, nbytes)

    run(compare, ((k,) for k in range(0, len(found), _CHUNKS)), threads=threads_in_python())
    return found, sum(differing)


def _touching(map_: AddressMap, bits: int, chunks: Mask, itemsize: int) -> Iterator[Box]:
    """The blocks of an array that may have bytes in the given chunks."""
    if not chunks.any():
        return
    cuts = tile_cuts(map_, max(1, _BLOCK_BYTES // itemsize))
    if map_.irregular:
        yield from boxes(cuts)
        return
    # The least and greatest contribution of each range of an axis to an address, which is a sum over axes.
    added = []
    for own, terms in zip(cuts, map_.axes, strict=True):
        spans = {}
        for block in own:
            offsets = offsets_along(terms, np.arange(block.start, block.stop))
            spans[block.start] = int(offsets.min()), int(offsets.max())
        added.append(spans)
    before = np.concatenate([[0], np.cumsum(chunks)])
    for box in boxes(cuts):
        spans_of = [spans[block.start] for spans, block in zip(added, box, strict=True)]
        low = (map_.base + sum(low for low, _ in spans_of)) * bits // 8
        high = ((map_.base + sum(high for _, high in spans_of)) * bits + bits - 1) // 8
        if before[min(high // _CHUNK_BYTES + 1, len(chunks))] > before[low // _CHUNK_BYTES]:
            yield box


# --- blocks -----------------------------------------------------------------------------------------------------------


def _boxes(a: Operand, b: Operand) -> Iterator[Box]:
    """Blocks that can be read fast from both arrays."""
    shape, elements = a.shape, max(1, _BLOCK_BYTES // max(a.dtype.itemsize, b.dtype.itemsize))
    chunks = [each.chunk for each in (a, b) if each.chunk]
    if a.whole is not None and b.whole is not None:
        return boxes(even_cuts(shape, common_block(a.whole.xla_shape, b.whole.xla_shape, elements)))
    if (block := _whole_chunks(shape, chunks, elements)) is not None:
        return boxes(even_cuts(shape, block))
    if isinstance(first := next((each for each in (a, b) if isinstance(each, Wrapped)), None), Wrapped):
        cuts = tile_cuts(first.array.address_map, elements)
    else:
        cuts = even_cuts(shape, run_block(shape, elements))
    for chunk in chunks:
        cuts = [_cut(own, range(step, n, step)) for own, n, step in zip(cuts, shape, chunk, strict=True)]
    return boxes(cuts)


def _whole_chunks(shape: Sequence[int], chunks: Sequence[Sequence[int]], elements: int) -> tuple[int, ...] | None:
    """The shape of blocks of many whole small chunks, of both arrays if possible; None if no chunk is small."""
    both = [[math.lcm(*steps) for steps in zip(*chunks, strict=True)]] if chunks else []
    for chunk in both + sorted(map(list, chunks), key=math.prod, reverse=True):
        block = [min(n, step) for n, step in zip(shape, chunk, strict=True)]
        if math.prod(block) <= elements:
            for axis in reversed(range(len(block))):
                block[axis] = min(shape[axis], block[axis] * (elements // math.prod(block)))
            return tuple(block)
    return None


def _cut(ranges: Sequence[slice], edges: Sequence[int]) -> list[slice]:
    """Ranges of an axis, cut at further edges."""
    starts = sorted({r.start for r in ranges} | set(edges))
    return [slice(start, stop) for start, stop in zip(starts, [*starts[1:], ranges[-1].stop], strict=True)]
