"""`strided explore`: a page that explains a layout or an array."""

from __future__ import annotations

import contextlib

import click

import strided
from strided.cli.operands import array_of, is_shape
from strided.cli.options import SHAPE_HELP, SOURCE_HELP, bitorder, kind, offset
from strided.escape import visible


@click.command(epilog=f"{SHAPE_HELP} {SOURCE_HELP}")
@click.argument("operands", nargs=-1, required=True, metavar="SHAPE | FILE [SHAPE] | DUMP:NAME")
@click.option("-o", "--out", required=True, type=click.Path(dir_okay=False), help="The page to write, as in page.html.")
@click.option("--to", "layout", metavar="LAYOUT", help="Another layout, shown beside it.")
@click.option("-f", "--force", is_flag=True, help="Overwrite the page.")
@offset
@bitorder
@kind
def explore(
    operands: tuple[str, ...], out: str, layout: str | None, force: bool, offset: int, bitorder: str, kind: str | None
) -> None:
    """Write a page that shows where the elements of an array lie.

    One HTML file, which needs no network: the array beside its memory, the sum behind each address, the values.
    """
    with contextlib.ExitStack() as stack:
        if len(operands) == 1 and is_shape(operands[0]):
            page = strided.explore(operands[0], to=layout)
        else:
            array, rest = array_of(operands, offset, bitorder, kind, stack)
            if rest:
                raise click.UsageError(f"one operand too many: {rest[0]!r}")
            page = strided.explore(array, to=layout)
        page.save(out, overwrite=force)
    click.echo(f"{visible(out)}: {len(page.html):,} characters")
