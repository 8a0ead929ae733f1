"""Arrays in files that are read in part, never mapped: raw bytes, ``.npy`` files, compressed files, pipes."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import os
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy.typing as npt

from strided.addressing.address_map import AddressMap
from strided.arrays import formatting
from strided.arrays.buffer_spec import prefix_bytes
from strided.arrays.buffers import GRANULES, extent
from strided.arrays.classify import Copy, indexed
from strided.arrays.layout_array import LayoutArray, map_array
from strided.errors import BufferSizeError, UnsupportedError
from strided.files import gzipped
from strided.files.atomic import naming_in_write_errors
from strided.files.compressed import expander_of
from strided.files.magic import HEAD_BYTES, NPY_MAGIC, format_of
from strided.files.regular import head_and_size, is_seekable, read_exactly
from strided.files.scratch import scratch_file
from strided.io.fetching import values_at, values_of
from strided.io.npy import NpyHeader, read_npy_header, shape_of_npy
from strided.io.sparse_pages import GAP_BYTES, Pages, blank_array, fetch, map_ranges
from strided.layout import AnyShape, Shape
from strided.layout.parser import array_shape
from strided.runtime.aliases import Table


class FileArray:
    """An array in a file that reads what is indexed: basic keys give another such array, others values.

    Layout and XLA's shape are those of the whole array. `blank` is the same view of an array of zeros that takes no
    memory, for its addresses.
    """

    def __init__(self, file: BinaryIO, name: str, start: int, blank: LayoutArray, pages: Pages) -> None:
        self._file, self._name, self._start, self._pages, self.blank = file, name, start, pages, blank
        self.shape, self.dtype, self.size = blank.shape, blank.dtype, blank.size
        self.layout, self.xla_shape = blank.layout, blank.xla_shape

    def __getitem__(self, key: Any) -> Any:
        selected = indexed(self.blank.address_map, key)
        if isinstance(selected, (AddressMap, Copy)):
            moved = self.blank._with_map(selected.map if isinstance(selected, Copy) else selected)
            found = FileArray(self._file, self._name, self._start, moved, self._pages)
            return found.to_numpy() if isinstance(selected, Copy) else found
        return values_at(self.blank, key, selected, self._fetched, GAP_BYTES)

    def read(self) -> LayoutArray:
        """The array in memory; valid until the file is read again."""
        return self._fetched(self.blank, map_ranges(self.blank.address_map, self.blank.region.storage, GAP_BYTES))

    def mapped(self) -> LayoutArray:
        """The whole array, padding included: mapped; in memory that of a pipe or a compressed file, or byte-swapped."""
        name, shape = getattr(self._file, "name", None), self.xla_shape
        bitorder, start = self.blank.bitorder, self._start - prefix_bytes(shape)
        # A pipe has another name. A temporary file, which can be written, has a number; on Windows a name that is of no
        # use to anybody else.
        is_temporary = not isinstance(self._file, io.BufferedReader)
        if isinstance(name, str) and os.path.isfile(name) and not (is_temporary or self._pages.is_swapped):
            return map_array(name, shape, offset=start, bitorder=bitorder, allow_excess=True)
        content = read_exactly(self._file, start, shape.buffer_byte_size, self._name)
        if self._pages.is_swapped:
            content.view(shape.dtype).byteswap(inplace=True)
        return LayoutArray(content, shape, bitorder=bitorder)

    def to_numpy(self) -> npt.NDArray[Any]:
        """The values as a new ndarray."""
        return values_of(self.blank, self._fetched, GAP_BYTES)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self.to_numpy().astype(self.dtype if dtype is None else dtype, copy=False)

    def __str__(self) -> str:
        return formatting.text(self)  # type: ignore[arg-type]  # it uses nothing else of an array

    def _fetched(self, view: LayoutArray, ranges: Table) -> LayoutArray:
        return fetch(view, ranges, self._pages, self._file, self._start, self._name)


@contextlib.contextmanager
def open_file(
    file: BinaryIO,
    name: str,
    shape: str | AnyShape | None,
    *,
    otherwise: str | AnyShape | None = None,
    offset: int = 0,
    bitorder: str = "little",
    allow_excess: bool = False,
) -> Iterator[FileArray]:
    """The array in an open file or pipe: raw bytes or a ``.npy`` file, compressed or not; `name` is for errors.

    `shape` is as for `strided.open`; a ``.npy`` file has its own, and what has none gets `otherwise`. With `shape` and
    an offset, or exactly its size, a file is raw bytes whatever it begins with. BufferSizeError, LayoutError and
    UnsupportedError if the file does not hold such an array; DumpError for broken compressed data, or a damaged header.
    """
    given, assumed = (None if each is None else array_shape(each) for each in (shape, otherwise))
    has_end = not (offset or allow_excess)
    with contextlib.ExitStack() as stack:

        def scratch() -> BinaryIO:
            return stack.enter_context(scratch_file())

        if not _is_exactly(file, given, offset) and (pieces := _pieces(file, name)) is not None:
            file = keep(pieces, given or assumed, name, scratch(), offset=offset, has_end=has_end)
        (head, size), is_swapped = head_and_size(file), False
        has_own = offset == 0 or (given is None and assumed is not None)
        if has_own and head.startswith(NPY_MAGIC) and not _is_exactly(file, given, offset):
            header = read_npy_header(file, name)
            given, offset = _shape_behind(header, given, assumed, name), header.offset
            is_swapped = not header.dtype.isnative
        given = assumed if given is None else given
        if given is None:
            raise no_shape(name, head, size)
        yield array_at(
            file,
            name,
            given,
            offset,
            bitorder=bitorder,
            allow_excess=allow_excess,
            head=head,
            is_swapped=is_swapped,
        )


def _shape_behind(header: NpyHeader, given: Shape | None, assumed: Shape | None, name: str) -> Shape:
    """The shape of the values behind a header; a type that it does not name is the assumed one, if the size fits."""
    if given is None and assumed is not None and header.type_name is None:
        if assumed.dtype.itemsize == header.dtype.itemsize:
            given = Shape(assumed.element_type, header.dimensions)
    return shape_of_npy(header, given, name)


def expanded(file: BinaryIO, name: str, scratch: BinaryIO) -> BinaryIO:
    """The file itself, or if it is a pipe or compressed, `scratch` with all that it holds."""
    if (pieces := _pieces(file, name)) is None:
        return file
    with naming_in_write_errors(tempfile.gettempdir()):
        scratch.writelines(pieces)
        scratch.flush()
    return scratch


class NoShapeError(UnsupportedError):
    """Raw bytes without a shape."""


class OtherFormatError(UnsupportedError):
    """Bytes without a shape that begin as those of a format that is not read here; also no bytes at all."""


def no_shape(name: str, head: bytes, size: int) -> NoShapeError | OtherFormatError:
    """The error for bytes without a shape, `size` of them, that begin with `head`."""
    if not size:
        return OtherFormatError(f"{name} is empty")
    if (known := format_of(head, size)) is not None:
        return OtherFormatError(f"{name} is {known.name}: {known.advice}")
    return NoShapeError(
        f"raw bytes do not say what they are: give the shape of {name}, as in 'bf16[17,300]{{1,0:T(8,128)(2,1)}}'; "
        "'strided identify' looks for it"
    )


def array_at(
    file: BinaryIO,
    name: str,
    shape: Shape,
    offset: int,
    *,
    bitorder: str = "little",
    allow_excess: bool = False,
    head: bytes = b"",
    is_swapped: bool = False,
) -> FileArray:
    """The array behind `offset` bytes of a file. BufferSizeError if it does not fit.

    Elements of one that `is_swapped` lie there in the byte order of other machines.
    """
    start, _ = extent(file.seek(0, os.SEEK_END), shape, offset, allow_excess, head, name)
    pages = Pages(shape.buffer_byte_size, shape.dtype if is_swapped else None)
    return FileArray(file, name, start, blank_array(shape, bitorder), pages)


def _pieces(file: BinaryIO, name: str) -> Iterator[bytes] | None:
    """What a pipe or a compressed file holds, expanded; None for other files."""
    if is_seekable(file):
        expand = expander_of(head_and_size(file)[0])
        return None if expand is None else expand(file, name, None)
    head = file.read(HEAD_BYTES)
    stream, expand = _Stream(head, file), expander_of(head)
    return stream.pieces() if expand is None else expand(stream, name, None)


def _is_exactly(file: BinaryIO, shape: Shape | None, offset: int) -> bool:
    """Whether a file is as long as the buffer of a shape, and that is all it is to hold."""
    if shape is None or offset or not is_seekable(file):
        return False
    return head_and_size(file)[1] == shape.buffer_byte_size


class _Stream:
    """A pipe whose first bytes have already been read."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self._head, self._file = head, file

    def read(self, size: int) -> bytes:
        head, self._head = self._head[:size], self._head[size:]
        return head or self._file.read(size)

    def pieces(self) -> Iterator[bytes]:
        return iter(lambda: self.read(gzipped.PIECE_BYTES), b"")


