"""Safetensors: what is written is read back, here and by the library; damaged headers are refused."""

from __future__ import annotations

import io
import json
import os
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided.io import safetensors, write_values
from strided.io.safetensors import read_safetensors, safetensors_header
from strided.layout.element_types import ELEMENT_TYPES

TYPES = [name for name, kind in ELEMENT_TYPES.items() if kind.is_array]


def values_of(name: str, shape: tuple[int, ...] = (3, 5)) -> np.ndarray[Any, Any]:
    kind = ELEMENT_TYPES[name]
    return np.random.default_rng(1).integers(0, 2, shape).astype(kind.dtype)


def file_of(header: Any, data: bytes = b"", length: int | None = None) -> io.BytesIO:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return io.BytesIO(struct.pack("<Q", len(text) if length is None else length) + text + data)


@pytest.mark.parametrize("layout", [None, "{0,1:T(2,4)}"])
@pytest.mark.parametrize("name", TYPES)
def test_every_type_comes_back(name: str, layout: str | None, tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    values = values_of(name)
    sd.save_safetensors(path, {"a": values, "b": values[:0]}, layout)
    array = sd.open(f"{path}:a")
    assert array.dtype == values.dtype
    assert array.xla_shape == sd.Shape(name, (3, 5)).with_layout(sd.parse_layout(layout or "{1,0}"))
    assert array.tobytes() == values.tobytes()
    assert sd.open(f"{path}:b").shape == (0, 5)


@pytest.mark.partners
def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors")
    path = tmp_path / "x.safetensors"
    arrays = {name: values_of(name) for name in TYPES} | {"naïve/0 \n": np.zeros((0, 3)), "scalar": np.float32(2)}
    sd.save_safetensors(path, arrays)
    found = dict(library.deserialize(path.read_bytes()))
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        assert bytes(found[name]["data"]) == np.asarray(array).tobytes()
    assert (found["bf16"]["dtype"], found["f8e4m3fn"]["dtype"], found["s4"]["dtype"]) == ("BF16", "F8_E4M3", "U8")
    assert found["pred"] | {"data": b""} == {"dtype": "BOOL", "shape": [3, 5], "data": b""}


@pytest.mark.partners
def test_what_the_library_writes_is_read(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "x.safetensors"
    arrays = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.arange(3).astype(ml_dtypes.bfloat16)}
    library.save_file(arrays, path, metadata={"format": "np"})
    for name, array in arrays.items():
        found = sd.open(f"{path}:{name}")
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


def test_packed_f4_is_read() -> None:
    entry = {"dtype": "F4", "shape": [1, 4], "data_offsets": [0, 2]}
    [tensor] = read_safetensors(file_of({"x": entry}, b"ab")).values()
    assert str(tensor.shape) == "f4e2m1fn[1,4]{1,0:E(4)}"


@pytest.mark.partners
def test_what_is_written_packed_is_f4_to_the_library(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors")
    path = tmp_path / "x.safetensors"
    values = np.array([[0.5, -1, 2, 6], [0, 1, -3, 4]]).astype(ml_dtypes.float4_e2m1fn)
    sd.save_safetensors(path, {"x": values}, "{1,0:E(4)}")
    [(_, found)] = library.deserialize(path.read_bytes())
    assert (found["dtype"], found["shape"]) == ("F4", [2, 4])
    assert np.array_equal(sd.open(path), values)
    sd.save_safetensors(path, {"x": values[0, :3]}, "{0:E(4)}")  # half a byte more is none of the format's
    [(_, found)] = library.deserialize(path.read_bytes())
    assert found["dtype"] == "U8"
    assert np.array_equal(sd.open(path), values[0, :3])


@pytest.mark.partners
@pytest.mark.parametrize(
    ("dtype", "found"),
    [
        ("float4_e2m1fn_x2", "f4e2m1fn[2,16]{1,0:E(4)}"),
        ("float8_e8m0fnu", "f8e8m0fnu[2,8]{1,0}"),
        ("float8_e5m2fnuz", "f8e5m2fnuz[2,8]{1,0}"),
        ("complex64", "c64[2,8]{1,0}"),
        ("bool", "pred[2,8]{1,0}"),
        ("uint64", "u64[2,8]{1,0}"),
    ],
)
def test_types_that_the_library_writes(dtype: str, found: str, tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors", minversion="0.8")
    content = np.zeros(sd.parse_shape(found).byte_size, np.uint8)
    spec = library.TensorSpec(dtype=dtype, shape=[2, 8], data_ptr=content.ctypes.data, data_len=content.size)
    (tmp_path / "x.safetensors").write_bytes(library.serialize({"x": spec}))
    assert str(sd.open(tmp_path / "x.safetensors").xla_shape) == found


def test_a_type_that_xla_lacks_leaves_the_others_readable(tmp_path: Path) -> None:
    six, good = {"dtype": "F6_E2M3", "shape": [4], "data_offsets": [0, 3]}, GOOD | {"data_offsets": [3, 5]}
    path = tmp_path / "x.safetensors"
    path.write_bytes(file_of({"six": six, "good": good}, bytes(5)).getvalue())
    assert sd.open(f"{path}:good").size
    with pytest.raises(sd.UnsupportedError, match="six holds F6_E2M3, which XLA has no element type for"):
        sd.open(f"{path}:six")


def test_arrays_lie_at_multiples_of_their_elements(tmp_path: Path) -> None:
    shapes = {"a": sd.parse("u8[3]"), "b": sd.parse("f64[2]"), "c": sd.parse("bf16[5]")}
    header, places = safetensors_header(shapes)
    assert len(header) % 8 == 0
    assert [places[name] % shapes[name].dtype.itemsize for name in shapes] == [0, 0, 0]
    assert list(places.values()) == sorted(places.values())


def test_a_large_array_goes_through_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_values, "BLOCK_BYTES", 5000)
    values = np.random.default_rng(0).standard_normal((37, 3, 211)).astype(np.float32)
    array = sd.LayoutArray.from_numpy(values, "{2,0,1:T(8,128)}")
    done: list[int] = []
    for layout in (None, "{0,1,2:T(8,128)}"):
        sd.save_safetensors(tmp_path / "x.safetensors", {"x": array, "y": values}, layout, progress=done.append)
        for name in ("x", "y"):
            np.testing.assert_array_equal(sd.open(f"{tmp_path}/x.safetensors:{name}"), values)
    assert sum(done) == 4 * values.size
    assert max(done) * 4 <= 5000


def test_assignments_go_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    sd.save_safetensors(path, {"x": np.zeros((2, 3), np.float32)}, "{0,1:T(2,4)}")
    sd.open(path, mode="r+")[1, 2] = 5
    assert sd.open(path, mapped=False).tolist() == [[0, 0, 0], [0, 0, 5]]


@pytest.mark.parametrize(
    ("name", "message"), [("__metadata__", "can be called __metadata__"), ("\ud800", "ud800' is no text")]
)
def test_names_that_cannot_be_written(name: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(sd.UnsupportedError, match=message):
        sd.save_safetensors(tmp_path / "x.safetensors", {name: np.zeros(3)})
    assert not list(tmp_path.iterdir())


GOOD = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"[]", "does not begin with the length of a header"),
        (b"{", "does not begin"),
        (b"{]", "damaged header"),
        (b'{"x": \xff}', "damaged header"),
        (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "damaged header"),
        (b'{"x": {"dtype": "U8", "shape": [' + b"9" * 5000 + b'], "data_offsets": [0, 2]}}', "damaged header"),
        (b'{"x": {}, "x": {}}', "twice"),
        (b'{"\\ud800": {}}', "damaged header"),
        ({"x": []}, "must have exactly dtype"),
        ({"x": GOOD | {"more": 1}}, "must have exactly dtype"),
        ({"x": GOOD | {"shape": [True, 2]}}, "are invalid"),
        ({"x": GOOD | {"shape": [2.0]}}, "are invalid"),
        ({"x": GOOD | {"shape": [-1, -2]}}, "are invalid"),
        ({"x": GOOD | {"shape": 2}}, "are invalid"),
        ({"x": GOOD | {"shape": [1] * 64 + [2]}}, "65 dimensions"),
        ({"x": GOOD | {"shape": [3]}}, "which do not fit U8"),
        ({"x": GOOD | {"shape": [2] + [2**62] * 3}}, "which do not fit U8"),
        ({"x": GOOD | {"shape": [0, 2**62, 2**62], "data_offsets": [0, 0]}}, "take 0 of the 2"),
        ({"x": GOOD | {"data_offsets": [2, 0]}}, "are invalid"),
        ({"x": GOOD | {"data_offsets": [0, 1, 2]}}, "are invalid"),
        ({"x": GOOD | {"data_offsets": [1, 3]}}, "leave a gap"),
        ({"x": GOOD, "y": GOOD}, "overlap"),
        (
            {"x": GOOD | {"shape": [3], "data_offsets": [0, 3]}},
            "^x.safetensors: truncated: the tensors take 3 bytes after the header, of which the file has 2$",
        ),
        ({"x": GOOD | {"shape": [1], "data_offsets": [0, 1]}}, "take 1 of the 2"),
        (
            {"x": GOOD | {"shape": [2**60], "data_offsets": [0, 2**60]}},
            "truncated: the tensors take 1152921504606846976 bytes",
        ),
        ({"x": GOOD | {"dtype": []}}, "which is no string"),
        ({"__metadata__": {"a": 1}, "x": GOOD}, "no object of strings"),
        ({"__metadata__": [], "x": GOOD}, "no object of strings"),
        ({"__metadata__": {"xla_shape:x": "f32[3]"}, "x": GOOD}, "which do not fit f32"),
        ({"__metadata__": {"xla_shape:x": "f32[3"}, "x": GOOD}, "damaged header"),
        ({"__metadata__": {"xla_shape:x": "token[]"}, "x": GOOD}, "damaged header"),
        ({"__metadata__": {"xla_shape:x": "(u8[2])"}, "x": GOOD}, "damaged header"),
    ],
)
def test_damaged_headers_are_refused(header: Any, words: str) -> None:
    with pytest.raises(sd.DumpError, match=words) as refused:
        read_safetensors(file_of(header, b"ab"), "x.safetensors")
    assert len(str(refused.value)) < 400


