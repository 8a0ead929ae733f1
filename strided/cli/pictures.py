"""Pictures that commands write to files."""

from __future__ import annotations

import click

from strided.cli.operands import STANDARD
from strided.cli.options import file_names
from strided.files.atomic import replaced

#: The option that names the file.
svg = click.option(
    "--svg",
    "picture",
    metavar="FILE",
    shell_complete=file_names,
    help="Write the picture to FILE, too; - is standard output, without the text.",
)


def write_svg(text: str, target: str, *, force: bool) -> None:
    """Write a picture to a file, whole or not at all; without `force` FileExistsError for one that exists."""
    if target == STANDARD:
        click.echo(text)
        return
    with replaced(target, overwrite=force) as file:
        file.write(text.encode())
