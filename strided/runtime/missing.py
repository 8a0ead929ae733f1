"""The error for a library that is not installed: it says what needs the library, and how to install it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def advising(who: str, install: str = "") -> Iterator[None]:
    """Context for imports: the error for a missing library says how to install it, by default by its own name.

    >>> with advising("strided.interop.jax", "strided[jax]"):
    ...     import no_such_library
    Traceback (most recent call last):
        ...
    ModuleNotFoundError: strided.interop.jax needs no_such_library: pip install 'strided[jax]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None:  # raised explicitly, with advice of its own
            raise
        library = error.name.partition(".")[0]
        if library == __name__.partition(".")[0]:  # one of our own modules: a broken installation
            raise
        command = f"pip install '{install}'" if install else f"pip install {library}"
        # It may be another module of that name, as in the working directory, where ``python -m`` looks first.
        found = getattr(sys.modules.get(library), "__file__", None)
        lack = f", and {found} has no {error.name}" if found else ""
        raise ModuleNotFoundError(f"{who} needs {library}{lack}: {command}", name=error.name) from None
