"""What commands share: options, help texts, the width of the terminal, a progress bar."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click
from click.shell_completion import CompletionItem

from strided.wording import wrapped

#: Elements from which a progress bar is drawn.
_LONG = 1 << 26
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]+")

SHAPE_HELP = "SHAPE is XLA's text, as in 'bf16[17,300]{1,0:T(8,128)(2,1)}'; quote it for the shell."
INDEX_HELP = (
    "INDEX is what NumPy takes between brackets, as in '9, 200:204' or '..., 0'. Brackets inside it make a list: "
    "'[1, 2]' is rows 1 and 2."
)
_NAMED_HELP = (
    "FILE.npz:NAME, FILE.safetensors:NAME, FILE.zarr:NAME, SNAPSHOT:NAME or DUMP:NAME, with a name that 'strided ls' "
    "prints"
)
_COMPRESSED_HELP = "Raw bytes and .npy files may be compressed by gzip or zstd."
SOURCE_HELP = (
    f"FILE is a file of raw bytes with its SHAPE after it; a .npy file; {_NAMED_HELP}; or - for standard input. "
    f"{_COMPRESSED_HELP}"
)
SHARD_HELP = f"FILE is a file of raw bytes, a .npy file, or {_NAMED_HELP}. {_COMPRESSED_HELP}"
ENDING_HELP = (
    "The ending of OUT says what it holds: .npy, .npz, .safetensors, .zarr (or OUT.zarr:NAME and so on), and .bin, "
    ".raw, .dat or none for raw bytes, row-major without --to. With --to, a .safetensors file holds the raw bytes and "
    "their shape, a .zarr its chunks in the layout, and any other ending means raw bytes, except those of other "
    "formats, such as .csv. An OUT that exists is replaced only with --force, and never if it is a FILE, too."
)
TARGET_HELP = f"{ENDING_HELP} As OUT, - is standard output."


class ByteNumber(click.IntRange):
    """A number of bytes, at least `min`, in decimal or, as addresses are printed, in hexadecimal."""

    name = "number of bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The integer; BadParameter for other text, or a number less than `min`."""
        if isinstance(value, str) and _HEXADECIMAL.fullmatch(value):
            value = int(value, 16)
        return super().convert(value, param, ctx)


offset = click.option(
    "--offset",
    type=ByteNumber(0),
    default=0,
    metavar="N",
    help="Bytes before the array, as in 4096 or 0x1000.",
)
allow_excess = click.option("--allow-excess", is_flag=True, help="Accept more raw bytes than padding explains.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
force = click.option("-f", "--force", is_flag=True, help="Overwrite an existing file.")
rtol = click.option("--rtol", type=float, default=0, metavar="X", help="Equal if |a - b| <= atol + X * |b|.")
atol = click.option("--atol", type=float, default=0, metavar="X", help="Equal if |a - b| <= X + rtol * |b|.")
ulp = click.option(
    "--ulp", type=click.IntRange(0), metavar="N", help="Equal if at most N ULPs apart; replaces --rtol and --atol."
)
kind = click.option(
    "--kind",
    type=click.Choice(["hlo", "snapshot", "allocations"]),
    help="What the file holds, if it is not recognised.",
)
module_number = click.option(
    "--module",
    "module_number",
    type=click.IntRange(0),
    metavar="N",
    help="Which module of a text that holds several, counted from 0.",
)
bitorder = click.option(
    "--bitorder",
    type=click.Choice(["little", "big"]),
    default="little",
    help="Whether the first packed element of a byte is in its low or its high bits (big: jaxlib up to 0.5.2).",
)


def file_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Let the shell complete file names."""
    return [CompletionItem(incomplete, type="file")]


def check_tolerance(rtol: float, atol: float, ulp: int | None) -> None:
    """UsageError if --ulp is given with --rtol or --atol, which it replaces."""
    if ulp is not None and (rtol or atol):
        raise click.UsageError("--ulp replaces --rtol and --atol: give one or the other")


def width() -> int:
    """Columns of the terminal, or the environment's COLUMNS; 80 if neither is known."""
    return shutil.get_terminal_size().columns


def fitted(text: str) -> str:
    """The text with its lines wrapped and indented to the terminal's width; as it is if there is no terminal."""
    if not (sys.stdout.isatty() or os.environ.get("COLUMNS")):
        return text
    found = []
    for line in text.split("\n"):
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        found += wrapped(line, width(), indent, whole_words=True)
    return "\n".join(found)


def help_width() -> int:
    """Columns of help texts. Click's own minimum is 50, which is too much for a narrow terminal."""
    return max(20, min(width(), 80) - 2)


@contextlib.contextmanager
def progress(size: int, label: str) -> Iterator[Callable[[int], object]]:
    """Yield a function to call with each amount of work done. It draws a bar if the work is long and on a terminal."""
    if size < _LONG or not sys.stderr.isatty():
        yield lambda done: None
        return
    with click.progressbar(length=size, label=label, file=sys.stderr, width=max(5, width() - 45)) as bar:
        yield bar.update
