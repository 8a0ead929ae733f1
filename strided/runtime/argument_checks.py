"""Checks of arguments. Errors name the argument: TypeError for a wrong type, ValueError for a wrong value."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Iterable
from typing import Any

#: The name of a field, in the format string of a buffer.
_FIELD_NAME = re.compile(r":[^:]*:")


def whole(value: Any, name: str, least: int | None = None) -> int:
    """An argument that must be an integer, Python's or NumPy's, as an int; ValueError if it is less than `least`.

    >>> whole(2.0, "width")
    Traceback (most recent call last):
    TypeError: width must be an integer, not float
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None
    if least is not None and number < least:
        raise ValueError(f"{name} must be {least} or more, not {number}")
    return number


def string(value: Any, name: str) -> str:
    """An argument that must be text.

    >>> string(b"add", "opcode")
    Traceback (most recent call last):
    TypeError: opcode must be text, not bytes
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, not {type(value).__name__}")
    return value


def path_text(value: Any, name: str) -> str:
    """An argument that must be a path, as text.

    >>> path_text(b"a.bin", "source")
    'a.bin'
    >>> path_text(3, "source")
    Traceback (most recent call last):
    TypeError: source must be text or a Path, not int
    """
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} must be text or a Path, not {type(value).__name__}")
    return os.fsdecode(value)


def check_function(value: object, name: str) -> None:
    """Raise TypeError unless an argument is callable.

    >>> check_function(3, "predicate")
    Traceback (most recent call last):
    TypeError: predicate must be a function, not int
    """
    if not callable(value):
        raise TypeError(f"{name} must be a function, not {type(value).__name__}")


def check_progress(progress: object) -> None:
    """Raise TypeError unless a progress callback is a function or None. Call this before the work begins."""
    if progress is not None:
        check_function(progress, "progress")


def holds_references(view: memoryview) -> bool:
    """Whether a buffer contains references to Python objects, also in structured elements; these are not data.

    >>> import numpy as np
    >>> record = np.zeros(2, [("O", "i4"), ("name", "O")])
    >>> holds_references(memoryview(record)), holds_references(memoryview(record["O"].copy()))
    (True, False)
    """
    return "O" in _FIELD_NAME.sub("", view.format)


def number(value: Any, name: str) -> float:
    """An argument that must be a real number, Python's or NumPy's, possibly NaN or infinite.

    >>> number(1, "rtol")
    1
    >>> number("1", "rtol")
    Traceback (most recent call last):
    TypeError: rtol must be a number, not str
    """
    found: float = value
    try:
        bool(found >= 0)
    except (TypeError, ValueError):  # a complex number; an array of several numbers
        raise TypeError(f"{name} must be a number, not {type(value).__name__}") from None
    return found


def one_of(value: Any, words: Iterable[str], name: str) -> str:
    """An argument that must be one of a few words.

    >>> one_of("json", ("text", "proto"), "kind")
    Traceback (most recent call last):
    ValueError: kind must be one of 'text', 'proto', not 'json'
    """
    known = tuple(words)
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, not {value!r}")
    found: str = value
    return found
