"""What anything that passes for an ndarray must honour.

Asked of plain, tiled, packed, empty and 0-d arrays, and of views on them.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from tests.cases import Case, some_values
from tests.checks import encoded, outcome, same_error, same_values, shape_of
from tests.thinned import thinned

Pair = tuple[sd.LayoutArray, np.ndarray]


def pair(text: str, key: Any = None) -> Pair:
    """An array and its values, or the views of both that a key selects."""
    case = Case.parse(text)
    values = some_values(case, 2)
    if case.element_type in ("f32", "f64", "bf16", "c64"):
        values = np.random.default_rng(1).normal(size=case.dimensions).astype(case.dtype)
    array = sd.LayoutArray(bytearray(encoded(case, values)), shape_of(case))
    return (array, values) if key is None else (array[key], values[key])


PAIRS: dict[str, Callable[[], Pair]] = {
    "plain": lambda: pair("f32[3,5]{1,0}"),
    "column major": lambda: pair("s64[3,5]{0,1}"),
    "tiled": lambda: pair("f32[3,5]{0,1:T(2,2)}"),
    "bfloat16": lambda: pair("bf16[9,17]{1,0:T(8,16)(2,1)}"),
    "packed": lambda: pair("s4[5,7]{0,1:E(4)}"),
    "booleans": lambda: pair("pred[5,7]{1,0:T(4,4)}"),
    "complex": lambda: pair("c64[2,3,2]{0,2,1:T(2,2)}"),
    "one element": lambda: pair("f64[1,1]{1,0:T(2,2)}"),
    "0-d": lambda: pair("s32[]{:T(128)}"),
    "empty": lambda: pair("f32[0,3]{1,0:T(2,2)}"),
    "uneven": lambda: pair("f32[4,6]{1,0:T(4,4)(3,1)}"),
    "combined": lambda: pair("u8[3,2,4]{2,1,0:T(*,2,3)}"),
    "a view": lambda: pair("f32[3,5]{0,1:T(2,2)}", (slice(None, None, -1), slice(1, None, 2))),
    "a packed view": lambda: pair("u2[5,7]{0,1:E(2)}", (slice(1, None), None, 3)),
    "a 0-d view": lambda: pair("s16[3,5]{0,1:T(2,2)}", (1, 2, ...)),
}


@pytest.fixture(params=PAIRS)
def made(request: pytest.FixtureRequest) -> Pair:
    return PAIRS[request.param]()


def test_attributes(made: Pair) -> None:
    array, values = made
    for name in ("shape", "dtype", "ndim", "size", "itemsize", "nbytes"):
        got, expected = getattr(array, name), getattr(values, name)
        assert got == expected
        assert type(got) is type(expected)
        with pytest.raises(AttributeError, match=name):
            setattr(array, name, expected if name != "shape" else (1, 1, 1, 99))


def test_asarray(made: Pair) -> None:
    array, values = made
    same_values(np.asarray(array), values)
    assert type(np.asanyarray(array)) is np.ndarray
    same_values(array.__array__(), values)
    same_values(array.__array__(None), values)


def test_asarray_of_another_type(made: Pair) -> None:
    array, values = made
    for dtype in (np.complex128, object, "c16"):
        same = np.array_equal(np.asarray(array, dtype), values.astype(dtype), equal_nan=dtype is not object)
        assert same
        assert np.asarray(array, dtype).dtype == np.dtype(dtype)
        assert array.__array__(np.dtype(dtype)).dtype == np.dtype(dtype)


def test_a_copy_is_a_copy(made: Pair) -> None:
    array, values = made
    for fresh in (np.array(array), np.array(array, copy=True), array.__array__(copy=True), array.to_numpy()):
        assert fresh.flags.writeable
        assert not np.shares_memory(fresh, array.buffer)
        fresh[...] = np.zeros((), fresh.dtype)
        same_values(array, values)


def test_without_a_copy_is_refused_or_shares_memory(made: Pair) -> None:
    """``copy=False``: never a hidden copy."""
    array, values = made
    for ask in (lambda: np.asarray(array, copy=False), lambda: array.__array__(copy=False)):
        got, error = outcome(ask)
        if error is not None:
            assert isinstance(error, ValueError)
            assert "copy" in str(error)
        else:
            same_values(got, values)
            assert values.size == 0 or np.shares_memory(got, array.buffer)


def test_len_and_iteration(made: Pair) -> None:
    array, values = made
    same_error(outcome(lambda: len(array))[1], outcome(lambda: len(values))[1])
    expected, wanted = outcome(lambda: list(values))
    got, error = outcome(lambda: list(array))
    if wanted is not None:
        assert type(error) is type(wanted)
        return
    assert error is None
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        same_values(one, other)
        assert isinstance(one, sd.LayoutArray) == isinstance(other, np.ndarray)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "shape": np.shape,
    "ndim": np.ndim,
    "size": np.size,
    "ravel": np.ravel,
    "transpose": np.transpose,
    "atleast_2d": np.atleast_2d,
    "copy": np.copy,
    "nonzero": np.nonzero,
    "isfinite": np.isfinite,
    "stack": lambda x: np.stack([x, x]),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, *np.shape(x))),
    "zeros_like": np.zeros_like,
}


@pytest.mark.parametrize("name", thinned(FUNCTIONS, 3))
def test_functions_that_take_an_array_take_this_one(made: Pair, name: str) -> None:
    array, values = made
    expected, wanted = outcome(lambda: FUNCTIONS[name](values))
    got, error = outcome(lambda: FUNCTIONS[name](array))
    assert type(error) is type(wanted)
    if wanted is None:
        assert np.array_equal(np.asarray(got), np.asarray(expected))


def test_a_view_keeps_the_memory_alive_and_sees_changes() -> None:
    array, values = pair("f32[3,5]{0,1:T(2,2)}")
    view, column = array[1:], array[:, 2]
    array[2, 2] = 7
    assert view[1, 2] == column[2] == 7
    view[0] = 1
    values[2, 2], values[1] = 7, 1
    same_values(array, values)
    del array
    gc.collect()
    same_values(column, values[:, 2])


def test_views_know_their_buffer() -> None:
    array, _ = pair("f32[3,5]{0,1:T(2,2)}")
    view = array[1:, ::2]
    assert view.xla_shape == array.xla_shape
    assert view.layout == array.layout
    assert np.shares_memory(view.buffer, array.buffer)
    assert view.is_view
    assert not array.is_view


def test_all_of_an_array_is_the_array() -> None:
    array, values = pair("f32[3,5]{0,1:T(2,2)}")
    for whole in (array[:], array[...], array.T.T, array[::-1][::-1], array.view()):
        assert not whole.is_view
        assert whole.copy().layout == array.layout
        assert sd.inspect.padding(whole).bytes == sd.inspect.padding(array).bytes
        assert repr(whole) == repr(array)
    for part in (array[:, :4], array[::-1], array.T, array[None], array.view(np.int32)):
        assert part.is_view
    same_values(array[:], values)


def test_reading_leaves_no_reference_cycle() -> None:
    memory = np.zeros(96, np.uint8)
    gone = weakref.ref(memory)
    array = sd.LayoutArray(memory, "f32[3,5]{0,1:T(2,2)}")
    np.asarray(array[1:])
    gc.disable()
    try:
        del array, memory
        assert gone() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("dtype", ["<c8", "<c16", ">c8", ">c16"])
def test_parts_of_complex_numbers_have_their_order_of_bytes(dtype: str) -> None:
    values = (np.arange(12) + 1j * np.arange(12, 24)).reshape(3, 4).astype(dtype)
    a = sd.LayoutArray.from_numpy(values.view(dtype.replace(">", "<")), "{1,0:T(2,2)}").view(dtype)
    for part in ("real", "imag"):
        assert getattr(a, part).dtype == getattr(values, part).dtype
        assert getattr(a, part).dtype.isbuiltin == getattr(values, part).dtype.isbuiltin
        same_values(getattr(a, part), getattr(values, part))
    a.imag[0, 1], values.imag[0, 1] = 5, 5
    same_values(a, values)


def test_elements_that_are_arrays_are_seen_in_plain_strides_alone() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    same_values(sd.LayoutArray.from_numpy(values, "{1,0}").view("(2,)u2"), values.view("(2,)u2"))
    with pytest.raises(BufferError, match="not plain strides"):
        sd.LayoutArray.from_numpy(values, "{1,0:T(2,2)}").view("(2,)u2")


@pytest.mark.parametrize("layout", ["{1,0:E(4)}", "{1,0:T(2,2)E(4)}", "{1,0}"])
def test_packed_elements_are_seen_as_types_of_as_many_bits(layout: str) -> None:
    values = np.arange(-8, 7).reshape(3, 5).astype(ml_dtypes.int4)
    a = sd.LayoutArray.from_numpy(values, layout)
    b = a.view(ml_dtypes.uint4)
    assert b.tolist() == (np.arange(-8, 7) % 16).reshape(3, 5).tolist()
    b[1, 2] = 15
    assert a[1, 2] == -1
    if "E" in layout:
        for wider in (np.int8, ml_dtypes.int2, "M8[s]"):
            with pytest.raises(BufferError, match="packs 4-bit elements"):
                a.view(wider)
