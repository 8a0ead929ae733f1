"""Copy pipes and compressed files to temporary files, which are seekable."""

from __future__ import annotations

import io
import itertools
import math
import os
import tempfile
from collections.abc import Iterator
from typing import BinaryIO

from strided.arrays.buffers import GRANULES
from strided.errors import BufferSizeError
from strided.files import streams
from strided.files.atomic import naming_in_write_errors
from strided.files.compressed import expander_of
from strided.files.magic import HEAD_BYTES, NPY_MAGIC
from strided.files.regular import head_and_size, is_seekable
from strided.io.npy import read_npy_header
from strided.io.raw_format import PLAIN, RawFormat, no_shape
from strided.layout import Shape


def expanded(file: BinaryIO, name: str, scratch: BinaryIO) -> BinaryIO:
    """The file itself, or if it is a pipe or compressed, `scratch` with all of its decompressed content."""
    if (pieces := pieces_of(file, name)) is None:
        return file
    with naming_in_write_errors(tempfile.gettempdir()):
        scratch.writelines(pieces)
        scratch.flush()
    return scratch


def pieces_of(file: BinaryIO, name: str) -> Iterator[bytes] | None:
    """The decompressed content of a pipe or a compressed file, in pieces; None for other files."""
    if is_seekable(file):
        expand = expander_of(head_and_size(file)[0])
        return None if expand is None else expand(file, name, None)
    head = file.read(HEAD_BYTES)
    stream, expand = _Stream(head, file), expander_of(head)
    return stream.pieces() if expand is None else expand(stream, name, None)


class _Stream:
    """A pipe whose first bytes have already been read."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self._head, self._file = head, file

    def read(self, size: int) -> bytes:
        head, self._head = self._head[:size], self._head[size:]
        return head or self._file.read(size)

    def pieces(self) -> Iterator[bytes]:
        return iter(lambda: self.read(streams.PIECE_BYTES), b"")


def spool(pieces: Iterator[bytes], shape: Shape | None, name: str, scratch: BinaryIO, raw: RawFormat = PLAIN) -> None:
    """Append pieces of a stream to a temporary file, as many as the shape or a ``.npy`` header requires.

    BufferSizeError if the stream continues after them although the format `has_end`.
    """
    start = scratch.seek(0, os.SEEK_END)
    first = next(pieces, b"")
    while len(first) < streams.PIECE_BYTES and (more := next(pieces, b"")):
        first += more
    most, reason = _needed(first, shape, name, raw)
    with naming_in_write_errors(tempfile.gettempdir()):
        for piece in itertools.chain([first], pieces):
            scratch.write(piece)
            if raw.has_end and scratch.tell() - start > most + max(GRANULES):
                raise BufferSizeError(
                    f"{name} holds more than the {most} bytes that {reason}; what follows them was not read",
                    needed=most,
                )
            if not raw.has_end and scratch.tell() - start >= most:
                break
        scratch.flush()


def _needed(first: bytes, shape: Shape | None, name: str, raw: RawFormat) -> tuple[int, str]:
    """The bytes of a stream up to the array's end, and words for an error that say why."""
    if first.startswith(NPY_MAGIC) and raw.offset == 0:
        header = read_npy_header(io.BytesIO(first), name)
        return header.offset + header.dtype.itemsize * math.prod(header.dimensions), "its header says"
    if shape is None:
        raise no_shape(name, first[:HEAD_BYTES], len(first))
    return raw.offset + shape.buffer_byte_size, f"{shape} takes"
