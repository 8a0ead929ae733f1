"""`strided info`: what is this shape?"""

from __future__ import annotations

import json

import click

import strided
from strided import inspect
from strided.cli.options import SHAPE_HELP, width


@click.command(epilog=SHAPE_HELP)
@click.argument("shape", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--at", "index", metavar="INDEX", help="Explain where one element lies, as in --at 9,200.")
@click.option("--byte", type=int, metavar="N", help="Explain what lies at a byte of the buffer.")
@click.option("--plan", nargs=2, metavar="A B", help="Show how a buffer of shape A is converted to layout B.")
def info(shape: str | None, as_json: bool, index: str | None, byte: int | None, plan: tuple[str, str] | None) -> None:
    """Show size, padding and tiles of a shape.

    A picture shows where the elements lie.
    """
    if plan is not None:
        if shape is not None:
            raise click.UsageError("--plan takes two shapes of its own; leave the other one out")
        click.echo(str(inspect.plan_between(*plan)))
        return
    if shape is None:
        raise click.UsageError("missing argument 'SHAPE'")
    parsed = strided.parse(shape)
    if isinstance(parsed, strided.Layout):
        raise click.UsageError(f"{parsed} is a layout alone; write the shape with it, as in 'f32[3,5]{parsed}'")
    if index is not None or byte is not None:
        at = inspect.parse_index(index or "")
        click.echo(str(inspect.explain(parsed, at) if byte is None else inspect.explain_byte(parsed, byte)))
    elif as_json:
        click.echo(json.dumps(inspect.facts(parsed), indent=2))
    else:
        click.echo(inspect.describe(parsed, width=width()))
        drawn = inspect.captioned_picture(parsed, width=width())
        if drawn:
            click.echo("\n" + drawn)
