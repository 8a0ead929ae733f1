"""The arrays that a command's operands name."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

import strided
from strided.errors import StridedError, UnsupportedError
from strided.io import file_array

if TYPE_CHECKING:
    from strided.dumps.directory.programs import RunArrays

#: The name of standard input and output.
STANDARD = "-"


def array_of(
    operands: Sequence[str], offset: int, bitorder: str, kind: str | None, stack: contextlib.ExitStack
) -> tuple[Any, Sequence[str]]:
    """The array that the operands of `show` name, and the operands after it."""
    first, *rest = operands
    path = Path(first)
    if (first != STANDARD and not path.exists()) or path.is_dir():
        folder, colon, name = first.rpartition(":")
        if colon and Path(folder).is_dir():
            return _named(folder, strided.open_dump(folder, mapped=False), name), rest
        if colon and Path(folder).is_file():
            return _named(folder, named_arrays(strided.read_dump(Path(folder), kind, mapped=False)), name), rest
        if path.is_dir():
            raise click.UsageError(
                f"{first} is a folder; name an array in it as {first}:NAME ('strided ls' lists them)"
            )
        raise FileNotFoundError(2, "No such file", first)
    source, name = open_source(first, stack)
    shape = rest[0] if rest and is_shape(rest[0]) else None
    try:
        array = file_array.open_file(source, name, shape, offset=offset, bitorder=bitorder)
        return stack.enter_context(array), rest[shape is not None :]
    except UnsupportedError:
        # .npy files may hold types that XLA lacks.
        if shape is not None or path.suffix != ".npy" or (other := strided.load_npy(path)).dtype.kind == "V":
            raise
        return other, rest


def named_arrays(content: Any) -> RunArrays:
    """The values of a snapshot, named as in a dump folder; other contents have none."""
    from strided.dumps.directory.programs import RunArrays
    from strided.dumps.snapshots.snapshot import Snapshot

    values = [("argument", content.arguments), ("result", content.results)] if isinstance(content, Snapshot) else []
    return RunArrays({f"{what}{number}": (those, number) for what, those in values for number in range(len(those))})


def _named(place: str, arrays: Mapping[str, Any], name: str) -> Any:
    try:
        array = arrays[name]
    except KeyError as error:
        raise StridedError(f"{place}: {error.args[0]}") from None
    if not isinstance(array, strided.LayoutArray):
        raise StridedError(f"{place}:{name} is no array but {type(array).__name__}")
    return array


def is_shape(text: str) -> bool:
    """Whether a word is meant as a shape, right or wrong. Indices and usual file names look different."""
    return re.match(r"\s*(\{|\(?\s*[a-z]\w*\[)", text) is not None


def ending(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def open_source(name: str, stack: contextlib.ExitStack) -> tuple[BinaryIO, str]:
    """The open file, and its name in errors."""
    if name != STANDARD:
        return stack.enter_context(open(name, "rb")), name
    if sys.stdin.isatty():
        raise click.UsageError("standard input is a terminal: give a file, or pipe bytes in")
    return sys.stdin.buffer, "standard input"
