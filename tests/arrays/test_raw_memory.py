"""Doors to the memory itself: ``data``, ``ctypes``, Python's buffer protocol, DLPack.

Each says how the elements lie, or refuses.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import io
import pickle
import sys
import types
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import strided as sd
from strided.layout.element_types import is_builtin
from tests.cases import Case, some_values
from tests.checks import encoded, outcome, same_values, shape_of
from tests.strategies import cases

#: What consumers ask for: bytes alone; everything, read-only or not; rows without gaps; columns without gaps.
SIMPLE, FULL_RO, FULL, C_CONTIGUOUS, F_CONTIGUOUS, FORMAT = 0, 0x11C, 0x11D, 0x38, 0x58, 0x4
VALUES = np.arange(15, dtype=np.float32).reshape(3, 5)
with_buffers = pytest.mark.skipif(sys.version_info < (3, 12), reason="Python asks for __buffer__ from 3.12 on")


def plain(layout: str, values: np.ndarray = VALUES, **options: Any) -> sd.LayoutArray:
    return sd.LayoutArray.from_numpy(values, layout, **options)


def wrapped(case: Case) -> tuple[sd.LayoutArray, np.ndarray]:
    values = some_values(case)
    return sd.LayoutArray(bytearray(encoded(case, values)), shape_of(case)), values


# --- ctypes and data ------------------------------------------------------------------------------------------------


@given(cases())
def test_an_address_is_given_of_rows_without_gaps_alone(case: Case) -> None:
    """Who takes an address and a number of bytes gets the values of the array."""
    a, values = wrapped(case)
    if a.flags.c_contiguous:
        assert ctypes.string_at(a.ctypes.data, a.nbytes) == values.tobytes()
        assert tuple(a.ctypes.shape or ()) == a.shape
    else:
        with pytest.raises(AttributeError, match=r"to_numpy\(\)"):
            _ = a.ctypes


@pytest.mark.parametrize(
    ("a", "message"),
    [
        (plain("{0,1}"), "does not lie in row-major order without gaps"),
        (plain("{1,0:T(4,8)}"), "does not lie in row-major order"),
        (plain("{1,0}")[:, ::2], "^a view of .* does not lie in row-major order"),
        (plain("{1,0}")[::-1], "does not lie in row-major order"),
        (plain("{0,1:T(2,2)}"), "is not plain strides"),
        (plain("{1,0:E(4)}", VALUES % 7, element_type="s4"), "packs 4-bit elements"),
    ],
    ids=["columns", "padded", "gaps", "backwards", "tiled", "packed"],
)
def test_other_memory_has_no_address(a: sd.LayoutArray, message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        _ = a.ctypes
    assert not hasattr(a, "ctypes")


def test_data_is_an_ndarray_on_the_memory() -> None:
    """No memoryview: by that netCDF4 tells what it takes apart as an ndarray."""
    for a in (plain("{1,0}"), plain("{0,1}"), plain("{1,0:T(4,8)}"), plain("{1,0}", element_type="bf16")):
        assert type(a.data) is np.ndarray
        assert np.shares_memory(a.data, a.buffer)
        same_values(a.data, a.to_numpy())
    with pytest.raises(AttributeError, match="is not plain strides"):
        _ = plain("{0,1:T(2,2)}").data


# --- buffers --------------------------------------------------------------------------------------------------------


@given(cases())
def test_a_buffer_has_the_values_of_the_array(case: Case) -> None:
    """As of the ndarray on the same memory, for every kind of consumer; packed and tiled memory has none."""
    a, values = wrapped(case)
    for flags in (FULL_RO, SIMPLE):
        got, error = outcome(lambda flags=flags: a.__buffer__(flags))
        if not a.is_strided or (flags & FORMAT and not is_builtin(a.dtype)):
            assert isinstance(error, BufferError)
            continue
        assert error is None
        assert (got.shape, got.itemsize, got.readonly) == (a.shape, a.itemsize, False)
        assert got.tobytes() == values.tobytes()
    if a.is_strided and is_builtin(a.dtype):
        same_values(np.asarray(a.__buffer__(FULL_RO)), values)


def test_types_without_a_name_go_as_bytes() -> None:
    a = plain("{1,0}", element_type="bf16")
    with pytest.raises(BufferError, match=r"no name for bfloat16; a.view\('u2'\) has one"):
        a.__buffer__(FULL_RO)
    assert bytes(a.__buffer__(SIMPLE)) == a.tobytes()
    assert np.array_equal(a.view("u2").__buffer__(FULL_RO), a.to_numpy().view(np.uint16))


def test_read_only_memory_stays_so() -> None:
    a = sd.LayoutArray(VALUES.tobytes(), "f32[3,5]")
    assert a.__buffer__(FULL_RO).readonly
    assert not plain("{1,0}").__buffer__(FULL_RO).readonly


@with_buffers
@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}", "{1,0:T(4,8)}"])
def test_memoryviews(layout: str) -> None:
    a = plain(layout)
    view, expected = memoryview(a), memoryview(a.as_strided())
    assert (view.shape, view.strides, view.format) == (expected.shape, expected.strides, expected.format)
    assert view.tolist() == VALUES.tolist()
    view[1, 2] = 99
    assert a[1, 2] == 99
    assert bytearray(a) == a.tobytes() == bytes(a)


@with_buffers
def test_consumers_of_buffers() -> None:
    """Rows without gaps are taken as bytes; of other layouts they refuse, and nothing wrong is written."""
    for element_type in ("f32", "bf16"):
        a = plain("{1,0}", element_type=element_type)
        assert hashlib.sha256(a).digest() == hashlib.sha256(a.tobytes()).digest()
        file = io.BytesIO()
        file.write(a)
        assert file.getvalue() == a.tobytes()
    for layout in ("{0,1}", "{1,0:T(4,8)}", "{0,1:T(2,2)}"):
        with pytest.raises(BufferError, match=r"contiguous|to_numpy"):
            hashlib.sha256(plain(layout))
    with pytest.raises((BufferError, TypeError), match=r"read-?only|writable|read-write"):
        io.BytesIO(bytes(60)).readinto(sd.LayoutArray(VALUES.tobytes(), "f32[3,5]"))
    a = plain("{1,0}", np.zeros_like(VALUES))
    io.BytesIO(VALUES.tobytes()).readinto(a)
    assert np.array_equal(a, VALUES)


@with_buffers
def test_a_memoryview_keeps_the_memory() -> None:
    memory = np.arange(15, dtype=np.float32)
    gone = weakref.ref(memory)
    view = memoryview(sd.LayoutArray(memory, "f32[3,5]{0,1}"))
    del memory
    gc.collect()
    assert gone() is not None
    assert view[2, 1] == 5
    view.release()
    gc.collect()
    assert gone() is None


def test_what_is_refused_leaves_a_private_mapping_untouched(tmp_path: Path) -> None:
    """An array in a file opened with mode "c" is the file's until somebody gets at its memory."""
    path = tmp_path / "x.bin"
    plain("{0,1:T(2,2)}").buffer.tofile(path)
    a = sd.open(path, "f32[3,5]{0,1:T(2,2)}", mode="c")
    for refused in (
        a.as_strided,
        lambda: a.__buffer__(FULL_RO),
        lambda: a.__dlpack__(),
        lambda: a.ctypes,
        lambda: a.data,
    ):
        with pytest.raises((BufferError, AttributeError), match="not plain strides"):
            refused()
    np.asarray(a)
    assert a.file is not None
    assert a.file.is_the_file
    assert str(path).encode() in pickle.dumps(a)


