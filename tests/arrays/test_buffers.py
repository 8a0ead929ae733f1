"""What a LayoutArray wraps: buffers of every kind, their sizes, and files."""

from __future__ import annotations

import array
import ctypes
import mmap
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from tests import oracle
from tests.cases import (
    CORPUS,
    Case,
    some_values,
)
from tests.checks import encoded, same_values

PLAIN = Case.parse("s16[3,5]{0,1:T(2,2)}")
VALUES = some_values(PLAIN)
CONTENT = encoded(PLAIN, VALUES)


# --- buffers of every kind ------------------------------------------------------------------------------------------


def buffers() -> dict[str, Any]:
    """The same content in everything that has a buffer."""
    words = np.frombuffer(CONTENT, np.int16)
    anonymous = mmap.mmap(-1, len(CONTENT))
    anonymous.write(CONTENT)
    read_only = np.frombuffer(CONTENT, np.uint8)
    return {
        "bytes": CONTENT,
        "bytearray": bytearray(CONTENT),
        "memoryview": memoryview(bytearray(CONTENT)),
        "memoryview, read-only": memoryview(CONTENT),
        "memoryview of two axes": memoryview(bytearray(CONTENT)).cast("B", (2, len(CONTENT) // 2)),
        "memoryview of words": memoryview(bytearray(CONTENT)).cast("h"),
        "ndarray": read_only.copy(),
        "ndarray, read-only": read_only,
        "ndarray of words": words.copy(),
        "ndarray of two axes": read_only.copy().reshape(2, -1),
        "ndarray of bfloat16": read_only.copy().view(ml_dtypes.bfloat16),
        "ndarray, big endian": read_only.copy().view(">u4"),
        "part of an ndarray": np.concatenate([read_only, read_only])[len(CONTENT) :],
        "array.array": array.array("h", words),
        "ctypes": (ctypes.c_char * len(CONTENT)).from_buffer_copy(CONTENT),
        "mmap": anonymous,
        "LayoutArray's buffer": sd.LayoutArray(bytearray(CONTENT), PLAIN.text).buffer,
    }


@pytest.mark.parametrize("kind", buffers())
def test_every_buffer_is_wrapped_without_a_copy(kind: str) -> None:
    buffer = buffers()[kind]
    a = sd.LayoutArray(buffer, PLAIN.text)
    same_values(a, VALUES)
    assert a.buffer.dtype == np.uint8
    assert a.buffer.ndim == 1
    assert a.buffer.tobytes() == CONTENT
    memory = buffer if isinstance(buffer, np.ndarray) else np.frombuffer(memoryview(buffer).cast("B"), np.uint8)
    assert np.shares_memory(a.buffer, memory)
    read_only = kind == "bytes" or "read-only" in kind
    assert a.buffer.flags.writeable == (not read_only)
    if read_only:
        with pytest.raises(ValueError, match="read-only"):
            a[0, 0] = 1
        with pytest.raises(ValueError, match="read-only"):
            sd.LayoutArray.from_numpy(VALUES, PLAIN.text, out=buffer)
    else:
        a[0, 0] = 77
        assert memory.reshape(-1).view(np.uint8)[: len(CONTENT)].view(np.int16)[0] == 77


@pytest.mark.parametrize(
    "content",
    [b"", bytearray(), memoryview(b""), np.empty(0, np.uint8)],
    ids=lambda given: type(given).__name__,
)
def test_an_empty_buffer_is_read_only_if_it_is_given_so(content: Any) -> None:
    read_only = isinstance(content, bytes | memoryview)
    assert sd.LayoutArray(content, "u8[0,3]").flags.writeable == (not read_only)


@pytest.mark.parametrize("thing", [None, 3, 1.5, "text", [1, 2], object(), {}])
def test_what_has_no_buffer_is_refused(thing: Any) -> None:
    with pytest.raises(TypeError, match="buffer"):
        sd.LayoutArray(thing, "u8[2]")


def test_buffers_with_gaps_are_refused() -> None:
    for gaps in (np.zeros(64, np.uint8)[::2], memoryview(bytes(64))[::2], np.zeros((8, 8), np.uint8).T):
        with pytest.raises(sd.UnsupportedError, match="one after another"):
            sd.LayoutArray(gaps, "u8[32]")
    with pytest.raises(TypeError, match="references"):
        sd.LayoutArray(np.zeros(8, object), "u8[64]")


@pytest.mark.parametrize(
    ("shape", "packed"),
    [
        ("s4[6,8]", "s4[6,8]{1,0:E(4)}"),
        ("u2[33,101]{0,1}", "u2[33,101]{0,1:E(2)}"),
        ("f4e2m1fn[100,300]{1,0:T(64,128)(8,1)}", "f4e2m1fn[100,300]{1,0:T(64,128)(8,1)E(4)}"),
        ("s4[6,8]{1,0:M(16)}", "s4[6,8]{1,0:E(4)M(16)}"),
    ],
)
def test_the_size_of_packed_elements_is_named(shape: str, packed: str) -> None:
    size = sd.parse_shape(packed).buffer_byte_size
    bits = packed[packed.index("E(") :][:4]
    with pytest.raises(
        sd.BufferSizeError, match=re.escape(f"That is the size of packed elements: write {bits} into the layout")
    ) as error:
        sd.LayoutArray(bytes(size), shape)
    assert f"E({error.value.packed_bits})" == bits
    with pytest.raises(sd.BufferSizeError) as error:
        sd.LayoutArray(bytes(size - 1), shape)
    assert "packed elements" not in str(error.value)
    assert error.value.packed_bits is None


@pytest.mark.parametrize("shape", ["(f32[2])", "()", "token[]", "opaque[]"])
def test_shapes_that_are_no_array_are_refused(shape: str) -> None:
    with pytest.raises(sd.UnsupportedError, match=r"tuple|no values"):
        sd.LayoutArray(bytes(8), shape)


def test_shapes_that_say_too_little_are_refused(tmp_path: Path) -> None:
    with pytest.raises(sd.LayoutError, match="layout alone"):
        sd.LayoutArray(bytes(8), "{0}")
    with pytest.raises(sd.LayoutError, match="unknown size"):
        sd.LayoutArray(bytes(8), "f32[?]")
    with pytest.raises(sd.LayoutError, match=r"\*"):
        sd.LayoutArray(bytes(64), "f32[3,5]{1,0:T(2,*)}")
    with pytest.raises(sd.UnsupportedError, match="split"):
        sd.LayoutArray(bytes(60), "f32[3,5]{1,0:SC(0:1)}")
    for size in (128, 256, 100):  # of the largest piece, of all of them, of neither
        with pytest.raises(sd.UnsupportedError, match="split"):
            sd.LayoutArray(bytes(size), "f32[8,8]{1,0:SC(0:4)}")
        (tmp_path / "split.bin").write_bytes(bytes(size))
        for mapped in (True, False):
            with pytest.raises(sd.UnsupportedError, match="split"):
                sd.open(tmp_path / "split.bin", "f32[8,8]{1,0:SC(0:4)}", mapped=mapped)
    with pytest.raises(sd.NotationError, match="expected"):
        sd.LayoutArray(bytes(8), "f32[2")
    with pytest.raises(TypeError, match="shape"):
        sd.LayoutArray(bytes(8), 3)  # type: ignore[arg-type]


def test_a_buffer_shape_and_a_bounded_dimension_are_arrays() -> None:
    assert np.asarray(sd.LayoutArray(bytes([1, 2]), "b(u8[2]{0})")).tolist() == [1, 2]
    assert np.asarray(sd.LayoutArray(bytes([1, 2]), "u8[<=2]{0}")).tolist() == [1, 2]


# --- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", CORPUS)
def test_a_short_buffer_is_refused_with_both_sizes(label: str) -> None:
    case = Case.parse(CORPUS[label])
    needed = oracle.bytes_needed(case.spec)
    for have in {needed - 1, needed // 2, 0} - {needed, -1}:
        with pytest.raises(sd.BufferSizeError, match=rf"\b{needed}\b.*\b{have}\b") as error:
            sd.LayoutArray(bytes(have), case.text)
        assert case.text in str(error.value)
        assert (error.value.actual, error.value.needed) == (have, needed)


@pytest.mark.parametrize(
    "text", ["bf16[24,256]{1,0:T(8,128)(2,1,1,1)}", "f32[10]{0:T(4)(3)}", "bf16[3,5]{1,0:T(1,128)(2,1)}"]
)
def test_a_buffer_of_xlas_size_is_too_short_for_uneven_tiles(text: str) -> None:
    """What the addresses need decides, and the message says why."""
    shape = sd.parse(text)
    with pytest.raises(sd.BufferSizeError, match="first tile") as error:
        sd.LayoutArray(bytes(shape.byte_size), text)
    assert error.value.needed == shape.address_byte_size
    assert str(shape.byte_size) in str(error.value)
    sd.LayoutArray(bytes(shape.address_byte_size), text)


@pytest.mark.parametrize("size", [30, 31, 60, 511, 512])
def test_a_longer_buffer_is_taken_where_rounding_up_explains_it(size: int) -> None:
    a = sd.LayoutArray(np.arange(size, dtype=np.uint8), "u8[3,5]{1,0:T(2,2)L(30)}")
    assert a.buffer.size == 30
    assert a.excess_bytes == size - 30
    assert a[0, 1] == 1


def test_a_buffer_that_is_far_too_long_is_refused() -> None:
    with pytest.raises(sd.BufferSizeError, match="6000") as error:
        sd.LayoutArray(bytes(6000), "u8[30]")
    assert (error.value.actual, error.value.needed) == (6000, 30)
    assert sd.LayoutArray(bytes(6000), "u8[30]", allow_excess=True).excess_bytes == 5970
    assert sd.LayoutArray(bytes(4096), "u8[30]").excess_bytes == 4066


def test_packed_elements_in_a_buffer_of_one_byte_each() -> None:
    """What the runtime of the CPU allocates."""
    a = sd.LayoutArray(b"\x21\x43" + b"\xff" * 4998, "s4[5000]{0:E(4)}")
    assert np.asarray(a[:4]).astype(int).tolist() == [1, 2, 3, 4]


def test_an_offset() -> None:
    content = b"\x01\x02\x03" + CONTENT + b"\x04" * 10_000
    same_values(sd.LayoutArray(content, PLAIN.text, offset=3), VALUES)
    for offset in (-1, len(content) + 1, len(content) - 3):
        with pytest.raises(sd.BufferSizeError, match=r"\d"):
            sd.LayoutArray(content, PLAIN.text, offset=offset)


@pytest.mark.parametrize("text", ["f32[3,5]{1,0}", "f32[3,5]{1,0:T(8,128)}"])
def test_bytes_without_their_metadata_prefix_are_told(text: str) -> None:
    without = sd.LayoutArray.from_numpy(np.ones((3, 5), np.float32), text).buffer
    with_prefix = text.replace("}", f"{'' if 'T' in text else ':'}M(16)}}")
    with pytest.raises(sd.BufferSizeError, match=r"They are all that is missing: leave M\(16\) out$"):
        sd.LayoutArray(without, with_prefix)


def test_a_metadata_prefix_lies_in_front() -> None:
    a = sd.LayoutArray(bytes(range(14)), "u8[<=4]{0:M(10)}")
    assert a.excess_bytes == 0
    assert sd.LayoutArray(bytes(19), a.xla_shape, offset=2).excess_bytes == 3
    assert np.asarray(a).tolist() == [10, 11, 12, 13]
    with pytest.raises(sd.BufferSizeError, match="metadata"):
        sd.LayoutArray(bytes(13), "u8[<=4]{0:M(10)}")


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dump.bin"
    path.write_bytes(CONTENT)
    return path


def test_a_file_is_mapped_read_only(dump: Path) -> None:
    for path in (dump, str(dump)):
        a = sd.open(path, PLAIN.text)
        same_values(a, VALUES)
        with pytest.raises(ValueError, match="read-only"):
            a[0, 0] = 1
    assert dump.read_bytes() == CONTENT


def test_writes_go_to_the_file_where_it_is_asked_for(dump: Path) -> None:
    changed = VALUES.copy()
    changed[1:, 2] = 7
    private = sd.open(dump, PLAIN.text, "c")
    private[1:, 2] = 7
    same_values(private, changed)
    assert dump.read_bytes() == CONTENT
    a = sd.open(dump, PLAIN.text, "r+")
    a[1:, 2] = 7
    del a
    assert dump.read_bytes() == encoded(PLAIN, changed)


@pytest.mark.parametrize("offset", [0, 1, 3, 4095, 4096, 4097, 70_001])
def test_an_array_inside_a_file(tmp_path: Path, offset: int) -> None:
    path = tmp_path / "dump.bin"
    path.write_bytes(b"\xa5" * offset + CONTENT + b"\xa5" * (9000 if offset else 0))
    a = sd.open(path, PLAIN.text, "r+", offset)
    same_values(a, VALUES)
    a[0, 0] = 5
    del a
    assert path.read_bytes() == b"\xa5" * offset + encoded(
        PLAIN, np.where(np.indices((3, 5)).sum(0) == 0, 5, VALUES).astype(np.int16)
    ) + (b"\xa5" * (9000 if offset else 0))


def test_files_that_do_not_fit(tmp_path: Path, dump: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing"):
        sd.open(tmp_path / "nothing", PLAIN.text)
    with pytest.raises(sd.BufferSizeError, match=r"\b96\b.*\b48\b"):
        sd.open(dump, "s32[3,5]{0,1:T(2,2)}")
    for offset in (1, -1, 49, 10**6):
        with pytest.raises(sd.BufferSizeError, match=r"\d"):
            sd.open(dump, PLAIN.text, offset=offset)
    with pytest.raises(ValueError, match="mode"):
        sd.open(dump, PLAIN.text, "w")
    (tmp_path / "empty").write_bytes(b"")
    assert sd.open(tmp_path / "empty", "f32[0,5]{1,0:T(2,2)}").shape == (0, 5)
    with pytest.raises(sd.BufferSizeError, match=r"\b0\b"):
        sd.open(tmp_path / "empty", "f32[]")


def test_a_file_larger_than_memory_is_opened_and_read_in_part(tmp_path: Path) -> None:
    path = tmp_path / "sparse.bin"
    with path.open("wb") as file:
        file.truncate(5 * 2**40)
        file.seek(4 * (2**36 * 7 + 5))
        file.write(np.float32(2.5).tobytes())
    shape = f"f32[20,{2**36}]{{1,0}}"
    a = sd.open(path, shape)
    assert a[7, 5] == 2.5
    assert a[7, 3:8].to_numpy().tolist() == [0, 0, 2.5, 0, 0]
    assert a[[7, 19, -1], [5, -1, 0]].tolist() == [2.5, 0, 0]
    assert a[::-4, 5 :: 2**34].to_numpy().sum() == 2.5
    assert "LayoutArray(" in repr(a)
    assert len(str(a)) < 2000
    b = sd.open(path, f"f32[10,{2**36}]{{0,1:T(2,2)}}", allow_excess=True)
    assert b[9, -1] == 0
    assert b[3, 2**35 : 2**35 + 3].to_numpy().tolist() == [0, 0, 0]


@pytest.mark.parametrize("make", [sd.LayoutArray, lambda a, b: sd.LayoutArray.from_numpy(np.zeros(3), b)])
def test_arguments_in_the_wrong_order_are_told_in_a_line(make) -> None:
    for raw in (bytes(13_000), np.zeros(13_000, np.uint8), bytearray(13_000)):
        with pytest.raises(TypeError, match="must be text") as caught:
            make("s8[13000]", raw)
        assert len(str(caught.value)) < 120
        assert "\n" not in str(caught.value)
    with pytest.raises(TypeError, match="not bytes; the buffer comes first, then its shape"):
        sd.LayoutArray("s8[3]", bytes(3))


@pytest.mark.parametrize("offset", [2.0, "2", None, [2], np.float32(2)])
def test_an_offset_is_an_integer(offset: Any) -> None:
    with pytest.raises(TypeError, match=f"offset must be an integer, not {type(offset).__name__}"):
        sd.LayoutArray(bytes(5), "s8[3]", offset=offset)
    nothing = type(offset)(0) if isinstance(offset, (float, np.floating)) else offset
    with pytest.raises(TypeError, match="offset must be an integer"):
        sd.LayoutArray(bytes(3), "s8[3]", offset=nothing)


def test_an_offset_may_be_an_integer_of_numpy() -> None:
    assert sd.LayoutArray(bytes(range(5)), "s8[3]", offset=np.uint8(2)).tolist() == [2, 3, 4]
