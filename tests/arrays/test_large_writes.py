"""Parts of large arrays: written by flat index, by mask and by ``at``, without memory for every index."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

import strided as sd
from strided.arrays import blocks, masks
from strided.arrays.getitem import Indexing
from tests.checks import same_outcome, same_values

VALUES = np.random.default_rng(5).integers(0, 7, (300, 701)).astype(np.int8)
LAYOUTS = {"{1,0}": "s8", "{0,1:T(8,128)}": "s8", "{1,0:T(8,128)(4,1)}": "s8", "{1,0:T(8,128)(8,1)E(4)}": "s4"}
FLAT_KEYS: dict[str, Callable[[np.ndarray], Any]] = {
    "all": lambda x: ...,
    "all as a slice": lambda x: slice(None),
    "backwards": lambda x: slice(None, None, -1),
    "every second": lambda x: slice(1, None, 2),
    "every third from the end": lambda x: slice(None, None, -3),
    "a part": lambda x: slice(70_000, -5),
    "few": lambda x: slice(3, None, 5000),
    "none": lambda x: slice(5, 5),
    "mask": lambda x: x.reshape(-1) > 2,
    "empty mask": lambda x: x.reshape(-1) > 99,
    "indices": lambda x: np.random.default_rng(6).integers(-x.size, x.size, 70_000),
}


def array(layout: str) -> tuple[sd.LayoutArray, np.ndarray]:
    """An array in a layout, and its values."""
    a = sd.LayoutArray.from_numpy(VALUES, layout, element_type=LAYOUTS[layout])
    return a, a.to_numpy()


def peak(operation: Callable[[], Any]) -> int:
    """Bytes that an operation takes at most, once its plan is there."""
    operation()
    tracemalloc.start()
    try:
        operation()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("key_of", FLAT_KEYS.values(), ids=FLAT_KEYS)
def test_flat(layout: str, key_of: Callable[[np.ndarray], Any]) -> None:
    """Too few values are repeated, and those that are too many left out."""
    a, x = array(layout)
    for b, y in ((a, x), (a[::-1, 2:], x[::-1, 2:])):
        key = key_of(y)
        wanted = y.reshape(-1)[key]
        got = b.flat[key]
        same_values(got, wanted)
        assert got.flags.writeable
        assert not np.may_share_memory(got, a.buffer)
        many = np.resize(np.arange(-3, 4), VALUES.size).astype(x.dtype)
        for count in (1, 3, max(1, wanted.size), VALUES.size):
            new = many[:count]
            b.flat[key] = new
            y.flat[key] = new
            same_values(a, x)


def test_flat_gets_values_that_lie_in_the_array() -> None:
    """They are read before anything is written."""
    for key in (slice(None), slice(None, None, -1), slice(1, None), np.arange(VALUES.size) % 2 > 0):
        a, x = array("{0,1:T(8,128)}")
        own = a.buffer[: a.size].view(np.int8)
        wanted, held = x.reshape(-1).copy(), own.copy()
        wanted[key] = held[: wanted[key].size]
        a.flat[key] = own
        same_values(a, wanted.reshape(x.shape))


def test_flat_gets_indices_that_lie_in_the_array() -> None:
    """They are all read before anything is written."""
    order = np.random.default_rng(8).permutation(200_000)
    for values in (np.arange(order.size), 10**9):
        a = sd.LayoutArray(order.copy(), "s64[200,1000]{0,1}")
        wanted = a.to_numpy().reshape(-1)
        wanted[order] = values
        a.flat[a.buffer.view(np.int64)] = values
        same_values(a, wanted.reshape(a.shape))


@pytest.mark.parametrize("rows", [5, 300])
def test_masks_of_numbers(rows: int) -> None:
    """Any number but 0 chooses an element, of a small array, too."""
    x = VALUES[:rows].copy()
    a, mask = sd.LayoutArray.from_numpy(x, "{0,1:T(8,128)}"), x // 3
    for values in (np.int8(-1), -x, [-2, -3]):
        for function in (np.putmask, np.place):
            for v in (a, x):
                function(v, mask, values)
            same_values(a, x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_masks(layout: str) -> None:
    a, x = array(layout)
    other, mask = x[::-1].copy(), VALUES > 3
    for function in (
        lambda v: np.copyto(v, other, where=mask),
        lambda v: np.copyto(v, other[:1], where=mask[:, :1]),
        lambda v: np.copyto(v[:, ::-1], other, where=mask),
        lambda v: np.copyto(v, other, casting="no", where=mask),
        lambda v: np.copyto(v, other, casting="what", where=mask),
        lambda v: np.putmask(v, mask, other),
        lambda v: np.putmask(v, ~mask, other[0, 0]),
        lambda v: np.putmask(v, mask, other[0, :5]),
        lambda v: np.place(v, mask, other.reshape(-1)),
        lambda v: np.place(v, ~mask, other[0, :5]),
        lambda v: np.place(v, VALUES, other[0, :5]),
        lambda v: np.put(v, np.arange(100_000), other[0, :7]),
    ):
        same_outcome(lambda function=function: function(a), lambda function=function: function(x))
        same_values(a, x)


def test_masks_and_values_that_lie_in_the_array() -> None:
    for function in (np.putmask, lambda v, mask, values: np.copyto(v, values, where=mask)):
        a, x = array("{0,1:T(8,128)}")
        own = a.buffer[: a.size].view(np.int8).reshape(x.shape)
        wanted = np.where(VALUES > 3, own, x)
        function(a, VALUES > 3, own)
        same_values(a, wanted)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_at(layout: str) -> None:
    """Of few elements of a large array."""
    a, x = array(layout)
    few, mask, one = np.array([5, -1, 5, 5, 0]), np.zeros(VALUES.shape, bool), x.dtype.type(1)
    mask[3, 4:9] = mask[-1, -1] = True
    for function in (
        lambda v: np.add.at(v, (few, few), one),
        lambda v: np.add.at(v, (few, few[:, None]), np.full(5, one)),
        lambda v: np.add.at(v, (few, slice(None, None, -3)), one),
        lambda v: np.subtract.at(v[1:], (..., few), one),
        lambda v: np.negative.at(v, (few, few)),
        lambda v: np.add.at(v, mask, one),
        lambda v: np.add.at(v, (few, few), [1, 2, 3, 4, 5]),
        lambda v: np.add.at(v, (few, few), np.ones(4, x.dtype)),
        lambda v: np.add.at(v, (few, few), 0.5),
        lambda v: np.add.at(v, (few, 99 * few + 900), one),
        lambda v: np.add.at(v, (few, few, few), one),
        lambda v: np.add.at(v, "no key", one),
        lambda v: np.add.at(v, 2, one),
        lambda v: np.divmod.at(v, (few, few), one),
        lambda v: np.add.at(v, (few, few), v[:5, 0]),
    ):
        same_outcome(lambda function=function: function(a), lambda function=function: function(x))
        same_values(a, x)


def test_at_keeps_what_was_computed_before_an_error() -> None:
    x = np.ones((300, 701), np.float64)
    a = sd.LayoutArray.from_numpy(x, "{1,0:T(8,128)}")
    with np.errstate(all="raise"):
        for v in (a, x):
            with pytest.raises(FloatingPointError):
                np.multiply.at(v, ([0, 0, 299], [700, 700, 1]), 1e200)
    same_values(a, x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory(layout: str) -> None:
    """Indices and offsets of all elements would be many times as large as these."""
    a, x = array(layout)
    for operation in (
        lambda: a.flat.__setitem__(..., 1),
        lambda: a.flat.__setitem__(slice(None), x.reshape(-1)),
        lambda: a.flat[::-1],
        lambda: a.flat[:],
    ):
        assert peak(operation) < 3 * a.nbytes
    if not a.is_strided:
        assert peak(lambda: np.add.at(a, ([0, 0, 299], [700, 700, 1]), x.dtype.type(1))) < a.nbytes // 4


PACKED = {"{1,0:T(8,128)(8,1)E(4)}": "s4", "{0,1:E(2)}": "u2", "{1,0:T(32,128)(32,1)E(1)}": "pred"}
BITORDERS: tuple[Literal["little", "big"], ...] = "little", "big"


def packed(layout: str, bitorder: str) -> sd.LayoutArray:
    """An array in a buffer full of random bits, padding included."""
    shape = sd.parse(f"{PACKED[layout]}[300,301]{layout}")
    begun = np.random.default_rng(8).integers(0, 256, shape.buffer_byte_size, dtype=np.uint8)
    return sd.LayoutArray(begun, shape, bitorder=bitorder)


def with_bits(a: sd.LayoutArray, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    """What the buffer becomes where the elements at flat indices get values one after another."""
    bits, order = a.layout.element_size_in_bits, a.bitorder
    offsets = a.address_map.offset_of(np.unravel_index(places.reshape(-1), a.shape))
    every = np.unpackbits(a.buffer, bitorder=order)
    for k in range(bits):
        every[offsets * bits + (k if order == "little" else bits - 1 - k)] = values.reshape(-1) >> k & 1
    return np.packbits(every, bitorder=order)


def many_keys(shape: tuple[int, ...], count: int) -> dict[str, Any]:
    """Keys of about so many elements, of which index arrays choose some several times."""
    generator = np.random.default_rng(7)
    points = tuple(generator.integers(-n, n, (2, count // 2)) for n in shape)
    return {
        "points": points,
        "in the order of Fortran": tuple(map(np.asfortranarray, points)),
        "backwards": tuple(x[:, ::-1] for x in points),
        "columns": (slice(None), generator.integers(0, shape[1] // 3, count // shape[0] + 1)),
        "rows": (generator.integers(0, shape[0] // 3, count // shape[1] + 1),),
        "mask": generator.random(shape) < count / 90_000,
    }


@pytest.mark.parametrize("count", [300, 3_000, 90_000])
@pytest.mark.parametrize("bitorder", BITORDERS)
@pytest.mark.parametrize("layout", PACKED)
def test_packed_elements(layout: str, bitorder: str, count: int) -> None:
    """Of several values for an element, the last one in the order of the key stays; no bit beside it changes."""
    for view in (np.s_[...], np.s_[::-1, 3::2], np.s_[2:5]):
        shape = packed(layout, bitorder)[view].shape
        for key in many_keys(shape, count).values():
            places = np.arange(np.prod(shape)).reshape(shape)[key]
            several = np.random.default_rng(9).integers(0, 2, places.shape)
            for values in (several, np.ones((), int)):
                wanted = with_bits(packed(layout, bitorder)[view], places, np.broadcast_to(values, places.shape))
                for write in (
                    lambda v, given: v.__setitem__(key, given),  # noqa: B023
                    lambda v, given: np.put(v, places, np.broadcast_to(given, places.shape)),  # noqa: B023
                ):
                    a = packed(layout, bitorder)
                    write(a[view], values.astype(a.dtype))
                    np.testing.assert_array_equal(a.buffer, wanted)


@pytest.mark.parametrize("layout", PACKED)
def test_many_packed_elements_are_set_by_numpy(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one they take several times as long."""
    monkeypatch.delattr(Indexing, "_scatter")
    a = packed(layout, "little")
    x = a.to_numpy()
    keys = many_keys(a.shape, 30_000)
    for name in ("points", "columns", "mask"):
        a[keys[name]] = x[keys[name]] = True
        same_values(a, x)
    flat = np.ravel_multi_index(keys["points"], a.shape, mode="wrap")
    np.put(a, flat, np.zeros(1, a.dtype))
    np.put(x, flat, np.zeros(1, a.dtype))
    same_values(a, x)


