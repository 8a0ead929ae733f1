"""Expressions in the logical index, for physical dimensions that do not split into digits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from strided.runtime.aliases import Offsets


@dataclass(frozen=True, slots=True)
class Coordinate:
    """The logical index in one dimension."""

    dimension: int


@dataclass(frozen=True, slots=True)
class Quotient:
    """``of // divisor``: the number of the tile."""

    of: IndexExpr
    divisor: int


@dataclass(frozen=True, slots=True)
class Remainder:
    """``of % divisor``: the index inside the tile."""

    of: IndexExpr
    divisor: int


@dataclass(frozen=True, slots=True)
class Combined:
    """``major * size + minor``: two neighbouring dimensions that ``*`` combines."""

    major: IndexExpr
    minor: IndexExpr
    size: int


@dataclass(frozen=True, slots=True)
class Zero:
    """The index in a dimension of size 1 that a tile of higher rank than the array prepends."""


IndexExpr: TypeAlias = Coordinate | Quotient | Remainder | Combined | Zero


def evaluate(expr: IndexExpr, coordinates: Sequence[Offsets | int]) -> Offsets | int:
    """The value of an expression at one index, or at arrays of indices that broadcast together."""
    match expr:
        case Coordinate(dimension):
            return coordinates[dimension]
        case Quotient(of, divisor):
            return evaluate(of, coordinates) // divisor
        case Remainder(of, divisor):
            return evaluate(of, coordinates) % divisor
        case Combined(major, minor, size):
            return evaluate(major, coordinates) * size + evaluate(minor, coordinates)
        case Zero():
            return 0


def dimensions_of(expr: IndexExpr) -> frozenset[int]:
    """The logical dimensions that an expression depends on."""
    match expr:
        case Coordinate(dimension):
            return frozenset((dimension,))
        case Quotient(of, _) | Remainder(of, _):
            return dimensions_of(of)
        case Combined(major, minor, _):
            return dimensions_of(major) | dimensions_of(minor)
        case Zero():
            return frozenset()
