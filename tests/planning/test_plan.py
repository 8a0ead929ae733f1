"""Plans: which kernel runs, over what, and why. Results cannot show that."""

from __future__ import annotations

import itertools
import math
import pickle
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided import kernels
from strided.addressing.address_map import AddressMap
from strided.addressing.digits import Digit, Term
from strided.layout.element_types import element_type
from strided.planning import select_staging
from strided.planning.axis_maps import AxisMap, RadixMap, axis_map_of
from strided.planning.boxes import Axis, Box, simplified, split
from strided.planning.kernel_kinds import KINDS
from strided.planning.linearize import linearized
from strided.planning.offset_tables import cuts
from strided.planning.plan import NestStep, PerElementStep, Plan, StagedCopy, Storage, VectorStep, plan_copy, span_of
from strided.planning.task_ranges import task_ranges_of
from strided.runtime import limits
from strided.runtime.cache import forget
from tests.regions import map_of, row_major, window
from tests.thinned import examples


def plan_between(source: str, target: str) -> Plan:
    """The plan of a conversion between two whole arrays."""
    maps, storages = [], []
    for text in (source, target):
        shape = sd.parse(text)
        assert isinstance(shape, sd.Shape)
        assert shape.layout is not None
        maps.append(shape.address_map)
        storages.append(Storage(shape.layout.element_size_in_bits or element_type(shape.element_type).storage_bits))
    return plan_copy(*maps, *storages)


#: Conversions of large arrays as they come, by the rows of the table of kernels in docs/speed.md: every one must find
#: its kernel, both ways.
COMMON = {
    "contiguous": [
        ("f32[8192,8192]{1,0:T(8,128)}", "f32[8192,8192]{1,0}"),
        ("f32[8189,8191]{1,0:T(8,128)}", "f32[8189,8191]{1,0}"),
        ("f64[4096,8192]{1,0:T(8,128)}", "f64[4096,8192]{1,0}"),
        ("c128[800,8192]{1,0:T(8,128)}", "c128[800,8192]{1,0}"),
        ("f32[100000001]{0:T(1024)}", "f32[100000001]{0}"),
        ("s8[8192,8192]{1,0:T(8,128)(4,1)}", "s8[8192,8192]{1,0:T(32,128)(4,1)}"),
        # A combined tile, one that cuts across dimensions too.
        ("f32[64,32,64,512]{3,2,1,0:T(*,8,128)}", "f32[64,32,64,512]{3,2,1,0}"),
        ("f32[64,30,60,500]{3,2,1,0:T(*,8,128)}", "f32[64,30,60,500]{3,2,1,0}"),
    ],
    "shared": [
        ("bf16[8192,8192]{1,0:T(8,128)(2,1)}", "bf16[8192,8192]{1,0}"),
        ("bf16[8192,8192]{1,0:T(16,128)(2,1)}", "bf16[8192,8192]{1,0}"),
        ("bf16[4097,5003]{1,0:T(8,128)(2,1)}", "bf16[4097,5003]{1,0}"),
        ("bf16[4096,17,300]{2,1,0:T(8,128)(2,1)}", "bf16[4096,17,300]{2,1,0}"),
        ("bf16[1000,1,3000]{2,1,0:T(2,128)(2,1)}", "bf16[1000,1,3000]{2,1,0}"),
        ("bf16[8,16,20,30,300]{4,2,3,1,0:T(8,128)(2,1)}", "bf16[8,16,20,30,300]{4,3,2,1,0}"),
        ("bf16[100000001]{0:T(1024)(128)(2,1)}", "bf16[100000001]{0}"),
        ("s8[8192,8192]{1,0:T(8,128)(4,1)}", "s8[8192,8192]{1,0}"),
        ("pred[8192,8192]{1,0:T(32,128)(4,1)}", "pred[8192,8192]{1,0}"),
        ("s4[8192,8192]{1,0:T(8,128)(8,1)E(4)}", "s4[8192,8192]{1,0}"),
        ("u2[8192,8192]{1,0:T(128,128)(16,1)E(2)}", "u2[8192,8192]{1,0}"),
        ("s4[8192,8192]{1,0:E(4)}", "s4[8192,8192]{1,0}"),
    ],
    "transpose": [
        ("f32[8192,8192]{0,1}", "f32[8192,8192]{1,0}"),
        ("s8[8191,8193]{0,1}", "s8[8191,8193]{1,0}"),
        ("f32[64,96,112,96]{3,2,1,0}", "f32[64,96,112,96]{0,3,1,2}"),
        ("f32[8192,8192]{0,1:T(8,128)}", "f32[8192,8192]{1,0}"),
        ("f32[8192,8192]{1,0:T(8,128)}", "f32[8192,8192]{0,1:T(8,128)}"),
        # The pairs of rows are pairs in the target too: they move as words.
        ("bf16[8191,8193]{0,1:T(8,128)(2,1)}", "bf16[8191,8193]{1,0}"),
        ("s8[99,77,4]{2,0,1}", "s8[99,77,4]{2,1,0}"),
    ],
    "squares": [
        ("bf16[8192,8192]{1,0:T(8,128)(2,1)}", "bf16[8192,8192]{0,1:T(8,128)(2,1)}"),
        ("bf16[64,8192,31]{2,1,0:T(8,128)(2,1)}", "bf16[64,8192,31]{1,2,0:T(8,128)(2,1)}"),
        ("s8[8191,8190]{1,0:T(8,128)(4,1)}", "s8[8191,8190]{0,1:T(32,128)(4,1)}"),
        ("s4[8192,8192]{1,0:T(8,128)(8,1)E(4)}", "s4[8192,8192]{0,1:T(8,128)(8,1)E(4)}"),
        ("u1[8100,8192]{1,0:T(32,128)(32,1)E(1)}", "u1[8100,8192]{0,1:T(32,128)(32,1)E(1)}"),
        ("bf16[32,512,16,64]{3,2,1,0:T(8,128)(2,1)}", "bf16[32,512,16,64]{3,1,2,0:T(8,128)(2,1)}"),
        ("s8[32,511,33,128]{3,2,1,0:T(32,128)(4,1)}", "s8[32,511,33,128]{3,1,2,0:T(32,128)(4,1)}"),
        ("u2[32,512,40,128]{3,2,1,0:T(16,128)(16,1)E(2)}", "u2[32,512,40,128]{3,1,2,0:T(16,128)(16,1)E(2)}"),
    ],
    "several": [
        ("s4[8192,8192]{1,0:E(4)}", "s4[8192,8192]{0,1}"),
        ("s4[8192,8192]{1,0:T(8,128)(8,1)E(4)}", "s4[8192,8192]{1,0:E(4)}"),
        ("s4[8192,8192]{1,0:E(4)}", "s4[8192,8192]{0,1:E(4)}"),
        ("u8[334,224,224,3]{2,1,3,0:T(32,128)(4,1)}", "u8[334,224,224,3]{3,2,1,0}"),
    ],
    "offsets": [
        ("f32[16,128]{1,0:T(8,128)(3,1)}", "f32[16,128]{1,0}"),
    ],
    "none": [
        ("f32[0,128]{1,0:T(8,128)}", "f32[0,128]{1,0}"),
    ],
}
#: What the kernels of a row are called, without the bits of an element.
NAMES = {
    "contiguous": {"copy", "rows"},
    "shared": {"interleave", "deinterleave", "interleave_bits", "deinterleave_bits", "pack", "unpack"},
    "transpose": {"transpose"},
    "squares": {"transpose_pairs", "transpose_words", "exchange"},
    "offsets": {"offsets"},
    "none": {"none"},
}
PAIRS = [(row, *pair) for row, pairs in COMMON.items() for pair in pairs]


