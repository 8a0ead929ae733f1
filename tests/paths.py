"""Where the files of the tests lie."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The project: the folder with pyproject.toml."""
DATA = ROOT / "tests" / "data"
"""Recorded files and cases."""


def unpack_dump(folder: Path) -> Path:
    """Unpack the recorded dump folder into a folder; that folder."""
    with zipfile.ZipFile(DATA / "dump" / "dump.zip") as archive:
        archive.extractall(folder)
    return folder


def copy_of_package(folder: Path) -> Path:
    """Copy the package under test, as sources alone, into a folder for ``PYTHONPATH``; that folder."""
    import strided  # here: the oracle's cases read this module, and know nothing of the package

    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(strided.__file__).parent, folder / "strided", ignore=without)
    return folder
