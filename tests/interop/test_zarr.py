"""zarr, and xarray's `to_zarr`: what is stored is what an ndarray would store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd

zarr = pytest.importorskip("zarr")

pytestmark = [
    pytest.mark.partners,
    pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning"),
    pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning"),
]

VALUES = np.arange(90, dtype=np.float32).reshape(15, 6)
LAYOUTS = ["{1,0}", "{0,1}", "{1,0:T(8,128)}", "{1,0:T(2,2)}", "{0,1:T(3,2)}", "{1,0:T(5,6)}"]
VIEWS = {"itself": lambda x: x, "transposed": lambda x: x.T, "rows": lambda x: x[::2], "a row": lambda x: x[0]}


@pytest.fixture(params=LAYOUTS)
def array(request: pytest.FixtureRequest) -> sd.LayoutArray:
    return sd.LayoutArray.from_numpy(VALUES, request.param)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("version", [2, 3])
def test_arrays_are_stored(array: sd.LayoutArray, view: str, version: int, tmp_path: Path) -> None:
    a, x = VIEWS[view](array), VIEWS[view](VALUES)
    assert np.array_equal(zarr.create_array(store={}, data=a, zarr_format=version)[...], x)
    assert np.array_equal(zarr.array(a, zarr_format=version)[...], x)
    chunks = tuple(n // 2 + 1 for n in x.shape)
    stored: Any = zarr.create_array(store={}, shape=x.shape, dtype=x.dtype, chunks=chunks, zarr_format=version)
    stored[...] = a
    assert np.array_equal(stored[...], x)
    zarr.save(tmp_path / "x.zarr", a)
    assert np.array_equal(zarr.load(tmp_path / "x.zarr"), x)


@pytest.mark.parametrize("view", ["itself", "transposed"])
def test_to_zarr_of_xarray(array: sd.LayoutArray, view: str, tmp_path: Path) -> None:
    xr = pytest.importorskip("xarray")
    dataset = xr.Dataset({"w": (("i", "j"), VIEWS[view](array))})
    dataset.to_zarr(tmp_path / "x.zarr", consolidated=False)
    found = xr.open_zarr(tmp_path / "x.zarr", consolidated=False)
    assert np.array_equal(found["w"].values, VIEWS[view](VALUES))
