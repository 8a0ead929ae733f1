"""`.npy` files: every element type comes back as it was, and NumPy reads them too."""

from __future__ import annotations

import io
import pickle
import tracemalloc
import warnings
from pathlib import Path
from typing import Literal

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided.io.npy import npy_header
from strided.layout.element_types import ELEMENT_TYPES
from tests.thinned import thinned

ARRAY_TYPES = [name for name, kind in ELEMENT_TYPES.items() if kind.is_array]


def values_of(name: str, shape: tuple[int, ...]) -> np.ndarray:
    dtype = ELEMENT_TYPES[name].dtype
    assert dtype is not None
    return (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 3).astype(dtype)


def test_views_are_written_as_the_type_that_they_have(tmp_path: Path) -> None:
    path, values = tmp_path / "x.npy", np.arange(6, dtype=np.float64).reshape(2, 3)
    a = sd.LayoutArray.from_numpy(values, "{1,0:T(2,2)}")
    for seen_as in ("i8", "u8", ">f8"):
        sd.save_npy(path, a.view(seen_as))
        loaded = np.load(path)
        assert loaded.dtype == np.dtype(seen_as).newbyteorder("=")
        assert np.array_equal(loaded, values.view(seen_as))
    with pytest.raises(sd.UnsupportedError, match="datetime64"):
        sd.save_npy(path, a.view("M8[s]"))
    assert np.array_equal(np.load(path), values.view(">f8")), "an earlier file stays"


@pytest.mark.parametrize("name", ARRAY_TYPES)
def test_every_type_comes_back(tmp_path: Path, name: str) -> None:
    path, values = tmp_path / "x.npy", values_of(name, (3, 5))
    sd.save_npy(path, sd.LayoutArray.from_numpy(values, "{0,1:T(2,2)}", element_type=name))
    for loaded in (sd.load_npy(path), sd.load_npy(path, mmap_mode="r"), sd.load_npy(path, element_type=name)):
        assert loaded.dtype == values.dtype
        assert loaded.tobytes() == values.tobytes()
    # NumPy skips the comment.
    assert np.load(path).view(values.dtype).tobytes() == values.tobytes()
    assert np.load(path, mmap_mode="r").shape == (3, 5)
    assert path.stat().st_size == 128 + values.nbytes


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,) * 64, (2, 3, 4)], ids=str)
def test_every_shape_comes_back(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path, values = tmp_path / "x.npy", values_of("bf16", shape)
    sd.save_npy(path, values)
    loaded = sd.load_npy(path)
    assert (loaded.shape, loaded.dtype) == (values.shape, values.dtype)
    assert loaded.tobytes() == values.tobytes()


def test_ordinary_types_are_written_as_numpy_writes_them() -> None:
    for name in ("f32", "pred", "c128", "u8"):
        values, buffer = values_of(name, (3, 5)), io.BytesIO()
        np.save(buffer, values)
        assert npy_header(ELEMENT_TYPES[name], (3, 5)) + values.tobytes() == buffer.getvalue()


def test_anything_array_like_is_saved(tmp_path: Path) -> None:
    sd.save_npy(tmp_path / "x.npy", [[1.5, 2], [3, 4]])
    assert np.load(tmp_path / "x.npy").tolist() == [[1.5, 2], [3, 4]]
    array = sd.LayoutArray.from_numpy(np.arange(24, dtype=np.int32).reshape(4, 6), "{0,1:T(2,4)}")
    sd.save_npy(tmp_path / "x.npy", array[1:, ::-2].T)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), np.arange(24).reshape(4, 6)[1:, ::-2].T)


def test_progress_counts_elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strided.io.write_values.BLOCK_BYTES", 100)
    seen: list[int] = []
    sd.save_npy(tmp_path / "x.npy", np.arange(1000, dtype=np.int64).reshape(10, 100), progress=seen.append)
    assert (sum(seen), max(seen)) == (1000, 8)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), np.arange(1000).reshape(10, 100))


def test_files_of_numpy_need_the_name_of_their_type(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, np.array([1, 2, 3], ml_dtypes.bfloat16))
    assert sd.load_npy(path).dtype == np.dtype("V2")
    assert sd.load_npy(path, element_type="bf16").tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="2-byte elements, which cannot be f32"):
        sd.load_npy(path, element_type="f32")
    with pytest.raises(sd.StridedError, match="bf17"):
        sd.load_npy(path, element_type="bf17")


