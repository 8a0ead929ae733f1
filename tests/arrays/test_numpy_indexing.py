"""Indexing and assignment, judged by NumPy itself: its own multi-index tests, a list of keys, and Hypothesis.

Whatever NumPy does with a key, a LayoutArray of any layout does: the same values in the same shape, dtype and type, a
view where NumPy gives a view, or the same exception in the same words.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy._core.tests import test_indexing as numpy_tests

import strided as sd
from strided.arrays import getitem
from strided.runtime import limits
from tests.arrays.test_keys import KEYS
from tests.cases import Case, some_values
from tests.checks import (
    Guarded,
    check_same,
    check_same_assignment,
    encoded,
    outcome,
    random_layout,
    same_error,
    same_outcome,
    same_values,
    shape_of,
)
from tests.strategies import basic_keys, cases, keys
from tests.thinned import thinned


@pytest.fixture(autouse=True)
def _gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    """No array is so small that it is converted as a whole for an index array."""
    monkeypatch.setattr(limits, "current", limits.current._replace(whole_elements=0))


XLA_NAMES = {"int64": "s64", "float64": "f64", "int32": "s32", "bool": "pred"}


def array_of(case: Case, values: np.ndarray) -> sd.LayoutArray:
    """The values in the oracle's buffer, guarded and its padding poisoned."""
    return sd.LayoutArray(Guarded(encoded(case, values)).buffer, shape_of(case))


class Counted(numpy_tests.TestMultiIndexingAutomated):
    """NumPy's own combinations of index entries, each put to a LayoutArray as well."""

    __test__ = False

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)
        self.seen: Counter[str] = Counter()
        self.arrays: dict[tuple[int, str], tuple[Case, sd.LayoutArray, np.ndarray]] = {}
        if hasattr(self, "setup_method"):  # older releases of NumPy make there what newer ones make in each test
            self.setup_method()

    def _check_multi_index(self, array: np.ndarray, key: Any) -> None:
        self._check_single_index(array, key)

    def _check_single_index(self, array: np.ndarray, key: Any) -> None:
        case = random_layout(self.rng, array.shape, XLA_NAMES[array.dtype.name])
        reference = some_values(case) if array.dtype.kind == "f" else array.copy()
        check_same(array_of(case, reference), reference, key)
        _, error = outcome(lambda: reference[key])
        self.seen["refused" if error else "read"] += 1
        if self.seen.total() % 3 == 0:
            # Of the values that go in, those of a selection's own shape and one for all.
            new = (
                7
                if error or self.seen.total() % 2
                else np.arange(np.size(reference[key])).reshape(np.shape(reference[key]))
            )
            check_same_assignment(case, reference, key, new)
            self.seen["assigned"] += 1


@pytest.mark.slow
def test_numpys_own_multi_index_tests() -> None:
    run = Counted()
    run.test_boolean()
    run.test_multidim()
    run.test_1d()
    assert run.seen["read"] > 900
    assert run.seen["refused"] > 1400
    assert run.seen["assigned"] > 800


DIMENSIONS = [(2, 3, 4), (2,), (), (0, 3), (2, 0, 3)]


@pytest.mark.parametrize("dimensions", DIMENSIONS, ids=str)
@pytest.mark.parametrize("element_type", thinned(["s32", "bf16", "s4", "pred"], 2))
def test_keys_one_by_one(dimensions: tuple[int, ...], element_type: str) -> None:
    rng = np.random.default_rng(len(dimensions))
    for key in KEYS:
        case = random_layout(rng, dimensions, "f32").with_type(element_type)
        values = some_values(case, 3)
        check_same(array_of(case, values), values, key)
        check_same_assignment(case, values, key, 1)


@given(st.data())
def test_any_key_of_any_layout(data: st.DataObject) -> None:
    case = data.draw(cases(max_rank=5))
    values = some_values(case, 1)
    check_same(array_of(case, values), values, data.draw(keys(case.dimensions)))


