"""The map of values: each cell's least, largest and mean value, and NaNs, against the same from an ndarray."""

from __future__ import annotations

import base64
import itertools
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.explorer.values import map_data


def planes(found: dict[str, Any]) -> dict[str, np.ndarray]:
    shape = found["rows"], found["columns"]
    return {
        name: np.frombuffer(base64.b64decode(text), np.float32).reshape(shape) for name, text in found["planes"].items()
    }


def ranges(label: str, sizes: tuple[int, ...]) -> tuple[Any, ...]:
    """The key that a label names."""
    parts = label.split(",") if label else []
    return tuple(
        slice(int(p), int(p) + 1) if ":" not in p else slice(*(int(x) if x else None for x in p.split(":")))
        for p in parts
    )


@pytest.mark.parametrize(
    "text",
    [
        "f32[300,700]{1,0:T(8,128)}",
        "f32[5,40,300]{0,1,2}",
        "bf16[2,3,4,500]{3,2,1,0:T(8,128)(2,1)}",
        "f32[1000]{0:T(1024)}",
    ],
)
def test_cells(text: str) -> None:
    shape = sd.parse_shape(text)
    values = np.random.default_rng(0).normal(size=shape.dimensions).astype(shape.dtype)
    values.reshape(-1)[7:30] = np.nan
    values.reshape(-1)[200] = np.inf
    found = map_data(sd.LayoutArray.from_numpy(values, shape.layout))
    assert found is not None
    assert set(found["sample"]) == {1}
    drawn = planes(found)
    for (r, row), (c, column) in itertools.product(enumerate(found["row_labels"]), enumerate(found["column_labels"])):
        cell = values[(*ranges(row, shape.dimensions), *ranges(column, shape.dimensions))].astype(np.float64)
        finite = cell[np.isfinite(cell)]
        assert drawn["not finite"][r, c] == cell.size - finite.size
        if finite.size:
            assert drawn["least"][r, c] == np.float32(finite.min())
            assert drawn["largest"][r, c] == np.float32(finite.max())
            assert np.isclose(drawn["mean"][r, c], finite.mean(), atol=1e-6)
        else:
            assert np.isnan(drawn["mean"][r, c])


def test_a_large_array_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strided.explorer.values.MOST_SAMPLED", 1 << 14)
    values = np.repeat(np.arange(1024.0, dtype=np.float32)[:, None], 600, axis=1)
    found = map_data(sd.LayoutArray.from_numpy(values, "{1,0:T(8,128)}"))
    assert found is not None
    assert found["sample"] == [8, 1]
    assert (found["rows"], len(found["row_labels"])) == (128, 128)
    assert planes(found)["least"][:, 0].tolist() == list(range(0, 1024, 8))
    deep = sd.LayoutArray.from_numpy(np.ones((4, 300, 50, 40), np.int8), "{3,2,1,0}")
    assert planes(map_data(deep) or {})["mean"].min() == 1


@pytest.mark.parametrize(
    ("values", "layout"), [(np.ones(1), "{0}"), (np.ones((0, 3)), "{1,0}"), (np.ones(3, np.complex64), "{0}")]
)
def test_no_map(values: np.ndarray, layout: str) -> None:
    assert map_data(sd.LayoutArray.from_numpy(values, layout)) is None
