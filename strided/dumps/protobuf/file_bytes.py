"""Bytes of a file that are read on access by system calls.

Reading a truncated mapped file kills the process; a system call raises an error instead. Single bytes are read from a
small buffer, payloads as a whole (`loaded`).
"""

from __future__ import annotations

import os
import weakref
from typing import BinaryIO, TypeAlias, overload

import numpy as np

from strided.errors import DumpError
from strided.files.regular import read_at

#: Bytes of the buffer for single bytes.
_BUFFER_BYTES = 4096


class _OpenFile:
    """A file that is closed when the last reference to any of its bytes is gone."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self._file, self._path = file, path
        self.size: int = os.fstat(file.fileno()).st_size
        self._buffer = 0, memoryview(b"")
        # Unlike __del__, this keeps the file alive until then: it could be collected first, with a ResourceWarning.
        weakref.finalize(self, file.close)

    def byte(self, at: int) -> int:
        first, buffer = self._buffer
        if not first <= at < first + len(buffer):
            # Assigned as one tuple, so that other threads see the old or the new pair.
            first, buffer = self._buffer = at, self.read(at, min(_BUFFER_BYTES, self.size - at))
        return buffer[at - first]

    def read(self, at: int, size: int) -> memoryview:
        content = np.empty(size, np.uint8).data
        have = 0
        while have < size:
            count = read_at(self._file, content[have:], at + have)
            if not count:
                now = os.fstat(self._file.fileno()).st_size
                raise DumpError(f"truncated since it was opened: from {self.size} bytes to {now}", path=self._path)
            have += count
        return content.toreadonly()


class FileBytes:
    """A range of bytes of a file, like a memoryview. An index reads; a slice does not.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(delete=False) as file:
    ...     _ = file.write(b"HloModule")
    >>> part = FileBytes.of(open(file.name, "rb"), file.name)[3:]
    >>> len(part), part[0], bytes(part[:3])
    (6, 77, b'Mod')
    """

    __slots__ = ("_file", "_size", "_start")

    def __init__(self, file: _OpenFile, start: int, size: int) -> None:
        self._file, self._start, self._size = file, start, size

    @classmethod
    def of(cls, file: BinaryIO, path: str) -> FileBytes:
        """All bytes of an open file, which is closed with the last slice of it; `path` is for errors."""
        opened = _OpenFile(file, path)
        return cls(opened, 0, opened.size)

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, key: int) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> FileBytes: ...
    def __getitem__(self, key: int | slice) -> int | FileBytes:
        if isinstance(key, slice):
            start, stop, _ = key.indices(self._size)
            return FileBytes(self._file, self._start + start, max(stop - start, 0))
        if not 0 <= key < self._size:
            raise IndexError(f"byte {key} of {self._size}")
        return self._file.byte(self._start + key)

    def __bytes__(self) -> bytes:
        return self.read().tobytes()

    def read(self) -> memoryview:
        """Read the bytes into memory; DumpError if the file was truncated."""
        return self._file.read(self._start, self._size)


#: Bytes in memory (mapped or not) or in a file.
View: TypeAlias = memoryview | FileBytes


def loaded(view: View | bytearray) -> memoryview:
    """The bytes in memory, without a copy if they already are. Errors as for `FileBytes.read`."""
    return view.read() if isinstance(view, FileBytes) else memoryview(view)
