"""XLA's shape text: what is read, what is printed, what is refused and with which words."""

from __future__ import annotations

import copy
import itertools
import pickle
import random
import re
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.escape import in_columns
from strided.layout.parser import parse_prefix
from tests.cases import ARRAY_TYPES, SHAPE_TEXT_CASES, TPU_LAYOUT_SIZES
from tests.strategies import shape_texts

#: Texts that XLA's parser takes although they are malformed, and what it makes of them (a valid layout each time).
MISREAD = {
    "f32[3,5]{1,0:T(2,2}": "f32[3,5]{1,0:T(2,2)}",
    "f32[3,5]{1,0:T(2,2)(2,1}": "f32[3,5]{1,0:T(2,2)(2,1)}",
    "f32[3,5]{1,0:T(2,}": "f32[3,5]{1,0:T(2)}",
    "f32[3,5]{1,0:T(2*)}": "f32[3,5]{1,0:T(2)}",
    "f32[3,5]{1,0:T(**)}": "f32[3,5]{1,0:T(*)}",
    "f32[3,5]{1,0:E(4}": "f32[3,5]{1,0:E(4)}",
    "f32[3,5]{1,0:S}": "f32[3,5]{1,0}",
    "f32[3,5]{1,0:L}": "f32[3,5]{1,0}",
    "f32[3,5]{1,0:E}": "f32[3,5]{1,0}",
    "f32[3,5]{1,0:M}": "f32[3,5]{1,0}",
    "f32[3,5]{1,0:D}": "f32[3,5]{1,0}",
    "f32[3,5]{1,0:SC}": "f32[3,5]{1,0}",
    "f32[3,5]{1,0:#}": "f32[3,5]{1,0}",
    "f32[3,5]{1,0:*}": "f32[3,5]{1,0}",
    "f32[3,5]{1,0:#()}": "f32[3,5]{1,0}",
    "f32[3,5]{1,0:L(*)}": "f32[3,5]{1,0}",
    "f32[3]{0:S(100000)}": "f32[3]{0:S(-96)}",
    "f32[<=9223372036854775808]": "f32[?]{0}",
    "f32[3]{0:T(9223372036854775808,2)}": "f32[3]{0:T(*,2)}",
}

GOOD = [
    c for c in SHAPE_TEXT_CASES if c["accepted"] and c["valid_layout"] and not c["aborts"] and c["input"] not in MISREAD
]
BAD = [c["input"] for c in SHAPE_TEXT_CASES if not (c["accepted"] and c["valid_layout"]) or c["aborts"]]


def check_value(value: Any) -> None:
    """What was read is a value: it prints, compares, hashes, pickles, and its repr evaluates."""
    text = str(value)
    assert sd.parse(text) == value
    assert str(sd.parse(text)) == text
    assert hash(sd.parse(text)) == hash(value)
    for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert again == value
        assert type(again) is type(value)
        assert hash(again) == hash(value)
    if text.count("(") < 60:  # Python's own parser gives up on deeper nesting
        assert eval(repr(value), {**vars(sd)}) == value


# --- XLA's recorded verdicts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOOD, ids=[ascii(c["input"]) for c in GOOD])
def test_what_xla_reads_is_read_and_printed_as_xla_prints_it(case: dict[str, Any]) -> None:
    value = sd.parse(case["input"])
    assert str(value) == case["canonical"]
    assert sd.parse(case["input"], strict=True) == value
    check_value(value)


@pytest.mark.parametrize("text", BAD, ids=ascii)
@pytest.mark.parametrize("strict", [False, True], ids=["as XLA", "strict"])
@pytest.mark.filterwarnings("ignore::strided.NotationWarning")  # a mistake before the refusal may be told too
def test_what_xla_refuses_or_finds_invalid_is_refused(text: str, strict: bool) -> None:
    with pytest.raises(sd.NotationError, match=r"\S") as error:
        sd.parse(text, strict=strict)
    check_error(error.value, text)


@pytest.mark.parametrize("text", MISREAD, ids=ascii)
def test_what_xla_reads_by_mistake_is_read_with_a_warning(text: str) -> None:
    with pytest.warns(sd.NotationWarning, match=r"\S") as caught:
        value = sd.parse(text)
    assert str(value) == MISREAD[text]
    assert len(caught) == 1
    shown = str(caught[0].message).splitlines()
    assert text in shown[-2]
    assert shown[-1].strip() == "^"
    with pytest.raises(sd.NotationError, match=r"\S") as error:
        sd.parse(text, strict=True)
    check_error(error.value, text)


