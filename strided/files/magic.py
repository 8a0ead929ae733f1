"""Formats of files, told by their first bytes: the size does not tell a short header from a buffer rounded up."""

from __future__ import annotations

from typing import NamedTuple

#: Bytes of a file that tell its format.
HEAD_BYTES = 16

NPY_MAGIC = b"\x93NUMPY"
#: The third byte means deflate, the only method ever defined.
GZIP_MAGIC = b"\x1f\x8b\x08"
#: Of frames that hold no data: Zstandard data may begin with some, as what pzstd writes does.
ZSTD_SKIPPED_MAGICS = tuple(bytes((first,)) + b"\x2a\x4d\x18" for first in range(0x50, 0x60))
ZSTD_MAGICS = (b"\x28\xb5\x2f\xfd", *ZSTD_SKIPPED_MAGICS)
ZIP_MAGIC = b"PK\x03\x04"
#: A zip archive of nothing.
EMPTY_ZIP_MAGIC = b"PK\x05\x06"


class Format(NamedTuple):
    """A format other than raw bytes: its name with an article, and how to read it."""

    name: str
    advice: str


_EXPANDED = "`strided show` and strided.convert_file expand it as they read; for anything else expand it first"
_MAGICS = {
    NPY_MAGIC: Format("a .npy file", "strided.open and `strided show` read it without a shape"),
    GZIP_MAGIC: Format("gzip data", _EXPANDED),
    **dict.fromkeys(ZSTD_MAGICS, Format("Zstandard data", _EXPANDED)),
    ZIP_MAGIC: Format(
        "a zip archive",
        "strided.open('FILE:NAME') reads an array of an .npz file; from a pipe or gzip data, or if it is no .npz, "
        "unpack it first",
    ),
    EMPTY_ZIP_MAGIC: Format("an empty zip archive", "there is nothing in it"),
    b"\x89HDF\r\n\x1a\n": Format("an HDF5 file", "h5py reads it"),
    b"\xfd7zXZ\0": Format("xz data", "expand it first"),
    **{b"BZh%d1AY&SY" % level: Format("bzip2 data", "expand it first") for level in range(1, 10)},
}
_SAFETENSORS = Format(
    "a safetensors file",
    "strided.open('FILE:NAME') reads a tensor without a shape; from a pipe or gzip data, expand it first; or give "
    "the offset of its bytes",
)


def is_safetensors(head: bytes, size: int) -> bool:
    """Whether a file of `size` bytes begins as safetensors do: with the length of a JSON text, and its first brace."""
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
