"""Threads, forks, lifetimes, files that change, and sizes beyond 32 bits."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd

TEXT = "f32[300,700]{0,1:T(8,128)}"
VALUES = np.arange(210_000, dtype=np.float32).reshape(300, 700)


def array(text: str = TEXT, values: np.ndarray = VALUES) -> sd.LayoutArray:
    return sd.LayoutArray.from_numpy(values, sd.parse(text))


def at_once(*jobs: Callable[[], Any], times: int = 20) -> list[Any]:
    """What the jobs return, each run several times by its own thread."""
    start = threading.Barrier(len(jobs))

    def repeat(job: Callable[[], Any]) -> list[Any]:
        start.wait(timeout=60)
        return [job() for _ in range(times)]

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [found for job in [pool.submit(repeat, job) for job in jobs] for found in job.result()]


# --- threads --------------------------------------------------------------------------------------------------------


def test_many_threads_read_one_array() -> None:
    a = array()
    jobs: list[Callable[[], Any]] = [
        lambda: bool(np.array_equal(a.to_numpy(), VALUES)),
        lambda: bool(np.array_equal(a[::2, 3], VALUES[::2, 3])),
        lambda: bool(np.array_equal(a[[5, 2]], VALUES[[5, 2]])),
        lambda: a[3, 5] == VALUES[3, 5],
        lambda: bool(np.array_equal(a.to_layout("{1,0:T(8,128)}")[7], VALUES[7])),
        lambda: float(a.max()) == 209_999,
    ]
    assert all(at_once(*jobs))


def test_one_writes_while_others_read_other_elements() -> None:
    a = array()
    done = threading.Event()

    def write() -> bool:
        for k in range(30):
            a[:150] = np.float32(k)
        done.set()
        return True

    def read() -> bool:
        while not done.is_set():
            if not np.array_equal(a[150:].to_numpy(), VALUES[150:]):
                return False
        return True

    assert all(at_once(write, read, read, times=1))
    assert (a[:150].to_numpy() == 29).all()


@pytest.mark.parametrize("text", ["s4[64]{0:E(4)}", "pred[64]{0:E(1)}", "u2[8,8]{1,0:T(4,8)E(2)}"])
def test_threads_write_different_elements_of_one_byte(text: str) -> None:
    shape = sd.parse(text)
    a = sd.LayoutArray(bytearray(shape.byte_size), shape)
    flat = a if a.ndim == 1 else a.reshape(64)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for value in (1, 0, 1):
            parts = [flat[k::4] for k in range(4)]

            def fill(part: Any, value: int = value) -> None:
                for i in range(len(part)):
                    part[i] = value
                part[...] = value
                part[[0, -1]] = value

            at_once(*(lambda part=part: fill(part) for part in parts), times=3)
            assert (np.asarray(a).astype(int) == value).all()
    finally:
        sys.setswitchinterval(interval)


def test_reductions_and_functions_from_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    from strided.arrays import blocks, reductions

    monkeypatch.setattr(reductions, "STREAM_BYTES", 1000)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 14)
    a = array()
    jobs: list[Callable[[], Any]] = [
        lambda: a.sum() == np.float32(VALUES.sum(dtype=np.float64)),
        lambda: int(a.argmax()) == 209_999,
        lambda: bool(np.array_equal(a + 1, VALUES + 1)),
        lambda: np.allclose(np.mean(a, axis=1), VALUES.mean(axis=1)),
    ]
    assert all(at_once(*jobs, times=5))


# --- forks ----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_child_goes_on() -> None:
    """The pool's threads do not exist in the child, and locks may have been held."""
    program = """
        import os, sys, threading
        import numpy as np
        import strided as sd

        values = np.arange(2_000_000, dtype=np.float32).reshape(2000, 1000)
        a = sd.LayoutArray.from_numpy(values, "{0,1:T(8,128)}")
        packed = sd.LayoutArray(bytearray(1 << 12), "s4[8192]{0:E(4)}")
        a.to_numpy()
        stop = threading.Event()

        def busy():
            while not stop.is_set():
                packed[::3] = 1

        threading.Thread(target=busy, daemon=True).start()
        for _ in range(5):
            child = os.fork()
            if child == 0:
                packed[5] = 1
                ok = np.array_equal(a.to_numpy(), values) and packed[5] == 1 and a.sum() > 0
                os._exit(0 if ok else 1)
            _, status = os.waitpid(child, 0)
            assert status == 0, status
        stop.set()
        print("well")
    """
    environment = {**os.environ, "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], env=environment, capture_output=True, text=True, timeout=120
    )
    assert result.stdout.strip() == "well", result.stderr


