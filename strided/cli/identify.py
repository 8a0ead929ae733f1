"""`strided identify`: which layout explains these bytes?"""

from __future__ import annotations

import json
import sys

import click
import numpy as np

from strided import inspect, load_npy
from strided.cli.options import offset, progress, width

_KNOWN_HELP = (
    "SHAPE is what is known: 'bf16[17,300]', '[17,300]', 'bf16', 'bf16[17,?]', or a whole shape with a layout, as a "
    "claim to be checked. The exit code is 0 if the evidence decides, 1 if it does not, and 2 for an error."
)


@click.command(epilog=_KNOWN_HELP)
@click.argument("file")
@click.argument("shape", required=False)
@click.option("--like", metavar="REF.npy", help="What the values should be, in any precision.")
@click.option("--top", type=click.IntRange(1), default=3, show_default=True, metavar="N", help="Candidates to list.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@offset
def identify(file: str, shape: str | None, like: str | None, top: int, as_json: bool, offset: int) -> None:
    """Find the layout of raw bytes.

    Only a sample of the file is read, or with --like as much as it takes to be certain.
    """
    values = None if like is None else load_npy(like, mmap_mode="r")
    with progress(0 if values is None else int(np.size(values)), "comparing") as advance:
        found = inspect.identify(file, shape, like=values, offset=offset, limit=top, progress=advance)
    click.echo(json.dumps(found.to_dict(), indent=2) if as_json else found.text(max(20, width())))
    sys.stdout.flush()
    sys.exit(0 if found.best is not None else 1)
