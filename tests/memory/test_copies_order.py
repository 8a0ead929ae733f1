"""Layouts carried through bitcasts, reshapes and transposes, compared with the addresses of all elements."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strided.layout import Layout, Shape, Tile
from strided.memory.copies.order import carried, common_factors, same_memory, swapped, transposed_factors

SIZES = [(8,), (4, 6), (2, 3, 4), (24,), (2, 2, 6), (1, 24), (4, 1, 6), (3, 2, 4), (6, 4), (2, 12), (12, 2), (8, 3)]


def offsets(shape: Shape) -> list[int]:
    """The offset of each element, in the row-major order of the indices."""
    return [shape.offset_of(index) for index in itertools.product(*map(range, shape.dimensions))]


@st.composite
def layouts(draw: st.DrawFn, rank: int, tiled: bool = True) -> Layout:
    order = draw(st.permutations(range(rank)))
    tile = draw(st.sampled_from([(), (2,), (2, 2), (2, 4), (4, 2)])) if tiled else ()
    return Layout(tuple(order), (Tile(tile),) if tile else ())


@given(st.data())
def test_a_reshape_to_the_carried_layout_moves_nothing(data):
    sizes, others = data.draw(st.sampled_from(SIZES)), data.draw(st.sampled_from(SIZES))
    one, other = Shape("f32", sizes), Shape("f32", others)
    factors = common_factors(one, range(one.rank), other, range(other.rank))
    if math.prod(sizes) != math.prod(others):
        assert factors is None
    if factors is None:
        return
    layout = data.draw(layouts(one.rank, tiled=False))
    found = carried(layout, one, other, factors)
    if found is not None:
        assert offsets(one.with_layout(layout)) == offsets(other.with_layout(found))
        assert same_memory(one, layout, other, found, factors)


@given(st.data())
def test_two_reshapes_have_the_same_memory_only_if_all_elements_agree(data):
    sizes, others = data.draw(st.sampled_from(SIZES)), data.draw(st.sampled_from(SIZES))
    one = Shape("f32", sizes, data.draw(layouts(len(sizes))))
    other = Shape("f32", others, data.draw(layouts(len(others))))
    factors = common_factors(one, range(one.rank), other, range(other.rank))
    if factors is not None and same_memory(one, one.layout, other, other.layout, factors):
        assert offsets(one) == offsets(other)


@given(st.data())
def test_a_transpose_to_the_carried_layout_moves_nothing(data):
    sizes = data.draw(st.sampled_from(SIZES))
    permutation = data.draw(st.permutations(range(len(sizes))))
    one = Shape("f32", sizes, data.draw(layouts(len(sizes))))
    other = Shape("f32", tuple(sizes[d] for d in permutation))
    factors = transposed_factors(one, other, permutation)
    assert factors is not None
    found = carried(one.layout, one, other, factors)
    assert found is not None
    if found.tiles == one.layout.tiles:
        there = np.reshape(offsets(other.with_layout(found)), other.dimensions)
        assert np.transpose(np.reshape(offsets(one), sizes), permutation).tolist() == there.tolist()
        assert same_memory(one, one.layout, other, found, factors)
    assert carried(found, other, one, swapped(factors)) is not None


@pytest.mark.parametrize(
    ("one", "permutation"), [((2, 3), (0,)), ((2, 3), (0, 0)), ((2, 3), (0, 2)), ((2, 3), (-1, 0))]
)
def test_what_is_no_permutation_has_no_factors(one, permutation):
    assert transposed_factors(Shape("f32", one), Shape("f32", one), permutation) is None
