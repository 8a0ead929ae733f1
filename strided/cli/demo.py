"""`strided demo`: the main features on an embedded sample."""

from __future__ import annotations

import click

from strided import demo as demonstration


@click.command("demo")
def demo() -> None:
    """Read and convert a small tiled buffer."""
    click.echo(demonstration.run())
