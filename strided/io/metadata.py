"""What the formats of several arrays ask of their metadata: sizes in JSON, and names that are text."""

from __future__ import annotations

from typing import Any

from strided.errors import UnsupportedError


def are_sizes(found: Any, least: int = 0) -> bool:
    """Whether a value of JSON is a list of integers, each of which is `least` or more.

    >>> are_sizes([3, 0]), are_sizes([3, 0], 1), are_sizes([3.0]), are_sizes("30")
    (True, False, False, False)
    """
    return isinstance(found, list) and all(type(n) is int and n >= least for n in found)


def check_is_text(name: object, kind: str) -> None:
    """UnsupportedError if a name is no text, or, as that of a file may, has bytes that are none.

    `kind` is what it goes into.
    """
    try:
        if not isinstance(name, str):
            raise TypeError
        name.encode()
    except (TypeError, UnicodeEncodeError):
        raise UnsupportedError(f"{name!r} is no text, and names in a {kind} file are") from None
