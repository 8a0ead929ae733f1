"""Temporary files without a name, for data that cannot be read in place: pipes and compressed files."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def scratch_file() -> Iterator[BinaryIO]:
    """A temporary file, removed when the block ends.

    Errors of closing it are ignored: after a failed write to a full disk, closing tries to write again, and its error
    would hide the first one, which names the folder.
    """
    file = tempfile.TemporaryFile()
    try:
        yield file
    finally:
        with contextlib.suppress(OSError):
            file.close()
