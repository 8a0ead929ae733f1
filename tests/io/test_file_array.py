"""Files that are read in part: raw bytes, .npy files, gzip, pipes; which bytes; files truncated meanwhile."""

from __future__ import annotations

import errno
import gzip
import io
import itertools
import mmap
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided.files import compressed, gzipped, streams
from strided.files.magic import GZIP_MAGIC
from strided.io import file_array, sparse_pages, write_values
from strided.io.containers import open_container
from strided.io.file_array import FileArray, open_file
from strided.io.npy import npy_header, read_npy_header
from strided.io.raw_format import RawFormat
from strided.io.sparse_pages import affordable, blank_array, map_ranges
from strided.layout.element_types import element_type
from strided.planning.plan import Storage
from tests.thinned import thinned

TEXTS = [
    "f32[9,3,141]{2,0,1:T(8,128)}",
    "s4[31,17]{1,0:E(4)}",
    "u2[9,13]{0,1:T(4,8)E(2)}",
    "pred[33,65]{0,1:T(8,128)(4,1)E(1)}",
    "bf16[20,300]{1,0:T(8,128)(2,1)}",
    "c64[2]{0:T(128)M(16)}",
    "c128[3,5]{0,1}",
    "f32[]",
    "f32[0,3]",
    "u8[5,6,7]{0,2,1:T(*,4)}",
    "bf16[24,256]{1,0:T(8,128)(2,1,1,1)}",
    "u8[2,3,2,3,2]{0,2,4,1,3}",
]


def written(path: Path, text: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """Write a file of a shape, with its metadata prefix; returns the values."""
    shape = sd.parse(text)
    values = np.random.default_rng(seed).integers(0, 2, shape.dimensions).astype(shape.dtype)
    array = sd.LayoutArray.from_numpy(values, shape, padding=1)
    path.write_bytes(bytes(shape.layout.dynamic_shape_metadata_prefix_bytes) + array.buffer.tobytes())
    return values


@pytest.fixture(params=[(64 << 20, 256 << 20), (5000, 1 << 15), (1500, 8192)], ids=str)
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_values, "BLOCK_BYTES", request.param[0])
    monkeypatch.setattr(sparse_pages, "BUDGET_BYTES", request.param[1])


