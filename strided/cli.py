"""The command line: one function for each command, which prints what the package returns.

The exit code is 0, 2 for every error, 130 after Ctrl-C, and 128 plus the number of any other signal. Errors are one or
two lines on standard error.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn

import click
import numpy as np

import strided
from strided import demo as demonstration
from strided import inspect, kernels
from strided.errors import NotationError, StridedError, UnsupportedError
from strided.escape import in_columns, visible
from strided.files.atomic import named_when_full
from strided.io import convert_file, file_array
from strided.layout.parser import layout_of

if TYPE_CHECKING:
    from strided.dumps.directory.programs import RunArrays

#: Elements of an array that is large enough for a progress bar.
LONG = 1 << 26

_SHAPE_HELP = "SHAPE is XLA's text, as in 'bf16[17,300]{1,0:T(8,128)(2,1)}'; quote it for the shell."
_INDEX_HELP = "INDEX is what stands between NumPy's brackets, as in '9, 200:204' or '..., 0'."
_SOURCE_HELP = "FILE may be a .npy file, which needs no SHAPE; gzipped; or - for standard input."
_TARGET_HELP = (
    "An OUT that ends in .npy is a NumPy file. One that ends in .bin, .raw or .dat or has no ending holds raw bytes, "
    "row-major without --to; - is standard output. With --to other endings hold raw bytes too, except those of other "
    "formats, such as .npz and .csv. An OUT that exists is kept without --force; OUT is never FILE itself."
)
#: Endings of files that hold raw bytes.
_RAW_ENDINGS = ("", ".bin", ".raw", ".dat")
_STANDARD = "-"

_offset = click.option("--offset", type=click.IntRange(0), default=0, metavar="N", help="Bytes in front of the array.")
_kind = click.option(
    "--kind", type=click.Choice(["hlo", "snapshot", "allocations"]), help="What the file is, if its content misleads."
)
_bitorder = click.option(
    "--bitorder",
    type=click.Choice(["little", "big"]),
    default="little",
    help="Whether the first packed element of a byte is in its low or its high bits (high: jaxlib up to 0.5.2).",
)


#: Signals that ask a process to end, as far as the system has them.
_ENDING = ("SIGTERM", "SIGHUP", "SIGQUIT")


class _Ended(KeyboardInterrupt):
    """The signal of this number asked the process to end; it stops as after Ctrl-C."""


def _end(number: int, *_: object) -> NoReturn:
    raise _Ended(number)


class _Commands(click.Group):
    """The commands, in the order of this file. They end quietly when the reader of their output is gone."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with named_when_full("standard output"):
                super().invoke(ctx)
                sys.stdout.flush()
        except _Ended as ended:
            sys.exit(128 + ended.args[0])
        except BrokenPipeError:
            # Python flushes standard output again at the end: discard that.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.version_option(strided.__version__, message="strided %(version)s")