@pytest.mark.parametrize("layout", PACKED)
def test_packed_elements_take_the_memory_of_blocks(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 16)
    shape = sd.parse(f"{PACKED[layout]}[3000,1001]{layout}")
    a = sd.LayoutArray(np.zeros(shape.buffer_byte_size, np.uint8), shape)
    mask = np.random.default_rng(3).random(a.shape) < 0.5
    one, few, x = np.ones((), a.dtype), mask & (np.arange(3000)[:, None] == 7), a.to_numpy()
    for write in (
        lambda: a.__setitem__(mask, one),
        lambda: a.__setitem__(few, one),
        lambda: np.copyto(a, x, where=mask),
    ):
        assert peak(write) < a.nbytes // 4
    assert peak(lambda: a.flat.__setitem__(slice(None, None, -2), one)) < 3 * a.nbytes


def test_packed_elements_of_a_view_are_converted_without_the_others() -> None:
    a = sd.LayoutArray(np.zeros(1 << 20, np.uint8), "s4[128,128,128]{2,1,0:E(4)}")
    index, one = np.random.default_rng(3).integers(0, 128, (2, 200_000)), np.ones((), a.dtype)
    # The whole buffer, twice, and what of it changes.
    assert peak(lambda: a[7].__setitem__(tuple(index), one)) < 3 << 20
    np.testing.assert_array_equal(np.flatnonzero(a.buffer) // (1 << 13), np.full(1 << 13, 7))


def test_packed_elements_that_a_mask_hardly_chooses_are_not_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Indexing, "_set_converted")
    a = packed("{1,0:T(8,128)(8,1)E(4)}", "little")
    x, mask = a.to_numpy(), np.zeros(a.shape, bool)
    mask[5, 7:90] = True
    for value in (3, np.arange(83) % 7):
        a[mask] = x[mask] = value
    np.copyto(a, x[::-1], where=mask)
    np.copyto(x, x[::-1].copy(), where=mask)
    same_values(a, x)