@pytest.mark.parametrize("dimensions", [(5, 7), (4, 3, 5), (2, 1, 3, 4)], ids=str)
def test_small_arrays_are_converted_for_index_arrays(
    dimensions: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "current", limits.current._replace(whole_elements=1 << 12))
    rng = np.random.default_rng(len(dimensions))
    for key in KEYS:
        case = random_layout(rng, dimensions, "f32")
        values = some_values(case, 3)
        check_same(array_of(case, values), values, key)
    monkeypatch.setattr(getitem, "classify", lambda *args: pytest.fail("the elements were looked for"))
    for layout in ("{1,0}", "{0,1:T(2,3)}"):
        x = np.arange(35, dtype=np.int32).reshape(5, 7)
        a = sd.LayoutArray.from_numpy(x, layout)
        rows, mask = np.array([3, -1, 3]), x % 3 == 1
        for key in (rows, mask, (slice(1, 4), rows), (rows, None, rows), (..., mask[0], None)):
            got = a[key]
            same_values(got, x[key])
            assert got.flags.writeable
            assert not np.shares_memory(got, a.buffer)


@given(st.data())
def test_any_mistaken_key(data: st.DataObject) -> None:
    case = data.draw(cases(max_rank=4))
    values = some_values(case, 1)
    check_same(array_of(case, values), values, data.draw(keys(case.dimensions, wrong=True)))


@given(st.data())
def test_views_of_views(data: st.DataObject) -> None:
    """Chains of basic keys, then any key."""
    case = data.draw(cases(max_rank=5))
    values = some_values(case, 1)
    array, reference = array_of(case, values), values
    for _ in range(data.draw(st.integers(1, 3))):
        key = data.draw(basic_keys(reference.shape))
        expected = reference[key]
        if not isinstance(expected, np.ndarray) or expected.base is None or expected.ndim > 8:
            return
        array, reference = array[key], expected
        same_values(array, reference)
    last = data.draw(keys(reference.shape))
    same_outcome(lambda: array[last], lambda: reference[last], same_values)


# --- assignment -----------------------------------------------------------------------------------------------------


def new_values(data: st.DataObject, case: Case, selected: Any) -> Any:
    """Something to assign: of the selection's shape, one that broadcasts to it, a scalar, or one that does not fit."""
    shape = np.shape(selected)
    kind = data.draw(st.integers(0, 5))
    if kind == 0:
        return data.draw(st.sampled_from([0, 1, True, 2.5, np.float32(1), np.int8(-1)]))
    if kind == 1:
        shape = tuple(1 if data.draw(st.booleans()) else n for n in shape)
    elif kind == 2:
        shape = shape[data.draw(st.integers(0, len(shape))) :]
    elif kind == 3:
        shape = (1,) * data.draw(st.integers(1, 2)) + shape
    elif kind == 4 and data.draw(st.booleans()):
        shape = (*shape, 2)
    values = some_values(Case(case.element_type, shape, tuple(range(len(shape)))), 7)
    return values.tolist() if kind == 5 and case.dtype.kind in "iub" else values


@given(st.data())
def test_assignment_changes_what_numpy_changes(data: st.DataObject) -> None:
    case = data.draw(cases(max_rank=4))
    values = some_values(case, 1)
    key = data.draw(keys(case.dimensions, wrong=data.draw(st.integers(0, 4)) == 0))
    selected, refused = outcome(lambda: values[key])
    # Of two faults at once NumPy may name either.
    check_same_assignment(case, values, key, 1 if refused else new_values(data, case, selected))


@given(st.data())
def test_assignment_through_views(data: st.DataObject) -> None:
    case = data.draw(cases(max_rank=4))
    values = some_values(case, 1)
    guarded = Guarded(encoded(case, values))
    array, reference = sd.LayoutArray(guarded.buffer, shape_of(case)), values.copy()
    view, expected = array, reference
    for _ in range(2):
        key = data.draw(basic_keys(expected.shape))
        if not isinstance(expected[key], np.ndarray) or expected[key].base is None:
            break
        view, expected = view[key], expected[key]
    key = data.draw(keys(expected.shape))
    selected, refused = outcome(lambda: expected[key])
    new = 1 if refused else new_values(data, case, selected)
    same_outcome(lambda: view.__setitem__(key, new), lambda: expected.__setitem__(key, new))
    assert guarded.content() == encoded(case, reference)