# --- lifetimes ------------------------------------------------------------------------------------------------------


def test_views_outlive_the_array_and_its_buffer() -> None:
    buffer = bytearray(array().buffer.tobytes())
    a = sd.LayoutArray(buffer, TEXT)
    views = [a[5], a.T, a[::2, ::3], a.diagonal(), a[1, 2:3], a.flat]
    plain = np.asarray(sd.LayoutArray(bytearray(1 << 20), "u8[1048576]"))
    del a, buffer
    gc.collect()
    junk = [bytearray(b"\xff" * 860_000) for _ in range(4)]
    assert np.array_equal(views[0], VALUES[5])
    assert np.array_equal(views[1], VALUES.T)
    assert np.array_equal(views[2], VALUES[::2, ::3])
    assert np.array_equal(views[3], VALUES.diagonal())
    assert views[5][701] == VALUES[1, 1]
    assert not plain.any()
    del junk


def test_a_buffer_cannot_be_resized_under_an_array() -> None:
    buffer = bytearray(64)
    a = sd.LayoutArray(buffer, "u8[64]")
    with pytest.raises(BufferError):
        buffer.extend(b"more")
    assert a[0] == 0


def test_a_mapped_file_stays_mapped(tmp_path: Path) -> None:
    path = tmp_path / "dump.bin"
    array().buffer.tofile(path)
    view = sd.open(path, TEXT)[7]
    path.unlink()
    gc.collect()
    assert np.array_equal(view, VALUES[7])


# --- files that change ----------------------------------------------------------------------------------------------

