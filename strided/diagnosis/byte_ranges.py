"""Which bytes of a buffer a key selects, as few ranges as possible.

The selected offsets are sums of one offset from each of several independent sets: a set for each sliced axis, and one
for all index arrays together. In terms of digits, each set is a few regular loops (`planning.runs`). Loops that are
contiguous, or leave small enough gaps, form one run. Only runs are listed, never elements.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, SupportsIndex

import numpy as np

from strided.addressing.address_map import AddressMap
from strided.addressing.digits import Term, offsets_along
from strided.arrays.buffer_spec import BufferSpec, prefix_bytes, spec_of
from strided.arrays.classify import view
from strided.arrays.keys import Flag, IndexRange, Item, Selection, index_arrays, normalise
from strided.errors import UnsupportedError
from strided.layout import AnyShape
from strided.layout.validation import INT64_MAX
from strided.planning.axis_maps import axis_map_of
from strided.planning.runs import Loop, leaves_of, loops_as_runs, merged, spread
from strided.runtime.aliases import Table
from strided.runtime.argument_checks import whole
from strided.transfer.chunks import chunks

#: The most runs that are listed, which take a gigabyte.
_MOST_RUNS = 1 << 26
#: Runs of more distinct lengths are listed element by element.
_MOST_LENGTHS = 64
#: How many ranges are collected before they are merged.
_BATCH = 1 << 20


class _Part(NamedTuple):
    """Runs of equal length, at each start, repeated by every loop; all in elements."""

    starts: Table
    run: int = 1
    loops: tuple[Loop, ...] = ()


def byte_ranges(shape: str | AnyShape | BufferSpec, key: Any = ..., gap: SupportsIndex = 0) -> Table:
    """The bytes of a buffer that hold what ``a[key]`` selects, as ranges ``[start, stop)``: an int64 (n, 2) array.

    The ranges are sorted and disjoint. Byte 0 is the first of the buffer, including a prefix of dynamic sizes. Packed
    elements count with the whole bytes in which they lie.

    Parameters
    ----------
    shape : str, Shape or BufferSpec
        What the buffer holds.
    key : optional
        Any NumPy index; by default everything.
    gap : int, optional
        Ranges with at most this many bytes between them are joined.

    Raises
    ------
    IndexError
        The key does not fit an array of this shape.
    NotationError, LayoutError, UnsupportedError
        The shape is not an array's, or has no addresses; more than 2^26 ranges.
    ValueError
        A negative gap.

    Examples
    --------
    >>> import strided as sd
    >>> sd.inspect.byte_ranges("bf16[17,300]{1,0:T(8,128)(2,1)}", (slice(0, 2), slice(126, 130)))
    array([[ 504,  512],
           [2048, 2056]])
    >>> sd.inspect.byte_ranges("s4[100]{0:E(4)}", slice(3, 6))
    array([[1, 3]])
    """
    spec, gap = spec_of(shape), min(whole(gap, "gap"), INT64_MAX)
    if gap < 0:
        raise ValueError(f"gap is a number of bytes, not {gap}")
    if spec.buffer_byte_size >= 1 << 63:
        raise UnsupportedError(f"the bytes of {spec} do not fit 64-bit integers")
    selection = normalise(key, spec.dimensions)
    bits, front = spec.element_bits, prefix_bytes(spec)
    found, waiting = np.zeros((0, 2), np.int64), [np.zeros((0, 2), np.int64)]
    for starts, run in _runs(spec.address_map, selection, bits, gap):
        waiting.append(_in_bytes(starts, run, bits) + front)
        if sum(map(len, waiting)) > max(_BATCH, len(found)):
            found, waiting = merged(np.concatenate([found, *waiting]), gap), []
    return merged(np.concatenate([found, *waiting]), gap)


def _in_bytes(starts: Table, run: int, bits: int) -> Table:
    """The byte ranges of runs; those of packed elements are rounded outwards."""
    if bits >= 8:
        low = starts * (bits // 8)
        return np.stack([low, low + run * (bits // 8)], axis=1)
    each = 8 // bits
    return np.stack([starts // each, -(-(starts + run) // each)], axis=1)


def _runs(map_: AddressMap, selection: Selection, bits: int, gap: int) -> Iterator[tuple[Table, int]]:
    """Starts of runs, and their length, in elements."""
    if any(isinstance(item, Flag) and not item.value for item in selection.items):
        return
    if map_.irregular:
        yield from ((offsets, 1) for offsets in _offsets(map_, selection))
        return
    sums = [_joined(parts, bits, gap) for parts in itertools.product(*_sets(map_, selection.items, bits, gap))]
    _refuse_many(sum(math.prod([len(s) for s in starts]) * _number(loops) for starts, _, loops in sums))
    for starts, run, loops in sums:
        yield functools.reduce(_all_sums, [*starts, spread(loops)]), run


def _refuse_many(number: int) -> None:
    if number > _MOST_RUNS:
        raise UnsupportedError(f"the key selects {number:,} ranges; at most {_MOST_RUNS:,} can be listed")


def _number(loops: Iterable[Loop]) -> int:
    return math.prod([extent for extent, _ in loops])


def _all_sums(first: Table, second: Table) -> Table:
    return (first[:, None] + second).reshape(-1)


def _sets(map_: AddressMap, items: Iterable[Item], bits: int, gap: int) -> Iterator[list[_Part]]:
    """Sets of offsets, each as parts; each selected offset is a sum of one from every set."""
    arrays = np.array([map_.base])
    axes = iter(map_.axes)
    for item in items:
        if item is None or isinstance(item, Flag):
            continue
        if isinstance(item, IndexRange):
            yield [*_parts_of_span(next(axes), item, bits, gap)]
        else:
            # An array, because NumPy scalars warn about wrapping sums.
            arrays = arrays + offsets_along(next(axes), np.atleast_1d(item))
    yield [*_parts_of(arrays, bits, gap)]


def _parts_of_span(terms: Sequence[Term], span: IndexRange, bits: int, gap: int) -> Iterator[_Part]:
    """The offsets that a slice of an axis selects."""
    start, step, size = span
    if not size:
        return
    moved = tuple(term.moved(start, step) for term in terms)
    axis_map = axis_map_of(moved, size)
    radix_map = axis_map.radix_map
    if radix_map is None:
        # The step does not align with the tiles.
        _refuse_many(size)
        yield from _parts_of(offsets_along(moved, np.arange(size)), bits, gap)
        return
    for base, loops in leaves_of(radix_map, radix_map.start, radix_map.start + size, len(radix_map.sizes)):
        yield _Part(np.array([axis_map.base + base]), loops=loops)


def _parts_of(offsets: Table, bits: int, gap: int) -> Iterator[_Part]:
    """Single offsets as runs of consecutive ones, unless these have too many distinct lengths."""
    offsets = np.sort(offsets, axis=None, kind="stable")
    if not offsets.size:
        return
    edges = np.flatnonzero(np.diff(offsets) > -(-8 * (gap + 1) // bits))  # in elements: bits might not fit 64 bits
    first, last = offsets[np.append(0, edges + 1)], offsets[np.append(edges, -1)]
    lengths = last - first + 1
    ordered = np.sort(lengths)  # np.unique takes ten times as long
    distinct = ordered[np.append(True, np.diff(ordered) > 0)].tolist()
    if len(distinct) > _MOST_LENGTHS:
        yield _Part(offsets)
    else:
        yield from (_Part(first[lengths == length], length) for length in distinct)


def _joined(parts: Sequence[_Part], bits: int, gap: int) -> tuple[list[Table], int, tuple[Loop, ...]]:
    """The sum of parts: the starts of each, the length of a run, and the loops with gaps of more than `gap` bytes."""
    loops_of_parts = (loop for part in parts for loop in part.loops)
    run = 1 + sum(part.run - 1 for part in parts)
    back, run, loops = loops_as_runs(loops_of_parts, run, (8 * gap + 7) // bits)
    return [np.array([back]), *(part.starts for part in parts)], run, tuple(reversed(loops))


def _offsets(map_: AddressMap, selection: Selection) -> Iterator[Table]:
    """The offsets of all selected elements, a bounded number at a time."""
    if selection.is_basic:
        selected = view(map_, selection)
        _refuse_many(selected.size)
        yield from (np.sort(selected.offsets(box), axis=None) for box in chunks(selected.shape))
        return
    shape, arrays = index_arrays(selection)
    _refuse_many(math.prod(shape))
    for box in chunks(shape):
        part = [a if isinstance(a, int) else a[_within(a.shape, box)] for a in arrays]
        yield np.sort(np.asarray(map_.offset_of(part), np.int64), axis=None)


def _within(shape: Sequence[int], box: Sequence[tuple[int, int]]) -> tuple[slice, ...]:
    """The slices of an array that, broadcast, give a box of the broadcast shape."""
    return tuple(
        slice(*ends) if n > 1 else slice(None) for n, ends in zip(shape, box[len(box) - len(shape) :], strict=True)
    )
