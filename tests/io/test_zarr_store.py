"""Stores of zarr's version 3: what is written is read again, chunk by chunk, and whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import pickle
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided import cli
from strided.arrays import layout_array
from strided.io import zarr_writer
from strided.io.convert_file import write_arrays
from strided.io.zarr_store import ZarrArray, ZarrStore

VALUES = (np.arange(40 * 300) % 251).astype(np.float32).reshape(40, 300)
TILED = "{1,0:T(8,128)(2,1)}"


@pytest.fixture
def chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout_array, "_CHUNK_BYTES", 8 << 10)


def write(path: Path, layout: str | None = None, overwrite: bool = False, **arrays: Any) -> int:
    return write_arrays(arrays, path, layout, overwrite=overwrite)


@pytest.mark.parametrize("layout", [None, TILED, "{0,1:T(8,128)}"])
def test_an_array_of_many_chunks(layout: str | None, tmp_path: Path, chunks: None) -> None:
    values = VALUES.astype(ml_dtypes.bfloat16)
    size = write(tmp_path / "x.zarr", layout, x=values)
    found = sd.open(tmp_path / "x.zarr")
    assert isinstance(found, ZarrArray)
    assert len(list((tmp_path / "x.zarr" / "c").rglob("*"))) > 3
    assert size == sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file())
    assert found.xla_shape == sd.parse_shape(f"bf16[40,300]{layout or '{1,0}'}")
    chunk = list(found.chunk_shape)
    assert repr(found) == f"<ZarrArray {found.xla_shape} in {str(tmp_path / 'x.zarr')!r}, chunks of {chunk}>"
    for key in (..., 39, (7, 299), slice(30, 3, -4), (slice(5, 20), slice(100, 200, 3)), ([1, 39], [299, 0])):
        assert np.array_equal(found[key], values[key])
    assert np.array_equal(pickle.loads(pickle.dumps(found)).to_numpy(), values)
    with pytest.raises(sd.UnsupportedError, match="several chunks"):
        sd.open(tmp_path / "x.zarr", mode="r+")


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        (None, "c/{}/{}"),
        ({"name": "default"}, "c/{}/{}"),
        ({"name": "default", "configuration": {"separator": "."}}, "c.{}.{}"),
        ({"name": "v2"}, "{}.{}"),
        ({"name": "v2", "configuration": {"separator": "/"}}, "{}/{}"),
    ],
)
def test_chunks_are_found_by_the_names_that_a_store_gives_them(
    encoding: dict[str, Any] | None, name: str, tmp_path: Path, chunks: None
) -> None:
    write(tmp_path / "x.zarr", x=VALUES)
    (tmp_path / "x.zarr" / "c").rename(tmp_path / "written")
    for path in (tmp_path / "written").rglob("*"):
        if path.is_file():
            target = tmp_path / "x.zarr" / name.format(*path.relative_to(tmp_path / "written").parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
    metadata = tmp_path / "x.zarr" / "zarr.json"
    changed = json.loads(metadata.read_bytes()) | {"chunk_key_encoding": encoding}
    metadata.write_text(json.dumps({key: value for key, value in changed.items() if value is not None}))
    assert np.array_equal(sd.open(tmp_path / "x.zarr").to_numpy(), VALUES)


def test_one_chunk_is_mapped_as_the_device_has_it(tmp_path: Path) -> None:
    array = sd.LayoutArray.from_numpy(VALUES[:17], f"bf16[17,300]{TILED}")
    write(tmp_path / "x.zarr", TILED, x=array)
    assert (tmp_path / "x.zarr" / "c" / "0" / "0").read_bytes() == array.buffer.tobytes()
    found = sd.open(f"{tmp_path}/x.zarr:x", mode="r+")
    assert found.xla_shape == array.xla_shape
    found[3, 4] = 7
    assert float(sd.open(tmp_path / "x.zarr")[3, 4]) == 7


def test_chunks_have_the_prefix_of_their_layout(tmp_path: Path, chunks: None) -> None:
    write(tmp_path / "x.zarr", "{1,0:T(8,128)M(16)}", x=VALUES)
    assert np.array_equal(sd.open(tmp_path / "x.zarr"), VALUES)


def test_several_arrays_make_groups(tmp_path: Path) -> None:
    arrays = {"layer/w": VALUES, "layer/b": np.arange(3), "q": np.arange(-8, 8).astype(ml_dtypes.int4)}
    path = tmp_path / "x.zarr"
    write(path, **arrays)
    store = ZarrStore(str(path))
    assert sorted(store) == ["layer/b", "layer/w", "q"]
    for name, values in arrays.items():
        assert np.array_equal(np.asarray(sd.open(f"{path}:{name}")), values)
    assert sorted(ZarrStore(f"{path}/layer")) == ["b", "w"]
    with pytest.raises(sd.StridedError, match="holds 3 arrays; name one"):
        sd.open(path)


@pytest.mark.parametrize("values", [np.float32(3), np.zeros((0, 3), np.complex64), np.array([True, False])])
def test_small_arrays(values: Any, tmp_path: Path) -> None:
    write(tmp_path / "x.zarr", x=np.asarray(values))
    found = np.asarray(sd.open(tmp_path / "x.zarr"))
    assert (found.dtype, found.shape, found.tolist()) == (values.dtype, values.shape, values.tolist())


def test_chunks_that_are_missing_are_zero(tmp_path: Path, chunks: None) -> None:
    write(tmp_path / "x.zarr", TILED, x=VALUES)
    missing = tmp_path / "x.zarr" / "c" / "0" / "1"
    missing.unlink()
    found, wanted = sd.open(tmp_path / "x.zarr"), VALUES.copy()
    wanted[: found.chunk_shape[0], found.chunk_shape[1] : 2 * found.chunk_shape[1]] = 0
    assert np.array_equal(found[...], wanted)


def test_chunks_are_found_from_another_working_directory(
    tmp_path: Path, chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they would all be missing, that is, zero."""
    write(tmp_path / "x.zarr", x=VALUES)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    found = sd.open("x.zarr")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert np.array_equal(found, VALUES)
    assert np.array_equal(pickle.loads(pickle.dumps(found)), VALUES)