@pytest.mark.parametrize(("row", "first", "second"), PAIRS, ids=[pair[1] + pair[2][-8:] for pair in PAIRS])
def test_common_conversions_find_their_kernel(row: str, first: str, second: str) -> None:
    for plan in (plan_between(first, second), plan_between(second, first)):
        names = [name.rstrip("0123456789") for name in plan.kernel.split(", ")]
        if row == "several":
            assert len(names) > 1
        else:
            assert len(names) == 1
            assert names[0] in NAMES[row]


def test_a_kind_is_known_of_each_kernel_that_copies() -> None:
    others = {"run_tasks", "loop_nest", "gather_scatter", "varint"}
    assert set(KINDS) <= set(kernels.HOMES)
    assert {name for name, home in kernels.HOMES.items() if home not in others} <= set(KINDS)


def test_a_plan_prints_what_it_does() -> None:
    plan = plan_between("bf16[100,300]{1,0:T(8,128)(2,1)}", "bf16[100,300]{1,0}")
    assert str(plan) == (
        "deinterleave16: rows share each word of the source\n"
        "30,000 elements, 120,000 bytes moved\n"
        "  deinterleave16 over 100 x 300, 16 bits each"
    )
    assert str(plan_between("u1[8,16]{1,0:E(1)}", "u1[8,16]{0,1:E(1)}")).endswith("1 bit each")
    around = plan_between("s4[100,300]{1,0:E(4)}", "s4[100,300]{0,1}")
    assert "unpack, transpose8 over 100 x 300 in blocks of" in str(around)
    assert "offsets of 2048 elements" in str(plan_between("f32[16,128]{1,0:T(8,128)(3,1)}", "f32[16,128]{1,0}"))
    assert "nest32 over one element" in str(plan_between("f32[1]{0}", "f32[1]{0:T(8)}"))


def test_plans_are_values_that_come_from_a_cache() -> None:
    texts = "bf16[77,300]{1,0:T(8,128)(2,1)}", "bf16[77,300]{0,1}"
    plan = plan_between(*texts)
    assert plan_between(*texts) is plan
    forget()
    again = plan_between(*texts)
    assert again is not plan
    assert again == plan
    assert hash(again) == hash(plan)
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_bytes_moved_count_no_padding() -> None:
    assert plan_between("s4[3,5]{1,0:T(8,128)(8,1)E(4)}", "s4[3,5]{1,0}").bytes_moved == 8 + 15


def test_leftovers_of_wide_elements_are_rows_of_their_own() -> None:
    plan = plan_between("bf16[8191,8193]{0,1:T(8,128)(2,1)}", "bf16[8191,8193]{1,0}")
    assert [step.kernel for step in plan.steps] == ["transpose32", "short_rows"]
    assert plan.steps[0].elements * 2 + plan.steps[1].elements == plan.elements


def test_short_runs_are_written_from_the_cache() -> None:
    far = plan_between("u8[64,4468,4,22]{0,2,3,1:T(4,128)(4,1)}", "u8[64,4468,4,22]{3,2,1,0}")
    assert far.kernel == "deinterleave8, transpose8"
    near = plan_between("bf16[5460,4,32,9]{2,1,3,0:T(4,128)(2,1)}", "bf16[5460,4,32,9]{3,2,1,0}")
    assert near.kernel == "deinterleave16, transpose16"


@pytest.mark.parametrize(
    ("shape", "layout", "row_bytes"),
    [
        ("u8[16,2048,256,6]", "{2,1,3,0:T(32,128)(4,1)}", 256 * 6),
        ("u16[581,546,2,33]", "{0,1,3,2:T(8,128)(2,1)}", 1024),
    ],
)
def test_blocks_read_from_tiles_of_words_have_long_rows_in_the_target(shape: str, layout: str, row_bytes: int) -> None:
    (step,) = plan_between(f"{shape}{layout}", f"{shape}{{3,2,1,0}}").steps
    assert isinstance(step, StagedCopy)
    along = [length for axis, length in zip(step.box.axes, step.lengths, strict=True) if axis.target.unit_stride < 8192]
    assert np.prod(along) >= row_bytes


