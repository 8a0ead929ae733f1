"""Protobuf's wire format: every length checked, nothing allocated on a claim."""

from __future__ import annotations

import contextlib
import gzip
import io
import mmap
import os
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.dumps import source
from strided.dumps.detect import recognise
from strided.dumps.protobuf import varints, wire
from strided.dumps.source import open_source, refuse_truncated
from strided.errors import DumpError
from strided.files import gzipped
from strided.files.compressed import MAGIC_BYTES
from strided.runtime import limits
from tests.thinned import thinned

INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


def listed(data: bytes) -> list[wire.Field]:
    return list(wire.fields(memoryview(data), "Example"))


# ---- one field at a time ----


def test_a_message_is_read_field_by_field():
    data = (
        wire.integer_field(1, -1)
        + wire.bytes_field(2, b"ab")
        + wire.tag(3, wire.FIXED32)
        + b"wxyz"
        + wire.tag(500, wire.FIXED64)
        + bytes(8)
        + wire.integers_field(6, (3, -1))
    )
    one, two, three, four, six = listed(data)
    assert one.integer("x") == -1
    assert one.unsigned("x") == 2**64 - 1
    assert two.text("x") == "ab"
    assert (three.number, three.kind, bytes(three.value)) == (3, wire.FIXED32, b"wxyz")
    assert (four.number, four.kind, len(four.value)) == (500, wire.FIXED64, 8)
    assert six.integers("x") == [3, -1]
    assert [field.at for field in (two, six)] == [data.index(b"ab"), len(data) - 11]


def test_repeated_integers_come_packed_or_not():
    data = wire.integers_field(1, (1, 2)) + wire.integer_field(1, 3) + wire.bytes_field(1, b"")
    assert [n for field in listed(data) for n in field.integers("x")] == [1, 2, 3]


def test_positions_count_from_where_the_message_begins():
    (field,) = wire.fields(memoryview(wire.bytes_field(1, b"ab")), "Example", 1000)
    assert field.at == 1002


@pytest.mark.parametrize(
    ("data", "words", "position"),
    [
        (b"\x0a\x05ab", r"byte 2: field 1 of Example should be 5 bytes long, 2 bytes remained", 2),
        (b"\x0a", r"byte 1: the length of field 1 of Example: expected a varint, 0 bytes remained", 1),
        (b"\x0a\xff", r"the length of field 1 of Example: expected a varint, 1 byte remained", 1),
        (b"\x0a" + b"\xff" * 9 + b"\x01", r"should be 18446744073709551615 bytes long, 0 bytes remained", 11),
        (b"\x08", r"field 1 of Example: expected a varint, 0 bytes remained", 1),
        (b"\x08" + b"\x80" * 10 + b"\x01", r"found more than ten bytes", 1),
        (b"\x80", r"the tag of a field of Example: expected a varint", 0),
        (b"\x00\x01", r"found the tag 0 \(field 0, wire type 0\)", 0),
        (b"\x0b", r"found the tag 11 \(field 1, wire type 3\)", 0),
        (b"\x0e", r"wire type 6", 0),
        (b"\x80\x80\x80\x80\x10\x01", r"field 536870912", 0),
        (b"\x0d\x01\x02", r"should be 4 bytes long, 2 bytes remained", 1),
        (b"\x09\x01\x02", r"should be 8 bytes long, 2 bytes remained", 1),
    ],
)
def test_bytes_that_are_no_fields_are_refused_with_their_place(data, words, position):
    with pytest.raises(DumpError, match=words) as caught:
        listed(data)
    assert caught.value.position == position


def test_a_field_of_the_wrong_kind_is_refused():
    number, text = listed(wire.integer_field(1, 5) + wire.bytes_field(2, b"a"))
    with pytest.raises(DumpError, match=r"Example.name \(field 1\) should hold a run of bytes, found a varint"):
        number.text("Example.name")
    with pytest.raises(DumpError, match=r"Example.id \(field 2\) should hold a varint, found a run of bytes"):
        text.integer("Example.id")


def test_text_that_is_no_utf8_is_still_shown():
    (field,) = listed(wire.bytes_field(1, b"a\xff"))
    assert field.text("x") == "a\\xff"


def test_payloads_are_views_of_the_data():
    data = bytearray(wire.bytes_field(1, b"ab"))
    (field,) = wire.fields(memoryview(data), "Example")
    data[-1] = ord("z")
    assert bytes(field.view("x")) == b"az"


