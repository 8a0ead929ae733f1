"""Reductions: of small arrays what NumPy gives; of large ones, which stream, the same to rounding, or better."""

from __future__ import annotations

import inspect
import itertools
import math
import tracemalloc
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.arrays import block_reduce, blocks, reductions
from tests.cases import Case, some_values
from tests.checks import encoded, outcome, same_error, same_outcome, same_values, shape_of
from tests.strategies import cases
from tests.thinned import examples, thinned

NAMES = sorted({f.__name__ for f in reductions.IMPLEMENTATIONS})
LAYOUTS = ["{1,0}", "{0,1}", "{1,0:T(8,128)}", "{0,1:T(2,2)}", "{1,0:T(8,4)(2,1)}", "{1,0:T(3,2)(2,2)}"]


def compared(name: str, a: sd.LayoutArray, x: np.ndarray, **options: Any) -> bool:
    """NumPy's function of both: the same type, dtype, shape and values; False for the same refusal."""
    function = getattr(np, name)
    mine = {k: (v[1] if isinstance(v, tuple) and k in ("where", "out") else v) for k, v in options.items()}
    theirs = {k: (v[0] if isinstance(v, tuple) and k in ("where", "out") else v) for k, v in options.items()}
    with warnings.catch_warnings(record=True) as wanted_warnings, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        expected, wanted = outcome(lambda: function(x, **theirs))
    with warnings.catch_warnings(record=True) as seen, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        got, error = outcome(lambda: function(a, **mine))
    same_error(error, wanted)
    if wanted is not None:
        return False
    # Some releases of NumPy end them with a full stop.
    assert {str(w.message).rstrip(".") for w in seen} == {str(w.message).rstrip(".") for w in wanted_warnings}
    if "out" in mine and mine["out"] is not None:
        assert got is mine["out"]
    else:
        assert type(got) is type(expected)
    g, e = np.asarray(got), np.asarray(expected)
    assert g.dtype == e.dtype
    assert g.shape == e.shape
    if e.dtype.kind in "fc" or e.dtype.isbuiltin != 1:
        width = min(e.dtype.itemsize, x.dtype.itemsize) // (2 if x.dtype.kind == e.dtype.kind == "c" else 1)
        loose = {1: 1e-3, 2: 4e-3, 4: 1e-5}.get(width, 1e-11)
        wide = np.complex128 if e.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(g.astype(wide), e.astype(wide), rtol=loose, atol=loose)
    else:
        assert np.array_equal(g, e)
    return True