@pytest.mark.parametrize(
    ("shape", "packed", "lengths"),
    [
        ("s4[8192,6138]", False, (512, 2048)),  # rows of the target end inside of lines
        ("s4[8192,6138]", True, (256, 2048)),
        ("s4[8192,6144]", False, (2048, 512)),  # they do not
        ("s4[1920,6138]", False, (1920, 512)),  # rows of the source are whole
    ],
)
def test_rows_of_packed_elements_are_cut_where_that_costs_least(
    shape: str, packed: bool, lengths: tuple[int, int]
) -> None:
    target = "{1,0:E(4)}" if packed else "{1,0}"
    (step,) = plan_between(f"{shape}{{0,1:E(4)}}", f"{shape}{target}").steps
    assert isinstance(step, StagedCopy)
    assert step.lengths == lengths


def test_rows_of_words_are_taken_apart_first_where_short_rows_of_the_target_go_on_along_them() -> None:
    kernels = [
        plan_between(f"{shape}{{0,1,2:T(8,128)(2,1)}}", f"{shape}{{2,1,0}}").kernel
        for shape in ("bf16[1024,512,48]", "bf16[1024,512,480]")
    ]
    assert kernels == ["deinterleave16, transpose16", "transpose16"]


@pytest.mark.parametrize("turn", [1, -1], ids=["read", "written"])
@pytest.mark.parametrize("shape", ["s2[36,57,19,4,64,5]{4,1,5,3,2,0:", "s2[324,693,14,16]{0,3,2,1:"])
def test_packed_words_are_moved_as_words_and_taken_apart_in_long_runs(shape: str, turn: int) -> None:
    dense = str(sd.parse_shape(shape.split("{")[0]).with_layout(None))
    for step in plan_between(*(f"{shape}T(16,128)(16,1)E(2)}}", dense)[::turn]).steps:
        if step.kernel == "pack_words":
            assert (turn, step.axes[step.lane].extent) == (-1, 693 * 14 * 16)
            continue
        assert isinstance(step, StagedCopy)
        assert "transpose32" in step.kernel.split(", ")
        assert "nest" not in step.kernel


@pytest.mark.parametrize(
    ("text", "turn", "count"),
    [
        # Rows go on in each run: of 23 and 30, the seven and fourteen behind the first word would be runs of their own.
        ("s2[1287,85,23,5,4]{1,2,4,3,0:T(16,128)(16,1)E(2)}", 1, 1),
        ("s2[1287,85,23,5,4]{1,2,4,3,0:T(16,128)(16,1)E(2)}", -1, 1),
        ("u2[242,277,30,25]{0,2,3,1:T(16,128)(16,1)E(2)}", 1, 1),
        ("u2[242,277,30,25]{0,2,3,1:T(16,128)(16,1)E(2)}", -1, 1),
        # So would the last three of seven, whatever kernels each part has.
        ("f8e3m4[1445,69,7,1,34]{1,2,4,3,0:T(8,128)(4,1)}", 1, 1),
        # Words are moved as such, all of whose rows are there, if that takes less time.
        ("u4[512,497,1,149]{0,1,3,2:T(8,128)(8,1)E(4)}", 1, 2),
        ("u4[512,497,1,149]{0,1,3,2:T(8,128)(8,1)E(4)}", -1, 1),
    ],
)
def test_rows_of_words_stay_together_where_their_runs_go_on(text: str, turn: int, count: int) -> None:
    plan = plan_between(*(text, str(sd.parse_shape(text).with_layout(None)))[::turn])
    assert len(plan.steps) == count
    assert all(isinstance(step, StagedCopy) for step in plan.steps)


def test_words_of_rows_and_those_behind_go_apart_where_that_takes_less_time() -> None:
    tiled = "f8e3m4[144,69,7,1,340]{1,2,4,3,0:T(8,128)(4,1)}"
    steps = plan_between(str(sd.parse_shape(tiled).with_layout(None)), tiled).steps
    assert sorted(step.kernel for step in steps) == ["transpose8", "transpose8, interleave8"]


def test_words_of_which_rows_are_missing_go_with_the_others_where_both_come_from_the_same_lines() -> None:
    """Six rows of 18 bytes are 108 bytes in a row; six of two thousand are read as two parts as well as in one."""
    for size, steps in ((18, 1), (2000, 2)):
        shape = sd.parse(f"s8[120,{54000 // size},6,{size}]{{0,2,3,1:T(8,128)(4,1)}}")
        assert len(plan_between(str(shape.with_layout(None)), str(shape)).steps) == steps


@pytest.mark.parametrize(
    ("text", "lanes"),
    [
        # Elements of whole words go on along other axes; others end with their row.
        ("u4[445,11304]{0,1:T(8,128)(8,1)E(4)}", 11304),
        ("f4e2m1fn[30,128,47,34,8]{1,4,3,2,0:T(8,128)(8,1)E(4)}", 47 * 34 * 8),
        ("s2[128,16384,24]{0,2,1:T(16,128)(16,1)E(2)}", 24),
    ],
)
def test_rows_far_apart_are_packed_into_words(text: str, lanes: int) -> None:
    (step,) = plan_between(str(sd.parse_shape(text).with_layout(None)), text).steps
    assert isinstance(step, VectorStep)
    assert (step.kernel, step.axes[step.lane].extent) == ("pack_words", lanes)
    rows = [parts[step.row] for parts in step.tasks()]
    assert all(part.start % 16 == 0 for part in rows)


@pytest.mark.parametrize("turn", [1, -1], ids=["read", "written"])
def test_a_last_row_alone_in_its_words_takes_no_nest(turn: int) -> None:
    tiled, dense = "u8[54,455,41,18]{0,2,3,1:T(8,128)(4,1)}", "u8[54,455,41,18]{3,2,1,0}"
    plan = plan_between(*(tiled, dense)[::turn])
    assert "nest" not in str(plan)


def test_packed_elements_in_opposite_orders_are_not_moved_together() -> None:
    map_ = map_of("f32[64,256]{1,0:T(8,128)}")
    same, other = Storage(4), Storage(4, low_first=False)
    assert plan_copy(map_, row_major((64, 256)), same, same).kernel == "rows"
    # By way of whole bytes.
    assert plan_copy(map_, row_major((64, 256)), same, other).kernel == "unpack, pack"
    columns = AddressMap.from_strides((64, 256), (1, 64))
    assert plan_copy(map_, columns, same, other).kernel == "unpack, transpose8, pack"


