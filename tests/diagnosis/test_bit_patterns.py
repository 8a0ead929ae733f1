"""The bits of values as integers, in the two forms that comparisons and padding take."""

from __future__ import annotations

import struct

import ml_dtypes
import numpy as np
import pytest

from strided.diagnosis.bit_patterns import pattern_words, patterns

VALUES = [-0.0, 1.5, float("nan"), float("inf"), -7.0, 0.25]


def of_type(dtype: type) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.array(VALUES).astype(dtype).reshape(2, 3)


@pytest.mark.parametrize("dtype", [np.uint8, ml_dtypes.bfloat16, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
def test_values_of_a_word_are_one_integer_each(dtype: type, turned: bool) -> None:
    values = of_type(dtype).T if turned else of_type(dtype)
    wanted = [[int.from_bytes(value.tobytes(), "little") for value in row] for row in values]
    assert patterns(values).tolist() == wanted
    assert pattern_words(values).tolist() == [[[number] for number in row] for row in wanted]


@pytest.mark.parametrize("turned", [False, True], ids=["rows", "columns"])
def test_complex_values_of_two_words_have_an_axis_for_them(turned: bool) -> None:
    values = of_type(np.complex128).T if turned else of_type(np.complex128)
    wanted = [[list(struct.unpack("<QQ", value.tobytes())) for value in row] for row in values]
    assert patterns(values).tolist() == pattern_words(values).tolist() == wanted


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)], ids=str)
@pytest.mark.parametrize(("dtype", "words"), [(np.float32, 1), (np.complex128, 2)])
def test_the_shape_is_kept_without_axes_and_without_elements(shape: tuple[int, ...], dtype: type, words: int) -> None:
    values = np.zeros(shape, dtype)
    assert pattern_words(values).shape == (*shape, words)
    assert patterns(values).shape == (shape if words == 1 else (*shape, words))
