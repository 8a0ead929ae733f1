"""Where the files of the tests lie."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
"""The project: the folder with pyproject.toml."""
DATA = ROOT / "tests" / "data"
"""Recorded files and cases."""
