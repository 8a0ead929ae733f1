"""A mapping of names to arrays that are read when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Array = TypeVar("Array", covariant=True)


class ArrayMapping(Mapping[str, Array]):
    """Names and arrays. Equal to itself alone: mappings compare their values, and all arrays would be read for that."""

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)
