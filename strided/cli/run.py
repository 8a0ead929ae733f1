"""Running a command line: signals, errors and exit codes."""

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

#: What is done about characters that an output's encoding lacks.
_ERRORS = "strided.plain marks"
#: ASCII under another name: to a stream that calls it by its own, click writes UTF-8 all the same.
_ASCII = "strided_ascii"
#: Commands that map files, with the words they are called by.
_MAPPING = (["diff"], ["identify"], ["padding"])
#: Arguments that messages advise to pass to functions, and the options that they are here.
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
            _carry_out_in_child()
        _carry_out(arguments)


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Within this, signals that ask the process to end raise `Ended`; behind it, they do what they did before.

    They may be ignored on purpose, as by nohup.
    """
    before = {number: handler for number in ENDING if (handler := signal.getsignal(number)) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: it was not set from Python


def _carry_out_in_child() -> None:
    """Carry out the command line of this process and end both; return where the system starts no child."""
    try:
        code = forked()
    except OSError:  # ends without a word if a file is truncated meanwhile, but does without a child
        return
    if code is not None:
        _end_as(code)
    end_with(lambda: _carry_out(None))


def _carry_out(arguments: Sequence[str] | None) -> NoReturn:
    try:
        commands.main(args=arguments, prog_name="strided", standalone_mode=False, terminal_width=help_width())
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.exceptions.Abort as abort:  # which click makes of Ctrl-C, and of signals that come to itself
        raise (abort.__cause__ if isinstance(abort.__cause__, Ended) else KeyboardInterrupt) from None
    except NotationError as error:
        _fail_at(error)
    except (click.ClickException, StridedError, OSError, MemoryError, ValueError, IndexError, ImportError) as error:
        _fail(_message_of(error))
    sys.exit(0)


def _prepare_streams() -> None:
    """Make standard output and error take all characters; end the process with an error if output is closed."""
    closed = sys.stdout is None  # by the shell
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the next file opened would take its place
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
    """What is said of an error that ends a command."""
    match error:
        case click.ClickException():
            return error.format_message()
        case FileExistsError():
            return f"{visible(os.fsdecode(error.filename))} already exists; --force overwrites it"
        case OSError():
            return _os_error_message(error)
        case MemoryError():
            return too_little_memory(error)
    return str(error)


def _os_error_message(error: OSError) -> str:
    """The file and what the system says of it, and what may be meant instead of one that is not there."""
    path = None if error.filename is None else os.fsdecode(error.filename)
    if path is None and error.errno == errno.EBADF:
        return "standard input is not open for reading, or standard output not for writing"
    hint = _nearby(path) if path and isinstance(error, FileNotFoundError) else ""
    shown = path and visible(path)  # here, because a line end in a name is none of the message's
    return ": ".join(str(part) for part in (shown, error.strerror or error) if part) + hint


def _renamed_ascii(name: str) -> codecs.CodecInfo | None:
    """The codec of that name, for `codecs.register`; None for any other."""
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
    """End as a child did, of an exit code, or of minus the number of a signal."""
    if code == -signal.SIGBUS:
        _fail("a file was truncated while it was read")
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


def _nearby(path: str) -> str:
    """What may be meant by a path that leads nowhere."""
    from strided.io.remote import is_url

    if path == STANDARD:
        return "; this command does not read standard input"
    if is_url(path):
        return "; commands take files, not URLs: strided.open reads those, in Python"
    there = path
    while not os.path.lexists(there) and (above := os.path.dirname(there)) != there:  # no drive need be there either
        there = above
    name = path[len(there) :].lstrip(f"/{os.sep}")
    if os.path.isfile(there):
        return f"; an array in a file is named as in {there}:{name}" if name else f"; {did_you_mean([there])}"
    with contextlib.suppress(OSError):
        return _meant_in(there, name, sorted(itertools.islice(os.listdir(there or "."), 10_000)))
    return ""


def _meant_in(folder: str, name: str, names: Sequence[str]) -> str:
    """What may be meant by the name of nothing in a folder, of which `names` are there."""
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
        return f"; an array in a dump is named as in {folder}:{name}"
    return f"; there is no folder {os.path.join(folder, first)}" if separator else ""


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    _say(f"strided: warning: {_in_a_line(str(message).split(chr(10), 1)[0])}")


def _say(line: str) -> None:
    """Write a line to standard error, if that takes it: the exit code tells in any case."""
    try:
        click.echo(line, err=True)
    except OSError:  # as on a full disk
        sys.stderr = open(os.devnull, "w", encoding="utf-8")


def _fail(message: str) -> NoReturn:
    _say(f"strided: {_in_a_line(message)}")
    sys.exit(2)


def _in_a_line(message: str) -> str:
    """A message on one line, with the options' names here. Of a long one, the start and the end.

    Spaces within a line may be those of a name, which is shown as it is.
    """
    for argument, option in _OPTIONS:
        message = argument.sub(option, message)
    return visible(" ".join(filter(None, map(str.strip, message.split("\n")))), 2000)


def _fail_at(error: NotationError) -> NoReturn:
    """Print the text, and under it a caret with what was expected there."""
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
