"""Arrays large enough for kernels, threads and streams, against the oracle applied to whole arrays of indices."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strided as sd
from strided.runtime import limits
from tests import oracle
from tests.cases import ARRAY_TYPES, PACKED_TYPES, Case, some_values
from tests.checks import Guarded, poison, shape_of
from tests.oracle import COMBINE
from tests.thinned import thinned

#: Tiles as compilers choose them, and some that they do not.
STACKS: list[tuple[tuple[int | str, ...], ...]] = [
    (), ((8, 128),), ((8, 128), (2, 1)), ((8, 128), (4, 1)), ((8, 128), (8, 1)), ((16, 128), (16, 1)),
    ((2, 128), (2, 1)), ((32, 128), (4, 1)), ((4, 128),), ((1024,), (128,), (4, 1)), ((256,), (128,), (2, 1)),
    ((128,),), ((2, 2),), ((3, 5),), ((8, 128), (2, 1, 1, 1)), ((6, 10), (3, 2)), ((4, 4), (3, 1)), ((COMBINE, 128),),
    ((COMBINE, 8, 128), (2, 1)), ((2, 8, 16),), ((16, 16), (4, 4), (2, 1)), ((1,),),
]  # fmt: skip


@st.composite
def large_cases(draw: st.DrawFn) -> Case:
    rank = draw(st.integers(1, 4))
    left, sizes = 60_000, []
    for _ in range(rank):
        size = draw(st.one_of(st.integers(1, min(left, 300)), st.sampled_from([1, 2, 8, 16, 64, 128, 256])))
        sizes.append(max(1, min(size, left)))
        left //= sizes[-1]
    order = tuple(draw(st.permutations(range(rank))))
    element_type = draw(st.sampled_from(list(ARRAY_TYPES)))
    bits = ARRAY_TYPES[element_type]["bits"] if element_type in PACKED_TYPES and draw(st.booleans()) else 0
    case = Case(
        element_type, tuple(sizes), order, draw(st.sampled_from(STACKS)), draw(st.sampled_from([1, 1, 512])), bits
    )
    return (
        case
        if oracle.elements_by_formula(case.spec) < 400_000
        else Case(element_type, tuple(sizes), order, (), 1, bits)
    )


def buffer_of(case: Case, values: np.ndarray, padding: int) -> bytes:
    """What the oracle's `encode` gives, worked out on whole arrays."""
    places = oracle.offset_of(case.spec, tuple(np.indices(case.dimensions)))  # type: ignore[arg-type]
    count = oracle.elements_by_formula(case.spec)
    if case.bits % 8 == 0:
        slots = np.frombuffer(padding.to_bytes(case.bits // 8, "little") * count, f"V{case.bits // 8}").copy()
        slots[places] = values.view(slots.dtype)
        return slots.tobytes()
    each = 8 // case.bits
    small = np.zeros(-(-count // each) * each, np.uint8)
    small[:count] = padding
    small[places] = values.view(np.uint8) & ((1 << case.bits) - 1)
    packed = np.zeros(len(small) // each, np.uint8)
    for k in range(each):
        packed |= small[k::each] << (k * case.bits)
    return packed.tobytes()


def low_bits(case: Case, values: np.ndarray) -> np.ndarray:
    """The elements as bytes, of small types the low bits alone."""
    raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    significant = ARRAY_TYPES[case.element_type]["bits"]
    return raw & ((1 << significant) - 1) if case.element_type in PACKED_TYPES else raw


def same(case: Case, got: np.ndarray, expected: np.ndarray) -> None:
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    assert np.array_equal(low_bits(case, got), low_bits(case, expected))


@pytest.fixture(params=["as it comes", "kernels alone", "streams"], scope="module")
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """However it is carried out: by size, everything by kernels, everything past the caches and by three threads."""
    threads = sd.get_num_threads()
    kernels = ("small_elements", "tiny_elements", "loading_elements", "offsets_elements")
    zero = {"as it comes": (), "kernels alone": kernels, "streams": (*kernels, "stream_bytes")}[request.param]
    if request.param == "streams":
        sd.set_num_threads(3)
    with limits.replaced(**dict.fromkeys(zero, 0)):
        yield request.param
    sd.set_num_threads(threads)


def test_the_oracle_on_arrays_is_the_oracle_on_numbers() -> None:
    for text in ("s16[7,9]{0,1:T(4,4)(2,1)}", "u2[5,7]{1,0:T(2,3)E(2)}", "f32[3,2,4]{2,1,0:T(*,2,3)}", "s4[9]{0:E(4)}"):
        case = Case.parse(text)
        values = some_values(case, 2)
        places = oracle.offset_of(case.spec, tuple(np.indices(case.dimensions)))  # type: ignore[arg-type]
        assert {i: int(places[i]) for i in np.ndindex(case.dimensions)} == oracle.offsets(case.spec)
        patterns = {i: oracle.read_bits(values[i].tobytes(), 0, case.bits) for i in np.ndindex(case.dimensions)}
        assert buffer_of(case, values, 1) == bytes(oracle.encode(case.spec, patterns, padding=1))


@settings(max_examples=settings.default.max_examples // 4)
@given(case=large_cases(), other=large_cases(), seed=st.integers(0, 2**32))
def test_reading_writing_and_converting(way: str, case: Case, other: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = some_values(case, seed)
    content = buffer_of(case, values, poison(case))
    guarded = Guarded(content)
    array = sd.LayoutArray(guarded.buffer, shape_of(case))
    same(case, array.to_numpy(), values)

    out = np.empty(values.shape[::-1], values.dtype).T
    same(case, array.to_numpy(out), values)

    key = tuple(slice(rng.choice([None, 0, 3]), None, rng.choice([None, 1, 2, 7, -1, -3])) for _ in case.dimensions)
    same(case, np.asarray(array[key]), values[key])
    if values[key].size:
        rows = rng.integers(0, case.dimensions[0], 50)
        same(case, array[rows], values[rows])

    # Assignment of a part: from another part of the same type, which lies in memory as it likes.
    new = some_values(case, seed + 1)
    array[key] = new[key]
    changed = values.copy()
    changed[key] = new[key]
    assert guarded.content() == buffer_of(case, changed, poison(case))

    # From layout to layout, padding and all; and from NumPy.
    bits = case.element_bits if rng.random() < 0.7 else 0
    order = tuple(int(d) for d in rng.permutation(len(case.dimensions)))
    target = Case(case.element_type, case.dimensions, order, other.tiles, other.tail_alignment, bits)
    if oracle.elements_by_formula(target.spec) > 600_000:
        return
    wanted = buffer_of(target, changed, 0)
    assert array.to_layout(target.layout_text).buffer.tobytes() == wanted
    assert sd.LayoutArray.from_numpy(changed, shape_of(target)).buffer.tobytes() == wanted
    guarded = Guarded(b"\xa5" * len(wanted))
    sd.LayoutArray.from_numpy(array, shape_of(target), out=guarded.buffer)
    assert low_bits_of(target, guarded.content()) == low_bits_of(target, wanted)


def low_bits_of(case: Case, content: bytes) -> bytes:
    """A buffer without the bits behind its last slot."""
    spare = 8 * len(content) - oracle.elements_by_formula(case.spec) * case.bits
    return (int.from_bytes(content, "little") & ((1 << (8 * len(content) - spare)) - 1)).to_bytes(
        len(content), "little"
    )


@pytest.mark.parametrize("element_type", ["pred", "s8", "bf16", "f32", "f64", "c128"])
def test_a_large_transposition(way: str, element_type: str) -> None:
    case = Case(element_type, (517, 1031), (0, 1))
    values = some_values(case)
    array = sd.LayoutArray(buffer_of(case, values, 0), shape_of(case))
    same(case, array.to_numpy(), values)
    assert array.to_layout("{1,0}").buffer.tobytes() == values.tobytes()
    assert sd.LayoutArray.from_numpy(values, shape_of(case)).buffer.tobytes() == buffer_of(case, values, 0)


@pytest.mark.parametrize(
    "text",
    thinned(
        [
            "bf16[1000,1500]{1,0:T(8,128)(2,1)}",
            "s8[1000,1500]{1,0:T(32,128)(4,1)}",
            "f32[900,1100]{1,0:T(8,128)}",
            "s4[1000,1500]{1,0:T(8,128)(8,1)E(4)}",
            "bf16[1000,700]{0,1:T(8,128)(2,1)}",
        ],
        3,
    ),
)
@pytest.mark.slow
def test_large_tiles(way: str, text: str) -> None:
    case = Case.parse(text)
    values = some_values(case)
    content = buffer_of(case, values, poison(case))
    array = sd.LayoutArray(content, text)
    same(case, array.to_numpy(), values)
    same(case, np.asarray(array[5:-3, 7:]), values[5:-3, 7:])
    assert sd.LayoutArray.from_numpy(values, text).buffer.tobytes() == buffer_of(case, values, 0)


def test_more_bytes_than_32_bits_count() -> None:
    """Offsets are 64-bit: a map of 2^35 elements on memory that is hardly touched."""
    layout = sd.Layout((1, 0), [(8, 128), (4, 1)])
    shape = sd.Shape("u8", (2**18, 2**17), layout)
    index = (2**18 - 1, 2**17 - 5)
    spec = oracle.Spec(shape.dimensions, (1, 0), ((8, 128), (4, 1)))
    assert shape.offset_of(index) == oracle.offset_of(spec, index)
    assert shape.byte_size == math.prod(shape.dimensions)
    assert shape.index_at(shape.offset_of(index)) == index
