"""A working directory that was removed: errors name what was to be found from there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import strided as sd
from tests.commands import run_command

if os.name == "nt":
    pytest.skip("a working directory cannot be removed there", allow_module_level=True)


@pytest.fixture
def lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory that has been removed; beside it lie a file and a folder."""
    (tmp_path / "x.bin").write_bytes(bytes(8))
    (tmp_path / "dump").mkdir()
    (tmp_path / "lost").mkdir()
    monkeypatch.chdir(tmp_path / "lost")
    (tmp_path / "lost").rmdir()


@pytest.mark.usefixtures("lost")
@pytest.mark.parametrize(
    ("use", "path"),
    [
        (lambda path: sd.save_npy(path, np.zeros(2)), "y.npy"),
        (lambda path: sd.convert_file("../x.bin", "u8[8]", path), "y.zarr"),
        (lambda path: sd.open(path, "u8[8]"), "../x.bin"),
        (sd.open_dump, "../dump"),
    ],
)
def test_what_lies_nowhere_is_named(use: Callable[[str], object], path: str) -> None:
    with pytest.raises(FileNotFoundError, match=r"the working directory, .*, has been removed") as caught:
        use(path)
    assert str(caught.value.filename) == path


@pytest.mark.usefixtures("lost")
def test_a_command_names_it(capsys: pytest.CaptureFixture[str]) -> None:
    said = "strided: x.html: the working directory, which the path is relative to, has been removed\n"
    assert run_command(capsys, "explore", "f32[3]", "-o", "x.html") == (2, "", said)
