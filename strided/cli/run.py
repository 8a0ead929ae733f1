"""Run a command line: signals, errors and exit codes."""

from __future__ import annotations

import codecs
import contextlib
import difflib
import errno
import itertools
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import NoReturn

import click

from strided.cli.child import end_with, forked
from strided.cli.group import commands
from strided.cli.interruption import ENDING, Ended, end, too_little_memory
from strided.cli.operands import STANDARD
from strided.cli.options import help_width, width
from strided.errors import NotationError, StridedError
from strided.escape import in_columns, visible
from strided.pictures.plain import in_plain_marks
from strided.wording import did_you_mean

#: The name of the codec error handler for characters that the output's encoding lacks.
_ERRORS = "strided.plain marks"
#: Another name for ASCII: to a stream whose encoding is called "ascii", click writes UTF-8.
_ASCII = "strided_ascii"
#: Errors that a command reports by their message alone; a warning is one where PYTHONWARNINGS says so.
_REPORTED = (click.ClickException, StridedError, OSError, MemoryError, ValueError, IndexError, ImportError, Warning)
#: Command lines that begin like this map files.
_MAPPING = (["diff"], ["identify"], ["padding"])
#: Function arguments that error messages mention, and the command's options to name instead.
_OPTIONS = (
    (re.compile(r"\ballow_excess=True"), "--allow-excess"),
    (re.compile(r"\bgive offset="), "give --offset"),
    (re.compile(r"\bindex=(\d+)"), r"--module \1"),
    (re.compile(r"`like`"), "--like"),
    (re.compile(r"\blike=\(key, values\)"), "--like-index"),
)


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line (by default `sys.argv`) and end the process; KeyboardInterrupt after Ctrl-C."""
    _prepare_streams()
    warnings.showwarning = _warn
    with _ended_by_signals():
        if arguments is None and sys.argv[1:2] in _MAPPING and hasattr(os, "fork"):
            _run_in_child()
        _run_commands(arguments)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Within this, signals that ask the process to end raise `Ended`, except ignored ones, as under nohup."""
    before = {number: handler for number in ENDING if (handler := signal.getsignal(number)) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not set from Python


def _run_in_child() -> None:
    """Run this process's command line in a child and end both; return if the system cannot start a child."""
    try:
        code = forked()
    except OSError:  # without a child, only a truncated file goes unreported
        return
    if code is not None:
        _end_as(code)
    end_with(lambda: _run_commands(None))


def _run_commands(arguments: Sequence[str] | None) -> NoReturn:
    try:
        commands.main(args=arguments, prog_name="strided", standalone_mode=False, terminal_width=help_width())
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.exceptions.Abort as abort:  # click's form of Ctrl-C, and of signals it received
        raise (abort.__cause__ if isinstance(abort.__cause__, Ended) else KeyboardInterrupt) from None
    except NotationError as error:
        _fail_at(error)
    except _REPORTED as error:
        _fail(_message_of(error))
    sys.exit(0)


def _prepare_streams() -> None:
    """Let standard output and error take all characters; end with an error if standard output is closed."""
    closed = sys.stdout is None  # by the shell
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # else the next file opened would take its descriptor
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
    codecs.register_error(_ERRORS, in_plain_marks)
    codecs.register(_renamed_ascii)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            is_ascii = codecs.lookup(stream.encoding).name == "ascii"
            stream.reconfigure(encoding=_ASCII if is_ascii else None, errors=_ERRORS)  # it may lack some characters
    if closed:
        _fail("standard output is closed: send it to a file, or to /dev/null")


def _message_of(error: Exception) -> str:
    """The message for an error that ends a command."""
    match error:
        case click.ClickException():
            return error.format_message()
        case FileExistsError():
            return f"{visible(os.fsdecode(error.filename))} already exists; --force overwrites it"
        case OSError():
            return _os_error_message(error)
        case MemoryError():
            return too_little_memory(error)
        case Warning():
            return _without_excerpt(error)
    return str(error)


def _os_error_message(error: OSError) -> str:
    """The file and the system's message; for a file that does not exist, what may have been meant."""
    path = None if error.filename is None else os.fsdecode(error.filename)
    if path is None and error.errno == errno.EBADF:
        return "standard input is not open for reading, or standard output not for writing"
    hint = _nearby(path) if path and isinstance(error, FileNotFoundError) else ""
    shown = path and visible(path)  # before joining: a newline in the name must not end the message's line
    return ": ".join(str(part) for part in (shown, error.strerror or error) if part) + hint


def _renamed_ascii(name: str) -> codecs.CodecInfo | None:
    """The codec for `_ASCII`, as a search function of `codecs.register`; None for any other name."""
    if name != _ASCII:
        return None
    own = codecs.lookup("ascii")
    return codecs.CodecInfo(
        own.encode,
        own.decode,
        incrementalencoder=own.incrementalencoder,
        incrementaldecoder=own.incrementaldecoder,
        streamwriter=own.streamwriter,
        streamreader=own.streamreader,
        name=_ASCII,
    )


def _end_as(code: int) -> NoReturn:
    """End this process as the child ended: with an exit code, or by a signal (minus its number)."""
    if code == -signal.SIGBUS:
        _fail("a file was truncated while it was read")
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _nearby(path: str) -> str:
    """A hint at what may have been meant by a path that does not exist."""
    from strided.io.remote import is_url

    if path == STANDARD:
        return "; this command does not read standard input"
    if is_url(path):
        return "; commands take files, not URLs: strided.open reads those, in Python"
    there = path
    # A drive, which may be missing, too, is its own parent.
    while not os.path.lexists(there) and (above := os.path.dirname(there)) != there:
        there = above
    name = path[len(there) :].lstrip(f"/{os.sep}")
    if os.path.isfile(there):
        return f"; name an array in a file as {there}:{name}" if name else f"; {did_you_mean([there])}"
    with contextlib.suppress(OSError):
        return _meant_in(there, name, sorted(itertools.islice(os.listdir(there or "."), 10_000)))
    return ""


def _meant_in(folder: str, name: str, names: Sequence[str]) -> str:
    """A hint at what may have been meant by a name that is not among the `names` in a folder."""
    from strided.dumps.directory.names import parse_name

    head, colon, tail = name.partition(":")
    first, separator, below = name.replace("/", os.sep).partition(os.sep)
    if colon and head in names:
        return f"; leave '{colon}{tail}' out"
    for meant, rest in ((name, ""), (head, colon + tail), (first, separator + below)):
        close = difflib.get_close_matches(meant, names, n=1, cutoff=0.8)
        if close and not (rest.startswith(os.sep) and os.path.isfile(os.path.join(folder, close[0]))):
            return f"; {did_you_mean([os.path.join(folder, close[0]) + rest])}"
    if folder and any(map(parse_name, names)):
        return f"; name an array in a dump as {folder}:{name}"
    return f"; there is no folder {os.path.join(folder, first)}" if separator else ""


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    _say(f"strided: warning: {_in_a_line(_without_excerpt(message))}")


def _without_excerpt(message: Warning | str) -> str:
    """What a warning says, without the text that it is about."""
    return str(message).split("\n", 1)[0]


def _say(line: str) -> None:
    """Write a line to standard error if possible: the exit code reports the error anyway."""
    try:
        click.echo(line, err=True)
    except OSError:  # as on a full disk
        sys.stderr = open(os.devnull, "w", encoding="utf-8")


def _fail(message: str) -> NoReturn:
    _say(f"strided: {_in_a_line(message)}")
    sys.exit(2)


def _in_a_line(message: str) -> str:
    """A message on one line, naming options instead of arguments. A long one is shortened in the middle.

    Spaces within a line are kept: they may belong to a file's name.
    """
    for argument, option in _OPTIONS:
        message = argument.sub(option, message)
    return visible(" ".join(filter(None, map(str.strip, message.split("\n")))), 2000)


def _fail_at(error: NotationError) -> NoReturn:
    """Print the text, with a caret and the message under the place of the error, and exit."""
    if error.position is None:
        _fail(error.message)
    room = max(20, width() - len("strided: ") - 1)
    start = max(0, error.position - room)
    before = in_columns(error.text[start : error.position])
    text = before + in_columns(error.text[error.position : error.position + room])
    cut = max(0, min(len(before) - room // 2, len(text) - room))
    column = len("strided: ") + len(before) - cut
    message = _in_a_line(error.message)
    _say(f"strided: {text[cut : cut + room]}")
    if column + len(message) + 2 > width() and len(message) < column:
        _say(f"{message} ^".rjust(column + 1))
    else:
        _say(f"{' ' * column}^ {message}")
    sys.exit(2)
