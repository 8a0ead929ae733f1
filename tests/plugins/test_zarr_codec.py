"""zarr's codec: chunks lie in the store as a device has them, and read back as what was written."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import strided as sd

zarr = pytest.importorskip("zarr", minversion="3")

from strided.arrays import layout_array  # noqa: E402
from strided.io.convert_file import write_arrays  # noqa: E402
from strided.io.zarr_writer import storage_dtype  # noqa: E402
from strided.plugins.zarr import NAME, XlaLayoutCodec  # noqa: E402

pytestmark = pytest.mark.partners

TILED = "{1,0:T(8,128)(2,1)}"


@pytest.fixture(autouse=True)
def registered() -> None:
    zarr.registry.register_codec(NAME, XlaLayoutCodec)


def create(path: Path, values: np.ndarray, chunks: tuple[int, ...], codec: XlaLayoutCodec, **options: Any) -> Any:
    array = zarr.create_array(
        path, shape=values.shape, chunks=chunks, dtype=values.dtype, serializer=codec, compressors=None, **options
    )
    array[...] = values
    return array


@pytest.mark.parametrize(
    ("dtype", "layout", "element_type"),
    [
        ("float32", "{1,0:T(8,128)}", None),
        ("float16", TILED, None),
        ("int8", "{0,1:T(8,128)(4,1)}", None),
        ("bool", "{1,0:T(8,128)(4,1)}", None),
        ("uint16", TILED, "bf16"),
        ("uint8", "{1,0:T(8,128)(4,1)}", "f8e4m3fn"),
        ("int8", "{1,0:T(8,128)(8,1)E(4)}", "s4"),
        ("complex64", "{0,1}", None),
        ("uint64", "{1,0:T(2,4)}", None),
        ("float32", "{1,0:T(8,128)M(16)}", None),
        (">f4", "{1,0:T(8,128)}", None),
        (">c16", "{0,1}", None),
        (">i2", TILED, None),
        (">u2", TILED, "bf16"),
    ],
)
def test_values_and_bytes(dtype: str, layout: str, element_type: str | None, tmp_path: Path) -> None:
    values = (np.arange(40 * 300).reshape(40, 300) % 8).astype(dtype)
    create(tmp_path, values, (17, 130), XlaLayoutCodec(layout=layout, element_type=element_type))
    again = zarr.open_array(tmp_path, mode="r")
    assert np.array_equal(again[...], values)
    assert np.array_equal(again[3:30:5, 129:132], values[3:30:5, 129:132])
    # A chunk is the buffer itself.
    name = element_type or sd.LayoutArray.from_numpy(values).xla_shape.element_type
    raw = (tmp_path / "c" / "1" / "1").read_bytes()
    chunk = np.asarray(sd.LayoutArray(raw, f"{name}[17,130]{layout}"))
    wanted = values[17:34, 130:260]
    native = np.dtype(np.dtype(dtype).type)
    same_values = chunk.astype(native) if name == "s4" else chunk.view(native)
    assert np.array_equal(same_values, wanted)


@pytest.mark.parametrize("size", [0, 4095, 4608, 8192])
def test_a_chunk_that_has_not_exactly_its_size_is_refused(size: int, tmp_path: Path) -> None:
    create(tmp_path, np.ones((2048, 8), np.uint16), (1024, 2), XlaLayoutCodec(layout="{0,1}"))
    (tmp_path / "c" / "1" / "1").write_bytes(bytes(size))
    with pytest.raises(sd.BufferSizeError, match=f"a damaged chunk: .* takes 4096 bytes, but the buffer has {size}$"):
        zarr.open_array(tmp_path, mode="r")[...]


def test_the_metadata_names_the_codec(tmp_path: Path) -> None:
    create(tmp_path, np.zeros((8, 8), np.uint16), (8, 8), XlaLayoutCodec(layout=TILED, element_type="bf16"))
    codecs = json.loads((tmp_path / "zarr.json").read_text(encoding="utf-8"))["codecs"]
    assert codecs == [{"name": NAME, "configuration": {"layout": TILED, "element_type": "bf16"}}]
    found = XlaLayoutCodec.from_dict(codecs[0])
    assert found == XlaLayoutCodec(layout=TILED, element_type="bf16")


def test_compressed_and_sharded(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(64, 256)).astype(np.float32)
    array = zarr.create_array(
        tmp_path,
        shape=values.shape,
        chunks=(16, 128),
        shards=(32, 256),
        dtype=values.dtype,
        serializer=XlaLayoutCodec(layout="{0,1:T(8,128)}"),
        compressors=zarr.codecs.GzipCodec(),
    )
    array[...] = values
    assert np.array_equal(zarr.open_array(tmp_path, mode="r")[5:40, 100:], values[5:40, 100:])


def test_a_device_buffer_becomes_a_chunk(tmp_path: Path) -> None:
    """The bytes of a dump are put into a store as they are."""
    values = np.arange(17 * 300).reshape(17, 300).astype(ml_dtypes.bfloat16)
    dump = sd.LayoutArray.from_numpy(values, TILED, padding=-1).buffer
    empty = np.zeros((17, 300), np.uint16)
    create(tmp_path, empty, (17, 300), XlaLayoutCodec(layout=TILED, element_type="bf16"))
    (tmp_path / "c" / "0").mkdir(parents=True, exist_ok=True)
    (tmp_path / "c" / "0" / "0").write_bytes(dump.tobytes())
    assert np.array_equal(zarr.open_array(tmp_path, mode="r")[...].view(ml_dtypes.bfloat16), values)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layout": "{1,0:T(8,128)"}, "xla_layout"),
        ({"layout": "{0}"}, "xla_layout"),
        ({"layout": "{1,0}", "element_type": "s64"}, "s64 takes 8 bytes"),
        ({"layout": "{1,0}", "element_type": "float99"}, "no element type"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    options: dict[str, str], words: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=words):
        create(tmp_path, np.zeros((8, 8), np.float32), (8, 8), XlaLayoutCodec(**options))
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("given", [{}, {"layout": "{0}", "speed": 1}])
def test_unknown_configurations(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="takes layout and, optionally, element_type"):
        XlaLayoutCodec.from_dict({"name": NAME, "configuration": given})


def test_a_truncated_chunk_is_an_error(tmp_path: Path) -> None:
    create(tmp_path, np.ones((8, 128), np.float32), (8, 128), XlaLayoutCodec(layout="{1,0:T(8,128)}"))
    place = tmp_path / "c" / "0" / "0"
    place.write_bytes(place.read_bytes()[:100])
    with pytest.raises(sd.BufferSizeError, match="takes 4096 bytes"):
        zarr.open_array(tmp_path, mode="r")[...]


@pytest.mark.parametrize("element_type", ["f32", "bf16", "f8e4m3fn", "s4", "u2", "pred", "c64", "f4e2m1fn"])
@pytest.mark.parametrize("layout", [None, "{0,1:T(8,128)}", "{1,0:T(8,128)(4,1)}"])
def test_what_convert_writes_is_read_by_zarr(
    element_type: str, layout: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout_array, "_CHUNK_BYTES", 4 << 10)
    dtype = sd.parse_shape(f"{element_type}[1]").dtype
    values = (np.arange(40 * 300).reshape(40, 300) % 3 - 1).astype(np.int8)
    values = (abs(values) if element_type in ("u2", "pred") else values).astype(dtype)
    write_arrays({"a/w": values, "b": values[:3]}, tmp_path / "x.zarr", layout, overwrite=False)
    group = zarr.open_group(tmp_path / "x.zarr", mode="r")
    for name, wanted in (("a/w", values), ("b", values[:3])):
        array = group[name]
        assert array.dtype == storage_dtype(element_type)
        assert array.attrs.get("xla_element_type", element_type) == element_type
        found = array[...]
        same_values = element_type in ("s4", "u2")
        assert np.array_equal(found, wanted.astype(found.dtype) if same_values else wanted.view(found.dtype))
        assert np.array_equal(np.asarray(sd.open(f"{tmp_path}/x.zarr:{name}")), wanted)
    assert group["a/w"].nchunks > 1


def test_values_that_the_type_has_not_are_refused(tmp_path: Path) -> None:
    array = create(tmp_path, np.array([-8, 7], np.int8), (2,), XlaLayoutCodec(layout="{0}", element_type="s4"))
    with pytest.raises(ValueError, match="int4 cannot hold all values, from -8 to 100"):
        array[1] = 100
    assert array[...].tolist() == [-8, 7]


@pytest.mark.parametrize(("dtype", "element_type"), [(">f4", None), (">u2", "bf16"), ("<i1", "s4"), ("<u2", "bf16")])
def test_one_element(dtype: str, element_type: str | None, tmp_path: Path) -> None:
    values = np.array(3, dtype)
    create(tmp_path, values, (), XlaLayoutCodec(layout="{}", element_type=element_type))
    assert zarr.open_array(tmp_path, mode="r")[...] == values
    assert np.asarray(sd.open(tmp_path)).tobytes() == np.array(3, np.dtype(dtype).newbyteorder("=")).tobytes()


def test_what_zarr_writes_is_opened(tmp_path: Path) -> None:
    values = np.arange(40 * 300, dtype=np.float32).reshape(40, 300)
    create(tmp_path / "x.zarr", values, (17, 130), XlaLayoutCodec(layout="{1,0:T(8,128)}"))
    found = sd.open(tmp_path / "x.zarr")
    assert np.array_equal(found[3:30:5, 129:132], values[3:30:5, 129:132])
    zarr.create_array(tmp_path / "y.zarr", data=values)  # compressed, as zarr does by itself
    with pytest.raises(sd.UnsupportedError, match="zarr reads them"):
        sd.open(tmp_path / "y.zarr")


def test_the_entry_point_leads_to_the_codec() -> None:
    (found,) = entry_points(group="zarr.codecs", name=NAME)
    assert found.load() is XlaLayoutCodec
