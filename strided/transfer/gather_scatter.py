"""Gather and scatter: elements are read and written at arrays of element offsets.

NumPy does small numbers of elements, packed elements, and elements at unusual steps. Kernels do the rest, several times
as fast as ``numpy.take``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from strided import kernels
from strided.addressing.address_map import AddressMap
from strided.addressing.digits import Term, offsets_along
from strided.runtime import limits
from strided.runtime.aliases import Offsets
from strided.runtime.threads import get_num_threads, run
from strided.transfer.bounds import check_offsets
from strided.transfer.by_numpy import WORDS, put, take
from strided.transfer.region import Region


def gather(source: Region, offsets: Offsets, out: npt.NDArray[Any]) -> None:
    """Read the elements at element offsets into `out`: a contiguous array of the same shape, not packed.

    Raises
    ------
    BufferSizeError
        An offset lies outside the buffer.
    ValueError
        `out` has another shape, or is not contiguous.
    """
    if out.shape != offsets.shape or not out.flags.c_contiguous:
        raise ValueError(f"out must be a contiguous array of shape {offsets.shape}")
    if not _is_for_kernels(source, offsets.size, "gather"):
        check_offsets(offsets, source.elements)
        values = take(source, offsets, whole_bytes=True)
        out.reshape(-1).view(np.uint8)[:] = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        return
    flat = np.ascontiguousarray(offsets, np.int64).reshape(-1)
    _gather(source, lambda start, stop: flat[start:stop], out)


def _gather(source: Region, offsets_of: Callable[[int, int], Offsets], out: npt.NDArray[Any]) -> None:
    """Gather with the kernel. ``offsets_of(start, stop)`` returns the offsets of a range of the raveled `out`."""
    kernel, width, from_ = kernels.load("gather"), source.bits // 8, source.buffer
    target = out.reshape(-1).view(np.uint8)

    def task(start: int, stop: int) -> None:
        offsets = offsets_of(start, stop)
        if kernel(from_, target[start * width : stop * width], offsets, width):
            check_offsets(offsets, source.elements)

    run(task, _task_ranges(out.size), threads=get_num_threads())


def scatter(destination: Region, offsets: Offsets, values: npt.NDArray[Any]) -> None:
    """Write `values` at element offsets. If an offset repeats, its last value stays.

    Raises
    ------
    BufferSizeError
        An offset lies outside the buffer. Nothing was written.
    """
    check_offsets(offsets, destination.elements)
    values = np.ascontiguousarray(np.broadcast_to(values, offsets.shape))
    patterns: npt.NDArray[Any] = values.reshape(-1).view(WORDS[max(8, destination.bits) // 8])
    flat = np.ascontiguousarray(offsets, np.int64).reshape(-1)
    # A single thread, so that the last value of a repeated offset stays.
    if not _is_for_kernels(destination, offsets.size, "scatter"):
        for start, stop in _task_ranges(flat.size):
            put(destination, flat[start:stop], patterns[start:stop])
        return
    kernel, width, from_ = kernels.load("scatter"), destination.bits // 8, patterns.view(np.uint8)
    for start, stop in _task_ranges(flat.size):
        kernel(from_[start * width : stop * width], destination.buffer, flat[start:stop], width)


def gather_at(source: Region, index: Sequence[Offsets | int], out: npt.NDArray[Any]) -> None:
    """Read the elements at index arrays, which broadcast to the shape of `out`, into `out`.

    The same as `gather` with `offsets_at`, without storing all offsets.

    Raises
    ------
    BufferSizeError
        An element lies outside the buffer.
    ValueError
        `out` is not contiguous.
    """
    regular = source.map.is_regular and out.flags.c_contiguous
    if regular and _is_for_kernels(source, out.size, "gather", "add_digits"):
        _gather(source, _IndexedOffsets(source.map, index, out.shape).offsets, out)
    else:
        gather(source, offsets_at(source.map, index, out.shape), out)


def offsets_at(map_: AddressMap, index: Sequence[Offsets | int], shape: tuple[int, ...]) -> Offsets:
    """The element offsets at index arrays, one for each axis of a map, broadcast to `shape`.

    The indices must be in bounds and not negative.

    >>> map_ = AddressMap.from_strides((3, 4), (4, 1))
    >>> offsets_at(map_, (np.array([[0], [2]]), np.array([1, 3])), (2, 2)).tolist()
    [[1, 3], [9, 11]]
    """
    size = math.prod(shape)
    if size < _kernel_threshold() or not map_.is_regular or not kernels.is_ready("add_digits"):
        return np.array(np.broadcast_to(np.asarray(map_.offset_of(index), np.int64), shape))
    places = _IndexedOffsets(map_, index, shape)
    offsets = np.empty(size, np.int64)

    def task(start: int, stop: int) -> None:
        offsets[start:stop] = places.offsets(start, stop)

    run(task, _task_ranges(size), threads=get_num_threads())
    return offsets.reshape(shape)


class _IndexedOffsets:
    """Element offsets at index arrays, computed for a range at a time."""

    def __init__(self, map_: AddressMap, index: Sequence[Offsets | int], shape: tuple[int, ...]) -> None:
        self._kernel = kernels.load("add_digits")
        self._base = map_.base
        # The kernel evaluates index arrays of the full shape. The offsets of smaller ones are a table that broadcasts.
        self._full: list[tuple[Offsets, Term, Offsets]] = []
        table: Offsets | None = None
        for terms, at in zip(map_.axes, index, strict=True):
            if np.ndim(at) == 0:
                self._base += sum(int(term.offset_at(int(at))) for term in terms)
            elif np.shape(at) == shape:
                flat = np.ascontiguousarray(at, np.int64).reshape(-1)
                self._full += ((flat, term, _as_table(term)) for term in terms)
            else:
                offsets = offsets_along(terms, np.asarray(at, np.int64))
                table = offsets if table is None else table + offsets
        self._broadcast = None if table is None else np.broadcast_to(table, shape).reshape(-1)

    def offsets(self, start: int, stop: int) -> Offsets:
        """The offsets of a range of the raveled result."""
        offsets = np.full(stop - start, self._base, np.int64)
        if self._broadcast is not None:
            offsets += self._broadcast[start:stop]
        for at, term, digits in self._full:
            self._kernel(at[start:stop], term.start, term.step, digits, offsets)
        return offsets


def _as_table(term: Term) -> Offsets:
    """The digits of a term as rows. The size of the last one may be any larger number: powers of two divide fastest."""
    rows = [*term.digits[:-1], *(digit._replace(size=1 << 62) for digit in term.digits[-1:])]
    return np.array(rows, np.int64).reshape(-1, 3)


def _kernel_threshold() -> int:
    return limits.current.offsets_elements if kernels.is_loaded() else limits.current.loading_elements


def _is_for_kernels(region: Region, size: int, *names: str) -> bool:
    """Whether these kernels can take the elements, are worth it, and are ready."""
    worth = size >= _kernel_threshold() and 8 <= region.bits <= 64 and not region.unit_bits
    return worth and all([kernels.is_ready(name) for name in names])


def _task_ranges(size: int) -> Iterator[tuple[int, int]]:
    length = limits.current.gather_task_elements
    for start in range(0, size, length):
        yield start, min(size, start + length)
