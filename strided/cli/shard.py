"""`strided shard`: write each device's shard of an array to a file."""

from __future__ import annotations

import math
from collections.abc import Sequence

import click

from strided.cli import array_output
from strided.cli.array_output import ArrayOutput
from strided.cli.operands import Reading, mapped, of_known_type, only_array_of, with_reading
from strided.cli.options import ENDING_HELP, SHAPE_HELP, SOURCE_HELP, file_names, force, progress
from strided.dumps.sharded.assemble import laid_out, shape_of_shards, tiles_of
from strided.dumps.sharding.sharding import Sharding
from strided.escape import visible

#: Placeholder in OUT for a device's number.
_NUMBER = "{}"

_EPILOG = (
    SHAPE_HELP,
    "SHARDING is XLA's text, as in '{devices=[2,4]<=[8]}'; quote it, too.",
    SOURCE_HELP,
    f"OUT is the name of each file, with {_NUMBER} for its device's number, as in 'shard{_NUMBER}.bin'. Numbers are "
    "padded with zeros to equal length, so that a shell lists them in order.",
    ENDING_HELP,
)


@click.command(epilog="\n\n".join(_EPILOG))
@click.argument("operands", nargs=-1, metavar="FILE [SHAPE] SHARDING OUT", shell_complete=file_names)
@click.option("--devices", type=click.IntRange(1), metavar="N", help="The number of devices, if SHARDING does not say.")
@array_output.to
@array_output.dtype
@force
@with_reading
def shard(
    operands: tuple[str, ...], devices: int | None, to: str | None, dtype: str | None, force: bool, reading: Reading
) -> None:
    """Write each device's shard of an array to a file.

    Shards at the edge are padded with zeros to the shape of the others, as on devices. 'strided assemble' joins the
    files again.
    """
    source, sharding, out = _checked(operands, devices)
    array = mapped(of_known_type(only_array_of(source, reading), source[0]))
    tiles = tiles_of(sharding, array.shape, devices)
    names = _file_names(out, sorted(number for owners, _ in tiles for number in owners))
    # Check all files before writing any.
    outputs = {number: ArrayOutput.checked(name, source, to, dtype, force) for number, name in names.items()}
    first, last = next(iter(outputs.values())), next(reversed(outputs.values()))
    if first.path == last.path and first is not last:
        raise click.UsageError(f"{first.path} would be the name of all files: put {_NUMBER} in front of ':'")
    shape = shape_of_shards(array, sharding, first.layout_of(array), first.element_type)
    first.check_cast([array])
    written = 0
    with progress(array.size, "sharding") as advance:
        for owners, where in tiles:
            laid = laid_out(array, where, shape)
            for number in owners:
                written += outputs[number].put({outputs[number].name or "array": laid}, lambda done: None)
            advance(math.prod(part.stop - part.start for part in where))
    if first is last:
        click.echo(f"{visible(first.path)}: {written:,} bytes, {shape}")
    else:
        paths = f"{visible(first.path)} to {visible(last.path)}"
        click.echo(f"{paths}: {len(outputs)} files, {written:,} bytes, each {shape}")


def _checked(operands: Sequence[str], devices: int | None) -> tuple[Sequence[str], Sharding, str]:
    """The operands that name the array, the parsed sharding, and OUT."""
    if len(operands) < 3:
        raise click.UsageError("expected FILE, with its SHAPE if it is raw bytes, SHARDING and OUT")
    *source, text, out = operands
    sharding = Sharding.parse(text)
    if _NUMBER not in out:
        raise click.UsageError(f"{out} would be the name of all files: put {_NUMBER} where a device's number goes")
    if sharding.kind == "replicated" and sharding.num_devices is None and devices is None:
        raise click.UsageError(f"{sharding} does not say how many devices there are: give --devices")
    return source, sharding, out


def _file_names(out: str, numbers: Sequence[int]) -> dict[int, str]:
    """The name of each device's file. `numbers` are sorted."""
    digits = len(str(numbers[-1]))
    return {number: out.replace(_NUMBER, f"{number:0{digits}}") for number in numbers}
