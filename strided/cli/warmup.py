"""`strided warmup`: compile all kernels."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import click

from strided import kernels
from strided.errors import StridedWarning, warn
from strided.escape import visible
from strided.kernels import background


@contextmanager
def _without_gc() -> Iterator[None]:
    """Within this, no garbage is collected: the compiler's objects live on, and scanning them takes 20% of the time."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


@contextmanager
def _interruptions_raised() -> Iterator[None]:
    """Raise at the end what a signal handler raised in a callback from LLVM, where Python would drop it."""
    before, lost = sys.unraisablehook, list[BaseException]()

    def keep(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_value is None or isinstance(unraisable.exc_value, Exception):
            before(unraisable)
        else:
            lost.append(unraisable.exc_value)

    sys.unraisablehook = keep
    try:
        yield
    finally:
        sys.unraisablehook = before
        if lost:
            raise lost[0]


def _compile_in_parallel(folder: Path | None) -> set[str]:
    """Compile missing kernels in several processes and return their names; none if one process does as well."""
    # Imported here, because listing all commands imports this module.
    from strided.kernels.compile_all import compile_all, processes_for

    missing = [name for name in kernels.HOMES if not kernels.kernel_of(name).is_on_disk()]
    processes = processes_for(len(missing))
    if folder is None or processes < 2:
        return set()
    background.refuse_to_crash(lambda: False)
    click.echo(f"compiling {len(missing)} kernels, by {processes} processes", err=True)
    made = set[str]()
    with closing(compile_all(missing, folder, processes)) as names:
        for number, name in enumerate(names, 1):
            click.echo(f"{number:2} of {len(kernels.HOMES)}: {name}", err=True)
            made.add(name)
    return made


@click.command()
def warmup() -> None:
    """Compile all kernels now.

    Conversions are then fast from the first one on.
    """
    click.echo("loading the compiler", err=True)
    try:
        folder = kernels.kernel_of(next(iter(kernels.HOMES))).folder()
    except Exception as error:  # importing Numba or LLVM may raise anything
        raise click.ClickException(f"kernels cannot be compiled: {error!r}") from error
    if folder is None:
        warn(
            "compiled kernels are not kept: STRIDED_CACHE is 0, or no folder can be written (set NUMBA_CACHE_DIR)",
            StridedWarning,
        )
    start, count = time.perf_counter(), len(kernels.HOMES)
    made = _compile_in_parallel(folder)
    for number, name in enumerate((name for name in kernels.HOMES if name not in made), 1 + len(made)):
        click.echo(f"{number:2} of {count}: {name}", err=True)
        with _without_gc(), _interruptions_raised():
            kernels.load(name)
    click.echo(f"{count} kernels are ready ({time.perf_counter() - start:.1f} s)")
    # The folder was found to be writable, but it may have run out of space.
    if folder is not None and (lost := sum(not kernels.kernel_of(name).is_on_disk() for name in kernels.HOMES)):
        warn(f"{lost} of them are not kept: {visible(str(folder))} takes no more, as on a full disk", StridedWarning)
