"""A mapping of names to arrays that are read on access."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from strided.wording import some

Array = TypeVar("Array", covariant=True)


def array_name(name: object, known: Iterable[str]) -> str:
    """The name itself if it is a string; KeyError, as for a missing name, if it is not."""
    if not isinstance(name, str):
        raise KeyError(f"arrays are found by name, not by {type(name).__name__}; there are {some(known)}")
    return name


class ArrayMapping(Mapping[str, Array]):
    """A mapping of names to arrays, equal only to itself: comparing values would read all arrays."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)
