"""Checks of the fields of layouts and shapes, and the error that names a field."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from strided.addressing.tiling import COMBINE
from strided.errors import LayoutError
from strided.wording import counted

INT64_MAX = 2**63 - 1


class FieldError(LayoutError):
    """A LayoutError about one field of a layout or shape; `field` is its name."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.field, *self.args)


def integers(values: Any, what: str) -> tuple[int, ...]:
    """The values of the field `what` as ints; FieldError if one is not an integer.

    >>> integers(range(2), "tile")
    (0, 1)
    """
    try:
        return tuple(operator.index(v) for v in values)
    except TypeError:
        raise FieldError(what, f"{what} must be integers, not {str(values)[:100]}") from None


def integer(value: Any, what: str) -> int:
    """The value of the field `what` as an int; FieldError if it is not an integer."""
    try:
        return operator.index(value)
    except TypeError:
        raise FieldError(what, f"{what} must be an integer, not {repr(value)[:100]}") from None


def bounds_text(least: int, value: int) -> str:
    """For a message: the bound that a value violates, `least` or that of 64-bit integers, and the value.

    >>> bounds_text(1, 0)
    '1 or more, not 0'
    """
    return f"{'at most 2^63 - 1' if value > INT64_MAX else f'{least} or more'}, not {value}"


def check_order(minor_to_major: Sequence[int], rank: int) -> None:
    """Raise FieldError unless `minor_to_major` has `rank` entries."""
    if len(minor_to_major) != rank:
        raise FieldError(
            "minor_to_major",
            f"the array has {counted(rank, 'dimension')}, but minor_to_major has {len(minor_to_major)}",
        )


def shortened(values: Sequence[int]) -> str:
    """The first ten numbers, for a message; `*` is a combined dimension."""
    shown = ",".join("*" if v == COMBINE else str(v) for v in values[:10])
    return shown + (",..." if len(values) > 10 else "")
