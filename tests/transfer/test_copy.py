"""Copies, fills, gathers and scatters between mapped buffers."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided import kernels
from strided.addressing.address_map import AddressMap
from strided.planning.plan import StagedCopy, plan_copy
from strided.runtime import limits
from strided.runtime.cache import forget
from strided.transfer import by_numpy, executor
from strided.transfer import copy as transfer
from strided.transfer.copy import Region
from tests.regions import Guarded, expected, map_of, row_major, window


@pytest.fixture(params=["numpy alone", "kernels"])
def _either(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test that uses this runs on both paths, however small its arrays."""
    limit = 0 if request.param == "kernels" else 1 << 40
    with limits.replaced(small_elements=limit, tiny_elements=limit, loading_elements=limit, offsets_elements=limit):
        yield


either = pytest.mark.usefixtures("_either")


def same(source: Guarded, destination: Guarded) -> None:
    from_ = source.read_only()
    wanted = expected(from_, destination)
    transfer.copy(from_, destination.region)
    np.testing.assert_array_equal(destination.memory, wanted)


@pytest.mark.parametrize("most", [1 << 9, 3, 1])
def test_blocks_of_a_staged_copy_that_are_kept_serve_again(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_MOST_BLOCKS", most)
    maps = map_of("f32[140,60,12]{0,1,2:T(8,128)(2,1)}"), row_major((140, 60, 12))
    with limits.replaced(small_elements=0, tiny_elements=0, staged_elements=256, staging_bytes=1 << 13):
        for seed in (1, 2, 3):
            source, target = (Guarded(map_, 16, seed=seed + k) for k, map_ in enumerate(maps))
            (step,) = plan_copy(*maps, source.region.storage, target.region.storage).steps
            assert isinstance(step, StagedCopy)
            assert len(list(step.tasks())) > 3
            same(source, target)


@either
class TestCopy:
    @pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0, 2), (1, 1, 1), (2, 3), (5, 1, 7)])
    @pytest.mark.parametrize("bits", [1, 2, 4, 8, 16, 32, 64, 128])
    def test_small_shapes_of_every_width(self, shape: tuple[int, ...], bits: int) -> None:
        same(Guarded(row_major(shape), bits, seed=1), Guarded(row_major(shape), bits, seed=2))

    @pytest.mark.parametrize("bits", [8, 16, 32, 64, 128])
    @pytest.mark.parametrize(("phase", "other"), [(0, 0), (16, 0), (0, 16), (1, 3), (63, 8)])
    def test_any_alignment_of_both_ends(self, bits: int, phase: int, other: int) -> None:
        tiled, dense = map_of("f32[20,300]{1,0:T(8,128)}"), row_major((20, 300))
        same(Guarded(tiled, bits, seed=3, phase=phase), Guarded(dense, bits, seed=4, phase=other))
        same(Guarded(dense, bits, seed=5, phase=phase), Guarded(tiled, bits, seed=6, phase=other))

    def test_steps_backwards_on_either_side(self) -> None:
        tiled = map_of("f32[20,300]{1,0:T(8,128)}")
        back = window(tiled, slice(None, None, -1), slice(None, None, -1))
        same(Guarded(back, 32, seed=1), Guarded(row_major((20, 300)), 32, seed=2))
        same(Guarded(row_major((20, 300)), 32, seed=1), Guarded(back, 32, seed=2))
        same(Guarded(back, 32, seed=1), Guarded(back, 32, seed=2))

    def test_steps_that_do_not_divide_the_tile(self) -> None:
        wide = map_of("f32[40,900]{1,0:T(8,128)}")
        view = window(wide, slice(3, None, 3), slice(5, 800, 7))
        same(Guarded(view, 16, seed=1), Guarded(row_major(view.shape), 16, seed=2))
        same(Guarded(row_major(view.shape), 16, seed=1), Guarded(view, 16, seed=2))

    def test_a_diagonal(self) -> None:
        diagonal = map_of("f32[200,300]{1,0:T(8,128)}").diagonal(3, 0, 1)
        same(Guarded(diagonal, 32, seed=1), Guarded(row_major(diagonal.shape), 32, seed=2))

    def test_a_source_that_is_broadcast(self) -> None:
        one = map_of("f32[1,300]{1,0:T(8,128)}").at(0, 0).broadcast_to((40, 300))
        same(Guarded(one, 32, seed=1), Guarded(map_of("f32[40,300]{0,1:T(8,128)}"), 32, seed=2))

    def test_tiles_that_are_out_of_step(self) -> None:
        wide = map_of("f32[64,640]{1,0:T(8,128)}")
        source, target = window(wide, slice(3, 43), slice(5, 405)), window(wide, slice(4, 44), slice(100, 500))
        for bits in (8, 32):
            same(Guarded(source, bits, seed=1), Guarded(target, bits, seed=2))

    @pytest.mark.parametrize("tile", ["T(*,8,128)", "T(8,*,128)", "T(*,*,4)", "T(4,8)(3,1)", "T(*,3)(2,1)"])
    def test_tiles_that_are_no_digits(self, tile: str) -> None:
        irregular = map_of(f"f32[6,10,50]{{2,1,0:{tile}}}")
        same(Guarded(irregular, 32, seed=1), Guarded(row_major((6, 10, 50)), 32, seed=2))
        same(Guarded(row_major((6, 10, 50)), 32, seed=1), Guarded(irregular, 32, seed=2))
        part = window(irregular, slice(1, 5), slice(2, 9), slice(3, None, 2))
        same(Guarded(part, 16, seed=1), Guarded(row_major(part.shape), 16, seed=2))

    @pytest.mark.parametrize("signed", [True, False])
    @pytest.mark.parametrize("low_first", [True, False])
    @pytest.mark.parametrize("bits", [1, 2, 4])
    def test_packed_to_bytes_and_back(self, bits: int, low_first: bool, signed: bool) -> None:
        packed, dense = map_of("f32[19,70]{1,0:T(8,64)}"), row_major((19, 70))
        source = Guarded(packed, bits, seed=1, low_first=low_first, signed=signed)
        same(source, Guarded(dense, 8, seed=2))
        same(Guarded(dense, 8, seed=1), Guarded(packed, bits, seed=2, low_first=low_first))
        same(source, Guarded(dense, bits, seed=3, low_first=not low_first))

    def test_fields_of_records(self) -> None:
        records = np.zeros(3000, np.dtype([("a", "u1"), ("b", "<f8"), ("c", "<u2")]))
        values = np.random.default_rng(0).random(3000)
        transfer.copy(transfer.region_of_ndarray(values), transfer.region_of_ndarray(records["b"]))
        np.testing.assert_array_equal(records["b"], values)
        assert not records["a"].any()
        assert not records["c"].any()
        back = np.empty(3000)
        transfer.copy(transfer.region_of_ndarray(records["b"]), transfer.region_of_ndarray(back))
        np.testing.assert_array_equal(back, values)

    def test_a_read_only_destination_is_refused(self) -> None:
        source, target = Guarded(row_major((4, 5)), 32, seed=1), Guarded(row_major((4, 5)), 32, seed=2)
        with pytest.raises(ValueError, match="read-only"):
            transfer.copy(source.region, target.read_only())

    def test_shapes_and_widths_must_fit(self) -> None:
        a = Guarded(row_major((4, 5)), 32, seed=1).region
        with pytest.raises(ValueError, match=r"shape \(4, 5\) into one of shape \(5, 4\)"):
            transfer.copy(a, Guarded(row_major((5, 4)), 32, seed=1).region)
        with pytest.raises(ValueError, match="32-bit elements into 16-bit ones"):
            transfer.copy(a, Guarded(row_major((4, 5)), 16, seed=1).region)
        with pytest.raises(ValueError, match="4-bit elements into 2-bit ones"):
            transfer.copy(Guarded(row_major((4,)), 4, seed=1).region, Guarded(row_major((4,)), 2, seed=1).region)

    @pytest.mark.parametrize("bits", [4, 8, 32])
    @pytest.mark.parametrize("text", ["f32[20,300]{1,0:T(8,128)}", "f32[6,10,50]{2,1,0:T(*,8,128)}"])
    def test_nothing_is_touched_where_a_buffer_is_too_short(self, text: str, bits: int) -> None:
        map_ = map_of(text)
        last = int(map_.offsets().max()) + 1
        short = np.full(-(-last * bits // 8) - 1, 7, np.uint8)
        plain = Guarded(row_major(map_.shape), bits, seed=1)
        kept = plain.memory.copy()
        with pytest.raises(sd.BufferSizeError, match="source takes") as caught:
            transfer.copy(Region(short, map_, bits), plain.region)
        assert caught.value.actual == short.size
        assert caught.value.needed == short.size + 1
        np.testing.assert_array_equal(plain.memory, kept)
        with pytest.raises(sd.BufferSizeError, match="destination takes"):
            transfer.copy(plain.region, Region(short, map_, bits))
        assert (short == 7).all()

    def test_a_buffer_as_long_as_the_elements_need_is_enough(self) -> None:
        map_ = map_of("f32[20,300]{1,0:T(8,128)}")
        size = (int(map_.offsets().max()) + 1) * 4
        source = np.random.default_rng(0).integers(0, 256, size, dtype=np.uint8)
        target = np.zeros(20 * 300 * 4, np.uint8)
        transfer.copy(Region(source, map_, 32), Region(target, row_major((20, 300)), 32))
        np.testing.assert_array_equal(target.view(np.uint32), source.view(np.uint32)[map_.offsets().reshape(-1)])

    def test_offsets_below_the_buffer_are_refused(self) -> None:
        below = AddressMap.from_strides((40, 50), (50, 1), -1)
        with pytest.raises(sd.BufferSizeError, match="from -4 to"):
            transfer.copy(Region(np.zeros(8000, np.uint8), below, 32), Guarded(row_major((40, 50)), 32, seed=1).region)


@either
class TestFill:
    @pytest.mark.parametrize("bits", [1, 2, 4, 8, 16, 32, 64, 128])
    @pytest.mark.parametrize("low_first", [True, False])
    def test_sets_every_element_and_nothing_else(self, bits: int, low_first: bool) -> None:
        if bits >= 8 and not low_first:
            pytest.skip("whole bytes have no order of their elements")
        view = window(map_of("f32[20,300]{1,0:T(8,128)}"), slice(3, 18), slice(1, None, 2))
        target = Guarded(view, bits, seed=1, low_first=low_first)
        pattern = 0xA1B2C3D4E5F60718293A4B5C6D7E8F91 >> (128 - bits)
        memory = np.unpackbits(target.memory, bitorder="little")
        region = target.region
        transfer.fill(region, pattern)
        after = np.unpackbits(target.memory, bitorder="little")
        places = view.offsets().reshape(-1) * bits
        if not low_first:
            places = places // 8 * 8 + 8 - bits - places % 8
        wanted = np.array([pattern >> k & 1 for k in range(bits)], np.uint8)
        memory[(places + 8 * target.start)[:, None] + np.arange(bits)] = wanted
        np.testing.assert_array_equal(after, memory)

    def test_size_zero(self) -> None:
        memory = np.zeros(8, np.uint8)
        transfer.fill(Region(memory, row_major((0, 4)), 32), 1)
        assert not memory.any()

    @pytest.mark.parametrize("pattern", [-1, 256])
    def test_a_pattern_must_fit(self, pattern: int) -> None:
        with pytest.raises(OverflowError, match="does not fit 8 bits"):
            transfer.fill(Guarded(row_major((3,)), 8, seed=1).region, pattern)


@either
class TestGather:
    @pytest.mark.parametrize("bits", [4, 8, 16, 32, 64, 128])
    @pytest.mark.parametrize("shape", [(), (0,), (7,), (50, 60)])
    def test_takes_what_the_offsets_say(self, bits: int, shape: tuple[int, ...]) -> None:
        source = Guarded(row_major((1000,)), bits, seed=1).read_only()
        offsets = np.random.default_rng(2).integers(0, 1000, shape)
        dtype = {4: "u1", 8: "u1", 16: "u2", 32: "u4", 64: "u8", 128: "c16"}[bits]
        out = np.zeros(shape, dtype)
        transfer.gather(source, offsets, out)
        if bits == 4:
            both = np.stack([source.buffer & 15, source.buffer >> 4], axis=1).reshape(-1)
        else:
            both = source.buffer.view(dtype)
        assert out.tobytes() == both[offsets].tobytes()

    @pytest.mark.parametrize("wrong", [-1, 1000])
    def test_offsets_outside_are_refused(self, wrong: int) -> None:
        source = Guarded(row_major((1000,)), 32, seed=1).region
        offsets = np.arange(500)
        offsets[300] = wrong
        with pytest.raises(sd.BufferSizeError, match="1000 elements"):
            transfer.gather(source, offsets, np.empty(500, np.uint32))
        kept = source.buffer.copy()
        with pytest.raises(sd.BufferSizeError, match="1000 elements"):
            transfer.scatter(source, offsets, np.zeros(500, np.uint32))
        np.testing.assert_array_equal(source.buffer, kept)

    def test_out_must_be_contiguous_and_of_the_shape(self) -> None:
        source = Guarded(row_major((1000,)), 32, seed=1).region
        with pytest.raises(ValueError, match="contiguous"):
            transfer.gather(source, np.arange(5), np.empty(10, np.uint32)[::2])
        with pytest.raises(ValueError, match=r"shape \(5,\)"):
            transfer.gather(source, np.arange(5), np.empty(6, np.uint32))

    @pytest.mark.parametrize("text", ["f32[40,50,60]{2,0,1:T(8,128)}", "f32[40,50,60]{2,1,0:T(*,8,128)}"])
    def test_indices_are_followed_through_the_layout(self, text: str) -> None:
        source = Guarded(map_of(text), 16, seed=1).read_only()
        random = np.random.default_rng(3)
        i, j, k = (random.integers(0, n, (30, 70)) for n in (40, 50, 60))
        for index in ((i, j, k), (i, 7, k), (i[:, :1], j[:1], 3), (i, j[:1], k[:, :1]), (np.int64(1), 2, k)):
            shape = np.broadcast_shapes(*(np.shape(n) for n in index))
            offsets = np.broadcast_to(source.map.offset_of(index), shape)
            np.testing.assert_array_equal(transfer.offsets_at(source.map, index, shape), offsets)
            out = np.empty(shape, np.uint16)
            transfer.gather_at(source, index, out)
            np.testing.assert_array_equal(out, source.buffer.view(np.uint16)[offsets])

    def test_views_keep_their_steps(self) -> None:
        view = window(map_of("f32[90,400]{1,0:T(8,128)}"), slice(80, 3, -2), slice(5, 390, 3))
        index = tuple(np.random.default_rng(3).integers(0, n, 2000) for n in view.shape)
        np.testing.assert_array_equal(transfer.offsets_at(view, index, (2000,)), view.offset_of(index))


@either
class TestScatter:
    @pytest.mark.parametrize("bits", [2, 4, 8, 16, 32, 64, 128])
    def test_puts_what_the_offsets_say_and_the_last_value_stays(self, bits: int) -> None:
        target = Guarded(row_major((1000,)), bits, seed=1)
        offsets = np.random.default_rng(2).integers(0, 1000, 3000)
        dtype = {2: "u1", 4: "u1", 8: "u1", 16: "u2", 32: "u4", 64: "u8", 128: "c16"}[bits]
        values = np.random.default_rng(3).integers(0, 1 << min(bits, 16), 3000).astype(dtype)
        kept = target.memory.copy()
        transfer.scatter(target.region, offsets, values)
        out = np.zeros(1000, dtype)
        transfer.gather(target.region, np.arange(1000), out)
        last = dict(zip(offsets.tolist(), values.tolist(), strict=True))
        for at, value in last.items():
            assert out[at] == value
        np.testing.assert_array_equal(target.memory[: target.start], kept[: target.start])
        np.testing.assert_array_equal(target.memory[target.stop :], kept[target.stop :])

    def test_values_are_broadcast(self) -> None:
        target = Guarded(row_major((100,)), 32, seed=1)
        transfer.scatter(target.region, np.arange(0, 100, 2), np.uint32(9))
        assert (target.region.buffer.view(np.uint32)[::2] == 9).all()


class TestRegions:
    @pytest.mark.parametrize(
        "view",
        [
            np.s_[...],
            np.s_[::-1],
            np.s_[:, ::2, ::-3],
            np.s_[3:2],
            np.s_[2, 3, 4],
            np.s_[:, None, 1],
        ],
    )
    @pytest.mark.parametrize("dtype", ["u1", "i2", "f4", "c8", "c16", ml_dtypes.bfloat16, bool])
    def test_of_any_ndarray(self, view: Any, dtype: Any) -> None:
        x = np.arange(5 * 6 * 7).reshape(5, 6, 7).astype(dtype)[view]
        x = np.asarray(x)
        region = transfer.region_of_ndarray(x)
        assert region.map.shape == x.shape
        assert region.bits == 8 * x.itemsize
        taken = by_numpy.take(region, region.map.offsets(), whole_bytes=True) if x.size else np.empty(x.shape)
        assert taken.shape == x.shape
        assert np.ascontiguousarray(taken).tobytes() == x.tobytes() if x.size else True

    def test_of_a_transposed_and_a_broadcast_array(self) -> None:
        x = np.arange(12.0).reshape(3, 4)
        assert transfer.region_of_ndarray(x.T).map.strides == (1, 4)
        spread = transfer.region_of_ndarray(np.broadcast_to(x, (5, 3, 4)))
        assert spread.map.strides == (0, 4, 1)
        assert not spread.buffer.flags.writeable

    def test_keeps_its_array_alive_and_writes_to_it(self) -> None:
        x = np.zeros((4, 6), np.uint8)
        region = transfer.region_of_ndarray(x[::-2, 1:])
        transfer.fill(region, 3)
        assert x.sum() == 2 * 5 * 3
        assert transfer.region_of_ndarray(np.arange(10)[::-1]).buffer.view(np.int64).tolist() == list(range(10))

    def test_a_subclass_is_seen_as_an_ndarray(self) -> None:
        masked = np.ma.masked_array(np.arange(6), mask=True)
        assert type(transfer.region_of_ndarray(masked).buffer) is np.ndarray

    @pytest.mark.parametrize("size", [0, 1, 63, 64, 1000, 10_000_000])
    def test_empty_aligned(self, size: int) -> None:
        memory = transfer.empty_aligned(size)
        assert memory.shape == (size,)
        assert not size or memory.ctypes.data % 64 == 0
        memory[:] = 1

    def test_overlap(self) -> None:
        memory = np.zeros(1000, np.uint8)
        first, second = Region(memory, row_major((100,)), 32), Region(memory[300:], row_major((10,)), 32)
        assert transfer.may_overlap(first, second)
        assert not transfer.may_overlap(Region(memory, row_major((75,)), 32), second)
        for pair in ((Region(memory, row_major((301,)), 8), second), (second, Region(memory, row_major((301,)), 8))):
            assert transfer.may_overlap(*pair), "in a single byte"
        assert not transfer.may_overlap(first, Region(memory.copy(), row_major((10,)), 32))
        assert not transfer.may_overlap(first, Region(memory, row_major((0,)), 32))
        assert transfer.may_overlap(first, Region(memory, map_of("f32[2,3,5]{2,1,0:T(*,3,2)}"), 32))


def _modules(code: str) -> set[str]:
    """What of Numba is loaded after some code."""
    ending = "; import sys; print(*(m for m in ('numba', 'llvmlite') if m in sys.modules))"
    environment = {**os.environ, limits.FORCE: "0"}
    command = [sys.executable, "-c", code + ending]
    out = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return set(out.stdout.split())


def test_small_copies_load_no_compiler() -> None:
    code = (
        "import numpy as np, strided as sd; "
        "a = sd.LayoutArray.from_numpy(np.zeros((60, 60), np.float32), '{1,0:T(8,128)}'); "
        "a[3:9, ::2].to_numpy(); a[[1, 2]]; a[1:3] = 4; a.to_layout('{0,1}')"
    )
    assert not _modules(code)


def test_a_conversion_asked_for_again_is_remembered() -> None:
    forget()
    source, target = Guarded(map_of("f32[30,30]{1,0:T(8,128)}"), 32, seed=1), Guarded(row_major((30, 30)), 32, seed=2)
    for _ in range(3):
        same(source, target)
    assert len(transfer._remembered) == 1
    for _ in range(2 * transfer._CACHE_SIZE):
        transfer.copy(source.region, Region(target.region.buffer, row_major((30, 30)), 32))
    assert len(transfer._done_once) == transfer._CACHE_SIZE
    assert len(transfer._remembered) == 1, "views that come and go displace it"


@pytest.mark.parametrize("bits", [4, 16])
def test_a_tiny_conversion_is_remembered_without_its_buffers(bits: int) -> None:
    """It serves other buffers, and refuses those that are too small."""
    maps = map_of("u8[3,5]{1,0:T(2,4)}"), row_major((3, 5))
    for from_, to in (maps, maps[::-1]):
        for seed in range(4):
            same(Guarded(from_, bits, seed=seed), Guarded(to, bits, seed=seed + 9))
        buffers = [np.zeros(64, np.uint8) for _ in range(2)]
        gone = [weakref.ref(buffer) for buffer in buffers]
        for _ in range(3):
            transfer.copy(Region(buffers[0], from_, bits, signed=True), Region(buffers[1], to, bits))
        del buffers
        assert [each() for each in gone] == [None, None]
        for sizes in ((4, 64), (64, 4)):
            source, target = (np.zeros(size, np.uint8) for size in sizes)
            with pytest.raises(sd.BufferSizeError, match="takes the bytes"):
                transfer.copy(Region(source, from_, bits), Region(target, to, bits))
            assert not target.any()


@pytest.mark.parametrize("task_bytes", [1 << 9, 1 << 12, 1 << 14])
def test_tasks_of_a_conversion_serve_other_buffers(task_bytes: int) -> None:
    maps = map_of("bf16[90,300]{1,0:T(8,128)(2,1)}"), row_major((90, 300))
    with limits.replaced(small_elements=0, tiny_elements=0, vector_task_bytes=task_bytes):
        for from_, to in (maps, maps[::-1]):
            for seed, phase in enumerate((0, 0, 6, 0)):
                same(Guarded(from_, 16, seed=seed, phase=phase), Guarded(to, 16, seed=seed + 9, phase=phase))


@pytest.mark.parametrize("key", [..., slice(None), (slice(None), slice(None))])
def test_an_assignment_to_a_whole_array_is_remembered(key: Any) -> None:
    values = np.arange(6000, dtype=np.float32).reshape(30, 200)
    a = sd.LayoutArray.from_numpy(0 * values, "{1,0:T(8,128)}")
    forget()
    for _ in range(3):
        a[key] = values
    assert len(transfer._remembered) == 1
    assert (a.to_numpy() == values).all()


def test_the_source_of_an_interrupted_copy_is_as_it_was() -> None:
    map_ = map_of("f32[512,2048]{1,0:T(8,128)}")
    source = Guarded(map_, 32, seed=1)
    before = source.memory.copy()

    class Interrupts:
        calls = 0

        def __call__(self, *arguments: Any) -> None:
            Interrupts.calls += 1
            raise KeyboardInterrupt

    kernels.load("rows")
    loaded = kernels.load
    try:
        kernels.load = lambda name: Interrupts()  # type: ignore[assignment]
        forget()
        with pytest.raises(KeyboardInterrupt):
            transfer.copy(source.read_only(), Guarded(row_major((512, 2048)), 32, seed=2).region)
    finally:
        kernels.load = loaded
        forget()
    assert Interrupts.calls >= 1
    np.testing.assert_array_equal(source.memory, before)


def _converted(case: tuple[str, str, int]) -> bool:
    """One conversion there and back, in buffers of its own."""
    first, second, seed = case
    values = np.random.default_rng(seed).integers(0, 1 << 16, (300, 700), dtype=np.uint16)
    there = sd.LayoutArray.from_numpy(values, first).to_layout(second)
    return bool((there.to_layout("{1,0}").to_numpy() == values).all())


_PAIRS = [
    ("{1,0:T(8,128)(2,1)}", "{0,1:T(8,128)(2,1)}"),
    ("{1,0:T(8,128)}", "{0,1}"),
    ("{0,1:T(16,128)}", "{1,0:T(8,128)(2,1)}"),
]


def test_conversions_from_many_python_threads_at_once() -> None:
    cases = [(*pair, seed) for seed in range(20) for pair in _PAIRS]
    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(_converted, cases))


def _convert_in_child(results: Any) -> None:
    results.put(all(_converted((*pair, 1)) for pair in _PAIRS))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_conversions_in_a_forked_child() -> None:
    assert all(_converted((*pair, 0)) for pair in _PAIRS)
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()
    child = context.Process(target=_convert_in_child, args=(results,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert results.get()
