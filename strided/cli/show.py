"""`strided show`: the values of an array."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import click
import numpy as np

from strided import inspect
from strided.cli import forms
from strided.cli.operands import Reading, array_of, with_reading
from strided.cli.options import (
    INDEX_HELP,
    SHAPE_HELP,
    SOURCE_HELP,
    file_names,
    fitted,
    progress,
    width,
)

#: The most elements that are all read unless --stats asks for it. No device holds more, but sparse files may.
_MOST_SUMMARISED = 1 << 36


# Click would take an index that begins with a minus sign for an option.
@click.command(
    epilog="\n\n".join((SHAPE_HELP, SOURCE_HELP, INDEX_HELP)), context_settings={"ignore_unknown_options": True}
)
@click.argument("operands", nargs=-1, required=True, metavar="FILE [SHAPE] [INDEX]", shell_complete=file_names)
@click.option("--hex", "as_hex", is_flag=True, help="Print the bits of the elements in hexadecimal.")
@click.option("--csv", "as_csv", is_flag=True, help="Print all values, a line for each row.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print all values as JSON, or what --stats or --histogram prints."
)
@click.option("--stats", is_flag=True, help="Print only the summary.")
@click.option("--histogram", is_flag=True, help="Print a histogram of the values.")
@with_reading
@click.pass_context
def show(
    context: click.Context,
    operands: tuple[str, ...],
    as_hex: bool,
    as_csv: bool,
    as_json: bool,
    stats: bool,
    histogram: bool,
    reading: Reading,
) -> None:
    """Show the values of an array.

    It lies in a raw buffer, a .npy, .npz, .safetensors or .zarr file, a snapshot or a dump folder. Minimum, maximum and
    mean are shown, too, unless there are too many values to read.
    """
    _refuse_unknown(operands, context.command)
    if as_hex + as_csv + histogram + stats + (as_json and not (histogram or stats)) > 1:
        raise click.UsageError(
            "--hex, --csv, --json, --stats and --histogram: give one; only --json goes with --stats or --histogram"
        )
    values = _selected(operands, reading)
    if isinstance(values, np.generic) and (as_hex or as_csv or as_json or stats or histogram):
        values = np.asarray(values)
    if not forms.are_numbers(values.dtype) and (stats or histogram):
        raise click.UsageError(f"{values.dtype} is not a numeric type: leave --stats and --histogram out")
    with np.printoptions(linewidth=max(20, width())):
        if as_csv:
            for piece in forms.csv(values):
                click.echo(piece, nl=False)
        elif as_hex:
            click.echo(forms.hexadecimal(values))
        elif histogram:
            click.echo(_histogram(values, as_json=as_json))
        elif stats:
            summary = _summary(values)
            click.echo(forms.statistics_json(summary) if as_json else fitted(str(summary)))
        elif as_json:
            click.echo(forms.json_text(values))
        else:
            click.echo(str(values))
            if not isinstance(values, np.generic):
                _echo_about(values)


def _refuse_unknown(operands: Sequence[str], command: click.Command) -> None:
    """NoSuchOption for an operand that looks like an option."""
    if wrong := [operand for operand in operands if operand.startswith("--")]:
        known = [name for option in command.params for name in option.opts if name.startswith("--")]
        raise click.NoSuchOption(wrong[0], possibilities=difflib.get_close_matches(wrong[0], known))


def _selected(operands: Sequence[str], reading: Reading) -> Any:
    """The array that the operands name, or what the index after it selects."""
    array, rest = array_of(operands, reading)
    if len(rest) > 1:
        raise click.UsageError(f"an index is one operand: '{', '.join(rest)}', not {' '.join(rest)}")
    return array[inspect.parse_index(rest[0])] if rest else array


def _histogram(values: Any, *, as_json: bool) -> str:
    """A histogram of the values, with their summary."""
    summary = _summary(values)
    if as_json:
        return forms.histogram_json(values, summary)
    return f"{forms.histogram_text(values, summary, width())}\n\n{fitted(str(summary))}"


def _summary(values: Any) -> inspect.Statistics:
    """Read all values for their minimum, maximum, mean and counts."""
    with progress(values.size, "reading") as advance:
        return inspect.statistics(values, progress=advance)


def _echo_about(values: Any) -> None:
    """Print what comes below the values: the array's shape and type, and a summary if they are numbers."""
    click.echo(f"\nshape {tuple(values.shape)}, {values.dtype.name}")
    if forms.are_numbers(values.dtype):
        unread = f"--stats reads all {values.size:,} values for minimum, maximum and mean"
        click.echo(fitted(str(_summary(values)) if values.size <= _MOST_SUMMARISED else unread))
