"""Arguments that callers give: each is what it must be, or TypeError names it."""

from __future__ import annotations

import operator
from typing import Any


def whole(value: Any, name: str) -> int:
    """An argument that must be an integer, Python's or NumPy's, as an int.

    >>> whole(2.0, "width")
    Traceback (most recent call last):
    TypeError: width must be an integer, not float
    """
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}") from None


def string(value: Any, name: str) -> str:
    """An argument that must be text.

    >>> string(b"add", "opcode")
    Traceback (most recent call last):
    TypeError: opcode must be text, not bytes
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, not {type(value).__name__}")
    return value


def at_least(value: Any, least: float, name: str) -> bool:
    """Whether an argument, which must be a real number, is `least` or more; NaN is not.

    >>> at_least(1, 0, "rtol"), at_least(float("nan"), 0, "rtol")
    (True, False)
    >>> at_least("1", 0, "rtol")
    Traceback (most recent call last):
    TypeError: rtol must be a number, not str
    """
    try:
        return bool(value >= least)
    except (TypeError, ValueError):  # complex; an array of several numbers
        raise TypeError(f"{name} must be a number, not {type(value).__name__}") from None
