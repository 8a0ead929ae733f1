"""Files mapped into memory, and whether their bytes are still there."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from strided.errors import BufferSizeError
from strided.files.paths import absolute_path
from strided.files.regular import naming_in_read_errors, open_regular
from strided.runtime.aliases import Bytes


@dataclass(slots=True, eq=False)
class MappedFile:
    """A file, and its bytes mapped into memory.

    Attributes
    ----------
    path : str
        Absolute; empty if only the mapping is known.
    mode : str
        "r", "r+" or "c".
    offset, size : int
        Which bytes of the file are mapped.
    content : ndarray of uint8
        Those bytes.
    mapping : mmap.mmap or None
        None if there are no bytes.
    inode : tuple of int
        Device and inode of the file, because another file may take its path.
    is_dirty : bool
        Mode "c": whether the bytes may differ from the file's.
    """

    path: str
    mode: str
    offset: int
    size: int
    content: Bytes
    mapping: mmap.mmap | None
    inode: tuple[int, int]
    is_dirty: bool = False

    @property
    def is_the_file(self) -> bool:
        """Whether the path leads to the file, and the bytes in memory are the file's, as far as this process knows."""
        if not self.path or (self.mode == "c" and self.is_dirty):
            return False
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.inode

    def mark_dirty(self) -> None:
        """Note that the bytes may have changed: they were written to, or a caller has them."""
        if self.mode == "c":
            self.is_dirty = True

    def release(self) -> None:
        """Let the system take back the memory of what was read; it is read again when it is used."""
        # Written pages of other modes would be lost.
        if self.mode == "r" and self.mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.mapping.madvise(mmap.MADV_DONTNEED)

    def mapped_anew(self, start: int, size: int, mode: str) -> MappedFile | None:
        """Bytes of the file from `start` on, mapped again; None if the path no longer leads to it.

        The file must not change while the new mapping is in use.
        """
        try:
            found = map_file(self.path, mode, start, size)
        except (OSError, BufferSizeError):
            return None
        return found if found.inode == self.inode else None

    def check(self) -> None:
        """Raise BufferSizeError if the file was truncated: reading behind its end kills the process."""
        if self.mapping is not None and (now := self.mapping.size()) < self.offset + self.size:
            name = repr(self.path) if self.path else "a mapped file"
            raise BufferSizeError(
                f"{name} was truncated: it has {now} bytes, bytes {self.offset} to {self.offset + self.size} "
                "of it were mapped",
                actual=now,
                needed=self.offset + self.size,
            )

    @property
    def identity(self) -> tuple[str, int, int, int]:
        """What identifies the content: path, inode, size in bytes, time of the last change in nanoseconds."""
        status = os.stat(self.path)
        return self.path, status.st_ino, status.st_size, status.st_mtime_ns


def map_file(path: str | os.PathLike[str], mode: str, offset: int, length: int | None) -> MappedFile:
    """`length` bytes of a file from `offset` on, or all, mapped.

    Modes are those of numpy.memmap: "r" (read-only), "r+" (writes go to the file), "c" (writes stay in memory).
    BufferSizeError if the file is shorter; DumpError if it is no regular file.
    """
    access = {"r": mmap.ACCESS_READ, "r+": mmap.ACCESS_WRITE, "c": mmap.ACCESS_COPY}
    if mode not in tuple(access):  # also what cannot be hashed
        raise ValueError(f'mode must be "r", "r+" or "c", not {mode!r}')
    name = absolute_path(path)
    with open_regular(path, writable=mode == "r+") as file:
        size, status = file.seek(0, os.SEEK_END), os.fstat(file.fileno())
        inode = status.st_dev, status.st_ino
        length = size - offset if length is None else length
        if offset < 0 or length < 0 or offset + length > size:
            raise BufferSizeError(
                f"{os.fspath(path)!r} has {size} bytes; bytes {offset} to {offset + length} are asked for",
                actual=size,
                needed=offset + length,
            )
        if length == 0:
            return MappedFile(name, mode, offset, 0, np.empty(0, np.uint8), None, inode)
        start = offset // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        with naming_in_read_errors(path):
            mapping = mmap.mmap(file.fileno(), offset - start + length, access=access[mode], offset=start)
    content = np.frombuffer(mapping, np.uint8)[offset - start :]
    return MappedFile(name, mode, offset, length, content, mapping, inode)


def mmap_behind(memory: Bytes) -> mmap.mmap | None:
    """The `mmap` that `memory` is part of; None for other memory."""
    owner: Any = memory.base
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    return owner if isinstance(owner, mmap.mmap) else None


def mapping_behind(memory: Bytes) -> MappedFile | None:
    """The file mapping that `memory` is part of, counted from its start; None for other memory."""
    if (mapping := mmap_behind(memory)) is None:
        return None
    try:
        mapping.size()
    except (OSError, ValueError):  # not a file
        return None
    return MappedFile("", "r", 0, len(mapping), memory, mapping, (0, 0))
