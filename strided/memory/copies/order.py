"""Translates a layout of one shape to another shape of the same memory.

A bitcast, a reshape or a transpose splits, joins and permutes dimensions. Both shapes are cut into *factors*: sizes
that belong to a single dimension on both sides.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

from strided.layout import Layout, Shape


class Factor(NamedTuple):
    """A size, and the dimension of either side that it is part of. Of one dimension, the major factor comes first."""

    size: int
    one: int
    other: int


def layout_without_space(shape: Shape) -> Layout | None:
    """The layout without its memory space; None for tokens and the like."""
    layout = shape.layout
    return layout if layout is None or not layout.memory_space else _in_main_memory(layout)


@functools.lru_cache(maxsize=4096)
def _in_main_memory(layout: Layout) -> Layout:
    return dataclasses.replace(layout, memory_space=0)


def order_of(layout: Layout) -> tuple[int, ...]:
    """The dimensions from major to minor."""
    return layout.minor_to_major[::-1]


def common_factors(
    one: Shape, one_order: Sequence[int], other: Shape, other_order: Sequence[int]
) -> list[Factor] | None:
    """The factors of two shapes whose elements come in the same order, if the dimensions are taken in these orders.

    None if a dimension of one side begins inside one of the other and ends outside it.

    >>> from strided.layout.parser import parse_shape
    >>> common_factors(parse_shape("f32[6,4]"), (0, 1), parse_shape("f32[2,3,4]"), (0, 1, 2))
    [Factor(size=2, one=0, other=0), Factor(size=3, one=0, other=1), Factor(size=4, one=1, other=2)]
    """
    left = [[d, one.dimensions[d]] for d in one_order if one.dimensions[d] != 1]
    right = [[d, other.dimensions[d]] for d in other_order if other.dimensions[d] != 1]
    found, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        (a, m), (b, n) = left[i], right[j]
        size = min(m, n)
        if size < 2 or m % size or n % size:
            return None
        found.append(Factor(size, a, b))
        left[i][1], right[j][1] = m // size, n // size
        i, j = i + (m == size), j + (n == size)
    return found if i == len(left) and j == len(right) else None


def transposed_factors(one: Shape, other: Shape, permutation: Sequence[int]) -> list[Factor] | None:
    """The factors of a shape and its transpose: dimension ``d`` of the latter is ``permutation[d]`` of the former."""
    if sorted(permutation) != list(range(one.rank)) or other.rank != one.rank:
        return None
    return [Factor(n, permutation[d], d) for d, n in enumerate(other.dimensions) if n != 1]


def swapped(factors: Sequence[Factor]) -> list[Factor]:
    """The same factors with the two shapes swapped."""
    return [Factor(f.size, f.other, f.one) for f in factors]


def carried(layout: Layout, one: Shape, other: Shape, factors: Sequence[Factor]) -> Layout | None:
    """The layout of `other` that puts its elements where `layout` puts those of `one`.

    Tiles are kept if they tile the same dimensions; otherwise there are none, and the compiler chooses. None if
    there is no such order of the dimensions.

    >>> from strided.layout.parser import parse_layout, parse_shape
    >>> flat, deep = parse_shape("f32[6,4]"), parse_shape("f32[2,3,4]")
    >>> print(carried(parse_layout("{0,1:T(8,128)}"), flat, deep, common_factors(flat, (0, 1), deep, (0, 1, 2))))
    {1,0,2}
    """
    place = {d: k for k, d in enumerate(order_of(layout))}
    by_place = sorted(range(len(factors)), key=lambda n: place[factors[n].one])
    order: list[int] = []
    for before, n in zip((None, *by_place), by_place, strict=False):
        if before is None or factors[before].other != factors[n].other:
            order.append(factors[n].other)
        elif before > n:
            return None
    if len(set(order)) != len(order):
        return None
    ones = [d for d, n in enumerate(other.dimensions) if n == 1]
    new = Layout((*reversed(order), *reversed(ones)))
    if one.element_type != other.element_type:
        return new
    alike = _tiles_alike(layout, one, new, other, [factors[n] for n in by_place])
    return dataclasses.replace(
        new, tiles=layout.tiles if alike else (), element_size_in_bits=layout.element_size_in_bits
    )


def _tiles_alike(layout: Layout, one: Shape, new: Layout, other: Shape, by_place: Sequence[Factor]) -> bool:
    """Whether the dimensions that tiles cut are whole dimensions of either side."""
    tiled = max(map(len, layout.tiles), default=0)
    sizes, new_sizes = (
        [shape.dimensions[d] for d in order_of(each)[-tiled:]] for shape, each in ((one, layout), (other, new))
    )
    whole = by_place[len(by_place) - sum(n != 1 for n in sizes) :]
    return sizes == new_sizes and all(f.size == one.dimensions[f.one] == other.dimensions[f.other] for f in whole)


def same_memory(one: Shape, layout: Layout, other: Shape, new_layout: Layout, factors: Sequence[Factor]) -> bool:
    """Whether two shapes of these factors have the same elements in the same places; False also if unknown.

    >>> from strided.layout.parser import parse_shape
    >>> one, other = parse_shape("f32[16,128]{1,0:T(8,128)}"), parse_shape("f32[2,8,128]{2,1,0:T(8,128)}")
    >>> factors = common_factors(one, (0, 1), other, (0, 1, 2))
    >>> same_memory(one, one.layout, other, other.layout, factors)
    True
    """
    place, new_place = ({d: k for k, d in enumerate(order_of(each))} for each in (layout, new_layout))
    numbers = range(len(factors))
    in_order = sorted(numbers, key=lambda n: place[factors[n].one])
    if in_order != sorted(numbers, key=lambda n: new_place[factors[n].other]):
        return False
    if (layout.tiles, layout.element_size_in_bits) != (new_layout.tiles, new_layout.element_size_in_bits):
        return False
    if not layout.tiles:
        return True
    tile = layout.tiles[0]
    ends = [
        ([1] * len(tile) + [shape.dimensions[d] for d in order_of(each)])[-len(tile) :]
        for shape, each in ((one, layout), (other, new_layout))
    ]
    (first, *inner), (new_first, *new_inner) = ends
    return inner == new_inner and (first == new_first or first % tile[0] == new_first % tile[0] == 0)
