"""Errors and warnings.

::

    Exception
    └── StridedError
        ├── NotationError     (ValueError)           text that is not a valid shape, layout or sharding
        ├── LayoutError       (ValueError)           values of an invalid layout, or a layout without addresses
        ├── BufferSizeError   (ValueError)           a buffer too short (or far too long) for its layout
        ├── DumpError         (ValueError)           a damaged file, or one of another format
        └── UnsupportedError  (NotImplementedError)  understood, but not supported
    Warning
    └── StridedWarning        (UserWarning)
        ├── NotationWarning   malformed text that XLA accepts
        └── DumpWarning       parts of a dump that were not understood

Indexing raises NumPy's exceptions with NumPy's messages.
"""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from types import FrameType

from strided.escape import in_columns, visible

__all__ = [
    "BufferSizeError",
    "DumpError",
    "DumpWarning",
    "LayoutError",
    "NotationError",
    "NotationWarning",
    "StridedError",
    "StridedWarning",
    "UnsupportedError",
]

#: The most characters shown of a message, which may quote any text.
_LONGEST_MESSAGE = 2000
#: The most characters of a text shown before and after the error.
_EXCERPT = 60
#: The folder of this package.
_PACKAGE = os.path.join(os.path.dirname(__file__), "")


class StridedError(Exception):
    """Base class of strided's errors. Messages are safe to show: they are escaped, and long ones are truncated."""

    def __str__(self) -> str:
        return _shown(super().__str__())


class NotationError(StridedError, ValueError):
    """Malformed text. The message shows the text, a caret under the position, and what was expected.

    Attributes
    ----------
    message, text : str
    position : int or None
        Position in `text`, in characters from 0.
    """

    def __init__(self, message: str, *, text: str = "", position: int | None = None) -> None:
        super().__init__(message, text, position)
        self.message: str = message
        self.text: str = text
        self.position: int | None = position

    def __str__(self) -> str:
        return _shown(self.message) + excerpt(self.text, self.position)

    def __reduce__(self) -> tuple[object, ...]:
        return partial(type(self), text=self.text, position=self.position), (self.message,)


class LayoutError(StridedError, ValueError):
    """Values of an invalid layout or shape, or a layout that has no addresses."""


class BufferSizeError(StridedError, ValueError):
    """A buffer whose size does not fit its layout.

    Attributes
    ----------
    actual, needed : int or None
        Sizes in bytes.
    found_format : str or None
        The file format of the buffer, if it begins like one: ``"a .npy file"``.
    packed_bits : int or None
        Bits of packed elements with which the buffer would have the right size, if there are such.
    """

    def __init__(
        self,
        message: str,
        *,
        actual: int | None = None,
        needed: int | None = None,
        found_format: str | None = None,
        packed_bits: int | None = None,
    ) -> None:
        super().__init__(message)
        self.actual: int | None = actual
        self.needed: int | None = needed
        self.found_format: str | None = found_format
        self.packed_bits: int | None = packed_bits

    def with_message(self, message: str) -> BufferSizeError:
        """The same error with another message, such as one that names the file.

        >>> BufferSizeError("too short", actual=3, needed=4).with_message("x.bin: too short").actual
        3
        """
        again = type(self)(message)
        vars(again).update(vars(self))
        return again


@contextlib.contextmanager
def naming_in_size_errors(name: str) -> Iterator[None]:
    """Context in which the messages of BufferSizeErrors get a prefix: the name of what has the wrong size.

    >>> with naming_in_size_errors("x.bin"):
    ...     raise BufferSizeError("too short")
    Traceback (most recent call last):
    strided.errors.BufferSizeError: x.bin: too short
    """
    try:
        yield
    except BufferSizeError as error:
        raise error.with_message(f"{name}: {error}") from None


class DumpError(StridedError, ValueError):
    """A damaged file, or a file of another format.

    Attributes
    ----------
    path : str or None
    position : int or None
        Position in the file, in bytes.
    line, column : int or None
        Position in a text, both from 1.
    """

    def __init__(
        self,
        message: str,
        *,
        path: str | os.PathLike[str] | None = None,
        position: int | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message: str = message
        self.path: str | None = None if path is None else os.fsdecode(path)
        self.position: int | None = position
        self.line: int | None = line
        self.column: int | None = column

    def __str__(self) -> str:
        place = []
        if self.path is not None:
            place.append(visible(self.path, _LONGEST_MESSAGE))
        if self.line is not None:
            place.append(f"line {self.line}" + ("" if self.column is None else f", column {self.column}"))
        if self.position is not None:
            place.append(f"byte {self.position}")
        return f"{', '.join(place)}: {_shown(self.message)}" if place else _shown(self.message)


class UnsupportedError(StridedError, NotImplementedError):
    """Understood, but not supported; the message says why, and what to do instead."""


class StridedWarning(UserWarning):
    """Base class of strided's warnings. Messages are safe to show, as those of errors."""

    def __str__(self) -> str:
        return _shown(super().__str__())


class NotationWarning(StridedWarning):
    """Malformed text that XLA's parser accepts; it was read as XLA reads it."""


class DumpWarning(StridedWarning):
    """Parts of a dump that were not understood, and are kept as text."""


def warn(message: str, kind: type[Warning]) -> None:
    """Issue a warning for the line of the caller outside this package."""
    frame: FrameType | None = sys._getframe(1)
    depth = level = 2
    while frame is not None:
        depth += 1
        if frame.f_code.co_filename.startswith(_PACKAGE):
            level = depth
        frame = frame.f_back
    warnings.warn(message, kind, stacklevel=level)


def excerpt(text: str, position: int | None) -> str:
    """An excerpt of the line of `text` at `position`, with a caret under it, to append to a message.

    >>> print("no" + excerpt("f32[3,,5]", 6))
    no
      f32[3,,5]
            ^
    """
    if position is None:
        return ""
    start = max(text.rfind("\n", 0, position) + 1, position - _EXCERPT)
    stop = text.find("\n", position, position + _EXCERPT)
    stop = min(len(text), position + _EXCERPT) if stop < 0 else stop
    head = "..." if start > 0 and text[start - 1] != "\n" else ""
    tail = "..." if stop < len(text) and text[stop] != "\n" else ""
    before, after = in_columns(text[start:position]), in_columns(text[position:stop])
    return f"\n  {head}{before}{after}{tail}\n  {' ' * (len(head) + len(before))}^"


def _shown(message: str) -> str:
    return visible(message, _LONGEST_MESSAGE, keep="\n")


def __dir__() -> list[str]:
    return list(__all__)
