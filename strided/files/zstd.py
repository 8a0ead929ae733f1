"""Decompress Zstandard data (RFC 8878) in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from strided.errors import DumpError, UnsupportedError
from strided.files import streams
from strided.files.magic import ZSTD_SKIPPED_MAGICS
from strided.files.streams import Readable

#: Bytes from which the length of a frame's or block's header and contents follows. No frame is shorter than 8 bytes.
_FRAME_BYTES, _BLOCK_BYTES = 8, 3
#: Sizes in bytes of two fields of a frame's header, each indexed by two bits of its flags.
_DICTIONARY_BYTES, _CONTENT_SIZE_BYTES = (0, 1, 2, 4), (0, 2, 4, 8)
#: The type of a block that repeats one byte.
_REPEATED = 1
_CHECKSUM_BYTES = 4


def expanded(file: Readable, path: str | None = None, piece_bytes: int | None = None) -> Iterator[bytes]:
    """Decompress Zstandard data in pieces of at most `piece_bytes` (default `streams.PIECE_BYTES`).

    DumpError for broken data; UnsupportedError without Python 3.14 or the package ``zstandard``.
    """
    frames = None
    try:
        from compression import zstd

        errors: tuple[type[Exception], ...] = (zstd.ZstdError, EOFError)
        source: Any = zstd.ZstdFile(cast(Any, file))
    except ImportError:
        try:
            import zstandard
        except ImportError:
            raise UnsupportedError(
                f"{path or 'this'} is Zstandard data: "
                "`pip install 'strided[zstd]'` or Python 3.14 lets strided decompress it"
            ) from None
        errors, frames = (zstandard.ZstdError, EOFError), _Frames(file)
        source = zstandard.ZstdDecompressor().stream_reader(cast(Any, frames), read_across_frames=True, closefd=False)
    try:
        while piece := source.read(piece_bytes or streams.PIECE_BYTES):
            yield piece
        if frames is not None:
            frames.check_end()
    except errors as error:
        streams.raise_if_out_of_memory(error)
        raise DumpError(f"broken Zstandard data: {error}", path=path) from error


class _Frames:
    """A file of Zstandard frames that notices a truncated one, which the package ``zstandard`` does not report."""

    def __init__(self, file: Readable) -> None:
        self._file = file
        self._header = b""  # the part of the next header that has been read
        self._before_header = 0  # bytes to read before it
        self._checksum_bytes: int | None = None  # bytes of the frame's checksum; None between frames

    def read(self, size: int, /) -> bytes:
        """The next bytes of the file."""
        piece = self._file.read(size)
        data, at = self._header + piece, self._before_header
        while len(data) - at >= (_FRAME_BYTES if self._checksum_bytes is None else _BLOCK_BYTES):
            at += self._to_next_header(data[at : at + _FRAME_BYTES])
        self._header, self._before_header = data[at:], max(0, at - len(data))
        return piece

    def check_end(self) -> None:
        """EOFError if the data read so far end inside a frame."""
        if self._header or self._before_header or self._checksum_bytes is not None:
            raise EOFError("Compressed file ended before the end-of-stream marker was reached")

    def _to_next_header(self, header: bytes) -> int:
        """The number of bytes from the start of this header to that of the next one."""
        if self._checksum_bytes is None:
            if header.startswith(ZSTD_SKIPPED_MAGICS):
                return _FRAME_BYTES + int.from_bytes(header[4:8], "little")
            flags = header[4]
            self._checksum_bytes = _CHECKSUM_BYTES if flags & 4 else 0
            is_one_segment = flags >> 5 & 1  # no byte for the window, but always a content size
            content_size_bytes = _CONTENT_SIZE_BYTES[flags >> 6] or is_one_segment
            return 5 + (not is_one_segment) + _DICTIONARY_BYTES[flags & 3] + content_size_bytes
        block = int.from_bytes(header[:_BLOCK_BYTES], "little")
        length = _BLOCK_BYTES + (1 if block >> 1 & 3 == _REPEATED else block >> 3)
        if block & 1:  # the last block
            length += self._checksum_bytes
            self._checksum_bytes = None
        return length
