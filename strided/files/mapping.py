"""Files mapped into memory, and checks that they were not truncated."""

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
    """A file mapped into memory, or a part of it.

    Attributes
    ----------
    path : str
        Absolute path; empty if only the mapping is known.
    mode : str
        "r", "r+" or "c".
    offset, size : int
        The bytes of the file that are mapped.
    content : ndarray of uint8
        The mapped bytes.
    mapping : mmap.mmap or None
        None if `size` is 0.
    inode : tuple of int
        Device and inode of the file, to notice if the path leads to another one later.
    is_dirty : bool
        For mode "c": whether the bytes may differ from the file's.
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
        """Whether the path still leads to this file, and the bytes were not changed in memory only."""
        if not self.path or (self.mode == "c" and self.is_dirty):
            return False
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        return (status.st_dev, status.st_ino) == self.inode

    def mark_dirty(self) -> None:
        """Record that the bytes may have changed: they were written to, or handed to a caller."""
        if self.mode == "c":
            self.is_dirty = True

    def release(self) -> None:
        """Let the system free the memory of pages that were read; they are read again on use."""
        # In other modes, this could lose written pages.
        if self.mode == "r" and self.mapping is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.mapping.madvise(mmap.MADV_DONTNEED)

    def mapped_anew(self, start: int, size: int, mode: str) -> MappedFile | None:
        """Map `size` bytes of the file from `start` again; None if the path no longer leads to it.

        The file must not change while the new mapping is in use.
        """
        try:
            found = map_file(self.path, mode, start, size)
        except (OSError, BufferSizeError):
            return None
        return found if found.inode == self.inode else None

    def check(self) -> None:
        """Raise BufferSizeError if the file was truncated: reading past its end would kill the process."""
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
        """A key for the content: path, inode, size in bytes, time of the last change in nanoseconds."""
        status = os.stat(self.path)
        return self.path, status.st_ino, status.st_size, status.st_mtime_ns


def map_file(path: str | os.PathLike[str], mode: str, offset: int, length: int | None) -> MappedFile:
    """Map `length` bytes of a file from `offset`, by default all that follow.

    Modes are those of numpy.memmap: "r" (read-only), "r+" (writes go to the file), "c" (writes stay in memory).
    BufferSizeError if the file is shorter; DumpError if it is no regular file.
    """
    access = {"r": mmap.ACCESS_READ, "r+": mmap.ACCESS_WRITE, "c": mmap.ACCESS_COPY}
    if mode not in tuple(access):  # a tuple, because an unhashable mode must raise ValueError, too
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
    """The mapping of a file that `memory` is part of, as if it began the file; None for other memory."""
    if (mapping := mmap_behind(memory)) is None:
        return None
    try:
        mapping.size()
    except (OSError, ValueError):  # not a file
        return None
    return MappedFile("", "r", 0, len(mapping), memory, mapping, (0, 0))
