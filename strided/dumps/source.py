"""The bytes of a dump, wherever they are: a mapped file, an expanded gzip file, a buffer in memory."""

from __future__ import annotations

import contextlib
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

#: Files up to this many bytes are read where they are wanted as wholes; longer ones are mapped.
MOST_READ_BYTES = 1 << 28

#: Paths, and anything with the buffer interface.
Origin: TypeAlias = Any


class Source(NamedTuple):
    """Bytes, and the name to report.

    Attributes
    ----------
    view : memoryview
        The bytes, gzip undone. Where they are mapped, nothing is read until somebody looks, and the mapping lives as
        long as any view of it.
    path : str or None
        The file, None for bytes in memory.
    """

    view: memoryview
    path: str | None


def open_source(origin: Origin, *, max_expanded_bytes: int = MAX_EXPANDED_BYTES, mapped: bool = False) -> Source:
    """The bytes of a file, or of a buffer, read-only; gzip is recognised by its first two bytes and undone.

    Parameters
    ----------
    origin : path or buffer
    mapped : bool
        Map a file, for those who look at a part of it. Who looks at it later calls `refuse_truncated` before: bytes
        that are no longer there end the process. Without, a file is read, up to `MOST_READ_BYTES`.
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
        view = _map(path, 0 if mapped else MOST_READ_BYTES)
    else:
        path, view = None, as_view(origin).toreadonly()
    if bytes(view[:2]) == GZIP_MAGIC:
        view = _expand(view, path, max_expanded_bytes)
    return Source(view, path)


def _map(path: Any, most_read: int) -> memoryview:
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > most_read:
            with contextlib.suppress(ValueError, OSError):  # what cannot be mapped
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        return memoryview(file.read())  # also an empty file, a pipe, a file of /proc


def refuse_truncated(view: memoryview, path: str | None) -> None:
    """Raise DumpError where bytes are mapped from a file that has become shorter."""
    mapping = view.obj
    if isinstance(mapping, mmap.mmap) and mapping.size() < len(mapping):
        raise DumpError(f"truncated since it was opened: from {len(mapping)} bytes to {mapping.size()}", path=path)


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