def with_nans(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind in "fc":
        x.reshape(-1)[:: max(1, x.size // 3)] = np.nan
    return x


# --- the same as NumPy ----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_streams")
@pytest.mark.parametrize(("layout", "name"), thinned(itertools.product(LAYOUTS, NAMES), 13))
def test_every_reduction_of_every_type(layout: str, name: str) -> None:
    rng = np.random.default_rng(1)
    for dtype in ("f4", "f8", "f2", "c8", "i1", "u4", "i8", "?", ">f4", ">c8", ">i2"):
        native = np.dtype(np.dtype(dtype).type)
        x = (rng.standard_normal((9, 13)) * 20).astype(native)
        x[2] = x[4]  # equals, for argmax and argmin
        if native.kind == "c":
            x = x + 1j * x[::-1]
        for values in (x, with_nans(x.copy())):
            # Other orders of bytes are had by views alone.
            values = values.astype(dtype)
            a = sd.LayoutArray.from_numpy(values.view(native), layout).view(dtype)
            for axis in (None, 0, 1, -1):
                compared(name, a, values, axis=axis)


@pytest.mark.usefixtures("small_streams")
@pytest.mark.parametrize(
    ("layout", "name"), thinned(itertools.product(["{2,1,0:T(2,4)}", "{0,2,1:T(2,2)}", "{0,1,2}"], NAMES), 7)
)
@pytest.mark.slow
def test_every_reduction_of_three_axes(layout: str, name: str) -> None:
    x = np.random.default_rng(2).integers(-50, 50, (5, 7, 6)).astype(np.float64)
    a = sd.LayoutArray.from_numpy(x, layout)
    for axis in (None, 0, 1, 2, (0, 2), (1, 0), (0, 1, 2), (), (0, 0), 3, -4, "a", 1.0):
        if name.startswith("arg") and axis == ():
            continue
        compared(name, a, x, axis=axis)
        compared(name, a, x, axis=axis, keepdims=True)
        compared(name, a[::2, ::-1, 1:], x[::2, ::-1, 1:], axis=axis)


@pytest.mark.usefixtures("small_streams")
@pytest.mark.parametrize("name", thinned(NAMES, 3))
def test_the_other_arguments(name: str) -> None:
    rng = np.random.default_rng(3)
    x = rng.integers(-9, 9, (9, 13)).astype(np.float32)
    x[0, 0] = np.nan if name.startswith("nan") else 1
    mask = rng.integers(0, 2, (9, 13)).astype(bool)
    mask[:, 3] = False
    a, masked = sd.LayoutArray.from_numpy(x, "{0,1:T(2,2)}"), sd.LayoutArray.from_numpy(mask, "{1,0:T(2,4)}")
    known = inspect.signature(getattr(np, name)).parameters
    for axis in (None, 0, 1):
        shape = () if axis is None else (13, 9)[axis : axis + 1]
        options: list[dict[str, Any]] = [
            {"out": out}
            for dtype in (np.float32, np.float64, np.int64, np.intp, np.bool_)
            for out in [outs(shape, dtype)]
        ]
        options += [{"out": outs((3, *shape), np.float64)}, {"out": outs((4,), np.float64)}]
        if "where" in known:
            options += [{"where": mask}, {"where": mask, "keepdims": True}, {"where": (mask, masked)}]
            options += [{"where": mask[0]}, {"where": mask[:, :1]}, {"where": mask[:5]}, {"where": 1}, {"where": False}]
        if "initial" in known:
            options += [{"initial": 7}, {"initial": -70, "where": mask}, {"initial": 70.5}, {"initial": "a"}]
        if "dtype" in known:
            options += [{"dtype": t} for t in (np.float64, np.float16, np.int32, np.complex64, "U3", None)]
        if "ddof" in known:
            options += [{"ddof": 1}, {"ddof": 9}, {"ddof": 200}, {"ddof": 0.5}, {"correction": 1}, {"ddof": "a"}]
            options += [{"ddof": 1, "where": mask}, {"ddof": 1, "correction": 1}, {"ddof": 3, "where": mask}]
            options += [{"ddof": 0, "correction": 1}]
        for more in options:
            if compared(name, a, x, axis=axis, **more) and "out" in more:
                theirs, mine = more["out"]
                np.testing.assert_allclose(np.asarray(mine), theirs, rtol=1e-5)


@pytest.mark.usefixtures("small_streams")
@pytest.mark.parametrize("name", ["sum", "mean", "var", "max", "any", "nansum"])
def test_masks_that_are_lists(name: str) -> None:
    """One of the array's own shape was not made an array."""
    x = np.arange(117.0).reshape(9, 13)
    a, mask = sd.LayoutArray.from_numpy(x, "{0,1:T(2,2)}"), x % 3 < 2
    for axis in (None, 0, 1):
        for where in (mask.tolist(), mask[0].tolist(), [True], mask[:, :1].tolist()):
            more = {"initial": 0} if name == "max" else {}
            assert compared(name, a, x, axis=axis, where=where, **more)


@pytest.mark.usefixtures("small_streams")
@pytest.mark.parametrize("name", ["sum", "mean", "var", "max", "any", "argmax"])
def test_read_only_results_are_refused_before_those_of_another_shape(name: str) -> None:
    x = np.arange(117.0).reshape(9, 13)
    for shape in ((13,), (9,), (1, 13)):
        theirs, mine = outs(shape, getattr(np, name)(x, axis=0).dtype)
        theirs.flags.writeable = mine.flags.writeable = False
        compared(name, sd.LayoutArray.from_numpy(x, "{0,1:T(2,2)}"), x, axis=0, out=(theirs, mine))


def outs(shape: tuple[int, ...], dtype: Any) -> tuple[np.ndarray, Any]:
    """Room for a result, as an ndarray and in a layout."""
    layout = "{" + ",".join(map(str, range(len(shape)))) + (":T(2,2)}" if shape else "}")
    return np.zeros(shape, dtype), sd.LayoutArray.from_numpy(np.zeros(shape, dtype), layout)


@pytest.mark.usefixtures("small_streams")
@given(cases(max_rank=4), st.data())
@examples(150)
def test_any_layout(case: Case, data: st.DataObject) -> None:
    values = some_values(case)
    a = sd.LayoutArray(encoded(case, values), shape_of(case))
    rank = len(case.dimensions)
    axis = data.draw(
        st.one_of(st.none(), st.integers(-rank, rank), st.lists(st.integers(0, rank), max_size=3).map(tuple))
    )
    for name in ("max", "min", "any", "all", "count_nonzero", "argmax", "argmin", "ptp"):
        if isinstance(axis, tuple) and name.startswith("arg"):
            continue
        if case.element_type in ("f8e8m0fnu",) or (case.dtype.isbuiltin != 1 and name in ("ptp",)):
            continue
        compared(name, a, values, axis=axis)


@pytest.mark.usefixtures("small_streams")
@pytest.mark.parametrize("element_type", ["bf16", "f8e4m3fn", "f8e5m2", "s4", "u2"])
def test_types_that_numpy_lacks(element_type: str) -> None:
    case = Case.parse("f32[9,13]{0,1:T(2,2)}").with_type(element_type)
    values = (np.arange(117) % 3).reshape(9, 13).astype(case.dtype)
    a = sd.LayoutArray.from_numpy(values, shape_of(case).layout, element_type=element_type)
    for name in ("max", "min", "any", "all", "count_nonzero", "argmax", "argmin"):
        for axis in (None, 0, 1):
            compared(name, a, values, axis=axis)
    if element_type == "bf16":
        for name in ("sum", "mean", "nansum"):
            compared(name, a, values, axis=1)


@pytest.mark.usefixtures("small_streams")
@pytest.mark.parametrize("function", [np.argmax, np.argmin], ids=lambda f: f.__name__)
@pytest.mark.parametrize("layout", thinned(["{1,0:T(4,8)(2,1)}", "{0,1:T(8,4)}", "{1,0}", "{0,1}"], 3))
def test_places_of_extremes_of_short_floats(
    layout: str, function: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ties, zeros of both signs and NaN; no maximum of a block is asked for, as ml_dtypes has no fast one."""
    rng = np.random.default_rng(1)
    tried = rng.integers(-3, 4, (40, 24, 32)).astype(ml_dtypes.bfloat16)
    tried[::4, 5, 7] = np.nan
    tried[1::4] *= ml_dtypes.bfloat16(0) * tried[1::4]
    expected = [function(x) for x in tried]
    for name in ("max", "min"):
        monkeypatch.setattr(np, name, lambda *args, **options: pytest.fail("an extreme was looked for"))
    assert [function(sd.LayoutArray.from_numpy(x, layout)) for x in tried] == expected


@pytest.mark.usefixtures("small_streams")
def test_universal_functions_and_methods_stream_too(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(117, dtype=np.float32).reshape(9, 13)
    a = sd.LayoutArray.from_numpy(x, "{0,1:T(2,2)}")
    monkeypatch.setattr(sd.LayoutArray, "to_numpy", None)  # nothing is converted as a whole
    assert np.add.reduce(a).tolist() == np.add.reduce(x).tolist()
    assert np.maximum.reduce(a, axis=(0, 1)) == 116
    assert np.add.reduce(a, axis=None, initial=3, keepdims=True).tolist() == [[6789.0]]
    assert np.logical_or.reduce(a, 1).tolist() == [True] * 9
    assert a.sum() == x.sum()
    assert a.sum(0).tolist() == x.sum(0).tolist()
    assert a.mean(axis=1, keepdims=True).shape == (9, 1)
    assert a.std() == pytest.approx(x.std())
    assert a.argmax() == 116
    assert a.max() == 116
    assert a.all(1).tolist() == [False, *[True] * 8]
    assert a.count(np.isnan) == 0
    assert a.count(lambda v: v > 100) == 16
    assert a.count(lambda v: v > 100, axis=1).tolist() == [0, 0, 0, 0, 0, 0, 0, 3, 13]
    assert 116 in a
    assert 117 not in a
    assert np.array_equal(a, x)
    assert np.allclose(a, x)
    assert not np.array_equal(a, x + 1)


@pytest.mark.parametrize("ufunc", [np.isnan, np.isfinite, np.isinf, np.signbit, np.less, np.logical_not, np.negative])
def test_results_of_windows_that_lie_apart(ufunc: np.ufunc, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window is one column here, and the results of a column lie apart."""
    monkeypatch.setattr(reductions, "STREAM_BYTES", 1)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 256)
    for dtype in (np.float32, np.float64, np.int32):
        x = (np.arange(300).reshape(60, 5) - 99).astype(dtype)
        x[::3] = -1 if dtype is np.int32 else np.nan
        x[1::3] = -1 if dtype is np.int32 else -np.inf
        mask = x[::-1] > 50
        for layout in ("{0,1}", "{0,1:T(4,16)}"):
            a = sd.LayoutArray.from_numpy(x, layout)
            others = (1,) * (ufunc.nin - 1)
            expected = ufunc(x, *others)
            np.testing.assert_array_equal(ufunc(a, *others), expected)
            out = ufunc(a, *others, where=mask, out=np.zeros(x.shape, expected.dtype))
            np.testing.assert_array_equal(out, np.where(mask, expected, 0))


def test_universal_functions_in_windows(small_streams: None) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((9, 13)).astype(np.float32), rng.integers(0, 9, (13,))
    mask = rng.integers(0, 2, (9, 13)).astype(bool)
    a, b = sd.LayoutArray.from_numpy(x, "{0,1:T(2,2)}"), sd.LayoutArray.from_numpy(y, "{0:T(2,2)}")
    masked = sd.LayoutArray.from_numpy(mask, "{0,1:T(2,4)}")
    for mine, theirs in (
        (lambda: a + b, lambda: x + y),
        (lambda: a * 2, lambda: x * 2),
        (lambda: np.sin(a[::2]), lambda: np.sin(x[::2])),
        (lambda: b + a.T[:, :1], lambda: y + x.T[:, :1]),
        (lambda: np.divmod(a, 0.5)[1], lambda: np.divmod(x, 0.5)[1]),
        (
            lambda: np.add(a, 1, out=np.zeros((9, 13)), where=mask),
            lambda: np.add(x, 1, out=np.zeros((9, 13)), where=mask),
        ),
        (
            lambda: np.add(a, 1, out=np.ones((9, 13)), where=masked),
            lambda: np.add(x, 1, out=np.ones((9, 13)), where=mask),
        ),
        (lambda: np.add(a, b, dtype=np.float64), lambda: np.add(x, y, dtype=np.float64)),
        (lambda: a == 3, lambda: x == 3),
        (lambda: a.astype(np.float16), lambda: x.astype(np.float16)),
        (lambda: 300 + a.astype(np.int8), lambda: 300 + x.astype(np.int8)),
        (lambda: a + x[:5], lambda: x + x[:5]),
        (lambda: np.add(a, 1, out=np.zeros((9, 13), np.int8)), lambda: np.add(x, 1, out=np.zeros((9, 13), np.int8))),
    ):
        if (both := same_outcome(mine, theirs)) is not None:
            got, expected = both
            assert got.dtype == expected.dtype
            np.testing.assert_array_equal(got, expected)
    for text in ("{0,1:T(2,2)}", "{1,0}"):
        c, z = sd.LayoutArray.from_numpy(x, text), x.copy()
        c += 1
        z += 1
        c *= y
        z *= y
        np.negative(c, out=c, where=masked)
        np.negative(z, out=z, where=mask)
        c[1:] += c[:-1]
        z[1:] += z[:-1]
        np.add(c, c[0], out=c)
        np.add(z, z[0], out=z)
        np.testing.assert_array_equal(c, z)
    packed = sd.LayoutArray.from_numpy(np.arange(64).reshape(8, 8).astype(ml_dtypes.uint4), "{1,0:T(2,4)E(4)}")
    expected = (np.asarray(packed) + np.asarray(packed)).astype(int)
    packed += packed
    assert np.array_equal(np.asarray(packed).astype(int), expected)


# --- accuracy -------------------------------------------------------------------------------------------------------


def errors(name: str, values: np.ndarray, exact: float, layout: str) -> tuple[float, float]:
    """How far NumPy's result and the streamed one are from the exact one."""
    a = sd.LayoutArray.from_numpy(values, layout)
    function: Callable[..., Any] = getattr(np, name)
    return abs(float(function(values)) - exact), abs(float(function(a)) - exact)


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1:T(8,128)}", "{1,0:T(8,128)}"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_sums_are_at_least_as_accurate(layout: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "STREAM_BYTES", 0)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 14)
    rng = np.random.default_rng(11)
    step = np.finfo(dtype).eps
    for values in (rng.random((300, 700)), rng.standard_normal((300, 700)) * 1e-3 + 50):
        x = values.astype(dtype)
        if dtype is np.float16:
            x = x / dtype(512)
        exact = math.fsum(x.reshape(-1).astype(np.float64).tolist())
        theirs, mine = errors("sum", x, exact, layout)
        assert mine <= max(theirs, abs(exact) * step)
        mean = exact / x.size
        theirs, mine = errors("mean", x, mean, layout)
        assert mine <= max(theirs, abs(mean) * step)
        wide = x.astype(np.longdouble)
        variance = float(((wide - wide.mean()) ** 2).mean())
        theirs, mine = errors("var", x, variance, layout)
        assert mine <= max(2 * theirs, 4 * variance * step)


def test_results_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "STREAM_BYTES", 0)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 12)
    a = sd.LayoutArray.from_numpy(np.random.default_rng(4).random((500, 300)), "{0,1:T(8,128)}")
    found = set()
    for threads in (1, 2, 5):
        sd.set_num_threads(threads)
        found.add((float(np.sum(a)), float(np.var(a)), int(np.argmax(a)), np.mean(a, 0).tobytes()))
    sd.set_num_threads(None)
    assert len(found) == 1


