"""What a file is, by its content; and reading it as something else."""

from __future__ import annotations

import gzip
import io
import itertools
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import strided as sd
from strided.dumps import source
from strided.dumps.buffer_assignment.assignment import BufferAssignment
from strided.dumps.detect import KINDS, READERS, read_dump, recognise
from strided.dumps.hlo.module import Module
from strided.dumps.snapshots.snapshot import Snapshot
from strided.errors import DumpError, UnsupportedError
from strided.files.magic import GZIP_MAGIC, ZSTD_MAGICS
from tests import paths
from tests.steps import check_linear
from tests.thinned import thinned
from tests.zstd_writer import zstd_compressed

with zipfile.ZipFile(paths.DATA / "dump" / "dump.zip") as archive:
    FILES = {name: archive.read(name) for name in archive.namelist()}

BY_NAME = (
    ("buffer-assignment.txt", "allocations"),
    ("memory-usage-report.txt", "memory report"),
    ("snapshot", "snapshot"),
    (".txt", "hlo"),
    (".hlo.pb", "hlo"),
)


def npy(values: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def test_zstandard_data_are_expanded_as_gzip_is(tmp_path):
    for name, content in FILES.items():
        packed = zstd_compressed(content)
        (tmp_path / "x").write_bytes(packed)
        kinds = {recognise(packed), recognise(tmp_path / "x")}
        assert kinds == {recognise(content)}, name
    text = b"HloModule m\n\nENTRY e {\n  ROOT p = f32[3] parameter(0)\n}\n"
    (tmp_path / "m.txt.zst").write_bytes(zstd_compressed(text))
    assert read_dump(tmp_path / "m.txt.zst").name == "m"
    with pytest.raises(DumpError, match="expand to more than 40 bytes"):
        read_dump(zstd_compressed(text), max_bytes=40)


@pytest.mark.parametrize("name", FILES)
def test_files_are_known_by_their_content(name):
    kind = next(kind for part, kind in BY_NAME if part in name)
    assert recognise(FILES[name]) == kind
    assert recognise(gzip.compress(FILES[name])) == kind


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\n\n  BufferAssignment:\nallocation 0: size 4:\n", "allocations"),
        (b"// a comment\nHloModule m, is_scheduled=true\n", "hlo"),
        (b"ENTRY %e (x: f32[2]) -> f32[2] {\n  ROOT %x = f32[2] parameter(0)\n}\n", "hlo"),
        (b"  %fusion.1 = f32[8,128]{1,0:T(8,128)} fusion(%a, %b), kind=kLoop\n", "hlo"),
        (b"Memory Space: default (color=0)\n", "memory report"),
        (b"Total bytes used: 120 (120B)\n\nUsed values:\n", "used values"),
        (b"HloLiveRange (max 10):\n", "live ranges"),
        (b"hlo_module { name: 'm' }\npartitions { }\n", "snapshot"),
        (npy(np.arange(3)), "npy"),
        (b"PK\x03\x04rest", "npz"),
        (b"\x02\0\0\0\0\0\0\0{}", "safetensors"),
        (b"dear diary", "text"),
        (b"", "text"),
        (np.random.default_rng(0).bytes(4096), "binary"),
        (bytes(4096), "binary"),
    ],
)
def test_contents(content, kind):
    assert recognise(content) == kind
    assert kind in KINDS


def test_reading_by_content():
    kinds = {"hlo": Module, "snapshot": Snapshot, "allocations": BufferAssignment}
    for name, content in FILES.items():
        kind = recognise(content)
        if kind in READERS:
            assert isinstance(read_dump(content), kinds[kind]), name
        else:
            with pytest.raises(UnsupportedError, match="nothing in it can be read as arrays"):
                read_dump(content)


