"""Layouts and shapes as values: what they accept, what they say, sizes and addresses."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import strided as sd
from strided import inspect
from tests import oracle
from tests.cases import CORPUS, TILED_EXAMPLES, TPU_LAYOUT_SIZES, Case, worlds
from tests.checks import check_addresses, outcome, shape_of
from tests.oracle import Spec
from tests.steps import steps
from tests.strategies import cases

# --- values ---------------------------------------------------------------------------------------------------------

VALUES = [
    sd.Layout(()),
    sd.Layout((1, 0)),
    sd.Layout((0, 1), [(8, 128), (2, 1)], memory_space=1, element_size_in_bits=16),
    sd.Layout(
        (2, 0, 1), [(sd.COMBINE, 2)], tail_padding_alignment_in_elements=8, dynamic_shape_metadata_prefix_bytes=4
    ),
    sd.Layout((1, 0), split_configs=[(0, (1, 2)), (1, (3,))]),
    sd.Layout((0, 1), padded_dimensions=(4, 8), padding_value=sd.PaddingValue.LOWEST_PAD),
    sd.Shape("f32", (3, 5)),
    sd.Shape("s4", (7,), sd.Layout((0,), element_size_in_bits=4)),
    sd.Shape("bf16", (3, sd.UNBOUNDED), dynamic=(True, True)),
    sd.Shape("f32", (3, 5), sd.Layout((0, 1), padded_dimensions=(4, 8))),
    sd.Shape("token", ()),
    sd.BufferShape(sd.Shape("f32", (3,))),
    sd.TupleShape([]),
    sd.TupleShape([sd.Shape("f32", ()), sd.TupleShape([sd.Shape("opaque", ())]), sd.BufferShape(sd.Shape("u8", (2,)))]),
    sd.Tile((8, 128)),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_compare_hash_copy_pickle_and_evaluate(value: Any) -> None:
    for again in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert again == value
        assert hash(again) == hash(value)
        assert type(again) is type(value)
        assert repr(again) == repr(value)
    assert eval(repr(value), {**vars(sd)}) == value
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(value, protocol)) == value
    assert [other for other in VALUES if other == value] == [value]
    assert value != "f32[3,5]"


@pytest.mark.parametrize("value", [v for v in VALUES if not isinstance(v, sd.Tile)], ids=repr)
def test_values_do_not_change(value: Any) -> None:
    for name in ("minor_to_major", "tiles", "dimensions", "element_type", "layout", "elements", "shape", "new"):
        with pytest.raises(AttributeError, match=f"{name}|a TupleShape is immutable"):
            setattr(value, name, ())
    with pytest.raises(AttributeError, match=r"layout|a TupleShape is immutable"):
        del value.layout


def test_a_value_can_be_a_key() -> None:
    table = {sd.parse("f32[3,5]{1,0:T(2,2)}"): 1}
    assert table[sd.Shape("f32", (3, 5), sd.Layout((1, 0), [(2, 2)]))] == 1


def test_sequences_of_any_kind_make_tuples() -> None:
    layout = sd.Layout(np.array([1, 0]), [[np.int64(8), 128]], split_configs=[[0, [1]]])
    assert layout == sd.Layout((1, 0), ((8, 128),), split_configs=((0, (1,)),))
    assert all(type(n) is int for n in (*layout.minor_to_major, *layout.tiles[0]))
    shape = sd.Shape("f32", np.array([3, 5]), layout)
    assert type(shape.dimensions) is tuple
    assert all(type(n) is int for n in shape.dimensions)
    assert hash(shape) == hash(sd.Shape("f32", (3, 5), layout))


@given(cases())
def test_shapes_built_from_numbers_are_those_read_from_text(case: Case) -> None:
    tiles = [[sd.COMBINE if t == oracle.COMBINE else t for t in tile] for tile in case.tiles]
    layout = sd.Layout(
        case.minor_to_major,
        tiles,
        tail_padding_alignment_in_elements=case.tail_alignment,
        element_size_in_bits=case.element_bits,
        padded_dimensions=case.padded_dimensions,
    )
    shape = sd.Shape(case.element_type, case.dimensions, layout)
    assert eval(repr(shape), {**vars(sd)}) == shape
    if not case.padded_dimensions:
        assert str(layout) == case.layout_text
        assert str(shape) == case.text
        assert sd.parse(case.text) == shape


def test_row_major_is_the_default() -> None:
    assert sd.Shape("f32", (2, 3, 4)).layout == sd.Layout((2, 1, 0))
    assert sd.Shape("f32", ()).layout == sd.Layout(())
    assert sd.Shape("token", ()).layout is None


# --- what makes no layout and no shape ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("order", "options", "words"),
    [
        ((0, 0), {}, "permutation"),
        ((1,), {}, "permutation"),
        ((-1, 0), {}, "permutation"),
        ((0, 2), {}, "permutation"),
        ((1, 0), {"tiles": [()]}, "tile"),
        ((1, 0), {"tiles": [(0, 2)]}, "tile"),
        ((1, 0), {"tiles": [(-1, 2)]}, "tile"),
        (
            (1, 0),
            {"tiles": [(2**63, 2)]},
            r"sizes of 1 or more \(or '\*'\) that fit 64 bits, not \(9223372036854775808,2\)",
        ),
        ((1, 0), {"tiles": (8, 128)}, r"tiles are sequences of sizes, as in \[\(8, 128\), \(2, 1\)\]"),
        ((1, 0), {"tiles": [(8.0, 128)]}, "tiles"),
        ((1, 0), {"tiles": ["ab"]}, "tiles"),
        ((1.0, 0), {}, "minor_to_major"),
        (3, {}, "minor_to_major"),
        ((0,), {"tail_padding_alignment_in_elements": 0}, "alignment"),
        (
            (0,),
            {"tail_padding_alignment_in_elements": 2**63},
            "alignment must be at most 2\\^63 - 1, not 9223372036854775808",
        ),
        ((0,), {"element_size_in_bits": -1}, "element size in bits must be 0 or more, not -1"),
        ((0,), {"element_size_in_bits": "4"}, "element_size_in_bits must be an integer, not '4'"),
        ((0,), {"memory_space": 128}, "memory space"),
        ((0,), {"memory_space": -129}, "memory space"),
        ((0,), {"dynamic_shape_metadata_prefix_bytes": -1}, "metadata"),
        ((0,), {"dynamic_shape_metadata_prefix_bytes": 2**63}, "metadata prefix must be at most 2\\^63 - 1, not"),
        ((0,), {"split_configs": [3]}, "split_configs are pairs"),
        ((0,), {"split_configs": [(0, 3)]}, "split_configs are pairs"),
        ((0,), {"split_configs": [("0", (3,))]}, "split_configs must be an integer, not '0'"),
        ((0, 1), {"padded_dimensions": (3,)}, "padded"),
        ((0, 1), {"padded_dimensions": (3, 4), "tiles": [(2, 2)]}, "padded"),
    ],
)
def test_what_makes_no_layout(order: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(sd.LayoutError, match=words):
        sd.Layout(order, **options)


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (("f33", (3,)), {}, "no element type"),
        (("f32", (-1,)), {}, "size of a dimension"),
        (("f32", (sd.UNBOUNDED,)), {}, "size of a dimension"),
        (("f32", (2**63,)), {}, "size of a dimension is at most 2\\^63 - 1, not 9223372036854775808"),
        (("f32", (3.5,)), {}, "dimensions"),
        (("f32", 3), {}, "dimensions"),
        (("f32", (3, 5), sd.Layout((0,))), {}, "minor_to_major"),
        (("f32", (2**31, 2**31)), {}, "64-bit"),
        (("token", (3,)), {}, "token"),
        (("token", (), sd.Layout(())), {}, "token"),
        (("f32", (3, 5)), {"dynamic": (True,)}, "dynamic"),
        (("f32", (3, 5), sd.Layout((1, 0), padded_dimensions=(3, 4))), {}, "padded"),
        (("f32", (3, 5), sd.Layout((1, 0), split_configs=[(2, (1,))])), {}, "split"),
        (("f32", (3, 5), sd.Layout((1, 0), split_configs=[(0, (3,))])), {}, "split"),
        (("f32", (3, 5), sd.Layout((1, 0), split_configs=[(0, (0,))])), {}, "split"),
        (("f32", (3, 5), sd.Layout((1, 0), split_configs=[(1, (2, 2))])), {}, "split"),
        (("f32", (3, 5), sd.Layout((1, 0), split_configs=[(0, (1,)), (0, (2,))])), {}, "split"),
    ],
)
def test_what_makes_no_shape(arguments: tuple[Any, ...], options: dict[str, Any], words: str) -> None:
    with pytest.raises(sd.LayoutError, match=words):
        sd.Shape(*arguments, **options)


def test_what_a_tuple_and_a_buffer_hold() -> None:
    with pytest.raises(TypeError, match="holds shapes"):
        sd.TupleShape(["f32[3]"])
    with pytest.raises(TypeError, match="expected a sequence of them, not 3"):
        sd.TupleShape(3)
    for wrong in (sd.TupleShape([]), sd.Shape("token", ()), sd.BufferShape(sd.Shape("f32", ()))):
        with pytest.raises(sd.LayoutError, match="one array"):
            sd.BufferShape(wrong)


# --- words ----------------------------------------------------------------------------------------------------------


def test_ranks() -> None:
    shape = sd.Shape("f32", (1, 3, 1, 5))
    assert (shape.rank, shape.true_rank) == (4, 2)
    assert (sd.Shape("f32", ()).rank, sd.Shape("f32", ()).true_rank) == (0, 0)
    assert sd.Shape("f32", (0, 1)).true_rank == 1


def test_negative_dimension_numbers_count_from_the_end() -> None:
    shape = sd.Shape("f32", (2, 3, 4))
    assert [shape.dimension_number(d) for d in (-3, -1, 0, 2)] == [0, 2, 0, 2]
    for wrong in (-4, 3):
        with pytest.raises(IndexError, match="out of bounds"):
            shape.dimension_number(wrong)


def test_letters_of_dimensions() -> None:
    letters = [[sd.Shape("f32", (2,) * r).dimension_letter(d) for d in range(r)] for r in (2, 3, 4)]
    assert letters == [["y", "x"], ["z", "y", "x"], ["p", "z", "y", "x"]]


def test_memory_spaces_show_their_number() -> None:
    for number, name in ((0, "HBM"), (1, "VMEM"), (5, "host"), (3, ""), (-1, "")):
        words = sd.Layout((0,), memory_space=number).memory_space_name
        assert name in words
        assert f"S({number})" in words


def test_text_without_layouts() -> None:
    text = "(f32[3,<=5]{0,1:T(2,2)}, b(s4[7]{0:E(4)}), (token[], u8[]{:T(128)}))"
    assert sd.parse(text).text(layout=False) == "(f32[3,<=5], b(s4[7]), (token[], u8[]))"
    assert sd.parse(text).text() == text


def test_with_layout_changes_the_layout_alone() -> None:
    shape = sd.parse("f32[3,<=5]{0,1:T(2,2)}")
    assert str(shape.with_layout(sd.Layout((1, 0)))) == "f32[3,<=5]{1,0}"
    assert str(shape.with_layout(None)) == "f32[3,<=5]{1,0}"


def test_leaves_and_their_indices() -> None:
    shape = sd.parse("(f32[1]{0}, ((), (s32[], u8[2]{0})), token[])")
    assert [(index, str(leaf)) for index, leaf in shape.leaves()] == [
        ((0,), "f32[1]{0}"),
        ((1, 1, 0), "s32[]"),
        ((1, 1, 1), "u8[2]{0}"),
        ((2,), "token[]"),
    ]
    assert len(shape) == 3
    assert [str(e) for e in shape] == [str(shape[k]) for k in range(3)]
    assert shape[-1] == sd.parse("token[]")


# --- sizes ----------------------------------------------------------------------------------------------------------


def test_byte_size_is_the_tpu_compilers() -> None:
    wrong = [(text, size) for text, size in TPU_LAYOUT_SIZES.items() if sd.parse(text).byte_size != size]
    assert not wrong


def test_byte_size_is_the_addresses_size_for_the_compilers_own_layouts() -> None:
    """None of the compiler's layouts has an uneven second tile."""
    assert [t for t in TPU_LAYOUT_SIZES if (s := sd.parse(t)).byte_size != s.address_byte_size] == []


