"""A mapping of names to arrays that are read when they are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from strided.wording import some

Array = TypeVar("Array", covariant=True)


def array_name(name: object, known: Iterable[str]) -> str:
    """The name by which an array is asked for; KeyError, as for a name that is not there, if it is no text."""
    if not isinstance(name, str):
        raise KeyError(f"arrays have names, not {type(name).__name__}; there are {some(known)}")
    return name


class ArrayMapping(Mapping[str, Array]):
    """Names and arrays. Equal to itself alone: mappings compare their values, and all arrays would be read for that."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)
