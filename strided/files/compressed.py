"""Compressed data, recognised by their first bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from strided.files import gzipped, zstd
from strided.files.magic import GZIP_MAGIC, ZSTD_MAGICS
from strided.files.streams import Readable

#: Decompresses a file in pieces. Takes the file, its name for errors, and the size of a piece in bytes.
Expander: TypeAlias = Callable[[Readable, str | None, int | None], Iterator[bytes]]

_EXPANDERS: Mapping[bytes, Expander] = {
    GZIP_MAGIC: gzipped.expanded,
    **dict.fromkeys(ZSTD_MAGICS, zstd.expanded),
}
#: How many first bytes show whether data are compressed.
MAGIC_BYTES = max(map(len, _EXPANDERS))


def expander_of(head: bytes) -> Expander | None:
    """The function that decompresses data beginning with `head`; None if they are not compressed.

    >>> expander_of(b"\\x1f\\x8b\\x08\\x00").__module__, expander_of(b"HloModule")
    ('strided.files.gzipped', None)
    """
    return next((expand for magic, expand in _EXPANDERS.items() if head.startswith(magic)), None)
