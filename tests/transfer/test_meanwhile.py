"""Conversions whose kernels are being compiled: NumPy does them, or begins them, and the result is the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import strided as sd
from strided import kernels
from strided.runtime import cache, limits
from strided.transfer import by_numpy
from strided.transfer import copy as transfer
from strided.transfer.by_numpy import CopyByNumPy
from strided.transfer.region import Region
from tests.regions import Guarded, expected, map_of, window
from tests.thinned import examples, thinned
from tests.transfer.test_equivalence import WAYS, Way, _name, copies

#: Calls after which a kernel that is asked for is never ready.
NEVER = 1 << 62


@pytest.fixture(autouse=True)
def _small_blocks() -> Iterator[None]:
    with limits.replaced(small_elements=0, tiny_elements=0, staged_elements=256, offset_chunk_elements=1000):
        yield
    sd.set_num_threads(None)


class Waiting:
    """Kernels that become ready after they have been asked for so many times, each; and how many boxes NumPy copied."""

    def __init__(self, patch: pytest.MonkeyPatch, times: int) -> None:
        self.asked: dict[str, int] = {}
        self.times = times
        self.boxes = 0
        copy_box = CopyByNumPy._copy

        def is_ready(name: str) -> bool:
            self.asked[name] = self.asked.get(name, 0) + 1
            return self.asked[name] > self.times

        def copy_counted(copy: CopyByNumPy, *box: tuple[int, int]) -> None:
            self.boxes += 1
            copy_box(copy, *box)

        patch.setattr(kernels, "is_ready", is_ready)
        patch.setattr(CopyByNumPy, "_copy", copy_counted)


def copied(source: Guarded, target: Guarded) -> None:
    """Copy, and compare with the definition."""
    from_ = source.read_only()
    wanted = expected(from_, target)
    transfer.copy(from_, target.region)
    np.testing.assert_array_equal(target.memory, wanted)


@pytest.mark.parametrize(("times", "threads"), [(3, 1), (3, 3), (NEVER, 3)])
# Smaller ones are done too soon.
@pytest.mark.parametrize("way", thinned((pytest.param(way) for way in WAYS if way.sizes == "75,333"), 3), ids=_name)
def test_results_do_not_depend_on_when_kernels_are_ready(
    way: Way, times: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sd.set_num_threads(threads)
    maps = [map_of(f"f32[{way.sizes}]{layout}") for layout in (way.source, way.target)]
    bits = (way.bits, way.other_bits or way.bits)
    for turn in (1, -1):
        (first, second), (low, high) = maps[::turn], bits[::turn]
        with monkeypatch.context() as patch:
            waiting = Waiting(patch, times)
            copied(Guarded(first, low, seed=1, phase=16, signed=True), Guarded(second, high, seed=2, phase=5))
        strided = first.strides is not None and low == high >= 8
        assert strided or waiting.boxes
        assert all(asked > times for asked in waiting.asked.values()) or times == NEVER


@given(copies())
@examples(400)
def test_any_copy_by_numpy(copy: tuple[Guarded, Guarded, dict[str, Any]]) -> None:
    source, target, cut = copy
    sd.set_num_threads(cut["threads"])
    from_ = source.read_only()
    wanted = expected(from_, target)
    with limits.replaced(offset_chunk_elements=cut["task"]):
        assert CopyByNumPy(from_, target.region).advance()
    np.testing.assert_array_equal(target.memory, wanted)


#: Packed elements, and whether they fill bytes along an axis (with a rest or not), or once they are raveled.
PACKED = [
    ("[40,304]{1,0}", True),
    ("[304,40]{0,1}", True),
    ("[40,300]{1,0:T(8,128)}", True),
    ("[43,301]{1,0:T(8,128)}", True),
    ("[43,301]{1,0:T(8,128)(8,1)}", True),
    ("[3,43,301]{0,2,1:T(8,128)(8,1)}", True),
    ("[2,3,4,5,2,3,2,16]{7,6,5,4,3,2,1,0}", True),
    ("[43,301]{1,0}", True),
    ("[43,301]{0,1}", False),
    ("[40,300]{1,0:T(3,5)}", False),
]


@pytest.mark.parametrize(
    ("bits", "low_first", "signed", "layout", "fills"),
    thinned(
        [(*way, *case) for way in itertools.product([1, 2, 4], [False, True], [False, True]) for case in PACKED], 7
    ),
)
def test_packed_elements_byte_by_byte(bits: int, low_first: bool, signed: bool, layout: str, fills: bool) -> None:
    """Read to bytes, written from bytes, and moved between orders of bits; with boxes that cut every axis, and few."""
    map_ = map_of(f"f32{layout}")
    here = {"low_first": low_first, "signed": signed}
    for elements, threads in ((100, 3), (1 << 16, 1)):
        sd.set_num_threads(threads)
        with limits.replaced(offset_chunk_elements=elements):
            for width, other in ((bits, 8), (8, bits), (bits, bits)):
                row_major = map_of(f"f32[{','.join(map(str, map_.shape))}]")
                source = Guarded(map_ if width == bits else row_major, width, seed=1, phase=3, **here)
                target = Guarded(row_major if other == 8 else map_, other, seed=2, phase=5, low_first=not low_first)
                from_ = source.read_only()
                wanted = expected(from_, target)
                copy = CopyByNumPy(from_, target.region)
                sides = (copy._source, width), (copy._destination, other)
                assert all([isinstance(side, by_numpy._ByteByByte) == fills for side, w in sides if w < 8])
                assert copy.advance()
                np.testing.assert_array_equal(target.memory, wanted)


@pytest.mark.parametrize("shape", ["f32[3,0]{0,1}", "f32[0]", "u4[0,5]{1,0:T(2,4)E(4)}", "u2[2,0]{1,0:E(2)}"])
def test_nothing_is_copied_from_empty_buffers(shape: str) -> None:
    array = sd.LayoutArray.from_numpy(np.zeros(sd.parse_shape(shape).dimensions), shape)
    assert array.buffer.size == 0
    assert CopyByNumPy(array.region, array.region).advance()


@pytest.mark.parametrize("late", [0, 1, 2])
def test_copies_go_over_to_kernels_when_all_are_ready(late: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A staged copy misses the kernels of both stages, and what calls them; NumPy goes on where it was."""
    boxes = 9
    waiting = Waiting(monkeypatch, 0)
    maps = map_of("s8[100,9,10]{0,2,1:T(8,128)(4,1)}"), map_of("s8[100,9,10]{2,1,0}")
    copied(Guarded(maps[0], 8, seed=1), Guarded(maps[1], 8, seed=2))
    names = list(waiting.asked)
    assert len(names) == 3
    assert names[0] == "run_tasks"
    assert not waiting.boxes
    # All are asked for at first, so that one process compiles them.
    waiting.asked = {name: 0 if name == names[late] else 9 for name in names}
    waiting.times = 3
    cache.forget()
    copied(Guarded(maps[0], 8, seed=1), Guarded(maps[1], 8, seed=2))
    assert all(asked > 9 for name, asked in waiting.asked.items() if name != names[late])
    assert 2 < waiting.boxes < boxes


