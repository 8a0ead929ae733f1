"""`LayoutArray.fill_padding`: all padding, and nothing else."""

from __future__ import annotations

from random import Random

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import strided as sd
from strided.arrays import padding
from strided.planning.plan import FillStep, Storage, plan_fill
from strided.runtime import limits
from tests import oracle
from tests.cases import Case, values_of
from tests.checks import Guarded, shape_of
from tests.strategies import cases


@given(cases(), st.booleans(), st.booleans(), st.integers(0, 99))
@example(Case.parse("f8e8m0fnu[1,1]{1,0:T(1,2)}"), False, False, 0)  # a number 0 is NaN there
@example(Case.parse("s4[3]{0:E(4)}"), True, False, 0)  # a byte that is filled in part
@example(Case.parse("u2[5]{0:E(2)}"), False, True, 0)
def test_every_slot_without_an_element_is_set_and_no_other(
    case: Case, poison: bool, high_first: bool, seed: int
) -> None:
    size = oracle.bytes_needed(case.spec)
    before = bytearray(Random(seed).randbytes(size))
    buffer = bytearray(before)
    array = sd.LayoutArray(buffer, shape_of(case), bitorder="big" if high_first else "little")
    pattern = oracle.decode(case.spec, before, high_first=high_first)
    array.fill_padding(*[1] * poison)
    value = int.from_bytes(np.ones((), np.int8).astype(case.dtype).tobytes(), "little") if poison else 0
    slots = oracle.slots(case.spec)
    for place, index in enumerate(slots):
        wanted = value & (1 << case.bits) - 1 if index is None else pattern[index]
        assert oracle.read_bits(buffer, place, case.bits, high_first=high_first) == wanted
    unused = size * 8 - len(slots) * case.bits
    if unused:
        mask = (1 << unused) - 1 if high_first else 0xFF << 8 - unused & 0xFF
        assert buffer[-1] & mask == (before[-1] & mask if poison else 0)


@pytest.mark.parametrize("text", ["bf16[170,300]{1,0:T(8,128)(2,1)}", "s4[90,129]{1,0:T(8,128)(8,1)E(4)}"])
def test_kernels_keep_to_the_padding(text: str) -> None:
    rng = np.random.default_rng(0)
    with limits.replaced(small_elements=0, tiny_elements=0, compile_first=1):
        buffer = rng.integers(0, 256, sd.parse(text).buffer_byte_size, np.uint8)
        array = sd.LayoutArray(buffer, text)
        values = array.to_numpy().tobytes()
        array.fill_padding()
        assert array.to_numpy().tobytes() == values
        again = sd.LayoutArray.from_numpy(array, array.layout, 0, element_type=array.element_type)
        assert np.array_equal(again.buffer, buffer)


@given(cases(), st.booleans(), st.sampled_from([1, 64, 256]), st.sampled_from([0, 1 << 10]))
@example(Case.parse("s8[]{:T(2)(*,*,1)}"), False, 1, 0)  # an expression of no coordinate
@example(Case.parse("s4[3]{0:E(4)}"), False, 1, 0)  # a byte that is filled in part
@example(Case.parse("u2[5]{0:E(2)}"), True, 1, 0)
def test_new_padding_is_filled_in_long_runs(case: Case, high_first: bool, gap: int, run: int) -> None:
    """Slots between and beside the padding may be set before their elements are written, but nothing else."""
    values = values_of(dict.fromkeys(np.ndindex(case.dimensions), 0), case.dimensions, case.dtype)
    pattern = int.from_bytes(np.ones((), np.int8).astype(case.dtype).tobytes(), "little") & (1 << case.bits) - 1
    size, slots = oracle.bytes_needed(case.spec), oracle.slots(case.spec)
    guarded = Guarded(b"\xa5" * size)
    bitorder = "big" if high_first else "little"
    with (
        pytest.MonkeyPatch.context() as patch,
        limits.replaced(small_elements=0, tiny_elements=0, compile_first=1, fill_gap_bytes=gap),
    ):
        patch.setattr(padding, "_RUN_BYTES", run)  # 0: never all slots
        sd.LayoutArray.from_numpy(values, shape_of(case), 1, guarded.buffer, bitorder=bitorder)
    found = guarded.content()
    for place, index in enumerate(slots):
        wanted = pattern if index is None else 0
        assert oracle.read_bits(found, place, case.bits, high_first=high_first) == wanted
    unused = size * 8 - len(slots) * case.bits
    if unused:
        mask = (1 << unused) - 1 if high_first else 0xFF << 8 - unused & 0xFF
        assert found[-1] & mask == 0xA5 & mask


