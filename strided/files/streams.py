"""What is read piece by piece: compressed data of any kind, pipes, members of archives."""

from __future__ import annotations

from typing import Protocol

#: Bytes of a piece: if it fits a cache it takes half the time.
PIECE_BYTES = 1 << 18


class Readable(Protocol):
    """What bytes can be read from."""

    def read(self, size: int, /) -> bytes: ...
