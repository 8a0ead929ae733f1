"""Checks of metadata in files of named arrays: sizes in JSON, and names that are text."""

from __future__ import annotations

from typing import Any

from strided.errors import UnsupportedError


def are_sizes(found: Any, least: int = 0) -> bool:
    """Whether a JSON value is a list of integers of at least `least`.

    >>> are_sizes([3, 0]), are_sizes([3, 0], 1), are_sizes([3.0]), are_sizes("30")
    (True, False, False, False)
    """
    return isinstance(found, list) and all(type(n) is int and n >= least for n in found)


def check_is_text(name: object, kind: str) -> None:
    """UnsupportedError if a name is no string, or has surrogates, as file names may; `kind` is the target's format."""
    try:
        if not isinstance(name, str):
            raise TypeError
        name.encode()
    except (TypeError, UnicodeEncodeError):
        raise UnsupportedError(f"{name!r} is no text, as names in a {kind} file must be") from None
