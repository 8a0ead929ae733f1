"""`strided identify`: which layout explains these bytes?"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any, BinaryIO

import click
import numpy as np

from strided import inspect, load_npy
from strided.cli.file_kinds import is_npy
from strided.cli.operands import (
    STANDARD,
    Reading,
    array_of,
    bytes_of,
    mapped,
    open_operand,
    shaped,
    with_layout,
)
from strided.cli.options import SOURCE_HELP, allow_excess, as_json, file_names, kind, offset, progress, width
from strided.files.scratch import scratch_file
from strided.io.containers import chosen, ending_of, open_container
from strided.io.file_array import FileArray, open_file
from strided.io.raw_format import PLAIN, NoShapeError
from strided.io.spooling import expanded

_KNOWN_HELP = (
    "SHAPE is what is known: 'bf16[17,300]', '[17,300]', 'bf16', 'bf16[17,?]', or a whole shape with a layout, which "
    "is then checked. The exit code is 0 if the evidence decides, 1 if it does not, and 2 for an error."
)


@click.command(epilog="\n\n".join((_KNOWN_HELP, SOURCE_HELP)))
@click.argument("file", shell_complete=file_names)
@click.argument("shape", required=False)
@click.option(
    "--like",
    metavar="REF",
    shell_complete=file_names,
    help="The values expected, in any precision: a .npy, FILE:NAME, ...",
)
@click.option("--like-index", metavar="INDEX", help="The part of the array that REF is, as in '4:12, 100:'.")
@click.option("--top", type=click.IntRange(1), default=3, show_default=True, metavar="N", help="Candidates to list.")
@as_json
@offset
@allow_excess
@kind
def identify(
    file: str,
    shape: str | None,
    like: str | None,
    like_index: str | None,
    top: int,
    as_json: bool,
    offset: int,
    allow_excess: bool,
    kind: str | None,
) -> None:
    """Find the layout of raw bytes.

    Only a sample of the file is read, or with --like as much as certainty takes. If FILE states its shape, that is
    checked, unless SHAPE is given.
    """
    shaped([file] if shape is None else [file, shape])  # UsageError if they are in the wrong order
    if like_index is not None and like is None:
        raise click.UsageError("--like-index goes with --like")
    key = None if like_index is None else inspect.parse_index(like_index)
    with contextlib.ExitStack() as stack:
        reading = Reading(PLAIN, kind, stack)
        values = None if like is None else _values(like, reading)
        buffer, own = _buffer(file, offset, reading)
        with progress(0 if values is None else int(np.size(values)), "comparing") as advance:
            found = inspect.identify(
                buffer,
                shape or own,
                like=values if key is None else (key, values),
                offset=offset,
                limit=top,
                allow_excess=allow_excess,
                progress=advance,
            )
    click.echo(json.dumps(found.to_dict(), indent=2) if as_json else found.text(max(20, width())))
    sys.stdout.flush()
    sys.exit(0 if found.best is not None else 1)


def _values(name: str, reading: Reading) -> Any:
    """The expected values."""
    if ending_of(name) == ".npy":
        return load_npy(name, mmap_mode="r")
    try:
        return np.asarray(mapped(array_of([name], reading)[0]))
    except NoShapeError:
        raise click.UsageError(
            f"--like takes values, not raw bytes: let 'strided convert' write {name} as .npy"
        ) from None


def _buffer(name: str, offset: int, reading: Reading) -> tuple[Any, str | None]:
    """The bytes to identify, or the path of a file of them; and the shape that the file states, if any."""
    if name != STANDARD and (os.path.isdir(name) or not os.path.exists(name)):  # a pipe is opened below
        array = with_layout(array_of([name], reading)[0], name)
    else:
        given, label = open_operand(name, reading.stack)
        file = expanded(given, label, reading.stack.enter_context(scratch_file()))
        found = None if offset else _array_in(file, label, reading.stack)
        if found is None:
            return (name if file is given and name != STANDARD else bytes_of(file, label)), None
        array = found.mapped()
    return array.buffer, str(array.xla_shape)


def _array_in(file: BinaryIO, label: str, stack: contextlib.ExitStack) -> FileArray | None:
    """The only array in a container or ``.npy`` file; None for raw bytes."""
    if (container := open_container(file, label)) is not None:
        return stack.enter_context(container)[chosen(container, None, label)]
    return stack.enter_context(open_file(file, label, None)) if is_npy(file) else None
