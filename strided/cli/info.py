"""`strided info`: the size, padding and tiles of a shape."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import click

from strided import inspect
from strided.cli.operands import STANDARD
from strided.cli.options import SHAPE_HELP, ByteNumber, as_json, file_names, fitted, force, width
from strided.cli.pictures import write_svg
from strided.cli.targets import check_target
from strided.diagnosis.window import window
from strided.escape import visible
from strided.io.containers import split_name
from strided.layout import AnyShape, Shape
from strided.layout.parser import any_shape, array_shape
from strided.tpu.default_layout import GENERATIONS, default_layout

#: Options that --json goes with.
_IN_JSON = ("--ranges", "--at", "--byte")


@click.command(epilog=SHAPE_HELP)
@click.argument("operands", nargs=-1, metavar="SHAPE")
@as_json
@click.option(
    "--generation",
    type=click.Choice(GENERATIONS),
    help="Use the default layout of this TPU's compiler.",
)
@click.option("--at", "index", metavar="INDEX", help="Explain where one element lies, as in --at 9,-1.")
@click.option("--byte", type=ByteNumber(0), metavar="N", help="Explain what lies at a byte of the buffer.")
@click.option(
    "--svg",
    metavar="FILE",
    shell_complete=file_names,
    help="Write the picture of the layout to an SVG file; - is standard output.",
)
@force
@click.option("--plan", nargs=2, metavar="A B", help="Show how a buffer of shape A is converted to layout B; no SHAPE.")
@click.option("--ranges", metavar="INDEX", help="List the byte ranges of a window, as in --ranges '9, 200:204'.")
@click.option("--gap", type=ByteNumber(0), default=0, metavar="N", help="Join ranges at most N bytes apart.")
def info(
    operands: tuple[str, ...],
    as_json: bool,
    generation: str | None,
    index: str | None,
    byte: int | None,
    svg: str | None,
    force: bool,
    plan: tuple[str, str] | None,
    ranges: str | None,
    gap: int,
) -> None:
    """Show the size, padding and tiles of a shape.

    A picture shows where its elements lie.
    """
    shape = _one(operands)
    _refuse_several({"--plan": plan, "--svg": svg, "--ranges": ranges, "--at": index, "--byte": byte}, as_json)
    if plan is not None:
        if shape is not None or generation is not None:
            extra = "the other one" if shape is not None else "--generation"
            raise click.UsageError(f"--plan takes two shapes of its own; leave {extra} out")
        click.echo(fitted(str(inspect.plan_between(*plan))))
        return
    if gap and ranges is None:
        raise click.UsageError("--gap goes with --ranges")
    if shape is None:
        raise click.UsageError("Missing argument 'SHAPE'.")
    parsed = any_shape(shape) if generation is None else _on_tpu(shape, generation)
    if svg is not None:
        check_target(svg, (), ".svg", overwrite=force)
        write_svg(inspect.svg(array_shape(parsed)), svg, force=force)
        if svg != STANDARD:
            click.echo(f"{visible(svg)}: {os.path.getsize(svg):,} bytes")
    elif ranges is not None:
        read = window(parsed, inspect.parse_index(ranges), gap, ranges.strip())
        click.echo(json.dumps(read.to_dict()) if as_json else str(read))
    elif index is not None:
        element = inspect.explain(parsed, _at(index, parsed))
        click.echo(json.dumps(element.to_dict(), indent=2) if as_json else element.text(width()))
    elif byte is not None:
        slots = _slots_in(parsed, byte)
        found = json.dumps([slot.to_dict() for slot in slots], indent=2)
        click.echo(found if as_json else "\n\n".join(slot.text(width()) for slot in slots))
    else:
        click.echo(json.dumps(inspect.facts(parsed), indent=2) if as_json else _described(parsed, width()))


def _refuse_several(questions: Mapping[str, object], as_json: bool) -> None:
    """UsageError if more than one of these options is given, or --json with one that prints no JSON."""
    given = [name for name, value in questions.items() if value is not None]
    if len(given) > 1 or (as_json and given and given[0] not in _IN_JSON):
        raise click.UsageError(f"{' and '.join([*given, *['--json'] * as_json])} do not go together: give one of them")


def _one(operands: Sequence[str]) -> str | None:
    """The only operand. UsageError for a file."""
    for operand in operands:
        with contextlib.suppress(OSError):  # no existing path
            path = operand if operand == STANDARD else split_name(operand)[0]
            raise click.UsageError(f"info takes a shape alone: 'strided show' reads {path}")
    if len(operands) > 1:
        raise click.UsageError(f"info takes one shape, found {len(operands)} operands; quote the shape for the shell")
    return operands[0] if operands else None


def _on_tpu(text: str, generation: str) -> Shape:
    """The shape in the default layout of a TPU. UsageError if the text has another layout than row-major."""
    shape = array_shape(text)
    if shape != shape.with_layout(None):
        raise click.UsageError(f"{text} has a layout of its own: leave that or --generation out")
    return shape.with_layout(default_layout(shape, generation))


def _slots_in(shape: AnyShape, byte: int) -> list[inspect.Explanation]:
    """What lies in each slot of a byte; packed elements share one."""
    first = inspect.explain_byte(shape, byte)
    return [first, *(inspect.explain_byte(shape, byte, bit) for bit in range(first.bits, 8, first.bits))]


def _described(shape: AnyShape, columns: int) -> str:
    """A shape in words, and below them its picture, if it has one."""
    words, drawn = inspect.describe(shape, width=columns), inspect.captioned_picture(shape, width=columns)
    return f"{words}\n\n{drawn}" if drawn else words


def _at(text: str, shape: Any) -> Any:
    """The index of an element; negative numbers count from the end, as in NumPy."""
    index = inspect.parse_index(text)
    # A list, too: indices are printed in brackets.
    numbers = tuple(index) if isinstance(index, (tuple, list)) else (index,)
    if any(type(number) is not int for number in numbers):
        raise click.UsageError(f"--at takes one integer for each dimension, as in 9,200, not {text!r}; see --ranges")
    sizes = getattr(shape, "dimensions", ())
    if len(numbers) != len(sizes):
        return numbers
    return tuple(i + n if -n <= i < 0 else i for i, n in zip(numbers, sizes, strict=True))
