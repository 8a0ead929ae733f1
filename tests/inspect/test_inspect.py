"""Explanations, sizes and pictures, put to the slow oracle and to the compiler's own figures."""

from __future__ import annotations

import math
import re
import sys
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.arrays.blocks import boxes, common_block, even_cuts, run_block
from strided.inspect import (
    captioned_picture,
    describe,
    explain,
    explain_byte,
    facts,
    largest,
    parse_index,
    picture,
    plan_between,
    sizes,
    statistics,
    svg,
)
from tests.cases import TILED_EXAMPLES, TPU_LAYOUT_SIZES
from tests.thinned import thinned

ARRAYS = [
    "f32[3,5]{1,0:T(2,2)}",
    "bf16[17,300]{1,0:T(8,128)(2,1)}",
    "s8[1000]{0:T(1024)(128)(4,1)}",
    "s4[17,129]{1,0:T(8,128)(8,1)E(4)}",
    "f32[2,7,3,11,10]{4,3,2,1,0:T(*,*,2,*,3)}",
    "f32[16,30]{1,0:T(1024)}",
    "f32[5]{0:T(8,128)}",
    "f32[]{:T(128)}",
    "f32[3,5]{0,1:T(1)L(128)}",
    "bf16[24,25]{1,0:T(8,8)(2,1,1,1)}",
    "bf16[2,3,17,30]{3,0,2,1:T(2,128)(2,1)}",
    "f32[4,6,5]{0,2,1}",
]


# Explanations.


def test_worked_examples() -> None:
    checked = [example for example in TILED_EXAMPLES if "linear_index" in example]
    assert len(checked) > 20
    for example in checked:
        found = explain(example["shape"], example["element"])
        assert found.offset == example["linear_index"]
        assert found.index == tuple(example["element"])
        assert sum(p.value * p.stride for p in found.parts) == found.offset
        assert all(0 <= p.value < p.size for p in found.parts)