def test_a_header_beyond_the_file_or_the_limit_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(sd.DumpError, match=r"a header of 1152921504606846976 bytes, but only \d+ follow"):
        read_safetensors(file_of({"x": GOOD}, b"ab", length=1 << 60))
    with pytest.raises(sd.DumpError, match="does not begin"):
        read_safetensors(io.BytesIO(b"{"))
    monkeypatch.setattr(safetensors, "LONGEST_HEADER", 10)
    with pytest.raises(sd.DumpError, match="at most 10 are read"):
        read_safetensors(file_of({"x": GOOD}, b"ab"))


def test_every_change_of_a_byte_is_read_or_refused(tmp_path: Path) -> None:
    sd.save_safetensors(tmp_path / "x.safetensors", {"a": values_of("s4"), "b": values_of("f32")})
    content = (tmp_path / "x.safetensors").read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for place in range(8, len(content) - 75):
        changed = bytearray(content)
        changed[place] = rng.integers(256)
        try:
            read_safetensors(io.BytesIO(bytes(changed)))
        except sd.DumpError:
            refused += 1
    assert refused > 50
    for size in range(len(content)):
        with pytest.raises(
            sd.DumpError,
            match=r"^(not a safetensors file: |a header of \d+ bytes, but|truncated: the tensors take \d+ bytes)",
        ):
            read_safetensors(io.BytesIO(content[:size]))


def test_a_full_disk_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.safetensors"
    sd.save_safetensors(path, {"x": np.arange(3)})
    before = path.read_bytes()

    def full(file: Any, size: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(write_values, "_allocate", full)
    with pytest.raises(OSError, match="No space"):
        sd.save_safetensors(path, {"x": np.arange(3), "y": np.arange(4)})
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]


@pytest.mark.parametrize("key", [..., slice(None, None, -1)], ids=repr)
def test_sizes_of_views_are_fixed(key: object, tmp_path: Path) -> None:
    """As in `to_layout`: the dimensions that may be smaller are those of the whole array, in its order."""
    a = sd.LayoutArray.from_numpy(np.eye(5, 5, 1, np.float32), sd.parse_shape("f32[<=5,5]{1,0:T(2,4)}"))
    path = tmp_path / "w.safetensors"
    for array, dynamic in ((a, (True, False)), (a.T[key], (False, False))):
        sd.save_safetensors(path, {"w": array})
        found = sd.open(path)
        assert found.xla_shape.dynamic == dynamic
        assert np.array_equal(found, array)
