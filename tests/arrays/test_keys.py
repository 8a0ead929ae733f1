"""The normal form of a key, judged by NumPy: which elements it selects, in which shape, or which exception it is.

Keys are applied to a map of row-major offsets, so that what is selected can be compared with NumPy's own selection
from ``np.arange``. (Whole arrays are compared in `tests/arrays/test_numpy_indexing.py`.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strided.addressing.address_map import AddressMap
from strided.arrays.classify import Copy, Mask, Outer, Points, classify, indexed, view
from strided.arrays.keys import Flag, IndexRange, index_arrays, normalise
from tests.checks import same_outcome
from tests.strategies import basic_keys, dimensions, keys


def selected(shape: tuple[int, ...], key: Any) -> np.ndarray:
    """Row-major numbers of what a key selects."""
    strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    source = AddressMap.from_strides(shape, strides)
    selection = normalise(key, shape)
    if selection.is_basic:
        return view(source, selection).offsets()
    result, arrays = index_arrays(selection)
    assert len(arrays) == len(shape)
    return np.broadcast_to(np.asarray(source.offset_of(arrays)), result)


def check_key(shape: tuple[int, ...], key: Any) -> None:
    """The same elements as NumPy's in the same shape, view and element told apart as NumPy does; or its exception."""
    reference = np.arange(math.prod(shape), dtype=np.int64).reshape(shape).copy()
    both = same_outcome(lambda: selected(shape, key), lambda: reference[key])
    if both is None:
        return
    got, expected = both
    assert got.shape == np.shape(expected)
    assert np.array_equal(got, expected)
    selection = normalise(key, shape)
    assert selection.is_element == (not isinstance(expected, np.ndarray) and selection.is_basic)
    if isinstance(expected, np.ndarray):
        assert (selection.is_basic and not selection.copies) == (expected.base is reference)


@given(st.data())
def test_keys(data: st.DataObject) -> None:
    shape = data.draw(dimensions(max_rank=5))
    check_key(shape, data.draw(keys(shape)))


@given(st.data())
def test_basic_keys(data: st.DataObject) -> None:
    shape = data.draw(dimensions(max_rank=5))
    check_key(shape, data.draw(basic_keys(shape)))


@given(st.data())
def test_mistaken_keys(data: st.DataObject) -> None:
    shape = data.draw(dimensions(max_rank=4))
    check_key(shape, data.draw(keys(shape, wrong=True)))


