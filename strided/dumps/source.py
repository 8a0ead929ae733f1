"""Read the bytes of a dump: from a file, mapped or not, a compressed file, or a buffer in memory."""

from __future__ import annotations

import codecs
import contextlib
import mmap
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeAlias

from strided.dumps.protobuf.file_bytes import FileBytes, View
from strided.dumps.protobuf.wire import as_view
from strided.errors import DumpError
from strided.files.compressed import MAGIC_BYTES, Expander, expander_of
from strided.files.regular import open_regular
from strided.files.streams import Readable

#: Limit for decompressed text, in bytes: reading it takes several times as much memory.
MAX_TEXT_BYTES = 1 << 30
#: Limit for other decompressed contents: no protobuf message is longer. The ratio is not limited, because a snapshot of
#: zeros shrinks to a thousandth.
MAX_BINARY_BYTES = 1 << 31
#: The most lines that are read however short they are, and the bytes that a line and its instruction take besides the
#: characters: a hostile text of more and shorter lines could take many times its size in memory.
FREE_LINES, LINE_BYTES = 1 << 21, 450

#: Bytes that are searched for characters that no text has.
PROBE_BYTES = 4096
#: Bytes of text to decode at a time.
_PIECE_BYTES = 1 << 20
#: Control characters that text may have: tab, line ends, form feed, escape sequences of terminals.
_TEXT_CONTROLS = bytes((9, 10, 11, 12, 13, 27))
#: Some editors put this before UTF-8 text.
BYTE_ORDER_MARK = "\ufeff"
_UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: Carriage returns, strings and comments. Only in a string is a carriage return not the end of a line.
_RETURN = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|/\*.*?(?:\*/|\Z)|(?<!:)//[^\r\n]*+|\r', re.DOTALL)
_NOT_TEXT = bytes(byte for byte in range(32) if byte not in _TEXT_CONTROLS)

#: A path, an object with the buffer protocol, or a `DumpBytes`, which is already opened.
Origin: TypeAlias = Any


class DumpBytes(NamedTuple):
    """Decompressed bytes, and the path, None for bytes in memory. A mapping lives as long as any view of it."""

    view: memoryview
    path: str | None


@contextlib.contextmanager
def naming_in_dump_errors(path: str | None) -> Iterator[None]:
    """Within this, a DumpError that names no file names this one."""
    try:
        yield
    except DumpError as error:
        error.path = error.path or path
        raise


def is_contents(given: str, of_one_line: Callable[[str], bool]) -> bool:
    """Whether a str is the text itself rather than a path: it has several lines, or `of_one_line` accepts it.

    The name of an existing file is always a path.

    >>> is_contents("HloModule m\\n", lambda line: False), is_contents("module.txt", lambda line: "{" in line)
    (True, False)
    """
    return (any(one in given for one in "\n\r\0") or of_one_line(given)) and not os.path.lexists(given)


def open_source(origin: Origin, *, max_bytes: int | None = None, mapped: bool = False) -> DumpBytes:
    """The bytes of a file or buffer, read-only, and decompressed if they are gzip or Zstandard data.

    Decompressed contents have at most `max_bytes`, by default `MAX_TEXT_BYTES` for text, `MAX_BINARY_BYTES` for
    anything else. `mapped` maps a file instead of reading it: call `refuse_truncated` before each later access, because
    reading beyond the end of a truncated file kills the process. DumpError for compressed data that are broken or too
    large, and for what is no regular file; UnsupportedError for Zstandard data that nothing installed decompresses;
    OSError if the file cannot be opened.

    >>> import gzip
    >>> bytes(open_source(gzip.compress(b"HloModule m")).view)
    b'HloModule m'
    """
    if isinstance(origin, DumpBytes):
        return origin
    if not isinstance(origin, (str, os.PathLike)):
        view = _memory(origin).toreadonly()
        if (expand := _expander(_ViewFile(view))) is not None:
            view = _expanded(expand(_ViewFile(view), None, None), None, max_bytes)
        return DumpBytes(view, None)
    path = os.fspath(origin)
    with open_regular(path) as file:
        if (expand := _expander(file)) is not None:
            return DumpBytes(_expanded(expand(file, path, None), path, max_bytes), path)
        found = _mapping(file) if mapped else None
        return DumpBytes(_content(file, path) if found is None else found, path)


def _memory(origin: Origin) -> memoryview:
    """The bytes of a buffer. TypeError for anything else."""
    try:
        return as_view(origin)
    except TypeError:
        raise TypeError(f"expected a path or a contiguous buffer, not {type(origin).__name__}") from None


def open_view(origin: Origin, *, max_bytes: int | None = None, mapped: bool) -> tuple[View, str | None]:
    """The bytes and the path, as `open_source`, but a file that is not `mapped` is read on access."""
    if not mapped and isinstance(origin, (str, os.PathLike)):
        path = os.fspath(origin)
        with contextlib.ExitStack() as stack:
            file = stack.enter_context(open_regular(path))
            if os.fstat(file.fileno()).st_size and _expander(file) is None:  # files of /proc report size 0
                stack.pop_all()
                return FileBytes.of(file, path), path
    return open_source(origin, max_bytes=max_bytes, mapped=mapped)


def open_head(origin: Origin, size: int) -> bytes:
    """At most the first `size` bytes, decompressed. Errors as for `open_source`."""
    if not isinstance(origin, (str, os.PathLike)):
        return _head(_ViewFile(_memory(origin)), None, size)
    with open_regular(origin) as file:
        return _head(file, os.fspath(origin), size)


def _head(file: _Rewound, path: str | None, size: int) -> bytes:
    expand = _expander(file)
    return file.read(size) if expand is None else next(expand(file, path, size), b"")