def test_runs_to_be_filled_are_few() -> None:
    """Words of which one row is padding, as in every row of tiles, are lines to be filled, not single bytes."""
    for text, most in {
        "u8[2048,3,1003]{2,1,0:T(4,128)(4,1)}": 2,
        "bf16[4096,17,300]{2,1,0:T(8,128)(2,1)}": 4,
        "s4[4096,17,300]{2,1,0:T(8,128)(8,1)E(4)}": 3,
    }.items():
        shape = sd.parse_shape(text)
        maps = shape.padding_maps
        assert maps is not None
        plans = [plan_fill(map_, Storage(shape.element_bits), shape.slots) for map_ in maps]
        runs = [step.runs for plan in plans if plan is not None for step in plan.steps if isinstance(step, FillStep)]
        assert None not in plans
        assert len(runs) <= most
        assert min(part.run_bytes for part in runs) >= 128


@pytest.mark.parametrize("at_once", [1, 24, 1 << 20])
def test_padding_of_irregular_tiles_is_found_part_by_part(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "_CHUNK_SLOTS", at_once)
    shape = sd.parse_shape("s32[9,10]{1,0:T(2,3)(2,2)}")
    assert shape.padding_maps is None
    array = sd.LayoutArray(np.full(shape.buffer_byte_size, 1, np.uint8), shape)
    array.fill_padding()
    assert array.to_numpy().all()
    assert np.count_nonzero(array.buffer.view(np.int32)) == 90
    assert np.concatenate(list(padding.unused_slots(shape))).tolist() == [
        offset for offset in range(shape.slots) if shape.index_at(offset) is None
    ]


def test_a_value_of_the_dtype() -> None:
    buffer = np.zeros(2048, np.uint8)
    array = sd.LayoutArray(buffer, "bf16[3,5]{1,0:T(8,128)(2,1)}")
    array.fill_padding(np.nan)
    values = buffer.view(ml_dtypes.bfloat16).astype(np.float32)
    assert np.count_nonzero(np.isnan(values)) == 1024 - 15
    array.fill_padding("lowest")
    assert np.count_nonzero(np.isneginf(buffer.view(ml_dtypes.bfloat16).astype(np.float32))) == 1024 - 15
    assert not array.to_numpy().any()
    with pytest.raises(ValueError, match="padding is a value or one of"):
        array.fill_padding("nothing")


def test_what_lies_around_the_array_stays() -> None:
    buffer = np.full(16 + 1024 + 100, 7, np.uint8)
    array = sd.LayoutArray(buffer, "s8[3,5]{1,0:T(8,128)(4,1)}", offset=16, allow_excess=True)
    array.fill_padding()
    assert buffer[:16].tolist() == [7] * 16
    assert buffer[-100:].tolist() == [7] * 100
    assert np.count_nonzero(buffer) == 116 + 15


def test_a_view_is_refused() -> None:
    array = sd.LayoutArray(bytearray(1024), "s8[3,5]{1,0:T(8,128)(4,1)}")
    for view in (array[1:], array.T, array.view(np.uint8), array[None]):
        with pytest.raises(ValueError, match="a view of"):
            view.fill_padding()


def test_read_only_memory_is_refused_as_by_numpy() -> None:
    values = np.zeros(3)
    values.flags.writeable = False
    with pytest.raises(ValueError, match="assignment destination is read-only") as refused:
        values[...] = 0
    padded, full = "bf16[3,5]{1,0:T(8,128)(2,1)}", "bf16[1024]{0}"  # in the latter there is nothing to fill
    for buffer, text in ((bytes(2048), padded), (np.zeros(2048, np.uint8), padded), (bytes(2048), full)):
        array = sd.LayoutArray(buffer, text)
        array.flags.writeable = False
        with pytest.raises(ValueError, match=str(refused.value)):
            array.fill_padding()
