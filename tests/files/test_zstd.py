"""Zstandard data are expanded, or the error says what to install."""

from __future__ import annotations

import io
import random
import sys
from pathlib import Path
from typing import Any

import pytest

import strided as sd
from strided.dumps.source import open_source
from strided.files.compressed import expander_of
from strided.files.magic import format_of
from strided.files.zstd import expanded
from strided.io.file_array import open_file
from tests.zstd_writer import zstd_compressed

#: b"strided" in a frame, as `zstd --no-check` writes it: a raw block, no dictionary.
SMALL = bytes.fromhex("28b52ffd2007390000") + b"strided"
#: The same and "!" eight times, in a frame with a window and a checksum; a frame that is skipped; an empty one.
CHECKED = bytes.fromhex("28b52ffd0458380000") + b"strided" + bytes.fromhex("4300002155a6be2f")
SKIPPED, EMPTY = bytes.fromhex("5f2a4d1805000000") + b"hello", bytes.fromhex("28b52ffd2000010000")


def test_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    monkeypatch.setitem(sys.modules, "compression", None)
    with pytest.raises(sd.UnsupportedError, match=r"x\.zst is Zstandard data: `pip install 'strided\[zstd\]'`"):
        next(expanded(io.BytesIO(SMALL), "x.zst"))


def test_data_are_expanded_in_pieces() -> None:
    data = bytes(range(256)) * 5000
    two = zstd_compressed(data) + zstd_compressed(b"end")
    pieces = list(expanded(io.BytesIO(two), piece_bytes=1000))
    assert b"".join(pieces) == data + b"end"
    assert max(map(len, pieces)) <= 1000
    assert b"".join(expanded(io.BytesIO(SMALL))) == b"strided"


def test_broken_data_are_refused() -> None:
    zstd_compressed(b"")  # skips where nothing expands
    with pytest.raises(sd.DumpError, match="broken Zstandard data"):
        list(expanded(io.BytesIO(SMALL[:6] + b"\xff" * 50), "x.zst"))


def test_data_that_end_inside_of_a_frame_are_refused() -> None:
    zstd_compressed(b"")  # skips where nothing expands
    frames = [(SMALL, b"strided"), (SKIPPED, b""), (EMPTY, b""), (CHECKED, b"strided!!!!!!!!"), (SKIPPED, b"")]
    data = b"".join(frame for frame, _ in frames)
    whole = {sum(len(frame) for frame, _ in frames[:k]): b"".join(held for _, held in frames[:k]) for k in range(6)}
    for read in (io.BytesIO, _Trickle):
        for end in range(4, len(data) + 1):
            if end in whole:
                assert b"".join(expanded(read(data[:end]))) == whole[end]
                continue
            with pytest.raises(sd.DumpError, match=r"broken Zstandard data: Compressed file ended before the end"):
                list(expanded(read(data[:end])))


@pytest.mark.parametrize("first", range(0x50, 0x60))
def test_data_that_begin_with_a_frame_that_is_skipped_are_known(first: int) -> None:
    head = bytes((first,)) + SKIPPED[1:]
    assert expander_of(head) is expanded
    found = format_of(head, 100)
    assert found is not None
    assert found.name == "Zstandard data"
    assert expander_of(bytes((first ^ 0x20,)) + SKIPPED[1:]) is None


def test_frames_that_are_skipped_may_stand_anywhere(tmp_path: Path) -> None:
    zstd_compressed(b"")  # skips where nothing expands
    long, none = bytes.fromhex("502a4d1800000500") + bytes(5 << 16), bytes.fromhex("532a4d1800000000")
    path = tmp_path / "x.zst"
    for data in (SKIPPED + SMALL, none + long + SMALL, SKIPPED + SMALL + none + SMALL + long, long + SMALL + SKIPPED):
        path.write_bytes(data)
        for origin in (data, path):
            assert bytes(open_source(origin).view) == b"strided" * data.count(SMALL)
        with open_file(io.BytesIO(data), "x.zst", f"u8[{7 * data.count(SMALL)}]") as array:
            assert bytes(array.to_numpy()) == b"strided" * data.count(SMALL)
    for data in (SKIPPED, SKIPPED + SMALL, SMALL + SKIPPED):
        for cut in (1, 4):
            with pytest.raises(sd.DumpError, match="ended before the end"):
                open_source(data[:-cut])
    with pytest.raises(sd.DumpError, match="broken Zstandard data"):
        open_source(SKIPPED + b"something else")


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("sized", [True, False])
def test_the_end_of_a_frame_is_found_in_what_a_compressor_writes(checked: bool, sized: bool) -> None:
    for data in (b"", b"a", bytes(300_000), bytes(range(256)) * 1_500, random.Random(0).randbytes(300_000)):
        packed = zstd_compressed(data, checked=checked, sized=sized)
        assert b"".join(expanded(io.BytesIO(packed * 2))) == data * 2
        for cut in (packed[:-1], packed + packed[:-1], packed + packed[:5]):
            with pytest.raises(sd.DumpError, match="ended before"):
                list(expanded(io.BytesIO(cut)))


@pytest.mark.parametrize("seekable", [True, False])
def test_an_array_in_a_file_or_a_pipe(seekable: bool) -> None:
    file: Any = io.BytesIO(zstd_compressed(bytes(range(200))))
    source = file if seekable else _Pipe(file)
    with open_file(source, "x.zst", "u8[20,10]{0,1}") as array:
        assert array[3, 2] == 43
    with (
        pytest.raises(sd.BufferSizeError, match="holds more than the 20 bytes"),
        open_file(io.BytesIO(zstd_compressed(bytes(20_000))), "x.zst", "u8[20]"),
    ):
        pass


class _Trickle(io.BytesIO):
    """Gives three bytes at a time at most."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(3 if size is None or size < 0 else min(3, size))


class _Pipe:
    def __init__(self, file: io.BytesIO) -> None:
        self.read = file.read

    def seekable(self) -> bool:
        return False
