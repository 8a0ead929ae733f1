"""Checks of the files that a command is to write."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence

import click

from strided.cli.operands import STANDARD
from strided.files.atomic import path_taken, refuse_same, resolved
from strided.io.containers import ending_of, split_name


def check_target(target: str, sources: Sequence[str], *endings: str, overwrite: bool) -> None:
    """Refuse a file to write before there is anything to write.

    UsageError for the ending of another format; OSError if the file is one of the sources, exists and `overwrite` is
    false, or is in a folder that does not exist.
    """
    if target == STANDARD:
        return
    refuse_standard_output(target)
    refuse_source(target, sources)
    if ending_of(target) not in ("", *endings):
        raise click.UsageError(f"{target}: end the name in {endings[0]}, which is what is written")
    refuse_place(target, overwrite=overwrite)


def refuse_source(target: str, sources: Sequence[str]) -> None:
    """OSError if the target is one of the sources."""
    for status in statuses(sources):
        refuse_same(status, target)


def refuse_place(target: str, *, overwrite: bool) -> None:
    """OSError if the target exists and `overwrite` is false, or if its folder does not exist."""
    path, there = resolved(target)
    if there is not None and not overwrite:
        raise path_taken(target)
    if not os.path.isdir(os.path.dirname(path)):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), target)


def refuse_standard_output(target: str) -> None:
    """UsageError for a path to the file or pipe that standard output goes to, such as ``/dev/stdout``."""
    with contextlib.suppress(OSError):  # the target does not exist, or standard output is no file
        if os.path.samestat(os.stat(target), os.fstat(sys.stdout.fileno())):
            raise click.UsageError(
                f"{target} is where standard output goes: write {STANDARD} for it, or name another file"
            )


def statuses(sources: Sequence[str]) -> list[os.stat_result]:
    """The status of each file among the sources, without shapes and unreadable files."""
    found = []
    for source in sources:
        with contextlib.suppress(OSError):
            if source != STANDARD:
                found.append(os.stat(split_name(source)[0]))
            elif sys.stdin is not None:
                found.append(os.fstat(sys.stdin.fileno()))
    return found
