"""`strided ls`: what is in a dump?"""

from __future__ import annotations

from pathlib import Path

import click

import strided
from strided.cli.operands import named_arrays
from strided.cli.options import kind
from strided.escape import visible


@click.command()
@click.argument("path", metavar="DIR | FILE", type=click.Path(exists=True))
@kind
def ls(path: str, kind: str | None) -> None:
    """List what is in a dump folder or file.

    For a folder, also what is missing, and why.
    """
    if Path(path).is_dir():
        click.echo(str(strided.open_dump(path, mapped=False)))
        return
    found = strided.read_dump(Path(path), kind, mapped=False)
    click.echo(str(found))
    arrays = named_arrays(found)
    for name in arrays:
        click.echo(visible(f"  {name}: {arrays.shape(name)}"))
