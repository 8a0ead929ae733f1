"""Write the values of arrays to open files, block by block.

Blocks take about `BLOCK_BYTES`. Neither source nor target is mapped, so that a truncated source or a full disk raises
an error instead of killing the process.
"""

from __future__ import annotations

import errno
import math
import os
from typing import Any, BinaryIO, Protocol

import numpy as np

from strided.arrays.blocks import boxes, common_block, even_cuts, run_boxes
from strided.arrays.layout_array import LayoutArray
from strided.io.file_array import FileArray
from strided.io.sparse_pages import FileSection, Pages, affordable, blank_array, store
from strided.layout import Shape
from strided.runtime.aliases import Progress

#: Bytes of values in memory at a time. Larger blocks gain nothing; smaller ones would cut rows of large arrays.
BLOCK_BYTES = 64 << 20


class Writable(Protocol):
    """An object with a ``write`` method that takes bytes."""

    def write(self, content: Any, /) -> object: ...


def write_array(file: BinaryIO, array: Any, shape: Shape, start: int, progress: Progress | None = None) -> None:
    """Write an array at the end of a new file of `start` bytes, in the type and layout of a shape.

    The array is a FileArray, a LayoutArray or an ndarray.
    """
    file.seek(start)
    _allocate(file, shape.buffer_byte_size)
    file.flush()
    if not shape.size:
        return
    assert shape.layout is not None
    section = FileSection(file, file.name, start + shape.layout.dynamic_shape_metadata_prefix_bytes)
    target, pages = blank_array(shape), Pages(shape.buffer_byte_size)
    limit = max(1, BLOCK_BYTES // shape.dtype.itemsize)
    source: Any = getattr(array, "xla_shape", shape)
    if source.dimensions != shape.dimensions or source.layout is None:
        source = shape  # a view has no layout of its own
    if source.layout.minor_to_major == shape.layout.minor_to_major:
        found = run_boxes(shape.dimensions, limit, shape.layout.minor_to_major[::-1])
    else:
        found = boxes(even_cuts(shape.dimensions, common_block(source, shape, limit)))
    blanks = [array.blank, target] if isinstance(array, FileArray) else [target]
    for box in affordable(found, blanks):
        part = array[(*box, ...)]
        values: Any = part.read() if isinstance(part, FileArray) else part
        if values.dtype != shape.dtype:
            values = np.asarray(values).astype(shape.dtype)
        store(target[(*box, ...)], values, pages, section)
        if progress:
            progress(math.prod(s.stop - s.start for s in box))


def write_rows(file: Writable, array: Any, dtype: np.dtype[Any], progress: Progress | None = None) -> None:
    """Write the values of an array in row-major order, cast to a type, to a file that need not be seekable."""
    limit = max(1, BLOCK_BYTES // dtype.itemsize)
    scratch = np.empty(min(math.prod(array.shape), limit), dtype)
    for box in run_boxes(array.shape, limit):
        part = array[(*box, ...)]  # the ellipsis gives a view of a 0-d array, too
        rows = scratch[: part.size].reshape(part.shape)
        if isinstance(part, LayoutArray) and part.dtype == dtype:
            part.to_numpy(out=rows)
        else:
            rows[...] = np.asarray(part).astype(dtype, copy=False)
        file.write(rows.reshape(-1).view(np.uint8).data)
        if progress:
            progress(part.size)


def _allocate(file: BinaryIO, size: int) -> None:
    """Extend the file by `size` zero bytes, reserved on disk so that a full disk is an error at once."""
    if hasattr(os, "posix_fallocate") and size:
        try:
            os.posix_fallocate(file.fileno(), file.tell(), size)
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # not on this file system
                raise
    file.truncate(file.tell() + size)
