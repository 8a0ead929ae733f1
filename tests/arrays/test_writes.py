"""What is written to an array, or to what NumPy made of it, reaches the buffer or is refused: it is never lost."""

from __future__ import annotations

import itertools
import operator
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy._core import _operand_flag_tests  # type: ignore[attr-defined]
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import strided as sd
from strided.arrays import base
from strided.runtime import limits
from strided.transfer import copy as transfer
from tests.cases import ARRAY_TYPES, Case, some_values
from tests.checks import encoded, needs_numpy, outcome, same_outcome, same_values, shape_of
from tests.strategies import basic_keys, cases
from tests.thinned import thinned

VALUES = np.arange(12, 0, -1, dtype=np.float32).reshape(3, 4)
LAYOUTS = ["{1,0}", "{0,1}", "{1,0:T(4,8)}", "{1,0:T(2,2)}", "{0,1:T(2,2)}", "{1,0:T(4,4)(3,1)}"]


def array(layout: str, values: np.ndarray = VALUES) -> sd.LayoutArray:
    return sd.LayoutArray.from_numpy(values, layout)


# --- what NumPy and others convert by themselves ----------------------------------------------------------------------


def _through_nditer(x: Any) -> None:
    with np.nditer(x, op_flags=[["readwrite"]]) as places:
        for place in places:
            place[...] = 5


def _from_inside(x: Any) -> None:
    def sort(row: np.ndarray) -> Any:
        row.sort()
        return row[0]

    np.apply_along_axis(sort, 1, x)


WRITES: dict[str, Callable[[Any], Any]] = {
    "asarray": lambda x: np.asarray(x).__setitem__((0, 0), 99),
    "asarray of the type": lambda x: np.asarray(x, x.dtype).fill(9),
    "ascontiguousarray": lambda x: np.asarray(x).sort(),
    "a window": lambda x: sliding_window_view(x, 2, axis=0, writeable=True).__setitem__(..., 99),
    "other strides": lambda x: as_strided(x, (1,), (4,)).__setitem__(..., 99),
    "nditer": _through_nditer,
    "a view that einsum gives": lambda x: np.einsum("ij->ji", x).__setitem__(..., 3),
    "its diagonal": lambda x: np.einsum("ii->i", x[:3, :3]).__setitem__(..., 3),
    "what nan_to_num gives": lambda x: np.nan_to_num(x, copy=False).__setitem__(..., 3),
    "what real_if_close gives": lambda x: np.real_if_close(x).__setitem__(..., 3),
    "what broadcast_arrays gives": lambda x: np.broadcast_arrays(x[:1], np.ones((3, 1)))[0].__setitem__(..., 3),
    "a masked array": lambda x: np.ma.masked_array(x).__setitem__((0, 0), 99),
    "a function that is called back": _from_inside,
    "flat": lambda x: x.flat.__setitem__(slice(1, 3), 7),
    "a shuffled ndarray": lambda x: np.random.default_rng(0).shuffle(np.asarray(x)),
    "a part": lambda x: np.asarray(x[:2, 1:3]).__setitem__(..., 99),
    "a field": lambda x: x.getfield(np.int16).__setitem__(..., 0),
}


@pytest.mark.filterwarnings("ignore:Numpy has detected:DeprecationWarning")
@pytest.mark.parametrize("name", thinned(WRITES, 2))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_write_is_lost(name: str, layout: str) -> None:
    """The array is then what an ndarray would be, or the write was refused and nothing changed."""
    a, x = array(layout), VALUES.copy()
    WRITES[name](x)
    _, error = outcome(lambda: WRITES[name](a))
    if error is None:
        same_values(a, x)
    else:
        assert not a.is_strided
        assert isinstance(error, ValueError)
        assert "read-only" in str(error)
        same_values(a, VALUES)


def test_flat_as_an_ndarray_is_the_memory_or_read_only() -> None:
    for layout in LAYOUTS:
        a, x = array(layout), np.asarray(array(layout).flat)
        assert x.tolist() == VALUES.reshape(-1).tolist()
        x = np.asarray(a.flat)
        _, error = outcome(lambda x=x: x.__setitem__(0, 99))
        assert (a[0, 0] == 99) == a.flags.c_contiguous == (error is None)
        assert np.array(a.flat).flags.writeable
        assert not np.shares_memory(np.array(a.flat), a.buffer)
        if not a.flags.c_contiguous:
            with pytest.raises(ValueError, match="Unable to avoid copy"):
                np.array(a.flat, copy=False)


