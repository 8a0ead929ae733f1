"""What an array looks like: as NumPy shows its values, and never by converting a large one."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import strided as sd
from tests.cases import CORPUS, Case, some_values
from tests.checks import encoded


def test_repr_shows_values_as_numpy_does() -> None:
    a = sd.LayoutArray.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3), "{0,1:T(2,2)}")
    assert repr(a).startswith("LayoutArray([[0., 1., 2.],")
    assert "f32[2,3]{0,1:T(2,2)}" in repr(a)
    assert str(a) == str(np.asarray(a))
    assert "view of f32[2,3]" in repr(a[1:])


@pytest.mark.parametrize("label", CORPUS)
def test_str_is_numpys(label: str) -> None:
    case = Case.parse(CORPUS[label])
    values = some_values(case)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's own, for numbers near the end of their range
        assert str(sd.LayoutArray(encoded(case, values), case.text)) == str(values)


@pytest.mark.parametrize(
    "shape",
    [(1001,), (40, 30), (2, 600), (600, 2), (7, 200), (200, 7), (11, 11, 11), (3, 4, 5, 6, 7), (1, 1, 1500)],
    ids=str,
)
def test_large_arrays_are_shown_as_numpy_shows_them(shape: tuple[int, ...]) -> None:
    x = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
    a = sd.LayoutArray.from_numpy(x, "{" + ",".join(map(str, range(len(shape)))) + ":T(8,16)}")
    for edge in (3, 1, 0):
        with np.printoptions(edgeitems=edge):
            assert str(a).split() == str(x).split()


def test_no_repr_converts_a_large_array(monkeypatch: pytest.MonkeyPatch) -> None:
    a = sd.LayoutArray.from_numpy(np.zeros((2000, 1000), np.float32), "{0,1:T(8,128)}")
    largest = 0
    original = sd.LayoutArray.to_numpy

    def watched(self: sd.LayoutArray, *arguments: Any, **options: Any) -> np.ndarray:
        nonlocal largest
        largest = max(largest, self.size)
        return original(self, *arguments, **options)

    monkeypatch.setattr(sd.LayoutArray, "to_numpy", watched)
    texts = [repr(a), str(a), f"{a}", a._repr_html_()]
    assert largest <= 1000
    assert all(len(text) < 40_000 for text in texts)


def test_no_limit_is_any_number() -> None:
    values = np.arange(24.0).reshape(4, 6)
    a = sd.LayoutArray.from_numpy(values, "{1,0:T(2,4)}")
    with np.printoptions(threshold=np.inf):
        assert str(a) == str(values)
        assert repr(a).startswith("LayoutArray([[ 0.,  1.")
        assert "23." in a._repr_html_()
    with np.printoptions(linewidth=np.inf, threshold=5):
        assert repr(a).endswith("dtype=float64, f64[4,6]{1,0:T(2,4)})")
        assert ",\n dtype" not in repr(a)
