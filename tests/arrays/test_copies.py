"""Copies and pickles: in memory, of files by their path, and what makes them other than the file."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.runtime import limits
from tests.cases import Case, some_values
from tests.checks import Guarded, encoded, same_outcome, same_values, shape_of
from tests.strategies import cases

TILED, PLAIN = "f32[3,5]{0,1:T(2,2)}", "f32[3,5]{0,1}"
VALUES = np.arange(15, dtype=np.float32).reshape(3, 5)


def array(text: str = TILED, values: np.ndarray = VALUES) -> sd.LayoutArray:
    return sd.LayoutArray.from_numpy(values, text)


@given(cases(), st.sampled_from(["copy", "copy.copy", "deepcopy", *range(pickle.HIGHEST_PROTOCOL + 1), "out of band"]))
def test_copies_are_equal_and_apart(case: Case, way: Any) -> None:
    values = some_values(case)
    a = sd.LayoutArray(bytearray(encoded(case, values)), shape_of(case))
    b = copied(a, way)
    assert type(b) is sd.LayoutArray
    assert b.xla_shape == a.xla_shape
    assert b.buffer.tobytes() == a.buffer.tobytes()
    assert not b.is_view
    if way != "out of band":
        assert not np.shares_memory(a.buffer, b.buffer)
        assert b.flags.writeable
    same_values(b, values, case.bits)


@pytest.mark.parametrize("size", [0, 1, 63, 4097])
def test_large_buffers_are_copied_by_kernels(size: int) -> None:
    """Padding included, of read-only memory too, and nothing beside it is touched."""
    content = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    for offset in (0, 3) if size else (0,):
        source = Guarded(content.tobytes()[offset:], writable=False)
        a = sd.LayoutArray(source.buffer, f"u8[{max(0, size - offset - 9)}]", allow_excess=True)
        with limits.replaced(populated_bytes=0, small_elements=0, tiny_elements=0, compile_first=1):
            b = a.copy()
        assert b.buffer.tobytes() == a.buffer.tobytes()
        assert b.flags.writeable
    text = "bf16[170,300]{1,0:T(8,128)(2,1)}"
    buffer = np.random.default_rng(0).integers(0, 256, sd.parse_shape(text).byte_size, np.uint8)
    with limits.replaced(populated_bytes=0):
        b = sd.LayoutArray(buffer, text).copy()
    assert np.array_equal(b.buffer, buffer), "as it is, with its padding"


def copied(a: Any, way: Any) -> Any:
    if way == "copy":
        return a.copy()
    if way == "copy.copy":
        return copy.copy(a)
    if way == "deepcopy":
        return copy.deepcopy(a)
    if way == "out of band":
        buffers: list[pickle.PickleBuffer] = []
        message = pickle.dumps(a, protocol=5, buffer_callback=buffers.append)
        assert len(message) < 2000
        return pickle.loads(message, buffers=buffers)
    return pickle.loads(pickle.dumps(a, protocol=way))


@pytest.mark.parametrize("way", ["copy", "deepcopy", 4, 5, "out of band"])
def test_a_view_is_copied_alone(way: Any) -> None:
    a = sd.LayoutArray.from_numpy(np.arange(100_000).reshape(100, 1000), "{1,0:T(8,128)}")
    b = copied(a[3:5, ::100], way)
    same_values(b, np.arange(100_000).reshape(100, 1000)[3:5, ::100])
    assert b.buffer.nbytes == 160
    assert not b.is_view
    c = copied(a.T[:2], way)
    same_values(c, np.asarray(a).T[:2])


@pytest.mark.parametrize("way", ["copy", "copy.copy", "deepcopy", 4, 5, "out of band"])
@pytest.mark.parametrize(
    ("dtype", "seen_as"),
    [
        *[("f4", "V4"), ("f4", "S4"), ("f4", ">f4"), ("f4", [("a", "u2"), ("b", "u2")]), ("i8", "M8[s]"), ("u1", "V1")],
        *[("c16", "V16"), ("c16", ">c16"), ("c8", ">c8"), ("u2", ">u2")],
    ],
)
def test_views_of_types_that_xla_lacks_are_copied_as_they_are(dtype: str, seen_as: Any, way: Any) -> None:
    values = np.arange(15).reshape(3, 5).astype(dtype)
    a, x = sd.LayoutArray.from_numpy(values, "{1,0:T(2,2)}").view(seen_as), values.view(seen_as)
    for key in np.s_[:], np.s_[::2, 1:], np.s_[1, 1:2]:
        b = copied(a[key], way)
        assert type(b) is sd.LayoutArray
        assert b.dtype == x.dtype
        assert np.asarray(b).tobytes() == x[key].tobytes()
        assert not b._memory.buffer.size or not np.shares_memory(b.buffer, a.buffer)


def test_copies_in_another_order() -> None:
    a = array()
    assert str(a.copy("C").xla_shape) == "f32[3,5]{1,0}"
    assert str(a.copy("F").xla_shape) == "f32[3,5]{0,1}"
    assert str(a.copy().xla_shape) == TILED
    assert str(a[:, 1:].copy().xla_shape) == "f32[3,4]{1,0}"
    assert str(array("s4[3,5]{1,0:E(4)}", VALUES.astype(ml_dtypes.int4))[1:].copy().layout) == "{1,0:E(4)}"
    same_outcome(lambda: a.copy("X"), lambda: VALUES.copy("X"))


def test_read_only_memory_stays_so_in_a_pickle() -> None:
    a = sd.LayoutArray(VALUES.tobytes(), "f32[3,5]")
    for view in (a, a[1:], a.T, array().broadcast_to((2, 3, 5))):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            b = pickle.loads(pickle.dumps(view, protocol))
            assert not b.flags.writeable
            same_values(b, np.asarray(view))
    assert pickle.loads(pickle.dumps(array()[1:])).flags.writeable


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "dump.bin"
    array().buffer.tofile(path)
    return path


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_an_array_in_a_file_is_pickled_by_its_path(file: Path, mode: str) -> None:
    with open(file, "ab") as appended:
        appended.write(bytes(1 << 16))
    a = sd.open(file, TILED, mode=mode, allow_excess=True)
    for view in (a, a[1:, ::2], a.T):
        message = pickle.dumps(view)
        assert len(message) < 2000
        b = pickle.loads(message)
        same_values(b, np.asarray(view))
        assert b.file.path == str(file)
        assert b.flags.writeable == (mode == "r+")
    if mode == "r+":
        b[1, 0] = 99
        assert a[0, 1] == 99
    c = pickle.loads(pickle.dumps(sd.open(file, "f32[2]", offset=8)))
    same_values(c, np.asarray(sd.open(file, "f32[2]", offset=8)))
    file.unlink()
    with pytest.raises(FileNotFoundError, match=file.name):
        pickle.loads(message)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
@pytest.mark.parametrize("is_replaced", [True, False], ids=["replaced", "removed"])
def test_an_array_in_a_file_that_its_path_no_longer_leads_to(file: Path, mode: str, is_replaced: bool) -> None:
    """It is another file's bytes that would be read there."""
    a, wanted = sd.open(file, TILED, mode=mode), array().to_numpy()
    token = a.__dask_tokenize__()
    file.unlink()
    if is_replaced:
        file.write_bytes(bytes(a._memory.buffer.size))
        assert a.__dask_tokenize__() != sd.open(file, TILED, mode=mode).__dask_tokenize__()
    assert a.__dask_tokenize__() == a.__dask_tokenize__()
    assert (a.__dask_tokenize__() == token) == (mode == "r+")  # which tells of the bytes in any case
    for b in (pickle.loads(pickle.dumps(a)), copied(a, "copy"), copied(a, "deepcopy")):
        same_values(b, wanted)
    assert pickle.loads(pickle.dumps(a)).flags.writeable == (mode != "r")