@given(cases())
def test_copies_that_were_asked_for_can_be_written_to(case: Case) -> None:
    a = sd.LayoutArray(bytearray(encoded(case, some_values(case))), shape_of(case))
    own = [np.array(a), a.__array__(copy=True), a.to_numpy(), np.asarray(a, object), a.__array__(object)]
    for x in own:
        assert x.flags.writeable
        assert not np.shares_memory(x, a.buffer)
    shown = np.asarray(a)
    assert shown.flags.writeable == (a.is_strided or not a.size)
    assert pickle.loads(pickle.dumps(shown)).flags.writeable
    if not a.is_strided:
        with pytest.raises(ValueError, match="WRITEABLE"):
            shown.flags.writeable = True
        assert not np.shares_memory(shown, a)


def test_numpy_is_told_what_a_converted_copy_shows() -> None:
    """It asks before it writes to what ``np.asarray`` gave."""
    a = array("{1,0:T(2,2)}")
    shown = np.asarray(a)
    for x, y in ((shown, a), (a, shown), (shown[1:], a.T), (shown.T, a[:1])):
        assert np.may_share_memory(x, y)
        assert not np.shares_memory(x, y)
    for other in (a.to_numpy(), np.asarray(a.copy()), np.array(a)):
        assert not np.may_share_memory(other, a)


@pytest.mark.partners
@pytest.mark.parametrize("layout", LAYOUTS)
def test_scipys_output(layout: str) -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    a, x = array(layout), VALUES.copy()
    for function in (
        lambda out: ndimage.gaussian_filter(VALUES, 1, output=out),
        lambda out: ndimage.sobel(VALUES, output=out),
    ):
        function(x)
        _, error = outcome(lambda function=function: function(a))
        if error is None:
            same_values(a, x)
        else:
            assert not a.is_strided
            assert "read-only" in str(error)
            same_values(a, VALUES)


# --- shuffling --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["f32[6,2]{1,0:T(2,2)}", "f32[6,2]{1,0}", "s4[40]{0:E(4)}", "f32[10]{0:T(4)(3)}"])
def test_what_shuffles(text: str) -> None:
    case = Case.parse(text)
    x = np.arange(np.prod(case.dimensions)).reshape(case.dimensions).astype(case.dtype)
    a = sd.LayoutArray.from_numpy(x, shape_of(case))
    for name, options in (("permutation", {}), ("permuted", {"axis": 0})):
        expected = getattr(np.random.default_rng(3), name)(x, **options)
        same_values(getattr(np.random.default_rng(3), name)(a, **options), expected)
    same_values(np.random.RandomState(3).permutation(a), np.random.RandomState(3).permutation(x))
    a[...] = np.random.default_rng(3).permutation(a)
    same_values(a, np.random.default_rng(3).permutation(x), case.bits)
    with pytest.raises(TypeError, match="numpy array"):
        np.random.default_rng(3).permuted(a, out=a)


def test_shuffle_warns_and_loses_rows() -> None:
    """As the documentation says: NumPy swaps the rows of what is no ndarray one after the other, and has no hook."""
    a = array("{1,0:T(2,2)}")
    with pytest.warns(UserWarning, match="not a subclass of 'Sequence'"):
        np.random.default_rng(0).shuffle(a)
    assert sorted(a.tolist()) != sorted(VALUES.tolist())