@pytest.mark.usefixtures("small_streams")
def test_the_error_state_reaches_every_thread() -> None:
    a = sd.LayoutArray.from_numpy(np.full((40, 40), 3e38, np.float32), "{0,1:T(2,2)}")
    with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
        np.add(a, a)
    with np.errstate(all="ignore"):
        assert np.isinf(np.add(a, a)).all()
        assert np.isnan(np.var(a * 10))


@pytest.mark.usefixtures("small_streams")
@pytest.mark.parametrize("first", [1, 3e38, np.inf, np.nan])
@pytest.mark.parametrize("rest", [1, 3e38])
def test_variances_overflow_as_numpys_do(first: float, rest: float) -> None:
    x = np.full((40, 40), rest, np.float32)
    x[:20, :20] = first
    a = sd.LayoutArray.from_numpy(x, "{0,1:T(2,2)}")
    with np.errstate(all="ignore"):
        for axis in (None, 0, 1):
            np.testing.assert_array_equal(np.var(a, axis), np.var(x, axis))


# --- windows --------------------------------------------------------------------------------------------------------


@given(cases(max_rank=4), st.integers(1, 200), st.data())
def test_windows_cover_every_element_once(case: Case, elements: int, data: st.DataObject) -> None:
    values = some_values(case)
    a = sd.LayoutArray(encoded(case, values), shape_of(case))
    steps = [data.draw(st.sampled_from([1, 1, 2, -1, 3])) for _ in case.dimensions]
    starts = [data.draw(st.integers(0, 3)) for _ in case.dimensions]
    key = tuple(slice(s, None, k) if k > 0 else slice(None, s, k) for s, k in zip(starts, steps, strict=True))
    a, values = a[(*key, ...)], values[(*key, ...)]
    seen = np.zeros(values.shape, int)
    read = blocks.Reader(a)
    for box in blocks.boxes(blocks.tile_cuts(a.address_map, elements)):
        seen[box] += 1
        same_values(read(box), values[box], case.bits)
    assert (seen == 1).all()