def test_packed_elements_of_which_a_mask_chooses_one_in_fifty_are_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their offsets are found no sooner: the whole mask must be searched for them."""
    monkeypatch.delattr(masks, "offsets_at")
    a = packed("{1,0:T(8,128)(8,1)E(4)}", "little")
    x, mask = a.to_numpy(), np.random.default_rng(5).random(a.shape) < 0.02
    a[mask] = x[mask] = 3
    same_values(a, x)


@pytest.mark.parametrize("bitorder", BITORDERS)
@pytest.mark.parametrize("layout", PACKED)
def test_masks_of_packed_elements_block_by_block(
    layout: str, bitorder: Literal["little", "big"], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values in turn go to the elements in row-major order, in whatever order the blocks come."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 1 << 13)
    generator = np.random.default_rng(4)
    for view in (np.s_[...], np.s_[::-1, 3::2], np.s_[30:, :-7], np.s_[:, None]):
        shape = packed(layout, bitorder)[view].shape
        mask = generator.random(shape) < np.linspace(0, 1, shape[-1]) ** 3
        places = np.flatnonzero(mask)
        every = generator.integers(0, 2, shape)
        for value in (np.ones((), int), every.reshape(-1)[places], every):
            a = packed(layout, bitorder)
            chosen = value[mask] if value.shape == shape else np.broadcast_to(value, places.shape)
            wanted = with_bits(a[view], places, chosen)
            if value.shape == shape:
                np.copyto(a[view], value.astype(a.dtype), where=mask)
            else:
                a[view][mask] = value.astype(a.dtype)
            np.testing.assert_array_equal(a.buffer, wanted)


def test_what_others_write_to_the_raw_buffer_meanwhile_stays() -> None:
    a = packed("{1,0:T(8,128)(8,1)E(4)}", "little")

    def change(every: np.ndarray) -> None:
        every[0, 0] = 3
        a.buffer[1000] = 77

    wanted = a.buffer.copy()
    wanted[0], wanted[1000] = wanted[0] & 0xF0 | 3, 77
    a._set_converted(change)
    np.testing.assert_array_equal(a.buffer, wanted)
