"""Temporary files without a name, for what cannot be read where it lies: pipes and compressed data."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import BinaryIO


@contextlib.contextmanager
def scratch_file() -> Iterator[BinaryIO]:
    """A temporary file, gone when the block ends.

    Closing it writes what a full disk had no room for once more: that error would hide the first one, which names the
    folder, and nobody will read those bytes.
    """
    file = tempfile.TemporaryFile()
    try:
        yield file
    finally:
        with contextlib.suppress(OSError):
            file.close()
