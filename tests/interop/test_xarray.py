"""xarray: a LayoutArray in a DataArray stays one, and gives what an ndarray in it gives."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd

xr = pytest.importorskip("xarray")

pytestmark = pytest.mark.partners

TILED = "f32[30,200]{1,0:T(8,128)}"
VALUES = np.arange(6000, dtype=np.float32).reshape(30, 200) % 251


def labelled(data: Any) -> Any:
    return xr.DataArray(data, dims=("i", "j"), coords={"i": np.arange(30)}, name="w")


def wrapped() -> Any:
    return labelled(sd.LayoutArray.from_numpy(VALUES, TILED))


#: What stays a view of the buffer.
VIEWS = {
    "itself": lambda x: x,
    "a window": lambda x: x.isel(i=slice(2, 9), j=slice(None, None, -3)),
    "a row": lambda x: x.isel(i=4),
    "by labels": lambda x: x.sel(i=slice(5, 9)),
    "transposed": lambda x: x.transpose("j", "i"),
    "expanded": lambda x: x.expand_dims("n"),
    "squeezed": lambda x: x.isel(i=slice(3, 4)).squeeze(),
    "broadcast": lambda x: xr.broadcast(x, x.isel(i=0))[1],
    "a shallow copy": lambda x: x.copy(deep=False),
}
#: What is computed.
RESULTS = {
    "arithmetic": lambda x: x * 2 + 1,
    "a function": lambda x: np.sqrt(x),
    "comparison": lambda x: x > 7,
    "itself with itself": lambda x: x - x.T,
    "mean": lambda x: x.mean("i"),
    "std": lambda x: x.std(),
    "max": lambda x: x.max("j"),
    "median": lambda x: x.median("j"),
    "quantile": lambda x: x.quantile(0.3),
    "argmax": lambda x: x.argmax("j"),
    "idxmax": lambda x: x.idxmax("i"),
    "count": lambda x: x.count("i"),
    "cumsum": lambda x: x.cumsum("i"),
    "dot": lambda x: x.dot(x.isel(i=3)),
    "rows": lambda x: x.isel(i=[3, 1, 29]),
    "rows by labels": lambda x: x.sel(i=[3, 9]),
    "points": lambda x: x.isel(i=xr.DataArray([0, 3, 5], dims="k"), j=xr.DataArray([1, 2, 3], dims="k")),
    "where": lambda x: x.where(x > 100),
    "where, dropped": lambda x: x.where(x.i > 10, drop=True),
    "shift": lambda x: x.shift(i=3),
    "roll": lambda x: x.roll(i=3),
    "pad": lambda x: x.pad(i=1),
    "diff": lambda x: x.diff("j"),
    "rolling": lambda x: x.rolling(i=3).mean(),
    "coarsen": lambda x: x.coarsen(i=3).mean(),
    "groups": lambda x: x.groupby(x.i % 3).mean(),
    "sorted": lambda x: x.sortby("i", ascending=False),
    "stacked": lambda x: x.stack(z=("i", "j")),
    "joined": lambda x: xr.concat([x, x], "i"),
    "cast": lambda x: x.astype(np.float64),
    "a dataset": lambda x: x.to_dataset().mean("j"),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_stay_on_the_buffer(name: str) -> None:
    x = wrapped()
    view = VIEWS[name](x)
    assert isinstance(view.data, sd.LayoutArray)
    assert np.shares_memory(view.data, x.data)
    assert view.identical(VIEWS[name](labelled(VALUES)))


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_those_of_an_ndarray(name: str) -> None:
    got, expected = RESULTS[name](wrapped()), RESULTS[name](labelled(VALUES))
    xr.testing.assert_identical(got, expected)
    if isinstance(got, xr.DataArray):
        assert got.dtype == expected.dtype
        assert isinstance(got.data, np.ndarray)


@pytest.mark.parametrize("method", ["load", "compute", "persist"])
def test_loading_leaves_an_array_as_it_is(method: str) -> None:
    """xarray must not take it for one of dask's."""
    x = wrapped()
    assert x.chunks is None
    assert isinstance(getattr(x, method)().data, sd.LayoutArray)


def test_values() -> None:
    x = wrapped()
    assert type(x.values) is type(x.to_numpy()) is np.ndarray
    assert np.array_equal(x.values, VALUES)
    assert x.isel(i=1, j=3).item() == VALUES[1, 3]
    assert x.to_pandas().shape == x.shape
    assert np.array_equal(x.to_series(), VALUES.ravel())


