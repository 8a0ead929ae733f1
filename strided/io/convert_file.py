"""Arrays to files, in bounded memory, whole or not at all.

Arrays are converted in blocks of about `BLOCK_BYTES`. Neither source nor target is mapped, so that a truncated source
or a full disk raises an error instead of killing the process.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from strided.arrays.blocks import boxes, common_block, even_cuts, run_block
from strided.arrays.layout_array import LayoutArray
from strided.errors import UnsupportedError
from strided.files.atomic import refuse_existing, refuse_same, replaced
from strided.io.file_array import FileArray, open_file
from strided.io.npy import npy_header
from strided.io.sparse_pages import Pages, affordable, blank_array, store
from strided.layout import AnyShape, Layout, Shape
from strided.layout.element_types import ELEMENT_TYPES, element_type_of_dtype
from strided.layout.parser import array_shape, layout_of

#: Bytes of values in memory at a time. Larger blocks gain nothing; smaller ones cut rows of large arrays.
BLOCK_BYTES = 64 << 20

#: Endings of formats that are not written here: raw bytes with such a name would mislead.
FOREIGN_ENDINGS = frozenset(
    ".npz .csv .tsv .txt .json .zarr .h5 .hdf5 .hdf .nc .nc4 .mat .pt .pth .pkl .pickle .safetensors .gguf .onnx .pb"
    " .parquet .arrow .feather .png .jpg .jpeg .gif .tif .tiff .bmp .svg .html .pdf .xls .xlsx .fits"
    " .gz .bz2 .xz .zst .zip .tar .tgz .7z".split()
)

#: Called with the number of elements just written.
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
        The file cannot be written; an earlier file stays as it was.
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
    shape: str | AnyShape | None,
    target: str | os.PathLike[str],
    *,
    layout: str | Layout | None = None,
    offset: int = 0,
    bitorder: str = "little",
    overwrite: bool = True,
    progress: Progress | None = None,
) -> int:
    """Convert an array in a file to another file; returns the new file's size in bytes.

    Parameters
    ----------
    source : path
        Raw bytes or a ``.npy`` file, gzipped or not; the content tells. With an offset, or exactly the shape's size, a
        file is raw bytes whatever it begins with. Gzip data are expanded into a temporary file, as far as needed.
    shape : str, Shape or None
        None for a ``.npy`` file, which has its own.
    offset, bitorder
        As for `strided.open`.
    layout : str or Layout, optional
        Layout of the raw bytes to write, with zeros as padding. By default the target is a ``.npy`` file.
    overwrite : bool, optional
        Whether to replace an existing file, as `numpy.save` does.
    progress : callable, optional
        Called after each block with the number of elements that it held.

    Raises
    ------
    OSError
        The target cannot be written, or is the source; an earlier file stays. FileExistsError without `overwrite`.
    UnsupportedError
        The target's name is that of another format.
    BufferSizeError
        The source does not have its shape's size, or was truncated meanwhile.
    DumpError
        Broken gzip data, a damaged header.
    LayoutError
        A ``.npy`` file of another shape; a layout that does not fit.
    """
    with open(source, "rb") as file:
        check_target(file, target, layout, overwrite=overwrite)
        with open_file(file, os.fspath(source), shape, offset=offset, bitorder=bitorder) as array:
            return convert_array(array, target, layout, overwrite=overwrite, progress=progress)


def check_target(file: BinaryIO, target: str | os.PathLike[str], layout: object, *, overwrite: bool) -> None:
    """Raise OSError or UnsupportedError if an open file must not be converted to a target."""
    refuse_name(target, layout)
    refuse_same(os.fstat(file.fileno()), target)
    if not overwrite:
        refuse_existing(target)


def convert_array(
    array: FileArray,
    target: str | os.PathLike[str],
    layout: str | Layout | None,
    *,
    overwrite: bool,
    progress: Progress | None = None,
) -> int:
    """Write an array in a file to a target; returns the target's size in bytes."""
    shape = result_shape(array, layout)
    with replaced(target, overwrite=overwrite) as file:
        write_file(file, array, shape, as_npy=layout is None, progress=progress)
        return file.seek(0, os.SEEK_END)


def result_shape(array: FileArray, layout: str | Layout | None) -> Shape:
    """The shape of an array in another layout; None is row-major."""
    return array_shape(array.xla_shape.with_layout(None if layout is None else layout_of(layout)))


def refuse_name(target: str | os.PathLike[str], layout: object) -> None:
    """Raise UnsupportedError if the ending of a file's name is another format's.

    >>> refuse_name("out.npz", None)
    Traceback (most recent call last):
    strided.errors.UnsupportedError: out.npz: files that end in .npz are not written, only .npy files and raw bytes
    """
    name = os.fsdecode(target)
    ending = os.path.splitext(name)[1].lower()
    if ending in FOREIGN_ENDINGS:
        raise UnsupportedError(f"{name}: files that end in {ending} are not written, only .npy files and raw bytes")
    if ending == ".npy" and layout is not None:
        raise UnsupportedError(f"{name}: .npy files are row-major: leave the layout out, or name raw bytes otherwise")


def write_file(
    file: BinaryIO, array: FileArray, shape: Shape, *, as_npy: bool, progress: Progress | None = None
) -> None:
    """Write an array in the layout of a shape, behind a ``.npy`` header or bare, to a new file."""
    if as_npy:
        file.write(npy_header(ELEMENT_TYPES[shape.element_type], shape.dimensions))
    start = file.tell()
    _allocate(file, shape.buffer_byte_size)
    file.flush()
    if not shape.size:
        return
    assert shape.layout is not None
    start += shape.layout.dynamic_shape_metadata_prefix_bytes
    target, pages = blank_array(shape), Pages(shape.buffer_byte_size)
    limit = max(1, BLOCK_BYTES // shape.dtype.itemsize)
    order, new_order = (layout.minor_to_major[::-1] for layout in (array.layout, shape.layout))
    same = order == new_order
    block = run_block(shape.dimensions, limit, order) if same else common_block(array.xla_shape, shape, limit)
    cuts = even_cuts(shape.dimensions, block)
    for box in affordable(boxes(cuts, order if same else None), [array.blank, target]):
        store(target[(*box, ...)], array[(*box, ...)].read(), pages, file, start)
        if progress:
            progress(math.prod(s.stop - s.start for s in box))


def _write_rows(file: BinaryIO, array: Any, dtype: np.dtype[Any], progress: Progress | None) -> None:
    """Write the values in row-major order."""
    limit = max(1, BLOCK_BYTES // dtype.itemsize)
    scratch = np.empty(min(math.prod(array.shape), limit), dtype)
    for box in boxes(even_cuts(array.shape, run_block(array.shape, limit))):
        part = array[(*box, ...)]  # with the dots, also a view of a 0-d array
        rows = scratch[: part.size].reshape(part.shape)
        if isinstance(part, LayoutArray):
            part.to_numpy(out=rows)
        else:
            rows[...] = part
        file.write(rows.reshape(-1).view(np.uint8).data)
        if progress:
            progress(part.size)


def _allocate(file: BinaryIO, size: int) -> None:
    """Extend the file by `size` zero bytes, reserved on disk so that a full disk is an error now."""
    if hasattr(os, "posix_fallocate") and size:
        try:
            os.posix_fallocate(file.fileno(), file.tell(), size)
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL):  # not on this file system
                raise
    file.truncate(file.tell() + size)
