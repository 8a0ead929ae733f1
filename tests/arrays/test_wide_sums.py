"""Sums, products and means of short types: carried out in wide ones, at every size, axis and layout."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided.arrays import blocks, reductions, wide_sums
from tests.cases import ARRAY_TYPES, PACKED_TYPES, dtype_of
from tests.checks import outcome, same_outcome, same_values
from tests.thinned import thinned

FLOATS = sorted(t for t in ARRAY_TYPES if t[0] in "fb" and dtype_of(t).itemsize <= 2)
INTEGERS = [t for t in ("s1", "u1", "s2", "u2", "s4", "u4") if t in ARRAY_TYPES]
LAYOUTS = ["{1,0}", "{0,1}", "{1,0:T(8,16)(2,1)}", "{0,1:T(3,2)(2,2)}"]


def laid_out(values: np.ndarray, layout: str, element_type: str) -> sd.LayoutArray:
    bits = ARRAY_TYPES[element_type]["bits"]
    if element_type in PACKED_TYPES and layout != "{1,0}":
        layout = layout.replace("}", f"E({bits})}}" if ":" in layout else f":E({bits})}}")
    return sd.LayoutArray.from_numpy(values, layout, element_type=element_type)


# --- the judge ------------------------------------------------------------------------------------------------------


@cache
def finite(element_type: str) -> np.ndarray:
    """Every finite value of a type, as doubles in order."""
    dtype = dtype_of(element_type)
    patterns = np.arange(1 << ARRAY_TYPES[element_type]["bits"], dtype=f"u{dtype.itemsize}")
    with np.errstate(all="ignore"):
        values = patterns.view(dtype).astype(np.float32).astype(np.float64)
    return np.unique(values[np.isfinite(values)])


def is_nearest(got: Any, exact: Fraction, element_type: str) -> bool:
    """Whether no value of the type is nearer to the exact one; of two as near, the one with an even pattern."""
    every, value = finite(element_type), Fraction(float(got)) if math.isfinite(got) else None
    if exact >= Fraction(every[-1]) or exact <= Fraction(every[0]):
        with np.errstate(all="ignore"):
            expected = np.float32(float(exact)).astype(dtype_of(element_type))
        return np.array_equal(np.float64(got), np.float64(expected), equal_nan=True)
    place = int(np.searchsorted(every, float(exact)))
    near = [Fraction(v) for v in every[max(0, place - 2) : place + 3]]
    least = min(abs(v - exact) for v in near)
    if value is None or abs(value - exact) != least:
        return False
    bits = np.asarray(got).view(f"u{dtype_of(element_type).itemsize}")
    tie = [abs(v - exact) for v in near].count(least) > 1
    return not tie or not int(bits) & 1 or element_type == "f8e8m0fnu"  # powers of two have no even ones


def judged(got: Any, exact: list[Fraction], element_type: str) -> None:
    flat = np.asarray(got).reshape(-1)
    assert flat.dtype == dtype_of(element_type)
    assert flat.size == len(exact)
    for one, wanted in zip(flat, exact, strict=True):
        assert is_nearest(one, wanted, element_type), f"{one} for {float(wanted)}"


def some(element_type: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Values of a type, of all magnitudes from a hundredth to a hundred that it has."""
    every = finite(element_type)
    sizes = np.abs(every)
    chosen = every[(sizes <= 100) & ((sizes >= 0.01) | (sizes == 0))]
    return np.random.default_rng(seed).choice(chosen, shape).astype(np.float32).astype(dtype_of(element_type))


def exactly(x: np.ndarray) -> np.ndarray:
    """The values as fractions."""
    return np.array([Fraction(float(v)) for v in x.reshape(-1)], object).reshape(x.shape)


def listed(x: Any) -> list[Fraction]:
    return list(np.asarray(x, object).reshape(-1))


def test_the_judge_bites() -> None:
    assert is_nearest(ml_dtypes.bfloat16(1.0), Fraction(1) + Fraction(1, 1 << 8), "bf16")  # a tie, to even
    assert not is_nearest(ml_dtypes.bfloat16(1.0078125), Fraction(1) + Fraction(1, 1 << 8), "bf16")
    assert not is_nearest(ml_dtypes.bfloat16(1.0), Fraction(1) + Fraction(1, 1 << 8) + Fraction(1, 1 << 40), "bf16")
    assert not is_nearest(ml_dtypes.bfloat16(256), Fraction(300), "bf16")


