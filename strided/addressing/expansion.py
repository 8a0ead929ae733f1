"""A layout taken apart: its sizes, the way from an index to an offset and back, and where its padding lies.

*Expanded* dimensions are what tiles make of the dimensions of an array. In `memory`, expansion is XLA's word for
something else: how many times its size without padding a buffer takes.
"""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import MAX_NDIM, AddressMap, IrregularTerm
from strided.addressing.digits import Digit, Term, append_joined
from strided.addressing.index_expr import IndexExpr, dimensions_of
from strided.addressing.physical_dimension import DimensionDigit, widened
from strided.errors import LayoutError
from strided.runtime.aliases import Offsets
from strided.runtime.lazy import lazy

#: Offsets are 64-bit; a layout whose formula reaches further has sizes, but no addresses.
_ADDRESSABLE_ELEMENTS = 2**62


class AppliedTile(NamedTuple):
    """One tile as it was applied, with all that undoing it takes."""

    prefix: int  # physical dimensions that it left alone, including those put in front
    added: int  # dimensions of size 1 that were put in front
    entries: tuple[int, ...]  # its sizes, `*` taken out
    bounds: tuple[tuple[int, ...], ...]  # an entry: bounds of the dimensions that it combined, major first
    owners: tuple[int | None, ...]  # an entry: the logical dimension whose padding it adds

    def undone(self, values: list[Offsets], over: Offsets, rank: int) -> list[Offsets]:
        """The indices in front of this tile, of those behind it; in `over` the dimensions that run over are named."""
        n = len(self.entries)
        grid, inner = values[self.prefix : self.prefix + n], values[self.prefix + n :]
        found = values[: self.prefix]
        for t, bounds, owner, g, r in zip(self.entries, self.bounds, self.owners, grid, inner, strict=True):
            whole = g * t + r
            _mark(over, whole >= math.prod(bounds), rank if owner is None else owner)
            found += _row_major_index(whole, bounds)
        return found[self.added :]


