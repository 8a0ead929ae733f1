"""What a command needs before NumPy is imported: answers to Ctrl-C and to errors, and no more threads than it uses.

`strided.cli.main` answers once it runs, but this package, and NumPy with it, is imported before, which is most of the
time that a short command takes. So this module is the first that it imports; `done` is called behind the last one. A
program that only uses the package is left alone.

OpenBLAS starts its threads as NumPy is imported, for products of matrices, which no command computes. Where the system
starts no thread it sends its own process SIGINT: the command would end as if somebody had pressed Ctrl-C.
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
    if name == "-m":  # which it is as long as Python looks for the module
        return sys.orig_argv[-len(sys.argv)] in ("strided", "-mstrided")
    return os.path.basename(name) in ("strided", "strided.exe", "strided-script.py")


def _interrupted(*_: object) -> None:
    _end("interrupted", 130)


def _failed(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """End with a line that says why the package cannot be imported; a mistake of its own shows its traceback."""
    if (message := import_problem(error)) is None:
        sys.__excepthook__(kind, error, trace)
        return
    _end(message, 2)


def _end(message: str, code: int) -> None:
    """End as `strided.cli.main` does: nothing has begun that would have to be undone."""
    if sys.stderr is not None:
        os.write(2, f"strided: {message}\n".encode(errors="backslashreplace"))
    os._exit(code)


def import_problem(error: BaseException) -> str | None:
    """What is said of an error of an import if the system or the installation is at fault, else None.

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
    """Give Ctrl-C and errors their usual meaning again."""
    if signal.getsignal(signal.SIGINT) is _interrupted:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.excepthook is _failed:
        sys.excepthook = sys.__excepthook__


if _is_command():
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.excepthook is sys.__excepthook__:  # else somebody answers errors already
        sys.excepthook = _failed
    # It may be ignored on purpose, as in the background.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
