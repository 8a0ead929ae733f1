"""Gzip data, expanded piece by piece."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import Any, Protocol, cast

from strided.errors import DumpError


class Readable(Protocol):
    """What bytes can be read from."""

    def read(self, size: int, /) -> bytes: ...


#: Bytes of a piece: if it fits a cache it takes half the time.
PIECE_BYTES = 1 << 18


def expanded(file: Readable, path: str | None = None, piece_bytes: int | None = None) -> Iterator[bytes]:
    """The expanded gzip data, in pieces of `piece_bytes` (default `PIECE_BYTES`).

    DumpError for broken data; the checksum is checked at the end.

    >>> import io
    >>> b"".join(expanded(io.BytesIO(gzip.compress(b"HloModule m"))))
    b'HloModule m'
    """
    try:
        with gzip.GzipFile(fileobj=cast(Any, file)) as source:
            while piece := source.read(piece_bytes or PIECE_BYTES):
                yield piece
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        words = str(error)
        if words.startswith("Not a gzipped file"):  # of what follows: the data do begin as gzip
            words = f"other bytes follow its end ({words})"
        raise DumpError(f"broken gzip data: {words}", path=path) from error