def test_blocks_lie_on_tiles() -> None:
    shape = sd.parse("bf16[100,1000]{1,0:T(8,128)(2,1)}")
    for rows, columns in blocks.boxes(blocks.tile_cuts(shape.address_map, 1024)):
        assert rows.start % 8 == 0
        assert columns.start % 128 == 0
    part = sd.LayoutArray(np.zeros(shape.byte_size, np.uint8), shape)[5:, 100:]
    edges = {(r.start + 5, c.start + 100) for r, c in blocks.boxes(blocks.tile_cuts(part.address_map, 1024))}
    assert all((r % 8 == 0 or r == 5) and (c % 128 == 0 or c == 100) for r, c in edges)


# --- larger than memory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "mean"])
def test_sums_of_pairs_take_no_more_memory_than_a_copy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reductions, "STREAM_BYTES", 1 << 20)
    x = np.random.default_rng(0).integers(-9, 9, (512, 2, 1024)).astype(np.float32)
    a = sd.LayoutArray.from_numpy(x, "{2,1,0:T(8,128)}")
    getattr(a, name)(axis=1)  # loads the compiler and a kernel
    tracemalloc.start()
    try:
        got = getattr(a, name)(axis=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    same_values(got, getattr(x, name)(axis=1))
    assert peak < 2 * x.nbytes


@pytest.mark.slow
def test_memory_is_bounded(tmp_path: Path) -> None:
    """A quarter of a gigabyte, sparse, in a few megabytes."""
    shape = sd.parse("f32[8192,8192]{0,1:T(8,128)}")
    path = tmp_path / "large.bin"
    with open(path, "wb") as file:
        file.truncate(shape.byte_size)
    a = sd.open(path, shape)
    np.argmax(a[:1024])  # loads the compiler and a kernel
    tracemalloc.start()
    try:
        assert np.mean(a) == 0
        assert np.argmax(a) == 0
        assert np.var(a, axis=0).shape == (8192,)
        assert not np.any(a)
        assert a.count(np.isnan) == 0
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("f32[40,16,64]{2,1,0:T(8,128)}", (0,)),
        ("f32[40,16,64]{2,1,0:T(8,128)}", (0, 2)),
        ("bf16[300,513]{1,0:T(8,128)(2,1)}", (0,)),
        ("bf16[300,513]{0,1:T(8,128)(2,1)}", (0,)),
        ("f32[3,1,700]{0,1,2}", (0, 1)),
        ("s8[129,5,33]{1,0,2:T(8,128)(4,1)}", (1,)),
    ],
)
def test_blocks_make_up_the_array_and_have_much_to_reduce(
    text: str, axes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 13)
    monkeypatch.setattr(block_reduce, "_SEGMENT", 1)
    array = sd.LayoutArray(bytes(sd.parse(text).byte_size), text)
    seen = np.zeros(array.shape, int)
    partial = {}
    for place, segment in block_reduce._segments(array, axes, 1):
        key = tuple((s.start, s.stop) for s in place)
        partial[key] = partial.get(key, 0) + seen[place].size
        for box in segment:
            assert [box[k] for k in range(array.ndim) if k not in axes] == [
                place[k] for k in range(array.ndim) if k not in axes
            ]
            seen[box] += 1
    assert (seen == 1).all()
    # Partial results take little memory, beside one for each place.
    kept = math.prod(n for k, n in enumerate(array.shape) if k not in axes)
    assert sum(partial.values()) <= kept + array.size // block_reduce._ELEMENTS_OF_PARTIAL
    reduced = math.prod(array.shape[k] for k in axes)
    most = max(
        math.prod(box[k].stop - box[k].start for k in axes)
        for _, segment in block_reduce._segments(array, axes, 1)
        for box in segment
    )
    assert most >= min(reduced, 4)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize(
    "places",
    [
        {(0, 0): np.nan, (90, 90): np.inf},
        {(90, 90): np.inf},
        {(0, 0): np.inf, (90, 90): np.inf},
        {(0, 0): np.inf, (90, 90): -np.inf},
    ],
    ids=["nan and inf", "inf", "inf twice", "inf and -inf"],
)
def test_a_variance_block_by_block_warns_as_numpy_does(
    places: dict[tuple[int, int], float], axis: int | None, small_streams: None
) -> None:
    values = np.zeros((100, 100), np.float32)
    for place, value in places.items():
        values[place] = value
    told = []
    for one in (values, sd.LayoutArray.from_numpy(values, "{1,0:T(8,128)}")):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = np.asarray(one.var(axis=axis))
        told.append((sorted({str(warning.message) for warning in caught}), found))
    assert told[1][0] == told[0][0]
    np.testing.assert_allclose(told[1][1], told[0][1], rtol=1e-5)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("name", ["nanmean", "nanvar", "nanstd"])
@pytest.mark.parametrize("element_type", ["s32", "pred", "u8", "s4"])
@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"axis": 1, "keepdims": True}, {"where": np.False_}])
def test_integers_are_never_nan(name: str, element_type: str, options: dict[str, Any]) -> None:
    """NumPy takes the mean and variance of all: of too few elements it divides by zero, and warns in other words."""
    values = np.arange(35).reshape(7, 5) % 2
    a = sd.LayoutArray.from_numpy(values, "{0,1:T(2,2)}", element_type=element_type)
    x = values.astype(np.int8 if element_type == "s4" else a.dtype)
    for ddof in [{}] if name == "nanmean" else [{"ddof": 0}, {"ddof": 7}, {"ddof": 100}]:
        found = []
        for array in (a, x):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                found.append(getattr(np, name)(array, **options, **ddof))
            found.append({str(w.message).replace(" scalar ", " ").rstrip(".") for w in seen})
        assert found[1] == found[3]
        np.testing.assert_allclose(found[0], found[2])
        assert found[0].dtype == found[2].dtype
