"""What the fields of a value must be, and the error about one of them."""

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
    """The values of a field, which must be integers, as ints; FieldError, with `what` as the field, if one is not.

    >>> integers(range(2), "tile")
    (0, 1)
    """
    try:
        return tuple(operator.index(v) for v in values)
    except TypeError:
        raise FieldError(what, f"{what} must be integers, not {str(values)[:100]}") from None


def integer(value: Any, what: str) -> int:
    """The value of a field that is one integer, as an int; errors as for `integers`."""
    try:
        return operator.index(value)
    except TypeError:
        raise FieldError(what, f"{what} must be an integer, not {repr(value)[:100]}") from None


def bound_missed(least: int, value: int) -> str:
    """What a number must be, which it is not: `least` or more, and of 64 bits.

    >>> bound_missed(1, 0)
    '1 or more, not 0'
    """
    return f"{'at most 2^63 - 1' if value > INT64_MAX else f'{least} or more'}, not {value}"


def check_order(minor_to_major: Sequence[int], rank: int) -> None:
    """Raise FieldError unless an order has a number for each of the dimensions."""
    if len(minor_to_major) != rank:
        raise FieldError(
            "minor_to_major",
            f"the array has {counted(rank, 'dimension')}, but minor_to_major has {len(minor_to_major)}",
        )


def shortened(values: Sequence[int]) -> str:
    """The first ten numbers, for a message; `*` is a combined dimension."""
    shown = ",".join("*" if v == COMBINE else str(v) for v in values[:10])
    return shown + (",..." if len(values) > 10 else "")
