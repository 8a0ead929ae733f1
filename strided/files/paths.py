"""Relative paths made absolute, because the working directory may change or be removed."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator


@contextlib.contextmanager
def naming_lost_directory(path: str | os.PathLike[str]) -> Iterator[None]:
    """Around code that makes a path absolute: explain and name the path if the working directory was removed.

    The system's own FileNotFoundError names no path.

    >>> with naming_lost_directory("x.bin"):
    ...     raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))  # as os.getcwd does
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] the working directory, which the path is relative to, has been removed: 'x.bin'
    """
    try:
        yield
    except FileNotFoundError as error:
        if error.filename is not None:
            raise
        words = "the working directory, which the path is relative to, has been removed"
        raise FileNotFoundError(errno.ENOENT, words, os.fsdecode(path)) from None


def real_path(path: str | os.PathLike[str]) -> str:
    """The absolute path, with symbolic links resolved."""
    with naming_lost_directory(path):
        return os.path.realpath(os.fsdecode(path))


def absolute_path(path: str | os.PathLike[str]) -> str:
    """The absolute path."""
    with naming_lost_directory(path):
        return os.path.abspath(os.fsdecode(path))