def test_take_is_bounded():
    view = memoryview(b"abcd")
    assert bytes(wire.take(view, 1, 3, "x")) == b"bcd"
    for position, size in ((2, 3), (5, 0), (0, -1)):
        with pytest.raises(DumpError, match="the header should be"):
            wire.take(view, position, size, "the header")


def test_merged_messages_are_their_concatenation():
    assert bytes(wire.merged([memoryview(b"ab"), memoryview(b"c")])) == b"abc"


@given(st.lists(st.tuples(st.integers(1, 2**29 - 1), st.one_of(st.integers(-(2**63), 2**63 - 1), st.binary()))))
def test_what_is_written_is_read(content):
    data = b"".join(
        (wire.tag(n, wire.VARINT) + wire.varint(v)) if isinstance(v, int) else wire.bytes_field(n, v)
        for n, v in content
    )
    got = [(f.number, f.integer("x") if f.kind == wire.VARINT else bytes(f.value)) for f in listed(data)]
    assert got == content


@given(st.binary(max_size=64))
def test_any_bytes_end_in_fields_or_an_error(data):
    try:
        for field in listed(data):
            assert len(data) >= field.at
    except DumpError as error:
        assert 0 <= error.position <= len(data)  # noqa: PT017 (both ends are right)


# ---- many varints at once ----


@pytest.mark.parametrize("dtype", INTEGERS)
def test_arrays_of_varints_keep_every_value(dtype):
    info, rng = np.iinfo(dtype), np.random.default_rng(1)
    values = rng.integers(info.min, info.max, 70_000, dtype, endpoint=True)
    values >>= rng.integers(0, info.bits, values.size).astype(dtype)
    values[:3] = info.min, info.max, 0
    data = varints.encode_varints(values)
    assert data == b"".join(wire.varint(int(v)) for v in values)
    np.testing.assert_array_equal(varints.decode_varints(memoryview(data), dtype, "x"), values, strict=True)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=30))
def test_arrays_of_varints_agree_with_one_at_a_time(numbers):
    data = b"".join(map(wire.varint, numbers))
    assert varints.decode_varints(memoryview(data), np.uint64, "x").tolist() == numbers
    assert varints.encode_varints(np.array(numbers, np.uint64)) == data


def test_numbers_too_long_for_their_type_are_cut_as_protobuf_cuts_them():
    data = memoryview(wire.varint(2**32 + 5) + wire.varint(2**64 - 2))
    assert varints.decode_varints(data, np.int32, "x").tolist() == [5, -2]
    assert varints.decode_varints(data, np.bool_, "x").tolist() == [True, True]


@pytest.fixture(params=["numpy", "kernel", "kernel in small tasks"])
def decoder(request, monkeypatch):
    """Both ways of decoding."""
    if request.param == "kernel in small tasks":
        monkeypatch.setattr(varints, "_TASK_BYTES", 37)
    least = limits.current.varint_bytes if request.param == "numpy" else 1
    with limits.replaced(varint_bytes=least):
        yield request.param


@pytest.mark.parametrize("dtype", INTEGERS)
def test_kernels_agree_with_numpy(decoder, dtype):
    info, rng = np.iinfo(dtype), np.random.default_rng(2)
    values = rng.integers(info.min, info.max, 3000, dtype, endpoint=True)
    values >>= rng.integers(0, info.bits, values.size).astype(dtype)
    values[1000:1500] = rng.integers(0, 100, 500)
    data = varints.encode_varints(values)
    assert data == b"".join(wire.varint(int(v)) for v in values)
    np.testing.assert_array_equal(varints.decode_varints(memoryview(data), dtype, "x"), values, strict=True)


@pytest.mark.parametrize("padding", [0, 1 << 16, 1 << 17, (1 << 17) - 3])
def test_endless_varints_are_refused(decoder, padding):
    ones = bytes([1]) * padding
    with pytest.raises(DumpError, match="the last varint has no end"):
        varints.decode_varints(memoryview(ones + b"\x80"), np.int32, "x")
    with pytest.raises(DumpError, match="more than ten bytes") as caught:
        varints.decode_varints(memoryview(ones + b"\x80" * 10 + b"\x01"), np.int32, "x", 100)
    assert 100 <= caught.value.position <= 110 + padding
    with pytest.raises(DumpError, match="more than ten bytes"):
        varints.decode_varints(memoryview(ones + b"\x80" * (1 << 18) + b"\x01"), np.int32, "x")


def test_another_number_of_varints_allocates_nothing():
    with pytest.raises(DumpError, match="expected 1152921504606846976 numbers, found 3"):
        varints.decode_varints(memoryview(b"abc"), np.int64, "x", count=2**60)