@dataclass(frozen=True)
class Expansion:
    """A dense layout taken apart.

    Attributes
    ----------
    dimensions, minor_to_major : tuple of int
        As the layout has them.
    alignment : int
        Elements are rounded up to a multiple of this (``L(n)``).
    bounds : tuple of int
        Sizes of the expanded dimensions, major first: an element's offset is row-major over them.
    exprs : tuple of IndexExpr
        Each expanded dimension as an expression in the logical index.
    tile_elements : int
        Elements counted by the first tile alone, as XLA does (``ShapeUtil::ArraySize``).
    parts : tuple of (tuple of DimensionDigit, or None)
        The digits of each expanded dimension, minor first; None if it is not made of digits.
    applied : tuple of AppliedTile
        The tiles in their order.
    """

    dimensions: tuple[int, ...]
    minor_to_major: tuple[int, ...]
    alignment: int
    bounds: tuple[int, ...]
    exprs: tuple[IndexExpr, ...]
    tile_elements: int
    parts: tuple[tuple[DimensionDigit, ...] | None, ...]
    applied: tuple[AppliedTile, ...]

    @lazy
    def strides(self) -> tuple[int, ...]:
        """Elements from one to the next along each expanded dimension."""
        minor_first = itertools.accumulate(reversed(self.bounds[1:]), operator.mul, initial=1)
        return tuple(reversed([*minor_first])) if self.bounds else ()

    @lazy
    def grid_elements(self) -> int:
        """Slots of the address formula: the product of the bounds."""
        return math.prod(self.bounds)

    @lazy
    def address_elements(self) -> int:
        """`grid_elements`, rounded up by the alignment."""
        return -(-self.grid_elements // self.alignment) * self.alignment

    @lazy
    def allocated_elements(self) -> int:
        """Elements that XLA allocates: `address_elements`, or fewer if a later tile pads again."""
        return -(-self.tile_elements // self.alignment) * self.alignment

    @lazy
    def address_map(self) -> AddressMap:
        """Logical index to offset.

        Raises
        ------
        LayoutError
            Offsets do not fit 64 bits, or uneven tiles of an array of too many dimensions.
        """
        self._check_addressable()
        rank = len(self.dimensions)
        if rank > MAX_NDIM and None in self.parts:
            raise LayoutError(
                f"tiles that divide each other unevenly in an array of {rank} dimensions; "
                f"addresses of more than {MAX_NDIM} are not computed"
            )
        digits: list[list[Digit]] = [[] for _ in range(rank)]
        torn: list[tuple[IndexExpr, int]] = []
        for expr, parts, stride in zip(self.exprs, self.parts, self.strides, strict=True):
            if parts is None:
                torn.append((expr, stride))
                continue
            for dimension, weight, size, _ in parts:
                digits[dimension].append(Digit(weight, size, stride))
                stride *= size
        still = tuple((0, tuple(int(k == d) for k in range(rank))) for d in range(rank)) if torn else ()
        return AddressMap(
            self.dimensions,
            0,
            tuple(
                (Term(0, 1, _merged(own, size) if size else (Digit(1, 1, 0),)),) if own else ()
                for own, size in zip(digits, self.dimensions, strict=True)
            ),
            tuple(IrregularTerm(tuple(group), still) for group in _irregular_groups(torn)),
            self.grid_elements,
        )

    def coordinates_at(self, offset: Offsets) -> tuple[tuple[Offsets, ...], Offsets]:
        """The index at each offset (0 or more), and the dimension that runs over there, or -1.

        The dimension is the rank if the slot belongs to none: past the last tile (alignment), or in a dimension that a
        tile of higher rank put in front. Unless it is -1, the index is meaningless.
        """
        self._check_addressable()
        rank = len(self.dimensions)
        over = np.where(offset < self.grid_elements, -1, rank)
        _, *values = _row_major_index(offset, (1, *self.bounds))
        for tile in reversed(self.applied):
            values = tile.undone(values, over, rank)
        index = [np.zeros_like(offset)] * rank
        for dimension, value in zip(reversed(self.minor_to_major), values, strict=True):
            index[dimension] = value
            _mark(over, value >= self.dimensions[dimension], dimension)
        return tuple(index), over

    @lazy
    def padded_map(self) -> tuple[AddressMap, tuple[int, ...]] | None:
        """Maps the array with its padding: the map, and the sizes without padding; None for irregular layouts.

        The digits of every dimension are widened until they fill the tiles. Behind the dimensions come those that a
        tile of higher rank put in front, of size 1 without padding.
        """
        self._check_addressable()
        rank = len(self.dimensions)
        digits: list[list[Digit]] = [[] for _ in range(rank)]
        sizes, true = [1] * rank, list(self.dimensions)
        for bound, parts, stride in zip(self.bounds, self.parts, self.strides, strict=True):
            if parts == ():
                # No coordinate ever moves along this dimension: all of it but its start is padding.
                digits.append([Digit(1, bound, stride)])
                sizes.append(bound)
                true.append(1)
                continue
            filled = widened(parts, bound)
            if filled is None:
                return None
            for dimension, weight, size, _ in filled:
                digits[dimension].append(Digit(weight, size, stride))
                sizes[dimension] *= size
                stride *= size
        axes = tuple((Term(0, 1, tuple(sorted(own))),) if own else () for own in digits)
        return AddressMap(tuple(sizes), 0, axes, (), self.grid_elements), tuple(true)

    @lazy
    def padding_maps(self) -> tuple[AddressMap, ...] | None:
        """Maps whose elements are all the slots that hold no element, each slot once; None for irregular layouts.

        All slots but a tail are the box of the padded array. The padding is what lies outside the box of true sizes.
        """
        self._check_addressable()
        if not self.grid_elements:
            return ()
        if self.padded_map is None:
            return None
        grid, true = self.padded_map
        boxes = [_beyond(grid, true, k) for k in range(grid.ndim) if true[k] < grid.shape[k]]
        tail = self.address_elements - self.grid_elements
        if tail:
            boxes.append(AddressMap.from_strides((tail,), (1,), self.grid_elements))
        return tuple(b for b in boxes if b.size)

    def _check_addressable(self) -> None:
        if self.address_elements > _ADDRESSABLE_ELEMENTS:
            raise LayoutError(
                f"the layout reaches {self.address_elements} elements; addresses of more than "
                f"{_ADDRESSABLE_ELEMENTS} are not computed"
            )


def _beyond(grid: AddressMap, true: tuple[int, ...], axis: int) -> AddressMap:
    """What lies past the end of an axis of the padded array, within the true sizes of the axes before it."""
    box = grid.sliced(axis, true[axis], 1, grid.shape[axis] - true[axis])
    for k in range(axis):
        box = box.sliced(k, 0, 1, true[k])
    return box


def _row_major_index(number: Offsets, bounds: tuple[int, ...]) -> list[Offsets]:
    """The index along each axis of the element of a number; along the first axis it may reach beyond its bound.

    >>> _row_major_index(np.array([7]), (2, 3))
    [array([2]), array([1])]
    """
    index: list[Offsets] = []
    for bound in reversed(bounds[1:]):
        number, own = _divided(number, bound)
        index.insert(0, own)
    return [number, *index]


def _divided(value: Offsets, by: int) -> tuple[Offsets, Offsets]:
    """Quotient and remainder; by 0 as by 1. (NumPy has vectors for ``//`` by one number, none for ``%``.)"""
    if by <= 1:
        return value, np.zeros_like(value)
    quotient = value // by
    return quotient, value - quotient * by


def _mark(over: Offsets, beyond: npt.NDArray[np.bool_], dimension: int) -> None:
    """Name the dimension that runs over, where none is named yet."""
    if beyond.any():
        over[beyond & (over < 0)] = dimension


def _merged(digits: list[Digit], size: int) -> tuple[Digit, ...]:
    """The digits of a coordinate that stays below `size`: neighbours joined where one goes on where the other ends.

    Missing digits, which were torn and became expressions, move nothing: they get stride 0.
    """
    merged: list[Digit] = []
    weight = 1
    for digit in sorted(digits):
        if weight < digit.weight:
            merged.append(Digit(weight, digit.weight // weight, 0))
        append_joined(merged, digit)
        weight = digit.weight * digit.size
    if weight < size:
        merged.append(Digit(weight, -(-size // weight), 0))
    return tuple(merged)


def _irregular_groups(torn: list[tuple[IndexExpr, int]]) -> list[list[tuple[IndexExpr, int]]]:
    """Expressions grouped by common dimensions: groups add their parts independently."""
    groups: list[tuple[frozenset[int], list[tuple[IndexExpr, int]]]] = []
    for expr, stride in torn:
        own, members = dimensions_of(expr), [(expr, stride)]
        for other in [g for g in groups if g[0] & own]:
            groups.remove(other)
            own, members = own | other[0], other[1] + members
        groups.append((own, members))
    return [members for _, members in groups]
