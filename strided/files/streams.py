"""Data that are read in pieces: compressed data, pipes, members of archives."""

from __future__ import annotations

from typing import Protocol

#: Bytes of a piece: one that fits a cache takes half the time.
PIECE_BYTES = 1 << 18


class Readable(Protocol):
    """An object with a ``read`` method that returns bytes."""

    def read(self, size: int, /) -> bytes: ...


#: Messages of zlib and Zstandard when memory runs out.
_OUT_OF_MEMORY = ("Error -4 ", "not enough memory")


def raise_if_out_of_memory(error: Exception) -> None:
    """Raise MemoryError if that is what an error of zlib or Zstandard means, rather than broken data.

    >>> raise_if_out_of_memory(ValueError("Error -3 while decompressing data"))
    >>> raise_if_out_of_memory(ValueError("Error -4 while decompressing data"))
    Traceback (most recent call last):
    MemoryError
    """
    if any(words in str(error) for words in _OUT_OF_MEMORY):
        raise MemoryError from None
