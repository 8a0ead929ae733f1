"""File formats, recognised by their first bytes.

The size alone would not do: a short header adds no more bytes than an allocator that rounds up.
"""

from __future__ import annotations

from typing import NamedTuple

#: How many first bytes show a file's format.
HEAD_BYTES = 16

NPY_MAGIC = b"\x93NUMPY"
#: The third byte is the compression method: deflate is the only one defined.
GZIP_MAGIC = b"\x1f\x8b\x08"
#: Of skippable frames, with which Zstandard data may begin, as files of pzstd do.
ZSTD_SKIPPED_MAGICS = tuple(bytes((first,)) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
ZSTD_MAGICS = (b"\x28\xb5\x2f\xfd", *ZSTD_SKIPPED_MAGICS)
ZIP_MAGIC = b"PK\x03\x04"
#: Of a zip archive without members.
EMPTY_ZIP_MAGIC = b"PK\x05\x06"


class Format(NamedTuple):
    """A format other than raw bytes: its name with an article, and how to read it."""

    name: str
    advice: str


_EXPANDED = "`strided show` and strided.convert_file decompress it; for anything else decompress it first"
_MAGICS = {
    NPY_MAGIC: Format("a .npy file", "strided.open and `strided show` read it without a shape"),
    GZIP_MAGIC: Format("gzip data", _EXPANDED),
    **dict.fromkeys(ZSTD_MAGICS, Format("Zstandard data", _EXPANDED)),
    ZIP_MAGIC: Format(
        "a zip archive",
        "strided.open('FILE:NAME') reads an array of an .npz file; from a pipe or gzip data, or if it is no .npz, "
        "unpack it first",
    ),
    EMPTY_ZIP_MAGIC: Format("an empty zip archive", "it holds no files"),
    b"\x89HDF\r\n\x1a\n": Format("an HDF5 file", "h5py reads it"),
    b"\xfd7zXZ\0": Format("xz data", "decompress it first"),
    **{b"BZh%d1AY&SY" % level: Format("bzip2 data", "decompress it first") for level in range(1, 10)},
}
_SAFETENSORS = Format(
    "a safetensors file",
    "strided.open('FILE:NAME') reads a tensor without a shape; from a pipe or gzip data, decompress it first; or give "
    "the offset of its bytes",
)


def is_safetensors(head: bytes, size: int) -> bool:
    """Whether a file of `size` bytes begins like a safetensors file: with the length of a JSON object and its ``{``."""
    return head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= size - 8


def format_of(head: bytes, size: int) -> Format | None:
    """The format of a file of `size` bytes that begins with `head`, or None if it may be raw bytes.

    >>> format_of(b"\\x93NUMPY\\x01\\x00", 128).name
    'a .npy file'
    >>> format_of(bytes(16), 128) is None
    True
    """
    for magic, found in _MAGICS.items():
        if head.startswith(magic):
            return found
    return _SAFETENSORS if is_safetensors(head, size) else None