# --- universal functions that write to their inputs -------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("large", [False, True])
def test_universal_functions_that_write_to_an_input(layout: str, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:
        monkeypatch.setattr(sd.arrays.reductions, "STREAM_BYTES", 0)
    x = VALUES.astype(np.int64)
    a = array(layout, x)
    _operand_flag_tests.inplace_add(a, 3)
    same_values(a, x + 3)
    _operand_flag_tests.inplace_add(a[:, ::2], a[:, 1::2])
    y = x + 3
    y[:, ::2] += y[:, 1::2]
    same_values(a, y)
    read_only = sd.LayoutArray(bytes(a.buffer), a.xla_shape)
    y.flags.writeable = False
    same_outcome(lambda: _operand_flag_tests.inplace_add(read_only, 3), lambda: _operand_flag_tests.inplace_add(y, 3))
    same_values(read_only, y)


@pytest.mark.parametrize("layout", thinned(LAYOUTS, 4))
def test_numbas_universal_functions(layout: str) -> None:
    import numba

    @numba.guvectorize([(numba.float64[:], numba.float64[:])], "(n)->()", writable_args=(0,))  # type: ignore[misc]
    def sum_and_clear(values: Any, total: Any) -> None:
        total[0] = values.sum()
        values[0] = -1

    @numba.vectorize([numba.float64(numba.float64, numba.float64)])  # type: ignore[misc]
    def plus_twice(p: Any, q: Any) -> Any:
        return p + 2 * q

    x = VALUES.astype(np.float64)
    a = array(layout, x)
    same_values(sum_and_clear(a), sum_and_clear(x))
    same_values(a, x)
    same_values(sum_and_clear(a.T), sum_and_clear(x.T))
    same_values(a, x)
    same_values(plus_twice(a, a), 3 * x)
    plus_twice(a, 1, out=a)
    same_values(a, x + 2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_functions_of_python_as_universal_ones(layout: str) -> None:
    add = np.frompyfunc(lambda p, q: p + q, 2, 1)
    a, x = array(layout), VALUES.copy()
    for operation in (
        lambda v: add(v, 1),
        lambda v: add.reduce(v),
        lambda v: add.accumulate(v, axis=1),
        lambda v: add.outer(v[0], v[1]),
        lambda v: add.at(v, ([0, 0], [1, 1]), 5),
        lambda v: add(v, 1, out=v),
        lambda v: add(v, 1, out=v, casting="unsafe"),
    ):
        expected, wanted = outcome(lambda operation=operation: operation(x))
        got, error = outcome(lambda operation=operation: operation(a))
        assert type(error) is type(wanted)
        if expected is not None:
            assert np.array_equal(got, expected)
        same_values(a, x)


@pytest.mark.parametrize("ufunc", [np.isnan, np.isfinite, np.isinf, np.signbit])
@pytest.mark.usefixtures("either_way")
def test_truths_with_gaps(ufunc: np.ufunc) -> None:
    """NumPy 2.4 left some out that are not contiguous."""
    x = np.resize(np.array([np.nan, 1, -np.inf], np.float32), (40, 1))
    for layout in ("{1,0}", "{1,0:T(8,128)}"):
        a = sd.LayoutArray.from_numpy(x, layout)
        for mask in (True, x > 0, (x > 0).tolist()):
            out = sd.LayoutArray.from_numpy(np.ones((40, 5), bool), "{1,0:T(8,128)}")
            result = np.where(mask, ufunc(x), True)
            view = out[:, 2:3]
            assert ufunc(a, out=view, where=mask) is view
            same_values(out, np.hstack([np.ones((40, 2), bool), result, np.ones((40, 2), bool)]))


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.float64, np.uint64])
@pytest.mark.usefixtures("either_way")
def test_negation_of_elements_with_gaps(dtype: Any) -> None:
    """NumPy 2.4 took elements that lie as many of them apart as one has bytes for contiguous."""
    width = np.dtype(dtype).itemsize
    x = np.arange(1, 41).astype(dtype).reshape(40, 1)
    for layout in (f"{{1,0:T({width})}}", "{1,0:T(8,128)}"):
        for mask in (True, x % 3 > 0):
            a, b = (sd.LayoutArray.from_numpy(values, f"{{1,0:T({width})}}") for values in (x, x))
            out = sd.LayoutArray.from_numpy(np.zeros_like(x), layout)
            same_values(np.negative(a, out=out, where=mask), np.where(mask, -x, 0))
            np.negative(b[::-1], out=b[::-1], where=mask if mask is True else mask[::-1])
            same_values(b, np.where(mask, -x, x))


@pytest.mark.parametrize("text", ["u8[16]{0}", "u8[16]{0:T(2)}", "u8[4,4]{1,0:T(2,2)}", "u4[32]{0:E(4)}"])
@pytest.mark.parametrize(("key", "error"), [([0], ValueError), (0, ValueError), (..., ValueError), ([99], IndexError)])
def test_at_writes_to_nothing_read_only(text: str, key: Any, error: type[Exception], tmp_path: Path) -> None:
    """NumPy does for some keys: bytes had other content, and a page of a mapped file ended the process."""
    content = bytes(range(16))
    (path := tmp_path / "raw").write_bytes(content)
    for a in (sd.LayoutArray(content, text), sd.open(path, text)):
        with pytest.raises(error):
            np.add.at(a, key, 1)
        with pytest.raises(error):
            np.negative.at(a, key)
        assert bytes(a.buffer) == bytes(range(16)) == content


