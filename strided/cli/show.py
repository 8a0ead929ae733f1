"""`strided show`: what are the values?"""

from __future__ import annotations

import contextlib

import click
import numpy as np

from strided import inspect
from strided.cli.operands import array_of
from strided.cli.options import INDEX_HELP, SHAPE_HELP, SOURCE_HELP, bitorder, kind, offset, progress, width


# An index may begin with a minus sign, which click would take for an option's.
@click.command(epilog=f"{SHAPE_HELP} {SOURCE_HELP} {INDEX_HELP}", context_settings={"ignore_unknown_options": True})
@click.argument("operands", nargs=-1, required=True, metavar="FILE [SHAPE] [INDEX] | DUMP:NAME [INDEX]")
@offset
@bitorder
@kind
def show(operands: tuple[str, ...], offset: int, bitorder: str, kind: str | None) -> None:
    """Show the values of an array.

    It lies in a raw buffer, a .npy file, a dump folder or a snapshot. Extremes and mean are shown too.
    """
    if wrong := [operand for operand in operands if operand.startswith("--")]:
        raise click.NoSuchOption(wrong[0])

    with contextlib.ExitStack() as stack:
        array, rest = array_of(operands, offset, bitorder, kind, stack)
        if len(rest) > 1:
            raise click.UsageError(f"one index too many: {rest[1]!r}")
        values = array[inspect.parse_index(rest[0])] if rest else array
        with np.printoptions(linewidth=max(20, width())):
            click.echo(str(values))
        if np.shape(values) or not isinstance(values, np.generic):
            with progress(values.size, "reading") as advance:
                summary = inspect.statistics(values, progress=advance)
            click.echo(f"\nshape {tuple(values.shape)}, {values.dtype.name}\n{summary}")
