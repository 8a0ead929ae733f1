"""Zstandard data are expanded, or the error says what to install."""

from __future__ import annotations

import io
import sys
from typing import Any

import pytest

import strided as sd
from strided.files.zstd import expanded
from strided.io.file_array import open_file

#: b"strided" in a frame, as `zstd --no-check` writes it: a raw block, no dictionary.
SMALL = bytes.fromhex("28b52ffd2007390000") + b"strided"


def compressed(data: bytes) -> bytes:
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)  # type: ignore[no-any-return]


def test_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    with pytest.raises(sd.UnsupportedError, match=r"x\.zst is Zstandard data: `pip install zstandard`"):
        next(expanded(io.BytesIO(SMALL), "x.zst"))


def test_data_are_expanded_in_pieces() -> None:
    data = bytes(range(256)) * 5000
    two = compressed(data) + compressed(b"end")
    pieces = list(expanded(io.BytesIO(two), piece_bytes=1000))
    assert b"".join(pieces) == data + b"end"
    assert max(map(len, pieces)) <= 1000
    assert b"".join(expanded(io.BytesIO(SMALL))) == b"strided"


def test_broken_data_are_refused() -> None:
    compressed(b"")  # skips where nothing expands
    with pytest.raises(sd.DumpError, match="broken Zstandard data"):
        list(expanded(io.BytesIO(SMALL[:6] + b"\xff" * 50), "x.zst"))


@pytest.mark.parametrize("seekable", [True, False])
def test_an_array_in_a_file_or_a_pipe(seekable: bool) -> None:
    file: Any = io.BytesIO(compressed(bytes(range(200))))
    source = file if seekable else _Pipe(file)
    with open_file(source, "x.zst", "u8[20,10]{0,1}") as array:
        assert array[3, 2] == 43
    with (
        pytest.raises(sd.BufferSizeError, match="holds more than the 20 bytes"),
        open_file(io.BytesIO(compressed(bytes(20_000))), "x.zst", "u8[20]"),
    ):
        pass


class _Pipe:
    def __init__(self, file: io.BytesIO) -> None:
        self.read = file.read

    def seekable(self) -> bool:
        return False