@click.pass_context
def commands(context: click.Context) -> None:
    """Read, explain and convert buffers in any XLA layout."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@commands.command(epilog=_SHAPE_HELP)
@click.argument("shape", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--at", "index", metavar="INDEX", help="Explain where one element lies, as in --at 9,200.")
@click.option("--byte", type=int, metavar="N", help="Explain what lies at a byte of the buffer.")
@click.option("--plan", nargs=2, metavar="A B", help="Show how a buffer of shape A is converted to layout B.")
def info(shape: str | None, as_json: bool, index: str | None, byte: int | None, plan: tuple[str, str] | None) -> None:
    """Show size, padding and tiles of a shape.

    A picture shows where the elements lie.
    """
    if plan is not None:
        if shape is not None:
            raise click.UsageError("--plan takes two shapes of its own; leave the other one out")
        click.echo(str(inspect.plan_between(*plan)))
        return
    if shape is None:
        raise click.UsageError("missing argument 'SHAPE'")
    parsed = strided.parse(shape)
    if isinstance(parsed, strided.Layout):
        raise click.UsageError(f"{parsed} is a layout alone; write the shape with it, as in 'f32[3,5]{parsed}'")
    if index is not None or byte is not None:
        at = inspect.parse_index(index or "")
        click.echo(str(inspect.explain(parsed, at) if byte is None else inspect.explain_byte(parsed, byte)))
    elif as_json:
        click.echo(json.dumps(inspect.facts(parsed), indent=2))
    else:
        click.echo(inspect.describe(parsed, width=_width()))
        drawn = inspect.captioned_picture(parsed, width=_width())
        if drawn:
            click.echo("\n" + drawn)


# An index may begin with a minus sign, which click would take for an option's.
@commands.command(
    epilog=f"{_SHAPE_HELP} {_SOURCE_HELP} {_INDEX_HELP}", context_settings={"ignore_unknown_options": True}
)
@click.argument("operands", nargs=-1, required=True, metavar="FILE [SHAPE] [INDEX] | DUMP:NAME [INDEX]")
@_offset
@_bitorder
@_kind
def show(operands: tuple[str, ...], offset: int, bitorder: str, kind: str | None) -> None:
    """Show the values of an array.

    It lies in a raw buffer, a .npy file, a dump folder or a snapshot. Extremes and mean are shown too.
    """
    if wrong := [operand for operand in operands if operand.startswith("--")]:
        raise click.NoSuchOption(wrong[0])

    with contextlib.ExitStack() as stack:
        array, rest = _array_of(operands, offset, bitorder, kind, stack)
        if len(rest) > 1:
            raise click.UsageError(f"one index too many: {rest[1]!r}")
        values = array[inspect.parse_index(rest[0])] if rest else array
        with np.printoptions(linewidth=max(20, _width())):
            click.echo(str(values))
        if np.shape(values) or not isinstance(values, np.generic):
            with _progress(values.size, "reading") as advance:
                summary = inspect.statistics(values, progress=advance)
            click.echo(f"\nshape {tuple(values.shape)}, {values.dtype.name}\n{summary}")


@commands.command(epilog=f"{_SHAPE_HELP} {_SOURCE_HELP} {_TARGET_HELP}")
@click.argument("operands", nargs=-1, metavar="FILE [SHAPE] OUT")
@click.option("--to", "layout", metavar="LAYOUT", help="Layout of the raw bytes to write, as in '{0,1:T(8,128)}'.")
@click.option("-f", "--force", is_flag=True, help="Overwrite OUT.")
@_offset
@_bitorder
def convert(operands: tuple[str, ...], layout: str | None, force: bool, offset: int, bitorder: str) -> None:
    """Convert a file to .npy or to another layout."""
    file, shape, out = _operands_of_convert(operands)
    if layout is not None and _ending(out) == ".npy":
        raise click.UsageError(".npy files are row-major: leave --to out, or choose another name for raw bytes")
    if layout is None and out != _STANDARD and _ending(out) not in (".npy", *_RAW_ENDINGS):
        convert_file.refuse_name(out, layout)
        raise click.UsageError(
            f"{out}: the ending does not say what to write; end it in .npy or .bin, or give a layout with --to"
        )
    if out == _STANDARD and sys.stdout.isatty():
        raise click.UsageError("standard output is a terminal: bytes go to a file, or into a pipe")
    with contextlib.ExitStack() as stack:
        source, name = _source(file, stack)
        if out != _STANDARD:
            convert_file.check_target(source, out, layout, overwrite=force)
        array = stack.enter_context(file_array.open_file(source, name, shape, offset=offset, bitorder=bitorder))
        wanted = None if layout is None else layout_of(layout)
        if wanted is None and _ending(out) != ".npy":
            wanted = strided.Layout(tuple(reversed(range(len(array.shape)))))
        with _progress(array.size, "converting") as advance:
            if out == _STANDARD:
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
        case (file, out) if not _is_shape(out):
            return file, None, out
        case () | (_,) | (_, _):
            raise click.UsageError(f"Missing argument {'FILE' if not operands else 'OUT'!r}.")
    raise click.UsageError(f"Got unexpected extra argument ({operands[3]})")


def _is_shape(text: str) -> bool:
    """Whether a word is meant as a shape, right or wrong. Indices and usual file names look different."""
    return re.match(r"\s*(\{|\(?\s*[a-z]\w*\[)", text) is not None


def _ending(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _source(name: str, stack: contextlib.ExitStack) -> tuple[BinaryIO, str]:
    """The open file, and its name in errors."""
    if name != _STANDARD:
        return stack.enter_context(open(name, "rb")), name
    if sys.stdin.isatty():
        raise click.UsageError("standard input is a terminal: give a file, or pipe bytes in")
    return sys.stdin.buffer, "standard input"


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


@commands.command()
@click.argument("path", metavar="DIR | FILE", type=click.Path(exists=True))
@_kind
def ls(path: str, kind: str | None) -> None:
    """List what is in a dump folder or file.

    For a folder, also what is missing, and why.
    """
    if Path(path).is_dir():
        click.echo(str(strided.open_dump(path, mapped=False)))
        return
    found = strided.read_dump(Path(path), kind, mapped=False)
    click.echo(str(found))
    arrays = _named_arrays(found)
    for name in arrays:
        click.echo(visible(f"  {name}: {arrays.shape(name)}"))


@commands.command()
@click.argument("file")
@click.option("--top", type=click.IntRange(0), default=20, show_default=True, metavar="N", help="Values to list.")
@click.option("--padding", "by_padding", is_flag=True, help="Values with the most padding first.")
@click.option("--name", metavar="PATTERN", help="Only instructions of this name, as in 'fusion*'.")
@click.option("--opcode", metavar="PATTERN", help="Only these operations, as in 'copy*'.")
@click.option("--shape", metavar="SHAPE", help="Only results of this shape; of any layout if it names none.")
@click.option("--space", type=int, metavar="N", help="Only results in this memory space.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def hlo(
    file: str,
    top: int,
    by_padding: bool,
    name: str | None,
    opcode: str | None,
    shape: str | None,
    space: int | None,
    as_json: bool,
) -> None:
    """Show the largest values of an HLO module.

    Their sizes are given with and without padding, after a line on the entry computation.
    """
    if not Path(file).is_file():
        raise FileNotFoundError(2, "No such file", file)
    module = strided.read_hlo(Path(file))
    found = module.find(name, opcode=opcode, shape=shape, memory_space=space)
    values = inspect.largest(found, by_padding=by_padding)
    if as_json:
        report = {
            "module": module.name,
            "entry": module.entry.name,
            "parameters": [{"name": p.name, "shape": str(p.shape)} for p in module.parameters],
            "result": str(module.entry.root.shape),
            "values": [
                {"name": v.name, "opcode": v.opcode, "shape": str(v.shape), "bytes": v.byte_size}
                | {"unpadded_bytes": v.unpadded_byte_size}
                for v in values[:top]
            ],
        }
        click.echo(json.dumps(report, indent=2))
        return
    counts = f"{len(module.computations):,} computations, {len(module.instructions):,} instructions"
    click.echo(f"{visible(module.name)}: {counts}")
    entry = f"{len(module.parameters)} parameters, result {module.entry.root.shape}"
    click.echo(f"entry {visible(module.entry.name)}: {entry}")
    click.echo(f"\n{'bytes':>15} {'unpadded':>15} {'times':>6}  {min(top, len(values))} of {len(values):,} values")
    for v in values[:top]:
        click.echo(f"{v.byte_size:>15,} {v.unpadded_byte_size:>15,} {v.growth:>6.3g}  {visible(v.name)}  {v.shape}")


@commands.command("demo")
def demo() -> None:
    """Read and convert a small tiled buffer."""
    click.echo(demonstration.run())


@commands.command()
def warmup() -> None:
    """Compile all kernels now.

    Conversions are then fast from the first one on.
    """
    start = time.perf_counter()
    for number, name in enumerate(kernels.HOMES, 1):
        click.echo(f"{number:2} of {len(kernels.HOMES)}: {name}", err=True)
        kernels.load(name)
    click.echo(f"{len(kernels.HOMES)} kernels are ready ({time.perf_counter() - start:.1f} s)")


# What the commands share.


def _width() -> int:
    return shutil.get_terminal_size().columns


def _array_of(
    operands: Sequence[str], offset: int, bitorder: str, kind: str | None, stack: contextlib.ExitStack
) -> tuple[Any, Sequence[str]]:
    """The array that the operands of `show` name, and the operands after it."""
    first, *rest = operands
    path = Path(first)
    if (first != _STANDARD and not path.exists()) or path.is_dir():
        folder, colon, name = first.rpartition(":")
        if colon and Path(folder).is_dir():
            return _named(folder, strided.open_dump(folder, mapped=False), name), rest
        if colon and Path(folder).is_file():
            return _named(folder, _named_arrays(strided.read_dump(Path(folder), kind, mapped=False)), name), rest
        if path.is_dir():
            raise click.UsageError(
                f"{first} is a folder; name an array in it as {first}:NAME ('strided ls' lists them)"
            )
        raise FileNotFoundError(2, "No such file", first)
    source, name = _source(first, stack)
    shape = rest[0] if rest and _is_shape(rest[0]) else None
    try:
        array = file_array.open_file(source, name, shape, offset=offset, bitorder=bitorder)
        return stack.enter_context(array), rest[shape is not None :]
    except UnsupportedError:
        # .npy files may hold types that XLA lacks.
        if shape is not None or path.suffix != ".npy" or (other := strided.load_npy(path)).dtype.kind == "V":
            raise
        return other, rest


def _named_arrays(content: Any) -> RunArrays:
    """The values of a snapshot, named as in a dump folder; other contents have none."""
    from strided.dumps.directory.programs import RunArrays
    from strided.dumps.snapshots.snapshot import Snapshot

    values = [("argument", content.arguments), ("result", content.results)] if isinstance(content, Snapshot) else []
    return RunArrays({f"{what}{number}": (those, number) for what, those in values for number in range(len(those))})


def _named(place: str, arrays: Mapping[str, Any], name: str) -> Any:
    try:
        array = arrays[name]
    except KeyError as error:
        raise StridedError(f"{place}: {error.args[0]}") from None
    if not isinstance(array, strided.LayoutArray):
        raise StridedError(f"{place}:{name} is no array but {type(array).__name__}")
    return array


@contextlib.contextmanager
def _progress(size: int, label: str) -> Iterator[Callable[[int], object]]:
    """A function to call with each amount of work done; it draws a bar on a terminal if there is much to do."""
    if size < LONG or not sys.stderr.isatty():
        yield lambda done: None
        return
    with click.progressbar(length=size, label=label, file=sys.stderr, width=max(5, _width() - 45)) as bar:
        yield bar.update


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line (by default `sys.argv`) and end the process."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal may lack some characters
    warnings.showwarning = _warn
    for name in _ENDING:
        number = getattr(signal, name, None)
        # Signals may be ignored on purpose, as by nohup.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    try:
        commands.main(args=arguments, prog_name="strided", standalone_mode=False)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except (KeyboardInterrupt, click.exceptions.Abort):
        click.echo("strided: interrupted", err=True)
        sys.exit(130)
    except click.ClickException as error:
        _fail(error.format_message())
    except NotationError as error:
        _fail_at(error)
    except FileExistsError as error:
        _fail(f"{error.filename}: is there already; --force overwrites it")
    except OSError as error:
        path = None if error.filename is None else os.fsdecode(error.filename)
        _fail(": ".join(str(part) for part in (path, error.strerror or error) if part))
    except MemoryError:
        _fail("not enough memory")
    except (StridedError, ValueError, IndexError) as error:
        _fail(str(error))
    sys.exit(0)


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    click.echo(f"strided: warning: {_in_a_line(str(message).split(chr(10), 1)[0])}", err=True)


def _fail(message: str) -> NoReturn:
    click.echo(f"strided: {_in_a_line(message)}", err=True)
    sys.exit(2)


def _in_a_line(message: str) -> str:
    """A message on one line. Of a long one, the start and the end."""
    return visible(" ".join(message.split()), 2000)


def _fail_at(error: NotationError) -> NoReturn:
    """Print the text, and under it a caret with what was expected there."""
    if error.position is None:
        _fail(error.message)
    room = max(20, _width() - len("strided: ") - 1)
    start = max(0, error.position - room)
    before = in_columns(error.text[start : error.position])
    text = before + in_columns(error.text[error.position : error.position + room])
    cut = max(0, min(len(before) - room // 2, len(text) - room))
    column = len("strided: ") + len(before) - cut
    message = _in_a_line(error.message)
    click.echo(f"strided: {text[cut : cut + room]}", err=True)
    if column + len(message) + 2 > _width() and len(message) < column:
        click.echo(f"{message} ^".rjust(column + 1), err=True)
    else:
        click.echo(f"{' ' * column}^ {message}", err=True)
    sys.exit(2)
