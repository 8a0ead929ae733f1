"""`strided padding`: what lies in the padding?"""

from __future__ import annotations

import contextlib
import json

import click

import strided
from strided import inspect
from strided.cli.operands import array_of
from strided.cli.options import SHAPE_HELP, bitorder, kind, offset, progress, width
from strided.diagnosis.padding.scrub import scrub_file
from strided.escape import visible
from strided.layout.parser import is_shape


@click.command(epilog=f"{SHAPE_HELP} FILE holds raw bytes; DUMP is a dump folder or a snapshot.")
@click.argument("operands", nargs=-1, required=True, metavar="FILE SHAPE | DUMP:NAME")
@click.option("--scrub", "out", metavar="OUT", help="Write a copy of FILE with zeros in its padding.")
@click.option("-f", "--force", is_flag=True, help="Overwrite OUT.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@offset
@bitorder
@kind
def padding(
    operands: tuple[str, ...],
    out: str | None,
    force: bool,
    as_json: bool,
    offset: int,
    bitorder: str,
    kind: str | None,
) -> None:
    """Say what the padding of an array holds.

    Zeros, a constant, NaN, old data of the array, other numbers, or noise. A map shows where.
    """
    with contextlib.ExitStack() as stack:
        match operands:
            case (file, shape) if is_shape(shape):
                array = strided.open(file, shape, offset=offset, bitorder=bitorder)
            case (name,) if out is None:
                array, _ = array_of(operands, offset, bitorder, kind, stack)
                if not isinstance(array, strided.LayoutArray):
                    raise click.UsageError(f"give the shape of {name}: its padding depends on the layout")
            case _:
                raise click.UsageError("give a FILE and its SHAPE, or, without --scrub, one DUMP:NAME")
        with progress(array.spec.slots - array.size, "reading") as advance:
            report = inspect.padding(array, progress=advance)
        if out is not None:
            written = scrub_file(operands[0], out, array.xla_shape, offset=offset, bitorder=bitorder, overwrite=force)
    click.echo(json.dumps(report.to_dict(), indent=2) if as_json else report.text(width()))
    if out is not None:
        click.echo(f"{visible(out)}: {written:,} bytes, zeros in its padding", err=as_json)
