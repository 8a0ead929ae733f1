"""`strided padding`: what lies in the padding?"""

from __future__ import annotations

import json
import os

import click

from strided import inspect
from strided.cli.file_kinds import format_of_file
from strided.cli.operands import (
    STANDARD,
    Reading,
    only_array_of,
    with_layout,
    with_reading,
)
from strided.cli.options import (
    SHAPE_HELP,
    SOURCE_HELP,
    as_json,
    file_names,
    force,
    progress,
    width,
)
from strided.cli.targets import refuse_place, refuse_source, refuse_standard_output
from strided.diagnosis.padding.scrub import scrub_file
from strided.escape import visible
from strided.io.containers import ending_of
from strided.io.convert_file import CONTAINERS, FOREIGN_ENDINGS


@click.command(epilog="\n\n".join((SHAPE_HELP, SOURCE_HELP)))
@click.argument("operands", nargs=-1, required=True, metavar="FILE [SHAPE]", shell_complete=file_names)
@click.option(
    "--scrub",
    "out",
    metavar="OUT",
    shell_complete=file_names,
    help="Write a copy of FILE (raw bytes) with its padding set to zero.",
)
@force
@as_json
@with_reading
def padding(
    operands: tuple[str, ...],
    out: str | None,
    force: bool,
    as_json: bool,
    reading: Reading,
) -> None:
    """Show what the padding of an array holds.

    It may be zeros, a constant, NaN, old data of the array, other numbers, or noise. A map shows where.
    """
    if out is not None:
        _check_names(operands[0], out)
        refuse_place(out, overwrite=force)
    array = with_layout(only_array_of(operands, reading), operands[0])
    if out is not None and (len(operands) == 1 or format_of_file(operands[0]) is not None):
        raise click.UsageError(f"--scrub takes a file of raw bytes and its shape, which {operands[0]} is not")
    with progress(array.spec.slots - array.size, "reading") as advance:
        report = inspect.padding(array, progress=advance)
    if out is not None:
        written = scrub_file(operands[0], out, array.xla_shape, reading.raw, overwrite=force)
    click.echo(json.dumps(report.to_dict(), indent=2) if as_json else report.text(width()))
    if out is not None:
        click.echo(f"{visible(out)}: {written:,} bytes, zeros in its padding", err=as_json)


def _check_names(source: str, out: str) -> None:
    """UsageError if the names alone show that the source cannot be copied to OUT."""
    if STANDARD in (source, out):
        raise click.UsageError("--scrub copies a file of raw bytes to another file: give both by name, not as -")
    if os.path.exists(source) and not (os.path.isfile(source) or os.path.isdir(source)):
        raise click.UsageError(f"--scrub reads a file twice, and {source} is no regular file")
    if ending_of(out) in (".npy", *CONTAINERS, *FOREIGN_ENDINGS):
        raise click.UsageError(f"{out}: --scrub writes raw bytes: use another ending, such as .bin")
    refuse_standard_output(out)
    refuse_source(out, [source])