@given(st.data())
def test_assignment_of_an_array_to_itself(data: st.DataObject) -> None:
    """Source and destination overlap in the buffer: NumPy's result is as if the source had been copied first."""
    case = data.draw(cases(max_rank=3))
    values = some_values(case, 1)
    to, from_ = data.draw(basic_keys(case.dimensions)), data.draw(basic_keys(case.dimensions))
    guarded = Guarded(encoded(case, values))
    array, reference = sd.LayoutArray(guarded.buffer, shape_of(case)), values.copy()
    same_outcome(lambda: array.__setitem__(to, array[from_]), lambda: reference.__setitem__(to, reference[from_]))
    assert guarded.content() == encoded(case, reference)


@given(cases(max_rank=3), cases(max_rank=3))
def test_assignment_from_another_layout(case: Case, other: Case) -> None:
    values = some_values(case, 1)
    source_case = Case(case.element_type, case.dimensions, case.minor_to_major[::-1], element_bits=case.element_bits)
    source = array_of(source_case, values)
    guarded = Guarded(encoded(case, np.zeros_like(values)))
    sd.LayoutArray(guarded.buffer, shape_of(case))[...] = source
    assert guarded.content() == encoded(case, values)
    third = some_values(other, 2)
    if third.dtype.kind not in "biuf" or case.dtype.kind not in "biuf":
        return
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected, wanted = values.copy(), None
        _, wanted = outcome(lambda: expected.__setitem__(..., third))
        _, error = outcome(
            lambda: sd.LayoutArray(guarded.buffer, shape_of(case)).__setitem__(..., array_of(other, third))
        )
    same_error(error, wanted)
    assert guarded.content() == encoded(case, expected)


NEW = [1, [1], [1, 2], [1, 2, 3], [[1, 2]], [[1], [2]], [], [[]], np.zeros((1, 1)), np.zeros((2, 1, 1))]


@pytest.mark.parametrize("new", NEW, ids=repr)
def test_what_a_mask_of_the_whole_array_takes(new: Any) -> None:
    for text in ("s32[2,2]{0,1:T(2,4)}", "u4[2,2]{0,1:E(4)}", "f32[4]{0:T(2)}", "s16[]"):
        case = Case.parse(text)
        for mask in (
            np.zeros(case.dimensions, bool),
            some_values(case.with_type("pred")),
            np.ones(case.dimensions, bool),
        ):
            for key in (mask, (mask,), mask.tolist(), (mask, ...), (None, mask)):
                check_same_assignment(case, some_values(case), key, new)


