"""Arrays to files, in bounded memory, whole or not at all.

A file is written under a temporary name beside its target and renamed when it is complete, so that a full disk, Ctrl-C
or any other error leaves what was there before. Arrays go through in blocks of about `BLOCK_BYTES`, each read
from a mapping of its own: neither the source nor the target need fit into memory.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from strided.array import LayoutArray, open_array
from strided.buffers import array_shape
from strided.dtypes import ELEMENT_TYPES, element_type_of_dtype
from strided.errors import LayoutError
from strided.layout import AnyShape, Layout, Shape
from strided.notation import parse
from strided.npy import npy_header

#: Bytes of values that are in memory at a time. Larger ones gain nothing; smaller ones cut rows of large arrays.
BLOCK_BYTES = 64 << 20

#: A file of this path, opened anew.
Opener = Callable[[], LayoutArray]
#: Is told how many more elements are written.
Progress = Callable[[int], object]


def save_npy(path: str | os.PathLike[str], array: Any, *, progress: Progress | None = None) -> None:
    """Write an array to a ``.npy`` file, its element type included; `strided.load_npy` reads it back.

    Parameters
    ----------
    array : LayoutArray or array-like
        A LayoutArray is converted block by block and need not fit into memory.
    progress : callable, optional
        Called after each block with the number of elements that it held.

    Raises
    ------
    OSError
        The file cannot be written; what was there before still is.
    """
    if isinstance(array, LayoutArray):
        element_type = ELEMENT_TYPES[array.xla_shape.element_type]
    else:
        array = np.asanyarray(array)
        element_type = element_type_of_dtype(array.dtype)
    with replaced(path) as file:
        file.write(npy_header(element_type, array.shape))
        _write_rows(file, array, np.dtype(array.dtype), progress)


def convert_file(
    source: str | os.PathLike[str],
    shape: str | AnyShape,
    target: str | os.PathLike[str],
    *,
    layout: str | Layout | None = None,
    offset: int = 0,
    bitorder: str = "little",
    progress: Progress | None = None,
) -> int:
    """Convert a raw buffer in a file to another file, and return the size of that in bytes.

    Parameters
    ----------
    source, shape, offset, bitorder
        As for `strided.open`.
    layout : str or Layout, optional
        Layout of the raw bytes to write, zeros in the padding. Without one, the target is a ``.npy`` file.
    progress : callable, optional
        Called after each block with the number of elements that it held.

    Raises
    ------
    OSError
        The target cannot be written; what was there before still is.
    BufferSizeError
        The source does not have the size of its shape.
    """
    shape = array_shape(shape)
    wanted = parse(layout) if isinstance(layout, str) else layout

    def opened() -> LayoutArray:
        return open_array(source, shape, offset=offset, bitorder=bitorder)

    opened()  # a source that cannot be read is an error before anything is written
    if wanted is not None and not isinstance(wanted, Layout):
        raise LayoutError(f"{wanted} is no layout; the shape is known, write the braces alone")
    result = array_shape(shape.with_layout(wanted))
    head = npy_header(ELEMENT_TYPES[shape.element_type], shape.dimensions) if wanted is None else b""
    with replaced(target) as file:
        file.write(head)
        _write_mapped(file, opened, result, progress)
        return file.seek(0, os.SEEK_END)


@contextlib.contextmanager
def replaced(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends without an error, and is gone when it does not."""
    target = Path(path).resolve()  # a symbolic link stays one
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.part")
    try:
        file = open(temporary, "x+b")
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    try:
        with file:
            if target.exists():
                os.chmod(temporary, target.stat().st_mode & 0o777)
            yield file
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_rows(file: BinaryIO, array: Any, dtype: np.dtype[Any], progress: Progress | None) -> None:
    """The values in row-major order."""
    limit = max(1, BLOCK_BYTES // dtype.itemsize)
    scratch = np.empty(min(math.prod(array.shape), limit), dtype)
    for box in blocks(array.shape, limit):
        part = array[(*box, ...)]  # the dots make a view of an array without dimensions, too
        rows = scratch[: part.size].reshape(part.shape)
        if isinstance(part, LayoutArray):
            part.to_numpy(out=rows)
        else:
            rows[...] = part
        file.write(rows.reshape(-1).view(np.uint8).data)
        if progress:
            progress(part.size)


def _write_mapped(file: BinaryIO, opened: Opener, shape: Shape, progress: Progress | None) -> None:
    """Raw bytes of a shape, behind what is in the file. Mapped, since neighbours in one layout lie apart in another.

    Both files are mapped anew for each block, so that no more than its own pages stay in memory.
    """
    layout = shape.layout
    assert layout is not None
    start = file.tell()
    _allocate(file, shape.buffer_byte_size)
    file.flush()
    if not shape.size:
        return
    limit = max(1, BLOCK_BYTES // shape.dtype.itemsize)
    same_order = opened().layout.minor_to_major == layout.minor_to_major
    cuts = (
        blocks(shape.dimensions, limit, layout.minor_to_major[::-1]) if same_order else cubes(shape.dimensions, limit)
    )
    for box in cuts:
        target = open_array(file.name, shape, mode="r+", offset=start)
        part = opened()[(*box, ...)]
        target[(*box, ...)] = part
        if progress:
            progress(part.size)


def _allocate(file: BinaryIO, size: int) -> None:
    """Make the file so much longer, all zeros, on disk: where a mapped file has holes, a full disk ends the process."""
    if hasattr(os, "posix_fallocate") and size:
        try:
            os.posix_fallocate(file.fileno(), file.tell(), size)
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # a file system that cannot
                raise
    for start in range(0, size, BLOCK_BYTES):
        file.write(bytes(min(BLOCK_BYTES, size - start)))


def blocks(shape: Sequence[int], limit: int, order: Sequence[int] | None = None) -> Iterator[tuple[slice, ...]]:
    """Boxes of at most about `limit` elements that cover a shape, in the order of its elements.

    `order` lists the dimensions from most major to most minor, and says what the order of elements is; row-major
    without it. Cuts fall on multiples of usual tile sizes where boxes are long enough.

    >>> [tuple((s.start, s.stop) for s in box) for box in blocks((2, 5), 3)]
    [((0, 1), (0, 3)), ((0, 1), (3, 5)), ((1, 2), (0, 3)), ((1, 2), (3, 5))]
    """
    order = range(len(shape)) if order is None else order
    if math.prod(shape) <= limit:
        yield tuple(slice(0, n) for n in shape)
        return
    inner = [math.prod(shape[d] for d in order[k + 1 :]) for k in range(len(order))]
    cut = next(k for k, below in enumerate(inner) if below <= limit)
    step = max(1, limit // inner[cut])
    step -= step % next(g for g in (1024, 128, 32, 8, 1) if g <= step)
    outer, dimension = order[:cut], order[cut]
    for place in np.ndindex(*(shape[d] for d in outer)):
        box = [slice(0, n) for n in shape]
        for d, i in zip(outer, place, strict=True):
            box[d] = slice(i, i + 1)
        for start in range(0, shape[dimension], step):
            box[dimension] = slice(start, min(start + step, shape[dimension]))
            yield tuple(box)


def cubes(shape: Sequence[int], limit: int) -> Iterator[tuple[slice, ...]]:
    """Boxes of at most `limit` elements that cover a shape, their sides as equal as may be.

    They are right between two orders of dimensions: a box is a few long runs in both.

    >>> [tuple((s.start, s.stop) for s in box) for box in cubes((2, 5), 6)]
    [((0, 2), (0, 3)), ((0, 2), (3, 5))]
    """
    sides = list(shape)
    while math.prod(sides) > limit:
        longest = max(range(len(sides)), key=lambda d: sides[d])
        half = -(-sides[longest] // 2)
        # A multiple of the usual tile sizes, where that is no more than the side was.
        rounded = -(-half // 128) * 128
        sides[longest] = rounded if rounded < sides[longest] else half
    for place in np.ndindex(*(-(-n // max(1, side)) for n, side in zip(shape, sides, strict=True))):
        yield tuple(slice(i * side, min(n, (i + 1) * side)) for i, side, n in zip(place, sides, shape, strict=True))
