"""b is what a simple function makes of a: parts exchanged, conjugates, whole numbers, values wrapped or clipped."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import strided as sd
from strided.diagnosis.difference import Difference, diff

Array = npt.NDArray[Any]
RNG = np.random.default_rng(7)
X = RNG.standard_normal((96, 384)).astype(np.float32)
D = RNG.standard_normal((30, 40))
LONG = RNG.integers(-(2**62), 2**62, (30, 40))
COMPLEX = D + 1j * RNG.standard_normal((30, 40))
BYTES = RNG.integers(0, 256, (40, 50)).astype(np.uint8)
INTEGERS = RNG.integers(-100_000, 100_000, (96, 384)).astype(np.int32)


def kinds(found: Difference) -> set[str]:
    return {pattern.kind for pattern in found.patterns}


def named(a: Any, b: Any) -> tuple[str, str]:
    first = diff(a, b).patterns[0]
    return first.kind, first.where


def parts_reversed(values: Array, bits: int, number: int) -> Array:
    parts = np.ascontiguousarray(values).view(f"u{bits // 8}").reshape(-1, number)[:, ::-1]
    return np.ascontiguousarray(parts).reshape(-1).view(values.dtype).reshape(values.shape)


@pytest.mark.parametrize("values", [D, LONG, LONG.astype(np.uint64)])
def test_parts_of_64_bits(values: Array) -> None:
    found = diff(values, parts_reversed(values, 32, 2)).patterns[0]
    assert (found.kind, found.where) == ("swap", "32-bit halves")
    assert found.sentence.startswith("b has the two 32-bit halves of each element exchanged: this explains all")
    assert named(values, parts_reversed(values, 16, 4)) == ("swap", "16-bit quarters")
    assert named(values, parts_reversed(values, 8, 8)) == ("swap", "bytes")
    assert named(values, parts_reversed(values, 8, 2)) == ("swap", "16 bits")


def test_parts_of_32_bits() -> None:
    assert named(X, parts_reversed(X, 16, 2)) == ("swap", "16-bit halves")
    assert named(X, parts_reversed(X, 8, 2)) == ("swap", "16 bits")


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_parts_of_complex_numbers(dtype: Any) -> None:
    x = COMPLEX.astype(dtype)
    assert named(x, (x.imag + 1j * x.real).astype(dtype)) == ("swap", "real and imaginary parts")
    y = x.copy()
    y[3] = np.conj(x[3])
    assert named(x, np.conj(x)) == named(x, y) == ("operation", "conjugate")


@pytest.mark.parametrize("dtype", ["s4", "u4", "s2", "u8", "s16", "f32", "bf16", "f8e4m3fn", "f64"])
def test_inverted_bits(dtype: str) -> None:
    shape = sd.Shape(dtype, (40, 50))
    bits = {"s4": 4, "u4": 4, "s2": 2}.get(dtype, 8)
    raw = RNG.integers(0, 255, 40 * 50 * shape.dtype.itemsize).astype(np.uint8) & (1 << bits) - 1
    x, y = (each.view(shape.dtype).reshape(40, 50) for each in (raw, raw ^ (1 << bits) - 1))
    found = diff(x, y, equal_nan=True).patterns[0]
    assert (found.kind, found.where) == ("operation", "bits inverted")


def test_absolute_values() -> None:
    assert named(X, np.abs(X)) == ("operation", "absolute value")
    some = X.copy()
    some[X < -1] *= -1
    for y in (-X, some, np.where(X > 0, -X, X)):
        assert "operation" not in kinds(diff(X, y))


@pytest.mark.parametrize(
    ("change", "where"), [(np.trunc, "truncated"), (np.rint, "rounded"), (np.floor, "floor"), (np.ceil, "ceil")]
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_whole_numbers(change: Any, where: str, dtype: Any) -> None:
    x = X * 50
    y = change(x).astype(dtype)
    if dtype != np.int64:  # which no type holds beside f32
        assert named(x, y) == ("operation", where)
    y[0, 0] += 1
    assert "operation" not in kinds(diff(x, y))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_values_that_are_wrapped(dtype: Any) -> None:
    y = INTEGERS.astype(dtype)
    name = f"{'u' if y.dtype.kind == 'u' else 's'}{8 * y.itemsize}"
    assert named(INTEGERS, y) == named(INTEGERS, y.astype(np.int32)) == ("wrap", name)
    y[5, 5] += 1
    assert "wrap" not in kinds(diff(INTEGERS, y))


@pytest.mark.parametrize(
    ("a", "b", "where", "words"),
    [
        (X, np.clip(X, -1, 1.5), "-1:1.5", "to the range -1 to 1.5"),
        (X, np.maximum(X, 0), "0:", "to at least 0"),
        (X.astype(ml_dtypes.bfloat16), np.minimum(X.astype(ml_dtypes.bfloat16), 1), ":1", "to at most 1"),
        (INTEGERS, np.clip(INTEGERS, -128, 127).astype(np.int8), "-128:127", "to the range -128 to 127"),
        (np.where(X > 2, np.nan, X), np.where(X > 2, np.nan, np.clip(X, -1, 1)), "-1:1", "to the range -1 to 1"),
    ],
)
def test_values_that_are_clipped(a: Array, b: Array, where: str, words: str) -> None:
    found = diff(a, b)
    first = found.patterns[0]
    assert (first.kind, first.where) == ("clip", where)
    assert first.sentence == f"b is a clipped {words}: this explains all {found.count:,} mismatches"


def test_what_was_lost_or_replaced_is_not_clipped() -> None:
    zeros = np.zeros_like(X)
    part = X.copy()
    part[8:16, 128:256] = 0
    one_left = np.clip(X, -1, 1)
    one_left[90, 300] = 3
    above = np.abs(X)
    sparse = np.where(X > 2.5, X, 0)
    few = np.where(X > 1, 3, X < 0)
    for a, b in ((X, zeros), (X, part), (X, one_left), (above, zeros), (sparse, zeros), (few, np.minimum(few, 2))):
        assert "clip" not in kinds(diff(a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("least", "most"), [(-127, 127), (-8, 7), (-20, 30)])
def test_values_that_were_integers_with_a_scale(dtype: Any, least: int, most: int) -> None:
    x = X.astype(dtype)
    scale = np.float32(np.abs(X).max() / most * 0.8)
    b = (np.clip(np.rint(x.astype(np.float32) / scale), least, most).astype(np.float32) * scale).astype(dtype)
    found = diff(x, b).patterns[0]
    assert found.kind == "quantised"
    assert float(found.where) == pytest.approx(float(scale), rel=1e-6)
    assert found.sentence.startswith(f"b is a rounded to multiples of {found.where}")
    assert ": this explains " in found.sentence
    assert found.share > 0.99
    b[::2] = b[::2][::-1]
    assert "quantised" not in kinds(diff(x, b))


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("columns", [12, 40, 384])
def test_values_of_16_bits_that_were_integers_with_a_scale(dtype: Any, columns: int) -> None:
    """Their large levels are rounded by as much as half the scale."""
    x = X[:, :columns].astype(dtype)
    scale = np.float32(np.abs(x.astype(np.float32)).max() / 127)
    b = (np.rint(x.astype(np.float32) / scale) * scale).astype(dtype)
    found = diff(x, b).patterns[0]
    assert found.kind == "quantised"
    assert float(found.where) == pytest.approx(float(scale), rel=1e-3)
    assert found.share > 0.98


@pytest.mark.parametrize("size", [1e300, 1e-320])
def test_scales_that_f32_does_not_hold(size: float) -> None:
    x = X.astype(np.float64) * size
    found = diff(x, np.rint(x / (size / 8)) * (size / 8)).patterns[0]
    assert found.kind == "quantised"
    assert float(found.where) == pytest.approx(size / 8, rel=1e-8, abs=5e-324)


def test_values_whose_range_overflows_are_compared_without_a_warning() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, (100, 50)) * 1.7e308
    assert "quantised" not in kinds(diff(x, np.rint(x / 2e306) * 2e306))


def test_few_levels_that_are_no_multiples_or_not_the_nearest_are_not_quantised() -> None:
    levels = np.sort(RNG.standard_normal(16)).astype(np.float32)
    nearest = levels[np.abs(X[..., None] - levels).argmin(axis=-1)]
    by_column = np.rint(X / np.float32(0.1) / np.arange(1, 385)) * np.float32(0.1) * np.arange(1, 385)
    for y in (nearest, np.floor(X / np.float32(0.1)) * np.float32(0.1), by_column.astype(np.float32)):
        assert "quantised" not in kinds(diff(X, y))