def test_assignments_reach_the_buffer() -> None:
    x = wrapped()
    a = x.data
    x[{"i": 2}] = -1
    x.loc[{"i": 5}] = np.arange(200)
    x.isel(j=7).data[...] = 9
    assert (a[2, :7] == -1).all()
    assert np.array_equal(a[5, 8:], np.arange(8, 200))
    assert (a[:, 7] == 9).all()


def test_a_deep_copy_keeps_the_layout() -> None:
    x = wrapped()
    copy = x.copy(deep=True)
    copy[{"i": 0}] = -1
    assert str(copy.data.xla_shape) == TILED
    assert np.array_equal(x, VALUES)


def test_representations() -> None:
    x = wrapped()
    assert "LayoutArray([[" in repr(x)
    assert TILED in repr(x)
    line = next(line for line in repr(x.to_dataset()).splitlines() if line.strip().startswith("w "))
    assert line.endswith(f"LayoutArray {TILED}")
    assert len(line) <= 80
    assert TILED in x.to_dataset()._repr_html_()
    assert len(x.data._repr_inline_(20)) <= 20


def test_datasets() -> None:
    a = sd.LayoutArray.from_numpy(VALUES, TILED)
    b = sd.LayoutArray.from_numpy(VALUES > 7, "pred[30,200]{0,1:T(8,128)}")
    data = xr.Dataset({"w": (("i", "j"), a), "large": (("i", "j"), b)})
    part = data.isel(i=slice(3, 8))
    assert all(isinstance(part[name].data, sd.LayoutArray) for name in data)
    assert np.array_equal(part.w.where(part.large, 0), np.where(VALUES > 7, VALUES, 0)[3:8])
    assert data.nbytes == VALUES.nbytes + VALUES.size


def test_files_are_mapped_and_pickled_by_their_path(tmp_path: Path) -> None:
    path = tmp_path / "array.bin"
    sd.LayoutArray.from_numpy(VALUES, TILED).buffer.tofile(path)
    x = labelled(sd.open(path, TILED))
    message = pickle.dumps(x.isel(i=slice(3, 9)))
    assert len(message) < 4096
    again = pickle.loads(message)
    assert again.data.file is not None
    assert again.identical(labelled(VALUES)[3:9])


def test_foreign_types() -> None:
    a = sd.LayoutArray.from_numpy(VALUES, "bf16[30,200]{1,0:T(8,128)(2,1)}")
    x = labelled(a)
    assert x.dtype == a.dtype
    assert np.array_equal((x.isel(i=3) * 2).data, a.to_numpy()[3] * 2)
    assert x.astype(np.float32).mean().item() == pytest.approx(a.to_numpy().astype(np.float32).mean(), rel=1e-6)


def test_chunked_by_dask(tmp_path: Path) -> None:
    pytest.importorskip("dask.array")
    from strided.interop.dask import from_array

    x = labelled(from_array(sd.LayoutArray.from_numpy(VALUES, TILED), chunks=(8, 128)))
    assert x.chunks == ((8, 8, 8, 6), (128, 72))
    xr.testing.assert_allclose(x.mean("i").compute(), labelled(VALUES).mean("i"))
    assert wrapped().chunk({"i": 16}).sum().compute().item() == VALUES.sum()


def test_values_are_the_memory_or_read_only() -> None:
    """What is written to them is never lost without a word."""
    tiled = wrapped().variable
    with pytest.raises(ValueError, match="read-only"):
        tiled.values[0, 0] = 99
    plain = sd.LayoutArray.from_numpy(VALUES, "{0,1}")
    xr.Variable(("i", "j"), plain).values[0, 0] = 99
    assert plain[0, 0] == 99
    tiled[0, 0] = 99
    assert tiled.data[0, 0] == 99


def test_indexers_in_a_layout() -> None:
    """Numbers are taken; of a mask xarray asks for `data`, which only plain strides have."""
    x, mask = wrapped(), VALUES[:, 1] > 100
    rows = sd.LayoutArray.from_numpy(np.array([[3, 1], [29, 1]]), "{1,0:T(2,128)}")[:, 0]
    assert x.isel(i=rows).identical(labelled(VALUES).isel(i=[3, 29]))
    packed = sd.LayoutArray.from_numpy(mask, "{0:E(1)}")
    with pytest.raises(AttributeError, match="to_numpy"):
        x.isel(i=packed)
    assert x.isel(i=np.asarray(packed)).identical(labelled(VALUES).isel(i=mask))
