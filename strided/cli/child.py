"""Run a command that maps files in a child process, so that its parent can report a crash.

If a mapped file is truncated, the process that reads it dies of SIGBUS and cannot print an error: the parent does.

Both stay in one process group, so that the terminal stops and continues both, and lets both write. Ctrl-C then reaches
both, but a signal from elsewhere only the parent. So the child ignores these signals, and the parent forwards them
through a pipe. If the pipe closes, the parent has died, and the child ends, too.
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

#: Pause before a signal to a thread is repeated.
_RETRY_SECONDS = 0.02
#: The exit code of a child that could not start the thread that listens to its parent.
_NO_THREAD = 71
#: A signal handler.
_Handler = Callable[[int, Any], Any]


def forked() -> int | None:
    """Fork. In the child, return None; in the parent, wait for the child and return its exit code, or minus its signal.

    Raises
    ------
    OSError
        The system cannot start a process, or a thread in it. Signal handlers are then as before.
    """
    handlers = _handlers()
    reader, writer = os.pipe()
    signal.pthread_sigmask(signal.SIG_BLOCK, handlers)  # until the new handlers are set
    try:
        child = os.fork()
    except OSError:
        os.close(reader)
        os.close(writer)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers)
        raise
    if child:
        os.close(reader)
        _install(dict.fromkeys(handlers, lambda number, _: _forward(writer, number)))
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        if code == _NO_THREAD:
            _install(handlers)
            os.close(writer)
            raise OSError(errno.EAGAIN, "no thread can be started")
        return code
    os.close(writer)
    try:
        threading.Thread(
            target=_receive, args=(reader, _deliverer(handlers)), name="strided_parent", daemon=True
        ).start()
    except RuntimeError:
        os._exit(_NO_THREAD)
    _install(dict.fromkeys(handlers, lambda *_: None))
    return None


def end_with(work: Callable[[], NoReturn]) -> NoReturn:
    """Do the work in the child, and end the child as the interpreter would.

    SystemExit must not leave this function: a caller that catches it would go on in both processes.
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
            with contextlib.suppress(OSError, ValueError):  # errors of writing were reported before
                stream.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def _handlers() -> Mapping[int, _Handler]:
    """The handlers of signals that may end this process, without those it ignores, as under nohup."""
    numbers = (signal.SIGINT, *ENDING)
    return {number: handler for number in numbers if callable(handler := signal.getsignal(number))}


def _install(handlers: Mapping[int, _Handler]) -> None:
    """Install signal handlers and unblock the signals; those that arrived meanwhile are then handled."""
    for number, handler in handlers.items():
        signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers)


def _forward(writer: int, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # the child has ended
        os.write(writer, bytes([number]))


def _deliverer(handlers: Mapping[int, _Handler]) -> Callable[[int], None]:
    """Return a function that another thread calls to run a signal's handler in this thread.

    SIGUSR1 interrupts whatever system call this thread waits in. It is repeated until handled: one that arrives just
    before the call begins would not interrupt it.
    """
    this, pending = threading.get_ident(), [0]

    def handle(_: int, frame: object) -> None:
        number, pending[0] = pending[0], 0
        if number:
            handlers.get(number, end)(number, frame)

    def deliver(number: int) -> None:
        pending[0] = number
        while pending[0]:
            signal.pthread_kill(this, signal.SIGUSR1)
            time.sleep(_RETRY_SECONDS)

    signal.signal(signal.SIGUSR1, handle)
    return deliver


def _receive(reader: int, deliver: Callable[[int], None]) -> None:
    """Deliver the signals that arrive through a pipe; its end counts as SIGTERM."""
    while number := os.read(reader, 1):
        deliver(number[0])
    deliver(signal.SIGTERM)
