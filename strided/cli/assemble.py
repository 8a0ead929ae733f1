"""`strided assemble`: join the shards of many devices into one array."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import sys
from collections.abc import Sequence
from itertools import pairwise

import click
import numpy as np

from strided.arrays.base import Array
from strided.arrays.layout_array import LayoutArray
from strided.cli import array_output
from strided.cli.array_output import ArrayOutput
from strided.cli.operands import STANDARD, Reading, mapped, with_reading
from strided.cli.options import (
    INDEX_HELP,
    SHARD_HELP,
    TARGET_HELP,
    file_names,
    force,
)
from strided.dumps.sharded.assemble import check_whole
from strided.dumps.sharded.sharded_array import ShardedArray
from strided.dumps.sharding.sharding import Sharding
from strided.escape import visible
from strided.layout import Shape
from strided.layout.parser import array_shape
from strided.wording import counted

#: A shard with its device's number, as in 3=shard3.bin.
_NUMBERED = re.compile(r"(\d+)=(.+)", re.DOTALL)
_DIGITS = re.compile(r"(\d+)")

_EPILOG = (
    "SHAPE is that of the whole array, with the layout of raw shards: 'bf16[17,300]{1,0:T(8,128)(2,1)}'; SHARDING is "
    "XLA's text, as in '{devices=[2,4]<=[8]}'. Quote both for the shell.",
    "A SHARD is a FILE, one for each device in the order of their numbers; or DEVICE=FILE, as in 3=shard3.bin: with "
    "these, replicas may be left out.",
    SHARD_HELP,
    INDEX_HELP,
    TARGET_HELP,
)


@click.command(epilog="\n\n".join(_EPILOG))
@click.argument("shape", metavar="SHAPE")
@click.argument("sharding", metavar="SHARDING")
@click.argument("shards", nargs=-1, required=True, metavar="SHARD...", shell_complete=file_names)
@click.argument("out", metavar="OUT", shell_complete=file_names)
@click.option("--compare-replicas", is_flag=True, help="Exit with 1, without writing, if replicas differ.")
@array_output.to
@array_output.dtype
@array_output.index
@force
@with_reading
def assemble(
    shape: str,
    sharding: str,
    shards: tuple[str, ...],
    out: str,
    compare_replicas: bool,
    to: str | None,
    dtype: str | None,
    index: str | None,
    force: bool,
    reading: Reading,
) -> None:
    """Join the shards that many devices hold into one array."""
    whole, pieces = array_shape(shape), Sharding.parse(sharding)
    check_whole(pieces)
    files = _by_device(shards, pieces.num_devices, out)
    output = ArrayOutput.checked(out, list(files.values()), to, dtype, force)

    def open_shard(file: str, own: Shape) -> LayoutArray | Array:
        with contextlib.ExitStack() as stack:
            found = mapped(dataclasses.replace(reading, stack=stack).opened(file, None, own).meant())
            return found if isinstance(found, LayoutArray) else np.asarray(found)

    array = ShardedArray(files, pieces, whole.dimensions, whole, open_shard)
    if compare_replicas and not (report := array.compare_replicas()).agree:
        click.echo(f"{report}\n{visible(out)} is not written", err=True)
        sys.exit(1)
    output.write({"array": array}, index)


def _by_device(shards: Sequence[str], devices: int | None, out: str) -> dict[int, str]:
    """The file of each device, by the number given with it (``DEVICE=FILE``) or else by its position."""
    numbered = [None if os.path.exists(shard) else _NUMBERED.fullmatch(shard) for shard in shards]
    found: dict[int, str] = {}
    for shard, match in zip(shards, numbered, strict=True):
        if match is None and any(numbered):
            raise click.UsageError(f"{shard} has no number, and others have: give all as DEVICE=FILE, or none")
        device, file = (len(found), shard) if match is None else (int(match[1]), match[2])
        if file == STANDARD:
            raise click.UsageError("shards are files, read as they are needed: standard input can be read only once")
        if device in found:
            raise click.UsageError(f"device {device} has two shards: {found[device]} and {file}")
        found[device] = file
    if not any(numbered):
        if devices not in (None, len(shards)):
            raise click.UsageError(
                f"{counted(len(shards), 'shard')} for {counted(devices, 'device')}, to be written to {out}: "
                f"say which device each is from, as in 0={shards[0]}"
            )
        _refuse_alphabetical(shards)
    return found


def _refuse_alphabetical(files: Sequence[str]) -> None:
    """UsageError if names differ only in numbers that do not increase: a shell sorts 10 before 2."""
    parts = [_DIGITS.split(file) for file in files]  # folders count: each host may use the same file name
    if len({tuple(part[::2]) for part in parts}) > 1:
        return
    for (before, first), (after, second) in pairwise(zip(files, parts, strict=True)):
        if before == after:
            raise click.UsageError(f"{after} is given twice: name a file for each device, or each as DEVICE=FILE")
        if list(map(int, first[1::2])) >= list(map(int, second[1::2])):
            raise click.UsageError(
                f"{after} comes after {before}: give shards in the order of their devices, as 'sort -V' puts names, "
                "or each as DEVICE=FILE"
            )
