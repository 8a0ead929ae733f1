"""What commands share: options, help texts, the width of the terminal, a progress bar."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator

import click

#: Elements of an array that is large enough for a progress bar.
_LONG = 1 << 26

SHAPE_HELP = "SHAPE is XLA's text, as in 'bf16[17,300]{1,0:T(8,128)(2,1)}'; quote it for the shell."
INDEX_HELP = "INDEX is what stands between NumPy's brackets, as in '9, 200:204' or '..., 0'."
SOURCE_HELP = "FILE may be a .npy file, which needs no SHAPE; gzipped; or - for standard input."
TARGET_HELP = (
    "An OUT that ends in .npy is a NumPy file. One that ends in .bin, .raw or .dat or has no ending holds raw bytes, "
    "row-major without --to; - is standard output. With --to other endings hold raw bytes too, except those of other "
    "formats, such as .npz and .csv. An OUT that exists is kept without --force; OUT is never FILE itself."
)
offset = click.option("--offset", type=click.IntRange(0), default=0, metavar="N", help="Bytes in front of the array.")
kind = click.option(
    "--kind", type=click.Choice(["hlo", "snapshot", "allocations"]), help="What the file is, if its content misleads."
)
bitorder = click.option(
    "--bitorder",
    type=click.Choice(["little", "big"]),
    default="little",
    help="Whether the first packed element of a byte is in its low or its high bits (high: jaxlib up to 0.5.2).",
)


def width() -> int:
    return shutil.get_terminal_size().columns


@contextlib.contextmanager
def progress(size: int, label: str) -> Iterator[Callable[[int], object]]:
    """A function to call with each amount of work done; it draws a bar on a terminal if there is much to do."""
    if size < _LONG or not sys.stderr.isatty():
        yield lambda done: None
        return
    with click.progressbar(length=size, label=label, file=sys.stderr, width=max(5, width() - 45)) as bar:
        yield bar.update