@given(cases())
def test_sizes(case: Case) -> None:
    shape, spec = shape_of(case), case.spec
    assert shape.byte_size == oracle.bytes_allocated(spec)
    assert shape.address_byte_size == oracle.bytes_by_formula(spec)
    assert shape.unpadded_byte_size == oracle.to_bytes(math.prod(case.dimensions), case.bits)
    assert shape.size == math.prod(case.dimensions)
    assert shape.element_bits == case.bits
    assert shape.dtype == case.dtype


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("f32[1024,5]{1,0:SC(0:512)}", 512 * 5 * 4),
        ("f32[1024,5]{1,0:SC(0:256,512)}", 512 * 5 * 4),
        ("f32[1024,5]{1,0:SC(1:4)}", 1024 * 4 * 4),
        ("f32[1024,5]{0,1:SC(0:4)}", 1024 * 4 * 4),
        ("f32[100,5]{1,0:T(8,128)SC(0:30)}", 72 * 128 * 4),
    ],
)
def test_a_split_layout_is_as_large_as_its_largest_piece(text: str, size: int) -> None:
    assert sd.parse(text).byte_size == size


def test_the_legacy_example() -> None:
    shape = sd.Shape("f32", (10, 20), sd.Layout((1, 0), padded_dimensions=(15, 21)))
    assert shape.byte_size == 1260


