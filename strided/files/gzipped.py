"""Decompress gzip data in pieces."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import Any, cast

from strided.errors import DumpError
from strided.files import streams
from strided.files.streams import Readable


def expanded(file: Readable, path: str | None = None, piece_bytes: int | None = None) -> Iterator[bytes]:
    """Decompress gzip data in pieces of `piece_bytes` (default `streams.PIECE_BYTES`).

    DumpError for broken data; the checksum is verified at the end.

    >>> import io
    >>> b"".join(expanded(io.BytesIO(gzip.compress(b"HloModule m"))))
    b'HloModule m'
    """
    try:
        with gzip.GzipFile(fileobj=cast(Any, file)) as source:
            while piece := source.read(piece_bytes or streams.PIECE_BYTES):
                yield piece
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        streams.raise_if_out_of_memory(error)
        words = str(error)
        if words.startswith("Not a gzipped file"):  # of the trailing bytes: the data began as gzip
            words = f"followed by other bytes ({words})"
        raise DumpError(f"broken gzip data: {words}", path=path) from error
