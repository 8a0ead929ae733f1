"""Sparse memory that holds parts of a file at the same offsets as in the file.

A process that uses a mapped file is killed by SIGBUS if the file is truncated or, on writing, the disk is full. Here
bytes are read and written by system calls, which raise errors instead. The memory is as long as the file, so that
address maps hold unchanged; only used pages take up space.
"""

from __future__ import annotations

import contextlib
import errno
import math
import mmap
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, BinaryIO

import numpy as np

from strided.addressing.address_map import AddressMap
from strided.arrays.blocks import Box
from strided.arrays.layout_array import LayoutArray
from strided.errors import BufferSizeError
from strided.files.regular import READS_AT_PLACES, read_at, write_at
from strided.layout import Shape
from strided.planning.plan import Storage
from strided.planning.runs import merged, runs_of, table_of
from strided.runtime.aliases import Bytes, Table
from strided.runtime.threads import get_num_threads, run
from strided.transfer.chunks import chunks

#: About how many bytes of pages may be in use at a time.
BUDGET_BYTES = 256 << 20
#: Gaps up to this size are read with the runs around them: another system call would take as long.
GAP_BYTES = 4096
#: Runs of at least this average length, in bytes, are worth a system call each.
_LONG_RUN_BYTES = 512
#: Bytes that a thread reads at a time.
_PART_BYTES = 1 << 22
#: Keeps unused pages from counting as committed memory: files may be larger than that. Python 3.11 lacks the name.
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
#: The most runs that are listed from the steps of a plan.
_MOST_RUNS = 1 << 20


@dataclass(frozen=True)
class FileSection:
    """The bytes of an open file from byte `start` on; `name` is the file's, for errors."""

    file: BinaryIO
    name: str
    start: int

    def after(self, size: int) -> FileSection:
        """The section without its first `size` bytes."""
        return replace(self, start=self.start + size)