def test_things_without_elements_have_no_size() -> None:
    assert sd.parse("token[]").byte_size == 0
    assert sd.parse("(f32[3], (s4[3]{0:E(4)}, token[]), b(u8[2]))").byte_size == 12 + 2 + 2
    with pytest.raises(sd.LayoutError, match="unknown size"):
        _ = sd.parse("f32[3,?]").byte_size
    with pytest.raises(sd.LayoutError, match="unknown size"):
        _ = sd.parse("f32[3,?]").size
    assert sd.parse("f32[<=3]").byte_size == 12


def test_a_star_with_nothing_to_combine_has_no_size() -> None:
    shape = sd.parse("f32[3,5]{1,0:T(2,*)}")
    for ask in (lambda: shape.byte_size, lambda: shape.offset_of((0, 0)), lambda: shape.index_at(0)):
        with pytest.raises(sd.LayoutError, match=r"\*"):
            ask()


# --- addresses ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [*range(4), pytest.param(4, marks=pytest.mark.slow)])
def test_addresses_of_every_order_under_every_stack_of_tiles(rank: int) -> None:
    for case in worlds():
        if len(case.dimensions) == rank:
            check_addresses(shape_of(case), case.spec)


@given(cases())
def test_addresses_of_any_layout(case: Case) -> None:
    check_addresses(shape_of(case), case.spec)


