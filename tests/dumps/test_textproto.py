"""Protobuf's text form, turned into the wire form."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st

import strided as sd
from strided.dumps.literals.literal import Literal
from strided.dumps.protobuf import schema, wire
from strided.dumps.protobuf.shapes import read_shape, write_shape
from strided.dumps.protobuf.textproto import encode
from strided.errors import DumpError
from tests import protos
from tests.steps import check_linear
from tests.thinned import thinned


def literal(text: str):
    data = encode(text, "LiteralProto")
    wanted = text_format.Parse(text, protos.message_class("LiteralProto")())
    assert protos.parsed("LiteralProto", data).SerializeToString() == wanted.SerializeToString()
    return np.asarray(Literal.of_proto(data).value)


def test_a_shape():
    text = """
    element_type: BF16
    dimensions: 3  dimensions: 0x5 # five
    layout < minor_to_major: [0, 1]; tiles { dimensions: 2 dimensions: 010 } tail_padding_alignment_in_elements: 1 >,
    is_dynamic_dimension: false is_dynamic_dimension: true
    """
    assert str(read_shape(memoryview(encode(text, "ShapeProto")))) == "bf16[3,<=5]{0,1:T(2,8)}"


def test_the_wire_form_is_the_one_that_xla_writes():
    text = (
        "element_type: F32 dimensions: 2 dimensions: 3 layout { minor_to_major: 1 minor_to_major: 0 "
        "tail_padding_alignment_in_elements: 1 } is_dynamic_dimension: false is_dynamic_dimension: false"
    )
    assert encode(text, "ShapeProto") == write_shape(sd.parse("f32[2,3]"))


@pytest.mark.parametrize(
    ("type_name", "field", "text", "values"),
    [
        ("F32", "f32s", ["1.5", "-inf", "nan", "1e-3f", "2F", "3"], [1.5, -np.inf, np.nan, 1e-3, 2, 3]),
        ("F64", "f64s", ["1.7976931348623157e+308", "infinity", "-0.0"], [np.finfo(np.float64).max, np.inf, -0.0]),
        ("S32", "s32s", ["-2147483648", "2147483647", "-0x1F", "017"], [-(2**31), 2**31 - 1, -31, 15]),
        ("U64", "u64s", ["18446744073709551615", "0"], [2**64 - 1, 0]),
        ("PRED", "preds", ["true", "false", "1", "0", "t"], [True, False, True, False, True]),
    ],
)
def test_numbers(type_name, field, text, values):
    shape = f"shape {{ element_type: {type_name} dimensions: {len(text)} }}"
    one_by_one = shape + "".join(f"\n  {field}: {number}" for number in text)
    listed = f"{shape} {field}: [{', '.join(text)}]"
    with_comments = shape + "".join(f"\n  {field}: {number} # {field}: 77\n" for number in text)
    for form in (one_by_one, listed, with_comments):
        np.testing.assert_array_equal(literal(form), np.array(values, literal(form).dtype))


def test_more_than_the_largest_float_is_infinity():
    assert literal("shape { element_type: F32 } f32s: 1e300") == np.inf


def test_complex_numbers():
    found = literal("shape { element_type: C64 dimensions: 2 } c64s: 1 c64s: 2 c64s: 3 c64s: -4")
    assert found.tolist() == [1 + 2j, 3 - 4j]


def test_bytes_with_escapes():
    text = r"""shape { element_type: U8 dimensions: 11 } u8s: "\000\377\n\"" 'it\'s' "\x41" "\\7" """
    assert literal(text).tobytes() == b"\x00\xff\n\"it's\x41\\7"


def test_text_that_is_not_ascii_and_bytes_that_are_no_text():
    data = encode('name: "größe"', "HloModuleProto")
    assert data == wire.bytes_field(1, "größe".encode())
    assert encode(b'name: "\xff"'.decode("utf-8", "surrogateescape"), "HloModuleProto") == wire.bytes_field(1, b"\xff")


def test_what_the_schema_does_not_know_is_skipped():
    text = 'new: 3 element_type: F32 newer { shape { a: "}" b: [1, 2] } c: <d: X> } dimensions: 2 newest: "x" "y"'
    assert encode(text, "ShapeProto") == encode("element_type: F32 dimensions: 2", "ShapeProto")


def test_the_last_of_a_singular_field_counts():
    assert str(read_shape(memoryview(encode("element_type: F32 element_type: S8", "ShapeProto")))) == "s8[]"


@pytest.mark.parametrize(
    ("text", "words", "line", "column"),
    [
        ("element_type F32", "expected ':' after 'element_type'", 1, 13),
        ("element_type:", "expected a value for 'element_type'", 1, 14),
        ("\n element_type: F99", "ShapeProto.element_type: expected PrimitiveType, found F99", 2, 2),
        ("dimensions: 1 dimensions: 1.5", "dimensions: expected int64, found 1", 1, 1),
        ("dimensions: 99999999999999999999", "expected int64", 1, 1),
        ("dimensions: 1_0", "expected int64", 1, 1),
        ("dimensions: { }", "ShapeProto.dimensions is of type int64, no message", 1, 1),
        ("layout: 3", "ShapeProto.layout is a message, expected '{'", 1, 7),
        ("layout {", "expected '}' at the end of LayoutProto, found the end", 1, 9),
        ("layout { >", "expected a field of LayoutProto, found '>'", 1, 10),
        ("}", "expected a field of ShapeProto, found '}'", 1, 1),
        ("dimensions: 1\n\n  ?", "expected a field of ShapeProto", 3, 3),
        ("dimensions: [1, 2", "expected a value for 'dimensions'", 1, 18),
        ("layout { x { " + "x { " * 200, "nested more than 100 deep", 1, 406),
    ],
)
def test_errors_name_line_and_column(text, words, line, column):
    with pytest.raises(DumpError, match=words.replace("?", r"\?").replace("{", r"\{")) as caught:
        encode(text, "ShapeProto")
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize("body", [r"\q", r"\777", r"\x1", r"\u0041", r"\8"])
def test_unknown_escapes_are_refused(body):
    with pytest.raises(DumpError, match=r"HloModuleProto\.name: expected string"):
        encode(f'name: "{body}"', "HloModuleProto")


def test_a_long_run_of_numbers_is_read_at_once():
    count = 100_000
    text = f"shape {{ element_type: S32 dimensions: {count} }}" + "".join(f"\n  s32s: {i}" for i in range(count))
    data = encode(text, "LiteralProto")
    assert Literal.of_proto(data).value[-1] == count - 1
    assert len(list(wire.fields(memoryview(data), "LiteralProto"))) <= 3


BOMBS = {
    "comment": lambda n: "#" * n,
    "space": lambda n: " " * n,
    "name": lambda n: "x" * n,
    "colons": lambda n: "a:" * n,
    "quotes": lambda n: '"' * n,
    "backslashes": lambda n: "\\" * n,
    "run": lambda n: "s32s:1 " * n + "?",
    "runs": lambda n: "s32s:1 f32s:1 " * n,
    "braces": lambda n: "{" * n,
    "nesting": lambda n: "a { " * n,
    "open string": lambda n: 'u8s: "' + "\\" * n,
    "strings": lambda n: "u8s: " + '"a" ' * n,
    "escapes": lambda n: 'u8s: "' + "\\1" * n + '\\q"',
    "digits": lambda n: "f32s: " + "9" * n,
    "long integer": lambda n: "s64s: " + "9" * n,
    "brackets": lambda n: "s32s: " + "[" * n,
    "list": lambda n: "s32s: [" + "1, " * n,
}


@pytest.mark.parametrize("kind", thinned(BOMBS, 3))
@pytest.mark.slow
def test_bombs_take_linear_work(kind):
    def read(text):
        try:
            encode(text, "LiteralProto")
        except DumpError:
            pass

    read(BOMBS[kind](20_000))
    check_linear(lambda size: partial(read, BOMBS[kind](size)), 50)


@settings(deadline=None)
@given(
    st.text(alphabet="ab:{}<>[]\"'\\#;,. \n0129-+xXef_", max_size=60), st.sampled_from(["", "dimensions: 3 layout { "])
)
def test_any_text_ends_in_a_message_or_an_error(text, before):
    try:
        data = encode(before + text, "ShapeProto")
    except DumpError:
        return
    assert sum(field.at >= 0 for field in wire.fields(memoryview(data), "ShapeProto")) <= len(before + text)


def test_the_schema_agrees_with_the_readers():
    literal_fields = schema.messages()["LiteralProto"]
    for element in sd.layout.element_types.ELEMENT_TYPES.values():
        if element.is_array:
            assert f"{element.name}s" in literal_fields
        number = schema.enums()["PrimitiveType"][element.name.upper() if element.name != "opaque" else "OPAQUE_TYPE"]
        assert number == element.number


#: The words of the types, by their number in a descriptor.
SCALARS = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
}


#: Fields that XLA declares no more.
OLDER = {"iota_replica_group_list"}


@pytest.mark.parametrize("name", schema.messages())
def test_the_schema_is_what_xla_declares(name):
    declared = protos.message_class(name).DESCRIPTOR.fields
    known = {key: field for key, field in schema.messages()[name].items() if key not in OLDER}
    assert {key: field.number for key, field in known.items()} == {field.name: field.number for field in declared}
    for field in declared:
        inner = field.message_type or field.enum_type
        assert known[field.name].type == (inner.full_name.removeprefix("xla.") if inner else SCALARS[field.type])
