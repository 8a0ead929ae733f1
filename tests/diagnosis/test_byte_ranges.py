"""The bytes that a key touches, put to listing the bytes of every element."""

from __future__ import annotations

import itertools
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.inspect import byte_ranges
from tests import oracle
from tests.cases import CORPUS, Case
from tests.checks import outcome, same_error, shape_of
from tests.strategies import cases, keys


def by_brute_force(case: Case, key: object, gap: int = 0) -> list[list[int]]:
    """The ranges of the bytes of all selected elements."""
    numbers = np.arange(int(np.prod(case.dimensions))).reshape(case.dimensions)
    indices, touched = list(oracle.indices(case.spec)), set()
    for number in np.unique(numbers[key]).tolist():
        first = oracle.offset_of(case.spec, indices[number]) * case.bits
        touched.update(range(first // 8, -(-(first + case.bits) // 8)))
    found: list[list[int]] = []
    for byte in sorted(touched):
        if found and byte - found[-1][1] <= gap:
            found[-1][1] = byte + 1
        else:
            found.append([byte, byte + 1])
    return found


@given(st.data(), cases(), st.sampled_from([0, 0, 1, 2, 7, 40]))
def test_the_bytes_are_those_of_all_elements(data: st.DataObject, case: Case, gap: int) -> None:
    key = data.draw(keys(case.dimensions, wrong=True))
    numbers = np.arange(int(np.prod(case.dimensions))).reshape(case.dimensions)
    _, refused = outcome(lambda: numbers[key])
    if refused is not None:
        same_error(outcome(lambda: byte_ranges(shape_of(case), key, gap))[1], refused)
        return
    found = byte_ranges(shape_of(case), key, gap)
    assert found.dtype == np.int64
    assert found.tolist() == by_brute_force(case, key, gap)


@pytest.mark.parametrize("text", CORPUS.values())
def test_every_box_of_the_corpus(text: str) -> None:
    case = Case.parse(text)
    assert byte_ranges(text).tolist() == by_brute_force(case, ...)
    for n in case.dimensions[:1]:
        for start, stop in itertools.combinations(range(0, n + 1, max(1, n // 6)), 2):
            key = (slice(start, stop), ..., slice(None, None, 3)) if len(case.dimensions) > 1 else slice(start, stop)
            assert byte_ranges(text, key).tolist() == by_brute_force(case, key), key


TILED = "bf16[17,300]{1,0:T(8,128)(2,1)}"


@pytest.mark.parametrize(
    "key",
    [
        (slice(None), slice(None, None, 3)),
        (slice(None, None, -5), [0, 0, 299, -7]),
        (np.arange(17)[::-1], slice(3, 290)),
        np.arange(17 * 300).reshape(17, 300) % 7 == 0,
        (None, np.arange(17) % 2 == 0, None, 5),
        ([[1], [16]], [[2, 130, 2]]),
        (..., True, 3),
        (False, slice(2)),
    ],
)
@pytest.mark.parametrize("gap", [0, 2, 5, 254, 1 << 30])
def test_keys_on_a_compilers_layout(key: object, gap: int) -> None:
    assert byte_ranges(TILED, key, gap).tolist() == by_brute_force(Case.parse(TILED), key, gap)


def test_a_prefix_of_dynamic_sizes_lies_in_front() -> None:
    assert byte_ranges("f32[<=3,5]{1,0:M(16)}", (1, slice(2))).tolist() == [[36, 44]]


def test_packed_bits_are_rounded_outwards() -> None:
    assert byte_ranges("pred[100]{0:E(1)}", slice(7, 9)).tolist() == [[0, 2]]
    assert byte_ranges("s4[100]{0:E(4)}", slice(1, 50, 2)).tolist() == [[0, 25]]


@pytest.mark.parametrize("key", [(3, 0), (0, -6), (slice(None), [5]), (0, 0, 0), np.zeros((2, 5), bool), 1.5])
def test_what_numpy_refuses_is_an_index_error(key: object) -> None:
    refused = outcome(lambda: np.zeros((3, 5))[key])[1]
    assert isinstance(refused, IndexError)
    same_error(outcome(lambda: byte_ranges("f32[3,5]{0,1:T(2,2)}", key))[1], refused)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (("f32[3]", ..., -1), ValueError, "gap"),
        (("f32[3]", ..., 1.5), TypeError, "integer"),
        (("(f32[3])",), sd.UnsupportedError, "tuple"),
        (("f32[1099511627776]", slice(None, None, 2)), sd.UnsupportedError, "ranges"),
    ],
)
def test_refusals(arguments: tuple[object, ...], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        byte_ranges(*arguments)


def test_ranges_far_apart() -> None:
    assert byte_ranges(f"u8[{2**62}]", [0, -5]).tolist() == [[0, 1], [2**62 - 5, 2**62 - 4]]
    assert byte_ranges(f"f32[{2**60}]", [0, 2**59], 2**61 - 4).tolist() == [[0, 2**61 + 4]]
    assert byte_ranges(f"f32[{2**60}]", [0, 2**59], 2**61 - 5).tolist() == [[0, 4], [2**61, 2**61 + 4]]


#: Four terabytes.
LARGE = "f32[1048576,1048576]{1,0:T(8,128)}"


@pytest.mark.parametrize(
    ("key", "gap", "count", "touched"),
    [
        ((), 0, 1, 1 << 42),
        ((slice(8, 1 << 20),), 0, 1, (1 << 42) - (1 << 25)),
        ((slice(None), 7), 0, 1 << 20, 4 << 20),
        ((5, slice(None)), 0, 8192, 4 << 20),
        ((slice(None, None, 1 << 16), slice(0, 128)), 0, 16, 512 * 16),
        ((slice(None, None, 2), slice(None, None, 2)), 516, 1, (1 << 42) - 516),
        ((slice(64), slice(None, None, 3)), 16, 1, 1 << 28),
        ((-1, -1), 0, 1, 4),
    ],
)
def test_four_terabytes_take_no_more_than_their_ranges(key, gap: int, count: int, touched: int) -> None:
    tracemalloc.start()
    found = byte_ranges(LARGE, key, gap)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found) == count
    assert int((found[:, 1] - found[:, 0]).sum()) == touched
    assert peak < (1 << 24) + 100 * count


def test_sums_that_wrap_around_on_the_way_are_no_warnings() -> None:
    text = f"f32[{2**40}]{{0:T(182414956)(1000000007,2)}}"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for index in (0, 2**40 - 1):
            start = 4 * sd.parse_shape(text).offset_of((index,))
            assert byte_ranges(text, index).tolist() == [[start, start + 4]]
