"""Copy a file with its padding set to zero."""

from __future__ import annotations

import mmap
import os
import shutil
from typing import BinaryIO

from strided.arrays.layout_array import LayoutArray
from strided.errors import naming_in_size_errors
from strided.escape import visible
from strided.files.atomic import COPY_BYTES, refuse_existing, refuse_same, replaced
from strided.files.regular import naming_in_read_errors, open_regular
from strided.io.raw_format import PLAIN, RawFormat
from strided.layout import Shape


def scrub_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    shape: Shape,
    raw: RawFormat = PLAIN,
    *,
    overwrite: bool = False,
) -> int:
    """Copy a file of raw bytes with the array's padding set to zero; return its size in bytes.

    The copy gets its name when it is complete.

    Raises
    ------
    FileExistsError
        The target exists and `overwrite` is false.
    OSError
        A file cannot be read or written; the target is the source.
    BufferSizeError
        The file does not hold the array.
    """
    with open_regular(source) as file:
        refuse_same(os.fstat(file.fileno()), target)
        if not overwrite:
            refuse_existing(target)
        with replaced(target, overwrite=overwrite) as copy:
            shutil.copyfileobj(file, copy, COPY_BYTES)
            copy.flush()
            size = copy.tell()
            with naming_in_size_errors(visible(os.fsdecode(source))):
                _fill_padding(copy, target, size, shape, raw)
            return size


def _fill_padding(copy: BinaryIO, target: str | os.PathLike[str], size: int, shape: Shape, raw: RawFormat) -> None:
    """Set the padding of the array in a file to zero."""
    # Unmapped before it is renamed, as Windows requires.
    with naming_in_read_errors(target):
        memory = mmap.mmap(copy.fileno(), size) if size else bytearray()
    array = LayoutArray(memory, shape, offset=raw.offset, bitorder=raw.bitorder, allow_excess=raw.allow_excess)
    array.fill_padding()
