"""Shapes and layouts in protobuf form, judged by what XLA writes and by what it refuses."""

from __future__ import annotations

import json
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strided as sd
from strided.dumps.protobuf import wire
from strided.dumps.protobuf.shapes import (
    ProgramShape,
    read_layout,
    read_program_shape,
    read_shape,
    write_layout,
    write_shape,
)
from strided.errors import DumpError
from tests import paths
from tests.steps import check_linear
from tests.strategies import damaged

CASES = json.loads((paths.DATA / "snapshots/shape_protos.json").read_text(encoding="utf-8"))
VALID = [case for case in CASES if case["valid"]]
INVALID = [case for case in CASES if not case["valid"]]


def shape_of(data: bytes | str):
    return read_shape(memoryview(bytes.fromhex(data) if isinstance(data, str) else data))


def test_there_are_cases_of_both_kinds():
    assert len(VALID) > 140
    assert len(INVALID) > 15


@pytest.mark.parametrize("case", VALID, ids=lambda case: case["text"])
def test_what_xla_writes_is_read_and_written_alike(case):
    shape = shape_of(case["proto"])
    assert str(shape) == case["text"]
    assert shape == sd.parse(case["text"])
    assert write_shape(shape).hex() == case["proto"]


@pytest.mark.parametrize("case", INVALID, ids=lambda case: case["proto"])
def test_what_xla_refuses_is_refused(case):
    with pytest.raises(DumpError, match=r"^byte \d+: (Shape|Layout)Proto: "):
        shape_of(case["proto"])


@pytest.mark.parametrize(
    ("proto", "what"),
    [
        (wire.integers_field(9, [1]), "dimensions that are not dense"),
        (wire.bytes_field(10, b""), "a physical shape"),
        (wire.integer_field(11, 3), "an index or pointer type"),
    ],
)
def test_the_layout_of_a_sparse_array_is_named_as_such(proto, what):
    with pytest.raises(
        DumpError, match=f"LayoutProto: only sparse arrays have {what}, and XLA no longer has sparse arrays"
    ):
        read_layout(memoryview(proto))


def test_short_messages_are_read_once():
    data = write_shape(sd.parse("bf16[7,11]{0,1}"))
    assert shape_of(data) is shape_of(bytes(data))


# ---- older and newer writers ----


def test_padded_dimensions_of_the_first_releases():
    layout = sd.Layout((0, 1), padded_dimensions=(4, 8), padding_value=sd.PaddingValue.ZERO_PAD)
    assert read_layout(memoryview(write_layout(layout))) == layout
    with pytest.raises(DumpError, match="77 is not a valid PaddingValue"):
        read_layout(memoryview(wire.integer_field(3, 77)))


def test_the_format_field_of_2018():
    dense, sparse = (memoryview(wire.integer_field(4, n) + wire.integers_field(1, (0,))) for n in (1, 2))
    assert str(read_layout(dense)) == "{0}"
    with pytest.raises(DumpError, match="format 2: only dense"):
        read_layout(sparse)


def test_unknown_fields_are_skipped():
    data = wire.bytes_field(77, b"new") + write_shape(sd.parse("f32[2]{0}")) + wire.integer_field(1, 1)
    assert str(shape_of(data)) == "f32[2]{0}"


def test_unpacked_repeated_fields():
    order = wire.tag(1, 0) + b"\x00" + wire.tag(1, 0) + b"\x01"
    sizes = wire.integer_field(3, 3) + wire.integer_field(3, 5)
    assert str(shape_of(wire.integer_field(2, 11) + sizes + wire.bytes_field(5, order))) == "f32[3,5]{0,1}"


def test_a_layout_in_two_parts_is_merged():
    first, second = wire.integers_field(1, (0,)), wire.integers_field(1, (1,)) + wire.integer_field(8, 5)
    parts = wire.bytes_field(5, first) + wire.bytes_field(5, second)
    assert str(shape_of(wire.integer_field(2, 11) + wire.integers_field(3, (3, 5)) + parts)) == "f32[3,5]{0,1:S(5)}"


def test_a_missing_layout_is_row_major_and_missing_flags_are_static():
    assert str(shape_of(wire.integer_field(2, 11) + wire.integers_field(3, (3, 5)))) == "f32[3,5]{1,0}"


def test_xla_keeps_eight_bits_of_a_memory_space():
    assert read_layout(memoryview(wire.integer_field(8, 100000))).memory_space == -96


