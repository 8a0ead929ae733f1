"""xarray's engine: dump folders, snapshots and raw buffers open as datasets, and are read in part."""

from __future__ import annotations

import pickle
from importlib.metadata import entry_points
from pathlib import Path

import numpy as np
import pytest

import strided as sd
from tests import paths

xr = pytest.importorskip("xarray")

from strided.arrays import layout_array  # noqa: E402
from strided.io import containers  # noqa: E402
from strided.io.convert_file import write_arrays  # noqa: E402
from strided.plugins.xarray import StridedBackend  # noqa: E402

pytestmark = pytest.mark.partners

SHAPE = "f32[40,300]{1,0:T(8,128)}"
VALUES = np.arange(12000, dtype=np.float32).reshape(40, 300)


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "weights.bin"
    sd.LayoutArray.from_numpy(VALUES, SHAPE).buffer.tofile(path)
    return path


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    return paths.unpack_dump(tmp_path / "dump")


def test_raw_bytes_with_a_shape(raw: Path) -> None:
    data = xr.open_dataset(raw, engine=StridedBackend, shape=SHAPE, dims=("i", "j"))
    assert data.sizes == {"i": 40, "j": 300}
    assert data.weights.attrs["xla_shape"] == SHAPE
    assert np.array_equal(data.weights.isel(i=slice(30, 3, -4), j=[1, 299, 5]).values, VALUES[30:3:-4][:, [1, 299, 5]])
    assert np.array_equal(pickle.loads(pickle.dumps(data)).weights.values, VALUES)
    assert "weights_0" in xr.open_dataset(raw, engine=StridedBackend, shape=SHAPE).sizes


def test_chunks_are_whole_tiles(raw: Path) -> None:
    pytest.importorskip("dask")
    data = xr.open_dataset(raw, engine=StridedBackend, shape=SHAPE, dims=("i", "j"), chunks={})
    assert data.weights.encoding["preferred_chunks"] == dict(zip("ij", sd.open(raw, SHAPE).chunk_shape, strict=True))
    assert data.weights.chunks == ((40,), (300,))
    assert float(data.weights.sum().compute()) == VALUES.sum(dtype=np.float64)


def test_a_dump_folder(dump: Path) -> None:
    data = xr.open_dataset(dump, engine=StridedBackend)
    names = list(sd.open_dump(dump))
    assert list(data.data_vars) == names
    for name in names:
        assert np.array_equal(data[name].values, np.asarray(sd.open_dump(dump)[name]))
    assert StridedBackend().guess_can_open(dump)
    without = xr.open_dataset(dump, engine=StridedBackend, drop_variables=names[0])
    assert list(without.data_vars) == names[1:]


def test_a_zarr_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dask")
    monkeypatch.setattr(layout_array, "_CHUNK_BYTES", 8 << 10)
    write_arrays({"layer/w": VALUES, "b": VALUES[0]}, tmp_path / "x.zarr", None, overwrite=False)
    data = xr.open_dataset(tmp_path / "x.zarr", engine=StridedBackend, chunks={})
    assert len(data["layer/w"].chunks[0]) > 1
    assert np.array_equal(data["layer/w"][30:3:-4, 7].values, VALUES[30:3:-4, 7])
    assert data.b.attrs["xla_shape"] == "f32[300]{0}"


def test_files_of_arrays(raw: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", VALUES)
    np.savez(tmp_path / "x.npz", w=VALUES, b=VALUES[0])
    sd.save_safetensors(tmp_path / "x.safetensors", {"layer/w": sd.open(raw, SHAPE)}, "{0,1:T(8,128)}")
    for file, name in (("x.npy", "x"), ("x.npz", "w"), ("x.safetensors", "layer/w")):
        data = xr.open_dataset(tmp_path / file, engine=StridedBackend)
        assert np.array_equal(pickle.loads(pickle.dumps(data))[name][3, 5:9].values, VALUES[3, 5:9])


def test_a_file_is_opened_once_for_all_its_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[object] = []
    header = containers.read_safetensors
    monkeypatch.setattr(containers, "read_safetensors", lambda *given: read.append(given) or header(*given))
    sd.save_safetensors(tmp_path / "x.safetensors", {f"w{k}": VALUES for k in range(5)})
    data = xr.open_dataset(tmp_path / "x.safetensors", engine=StridedBackend)
    assert len(read) == 1
    assert all(np.array_equal(values, VALUES) for values in data.values())


def test_a_snapshot(dump: Path) -> None:
    path = next(dump.glob("*while_loop.snapshot*"))
    data = xr.open_dataset(path, engine=StridedBackend, dims={"argument0": ("row", "column")})
    assert data.argument0.dims == ("row", "column")
    assert list(data.data_vars) == ["argument0", "argument1", "result0", "result1"]
    assert StridedBackend().guess_can_open(path)


def test_other_files_are_left_to_other_engines(tmp_path: Path, raw: Path) -> None:
    backend = StridedBackend()
    assert not backend.guess_can_open(raw)
    assert not backend.guess_can_open(tmp_path)
    assert not backend.guess_can_open(b"bytes")


def test_errors(raw: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="weights has 2 dimensions"):
        xr.open_dataset(raw, engine=StridedBackend, shape=SHAPE, dims=("i",))
    with pytest.raises(sd.BufferSizeError, match="takes 4800000 bytes, but the buffer has 61440"):
        xr.open_dataset(raw, engine=StridedBackend, shape="f32[4000,300]")
    with pytest.raises(sd.UnsupportedError, match="give the shape of"):
        xr.open_dataset(raw, engine=StridedBackend)
    with pytest.raises(FileNotFoundError, match="none"):
        xr.open_dataset(tmp_path / "none", engine=StridedBackend)


def test_the_entry_point_leads_to_the_engine() -> None:
    (found,) = entry_points(group="xarray.backends", name="strided")
    assert found.load() is StridedBackend


def test_unreadable_arrays_can_be_dropped(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=VALUES, s=np.array(["text"]))
    with pytest.raises(sd.UnsupportedError, match=r"x\.npz:s"):
        xr.open_dataset(tmp_path / "x.npz", engine="strided")
    found = xr.open_dataset(tmp_path / "x.npz", engine="strided", drop_variables=["s"])
    assert list(found) == ["a"]
    write_arrays({"a": VALUES, "b": VALUES}, tmp_path / "x.zarr", None, overwrite=False)
    (tmp_path / "x.zarr" / "b" / "zarr.json").write_text(
        (tmp_path / "x.zarr" / "b" / "zarr.json").read_text(encoding="utf-8").replace('"float32"', '"string"'),
        encoding="utf-8",
    )
    found = xr.open_dataset(tmp_path / "x.zarr", engine="strided", drop_variables="b")
    assert np.array_equal(found["a"], VALUES)
