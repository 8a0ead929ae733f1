"""`assert_layout_equal`: silent if arrays are equal, and a report if they are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import strided as sd
from strided.testing import assert_layout_equal

X = np.arange(4096, dtype=np.float32).reshape(16, 256)


def test_equal_arrays_pass() -> None:
    a = sd.LayoutArray.from_numpy(X, "{1,0:T(8,128)}", padding=1)
    assert_layout_equal(a, X)
    assert_layout_equal(a, a.to_layout("{0,1:T(8,128)}"))
    assert_layout_equal(X, X + 0.25, atol=0.5)
    assert_layout_equal(X[1:], np.nextafter(X[1:], np.float32(1e9)), max_ulp=1)


def test_the_report_is_the_message() -> None:
    a = sd.LayoutArray.from_numpy(X, "{1,0:T(8,128)}")
    b = a.copy()
    b[8:, 128:] += 1
    with pytest.raises(AssertionError, match=r"after the first step\n.*\n.*\n1,024 of 4,096 elements differ") as caught:
        assert_layout_equal(a, b, err_msg="after the first step")
    assert "the tile at rows 8 to 15, columns 128 to 255: bytes 12288 to 16383 of a" in " ".join(
        str(caught.value).split()
    )
    assert "█" in str(caught.value)
    with pytest.raises(AssertionError, match="1,024 of 4,096 elements differ") as caught:
        assert_layout_equal(a, b, verbose=False)
    assert "█" not in str(caught.value)


def test_other_shapes_fail_and_wrong_arguments_do_not() -> None:
    with pytest.raises(AssertionError, match=r"the shapes differ: a is \[16, 256\], b is \[256\]"):
        assert_layout_equal(X, X[0])
    with pytest.raises(ValueError, match="rtol must be 0 or more"):
        assert_layout_equal(X, X, rtol=-1)


def test_the_failure_is_shown_in_the_users_test() -> None:
    with pytest.raises(AssertionError, match="4 of 16 elements differ") as caught:
        assert_layout_equal(np.zeros((4, 4)), np.eye(4))
    assert [entry.path.name for entry in caught.traceback.filter(caught)] == [Path(__file__).name]
