"""`strided convert`: the same values in another layout or format."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import click

from strided.cli import array_output
from strided.cli.array_output import ArrayOutput
from strided.cli.operands import Reading, of_known_type, shaped, with_reading
from strided.cli.options import (
    INDEX_HELP,
    SHAPE_HELP,
    SOURCE_HELP,
    TARGET_HELP,
    file_names,
    force,
)
from strided.layout.parser import is_shape


@click.command(epilog="\n\n".join((SHAPE_HELP, SOURCE_HELP, INDEX_HELP, TARGET_HELP)))
@click.argument("operands", nargs=-1, metavar="FILE [SHAPE] [FILE [SHAPE]]... OUT", shell_complete=file_names)
@array_output.to
@array_output.dtype
@array_output.index
@force
@with_reading
def convert(
    operands: tuple[str, ...],
    to: str | None,
    dtype: str | None,
    index: str | None,
    force: bool,
    reading: Reading,
) -> None:
    """Convert arrays to .npy, .npz, .safetensors, .zarr or another layout.

    Of a source that holds several arrays, all are converted unless :NAME picks one.
    """
    *sources, out = _checked(operands)
    output = ArrayOutput.checked(out, sources, to, dtype, force)
    output.write(_arrays(sources, reading), index)


def _checked(operands: Sequence[str]) -> Sequence[str]:
    """The operands (sources, some with shapes, and OUT); UsageError if one is missing."""
    if not operands:
        raise click.UsageError("Missing argument 'FILE'.")
    if len(operands) == 1 or (is_shape(operands[-1]) and not os.path.exists(operands[-1])):
        raise click.UsageError("Missing argument 'OUT': it comes last, after the files and their shapes.")
    return operands


def _arrays(operands: Sequence[str], reading: Reading) -> dict[str, Any]:
    """The arrays that operands name. A source without ``:NAME`` stands for all of its arrays."""
    found: dict[str, Any] = {}
    while operands:
        source, shape, operands = shaped(operands)
        given = reading.opened(source, shape).all_meant()
        if not given:
            raise click.UsageError(f"{source} holds no arrays")
        for name, array in given.items():
            if name in found:
                raise click.UsageError(f"two arrays are called {name!r}; write one of them to OUT:NAME")
            found[name] = of_known_type(array, source)
    return found