def test_the_one_small_float_that_numpy_names_is_read_as_itself(tmp_path: Path) -> None:
    """NumPy writes float8_e5m2 as ``<f1``, which it cannot read, and no other type so."""
    values = np.array([[1, 2], [-3, np.inf]], ml_dtypes.float8_e5m2)
    np.save(tmp_path / "x.npy", values)
    np.savez(tmp_path / "x.npz", w=values, plain=np.arange(3, dtype=np.int32))
    assert b"<f1" in (tmp_path / "x.npy").read_bytes()[:128]
    for found in (
        sd.load_npy(tmp_path / "x.npy"),
        sd.load_npy(tmp_path / "x.npy", element_type="f8e5m2"),
        sd.load_npy(tmp_path / "x.npy", mmap_mode="r"),
        np.asarray(sd.open(tmp_path / "x.npy")),
        np.asarray(sd.open(f"{tmp_path / 'x.npz'}:w")),
    ):
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found.view(np.uint8), values.view(np.uint8))
    assert sd.open(f"{tmp_path / 'x.npz'}:plain").tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="holds float8_e5m2, not f8e4m3fn"):
        sd.load_npy(tmp_path / "x.npy", element_type="f8e4m3fn")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)], ids=str)
def test_headers_of_every_version(tmp_path: Path, version: tuple[int, int]) -> None:
    path = tmp_path / "x.npy"
    head = b"{'descr': '<V2', 'fortran_order': False, 'shape': (2,), } # bf16\n"
    count = len(head).to_bytes(2 if version == (1, 0) else 4, "little")
    path.write_bytes(b"\x93NUMPY" + bytes(version) + count + head + bytes([0x80, 0x3F, 0x00, 0x40]))
    assert sd.load_npy(path).tolist() == [1, 2]


def test_a_comment_that_names_no_type_is_none(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    path.write_bytes(npy_header(ELEMENT_TYPES["bf16"], (2,)).replace(b"# bf16", b"# f8e5") + bytes(4))
    assert sd.load_npy(path).dtype == np.dtype("V2")


def test_what_is_no_npy_file(tmp_path: Path) -> None:
    for content in (b"", b"\x93NUM", b"HloModule m", pickle.dumps(3)):
        (tmp_path / "x.npy").write_bytes(content)
        with pytest.raises(ValueError, match=r"not a \.npy file"):
            sd.load_npy(tmp_path / "x.npy")
    np.savez(tmp_path / "x.npz", a=np.zeros(3))
    with pytest.raises(ValueError, match=r"strided\.open\('FILE:NAME'\)"):
        sd.load_npy(tmp_path / "x.npz")
    with pytest.raises(FileNotFoundError, match=r"nothing\.npy"):
        sd.load_npy(tmp_path / "nothing.npy")


HOSTILE_HEADERS = [
    b"{'descr': '|V2', 'shape': (",
    b"((((",
    b"'''",
    b"(" * 5000,
    b"-" * 9000 + b"1",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999999,), }",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (100000000000,), }",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
    b"{'descr': '<f4', 'fortran_order': False, 'shape': (2.5,), }",
    b"{'descr': [('a', '<f4', (9999999999,))], 'fortran_order': False, 'shape': (2,), }",
    b"{'descr': 3, 'fortran_order': False, 'shape': (1,), }",
    b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
    b"{[]: 1}",
    b"{'descr': '\\d', 'fortran_order': False, 'shape': (1if 1else 2,), }",
    b"\x00",
    b"x" * 60000,
]


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("mode", thinned([None, "r", "r+", "c"], 2))
@pytest.mark.parametrize("header", HOSTILE_HEADERS, ids=range(len(HOSTILE_HEADERS)))
def test_damaged_headers_are_value_errors_and_nothing_is_allocated(tmp_path, header, mode, version) -> None:
    """NumPy evaluates them as Python and may raise a TokenError, a SyntaxError, an OverflowError, ..."""
    count = len(header).to_bytes(2 if version == 1 else 4, "little")
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY" + bytes((version, 0)) + count + header + bytes(40))
    tracemalloc.start()
    try:
        with pytest.raises(
            ValueError,
            match=r"x\.npy((: | is )(not a \.npy file|a damaged \.npy|a \.npy header of)| holds Python objects)",
        ) as caught:
            sd.load_npy(tmp_path / "x.npy", mmap_mode=mode)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(str(caught.value)) < 500
    assert peak < 1 << 24