# --- every type, every axis, every layout ---------------------------------------------------------------------------


@pytest.mark.parametrize("element_type", thinned(FLOATS, 17))
def test_sums_are_the_nearest_values_to_the_exact_ones(element_type: str) -> None:
    x = some(element_type, (17, 13))
    exact = exactly(x)
    for layout in LAYOUTS:
        a = laid_out(x, layout, element_type)
        for axis in (None, 0, 1, (0, 1), -1):
            total = listed(exact.sum(axis))
            count = x.size // len(total)
            mean = [t / count for t in total]
            for got in (
                a.sum(axis),
                np.sum(a, axis=axis, keepdims=True),
                np.add.reduce(a, axis=axis),
                np.nansum(a, axis=axis),
                np.sum(a, axis, dtype_of(element_type)),
            ):
                judged(got, total, element_type)
            for got in (a.mean(axis), np.nanmean(a, axis=axis), np.mean(a, axis, keepdims=True)):
                judged(got, mean, element_type)
            if not isinstance(axis, tuple):
                judged(np.average(a, axis), mean, element_type)
        for axis in (0, 1):
            running = listed(np.add.accumulate(exact, axis))
            for got in (
                a.cumsum(axis),
                np.cumsum(a, axis),
                np.nancumsum(a, axis),
                np.add.accumulate(a, axis),
                *([np.cumulative_sum(a, axis=axis)] if hasattr(np, "cumulative_sum") else []),
            ):
                judged(got, running, element_type)
            parts = [0, 5, 11]
            judged(np.add.reduceat(a, parts, axis), listed(np.add.reduceat(exact, parts, axis)), element_type)
        judged(a.cumsum(), listed(np.add.accumulate(exact.reshape(-1))), element_type)
        judged(a.trace(), [exact.trace()], element_type)
        judged(np.trace(a, 2), [exact.trace(2)], element_type)
        view, part = a[::-2, 2:], exact[::-2, 2:]
        judged(view.sum(0), listed(part.sum(0)), element_type)
        judged(view.T.sum(0), listed(part.T.sum(0)), element_type)
        judged(np.mean(view), [part.sum() / part.size], element_type)
        judged(np.broadcast_to(a[0, 11:], (300, 2)).sum(0), [300 * v for v in exact[0, 11:]], element_type)


@pytest.mark.parametrize("element_type", FLOATS)
def test_products_of_numbers(element_type: str) -> None:
    x = some(element_type, (7, 5), 1)
    exact = exactly(x)
    for layout in LAYOUTS:
        a = laid_out(x, layout, element_type)
        for axis in (None, 0, 1):
            for got in (a.prod(axis), np.nanprod(a, axis), np.multiply.reduce(a, axis=axis)):
                judged(got, listed(np.multiply.reduce(exact, axis)), element_type)
        for got in (a.cumprod(0), np.nancumprod(a, 0), np.multiply.accumulate(a)):
            judged(got, listed(np.multiply.accumulate(exact, 0)), element_type)


@pytest.mark.parametrize("element_type", FLOATS)
def test_variances(element_type: str) -> None:
    """To a part in 10^12 of the exact one, then rounded."""
    x = some(element_type, (17, 13), 2)
    wide = x.astype(np.float64)
    for layout in LAYOUTS:
        a = laid_out(x, layout, element_type)
        for name in ("var", "std", "nanvar", "nanstd"):
            for options in ({}, {"axis": 0}, {"axis": 1, "keepdims": True}, {"ddof": 1}, {"axis": 1, "ddof": 2}):
                got, exact = getattr(np, name)(a, **options), getattr(np, name)(wide, **options)
                assert got.dtype == x.dtype
                assert got.shape == exact.shape
                low, high = (wide_sums.rounded(exact * k, x.dtype) for k in (1 - 1e-12, 1 + 1e-12))
                assert np.all((got == low) | (got == high) | ((got != got) & (low != low)))