def test_a_mistake_is_told_every_time_it_is_read() -> None:
    text = "f32[3,5]{1,0:T(2,2}"
    for _ in range(3):
        with pytest.warns(sd.NotationWarning, match="read as XLA reads it"):
            sd.parse(text)
        with pytest.raises(sd.NotationError, match="expected"):
            sd.parse(text, strict=True)


@pytest.mark.parametrize(("space", "held"), [(128, -128), (200, -56), (255, -1), (256, 0), (-129, 127), (-200, 56)])
def test_a_memory_space_that_xla_cannot_hold_is_told_with_what_becomes_of_it(space: int, held: int) -> None:
    text = f"f32[3]{{0:S({space})}}"
    with pytest.warns(sd.NotationWarning, match=rf"S\({space}\) wraps around to S\({held}\); read as XLA reads it"):
        value = sd.parse_shape(text)
    assert value.layout.memory_space == held
    check_value(value)
    with pytest.raises(sd.NotationError, match="wraps around"):
        sd.parse(text, strict=True)


def test_every_recorded_case_is_judged() -> None:
    recorded = {c["input"]: c["canonical"] for c in SHAPE_TEXT_CASES}
    assert len(SHAPE_TEXT_CASES) == len(recorded) == 333
    assert len(GOOD) + len(BAD) + len(MISREAD.keys() & recorded.keys()) == 333
    for text in MISREAD.keys() & recorded.keys():
        assert MISREAD[text] == recorded[text]


def test_layouts_of_the_tpu_compiler_print_as_they_came() -> None:
    assert [text for text in TPU_LAYOUT_SIZES if str(sd.parse(text)) != text] == []


# --- reading --------------------------------------------------------------------------------------------------------


@given(shape_texts())
def test_canonical_text_comes_back(text: str) -> None:
    value = sd.parse(text)
    assert str(value) == text
    check_value(value)


TOKEN = re.compile(r"<=|-?\d+|\w+|/\*.*?\*/|\S")
BETWEEN = [
    "",
    "",
    "",
    " ",
    "\t",
    "\n",
    "\r\n",
    "  ",
    "/* c */",
    "/**/",
    "// to the end\n",
    "/* two\nlines */",
    " /*a*/ // b\n ",
]


@given(shape_texts(), st.randoms(use_true_random=False))
def test_white_space_and_comments_may_stand_between_tokens(text: str, rng: random.Random) -> None:
    tokens = TOKEN.findall(text)
    spaced = "".join(rng.choice(BETWEEN) + token for token in tokens) + rng.choice(BETWEEN)
    assert sd.parse(spaced) == sd.parse(text)


def test_a_carriage_return_ends_a_comment() -> None:
    assert str(sd.parse("f32[2//3\r]")) == "f32[2]{0}"


def test_numbers_are_decimal() -> None:
    assert str(sd.parse("f32[007,-0]{01,00:T(08,0128)}")) == "f32[7,0]{1,0:T(8,128)}"
    for wrong in ("0x3", "1e3", "3.0", "+3", "1_0", "3l", "\u0663", "\u00b2", "\uff13"):
        with pytest.raises(sd.NotationError, match=r"\S"):
            sd.parse(f"f32[{wrong}]")


@pytest.mark.parametrize("name", ARRAY_TYPES)
def test_every_element_type_is_read(name: str) -> None:
    assert sd.parse(f"{name}[2,3]").element_type == name
    for wrong in (name.upper(), name + "x", name + "_", "x" + name):
        with pytest.raises(sd.NotationError, match=r"\S"):
            sd.parse(f"{wrong}[2,3]")


def test_attributes_of_a_layout() -> None:
    layout = sd.parse("s4[64,128]{0,1:T(8,128)(8,1)L(1024)E(4)S(5)SC(0:16,32)(1:8)M(64)}").layout
    assert layout.minor_to_major == (0, 1)
    assert tuple(tuple(tile) for tile in layout.tiles) == ((8, 128), (8, 1))
    assert layout.tail_padding_alignment_in_elements == 1024
    assert layout.element_size_in_bits == 4
    assert layout.memory_space == 5
    assert layout.dynamic_shape_metadata_prefix_bytes == 64
    assert len(layout.split_configs) == 2


ATTRIBUTES = ["T(2,2)", "L(8)", "E(4)", "S(1)", "SC(0:2)", "M(8)"]


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(ATTRIBUTES, 2)))
def test_attributes_come_in_xlas_order(first: str, second: str) -> None:
    text = f"s4[3,5]{{1,0:{first}{second}}}"
    if ATTRIBUTES.index(first) < ATTRIBUTES.index(second):
        assert str(sd.parse(text)) == text
    else:
        with pytest.raises(sd.NotationError, match=r"\S"):
            sd.parse(text)