@given(st.binary(max_size=64))
def test_any_bytes_end_in_numbers_or_an_error(data):
    try:
        values = varints.decode_varints(memoryview(data), np.uint64, "x")
    except DumpError:
        return
    field = wire.Field(1, wire.BYTES, memoryview(data), 0)
    assert values.astype(np.int64).tolist() == field.integers("x")


# ---- where the bytes come from ----


@pytest.mark.parametrize("mapped", [False, True])
def test_a_file_is_read_or_mapped_and_a_gzip_file_expanded(tmp_path: Path, mapped: bool):
    for name, data in {"plain": b"abc", "empty": b"", "packed.gz": gzip.compress(b"abc")}.items():
        path = tmp_path / name
        path.write_bytes(data)
        source = open_source(path, mapped=mapped)
        assert isinstance(source.view.obj, mmap.mmap) == (mapped and name == "plain")
        assert bytes(source.view) == (b"" if name == "empty" else b"abc")
        assert source.view.readonly
        assert source.path == str(path)


def test_a_file_that_becomes_shorter_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "x"
    path.write_bytes(bytes(100))

    class Shorter(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:
            if size != MAGIC_BYTES:
                os.truncate(path, 99)
            return super().read(size) or b""

    monkeypatch.setattr("strided.dumps.source.open_regular", Shorter)
    with pytest.raises(DumpError, match="x: truncated while it was read: 99 bytes of 100 were left"):
        open_source(path)


def test_a_mapped_file_that_became_shorter_is_refused(tmp_path: Path):
    path = tmp_path / "x"
    path.write_bytes(bytes(100))
    view = open_source(path, mapped=True).view
    refuse_truncated(view, "x")
    refuse_truncated(memoryview(bytes(3)), None)
    os.truncate(path, 99)
    with pytest.raises(DumpError, match="x: truncated since it was opened: from 100 bytes to 99"):
        refuse_truncated(view[10:20], "x")


def test_buffers_are_wrapped():
    data = np.arange(3, dtype=np.uint16)
    assert np.shares_memory(np.frombuffer(open_source(data).view, np.uint8), data)


def test_broken_gzip_data_are_refused(tmp_path: Path):
    data = gzip.compress(os.urandom(300))
    path = tmp_path / "x.gz"
    for bad in (data[:-1], data[:20], data[:3], data[:30] + b"zz" + data[32:]):
        path.write_bytes(bad)
        with pytest.raises(DumpError, match="broken gzip data"):
            open_source(path)


def test_too_little_memory_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In gzip data, and in an archive."""

    class Failing(io.BytesIO):
        def read(self, *_: object) -> bytes:
            raise zlib.error("Error -4 while decompressing data")

    with pytest.raises(MemoryError):
        list(gzipped.expanded(Failing(gzip.compress(b"abc"))))
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros(3))
    monkeypatch.setattr(zipfile.ZipExtFile, "read", Failing.read)
    with pytest.raises(MemoryError):
        sd.open(tmp_path / "x.npz")


@contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """A function that tells the most bytes held at once within the block."""
    peaks: list[int] = []
    tracemalloc.start()
    try:
        yield lambda: peaks[0]
    finally:
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()


@pytest.mark.parametrize("limit", [None, 1000])
def test_a_gzip_bomb_stops_at_the_limit(limit, monkeypatch):
    """Text stops at one limit, other contents at another, both at `max_bytes`; little more is held meanwhile."""
    monkeypatch.setattr(source, "MAX_TEXT_BYTES", 1 << 20)
    monkeypatch.setattr(source, "MAX_BINARY_BYTES", 1 << 22)
    for content, own in ((b" ", 1 << 20), (b"\0", 1 << 22)):
        bomb = gzip.compress(content * (1 << 24))
        with (
            traced() as peak,
            pytest.raises(DumpError, match=f"more than {limit or own} bytes: decompress it first; in Python"),
        ):
            open_source(bomb, max_bytes=limit)
        assert peak() < 1.3 * (limit or own) + (1 << 20)
        assert len(open_source(bomb, max_bytes=1 << 24).view) == 1 << 24
        assert bytes(source.open_head(bomb, 10)) == content * 10


def test_every_reader_takes_the_limit():
    text = b"BufferAssignment:\n" + b" " * 5000
    for read, content in (
        (sd.read_hlo, b"HloModule m\n" + b" " * 5000),
        (sd.read_allocations, text),
        (sd.read_dump, text),
        (sd.read_snapshot, b"version: 1\n" + b" " * 5000),
        (recognise, bytes(5000)),
    ):
        with pytest.raises(DumpError, match="expand to more than 4000 bytes"):
            read(gzip.compress(content), max_bytes=4000)


def test_a_snapshot_of_zeros_is_no_bomb():
    """It shrinks to a thousandth and is genuine."""
    file = io.BytesIO()
    sd.write_snapshot(file, [np.zeros(1 << 20, np.float32)], np.zeros(2))
    packed = gzip.compress(file.getvalue())
    assert len(packed) * 500 < 1 << 22
    with traced() as peak:
        snapshot = sd.read_snapshot(packed)
        assert snapshot.arguments[0].shape == (1 << 20,)
    assert peak() < 1.5 * (1 << 22)


@pytest.mark.slow
def test_text_in_gzip_takes_at_most_three_times_its_size():
    """A program of lines as long as compilers write them; what is read of it included."""
    line = '  %add.{0} = f32[128,256]{{1,0:T(8,128)}} add(%p, %p), metadata={{op_name="{1}"}}\n'
    head = "HloModule m\n\nENTRY %e {\n  %p = f32[128,256]{1,0:T(8,128)} parameter(0)\n"
    text = head + "".join(line.format(k, "jit(f)/layer/" * 30) for k in range(10_000)) + "}\n"
    packed = gzip.compress(text.encode())
    with traced() as peak:
        module = sd.read_hlo(packed)
    assert len(module.instructions) == 10_001
    assert peak() < 3 * len(text)


PROGRAM = "HloModule m\n\nENTRY e {{\n  p = f32[128,256]{{1,0}} parameter(0)\n{}  ROOT r = f32[] constant(0)\n}}\n"


@pytest.mark.parametrize("read", [sd.read_hlo, sd.read_allocations, sd.read_dump], ids=lambda read: read.__name__)
@pytest.mark.parametrize("line", thinned(["", "x", "}", "a=f32[]add(b,c)"], 5))
def test_text_of_too_many_short_lines_is_refused(
    read: Callable[..., Any], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expanded gzip would take many times its size as lines and instructions."""
    monkeypatch.setattr(source, "FREE_LINES", 1000)
    head = "BufferAssignment:\n" if read is sd.read_allocations else PROGRAM.format("")
    text = f"{head}{(line + chr(10)) * (1 << 21)}".encode()
    bomb = gzip.compress(text)
    with traced() as peak, pytest.raises(DumpError, match=r"more than 1000 lines .* in Python, max_bytes= reads them"):
        read(bomb)
    assert peak() < 1.3 * len(text) + (20 << 20)


def test_any_number_of_lines_is_read_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "FREE_LINES", 10)
    text = PROGRAM.format("") + "\n" * 100
    for origin in (text, text.encode(), gzip.compress(text.encode())):
        with pytest.raises(DumpError, match="more than 10 lines"):
            sd.read_hlo(origin)
        assert sd.read_hlo(origin, max_bytes=1 << 20).entry.root.name == "r"