def test_a_window_inside_tiles_keeps_the_kernel_of_the_whole() -> None:
    tiled = window(map_of("f32[4096,4096]{1,0:T(8,128)(2,1)}"), slice(3, 4001), slice(77, 4001))
    plan = plan_copy(tiled, row_major(tiled.shape), Storage(16), Storage(16))
    assert plan.kernel == "deinterleave16"
    assert len(plan.steps) == 1


def test_reversed_lanes_and_odd_steps_take_the_general_nest() -> None:
    wide = map_of("f32[400,900]{1,0:T(8,128)}")
    for view in (window(wide, slice(None), slice(None, None, -1)), window(wide, slice(None), slice(None, None, 3))):
        assert plan_copy(view, row_major(view.shape), Storage(32), Storage(32)).kernel == "nest32"


@pytest.mark.parametrize(
    ("tiled", "read", "written"),
    [
        # Words are turned as they are, and their rows then lie closer together.
        ("pred[49152,100,7]{1,2,0:T(8,128)(4,1)}", ["transpose_few32, short_rows"], ["short_rows"]),
        ("f16[1365,3,50,1,41]{2,4,3,1,0:T(8,128)(2,1)}", ["transpose_cut32"], ["transpose32 + short_rows"]),
        ("f16[1024,1,682,31]{2,3,1,0:T(8,128)(2,1)}", ["transpose_cut32"], ["transpose32 + short_rows"]),
        ("s2[4934,10,1,68,15]{3,4,2,1,0:T(16,128)(16,1)E(2)}", ["rows, unpack, short_rows"], ["pack_words"]),
        ("f32[6144,16,32]{2,1,0:T(8,128)}", ["short_rows"], ["short_rows"]),
        # What would touch a line for each of its rows goes by way of the cache.
        ("u16[279,1937,11,3]{1,3,2,0:T(4,128)(2,1)}", ["deinterleave16, transpose16"], ["transpose16, interleave16"]),
    ],
)
def test_rows_of_few_bytes_are_copied_as_such(tiled: str, read: list[str], written: list[str]) -> None:
    dense = str(sd.parse_shape(tiled).with_layout(None))
    assert [step.kernel for step in plan_between(tiled, dense).steps] == read
    assert [step.kernel for step in plan_between(dense, tiled).steps] == written


def test_rows_of_few_bytes_follow_each_other_on_the_side_in_memory() -> None:
    """In a block of the cache they may lie anywhere."""
    tiled = "f8e5m2[105,64,2,3,13,45]{1,5,4,3,2,0:T(8,128)(4,1)}"
    (step,) = plan_between(tiled, str(sd.parse_shape(tiled).with_layout(None))).steps
    assert isinstance(step, StagedCopy)
    last = step.stages(next(iter(step.tasks())))[-1][0]
    assert isinstance(last, VectorStep)
    assert (last.kernel, last.axes[last.row].target.unit_stride) == ("short_rows", 45)


@pytest.mark.parametrize(
    ("text", "turn", "order"),
    [
        # Rows are read where they lie side by side, and written to as many places as there are matrices.
        ("f32[32,4500,128]{2,0,1:T(8,128)}", 1, "4500 x 32 x 128"),
        ("f32[32,4500,128]{2,0,1:T(8,128)}", -1, "32 x 4500 x 128"),
        ("f32[4096,35,100]{2,0,1:T(8,128)}", 1, "35 x 4096 x 100"),
        # Few rows a few pages apart are come back to while these are known: they are written side by side.
        ("f32[2,24576,230]{2,0,1:T(2,128)}", 1, "24576 x 2 x 230"),
        # Rows of words give whole lines of each tile.
        ("u8[32,9000,128]{2,0,1:T(8,128)(4,1)}", 1, "9000 x 4 x 1024"),
        ("bf16[32,9000,128]{2,0,1:T(8,128)(2,1)}", 1, "9000 x 2 x 2048"),
        # Two rows of a word are read front to back, with all that lies between them, if that goes to few places.
        ("bf16[32,512,32,128]{3,1,2,0:T(8,128)(2,1)}", -1, "32 x 256 x 32 x 2 x 128"),
        ("bf16[32,512,32,64]{3,1,2,0:T(8,128)(2,1)}", -1, "32 x 32 x 512 x 64"),
        ("bf16[32,512,1024,128]{3,1,2,0:T(8,128)(2,1)}", -1, "32 x 1024 x 2 x 32768"),
        ("u8[32,512,32,256]{3,1,2,0:T(8,128)(4,1)}", -1, "32 x 32 x 512 x 256"),
        # What they leave of lines is kept until the next tile, and tiles that lie side by side are one run.
        ("u8[32,9000,114]{2,0,1:T(8,128)(4,1)}", 1, "32 x 1026000"),
        ("u8[8,36000,128]{2,0,1:T(8,128)(4,1)}", 1, "8 x 4608000"),
        # Packed rows of whole lines likewise.
        ("s4[64,4400,128]{2,0,1:E(4)}", 1, "4400 x 64 x 128"),
        ("s4[64,4400,200]{2,0,1:E(4)}", 1, "64 x 4400 x 200"),
    ],
)
def test_rows_are_taken_in_the_order_that_memory_answers_soonest(text: str, turn: int, order: str) -> None:
    (step,) = plan_between(*(text, str(sd.parse_shape(text).with_layout(None)))[::turn]).steps
    assert f" over {order}, " in str(step)


def test_rows_are_read_in_the_order_of_memory_into_a_block_of_the_cache() -> None:
    """Those of a column would lie 94 KB apart, each on a page of its own."""
    text = "s8[419,682,137]{0,2,1:T(8,128)(4,1)}"
    (step,) = plan_between(str(sd.parse_shape(text).with_layout(None)), text).steps
    assert isinstance(step, StagedCopy)
    first = step.stages(next(iter(step.tasks())))[0][0]
    assert isinstance(first, VectorStep)
    assert (first.kernel, first.axes[first.row].source.unit_stride) == ("rows", 137)