def test_a_store_that_is_gone_is_not_zero(tmp_path: Path, chunks: None) -> None:
    write(tmp_path / "x.zarr", x=VALUES)
    found = sd.open(tmp_path / "x.zarr")
    os.rename(tmp_path / "x.zarr", tmp_path / "y.zarr")
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "x.zarr"))):
        found[0, 0]
    os.rename(tmp_path / "y.zarr", tmp_path / "x.zarr")
    assert found[0, 1] == VALUES[0, 1]


def test_a_store_that_takes_the_place_of_another(tmp_path: Path, chunks: None) -> None:
    path = tmp_path / "x.zarr"
    write(path, "{1,0:T(8,128)}", x=VALUES)
    found = sd.open(path)
    write(path, "{1,0:T(8,128)}", overwrite=True, x=-VALUES)
    assert np.array_equal(found, -VALUES)  # described alike
    for layout, other in (("{0,1:T(8,128)}", VALUES), (None, VALUES), ("{1,0:T(8,128)}", VALUES.astype(np.int32))):
        write(path, layout, overwrite=True, x=other)
        with pytest.raises(sd.DumpError, match="replaced since it was opened"):
            found[0, 0]
    write(path, "{1,0:T(8,128)}", overwrite=True, x=VALUES)
    assert np.array_equal(found, VALUES)


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_a_store_that_holds_the_source_stays(link: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    write(path, x=VALUES[0])
    chunk = source = path / "c" / "0"
    if link is not None:
        source = tmp_path / "other"
        link(chunk, source)
    with pytest.raises(OSError, match=re.escape(f"{chunk}, which is a source, lies in the target: ")):
        sd.convert_file(source, "f32[300]", path, layout="{0:T(128)}")
    assert np.array_equal(sd.open(path), VALUES[0])


@pytest.mark.parametrize("inside", ["c/0", "new.npy", "new.zarr"])
def test_a_store_that_is_the_source_stays(inside: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.zarr"
    write(path, x=VALUES[0])
    how = [] if inside.endswith(".npy") else ["--to", "{0:T(128)}"]
    with pytest.raises(SystemExit):
        cli.main(["convert", "--force", *how, str(path), str(path / inside)])
    assert "the target lies in the source" in capsys.readouterr().err
    assert np.array_equal(sd.open(path), VALUES[0])


@pytest.mark.parametrize("name", ["../x", "a//b", "", ".", "a/zarr.json", "w/inner"])
def test_names_that_no_store_can_hold(name: str, tmp_path: Path) -> None:
    with pytest.raises(sd.UnsupportedError, match=r"can be called|would lie inside another"):
        write(tmp_path / "x.zarr", **{"w": VALUES, name: VALUES})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["..\\x", "a/..\\..\\x", "C:", "C:x", "\\x", "a\\b", "a<b", "a?/b", "w:0", "x.", "a /x", "NUL", "com1.x/a"]
)
def test_names_that_are_none_on_windows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some would lead out of the store, some would be cut short."""
    if sys.platform != "win32":
        write(tmp_path / "x.zarr", w=VALUES, **{name: VALUES})
        assert {*ZarrStore(str(tmp_path / "x.zarr"))} == {name, "w"}
        shutil.rmtree(tmp_path / "x.zarr")
    monkeypatch.setattr(zarr_writer, "sys", SimpleNamespace(platform="win32"))
    with pytest.raises(sd.UnsupportedError, match=f"can be called {re.escape(repr(name))} on Windows"):
        write(tmp_path / "x.zarr", w=VALUES, **{name: VALUES})
    assert list(tmp_path.iterdir()) == []


def test_names_that_a_file_system_takes_for_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of macOS and Windows do, where letters differ in case alone."""
    seen, real = set(), os.mkdir

    def mkdir(path: str, *arguments: Any) -> None:
        if os.fspath(path).lower() in seen:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        seen.add(os.fspath(path).lower())
        real(path, *arguments)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(sd.UnsupportedError, match="'w' has the same name as another array"):
        write(tmp_path / "x.zarr", w=VALUES, W=VALUES)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("separator", ["/", "\\"])
def test_a_slash_behind_a_store_is_of_no_matter(
    separator: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Windows it is not the usual one."""
    monkeypatch.setattr(os, "sep", separator)
    np.save(tmp_path / "x.npy", VALUES)
    sd.convert_file(tmp_path / "x.npy", None, f"{tmp_path}/x.zarr/")
    assert np.array_equal(sd.open(tmp_path / "x.zarr"), VALUES)
    with pytest.raises(SystemExit) as ended:
        cli.main(["convert", str(tmp_path / "x.npy"), f"{tmp_path}/y.zarr/"])
    assert not ended.value.code
    assert np.array_equal(sd.open(tmp_path / "y.zarr"), VALUES)


def test_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    write(path, x=VALUES)
    with pytest.raises(FileExistsError, match=r"; overwrite=True replaces it: .*x\.zarr"):
        write(path, x=VALUES[0])

    class Broken:
        shape, dtype = (3,), np.dtype(np.float32)

        def __getitem__(self, key: Any) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, overwrite=True, x=Broken())
    assert np.array_equal(sd.open(path), VALUES)
    write(path, overwrite=True, x=VALUES[0])
    assert np.array_equal(sd.open(path), VALUES[0])
    assert [p.name for p in tmp_path.iterdir()] == ["x.zarr"]


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"codecs": [{"name": "bytes"}, {"name": "zstd"}]}, sd.UnsupportedError, "encoded by bytes, zstd: zarr reads"),
        ({"codecs": [{"name": "bytes", "configuration": {"endian": "big"}}]}, sd.UnsupportedError, "encoded by bytes"),
        ({"codecs": []}, sd.DumpError, "damaged metadata"),
        ({"data_type": "string"}, sd.UnsupportedError, "no element type for"),
        ({"data_type": ",nt32"}, sd.UnsupportedError, "no element type for"),  # for NumPy, no syntax
        ({"data_type": ">f4"}, sd.UnsupportedError, "no element type for"),  # a name of NumPy's alone
        ({"data_type": {"name": "struct"}}, sd.UnsupportedError, "structures or strings"),
        ({"data_type": "int64"}, sd.DumpError, "f32 does not have the size of int64"),
        ({"fill_value": 1}, sd.UnsupportedError, "in a way that strided does not read"),
        ({"shape": [40, -1]}, sd.DumpError, "sizes of the array or of its chunks"),
        ({"chunk_grid": {"configuration": {"chunk_shape": [0, 1]}}}, sd.DumpError, "sizes of the array or of its"),
        ({"attributes": {"xla_element_type": "f31"}}, sd.DumpError, "damaged metadata"),
        ({"zarr_format": 2}, sd.DumpError, "no metadata of zarr's version 3"),
    ],
)
def test_other_metadata(changed: dict[str, Any], error: type[Exception], words: str, tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    write(path, x=VALUES)
    file = path / "zarr.json"
    found = {"attributes": {"xla_element_type": "f32"}} | json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(found | {"attributes": {"xla_element_type": "f32"}} | changed), encoding="utf-8")
    with pytest.raises(error, match=words):
        sd.open(path)


def test_what_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    path.mkdir()
    with pytest.raises(OSError, match="no zarr store"):
        sd.convert_file(_npy(tmp_path), None, path)
    (path / ".zgroup").write_text("{}", encoding="utf-8")
    with pytest.raises(sd.UnsupportedError, match="version 2"):
        sd.open(path)
    shutil.rmtree(path)
    path.mkdir()
    (path / "zarr.json").write_text("{", encoding="utf-8")
    with pytest.raises(sd.DumpError, match="damaged metadata"):
        sd.open(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs FIFOs")
def test_metadata_that_are_no_file(tmp_path: Path) -> None:
    write(tmp_path / "x.zarr", a=VALUES, b=VALUES)
    (tmp_path / "x.zarr" / "c").mkdir()
    os.mkfifo(tmp_path / "x.zarr" / "c" / "zarr.json")
    with pytest.raises(sd.DumpError, match="a FIFO"):
        ZarrStore(str(tmp_path / "x.zarr"))


def _npy(folder: Path) -> Path:
    np.save(folder / "x.npy", VALUES)
    return folder / "x.npy"


@pytest.mark.parametrize("layout", [None, "{1,0:T(8,128)}"])
@pytest.mark.parametrize("columns", [3, 40])
@pytest.mark.parametrize("more", [-1, 1, 4, 512])
def test_a_chunk_that_has_not_exactly_its_size_is_named(
    columns: int, layout: str | None, more: int, tmp_path: Path, chunks: None
) -> None:
    write(tmp_path / "a.zarr", layout, a=np.ones((40, columns), np.float32))
    chunk = max(path for path in (tmp_path / "a.zarr").rglob("*") if path.is_file() and path.name != "zarr.json")
    size = chunk.stat().st_size
    os.truncate(chunk, size + more)
    words = f"takes {size} bytes, the file has {size + more}"
    with pytest.raises(sd.BufferSizeError, match=f"{re.escape(str(chunk))}: a damaged chunk: .* {words}$") as found:
        np.asarray(sd.open(tmp_path / "a.zarr"))
    assert (found.value.actual, found.value.needed) == (size + more, size)


def test_a_chunk_that_is_read_is_not_mapped(tmp_path: Path) -> None:
    write(tmp_path / "x.zarr", TILED, x=VALUES)
    found = sd.open(tmp_path / "x.zarr", mapped=False)
    assert not found.flags.writeable
    assert str(found.layout) == str(sd.parse(TILED))
    changed = sd.open(tmp_path / "x.zarr", mode="c", mapped=False)
    changed[0, 0] = 99
    with pytest.raises(ValueError, match="needs a mapping"):
        sd.open(tmp_path / "x.zarr", mode="r+", mapped=False)
    (chunk,) = (path for path in (tmp_path / "x.zarr" / "c").rglob("*") if path.is_file())
    chunk.write_bytes(bytes(chunk.stat().st_size))
    assert np.array_equal(found, VALUES)
    assert changed[0, 0] == 99
    assert changed[1, 1] == VALUES[1, 1]


def changed_metadata(path: Path, **changes: Any) -> None:
    """Metadata of an array with other entries, or without those that are None."""
    found = json.loads((path / "zarr.json").read_text(encoding="utf-8"))
    found = {name: value for name, value in (found | changes).items() if value is not None}
    (path / "zarr.json").write_text(json.dumps(found), encoding="utf-8")


def test_attributes_are_optional(tmp_path: Path) -> None:
    write(tmp_path / "x.zarr", x=VALUES)
    found = json.loads((tmp_path / "x.zarr" / "zarr.json").read_text(encoding="utf-8"))
    assert found["attributes"] == {}  # the type of zarr says all
    changed_metadata(tmp_path / "x.zarr", attributes=None)
    assert np.array_equal(sd.open(tmp_path / "x.zarr"), VALUES)


def test_chunks_that_are_not_found_are_not_zero(tmp_path: Path) -> None:
    """Where their names, or what stands for those that are missing, is not known."""
    for changes in ({"chunk_key_encoding": {"name": "other"}}, {"fill_value": -0.0}, {"fill_value": "-0.0"}):
        write(tmp_path / "x.zarr", x=VALUES, overwrite=True)
        changed_metadata(tmp_path / "x.zarr", **changes)
        with pytest.raises(sd.UnsupportedError, match="zarr reads it"):
            sd.open(tmp_path / "x.zarr")


def test_an_array_without_elements_has_no_chunks_whatever_its_other_sizes(tmp_path: Path) -> None:
    write(tmp_path / "x.zarr", x=VALUES)
    grid = {"name": "regular", "configuration": {"chunk_shape": [1, 300]}}
    changed_metadata(tmp_path / "x.zarr", shape=[1 << 60, 0], chunk_grid=grid)
    found = ZarrStore(str(tmp_path / "x.zarr"))["x"]
    assert found.to_numpy().shape == found[:].shape == (1 << 60, 0)
    assert found[5:, :].shape == ((1 << 60) - 5, 0)
    assert 0 not in found