def test_an_array_with_changes_of_its_own_is_pickled_by_its_content(file: Path) -> None:
    a = sd.open(file, TILED, mode="c")
    a[0, 0] = 99
    file.unlink()
    assert pickle.loads(pickle.dumps(a))[0, 0] == 99


@pytest.mark.parametrize("way", ["copy", "deepcopy"])
def test_a_copy_of_a_file_that_is_only_read_is_mapped_anew(file: Path, way: str) -> None:
    content = file.read_bytes()
    for key in ((), slice(1, None)):
        a = sd.open(file, TILED)[key]
        b = copied(a, way)
        assert b.file is not None
        assert b.file.mode == "c"
        assert len(pickle.dumps(b)) < 2000, "untouched, it is what the file is"
        assert b.__dask_tokenize__() == a.__dask_tokenize__()
        b[0, 0] = 99
        same_values(pickle.loads(pickle.dumps(b)), np.asarray(b))
        assert pickle.loads(pickle.dumps(b))[0, 0] == 99
        assert b.__dask_tokenize__() != a.__dask_tokenize__()
        assert copied(b, way)[0, 0] == 99
        same_values(a, VALUES[key])
    assert file.read_bytes() == content


CHANGES: dict[str, Any] = {
    "one element": lambda a: a.__setitem__((0, 0), 99),
    "a row": lambda a: a.__setitem__(0, 99),
    "by index arrays": lambda a: a.__setitem__([0], 99),
    "flat": lambda a: a.flat.__setitem__([0], 99),
    "the buffer": lambda a: a.buffer.view(np.float32).__setitem__(0, 99),
    "fill": lambda a: a.fill(99),
    "out": lambda a: np.add(a, 99, out=a),
    "copyto": lambda a: np.copyto(a, 99),
    "copyto in part": lambda a: np.copyto(a, 99, where=np.arange(5) < 2),
    "put": lambda a: np.put(a, [0], 99),
    "putmask": lambda a: np.putmask(a, np.ones(a.shape, bool), 99),
    "a conversion": lambda a: sd.LayoutArray.from_numpy(VALUES, a.xla_shape, out=a),
    "a view": lambda a: a.T.__setitem__((0, 0), 99),
    "another type": lambda a: a.view(np.int32).__setitem__((0, 0), 99),
    "sort": lambda a: a.sort(),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("text", [TILED, PLAIN])
def test_changes_that_stay_in_memory_are_pickled(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "dump.bin"
    array(text, VALUES[::-1, ::-1]).buffer.tofile(path)
    a = sd.open(path, text, mode="c")
    CHANGES[name](a)
    same_values(pickle.loads(pickle.dumps(a)), np.asarray(a))
    assert a[0, 0] != 14


def joined(*arrays: Any) -> np.ndarray:
    """The arrays one behind the other, converted one at a time as large ones are."""
    with limits.replaced(joined_bytes=0, direct_bytes=0):
        return np.concatenate(arrays)


QUESTIONS: dict[str, Any] = {
    "a sum": np.sum,
    "a sum of its own type": lambda a: a.sum(dtype=np.float64),
    "methods": lambda a: (a.tolist(), a.tobytes(), a.flatten(), a.astype(int), a.max(), a.argsort(), a.flags.forc),
    "an operator": lambda a: a + 1,
    "functions": lambda a: (np.concatenate([a, a]), np.sort(a), np.unique(a), np.percentile(a, 3), np.where(a, a, 1)),
    "joining": lambda a: joined(a, VALUES),
    "questions": lambda a: (a.is_strided, a.shape, np.shares_memory(a, a.T), np.empty_like(a), str(a)),
    "nothing of it": lambda a: np.asarray(a[:0]),
}


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("text", [TILED, PLAIN])
def test_reading_changes_nothing(name: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "dump.bin"
    array(text).buffer.tofile(path)
    a = sd.open(path, text, mode="c")
    QUESTIONS[name](a)
    assert b"dump.bin" in pickle.dumps(a)


GIVEN_OUT: dict[str, Any] = {
    "asarray": np.asarray,
    "as_strided": lambda a: a.as_strided(),
    "a function": lambda a: np.lib.stride_tricks.sliding_window_view(a, (2, 2), writeable=True),
    "a view of the same bytes": lambda a: a.T.view(np.int8),
    "DLPack": np.from_dlpack,
    "a function of one's own": lambda a: np.apply_along_axis(lambda x: x.sum(), 0, a),
    "getfield": lambda a: a.getfield(np.int16),
}


@pytest.mark.parametrize("name", GIVEN_OUT)
def test_memory_in_the_hands_of_others_may_change(name: str, tmp_path: Path) -> None:
    path = tmp_path / "dump.bin"
    array(PLAIN).buffer.tofile(path)
    a = sd.open(path, PLAIN, mode="c")
    GIVEN_OUT[name](a)
    assert b"dump.bin" not in pickle.dumps(a)


def test_other_copies_are_in_memory(file: Path) -> None:
    a = sd.open(file, TILED, mode="r+")
    assert a.copy().file is None
    assert sd.open(file, TILED).copy("C").file is None
    b = sd.open(file, TILED)
    file.unlink()
    c = b.copy()
    assert c.file is None, "the path leads nowhere"
    c[0, 0] = 5
    assert pickle.loads(pickle.dumps(c))[0, 0] == 5


def test_metadata_in_front_of_an_array_do_not_matter_to_copies() -> None:
    a = sd.LayoutArray.from_numpy(VALUES, "{0,1:M(8)}")
    for way in ("copy", "deepcopy", 2, 5, "out of band"):
        same_values(copied(a, way), VALUES)


def test_weak_references() -> None:
    a = array()
    view, seen = a[1:], weakref.ref(a)
    del a
    gc.collect()
    assert seen() is None
    same_values(view, VALUES[1:])


def test_tokens_tell_arrays_apart(file: Path) -> None:
    a = array()
    assert a.__dask_tokenize__() == array().__dask_tokenize__()
    tokens = [a, a.T, a[1:], array(PLAIN), array(TILED, VALUES + 1), sd.open(file, TILED), a.view(np.int32)]
    assert len({repr(x.__dask_tokenize__()) for x in tokens}) == len(tokens)
    assert sd.open(file, TILED).__dask_tokenize__() == sd.open(file, TILED).__dask_tokenize__()