def test_words_are_read_in_the_order_of_memory_into_a_block_of_the_cache() -> None:
    """All four rows of words of a tile come one after the other, though their elements lie far apart in the block."""
    text = "bf16[7,117,76,8,43]{1,3,4,2,0:T(8,128)(2,1)}"
    (step,) = plan_between(text, str(sd.parse_shape(text).with_layout(None))).steps
    assert isinstance(step, StagedCopy)
    first = step.stages(next(iter(step.tasks())))[0][0]
    assert isinstance(first, VectorStep)
    innermost = first.axes[first.outer[-1]]
    assert (first.kernel, innermost.extent, innermost.source.unit_stride) == ("deinterleave16", 4, 512)


@pytest.mark.parametrize(
    ("text", "turn", "kernel"),
    [
        # The last of 51 rows would be moved one element at a time, each from a line of its own: little of many rows.
        ("f16[68,585,6,51]{0,3,2,1:T(8,128)(2,1)}", -1, "transpose16, interleave16"),
        ("f16[68,704,501]{0,2,1:T(8,128)(2,1)}", -1, "transpose32"),
        # Elements that take turns are written in rows that end inside of lines, or do not.
        ("u8[2644,32,2,121,2]{3,1,4,2,0:T(8,128)(4,1)}", 1, "transpose32, transpose8"),
        ("s16[2644,32,2,121,2]{3,1,4,2,0:T(8,128)(2,1)}", 1, "exchange16"),
        ("s16[1250,32,2,256,2]{3,1,4,2,0:T(8,128)(2,1)}", 1, "exchange16"),
        # Rows of a line and a half are not put together with others.
        ("f8e4m3fn[512,1024,96]{1,0,2:T(32,128)(4,1)}", 1, "transpose32, deinterleave8"),
    ],
)
def test_lines_that_are_touched_in_part_count(text: str, turn: int, kernel: str) -> None:
    assert plan_between(*(text, str(sd.parse_shape(text).with_layout(None)))[::turn]).kernel == kernel


@pytest.mark.parametrize(
    ("text", "read", "written"),
    [
        ("f32[400,900]{1,0:T(8,128)}", "rows", "rows"),
        ("bf16[400,900]{1,0:T(8,128)(2,1)}", "deinterleave16", "interleave16"),
        ("s8[400,900]{1,0:T(8,128)(4,1)}", "deinterleave8", "interleave8"),
        ("s4[400,900]{1,0:T(8,128)(8,1)E(4)}", "deinterleave_bits", "interleave_bits"),
        ("u1[400,900]{1,0:T(32,128)(32,1)E(1)}", "deinterleave_bits", "interleave_bits"),
        ("f32[400,900]{0,1}", "transpose32", "transpose32"),
    ],
)
def test_rows_in_reverse_keep_the_kernel(text: str, read: str, written: str) -> None:
    view = window(map_of(text), slice(None, None, -1))
    own = Storage(sd.parse_shape(text).element_bits)
    dense = Storage(max(8, own.bits))
    assert plan_copy(view, row_major(view.shape), own, dense).kernel == read
    assert plan_copy(row_major(view.shape), view, dense, own).kernel == written


@pytest.mark.parametrize(
    ("text", "turn", "kernel"),
    [
        # Two rows would go into words of four in a block, three into those of the target.
        ("s8[49140,272,2]{1,2,0}", 1, "transpose_few8"),
        ("f8e3m4[16384,256,3,3]{1,3,2,0:T(4,128)(4,1)}", -1, "short_rows"),
        # The last block of eight rows has three: transposed straight into words, these take longer than all others.
        ("f8e5m2[11,442,6144]{1,0,2:T(8,128)(4,1)}", -1, "transpose8, interleave8"),
    ],
)
def test_words_that_are_filled_in_part_count(text: str, turn: int, kernel: str) -> None:
    assert plan_between(*(text, str(sd.parse_shape(text).with_layout(None)))[::turn]).kernel == kernel


def test_short_runs_of_words_are_put_together_by_one_kernel() -> None:
    """Blocks would take 1.5 times as long; to take such words apart, half of the time."""
    plan = plan_between("u16[4096,2048]{1,0:T(4,8)}", "u16[4096,2048]{1,0:T(8,128)(2,1)}")
    assert plan.kernel == "interleave16"
    assert isinstance(plan_between("u16[524288,2,8]{1,2,0}", "u16[524288,2,8]{2,1,0}").steps[0], StagedCopy)


def test_words_of_packed_elements_go_apart_from_the_last_unless_they_are_made_of_bytes() -> None:
    """In one they then take 0.7 to 0.9 of the time."""
    bytes_, packed = "u8[9,3728270]{1,0:T(8,128)(4,1)}", "u4[9,3728270]{1,0:T(8,128)(8,1)E(4)}"
    assert len(plan_between("u8[100,335544]{1,0:T(8,128)(4,1)}", "u4[100,335544]{1,0:T(8,128)(8,1)E(4)}").steps) == 1
    assert len(plan_between(packed, bytes_).steps) == 2


def test_blocks_whose_rows_lie_far_apart_hold_whole_lines() -> None:
    """Each line of the target would be written in several blocks, of a part each."""
    (step,) = plan_between("u16[17,3,32896,5]{3,2,0,1}", "u16[17,3,32896,5]{1,0,2,3:T(2,4)}").steps
    assert isinstance(step, StagedCopy)
    lengths = dict(zip((axis.extent for axis in step.box.axes), step.lengths, strict=True))
    assert (lengths[17], lengths[3]) == (17, 3)