@pytest.mark.parametrize("is_file", [True, False])
def test_a_compressed_proto_is_expanded_once(is_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    sd.write_snapshot(file, [np.arange(5, dtype=np.int8)])
    path = tmp_path / "x.gz"
    path.write_bytes(gzip.compress(file.getvalue()))
    expanded: list[str | None] = []
    real = source._expanded

    def counted(pieces: Any, path: str | None, max_bytes: int | None) -> memoryview:
        expanded.append(path)
        return real(pieces, path, max_bytes)

    monkeypatch.setattr(source, "_expanded", counted)
    snapshot = read_dump(path if is_file else path.read_bytes())
    assert expanded == [str(path) if is_file else None]
    assert snapshot.path == (str(path) if is_file else None)
    assert snapshot.arguments[0].tolist() == [0, 1, 2, 3, 4]


def test_a_wrong_guess_is_overridden():
    (proto,) = [data for name, data in FILES.items() if "while_loop.cpu_after" in name and name.endswith(".pb")]
    assert isinstance(read_dump(proto), Module)
    assert isinstance(read_dump(proto, "allocations"), BufferAssignment)
    with pytest.raises(DumpError, match=r"but no snapshot; strided\.read_hlo reads modules"):
        read_dump(proto, "snapshot")
    with pytest.raises(ValueError, match="kind must be one of 'hlo', 'snapshot', 'allocations'"):
        read_dump(proto, "picture")


def test_refusals_say_what_would_do(tmp_path):
    path = tmp_path / "raw.bin"
    path.write_bytes(bytes(100))
    with pytest.raises(
        UnsupportedError, match=r"raw\.bin is binary data of no known kind: .* its shape; 'strided identify'"
    ):
        read_dump(path)
    with pytest.raises(UnsupportedError, match=r"strided\.open opens it"):
        read_dump(npy(np.arange(3)))
    with pytest.raises(DumpError, match="broken gzip"):
        recognise(b"\x1f\x8b\x08broken")


@given(st.binary(max_size=200) | st.sampled_from(sorted(FILES.values())).flatmap(
    lambda data: st.integers(0, len(data)).map(lambda n: data[:n])))  # fmt: skip
@example(b"\x28\xb5\x2f\xfd")
def test_anything_is_of_some_kind(content):
    try:
        assert recognise(content) in KINDS
    except (DumpError, UnsupportedError):  # the latter where nothing expands Zstandard data
        assert content.startswith((GZIP_MAGIC, *ZSTD_MAGICS))  # broken, after a beginning as of compressed data


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"ENTRY %e (x: f32[2]) -> f32[2] {\n", "hlo"),
        (b"%region (a: f32[]) -> f32[] {  \r\n", "hlo"),
        (b"ENTRY (x: f32[2]) -> (f32[2], f32[2]) {", "hlo"),
        (b"f (x) -> y\n{\n", "text"),
        (b"f x) -> y {\n", "text"),
        (b"(a) -> {\n", "text"),
        (b"a = b[) (\n", "text"),
        (b"a = f32[2] add(\nb)", "text"),
    ],
)
def test_lines_of_programs_without_a_header(content, kind):
    assert recognise(content) == kind


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_text_in_utf_16_is_known_and_refused(encoding: str) -> None:
    text = "\ufeffHloModule m\n\nENTRY e {\n  ROOT é = f32[] parameter(0)\n}\n".encode(encoding)
    assert recognise(text) == "hlo"
    with pytest.raises(DumpError, match=r"text in UTF-16, .*: save it as UTF-8"):
        read_dump(text)
    for data in (b"\0\0", b"\xdc\xdc\0A"):  # control characters, and half of a pair
        assert recognise("\ufeff".encode(encoding) + data) == "binary"


def test_only_the_head_of_a_text_is_read(tmp_path):
    """Huge text in gzip is recognised before it is expanded."""
    text = b"HloModule m\n" + b" " * (1 << 24)
    with pytest.raises(DumpError, match="broken gzip"):
        recognise(gzip.compress(b"\1" + text)[:-9])
    assert recognise(gzip.compress(text)[:-9]) == "hlo"


STARTS = [b"", b"a () -> ", b"a = b[("]
PIECES = [b"a (", b"a () -> ", b"a = b[(", b"a = b[)", b") -> ", b"HloModule", b"a.", b"\n", b"\na (", b" {"]


@pytest.mark.parametrize(("start", "piece"), thinned(itertools.product(STARTS, PIECES), 3))
@pytest.mark.slow
def test_heads_take_linear_work(start, piece):
    assert recognise(start + piece * 30_000) in KINDS
    check_linear(lambda size: partial(recognise, start + piece * size), 40)