def keep(
    pieces: Iterator[bytes], shape: Shape | None, name: str, file: BinaryIO, *, offset: int = 0, has_end: bool = True
) -> BinaryIO:
    """Append pieces of a stream to a temporary file, as many as the shape, or a ``.npy`` header, needs; returns it.

    BufferSizeError for a stream that goes on behind them, if it `has_end` there.
    """
    start = file.seek(0, os.SEEK_END)
    first = next(pieces, b"")
    while len(first) < gzipped.PIECE_BYTES and (more := next(pieces, b"")):
        first += more
    if first.startswith(NPY_MAGIC) and offset == 0:
        header = read_npy_header(io.BytesIO(first), name)
        most = header.offset + header.dtype.itemsize * math.prod(header.dimensions)
        what = "its header says"
    elif shape is None:
        raise no_shape(name, first[:HEAD_BYTES], len(first))
    else:
        most = offset + shape.buffer_byte_size
        what = f"{shape} takes"
    with naming_in_write_errors(tempfile.gettempdir()):
        for piece in itertools.chain([first], pieces):
            file.write(piece)
            if file.tell() - start > most + max(GRANULES) and has_end:
                raise BufferSizeError(
                    f"{name} holds more than the {most} bytes that {what}; what follows them was not read", needed=most
                )
            if not has_end and file.tell() - start >= most:
                break
        file.flush()
    return file