@pytest.mark.parametrize("attribute", ATTRIBUTES)
def test_an_attribute_comes_once(attribute: str) -> None:
    with pytest.raises(sd.NotationError, match=r"\S"):
        sd.parse(f"s4[3,5]{{1,0:{attribute}{attribute}}}")


def test_sparse_level_types_are_read_and_not_kept() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sd.NotationWarning)
        assert str(sd.parse("f32[3,5]{1,0:D(D,D)T(2,2)}")) == "f32[3,5]{1,0:T(2,2)}"


@pytest.mark.parametrize(
    "text",
    [
        "f32[3,5]{1,1}",
        "f32[3,5]{2,0}",
        "f32[3,5]{-1,0}",
        "f32[3,5]{1,0:L(0)}",
        "f32[3,5]{1,0:L(-1)}",
        "f32[3,5]{1,0:T(0,2)}",
        "f32[3,5]{1,0:T(-1,2)}",
        "f32[3,5]{1,0:T()}",
        "f32[3,5]{1,0:E(-1)}",
        "f32[3,5]{1,0:SC(2:1)}",
        "f32[3,5]{1,0:SC(0:1)(0:2)}",
        "f32[3,5]{1,0:SC(0:3)}",
        "f32[3,5]{1,0:SC(0:0)}",
        "f32[3,5]{1,0:SC(1:2,2)}",
        "f32[3,5]{1,0:SC(1:3,2)}",
        "f32[4294967296,4294967296]",
        "f32[2305843009213693952]",
        "c128[576460752303423488]",
    ],
)
def test_xlas_rules_for_a_valid_layout(text: str) -> None:
    for whole in (text, f"({text})", f"b({text})"):
        with pytest.raises(sd.NotationError, match=r"\S"):
            sd.parse(whole)


@pytest.mark.parametrize(
    "text",
    [
        "f32[2305843009213693951]{0}",
        "s8[9223372036854775807]{0}",
        "c128[576460752303423487]{0}",
        "f32[4611686018427387904,0]{1,0}",
        "f32[3]{0:T(9223372036854775807)}",
        "f32[3]{0:L(9223372036854775807)}",
        "f32[3,5]{1,0:S(-128)}",
        "f32[3,5]{1,0:S(127)}",
        "f32[3,5]{1,0:E(3)}",
        "f32[3,5]{1,0:T(3,128)(5,7,11)}",
        "f32[<=0]{0}",
        "f32[?,<=3,4]{0,2,1}",
    ],
)
def test_the_largest_and_the_strangest_that_are_valid(text: str) -> None:
    assert str(sd.parse(text)) == text
    check_value(sd.parse(text))


def test_tuples() -> None:
    value = sd.parse("((f32[1],f32[1],f32[1],f32[1],f32[1],s4[2]{0:E(4)}),s32[],())")
    assert isinstance(value, sd.TupleShape)
    assert len(value.elements) == 3
    assert isinstance(value.elements[2], sd.TupleShape)
    assert value.elements[2].elements == ()
    leaves = dict(value.leaves())
    assert set(leaves) == {(0, k) for k in range(6)} | {(1,)}
    assert str(leaves[0, 5]) == "s4[2]{0:E(4)}"


def test_long_tuples_count_their_elements() -> None:
    value = sd.parse("(" + ",".join(["f32[]"] * 23) + ")")
    assert re.findall(r"/\*index=(\d+)\*/", str(value)) == ["5", "10", "15", "20"]


def test_buffers() -> None:
    value = sd.parse("b(f32[3,5]{0,1:T(2,2)})")
    assert isinstance(value, sd.BufferShape)
    assert value.shape == sd.parse("f32[3,5]{0,1:T(2,2)}")
    assert value != value.shape


def test_dynamic_dimensions() -> None:
    shape = sd.parse("f32[<=10,?,3]{2,1,0}")
    assert shape.dynamic == (True, True, False)
    assert shape.dimensions[0] == 10
    assert shape.dimensions[2] == 3
    assert sd.parse("f32[<=10]") != sd.parse("f32[10]")


@pytest.mark.parametrize(
    "text", ["{1,0:T(8,128)(2,1)}", "{0,1}", "{}", "{:T(128)}", "{2,0,1:T(*,4)L(64)E(4)S(1)M(3)}", "{0:SC(0:2)}"]
)
def test_a_layout_alone(text: str) -> None:
    layout = sd.parse(text)
    assert str(layout) == text
    assert sd.parse(str(layout)) == layout
    assert eval(repr(layout), {**vars(sd)}) == layout
    assert pickle.loads(pickle.dumps(layout)) == layout
    assert hash(sd.parse(text)) == hash(layout)


