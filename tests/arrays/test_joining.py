"""Functions that put arrays together: what NumPy makes of the converted arrays, in the same order in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.arrays.views import Views
from strided.runtime import limits
from tests.checks import same_outcome, same_values
from tests.thinned import examples

FUNCTIONS = {
    "concatenate": lambda x, axis: np.concatenate(x, axis),
    "by name": lambda x, axis: np.concatenate(tuple(x), axis=axis),
    "flat": lambda x, axis: np.concatenate(x, None),
    "cast": lambda x, axis: np.concatenate(x, axis, dtype="f8"),
    "stack": lambda x, axis: np.stack(x, axis),
    "vstack": lambda x, axis: np.vstack(x),
    "hstack": lambda x, axis: np.hstack(x),
    "dstack": lambda x, axis: np.dstack(x),
    "column_stack": lambda x, axis: np.column_stack(x),
}


@pytest.fixture(autouse=True)
def _however_small() -> Iterator[None]:
    with limits.replaced(joined_bytes=0, direct_bytes=0):
        yield


@st.composite
def parts(draw: st.DrawFn) -> tuple[list[Any], list[Any], int]:
    """Arrays in layouts and ndarrays, the same as ndarrays alone, and an axis; not all of them fit."""
    ndim = draw(st.integers(1, 4))
    axis, common = draw(st.integers(-ndim, ndim)), [draw(st.sampled_from([1, 2, 3])) for _ in range(ndim)]
    arrays: list[Any] = []
    for k in range(draw(st.integers(1, 4))):
        sizes = list(common)
        sizes[axis % ndim] = draw(st.sampled_from([0, 1, 2, 4]))
        dtype = draw(st.sampled_from([np.float32] * 5 + [np.int8]))
        values = (np.arange(math.prod(sizes)) + k).reshape(sizes).astype(dtype)
        order = ",".join(map(str, draw(st.permutations(range(ndim)))))
        tile = ":T(2,2)" if ndim > 1 and draw(st.booleans()) else ""
        array = sd.LayoutArray.from_numpy(values, f"{{{order}{tile}}}")[(slice(None, None, -1),) * draw(st.booleans())]
        arrays.append(np.asarray(array) if draw(st.integers(0, 3)) == 0 else array)
    return arrays, [np.asarray(x) for x in arrays], axis


@given(parts(), st.sampled_from(list(FUNCTIONS)))
@examples(300)
def test_arrays_are_put_together_as_ndarrays_are(drawn: tuple[list[Any], list[Any], int], name: str) -> None:
    arrays, values, axis = drawn

    def same(found: Any, wanted: Any) -> None:
        assert (type(found), found.dtype, found.shape) == (type(wanted), wanted.dtype, wanted.shape)
        assert np.array_equal(found, wanted)
        assert found.strides == wanted.strides or not found.size

    same_outcome(lambda: FUNCTIONS[name](arrays, axis), lambda: FUNCTIONS[name](values, axis), same)


@pytest.mark.parametrize("layout", ["{1,0:T(8,128)}", "{0,1:T(2,128)}"])
@pytest.mark.parametrize("name", ["concatenate", "stack", "vstack", "hstack", "dstack"])
def test_nothing_is_converted_apart(name: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(300 * 200, dtype=np.float32).reshape(300, 200)
    array = sd.LayoutArray.from_numpy(values, layout)
    wanted = FUNCTIONS[name]([values, values], 0)
    monkeypatch.setattr("strided.arrays.array_functions._converted", None)
    np.testing.assert_array_equal(FUNCTIONS[name]([array, array], 0), wanted)


def test_small_views_of_one_buffer() -> None:
    """They are read together, whatever their order, and what lies beside them."""
    values = np.arange(64 * 130, dtype=np.float32).reshape(64, 130)
    a, other = (sd.LayoutArray.from_numpy(values, "{1,0:T(8,128)}") for _ in range(2))
    for join in (np.concatenate, np.stack, np.vstack, lambda arrays: np.stack(arrays, axis=-1)):
        for take in (list, lambda x: list(x[::-2]), lambda x: [x[3], values[5], x[60, ::-1]]):
            same_values(join(take(a)), join(take(values)))
        same_values(join([*a, *other]), join([*values, *values]))


def test_small_arrays_are_stacked_without_views_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view of each takes several times as long as its conversion."""
    monkeypatch.delattr(Views, "_rearranged")
    values = [np.arange(9, dtype=np.int8) % 7 for _ in range(5)]
    arrays = [sd.LayoutArray.from_numpy(x, "{0:E(4)}", element_type="s4") for x in values]
    with limits.replaced(joined_bytes=1 << 10):
        for function in (np.vstack, np.hstack, np.dstack):
            same_values(function(arrays), function([x.to_numpy() for x in arrays]))
