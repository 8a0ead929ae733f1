"""A layout that no XLA text can express, wrapped by its own spec: it does all that XLA's layouts do."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import strided as sd
from strided.addressing.address_map import AddressMap
from strided.addressing.digits import Digit, Term
from strided.arrays.buffer_spec import BufferSpec
from strided.planning.plan import PerElementStep, Storage, plan_copy


@dataclass(frozen=True)
class ScaleFactors:
    """Scale factors of a block-scaled matrix product as cuBLAS wants them: tiles of 128 rows and 4 columns.

    In a tile, rows lie in the order 0, 32, 64, 96, 1, 33, ..., with their four columns side by side.
    """

    dimensions: tuple[int, int]
    dtype: np.dtype[Any]
    padding_value: Any = sd.PaddingValue.ZERO_PAD
    padding_maps = None

    @property
    def element_bits(self) -> int:
        return 8 * self.dtype.itemsize

    @property
    def slots(self) -> int:
        rows, columns = self.dimensions
        return 512 * -(-rows // 128) * -(-columns // 4)

    @property
    def buffer_byte_size(self) -> int:
        return self.slots * self.dtype.itemsize

    @cached_property
    def address_map(self) -> AddressMap:
        across = -(-self.dimensions[1] // 4)
        rows = Digit(1, 32, 16), Digit(32, 4, 4), Digit(128, -(-self.dimensions[0] // 128), 512 * across)
        columns = Digit(1, 4, 1), Digit(4, across, 512)
        return AddressMap(self.dimensions, 0, ((Term(0, 1, rows),), (Term(0, 1, columns),)), (), self.slots)

    def __str__(self) -> str:
        return f"{self.dtype}[{self.dimensions[0]},{self.dimensions[1]}] in 128x4 tiles"


SIZES = [(128, 4), (256, 64), (131, 7), (1, 1), (640, 33), (0, 5)]
DTYPES = [np.uint8, ml_dtypes.float8_e8m0fnu, np.float32]


#: The rows of a tile as they lie in it: 0, 32, 64, 96, 1, 33, ...
ORDER = [32 * k + i for i in range(32) for k in range(4)]
PLACES = [ORDER.index(row) for row in range(128)]


def slot(row: int, column: int, columns: int) -> int:
    """The slot of an element, by the description in words."""
    tile = row // 128 * math.ceil(columns / 4) + column // 4
    return 512 * tile + 4 * PLACES[row % 128] + column % 4


def made(sizes: tuple[int, int], dtype: Any = np.uint8) -> tuple[sd.LayoutArray, np.ndarray]:
    """An array on a buffer that was laid out one element at a time, and its values."""
    values = (np.arange(math.prod(sizes)) % 251 + 1).astype(np.uint8).astype(dtype).reshape(sizes)
    spec = ScaleFactors(sizes, np.dtype(dtype))
    buffer = np.zeros(spec.slots, dtype)
    for i, j in itertools.product(*map(range, sizes)):
        buffer[slot(i, j, sizes[1])] = values[i, j]
    return sd.LayoutArray(buffer, spec), values


def same(a: Any, values: np.ndarray) -> bool:
    got = np.asarray(a)
    return (got.shape, got.dtype) == (values.shape, values.dtype) and got.tobytes() == values.tobytes()


def test_both_kinds_fulfil_the_protocol() -> None:
    assert isinstance(ScaleFactors((128, 4), np.dtype(np.uint8)), BufferSpec)
    assert isinstance(sd.parse("u8[128,4]"), BufferSpec)


@pytest.mark.parametrize("dtype", ["S3", "V12", "S32"])
def test_elements_of_other_widths_are_refused(dtype: str) -> None:
    spec = ScaleFactors((128, 4), np.dtype(dtype))
    with pytest.raises(sd.UnsupportedError, match="cannot be read at that width"):
        sd.LayoutArray(np.zeros(spec.buffer_byte_size, np.uint8), spec)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES)
def test_reads_and_lays_out_anew(sizes: tuple[int, int], dtype: Any) -> None:
    a, values = made(sizes, dtype)
    assert same(a, values)
    assert same(sd.LayoutArray.from_numpy(values, a.spec).buffer, np.asarray(a.buffer))
    for i, j in [(0, 0), (-1, -1)]:
        if values.size:
            assert a[i, j].tobytes() == values[i, j].tobytes()


KEYS: list[Any] = [
    np.s_[5:, ::2],
    np.s_[::-3, 1],
    np.s_[..., None, 2],
    np.s_[[3, 100, -1]],
    np.s_[[1, 2, 3], [0, 4, 6]],
    np.s_[:0],
    np.s_[32:96:32, :4],
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indexing(key: Any) -> None:
    a, values = made((131, 7))
    assert same(a[key], values[key])
    a[key] = values[key] + 1
    values[key] += 1
    assert same(a, values)
    again, _ = made((131, 7))
    again[...] = values
    assert same(a.buffer, np.asarray(again.buffer))


def test_masks_and_operators() -> None:
    a, values = made((131, 7))
    a[values > 100] = 3
    values[values > 100] = 3
    a += 1
    values += 1
    assert same(a[values == 4], values[values == 4])
    assert same(a, values)


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("reduce", [np.sum, np.max, np.mean, np.argmin])
@pytest.mark.parametrize("sizes", [(131, 7), (4099, 513)])
def test_reductions(sizes: tuple[int, int], reduce: Callable[..., Any], axis: int | None) -> None:
    """The larger one streams."""
    values = np.random.default_rng(0).integers(0, 255, sizes, np.uint8)
    a = sd.LayoutArray.from_numpy(values, ScaleFactors(sizes, values.dtype))
    assert np.array_equal(reduce(a, axis), reduce(values, axis))


def test_other_shapes() -> None:
    a, values = made((256, 8))
    assert same(a.T, values.T)
    assert same(a.reshape(-1), values.reshape(-1))
    assert same(a[1:].ravel(), values[1:].ravel())
    assert same(a.reshape(2, 128, 8), values.reshape(2, 128, 8))


def test_views_know_whether_they_meet() -> None:
    a, _ = made((131, 7))
    assert np.shares_memory(a[::2], a[4:6])
    assert not np.shares_memory(a[::2], a[1::2])
    a[1:] = a[:-1]
    values = made((131, 7))[1]
    values[1:] = values[:-1].copy()
    assert same(a, values)


def test_progressions_of_rows_meet_where_those_of_numpy_do() -> None:
    a, values = made((40, 7))
    assert not a[1:9:2].is_strided
    rows = [slice(start, stop, step) for start in range(1, 6) for stop in (9, 31) for step in (2, 3, 4, 6, 9)]
    for first, second in itertools.product(rows, rows):
        assert np.shares_memory(a[first], a[second]) == np.shares_memory(values[first], values[second])


def test_texts() -> None:
    a, _ = made((2, 2))
    assert repr(a) == "LayoutArray([[1, 2],\n             [3, 4]], dtype=uint8, uint8[2,2] in 128x4 tiles)"
    assert repr(a[0]) == "LayoutArray([1, 2], dtype=uint8, view of uint8[2,2] in 128x4 tiles)"
    assert "uint8[2,2] in 128x4 tiles" in a._repr_html_()
    assert (a.spec, a.element_type, a.is_view, a[:1].is_view) == (ScaleFactors((2, 2), a.dtype), "u8", False, True)


def test_words_of_xla_are_refused() -> None:
    a, _ = made((2, 2))
    for name in ("xla_shape", "layout"):
        assert not hasattr(a, name)
        with pytest.raises(AttributeError, match=r"uint8\[2,2\] in 128x4 tiles is not an XLA shape; a.spec"):
            getattr(a, name)


def test_pickles_and_copies() -> None:
    a, values = made((131, 7))
    for b in (*(pickle.loads(pickle.dumps(a, protocol)) for protocol in (2, 5)), a.copy()):
        assert b.spec == a.spec
        assert not b.is_view
        assert same(b, values)
    assert same(pickle.loads(pickle.dumps(a[3:])), values[3:])
    assert str(a[3:].copy().xla_shape) == "u8[128,7]{1,0}"


def test_padding() -> None:
    for fill, expected in [(None, 9), (7, 7), ("highest", 255)]:
        values = np.zeros((131, 7), np.uint8)
        a = sd.LayoutArray.from_numpy(values, ScaleFactors((131, 7), values.dtype, 9), padding=fill)
        taken = {slot(i, j, 7) for i, j in np.ndindex(131, 7)}
        assert a.buffer.tolist() == [0 if k in taken else expected for k in range(2048)]


@pytest.mark.parametrize(
    ("size", "match"), [(511, "takes 512 bytes, but the buffer has 511"), (4097, "4097: 3585 too many for padding")]
)
def test_buffers_of_another_size(size: int, match: str) -> None:
    with pytest.raises(sd.BufferSizeError, match=match):
        sd.LayoutArray(bytes(size), ScaleFactors((128, 4), np.dtype(np.uint8)))


def test_specs_that_do_not_fit() -> None:
    spec = ScaleFactors((128, 4), np.dtype(np.uint8))
    with pytest.raises(sd.LayoutError, match="does not have the dimensions"):
        sd.LayoutArray.from_numpy(np.zeros((4, 128), np.uint8), spec)
    with pytest.raises(sd.LayoutError, match="not of the element type f32"):
        sd.LayoutArray.from_numpy(np.zeros((128, 4)), spec, element_type="f32")
    with pytest.raises(ValueError, match="out holds uint8"):
        sd.LayoutArray.from_numpy(np.zeros((128, 4), np.uint8), "{1,0}", out=made((128, 4))[0])

    class Wide(ScaleFactors):
        element_bits = 12

    with pytest.raises(sd.UnsupportedError, match="12-bit elements"):
        sd.LayoutArray(bytes(512), Wide((128, 4), np.dtype(np.uint8)))


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}", "{1,0:T(8,128)(4,1)}", "{0,1:T(2,4)}"])
@pytest.mark.parametrize("sizes", [(256, 64), (131, 7), (1027, 133)])
def test_conversions_to_and_from_layouts_of_xla(sizes: tuple[int, int], layout: str) -> None:
    values = np.random.default_rng(1).integers(0, 255, sizes, np.uint8)
    other = sd.LayoutArray.from_numpy(values, layout)
    spec = ScaleFactors(sizes, values.dtype)
    a = other.to_layout(spec)
    assert isinstance(a, sd.LayoutArray)
    assert a.spec == spec
    assert np.all(a.buffer[[slot(i, j, sizes[1]) for i, j in np.ndindex(*sizes)]] == values.reshape(-1))
    assert same(a.to_layout(layout).buffer, np.asarray(other.buffer))


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}", "{1,0:T(8,128)(4,1)}", "{0,1:T(8,128)(4,1)}"])
@pytest.mark.parametrize("sizes", [(4096, 512), (4099, 513)])
def test_conversions_take_kernels(sizes: tuple[int, int], layout: str) -> None:
    own = ScaleFactors(sizes, np.dtype(np.uint8)).address_map
    theirs = sd.Shape("u8", sizes, sd.parse(layout)).address_map
    for source, target in ((own, theirs), (theirs, own)):
        plan = plan_copy(source, target, Storage(8), Storage(8))
        assert not any(isinstance(step, PerElementStep) for step in plan.steps)
        assert plan.kernel not in ("nest", "offsets"), str(plan)