@pytest.mark.parametrize("label", CORPUS)
def test_addresses_of_the_corpus(label: str) -> None:
    case = Case.parse(CORPUS[label])
    check_addresses(shape_of(case), case.spec)


@pytest.mark.parametrize("example", TILED_EXAMPLES, ids=[f"{k}-{e['shape']}" for k, e in enumerate(TILED_EXAMPLES)])
def test_worked_examples(example: dict[str, Any]) -> None:
    shape = sd.parse(example["shape"])
    assert shape.address_byte_size == example["bytes"]
    for index, offset in [(example.get("element"), example.get("linear_index")), *example.get("full_map", [])]:
        if index is not None:
            assert shape.offset_of(index) == offset
            assert shape.index_at(offset) == tuple(index)


def test_bits_below_a_byte() -> None:
    shape = sd.parse("s4[3,5]{1,0:E(4)}")
    assert shape.bit_offset_of((1, 2)) == 4 * 7
    assert sd.parse("f32[3,5]{1,0}").bit_offset_of((1, 2)) == 32 * 7
    assert shape.bit_offset_of(([0, 1], [1, 2])).tolist() == [4, 28]
    large = sd.parse(f"u8[{2**62}]")
    assert large.bit_offset_of(([2**60 - 1],)).tolist() == [2**63 - 8]
    assert large.bit_offset_of((2**60,)) == 2**63
    with pytest.raises(sd.UnsupportedError, match="do not fit 64-bit integers"):
        large.bit_offset_of(([0, 2**60],))


def test_vectorised_calls_broadcast_and_take_every_integer_type() -> None:
    shape = sd.parse("f32[3,5]{1,0:T(2,2)}")
    table = np.array(list(oracle.offsets(Spec((3, 5), (1, 0), ((2, 2),))).values())).reshape(3, 5)
    rows, columns = np.arange(3)[:, None], np.arange(5)
    for dtype in (np.int8, np.uint8, np.int32, np.uint64, ">i4"):
        got = shape.offset_of((rows.astype(dtype), columns.astype(dtype)))
        assert got.dtype == np.int64
        assert np.array_equal(got, table)
    assert np.array_equal(shape.offset_of((2, columns)), table[2])
    assert np.array_equal(shape.offset_of([[0, 1], [4, 4]]), table[[0, 1], [4, 4]])
    assert shape.offset_of((np.int32(2), np.array(3))) == table[2, 3]
    assert shape.offset_of((np.zeros((0, 5), int), columns)).shape == (0, 5)
    assert sd.parse("f32[0]").offset_of((np.zeros((0, 3), int),)).shape == (0, 3)
    assert sd.parse("f32[5]").offset_of((columns,)) is not columns
    repeated = sd.parse("f32[1,5]").offset_of((np.zeros((3, 1), int), np.arange(5)))
    assert repeated.tolist() == [[0, 1, 2, 3, 4]] * 3
    assert repeated.flags.writeable
    assert sd.parse("f32[0,5]{1,0:T(2,2)}").offset_of((np.zeros((0, 1), int), columns)).shape == (0, 5)
    i, j = shape.index_at(table.astype(np.uint16))
    assert np.array_equal(np.broadcast_arrays(rows, columns)[0], i)
    assert np.array_equal(np.broadcast_arrays(rows, columns)[1], j)
    assert [n.shape for n in shape.index_at(np.zeros((0, 2), int))] == [(0, 2), (0, 2)]