def test_combined_tiles_come_back():
    shape = sd.parse("f32[4,6]{1,0:T(*,4)}")
    assert shape_of(write_shape(shape)) == shape


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "PrimitiveType 0"),
        (wire.integer_field(2, 99), "PrimitiveType 99"),
        (wire.integer_field(2, 34), "a buffer holds one array, found 0 shapes"),
        (wire.integer_field(2, 34) + 2 * wire.bytes_field(4, write_shape(sd.parse("f32[]"))), "found 2 shapes"),
        (wire.integer_field(2, 34) + wire.bytes_field(4, wire.integer_field(2, 13)), "a buffer holds one array"),
        (wire.integer_field(2, 17) + wire.integers_field(3, (3,)), "neither dimensions nor a layout"),
        (wire.integer_field(2, 11) + wire.integers_field(3, (-3,)), "0 or more, not -3"),
        (wire.integer_field(2, 11) + wire.integers_field(6, (1,)), "1 flags is_dynamic_dimension for 0 dimensions"),
        (wire.bytes_field(2, b"F32"), r"element_type \(field 2\) should hold a varint"),
        (wire.integer_field(2, 11) + wire.bytes_field(5, wire.integers_field(9, (1,))), "sparse"),
        (wire.integer_field(2, 11) + wire.bytes_field(5, wire.integers_field(1, (0,))), "minor_to_major has 1"),
    ],
)
def test_messages_that_are_no_shapes_are_refused(data, words):
    with pytest.raises(DumpError, match=words):
        shape_of(data)


def test_errors_name_the_byte_of_the_file():
    data = wire.integer_field(2, 11) + wire.bytes_field(5, wire.integers_field(1, (3,)))
    with pytest.raises(DumpError, match="byte 1004") as caught:
        read_shape(memoryview(data), 1000)
    assert caught.value.position == 1004


def test_nesting_stops_at_a_hundred():
    shape = sd.parse("f32[]")
    data = write_shape(shape)
    for _ in range(100):
        shape = sd.TupleShape([shape])
        data = wire.integer_field(2, 13) + wire.bytes_field(4, data)
    assert shape_of(data) == shape
    assert write_shape(shape) == data
    with pytest.raises(DumpError, match="nested more than 100 deep"):
        shape_of(wire.integer_field(2, 13) + wire.bytes_field(4, data))
    with pytest.raises(DumpError, match="nested more than 100 deep"):
        write_shape(sd.TupleShape([shape]))


def test_a_message_of_very_many_dimensions_takes_bounded_time():
    def refuse(count):
        sizes = wire.integers_field(3, (2**62,) * count)
        with pytest.raises(DumpError, match="does not fit a 64-bit integer"):
            shape_of(wire.integer_field(2, 11) + sizes)

    refuse(20_000)
    check_linear(lambda count: partial(refuse, count), 100)


def test_program_shapes():
    two = sd.parse("f32[2]{0}"), sd.parse("(s32[], token[])")
    data = b"".join(
        [
            *(wire.bytes_field(1, write_shape(shape)) for shape in two),
            wire.bytes_field(2, write_shape(two[0])),
            wire.bytes_field(3, b"x"),
            wire.bytes_field(3, b"y"),
        ]
    )
    assert read_program_shape(memoryview(data)) == ProgramShape(two, two[0], ("x", "y"))


@settings(deadline=None)
@given(st.sampled_from(CASES).flatmap(lambda case: damaged(bytes.fromhex(case["proto"]))))
def test_damaged_messages_end_in_a_shape_or_an_error(raw):
    try:
        shape = shape_of(raw)
    except DumpError:
        return
    assert shape_of(write_shape(shape)) == shape


#: As jaxlib 0.12.0.1 writes them, and the order that is meant.
NO_ORDER = {
    "f32[3,5]{:S(2)}": ("1,0", b"\x10\x0b\x1a\x02\x03\x05*\x05@\x02\x80\x01\x012\x02\x00\x00"),
    "f32[3,5]{:T(8,128)S(2)}": (
        "1,0",
        b"\x10\x0b\x1a\x02\x03\x05*\x0c2\x05\n\x03\x08\x80\x01@\x02\x80\x01\x012\x02\x00\x00",
    ),
    "f32[3,5]{:E(4)S(2)}": ("1,0", b"\x10\x0b\x1a\x02\x03\x05*\x078\x04@\x02\x80\x01\x012\x02\x00\x00"),
    "f32[3,5]{:L(4)S(2)}": ("1,0", b"\x10\x0b\x1a\x02\x03\x05*\x05@\x02\x80\x01\x042\x02\x00\x00"),
    "u32[8]{:S(2)}": ("0", b"\x10\x08\x1a\x01\x08*\x05@\x02\x80\x01\x012\x01\x00"),
    "f32[]{:S(2)}": ("", b"\x10\x0b*\x05@\x02\x80\x01\x01"),
}


@pytest.mark.parametrize("text", NO_ORDER)
def test_a_memory_space_without_an_order_is_row_major(text: str) -> None:
    order, proto = NO_ORDER[text]
    shape = sd.parse(text)
    assert str(shape) == text.replace("{:", f"{{{order}:")
    assert read_shape(memoryview(proto)) == shape


@pytest.mark.parametrize("text", ["f32[3,5]{:S(0)}", "f32[3,5]{:T(8,128)}", "f32[3,5]{:M(4)}", "f32[3,5]{:}"])
def test_an_order_is_needed_without_a_memory_space(text: str) -> None:
    message = "the array has 2 dimensions, but minor_to_major has 0"
    with pytest.raises(sd.NotationError, match=message):
        sd.parse(text)
    with pytest.raises(DumpError, match=message):
        read_shape(memoryview(b"\x10\x0b\x1a\x02\x03\x05*\x03\x80\x01\x012\x02\x00\x00"))
