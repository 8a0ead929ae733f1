"""Random reductions and universal functions of random layouts and views, against NumPy.

Short types are judged by NumPy's result of the same values in double precision, or as integers of eight bits. Half of
the runs stream, in windows of a few elements.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.arrays import blocks, reductions, wide_sums
from tests.cases import ARRAY_TYPES, PACKED_TYPES, dtype_of
from tests.checks import outcome, random_layout, shape_of

Call = tuple[str, Callable[[Any], Any], dict[str, Any]]

TYPES = ["f32", "f64", "f16", "bf16", "f8e4m3fn", "f8e5m2", "f4e2m1fn", "s4", "u2", "u8", "s8", "s32", "pred", "c64"]
SUMS = ["sum", "prod", "mean", "var", "std", "nansum", "nanprod", "nanmean", "nanvar", "nanstd"]
RUNNING = ["cumsum", "cumprod", "nancumsum", "nancumprod"]
PLACES = ["max", "min", "argmax", "argmin", "any", "all", "count_nonzero", "ptp", "median"]
UFUNCS = ["add", "subtract", "multiply", "maximum", "minimum", "less", "equal", "logical_and"]
ONE = ["negative", "absolute", "square", "isfinite", "sign"]


def some_call(rng: np.random.Generator, ndim: int, mask: np.ndarray) -> Call:
    """A function of an array, with arguments that NumPy may refuse."""
    kind = rng.integers(6)
    axis: Any = [None, *range(-ndim, ndim), ndim][rng.integers(2 * ndim + 2)]
    if kind == 0 and ndim > 1:
        axis = tuple(int(k) for k in rng.permutation(ndim)[:2])
    if kind < 3:
        name = str(rng.choice(SUMS))
        options: dict[str, Any] = {"axis": axis}
        if rng.integers(3) == 0:
            options["keepdims"] = True
        if rng.integers(4) == 0:
            options["where"] = mask
        if name.endswith(("var", "std")) and rng.integers(3) == 0:
            options["ddof"] = 1
        return name, lambda x: getattr(np, name)(x, **options), options
    if kind == 3:
        name = str(rng.choice([*RUNNING, *PLACES]))
        return name, lambda x: getattr(np, name)(x, axis=axis), {"axis": axis}
    if kind == 4:
        ufunc, method = getattr(np, str(rng.choice(["add", "multiply"]))), str(rng.choice(["reduce", "accumulate"]))
        along = 0 if axis is None else axis
        return f"{ufunc.__name__}.{method}", lambda x: getattr(ufunc, method)(x, axis=along), {"axis": along}
    if rng.integers(2):
        name = str(rng.choice(ONE))
        return name, getattr(np, name), {}
    name = str(rng.choice(UFUNCS))
    return name, lambda x: getattr(np, name)(x, x[::-1] if x.ndim else x), {}


def is_sum(name: str) -> bool:
    return name in (*SUMS, *RUNNING, "median") or name.endswith(("reduce", "accumulate"))


def judge(name: str, call: Callable[[Any], Any], a: sd.LayoutArray, x: np.ndarray, about: str) -> bool:
    """Whether NumPy accepts the call; the array must give the same."""
    short = wide_sums.wide(x.dtype) if is_sum(name) else None
    like = x
    if short is not None:
        like = x.astype(short if short.kind == "f" else np.int8 if short.kind == "i" else np.uint8)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        expected, wanted = outcome(lambda: call(like))
        natural = np.asarray(outcome(lambda: call(x))[0]).dtype if short is not None and short.kind == "f" else None
        got, error = outcome(lambda: call(a))
    assert type(error) is type(wanted), f"{about}: {error!r}, NumPy: {wanted!r}"
    if wanted is not None:
        return False
    g, e = np.asarray(got), np.asarray(expected)
    assert g.shape == e.shape, about
    if natural is not None:
        assert g.dtype == natural, about
        with np.errstate(all="ignore"):
            near = [wide_sums.rounded(e * k, natural) for k in (1 - 1e-9, 1, 1 + 1e-9)] if e.dtype.kind == "f" else [e]
        same = np.any([(g == n) | ((g != g) & (n != n)) for n in near], axis=0)
        if name.endswith(("var", "std")):
            # Of equal values one way gives zero, the other next to nothing.
            same |= (np.abs(g.astype(np.float64)) < 1e-6) & (np.abs(e) < 1e-6)
        assert same.all(), f"{about}: {g!r}, NumPy of doubles: {e!r}"
        return True
    assert g.dtype == e.dtype, about
    if e.dtype.kind in "fc":
        loose = 2e-4 if e.dtype.itemsize // (2 if e.dtype.kind == "c" else 1) < 8 else 1e-9
        np.testing.assert_allclose(g, e, rtol=loose, atol=loose * max(1.0, float(np.abs(x).max(initial=0)) ** 2))
    else:
        assert np.array_equal(g, e, equal_nan=e.dtype.isbuiltin != 1), f"{about}: {g!r}, NumPy: {e!r}"
    return True


def some_array(rng: np.random.Generator) -> tuple[sd.LayoutArray, np.ndarray, str]:
    """An array in some layout, or a view of one; its values; and what it is."""
    element_type = str(rng.choice(TYPES))
    dimensions = tuple(int(n) for n in rng.integers(1, 9, rng.integers(1, 5)))
    case = random_layout(rng, dimensions, element_type)
    if element_type in PACKED_TYPES and rng.integers(2):
        case = case.with_type(element_type)
    dtype = dtype_of(element_type)
    wide = rng.integers(-4, 5, dimensions).astype(np.float64) + rng.integers(0, 4, dimensions) / 4
    if ARRAY_TYPES[element_type]["name"][0] in "u" or element_type == "pred":
        wide = np.abs(wide)
    x = (
        np.trunc(wide).astype(np.int64).astype(dtype)
        if element_type[0] in "sup"
        else wide.astype(np.float32).astype(dtype)
    )
    a = sd.LayoutArray.from_numpy(x, shape_of(case))
    key = tuple(
        slice(*[(None, None, 1), (1, None, 1), (None, None, -1), (None, None, 2)][rng.integers(4)]) for _ in dimensions
    )
    a, x = a[key], x[key]
    if rng.integers(3) == 0:
        a, x = a.T, x.T
    return a, x, f"{case.text}{key}"


def test_random_calls(
    fuzz_seconds: float, fuzz_seed: int, record_property: Callable[[str, object], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    end, ran, accepted = time.monotonic() + fuzz_seconds, 0, 0
    while time.monotonic() < end:
        rng = np.random.default_rng([fuzz_seed, ran])
        a, x, text = some_array(rng)
        mask = rng.integers(0, 2, x.shape).astype(bool)
        monkeypatch.setattr(reductions, "STREAM_BYTES", 0 if rng.integers(2) else 1 << 24)
        monkeypatch.setattr(blocks, "BLOCK_BYTES", int(rng.choice([64, 512, 1 << 21])))
        for _ in range(4):
            name, call, options = some_call(rng, x.ndim, mask)
            accepted += judge(name, call, a, x, f"{name} {options} of {text}, seed {fuzz_seed}, {ran}")
        ran += 1
    record_property("arrays", ran)
    record_property("accepted calls", accepted)
    print(f"{ran} arrays, {4 * ran} calls, {accepted} of them accepted")
    assert accepted > ran
