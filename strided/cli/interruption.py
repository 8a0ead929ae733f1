"""How a command ends that cannot say why itself: a line on standard error, and the exit code that shells expect."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from typing import NoReturn

#: Signals that ask a process to end, as far as the system has them.
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGBREAK") if hasattr(signal, name))


class Ended(KeyboardInterrupt):
    """The signal of this number asked the process to end; it stops as after Ctrl-C."""

    @property
    def exit_code(self) -> int:
        """What tells a shell which signal it was."""
        code: int = 128 + self.args[0]
        return code


def end(number: int, *_: object) -> NoReturn:
    """Raise `Ended`: what the signals in `ENDING` do."""
    raise Ended(number)


@contextlib.contextmanager
def exiting_when_ended() -> Iterator[None]:
    """Within this, a signal in `ENDING` ends the process with the exit code that tells which."""
    try:
        yield
    except Ended as ended:
        sys.exit(ended.exit_code)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Around a command: Ctrl-C, or too little memory to report an error, ends it with a line instead of a traceback."""
    try:
        yield
    except Ended as ended:
        sys.exit(ended.exit_code)
    except KeyboardInterrupt:
        if sys.stderr is not None:
            sys.stderr.write("strided: interrupted\n")
        sys.exit(130)
    except MemoryError as error:
        if sys.stderr is not None:
            sys.stderr.write(f"strided: {too_little_memory(error)}\n")
        sys.exit(2)


def too_little_memory(error: MemoryError) -> str:
    """What is said of an error of too little memory, with what it says itself.

    >>> too_little_memory(MemoryError()), too_little_memory(MemoryError("9 MB are left"))
    ('not enough memory', 'not enough memory: 9 MB are left')
    """
    return f"not enough memory: {error}" if str(error) else "not enough memory"
