"""Open, read and write regular files only: opening a FIFO would wait for a writer, and a device may have no end."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import stat
import threading
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from strided.errors import BufferSizeError, DumpError
from strided.escape import visible
from strided.files.magic import HEAD_BYTES
from strided.runtime.aliases import Bytes
from strided.runtime.locks import own_lock

_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISSOCK, "a socket"),
)
_FOLDER = "a folder, where a file is expected; strided.open_dump opens a folder of dumps"
# O_NONBLOCK opens a FIFO without waiting for a writer; O_NOCTTY keeps a terminal from becoming the controlling one.
_FLAGS = sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"))


#: The longest path that Linux takes, and how many characters of a longer one errors show.
_LONGEST, _SHOWN = 4096, 200


def open_regular(path: str | os.PathLike[str], *, writable: bool = False) -> BinaryIO:
    """Open a file for reading, with `writable` also for writing; links are followed.

    DumpError for a FIFO, a device or a socket; OSError if the file cannot be opened, or is a folder.
    """
    access = os.O_RDWR if writable else os.O_RDONLY
    # Not `os.fdopen`: if Ctrl-C arrives as it returns, we could not know that the file has closed the descriptor.
    return open(os.fspath(path), "r+b" if writable else "rb", opener=lambda name, _: _descriptor_of(name, access))


def _descriptor_of(path: str, access: int) -> int:
    """The opener of `open_regular`."""
    try:
        descriptor = os.open(path, _FLAGS | access)
    except OSError as error:
        if os.path.isdir(path):  # cannot be opened for writing, nor at all on Windows
            raise IsADirectoryError(errno.EISDIR, _FOLDER, path) from None
        shorten_name(error)
        raise
    try:
        refuse_irregular(descriptor, path)
        return descriptor
    except BaseException:
        os.close(descriptor)
        raise


def shorten_name(error: OSError) -> None:
    """Shorten the name in an error if it is too long for a path: other text was passed by mistake."""
    if isinstance(error.filename, str) and len(error.filename) > _LONGEST:
        error.filename = visible(error.filename, _SHOWN)


@contextlib.contextmanager
def naming_in_read_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Within this, an OSError names the file.

    `mmap` and `numpy.fromfile` duplicate its descriptor; if too many files are open, their error names none.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, os.fsdecode(path)) from None


def refuse_irregular(descriptor: int, path: str | os.PathLike[str]) -> None:
    """Raise DumpError for an open FIFO, device or socket, OSError for a folder."""
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, _FOLDER, os.fspath(path))
    if not stat.S_ISREG(mode):
        kind = next((name for test, name in _KINDS if test(mode)), "no file")
        raise DumpError(f"{kind}; only regular files are read", path=os.fspath(path))


def is_seekable(file: BinaryIO) -> bool:
    """Whether a file is seekable. A pipe is not, although Python before 3.16 says so on Windows."""
    if not file.seekable():
        return False
    try:
        descriptor = file.fileno()
    except io.UnsupportedOperation:  # in memory, or on a server
        return True
    return not stat.S_ISFIFO(os.fstat(descriptor).st_mode)


def head_and_size(file: BinaryIO) -> tuple[bytes, int]:
    """The first `HEAD_BYTES` of a file and its size in bytes; leaves the position at its start."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(HEAD_BYTES)
    file.seek(0)
    return head, size


#: Whether several threads may read one file at once.
READS_AT_PLACES = hasattr(os, "preadv")
#: Held from seeking to reading.
_seeking = own_lock(threading.RLock)


def read_at(file: BinaryIO, content: memoryview, at: int) -> int:
    """Read from byte `at` of a file into `content`; return the number of bytes read, 0 at the end of the file."""
    if READS_AT_PLACES:
        return os.preadv(file.fileno(), [content], at)
    with _seeking():
        file.seek(at)
        return file.readinto(content)  # type: ignore[attr-defined,no-any-return]


def read_exactly(file: BinaryIO, at: int, size: int, name: str) -> Bytes:
    """Read `size` bytes of a file from byte `at` into new memory. BufferSizeError if the file is too short."""
    content = np.empty(size, np.uint8)
    file.seek(at)
    have = file.readinto(content.data)  # type: ignore[attr-defined]
    if have < size:
        message = f"{name} was truncated while it was read: {have} bytes of {size} were left"
        raise BufferSizeError(message, actual=have, needed=size)
    return content


def write_at(file: BinaryIO, content: memoryview, at: int) -> int:
    """Write bytes to a file from byte `at`; return how many were written."""
    if READS_AT_PLACES:  # otherwise the file's own buffer must see the write
        return os.pwrite(file.fileno(), content, at)
    file.seek(at)
    return file.write(content)
