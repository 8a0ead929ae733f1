"""How a command ends that cannot say why itself: a line on standard error, and the exit code that shells expect."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Around a command: Ctrl-C, or too little memory to report an error, ends it with a line instead of a traceback."""
    try:
        yield
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("strided: interrupted\n")
        sys.exit(130)
    except MemoryError:
        if sys.stderr is not None:
            sys.stderr.write("strided: not enough memory\n")
        sys.exit(2)
