"""Tiling in numbers: the definition of a tiled layout, followed step by step.

A layout is applied to an array as follows (openxla.org/xla/tiled_layout): list the dimensions from the most major to
the most minor one; then, for each tile in the order written, cut the last dimensions into a grid of tiles and the
inside of a tile, and put the inside last. The offset of an element is row-major over the dimensions that result. Later
tiles therefore cut the grid of earlier tiles too, if they have enough entries.

`expand` does that symbolically: it follows every *physical dimension* through the tiles and records its digits. The
resulting `Expansion` maps indices to offsets and back. This module knows only numbers; `layout` has the values.
"""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import AddressMap, IrregularTerm
from strided.addressing.digits import Digit, Term
from strided.addressing.index_expr import (
    Combined,
    Coordinate,
    IndexExpr,
    Offsets,
    Quotient,
    Remainder,
    Zero,
    dimensions_of,
)
from strided.errors import LayoutError
from strided.runtime.lazy import lazy

#: What stands for ``*`` in a tile: the dimension is combined with the next more minor one. (XLA uses the same number.)
COMBINE = -(2**63)

#: Offsets are 64-bit; a layout whose formula reaches further has sizes, but no addresses.
_ADDRESSABLE_ELEMENTS = 2**62

#: The most tiles and ``*`` of a layout that is taken apart: each nests the expressions of its addresses one level
#: deeper, and functions of these recurse. Compilers use up to three tiles.
MAX_DEPTH = 64
#: Dimensions of an array whose tiles tear a digit; NumPy's limit.
_MAX_IRREGULAR_RANK = 64


class _DimensionDigit(NamedTuple):
    """A digit of a physical dimension: ``(index[dimension] // weight) % size``.

    The `last` digit of a coordinate never reaches its size: a larger one does no harm.
    """

    dimension: int
    weight: int
    size: int
    last: bool


