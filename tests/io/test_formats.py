"""What `strided convert` writes is read by the library that the format belongs to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided import cli
from strided.layout.element_types import ELEMENT_TYPES, is_builtin

TYPES = ["f32", "bf16", "f8e4m3fn", "f8e5m2", "s4", "u4", "pred", "s64", "f16", "c64", "f4e2m1fn"]
SIZES = (5, 131)


def values_of(element_type: str) -> np.ndarray:
    dtype = ELEMENT_TYPES[element_type].dtype
    assert dtype is not None
    return (np.arange(np.prod(SIZES)).reshape(SIZES) % 7 - (0 if element_type[0] in "up" else 3)).astype(dtype)


def with_numpy(path: Path, dtype: np.dtype[Any]) -> np.ndarray:
    found: Any = np.load(path)
    found = found["x"] if path.suffix == ".npz" else found
    return found.view(dtype)  # type: ignore[no-any-return]  # |V2 is what NumPy has for bfloat16


def with_fromfile(path: Path, dtype: np.dtype[Any]) -> np.ndarray:
    return np.fromfile(path, np.uint8).view(dtype).reshape(SIZES)


def with_safetensors(path: Path, dtype: np.dtype[Any]) -> np.ndarray:
    library = pytest.importorskip("safetensors")
    if dtype.name.startswith("float8"):  # which the library hands to torch and JAX, and not to NumPy
        [(_, found)] = library.deserialize(path.read_bytes())
        assert found["dtype"] == {"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}[dtype.name]
        return np.frombuffer(found["data"], dtype).reshape(found["shape"])
    found = pytest.importorskip("safetensors.numpy").load_file(path)["x"]
    # What the format has no type for are bytes there.
    return found.view(dtype).reshape(SIZES)  # type: ignore[no-any-return]


def with_zarr(path: Path, dtype: np.dtype[Any]) -> np.ndarray:
    zarr = pytest.importorskip("zarr", minversion="3")
    found = zarr.open_array(path, mode="r")[...]
    return found.astype(dtype) if dtype in (ml_dtypes.int4, ml_dtypes.uint4) else found.view(dtype)  # type: ignore[no-any-return]


@pytest.mark.partners
@pytest.mark.parametrize("element_type", TYPES)
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("x.npy", with_numpy),
        ("x.npz", with_numpy),
        ("x.bin", with_fromfile),
        ("x.safetensors", with_safetensors),
        ("x.zarr", with_zarr),
    ],
)
def test_a_format_is_read_by_its_own_library(
    name: str, read: Callable[[Path, np.dtype[Any]], np.ndarray], element_type: str, tmp_path: Path
) -> None:
    values = values_of(element_type)
    shape = sd.LayoutArray.from_numpy(values, "{0,1:T(8,128)}", element_type=element_type, padding=0)
    shape.buffer.tofile(tmp_path / "x.raw")
    with pytest.raises(SystemExit) as ended:
        cli.main(["convert", str(tmp_path / "x.raw"), str(shape.xla_shape), str(tmp_path / name)])
    assert ended.value.code == 0
    found = read(tmp_path / name, values.dtype)
    assert found.dtype == values.dtype
    assert np.array_equal(found.view(np.uint8) if not is_builtin(values.dtype) else found, bits(values))
    if name != "x.bin":
        again = sd.open(tmp_path / name)
        assert (again.dtype, again.shape) == (values.dtype, values.shape)
        assert np.array_equal(np.asarray(again), values)


def bits(values: np.ndarray) -> np.ndarray:
    return values if is_builtin(values.dtype) else values.view(np.uint8)
