"""The bytes of a dump, wherever they are: a mapped file, an expanded gzip file, a buffer in memory."""

from __future__ import annotations

import contextlib
import gzip
import io
import mmap
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

from strided.dumps.protobuf.wire import as_view
from strided.errors import DumpError
from strided.regular import open_regular

GZIP_MAGIC = b"\x1f\x8b"

#: What gzipped text may expand to, in bytes: reading it takes several times as much memory.
MAX_TEXT_BYTES = 1 << 30
#: What anything else in gzip may expand to. No protobuf message is longer than 2 GiB; nothing is said about the ratio,
#: since a snapshot of zeros shrinks to a thousandth.
MAX_BINARY_BYTES = 1 << 31
#: Bytes that are expanded at a time: what fits a cache takes half the time.
_PIECE_BYTES = 1 << 18

#: How far into the bytes to look for what no text holds.
_PROBE_BYTES = 4096
#: Control characters that text does hold: tab, line ends, form feed, escape sequences of terminals.
_TEXT_CONTROLS = bytes((9, 10, 11, 12, 13, 27))
_NOT_TEXT = bytes(byte for byte in range(32) if byte not in _TEXT_CONTROLS)

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


def open_source(origin: Origin, *, max_bytes: int | None = None, mapped: bool = False) -> Source:
    """The bytes of a file, or of a buffer, read-only; gzip is recognised by its first two bytes and undone.

    Parameters
    ----------
    origin : path or buffer
    max_bytes : int, optional
        Gzip contents that expand to more are refused: a few kilobytes can expand to any size. `MAX_TEXT_BYTES` for
        text, `MAX_BINARY_BYTES` for anything else without.
    mapped : bool
        Map a file, for those who look at a part of it. Who looks at it later calls `refuse_truncated` before: bytes
        that are no longer there end the process. Without, a file is read, up to `MOST_READ_BYTES`.

    Raises
    ------
    DumpError
        Broken gzip data, or more of them than allowed; a path that leads to no regular file.
    OSError
        A file that cannot be opened.

    >>> bytes(open_source(gzip.compress(b"HloModule m")).view)
    b'HloModule m'
    """
    path, view = _raw(origin, mapped=mapped)
    return Source(_expand(view, path, max_bytes) if bytes(view[:2]) == GZIP_MAGIC else view, path)


def open_head(origin: Origin, size: int) -> bytes:
    """At most the first `size` bytes, gzip undone no further than that. Errors as for `open_source`."""
    path, view = _raw(origin, mapped=True)
    if bytes(view[:2]) != GZIP_MAGIC:
        return bytes(view[:size])
    with _expanding(view, path) as file:
        return file.read(size)


def is_text(view: memoryview) -> bool:
    """Whether bytes are text: a proto shows control characters early on.

    >>> is_text(memoryview(b"HloModule m")), is_text(memoryview(b"\\n\\x01m"))
    (True, False)
    """
    head = bytes(view[:_PROBE_BYTES])
    return not any(byte in _NOT_TEXT for byte in set(head))


def _raw(origin: Origin, *, mapped: bool) -> tuple[str | None, memoryview]:
    """The path, if it is one, and the bytes as they are."""
    if isinstance(origin, (str, os.PathLike)):
        path = os.fspath(origin)
        return path, _map(path, 0 if mapped else MOST_READ_BYTES)
    return None, as_view(origin).toreadonly()


def _map(path: Any, most_read: int) -> memoryview:
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most_read:
            with contextlib.suppress(ValueError, OSError):  # what cannot be mapped
                return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        limit = max(size, MAX_BINARY_BYTES)
        content = file.read(limit + 1)  # also an empty file, a file of /proc
    if len(content) > limit:
        raise DumpError(f"a file that grows while it is read, beyond {limit} bytes", path=path)
    return memoryview(content)


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


@contextmanager
def _expanding(view: memoryview, path: str | None) -> Iterator[gzip.GzipFile]:
    """The contents of gzip data as a file."""
    try:
        with gzip.GzipFile(fileobj=io.BufferedReader(_Window(view), 1 << 16)) as file:
            yield file
    except (OSError, EOFError, zlib.error) as error:
        raise DumpError(f"broken gzip data: {error}", path=path) from error


def _expand(view: memoryview, path: str | None, max_bytes: int | None) -> memoryview:
    data = bytearray()
    limit = MAX_BINARY_BYTES if max_bytes is None else max_bytes
    with _expanding(view, path) as file:
        # Piece by piece: a read of the whole would ask for as much memory as the limit allows.
        while piece := file.read(_PIECE_BYTES):
            if not data and max_bytes is None and is_text(memoryview(piece)):
                limit = MAX_TEXT_BYTES
            if len(data) + len(piece) > limit:
                raise DumpError(f"gzip data that expand to more than {limit} bytes; max_bytes= allows more", path=path)
            data += piece
    return memoryview(data).toreadonly()
