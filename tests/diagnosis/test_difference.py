"""`strided.diff` beside NumPy: counts, distances, first mismatches, bytes; over all types and many layouts."""

from __future__ import annotations

import itertools
import json
import math
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.diagnosis.difference import diff, scan
from strided.diagnosis.difference.values import Tolerance, is_float, measured
from strided.dumps.sharded.assemble import assemble, shard
from strided.errors import BufferSizeError, DumpError, UnsupportedError
from strided.io.convert_file import write_arrays
from strided.layout.element_types import ELEMENT_TYPES
from tests.cases import Case
from tests.strategies import cases
from tests.thinned import thinned
from tests.zarr_stores import chunked

Array = npt.NDArray[Any]

TYPES = [t for t in ELEMENT_TYPES.values() if t.dtype is not None]
SMALL_FLOATS = [t for t in TYPES if t.dtype is not None and t.dtype.kind != "c" and is_float(t.dtype) and t.bits <= 16]


def random_values(name: str, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Random bits of a type: NaN, infinities, both zeros."""
    kind = ELEMENT_TYPES[name]
    assert kind.dtype is not None
    rng = np.random.default_rng(seed)
    if name == "pred":
        return rng.integers(0, 2, shape).astype(bool)
    if kind.bits < 8:
        return rng.integers(0, 1 << kind.bits, shape).astype(np.uint8).view(kind.dtype)
    found = rng.integers(0, 256, (*shape, kind.dtype.itemsize)).astype(np.uint8).view(kind.dtype)[..., 0]
    found[rng.random(shape) < 0.1] = np.zeros((), kind.dtype)
    return found


def wide(x: Array) -> Array:
    """The values in a type in which NumPy computes exactly enough."""
    with np.errstate(all="ignore"):
        if is_float(x.dtype):
            return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    return x.astype(np.int8 if x.dtype.isbuiltin != 1 else x.dtype).astype(object)


def unequal(x: Array, y: Array, *, equal_nan: bool = True) -> npt.NDArray[np.bool_]:
    """What NumPy finds unequal, NaN aside."""
    x, y = wide(x), wide(y)
    with np.errstate(all="ignore"):
        found = np.asarray(x != y)
    if equal_nan and x.dtype.kind in "fc":
        found &= ~(np.isnan(x) & np.isnan(y))
    return found


@pytest.mark.parametrize("kind", thinned(TYPES, 3), ids=lambda kind: kind.name)
def test_every_type_counts_as_numpy_does(kind: Any) -> None:
    x, y = random_values(kind.name, (19, 150)), random_values(kind.name, (19, 150), 1)
    y[:, 20:] = x[:, 20:]
    a = sd.LayoutArray.from_numpy(x, "{0,1:T(8,128)}", element_type=kind.name)
    packed = f":E({kind.bits})" if kind.bits in (1, 2, 4) else ""
    for b in (
        sd.LayoutArray.from_numpy(y, "{0,1:T(8,128)}", element_type=kind.name),
        sd.LayoutArray.from_numpy(y, "{1,0" + packed + "}", element_type=kind.name),
    ):
        found, wanted = diff(a, b), unequal(x, y)
        assert (found.count, found.total) == (np.count_nonzero(wanted), x.size)
        assert [m.index for m in found.mismatches] == list(map(tuple, np.argwhere(wanted)[:10].tolist()))
        assert found.equal == (not wanted.any())
        assert found.padding_differs == 0
        json.dumps(found.to_dict(), allow_nan=False)
        assert f"{found.count:,} of 2,850 elements differ" in str(found)
    assert diff(a, y, equal_nan=False).count == np.count_nonzero(unequal(x, y, equal_nan=False))
    assert diff(a, a, equal_nan=False).count == np.count_nonzero(unequal(x, x, equal_nan=False))


@pytest.mark.parametrize("name", ["f32", "bf16", "f16", "f64", "c64", "f8e4m3fn"])
@pytest.mark.parametrize(("rtol", "atol"), [(0.0, 0.5), (0.25, 0.0), (0.1, 0.1)])
def test_tolerances_are_those_of_isclose(name: str, rtol: float, atol: float) -> None:
    x, y = random_values(name, (40, 90)), random_values(name, (40, 90), 1)
    near = np.random.default_rng(2).random(x.shape) < 0.5
    with np.errstate(all="ignore"):
        y[near] = (wide(x[near]) * 1.2 + 0.1).astype(x.dtype)
        y[:2] = x[:2]
        close = np.isclose(wide(x), wide(y), rtol=rtol, atol=atol, equal_nan=True)
        found = diff(x, sd.LayoutArray.from_numpy(y, "{0,1}"), rtol=rtol, atol=atol)
        assert found.count == np.count_nonzero(~close)
        distance = np.abs(wide(x) - wide(y))
        distance[wide(x) == wide(y)] = 0
        assert found.max_abs == np.nanmax(distance)


EDGES = {
    "f32": [0, -0.0, 1, 1.05, -3e38, 3e38, np.inf, -np.inf, np.nan],
    "f64": [0, 1, 1e308, -1e308, np.inf, -np.inf, np.nan],
    "bf16": [0, 1, -1, np.inf, -np.inf, np.nan],
    "c64": [0, 1j, -1, np.inf, -np.inf, complex(0, np.inf), complex(np.inf, np.nan), complex(np.nan, -np.inf), np.nan],
    "c128": [0, 1j, complex(1e308, -1.7e308), complex(0, np.inf), complex(np.inf, np.nan), complex(np.nan, 1), np.nan],
    "s8": [0, 1, -1, 127, -128],
    "s64": [0, 1, -1, 2**63 - 1, -(2**63)],
    "u64": [0, 1, 2**64 - 1],
    "pred": [0, 1],
    "s4": [0, 1, -8, 7],
}


@pytest.mark.parametrize(
    ("name", "rtol", "atol", "equal_nan"),
    thinned(itertools.product(EDGES, [0, 0.1, np.inf], [0, 0.1, np.inf], [True, False]), 7),
)
def test_infinities_and_infinite_tolerances_are_those_of_isclose(
    name: str, rtol: float, atol: float, equal_nan: bool
) -> None:
    dtype = ELEMENT_TYPES[name].dtype
    x, y = (np.array(each, dtype) for each in zip(*itertools.product(EDGES[name], repeat=2), strict=True))
    a, b = (each.astype(np.complex128 if name[0] == "c" else np.float64) for each in (x, y))
    with np.errstate(all="ignore"):
        wanted = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    found = diff(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan, limit=x.size)
    assert [m.index[0] for m in found.mismatches] == np.flatnonzero(wanted).tolist()
    alone = [diff(x[k], y[k], rtol=rtol, atol=atol, equal_nan=equal_nan).equal for k in range(x.size)]
    assert alone == (~wanted).tolist()  # one element takes another way where all are finite


def test_what_a_tolerance_allows_is_not_counted_as_nan() -> None:
    x, y = np.array([complex(np.inf, np.nan), complex(np.nan, 0), 1], np.complex64), np.zeros(3, np.complex64)
    found = diff(x, y, atol=np.inf)
    assert (found.count, found.unordered) == (1, 1)
    assert diff(x, y, atol=1).unordered == diff(x, y, max_ulp=2**31).unordered == 2


@pytest.mark.parametrize("kind", SMALL_FLOATS, ids=lambda kind: kind.name)
def test_ulps_are_counted_by_sorting_all_values(kind: Any) -> None:
    every = np.arange(1 << kind.bits).astype(f"u{kind.dtype.itemsize}").view(kind.dtype)
    with np.errstate(invalid="ignore"):
        numbers = every.astype(np.float64)
    values = np.unique(numbers[~np.isnan(numbers)])  # -0 and 0 are one
    rng = np.random.default_rng(0)
    x, y = (every if kind.bits <= 8 else rng.permutation(every)[:3000] for _ in range(2))
    x, y = (x[:, None] + np.zeros((1, y.size), x.dtype), y[None]) if kind.bits <= 4 else (x, rng.permutation(y))
    y = np.broadcast_to(y, x.shape).copy()
    with np.errstate(invalid="ignore"):
        p, q = x.astype(np.float64), y.astype(np.float64)
    nan = np.isnan(p) | np.isnan(q)
    ranks = [np.searchsorted(values, np.where(nan, 0, each)) for each in (p, q)]
    apart = np.where(nan, 0, np.abs(ranks[0] - ranks[1]))
    assert diff(x, y).max_ulp == apart.max()
    for most in (0, 1, 7, int(apart.max()) - 1):
        wanted = (apart > most) | (np.isnan(p) != np.isnan(q))
        found = diff(x, y, max_ulp=most)
        assert found.count == np.count_nonzero(wanted)
    bins = {(each.start, each.stop): each.count for each in diff(x, y).histogram}
    for (start, stop), count in bins.items():
        assert count == np.count_nonzero((apart >= start) & (apart < stop))
    assert sum(bins.values()) == np.count_nonzero(apart)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ulps_of_wide_floats(dtype: Any) -> None:
    x = np.array([1, -1, 0, -0.0, np.finfo(dtype).max, np.finfo(dtype).tiny, np.nan, np.inf], dtype)
    with np.errstate(over="ignore"):
        y = np.nextafter(x, dtype(np.inf))
    assert diff(x, y).max_ulp == 1
    assert diff(x, y, max_ulp=1).equal
    assert diff(dtype(0), dtype(-0.0)).equal
    assert diff(dtype(0), dtype(-0.0), max_ulp=0).equal
    smallest = np.nextafter(dtype(0), dtype(1))
    assert diff(-smallest, smallest).max_ulp == 2
    bits = 8 * np.dtype(dtype).itemsize
    infinity = int(np.array(np.inf, dtype).view(f"u{bits // 8}"))
    assert diff(dtype(-np.inf), dtype(np.inf)).max_ulp == 2 * infinity
    assert diff(dtype(np.nan), dtype(1), max_ulp=2**64).count == 1


def test_ulps_of_complex_numbers_are_those_of_either_part() -> None:
    x = np.array([1 + 1j, 2 + 5j], np.complex64)
    y = x.copy()
    y.imag[1] = np.nextafter(np.float32(5), np.float32(9))
    assert diff(x, y).max_ulp == 1
    assert (diff(x, y, max_ulp=0).count, diff(x, y, max_ulp=1).count) == (1, 0)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers_with_one_infinite_part_in_common(dtype: Any) -> None:
    """Their difference is that of the other parts, and hides no other difference."""
    a = np.arange(20).astype(dtype)
    b = a + 5
    a[3], b[3] = complex(np.inf, 1), complex(np.inf, 2)
    found = diff(a, b)
    assert (found.count, found.max_abs, found.max_rel) == (20, 5.0, 1.0)
    assert "max |a - b| 5, max relative 1, " in str(found)
    found = diff(a[3:4], b[3:4])
    assert (found.count, found.max_abs, found.max_rel) == (1, 1.0, 0.0)
    b[3] = complex(-np.inf, 1)
    assert diff(a, b).max_abs == np.inf


def test_pairs_of_types() -> None:
    assert diff(np.array([2**64 - 1], np.uint64), np.array([-1])).count == 1
    assert diff(np.array([7, 2**63], np.uint64), np.array([7, -1])).max_abs == 2**63 + 1
    assert diff(np.array([-(2**63)]), np.array([2**63 - 1])).max_abs == 2**64 - 1
    assert diff(np.array([True, False]), np.array([1, 0], np.int8)).equal
    assert diff(np.array([3], ml_dtypes.int4), np.array([3.5], np.float32)).max_abs == 0.5
    assert diff(np.array([1.5], ml_dtypes.bfloat16), np.array([1.5], np.float16)).equal
    assert diff(np.array([1.5]), np.array([1.5 + 1j], np.complex64)).max_abs == 1
    x = random_values("f32", (60, 70))
    with np.errstate(all="ignore"):
        y = x.astype(ml_dtypes.bfloat16)
    assert diff(x, y).count == np.count_nonzero(unequal(x, y))
    assert diff(np.arange(9, dtype=">i4"), np.arange(9)).equal


#: Integers that doubles hold, and their neighbours that none holds.
WIDE = [0, 1, -1, 5, 2**63 - 1, -(2**63)]
WIDE += [s * 2**k + d for s in (1, -1) for k in (24, 32, 53, 62) for d in (-1, 0, 1)]
WIDE_UNSIGNED = [*map(abs, WIDE), 2**63 + 1, 2**64 - 2048, 2**64 - 1024, 2**64 - 1]
FLOATS = [0.0, -0.0, 0.5, np.inf, np.nan, *map(float, WIDE), 2.0**64, 2.0**64 - 2048, 1e300]


@pytest.mark.parametrize(("dtype", "values"), [(np.int64, WIDE), (np.uint64, WIDE_UNSIGNED)])
@pytest.mark.parametrize(
    "other",
    thinned([np.float64, np.float32, np.float16, ml_dtypes.bfloat16, np.complex64, np.complex128], 2),
)
def test_wide_integers_equal_the_floats_that_are_the_same_number(dtype: Any, values: list[int], other: Any) -> None:
    floats = np.array([*FLOATS, 5 + 1j] if np.issubdtype(other, np.complexfloating) else FLOATS)
    with np.errstate(all="ignore"):
        x, y = np.repeat(np.array(values, dtype), len(floats)), np.tile(floats.astype(other), len(values))
    with np.errstate(all="ignore"):
        wanted = [int(a) != complex(b) for a, b in zip(x, y, strict=True)]  # which Python compares exactly
    for found in (diff(x, y, limit=x.size), diff(y, x, limit=x.size), diff(x, y, limit=x.size, max_ulp=0)):
        assert [m.index[0] for m in found.mismatches] == np.flatnonzero(wanted).tolist()
        assert found.has_ulps
        assert str(found)


def test_how_far_wide_integers_are_from_floats() -> None:
    x, y = np.array([2**53 + 1, 2**62 + 3, 7]), np.array([2.0**53, 2.0**62, 7])
    found = diff(x, y)
    assert (found.count, found.max_abs, found.max_ulp) == (2, 3, 1)
    assert [diff(x, y, atol=atol).count for atol in (0.5, 1, 2.5, 3)] == [2, 1, 1, 0]
    assert diff(x, y, max_ulp=1).equal
    assert diff(np.array([*x, 1]), np.array([*y, np.inf])).count == 3
    for part, share in ((slice(2, 3), 1.0), (slice(0, 3), 0.0)):
        for one, other in ((x, -y), (y, -x)):
            shares = [p.share for p in diff(one[part], other[part]).patterns if p.kind == "sign"]
            assert sum(shares) == share


def test_equal_values_of_other_bytes_are_no_padding() -> None:
    truths = np.array([0, 1, 2, 255, 128, 0], np.uint8).view(np.bool_)
    zeros = np.array([0.0, -0.0, 1])
    for x, y, differing in ((truths, truths.view(np.uint8) != 0, "3 bytes"), (zeros, np.abs(zeros), "1 byte")):
        found = diff(x, y)
        assert (found.equal, found.padding_differs, found.bytes_differ) == (True, 0, int(differing[0]))
        assert str(found).splitlines()[3:] == [f"the elements differ in {differing}, but not in value"]
    found = diff(truths, np.ones(6, np.bool_))
    assert (found.count, found.padding_differs, found.bytes_differ) == (2, 0, 5)
    assert diff(truths, np.ones((1, 6), np.bool_)[0, ::-1]).count == 2


def test_the_byte_of_a_single_truth_value_is_no_padding() -> None:
    one, other = (sd.LayoutArray(bytes([byte]), "pred[]") for byte in (1, 205))
    found = diff(one, other)
    assert (found.equal, found.padding_differs, found.bytes_differ) == (True, 0, 1)


def test_integers_with_tolerances() -> None:
    x, y = random_values("s8", (50, 50)), random_values("s8", (50, 50), 1)
    apart = np.abs(x.astype(int) - y)
    assert diff(x, y, atol=10).count == np.count_nonzero(apart > 10)
    assert diff(x, y, rtol=0.5).count == np.count_nonzero(apart > 0.5 * np.abs(y.astype(int)))
    assert diff(x, y, max_ulp=3).count == np.count_nonzero(apart > 3)
    assert (diff(x, y).max_abs, diff(x, y).max_ulp) == (apart.max(), apart.max())


@pytest.mark.parametrize("name", ["pred", *(f"{sign}{bits}" for sign in "su" for bits in (1, 2, 4, 8))])
def test_small_integers_of_any_bytes_are_compared_by_value(name: str) -> None:
    every = np.arange(256, dtype=np.uint8).view(ELEMENT_TYPES[name].dtype)
    a, b = np.repeat(every, 256), np.tile(every, 256)
    x, y = a.astype(np.int64), b.astype(np.int64)
    with np.errstate(all="ignore"):
        found, relative = measured(a, b, Tolerance(atol=2)), np.abs(x - y) / np.abs(y)
    assert np.array_equal(found.steps, np.abs(x - y))
    assert np.array_equal(found.distance, np.abs(x - y))
    assert np.array_equal(found.unequal, np.abs(x - y) > 2)
    assert np.array_equal(found.relative, np.where(x == y, 0, relative))
    assert not found.unordered.any()
    assert found.steps.itemsize == 1  # what takes eight times the memory is no faster


def test_relative_differences() -> None:
    assert diff(np.array([1.0, 2.0]), np.array([4.0, 2.5])).max_rel == 0.75
    assert diff(np.array([1.0]), np.array([0.0])).max_rel == np.inf
    assert diff(np.array([np.nan, 1.0]), np.array([1.0, np.nan])).max_rel == 0
    assert diff(np.array([np.nan, 1.0]), np.array([1.0, np.nan])).unordered == 2


@pytest.mark.parametrize("layout", ["{1,0:T(8,128)}", "{0,1:T(2,128)}", "{1,0:T(8,128)E(4)}", "{1,0:L(1000)}"])
def test_padding_is_counted_in_bytes_and_never_as_a_difference(layout: str) -> None:
    name = "s4" if "E(4)" in layout else "s16"
    x = random_values(name, (13, 300))
    a, b = (sd.LayoutArray.from_numpy(x, layout, padding=k, element_type=name) for k in (0, 1))
    found = diff(a, b)
    assert found.equal
    assert found.padding_differs == np.count_nonzero(a.buffer != b.buffer) > 0
    b[:3, 4:90] = random_values(name, (3, 86), 5)
    c = sd.LayoutArray.from_numpy(np.asarray(b), layout, padding=0, element_type=name)
    assert diff(a, b).padding_differs == np.count_nonzero(c.buffer != b.buffer)
    assert diff(a, b).count == diff(a, c).count > 0
    assert diff(a, c).padding_differs == 0


@given(cases(legacy=False), st.integers(0, 1 << 30), st.sampled_from([0.02, 0.3, 1.0]))
def test_any_layout(case: Case, seed: int, share: float) -> None:
    shape = sd.parse_shape(case.text)
    x, y = (random_values(case.element_type, shape.dimensions, seed + k) for k in (0, 1))
    y = np.where(np.random.default_rng(seed).random(x.shape) < share, y, x)
    a, b, c = (sd.LayoutArray.from_numpy(v, shape, padding=k) for v, k in ((x, 0), (y, 1), (y, 0)))
    wanted = unequal(x, y)
    for other in (b, y):
        found = diff(a, other)
        assert found.count == np.count_nonzero(wanted)
        assert [m.index for m in found.mismatches] == list(map(tuple, np.argwhere(wanted)[:10].tolist()))
        assert bool(found.patterns) is bool(wanted.any())
        assert str(found)
    assert diff(c, b).equal
    if shape.element_bits >= 8:
        assert diff(a, b).padding_differs == diff(c, b).padding_differs == np.count_nonzero(b.buffer != c.buffer)


def test_bytes_of_mismatches() -> None:
    x = np.zeros((17, 300), ml_dtypes.bfloat16)
    y = x.copy()
    y[9, 200] = y[16, 1] = 1
    shapes = ("bf16[17,300]{1,0:T(8,128)(2,1)}", "bf16[17,300]{0,1}")
    found = diff(*(sd.LayoutArray.from_numpy(v, s) for v, s in zip((x, y), shapes, strict=True)))
    for m in found.mismatches:
        wanted = [2 * int(sd.parse_shape(s).offset_of(m.index)) for s in shapes]
        assert [m.byte_a, m.byte_b, m.a, m.b] == [*wanted, 0, 1]
    assert found.first == (9, 200)
    assert diff(x[:, ::2], y[:, ::2]).mismatches[0].byte_a == 9 * 600 + 200 * 2


def test_many_blocks_and_chunks() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 1000, (1100, 1300)).astype(np.int32)
    y = x.copy()
    where = tuple(rng.integers(0, n, 500) for n in x.shape)
    y[where] += 1
    wanted = np.argwhere(x != y)
    done: list[int] = []
    for p, q in (("{1,0:T(8,128)}", "{1,0:T(8,128)}"), ("{1,0}", "{0,1:T(8,128)}"), ("{0,1}", "{1,0}")):
        a, b = sd.LayoutArray.from_numpy(x, p), sd.LayoutArray.from_numpy(y, q)
        done.clear()
        found = diff(a, b, limit=1000, progress=done.append)
        assert [list(m.index) for m in found.mismatches] == wanted.tolist()
        assert sum(done) == x.size
        assert diff(a[3:, ::2], b[3:, ::2]).count == np.count_nonzero(x[3:, ::2] != y[3:, ::2])
        assert int(found.map.counts.sum()) == found.count


def test_a_store_of_many_chunks_is_read_in_part(tmp_path: Path) -> None:
    x = np.arange(4096 * 2048, dtype=np.float32).reshape(4096, 2048)
    write_arrays({"x": x}, tmp_path / "x.zarr", None, overwrite=False)
    store = sd.open(tmp_path / "x.zarr")
    chunk = store.chunk_shape
    x[-1, -1] += 2
    diff(store, x)  # what is kept for later calls
    tracemalloc.start()
    found = diff(store, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert chunk < x.shape
    assert peak < x.nbytes // 2
    assert (found.count, found.first, found.max_abs) == (1, (4095, 2047), 2)
    assert found.mismatches[0].byte_a == 4 * (math.prod(chunk) - 1), "in the file of its chunk"
    assert found.a == f"float32[4096, 2048] in chunks of {list(chunk)}"


def test_shards_beside_a_whole_array() -> None:
    x = np.random.default_rng(3).standard_normal((30, 25)).astype(np.float32)
    y = x.copy()
    y[29, 24] += 1
    sharding = sd.Sharding.parse("{devices=[4,2]<=[8]}")
    pieces = shard(y, sharding, layout="{1,0:T(8,128)}")
    b = assemble(pieces, sharding, (30, 25))
    found = diff(x, b)
    assert (found.count, found.first) == (1, (29, 24))
    del pieces[3]
    with pytest.raises(DumpError, match="no shard holds"):
        diff(x, assemble(pieces, sharding, (30, 25)))


def test_files(tmp_path: Path) -> None:
    x = np.random.default_rng(3).standard_normal((40, 300)).astype(np.float32)
    a = sd.LayoutArray.from_numpy(x, "{1,0:T(8,128)}")
    a.buffer.tofile(tmp_path / "a.bin")
    np.save(tmp_path / "b.npy", x)
    np.save(tmp_path / "f.npy", np.asfortranarray(x))
    for other in (x, (tmp_path / "b.npy", None), tmp_path / "b.npy", (str(tmp_path / "f.npy"), None)):
        assert diff((tmp_path / "a.bin", "f32[40,300]{1,0:T(8,128)}"), other).equal
    with pytest.raises(BufferSizeError, match="takes 48000 bytes"):
        diff((tmp_path / "a.bin", "f32[40,300]"), x)
    with pytest.raises(UnsupportedError, match="give the shape"):
        diff(tmp_path / "a.bin", x)


def test_arrays_without_elements_or_axes() -> None:
    assert diff(np.zeros((3, 0)), np.zeros((3, 0))).equal
    assert diff(np.zeros((3, 0)), np.zeros((3, 0))).first is None
    assert diff(np.zeros((1 << 40, 0)), np.zeros((1 << 40, 0))).equal  # no count for each index
    assert str(diff(np.zeros((3, 0)), np.zeros((3, 0)))).endswith("all 0 elements are equal")
    found = diff(np.float32(1), np.float32(2))
    assert (found.count, found.first, found.mismatches[0].byte_a) == (1, (), 0)
    assert str(found)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the shapes differ: a is \[2, 3\], b is \[3, 2\]"):
        diff(np.zeros((2, 3)), np.zeros((3, 2)))
    with pytest.raises(ValueError, match="max_ulp must be 0 or more, not -1"):
        diff(np.zeros(3), np.zeros(3), max_ulp=-1)
    with pytest.raises(ValueError, match="atol must be 0 or more, not nan"):
        diff(np.zeros(3), np.zeros(3), atol=np.nan)
    with pytest.raises(ValueError, match="limit must be 0 or more"):
        diff(np.zeros(3), np.zeros(3), limit=-1)
    with pytest.raises(UnsupportedError, match="no element type for dtype"):
        diff(np.zeros(3, "M8[s]"), np.zeros(3))


def test_values_written_to_a_private_copy_of_a_file_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are let go of while files are compared, but not those that hold what is nowhere else."""
    monkeypatch.setattr(scan, "_RELEASED_BYTES", 1)
    values = np.arange(1 << 14, dtype=np.float32).reshape(128, 128)
    values.tofile(tmp_path / "x.bin")
    for mode in ("r", "c", "r+"):
        a = sd.open(tmp_path / "x.bin", "f32[128,128]{1,0:T(8,128)}", mode=mode)
        b = sd.open(tmp_path / "x.bin", "f32[128,128]{1,0:T(8,128)}")
        if mode == "c":
            a[5, 7] = -1
        for _ in range(2):
            found = diff(a, b)
            assert (found.count, found.first) == ((1, (5, 7)) if mode == "c" else (0, None))


def test_reports() -> None:
    x = np.zeros((20, 300), np.float32)
    y = x.copy()
    y[3:5, 10:20] = np.nan
    found = diff(x, y, limit=2)
    assert len(found.mismatches) == 2
    assert "20 of 6,000 elements differ, 0.333%" in str(found)
    assert "20 with NaN" in str(found)
    assert "... 18 more" in str(found)
    for width in range(40, 121):
        assert max(map(len, found.text(width).splitlines())) <= width
    large = diff(np.array([1_234_567_890, 5]), np.array([-987_654_321_012, 5]))
    assert large.cells()[0][1:3] == ("1234567890", "-987654321012")
    assert "mismatches by |a - b|: " in str(diff(np.arange(9), np.arange(9) * 3))
    for width in range(40, 121):
        table = [line for line in large.text(width).splitlines() if "1234567890 " in line]
        assert table
        assert max(map(len, table)) <= width
    none = diff(x, y, limit=0)
    assert (none.mismatches, none.first) == ((), (3, 10))
    assert "byte of a" in str(found)
    assert "byte of a" not in str(none)
    assert "more" not in str(none)
    assert found.svg().startswith("<svg")
    assert "<svg" in found._repr_html_()
    assert "<svg" not in diff(x, x)._repr_html_()
    loaded = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert loaded["mismatches"][0] == {"index": [3, 10], "a": 0.0, "b": "nan", "byte_a": 3640, "byte_b": 3640}


def test_threads_and_one_thread_find_the_same() -> None:
    x, y = random_values("s16", (500, 1100)), random_values("s16", (500, 1100), 1)
    texts = set()
    for number in (1, 4):
        sd.set_num_threads(number)
        try:
            texts.add(str(diff(x, sd.LayoutArray.from_numpy(y, "{0,1}"))))
        finally:
            sd.set_num_threads(None)
    assert len(texts) == 1
    assert threading.active_count() < 20


def test_the_map_marks_nan() -> None:
    a = sd.LayoutArray.from_numpy(np.zeros((16, 256), np.float32), "{1,0:T(8,128)}")
    b = a.copy()
    b[9, 200:203] = np.nan
    b[0, :5] = 1
    found = diff(a, b)
    assert found.map.flags is not None
    assert found.map.flags.sum() == found.unordered == 3
    assert found.map.flags[9].sum() == 3
    assert "! NaN" in found.text()
    b[9, 200:203] = 2
    assert "! NaN" not in diff(a, b).text()


def test_reprs_say_what_differs() -> None:
    a, b = np.zeros((3, 5), np.float32), np.eye(3, 5, dtype=np.float32)
    assert repr(diff(a, a)) == "<Difference: all 15 elements are equal>"
    b[:] = 0
    b[1, 1] = 3
    assert repr(diff(a, b)) == (
        "<Difference: 1 of 15 elements differs, 6.67%; the only mismatch is at [1, 1]: byte 24 of a, 24 of b>"
    )
    assert repr(diff(a, np.eye(3, 5, dtype=np.float32))) == "<Difference: 3 of 15 elements differ, 20%>"


@pytest.mark.parametrize("other", thinned(map(pytest.param, [(8, 16), (12, 10), (40, 1), None]), 2), ids=str)
def test_small_chunks_are_compared_many_at_a_time(other: tuple[int, int] | None, tmp_path: Path) -> None:
    values = np.arange(12_000, dtype=np.float32).reshape(40, 300)
    changed = values.copy()
    changed[9, 200:204] += 1
    a = chunked(tmp_path / "a.zarr", values, (8, 16))
    b = changed if other is None else chunked(tmp_path / "b.zarr", changed, other)
    done: list[int] = []
    found = diff(a, b, progress=done.append)
    assert [m.index for m in found.mismatches] == [(9, column) for column in range(200, 204)]
    assert sum(done) == values.size
    assert len(done) < 10


@pytest.mark.parametrize("other", [t.name for t in SMALL_FLOATS])
@pytest.mark.parametrize("max_ulp", [None, 3])
def test_powers_of_two_compare_with_every_small_float(other: str, max_ulp: int | None) -> None:
    powers = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu)
    others = random_values(other, (256,))
    for a, b in ((powers, others), (others, powers)):
        x, y = a.astype(np.float64), b.astype(np.float64)
        different = ~((x == y) | (np.isnan(x) & np.isnan(y)))
        found = diff(a, b, max_ulp=max_ulp)
        assert found.count == different.sum() if max_ulp is None else found.count <= different.sum()


def test_one_is_singular() -> None:
    one, other = np.zeros(1, np.float32), np.ones(1, np.float32)
    assert sd.diff(one, one).verdict == "the only element is equal"
    assert sd.diff(one, other).verdict == "1 of 1 element differs, 100%"
    assert sd.diff(np.zeros(3, np.float32), np.arange(3, dtype=np.float32)).verdict.startswith(
        "2 of 3 elements differ,"
    )
