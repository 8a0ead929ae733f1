"""What cannot be mapped is named: the system's own errors of mapping name no file."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

import strided as sd
from strided.diagnosis.padding.scrub import scrub_file
from tests.commands import refuse_to_map

SHAPE = "f32[2]{0}"


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_to_map(monkeypatch)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dump.bin"
    path.write_bytes(bytes(8))
    return path


@pytest.mark.usefixtures("full")
@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_a_file_that_cannot_be_mapped_is_named(dump: Path, mode: str) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)) as refused:
        sd.open(dump, SHAPE, mode=mode)
    assert (refused.value.errno, refused.value.filename) == (errno.EMFILE, str(dump))


@pytest.mark.usefixtures("full")
def test_a_copy_that_cannot_be_mapped_is_named(dump: Path) -> None:
    copy = dump.parent / "copy.bin"
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)) as refused:
        scrub_file(dump, copy, sd.parse_shape(SHAPE))
    assert refused.value.filename == str(copy)
    assert not copy.exists()


def test_an_array_file_that_cannot_be_mapped_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sd.save_npy(path := tmp_path / "x.npy", np.zeros(2))
    refuse_to_map(monkeypatch)
    with pytest.raises(OSError, match=os.strerror(errno.EMFILE)) as refused:
        sd.load_npy(path, mmap_mode="r")
    assert refused.value.filename == str(path)