@pytest.mark.parametrize("index", [(3, 0), (0, 5), (-1, 0), (0, -1), (2**70, 0), ([0, 3], 0), ([0, -1], [0, 0])])
def test_an_index_out_of_bounds(index: Any) -> None:
    with pytest.raises(IndexError, match="out of bounds"):
        sd.parse("f32[3,5]{1,0:T(2,2)}").offset_of(index)


@pytest.mark.parametrize("index", [(), (0,), (0, 0, 0)])
def test_an_index_of_another_length(index: Any) -> None:
    with pytest.raises(IndexError, match="2 numbers"):
        sd.parse("f32[3,5]").offset_of(index)


@pytest.mark.parametrize("index", [3, None, "ab", (0.0, 1), (0, "1"), ([0.5], 1), (None, 1)])
def test_what_is_no_index(index: Any) -> None:
    with pytest.raises((TypeError, IndexError), match=r"\w"):
        sd.parse("f32[3,5]").offset_of(index)


@pytest.mark.parametrize("offset", [-1, 24, 2**70, np.array([0, 24]), [-1]])
def test_an_offset_out_of_bounds(offset: Any) -> None:
    with pytest.raises(IndexError, match="out of bounds"):
        sd.parse("f32[3,5]{1,0:T(2,2)}").index_at(offset)


@pytest.mark.parametrize("offset", [None, 1.5, "1", [1.5]])
def test_what_is_no_offset(offset: Any) -> None:
    with pytest.raises(TypeError, match="integer"):
        sd.parse("f32[3,5]").index_at(offset)


def test_an_empty_array_has_no_offsets() -> None:
    shape = sd.parse("f32[0,5]{1,0:T(8,128)}")
    assert shape.byte_size == 0
    with pytest.raises(IndexError, match="out of bounds"):
        shape.offset_of((0, 0))
    with pytest.raises(IndexError, match="out of bounds"):
        shape.index_at(0)


def test_a_split_layout_has_no_addresses() -> None:
    shape = sd.parse("f32[1024,5]{1,0:SC(0:512)}")
    for ask in (lambda: shape.offset_of((0, 0)), lambda: shape.index_at(0)):
        with pytest.raises(sd.UnsupportedError, match="split"):
            ask()


# --- XLA's index utilities ------------------------------------------------------------------------------------------


@given(cases(max_rank=4))
def test_next_index_walks_through_the_array(case: Case) -> None:
    shape = shape_of(case)
    indices = list(oracle.indices(case.spec))
    for index, following in zip(indices, [*indices[1:], None], strict=False):
        assert shape.in_bounds(index)
        assert shape.next_index(index) == following
    assert not shape.in_bounds(case.dimensions) or not case.dimensions
    assert not shape.in_bounds((-1,) * shape.rank) or not case.dimensions
    assert not shape.in_bounds((0,) * (shape.rank + 1))


@given(cases(max_rank=4))
def test_a_stride_is_the_way_to_the_next_element_everywhere(case: Case) -> None:
    shape, places = shape_of(case), oracle.offsets(case.spec)
    for d, size in enumerate(case.dimensions):
        steps = {places[(*i[:d], i[d] + 1, *i[d + 1 :])] - at for i, at in places.items() if i[d] + 1 < size}
        if len(steps) > 1:
            with pytest.raises(sd.LayoutError, match="no stride"):
                shape.stride_of(d)
        elif len(steps) == 1 and shape.address_map.is_regular:
            stride, error = outcome(partial(shape.stride_of, d))
            # Several tiles may cut a dimension without any index crossing a cut.
            assert stride in steps or (isinstance(error, sd.LayoutError) and (size == 2 or len(case.tiles) > 1))


