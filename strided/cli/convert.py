"""`strided convert`: the same values in another layout or format."""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence

import click

import strided
from strided.cli.operands import STANDARD, ending, is_shape, open_source
from strided.cli.options import SHAPE_HELP, SOURCE_HELP, TARGET_HELP, bitorder, offset, progress
from strided.escape import visible
from strided.files.atomic import named_when_full
from strided.io import convert_file, file_array
from strided.layout.parser import layout_of

#: Endings of files that hold raw bytes.
_RAW_ENDINGS = ("", ".bin", ".raw", ".dat")


@click.command(epilog=f"{SHAPE_HELP} {SOURCE_HELP} {TARGET_HELP}")
@click.argument("operands", nargs=-1, metavar="FILE [SHAPE] OUT")
@click.option("--to", "layout", metavar="LAYOUT", help="Layout of the raw bytes to write, as in '{0,1:T(8,128)}'.")
@click.option("-f", "--force", is_flag=True, help="Overwrite OUT.")
@offset
@bitorder
def convert(operands: tuple[str, ...], layout: str | None, force: bool, offset: int, bitorder: str) -> None:
    """Convert a file to .npy or to another layout."""
    file, shape, out = _operands_of_convert(operands)
    if layout is not None and ending(out) == ".npy":
        raise click.UsageError(".npy files are row-major: leave --to out, or choose another name for raw bytes")
    if layout is None and out != STANDARD and ending(out) not in (".npy", *_RAW_ENDINGS):
        convert_file.refuse_name(out, layout)
        raise click.UsageError(
            f"{out}: the ending does not say what to write; end it in .npy or .bin, or give a layout with --to"
        )
    if out == STANDARD and sys.stdout.isatty():
        raise click.UsageError("standard output is a terminal: bytes go to a file, or into a pipe")
    with contextlib.ExitStack() as stack:
        source, name = open_source(file, stack)
        if out != STANDARD:
            convert_file.check_target(source, out, layout, overwrite=force)
        array = stack.enter_context(file_array.open_file(source, name, shape, offset=offset, bitorder=bitorder))
        wanted = None if layout is None else layout_of(layout)
        if wanted is None and ending(out) != ".npy":
            wanted = strided.Layout(tuple(reversed(range(len(array.shape)))))
        with progress(array.size, "converting") as advance:
            if out == STANDARD:
                _write_to_standard_output(array, wanted, advance)
                return
            size = convert_file.convert_array(array, out, wanted, overwrite=force, progress=advance)
    written = str(array.xla_shape.with_layout(wanted)) if wanted else f"{array.dtype.name}{list(array.shape)}"
    click.echo(f"{visible(out)}: {size:,} bytes, {written}")
    if wanted is None and array.dtype.isbuiltin != 1:
        click.echo(f"read it with strided.load_npy({out!r}), or numpy.load({out!r}).view(ml_dtypes.{array.dtype.name})")


def _operands_of_convert(operands: Sequence[str]) -> tuple[str, str | None, str]:
    """FILE, SHAPE and OUT. SHAPE may be left out."""
    match operands:
        case (file, shape, out):
            return file, shape, out
        case (file, out) if not is_shape(out):
            return file, None, out
        case () | (_,) | (_, _):
            raise click.UsageError(f"Missing argument {'FILE' if not operands else 'OUT'!r}.")
    raise click.UsageError(f"Got unexpected extra argument ({operands[3]})")


def _write_to_standard_output(
    array: file_array.FileArray, layout: strided.Layout | None, advance: Callable[[int], object]
) -> None:
    """Write to a nameless file first, because blocks are not written in order."""
    with tempfile.TemporaryFile() as file:
        with named_when_full(tempfile.gettempdir()):
            convert_file.write_file(
                file, array, convert_file.result_shape(array, layout), as_npy=False, progress=advance
            )
        file.seek(0)
        shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)
        sys.stdout.buffer.flush()