class Number:
    """An integer only by ``__index__``."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


TWO = np.array([True, False])
THREE = np.array([True, False, True])

KEYS: list[Any] = [
    (),
    ...,
    None,
    (..., None),
    (None, ..., None, 0),
    0,
    -1,
    1,
    2,
    -3,
    (0, 0),
    (0, ..., 0),
    (..., 0, 0, 0),
    (0, 0, 0),
    (0, 0, 0, 0),
    (..., ...),
    slice(None, None, -1),
    slice(-100, 100, 7),
    slice(2, 1),
    (slice(None), slice(5, None, -2)),
    slice(0, 1, 0),
    slice(1.0),
    slice("a"),
    slice(None, None, np.int8(2)),
    slice(Number(0), Number(1)),
    np.int8(-1),
    np.uint64(1),
    np.array(1),
    (np.array(1), slice(None)),
    (np.array(1), np.array(2), np.array(3)),
    Number(1),
    Number(7),
    True,
    False,
    np.True_,
    np.array(False),
    (True, 0),
    (True, False),
    (True, [0, 1]),
    (slice(None), True, None),
    [True, False],
    [0, 1],
    [],
    [[]],
    ([], []),
    [[0, 1], [1, 0]],
    (0, [1, 2]),
    ([0, 1], [1, 2]),
    ([0, 1], 1),
    ([0, 1], slice(None), [1, 2]),
    ([[0], [1]], slice(None), [1, 2]),
    (slice(None), [1, 2], [0, 3]),
    (0, slice(None), [1, 2]),
    (slice(None), 0, [1, 2]),
    ([0], ..., [1]),
    ([0], None, [1]),
    (None, [0, 1], None),
    ([0, 1], [0, 1, 2]),
    ([0, 1], ..., [0, 1, 2]),
    ([0, 2],),
    [0, -3],
    TWO,
    THREE,
    (TWO, THREE),
    (TWO, slice(None), TWO),
    (slice(None), THREE),
    (slice(None), TWO),
    np.ones((2, 3), bool),
    np.ones((2, 3, 4), bool),
    np.zeros((2, 3, 4), bool),
    np.ones((2, 3, 4, 1), bool),
    np.ones((2, 4), bool),
    (np.ones((2, 3), bool), 0),
    (0, np.ones((3, 4), bool)),
    (0, np.eye(3, 4, dtype=bool)),
    (TWO, [0, 1]),
    (TWO, [0, 1, 2]),
    np.array([0.0, 1.0]),
    [0.5],
    1.0,
    "a",
    b"a",
    "field",
    (0, "a"),
    1j,
    object(),
    {0},
    {0: 1},
    np.array(["a"]),
    np.array([0, 1], object),
    np.array([None]),
    np.array([0, 1], "m8[s]"),
    np.zeros((0,), float),
    np.zeros((0, 1, 1), int),
    np.array([[0, 1]], ">i4"),
    np.array([1, 0], np.uint8),
    np.array([2**63], np.uint64),
    2**63,
    2**100,
    -(2**100),
    [2**70],
    slice(2**100),
    slice(-(2**100), 2**100, 2**90),
    range(2),
    (range(2), range(2)),
    [slice(None)],
    [None],
    [...],
    [[0, 1], [0]],
    ([0, 1], [5, 0]),
    (np.zeros((0,), int), [9]),
    (np.zeros((0,), int), 9),
    np.zeros([1] * 31, int),
    np.zeros([1] * 64, int),
    (None,) * 62,
    (None,) * 61,
    slice(1, 2, 0),
    (slice(1, 2, 0), 0, 0, 0),
    (slice(1, 2, 0), b""),
    (slice("a"), 99),
    [np.zeros(0, bool)],
    [np.zeros((0, 2), bool)],
    np.zeros(0, bool),
    (..., np.zeros(0, bool)),
]


def _text(key: Any) -> str:
    """A key as the name of a test, the same in every run."""
    return "object()" if type(key) is object else ascii(key)[:40]


@pytest.mark.parametrize("key", KEYS, ids=[f"{k}-{_text(key)}" for k, key in enumerate(KEYS)])
def test_keys_one_by_one(key: Any) -> None:
    for shape in [(2, 3, 4), (2,), (), (0, 3), (2, 0, 3)]:
        check_key(shape, key)


def test_a_normal_form() -> None:
    selection = normalise((-1, ..., slice(None, None, -2)), (2, 3, 4))
    assert selection.items == (1, IndexRange(0, 1, 3), IndexRange(3, -2, 2))
    assert selection.is_basic
    assert not selection.is_element
    assert normalise((1, -1), (2, 3)).is_element
    assert normalise((True, 0), (2,)).items == (Flag(True), 0)


def test_a_key_is_left_as_it_was() -> None:
    rows = np.array([-1, 0])
    normalise((rows, slice(None)), (2, 3))
    assert rows.tolist() == [-1, 0]


@given(dimensions(max_rank=3, empty=False), st.integers(-(2**66), 2**66), st.sampled_from([0, -1, 1]))
@example((3,), 3, 0)
@example((3,), -4, 0)
def test_integers_of_any_size(shape: tuple[int, ...], number: int, axis: int) -> None:
    if shape:
        check_key(shape, (slice(None),) * (axis % len(shape)) + (number,))


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ((np.int64(1), 2), int),
        ((1, ...), AddressMap),
        ((np.array(1), slice(None)), Copy),
        ((np.array([1, -1]), np.array([0, 2])), Points),
        ((np.array([1, -1]), [0, 2]), Outer),
        (np.array([1, -1]), Outer),
        (np.ones((2, 3), np.bool_), Mask),
        (np.ones(2, np.bool_), Outer),
    ],
    ids=str,
)
def test_kinds_of_keys(key: Any, kind: type) -> None:
    """Keys that a kernel might take select the same if it does not."""
    source = AddressMap.from_strides((2, 3), (3, 1))
    found = classify(source, key)
    assert type(found) is kind
    checked = indexed(source, found[0]) if isinstance(found, (Points, Mask)) else found
    if isinstance(checked, Outer):
        assert np.array_equal(source.offset_of(checked.arrays), np.arange(6).reshape(2, 3)[key])
        assert checked.is_mask == (kind is Mask)


@pytest.mark.parametrize("shape", [(7,), (3, 5), (4, 3, 5), (0, 5), (4, 0), ()], ids=str)
def test_masks_lie_anyhow(shape: tuple[int, ...]) -> None:
    plain = np.random.default_rng(0).random(shape) < 0.4
    spaced = np.repeat(plain, 2, axis=-1)[..., ::2] if shape else plain
    for mask in (plain, np.asfortranarray(plain), spaced, np.broadcast_to(np.bool_(True), shape), np.zeros_like(plain)):
        check_key((*shape, 2), np.asarray(mask))
        check_key((3, *shape), (slice(1, None), np.asarray(mask)))
