"""`strided copies`: which copies in a program only change layouts?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

import strided
from strided.cli.options import as_json, file_names, module_number, width
from strided.cli.programs import module_of, programs_in, refuse_number
from strided.errors import UnsupportedError
from strided.io.containers import chosen
from strided.tpu import GENERATIONS

if TYPE_CHECKING:
    from strided.dumps.directory.programs import Program
    from strided.dumps.hlo.module import Module


@click.command()
@click.argument("source", metavar="FILE | DIR[:PROGRAM] | -", shell_complete=file_names)
@click.option("--top", type=click.IntRange(0), metavar="N", help="Copies to list: by default 10, in JSON all.")
@click.option("--verify", is_flag=True, help="Try the cures with the TPU compiler. Needs jax and libtpu, but no TPU.")
@click.option(
    "--before",
    type=click.Path(exists=True, dir_okay=False),
    help="For --verify: the module before optimizations, if it does not lie beside FILE under its usual name.",
)
@click.option("--generation", type=click.Choice(GENERATIONS), show_default="v5e", help="For --verify.")
@module_number
@as_json
def copies(
    source: str,
    top: int | None,
    verify: bool,
    before: str | None,
    generation: str | None,
    module_number: int | None,
    as_json: bool,
) -> None:
    """Show which copies in a program only change layouts.

    FILE is an HLO module after optimizations, as text or proto; - is standard input. Of a dump folder, its program is
    read. Each copy is listed with the bytes it moves, the instruction whose layout forces it, and the layout of an
    argument or a result that would avoid it.
    """
    if generation is not None and not (verify or before is not None):
        raise click.UsageError("--generation names the TPU that --verify compiles for: give both or neither")
    refuse_number(module_number, [source])
    programs = programs_in(source)
    program = programs[chosen(programs, None, source, what="program")]
    module = module_of(program, module_number)
    if verify or before is not None:
        earlier = _module_before(program, before)
        found = strided.layout_copies(module, before=earlier, generation=generation or "v5e", top=top)
    else:
        found = strided.layout_copies(module)
    if as_json:
        click.echo(json.dumps(found.to_dict(top), indent=2))
    else:
        click.echo(found.report(10 if top is None else top, width=width()))


def _module_before(program: Program | str | bytes, given: str | None) -> Module:
    """The module before optimizations: the file given, or else the one of the same dump."""
    if given is not None:
        return strided.read_hlo(Path(given))
    found: Module | None = None
    if isinstance(program, bytes):
        name = "standard input"
    elif isinstance(program, str):
        name, path = program, Path(program)
        before = path.with_name(path.name.replace("after_optimizations", "before_optimizations"))
        found = strided.read_hlo(before) if before != path and before.exists() else None
    else:
        name, found = f"those of {program.label}", program.module_before
    if found is None:
        raise UnsupportedError(f"no module before optimizations lies beside {name}: name it with --before")
    return found
