"""Files that hold arrays by name: ``.npz`` and ``.safetensors``."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self, TypeAlias

from strided.errors import DumpError, LayoutError, StridedError, UnsupportedError
from strided.escape import visible
from strided.files.magic import EMPTY_ZIP_MAGIC, ZIP_MAGIC, is_safetensors
from strided.files.regular import head_and_size
from strided.files.scratch import scratch_file
from strided.io.file_array import FileArray, array_at
from strided.io.npy import mappable_shape_of_npy
from strided.io.npz import BrokenMember, NpzMember, read_npz, unpacked
from strided.io.raw_format import RawFormat
from strided.io.safetensors import Tensor, read_safetensors
from strided.io.spooling import spool
from strided.layout import Shape
from strided.runtime.lazy import lazy
from strided.wording import names_meant, some

_Member: TypeAlias = Tensor | NpzMember | BrokenMember
_Reader: TypeAlias = Callable[[BinaryIO, str], Mapping[str, _Member]]
_COMPRESSED = re.compile(r"\.(gz|zst)$", re.IGNORECASE)


class Container(Mapping[str, FileArray]):
    """The arrays in an open file by name, read on use. As a context manager, it frees temporary files at the end."""

    def __init__(self, file: BinaryIO, path: str, members: Mapping[str, _Member]) -> None:
        self._file, self.path, self._members = file, path, members
        self._stack = contextlib.ExitStack()

    def open(self, name: str, shape: Shape | None = None) -> FileArray:
        """The array of a name. LayoutError if its shape is not `shape`; UnsupportedError for a type that XLA lacks."""
        member, label = self._members[name], f"{self.path}:{name}"
        found, offset = member.located(shape, label)
        file = self._file
        if isinstance(member, NpzMember) and member.packed is not None:
            file = self._unpacked
            offset += file.seek(0, os.SEEK_END) - member.offset
            spool(unpacked(self._archive, member.packed, self.path), None, label, file)
        is_swapped = isinstance(member, NpzMember) and not member.header.dtype.isnative
        return array_at(file, label, found, RawFormat(offset), is_swapped=is_swapped)

    @lazy
    def _archive(self) -> zipfile.ZipFile:
        return self._stack.enter_context(zipfile.ZipFile(self._file))

    @lazy
    def _unpacked(self) -> BinaryIO:
        """A temporary file for decompressed members."""
        return self._stack.enter_context(scratch_file())

    def place(self, name: str, shape: Shape | None = None, *, writable: bool = False) -> tuple[Shape, int]:
        """The shape of an array, and its offset in the file in bytes.

        LayoutError if its shape is not `shape`; UnsupportedError if it is compressed or not in native byte order, or if
        it is to be `writable` and the archive has a checksum of it.
        """
        member, label = self._members[name], f"{self.path}:{name}"
        if isinstance(member, NpzMember) and (writable or member.packed is not None):
            raise UnsupportedError(
                f"{label} is {'in an archive with checksums' if writable else 'compressed'} and cannot be mapped"
                f"{' writable' if writable else ''}: `strided convert` writes it to a file that can be"
            )
        if isinstance(member, NpzMember):
            mappable_shape_of_npy(member.header, shape, label)
        return member.located(shape, label)

    def shape(self, name: str) -> Shape | str:
        """The shape of an array, or text that says why it cannot be read."""
        try:
            return self._members[name].located(None, "it")[0]
        except (UnsupportedError, LayoutError, DumpError) as error:
            return f"unreadable: {error}"

    def __getitem__(self, name: str) -> FileArray:
        return self.open(name)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stack.close()


def open_container(file: BinaryIO, path: str) -> Container | None:
    """The arrays in an open file; None if neither its content nor its name is that of a container.

    DumpError for a broken container.
    """
    read = _reader_of(file, path)
    return None if read is None else Container(file, path, read(file, path))


def is_container(file: BinaryIO, path: str) -> bool:
    """Whether an open file is a container, possibly a broken one, by its content or its name."""
    return _reader_of(file, path) is not None


def _reader_of(file: BinaryIO, path: str) -> _Reader | None:
    """The function that reads the members of an open file; None if it is no container."""
    (head, size), ending = head_and_size(file), ending_of(path)
    if head.startswith((ZIP_MAGIC, EMPTY_ZIP_MAGIC)) or ending == ".npz":
        return read_npz
    if is_safetensors(head, size) or ending == ".safetensors":
        return read_safetensors
    return None


def ending_of(path: str | os.PathLike[str]) -> str:
    """The extension of a file's or folder's name in lower case, with its dot; empty if there is none.

    >>> ending_of("values.NPY"), ending_of("store.zarr/"), ending_of("x")
    ('.npy', '.zarr', '')
    """
    return os.path.splitext(os.path.normpath(os.fsdecode(path)))[1].lower()


def name_of(path: str) -> str:
    """The name of the only array in a file: the file's name without its extensions.

    >>> name_of("dumps/act.bin.gz")
    'act'
    """
    return Path(_COMPRESSED.sub("", path)).stem


def split_name(text: str) -> tuple[str, str | None]:
    """Split ``PATH:NAME`` into path and name. If the whole text is an existing path, the name is None.

    FileNotFoundError if no such path exists; another OSError if that cannot be determined.
    """
    end = len(text)
    while end > 0:
        if os.path.lexists(text[:end]):
            return text[:end], text[end + 1 :] if end < len(text) else None
        end = text.rfind(":", 0, end)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, ValueError):
        os.lstat(text)  # raises if a folder may not be searched
    raise FileNotFoundError(errno.ENOENT, "No such file", text)


def chosen(names: Collection[str], name: str | None, path: str, *, what: str = "array") -> str:
    """`name`, or if it is None, the only one of `names`. StridedError if there is no such name."""
    path = visible(path)
    if name is None:
        if len(names) == 1:
            return next(iter(names))
        if not names:
            raise StridedError(f"{path} holds no {what}s")
        first = visible(next(iter(names)))
        raise StridedError(
            f"{path} holds {len(names)} {what}s; name one, as in {path}:{first} (there are {some(names)})"
        )
    if name not in names:
        raise StridedError(f"{path}: no {what} is named {name!r}; {names_meant(name, names)}")
    return name