@pytest.mark.parametrize(
    "text", ["", "1,0", "{1,0", "{1,0}x", "{a}", "f32[3]{0", "{0,0}", "{1}", "{1,0:T}}", "{1,0:Q(3)}"]
)
def test_what_is_no_layout(text: str) -> None:
    with pytest.raises(sd.NotationError, match=r"\S") as error:
        sd.parse(text)
    check_error(error.value, text)


@pytest.mark.parametrize("text", ["{1,1}", "{1,0:T(0,2)}", "{1,0:L(0)}", "{1,0:T(2,2)E(-1)}"])
def test_errors_in_a_layout_alone_point_where_those_in_a_shape_do(text: str) -> None:
    found = []
    for before in ("", "f32[3,5]"):
        with pytest.raises(sd.NotationError, match=r"\S") as error:
            sd.parse(before + text)
        position = error.value.position
        assert position is not None
        found.append((error.value.message, position - len(before)))
    assert found[0] == found[1]
    assert found[0][1] > 0


# --- a shape inside a longer text -----------------------------------------------------------------------------------


@given(shape_texts(), st.sampled_from(["", " ", ", ", " fusion(%a)", ")", " = x", "\n"]))
def test_a_prefix_ends_behind_the_shape(text: str, tail: str) -> None:
    head = "%add.1 = "
    shape, end = parse_prefix(head + text + tail, len(head))
    assert shape == sd.parse(text)
    assert (head + text + tail)[:end].rstrip() == (head + text).rstrip()


def test_a_prefix_leaves_a_body_alone() -> None:
    text = "(p: f32[2]) -> f32[2] {\n  ROOT %p = f32[2]{0} parameter(0)\n}"
    shape, end = parse_prefix(text, text.index("->") + 2)
    assert shape == sd.parse("f32[2]")
    assert text[end:].lstrip().startswith("{\n")


# --- errors ---------------------------------------------------------------------------------------------------------


def check_error(error: sd.NotationError, text: str) -> None:
    """The first line says what is wrong; a caret stands under the place."""
    assert len(str(error)) < 2000
    message, *picture = str(error).split("\n")
    assert message.strip()
    assert error.message == message
    assert isinstance(error, ValueError)
    assert error.position is not None
    assert error.text == text
    assert 0 <= error.position <= len(text)
    shown, caret = picture
    assert caret.strip() == "^"
    if error.position < len(text):
        there = text[error.position]
        assert there == "\n" or shown[caret.index("^") :].startswith(in_columns(there))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("bf16[64,256]{1,0:T(8,,128)}", 21),
        ("f32[3,]", 6),
        ("f32[3,5]{1,0:T(2,x)}", 17),
        ("i32[2]", 0),
        ("(f32[2];s32[])", 7),
        ("f32[3]]", 6),
        ("f32[3,5]{1,0:Z(1)}", 13),
        ("f32[3,5]{1,0", 12),
        ("f32[3,5]{1,0:E(4)L(4)}", 17),
        ("", 0),
        ("f32[3] trailing", 7),
        ("f32[3,5]{1,0:T[2,2]}", 14),
    ],
)
def test_the_caret_stands_under_the_mistake(text: str, position: int) -> None:
    with pytest.raises(sd.NotationError, match=r"\S") as error:
        sd.parse(text)
    assert error.value.position == position
    assert error.value.text == text
    check_error(error.value, text)


def test_the_message_says_what_was_expected_and_what_was_found() -> None:
    with pytest.raises(sd.NotationError, match=r"expected .*found ','"):
        sd.parse("bf16[64,256]{1,0:T(8,,128)}")


@pytest.mark.parametrize("thing", [None, 3, 3.5, [], object(), sd])
def test_what_is_no_text_is_refused(thing: Any) -> None:
    with pytest.raises((TypeError, sd.NotationError), match=r"\S"):
        sd.parse(thing)


@pytest.mark.parametrize("text", ["(f32[2])", "b(f32[2])", "{0}"])
def test_parse_shape_takes_one_array(text: str) -> None:
    assert sd.parse_shape("f32[2]") == sd.parse("f32[2]")
    with pytest.raises(sd.NotationError, match="expected the shape of one array"):
        sd.parse_shape(text)


def test_parse_layout_takes_a_layout() -> None:
    assert sd.parse_layout("{0:T(8)}") == sd.parse("{0:T(8)}")
    with pytest.raises(sd.NotationError, match="expected a layout alone"):
        sd.parse_layout("f32[2]{0}")


def test_strictness_holds_for_one_kind_too() -> None:
    with pytest.warns(sd.NotationWarning, match="after a tile size"):
        sd.parse_layout("{0:T(2}")
    with pytest.raises(sd.NotationError, match="after a tile size"):
        sd.parse_layout("{0:T(2}", strict=True)
