"""`strided diff`: where do two arrays, or two runs, differ?"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

import strided
from strided.cli.operands import (
    STANDARD,
    Opened,
    Reading,
    holds_names,
    is_dump_folder,
    mapped,
    of_known_type,
    shaped,
    with_reading,
)
from strided.cli.options import (
    SHAPE_HELP,
    SOURCE_HELP,
    as_json,
    atol,
    check_tolerance,
    file_names,
    force,
    progress,
    rtol,
    ulp,
    width,
)
from strided.cli.pictures import check_picture, svg, write_svg
from strided.diagnosis.difference import ArraysDifference, Difference, DumpDifference, diff_arrays, diff_dumps
from strided.dumps.directory.dump import Dump
from strided.escape import visible
from strided.io.containers import split_name
from strided.io.raw_format import NoShapeError, OtherFormatError
from strided.io.remote import is_url
from strided.layout import AnyShape, Shape
from strided.layout.element_types import element_type_of_dtype


@click.command(
    "diff", epilog="\n\n".join((f"{SHAPE_HELP} If one is left out, it is that of the other array.", SOURCE_HELP))
)
@click.argument("operands", nargs=-1, required=True, metavar="A [SHAPE] B [SHAPE]", shell_complete=file_names)
@rtol
@atol
@ulp
@click.option("--strict-nan", is_flag=True, help="Count NaN as different from NaN.")
@click.option("--top", type=click.IntRange(0), default=10, show_default=True, metavar="N", help="Mismatches to list.")
@svg
@force
@as_json
@with_reading
def diff(
    operands: tuple[str, ...],
    rtol: float,
    atol: float,
    ulp: int | None,
    strict_nan: bool,
    top: int,
    picture: str | None,
    force: bool,
    as_json: bool,
    reading: Reading,
) -> None:
    """Show where two arrays differ, or two files of arrays, or two dump folders.

    A and B are arrays, each a FILE as below; or both files of several arrays, which are compared by name; or both dump
    folders. The exit code is 0 if they are equal, 1 if not.
    """
    check_picture(picture, operands, as_json=as_json, overwrite=force)
    check_tolerance(rtol, atol, ulp)
    options = {"rtol": rtol, "atol": atol, "max_ulp": ulp, "equal_nan": not strict_nan, "limit": top}
    pair = _by_name(operands, reading) or pair_of(operands, reading)
    if picture is not None and isinstance(pair[0], (Dump, _ByName)):
        raise click.UsageError(f"--svg draws one array: name it, as in {operands[0]}:NAME")
    found = _compared(pair, operands, options)
    if as_json or picture != STANDARD:
        click.echo(json.dumps(found.to_dict(), indent=2) if as_json else found.text(width()))
    if picture is not None and isinstance(found, Difference):
        write_svg(found.svg(), picture, force=force)
    if not found.equal:
        sys.stdout.flush()
        sys.exit(1)


def _compared(
    pair: Sequence[Any], operands: Sequence[str], options: dict[str, Any]
) -> Difference | ArraysDifference | DumpDifference:
    """Compare two dumps, two arrays, or the arrays of two sources, labelled as the operands name them."""
    a, b = pair
    if isinstance(a, Dump):
        return diff_dumps(a, b, **options)
    if isinstance(a, _ByName):
        return dataclasses.replace(diff_arrays(a, b, **options), a=operands[0], b=operands[1])
    with progress(math.prod(getattr(a, "shape", ())), "comparing") as advance:
        found = strided.diff(a, b, **options, progress=advance)
    (one, _), (other, _) = _named(operands)
    return dataclasses.replace(found, a=_labelled(one, found.a), b=_labelled(other, found.b))


class _ByName(Mapping[str, Any]):
    """The arrays of a source by name, each mapped on access."""

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def __getitem__(self, name: str) -> Any:
        found = self._opened.arrays[name]
        return of_known_type(mapped(found), f"{self._opened.path}:{name}") if hasattr(found, "dtype") else found

    def __contains__(self, name: object) -> bool:
        return name in self._opened.arrays

    def __iter__(self) -> Iterator[str]:
        return iter(self._opened.arrays)

    def __len__(self) -> int:
        return len(self._opened.arrays)


def _by_name(operands: Sequence[str], reading: Reading) -> list[_ByName] | None:
    """The named arrays of both operands; None if either has none, or each only one."""
    if len(operands) != 2 or not all(map(holds_names, operands)):
        return None
    found = [_ByName(reading.opened(each, None)) for each in operands]
    return None if all(len(each) == 1 for each in found) else found


def pair_of(operands: Sequence[str], reading: Reading) -> list[Any]:
    """What to compare: two dumps if both operands are dump folders, else two arrays."""
    if len(operands) == 2 and all(map(is_dump_folder, operands)):
        if reading.raw.offset:
            raise click.UsageError("--offset goes with a file of raw bytes, and these are dump folders")
        return [strided.open_dump(each) for each in operands]
    names = _named(operands)
    for name, _ in names:
        if name != STANDARD and not is_url(name):
            split_name(name)  # raises if the path does not exist, before any other error
    return _two_arrays(names, reading)


def _named(operands: Sequence[str]) -> list[tuple[str, str | None]]:
    """The two arrays that operands name, each with its shape if one is given."""
    names: list[tuple[str, str | None]] = []
    while operands:
        name, shape, operands = shaped(operands)
        names.append((name, shape))
    if len(names) != 2:
        raise click.UsageError(f"give two arrays, A [SHAPE] B [SHAPE]; found {len(names)}")
    return names


def _two_arrays(names: list[tuple[str, str | None]], reading: Reading) -> list[Any]:
    """The two arrays of these names. A shape that is left out is the other's, as given or as its file says."""
    if [name for name, _ in names] == [STANDARD, STANDARD]:
        raise click.UsageError("standard input is one array; name a file for the other")
    given = next((shape for _, shape in names if shape is not None), None)
    if reading.raw.offset and given is None:
        raise click.UsageError("--offset goes with the shape of raw bytes: give the shape after their file")
    first, second = sorted(names, key=lambda each: _is_stream(each[0]))  # a stream last: it cannot be read twice
    try:
        one = _opened(*first, given, reading)
    except (NoShapeError, OtherFormatError):
        other = _opened(*second, given, reading)
        one = _opened(*first, _shape_of(other), reading)
    else:
        other = _opened(*second, given or _shape_of(one), reading)
    return [one, other] if first is names[0] else [other, one]


def _opened(name: str, shape: str | None, otherwise: str | AnyShape | None, reading: Reading) -> Any:
    return of_known_type(mapped(reading.opened(name, shape, otherwise).meant()), name)


def _shape_of(array: Any) -> AnyShape:
    """The shape of an array, with its layout if it lies in one buffer, else row-major."""
    shape = getattr(array, "xla_shape", None)
    return shape if isinstance(shape, Shape) else Shape(element_type_of_dtype(array.dtype).name, array.shape)


def _is_stream(name: str) -> bool:
    """Whether a name is that of a stream, such as a pipe."""
    return name == STANDARD or (os.path.exists(name) and not (os.path.isfile(name) or os.path.isdir(name)))


def _labelled(name: str, shape: str) -> str:
    """A description of an array with its name on the command line in place of its file's."""
    return shape if name == STANDARD else f"{visible(name)}: {shape.rpartition(': ')[2]}"
