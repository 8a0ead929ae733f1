"""`strided explore`: a page that explains a layout, an array or a module."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import click

import strided
from strided.cli.operands import Reading, array_of, with_layout
from strided.cli.options import SHAPE_HELP, SOURCE_HELP, allow_excess, bitorder, file_names, kind, offset
from strided.errors import DumpError
from strided.escape import visible
from strided.io.file_array import FileArray
from strided.layout.parser import is_shape


@click.command(epilog=f"{SHAPE_HELP} {SOURCE_HELP}")
@click.argument(
    "operands",
    nargs=-1,
    required=True,
    metavar="SHAPE | FILE [SHAPE] | DUMP:NAME | HLO | REPORT",
    shell_complete=file_names,
)
@click.option("-o", "--out", required=True, type=click.Path(dir_okay=False), help="The page to write, as in page.html.")
@click.option("--to", "layout", metavar="LAYOUT", help="Another layout, shown beside it.")
@click.option("-f", "--force", is_flag=True, help="Overwrite the page.")
@offset
@bitorder
@allow_excess
@kind
def explore(
    operands: tuple[str, ...],
    out: str,
    layout: str | None,
    force: bool,
    offset: int,
    bitorder: str,
    allow_excess: bool,
    kind: str | None,
) -> None:
    """Write a page that explains a layout, an array or a module.

    One HTML file, which needs no network: an array beside its memory, the sum behind each address, the values; or the
    instructions of an HLO module with its memory; or a report of the compiler on memory.
    """
    with contextlib.ExitStack() as stack:
        if len(operands) == 1 and is_shape(operands[0]):
            page = strided.explore(operands[0], to=layout)
        elif len(operands) == 1 and (program := _program(operands[0])) is not None:
            page = strided.explore(program)
        else:
            array, rest = array_of(operands, Reading(offset, bitorder, kind, allow_excess, stack))
            if rest:
                raise click.UsageError(f"one operand too many: {rest[0]!r}")
            page = strided.explore(
                array if isinstance(array, FileArray) else with_layout(array, operands[0]), to=layout
            )
        page.save(out, overwrite=force)
    click.echo(f"{visible(out)}: {len(page.html):,} characters")


def _program(name: str) -> Any:
    """The module in a file, or the report on a program's memory; None for another file."""
    from strided.dumps.detect import recognise

    if not Path(name).is_file():
        return None
    kind = recognise(name)
    if kind == "hlo":
        return strided.read_hlo(Path(name))
    if kind in ("allocations", "memory report"):
        return strided.memory_report(Path(name))
    try:
        return strided.memory_report(Path(name)) if kind == "text" else None
    except DumpError:
        return None  # no text of an error that names memory
