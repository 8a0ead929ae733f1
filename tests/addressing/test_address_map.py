"""Addresses: every element and every slot of padding against the oracle, and maps of views against NumPy's views."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strided.addressing.address_map import AddressMap
from strided.addressing.expansion import Expansion
from strided.addressing.tiling import COMBINE, expand
from strided.errors import LayoutError
from tests import oracle
from tests.cases import CORPUS, TILED_EXAMPLES, Case, worlds
from tests.checks import numpy_reshapes, unread
from tests.strategies import cases

WORLDS = list(worlds())


def expansion_of(case: Case) -> Expansion:
    tiles = tuple(tuple(COMBINE if t == oracle.COMBINE else int(t) for t in tile) for tile in case.tiles)
    return expand(case.dimensions, case.minor_to_major, tiles, case.padded_dimensions, case.tail_alignment)


def offsets_of(case: Case) -> np.ndarray:
    """The oracle's offsets as an array of the case's shape."""
    return np.array(list(oracle.offsets(case.spec).values()), np.int64).reshape(case.dimensions)


def check_expansion(case: Case) -> Expansion:
    """Bounds, sizes, the offset of every element, and what lies in every slot."""
    spec, expansion = case.spec, expansion_of(case)
    assert list(expansion.bounds) == oracle.expand(spec)[0]
    assert expansion.address_elements == oracle.elements_by_formula(spec)
    assert expansion.allocated_elements == oracle.elements_allocated(spec)
    assert np.array_equal(expansion.address_map.offsets(), offsets_of(case))

    slots = oracle.slots(spec)[: expansion.address_elements]
    index, over = expansion.coordinates_at(np.arange(len(slots)))
    found = [tuple(int(i[k]) for i in index) if over[k] < 0 else None for k in range(len(slots))]
    assert found == slots

    padding = [k for k, slot in enumerate(slots) if slot is None]
    assert np.flatnonzero(over >= 0).tolist() == padding
    if (maps := expansion.padding_maps) is not None:
        assert sorted(int(k) for m in maps for k in m.offsets().ravel()) == padding
    return expansion


@pytest.mark.parametrize("rank", [*range(4), pytest.param(4, marks=pytest.mark.slow)])
def test_every_order_under_every_stack_of_tiles(rank: int) -> None:
    """748 small worlds, each slot of each."""
    for case in WORLDS:
        if len(case.dimensions) == rank:
            check_expansion(case)


def test_there_are_worlds_enough() -> None:
    assert len(WORLDS) == 748
    assert {len(case.dimensions) for case in WORLDS} == set(range(5))


@pytest.mark.parametrize("label", CORPUS)
def test_the_corpus(label: str) -> None:
    check_expansion(Case.parse(CORPUS[label]))


@given(cases())
@example(Case("u8", (10,), (0,), ((4,), (3,))))
@example(Case("u8", (0, 3), (0, 1), (), 8))
@example(Case("u8", (3, 5), (1, 0), padded_dimensions=(4, 8)))
@example(Case("u8", (), (), (("*", 4),)))
def test_any_layout(case: Case) -> None:
    check_expansion(case)


@pytest.mark.parametrize("example", TILED_EXAMPLES, ids=[f"{k}-{e['shape']}" for k, e in enumerate(TILED_EXAMPLES)])
def test_worked_examples(example: dict) -> None:
    expansion = expansion_of(Case.parse(example["shape"]))
    assert list(expansion.bounds) == example["expanded_physical_shape"]
    assert expansion.address_elements == example["num_elements_allocated"]
    if "element" in example:
        assert expansion.address_map.offset_of(example["element"]) == example["linear_index"]


@pytest.mark.parametrize("tiles", [((COMBINE,),), ((2, COMBINE),), ((2, 2), (1, COMBINE))])
def test_a_star_with_nothing_to_combine_has_no_addresses(tiles: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(LayoutError, match=r"must not end in '\*'"):
        expand((3, 5), (1, 0), tiles)


def test_offsets_beyond_64_bits_are_refused() -> None:
    expansion = expand((2**31, 2**31, 8), (2, 1, 0))
    assert expansion.address_elements == 2**65
    with pytest.raises(LayoutError, match="not computed"):
        _ = expansion.address_map
    with pytest.raises(LayoutError, match="not computed"):
        expansion.coordinates_at(np.arange(3))


def test_a_large_array_needs_no_table() -> None:
    expansion = expand((10**7, 10**3), (1, 0), ((8, 128), (2, 1)))
    index = (10**7 - 1, 999)
    spec = oracle.Spec((10**7, 10**3), (1, 0), ((8, 128), (2, 1)))
    offset = oracle.offset_of(spec, index)
    assert expansion.address_map.offset_of(index) == offset
    found, over = expansion.coordinates_at(np.array([offset]))
    assert [int(i[0]) for i in found] == list(index)
    assert over[0] == -1


# --- views ----------------------------------------------------------------------------------------------------------


def factors(rng: random.Random, n: int) -> tuple[int, ...]:
    """Some shape of n elements."""
    shape: list[int] = []
    while n > 1 and rng.random() < 0.7:
        shape.append(rng.choice([d for d in range(1, n + 1) if n % d == 0]))
        n //= shape[-1]
    shape += [n] + [1] * (rng.random() < 0.3)
    rng.shuffle(shape)
    return tuple(shape)


View = tuple[AddressMap, np.ndarray]


def _slice(rng: random.Random, view: AddressMap, reference: np.ndarray) -> View:
    k = rng.randrange(view.ndim)
    n = view.shape[k]
    start, stop = (rng.choice([None, rng.randint(-n - 2, n + 2)]) for _ in range(2))
    key = slice(start, stop, rng.choice([None, 1, 2, 3, 4, 8, -1, -2]))
    first, _, step = key.indices(n)
    return view.sliced(k, first, step, len(range(*key.indices(n)))), reference[(slice(None),) * k + (key,)]


def _at(rng: random.Random, view: AddressMap, reference: np.ndarray) -> View:
    k = rng.randrange(view.ndim)
    if not view.shape[k]:
        return view, reference
    i = rng.randrange(view.shape[k])
    return view.at(k, i), np.asarray(reference[(slice(None),) * k + (i,)])


def _new_axis(rng: random.Random, view: AddressMap, reference: np.ndarray) -> View:
    k = rng.randint(0, view.ndim)
    return view.with_axis(k), np.expand_dims(reference, k)


def _transpose(rng: random.Random, view: AddressMap, reference: np.ndarray) -> View:
    order = rng.sample(range(view.ndim), view.ndim)
    return view.transposed(order), reference.transpose(order)


def _broadcast(rng: random.Random, view: AddressMap, reference: np.ndarray) -> View:
    if view.size > 500:
        return view, reference
    shape = (2,) * rng.randint(0, 1) + tuple(rng.choice([1, 2, 3]) if n == 1 else n for n in view.shape)
    return view.broadcast_to(shape), np.broadcast_to(reference, shape)


def _diagonal(rng: random.Random, view: AddressMap, reference: np.ndarray) -> View:
    if view.ndim < 2:
        return view, reference
    axes, offset = rng.sample(range(view.ndim), 2), rng.randint(-3, 3)
    return view.diagonal(offset, *axes), np.diagonal(reference, offset, *axes)


def _reshape(rng: random.Random, view: AddressMap, reference: np.ndarray) -> View:
    shape = factors(rng, view.size) if view.size else (*view.shape, 1)
    reshaped = view.reshaped(shape)
    if reshaped is None:
        assert view.strides is None or not numpy_reshapes(unread(view.shape, view.strides), shape), "NumPy gives a view"
        return view, reference
    return reshaped, reference.reshape(shape)


OPERATIONS: list[Callable[[random.Random, AddressMap, np.ndarray], View]] = [
    _slice, _slice, _at, _new_axis, _transpose, _broadcast, _diagonal, _reshape,
]  # fmt: skip


def check_view(view: AddressMap, reference: np.ndarray) -> None:
    assert view.shape == reference.shape
    assert view.ndim == reference.ndim
    assert view.size == reference.size
    assert np.array_equal(view.offsets(), reference)
    if not view.size:
        return
    assert reference.max() < view.upper_bound
    axes = [np.arange(n).reshape((-1,) + (1,) * (view.ndim - 1 - k)) for k, n in enumerate(view.shape)]
    assert np.array_equal(np.broadcast_to(view.offset_of(axes), view.shape), reference)
    if view.strides is not None:
        steps = sum((v * s for v, s in zip(axes, view.strides, strict=True)), reference.flat[0])
        assert np.array_equal(np.broadcast_to(steps, view.shape), reference), "strides"


@given(cases(), st.integers(0, 2**32))
def test_views_of_the_map_are_numpys_views_of_the_offsets(case: Case, seed: int) -> None:
    rng = random.Random(seed)
    view, reference = expansion_of(case).address_map, offsets_of(case)
    check_view(view, reference)
    for _ in range(rng.randint(1, 6)):
        operation = rng.choice(OPERATIONS)
        if view.ndim > 8 or (not view.ndim and operation in (_slice, _at)):
            continue
        view, reference = operation(rng, view, reference)
        check_view(view, reference)


@given(cases(), st.integers(0, 2**32))
def test_offsets_of_a_box(case: Case, seed: int) -> None:
    rng = random.Random(seed)
    box = [tuple(sorted((rng.randint(0, n), rng.randint(0, n)))) for n in case.dimensions]
    got = expansion_of(case).address_map.offsets(box)
    assert np.array_equal(got, offsets_of(case)[tuple(slice(*pair) for pair in box)])


def test_plain_layouts_have_strides_and_tiled_ones_none() -> None:
    assert expand((3, 4, 5), (1, 2, 0)).address_map.strides == (20, 1, 4)
    assert expand((3, 5), (1, 0), (), (4, 8)).address_map.strides == (8, 1)
    assert expand((4, 4), (1, 0), ((2, 2),)).address_map.strides is None
    assert expand((4, 4), (1, 0), ((2, 4),)).address_map.strides == (4, 1)
    assert expand((4, 2), (1, 0), ((2, 2),)).address_map.strides == (2, 1)
    assert expand((1, 3), (1, 0), ((8, 128), (2, 1))).address_map.sliced(1, 0, 1, 3).strides == (0, 2)


def test_dimensions_that_a_tile_merges_whole_have_strides() -> None:
    assert expand((2, 4, 8), (2, 1, 0), ((COMBINE, 8),)).address_map.strides == (32, 8, 1)
    assert expand((2, 3, 4, 8), (3, 2, 1, 0), ((COMBINE, COMBINE, 4, 8),)).address_map.strides == (96, 32, 8, 1)
    assert expand((4, 8, 128), (2, 1, 0), ((4, COMBINE, 128),)).address_map.strides == (128, 512, 1)


def test_views_of_plain_strides() -> None:
    x = np.arange(24).reshape(2, 3, 4)[::-1, :, ::2]
    strides = [s // x.itemsize for s in x.strides]
    view = AddressMap.from_strides(x.shape, strides, int(x.flat[0]))
    check_view(view, x)
    assert view.strides == tuple(strides)


@given(cases(legacy=False))
def test_regular_maps_are_digits_alone(case: Case) -> None:
    """Only a `*` and an uneven tile may need more than digits."""
    view = expansion_of(case).address_map
    if not view.is_regular:
        combined = any(oracle.COMBINE in tile for tile in case.tiles)
        assert combined or len(case.tiles) > 1
        return
    for n, terms in zip(view.shape, view.axes, strict=True):
        for term in terms:
            weight = 1
            for digit in term.digits:
                assert digit.weight == weight
                weight *= digit.size
            assert weight >= n or not view.size, "the last digit must hold every coordinate"
