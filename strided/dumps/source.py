"""The bytes of a dump, wherever they are: a mapped file, an expanded gzip file, a buffer in memory."""

from __future__ import annotations

import gzip
import io
import mmap
import os
import zlib
from typing import Any, NamedTuple, TypeAlias

from strided.dumps.protobuf.wire import as_view
from strided.errors import DumpError

GZIP_MAGIC = b"\x1f\x8b"

#: What a gzip file may expand to, in bytes. No protobuf message is longer than 2 GiB.
MAX_EXPANDED_BYTES = 1 << 31

#: Paths, and anything with the buffer interface.
Origin: TypeAlias = Any


class Source(NamedTuple):
    """Bytes, and the name to report.

    Attributes
    ----------
    view : memoryview
        The bytes, gzip undone. Of a plain file they are mapped: nothing is read until somebody looks, and the mapping
        lives as long as any view of it.
    path : str or None
        The file, None for bytes in memory.
    """

    view: memoryview
    path: str | None


def open_source(origin: Origin, *, max_expanded_bytes: int = MAX_EXPANDED_BYTES) -> Source:
    """The bytes of a file (mapped, read-only) or of a buffer; gzip is recognised by its first two bytes and undone.

    Parameters
    ----------
    origin : path or buffer
    max_expanded_bytes : int
        Larger gzip contents are refused: a few kilobytes can expand to any size.

    Raises
    ------
    DumpError
        Broken gzip data, or more of them than allowed.
    OSError
        A file that cannot be opened.

    >>> bytes(open_source(gzip.compress(b"HloModule m")).view)
    b'HloModule m'
    """
    if isinstance(origin, (str, os.PathLike)):
        path: str | None = os.fspath(origin)
        view = _map(path)
    else:
        path, view = None, as_view(origin).toreadonly()
    if bytes(view[:2]) == GZIP_MAGIC:
        view = _expand(view, path, max_expanded_bytes)
    return Source(view, path)


def _map(path: Any) -> memoryview:
    with open(path, "rb") as file:
        try:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        except (ValueError, OSError):  # an empty file, a pipe, a file of /proc
            return memoryview(file.read())


class _Window(io.RawIOBase):
    """A memoryview as a file, without a copy of the whole."""

    def __init__(self, view: memoryview) -> None:
        self._rest = view

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


def _expand(view: memoryview, path: str | None, limit: int) -> memoryview:
    try:
        with gzip.GzipFile(fileobj=io.BufferedReader(_Window(view), 1 << 16)) as file:
            data = file.read(limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DumpError(f"broken gzip data: {error}", path=path) from error
    if len(data) > limit:
        raise DumpError(f"gzip data that expand to more than {limit} bytes", path=path)
    return memoryview(data)
