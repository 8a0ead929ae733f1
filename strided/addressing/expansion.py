"""An expanded layout: its sizes, the mapping from index to offset and back, and where its padding lies.

*Expanded* dimensions are the dimensions that result when all tiles are applied. (In `memory`, expansion has XLA's other
meaning: the size of a buffer divided by its size without padding.)
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

#: Offsets are 64-bit integers. A layout with more slots has sizes, but no addresses.
_ADDRESSABLE_ELEMENTS = 2**62


class AppliedTile(NamedTuple):
    """One applied tile, with all that is needed to undo it."""

    prefix: int  # number of leading physical dimensions that it does not cut
    added: int  # dimensions of size 1 that were prepended because the tile has a higher rank
    entries: tuple[int, ...]  # its sizes, without `*`
    bounds: tuple[tuple[int, ...], ...]  # for each entry: bounds of the dimensions that it combined, major first
    owners: tuple[int | None, ...]  # for each entry: the logical dimension that it pads

    def undone(self, values: list[Offsets], over: Offsets, rank: int) -> list[Offsets]:
        """The indices before this tile was applied, from those after; sets `over` where one is past its bound."""
        n = len(self.entries)
        grid, inner = values[self.prefix : self.prefix + n], values[self.prefix + n :]
        found = values[: self.prefix]
        for t, bounds, owner, g, r in zip(self.entries, self.bounds, self.owners, grid, inner, strict=True):
            whole = g * t + r
            _set_over(over, whole >= math.prod(bounds), rank if owner is None else owner)
            found += _row_major_index(whole, bounds)
        return found[self.added :]


@dataclass(frozen=True)
class Expansion:
    """A dense layout with all of its tiles applied.

    Attributes
    ----------
    dimensions, minor_to_major : tuple of int
        Those of the layout.
    alignment : int
        The number of elements is rounded up to a multiple of this (``L(n)``).
    bounds : tuple of int
        Sizes of the expanded dimensions, major first. The offset of an element is its row-major index in them.
    exprs : tuple of IndexExpr
        Each expanded dimension as an expression in the logical index.
    tile_elements : int
        Number of elements when only the first tile pads, as XLA counts (``ShapeUtil::ArraySize``).
    parts : tuple of (tuple of DimensionDigit, or None)
        The digits of each expanded dimension, minor first; None if it does not split into digits.
    applied : tuple of AppliedTile
        The tiles, in the order in which they apply.
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
        """Elements from one index to the next along each expanded dimension."""
        minor_first = itertools.accumulate(reversed(self.bounds[1:]), operator.mul, initial=1)
        return tuple(reversed([*minor_first])) if self.bounds else ()

    @lazy
    def grid_elements(self) -> int:
        """Slots without the tail padding: the product of the bounds."""
        return math.prod(self.bounds)

    @lazy
    def address_elements(self) -> int:
        """`grid_elements`, rounded up to a multiple of the alignment."""
        return -(-self.grid_elements // self.alignment) * self.alignment

    @lazy
    def allocated_elements(self) -> int:
        """Elements that XLA allocates: `address_elements`, or fewer if a later tile pads again."""
        return -(-self.tile_elements // self.alignment) * self.alignment

    @lazy
    def address_map(self) -> AddressMap:
        """The map from logical index to offset.

        Raises
        ------
        LayoutError
            Offsets do not fit 64 bits, or tiles divide each other unevenly in an array of more than 64 dimensions.
        """
        self._check_addressable()
        rank = len(self.dimensions)
        if rank > MAX_NDIM and None in self.parts:
            raise LayoutError(
                f"tiles that divide each other unevenly in an array of {rank} dimensions; "
                f"addresses of more than {MAX_NDIM} are not computed"
            )
        digits: list[list[Digit]] = [[] for _ in range(rank)]
        irregular: list[tuple[IndexExpr, int]] = []
        for expr, parts, stride in zip(self.exprs, self.parts, self.strides, strict=True):
            if parts is None:
                irregular.append((expr, stride))
                continue
            for dimension, weight, size, _ in parts:
                digits[dimension].append(Digit(weight, size, stride))
                stride *= size
        identity = tuple((0, tuple(int(k == d) for k in range(rank))) for d in range(rank)) if irregular else ()
        return AddressMap(
            self.dimensions,
            0,
            tuple(
                (Term(0, 1, _merged(own, size) if size else (Digit(1, 1, 0),)),) if own else ()
                for own, size in zip(digits, self.dimensions, strict=True)
            ),
            tuple(IrregularTerm(tuple(group), identity) for group in _grouped(irregular)),
            self.grid_elements,
        )

    def coordinates_at(self, offset: Offsets) -> tuple[tuple[Offsets, ...], Offsets]:
        """The index at each offset (0 or more), and the dimension that the slot pads; -1 if it holds an element.

        A slot pads the dimension numbered `rank` if it is tail padding, or padding of a dimension that a tile of higher
        rank prepended. The index at padding is meaningless.
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
            _set_over(over, value >= self.dimensions[dimension], dimension)
        return tuple(index), over

    @lazy
    def padded_map(self) -> tuple[AddressMap, tuple[int, ...]] | None:
        """The map of the array with its padding, and the sizes without padding; None for irregular layouts.

        The digits of each dimension are widened to fill the tiles. Dimensions that a tile of higher rank prepended come
        last; their size without padding is 1.
        """
        self._check_addressable()
        rank = len(self.dimensions)
        digits: list[list[Digit]] = [[] for _ in range(rank)]
        sizes, true = [1] * rank, list(self.dimensions)
        for bound, parts, stride in zip(self.bounds, self.parts, self.strides, strict=True):
            if parts == ():
                # No coordinate depends on this dimension: all but its first index is padding.
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
        """Maps onto the slots that hold no element, each slot once; None for irregular layouts.

        The slots are the padded array and the tail padding. The padding of the array lies outside its unpadded sizes.
        """
        self._check_addressable()
        if not self.grid_elements:
            return ()
        if self.padded_map is None:
            return None
        grid, true = self.padded_map
        boxes = [_past_end(grid, true, k) for k in range(grid.ndim) if true[k] < grid.shape[k]]
        tail = self.address_elements - self.grid_elements
        if tail:
            boxes.append(AddressMap.from_strides((tail,), (1,), self.grid_elements))
        return tuple(b for b in boxes if b.size)

    def _check_addressable(self) -> None:
        if self.address_elements > _ADDRESSABLE_ELEMENTS:
            raise LayoutError(
                f"the layout has {self.address_elements} slots; addresses of more than "
                f"{_ADDRESSABLE_ELEMENTS} are not computed"
            )


def _past_end(grid: AddressMap, true: tuple[int, ...], axis: int) -> AddressMap:
    """The padding past the end of an axis, within the unpadded sizes of the axes before it."""
    box = grid.sliced(axis, true[axis], 1, grid.shape[axis] - true[axis])
    for k in range(axis):
        box = box.sliced(k, 0, 1, true[k])
    return box


def _row_major_index(number: Offsets, bounds: tuple[int, ...]) -> list[Offsets]:
    """``np.unravel_index(number, bounds)``, except that the first index may exceed its bound.

    >>> _row_major_index(np.array([7]), (2, 3))
    [array([2]), array([1])]
    """
    index: list[Offsets] = []
    for bound in reversed(bounds[1:]):
        number, own = _divmod(number, bound)
        index.insert(0, own)
    return [number, *index]


def _divmod(value: Offsets, by: int) -> tuple[Offsets, Offsets]:
    """Quotient and remainder; 0 divides as 1. (NumPy vectorizes ``//`` by a scalar, but not ``%``.)"""
    if by <= 1:
        return value, np.zeros_like(value)
    quotient = value // by
    return quotient, value - quotient * by


def _set_over(over: Offsets, beyond: npt.NDArray[np.bool_], dimension: int) -> None:
    """Set `over` to `dimension` where the mask is true and no dimension is set yet."""
    if beyond.any():
        over[beyond & (over < 0)] = dimension


def _merged(digits: list[Digit], size: int) -> tuple[Digit, ...]:
    """The digits of a coordinate below `size`, with digits merged that continue each other.

    Digits that became irregular expressions are missing here; stride 0 takes their place.
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


def _grouped(terms: list[tuple[IndexExpr, int]]) -> list[list[tuple[IndexExpr, int]]]:
    """Expressions grouped so that no two groups depend on the same dimension."""
    groups: list[tuple[frozenset[int], list[tuple[IndexExpr, int]]]] = []
    for expr, stride in terms:
        own, members = dimensions_of(expr), [(expr, stride)]
        for other in [g for g in groups if g[0] & own]:
            groups.remove(other)
            own, members = own | other[0], other[1] + members
        groups.append((own, members))
    return [members for _, members in groups]
