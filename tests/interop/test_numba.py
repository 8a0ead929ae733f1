"""Numba: arrays as arguments of functions that readers compile themselves."""

from __future__ import annotations

import gc
import importlib.metadata
import tomllib
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import strided as sd
from tests import paths
from tests.thinned import thinned

pytestmark = pytest.mark.partners

numba = pytest.importorskip("numba", reason="Numba is not installed")

from strided.interop.numba import register  # noqa: E402

register()


@numba.njit
def total(a: Any) -> float:
    found = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            found += (i + 1) * (10 * j + 1) * a[i, j]
    return found


@numba.njit
def gathered(a: Any, out: Any) -> Any:
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j]
    return out


@numba.njit
def at(a: Any, i: int) -> Any:
    return a[i]


@numba.njit
def at_pair(a: Any, index: Any) -> Any:
    return a[index]


LAYOUTS = ["{1,0}", "{0,1}", "{1,0:T(2,2)}", "{0,1:T(2,4)}", "{1,0:T(8,128)}", "{1,0:T(8,128)(4,1)}", "{0,1:T(4)}"]


@pytest.mark.parametrize("layout", thinned(LAYOUTS, 5))
@pytest.mark.parametrize("dtype", thinned(["?", "i1", "u2", "i4", "u8", "f4", "f8", "c16"], 5))
@pytest.mark.slow
def test_every_element_is_read(layout: str, dtype: str) -> None:
    x = (np.arange(13 * 9).reshape(13, 9) % 120).astype(dtype)
    a = sd.LayoutArray.from_numpy(x, layout)
    np.testing.assert_array_equal(gathered(a, np.empty_like(x)), x)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.slow
def test_views_are_read(layout: str) -> None:
    x = np.arange(13 * 9, dtype=np.int32).reshape(13, 9)
    a = sd.LayoutArray.from_numpy(x, layout)
    for view, same in [
        (a[2:, ::3], x[2:, ::3]),
        (a.T, x.T),
        (a[::-1, 7:0:-2], x[::-1, 7:0:-2]),
        (a[3:3], x[3:3]),
        (np.broadcast_to(a[4:5], (6, 9)), np.broadcast_to(x[4:5], (6, 9))),
    ]:
        np.testing.assert_array_equal(gathered(view, np.empty_like(same)), same)
    assert [at(a.diagonal(), i) for i in range(9)] == x.diagonal().tolist()


@pytest.mark.slow
def test_every_rank() -> None:
    scalar = sd.LayoutArray.from_numpy(np.float32(3))
    assert at_pair(scalar, ()) == 3
    x = np.arange(2 * 3 * 5 * 7, dtype=np.int64).reshape(2, 3, 5, 7)
    a = sd.LayoutArray.from_numpy(x, "{1,3,0,2:T(2,4)(2,1)}")
    for index in np.ndindex(x.shape):
        assert at_pair(a, index) == x[index]
    line = sd.LayoutArray.from_numpy(np.arange(10, dtype=np.uint8))
    assert [at(line, i) for i in range(-10, 10)] == [*range(10), *range(10)]


@pytest.mark.slow
def test_indices_as_in_numpy() -> None:
    x = np.arange(12, dtype=np.int16).reshape(3, 4)
    a = sd.LayoutArray.from_numpy(x, "{0,1:T(2,2)}")
    assert at_pair(a, (-1, -4)) == x[-1, -4]
    assert at_pair(a, (np.int8(2), np.uint64(3))) == x[2, 3]
    for index in [(3, 0), (0, 4), (-4, 0), (0, -5)]:
        with pytest.raises(IndexError, match="out of bounds"):
            at_pair(a, index)


def test_one_compilation_serves_every_layout() -> None:
    fresh = numba.njit(total.py_func)
    x = np.arange(13 * 9, dtype=np.float32).reshape(13, 9)
    expected = total.py_func(x)
    for layout in LAYOUTS:
        assert fresh(sd.LayoutArray.from_numpy(x, layout)) == pytest.approx(expected)
    assert len(fresh.signatures) == 1


def test_shape_and_its_kin() -> None:
    @numba.njit
    def about(a: Any) -> Any:
        return a.shape, a.ndim, a.size, len(a)

    assert about(sd.LayoutArray(bytes(64), "f32[4,3]{0,1:T(2,2)}")) == ((4, 3), 2, 12, 4)


def test_misaligned_and_read_only_memory() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    a = sd.LayoutArray(b"\0" + x.tobytes(), "f32[3,4]", offset=1)
    np.testing.assert_array_equal(gathered(a, np.empty_like(x)), x)


def test_a_mapped_file(tmp_path: Path) -> None:
    x = np.arange(13 * 9, dtype=np.int32).reshape(13, 9)
    path = tmp_path / "array.bin"
    sd.LayoutArray.from_numpy(x, "{1,0:T(8,128)}").buffer.tofile(path)
    a = sd.open(path, "s32[13,9]{1,0:T(8,128)}")
    assert total(a) == total(x)
    path.write_bytes(b"")
    with pytest.raises(sd.BufferSizeError, match="was truncated: it has 0 bytes"):
        total(a)


def test_nothing_is_kept_alive() -> None:
    memory = np.zeros((8, 128), np.float32)
    held = weakref.ref(memory)
    a = sd.LayoutArray(memory, "f32[8,128]{1,0:T(8,128)}")
    for _ in range(10):
        total(a)
    del a, memory
    gc.collect()
    assert held() is None


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ("bf16[4,3]", "no bfloat16.*to_numpy"),
        ("s4[4,3]{1,0:E(4)}", "no int4.*to_numpy"),
        ("f16[4,3]", "float16.*to_numpy"),
        ("f32[4,3,5]{2,1,0:T(3,*,2)}", "irregular.*to_numpy"),
    ],
)
def test_what_cannot_be_read_says_what_to_do(shape: str, words: str) -> None:
    a = sd.LayoutArray(bytearray(4096), shape, allow_excess=True)
    with pytest.raises(numba.TypingError, match=words):
        at_pair(a, (0, 0, 0)[: a.ndim])


@pytest.mark.parametrize("index", [slice(0, 2), (0, slice(0, 2)), (0,), (0.0, 1)], ids=str)
def test_other_keys_name_to_numpy(index: Any) -> None:
    with pytest.raises(numba.TypingError, match=r"single elements.*2 integers; give them a\.to_numpy\(\)"):
        at_pair(sd.LayoutArray(bytes(12), "u8[3,4]"), index)


def test_assignment_is_refused() -> None:
    @numba.njit
    def assign(a: Any) -> None:
        a[0, 0] = 1

    with pytest.raises(numba.TypingError, match=r"do not assign.*out = a\.to_numpy\(\)"):
        assign(sd.LayoutArray(bytearray(12), "u8[3,4]"))


def test_the_entry_point_names_the_function() -> None:
    project = paths.ROOT / "pyproject.toml"
    named = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["entry-points"]["numba_extensions"]["init"]
    point = importlib.metadata.EntryPoint("init", named, "numba_extensions")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert point.load() is register
