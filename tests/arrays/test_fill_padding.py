"""`LayoutArray.fill_padding`: all padding, and nothing else."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.runtime import limits
from tests import oracle
from tests.cases import Case
from tests.checks import shape_of
from tests.strategies import cases


@given(cases(), st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_every_slot_without_an_element_is_set_and_no_other(case: Case, poison: bool, high_first: bool, random) -> None:
    size = oracle.bytes_needed(case.spec)
    before = bytearray(random.randbytes(size))
    buffer = bytearray(before)
    array = sd.LayoutArray(buffer, shape_of(case), bitorder="big" if high_first else "little")
    pattern = oracle.decode(case.spec, before, high_first=high_first)
    array.fill_padding(1 if poison else 0)
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
    for buffer in (bytes(2048), np.zeros(2048, np.uint8)):
        array = sd.LayoutArray(buffer, "bf16[3,5]{1,0:T(8,128)(2,1)}")
        array.flags.writeable = False
        with pytest.raises(ValueError, match=str(refused.value)):
            array.fill_padding()
