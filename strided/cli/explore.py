"""`strided explore`: a page that explains a layout, an array, a program, a dump, or where two runs differ."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import strided
from strided.cli.diff import pair_of
from strided.cli.operands import STANDARD, Reading, is_dump_folder, only_array_of, with_layout, with_reading
from strided.cli.options import (
    SHAPE_HELP,
    SOURCE_HELP,
    atol,
    check_tolerance,
    file_names,
    force,
    module_number,
    rtol,
    ulp,
)
from strided.cli.programs import program_named
from strided.cli.targets import check_target
from strided.errors import DumpError
from strided.escape import visible
from strided.io.containers import split_name
from strided.io.file_array import FileArray
from strided.io.raw_format import PLAIN
from strided.layout.parser import is_shape

if TYPE_CHECKING:
    from strided.explorer.page import Page

_OF_BYTES = "--offset, --bitorder and --allow-excess go with a file of raw bytes"


@click.command(epilog=f"{SHAPE_HELP} {SOURCE_HELP}")
@click.argument(
    "operands",
    nargs=-1,
    required=True,
    metavar="SHAPE | FILE [SHAPE] | DIR[:NAME] | HLO | REPORT",
    shell_complete=file_names,
)
@click.option(
    "-o",
    "--out",
    required=True,
    metavar="FILE",
    shell_complete=file_names,
    help="The page to write, as in page.html; - is standard output.",
)
@click.option("--to", "layout", metavar="LAYOUT", help="Another layout, to show beside the first.")
@click.option(
    "--against",
    metavar="B",
    shell_complete=file_names,
    help="Another run: a dump folder or an array; the page shows what differs.",
)
@click.option("--against-shape", metavar="SHAPE", help="The shape of B, if it is not that of FILE.")
@rtol
@atol
@ulp
@force
@with_reading
@module_number
def explore(
    operands: Sequence[str],
    out: str,
    layout: str | None,
    against: str | None,
    against_shape: str | None,
    rtol: float,
    atol: float,
    ulp: int | None,
    force: bool,
    reading: Reading,
    module_number: int | None,
) -> None:
    """Write a page that explains a layout, an array, a program or a dump.

    The page is one HTML file that needs no network. It shows an array beside its memory, with the sum behind each
    address and the values; or the instructions of an HLO module with its memory; the compiler's report on memory; the
    arrays and programs of a dump folder or a snapshot; or, with --against, where two arrays or dump folders differ.
    """
    check_target(out, [*operands, *([] if against is None else [against])], ".html", ".htm", overwrite=force)
    if against is None and (rtol or atol or ulp is not None or against_shape):
        raise click.UsageError("--rtol, --atol, --ulp and --against-shape go with --against")
    check_tolerance(rtol, atol, ulp)
    if against is not None and layout is not None:
        raise click.UsageError("--to shows one array in another layout: leave --against out")
    if module_number is not None and (against is not None or not _is_program(operands, reading.kind)):
        raise click.UsageError("--module goes with one file: HLO text")
    if against is None:
        page = _page_of_one(operands, layout, module_number, reading)
    else:
        a, b = pair_of(_operands_of_two(operands, against, against_shape), reading)
        page = strided.explore(a, against=b, rtol=rtol, atol=atol, max_ulp=ulp)
    if out == STANDARD:
        click.echo(page.html.encode())  # in UTF-8, as the page declares, whatever the encoding of the output
        return
    page.save(out, overwrite=force)
    click.echo(f"{visible(out)}: {len(page.html.encode()):,} bytes")


def _operands_of_two(operands: Sequence[str], against: str, against_shape: str | None) -> list[str]:
    """The operands that `diff` would take: A and B, each with its shape if it has one."""
    if against_shape is None and len(operands) > 2 and all(map(is_shape, operands[-2:])):
        *operands, against_shape = operands  # given after B
    return [*operands, against, *([against_shape] if against_shape else [])]


def _page_of_one(operands: Sequence[str], layout: str | None, module_number: int | None, reading: Reading) -> Page:
    """The page of a shape, a program, a dump or an array."""
    source = operands[0]
    is_bytes_option = reading.raw != PLAIN
    if len(operands) == 1 and is_shape(source) and not os.path.exists(source):
        if reading.kind is not None or is_bytes_option:
            raise click.UsageError(f"{source} is a shape alone: {_OF_BYTES}, --kind with a file")
        return strided.explore(source, to=layout)
    if len(operands) == 1 and (program := _program(source, reading.kind, module_number)) is not None:
        if layout is not None:
            raise click.UsageError(f"--to goes with a shape or an array, which {source} is not")
        if is_bytes_option:
            raise click.UsageError(f"{source} is no file of raw bytes: {_OF_BYTES}")
        return strided.explore(program)
    array = only_array_of(operands, reading)
    return strided.explore(array if isinstance(array, FileArray) else with_layout(array, source), to=layout)


def _is_program(operands: Sequence[str], kind: str | None) -> bool:
    from strided.dumps.detect import recognise

    return len(operands) == 1 and Path(operands[0]).is_file() and (kind or recognise(operands[0])) == "hlo"


def _program(name: str, kind: str | None, number: int | None) -> Any:
    """What an operand names: a dump, a program, a snapshot, or a report on memory; None for anything else."""
    from strided.dumps.detect import recognise

    path, label = (name, None) if name == STANDARD else split_name(name)
    if is_dump_folder(path):
        dump = strided.open_dump(path)
        return dump if label is None else program_named(dump, label)
    if not Path(name).is_file():
        return None
    kind = kind or recognise(name)
    if kind == "hlo":
        return strided.read_hlo(Path(name), index=number)
    if kind == "snapshot":
        return strided.read_snapshot(name)
    if kind in ("allocations", "memory report"):
        return strided.memory_report(Path(name))
    try:
        return strided.memory_report(Path(name)) if kind == "text" else None
    except DumpError:
        return None  # text that is no out-of-memory error