@pytest.mark.parametrize("mode", [None, "r"])
@pytest.mark.parametrize("fields", [r"[('\d', '<f4')]", "[('a', '<i2'), ('', '|V2')]"])
def test_records_are_read_as_numpy_does_but_without_its_warnings(
    fields: str, mode: Literal["r"] | None, tmp_path: Path
) -> None:
    head = f"{{'descr': {fields}, 'fortran_order': True, 'shape': (3L,), }}".encode()
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + bytes(range(12)))
    found = sd.load_npy(tmp_path / "x.npy", mmap_mode=mode)
    with warnings.catch_warnings(action="ignore"):
        expected = np.load(tmp_path / "x.npy", mmap_mode=mode)
    assert (type(found), found.dtype, found.tolist()) == (type(expected), expected.dtype, expected.tolist())


@pytest.mark.parametrize("mode", [None, "r"])
def test_names_of_records_are_read_as_their_version_writes_them(mode: Literal["r"] | None, tmp_path: Path) -> None:
    """Version 3 in UTF-8, which NumPy takes only for names that Latin-1 lacks."""
    for name, version in (("\xe9", 1), ("\u4f53", 3)):
        with warnings.catch_warnings(action="ignore"):  # that older versions of NumPy cannot read it
            np.save(tmp_path / "x.npy", np.zeros(3, [(name, "<f4")]))
        assert (tmp_path / "x.npy").read_bytes()[6] == version
        assert sd.load_npy(tmp_path / "x.npy", mmap_mode=mode).dtype.names == (name,)


def test_no_mode_writes_over_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(3))
    with pytest.raises(ValueError, match="mmap_mode must be"):
        sd.load_npy(tmp_path / "x.npy", mmap_mode="w+")  # type: ignore[arg-type]
    assert sd.load_npy(tmp_path / "x.npy").tolist() == [0, 1, 2]


def test_a_type_is_given_only_for_files_that_lack_it(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "big.npy", values.astype(">f4"))
    assert np.array_equal(sd.load_npy(tmp_path / "big.npy", element_type="f32"), values)
    np.save(tmp_path / "half.npy", values.astype(np.float16))
    for name in ("bf16", "s16"):
        with pytest.raises(ValueError, match=f"holds float16, not {name}: leave element_type out"):
            sd.load_npy(tmp_path / "half.npy", element_type=name)
    bits = values.astype(ml_dtypes.bfloat16)
    for seen_as in ("V2", "u2"):
        np.save(tmp_path / "bits.npy", bits.view(seen_as))
        assert np.array_equal(sd.load_npy(tmp_path / "bits.npy", element_type="bf16"), bits)


@pytest.mark.parametrize("mapped", [True, False])
def test_open_takes_the_shape_of_a_file_that_lacks_its_type(tmp_path: Path, mapped: bool) -> None:
    values = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(sd.UnsupportedError, match=r"give its shape, as in bf16\[2, 3\]"):
        sd.open(tmp_path / "x.npy", mapped=mapped)
    assert np.array_equal(sd.open(tmp_path / "x.npy", "bf16[2,3]", mapped=mapped), values)
    for wrong in ("bf16[3,2]", "f32[2,3]", "bf16[2,3]{0,1}"):
        with pytest.raises(sd.LayoutError, match="not"):
            sd.open(tmp_path / "x.npy", wrong, mapped=mapped)
    whole = (tmp_path / "x.npy").read_bytes()
    assert sd.open(tmp_path / "x.npy", f"u8[{len(whole)}]", mapped=mapped).tobytes() == whole, "raw bytes of that size"


def test_masks_are_not_lost(tmp_path: Path) -> None:
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    for write in (sd.save_npy, lambda path, a: sd.save_safetensors(path, {"a": a})):
        with pytest.raises(sd.UnsupportedError, match="no masks"):
            write(tmp_path / "x", masked)
    assert not list(tmp_path.iterdir())


def test_headers_of_python_2_are_read(tmp_path: Path) -> None:
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2L, 3L), }"
    header = b"\x93NUMPY\1\0" + (118).to_bytes(2, "little") + text.ljust(117) + b"\n"
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    (tmp_path / "x.npy").write_bytes(header + values.tobytes())
    np.testing.assert_array_equal(sd.open(tmp_path / "x.npy"), values)
    (tmp_path / "y.npy").write_bytes(header.replace(b"2L, 3L", b"2LL, 3") + values.tobytes())
    with pytest.raises(sd.DumpError, match=r"a damaged \.npy header"):
        sd.open(tmp_path / "y.npy")
