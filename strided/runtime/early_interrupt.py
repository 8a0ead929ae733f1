"""Ctrl-C while the command line is imported, which is most of the time that a short command takes.

`strided.cli.main` answers it once it runs, but this package, and NumPy with it, is imported before. So this module is
the first that it imports; `done` is called behind the last one. A program that only uses the package is left alone.
"""

from __future__ import annotations

import os
import signal
import sys


def _is_command() -> bool:
    """Whether this process is ``python -m strided``, or the installed ``strided``."""
    name = sys.argv[0] if getattr(sys, "argv", None) else ""
    if name == "-m":  # which it is as long as Python looks for the module
        return sys.orig_argv[-len(sys.argv)] in ("strided", "-mstrided")
    return os.path.basename(name) in ("strided", "strided.exe", "strided-script.py")


def _end(*_: object) -> None:
    """End as `strided.cli.main` does: nothing has begun that would have to be undone."""
    if sys.stderr is not None:
        os.write(2, b"strided: interrupted\n")
    os._exit(130)


def done() -> None:
    """Give Ctrl-C its usual meaning again."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# It may be ignored on purpose, as in the background.
if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _end)
