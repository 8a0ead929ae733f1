"""Arrays that are converted block by block, as large ones are: what they give is what NumPy gives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.arrays import blocks
from tests import namespace
from tests.checks import same_outcome, same_values

pytestmark = pytest.mark.usefixtures("small_streams")

FLOATS = np.random.default_rng(0).normal(size=(23, 37)) * 10
INTEGERS = np.arange(23 * 37).reshape(23, 37) % 7
CANCELLING = np.tile([2.0**40 + 1, -(2.0**40)], (23, 18))
PAIRS = np.dtype([("p", "i4"), ("q", "i4")])


class Wrapping:
    """What says which class results have, and is no array itself."""

    __array_priority__ = 20

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.ones(37)

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return "wrapped", np.asarray(array).tolist()


def _twice(function: Callable[..., Any], *others: Any) -> Callable[[Any], Any]:
    """A function of two results, both written to the array itself."""

    def action(x: Any) -> Any:
        function(x, *others, out=(x, x))
        return np.asarray(x)

    return action


def _broadcast(x: Any) -> Any:
    """An array whose elements are there many times, added to in place."""
    row = x[:1]
    spread, _ = np.broadcast_arrays(row, np.zeros((50, 37), bool))
    spread.flags.writeable = True
    spread += 1
    return np.asarray(row)


def _counted() -> Any:
    """A function that counts how often it is called."""
    calls: list[Any] = []

    def python(x: float) -> float:
        calls.append(x)
        return x + len(calls)

    return np.frompyfunc(python, 1, 1)


def _masked(x: Any) -> Any:
    other = np.ma.masked_array(FLOATS.copy(), mask=False)
    other[0, 0] = np.ma.masked
    other.data[0, 0] = 99
    return np.allclose(x, other)


ACTIONS: dict[str, tuple[np.ndarray, Callable[[Any], Any]]] = {
    **{
        f"{function.__name__} to a narrower type": (
            CANCELLING,
            lambda x, f=function: f(x, axis=1, out=np.zeros(23, np.float32)),
        )
        for function in (np.sum, np.mean, np.add.reduce)
    },
    "a sum as a truth": (INTEGERS - 3, lambda x: np.sum(x, axis=1, out=np.zeros(23, bool))),
    "a variance of integers": (INTEGERS, lambda x: np.var(x, axis=1, dtype="i8", out=np.zeros(23))),
    "an initial value that only `out` holds": (INTEGERS, lambda x: np.sum(x, initial=2.0**70, out=np.zeros(()))),
    "two results in one array": (FLOATS, _twice(np.modf)),
    "quotient and remainder in one array": (FLOATS, _twice(np.divmod, 7)),
    "an array that repeats": (FLOATS, _broadcast),
    "a sum into a view that repeats": (
        FLOATS,
        lambda x: np.add(x, 1, out=np.lib.stride_tricks.as_strided(np.zeros(900), (23, 37), (8, 8))),
    ),
    "the mask of what is compared": (FLOATS, _masked),
    "a tolerance for each row": (FLOATS, lambda x: np.allclose(x, FLOATS, atol=np.ones((23, 1)))),
    "arguments by their names": (FLOATS, lambda x: np.array_equal(a1=x, a2=FLOATS) and np.allclose(a=FLOATS, b=x)),
    "lists of several lengths": (FLOATS, lambda x: np.array_equal(x, [[1], [2, 3]])),
    "a mean to memory that is read-only": (FLOATS, lambda x: np.mean(x, axis=1, out=np.broadcast_to(0.0, 23))),
    "where as a number": (FLOATS, lambda x: np.add(x, 1, out=np.zeros((23, 37)), where=1)),
    "where as a list": (FLOATS, lambda x: np.add(x, 1, out=np.zeros((23, 37)), where=[1, 0] * 18 + [1])),
    "where as integers": (FLOATS, lambda x: np.add(x, 1, out=np.zeros((23, 37)), where=np.ones(37, int))),
    "an out that is no array": (FLOATS, lambda x: np.add(x, 1, out=[1.0])),
    "Fortran's order": (FLOATS, lambda x: np.add(x, 1, order="F").flags.f_contiguous),
    "what wraps": (FLOATS, lambda x: np.add(x, Wrapping())),
    "a function of Python's": (FLOATS, lambda x: _counted()(x).tolist()),
    "text": (FLOATS, np.array_repr),
    "dates without a unit": (INTEGERS, lambda x: x.view("M8[s]").astype("M8")),
    "the largest text": (INTEGERS + 1, lambda x: x.view("S8").argmax()),
    "records that are not zero": (INTEGERS, lambda x: np.count_nonzero(x.view(PAIRS))),
    "equal records": (INTEGERS, lambda x: np.asarray(x.view(PAIRS) == INTEGERS.view(PAIRS))),
    "unequal records": (INTEGERS, lambda x: np.asarray(x.view(PAIRS) != INTEGERS[::-1].view(PAIRS))),
    "the largest of complex NaNs": (FLOATS + 1j * np.nan, lambda x: x.argmax()),
}


@pytest.mark.parametrize("name", ACTIONS)
def test_as_numpy_does(name: str) -> None:
    values, action = ACTIONS[name]
    a, x = sd.LayoutArray.from_numpy(values, "{1,0:T(8,16)}"), values.copy()
    with np.errstate(invalid="raise"):
        same_outcome(lambda: action(a), lambda: action(x), namespace.same)


@pytest.mark.parametrize("how", ["errstate", "a filter of warnings"])
@pytest.mark.parametrize("action", [
    lambda x: x.__itruediv__(np.arange(37) - 5),
    lambda x: np.divide(1, np.asarray(x).copy(), out=x, where=np.arange(37) % 2 == 0),
    lambda x: np.log(np.repeat(np.arange(-20.0, 3), 37).reshape(x.shape), out=x),
    lambda x: np.multiply.at(x, ([0, 22], [36, 1]), 1e308),
], ids=["in place", "in part", "of two kinds", "at"])  # fmt: skip
def test_a_floating_point_error_is_raised_once_all_is_computed(action: Callable[[Any], Any], how: str) -> None:
    values = INTEGERS * 1.0 - 3
    a, x = sd.LayoutArray.from_numpy(values, "{1,0:T(8,16)}"), values.copy()
    with warnings.catch_warnings(action="error"), np.errstate(all="raise" if how == "errstate" else "warn"):
        assert same_outcome(lambda: action(a), lambda: action(x)) is None
    same_values(a, x)


@pytest.mark.parametrize("action", [
    lambda x: x.__iadd__(1), lambda x: np.add(np.zeros((23, 37)), 1, out=x, where=x), lambda x: np.exp(x, out=x.T),
    lambda x: x + np.zeros(3), lambda x: x.sum(axis=0, out=x[0]), lambda x: x.sort(), lambda x: x.sort(axis=2),
    lambda x: x.partition(3), lambda x: x.setfield(1, "i2"), lambda x: x.byteswap(True), lambda x: np.copyto(x, 1),
    lambda x: np.copyto(x, "a"), lambda x: np.put(x, [0], 1), lambda x: np.putmask(x, True, 1),
    lambda x: np.fill_diagonal(x, 1), lambda x: np.put_along_axis(x, np.zeros((1, 37), int), 1, 0),
], ids=range(16))  # fmt: skip
def test_what_is_refused_whatever_its_values_is_not_read(
    action: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, x = (y.copy() for y in (sd.LayoutArray.from_numpy(FLOATS, "{1,0:T(8,16)}"), FLOATS))
    a.flags.writeable = x.flags.writeable = False
    monkeypatch.setattr(sd.LayoutArray, "to_numpy", lambda self: pytest.fail("it was read"))
    assert same_outcome(lambda: action(a), lambda: action(x)) is None


def test_where_counts_for_what_is_cast_in_place() -> None:
    """An operand that is the result as well, along axes of one index."""
    found = []
    for wrap in (lambda x: sd.LayoutArray.from_numpy(x, "{1,0:T(1,128)}"), np.array):
        out = np.full((1, 851), 2, np.float32)
        mask = np.arange(851)[None] % 2 == 0
        np.less(wrap(np.zeros((1, 851), np.float32)), out, out=out, where=mask, casting="unsafe")
        found.append(out)
    assert np.array_equal(*found)
    assert found[0][0, :2].tolist() == [1, 2]


def test_printing_keeps_formatters() -> None:
    a = sd.LayoutArray.from_numpy(np.zeros((300, 200)), "{1,0:T(8,128)}")
    with np.printoptions(formatter={"float": lambda value: f"<{value:g}>"}):
        assert np.array_str(a) == np.array_str(np.zeros((300, 200)))
        assert np.array_repr(a) == np.array_repr(np.zeros((300, 200)))


@pytest.mark.parametrize("shape", [(2050, 2061), (60, 301, 300)], ids=str)
@pytest.mark.parametrize(
    "options", [{}, {"linewidth": 30}, {"linewidth": np.inf}, {"edgeitems": 1}, {"precision": 2}], ids=str
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_printing_tells_the_shape_as_numpy_does(shape: tuple[int, ...], options: dict[str, int], dtype: Any) -> None:
    x = np.broadcast_to(np.array(3, dtype) / np.array(7, dtype), shape).astype(dtype)
    x[..., :5] = np.arange(5) * -1.25
    a = sd.LayoutArray.from_numpy(x, "{" + ",".join(map(str, reversed(range(len(shape))))) + ":T(8,128)}")
    with np.printoptions(**options):
        assert np.array_repr(a) == np.array_repr(x)


@pytest.mark.parametrize("order", "KCFA")
@pytest.mark.parametrize("layouts", [("{1,0}",), ("{0,1}",), ("{0,1}", "{0,1}"), ("{0,1}", "{1,0}"), ("{1,0}", None)])
def test_results_of_plain_strides_lie_in_numpys_order(layouts: tuple[str | None, ...], order: Any) -> None:
    arrays = [
        x if k is None else sd.LayoutArray.from_numpy(x, k) for x, k in zip((FLOATS, FLOATS + 1), layouts, strict=False)
    ]
    plain = [a.as_strided() if isinstance(a, sd.LayoutArray) else a for a in arrays]
    for inputs, given in (
        (arrays, plain),
        ([arrays[0][::2, 3:]], [plain[0][::2, 3:]]),
        ([*arrays, 2][:2], [*plain, 2][:2]),
    ):
        ufunc = np.exp if len(inputs) == 1 else np.multiply
        got, expected = ufunc(*inputs, order=order), ufunc(*given, order=order)
        same_values(got, expected)
        assert got.strides == expected.strides


@pytest.mark.filterwarnings("ignore:.where. used without .out.")
@pytest.mark.parametrize("beside", [np.ascontiguousarray, np.asfortranarray])
@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}"])
def test_masks_and_given_results_have_a_say_in_the_order(layout: str, beside: Any) -> None:
    a, mask, out = sd.LayoutArray.from_numpy(FLOATS, layout), beside(FLOATS == FLOATS), beside(np.zeros_like(FLOATS))
    for operation in (lambda x: np.negative(x, where=mask), lambda x: np.modf(x, out=(out, None))[1]):
        got, expected = operation(a), operation(a.as_strided())
        same_values(got[mask], expected[mask])
        assert got.strides == expected.strides


def test_results_of_tiles_are_row_major() -> None:
    a = sd.LayoutArray.from_numpy(FLOATS, "{0,1:T(2,3)}")
    assert (a + 1).flags.c_contiguous
    assert (a + np.asfortranarray(FLOATS)).flags.c_contiguous


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}", "{0,1:T(2,3)}"])
def test_in_place_in_windows(layout: str) -> None:
    a, x = sd.LayoutArray.from_numpy(FLOATS, layout), FLOATS.copy()
    for window in (np.s_[:], np.s_[::-2, 3:], np.s_[5:6], np.s_[:, 4]):
        for array in (a, x):
            part = array[window]
            part += 1
            np.multiply(part, 3, out=part, where=np.asarray(part) > 0)
    same_values(np.asarray(a), x)


@pytest.mark.parametrize("layout", ["{0,1:T(2,16)}", "{1,0:T(2,16)}", "{0,1:T(8,32)(2,1)}"])
def test_arrays_that_lie_alike_are_computed_where_they_lie(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 12)
    values = np.random.default_rng(1).integers(-100, 100, (64, 96))
    arrays = [values.astype(np.int32), values.T.reshape(64, 96).astype(np.int16), values % 3 == 0]
    mine = [sd.LayoutArray.from_numpy(x, layout) for x in arrays]

    def all_of(a: Any, b: Any, mask: Any) -> None:
        np.add(a, 1, out=a)
        np.multiply(a, b, out=a)
        np.subtract(a, np.int32(7), out=a, where=mask)
        np.negative(b, out=b)
        a[:32] -= b[32:]
        np.greater(a, b, out=mask)

    def not_alike(a: Any, b: Any, mask: Any) -> None:
        np.add(a, values, out=a, casting="unsafe")
        a += a[0]
        np.add(a[1:], b[:-1], out=a[1:], where=mask[1:])

    all_of(*arrays)
    with monkeypatch.context() as patch:
        if layout != "{0,1:T(8,32)(2,1)}":  # whose runs are short
            patch.setattr(blocks.transfer, "copy", None)
        all_of(*mine)
    for array, own in zip(arrays, mine, strict=True):
        same_values(np.asarray(own), array)
    not_alike(*arrays)
    not_alike(*mine)
    for array, own in zip(arrays, mine, strict=True):
        same_values(np.asarray(own), array)


@pytest.mark.parametrize("layout", ["{0,1}", "{1,0:T(8,128)}", "{0,1:T(2,16)}", "{1,0:T(8,128)(2,1)}"])
def test_what_a_mask_leaves_out_is_what_the_result_has_there(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy casts it, too, and warns of what has no value in the other type: uninitialised memory must not be there."""
    integers, mask = np.arange(-80, 80, dtype=np.int8).reshape(8, 20), np.arange(160).reshape(8, 20) % 3 == 0
    allocate = np.empty

    def of_not_a_number(*args: Any, **kwargs: Any) -> Any:
        found = allocate(*args, **kwargs)
        found.reshape(-1).view(np.uint8)[...] = 0xFF
        return found

    for rest in (0, np.nan):
        plain = np.full(integers.shape, rest, np.float32)
        mine, given = (sd.LayoutArray.from_numpy(x, layout) for x in (plain, integers))
        with np.errstate(invalid="raise"), monkeypatch.context() as patch:
            patch.setattr(np, "empty", of_not_a_number)
            same_outcome(
                lambda x=given, out=mine: np.square(x, out=out, where=mask),
                lambda out=plain: np.square(integers, out=out, where=mask),
            )
        same_values(np.asarray(mine), plain)
