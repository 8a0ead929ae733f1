"""Zstandard data for tests, written by whatever this Python has for it."""

from __future__ import annotations

from typing import Any

import pytest


def zstd_compressed(data: bytes, *, checked: bool = False, sized: bool = True) -> bytes:
    """A frame of these bytes, with a checksum or the size of its content; skips where nothing writes one.

    Python 3.14 has a module for it, which is also what then expands the data. Earlier ones have the package zstandard.
    """
    try:
        from compression import zstd
    except ImportError:
        package = pytest.importorskip("zstandard")
        compressor: Any = package.ZstdCompressor(write_checksum=checked, write_content_size=sized)
        return compressor.compress(data)  # type: ignore[no-any-return]
    flags = zstd.CompressionParameter
    return zstd.compress(data, options={flags.checksum_flag: checked, flags.content_size_flag: sized})  # type: ignore[no-any-return]
