"""How signals and exhausted memory end a command: a line on standard error, and the exit code that shells expect."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from typing import NoReturn

#: Signals that ask a process to end, of those that the system has.
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGBREAK") if hasattr(signal, name))


class Ended(KeyboardInterrupt):
    """A signal asked the process to end, which stops as after Ctrl-C; the argument is the signal's number."""

    @property
    def exit_code(self) -> int:
        """The exit code from which a shell knows the signal."""
        code: int = 128 + self.args[0]
        return code


def end(number: int, *_: object) -> NoReturn:
    """Handle a signal in `ENDING`: raise `Ended`."""
    raise Ended(number)


@contextlib.contextmanager
def exiting_when_ended() -> Iterator[None]:
    """Within this, a signal in `ENDING` ends the process with the exit code for that signal."""
    try:
        yield
    except Ended as ended:
        sys.exit(ended.exit_code)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Around a command: Ctrl-C or a lack of memory ends it with one line instead of a traceback."""
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
    """The message for a MemoryError, with its own message if it has one.

    >>> too_little_memory(MemoryError()), too_little_memory(MemoryError("9 MB are left"))
    ('not enough memory', 'not enough memory: 9 MB are left')
    """
    return f"not enough memory: {error}" if str(error) else "not enough memory"