def lines_of(view: memoryview, path: str | None, max_bytes: int | None) -> list[str]:
    r"""The lines of UTF-8 text without their ends, decoded in pieces to save memory.

    DumpError, without `max_bytes`, for too many short lines (`refuse_short_lines`).

    >>> lines_of(memoryview(b"HloModule m\r\n\nENTRY"), None, None)
    ['HloModule m', '', 'ENTRY']
    """
    lines: list[str] = []
    begun = 0  # where the unfinished last line begins
    for start in range(0, len(view), _PIECE_BYTES):
        end = bytes(view[start : start + _PIECE_BYTES]).rfind(b"\n") + 1
        if end:
            lines += split_lines(_decoded(view[begun : start + end]))[:-1]
            begun = start + end
            if max_bytes is None:
                refuse_short_lines(len(lines), len(view), path)
    lines += split_lines(_decoded(view[begun:]))
    if max_bytes is None:
        refuse_short_lines(len(lines), len(view), path)
    lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
    return lines


def _decoded(data: memoryview) -> str:
    return str(data, "utf-8", "backslashreplace")


def split_lines(text: str) -> list[str]:
    r"""The lines of a text without their ends: a newline, a carriage return, or both, as XLA ends comments at any.

    >>> split_lines('a // b\r\nc // d\re = "f\rg"')
    ['a // b', 'c // d', 'e = "f\rg"']
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if "\r" in text:
        text = _RETURN.sub(lambda found: found[0] if found[0][0] == '"' else found[0].replace("\r", "\n"), text)
    return text.split("\n")


def refuse_short_lines(count: int, size: int, path: str | None = None) -> None:
    """Raise DumpError if `count` lines of a text of `size` bytes would take more than three times its memory."""
    if count > FREE_LINES and count * LINE_BYTES > 2 * size:
        raise DumpError(
            f"more than {FREE_LINES} lines in {size} bytes of text, which take more than three times the text in "
            "memory; in Python, max_bytes= reads them",
            path=path,
        )


def is_text(view: memoryview) -> bool:
    """Whether bytes are text: a proto has control characters near its beginning.

    >>> is_text(memoryview(b"HloModule m")), is_text(memoryview(b"\\n\\x01m"))
    (True, False)
    """
    head = bytes(view[:PROBE_BYTES])
    return not any(byte in _NOT_TEXT for byte in set(head))


def utf16_as_utf8(head: bytes) -> bytes:
    """The beginning of a text in UTF-16, with its byte order mark, as UTF-8; empty for anything else.

    >>> utf16_as_utf8("HloModule m".encode("utf-16")), utf16_as_utf8(b"HloModule m")
    (b'HloModule m', b'')
    """
    if not head.startswith(_UTF16_MARKS):
        return b""
    try:
        found = codecs.getincrementaldecoder("utf-16")().decode(head).encode()
    except UnicodeError:
        return b""
    return found if is_text(memoryview(found)) else b""


def refuse_utf16(view: memoryview, path: str | None) -> None:
    """Raise DumpError for text in UTF-16."""
    if utf16_as_utf8(bytes(view[:PROBE_BYTES])):
        raise DumpError("text in UTF-16, as its byte order mark tells: save it as UTF-8", path=path)


def _mapping(file: BinaryIO) -> memoryview | None:
    """The bytes of a file, mapped; None if it cannot be mapped, as an empty file or one of /proc."""
    try:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (ValueError, OSError):
        return None


def _content(file: BinaryIO, path: str) -> memoryview:
    size = os.fstat(file.fileno()).st_size  # 0 for files of /proc
    limit = max(size, MAX_BINARY_BYTES)
    content = file.read(limit + 1)
    if len(content) < size:
        raise DumpError(f"truncated while it was read: {len(content)} bytes of {size} were left", path=path)
    if len(content) > limit:
        raise DumpError(f"a file that grows while it is read, beyond {limit} bytes", path=path)
    return memoryview(content)


def refuse_truncated(view: View, path: str | None) -> None:
    """Raise DumpError if bytes are mapped from a file that was truncated."""
    mapping = view.obj if isinstance(view, memoryview) else None
    if isinstance(mapping, mmap.mmap) and mapping.size() < len(mapping):
        raise DumpError(f"truncated since it was opened: from {len(mapping)} bytes to {mapping.size()}", path=path)


class _Rewound(Readable, Protocol):
    """A file that can be rewound."""

    def seek(self, position: int, /) -> int: ...


class _ViewFile:
    """A memoryview as a file, without a copy of the whole."""

    def __init__(self, view: memoryview) -> None:
        self._view, self._position = view, 0

    def read(self, size: int, /) -> bytes:
        found = bytes(self._view[self._position : self._position + size])
        self._position += len(found)
        return found

    def seek(self, position: int, /) -> int:
        self._position = position
        return position


def _expander(file: _Rewound) -> Expander | None:
    """The function that decompresses a file, at its beginning before and after; None if it is not compressed."""
    head = file.read(MAGIC_BYTES)
    file.seek(0)
    return expander_of(head)


def _expanded(pieces: Iterator[bytes], path: str | None, max_bytes: int | None) -> memoryview:
    data = bytearray()
    limit = MAX_BINARY_BYTES if max_bytes is None else max_bytes
    # In pieces: a single read would allocate as much memory as the limit allows.
    for piece in pieces:
        if not data and max_bytes is None and is_text(memoryview(piece)):
            limit = MAX_TEXT_BYTES
        if len(data) + len(piece) > limit:
            raise DumpError(
                f"compressed data that expand to more than {limit} bytes: decompress it first; "
                "in Python, max_bytes= allows more",
                path=path,
            )
        data += piece
    return memoryview(data).toreadonly()