# --- which bytes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", TEXTS)
def test_every_byte_of_an_element_is_listed_and_no_other(text: str) -> None:
    shape = sd.parse(text)
    if not shape.dimensions:
        keys: list[Any] = [()]
    else:
        keys = [(), (slice(1, None),), (slice(None, None, 2),), (..., slice(0, 3)), (..., slice(None, None, -1))]
    for key in keys:
        region = sd.LayoutArray(bytes(shape.buffer_byte_size), shape)[key or ...].region
        first = region.map.offsets().reshape(-1) * region.bits
        wanted = {b for bit in first.tolist() for b in range(bit // 8, -(-(bit + region.bits) // 8))}
        found = map_ranges(region.map, Storage(region.bits), 0)
        assert [b for low, high in found.tolist() for b in range(low, high)] == sorted(wanted)
        joined = map_ranges(region.map, Storage(region.bits), 40)
        assert wanted <= {b for low, high in joined.tolist() for b in range(low, high)}
        assert all(low > high + 40 for (_, high), (low, _) in itertools.pairwise(joined))


@pytest.mark.parametrize("text", thinned(TEXTS, 2))
@pytest.mark.usefixtures("small")
def test_conversions_write_what_encoding_does(text: str, tmp_path: Path) -> None:
    source, target = tmp_path / "x.bin", tmp_path / "y.bin"
    values = written(source, text)
    sd.convert_file(source, text, tmp_path / "y.npy")
    np.testing.assert_array_equal(sd.load_npy(tmp_path / "y.npy"), values)
    rank = values.ndim
    tile = {0: "", 1: ":T(4)M(8)"}.get(rank, ":T(4,8)(2,1)")
    orders = {",".join(map(str, order)) for order in (range(rank), reversed(range(rank)))}
    for layout in [str(sd.parse(text).layout), *(f"{{{order}{t}}}" for order in orders for t in ("", tile))]:
        size = sd.convert_file(source, text, target, layout=layout)
        shape = sd.parse(text).with_layout(sd.parse(layout))
        prefix = shape.layout.dynamic_shape_metadata_prefix_bytes
        wanted = bytes(prefix) + sd.LayoutArray.from_numpy(values, shape, padding=0).buffer.tobytes()
        assert target.read_bytes() == wanted
        assert size == len(wanted) == shape.buffer_byte_size


@pytest.mark.parametrize("name", ["x.bin", "x.RAW", "x.dat", "x"])
def test_files_named_so_hold_raw_bytes(tmp_path: Path, name: str) -> None:
    """As `strided convert` writes them."""
    values = np.arange(15, dtype=np.float32).reshape(3, 5)
    sd.save_npy(tmp_path / "in.npy", values)
    assert sd.convert_file(tmp_path / "in.npy", None, tmp_path / name) == values.nbytes
    assert (tmp_path / name).read_bytes() == values.tobytes()


@pytest.mark.parametrize("text", thinned(TEXTS, 5))
@pytest.mark.usefixtures("small")
@pytest.mark.slow
def test_parts_are_read_as_they_are(text: str, tmp_path: Path) -> None:
    values = written(tmp_path / "x.bin", text)
    with (tmp_path / "x.bin").open("rb") as file, open_file(file, "x", text) as array:
        np.testing.assert_array_equal(array.to_numpy(), values)
        np.testing.assert_array_equal(np.asarray(array, np.complex128), values.astype(np.complex128))
        assert str(array) == str(values)
        if not values.ndim or not values.size:
            return
        for key in ((slice(1, None),), (slice(None, None, -2),), (None, ..., 0), (..., slice(1, 2))):
            part = array[key]
            assert isinstance(part, FileArray)
            np.testing.assert_array_equal(part.to_numpy(), values[key])
            np.testing.assert_array_equal(part.read(), values[key])
        last = tuple(-1 for _ in values.shape)
        assert array[last] == values[last]
        for key in ([0, 1], (..., [1, 0, 1]), values == 1, np.array(1)):  # type: ignore[assignment]
            np.testing.assert_array_equal(array[key], values[key])
        with pytest.raises(IndexError, match="out of bounds"):
            array[99]


@pytest.mark.parametrize("kept", ["file", "gzip"])
def test_the_whole_array_is_mapped_behind_its_prefix(kept: str, tmp_path: Path) -> None:
    text = "f64[3,4]{0,1:T(2,2)M(8)}"
    values = np.arange(12.0).reshape(3, 4)
    buffer = bytearray(sd.parse_shape(text).buffer_byte_size + 64)
    sd.LayoutArray(buffer, text, allow_excess=True)[...] = values
    (tmp_path / "x.bin").write_bytes(gzip.compress(buffer) if kept == "gzip" else buffer)
    with (tmp_path / "x.bin").open("rb") as file, open_file(file, "x", text, RawFormat(allow_excess=True)) as array:
        np.testing.assert_array_equal(array.mapped(), values)


@pytest.mark.parametrize("name", ["x.bin.gz", "c.npz"])
def test_a_temporary_file_is_not_opened_again(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On Windows it has a name, by which nobody else can open it."""
    (tmp_path / "x.bin.gz").write_bytes(gzip.compress(bytes(range(12))))
    np.savez_compressed(tmp_path / "c.npz", w=np.arange(12, dtype=np.uint8))
    monkeypatch.setattr(tempfile, "TemporaryFile", tempfile.NamedTemporaryFile)
    monkeypatch.setattr(file_array, "map_array", lambda path, *_, **__: pytest.fail(f"{path} is opened again"))
    with (tmp_path / name).open("rb") as file:
        if name == "c.npz":
            container = open_container(file, name)
            assert container is not None
            with container:
                found = container["w"].mapped()
        else:
            with open_file(file, name, "u8[12]") as array:
                found = array.mapped()
    np.testing.assert_array_equal(found, np.arange(12))


class _PipeOnWindows(io.FileIO):
    """A pipe that says it could go to any byte, as Python does there before 3.16."""

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = 0, /) -> int:
        return 0


@pytest.mark.parametrize("kept", ["raw", "gzip", "npy"])
def test_a_pipe_is_read_as_it_comes_on_windows(kept: str) -> None:
    values = np.arange(12, dtype=np.uint8)
    header = npy_header(element_type("u8"), (12,)) if kept == "npy" else b""
    content = header + values.tobytes()
    reading, writing = os.pipe()
    os.write(writing, gzip.compress(content) if kept == "gzip" else content)
    os.close(writing)
    pipe = io.BufferedReader(_PipeOnWindows(reading))
    with pipe, open_file(pipe, "standard input", None if kept == "npy" else "u8[12]") as array:
        np.testing.assert_array_equal(array.to_numpy(), values)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="asks Linux what is mapped")
def test_no_file_is_mapped(tmp_path: Path) -> None:
    written(tmp_path / "x.bin", "f32[300,500]{1,0:T(8,128)}")
    seen: list[str] = []

    def look(_: int) -> None:
        seen.append(Path("/proc/self/maps").read_text(encoding="utf-8"))

    sd.convert_file(tmp_path / "x.bin", "f32[300,500]{1,0:T(8,128)}", tmp_path / "y.bin", layout="{0,1}", progress=look)
    assert seen
    assert not any(str(tmp_path) in maps for maps in seen)


@pytest.mark.parametrize(
    "text",
    [
        "u8[16384,1]{1,0:T(1,4096)}",
        pytest.param("u8[8192,8192]{0,1}", marks=pytest.mark.slow),
        pytest.param("u8[16384,4096]{0,1:T(8,128)}", marks=pytest.mark.slow),
    ],
)
def test_memory_stays_bounded(text: str, tmp_path: Path) -> None:
    """A source eight times the budget goes through, in a process of its own."""
    script = """
import resource, sys
import strided as sd
from strided.io import sparse_pages, write_values
write_values.BLOCK_BYTES, sparse_pages.BUDGET_BYTES = 1 << 20, 8 << 20
sd.LayoutArray(bytes(1 << 20), "u8[1024,1024]{0,1}").to_layout("{1,0}")
sd.LayoutArray(bytes(1 << 20), "u8[1024,1024]{0,1:T(8,128)}").to_layout("{1,0}")
with open("x.bin", "wb") as file:
    file.truncate(64 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sd.convert_file("x.bin", sys.argv[1], "y.npy")
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> (10 if sys.platform == "darwin" else 0))
"""
    pytest.importorskip("resource")
    command = [sys.executable, "-c", script, text]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) < 48 << 10  # kilobytes


def test_boxes_are_cut_to_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse_pages, "BUDGET_BYTES", 1 << 20)
    array = blank_array(sd.parse("u8[4096,1]{1,0:T(1,4096)}"))
    boxes = list(affordable([(slice(0, 4096), slice(0, 1))], [array]))
    assert [(box[0].start, box[0].stop) for box in boxes] == [(k, k + 256) for k in range(0, 4096, 256)]
    assert list(affordable([(slice(0, 4096), slice(0, 0))], [array])) == [(slice(0, 4096), slice(0, 0))]


# --- files that become shorter ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [None, "{0,1}", "{1,0:T(8,128)}"])
def test_a_source_that_is_truncated_meanwhile_is_an_error(
    layout: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_values, "BLOCK_BYTES", 1 << 16)
    source, target = tmp_path / "x.bin", tmp_path / "y"
    source.write_bytes(bytes(1 << 20))
    with pytest.raises(sd.BufferSizeError, match="was truncated: it has 1000 bytes"):
        sd.convert_file(
            source, "u8[1024,1024]{1,0:T(8,128)}", target, layout=layout, progress=lambda n: os.truncate(source, 1000)
        )
    assert [p.name for p in tmp_path.iterdir()] == ["x.bin"]


@pytest.mark.parametrize("command", thinned(["show", "convert"], 2))
@pytest.mark.slow
def test_another_process_truncates_the_file(command: str, tmp_path: Path) -> None:
    source = tmp_path / "x.bin"
    with source.open("wb") as file:
        file.truncate(1 << 30)
    script = (
        "import contextlib, sys, strided.cli.convert, strided.cli.show, strided.io.write_values\n"
        "import strided.inspect.statistics as s\n"
        "strided.io.write_values.BLOCK_BYTES, s._BLOCK_ELEMENTS = 1 << 20, 1 << 18\n"
        "progress = lambda *_: contextlib.nullcontext(lambda done: print('begun', flush=True))\n"
        "sys.modules['strided.cli.array_output'].progress = sys.modules['strided.cli.show'].progress = progress\n"
        "strided.cli.main(sys.argv[1:])"
    )
    arguments = [command, str(source), "u8[1073741824]", *([str(tmp_path / "y.bin")] if command == "convert" else [])]
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert any(line == "begun\n" for line in process.stdout)
    os.truncate(source, 5)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert err.startswith(f"strided: '{source}' was truncated: it has 5 bytes")
    assert [p.name for p in tmp_path.iterdir()] == ["x.bin"]


def test_open_reads_into_memory_on_demand(tmp_path: Path) -> None:
    path, text = tmp_path / "x.bin", "f32[30,50]{1,0:T(8,128)}"
    values = written(path, text)
    array = sd.open(path, text, mapped=False)
    writable = sd.open(path, text, mode="c", mapped=False)
    os.truncate(path, 0)
    np.testing.assert_array_equal(array, values)
    assert array.file is None
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 5
    writable[0, 0] = 5
    assert writable[0, 0] == 5
    assert path.stat().st_size == 0


def test_open_into_memory_behaves_as_mapped(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"head" + bytes(range(12)) + bytes(5000))
    for options in ({"offset": 4}, {"offset": 4, "mode": "c"}):
        one, other = (sd.open(path, "u8[3,4]", mapped=m, **options) for m in (True, False))  # type: ignore[arg-type]
        assert one.tolist() == other.tolist() == np.arange(12).reshape(3, 4).tolist()
        assert one.excess_bytes == other.excess_bytes == 5000
    for mapped in (True, False):
        with pytest.raises(sd.BufferSizeError, match="too many for padding"):
            sd.open(path, "u8[3,4]", mapped=mapped)
        with pytest.raises(sd.BufferSizeError, match="but the buffer has 5016"):
            sd.open(path, "u8[3000,4]", mapped=mapped)
        with pytest.raises(FileNotFoundError, match="none"):
            sd.open(tmp_path / "none", "u8[3,4]", mapped=mapped)
        assert sd.open(path, "u8[0,4]", mapped=mapped, allow_excess=True).shape == (0, 4)
        assert sd.open(path, "u8[3]", mapped=mapped, allow_excess=True).tolist() == list(b"hea")
        with pytest.raises(ValueError, match="mode"):
            sd.open(path, "u8[3,4]", mode="w+", mapped=mapped, offset=4)
    with pytest.raises(ValueError, match='"r\\+" needs a mapping'):
        sd.open(path, "u8[3,4]", mode="r+", mapped=False, offset=4)
    assert sd.open(path, "c64[2]{0:M(16)}", offset=4, mapped=False).shape == (2,)
    assert sd.open(path, "f32[1]{0:M(8)}", offset=4, mapped=False).tolist() == [
        np.array([8, 9, 10, 11], np.uint8).view(np.float32)[0]
    ]


WRITES: dict[str, Callable[[sd.LayoutArray, sd.LayoutArray], Any]] = {
    "to_layout": lambda a, values: values.to_layout(a.xla_shape, out=a),
    "fill_padding": lambda a, values: a.fill_padding(1),
    "assign": lambda a, values: a.__setitem__(..., values),
    "put": lambda a, values: np.put(a, [1, 2], 3),
    "add": lambda a, values: np.add(values, 1, out=a, where=np.arange(500) % 2 == 0),
}


@pytest.mark.parametrize("name", WRITES)
def test_writing_to_a_file_that_was_truncated_is_an_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    written(path, "f32[300,500]{1,0:T(8,128)}")
    a = sd.open(path, "f32[300,500]{1,0:T(8,128)}", mode="r+")
    values = sd.LayoutArray.from_numpy(np.ones(a.shape, np.float32))
    os.truncate(path, 0)
    with pytest.raises(sd.BufferSizeError, match="truncated"):
        WRITES[name](a, values)


@pytest.mark.parametrize("kind", ["mmap", "memmap", "memoryview"])
def test_memory_that_the_caller_mapped_is_looked_at_too(kind: str, tmp_path: Path) -> None:
    import mmap

    path = tmp_path / "x.bin"
    path.write_bytes(bytes(1 << 16))
    if kind == "memmap":
        buffer: Any = np.memmap(path, np.uint8, "r")
    else:
        with path.open("rb") as file:
            buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        buffer = memoryview(buffer)[4096:] if kind == "memoryview" else buffer
    array = sd.LayoutArray(buffer, "u8[256]", allow_excess=True)
    assert array.file is None
    os.truncate(path, 100)
    for read in (lambda: array[3], array.to_numpy, lambda: np.asarray(array), lambda: array.sum(), lambda: str(array)):
        with pytest.raises(sd.BufferSizeError, match="a mapped file was truncated"):
            read()
    os.truncate(path, 1 << 16)


def test_memory_without_a_file_is_none(tmp_path: Path) -> None:
    import mmap

    array = sd.LayoutArray(mmap.mmap(-1, 4096), "u8[4096]")
    array[5] = 7
    assert array[5] == 7


# --- what a file begins with ------------------------------------------------------------------------------------------

HEADS = {
    "a .npy file": npy_header(sd.layout.element_types.element_type("f64"), (3, 4)),  # type: ignore[attr-defined]
    "gzip data": gzip.compress(bytes(10)),
    "a zip archive": b"PK\x03\x04" + bytes(20),
    "an HDF5 file": b"\x89HDF\r\n\x1a\n" + bytes(20),
    "Zstandard data": b"\x28\xb5\x2f\xfd" + bytes(20),
    "a safetensors file": (64).to_bytes(8, "little") + b'{"a"' + bytes(100),
}


@pytest.mark.parametrize("name", HEADS)
def test_other_formats_are_refused_where_they_are_longer(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(HEADS[name].ljust(224, b"\1"))
    match = f"takes 96 bytes, but the buffer has 224 and begins as {name} does: .* allow_excess=True takes"
    for mapped in (True, False):
        with pytest.raises(sd.BufferSizeError, match=match) as error:
            sd.open(path, "f64[3,4]", mapped=mapped)
        assert error.value.found_format == name
        assert sd.open(path, "f64[3,4]", mapped=mapped, allow_excess=True).shape == (3, 4)
        assert sd.open(path, "u8[224]", mapped=mapped).shape == (224,)
        assert sd.open(path, "f64[3,4]", mapped=mapped, offset=128).shape == (3, 4)
        with pytest.raises(sd.BufferSizeError, match=f"takes 900 bytes, but the buffer has 224 and begins as {name}"):
            sd.open(path, "u8[900]", mapped=mapped)
    with pytest.raises(sd.BufferSizeError, match=match):
        sd.LayoutArray(path.read_bytes(), "f64[3,4]")
    assert sd.LayoutArray(path.read_bytes(), "u8[224]").shape == (224,)


def test_ordinary_bytes_are_no_other_format(tmp_path: Path) -> None:
    for head in (
        bytes(16),
        b"\x1f\x8b\x00",
        b"PK\x05",
        b"\x93NUMPx",
        (500).to_bytes(8, "little") + b"{",
        (99).to_bytes(8, "little"),
    ):
        assert sd.LayoutArray(head.ljust(224, b"\1"), "f64[3,4]").shape == (3, 4)  # rounded up to 512 bytes


# --- .npy and gzip ----------------------------------------------------------------------------------------------------


def forms_of(content: bytes, folder: Path) -> list[Path]:
    """A file plain, and gzipped under a name that does not say so."""
    (folder / "plain").write_bytes(content)
    (folder / "packed").write_bytes(gzip.compress(content))
    return [folder / "plain", folder / "packed"]


@pytest.mark.parametrize("dtype", ["<f8", "|b1", "<c16", "|u1", "bfloat16", "int4"])
@pytest.mark.parametrize("order", "CF")
def test_npy_files_need_no_shape_or_the_right_one(dtype: str, order: str, tmp_path: Path) -> None:
    kind = np.dtype(getattr(ml_dtypes, dtype)) if dtype in ("bfloat16", "int4") else np.dtype(dtype)
    values = (np.arange(12).reshape(3, 4) % 3).astype(kind)
    buffer = io.BytesIO()
    if kind.isbuiltin == 1:
        np.save(buffer, np.asarray(values, order=order))
        content = buffer.getvalue()
    else:
        sd.save_npy(tmp_path / "x.npy", values)
        content = (tmp_path / "x.npy").read_bytes()
        order = "C"
    name = sd.layout.element_types.element_type_of_dtype(kind).name  # type: ignore[attr-defined]
    own = f"{name}[3,4]" + ("{0,1}" if order == "F" else "{1,0}")
    for path in forms_of(content, tmp_path):
        for shape in (None, f"{name}[3,4]", own):
            sd.convert_file(path, shape, tmp_path / "out.npy")
            loaded = sd.load_npy(tmp_path / "out.npy")
            assert loaded.dtype == kind
            np.testing.assert_array_equal(loaded, values)
            sd.convert_file(path, shape, tmp_path / "out.bin", layout="{0,1:T(2,2)}")
            np.testing.assert_array_equal(sd.open(tmp_path / "out.bin", f"{name}[3,4]{{0,1:T(2,2)}}"), values)
        for wrong in (f"{name}[4,3]", "f32[3,4]", f"{name}[3,4]{{1,0:T(2,2)}}"):
            with pytest.raises((sd.LayoutError, sd.BufferSizeError), match=r"holds .*, not|holds more|takes"):
                sd.convert_file(path, wrong, tmp_path / "out.npy")


def test_npy_files_of_numpy_need_the_type(tmp_path: Path) -> None:
    values = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(sd.UnsupportedError, match=r"give its shape, as in bf16\[2, 3\]"):
        sd.convert_file(tmp_path / "x.npy", None, tmp_path / "y.npy")
    sd.convert_file(tmp_path / "x.npy", "bf16[2,3]", tmp_path / "y.npy")
    np.testing.assert_array_equal(sd.load_npy(tmp_path / "y.npy"), values)
    with pytest.raises(sd.LayoutError, match="2-byte elements"):
        sd.convert_file(tmp_path / "x.npy", "f32[2,3]", tmp_path / "y.npy")


@pytest.mark.parametrize("values", [np.zeros(3, "S3"), np.zeros(3, [("a", "f4")]), np.zeros(3, "M8[s]")])
def test_npy_files_of_other_types(values: np.ndarray[Any, Any], tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", values)
    with pytest.raises(sd.UnsupportedError, match="no element type"):
        sd.convert_file(tmp_path / "x.npy", None, tmp_path / "y.npy")


@pytest.mark.parametrize("name", ["i2", "u4", "f8", "c8", "c16"])
def test_values_in_the_byte_order_of_other_machines(name: str, tmp_path: Path) -> None:
    swapped = np.dtype(name).newbyteorder("S")
    values = np.arange(3 * 4 * 500).reshape(3, 4, 500).astype(swapped) * (3 - 2j if name[0] == "c" else 3)
    np.save(tmp_path / "x.npy", values.astype(swapped))
    np.save(tmp_path / "t.npy", values.astype(swapped).T)
    expected = values.astype(name)
    (tmp_path / "x.npy.gz").write_bytes(gzip.compress((tmp_path / "x.npy").read_bytes()))
    for path, wanted in (("x.npy", expected), ("x.npy.gz", expected), ("t.npy", expected.T)):
        with open(tmp_path / path, "rb") as file, open_file(file, path, None) as array:
            assert array.dtype == np.dtype(name)
            for _ in range(2):  # what has been read and swapped is read again
                np.testing.assert_array_equal(array, wanted)
                np.testing.assert_array_equal(array[1, ::2], wanted[1, ::2])
                np.testing.assert_array_equal(array[[0, 2], 1:], wanted[[0, 2], 1:])
                assert array[1, 2, 2] == wanted[1, 2, 2]
            np.testing.assert_array_equal(array.mapped(), wanted)
        sd.convert_file(tmp_path / path, None, tmp_path / "y.npy")
        np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), wanted)
    with pytest.raises(sd.UnsupportedError, match="in the byte order of other machines, and cannot be mapped"):
        sd.open(tmp_path / "x.npy")
    with pytest.raises(sd.UnsupportedError, match="in the byte order of other machines, and cannot be mapped"):
        sd.diff((tmp_path / "x.npy", None), values)


def test_paths_may_be_bytes(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(3))
    sd.convert_file(os.fsencode(tmp_path / "x.npy"), None, os.fsencode(tmp_path / "x.safetensors"))
    assert sd.open(tmp_path / "x.safetensors").shape == (3, 3)
    with pytest.raises(ValueError, match=r"x\.safetensors: not a \.npy file"):
        sd.load_npy(os.fsencode(tmp_path / "x.safetensors"))


def test_raw_bytes_need_a_shape(tmp_path: Path) -> None:
    for path in forms_of(bytes(100), tmp_path):
        with pytest.raises(sd.UnsupportedError, match="give the shape of"):
            sd.convert_file(path, None, tmp_path / "y.npy")
        sd.convert_file(path, "f32[25]", tmp_path / "y.npy")
        assert np.load(tmp_path / "y.npy").shape == (25,)
        sd.convert_file(path, "f32[5]", tmp_path / "y.npy", offset=20)
        assert np.load(tmp_path / "y.npy").shape == (5,)


def test_a_size_that_fits_exactly_is_raw_whatever_it_begins_with(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(12.0).reshape(3, 4))
    raw = (tmp_path / "x.npy").read_bytes()
    for content in (raw, gzip.compress(raw)):
        (tmp_path / "x").write_bytes(content)
        sd.convert_file(tmp_path / "x", f"u8[{len(content)}]", tmp_path / "y.npy")
        assert np.load(tmp_path / "y.npy").tobytes() == content


HEADERS = [
    b"\x93NUMPY\x01\x00",
    b"\x93NUMPY\x04\x00\x10\x00" + b" " * 16,
    b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535,
    b"\x93NUMPY\x01\x00\x10\x00" + b"{" * 10,
    *(
        b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
        for text in (
            b"{" * 16,
            b"(" * 9000,
            b"-" * 9000,
            b"\xff\xfe\x00\x00",
            b"[]",
            b"{}",
            b"{'descr': '<f8', 'fortran_order': 0, 'shape': (3,)}",
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (-3,)}",
            b"{'descr': '<f8', 'fortran_order': False, 'shape': [3]}",
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (True,)}",
            b"{'descr': 'zzz', 'fortran_order': False, 'shape': (3,)}",
            b"{'descr': (3, 'f8'), 'fortran_order': False, 'shape': (3,)}",
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        )
    ),
]


@pytest.mark.parametrize("head", HEADERS, ids=range(len(HEADERS)))
def test_damaged_headers(head: bytes, tmp_path: Path) -> None:
    for path in forms_of(head + bytes(50), tmp_path):
        with pytest.raises(sd.DumpError, match="header"):
            sd.convert_file(path, None, tmp_path / "y.npy")
    assert not (tmp_path / "y.npy").exists()


def test_headers_say_what_numpy_says() -> None:
    for version in ((1, 0), (2, 0), (3, 0)):
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.zeros((3, 4), "<i2", order="F"), version=version)
        buffer.seek(0)
        header = read_npy_header(buffer)
        assert (header.dtype, header.dimensions, header.fortran_order) == (np.dtype("<i2"), (3, 4), True)
        assert header.offset == len(buffer.getvalue()) - 24 == buffer.tell()


def test_a_npy_file_that_is_too_short(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(100.0))
    content = (tmp_path / "x.npy").read_bytes()[:-1]
    for path in forms_of(content, tmp_path):
        with pytest.raises(sd.BufferSizeError, match="takes 800 bytes, but the buffer has 799"):
            sd.convert_file(path, None, tmp_path / "y.npy")


@pytest.mark.slow
def test_gzip_is_expanded_no_further_than_the_shape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousandfold: 64 MiB out of 64 KiB. Counted, not timed."""
    monkeypatch.setattr(streams, "PIECE_BYTES", 1 << 16)
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(bytes(64 << 20)))
    pieces: list[int] = []
    real = gzipped.expanded

    def counted(*arguments: Any) -> Any:
        for piece in real(*arguments):
            pieces.append(len(piece))
            yield piece

    monkeypatch.setitem(compressed._EXPANDERS, GZIP_MAGIC, counted)
    with pytest.raises(sd.BufferSizeError, match="holds more than the 1000 bytes"):
        sd.convert_file(path, "u8[1000]", tmp_path / "y.npy")
    assert 0 < sum(pieces) <= 1 << 17
    sd.convert_file(path, f"u8[{64 << 20}]", tmp_path / "y.npy")
    assert (tmp_path / "y.npy").stat().st_size == 128 + (64 << 20)
    # A header that claims less than there is.
    path.write_bytes(gzip.compress(npy_header(sd.layout.element_types.element_type("u8"), (10,)) + bytes(1 << 24)))  # type: ignore[attr-defined]
    with pytest.raises(sd.BufferSizeError, match="138 bytes that its header says"):
        sd.convert_file(path, None, tmp_path / "y.npy")


def test_there_is_no_ndarray_of_a_file_without_a_copy(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(6))
    with (tmp_path / "x.bin").open("rb") as file, open_file(file, "x", "u8[2,3]") as array:
        assert array.__array__(copy=True).shape == (2, 3)
        with pytest.raises(ValueError, match="no ndarray without a copy"):
            array.__array__(copy=False)


def test_broken_gzip(tmp_path: Path) -> None:
    good = gzip.compress(np.random.default_rng(0).bytes(1000))
    for bad in (good[:-1], good[:-8] + bytes(8), good[:20], good[:50] + b"zz" + good[52:]):
        (tmp_path / "x").write_bytes(bad)
        with pytest.raises(sd.DumpError, match="broken gzip data"):
            sd.convert_file(tmp_path / "x", "u8[1000]", tmp_path / "y.npy")
    assert not (tmp_path / "y.npy").exists()


# --- full disks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [errno.EOPNOTSUPP, errno.EINVAL, None])
def test_files_are_as_long_where_no_room_can_be_reserved(
    error: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not on every file system; and not every system has the call."""

    def refuse(*_: int) -> None:
        assert error is not None
        raise OSError(error, os.strerror(error))

    if error is None:
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    else:
        monkeypatch.setattr(os, "posix_fallocate", refuse, raising=False)
    shape = sd.parse_shape("f32[5,3]{1,0:T(8,128)}")
    values = np.arange(15, dtype=np.float32).reshape(5, 3)
    (tmp_path / "x.bin").write_bytes(values.tobytes())
    sd.convert_file(tmp_path / "x.bin", "f32[5,3]", tmp_path / "y.bin", layout=shape.layout)
    wanted = sd.LayoutArray.from_numpy(values, shape, padding=0).buffer.tobytes()
    assert (tmp_path / "y.bin").read_bytes() == wanted
    with open(tmp_path / "z.bin", "w+b") as file:
        write_values.write_array(file, values, shape, 64)
    assert (tmp_path / "z.bin").read_bytes() == bytes(64) + wanted


@pytest.mark.slow
def test_a_disk_that_fills_up_meanwhile_is_an_error(tmp_path: Path) -> None:
    """Without room reserved beforehand, as on file systems that cannot do it."""
    script = """
import resource, sys
import strided as sd
from strided.io import write_values
sys.dont_write_bytecode = True  # what Python cuts off at the limit, it takes for whole afterwards
write_values._allocate = lambda file, size: None
write_values.BLOCK_BYTES = 1 << 16
def limit(_):
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))
try:
    sd.convert_file("x.bin", "u8[1024,1024]", "y.npy", progress=limit)
except OSError as error:
    print(error.filename, error.strerror)
"""
    (tmp_path / "x.bin").write_bytes(bytes(1 << 20))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "y.npy File too large\n"
    assert [p.name for p in tmp_path.iterdir()] == ["x.bin"]


def test_a_full_disk_for_what_is_expanded_is_named(tmp_path: Path) -> None:
    """Closing the temporary file writes the rest once more, and that error would say nothing."""
    pytest.importorskip("resource")
    script = """
import resource, sys
import strided as sd
sys.dont_write_bytecode = True  # what Python cuts off at the limit, it takes for whole afterwards
resource.setrlimit(resource.RLIMIT_FSIZE, ((3 << 20) + 50, (3 << 20) + 50))
for source, shape in (("x.gz", f"u8[{(3 << 20) + 100}]"), ("x.npz", None)):
    try:
        sd.convert_file(source, shape, "y.npy")
    except OSError as error:
        print(error.filename, error.strerror)
"""
    size = (3 << 20) + 100  # the last bytes wait in a buffer when the others are on disk
    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(size)))
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros(size, np.uint8))
    environment = os.environ | {"TMPDIR": str(tmp_path), "STRIDED_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=environment,
    )
    assert done.stdout == f"{tmp_path} File too large\n" * 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.gz", "x.npz"]


@pytest.mark.parametrize(("size", "offset"), [(1000, 0), (9000, 0), (4096, 1), (4096, 5000)])
@pytest.mark.parametrize("mapped", [True, False])
def test_a_file_of_another_size_is_named(size: int, offset: int, mapped: bool, tmp_path: Path) -> None:
    path, shape = tmp_path / "a\x1b.bin", "f32[8,128]{1,0:T(8,128)}"
    path.write_bytes(bytes(size))
    words = f"^{re.escape(str(tmp_path))}/a\\\\x1b.bin: (offset|f32)"
    for name in (path, os.fsencode(path)):
        with pytest.raises(sd.BufferSizeError, match=words) as found:
            sd.open(name, shape, offset=offset, mapped=mapped)
        assert found.value.actual is not None
    with open(path, "rb") as file, pytest.raises(sd.BufferSizeError, match=words):
        with open_file(file, str(path), shape, RawFormat(offset)):
            pass


@pytest.mark.skipif(os.name == "nt", reason="memory that is never used counts there")
def test_a_file_larger_than_memory_is_read_in_part(tmp_path: Path) -> None:
    with open(tmp_path / "x.bin", "w+b") as file:
        file.truncate(1 << 40)
        file.seek(5 << 20)
        file.write(b"\7")
        with open_file(file, "x.bin", f"u8[{1 << 20},{1 << 20}]") as array:
            assert np.asarray(array[5, :3]).tolist() == [7, 0, 0]
            assert array[-1, -1] == 0


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are limited in another way, or not at all")
def test_addresses_that_are_limited_are_named(tmp_path: Path) -> None:
    """A file is read in parts, but at addresses for all of it."""
    source, target = tmp_path / "a.bin", tmp_path / "b.bin"
    with open(source, "wb") as file:
        file.truncate(1 << 30)  # no byte of it is on the disk
    code = f"""
import resource
import strided as sd
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20), -1))
try:
    sd.convert_file({os.fspath(source)!r}, "s4[32768,65536]{{1,0:E(4)}}", {os.fspath(target)!r}, layout="{{0,1:E(4)}}")