def test_strides_of_plain_layouts() -> None:
    assert [sd.parse("f32[2,3,4]{0,2,1}").stride_of(d) for d in (0, 1, 2, -1)] == [1, 8, 2, 2]
    assert [sd.parse("f32[2,1,4]{0,2,1}").stride_of(d) for d in range(3)] == [1, 8, 2]
    padded = sd.Shape("f32", (3, 5), sd.Layout((1, 0), padded_dimensions=(4, 8)))
    assert [padded.stride_of(d) for d in range(2)] == [8, 1]
    with pytest.raises(IndexError, match="out of bounds"):
        sd.parse("f32[2]").stride_of(1)


def test_padding_and_its_dimension() -> None:
    shape = sd.parse("f32[3,5]{1,0:T(2,2)L(10)}")
    expected = {17: None, 20: None, 12: None, 14: 0, 19: 0, 23: 0, 9: 1, 11: 1, 21: 1, 24: 2, 29: 2}
    assert {k: shape.padding_dimension_at(k) for k in expected} == expected
    assert [shape.is_padding(k) for k in expected] == [d is not None for d in expected.values()]
    assert shape.is_padding(np.array(list(expected))).tolist() == [d is not None for d in expected.values()]


@pytest.mark.parametrize("tiles", ["(8,128)" * 800, "(1)" * 65, "(7)(5)" * 600, "(" + "*," * 64 + "2)"])
@pytest.mark.parametrize("sizes", ["300,300", "0,7"])
def test_layouts_of_very_many_tiles_have_text_and_no_addresses(tiles: str, sizes: str) -> None:
    """Their addresses would nest as deep; a limit refuses them before Python's stack does."""
    shape = sd.parse(f"f32[{sizes}]{{1,0:T(8,128){tiles}}}")
    assert sd.parse(str(shape)) == shape
    questions = (
        lambda: shape.byte_size,
        lambda: shape.address_map,
        lambda: shape.index_at(0),
        lambda: shape.expansion,
        lambda: inspect.picture(shape) or shape.expansion,
        lambda: inspect.sizes(shape),
        lambda: inspect.explain_byte(shape, 0),
        lambda: sd.LayoutArray(bytes(4), shape),
    )
    for question in questions:
        with pytest.raises(sd.LayoutError, match=r"tiles and '\*'; at most 64 are supported"):
            question()
    assert "at most 64" in inspect.describe(shape)


def test_layouts_of_many_tiles_have_addresses() -> None:
    shape = sd.parse("f32[300,300]{1,0:T(8,128)" + "(8,128)" * 63 + "}")
    plain = sd.parse("f32[300,300]{1,0:T(8,128)}")
    assert shape.byte_size == plain.byte_size
    for index in ((0, 0), (17, 200), (299, 299)):
        assert shape.offset_of(index) == plain.offset_of(index)
        assert shape.index_at(shape.offset_of(index)) == index


def test_uneven_tiles_of_very_many_dimensions_have_no_addresses() -> None:
    rank = 5000
    ones, order = ",1" * (rank - 1), ",".join(map(str, reversed(range(rank))))
    shape = sd.parse(f"f32[300{ones}]{{{order}:T(7{ones})(5{ones})}}")
    with pytest.raises(sd.LayoutError, match="addresses of more than 64 are not computed"):
        _ = shape.address_map


def test_one_dimension_is_singular() -> None:
    for make in (lambda: sd.parse("f32[2]{1,0}"), lambda: sd.Shape("f32", (2,), sd.Layout((1, 0)))):
        with pytest.raises(sd.StridedError, match="the array has 1 dimension, but minor_to_major has 2"):
            make()


def test_one_number_is_no_index() -> None:
    shape = sd.Shape("f32", (5,))
    for ask in (shape.in_bounds, shape.next_index, shape.offset_of):
        with pytest.raises(TypeError, match="an index is a sequence of 1 integers or arrays, not 2"):
            ask(2)  # type: ignore[arg-type]
    assert shape.in_bounds(iter([4]))  # type: ignore[arg-type]


def test_a_stride_takes_work_that_does_not_grow_with_the_rank() -> None:
    """So that all strides of a hostile text of a thousand dimensions take work in proportion to it."""

    def ask(rank: int) -> Callable[[], object]:
        shape = sd.parse_shape(f"f32[{','.join(['2', *['1'] * rank])}]")
        _ = shape.address_map
        return partial(shape.stride_of, 0)

    few, many = steps(ask(50)), steps(ask(400))
    assert many < few + 100