# --- views of one buffer in one call ----------------------------------------------------------------------------------


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of arrays that are converted."""
    sizes: list[int] = []
    own = base.ArrayBase.to_numpy

    def to_numpy(self: Any, out: Any = None) -> Any:
        sizes.append(self.size)
        return own(self, out)

    monkeypatch.setattr(base.ArrayBase, "to_numpy", to_numpy)
    return sizes


def test_a_product_with_its_transpose_is_symmetric() -> None:
    for n, k in ((5, 8), (33, 129), (130, 511)):
        x = np.random.default_rng(n).standard_normal((n, k)).astype(np.float32)
        a = array("{1,0:T(8,128)}", x)
        for operation in (
            lambda v: v @ v.T,
            lambda v: np.dot(v.T, v),
            lambda v: v[1:, ::2] @ v[1:, ::2].T,
            lambda v: np.matmul(v[::-1], v[::-1].T),
        ):
            product, expected = operation(a), operation(x)
            np.testing.assert_allclose(product, expected, rtol=1e-4, atol=1e-4)
            assert np.array_equal(product, product.T) or not np.array_equal(expected, expected.T)


def test_views_of_one_buffer_share_a_conversion(conversions: list[int]) -> None:
    x = np.random.default_rng(0).standard_normal((6, 6)).astype(np.float32)
    a = array("{1,0:T(4,4)(3,1)}", x)
    for operation, sizes in {
        lambda v: v @ v.T: [36],
        lambda v: np.dot(v, v): [36],
        lambda v: np.concatenate([v, v.T, v[None, 0]]): [36],
        lambda v: v[:, None] - v[None]: [36],
        lambda v: v[:3, ::2] + v[2::-1, 1::2]: [18],
        lambda v: np.add(v[0], v[5]): [12],
        lambda v: np.add(v[:1], v.T[:1]): [6, 6],
    }.items():  # type: ignore[misc]
        conversions.clear()
        assert np.array_equal(operation(a), operation(x))  # type: ignore[no-untyped-call]
        assert conversions == sizes


@pytest.mark.parametrize("element_type", ARRAY_TYPES)
def test_every_type_is_shared(element_type: str, conversions: list[int]) -> None:
    case = Case.parse("f32[4,5]{0,1:T(2,2)}").with_type(element_type)
    values = some_values(case)
    a = sd.LayoutArray(encoded(case, values), shape_of(case))
    same_values(
        np.concatenate([a.T[:, ::-1], a[:, ::-1].T]), np.concatenate([values.T[:, ::-1], values[:, ::-1].T]), case.bits
    )
    assert conversions == [20]


@given(cases(max_rank=3, empty=False), st.data())
def test_any_views_in_one_call(case: Case, data: st.DataObject) -> None:
    """The arguments are what they are, whatever they have in common, and all writes arrive."""
    values = some_values(case)
    a, x = sd.LayoutArray(bytearray(encoded(case, values)), shape_of(case)), values.copy()
    views, expected = [], []
    for _ in range(data.draw(st.integers(2, 4))):
        key = data.draw(basic_keys(case.dimensions))
        got, wanted = a[key], x[key]
        if isinstance(got, sd.LayoutArray):
            turn = data.draw(st.permutations(range(wanted.ndim)))
            views.append(got.transpose(turn))
            expected.append(wanted.transpose(turn))
    operands = sd.arrays.arguments.Arguments(views)
    for mine, own in zip(operands.to_ndarray(views), expected, strict=True):
        same_values(mine, own, case.bits)
    for mine, own, view in zip(operands.to_ndarray(views), expected, views, strict=True):
        mine[...] = own[...] = np.ones((), np.int8).astype(x.dtype)
        operands.write_back(view)
    same_values(a, x, case.bits)


# --- what others write meanwhile --------------------------------------------------------------------------------------


class _Meanwhile:
    """Values that, when NumPy asks for them, write an element of the array elsewhere, as another thread may."""

    def __init__(self, array: Any, values: Any) -> None:
        self._array, self._values = array, np.asarray(values, np.float32)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        self._array[-1, -1] = 77
        return self._values if dtype is None else self._values.astype(dtype)


def _by_python(x: Any, mask: Any) -> None:
    def double(value: float) -> float:
        x[-1, -1] = 77
        return 2 * value

    np.frompyfunc(double, 1, 1)(x, out=x, where=mask, casting="unsafe")


MASK = np.arange(12).reshape(3, 4) % 5 == 0  # without the last element
IN_PART: dict[str, Callable[[Any], Any]] = {
    "put": lambda x: np.put(x, [1, 4, -3, 1], _Meanwhile(x, [50, 60, 70])),
    "put that wraps": lambda x: np.put(x, [1, 16, -15], _Meanwhile(x, [50, 60]), mode="wrap"),
    "put that clips": lambda x: np.put(x, [1, -40], _Meanwhile(x, 50), mode="clip"),
    "place": lambda x: np.place(x, MASK, _Meanwhile(x, [50, 60])),
    "putmask": lambda x: np.putmask(x, MASK, _Meanwhile(x, range(50, 55))),
    "putmask of another shape": lambda x: np.putmask(x, MASK.reshape(-1), _Meanwhile(x, range(12))),
    "copyto": lambda x: np.copyto(x, _Meanwhile(x, range(4)), where=MASK),
    "copyto one": lambda x: np.copyto(x, _Meanwhile(x, 5), where=MASK[:, :1]),
    "fill_diagonal": lambda x: np.fill_diagonal(x, _Meanwhile(x, [50, 60, 70])),
    "put_along_axis": lambda x: np.put_along_axis(x, np.array([[0], [1], [2]]), _Meanwhile(x, 50), 1),
    "put_along_axis of all": lambda x: np.put_along_axis(x, np.array([2, 7, 5]), _Meanwhile(x, 50), None),
    "at": lambda x: np.add.at(x, ([0, 1, 0], [1, 2, 1]), _Meanwhile(x, [1, 2, 4])),
    "a function of Python's": lambda x: _by_python(x, MASK),
    "a mask": lambda x: x.__setitem__(MASK, _Meanwhile(x, 9)),
    "flat": lambda x: x.flat.__setitem__([1, 2], _Meanwhile(x, [5, 6])),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", IN_PART)
def test_nothing_is_written_beside_what_a_function_writes(name: str, layout: str) -> None:
    """Another thread may write there."""
    a, x = array(layout), VALUES.copy()
    same_outcome(lambda: IN_PART[name](a), lambda: IN_PART[name](x))
    assert x[-1, -1] == 77
    same_values(a, x)


@pytest.mark.parametrize(
    "layout", ["{1,0:T(8,128)}", "{1,0:T(8,128)(2,1)}", "{1,0:T(8,128)(4,1)(2,1)}", "{0,1:T(2,2)}"]
)
def test_masks_of_large_arrays(layout: str) -> None:
    """Each block writes what the mask chooses, in order."""
    generator = np.random.default_rng(3)
    values = generator.integers(0, 200, (700, 301)).astype(np.uint8)
    for density in (0.0, 0.02, 0.5, 1.0):
        mask = generator.random(values.shape) < density
        count, other = int(mask.sum()), values[::-1] + np.uint8(1)
        for operation in (
            lambda v: v.__setitem__(mask, 7),  # noqa: B023
            lambda v: v.__setitem__(mask, [7]),  # noqa: B023
            lambda v: v.__setitem__(mask, np.int64(300)),  # noqa: B023
            lambda v: v.__setitem__(mask, 300),  # noqa: B023
            lambda v: v.__setitem__(mask, np.arange(count)),  # noqa: B023
            lambda v: v.__setitem__(mask, np.arange(count + 2)),  # noqa: B023
            lambda v: v.T.__setitem__(mask.T, np.arange(count)),  # noqa: B023
            lambda v: v[:, 0].__setitem__(mask[:, 0], 3),  # noqa: B023
            lambda v: np.copyto(v, other, where=mask),  # noqa: B023
            lambda v: np.copyto(v, other[:1], where=mask),  # noqa: B023
            lambda v: np.putmask(v, mask, other),  # noqa: B023
            lambda v: np.place(v, mask, other[0]),  # noqa: B023
            lambda v: np.add(v, other, out=v, where=mask),  # noqa: B023
            lambda v: np.add(v, other[:1], out=v, where=mask[:, :1]),  # noqa: B023
        ):
            a, x = array(layout, values), values.copy()
            same_outcome(lambda: operation(a), lambda: operation(x))  # noqa: B023
            same_values(a, x)


@pytest.mark.parametrize("layout", ["{1,0}", "{1,0:T(2,2)}"])
def test_values_that_a_mask_leaves_out_are_not_cast(layout: str) -> None:
    mask = np.array([[True, False], [False, True]])
    for source in (np.array([[1, "x"], [None, 4]], object), np.array([[1, np.nan], [1e9, 4]]), [[1.5, np.inf]]):
        for casting in ("unsafe", "same_kind"):
            a, x = array(layout, np.zeros((2, 2), np.int8)), np.zeros((2, 2), np.int8)
            with np.errstate(all="raise"):
                mine, theirs = (
                    lambda v=v: np.copyto(v, source, casting=casting, where=mask)  # noqa: B023
                    for v in (a, x)
                )
                same_outcome(mine, theirs)
            same_values(a, x)


@pytest.mark.parametrize("places", [[], [-1], [True, False], [1.0], np.array([1], np.uint64), np.array([3], np.uint8)])
def test_places_of_any_type(places: Any) -> None:
    a, x = array("{1,0:T(2,2)}"), VALUES.copy()
    for mode in ("raise", "wrap", "clip", "other"):
        same_outcome(*(lambda v=v: np.put(v, places, 5, mode=mode) for v in (a, x)))  # noqa: B023
        same_values(a, x)


@pytest.mark.parametrize("size", [30, 300])
@pytest.mark.parametrize("layout", ["{1,0}", "{1,0:T(8,128)(4,1)}"])
@pytest.mark.parametrize("key_of", [lambda mask: mask, lambda mask: (mask,)], ids=["mask", "tuple"])
def test_a_mask_in_the_memory_that_is_written(size: int, layout: str, key_of: Callable[[Any], Any]) -> None:
    x = np.random.default_rng(4).random((size, size)) < 0.5
    a = sd.LayoutArray.from_numpy(x, layout)
    a[key_of(a.T)] = False
    x[x.T.copy()] = False
    same_values(a, x)


class _Subclass(np.ndarray):
    """Arrays that are not exactly ndarrays."""


class _Converted:
    """An array of another library, which shares its memory with NumPy."""

    def __init__(self, values: np.ndarray) -> None:
        self._values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._values if dtype is None else self._values.astype(dtype, copy=False)


@pytest.mark.parametrize("kind", [np.asarray, lambda x: x.view(_Subclass), _Converted, memoryview])
@pytest.mark.parametrize("as_key", [lambda x: x, lambda x: (x,)], ids=["alone", "tuple"])
def test_keys_and_values_of_any_type_in_the_memory_that_is_written(
    kind: Callable[[np.ndarray], Any], as_key: Callable[[Any], Any]
) -> None:
    mask = np.random.default_rng(4).random((30, 30)) < 0.5
    a = sd.LayoutArray.from_numpy(mask, "{1,0}")
    a[as_key(kind(a.as_strided().T))] = False
    same_values(a, mask & ~mask.T)
    b = sd.LayoutArray.from_numpy(np.arange(50), "{0}")
    b[as_key(np.ones(50, bool))] = kind(b.as_strided()[::-1])
    same_values(b, np.arange(50)[::-1])


def test_a_view_of_the_array_is_assigned_by_a_mask() -> None:
    for layout in ("{1,0}", "{0,1}", "{1,0:T(2,2)}"):
        a = array(layout)
        a[VALUES > 0] = a[::-1, ::-1].reshape(-1)
        same_values(a, VALUES[::-1, ::-1])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_that_lie_over_operands(layout: str) -> None:
    """NumPy sees what overlaps."""
    for operation in (
        lambda v: np.add(v[:-1], v[1:], out=v[1:]),
        lambda v: np.subtract(v, v[::-1, ::-1], out=v),
        lambda v: np.copyto(v[1:], v[:-1]),
        lambda v: np.take(v[:, :3], [2, 1, 0], axis=0, out=v[:, 1:], mode="clip"),
        lambda v: np.put_along_axis(v, np.array([[0], [1], [2]]), v[:, 3:], 1),
        lambda v: np.cumsum(v, axis=0, out=v),
        lambda v: np.clip(v.T, v.T[::-1], 8, out=v.T),
        lambda v: v[1:].__iadd__(v[:-1]),
        lambda v: v.__setitem__(slice(None, None, -1), v),
    ):
        a, x = array(layout), VALUES.copy()
        operation(a)
        operation(x)
        same_values(a, x)


def test_writes_to_what_was_broadcast_keep_the_last_value() -> None:
    for n in (3, 20_000):
        for layout in ("{1,0}", "{1,0:T(2,2)}"):
            x = np.zeros((1, 4), np.int32)
            a = array(layout, x)
            spread, expected = a.broadcast_to((n, 4)), as_strided(x, (n, 4), (0, 4))
            spread.flags.writeable = True
            spread[...] = expected[...] = np.arange(4 * n, dtype=np.int32).reshape(n, 4)
            same_values(a, x)


@pytest.mark.parametrize("layout", ["{0}", "{0:T(4)}"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_a_subclass_of_ndarray_its_memory_is_assigned(layout: str, dtype: Any) -> None:
    """It is not indexed: a matrix has two axes however it is."""
    keys: list[Any] = [..., slice(None), [2, 0, 1], np.array([True, True, True])]
    for value in (np.array([[1, 2, 3]], dtype).view(np.matrix), np.ma.array([1, 2, 3], dtype, mask=[0, 1, 0])):
        for place, key in itertools.product(("itself", "flat"), keys):
            x = np.zeros(3, np.float32)
            a = array(layout, x)
            for z in (a, x):
                target = z if place == "itself" else z.flat
                if z is a:
                    _, error = outcome(lambda target=target, key=key, value=value: target.__setitem__(key, value))
                else:
                    _, wanted = outcome(lambda target=target, key=key, value=value: target.__setitem__(key, value))
            assert type(error) is type(wanted), (place, key, value)
            same_values(a, x)
        x = np.zeros(3, np.float32)
        a = array(layout, x)
        np.copyto(a, value, casting="same_kind")
        np.copyto(x, value, casting="same_kind")
        same_values(a, x)
    single = array("{}", np.zeros((), np.float32))
    single[...] = np.ma.array([7], np.float32, mask=[1])
    assert single[()] == 7


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["mean", "var", "std"])
def test_what_numpy_would_not_finish_is_refused(name: str, layout: str) -> None:
    """Methods of ndarrays divide sums, but only in ndarrays: they would leave the sum in any other `out`."""
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    a = array(layout)
    with pytest.raises(TypeError, match=r"np\.mean\(x, out=a\) does"):
        getattr(x, name)(0, out=a)
    same_values(a, VALUES)
    assert getattr(np, name)(x, 0, out=a) is a
    same_values(a, getattr(x, name)(0))
    assert x.sum(0, out=a) is a
    same_values(a, x.sum(0))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (0, [(1, 2)] * 4),
        (..., (1, 2)),
        ((slice(None), 0), [(1, 2), (3, 4), (5, 6)]),
        (([0, 2], 1), [(1, 2), (3, 4)]),
        (1, 7),
    ],
)
def test_tuples_are_elements_of_structured_views(key: Any, value: Any) -> None:
    kind = [("x", "i4"), ("y", "f4")]
    x = np.arange(12, dtype="u8").reshape(3, 4)
    a = sd.LayoutArray.from_numpy(x, "{0,1:T(2,2)}").view(kind)
    n = x.copy().view(kind)
    a[key] = value
    n[key] = value
    assert np.array_equal(np.asarray(a), n)


@pytest.mark.parametrize("key", [np.s_[...], np.s_[1:, 3:-1], np.s_[:, ::-3]], ids=str)
@pytest.mark.parametrize("bitorder", ["little", "big"])
@pytest.mark.parametrize(
    "shape",
    [
        "s4[100,301]{1,0:E(4)}",
        "u2[133,201]{0,1:E(2)}",
        "f4e2m1fn[100,300]{1,0:T(64,128)(8,1)E(4)}",
        "bf16[170,300]{1,0:T(8,128)(2,1)}",
        "c128[190,200]",
    ],
)
def test_one_value_is_stored_and_not_copied(
    shape: str, bitorder: str, key: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copying it to each packed element of a row-major array took two hundred times as long."""
    raw = np.random.default_rng(0).integers(0, 256, sd.parse_shape(shape).byte_size).astype(np.uint8)
    a, b = (sd.LayoutArray(raw.copy(), shape, bitorder=bitorder) for _ in range(2))
    filled = []
    monkeypatch.setattr(transfer, "fill", lambda *x, fill=transfer.fill: (filled.append(x), fill(*x)))
    a[key] = 1
    assert len(filled) == 1
    b[key] = np.ones(b[key].shape, b.dtype)
    assert len(filled) == 1
    assert a.buffer.tobytes() == b.buffer.tobytes()
    values = sd.LayoutArray(raw, shape, bitorder=bitorder).to_numpy()
    values[key] = 1
    same_values(a, values)