@pytest.mark.parametrize("element_type", FLOATS)
def test_products_of_matrices(element_type: str) -> None:
    """As exact as a sum in single precision: every product is exact in it."""
    x, y = some(element_type, (300, 3), 3), some(element_type, (300, 4), 4)
    ex, ey = x.astype(np.float64), y.astype(np.float64)
    bound = 300 * 2.0**-24 * (np.abs(ex).T @ np.abs(ey))
    for layout in LAYOUTS:
        a, b = laid_out(x, layout, element_type), laid_out(y, layout, element_type)
        for got in (np.dot(a.T, b), np.inner(a.T, b.T), np.tensordot(a, b, (0, 0)), a.T @ b, np.matmul(a.T, y)):
            natural = np.dot(x.T, y).dtype if got.dtype == x.dtype else np.matmul(x.T, y).dtype
            assert got.dtype == natural
            low, high = (wide_sums.rounded(ex.T @ ey + s * bound, natural) for s in (-1, 1))
            wrong = ~((got >= low) & (got <= high)) & (low == low) & (high == high)
            assert not wrong.any()
        column, other = a[:, 0], b[:, 1]
        exact = exactly(x[:, 0]) @ exactly(y[:, 1])
        for got in (np.dot(column, other), np.vdot(column, other), np.inner(column, other), column.dot(other)):
            judged(got, [exact], element_type)
        judged(np.correlate(column, other), [exact], element_type)


@pytest.mark.parametrize("element_type", FLOATS)
def test_ones(element_type: str) -> None:
    """The shortest way to see it: in its own precision a sum of ones stops at 256, or at 8."""
    x = np.ones((3000, 3), dtype_of(element_type))
    for layout in LAYOUTS:
        a = laid_out(x, layout, element_type)
        judged(a.mean(0), [Fraction(1)] * 3, element_type)
        judged(a.mean(), [Fraction(1)], element_type)
        judged(a.sum(0), [Fraction(3000)] * 3, element_type)
        judged(np.average(a, 0, weights=a), [Fraction(1)] * 3, element_type)
        judged(np.median(a, 0), [Fraction(1)] * 3, element_type)
        judged(np.hypot.reduce(a[:1024, 0]), [Fraction(32)], element_type)


# --- the same at every size -----------------------------------------------------------------------------------------

_REDUCTIONS = ["sum", "mean", "var", "std", "nansum", "nanmean", "nanvar", "nanstd"]


