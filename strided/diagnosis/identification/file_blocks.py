"""Bytes anywhere in a large file, read in small blocks that are kept: many readings look at the same places.

Neither a mapping, whose pages bring their neighbours into memory, nor a call of the system for each element: those of
one layout lie close to those of the next, and a block is read once for all of them. The memory is bounded whatever the
size of the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from strided.diagnosis.bit_patterns import FIBONACCI
from strided.runtime.aliases import Table

#: Bytes of a block, those of the next one that it also holds, for elements across its end, and blocks that are kept, as
#: a power of two: 34 MB. Larger blocks are fewer, but fewer of them are kept.
_BLOCK, _OVERLAP, _PLACES = 512, 16, 16
#: The flag with which a read fails that would have to wait for the disk; Linux has it.
_NOT_WAITING: int | None = getattr(os, "RWF_NOWAIT", None)


@dataclass(frozen=True, slots=True, eq=False)
class FileBlocks:
    """A file whose blocks are kept once they are read, each at the one place that its number gives.

    There are 2 to the power of `places` of them. `check` is called where the file ends before its `size`: it was
    truncated.
    """

    file: BinaryIO
    size: int
    check: Callable[[], object]
    places: int = _PLACES
    numbers: Table = field(init=False)
    kept: npt.NDArray[np.uint8] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "numbers", np.full(1 << self.places, -1))
        object.__setattr__(self, "kept", np.empty((1 << self.places, _BLOCK + _OVERLAP), np.uint8))

    def taken(self, start: int, dtype: np.dtype[Any], at: Table) -> npt.NDArray[Any]:
        """Items of a type of at most 16 bytes, counted from a byte on."""
        number, within = np.divmod(start + np.asarray(at, np.int64) * dtype.itemsize, _BLOCK)
        # Neighbours, and the steps of layouts, are spread over all places.
        place = (number.astype(np.uint64) * FIBONACCI >> np.uint64(64 - self.places)).astype(np.int64)
        is_kept = self.numbers[place] == number
        found = _cut(self.kept, place, within, dtype.itemsize)
        if not is_kept.all():
            missing = np.flatnonzero(~is_kept)
            wanted, which = np.unique(number[missing], return_inverse=True)
            blocks = self._read(wanted)
            found[missing] = _cut(blocks, which, within[missing], dtype.itemsize)
            # Of several blocks for one place the last is kept, so that number and bytes belong together.
            chosen = np.full(1 << self.places, -1)
            chosen[place[missing]] = which
            filled = np.flatnonzero(chosen >= 0)
            self.numbers[filled], self.kept[filled] = wanted[chosen[filled]], blocks[chosen[filled]]
        return found.view(dtype).reshape(-1)

    def _read(self, numbers: Table) -> npt.NDArray[np.uint8]:
        """Blocks of some numbers in rising order, each a row; zeros behind the end of the file."""
        width = _BLOCK + _OVERLAP
        blocks = np.zeros((len(numbers), width), np.uint8)
        places = (numbers * _BLOCK).tolist()
        memory = blocks.data.cast("B")
        rows = [memory[k : k + width] for k in range(0, blocks.size, width)]
        if len(rows) and places[-1] + width > self.size:
            rows[-1] = rows[-1][: self.size - places[-1]]
        file = self.file.fileno()
        waiting = [k for k in range(len(rows)) if not _is_read_at_once(file, rows[k], places[k])]
        if hasattr(os, "posix_fadvise"):  # all are asked for before the first is waited for
            for k in waiting:
                os.posix_fadvise(file, places[k], width, os.POSIX_FADV_WILLNEED)
        for k in waiting:
            if os.preadv(file, [rows[k]], places[k]) < len(rows[k]):
                self.check()
        return blocks


def _is_read_at_once(file: int, into: memoryview, place: int) -> bool:
    """Whether the bytes are in memory, and read; what is on the disk is better asked for together."""
    if _NOT_WAITING is None:
        return False
    try:
        return os.preadv(file, [into], place, _NOT_WAITING) == len(into)
    except OSError:  # it would wait, or the file system cannot tell
        return False


def _cut(blocks: npt.NDArray[np.uint8], row: Table, within: Table, width: int) -> npt.NDArray[np.uint8]:
    """`width` bytes of one block for each row, from a byte of it on."""
    found: npt.NDArray[np.uint8] = blocks.reshape(-1)[(row * blocks.shape[1] + within)[:, None] + np.arange(width)]
    return found
