"""Zstandard data, expanded piece by piece."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from strided.errors import DumpError, UnsupportedError
from strided.files.gzipped import PIECE_BYTES, Readable


def expanded(file: Readable, path: str | None = None, piece_bytes: int | None = None) -> Iterator[bytes]:
    """The expanded Zstandard data, in pieces of at most `piece_bytes` (default `PIECE_BYTES`).

    DumpError for broken data; UnsupportedError if neither Python (3.14) nor the package ``zstandard`` expands it.
    """
    try:
        from compression import zstd

        errors: tuple[type[Exception], ...] = (zstd.ZstdError, EOFError)
        source: Any = zstd.ZstdFile(file)
    except ImportError:
        try:
            import zstandard
        except ImportError:
            raise UnsupportedError(
                f"{path or 'this'} is Zstandard data: `pip install zstandard` or Python 3.14 lets strided expand it"
            ) from None
        errors = (zstandard.ZstdError,)
        source = zstandard.ZstdDecompressor().stream_reader(cast(Any, file), read_across_frames=True, closefd=False)
    try:
        while piece := source.read(piece_bytes or PIECE_BYTES):
            yield piece
    except errors as error:
        raise DumpError(f"broken Zstandard data: {error}", path=path) from error
