"""The oracle itself, against addresses and sizes that others worked out."""

from __future__ import annotations

import pytest

from tests import oracle
from tests.cases import TILED_EXAMPLES, TPU_LAYOUT_SIZES, Case
from tests.oracle import COMBINE, Spec

SMALL = Spec((3, 5), (1, 0), ((2, 2),), 32)


@pytest.mark.parametrize("example", TILED_EXAMPLES, ids=[f"{k}-{e['shape']}" for k, e in enumerate(TILED_EXAMPLES)])
def test_worked_examples(example: dict) -> None:
    spec = Case.parse(example["shape"]).spec
    assert oracle.expand(spec)[0] == example["expanded_physical_shape"]
    assert oracle.elements_by_formula(spec) == example["num_elements_allocated"]
    assert oracle.bytes_by_formula(spec) == example["bytes"]
    if "element" in example:
        assert oracle.offset_of(spec, tuple(example["element"])) == example["linear_index"]
    if "full_map" in example:
        assert oracle.offsets(spec) == {tuple(index): offset for index, offset in example["full_map"]}


@pytest.mark.parametrize(
    ("text", "index", "offset"),
    [
        ("f32[8,4]{1,0:T(2,2)}", (3, 1), 11),
        ("bf16[2048]{0:T(1024)(128)(2,1)}", (128,), 1),
        ("bf16[2048]{0:T(1024)(128)(2,1)}", (1,), 2),
        ("bf16[2,8,128]{2,1,0:T(8,128)(2,1)}", (0, 2, 0), 256),
        ("f32[8]{0:T(2,2)}", (5,), 9),
        ("f32[3]{0:T(8,128)}", (2,), 2),
        ("f32[8,8]{1,0:T(2,4)(2,1,1,1)}", (6, 5), 51),
    ],
)
def test_addresses_of_xlas_own_unit_tests(text: str, index: tuple[int, ...], offset: int) -> None:
    assert oracle.offset_of(Case.parse(text).spec, index) == offset


def test_sizes_the_tpu_compiler_gives() -> None:
    wrong = [
        (text, size, got)
        for text, size in TPU_LAYOUT_SIZES.items()
        if (got := oracle.bytes_allocated(Case.parse(text).spec)) != size
    ]
    assert not wrong
    assert len(TPU_LAYOUT_SIZES) == 996


@pytest.mark.parametrize(
    ("text", "by_formula", "allocated"),
    [
        ("bf16[24,256]{1,0:T(8,128)(2,1,1,1)}", 16384, 12288),
        ("bf16[8,256]{1,0:T(8,128)(2,1,1,1)}", 8192, 4096),
        ("f32[8,128]{1,0:T(8,128)(3,1)}", 4608, 4096),
        ("bf16[3,5]{1,0:T(1,128)(2,1)}", 1536, 768),
        ("f32[10]{0:T(4)(3)}", 72, 48),
    ],
)
def test_uneven_second_tiles_reach_further_than_xla_allocates(text: str, by_formula: int, allocated: int) -> None:
    spec = Case.parse(text).spec
    assert (oracle.bytes_by_formula(spec), oracle.bytes_allocated(spec)) == (by_formula, allocated)
    assert len(oracle.slots(spec)) * spec.bits // 8 == by_formula


def test_legacy_padded_dimensions() -> None:
    assert oracle.offset_of(Spec((3, 5), (1, 0), padded_dimensions=(4, 8)), (2, 3)) == 19
    assert oracle.offset_of(Spec((3, 5), (0, 1), padded_dimensions=(4, 8)), (2, 3)) == 14
    assert oracle.bytes_allocated(Spec((10, 20), (1, 0), bits=32, padded_dimensions=(15, 21))) == 1260


def test_combined_dimensions_follow_their_product() -> None:
    spec = Spec((3, 2, 4), (2, 1, 0), ((COMBINE, 2, 3),))
    flat = Spec((6, 4), (1, 0), ((2, 3),))
    assert oracle.offsets(spec) == {(k // 2, k % 2, j): at for (k, j), at in oracle.offsets(flat).items()}


def test_slots_and_offsets_are_each_others_inverse() -> None:
    slots = oracle.slots(SMALL)
    assert len(slots) == 24
    assert {index: at for at, index in enumerate(slots) if index is not None} == oracle.offsets(SMALL)
    assert slots.count(None) == 24 - 15


@pytest.mark.parametrize(
    ("bits", "patterns", "expected"),
    [
        (4, [1, 2, 3, 4, 5], "214305"),
        (4, [0xF, 0x8, 7], "8f07"),
        (2, [1, 3, 2, 0, 1], "2d01"),
        (2, [0, 1, 2, 3, 3], "e403"),
        (1, [0, 1, 1, 0, 1, 1, 0, 0, 1], "3601"),
        (16, [0x1234, 1], "34120100"),
    ],
)
def test_bytes_that_real_buffers_showed(bits: int, patterns: list[int], expected: str) -> None:
    spec = Spec((len(patterns),), (0,), bits=bits)
    buffer = oracle.encode(spec, {(k,): p for k, p in enumerate(patterns)})
    assert buffer.hex() == expected
    assert list(oracle.decode(spec, buffer).values()) == patterns


def test_the_older_order_begins_in_the_high_bits() -> None:
    spec = Spec((3,), (0,), bits=4)
    buffer = oracle.encode(spec, {(0,): 1, (1,): 2, (2,): 3}, padding=0, high_first=True)
    assert buffer.hex() == "1230"
    assert oracle.decode(spec, buffer, high_first=True) == {(0,): 1, (1,): 2, (2,): 3}


def test_writing_changes_its_own_bits_only() -> None:
    for bits in (1, 2, 4, 8):
        for offset in range(16 // bits):
            buffer = bytearray(b"\xa5\x5a")
            before = int.from_bytes(buffer, "little")
            oracle.write_bits(buffer, offset, bits, 0)
            changed = before ^ int.from_bytes(buffer, "little")
            assert changed & ~((1 << bits) - 1 << offset * bits) == 0


def test_padding_fills_every_place_without_an_element() -> None:
    buffer = oracle.encode(SMALL, dict.fromkeys(oracle.indices(SMALL), 0), padding=0xABCD1234)
    places = [oracle.read_bits(buffer, at, 32) for at in range(24)]
    assert places.count(0xABCD1234) == 9
    assert places.count(0) == 15


def test_a_star_in_the_last_place_has_no_meaning() -> None:
    with pytest.raises(AssertionError, match="nothing to merge"):
        Spec((3, 5), (1, 0), ((2, COMBINE),))
