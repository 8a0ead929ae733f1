"""The arrays in ``.npz`` files: ``.npy`` files in a zip archive, compressed or not."""

from __future__ import annotations

import contextlib
import errno
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NoReturn

from strided.errors import DumpError
from strided.escape import visible
from strided.files import streams
from strided.io.npy import NpyHeader, read_npy_header, refuse_short, shape_of_npy
from strided.layout import Shape

ENDING = ".npy"
#: Bytes of a local file header in an archive; the last four are the lengths of the name and of the extra field.
_LOCAL_HEADER_BYTES = 30


@dataclass(frozen=True)
class NpzMember:
    """A ``.npy`` file in an archive: its header, its decompressed size, and its offset in the archive, in bytes.

    `packed` is its name in the archive if it is compressed, else None.
    """

    header: NpyHeader
    size: int
    offset: int
    packed: str | None

    def located(self, given: Shape | None, name: str) -> tuple[Shape, int]:
        """Shape and offset of the values; errors as for `shape_of_npy`; DumpError if the file ends before they do."""
        refuse_short(self.header, self.size, name)
        return shape_of_npy(self.header, given, name), self.offset + self.header.offset


@dataclass(frozen=True)
class BrokenMember:
    """A ``.npy`` file in an archive whose header cannot be read because of `error`; other members can be."""

    error: DumpError

    def located(self, given: Shape | None, name: str) -> NoReturn:
        """Raise the error."""
        raise self.error.with_traceback(None)  # else it would keep the frames of earlier callers alive


def read_npz(file: BinaryIO, path: str | None = None) -> dict[str, NpzMember | BrokenMember]:
    """The arrays of an archive by name (``.npy`` for a member called just that). DumpError for a broken archive.

    >>> import io, numpy as np
    >>> file = io.BytesIO()
    >>> np.savez(file, a=np.eye(3))
    >>> read_npz(file)["a"].located(None, "a")[0]
    Shape('f64', (3, 3))
    """
    found: dict[str, NpzMember | BrokenMember] = {}
    with _damage(path), zipfile.ZipFile(file) as archive:
        for info in archive.infolist():
            if not info.filename.endswith(ENDING):
                continue
            name = info.filename.removesuffix(ENDING) or info.filename
            if name in found:
                raise DumpError(f"two arrays are called {name!r}", path=path)
            try:
                with archive.open(info) as member:
                    header = read_npy_header(member, f"{path}:{name}")  # type: ignore[arg-type]  # it only reads
            except DumpError as error:
                found[name] = BrokenMember(error)
            else:
                packed = None if info.compress_type == zipfile.ZIP_STORED else info.filename
                found[name] = NpzMember(header, info.file_size, _data_offset(file, info), packed)
    return found


def _data_offset(file: BinaryIO, info: zipfile.ZipInfo) -> int:
    """The offset of a member's data in an archive, which only its local header gives."""
    file.seek(info.header_offset + _LOCAL_HEADER_BYTES - 4)
    lengths = file.read(4)
    extra = int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
    return info.header_offset + _LOCAL_HEADER_BYTES + extra


def unpacked(archive: zipfile.ZipFile, packed: str, path: str | None = None) -> Iterator[bytes]:
    """Decompress a ``.npy`` file in an archive, in pieces. DumpError for broken data."""
    with _damage(path), archive.open(packed) as member:
        while piece := member.read(streams.PIECE_BYTES):
            yield piece


@contextlib.contextmanager
def _damage(path: str | None) -> Iterator[None]:
    try:
        yield
    except (MemoryError, DumpError, GeneratorExit):
        raise
    except Exception as error:  # zipfile fails in many ways: it even seeks to negative offsets
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise
        streams.raise_if_out_of_memory(error)
        raise DumpError(f"a damaged or encrypted archive: {visible(str(error), 200)}", path=path) from error
