"""The programs that a command's operands name: those of a dump folder, or the one in a file or standard input."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click

import strided
from strided.cli.file_kinds import is_about_memory, refuse_empty
from strided.cli.operands import STANDARD, is_dump_folder, open_operand
from strided.errors import DumpError
from strided.io.containers import chosen, split_name

if TYPE_CHECKING:
    from strided.dumps.directory.dump import Dump
    from strided.dumps.directory.programs import Program
    from strided.dumps.hlo.module import Module


def standard_input() -> bytes:
    """All of standard input. UsageError for a terminal, and for nothing at all."""
    with contextlib.ExitStack() as stack:
        file, label = open_operand(STANDARD, stack)
        if not (content := file.read()):
            raise click.UsageError(f"{label} is empty")
        return content


def programs_in(source: str) -> Mapping[str, Program | str | bytes]:
    """The programs of a dump folder by name (for ``DIR:NAME`` only that one); or a file, or standard input's bytes."""
    if source == STANDARD:
        return {"": standard_input()}
    path, name = split_name(source)
    if not os.path.isdir(path):
        return {"": source}
    if (program := program_of(source)) is not None:
        return {program.label: program}
    labels = strided.open_dump(path, mapped=False).labels
    return labels or {chosen(labels, name, path, what="program"): ""}  # which raises


def program_of(source: str) -> Program | None:
    """The program that ``DIR:NAME`` names; None for anything else. StridedError if the folder has none of that name."""
    path, name = split_name(source)
    if name is None or not is_dump_folder(path):
        return None
    dump = strided.open_dump(path, mapped=False)
    return program_named(dump, name) or dump.labels[chosen(dump.labels, name, path, what="program")]


def program_named(dump: Dump, name: str) -> Program | None:
    """The program with this label, with or without its number; None if there is none."""
    return dump.labels.get(name) or next((program for program in dump.programs if program.label == name), None)


def module_of(program: Program | str | bytes, number: int | None) -> Module:
    """The latest module of a dumped program, or module `number` of a file."""
    if isinstance(program, (str, bytes)):
        return _module_in(program, number)
    module = program.latest_module
    if module is None:
        raise DumpError(f"no module of the program {program.label} was dumped", path=program.files[0].path.parent)
    return module


def refuse_number(number: int | None, sources: Sequence[str]) -> None:
    """UsageError if a module's number is given and all sources are folders."""
    if number is not None and all(source != STANDARD and os.path.isdir(split_name(source)[0]) for source in sources):
        folder, name = split_name(sources[0])
        advice = (
            f"in a folder, name the program, as in {folder}:NAME"
            if name is None
            else "the name says which: leave it out"
        )
        raise click.UsageError(f"--module picks a module of a text file; {advice}")


def _module_in(origin: str | bytes, number: int | None) -> Module:
    """The module in a file, or in bytes. StridedError for a file of another kind."""
    from strided.dumps.detect import recognise
    from strided.dumps.hlo.text import NO_COMPUTATION

    label = "standard input" if isinstance(origin, bytes) else origin
    if isinstance(origin, str):
        refuse_empty(origin)
    kind = recognise(origin)
    if kind in ("npy", "npz", "safetensors") or (kind == "binary" and not label.endswith((".pb", ".pb.gz"))):
        raise click.UsageError(f"{label} holds no HLO, as text or proto; 'strided show' reads arrays")
    if kind == "snapshot":
        return _module_in_snapshot(origin, number, label)
    try:
        return strided.read_hlo(origin, index=number)
    except DumpError as error:
        if (error.message == NO_COMPUTATION or kind == "memory report") and is_about_memory(origin):
            raise click.UsageError(f"{label} is about memory, and holds no HLO: 'strided memory' reads it") from None
        raise


def _module_in_snapshot(origin: str | bytes, number: int | None, label: str) -> Module:
    """The only module of a snapshot. UsageError for any number but 0, DumpError if it has no module."""
    if number:
        raise click.UsageError(f"{label} is a snapshot, which holds one module: leave --module out")
    module = strided.read_snapshot(origin, mapped=False).module
    if module is None:
        raise DumpError("a snapshot without a module", path=label)
    return module