@pytest.mark.parametrize(
    "key",
    [0, (slice(None), 1), [0, 2], np.array([True, False, True]), np.ones((3, 4), np.bool_), (..., [[0, 1]])],
    ids=["a row", "a column", "index array", "mask", "full mask", "two axes"],
)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("threshold", [0, 1 << 16])
def test_what_is_refused_by_its_shape_is_not_cast(layout: str, key: Any, threshold: int) -> None:
    """Casts warned before the error."""
    given = [np.full(7, 1j), np.full((2, 3, 4), np.inf + 1j), np.full((1, 12), 1j), array("{0}", np.full(7, 1j))]
    x = VALUES.astype(np.int16)
    a = array(layout, x)
    with warnings.catch_warnings(record=True) as seen, limits.replaced(loading_elements=threshold):
        warnings.simplefilter("always")
        for values in given:
            same_outcome(
                lambda v=values: operator.setitem(a, key, v), lambda v=values: operator.setitem(x, key, np.asarray(v))
            )
    same_values(a, x)
    assert not seen


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copyto_warns_of_a_cast_once(layout: str) -> None:
    """It warned twice, and of what is refused by its shape."""
    for values, count in ((np.full(4, 1j), 1), (array("{0}", np.full(4, 1j)), 1), (np.full((1, 5), 1j), 0)):
        x, a = VALUES.copy(), array(layout)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            # The ndarray gets an ndarray: others it converts by themselves.
            same_outcome(
                lambda v=values, a=a: np.copyto(a, v, casting="unsafe"),
                lambda v=values, x=x: np.copyto(x, np.asarray(v), casting="unsafe"),
            )
        assert len(seen) == 2 * count
        same_values(a, x)


