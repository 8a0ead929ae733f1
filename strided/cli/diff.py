"""`strided diff`: where do two arrays, or two runs, differ?"""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

import strided
from strided.arrays.layout_array import map_array
from strided.cli.operands import STANDARD, array_of
from strided.cli.options import SHAPE_HELP, bitorder, kind, progress, width
from strided.diagnosis.difference import Difference, DumpDifference, diff_dumps
from strided.files.atomic import replaced
from strided.files.magic import GZIP_MAGIC, HEAD_BYTES, NPY_MAGIC
from strided.io.file_array import FileArray
from strided.layout.parser import is_shape


@click.command(
    "diff", epilog=f"{SHAPE_HELP} FILE may be a .npy file, which needs no SHAPE. NAME is one of 'strided ls'."
)
@click.argument("operands", nargs=-1, required=True, metavar="A [SHAPE] B [SHAPE]")
@click.option("--rtol", type=float, default=0, metavar="X", help="Equal if |a - b| <= atol + X * |b|.")
@click.option("--atol", type=float, default=0, metavar="X", help="Equal if |a - b| <= X + rtol * |b|.")
@click.option("--ulp", type=click.IntRange(0), metavar="N", help="Equal if at most N ULPs apart, instead.")
@click.option("--strict-nan", is_flag=True, help="NaN differs from NaN.")
@click.option("--top", type=click.IntRange(0), default=10, metavar="N", help="List N mismatches (default: 10).")
@click.option("--svg", "picture", metavar="FILE", help="Write the map of the mismatches to FILE as SVG.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@bitorder
@kind
def diff(
    operands: tuple[str, ...],
    rtol: float,
    atol: float,
    ulp: int | None,
    strict_nan: bool,
    top: int,
    picture: str | None,
    as_json: bool,
    bitorder: str,
    kind: str | None,
) -> None:
    """Show where two arrays differ, or two dump folders.

    A and B are files, arrays as DUMP:NAME, or both dump folders. The exit code is 0 if they are equal, 1 if not.
    """
    options: dict[str, Any] = {"rtol": rtol, "atol": atol, "max_ulp": ulp, "equal_nan": not strict_nan, "limit": top}
    found: Difference | DumpDifference
    if len(operands) == 2 and all(Path(each).is_dir() for each in operands):
        if picture is not None:
            raise click.UsageError("--svg draws one array: name it, as in DUMP:NAME")
        found = diff_dumps(*(strided.open_dump(each) for each in operands), **options)
    else:
        with contextlib.ExitStack() as stack:
            a, b = _arrays(operands, bitorder, kind, stack)
            shape = getattr(a, "shape", ())
            with progress(math.prod(shape), "comparing") as advance:
                found = strided.diff(a, b, **options, progress=advance)
        if picture is not None:
            with replaced(picture) as file:
                file.write(found.svg().encode())
    click.echo(json.dumps(found.to_dict(), indent=2) if as_json else found.text(width()))
    if not found.equal:
        sys.stdout.flush()
        sys.exit(1)


def _arrays(operands: Sequence[str], bitorder: str, kind: str | None, stack: contextlib.ExitStack) -> list[Any]:
    """The two arrays that operands name. A shape that is left out is the other one's."""
    names: list[tuple[str, str | None]] = []
    for operand in operands:
        if names and names[-1][1] is None and is_shape(operand) and not Path(operand).exists():
            names[-1] = names[-1][0], operand
        else:
            names.append((operand, None))
    if len(names) != 2:
        raise click.UsageError(f"give two arrays, A [SHAPE] B [SHAPE]; found {len(names)}")
    shapes = [shape for _, shape in names if shape is not None]
    if [name for name, _ in names] == [STANDARD, STANDARD]:
        raise click.UsageError("standard input is one array; name a file for the other")
    return [_array(name, shape or next(iter(shapes), None), bitorder, kind, stack) for name, shape in names]


def _array(name: str, shape: str | None, bitorder: str, kind: str | None, stack: contextlib.ExitStack) -> Any:
    if Path(name).is_file():
        with open(name, "rb") as file:
            head = file.read(HEAD_BYTES)
        if head.startswith(NPY_MAGIC):
            return Path(name)
        if shape is not None and not head.startswith(GZIP_MAGIC):
            return map_array(name, shape, bitorder=bitorder)
    found, _ = array_of([name] if shape is None else [name, shape], 0, bitorder, kind, stack)
    return found.read() if isinstance(found, FileArray) else found
