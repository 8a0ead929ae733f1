"""`strided warmup`: compile all kernels now."""

from __future__ import annotations

import time
import warnings

import click

from strided import kernels
from strided.errors import StridedWarning


@click.command()
def warmup() -> None:
    """Compile all kernels now.

    Conversions are then fast from the first one on.
    """
    start = time.perf_counter()
    for number, name in enumerate(kernels.HOMES, 1):
        click.echo(f"{number:2} of {len(kernels.HOMES)}: {name}", err=True)
        kernels.load(name)
    click.echo(f"{len(kernels.HOMES)} kernels are ready ({time.perf_counter() - start:.1f} s)")
    if kernels.kernel_of(name).folder() is None:
        warnings.warn(
            "what was compiled is not kept: STRIDED_CACHE is 0, or no folder can be written (set NUMBA_CACHE_DIR)",
            StridedWarning,
        )