@pytest.mark.parametrize("element_type", thinned([*FLOATS, *INTEGERS], 29))
@pytest.mark.slow
def test_results_do_not_depend_on_size_layout_or_threads(element_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if element_type in INTEGERS:
        x = (np.arange(21 * 34) * 7).reshape(21, 34).astype(dtype_of(element_type))
    else:
        x = some(element_type, (21, 34), 5)
    mask = np.arange(x.size).reshape(x.shape) % 3 > 0
    found: dict[str, set[tuple[str, bytes]]] = {}
    for least, threads in ((1 << 24, 1), (0, 1), (0, 3)):
        monkeypatch.setattr(reductions, "STREAM_BYTES", least)
        monkeypatch.setattr(blocks, "BLOCK_BYTES", 512)
        sd.set_num_threads(threads)
        for layout in LAYOUTS:
            a = laid_out(x, layout, element_type)
            for name in _REDUCTIONS:
                for options in ({}, {"axis": 0}, {"axis": 1}, {"axis": 0, "where": mask}, {"dtype": x.dtype}):
                    if "dtype" in options and element_type in INTEGERS and name[-3:] in ("var", "std"):
                        continue  # cut off, where the last bit of a double decides
                    with np.errstate(all="ignore"):
                        got = np.asarray(getattr(np, name)(a, **options))
                    if element_type in INTEGERS and got.dtype == np.float64:
                        got = np.round(got, 12)
                    found.setdefault(f"{name} {list(options)} {options.get('axis')}", set()).add(
                        (str(got.dtype), got.tobytes())
                    )
    sd.set_num_threads(None)
    assert {name for name, results in found.items() if len(results) > 1} == set()


def test_sixteen_mebibytes_make_no_difference() -> None:
    for n in (2000, 3000):
        a = sd.LayoutArray.from_numpy(np.full((n, n), 2, ml_dtypes.bfloat16), "{1,0:T(8,128)(2,1)}")
        assert a.mean() == 2
        assert a.var() == 0
        assert a.sum() == ml_dtypes.bfloat16(2.0 * n * n)
        assert np.add.reduce(a, axis=None) == ml_dtypes.bfloat16(2.0 * n * n)
        assert (a.sum(axis=1) == ml_dtypes.bfloat16(2.0 * n)).all()


# --- types and arguments --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("element_type", [*FLOATS, *INTEGERS])
@pytest.mark.usefixtures("small_streams")
def test_large_arrays_stream(element_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a = laid_out(np.ones((40, 13), dtype_of(element_type)), "{0,1:T(2,2)}", element_type)
    monkeypatch.setattr(sd.LayoutArray, "to_numpy", None)  # nothing is converted as a whole
    assert a.sum().dtype == wide_sums.summed_as(a.dtype)
    assert abs(float(a.mean())) == 1
    assert element_type == "f8e8m0fnu" or a.var() == 0  # the one type without a zero


_NATURAL: dict[str, Callable[[Any], Any]] = {
    **{
        name: lambda x, name=name: getattr(np, name)(x, 0)
        for name in ("sum", "prod", "mean", "var", "std", "cumsum", "cumprod", "median", "nanmedian", "nansum")
    },
    "average": lambda x: np.average(x, 0),
    "average of weights": lambda x: np.average(x, 0, weights=np.ones(5, np.float32)),
    "average returned": lambda x: np.average(x, 0, returned=True),
    "percentile": lambda x: np.percentile(x, [10, 50], 0),
    "trapezoid": lambda x: np.trapezoid(x, axis=0),
    "dot": lambda x: np.dot(x.T, x),
    "dot with float32": lambda x: np.dot(x.T, np.ones((5, 2), np.float32)),
    "matmul": lambda x: x.T @ x,
    "vecdot": lambda x: np.vecdot(x, x),
    "linalg.matmul": lambda x: np.linalg.matmul(x.T, x),
    "multi_dot": lambda x: np.linalg.multi_dot([x.T, x, x.T]),
    "norm": lambda x: np.linalg.norm(x, axis=0),
    "einsum": lambda x: np.einsum("ij,ik->jk", x, x),
    "convolve": lambda x: np.convolve(x[:, 0], x[:, 1]),
    "add.reduce": lambda x: np.add.reduce(x, dtype=np.float32),
    "sum in double precision": lambda x: np.sum(x, 0, np.float64),
    "hypot.reduce": lambda x: np.hypot.reduce(x),
    "nanargmax": lambda x: np.nanargmax(x, 0),
}


@pytest.mark.parametrize("name", [n for n in _NATURAL if hasattr(np, "vecdot") or n != "vecdot"])
@pytest.mark.parametrize("element_type", thinned(FLOATS, 4))
def test_the_type_of_the_result_is_the_one_that_numpy_gives(element_type: str, name: str) -> None:
    x = some(element_type, (5, 3), 6)
    a = laid_out(x, "{0,1:T(2,2)}", element_type)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected, wanted = outcome(lambda: _NATURAL[name](x))
        got, error = outcome(lambda: _NATURAL[name](a))
    assert repr(error) == repr(wanted)
    if wanted is None:
        pairs = zip(got, expected, strict=True) if isinstance(expected, tuple) else [(got, expected)]
        for g, e in pairs:
            assert type(g) is type(e)
            assert g.dtype == e.dtype
            assert g.shape == e.shape


@pytest.mark.parametrize("element_type", [*thinned(FLOATS, 4), *INTEGERS])
@pytest.mark.parametrize("subscripts", ["ij->ji", "ii->i", "ij->ij", "ij->i", "ij->", "ii", "ij,jk->ik"])
def test_einsum_keeps_the_type_where_it_only_rearranges(element_type: str, subscripts: str) -> None:
    x = some(element_type, (3, 3), 6)
    a = laid_out(x, "{0,1:T(2,2)}", element_type)
    arrays = 1 + subscripts.count(",")
    expected, wanted = outcome(lambda: np.einsum(subscripts, *[x] * arrays))
    got, error = outcome(lambda: np.einsum(subscripts, *[a] * arrays))
    if wanted is not None and element_type in INTEGERS:
        whole = np.uint64 if element_type[0] == "u" else np.int64
        expected, wanted = np.einsum(subscripts, *[x.astype(whole)] * arrays), None
    assert repr(error) == repr(wanted)
    if wanted is None:
        assert got.dtype == expected.dtype
        if "," in subscripts and element_type in FLOATS:
            # Products are added in another type than NumPy's, or in another order.
            wide = x.astype(np.float64)
            exact, most = (np.einsum(subscripts, y, y) for y in (wide, abs(wide)))
            assert (abs(got.astype(np.float64) - exact) <= 4 * float(ml_dtypes.finfo(x.dtype).eps) * most).all()
        else:
            assert np.array_equal(got, expected)


def test_einsum_of_one_operand_adds_in_a_wide_type() -> None:
    x = np.random.default_rng(0).random((64, 1 << 12)).astype(np.float16)
    a = laid_out(x, "{0,1}", "f16")
    assert np.array_equal(np.einsum("ij->i", a), np.einsum("ij->i", x.astype(np.float64)).astype(np.float16))


@pytest.mark.parametrize("element_type", INTEGERS)
def test_integers_are_added_in_64_bits(element_type: str) -> None:
    """As NumPy adds integers of 8 bits."""
    x = np.arange(400 * 3).reshape(400, 3).astype(dtype_of(element_type))
    like = x.astype(np.uint8 if element_type[0] == "u" else np.int8)
    many = like.astype(np.uint64 if element_type[0] == "u" else np.int64)
    for layout in LAYOUTS:
        a = laid_out(x, layout, element_type)
        for name in ("sum", "mean", "var", "prod", "cumsum", "cumprod", "nansum", "nanmean", "median", "average"):
            for axis in (None, 0, 1):
                got, expected = getattr(np, name)(a, axis), getattr(np, name)(like, axis)
                assert type(got) is type(expected)
                assert got.dtype == expected.dtype
                assert np.array_equal(got, expected)
        for got, expected in (
            (a.trace(), many.trace()),
            (np.add.reduce(a), many.sum(0)),
            (np.add.reduceat(a, [0, 5]), np.add.reduceat(many, [0, 5])),
            (a.T @ a, many.T @ many),
            (a.T.dot(a), many.T @ many),
            (np.vdot(a, a), np.vdot(many, many)),
            (np.inner(a, a), np.inner(many, many)),
            (np.tensordot(a, x), np.tensordot(many, many)),
            (np.linalg.matmul(x.T, a), many.T @ many),
        ):
            assert got.dtype == expected.dtype
            assert np.array_equal(got, expected)
        # Who asks for the short type gets it.
        assert a.sum(0, x.dtype).tolist() == many.sum(0).astype(x.dtype).tolist()
        assert a.max().dtype == x.max().dtype
        assert (a + a).dtype == (x + x).dtype


_BESIDE: dict[str, Callable[[Any], Any]] = {
    "dot": lambda x: np.dot(x, 3),
    "dot, reflected": lambda x: np.dot([1, 2, 3], x),
    "dot, an array": lambda x: np.dot(x, np.array([1, 2])),
    "dot, a float32": lambda x: np.dot(x, np.float32(3)),
    "inner": lambda x: np.inner(x, 3),
    "tensordot": lambda x: np.tensordot(x, [[1, 2], [3, 4]], 1),
    "convolve": lambda x: np.convolve(x[0], [1, 2]),
    "correlate": lambda x: np.correlate(x[0], [0.5, 2]),
    "einsum": lambda x: np.einsum("ij,j", x, [1, 2]),
    "einsum, lists of subscripts": lambda x: np.einsum(x, [0, 1], x, [2, 1], [0, 2]),
    "multi_dot": lambda x: np.linalg.multi_dot([x, [[1, 2], [3, 4]]]),
    "matmul": lambda x: x @ [1, 2],
    "matmul, bools": lambda x: x @ [True, True],
    "ragged": lambda x: np.dot(x, [[1], [2, 3]]),
}


@pytest.mark.parametrize("name", _BESIDE)
@pytest.mark.parametrize("element_type", INTEGERS)
def test_products_with_other_integers_are_integers(element_type: str, name: str) -> None:
    """In 64 bits, also with numbers and lists: unsigned ones became doubles beside those with signs."""
    values = (np.arange(6).reshape(3, 2) % 2).astype(np.int8)
    a = laid_out(values.astype(dtype_of(element_type)), "{0,1}", element_type)
    plain = a.astype(np.uint8 if element_type[0] == "u" else np.int8)
    both = same_outcome(lambda: _BESIDE[name](a), lambda: _BESIDE[name](plain))
    if both is not None:
        found, wanted = map(np.asarray, both)
        assert found.tolist() == wanted.tolist()
        is_float = "float" in name or name == "correlate"
        assert found.dtype.kind == "f" if is_float else found.dtype in ("i8", "u8")


def test_integers_with_and_without_signs() -> None:
    x, y = np.arange(-8, 8).astype(ml_dtypes.int4), np.arange(16).astype(ml_dtypes.uint4)
    a, b = laid_out(x, "{0}", "s4"), laid_out(y, "{0:T(4)}", "u4")
    assert np.dot(a, b) == np.dot(x.astype(int), y.astype(int))
    assert (a @ b).dtype == np.int64
    assert np.dot(a, y.astype(np.int16)) == np.dot(x.astype(int), y.astype(int))


def test_where_initial_and_out() -> None:
    rng = np.random.default_rng(8)
    for element_type in ("bf16", "f8e4m3fn", "f16"):
        x, mask = some(element_type, (17, 13), 7), rng.integers(0, 2, (17, 13)).astype(bool)
        exact, dtype = exactly(x), dtype_of(element_type)
        for layout in LAYOUTS:
            a, m = laid_out(x, layout, element_type), sd.LayoutArray.from_numpy(mask, layout)
            for where in (mask, m):
                judged(a.sum(0, where=where), listed(np.where(mask, exact, 0).sum(0)), element_type)
                judged(a.mean(where=where), [np.where(mask, exact, 0).sum() / int(mask.sum())], element_type)
            judged(a.sum(1, initial=5), listed(exact.sum(1) + 5), element_type)
            judged(np.add.reduce(a, initial=5, where=mask), listed(np.where(mask, exact, 0).sum(0) + 5), element_type)
            for out in (np.zeros(13, dtype), laid_out(np.zeros((1, 13), dtype), "{0,1}", element_type)[0]):
                assert np.sum(a, 0, out=out) is out
                judged(out, listed(exact.sum(0)), element_type)
                assert np.add.reduce(a, out=out) is out
                judged(out, listed(exact.sum(0)), element_type)
                assert a.mean(0, out=out) is out
                judged(out, listed(exact.sum(0) / 17), element_type)
            double = np.zeros(13)
            np.sum(a, 0, out=double)
            assert double.tolist() == [float(v) for v in exact.sum(0)]
            running = np.zeros((17, 13), dtype)
            assert np.cumsum(a, 0, out=running) is running
            judged(running, listed(np.add.accumulate(exact, 0)), element_type)


_REFUSED: list[Callable[[Any], Any]] = [
    lambda x: np.sum(x, 5),
    lambda x: np.sum(x, "a"),
    lambda x: np.sum(x, out=np.zeros(7, x.dtype)),
    lambda x: np.sum(x, 0, out=np.zeros(3, "V3")),
    lambda x: np.sum(x, dtype="U3"),
    lambda x: np.mean(x, (0, 0)),
    lambda x: np.var(x, ddof=1, correction=1),
    lambda x: np.dot(x, x),
    lambda x: np.average(x, weights=np.ones(3)),
    lambda x: np.average(x, 0, weights=np.ones(3)),
    lambda x: np.cumsum(x, 7),
    lambda x: np.trace(x[0]),
    lambda x: np.add.reduce(x, 3),
    lambda x: np.add.reduceat(x, [99]),
    lambda x: np.add.accumulate(x, axis=(0, 1)),
    lambda x: np.tensordot(x, x, 1),
    lambda x: np.sum(x, where=np.ones(9, bool)),
    lambda x: np.median(x, 9),
    lambda x: np.percentile(x, 101),
    lambda x: x @ x,
    lambda x: np.sum(x, 0, out=read_only(np.zeros(3, x.dtype))),
    lambda x: np.sum(x, nothing=3),
    lambda x: np.vdot(x, x[0]),
]


def read_only(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x


@pytest.mark.parametrize("k", range(len(_REFUSED)))
def test_what_numpy_refuses_is_refused_in_its_words(k: int) -> None:
    for element_type in ("bf16", "f8e5m2", "f16", "s4"):
        x = np.ones((5, 3), dtype_of(element_type))
        _, wanted = outcome(lambda x=x: _REFUSED[k](x))
        assert wanted is not None
        for layout in LAYOUTS:
            a = laid_out(x, layout, element_type)
            got, error = outcome(lambda a=a: _REFUSED[k](a))
            assert error is not None, f"{got} for {wanted!r}"
            assert type(error) is type(wanted)
            assert str(error).replace("int64", "int4") == str(wanted).replace("int64", "int4")


def test_nan_is_skipped_and_found() -> None:
    for element_type in ("bf16", "f8e5m2", "f16"):
        x = np.array([[1, np.nan, 3], [4, 5, 2]], np.float32).astype(dtype_of(element_type))
        wide = x.astype(np.float64)
        a = laid_out(x, "{0,1:T(2,2)}", element_type)
        for name in ("nansum", "nanmean", "nanvar", "nanprod", "nancumsum", "nanmedian", "nanargmax", "nanargmin"):
            got, expected = getattr(np, name)(a, 0), np.asarray(getattr(np, name)(wide, 0))
            natural = np.asarray(getattr(np, name)(x[1:], 0)).dtype
            assert np.array_equal(got, expected.astype(natural)), name
        assert np.isnan(a.sum(0).astype(np.float64)).tolist() == [False, True, False]
        assert np.isnan(np.median(a).astype(np.float64))


def test_intermediate_results_may_be_larger_than_the_type() -> None:
    x = np.array([3e38, 3e38, -3e38], np.float32).astype(ml_dtypes.bfloat16)
    a = sd.LayoutArray.from_numpy(x, "{0:T(2)}")
    assert a.sum() == x[0]
    y = np.array([300, 400], np.float32).astype(ml_dtypes.float8_e4m3fn)
    assert np.median(sd.LayoutArray.from_numpy(y, "{0:T(2)}")) == ml_dtypes.float8_e4m3fn(np.float32(320))
    assert np.linalg.norm(sd.LayoutArray.from_numpy(np.full(900, 20, np.float16), "{0:T(2)}")) == 600


@pytest.mark.parametrize("element_type", thinned([t for t in FLOATS if t != "f16"], 4))
def test_doubles_are_rounded_once(element_type: str) -> None:
    """Also a hair beside the middle of two values, where rounding to float32 first loses the hair."""
    every = finite(element_type)
    every = every[(np.abs(every) < 1e30) & ((every > 1e-30) | (element_type != "f8e8m0fnu"))]
    chosen = np.random.default_rng(9).choice(len(every) - 1, 400)
    for low, high in zip(every[chosen], every[chosen + 1], strict=True):
        middle = (low + high) / 2
        for x in (middle, np.nextafter(middle, -np.inf), np.nextafter(middle, np.inf), low, high):
            got = wide_sums.rounded(np.float64(x), dtype_of(element_type))
            assert is_nearest(got, Fraction(float(x)), element_type), f"{got!r} for {x!r}"


def test_every_function_is_one_of_numpy() -> None:
    for function in wide_sums._BY_DTYPE:
        assert "dtype" in inspect.signature(function).parameters


# --- types of NumPy's own that are equal, or in another byte order ---------------------------------------------------


def other_instances(kind: str) -> list[np.dtype]:
    """Types that are equal to one of NumPy's own, for which ``dtype.isbuiltin`` is 0."""
    return [np.ones((2, 2), f">{kind}").sum(0).dtype, np.dtype(kind, metadata={"a": 1})]


@pytest.mark.parametrize("kind", ["f8", "f4", "i4", "c8"])
def test_equal_types_are_summed_alike(kind: str) -> None:
    for other in other_instances(kind):
        wide_sums.wide.cache_clear()
        assert wide_sums.wide(other) is None
        values = (np.arange(12) / 7 if kind[0] in "fc" else np.arange(12)).astype(kind).reshape(3, 4)
        a = laid_out(values, "{0,1:T(2,2)}", {"f8": "f64", "f4": "f32", "i4": "s32", "c8": "c64"}[kind])
        assert np.array_equal(np.dot(a, np.ones(4, other)), np.dot(values, np.ones(4, other)))
        for function in (np.sum, np.mean, np.var):
            assert np.array_equal(function(a, axis=0), function(values, axis=0))
        assert (a @ a.T).dtype == (values @ values.T).dtype


@pytest.mark.parametrize("kind", ["f8", "f4", "f2", "i4", "u2", "c16"])
@pytest.mark.parametrize("streamed", [False, True])
def test_views_in_another_byte_order(kind: str, streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "STREAM_BYTES", 0 if streamed else 1 << 40)
    values = np.arange(1, 13).reshape(3, 4) % 7 + 1
    x = (values / 3 if kind[0] in "fc" else values).astype(f">{kind}")
    names = {"f8": "f64", "f4": "f32", "f2": "f16", "i4": "s32", "u2": "u16", "c16": "c128"}
    wide_type = x.dtype if x.dtype.kind in "fc" else np.float64
    a = laid_out(x.view(f"<{kind}"), "{0,1:T(2,2)}", names[kind]).view(x.dtype)
    for function in (np.sum, np.mean, np.var, np.cumsum, np.prod, np.median, np.max, np.argmax, np.nansum):
        for axis in (None, 0, 1):
            wanted, found = function(x, axis=axis), function(a, axis=axis)
            assert np.asarray(found).dtype == np.asarray(wanted).dtype, (function, axis)
            # Half precision is added in double precision.
            np.testing.assert_allclose(found, wanted, rtol=2e-3 if kind == "f2" else 4 * np.finfo(wide_type).eps)
    for product in (np.matmul, np.dot):
        assert product(a, a.T).dtype == product(x, x.T).dtype
        np.testing.assert_allclose(product(a, a.T), product(x, x.T), rtol=1e-2 if kind == "f2" else 1e-6)


@pytest.mark.parametrize("layout", ["{1,0:E(4)}", "{1,0:T(8,128)(8,1)E(4)}"])
def test_products_of_short_integers_are_exact(layout: str) -> None:
    """They are computed in doubles where these hold every sum."""
    x = np.random.default_rng(0).integers(-8, 8, (33, 300)).astype(np.int8)
    wide = x.astype(np.int64)
    a = sd.LayoutArray.from_numpy(x, layout, element_type="s4")
    bytes_, words = (np.full((300, 3), n).astype(t) for n, t in ((255, np.uint8), (1 << 62, np.int64)))
    for product in (
        lambda v: v @ v.T,
        lambda v: v[0] @ v[1],
        lambda v: v @ bytes_,
        lambda v: v @ words,
        lambda v: np.dot(v, v.T),
        lambda v: np.vdot(v, v),
        lambda v: np.inner(v, v),
        lambda v: np.tensordot(v, v, 2),
        lambda v: np.convolve(v[0], v[1]),
        lambda v: np.dot(v, bytes_),
        lambda v: np.dot(v, words),
        lambda v: np.matmul(v, v.T, out=np.empty((33, 33), np.int32)),
        lambda v: np.dot(v, v.T, out=np.empty((33, 33), np.int64)),
    ):
        expected = outcome(lambda product=product: product(wide))
        got = outcome(lambda product=product: product(a))
        assert type(got[1]) is type(expected[1])
        if expected[0] is not None:
            same_values(got[0], expected[0])