def test_pairs_of_blocks_are_planned_while_they_may_be_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []
    candidate = select_staging._candidate

    def counted(*arguments: Any) -> select_staging.Candidate | None:
        planned.append(arguments)
        return candidate(*arguments)

    monkeypatch.setattr(select_staging, "_candidate", counted)
    forget()
    plan_between("u4[64,128]{1,0:E(4)}", "u4[64,128]{0,1:E(4)}")
    assert len(planned) <= 64


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        # Words cut a run of the source that takes turns in the target: lines of four elements are far from full.
        ("u8[56,8192,18,2]{0,2,3,1:T(8,128)(4,1)}", "deinterleave8, transpose8"),
        ("u8[100,8191,18,4]{1,2,3,0:T(8,128)(4,1)}", "deinterleave8, transpose8"),
        ("u8[56,8192,18,2]{1,2,3,0}", "transpose8"),
    ],
)
def test_elements_take_turns_where_no_tile_cuts_them(text: str, kernel: str) -> None:
    shape = sd.parse_shape(text)
    assert plan_between(text, str(shape.with_layout(None))).kernel == kernel


def test_tasks_cover_a_step_and_end_on_tiles() -> None:
    tiled = ("f32[8192,8192]{1,0:T(8,128)}", "f32[8192,8192]{1,0}")
    for texts in (
        tiled,
        ("bf16[8192,8192]{1,0:T(8,128)(2,1)}", "bf16[8192,8192]{1,0}"),
        ("f32[8192,8192]{0,1}", "f32[8192,8192]{1,0}"),
        ("bf16[100000001]{0:T(1024)(128)(2,1)}", "bf16[100000001]{0}"),
    ):
        plan = plan_between(*texts)
        step = plan.steps[0]
        assert isinstance(step, VectorStep)
        counts = []
        for parts in step.tasks():
            count = 1
            for part in parts:
                count *= part.stop - part.start
            counts.append(count)
        assert sum(counts) == step.elements
        assert max(counts) * step.bits // 8 <= 8 * limits.current.vector_task_bytes
        if texts == tiled:
            assert all((part.stop - part.start) % 8 == 0 for parts in step.tasks() for part in parts)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        # Rows of the same matrix are pages apart, those of the next one lie beside them; no task is too small.
        ("bf16[512,768,20]{2,0,1:T(8,128)(2,1)}", 32),
        ("u4[1024,384,60]{2,0,1:T(8,128)(8,1)E(4)}", 32),
        ("s8[4096,72,60]{2,0,1:T(8,128)(4,1)}", 122),
        # Rows follow each other, or nothing lies beside them.
        ("bf16[512,7681,20]{2,1,0:T(8,128)(2,1)}", 7681),
        ("bf16[64,768,2100]{2,0,1:T(8,128)(2,1)}", 64),
    ],
)
def test_tasks_come_back_to_pages_of_far_rows_soon(text: str, rows: int) -> None:
    shape = sd.parse_shape(text)
    (step,) = plan_between(str(shape.with_layout(None)), text).steps
    assert isinstance(step, VectorStep)
    tasks = list(step.tasks())
    assert sum(math.prod(part.stop - part.start for part in parts) for parts in tasks) == shape.size
    most = max(parts[step.row].stop - parts[step.row].start for parts in tasks)
    assert rows - 8 < most <= rows


def test_spans_are_exact() -> None:
    view = window(map_of("f32[40,900]{1,0:T(8,128)}"), slice(35, 2, -4), slice(130, 700, 3))
    offsets = view.offsets()
    assert span_of(view, Storage(32)) == (4 * offsets.min(), 4 * offsets.max() + 4)
    assert span_of(view, Storage(4)) == (offsets.min() // 2, offsets.max() // 2 + 1)
    assert span_of(row_major((0, 3)), Storage(32)) == (0, 0)
    assert span_of(map_of("f32[6,10,50]{2,1,0:T(*,8,128)}"), Storage(32)) is None


@pytest.mark.parametrize("bits", [(32, 16), (4, 2), (16, 8), (8, 16)])
def test_widths_that_do_not_fit_are_refused(bits: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match=f"cannot copy {bits[0]}-bit elements into {bits[1]}-bit ones"):
        plan_copy(row_major((3,)), row_major((3,)), Storage(bits[0]), Storage(bits[1]))


def test_planning_loads_no_numba() -> None:
    code = (
        "import sys; from tests.planning.test_plan import PAIRS, plan_between; "
        "[plan_between(a, b) for _, a, b in PAIRS]; print('numba' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, timeout=120, capture_output=True, text=True)
    assert ran.stdout == "False\n"


# --- axes -------------------------------------------------------------------------------------------------------------


def terms(sizes: Sequence[int], strides: Sequence[int], start: int, step: int) -> Term:
    weight, digits = 1, []
    for size, stride in zip((*sizes, 1 << 40), strides, strict=True):
        digits.append(Digit(weight, size, stride))
        weight *= size
    return Term(start, step, tuple(digits))


@st.composite
def any_terms(draw: st.DrawFn) -> tuple[tuple[Term, ...], int]:
    extent = draw(st.integers(1, 60))
    found = []
    for _ in range(draw(st.integers(0, 2))):
        sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 8]), max_size=3))
        strides = [draw(st.sampled_from([-9, -3, 1, 2, 5, 7, 8, 16, 64])) for _ in range(len(sizes) + 1)]
        step = draw(st.sampled_from([1, 1, 1, -1, 0, 2, 3, -2, 4, 8]))
        found.append(terms(sizes, strides, draw(st.integers(0, 40)) + (extent - 1) * max(0, -step), step))
    return tuple(found), extent


@given(any_terms())
def test_the_normal_form_of_an_axis_says_the_same(axis: tuple[tuple[Term, ...], int]) -> None:
    found, extent = axis
    v = np.arange(extent)
    wanted = sum((term.offset_at(v) for term in found), np.zeros(extent, np.int64))
    side = axis_map_of(found, extent)
    np.testing.assert_array_equal(side.base + side.table(0, extent), wanted)
    assert side.bounds(extent) == (wanted.min(), wanted.max())
    if side.radix_map is not None:
        assert [side.base + side.radix_map.at(k) for k in range(extent)] == wanted.tolist()


