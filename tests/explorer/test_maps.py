"""The map of values: each cell's least, largest and mean value, and NaNs, against the same from an ndarray."""

from __future__ import annotations

import base64
import itertools
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.explorer.values import SCALES, map_data


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
        pytest.param("f32[5,40,300]{0,1,2}", marks=pytest.mark.slow),
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
    found = map_data(sd.LayoutArray.from_numpy(values, "{1,0:T(8,128)}"), scales=SCALES)
    assert found is not None
    assert found["sample"] == [8, 1]
    assert [(level["rows"], level["columns"]) for level in found["finer"]] == [(128, 300), (128, 600)]
    assert (found["rows"], len(found["row_labels"])) == (128, 128)
    assert planes(found)["least"][:, 0].tolist() == list(range(0, 1024, 8))
    deep = sd.LayoutArray.from_numpy(np.ones((4, 300, 50, 40), np.int8), "{3,2,1,0}")
    assert planes(map_data(deep) or {})["mean"].min() == 1


def in_bytes(level: dict[str, Any], name: str) -> tuple[np.ndarray, float]:
    """The values of a plane of a finer level, and how far from the true ones they may be."""
    plane = level["planes"][name]
    codes = np.frombuffer(base64.b64decode(plane["data"]), np.uint8).reshape(level["rows"], level["columns"])
    step = (plane["high"] - plane["low"]) / 254
    return np.where(codes == 255, np.nan, plane["low"] + codes * step), 0.501 * step + 1e-6 * abs(plane["high"])


@pytest.mark.parametrize(
    ("text", "planes"),
    [
        ("f32[301,703]{1,0:T(8,128)}", [3, 3]),
        ("bf16[7,11,130]{0,2,1}", [3, 3]),
        ("s4[40,129]{1,0:T(8,128)(8,1)E(4)}", [3, 3]),
        ("f8e4m3fn[50,60]{1,0}", [3, 1]),  # of one element a cell there is one value
        ("pred[10,20]{1,0}", []),
    ],
)
def test_finer_levels(text: str, planes: list[int]) -> None:
    shape = sd.parse_shape(text)
    values = np.random.default_rng(1).normal(size=shape.dimensions, scale=3).astype(shape.dtype)
    if shape.dtype.name in ("float32", "bfloat16"):
        values[1:3, 20:40], values[4, 3] = np.nan, np.inf
    found = map_data(sd.LayoutArray.from_numpy(values, shape.layout), 16, 32, SCALES)
    assert found is not None
    sizes = [(level["rows"], level["columns"]) for level in (found, *found["finer"])]
    assert sizes == sorted(sizes)
    assert np.all(np.array(sizes) <= [(16 * scale, 32 * scale) for scale in SCALES[: len(sizes)]])
    assert [len(level["planes"]) for level in found["finer"]] == planes
    for level in found["finer"]:
        marks = np.zeros((level["rows"], level["columns"]), bool)
        expected = {name: np.full(marks.shape, np.nan) for name in level["planes"]}
        labels = enumerate(level["row_labels"]), enumerate(level["column_labels"])
        for (r, row), (c, column) in itertools.product(*labels):
            cell = values[(*ranges(row, shape.dimensions), *ranges(column, shape.dimensions))].astype(np.float64)
            finite = cell[np.isfinite(cell)]
            marks[r, c] = finite.size < cell.size
            if finite.size:
                for name, reduced in (("mean", np.mean), ("least", np.min), ("largest", np.max)):
                    if name in expected:
                        expected[name][r, c] = reduced(finite)
        for name, values_of_cells in expected.items():
            drawn, distance = in_bytes(level, name)
            assert np.allclose(drawn, values_of_cells, rtol=0, atol=distance, equal_nan=True)
        packed = np.frombuffer(base64.b64decode(level["marks"] or ""), np.uint8)
        assert np.array_equal(np.unpackbits(packed, bitorder="little")[: marks.size], marks.ravel()[: 8 * packed.size])
        assert marks.any() == (level["marks"] is not None)


def test_levels_say_where_cells_start() -> None:
    found = map_data(sd.LayoutArray.from_numpy(np.ones((3, 40, 100), np.int8), "{2,1,0}"), 8, 25, SCALES)
    assert found is not None
    finest = found["finer"][-1]
    for level in (found, *found["finer"]):
        for axis in ("row", "column"):
            starts, labels = level[f"{axis}_starts"], level[f"{axis}_labels"]
            assert len(starts) == len(labels)
            for start, label in zip(starts, labels, strict=True):
                first = finest[f"{axis}_labels"][start]
                assert first.split(":")[0] == label.split(":")[0]


def test_values_whose_difference_overflows() -> None:
    values = np.array([[-1.7e308, 1.7e308], [0, np.nan]]).repeat(33, 1)
    found = map_data(sd.LayoutArray.from_numpy(values, "{1,0}"), 2, 4, SCALES)
    assert found is not None
    plane = found["finer"][-1]["planes"]["least"]
    codes = np.frombuffer(base64.b64decode(plane["data"]), np.uint8)
    assert (plane["low"], plane["high"], set(codes)) == (-1.7e308, 1.7e308, {0, 127, 254, 255})


@pytest.mark.parametrize(
    ("values", "layout"), [(np.ones(1), "{0}"), (np.ones((0, 3)), "{1,0}"), (np.ones(3, np.complex64), "{0}")]
)
def test_no_map(values: np.ndarray, layout: str) -> None:
    assert map_data(sd.LayoutArray.from_numpy(values, layout)) is None
