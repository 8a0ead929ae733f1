"""What is read piece by piece: compressed data of any kind, pipes, members of archives."""

from __future__ import annotations

from typing import Protocol

#: Bytes of a piece: if it fits a cache it takes half the time.
PIECE_BYTES = 1 << 18


class Readable(Protocol):
    """What bytes can be read from."""

    def read(self, size: int, /) -> bytes: ...


#: How zlib and Zstandard say that no memory was left.
_OUT_OF_MEMORY = ("Error -4 ", "not enough memory")


def raise_if_out_of_memory(error: Exception) -> None:
    """Raise MemoryError if that is what an error of zlib or Zstandard means; the data are not broken then.

    >>> raise_if_out_of_memory(ValueError("Error -3 while decompressing data"))
    >>> raise_if_out_of_memory(ValueError("Error -4 while decompressing data"))
    Traceback (most recent call last):
    MemoryError
    """
    if any(words in str(error) for words in _OUT_OF_MEMORY):
        raise MemoryError from None
