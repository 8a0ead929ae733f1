"""`strided shard`: the pieces of an array that many devices hold, each in a file."""

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

#: What stands in OUT for the number of a device.
_NUMBER = "{}"

_EPILOG = (
    SHAPE_HELP,
    "SHARDING is XLA's text, as in '{devices=[2,4]<=[8]}'; quote it, too.",
    SOURCE_HELP,
    f"OUT is the name of each file, with {_NUMBER} for the number of its device, as in 'shard{_NUMBER}.bin'. Numbers "
    "have as many digits as the greatest, so that a shell lists them in order.",
    ENDING_HELP,
)


@click.command(epilog="\n\n".join(_EPILOG))
@click.argument("operands", nargs=-1, metavar="FILE [SHAPE] SHARDING OUT", shell_complete=file_names)
@click.option(
    "--devices", type=click.IntRange(1), metavar="N", help="How many devices there are, if SHARDING does not say."
)
@array_output.to
@array_output.dtype
@force
@with_reading
def shard(
    operands: tuple[str, ...], devices: int | None, to: str | None, dtype: str | None, force: bool, reading: Reading
) -> None:
    """Write what each of many devices holds of an array.

    Short shards are padded with zeros up to the shape of the others, as devices hold them. 'strided assemble' puts the
    files together again.
    """
    source, sharding, out = _checked(operands, devices)
    array = mapped(of_known_type(only_array_of(source, reading), source[0]))
    tiles = tiles_of(sharding, array.shape, devices)
    named = _named(out, sorted(number for owners, _ in tiles for number in owners))
    # Whether each may be written shows before the first one is.
    outputs = {number: ArrayOutput.checked(name, source, to, dtype, force) for number, name in named.items()}
    some, last = next(iter(outputs.values())), next(reversed(outputs.values()))
    if some.path == last.path and some is not last:
        raise click.UsageError(f"{some.path} would be the name of all files: put {_NUMBER} in front of ':'")
    shape = shape_of_shards(array, sharding, some.layout_of(array), some.element_type)
    some.check_cast([array])
    written = 0
    with progress(array.size, "sharding") as advance:
        for owners, where in tiles:
            laid = laid_out(array, where, shape)
            for number in owners:
                written += outputs[number].put({outputs[number].name or "array": laid}, lambda done: None)
            advance(math.prod(part.stop - part.start for part in where))
    if some is last:
        click.echo(f"{visible(some.path)}: {written:,} bytes, {shape}")
    else:
        paths = f"{visible(some.path)} to {visible(last.path)}"
        click.echo(f"{paths}: {len(outputs)} files, {written:,} bytes, each {shape}")


def _checked(operands: Sequence[str], devices: int | None) -> tuple[Sequence[str], Sharding, str]:
    """The operands that name the array, the sharding, and OUT."""
    if len(operands) < 3:
        raise click.UsageError("expected FILE, with its SHAPE if it is raw bytes, SHARDING and OUT")
    *source, text, out = operands
    sharding = Sharding.parse(text)
    if _NUMBER not in out:
        raise click.UsageError(f"{out} would be the name of all files: put {_NUMBER} where a device's number goes")
    if sharding.kind == "replicated" and sharding.num_devices is None and devices is None:
        raise click.UsageError(f"{sharding} does not say how many devices there are: give --devices")
    return source, sharding, out


def _named(out: str, numbers: Sequence[int]) -> dict[int, str]:
    """The name of each device's file. Numbers are in order."""
    digits = len(str(numbers[-1]))
    return {number: out.replace(_NUMBER, f"{number:0{digits}}") for number in numbers}
