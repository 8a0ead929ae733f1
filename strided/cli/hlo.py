"""`strided hlo`: the largest values of a module."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from strided import inspect
from strided.cli.options import as_json, file_names, fitted, module_number
from strided.cli.programs import module_of, programs_in, refuse_number
from strided.escape import visible
from strided.wording import counted, times_text

if TYPE_CHECKING:
    from strided.dumps.hlo.largest import Value
    from strided.dumps.hlo.module import Module


@click.command()
@click.argument("source", metavar="FILE | DIR[:PROGRAM] | -", shell_complete=file_names)
@click.option("--top", type=click.IntRange(0), default=20, show_default=True, metavar="N", help="Values to list.")
@click.option("--padding", "by_padding", is_flag=True, help="Values with the most padding first.")
@click.option("--name", metavar="PATTERN", help="Only instructions of this name, as in 'fusion*'.")
@click.option("--opcode", metavar="PATTERN", help="Only these operations, as in 'copy*'.")
@click.option("--shape", metavar="SHAPE", help="Only results of this shape, in any layout if SHAPE has none.")
@click.option("--space", metavar="hbm|vmem|N", help="Only results in this memory space.")
@click.option("--fused", is_flag=True, help="List instructions inside fusions, too; their values take no memory.")
@module_number
@as_json
def hlo(
    source: str,
    top: int,
    by_padding: bool,
    name: str | None,
    opcode: str | None,
    shape: str | None,
    space: str | None,
    fused: bool,
    module_number: int | None,
    as_json: bool,
) -> None:
    """Show the largest values of an HLO module.

    Each is listed with its size with and without padding, after a line on the entry computation. Of a dump folder, the
    module after optimizations is read; if it holds several programs, their names are listed. - is standard input.
    """
    from strided.dumps.hlo.instruction import memory_spaces
    from strided.memory.memory_report import space_number

    number = None if space is None else space_number(space)
    refuse_number(module_number, [source])
    programs = programs_in(source)
    if len(programs) > 1:
        names = [f"{source}:{name}" for name in programs]
        click.echo(json.dumps({"programs": names}, indent=2) if as_json else "\n".join(map(visible, names)))
        return
    module = module_of(next(iter(programs.values())), module_number)
    found = module.find(name, opcode=opcode, shape=shape, memory_space=number)
    if not fused:
        fused_names = _fused_computations(module)
        found = [instruction for instruction in found if instruction.computation.name not in fused_names]
    values = inspect.largest(found, by_padding=by_padding)
    if number is not None:  # of a tuple, only the parts in this memory space
        values = [value for value in values if number in memory_spaces(value.shape)]
    click.echo(json.dumps(_as_dict(module, values[:top]), indent=2) if as_json else _as_text(module, values, top))


def _as_dict(module: Module, values: Sequence[Value]) -> dict[str, Any]:
    return {
        "module": module.name,
        "entry": module.entry.name,
        "parameters": [{"name": p.name, "shape": str(p.shape)} for p in module.parameters],
        "result": str(module.entry.root.shape),
        "values": [
            {"name": v.name, "opcode": v.opcode, "shape": str(v.shape), "bytes": v.byte_size}
            | {"unpadded_bytes": v.unpadded_byte_size}
            for v in values
        ],
    }


def _as_text(module: Module, values: Sequence[Value], top: int) -> str:
    from strided.dumps.hlo.module import LONGEST_SHAPE, counts_in_words

    result = visible(str(module.entry.root.shape), LONGEST_SHAPE)
    parameters = counted(len(module.parameters), "parameter")
    rows = (
        f"{v.byte_size:>15,} {v.unpadded_byte_size:>15,} {times_text(v.growth):>6}  {visible(v.name)}  {v.shape}"
        for v in values[:top]
    )
    return "\n".join(
        [
            f"{visible(module.name)}: {', '.join(counts_in_words(module))}",
            fitted(f"entry {visible(module.entry.name)}: {parameters}, result {result}"),
            f"\n{'bytes':>15} {'unpadded':>15} {'times':>6}  {min(top, len(values))} of {len(values):,} values",
            *rows,
        ]
    )


def _fused_computations(module: Module) -> set[str]:
    """The names of the computations that fusions call, directly or not."""
    callers = [instruction for instruction in module.instructions if instruction.opcode == "fusion"]
    found: set[str] = set()
    while callers:
        for computation in callers.pop().called_computations:
            if computation.name not in found:
                found.add(computation.name)
                callers += computation.instructions
    return found
