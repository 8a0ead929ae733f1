"""Inventories for intersphinx without a network, from the names that `inventories.txt` lists by hand.

A block of the list begins with the name of a project and the address of its documentation. The other lines are a role
of the Python domain, a page, and the names on it; `$` in the page stands for the name. The anchor is the name, too, or
what follows in `NAME=ANCHOR`: so docstrings may say `ndarray`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path

LIST = Path(__file__).with_suffix(".txt")
_HEAD = (
    "# Sphinx inventory version 2\n# Project: {}\n# Version: \n# The remainder of this file is compressed using zlib.\n"
)


def blocks() -> Iterator[tuple[str, str, list[str]]]:
    """Each project: its name, its address, and the lines of its inventory."""
    for block in LIST.read_text(encoding="utf-8").strip().split("\n\n"):
        (project, address), *rows = (line.split() for line in block.splitlines())
        yield project, address, [_line(role, page, entry) for role, page, *entries in rows for entry in entries]


def _line(role: str, page: str, entry: str) -> str:
    name, _, anchor = entry.partition("=")
    return f"{name} py:{role} 1 {page.replace('$', anchor or name)}#{anchor or name} -\n"


def write(folder: Path) -> dict[str, tuple[str, str]]:
    """Write an inventory for each project; return what `intersphinx_mapping` wants."""
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for project, address, lines in blocks():
        path = folder / f"{project}.inv"
        path.write_bytes(_HEAD.format(project).encode() + zlib.compress("".join(lines).encode()))
        mapping[project] = (address, str(path))
    return mapping
