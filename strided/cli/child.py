"""A child process, in which a command goes on that maps files.

Truncation of a mapped file kills the process that reads it, without a word: its parent is there to say so.

Both belong to one process group, as the terminal expects: it stops and wakes both, and lets both write. Its Ctrl-C
comes to both, too, but somebody else's signal to the parent alone. So the child lets such signals pass, and does what
the parent hands on through a pipe. Where the pipe ends, so has the parent, by whatever signal, and the child follows.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from strided.cli.interruption import ENDING, end, interruptible

#: After how long a thread is told again.
_AGAIN_SECONDS = 0.02
#: The exit code of a child that could not start the thread that listens to its parent.
_NO_THREAD = 71
#: What a process does about a signal.
_Handler = Callable[[int, Any], Any]


def forked() -> int | None:
    """None in a child; in the parent, once the child has ended, the exit code of the child, or minus its signal.

    Raises
    ------
    OSError
        The system starts no process, or no thread in it. Signals have the meaning that they had before.
    """
    handlers = _handlers()
    asked, ask = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, handlers)  # until it is settled who answers
    try:
        child = os.fork()
    except OSError:
        os.close(asked)
        os.close(ask)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers)
        raise
    if child:
        os.close(asked)
        _answer(dict.fromkeys(handlers, lambda number, _: _hand_on(ask, number)))
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == _NO_THREAD:
            _answer(handlers)
            os.close(ask)
            raise OSError(errno.EAGAIN, "no thread can be started")
        return code
    os.close(ask)
    try:
        threading.Thread(target=_watch, args=(asked, _told(handlers)), name="strided_parent", daemon=True).start()
    except RuntimeError:
        os._exit(_NO_THREAD)
    _answer(dict.fromkeys(handlers, lambda *_: None))
    return None


def end_with(work: Callable[[], NoReturn]) -> NoReturn:
    """Do this in a child and end it, as the interpreter ends a process: whoever called goes on in the parent alone.

    A caller that catches SystemExit would otherwise go on in both.
    """
    code: object = 1
    try:
        with interruptible():
            work()
    except SystemExit as done:
        code = done.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):  # whoever writes has named what cannot be written
                stream.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def _handlers() -> Mapping[int, _Handler]:
    """What this process does about each signal that may end it; one that is ignored, as by nohup, stays so."""
    numbers = (signal.SIGINT, *ENDING)
    return {number: handler for number in numbers if callable(handler := signal.getsignal(number))}


def _answer(handlers: Mapping[int, _Handler]) -> None:
    """Answer signals so from now on, those first that came while they were blocked."""
    for number, handler in handlers.items():
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers)


def _hand_on(ask: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the child has ended
        os.write(ask, bytes([number]))


def _told(handlers: Mapping[int, _Handler]) -> Callable[[int], None]:
    """A function for another thread, which has this one do what it would do about a signal.

    A signal of its own wakes this thread where it waits. It is sent until it was seen: the other thread may run just
    because this one is about to wait, and a signal that comes before that wakes nobody.
    """
    this, told = threading.get_ident(), [0]

    def answer(_: int, frame: object) -> None:
        number, told[0] = told[0], 0
        if number:
            handlers.get(number, end)(number, frame)

    def tell(number: int) -> None:
        told[0] = number
        while told[0]:
            signal.pthread_kill(this, signal.SIGUSR1)
            time.sleep(_AGAIN_SECONDS)

    signal.signal(signal.SIGUSR1, answer)
    return tell


def _watch(asked: int, tell: Callable[[int], None]) -> None:
    """Tell which signals come through a pipe; its end counts as SIGTERM."""
    while number := os.read(asked, 1):
        tell(number[0])
    tell(signal.SIGTERM)
