"""What a command sets up before NumPy is imported: handlers for Ctrl-C and errors, and the number of OpenBLAS threads.

`strided.cli.main` handles both once it runs, but first this package and NumPy are imported, which takes most of the
time of a short command. So the package imports this module first, and calls `done` after the last import. Programs that
use the package as a library are not affected.

OpenBLAS starts threads when NumPy is imported, for matrix products, which no command computes. If the system cannot
start a thread, OpenBLAS sends SIGINT to its own process, and the command would end as if Ctrl-C had been pressed.
"""

from __future__ import annotations

import os
import signal
import sys
from types import TracebackType

from strided.runtime.bytecode import cut_off


def _is_command() -> bool:
    """Whether this process is ``python -m strided``, or the installed ``strided``."""
    name = sys.argv[0] if getattr(sys, "argv", None) else ""
    if name == "-m":  # while Python is looking for the module
        return sys.orig_argv[-len(sys.argv)] in ("strided", "-mstrided")
    return os.path.basename(name) in ("strided", "strided.exe", "strided-script.py")


def _interrupted(*_: object) -> None:
    _end("interrupted", 130)


def _failed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Exit with a message that says why the package cannot be imported; a bug in the package shows its traceback."""
    if (message := import_problem(error)) is None:
        sys.__excepthook__(kind, error, trace)
        return
    _end(message, 2)


def _end(message: str, code: int) -> None:
    """Exit as `strided.cli.main` does, at once: there is nothing to clean up yet."""
    if sys.stderr is not None:
        os.write(2, f"strided: {message}\n".encode(errors="backslashreplace"))
    os._exit(code)


def import_problem(error: BaseException) -> str | None:
    """The message for an import error that is due to the system or the installation; None for other errors.

    >>> import_problem(MemoryError()), import_problem(ImportError("strided needs numpy: pip install numpy"))
    ('not enough memory', 'strided needs numpy: pip install numpy')
    >>> import_problem(OSError(24, "Too many open files", "x.py"))
    'x.py: Too many open files'
    >>> import_problem(ZeroDivisionError())
    """
    match error:
        case MemoryError():
            return "not enough memory"
        case ImportError():
            return " ".join(str(error).split())
        case OSError(filename=path, strerror=words):
            return ": ".join(str(part) for part in (path, words or error) if part)
    return cut_off(error)


def done() -> None:
    """Restore the default handlers of Ctrl-C and errors."""
    if signal.getsignal(signal.SIGINT) is _interrupted:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.excepthook is _failed:
        sys.excepthook = sys.__excepthook__


if _is_command():
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.excepthook is sys.__excepthook__:  # otherwise errors are handled already
        sys.excepthook = _failed
    # SIGINT may be ignored on purpose, as in background jobs.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