except OSError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert f"no address space for {(1 << 30) + mmap.PAGESIZE:,} bytes" in said
    assert not target.exists()


def test_one_array_of_several_is_converted_by_its_name(tmp_path: Path) -> None:
    source, target = tmp_path / "model.safetensors", tmp_path / "w.npy"
    sd.save_safetensors(source, {"layer/w": np.ones((3, 5), "f4"), "layer/b": np.arange(5.0)})
    with pytest.raises(sd.StridedError, match="holds 2 arrays; name one, as in "):
        sd.convert_file(source, None, target)
    sd.convert_file(f"{source}:layer/b", None, target)
    assert np.load(target).tolist() == list(range(5))
    with pytest.raises(sd.StridedError, match=r"no array is named 'layer/bb'; did you mean layer/b\?"):
        sd.convert_file(f"{source}:layer/bb", None, target)
    for shape in (None, "f64[5]"):
        with pytest.raises(sd.UnsupportedError, match="holds one array, which has no name: leave ':b' out"):
            sd.convert_file(f"{target}:b", shape, tmp_path / "b.bin")


@pytest.mark.parametrize("size", [3_000, 60_000, 2_000_000])
def test_elements_at_indices_of_an_array_that_is_not_read_whole(size: int, tmp_path: Path) -> None:
    """Of swapped bytes only the pages of these elements are in memory."""
    values = np.arange(size, dtype=np.complex128).reshape(-1, 500)
    np.save(tmp_path / "x.npy", values.astype(values.dtype.newbyteorder("S")))
    for key in ([0, 1], [-1], np.s_[:, [3]], np.s_[[0, -1], 1:], np.s_[[0, 1], [5, 6]], np.s_[:, np.arange(60)]):
        with open(tmp_path / "x.npy", "rb") as file, open_file(file, "x.npy", None) as array:
            np.testing.assert_array_equal(array[key], values[key])