def test_the_last_of_several_values_stays() -> None:
    case = Case.parse("s32[3,5]{0,1:T(2,2)}")
    values = some_values(case)
    check_same_assignment(case, values, ([0, 0, 0], [1, 1, 1]), [1, 2, 3])
    for text in ("s32[4000]{0:T(64)}", "u4[4000]{0:E(4)}"):
        case = Case.parse(text)
        rows = np.arange(200_000) % 4000
        check_same_assignment(case, some_values(case), rows, (np.arange(200_000) // 3).astype(case.dtype))


VALUES: list[Any] = [
    1, -1, 300, 2**31, 2**70, 1.5, math.nan, 1j, True, None, "3", "x", b"3", [1, 2], [[1], [2, 3]], [], (), object(),
    np.int64(5), np.float64(2.5), np.array(3), np.array([3]), np.array([[3]]), np.array([1, 2, 3]), np.zeros((0,)),
    np.array("2020", "M8[Y]"), np.array([1, 2], object), {1}, range(5), slice(1),
]  # fmt: skip


@pytest.mark.parametrize("element_type", ["s32", "u8", "f32", "f64", "c64", "pred", "s8"])
@pytest.mark.parametrize("key", [(1, 2), 1, ..., (slice(None), 2), [0, 2], (slice(0), 1)], ids=repr)
def test_values_of_every_kind(element_type: str, key: Any) -> None:
    """NumPy's casts, and its errors where it has none."""
    case = Case.parse("s32[3,5]{0,1:T(2,2)}").with_type(element_type)
    for new in VALUES:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            check_same_assignment(case, some_values(case), key, new)


@pytest.mark.parametrize("key", [0, (0, 0), ..., [0], slice(0), np.zeros((3, 5), bool), 9, "a", (0, 0, 0)], ids=repr)
def test_a_read_only_buffer_is_not_written(key: Any) -> None:
    case = Case.parse("f32[3,5]{0,1:T(2,2)}")
    values = some_values(case)
    array = sd.LayoutArray(encoded(case, values), shape_of(case))
    reference = values.copy()
    reference.flags.writeable = False
    same_outcome(lambda: array.__setitem__(key, 1), lambda: reference.__setitem__(key, 1))
    same_outcome(lambda: array.flat.__setitem__(key, 1), lambda: reference.flat.__setitem__(key, 1))
    assert array.buffer.tobytes() == encoded(case, values)


@pytest.mark.parametrize("key", [
    (slice(None), []), (slice(None, None, 2), np.zeros((0, 3), int), None), (slice(1, None), np.zeros(0, bool)),
    (..., False), False, ([], slice(None)), np.zeros((0, 0), bool),
], ids=repr)  # fmt: skip
def test_a_key_that_selects_nothing_lists_no_indices(key: Any) -> None:
    a, x = sd.LayoutArray(bytearray(), f"u8[{1 << 40},0]"), np.empty((1 << 40, 0), np.uint8)
    same_outcome(lambda: a[key], lambda: x[key], same_values)
    same_outcome(lambda: a.__setitem__(key, 1), lambda: x.__setitem__(key, 1))


def test_elements_cannot_be_deleted() -> None:
    array = sd.LayoutArray(bytearray(12), "f32[3]")
    with pytest.raises((TypeError, ValueError, AttributeError), match=r"delet|delitem"):
        del array[0]


@pytest.mark.parametrize("index", [
    np.zeros(0, np.float32), np.zeros(0, bool), np.zeros((2, 0), bool), np.zeros((3, 0), bool), np.zeros((0, 5), bool),
    np.zeros((0, 4), np.int8), np.zeros((2, 0), np.float64), np.zeros(3, bool), np.ones((3, 5), bool), np.array(1),
    np.array(True), np.array([2, 0]), np.array([1.0]), np.array([[0], [2]], np.uint8),
], ids=lambda x: f"{x.dtype}{x.shape}")  # fmt: skip
@pytest.mark.parametrize("layout", ["", "tiled"])
def test_an_index_may_be_an_array_in_a_layout(index: np.ndarray, layout: str) -> None:
    """Also an empty one, which keeps its type."""
    case = Case.parse("f32[3,5]{0,1:T(2,2)}")
    values = some_values(case)
    order = ",".join(map(str, range(index.ndim)))
    own = sd.LayoutArray.from_numpy(index, f"{{{order}:T(2)}}" if layout and index.ndim else None)
    a = sd.LayoutArray(bytearray(encoded(case, values)), shape_of(case))
    for wrap in (lambda i: i, lambda i: (i,), lambda i: (slice(1), i), lambda i: (i, 0), lambda i: (None, i, ...)):
        x = values.copy()
        same_outcome(lambda wrap=wrap: a[wrap(own)], lambda wrap=wrap, x=x: x[wrap(index)], same_values)
        same_outcome(
            lambda wrap=wrap: a.__setitem__(wrap(own), 7), lambda wrap=wrap, x=x: x.__setitem__(wrap(index), 7)
        )
        same_values(a, x)
        a[...] = values


@pytest.mark.parametrize("rank", [30, 31, 32, 33, 63, 64])
def test_as_many_index_arrays_as_numpy_takes(rank: int) -> None:
    x = np.zeros((1,) * rank, np.float32)
    a = sd.LayoutArray.from_numpy(x)
    for key in ([0],) * rank, ([0],) * (rank - 1), (*([0],) * (rank - 1), 0), (..., *([0],) * (rank // 2)):
        same_outcome(lambda key=key: a[key], lambda key=key: x[key], same_values)
        same_outcome(lambda key=key: a.__setitem__(key, 1), lambda key=key: x.__setitem__(key, 1))
        same_values(a, x)
