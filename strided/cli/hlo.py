"""`strided hlo`: the largest values of a module."""

from __future__ import annotations

import json
from pathlib import Path

import click

import strided
from strided import inspect
from strided.escape import visible


@click.command()
@click.argument("file")
@click.option("--top", type=click.IntRange(0), default=20, show_default=True, metavar="N", help="Values to list.")
@click.option("--padding", "by_padding", is_flag=True, help="Values with the most padding first.")
@click.option("--name", metavar="PATTERN", help="Only instructions of this name, as in 'fusion*'.")
@click.option("--opcode", metavar="PATTERN", help="Only these operations, as in 'copy*'.")
@click.option("--shape", metavar="SHAPE", help="Only results of this shape; of any layout if it names none.")
@click.option("--space", type=int, metavar="N", help="Only results in this memory space.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def hlo(
    file: str,
    top: int,
    by_padding: bool,
    name: str | None,
    opcode: str | None,
    shape: str | None,
    space: int | None,
    as_json: bool,
) -> None:
    """Show the largest values of an HLO module.

    Their sizes are given with and without padding, after a line on the entry computation.
    """
    if not Path(file).is_file():
        raise FileNotFoundError(2, "No such file", file)
    module = strided.read_hlo(Path(file))
    found = module.find(name, opcode=opcode, shape=shape, memory_space=space)
    values = inspect.largest(found, by_padding=by_padding)
    if as_json:
        report = {
            "module": module.name,
            "entry": module.entry.name,
            "parameters": [{"name": p.name, "shape": str(p.shape)} for p in module.parameters],
            "result": str(module.entry.root.shape),
            "values": [
                {"name": v.name, "opcode": v.opcode, "shape": str(v.shape), "bytes": v.byte_size}
                | {"unpadded_bytes": v.unpadded_byte_size}
                for v in values[:top]
            ],
        }
        click.echo(json.dumps(report, indent=2))
        return
    counts = f"{len(module.computations):,} computations, {len(module.instructions):,} instructions"
    click.echo(f"{visible(module.name)}: {counts}")
    entry = f"{len(module.parameters)} parameters, result {module.entry.root.shape}"
    click.echo(f"entry {visible(module.entry.name)}: {entry}")
    click.echo(f"\n{'bytes':>15} {'unpadded':>15} {'times':>6}  {min(top, len(values))} of {len(values):,} values")
    for v in values[:top]:
        click.echo(f"{v.byte_size:>15,} {v.unpadded_byte_size:>15,} {v.growth:>6.3g}  {visible(v.name)}  {v.shape}")
