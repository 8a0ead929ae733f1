"""`strided convert`: the same values in another layout or format."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import click
import numpy as np

from strided import inspect
from strided.cli.operands import STANDARD, Reading, shaped
from strided.cli.options import (
    INDEX_HELP,
    SHAPE_HELP,
    SOURCE_HELP,
    TARGET_HELP,
    allow_excess,
    bitorder,
    file_names,
    force,
    kind,
    offset,
    progress,
)
from strided.cli.targets import refuse_standard_output, statuses
from strided.errors import UnsupportedError
from strided.escape import visible
from strided.files.atomic import COPY_BYTES, naming_in_write_errors
from strided.files.scratch import scratch_file
from strided.io import convert_file
from strided.io.containers import ending_of
from strided.io.write_values import write_array
from strided.layout import Layout
from strided.layout.element_types import element_type as element_type_named
from strided.layout.element_types import element_types_meant, is_builtin
from strided.layout.layout import descending
from strided.layout.parser import is_shape, layout_of

#: Endings of files that hold raw bytes.
_RAW_ENDINGS = ("", ".bin", ".raw", ".dat")
#: A name inside a file that holds several arrays.
_NAMED = re.compile(r"(.+\.(?:npz|safetensors|zarr)):(.+)", re.IGNORECASE | re.DOTALL)


@click.command(epilog="\n\n".join((SHAPE_HELP, SOURCE_HELP, INDEX_HELP, TARGET_HELP)))
@click.argument("operands", nargs=-1, metavar="FILE [SHAPE] [FILE [SHAPE]]... OUT", shell_complete=file_names)
@click.option("--to", "layout", metavar="LAYOUT", help="Layout of the raw bytes to write, as in '{0,1:T(8,128)}'.")
@click.option("--dtype", metavar="TYPE", help="Element type to write, as in bf16; values are cast as by astype.")
@click.option("--index", metavar="INDEX", help="Convert only this part of each array.")
@force
@offset
@bitorder
@allow_excess
@kind
def convert(
    operands: tuple[str, ...],
    layout: str | None,
    dtype: str | None,
    index: str | None,
    force: bool,
    offset: int,
    bitorder: str,
    allow_excess: bool,
    kind: str | None,
) -> None:
    """Convert arrays to .npy, .npz, .safetensors, .zarr or another layout.

    A source that holds several arrays, and is given without :NAME, gives all of them.
    """
    *sources, out = _checked(operands)
    out, name = found.groups() if (found := _NAMED.fullmatch(out)) else (out, None)
    out = out.rstrip(f"/{os.sep}") or out  # with which the shell completes a folder's name
    _check_target(sources, out, layout, force)
    wanted = None if layout is None else _layout(layout)
    element_type = None if dtype is None else _element_type(dtype)
    with contextlib.ExitStack() as stack:
        arrays = _arrays(sources, Reading(offset, bitorder, kind, allow_excess, stack))
        if index is not None:
            arrays = {key: _part(array, inspect.parse_index(index)) for key, array in arrays.items()}
        if len(arrays) > 1 and (name is not None or ending_of(out) not in convert_file.CONTAINERS):
            raise click.UsageError(
                f"{len(arrays)} arrays: name one of them, or write them to a .npz, .safetensors or .zarr"
            )
        if element_type is not None:
            _check_cast(arrays.values(), element_type)
        only = next(iter(arrays.values()))
        arrays = arrays if name is None else {name: only}
        if wanted is None and ending_of(out) not in (".npy", *convert_file.CONTAINERS):
            wanted = Layout(descending(len(only.shape)))
        with progress(sum(array.size for array in arrays.values()), "converting") as advance:
            if out == STANDARD:
                _write_to_standard_output(only, wanted, element_type, advance)
                return
            size = convert_file.write_arrays(
                arrays,
                out,
                wanted,
                element_type=element_type,
                overwrite=force,
                grouped=name is not None,
                progress=advance,
            )
        click.echo(f"{visible(out)}: {size:,} bytes, {_written(arrays, out, wanted, element_type, name)}")


def _checked(operands: Sequence[str]) -> Sequence[str]:
    """The operands: sources, some with shapes, and OUT."""
    if not operands:
        raise click.UsageError("Missing argument 'FILE'.")
    if len(operands) == 1 or (is_shape(operands[-1]) and not os.path.exists(operands[-1])):
        raise click.UsageError("Missing argument 'OUT': it comes last, behind the files and their shapes.")
    return operands


def _check_target(sources: Sequence[str], out: str, layout: str | None, force: bool) -> None:
    """Raise an error if OUT should not be written."""
    if out == STANDARD:
        if sys.stdout.isatty():
            raise click.UsageError("standard output is a terminal: bytes go to a file, or into a pipe")
        return
    refuse_standard_output(out)
    if os.path.isdir(out) and ending_of(out) != ".zarr":
        raise click.UsageError(f"{out} is a folder: name a file in it, as in {os.path.join(out, 'x.npy')}")
    if layout is not None and ending_of(out) in (".npy", ".npz"):
        raise click.UsageError(
            f"{ending_of(out)} files are row-major: leave --to out, or choose another name for raw bytes"
        )
    known = (".npy", *convert_file.CONTAINERS, *_RAW_ENDINGS)
    if layout is None and ending_of(out) not in known:
        convert_file.refuse_name(out, layout)
        file, _, name = out.rpartition(":")
        if ending_of(file) == ".npy":
            raise click.UsageError(f"{file} holds one array, which has no name: leave ':{name}' out")
        raise click.UsageError(
            f"{out}: the ending does not say what to write; end it in .npy, .npz, .safetensors, .zarr or .bin, "
            "or give a layout with --to"
        )
    convert_file.check_target(statuses(sources), out, layout, overwrite=force)


def _arrays(operands: Sequence[str], reading: Reading) -> dict[str, Any]:
    """The arrays that operands name. A source without ``:NAME`` stands for all of its arrays."""
    found: dict[str, Any] = {}
    while operands:
        source, shape, operands = shaped(operands)
        opened = reading.opened(source, shape)
        names = list(opened.arrays) if opened.name is None else [opened.name]
        if not names:
            raise click.UsageError(f"{source} holds no arrays")
        for name in names:
            if name in found:
                raise click.UsageError(f"two arrays are called {name!r}; write one of them to OUT:NAME")
            found[name] = opened.array(name)
    return found


def _part(array: Any, key: Any) -> Any:
    part = array[key]
    return part if hasattr(part, "shape") and hasattr(part, "size") else np.asarray(part, array.dtype)


def _layout(text: str) -> Layout:
    """The layout that --to names."""
    text = text.strip("'\" ")
    if not text.startswith("{"):
        raise click.UsageError(f"--to takes a layout alone, in braces, as in '{{0,1:T(8,128)}}'; found {text!r}")
    return layout_of(text)


def _element_type(text: str) -> str:
    """XLA's name of a type that may have another library's."""
    meant = element_types_meant(text)
    try:
        kind = element_type_named(meant[0] if len(meant) == 1 else text)
    except UnsupportedError as error:
        raise click.UsageError(f"--dtype: {error}") from None
    if not kind.is_array:
        raise click.UsageError(f"--dtype: {kind.name} has no values")
    return kind.name


def _check_cast(arrays: Iterable[Any], element_type: str) -> None:
    """Refuse a cast that NumPy lacks: between some types of ml_dtypes, as from int4 to uint4, there is none."""
    wanted = element_type_named(element_type).dtype
    assert wanted is not None, "_element_type takes types of arrays alone"
    for dtype in (array.dtype for array in arrays):
        if not np.can_cast(dtype, wanted, "unsafe"):
            raise click.UsageError(
                f"--dtype: NumPy cannot cast {dtype} to {wanted}; convert to another type first, such as f32"
            )


def _written(
    arrays: Mapping[str, Any], out: str, layout: Layout | None, element_type: str | None, name: str | None
) -> str:
    """What was written, and how to read it if NumPy alone cannot."""
    shapes = convert_file.result_shapes(arrays, layout, element_type)
    first, shape = next(iter(shapes.items()))
    values = f"{shape.dtype.name}{list(shape.dimensions)}" if layout is None else str(shape)
    if ending_of(out) == ".zarr" and len(shapes) == 1 and name is None:
        return f"{values}\nread it with strided.open({out!r}), or zarr.open({out!r})"
    if ending_of(out) in convert_file.CONTAINERS:
        what = values if len(shapes) == 1 else f"{len(shapes)} arrays"
        return f"{what}\nread {'it' if len(shapes) == 1 else 'one'} with strided.open({f'{out}:{first}'!r})"
    if layout is None and not is_builtin(shape.dtype):
        numpy = f"numpy.load({out!r}).view(ml_dtypes.{shape.dtype.name})"
        return f"{values}\nread it with strided.load_npy({out!r}), or {numpy}"
    return values


def _write_to_standard_output(
    array: Any, layout: Layout | None, element_type: str | None, advance: Callable[[int], object]
) -> None:
    """Write to a nameless file first, because blocks are not written in order."""
    with scratch_file() as file:
        with naming_in_write_errors(tempfile.gettempdir()):
            write_array(file, array, convert_file.result_shape(array, layout, element_type), 0, advance)
        file.seek(0)
        shutil.copyfileobj(file, sys.stdout.buffer, COPY_BYTES)
        sys.stdout.buffer.flush()