class _OfAnotherLibrary:
    """A value whose library knows none of NumPy's functions."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.values, dtype)

    def __array_function__(self, *of_the_call: Any) -> Any:
        return NotImplemented


@pytest.mark.parametrize(
    "key",
    [0, (0, 0), [0, 2], VALUES > 6, VALUES > 99, slice(None), (..., [9])],
    ids=["a row", "an element", "index array", "mask", "empty mask", "all", "beyond"],
)
@pytest.mark.parametrize("layout", ["{1,0}", "{1,0:T(2,2)}"])
@pytest.mark.parametrize("threshold", [0, 1 << 16])
def test_values_of_other_libraries_are_asked_for_no_shape(layout: str, key: Any, threshold: int) -> None:
    """A TypeError said that their library has no `numpy.shape`."""
    with limits.replaced(loading_elements=threshold):
        for values in (7, [7], [1, 2, 3, 4], [[5]], [], np.ones(9)):
            for dtype in (np.float32, np.bool_):
                x = VALUES.astype(dtype)
                a = array(layout, x)
                for of in (lambda z: z, lambda z: z.flat):
                    mine, theirs = (
                        lambda z=z, v=values, of=of: operator.setitem(of(z), key, _OfAnotherLibrary(v)) for z in (a, x)
                    )
                    same_outcome(mine, theirs)
                    same_values(a, x)


@needs_numpy("2.4", "casts other values that no mask takes")
@pytest.mark.parametrize("shape", [(), (1,), (3,), (0,), (2, 2)], ids=str)
@pytest.mark.parametrize("dtype", [np.int64, np.float32, np.bool_])
def test_one_value_for_several_elements_is_cast_even_where_none_is_chosen(shape: tuple[int, ...], dtype: Any) -> None:
    for value, where in itertools.product(
        ("a", None, ..., 300, [None], np.array(["a"])), (False, np.array(False), [False])
    ):
        for casting in ("unsafe", "same_kind"):
            x = np.zeros(shape, dtype)
            a = sd.LayoutArray.from_numpy(x)
            mine, theirs = (
                lambda z=z, v=value, w=where, c=casting: np.copyto(z, v, where=w, casting=c) for z in (a, x)
            )
            same_outcome(mine, theirs)
            same_values(a, x)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("threshold", [0, 1 << 16])
def test_a_mask_that_chooses_nothing_casts_nothing(layout: str, threshold: int) -> None:
    """Large masks warned of the cast of no element."""
    x, mask = VALUES.copy(), np.zeros(VALUES.shape, np.bool_)
    a = array(layout, x)
    for values in (np.zeros(0, np.complex64), np.full(1, 1j), 1j, "a"):
        with warnings.catch_warnings(record=True) as seen, limits.replaced(loading_elements=threshold):
            warnings.simplefilter("always")
            same_outcome(lambda v=values: operator.setitem(a, mask, v), lambda v=values: operator.setitem(x, mask, v))
        assert not seen
    same_values(a, x)