@pytest.mark.parametrize("text", thinned(ARRAYS, 3))
def test_every_slot_is_explained(text: str) -> None:
    shape = sd.parse(text)
    bits = shape.element_bits
    slots = min(shape.byte_size, shape.address_byte_size) * 8 // bits
    seen = 0
    for offset in range(0, slots, max(1, slots // 500)):
        found = explain_byte(text, offset * bits // 8, offset * bits % 8)
        assert (found.offset, found.index) == (offset, shape.index_at(offset))
        assert (found.index is None) == (found.padding_of is not None)
        assert sum(p.value * p.stride for p in found.parts) == offset
        if found.index is not None:
            seen += 1
            assert explain(text, found.index) == found
            # The expressions are Python: each gives the part's value at the index.
            names = {f"d{k}": i for k, i in enumerate(found.index)}
            assert [eval(p.expression, names) for p in found.parts] == [p.value for p in found.parts]
        assert str(found).startswith(f"{shape}\n  {found.subject}")
    assert seen


def test_places_in_words() -> None:
    assert explain("s8[3]", [2]).place == "byte 2"
    assert explain("f64[3]", [2]).place == "bytes 16 to 23"
    assert explain("s4[3]{0:E(4)}", [1]).place == "byte 0, bits 4 to 7"
    assert explain("u1[9]{0:E(1)}", [8]).place == "byte 1, bit 0"


def test_reprs_say_where_an_element_lies() -> None:
    assert repr(explain("f32[3,5]{1,0:T(2,2)}", (2, 3))) == (
        "<Explanation: f32[3,5]{1,0:T(2,2)}, element [2, 3]: offset 17, bytes 68 to 71>"
    )


def test_padding_in_words() -> None:
    assert explain_byte("f32[3,5]{1,0:T(2,2)}", 14 * 4).subject == "padding of dimension 0, which ends at 3"
    assert explain_byte("f32[5]{0:T(8,128)}", 200 * 4).subject == "padding, beyond every dimension"
    assert explain_byte("f32[3]{0:L(128)}", 4 * 4).subject == "padding, beyond every dimension"
    # Parts that are no dimension's have no expression: one of no dimension is 0.
    assert [part.expression for part in explain_byte("s32[]{:T(128)}", 4).parts] == ["-"]
    assert [part.expression for part in explain_byte("f32[5]{0:T(2,4)}", 20).parts] == ["d0 // 4", "-", "d0 % 4"]
    assert [part.expression for part in explain("s32[]{:T(128)}", ()).parts] == ["0 % 128"]


def test_the_index_into_one_dimension_may_be_a_number() -> None:
    assert explain("f32[3]", 2) == explain("f32[3]", [2])
    with pytest.raises(IndexError, match=r"one integer for each dimension, not 1\.5"):
        explain("f32[3]", 1.5)  # type: ignore[arg-type]


def test_outside() -> None:
    with pytest.raises(IndexError, match="out of bounds"):
        explain("f32[3]", [3])
    for bit in (-1, 8):
        with pytest.raises(IndexError, match=f"byte 0, bit {bit} is outside a buffer of 12 bytes"):
            explain_byte("f32[3]", 0, bit)
    with pytest.raises(IndexError, match="byte 12 is outside a buffer of 12 bytes"):
        explain_byte("f32[3]", 12)
    with pytest.raises(sd.UnsupportedError, match="tuple"):
        explain("(f32[3])", [0])
    with pytest.raises(sd.UnsupportedError, match="split"):
        explain_byte("f32[64,5]{1,0:SC(0:16)}", 400)
    with pytest.raises(IndexError, match="byte 3 is in the prefix of 16 bytes"):
        explain_byte("f32[3,5]{1,0:M(16)}", 3)


def test_bytes_are_those_of_the_whole_buffer() -> None:
    text, index = "f32[3,5]{1,0:M(16)}", (1, 2)
    [[start, stop]] = sd.inspect.byte_ranges(text, index).tolist()
    assert explain(text, index).place == f"bytes {start} to {stop - 1}"
    assert explain_byte(text, start).index == index
    uneven = sd.parse_shape("bf16[24,256]{1,0:T(8,128)(2,1,1,1)}")  # a later tile pads again
    assert explain_byte(uneven, 13000).index == uneven.index_at(6500)


# Sizes and words.


def test_sizes_of_compiled_arguments() -> None:
    for text, size in TPU_LAYOUT_SIZES.items():
        found = sizes(text)
        shape = sd.parse(text)
        assert found.total_bytes == size
        assert found.value_bytes + found.padding_bytes == size
        # Where no tile combines dimensions or has more of them than the array, padded dimensions give the size.
        layout = shape.layout
        if layout.tiles and all(t > 0 for t in layout.tiles[0]) and len(layout.tiles[0]) <= shape.rank:
            slots = math.prod(found.padded_dimensions)
            alignment = layout.tail_padding_alignment_in_elements
            assert -(-slots // alignment) * alignment == found.slots


@pytest.mark.parametrize(
    "text",
    [
        *(*ARRAYS, "f32[?,<=3]", "f32[0,3]", "token[]", "b(f32[3])", "(f32[3],(),(s4[2],token[]))"),
        *("f32[3,5]{1,0:T(2,*)}", "f32[8,5]{1,0:SC(0:4)}", "pred[3,5]{1,0:E(1)}", "s4[0,5]{1,0:E(4)}"),
    ],
)
@pytest.mark.parametrize("width", [30, 80])
def test_everything_has_words(text: str, width: int) -> None:
    shape = sd.parse(text)
    words = describe(shape, width=width)
    assert words
    assert facts(shape)["shape"] == str(shape)
    drawn = captioned_picture(shape, width=width)
    assert not drawn or max(map(len, drawn.splitlines())) <= max(width, 30)


@pytest.mark.parametrize(
    ("text", "is_drawn"),
    [
        ("f32[100,100]", False),
        ("f32[2,3]{1,0:L(8)}", False),
        ("f32[3,5]{1,0:T(2,2)}", True),
        ("s4[3]{0:T(4)E(4)}", True),
    ],
)
def test_a_caption_explains_the_mark_of_padding_where_it_is_drawn(text: str, is_drawn: bool) -> None:
    caption, *rows = captioned_picture(text).splitlines()
    assert ("· is padding" in caption) == ("·" in "".join(rows)) == is_drawn


def test_sizes_that_are_not_known_have_a_reason() -> None:
    assert "dynamic" not in sd.inspect.describe("f32[?,3]")
    assert "dimensions 1: laid out in full" in sd.inspect.describe("f32[?,<=3]")
    many = "f32[" + "1," * 64 + "5]"
    assert " ".join(sd.inspect.describe(many).split()).count("an array of 65 dimensions") == 1


def test_sizes_need_no_array_of_numpy() -> None:
    many = "f32[" + "1," * 64 + "5]"
    assert sd.inspect.facts(many)["byte_size"] == 20
    assert "20 bytes, no padding" in sd.inspect.describe(many)
    assert sd.inspect.captioned_picture(many) == ""
    with pytest.raises(sd.UnsupportedError, match="NumPy allows 64 at most"):
        sd.inspect.explain_byte(many, 4)
    with pytest.raises(sd.UnsupportedError, match="NumPy allows 64 at most"):
        sd.inspect.identify(bytes(20), many)


@pytest.mark.parametrize("sizes", [f"0,{2**61}", f"{2**63 - 1},0", f"0,{2**32},{2**32}"])
def test_empty_arrays_that_numpy_cannot_have(sizes: str) -> None:
    text = f"f32[{sizes}]"
    assert sd.inspect.facts(text)["byte_size"] == 0
    assert "NumPy has no array of such sizes" in " ".join(sd.inspect.describe(text).split())
    for ask in (partial(sd.LayoutArray, b""), sd.inspect.byte_ranges, partial(sd.inspect.identify, bytes(4))):
        with pytest.raises(sd.UnsupportedError, match="NumPy has no array of such sizes"):
            ask(text)
    assert sd.LayoutArray(b"", f"f32[0,{2**61 - 1}]").to_numpy().shape == (0, 2**61 - 1)


def test_legacy_padding() -> None:
    # What `*` merges is padded together, so no dimension is by itself.
    for text, padded in {
        "f32[5,300]{1,0:T(*,128)}": (5, 300),
        "f32[3,5,300]{2,1,0:T(*,8,128)}": (3, 5, 384),
        "f32[3,5,300]{2,1,0:T(8,*,128)}": (3, 5, 300),
    }.items():
        assert sizes(text).padded_dimensions == padded
    layout = sd.Layout((1, 0), padded_dimensions=(4, 8), padding_value=1)
    assert sizes(sd.Shape("f32", (3, 5), layout)).padded_dimensions == (4, 8)
    assert "stored    as 4 x 8" in describe(sd.Shape("f32", (3, 5), layout))


def test_particulars_in_words() -> None:
    words = describe(sd.parse("f32[64,5]{1,0:T(8,128)L(2048)S(5)SC(0:16)M(8)}"), width=200)
    for expected in ("multiple of 2,048 elements", "cut at 16", "8 bytes of dynamic sizes", "in host memory (S(5))"):
        assert expected in words


@pytest.mark.parametrize("text", ["f32[3,5]{1,0:SC(0:1)}", "f32[100,5]{1,0:T(8,128)SC(0:30)(1:4)}"])
def test_a_split_buffer_holds_its_largest_piece(text: str) -> None:
    shape = sd.parse(text)
    known = sizes(shape)
    assert known.value_bytes == {(3, 5): 2 * 5 * 4, (100, 5): 70 * 4 * 4}[shape.dimensions]
    assert known.padding_bytes == shape.byte_size - known.value_bytes >= 0
    assert "the memory is that of the largest piece" in describe(shape, width=200)


# Pictures.


@pytest.mark.parametrize("text", ["u8[2305843009213693951]", "f32[1000,1000]", "f32[1000,1000]{0,1:T(8,128)}"])
def test_a_narrow_picture_does_not_end_before_the_last_column(text: str) -> None:
    last = str(sd.parse(text).dimensions[-1] - 1)
    assert picture(text, width=15).split("\n")[0].replace("|", " ").split() == ["0", "…", last]


def test_a_low_picture_does_not_end_before_the_last_row() -> None:
    assert [line.split()[0] for line in picture("f32[1000,2]", max_rows=3).split("\n")[1:]] == ["0", "…", "999"]


@pytest.mark.parametrize("text", ARRAYS)
@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_pictures_show_true_offsets(text: str, width: int) -> None:
    shape = sd.parse(text)
    if not shape.rank:
        return
    lines = [line for line in picture(text, width=width).splitlines() if "-+-" not in line and "--" not in line]
    columns = lines[0].replace("|", " ").split()
    rows_have_names = shape.rank > 1
    shown = sorted(shape.layout.minor_to_major[:2])
    checked = 0
    for line in lines[1:]:
        cells = line.replace("|", " ").split()
        row = cells.pop(0) if rows_have_names else "0"
        for column, cell in zip(columns, cells, strict=True):
            if "…" in (row, column, cell):
                continue
            if "·" in (row, column):
                assert cell == "·"
                continue
            index = [0] * shape.rank
            index[shown[-1]] = int(column)
            if rows_have_names:
                index[shown[0]] = int(row)
            assert int(cell) == shape.offset_of(index)
            checked += 1
    assert checked >= 3


def test_svg_has_colours_of_its_own_only_as_a_file() -> None:
    """A rule of style in a picture holds for the whole page that the picture stands in."""
    styles = ET.fromstring(svg("f32[3]")).iter("{http://www.w3.org/2000/svg}style")
    rules = re.findall(r"([^{}]+)\{", "".join(style.text or "" for style in styles))
    assert rules == ["svg:root"]


@pytest.mark.parametrize("text", [*ARRAYS, "f32[]", "f32[2,2]", "f32[0,5]", "pred[3,5]{1,0:E(1)}"])
def test_svg_is_well_formed(text: str) -> None:
    root = ET.fromstring(svg(text))
    assert root.tag.endswith("svg")
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for words in root.iter("{http://www.w3.org/2000/svg}text"):
        if words.get("text-anchor") == "start":  # seven pixels a character, and less
            assert float(words.get("x", "nan")) + 7 * len(words.text or "") <= width
    for box in root.iter("{http://www.w3.org/2000/svg}rect"):
        x, y, w, h = (float(box.get(name, "nan")) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + w <= width
        assert 0 <= y <= y + h <= height


# Values.


@pytest.mark.parametrize(
    "dtype", [np.float32, np.int64, np.bool_, np.complex64, ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.float8_e5m2]
)
def test_statistics(dtype: type) -> None:
    values = np.arange(-7, 8).reshape(3, 5).astype(dtype)
    found = statistics(sd.LayoutArray.from_numpy(values, "{0,1:T(2,2)}"))
    wide = values.astype(np.complex128 if np.dtype(dtype).kind == "c" else np.float64)
    assert found.size == 15
    assert found.mean == pytest.approx(wide.mean())
    if wide.dtype.kind != "c":
        assert (found.minimum, found.maximum) == (wide.min(), wide.max())
    assert (found.nan, found.inf) == (0, 0)


def test_any_byte_but_0_is_true() -> None:
    found = statistics(np.array([0, 1, 2, 255, 128, 0], np.uint8).view(np.bool_))
    assert (found.minimum, found.maximum, found.mean) == (0, 1, pytest.approx(2 / 3))


def test_statistics_of_nothing() -> None:
    assert str(statistics(np.zeros((0, 3)))) == "NaN 0  Inf 0"
    assert str(statistics(np.full(3, np.nan))) == "NaN 3  Inf 0"
    assert statistics(np.float32(3)).mean == 3  # a scalar is an array, too


@pytest.mark.skipif(np.finfo(np.longdouble).maxexp <= 1024, reason="long double is no wider than double here")
def test_a_mean_of_numbers_whose_sum_overflows() -> None:
    assert statistics(np.array([1e308, 1e308, 1.5e308])).mean == pytest.approx(1.1666666666666667e308)
    assert statistics(np.array([1e308, 1e308j])).mean == pytest.approx(5e307 + 5e307j)
    assert statistics(np.array([5e-324] * 3)).mean == 5e-324


def test_statistics_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["strided.inspect.statistics"], "_BLOCK_ELEMENTS", 7)
    values = np.random.default_rng(1).standard_normal((5, 3, 11)).astype(np.float32)
    values[1, 2, 3], values[4, 0, 0] = np.nan, -np.inf
    array, opened, seen = sd.LayoutArray.from_numpy(values, "{0,2,1:T(2,4)}"), [], []

    def source() -> sd.LayoutArray:
        opened.append(1)
        return array

    found = statistics(source, progress=seen.append)
    finite = values[np.isfinite(values)].astype(np.float64)
    assert (found.minimum, found.maximum, found.nan, found.inf) == (finite.min(), finite.max(), 1, 1)
    assert found.mean == pytest.approx(finite.mean(), rel=1e-12)
    assert (sum(seen), len(opened)) == (values.size, len(seen) + 1)


@given(st.lists(st.integers(0, 9), max_size=4), st.integers(1, 60), st.randoms(use_true_random=False))
def test_blocks_cover_everything_once(shape: list[int], limit: int, random: object) -> None:
    order = list(range(len(shape)))
    random.shuffle(order)  # type: ignore[attr-defined]
    other = sd.Shape("u8", tuple(shape), sd.Layout(tuple(order), [(2, 2)] if len(shape) > 1 else []))
    both = common_block(other.with_layout(None), other, limit)
    for block in (run_block(shape, limit, order), run_block(shape, limit), both):
        seen = np.zeros(shape, int)
        for box in boxes(even_cuts(shape, block), order):
            assert math.prod(s.stop - s.start for s in box) <= max(1, limit)
            seen[box] += 1
        assert (seen == 1).all()


def test_blocks_are_in_the_order_of_elements() -> None:
    table = np.arange(5 * 7 * 3).reshape(5, 7, 3)
    cuts = even_cuts(table.shape, run_block(table.shape, 10))
    assert np.concatenate([table[box].ravel() for box in boxes(cuts)]).tolist() == list(range(105))


# The rest.


def test_plans() -> None:
    plan = plan_between("f32[512,512]{1,0:T(8,128)}", "f32[512,512]{1,0}")
    assert plan.elements == 512 * 512
    with pytest.raises(sd.LayoutError, match="not the same array"):
        plan_between("f32[3]", "s32[3]")


def test_largest_values_of_a_module() -> None:
    module = sd.read_hlo(
        "HloModule m\n\nENTRY e {\n"
        "  p = bf16[8,100]{1,0:T(8,128)(2,1)} parameter(0)\n"
        '  f = (f32[1,5]{1,0:T(8,128)}, u32[], token[]) custom-call(p), custom_call_target="x"\n'
        "  ROOT t = (bf16[8,100]{1,0:T(8,128)(2,1)}) tuple(p)\n}\n"
    )
    found = largest(module.instructions)
    assert [(v.name, v.byte_size, v.unpadded_byte_size) for v in found] == [
        ("f{0}", 4096, 20), ("p", 2048, 1600), ("f{1}", 4, 4),
    ]  # fmt: skip
    assert [v.name for v in largest(module.instructions, by_padding=True)] == ["f{0}", "p", "f{1}"]
    assert found[0].growth == 204.8


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", ()), ("[]", []), ("3", 3), ("-1", -1), ("3,", (3,)), ("[3, 4]", [3, 4]), ("[[3, 4]]", [[3, 4]]),
        ("[0,1], [2,3]", ([0, 1], [2, 3])), ("::-2, ...", (slice(None, None, -2), ...)),
        ("None, 1:", (None, slice(1, None))), ("np.newaxis", None), ("True", True),
    ],
)  # fmt: skip
def test_indices_from_text(text: str, key: object) -> None:
    assert parse_index(text) == key


@pytest.mark.parametrize(
    "text", ["x", "f()", "1 + 1", "'a'", "1.5", "]", "[", "1:2:3:4", "lambda: 0", "3][4", "[" * 10000, "9" * 5000, "\0"]
)
def test_what_is_no_index(text: str) -> None:
    with pytest.raises(sd.NotationError, match="expected integers, slices"):
        parse_index(text)


@pytest.mark.parametrize(
    ("text", "position"),
    [(str(2**63), 0), (str(-(2**63) - 1), 0), (f"0, [1, {10**30}]", 7), (f"..., {2**64}", 5), (f"0x1{'0' * 5000}", 0)],
)
def test_an_integer_that_numpy_cannot_take_is_no_index(text: str, position: int) -> None:
    with pytest.raises(sd.NotationError, match="does not fit a signed 64-bit integer") as refused:
        parse_index(text)
    assert refused.value.position == position
    assert parse_index(f"{-(2**63)}, {2**63 - 1}, {-(2**70)}:{2**70}:{2**70}")[:2] == (-(2**63), 2**63 - 1)


@pytest.mark.parametrize("text", ["1if 2else 3", "0x1for x in y", r"'\d'", "2and 1"])
def test_what_is_no_index_is_refused_without_a_warning_of_pythons(text: str) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(sd.NotationError, match="expected integers, slices"):
            parse_index(text)
    assert not told
    assert parse_index("0x10, 0b11, 1_0") == (16, 3, 10)


@pytest.mark.parametrize("text", ["[9, 200:204]", "[..., 0]", "[None, 3]", " [::2] "])
def test_outer_brackets_that_cannot_be_a_list_are_those_of_numpy(text: str) -> None:
    assert parse_index(text) == parse_index(text.strip()[1:-1])


@pytest.mark.parametrize(
    "text", ["", "[]", "[1]", "[1, 2]", "[[1, 2], [0, 0]]", "1, 2", "[1, 2],", "[2, 0], [1, 1]", "..., [1]"]
)
def test_the_text_of_an_index_selects_what_numpy_would(text: str) -> None:
    x = np.arange(12).reshape(3, 4)
    assert np.array_equal(x[parse_index(text)], eval(f"x[{text}]") if text else x)


@pytest.mark.parametrize("shape", ["f32[3]{0:E(4)}", "s4[3]{0:E(3)}", "s8[3]{0:E(4)}", "f32[3]{0:E(64)}"])
def test_a_shape_whose_values_cannot_be_read_is_described_with_a_caution(shape: str) -> None:
    with pytest.raises(sd.UnsupportedError, match=r"asks for .*-bit elements; .* is read in") as refused:
        sd.LayoutArray(bytes(512), shape)
    assert f"{refused.value}: values are not read" in describe(shape, width=200)


@pytest.mark.parametrize("shape", ["f32[3]", "s4[3]{0:E(4)}", "s4[3]{0:E(8)}", "pred[3]{0:E(1)}", "f32[?]", "token[]"])
def test_other_shapes_are_described_without_a_caution_about_values(shape: str) -> None:
    assert "not read" not in describe(shape, width=200)


@pytest.mark.parametrize(("last", "has_caution"), [("(2,2)", True), ("(2,3)", False)])
def test_addresses_beyond_what_xla_allocates_are_told_of(last: str, has_caution: bool) -> None:
    shape = sd.parse_shape(f"s32[9,10]{{1,0:T(2,3){last}}}")
    words = f"addresses reach {shape.address_byte_size:,} bytes, beyond what XLA allocates"
    assert (words in describe(shape, width=200)) is has_caution is (shape.address_byte_size > shape.byte_size)


@pytest.mark.parametrize("shape", ["s8[0]", "s8[0,3]", "s8[3,0]", "f32[0,5]{0,1:T(2,128)}", "f32[2,0,3]"])
def test_arrays_without_elements_have_empty_pictures(shape: str) -> None:
    assert picture(shape) == ""
    assert captioned_picture(sd.parse(shape)) == ""
    assert svg(shape).startswith("<svg")
    assert describe(sd.parse(shape)).startswith(shape)


@pytest.mark.parametrize("wrong", [None, 3, 2.5, True, b"f32[2]", [], {}, np.zeros(3), sd.LayoutArray(b"abc", "s8[3]")])
@pytest.mark.parametrize(
    "question", [describe, facts, sizes, picture, captioned_picture, svg, lambda shape: explain(shape, 0)]
)
def test_what_is_no_shape_is_refused(question: Callable[[Any], object], wrong: object) -> None:
    with pytest.raises(TypeError, match=f"shape must be text or a Shape, not {type(wrong).__name__}"):
        question(wrong)


@pytest.mark.parametrize("wrong", [None, 3, b"text", [3]])
def test_what_is_no_text_or_array_is_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"expected the text of an index, .* not {type(wrong).__name__}"):
        parse_index(wrong)
    with pytest.raises(TypeError, match=f"statistics takes a LayoutArray, .* not {type(wrong).__name__}"):
        statistics(wrong)


@pytest.mark.parametrize("wrong", [None, 3, object(), [3], np.ones(3)])
def test_what_is_no_instruction_is_refused(wrong: Any) -> None:
    given = wrong[0] if isinstance(wrong, (list, np.ndarray)) else wrong
    with pytest.raises(TypeError, match=f"largest takes instructions, .* not {type(given).__name__}"):
        sd.inspect.largest(wrong)


@pytest.mark.parametrize("wrong", [2.5, 2.0, None, "2", float("nan")])
def test_a_byte_and_a_bit_are_integers(wrong: Any) -> None:
    for place in ((wrong,), (0, wrong)):
        with pytest.raises(TypeError, match="byte and bit are integers, not "):
            explain_byte("f32[3]", *place)
    assert type(explain_byte("f32[3]", np.uint8(4)).offset) is int


def test_a_picture_has_no_fewer_than_no_slots() -> None:
    with pytest.raises(ValueError, match="memory is a number of slots from 0, not -1"):
        svg("f32[3,5]", memory=-1)


@pytest.mark.parametrize("shape", ["u8[]", "pred[1]", "s4[1]{0:E(4)}", "pred[8]{0:E(1)}", "u8[1]{0:T(1)}"])
def test_one_byte_and_one_bit_are_singular(shape: str) -> None:
    array = sd.LayoutArray(bytes(sd.parse_shape(shape).byte_size), shape)
    for text in (describe(shape), array._repr_html_(), str(sd.inspect.padding(array))):
        assert not re.search(r"\b1 (bytes|bits)\b", text)