def test_windows_of_packed_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Elements beside the window that share its bytes stay."""
    Waiting(monkeypatch, NEVER)
    for bits in (1, 2, 4):
        for low_first in (True, False):
            for slices in ((slice(3, 70), slice(5, 99, 3)), (slice(None, None, -1), slice(98, 1, -1))):
                maps = [map_of(f"f32[75,100]{layout}") for layout in ("{1,0:T(8,128)}", "{0,1}")]
                source, target = (window(map_, *slices) for map_ in maps)
                copied(
                    Guarded(source, bits, seed=1, low_first=low_first),
                    Guarded(target, bits, seed=2, low_first=not low_first),
                )


@pytest.mark.parametrize("times", [2, NEVER])
@pytest.mark.parametrize("bits", [1, 4, 8, 16, 32, 64, 128])
def test_fills(bits: int, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    Waiting(monkeypatch, times)
    target = Guarded(window(map_of("f32[75,333]{1,0:T(8,128)}"), slice(1, 70), slice(5, 300)), bits, seed=1)
    pattern = 0x0123456789ABCDEF0123456789ABCDEF & (1 << bits) - 1
    data = np.frombuffer(pattern.to_bytes(-(-bits // 8), "little"), np.uint8)
    still = transfer._scalar_map(target.region.map.shape)
    wanted = expected(Region(data, still, bits), target)
    transfer.fill(target.region, pattern)
    np.testing.assert_array_equal(target.memory, wanted)


def test_elements_chosen_by_index(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).integers(0, 1 << 16, (300, 700), dtype=np.uint16)
    rows, columns = np.random.default_rng(1).integers(0, 300, (2, 5000))
    mask = values > 40000
    asked = Waiting(monkeypatch, NEVER).asked
    with limits.replaced(loading_elements=0, offsets_elements=0, indexed_elements=0):
        array = sd.LayoutArray.from_numpy(values, "{1,0:T(8,128)(2,1)}")
        for key in ((rows, columns), (rows[:, None], columns[:99]), (rows,), (mask,)):
            np.testing.assert_array_equal(array[key], values[key])
        array[rows, columns] = 7
        values[rows, columns] = 7
        np.testing.assert_array_equal(array.to_numpy(), values)
    assert {"gather_points", "scatter", "add_digits"} <= set(asked)


def test_a_copy_that_does_not_fit_is_refused_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    Waiting(monkeypatch, NEVER)
    map_ = map_of("bf16[90,300]{1,0:T(8,128)(2,1)}")
    source, target = Guarded(map_, 16, seed=1), Guarded(map_of("bf16[90,300]{1,0}"), 16, seed=2)
    before = target.memory.copy()
    with pytest.raises(sd.BufferSizeError, match="the source takes the bytes"):
        transfer.copy(source.region._replace(buffer=source.region.buffer[:-2000]), target.region)
    np.testing.assert_array_equal(target.memory, before)
