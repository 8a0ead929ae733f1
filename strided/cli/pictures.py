"""Pictures that commands write to files."""

from __future__ import annotations

from collections.abc import Sequence

import click

from strided.cli.operands import STANDARD
from strided.cli.options import file_names
from strided.cli.targets import check_target
from strided.files.atomic import replaced

#: The option that names the picture's file.
svg = click.option(
    "--svg",
    "picture",
    metavar="FILE",
    shell_complete=file_names,
    help="Also write the picture to FILE; with -, it goes to standard output in place of the text.",
)


def check_picture(target: str | None, sources: Sequence[str], *, as_json: bool, overwrite: bool) -> None:
    """Refuse to write a picture over a source, or into the JSON on standard output; errors as for `check_target`."""
    if target is None:
        return
    check_target(target, sources, ".svg", overwrite=overwrite)
    if as_json and target == STANDARD:
        raise click.UsageError("--json and --svg - both go to standard output: give the picture a file")


def write_svg(text: str, target: str, *, force: bool) -> None:
    """Write a picture to a file, whole or not at all; FileExistsError if it exists, unless `force`."""
    if target == STANDARD:
        click.echo(text.encode())  # in UTF-8, whatever the encoding of the output
        return
    with replaced(target, overwrite=force) as file:
        file.write(text.encode())