def test_an_array_is_no_buffer_for_another() -> None:
    """What cannot be wrapped is refused with the same error in every Python."""
    with pytest.raises(TypeError, match="LayoutArray is no buffer; its attribute `buffer` is one"):
        sd.LayoutArray(plain("{0,1:T(2,2)}"), "f32[3,5]")


# --- DLPack ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [np.s_[::-1], np.s_[:, ::-2], np.s_[::-1, 2:]])
def test_dlpack_of_views_that_run_backwards_is_refused(key: Any) -> None:
    """torch ends the process when it gets negative strides."""
    a = plain("{0,1}")[key]
    with pytest.raises(BufferError, match="runs backwards; to_numpy"):
        a.__dlpack__()
    assert "dltensor" in repr(a.__dlpack__(copy=True))
    assert np.array_equal(np.from_dlpack(a[:1, :1][::-1]), a[:1, :1]), "one entry has no direction"


# --- as a type ------------------------------------------------------------------------------------------------------


def test_the_class_takes_parameters_as_ndarray_does() -> None:
    matrix = sd.LayoutArray[tuple[int, int], np.dtype[np.float32]]
    assert isinstance(matrix, types.GenericAlias)
    assert matrix.__origin__ is sd.LayoutArray
    assert matrix.__args__ == (tuple[int, int], np.dtype[np.float32])
    assert matrix(bytes(60), "f32[3,5]").shape == (3, 5)