READS: dict[str, Callable[[sd.LayoutArray], Any]] = {
    "one element": lambda a: a[3, 5],
    "to_numpy": lambda a: a.to_numpy(),
    "a view": lambda a: a[5].to_numpy(),
    "np.asarray": lambda a: np.asarray(a),
    "index arrays": lambda a: a[[1, 2], [3, 4]],
    "a mask": lambda a: a[np.ones(a.shape, bool)],
    "a sum": lambda a: a.sum(),
    "a function": lambda a: np.sort(a),
    "an operator": lambda a: a + 1,
    "another dtype": lambda a: a.astype(np.float64),
    "to_layout": lambda a: a.to_layout("{1,0}"),
    "repr": repr,
    "iteration": lambda a: next(iter(a)).tolist(),
    "an assignment": lambda a: a.__setitem__((0, 0), 1),
    "a larger assignment": lambda a: a.__setitem__(0, 1),
    "a copy": lambda a: a.copy(),
    "a pickle": lambda a: pickle.dumps(a),
}


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be truncated there")
@pytest.mark.parametrize("text", [TEXT, "f32[300,700]{1,0}"])
@pytest.mark.parametrize(
    ("name", "streams"),
    [
        *((name, False) for name in READS),
        *((name, True) for name in ("a sum", "an operator", "another dtype", "a function")),
    ],
)
def test_a_truncated_file_is_an_error_and_no_crash(
    name: str, streams: bool, text: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if streams:  # block by block, as large arrays are
        request.getfixturevalue("small_streams")
    path = tmp_path / "dump.bin"
    array(text).buffer.tofile(path)
    a = sd.open(path, text, mode="r+")
    os.truncate(path, 100)
    with pytest.raises(sd.BufferSizeError, match="was truncated"):
        READS[name](a)
    os.truncate(path, a.buffer.nbytes)
    assert a[3, 5] == 0


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file cannot be truncated there")
@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("text", [TEXT, "f32[300,700]{1,0}"])
def test_an_array_that_differs_from_its_truncated_file_is_not_pickled(text: str, protocol: int, tmp_path: Path) -> None:
    path = tmp_path / "dump.bin"
    array(text).buffer.tofile(path)
    a = sd.open(path, text, mode="c")
    a[0, 0] = 1
    os.truncate(path, 0)
    with pytest.raises(sd.BufferSizeError, match="was truncated"):
        pickle.dumps(a, protocol)


def test_a_file_that_grew_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "dump.bin"
    array().buffer.tofile(path)
    a = sd.open(path, TEXT)
    with open(path, "ab") as file:
        file.write(bytes(5000))
    assert a[3, 5] == VALUES[3, 5]


# --- sizes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("u8[70000,70000]{1,0:T(32,128)(4,1)}", (69_999, 69_998)),
        ("bf16[3,40000,30000]{2,1,0:T(8,128)(2,1)}", (2, 39_999, 29_999)),
        ("f32[2500000000]{0:T(1024)}", (2_499_999_999,)),
        ("s4[100000,100000]{0,1:T(8,128)(8,1)E(4)}", (99_999, 99_997)),
    ],
)
def test_more_than_32_bits_of_elements_and_bytes(text: str, index: tuple[int, ...], tmp_path: Path) -> None:
    """In sparse files: element reads, writes, views, gathers and windows at the far end."""
    shape = sd.parse(text)
    path = tmp_path / "large.bin"
    with open(path, "wb") as file:
        file.truncate(shape.byte_size)
    a = sd.open(path, shape, mode="r+")
    assert a.size > 1 << 31
    a[index] = 3
    assert a[index] == 3
    assert a[tuple(i - n for i, n in zip(index, a.shape, strict=True))] == 3
    end = tuple(slice(n - 20, n) for n in a.shape)
    assert np.asarray(a[end]).astype(int).sum() == 3
    assert not np.asarray(a[tuple(slice(n - 2, n - 40, -2) for n in a.shape)]).any()
    assert a[tuple(np.array([i, 0]) for i in index)].astype(int).tolist() == [3, 0]
    place = int(np.ravel_multi_index(index, a.shape))
    assert a.flat[place] == 3
    assert a.flat[[0, place]].astype(int).tolist() == [0, 3]
    assert a.T[index[::-1]] == 3
    a[end] = a[end] + a[end]
    assert int(a[index]) == 6
    assert np.max(a[end]) == 6
    assert path.stat().st_blocks * 512 < 1 << 24
    assert "..." in repr(a)
    b = pickle.loads(pickle.dumps(a))
    assert b[index] == 6


def test_the_most_axes() -> None:
    dimensions = (2,) * 16 + (1,) * 48
    shape = sd.Shape("s32", dimensions, sd.Layout(tuple(range(64)), [(2, 2)]))
    x = np.arange(1 << 16, dtype=np.int32).reshape(dimensions)
    a = sd.LayoutArray.from_numpy(x, shape)
    assert np.array_equal(a.to_numpy().reshape(-1), np.arange(1 << 16))
    assert a[(1,) * 16 + (0,) * 48] == (1 << 16) - 1
    assert a.sum() == x.sum()
    assert a.T.shape == dimensions[::-1]
    assert np.array_equal(a[1, ..., 0], x[1, ..., 0])


@pytest.mark.parametrize("method", ["random", "standard_normal", "standard_exponential", "standard_gamma"])
def test_random_generators_find_no_flags_where_an_ndarray_has_them(method: str) -> None:
    """They take any `out` for an ndarray, without looking: behind a small object is another one's memory."""
    x = np.zeros((3, 4))
    place = 64
    assert ctypes.c_int.from_address(id(x) + place).value & 0xFFFF == x.flags.num
    a = sd.LayoutArray.from_numpy(x, "{1,0:T(2,2)}")
    arguments = (1.0,) if method == "standard_gamma" else ()
    for each in (a, a[1:], sd.LayoutArray.from_numpy(x, "{1,0}")):
        known = weakref.ref(each)
        assert type(each).__basicsize__ >= place + 4
        assert ctypes.c_int.from_address(id(each) + place).value == 0
        with pytest.raises(ValueError, match="contiguous"):
            getattr(np.random.default_rng(0), method)(*arguments, out=each)
        assert known() is each
        assert not each.any()
