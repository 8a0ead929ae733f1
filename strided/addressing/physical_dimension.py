"""A physical dimension of an array and its digits, divided and combined by tiles."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from strided.addressing.index_expr import Combined, IndexExpr, Quotient, Remainder


class DimensionDigit(NamedTuple):
    """A digit of a physical dimension: ``(index[dimension] // weight) % size``.

    The `last` digit of a coordinate is always below its size, so the size may be larger than necessary.
    """

    dimension: int
    weight: int
    size: int
    last: bool


@dataclass(frozen=True, slots=True)
class PhysicalDimension:
    """A physical dimension while tiles are applied to it.

    `parts` are its digits, minor first; None if it does not split into digits.
    """

    expr: IndexExpr
    bound: int
    parts: tuple[DimensionDigit, ...] | None

    def divided(self, t: int) -> tuple[PhysicalDimension, PhysicalDimension]:
        """This dimension cut into tiles of `t`: the number of the tile, and the index inside it."""
        low, high = _split(self.parts, t)
        grid = PhysicalDimension(Quotient(self.expr, t), -(-self.bound // t), high)
        return grid, PhysicalDimension(Remainder(self.expr, t), t, low)

    def combined(self, minor: PhysicalDimension) -> PhysicalDimension:
        """This dimension combined with the next more minor one."""
        filled = widened(minor.parts, minor.bound)
        parts = None if self.parts is None or filled is None else filled + self.parts
        return PhysicalDimension(Combined(self.expr, minor.expr, minor.bound), self.bound * minor.bound, parts)


def _split(
    parts: tuple[DimensionDigit, ...] | None, t: int
) -> tuple[tuple[DimensionDigit, ...] | None, tuple[DimensionDigit, ...] | None]:
    """The digits of ``% t`` and those of ``// t``; (None, None) if `t` does not divide a digit evenly."""
    if parts is None:
        return None, None
    weight = 1
    for i, part in enumerate(parts):
        top = i == len(parts) - 1
        if weight == t:
            return parts[:i], parts[i:]
        if weight * part.size <= t:
            if t % (weight * part.size) and not top:
                return None, None
            weight *= part.size
            continue
        q, r = divmod(t, weight)
        if r or (part.size % q and not (top and part.last)):
            return None, None
        low = part._replace(size=q, last=False)
        high = part._replace(weight=part.weight * q, size=-(-part.size // q))
        return (*parts[:i], low), (high, *parts[i + 1 :])
    return parts, ()


def widened(parts: tuple[DimensionDigit, ...] | None, bound: int) -> tuple[DimensionDigit, ...] | None:
    """The digits with the top one widened so that their sizes multiply to `bound`, or None if that is impossible."""
    if not parts:
        return parts if bound == 1 else None
    below = math.prod(p.size for p in parts[:-1])
    top = parts[-1]
    if bound != below * top.size and (bound % below or not top.last):
        return None
    return (*parts[:-1], top._replace(size=max(1, bound // below)))
