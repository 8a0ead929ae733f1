"""`ravel` and `reshape`: a view where NumPy gives one, a copy where NumPy copies, in every order.

NumPy's rule is asked of an ndarray whose axes lie in memory in the order that the layout says, seen through the same
views.
"""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from tests.arrays.test_views import factors
from tests.cases import Case, some_values
from tests.checks import encoded, numpy_reshapes, same_values, shape_of, unread
from tests.strategies import basic_keys, cases
from tests.thinned import thinned

ORDERS = ["C", "F", "A", "K"]


def pair(case: Case) -> tuple[sd.LayoutArray, np.ndarray]:
    """An array in a layout, and an ndarray of the same values whose axes lie in memory in the same order."""
    values = some_values(case)
    order = case.minor_to_major[::-1]
    x = values.transpose(order).copy("C").transpose(np.argsort(order).astype(int))
    return sd.LayoutArray(bytearray(encoded(case, values)), shape_of(case)), x


def shares(x: Any, y: Any) -> bool:
    """Whether what is written to one is seen in the other."""
    return bool(x.size and y.size and np.may_share_memory(getattr(x, "buffer", x), getattr(y, "buffer", y)))


def check_ravel(a: sd.LayoutArray, x: np.ndarray, order: str, bits: int) -> None:
    """As NumPy if strides are plain; if not, contiguous, and never an alias where NumPy copies."""
    got = a.ravel(order)
    assert got.flags.c_contiguous
    if a.is_strided:
        expected = a.as_strided().ravel(order)
        same_values(got, expected, bits)
        assert shares(got, a) == shares(expected, a.as_strided())
    else:
        assert type(got) is np.ndarray
        assert not shares(got, a)
        assert not got.flags.writeable
        same_values(got, x.ravel(order if order in "CF" else "C"), bits)
    flat = a.flatten(order)
    assert flat.flags.owndata  # as NumPy's: it can be resized
    same_values(flat, np.asarray(got), bits)


def check_reshape(a: sd.LayoutArray, x: np.ndarray, shape: tuple[int, ...], order: str, bits: int) -> None:
    """The values that NumPy gives; a view only if NumPy gives one, and then always if strides are plain."""
    got = a.reshape(shape, order=order)
    same_values(got, x.reshape(shape, order=order), bits)
    strides = a.address_map.strides
    if strides is not None:
        x = unread(a.shape, strides)
    is_view = numpy_reshapes(x, shape, order)
    assert got.flags.writeable == (a.is_strided or isinstance(got, sd.LayoutArray))
    if shares(got, a):
        assert isinstance(got, sd.LayoutArray)
        assert is_view, "NumPy copies"
    else:
        assert not is_view or strides is None or not a.size, "NumPy gives a view"


@given(cases(max_rank=4), st.data())
def test_any_view_in_any_order(case: Case, data: st.DataObject) -> None:
    a, x = pair(case)
    for _ in range(data.draw(st.integers(0, 2))):
        key = data.draw(basic_keys(a.shape))
        key = (*key, ...) if isinstance(key, tuple) and Ellipsis not in key else key
        axes = data.draw(st.permutations(range(np.ndim(x[key]))))
        if not isinstance(a[key], sd.LayoutArray):
            break
        a, x = a[key].transpose(axes), x[key].transpose(axes)
        if not isinstance(x, np.ndarray) or isinstance(key, np.ndarray):
            break
    shape = tuple(data.draw(st.permutations(factors(a.size))))
    for order in ORDERS:
        check_ravel(a, x, order, case.bits)
        if order in "CF":
            check_reshape(a, x, shape, order, case.bits)
            check_reshape(a, x, (-1,) if a.size else (0,), order, case.bits)


KEYS = [(), (slice(None, None, 2),), (..., slice(None, None, -1)), (0,), (None, ..., slice(0, 2))]


@pytest.mark.parametrize(
    ("dimensions", "tiles"),
    thinned(
        itertools.product(
            [(4, 4), (2, 1, 4), (2, 3, 2)], ["", ":T(4,8)", ":T(2,2)", ":T(2)", ":T(3,3)", ":E(4)", ":T(2,4)(2,1)E(4)"]
        ),
        2,
    ),
    ids=str,
)
def test_every_order(dimensions: tuple[int, ...], tiles: str) -> None:
    element_type, rank = "s4" if "E(4)" in tiles else "s16", len(dimensions)
    turns = {tuple(range(rank)), tuple(range(rank))[::-1], (1, *range(1), *range(2, rank))}
    for order in turns:
        case = Case.parse(f"{element_type}{list(dimensions)}{{{','.join(map(str, order))}{tiles}}}".replace(" ", ""))
        whole, values = pair(case)
        for key in KEYS:
            a, x = whole[key], values[key]
            for turn in (range(a.ndim), range(a.ndim)[::-1]):
                b, y = a.transpose(turn), x.transpose(turn)
                for how in ORDERS:
                    check_ravel(b, y, how, case.bits)
                for shape in ((b.size,), (2, -1), (-1, 2), b.shape):
                    check_reshape(b, y, shape, "C", case.bits)
                    check_reshape(b, y, shape, "F", case.bits)


@pytest.mark.parametrize("order", ["C", "F"])
def test_no_write_to_a_converted_copy_is_lost(order: str) -> None:
    """Of an ndarray these are views, and what is written to them reaches it."""
    a = sd.LayoutArray.from_numpy(np.arange(12).reshape(3, 4), "{1,0:T(2,2)}" if order == "C" else "{0,1:T(2,2)}")
    for flat in (a.ravel(order), a.reshape(-1, order=order), np.ravel(a, order), a.copy().ravel(order)):
        with pytest.raises(ValueError, match="read-only"):
            flat[5] = 99
    for copy in (a.flatten(order), a.reshape(-1, order=order, copy=True)):
        copy[5] = 99
    assert not (a.to_numpy() == 99).any()


@pytest.mark.parametrize("text", ["u8[20]{0:T(6)(4)}", "u8[5,7]{1,0:T(3,5)(2,2)}", "u4[5,7]{0,1:T(3,5)(2,2)E(4)}"])
def test_the_same_shape_is_a_view_whatever_the_layout(text: str) -> None:
    shape = sd.parse_shape(text)
    a = sd.LayoutArray(np.zeros(shape.address_byte_size, np.uint8), shape)
    view = a.reshape(a.shape, copy=False)
    view[...] = 1
    assert (a.to_numpy() == 1).all()


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}", "{1,0:T(8,128)}"])
@pytest.mark.parametrize(
    "copy",
    [lambda a: a.flatten(), lambda a: a.flatten("F"), lambda a: a[:, ::-1].ravel()],
    ids=["flatten", "by columns", "ravel"],
)
def test_elements_are_copied_once(layout: str, copy: Callable[[sd.LayoutArray], np.ndarray]) -> None:
    a = sd.LayoutArray(np.zeros(1 << 20, np.float32), f"f32[1024,1024]{layout}")
    copy(a)  # loads the compiler and a kernel
    tracemalloc.start()
    try:
        copy(a)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1.5 * a.nbytes


@pytest.mark.parametrize("order", ["C", "F", "A"])
def test_bytes_of_plain_strides(order: Any) -> None:
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    for layout in ("{1,0}", "{0,1}", "{0,1:T(2,3)}"):
        a = sd.LayoutArray.from_numpy(x, layout)
        y = a.as_strided() if a.is_strided else x
        for key in (np.s_[:], np.s_[::2, 1:], np.s_[::-1], np.s_[2], np.s_[:, 3]):
            assert a[key].tobytes(order) == y[key].tobytes(order)