@given(st.lists(any_terms(), min_size=2, max_size=4), st.data())
@examples(200)
def test_ranges_that_look_alike_are_shifted_to_their_places(
    found: list[tuple[tuple[Term, ...], int]], data: st.DataObject
) -> None:
    """Along an axis, and along one around another on both sides."""
    extent = min(n for _, n in found)
    maps = [axis_map_of(terms, extent) for terms, _ in found]
    if len(maps) == 4:
        maps, extent = [outer.around(inner, extent) for outer, inner in (maps[:2], maps[2:])], extent * extent
    axis = Axis(extent, *maps[:2])
    length, period = data.draw(st.integers(1, extent + 2)), data.draw(st.integers(1, 8))
    for to_ends in (False, True):
        start = 0
        for (part,) in task_ranges_of([axis], [0], [length], [period], to_ends=to_ends):
            for side, shift in ((axis.source, part.source), (axis.target, part.target)):
                wanted = [side.at(start + k) for k in range(part.stop - part.start)]
                assert [side.at(part.start + k) + shift for k in range(part.stop - part.start)] == wanted
            start += part.stop - part.start
        assert start == extent


def test_steps_leave_no_trace_where_digits_divide() -> None:
    back = axis_map_of((terms([128], [1, 1024], 300, -1),), 100)
    assert back.radix_map is not None
    assert back.radix_map.strides == (-1, -1024)
    half = axis_map_of((terms([128], [1, 1024], 3, 2),), 1000)
    assert half.radix_map is not None
    assert (half.radix_map.sizes, half.radix_map.strides) == ((64,), (2, 1024))
    skip = axis_map_of((terms([8, 4], [1, 100, 5000], 16, 8),), 1000)
    assert skip.radix_map is not None
    assert (skip.radix_map.sizes, skip.radix_map.strides) == ((4,), (100, 5000))
    assert axis_map_of((terms([128], [1, 1024], 0, 3),), 1000).radix_map is None


def test_a_window_inside_one_tile_is_straight() -> None:
    inside = axis_map_of((terms([128], [1, 1024], 130, 1),), 100)
    assert inside.radix_map is not None
    assert (inside.base, inside.radix_map.sizes, inside.radix_map.strides) == (1026, (), (1,))


@given(any_terms(), any_terms(), st.sampled_from([2, 3, 4, 8, 16]))
def test_a_split_axis_says_the_same(
    first: tuple[tuple[Term, ...], int], second: tuple[tuple[Term, ...], int], weight: int
) -> None:
    extent = min(first[1], second[1])
    sides = [axis_map_of(found, extent) for found, _ in (first, second)]
    bases = [side.base for side in sides]
    axis = Axis(extent, *(side._replace(base=0) for side in sides))
    wanted = sorted(zip(*(side.base + side.table(0, extent) for side in sides), strict=True))
    boxes = split(Box(*bases, (axis,)), 0, weight) if extent > 1 else None
    if boxes is not None:
        assert sorted(pair for box in boxes for pair in _pairs(box)) == wanted
    assert sorted(pair for box in simplified(Box(*bases, (axis,))) for pair in _pairs(box)) == wanted


def _pairs(box: Box) -> list[tuple[int, int]]:
    """(source offset, target offset) of every element of a box."""
    table = np.array([[box.source_base, box.target_base]])
    for axis in box.axes:
        more = np.stack([axis.source.table(0, axis.extent), axis.target.table(0, axis.extent)], axis=1)
        table = (table[:, None] + more[None]).reshape(-1, 2)
    return [(int(a), int(b)) for a, b in table]


def test_axes_that_follow_on_are_joined() -> None:
    (box,) = simplified(_box(row_major((4, 5, 6)), row_major((4, 5, 6))))
    assert [axis.extent for axis in box.axes] == [120]
    (box,) = simplified(_box(map_of("f32[9,16,256]{2,1,0:T(8,128)}"), row_major((9, 16, 256))))
    assert sorted(axis.extent for axis in box.axes) == [144, 256]