def test_short_lines_are_counted_whatever_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "FREE_LINES", 50)
    for end, is_refused in (("\n", True), ("\r", True), ("\r\n", False)):
        text = PROGRAM.format("").replace("\n", end) + end * (40 if end == "\r\n" else 100)
        for origin in (text, text.encode()):
            with pytest.raises(DumpError, match="more than 50 lines") if is_refused else contextlib.nullcontext():
                sd.read_hlo(origin)


LINES = ["", "\n", "a", "a\r\nb\r\n", "\ufeffa\nb", "ä\n€\r\n\n𝄞", "long line\nb\n\n", "a\rb\r\nc\n\r\rd\r"]


@pytest.mark.parametrize("piece", [1, 2, 7, 1 << 20])
@pytest.mark.parametrize("data", [*(text.encode() for text in LINES), b"\xff\n\xc3\nx\xe2\x82"])
def test_lines_are_those_of_the_whole_text(data: bytes, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_PIECE_BYTES", piece)
    whole = data.decode("utf-8-sig", "backslashreplace").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert source.lines_of(memoryview(data), None, None) == whole


@pytest.mark.slow
def test_a_program_takes_at_most_three_times_its_text() -> None:
    name = "jit(train_step)/jvp(transformer)/layer_{}/attention/dot_general/" + "x" * 100
    line = '  add.{} = f32[128,256]{{1,0}} add(p, p), metadata={{op_name="' + name + '"}}\n'
    text = PROGRAM.format("".join(line.format(k, k) for k in range(1, 20_000))).encode()
    data = gzip.compress(text)
    with traced() as peak:
        module = sd.read_hlo(data)
    assert len(module.entry.instructions) == 20_001
    assert peak() < 3 * len(text)
