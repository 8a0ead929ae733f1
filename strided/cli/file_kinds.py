"""What a file holds: raw bytes, arrays in another library's format, or a part of a dump."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from strided.errors import DumpError
from strided.files.magic import HEAD_BYTES, NPY_MAGIC, Format, format_of

if TYPE_CHECKING:
    from strided.dumps.directory.programs import RunArrays

#: Kinds of files that `strided memory` may read.
ABOUT_MEMORY = ("memory report", "text")


def refuse_empty(path: str) -> None:
    """UsageError for a file that is empty, or is so once decompressed. Other errors as for `open_head`."""
    from strided.dumps.source import open_head

    if os.path.isfile(path) and not open_head(path, 1):
        raise click.UsageError(f"{path} is empty")


def format_of_file(name: str) -> Format | None:
    """The format of a file, by its first bytes; None for raw bytes."""
    with open(name, "rb") as file:
        return format_of(file.read(HEAD_BYTES), os.path.getsize(name))


def is_npy(file: BinaryIO) -> bool:
    """Whether a file begins with the magic string of ``.npy`` files."""
    file.seek(0)
    return file.read(len(NPY_MAGIC)) == NPY_MAGIC


def kind_of_dump(file: BinaryIO, origin: Any) -> str | None:
    """What a file of a dump holds; None for a format of another library."""
    from strided.dumps.detect import recognise

    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    if format_of(file.read(HEAD_BYTES), size) is not None:
        return None
    found = recognise(origin)
    return "snapshot" if isinstance(origin, Path) and is_rest_of_snapshot(origin.name, found) else found


def is_rest_of_snapshot(name: str, kind: str) -> bool:
    """Whether a file of no known kind has a snapshot's name, with or without its prefix ``module_``.

    Only its name shows that a truncated file is a snapshot; the reader then says what is wrong.
    """
    from strided.dumps.directory.names import parse_name

    found = parse_name(name) or parse_name(f"module_{name}")
    return kind in ("binary", "text") and found is not None and found.kind == "snapshot"


def is_about_memory(origin: Any) -> bool:
    """Whether a file (or its bytes) without HLO is one that `strided memory` reads."""
    from strided.memory.material import material_of

    try:
        found = material_of(os.fspath(origin) if isinstance(origin, Path) else origin)
    except DumpError:
        return False
    return any(one is not None for one in (found.text, found.limits, found.assignment))


def named_arrays(content: Any) -> RunArrays:
    """The values of a snapshot, named as in a dump folder; empty for other contents."""
    from strided.dumps.directory.programs import RunArrays, numbered_places
    from strided.dumps.snapshots.snapshot import Snapshot

    if not isinstance(content, Snapshot):
        return RunArrays({})
    return RunArrays(numbered_places("argument", content.arguments) | numbered_places("result", content.results))
