"""Arrays in files that are read in parts, not mapped: raw bytes, ``.npy`` files, compressed files, pipes."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from strided.addressing.address_map import AddressMap
from strided.arrays import formatting
from strided.arrays.buffer_spec import prefix_bytes
from strided.arrays.layout_array import LayoutArray, map_array
from strided.files.magic import NPY_MAGIC
from strided.files.regular import head_and_size, is_seekable, read_exactly
from strided.files.scratch import scratch_file
from strided.io.fetching import FetchedArray
from strided.io.npy import NpyHeader, read_npy_header, shape_of_npy
from strided.io.raw_format import PLAIN, RawFormat, no_shape
from strided.io.sparse_pages import GAP_BYTES, FileSection, Pages, blank_array, fetch
from strided.io.spooling import pieces_of, spool
from strided.layout import AnyShape, Shape
from strided.layout.parser import array_shape
from strided.runtime.aliases import Table


class FileArray(FetchedArray):
    """An array in a file, read on use: basic indexing returns another FileArray, advanced indexing values."""

    _gap_bytes = GAP_BYTES

    def __init__(self, section: FileSection, blank: LayoutArray, pages: Pages) -> None:
        super().__init__(blank)
        self._section, self._pages = section, pages

    def _view(self, map_: AddressMap) -> FileArray:
        return FileArray(self._section, self.blank._with_map(map_), self._pages)

    def _fetched(self, view: LayoutArray, ranges: Table) -> LayoutArray:
        return fetch(view, ranges, self._pages, self._section)

    def read(self) -> LayoutArray:
        """The array in memory; valid until the pages are used again."""
        return self._fetched(self.blank, self._ranges_of(self.blank))

    def mapped(self) -> LayoutArray:
        """The whole array with its padding: mapped, or in memory if it was compressed, piped or byte-swapped."""
        file, shape, bitorder = self._section.file, self.xla_shape, self.blank.bitorder
        name, start = getattr(file, "name", None), self._section.start - prefix_bytes(shape)
        # A temporary file is open for writing, so it is no BufferedReader. Its name cannot be opened.
        is_temporary = not isinstance(file, io.BufferedReader)
        if isinstance(name, str) and os.path.isfile(name) and not (is_temporary or self._pages.is_swapped):
            return map_array(name, shape, offset=start, bitorder=bitorder, allow_excess=True)
        content = read_exactly(file, start, shape.buffer_byte_size, self._section.name)
        if self._pages.is_swapped:
            content.view(shape.dtype).byteswap(inplace=True)
        return LayoutArray(content, shape, bitorder=bitorder)

    def __str__(self) -> str:
        return formatting.text(self)  # type: ignore[arg-type]  # it needs only what FileArray has


@contextlib.contextmanager
def open_file(
    file: BinaryIO,
    name: str,
    shape: str | AnyShape | None,
    raw: RawFormat = PLAIN,
    *,
    otherwise: str | AnyShape | None = None,
) -> Iterator[FileArray]:
    """Open the array in a file or pipe: raw bytes or a ``.npy`` file, compressed or not; `name` is for errors.

    `shape` is as for `strided.open`; `otherwise` is used if neither it nor a ``.npy`` header gives one. With `shape`
    and an offset, or if its size is exactly the shape's, a file is taken for raw bytes whatever it begins with.
    BufferSizeError, LayoutError and UnsupportedError if the file does not hold such an array; DumpError for broken
    compressed data or a damaged header.
    """
    given, assumed = (None if each is None else array_shape(each) for each in (shape, otherwise))
    with contextlib.ExitStack() as stack:
        if not _is_exactly(file, given, raw) and (pieces := pieces_of(file, name)) is not None:
            file = stack.enter_context(scratch_file())
            spool(pieces, given or assumed, name, file, raw)
        head, size = head_and_size(file)
        is_swapped = False
        has_own = raw.offset == 0 or (given is None and assumed is not None)
        if has_own and head.startswith(NPY_MAGIC) and not _is_exactly(file, given, raw):
            header = read_npy_header(file, name)
            given = _npy_shape(header, given, assumed, name)
            raw, is_swapped = replace(raw, offset=header.offset), not header.dtype.isnative
        given = assumed if given is None else given
        if given is None:
            raise no_shape(name, head, size)
        yield array_at(file, name, given, raw, head=head, is_swapped=is_swapped)


def _npy_shape(header: NpyHeader, given: Shape | None, assumed: Shape | None, name: str) -> Shape:
    """The shape of a ``.npy`` file's values; a type that its header does not name is `assumed`'s, if the size fits."""
    if given is None and assumed is not None and header.type_name is None:
        if assumed.dtype.itemsize == header.dtype.itemsize:
            given = Shape(assumed.element_type, header.dimensions)
    return shape_of_npy(header, given, name)


def array_at(
    file: BinaryIO, name: str, shape: Shape, raw: RawFormat, *, head: bytes = b"", is_swapped: bool = False
) -> FileArray:
    """The array in a file that begins with `head`. BufferSizeError if the size does not fit.

    With `is_swapped`, the elements in the file are not in native byte order.
    """
    start, _ = raw.bounds(file.seek(0, os.SEEK_END), shape, head, name)
    pages = Pages(shape.buffer_byte_size, shape.dtype if is_swapped else None)
    return FileArray(FileSection(file, name, start), blank_array(shape, raw.bitorder), pages)


def _is_exactly(file: BinaryIO, shape: Shape | None, raw: RawFormat) -> bool:
    """Whether a file has exactly the size of the shape's buffer, and no offset is given."""
    if shape is None or raw.offset or not is_seekable(file):
        return False
    return head_and_size(file)[1] == shape.buffer_byte_size
