"""Read-ahead: tells the system which pages of a mapped file a copy needs.

By default the system reads well over a hundred kilobytes around every page that is accessed first. That is right for
whole files, but not for a window of a large tiled array, whose tiles lie far apart. So during a copy that needs few
pages of a mapping, the system is told to read these pages and no others.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from strided.addressing.address_map import AddressMap
from strided.files.mapping import mmap_behind
from strided.planning.plan import Storage, span_of
from strided.planning.runs import merged, runs_of, table_of
from strided.runtime import limits
from strided.runtime.aliases import Bytes, Table
from strided.runtime.cache import forgettable
from strided.transfer.flat_memory import address_of
from strided.transfer.region import Region


class Mapping(NamedTuple):
    """A file mapping, and the position in it at which a buffer begins, in bytes."""

    file: mmap.mmap
    start: int


def mapping_of(buffer: Bytes) -> Mapping | None:
    """The file mapping that a buffer lies in, or None for other memory and for buffers too small to matter."""
    if buffer.size <= limits.current.advised_bytes or not hasattr(mmap.mmap, "madvise"):
        return None
    file = mmap_behind(buffer)
    return None if file is None else Mapping(file, address_of(buffer) - address_of(np.frombuffer(file, np.uint8)))


@contextmanager
def sparse_access(mapping: Mapping, region: Region) -> Iterator[None]:
    """Context in which accesses to a sparse region of a file mapping read only the pages of its elements."""
    pages = _pages(region.map, region.storage, mapping.start)
    if pages is None:
        yield
        return
    file = mapping.file
    ranges = [(low, min(high, len(file)) - low) for low, high in (pages * mmap.PAGESIZE).tolist()]
    whole = ranges[0][0], ranges[-1][0] + ranges[-1][1] - ranges[0][0]
    file.madvise(mmap.MADV_RANDOM, *whole)
    try:
        if len(ranges) <= limits.current.advised_ranges:
            for part in ranges:
                file.madvise(mmap.MADV_WILLNEED, *part)
        yield
    finally:
        file.madvise(mmap.MADV_NORMAL, *whole)


@forgettable
@lru_cache(maxsize=64)
def _pages(map_: AddressMap, storage: Storage, start: int) -> Table | None:
    """Ranges of pages, (start, stop) in order, that hold a view; None if they are too many.

    `start` is the position of the buffer in the mapping, in bytes.
    """
    span = span_of(map_, storage)
    runs = _runs(map_, storage) if span is not None and span[1] - span[0] > limits.current.advised_bytes else None
    if span is None or runs is None:
        return None
    first, bytes_ = runs[0] + start, runs[1]
    ranges = merged(np.stack([first // mmap.PAGESIZE, (first + bytes_ - 1) // mmap.PAGESIZE + 1], axis=1), 0)
    touched = int((ranges[:, 1] - ranges[:, 0]).sum())
    return ranges if touched * limits.current.sparse_pages * mmap.PAGESIZE < span[1] - span[0] else None


def _runs(map_: AddressMap, storage: Storage) -> tuple[Table, Table | int] | None:
    """Positions and lengths of the runs of bytes that make up a view; None if they are too many."""
    runs = runs_of(map_, storage.bits, storage.unit)
    if runs and sum(part.number for part in runs) <= limits.current.advised_runs:
        return table_of(runs)
    if map_.size <= limits.current.advised_runs:
        # No runs are known, as for an irregular view: take one for each element.
        return map_.offsets().reshape(-1) * storage.unit // 8, -(-storage.bits // 8)
    return None