class Pages:
    """Memory for one part of an array at a time. Each is placed at the start, so that equal parts use the same pages.

    If `swapped` is a dtype, the file holds elements of it that are not in native byte order, and reading swaps them.
    """

    def __init__(self, size: int, swapped: np.dtype[Any] | None = None) -> None:
        # A page more, because a part may begin inside a page.
        self._size = size + mmap.PAGESIZE
        self._swapped = swapped
        self._renew()

    def _renew(self) -> None:
        try:
            if _NO_RESERVE:
                flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
                self._memory = mmap.mmap(-1, self._size, flags=flags)
            else:
                self._memory = mmap.mmap(-1, self._size)
        except OSError as error:
            if error.errno != errno.ENOMEM:
                raise
            # A limit on address space counts unused pages, too.
            problem = f"no address space for {self._size:,} bytes, most of which take no memory (ulimit -v, RLIMIT_AS)"
            raise OSError(errno.ENOMEM, problem) from None
        self._is_used = np.zeros(-(-self._size // mmap.PAGESIZE), np.bool_)
        self._used_pages = 0

    @property
    def is_swapped(self) -> bool:
        """Whether elements are byte-swapped on reading."""
        return self._swapped is not None

    def content(self) -> Bytes:
        """The memory as bytes."""
        return np.frombuffer(self._memory, np.uint8)

    def take(self, ranges: Table) -> None:
        """Prepare for the use of these ranges of bytes: free all pages if too many others are in use."""
        low, high = ranges[:, 0] // mmap.PAGESIZE, -(-ranges[:, 1] // mmap.PAGESIZE)
        counts = high - low
        pages = np.repeat(low - np.append(0, np.cumsum(counts)[:-1]), counts) + np.arange(counts.sum())
        new = pages[~self._is_used[pages]]
        if self._used_pages and (self._used_pages + len(new)) * mmap.PAGESIZE > 2 * BUDGET_BYTES:
            self._renew()
            new = pages
        if not len(new):
            return
        if not self._used_pages:
            self._advise(dense=len(pages) * 4 >= int(high[-1] - low[0]) * 3)
        self._is_used[new] = True
        self._used_pages += len(new)

    def _advise(self, *, dense: bool) -> None:
        """Ask for huge pages, unless much of them would be gaps."""
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with contextlib.suppress(OSError):  # not supported
                self._memory.madvise(mmap.MADV_HUGEPAGE if dense else mmap.MADV_NOHUGEPAGE)

    def read(self, ranges: Table, section: FileSection) -> None:
        """Read ranges of bytes of a section into the same ranges here; BufferSizeError if the file is too short."""
        content, file, start = memoryview(self._memory), section.file, section.start

        def fill(low: int, high: int) -> None:
            while low < high:
                count = read_at(file, content[low:high], start + low)
                if not count:
                    size = os.fstat(file.fileno()).st_size
                    raise BufferSizeError(
                        f"{section.name!r} was truncated: it has {size} bytes, "
                        f"bytes {start + low} to {start + high} are read",
                        actual=size,
                        needed=start + high,
                    )
                low += count

        run(fill, cut(ranges, _PART_BYTES), threads=get_num_threads() if READS_AT_PLACES else 1)
        if self._swapped is not None:
            for low, high in ranges.tolist():  # ranges hold whole elements
                self.content()[low:high].view(self._swapped).byteswap(inplace=True)

    def write(self, ranges: Table, section: FileSection) -> None:
        """Write ranges of bytes to a section."""
        content = memoryview(self._memory)
        for low, high in ranges.tolist():
            while low < high:
                low += write_at(section.file, content[low:high], section.start + low)


def blank_array(shape: Shape, bitorder: str = "little") -> LayoutArray:
    """An array of zeros that takes no memory, to compute addresses with."""
    memory = Pages(shape.buffer_byte_size).content()[: shape.buffer_byte_size]
    return LayoutArray(memory, shape, bitorder=bitorder)


def fetch(view: LayoutArray, ranges: Table, pages: Pages, section: FileSection) -> LayoutArray:
    """A view like `view` (of a blank array) in `pages`, with these ranges read from the section that begins the array.

    It is valid until the pages are used again. BufferSizeError if the file was truncated.
    """
    found, ranges, base = _moved_to_pages(view, ranges, pages)
    pages.read(ranges, section.after(base))
    return found


def store(view: LayoutArray, values: LayoutArray, pages: Pages, section: FileSection) -> None:
    """Write values to a view of the array that lies at the start of a section of a file."""
    region = view.region
    ranges = map_ranges(region.map, region.storage, 0)
    # Bytes that also hold other elements, and gaps between very short runs, are read first and written back.
    is_whole = region.bits >= 8 and int((ranges[:, 1] - ranges[:, 0]).sum()) >= _LONG_RUN_BYTES * len(ranges)
    if not is_whole:
        ranges = map_ranges(region.map, region.storage, GAP_BYTES)
    found, ranges, base = _moved_to_pages(view, ranges, pages)
    if not is_whole:
        pages.read(ranges, section.after(base))
    found[...] = values
    pages.write(ranges, section.after(base))


def _moved_to_pages(view: LayoutArray, ranges: Table, pages: Pages) -> tuple[LayoutArray, Table, int]:
    """A view moved to the start of the pages, the ranges of its bytes there, and the distance in bytes."""
    base = int(ranges[0, 0]) // mmap.PAGESIZE * mmap.PAGESIZE if len(ranges) else 0
    ranges = ranges - base
    if len(ranges):
        pages.take(ranges)
    memory = view._memory
    moved = view.address_map.scaled(1, -base * 8 // memory.bits)
    return view._with_map(moved, replace(memory, buffer=pages.content())), ranges, base


# ---- byte ranges of a view's elements -------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def map_ranges(map_: AddressMap, storage: Storage, gap: int) -> Table:
    """The sorted ranges (start, stop) of bytes that hold the elements of a view.

    Ranges with at most `gap` bytes between them are joined.

    >>> from strided import parse
    >>> map_ranges(parse("f32[3,5]{1,0:T(2,4)}").address_map.at(0, 2), Storage(32), 0).tolist()
    [[64, 80], [96, 100]]
    """
    if not map_.size:
        return np.empty((0, 2), np.int64)
    runs = runs_of(map_, storage.bits, storage.unit)
    if runs and sum(part.number for part in runs) <= _MOST_RUNS:
        first, lengths = table_of(runs)
        return merged(np.stack([first, first + lengths], axis=1), gap)
    # Irregular steps, or elements that share bytes: element by element, in chunks.
    parts = [element_ranges(map_.offsets(box), storage, gap) for box in chunks(map_.shape)]
    return merged(np.concatenate(parts), gap)


def element_ranges(offsets: Table, storage: Storage, gap: int) -> Table:
    """`map_ranges` for elements at given offsets."""
    bits = offsets.reshape(-1) * storage.unit
    return merged(np.stack([bits // 8, -(-(bits + storage.bits) // 8)], axis=1), gap)


def cut(ranges: Table, most: int) -> list[tuple[int, int]]:
    """Ranges of bytes, cut into parts of at most `most` bytes.

    >>> cut(np.array([[0, 5], [8, 9]]), 3)
    [(0, 3), (3, 5), (8, 9)]
    """
    return [(at, min(at + most, stop)) for start, stop in ranges.tolist() for at in range(start, stop, most)]


def affordable(boxes: Iterable[Box], arrays: Sequence[LayoutArray]) -> Iterator[Box]:
    """The boxes, halved until the pages of their elements in every array fit `BUDGET_BYTES`."""
    for box in boxes:
        pending = [box]
        while pending:
            one = pending.pop()
            sizes = [s.stop - s.start for s in one]
            if math.prod(sizes) <= 1 or not any(_is_too_large(array, one) for array in arrays):
                yield one
                continue
            axis = max(range(len(sizes)), key=sizes.__getitem__)
            middle = (one[axis].start + one[axis].stop) // 2
            for half in (slice(middle, one[axis].stop), slice(one[axis].start, middle)):
                pending.append((*one[:axis], half, *one[axis + 1 :]))


def _is_too_large(array: LayoutArray, box: Box) -> bool:
    region = array[(*box, ...)].region
    if region.buffer.size <= BUDGET_BYTES:
        return False
    low, high = map_ranges(region.map, region.storage, GAP_BYTES).T
    pages = -(-high // mmap.PAGESIZE) - low // mmap.PAGESIZE
    return int(pages.sum()) * mmap.PAGESIZE > BUDGET_BYTES
