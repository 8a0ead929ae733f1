"""The OUT operand of commands that write arrays: the file, its format, layout and element type."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click
import numpy as np

from strided import inspect
from strided.cli.operands import STANDARD
from strided.cli.options import progress
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
from strided.layout.parser import layout_of

#: A file that can hold several arrays, and the name of one of them.
_NAMED = re.compile(r"(.+\.(?:npz|safetensors|zarr)):(.+)", re.IGNORECASE | re.DOTALL)

to = click.option("--to", metavar="LAYOUT", help="Layout of the raw bytes to write, as in '{0,1:T(8,128)}'.")
dtype = click.option("--dtype", metavar="TYPE", help="Element type to write, as in bf16; values are cast as by astype.")
index = click.option("--index", metavar="INDEX", help="Write only this part of each array.")


@dataclass(frozen=True)
class ArrayOutput:
    """A file to write arrays to.

    Attributes
    ----------
    path : str
        Without the array's name; ``-`` is standard output.
    name : str or None
        The array's name in the file, if one was given.
    layout : Layout or None
        The layout of the raw bytes; None for row-major values.
    element_type : str or None
        The type to cast to; None for the array's own.
    overwrite : bool
        Whether to replace an existing file.
    """

    path: str
    name: str | None
    layout: Layout | None
    element_type: str | None
    overwrite: bool

    @classmethod
    def checked(
        cls, out: str, sources: Sequence[str], to: str | None, dtype: str | None, overwrite: bool
    ) -> ArrayOutput:
        """Make an ArrayOutput of operands and options; error if it may not be written or is one of the sources."""
        path, name = found.groups() if (found := _NAMED.fullmatch(out)) else (out, None)
        path = path.rstrip(f"/{os.sep}") or path  # a shell's completion ends a folder's name so
        _check_path(sources, path, to, overwrite)
        layout = None if to is None else _layout(to)
        return cls(path, name, layout, None if dtype is None else _element_type(dtype), overwrite)

    def write(self, arrays: Mapping[str, Any], index: str | None) -> None:
        """Write arrays, or a part of each, and print what was written and how to read it."""
        if index is not None:
            arrays = {key: _part(array, inspect.parse_index(index)) for key, array in arrays.items()}
        if len(arrays) > 1 and self.name is not None:
            raise click.UsageError(f"{len(arrays)} arrays cannot all be called {self.name!r}: leave ':{self.name}' out")
        if len(arrays) > 1 and ending_of(self.path) not in convert_file.CONTAINERS:
            raise click.UsageError(
                f"{len(arrays)} arrays: name one of them, or write them to a .npz, .safetensors or .zarr"
            )
        self.check_cast(arrays.values())
        arrays = arrays if self.name is None else {self.name: next(iter(arrays.values()))}
        with progress(sum(array.size for array in arrays.values()), "converting") as advance:
            if self.path == STANDARD:
                [only] = arrays.values()
                _write_to_standard_output(only, self.layout_of(only), self.element_type, advance)
                return
            size = self.put(arrays, advance)
        click.echo(f"{visible(self.path)}: {size:,} bytes, {self._written(arrays)}")

    def put(self, arrays: Mapping[str, Any], advance: Callable[[int], object]) -> int:
        """Write arrays by name without printing anything; return the size of the file in bytes."""
        return convert_file.write_arrays(
            arrays,
            self.path,
            self.layout,
            element_type=self.element_type,
            overwrite=self.overwrite,
            grouped=self.name is not None,
            progress=advance,
        )

    def check_cast(self, arrays: Iterable[Any]) -> None:
        """Raise UsageError for a cast that NumPy lacks, as between some types of ml_dtypes (int4 to uint4)."""
        if self.element_type is None:
            return
        wanted = element_type_named(self.element_type).dtype
        assert wanted is not None, "_element_type refuses types without values"
        for dtype in (array.dtype for array in arrays):
            if not np.can_cast(dtype, wanted, "unsafe"):
                raise click.UsageError(
                    f"--dtype: NumPy cannot cast {dtype} to {wanted}; convert to another type first, such as f32"
                )

    def layout_of(self, array: Any) -> str | Layout | None:
        """The layout in which the array is written; None for formats that hold plain row-major values."""
        return convert_file.layout_in(self.path, self.layout, len(array.shape))

    def _written(self, arrays: Mapping[str, Any]) -> str:
        """What was written, and how to read it if NumPy alone cannot."""
        out, layout = self.path, self.layout_of(next(iter(arrays.values())))
        shapes = convert_file.result_shapes(arrays, layout, self.element_type)
        first, shape = next(iter(shapes.items()))
        values = f"{shape.dtype.name}{list(shape.dimensions)}" if layout is None else str(shape)
        if ending_of(out) == ".zarr" and len(shapes) == 1 and self.name is None:
            return f"{values}\nread it with strided.open({out!r}), or zarr.open({out!r})"
        if ending_of(out) in convert_file.CONTAINERS:
            what = values if len(shapes) == 1 else f"{len(shapes)} arrays"
            return f"{what}\nread {'it' if len(shapes) == 1 else 'one'} with strided.open({f'{out}:{first}'!r})"
        if layout is None and not is_builtin(shape.dtype):
            numpy = f"numpy.load({out!r}).view(ml_dtypes.{shape.dtype.name})"
            return f"{values}\nread it with strided.load_npy({out!r}), or {numpy}"
        return values


def _check_path(sources: Sequence[str], out: str, to: str | None, overwrite: bool) -> None:
    """Raise an error if OUT should not be written."""
    if out == STANDARD:
        if sys.stdout.isatty():
            raise click.UsageError("standard output is a terminal: bytes go to a file, or into a pipe")
        return
    refuse_standard_output(out)
    if os.path.isdir(out) and ending_of(out) != ".zarr":
        raise click.UsageError(f"{out} is a folder: name a file in it, as in {os.path.join(out, 'x.npy')}")
    if to is not None and ending_of(out) in (".npy", ".npz"):
        raise click.UsageError(
            f"{ending_of(out)} files are row-major: leave --to out, or choose another name for raw bytes"
        )
    known = (".npy", *convert_file.CONTAINERS, *convert_file.RAW_ENDINGS)
    if to is None and ending_of(out) not in known:
        convert_file.refuse_name(out, to)
        file, _, name = out.rpartition(":")
        if ending_of(file) == ".npy":
            raise click.UsageError(f"{file} holds one array, which has no name: leave ':{name}' out")
        raise click.UsageError(
            f"{out}: the ending does not say what to write; end it in .npy, .npz, .safetensors, .zarr or .bin, "
            "or give a layout with --to"
        )
    convert_file.check_target(statuses(sources), out, to, overwrite=overwrite)


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
    """XLA's name of an element type, which may be given by another library's name."""
    meant = element_types_meant(text)
    try:
        kind = element_type_named(meant[0] if len(meant) == 1 else text)
    except UnsupportedError as error:
        raise click.UsageError(f"--dtype: {error}") from None
    if not kind.is_array:
        raise click.UsageError(f"--dtype: {kind.name} has no values")
    return kind.name


def _write_to_standard_output(
    array: Any, layout: str | Layout | None, element_type: str | None, advance: Callable[[int], object]
) -> None:
    """Write to a temporary file first, because blocks are not written in order."""
    with scratch_file() as file:
        with naming_in_write_errors(tempfile.gettempdir()):
            write_array(file, array, convert_file.result_shape(array, layout, element_type), 0, advance)
        file.seek(0)
        shutil.copyfileobj(file, sys.stdout.buffer, COPY_BYTES)
        sys.stdout.buffer.flush()