@given(st.lists(any_terms(), max_size=3))
def test_an_axis_around_others_says_the_same(axes: list[tuple[tuple[Term, ...], int]]) -> None:
    side, wanted = AxisMap(0, ()), np.zeros(1, np.int64)
    for found, extent in axes:
        extent = min(extent, 20)
        outer = axis_map_of(found, extent)._replace(base=0)
        if all(m.step == 1 for m in outer.radix_maps):
            side = outer.around(side, wanted.size)
            wanted = (outer.table(0, extent)[:, None] + wanted).reshape(-1)
    np.testing.assert_array_equal(side.table(0, wanted.size), wanted)
    assert [side.at(k) for k in range(wanted.size)] == wanted.tolist()
    for extent in range(1, wanted.size + 1, max(1, wanted.size // 50)):
        assert side.bounds(extent) == (wanted[:extent].min(), wanted[:extent].max())
    again = math.lcm(*(m.period for m in side.radix_maps))
    np.testing.assert_array_equal(np.diff(side.table(again, again + 9)), np.diff(side.table(0, 9)))


def test_rows_of_lanes_in_one_axis_are_split_off() -> None:
    boxes = simplified(_box(map_of("f32[1000]{0:T(1024)(128)(2,1)}"), row_major((1000,))))
    assert [[axis.extent for axis in box.axes] for box in boxes] == [[104], [7, 128]]


def _box(source: AddressMap, target: AddressMap) -> Box:
    axes = []
    for extent, first, second in zip(source.shape, source.axes, target.axes, strict=True):
        axes.append(Axis(extent, axis_map_of(first, extent), axis_map_of(second, extent)))
    return Box(source.base, target.base, tuple(axes))


def test_combined_tiles_become_digits_of_a_joined_axis() -> None:
    combined = map_of("f32[6,10,50]{2,1,0:T(*,8,128)}")
    found = linearized(combined, row_major((6, 10, 50)))
    assert found is not None
    assert all(map_.is_regular for map_ in found)
    pairs = sorted(zip(*(map_.offsets().reshape(-1).tolist() for map_ in found), strict=True))
    wanted = zip(combined.offsets().reshape(-1).tolist(), range(3000), strict=True)
    assert pairs == sorted(wanted)
    # A window that has not all of the inner axis does not follow on; one of a single outer index need not.
    part = window(combined, slice(None), slice(0, 9))
    assert linearized(part, row_major(part.shape)) is None
    single = combined.at(0, 3)
    assert linearized(single, row_major(single.shape)) is not None


def test_steps_are_of_the_kinds_that_are_documented() -> None:
    kinds = {type(step) for _, a, b in PAIRS for step in plan_between(a, b).steps}
    assert kinds == {VectorStep, StagedCopy, NestStep, PerElementStep}


def test_blocks_fit_their_memory() -> None:
    """A tile of many dimensions, and packed elements on both sides, want more of a block than there is."""
    sides = [map_of(f"u8[2,3,100,16,64,8,17]{text}") for text in ("{3,2,1,4,6,5,0}", "{5,1,3,2,4,0,6:T(16,8,8,4,16)}")]
    assert _blocks_fit(plan_copy(*sides, Storage(2), Storage(2)))


@pytest.mark.slow
def test_blocks_of_any_layout_fit_their_memory() -> None:
    rng, found = random.Random(1), 0
    for _ in range(150):
        rank = rng.randint(4, 7)
        bits = rng.choice([(1, 1), (2, 2), (4, 4), (2, 8), (8, 1)])
        dimensions = ",".join(str(rng.choice([2, 8, 16, 17, 32, 40, 64, 100])) for _ in range(rank))
        sides = []
        for _ in range(2):
            order = ",".join(map(str, rng.sample(range(rank), rank)))
            tile = ",".join(str(rng.choice([2, 4, 8, 16, 32])) for _ in range(rng.randint(2, 5)))
            tiles = rng.choice(["", f":T({tile})", f":T({tile})(8,1)", f":T({tile})(16,1)"])
            sides.append(map_of(f"u8[{dimensions}]{{{order}{tiles}}}"))
        if all(side.is_regular for side in sides):
            plan = plan_copy(*sides, *map(Storage, bits))
            assert _blocks_fit(plan)
            found += any(isinstance(step, StagedCopy) for step in plan.steps)
    assert found > 15


def test_blocks_may_have_room_for_a_single_element():
    sides = map_of("u8[7,12,14]{2,1,0}"), map_of("u8[7,12,14]{1,2,0:T(1,64)(32,1)}")
    with limits.replaced(staged_elements=0, staging_bytes=1 << 10, staging_lane_bytes=64):
        assert isinstance(plan_copy(*sides, Storage(1), Storage(1)), Plan)


def _blocks_fit(plan: Plan) -> bool:
    return all(
        layout.strides(step.lengths)[1] <= 9 * (limits.current.staging_bytes // len(step.staging))
        for step in plan.steps
        if isinstance(step, StagedCopy)
        for layout in step.staging
    )


@pytest.mark.parametrize("lanes", [512, 768, 1000, 1024, 1280, 2048, 4096])
@pytest.mark.parametrize(("bits", "rows"), [(8, 4), (16, 2)])
def test_rows_of_blocks_lie_apart(bits: int, rows: int, lanes: int) -> None:
    """At multiples of 256 bytes many would share the same few places of the first-level cache."""
    shape = sd.parse(f"u{bits}[5,{lanes},16,11]{{1,2,3,0:T(8,128)({rows},1)}}")
    plan = sd.inspect.plan_between(shape, shape.with_layout(None))
    (step,) = (step for step in plan.steps if isinstance(step, StagedCopy))
    (layout,) = step.staging
    strides, size = layout.strides(step.lengths)
    long, row = layout.order[-1], min(stride for stride in strides if stride > bits) // 8
    assert row >= step.lengths[long] * bits // 8
    assert row < 768 or row % 256
    assert size <= 8 * kernels.NEAR
    values = np.random.default_rng(lanes).integers(0, 1 << bits, shape.dimensions, shape.dtype)
    array = sd.LayoutArray.from_numpy(values, shape.layout)
    assert np.array_equal(array.to_numpy(), values)


@pytest.mark.parametrize("text", ["u8[50,1200,700]", "u8[50,1200,1920]", "u8[7,8000,700]"])
def test_pieces_of_long_rows_that_end_inside_of_lines_go_through_no_block(text: str) -> None:
    plan = sd.inspect.plan_between(f"{text}{{2,0,1:T(8,128)(4,1)}}", f"{text}{{2,1,0}}")
    assert plan.kernel == "deinterleave8"


@pytest.mark.parametrize("text", ["u8[8,60000,700]{2,0,1:T(8,128)(4,1)}", "bf16[16,90000,36]{2,0,1:T(16,128)(2,1)}"])
def test_words_of_several_rows_are_taken_apart_in_one_task(text: str) -> None:
    (step,) = sd.inspect.plan_between(text, sd.parse_shape(text).with_layout(None)).steps
    assert isinstance(step, VectorStep)
    assert min(part[step.row].stop - part[step.row].start for part in step.tasks()) == 8


def test_a_window_of_far_apart_elements_costs_no_more_than_these() -> None:
    # 2^40 coordinates hold 2^33 tiles, but only 51 indices; each begins in another tile.
    radix_map = RadixMap(5, 1 << 34, (4, 128), (1, 4096, 1 << 20))
    tracemalloc.start()
    assert cuts(0, 51, (radix_map,)).tolist() == list(range(52))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("step", [1, 2, 3, 6, 7, 8, 13, 14, 15, 100])
@pytest.mark.parametrize("start", [0, 1, 6, 20])
def test_ranges_are_cut_where_lowest_digits_turn_over(start: int, step: int) -> None:
    radix_map = RadixMap(start, step, (7, 3), (1, 10, 100))
    for first, stop in itertools.combinations(range(12), 2):
        tiles = [radix_map.start + step * v for v in range(first, stop)]
        wanted = [first + k for k in range(1, len(tiles)) if tiles[k] // 7 != tiles[k - 1] // 7]
        assert cuts(first, stop, (radix_map,)).tolist() == [first, *wanted, stop]
