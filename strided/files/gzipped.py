"""Gzip data, expanded piece by piece: however far they expand, no more than a piece is in memory."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import Any, Protocol, cast

from strided.errors import DumpError


class Readable(Protocol):
    """What has a method to read so many bytes."""

    def read(self, size: int, /) -> bytes:
        """The next bytes, as many at most; none at the end."""


#: Bytes of a piece: what fits a cache takes half the time.
PIECE_BYTES = 1 << 18


def expanded(file: Readable, path: str | None = None, piece_bytes: int | None = None) -> Iterator[bytes]:
    """What gzip data expand to, in pieces of `piece_bytes` (`PIECE_BYTES` without).

    Whoever asks for them says when it is enough.

    Raises
    ------
    DumpError
        Broken data; where they end, their checksum is compared.

    >>> import io
    >>> b"".join(expanded(io.BytesIO(gzip.compress(b"HloModule m"))))
    b'HloModule m'
    """
    try:
        with gzip.GzipFile(fileobj=cast(Any, file)) as source:
            while piece := source.read(piece_bytes or PIECE_BYTES):
                yield piece
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DumpError(f"broken gzip data: {error}", path=path) from error
