"""What the sentence of a cause says is true of all elements, and its numbers can be used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from strided.diagnosis.difference import Pattern, diff

Array = npt.NDArray[Any]
RNG = np.random.default_rng(11)
X = RNG.standard_normal((30, 40))
SINGLES = X.astype(np.float32)
INTEGERS = RNG.integers(-(10**9), 10**9, (30, 40))
SHORTS = RNG.integers(-(2**15), 2**15, (30, 40)).astype(np.int16)
WORDS = "where a and b differ, "


def cause(a: Array, b: Array) -> Pattern:
    return diff(a, b).patterns[0]


def inverted(values: Array) -> Array:
    return ~values


def rolled(values: Array) -> Array:
    return np.roll(values, 3, axis=1)


def as_bf16(values: Array) -> Array:
    return values.astype(ml_dtypes.bfloat16).astype(values.dtype)


def swapped(values: Array) -> Array:
    return values.byteswap()


def wrapped(values: Array) -> Array:
    return values.astype(np.int8).astype(values.dtype)


def quantised(values: Array) -> Array:
    return np.clip(np.rint(values / 0.037), -90, 90) * 0.037


@pytest.mark.parametrize(
    ("change", "values"),
    [
        (np.abs, X),
        (as_bf16, SINGLES),
        (inverted, SHORTS),
        (quantised, X),
        (rolled, X),
        (swapped, SHORTS),
        (np.trunc, 9 * X),
        (wrapped, SHORTS),
    ],
)
def test_a_cause_that_some_equal_elements_refute_is_told_of_the_others(
    change: Callable[[Array], Array], values: Array
) -> None:
    whole = change(values)
    everywhere = cause(values, whole)
    assert everywhere.share == 1
    assert not everywhere.sentence.startswith(WORDS)
    # Some rows are as they were.
    part = whole.copy()
    part[4:6] = values[4:6]
    found = cause(values, part)
    assert (found.kind, found.where, found.share) == (everywhere.kind, everywhere.where, 1)
    assert found.sentence.startswith(WORDS + everywhere.sentence.partition(":")[0])


def test_one_equal_element_is_seen_in_a_small_array() -> None:
    b = ~SHORTS
    b[7, 7] = SHORTS[7, 7]
    assert cause(SHORTS, b).sentence.startswith(WORDS)


def test_a_few_of_many_elements_that_are_tried_are_counted() -> None:
    a = RNG.standard_normal((512, 512)).astype(np.float32)
    sentence = cause(a, as_bf16(a)).sentence
    assert sentence.startswith("b is a rounded to bf16: this explains all ")
    assert sentence.endswith(" mismatches that were tried")
    b = as_bf16(a)
    b[::16, ::4] = 0
    assert " mismatches that were tried" in cause(a, b).sentence
    assert "of the mismatches of" not in cause(a, b).sentence


@pytest.mark.parametrize(
    ("values", "bound", "text"),
    [
        (X, 1 / 3, "0.3333333333333333"),
        (SINGLES, 0.1, "0.1"),
        (SINGLES.astype(ml_dtypes.bfloat16), 0.1, "0.1"),
        ((1e4 * X).astype(np.float16), 20016, "20016"),
    ],
)
def test_bounds_are_given_back_by_their_text(values: Array, bound: float, text: str) -> None:
    low = values.dtype.type(-bound)
    found = cause(values, np.where(values < low, low, values))
    assert (found.kind, found.where) == ("clip", f"-{text}:")
    assert values.dtype.type(float(found.where[:-1])) == low


def test_whole_numbers_of_sentences_have_commas() -> None:
    found = cause(INTEGERS, np.clip(INTEGERS, -123_456_789, 500_000_000))
    assert found.where == "-123456789:500000000"
    assert "to the range -123,456,789 to 500,000,000:" in found.sentence
    found = cause(INTEGERS, INTEGERS + 1_234_567)
    assert (found.where, found.sentence) == ("1234567", "in every mismatch b - a is 1,234,567")


def test_factors_have_no_more_digits_than_needed() -> None:
    powers = 2.0 ** np.arange(20)
    found = cause(powers, 0.1 * powers)
    assert (found.kind, found.where) == ("scale", "0.1")


def test_values_beyond_the_range_of_quantised_ones_are_clipped() -> None:
    found = cause(2 * X, quantised(2 * X))
    assert found.sentence.startswith("b is a rounded to multiples of 0.037 and clipped to the range -3.33 to 3.33: ")
    mostly_small = np.where(X > 0, X / 2, 2 * X)
    assert "0.037 and clipped to at least -3.33: " in cause(mostly_small, quantised(mostly_small)).sentence
    assert "clipped" not in cause(X / 2, quantised(X / 2)).sentence
    single = np.float32(0.02)
    assert cause(SINGLES / 4, np.rint(SINGLES / 4 / single) * single).where == "0.02"


def test_one_lost_bit_is_no_number_of_bits() -> None:
    a = np.random.default_rng(0).integers(1, 2**15, (30, 40)).astype(np.uint16).view(np.float16)
    a = np.where(np.isfinite(a), a, 1).astype(np.float16)
    found = cause(a, (a.view(np.uint16) & 0xFFFE).view(np.float16))
    assert (found.kind, found.where) == ("rounded", "1 low bit")
    assert found.sentence.startswith("b is a without the lowest bit of each element: this explains all")