@dataclass(frozen=True, slots=True)
class _Physical:
    """A physical dimension on its way through the tiles.

    `parts` are its digits, minor first; None if it is not made of digits.
    """

    expr: IndexExpr
    bound: int
    parts: tuple[_DimensionDigit, ...] | None

    def divided(self, t: int) -> tuple[_Physical, _Physical]:
        """This dimension in tiles of `t`: which tile, and where in it."""
        low, high = _split(self.parts, t)
        grid = _Physical(Quotient(self.expr, t), -(-self.bound // t), high)
        return grid, _Physical(Remainder(self.expr, t), t, low)

    def combined(self, minor: _Physical) -> _Physical:
        """This dimension and the next more minor one as one."""
        filled = _filled(minor.parts, minor.bound)
        parts = None if self.parts is None or filled is None else filled + self.parts
        return _Physical(Combined(self.expr, minor.expr, minor.bound), self.bound * minor.bound, parts)


def _split(
    parts: tuple[_DimensionDigit, ...] | None, t: int
) -> tuple[tuple[_DimensionDigit, ...] | None, tuple[_DimensionDigit, ...] | None]:
    """The digits below `t`, and those from `t` on; (None, None) where `t` would tear one."""
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
        q, torn = divmod(t, weight)
        if torn or (part.size % q and not (top and part.last)):
            return None, None
        low = part._replace(size=q, last=False)
        high = part._replace(weight=part.weight * q, size=-(-part.size // q))
        return (*parts[:i], low), (high, *parts[i + 1 :])
    return parts, ()


def _filled(parts: tuple[_DimensionDigit, ...] | None, bound: int) -> tuple[_DimensionDigit, ...] | None:
    """The same digits with the top one widened until they count exactly to `bound`, or None if that is impossible."""
    if not parts:
        return parts if bound == 1 else None
    below = math.prod(p.size for p in parts[:-1])
    top = parts[-1]
    if bound != below * top.size and (bound % below or not top.last):
        return None
    return (*parts[:-1], top._replace(size=max(1, bound // below)))


class _Applied(NamedTuple):
    """One tile as it was applied, with all that undoing it takes."""

    prefix: int  # physical dimensions that it left alone, including those put in front
    added: int  # dimensions of size 1 that were put in front
    entries: tuple[int, ...]  # its sizes, `*` taken out
    bounds: tuple[tuple[int, ...], ...]  # an entry: bounds of the dimensions that it combined, major first
    owners: tuple[int | None, ...]  # an entry: the logical dimension whose padding it adds


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
    """

    dimensions: tuple[int, ...]
    minor_to_major: tuple[int, ...]
    alignment: int
    bounds: tuple[int, ...]
    exprs: tuple[IndexExpr, ...]
    tile_elements: int
    parts: tuple[tuple[_DimensionDigit, ...] | None, ...]
    applied: tuple[_Applied, ...]

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
        """Elements that XLA allocates. Less than `address_elements` if a later tile pads again."""
        return -(-self.tile_elements // self.alignment) * self.alignment

    @lazy
    def buffer_elements(self) -> int:
        """Slots of a buffer that has all that is allocated, and all that has an address."""
        return max(self.allocated_elements, self.address_elements)

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
        if rank > _MAX_IRREGULAR_RANK and None in self.parts:
            raise LayoutError(
                f"tiles that divide each other unevenly in an array of {rank} dimensions; "
                f"addresses of more than {_MAX_IRREGULAR_RANK} are not computed"
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
        values: list[Offsets] = []
        rest = offset
        for bound in reversed(self.bounds):
            rest, value = _divided(rest, bound)
            values.insert(0, value)
        for tile in reversed(self.applied):
            n = len(tile.entries)
            grid, inner = values[tile.prefix : tile.prefix + n], values[tile.prefix + n :]
            values = values[: tile.prefix]
            for t, bounds, owner, g, r in zip(tile.entries, tile.bounds, tile.owners, grid, inner, strict=True):
                whole = g * t + r
                _mark(over, whole >= math.prod(bounds), rank if owner is None else owner)
                parts: list[Offsets] = []
                for bound in reversed(bounds[1:]):
                    whole, part = _divided(whole, bound)
                    parts.insert(0, part)
                values += [whole, *parts]
            values = values[tile.added :]
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
            if not parts and parts is not None:
                # No coordinate ever moves along this dimension: all of it but its start is padding.
                digits.append([Digit(1, bound, stride)])
                sizes.append(bound)
                true.append(1)
                continue
            filled = _filled(parts, bound)
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
        boxes = []
        for k, (n, padded) in enumerate(zip(true, grid.shape, strict=True)):
            if n < padded:
                box = grid.sliced(k, n, 1, padded - n)
                for j in range(k):
                    box = box.sliced(j, 0, 1, true[j])
                boxes.append(box)
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
        if merged and digit.stride == merged[-1].stride * merged[-1].size:
            merged[-1] = merged[-1]._replace(size=merged[-1].size * digit.size)
        else:
            merged.append(digit)
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


@lru_cache(maxsize=4096)
def expand(
    dimensions: tuple[int, ...],
    minor_to_major: tuple[int, ...],
    tiles: tuple[tuple[int, ...], ...] = (),
    padded_dimensions: tuple[int, ...] = (),
    alignment: int = 1,
) -> Expansion:
    """A layout taken apart.

    Parameters
    ----------
    dimensions : tuple of int
        Logical sizes, all known.
    minor_to_major : tuple of int
        A permutation of the dimension numbers, the fastest varying first.
    tiles : tuple of tuple of int
        Entries at least 1, or COMBINE.
    padded_dimensions : tuple of int
        Legacy padded layouts: the allocated size of each logical dimension. Empty without.
    alignment : int
        Elements are rounded up to a multiple of this.

    Raises
    ------
    LayoutError
        A tile ends in ``*``, which has nothing to combine with; more than `MAX_DEPTH` tiles and ``*``.

    >>> expand((3, 5), (1, 0), ((2, 2),)).bounds
    (2, 3, 2, 2)
    """
    depth = len(tiles) + sum(tile.count(COMBINE) for tile in tiles)
    if depth > MAX_DEPTH:
        raise LayoutError(f"a layout of {depth} tiles and '*'; more than {MAX_DEPTH} are not taken apart")
    sizes = padded_dimensions or dimensions
    current = [
        _Physical(Coordinate(d), sizes[d], (_DimensionDigit(d, 1, max(1, sizes[d]), True),))
        for d in reversed(minor_to_major)
    ]
    tile_elements = math.prod(sizes)
    applied: list[_Applied] = []
    for tile in tiles:
        added = max(0, len(tile) - len(current))
        current = [_Physical(Zero(), 1, ())] * added + current
        prefix = len(current) - len(tile)
        entries, wholes, bounds, owners = _combine(tile, current[prefix:])
        divided = [whole.divided(t) for whole, t in zip(wholes, entries, strict=True)]
        current = current[:prefix] + [grid for grid, _ in divided] + [inner for _, inner in divided]
        if not applied:
            tile_elements = math.prod(p.bound for p in current)
        applied.append(_Applied(prefix, added, entries, bounds, owners))
    return Expansion(
        dimensions,
        minor_to_major,
        alignment,
        tuple(p.bound for p in current),
        tuple(p.expr for p in current),
        tile_elements,
        tuple(p.parts for p in current),
        tuple(applied),
    )


def _combine(
    tile: tuple[int, ...], current: list[_Physical]
) -> tuple[tuple[int, ...], list[_Physical], tuple[tuple[int, ...], ...], tuple[int | None, ...]]:
    """A tile with every ``*`` carried out: its sizes, the dimensions that it cuts, and the bounds and owner of each."""
    entries, wholes, bounds, owners = [], [], [], []
    run: list[_Physical] = []
    for t, physical in zip(tile, current, strict=True):
        run.append(physical)
        if t == COMBINE:
            continue
        whole = run[0]
        for minor in run[1:]:
            whole = whole.combined(minor)
        entries.append(t)
        wholes.append(whole)
        bounds.append(tuple(p.bound for p in run))
        owners.append(next((min(dimensions_of(p.expr)) for p in run if dimensions_of(p.expr)), None))
        run = []
    if run:
        raise LayoutError("a tile must not end in '*': there is no more minor dimension to combine with")
    return tuple(entries), wholes, tuple(bounds), tuple(owners)
