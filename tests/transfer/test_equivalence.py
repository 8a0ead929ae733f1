"""Every kernel against the general nest, and both against the definition, element by element.

The general way is forced by refusing every pattern. Guard bytes lie around all buffers, sources are read-only, and
what is not an element, padding included, is random: it must neither be read into a result nor written.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import strided as sd
from strided.addressing.address_map import AddressMap
from strided.kernels import HOMES
from strided.planning import cost_model, select_steps
from strided.planning.kernel_kinds import KINDS
from strided.planning.plan import StagedCopy, Storage, VectorStep, plan_copy
from strided.runtime import limits
from strided.runtime.cache import forget
from strided.transfer import copy as transfer
from tests.regions import Guarded, bits_at, expected, map_of, row_major, window
from tests.thinned import examples, thinned

#: Limits for these tests: the smallest copies are planned, and small ones staged.
_SMALL = {"small_elements": 0, "tiny_elements": 0, "staged_elements": 256, "squared_elements": 256}


@pytest.fixture(autouse=True)
def _plans_for_everything() -> Iterator[None]:
    with limits.replaced(**_SMALL):
        yield
    sd.set_num_threads(None)


@pytest.fixture
def replace() -> Iterator[Callable[..., None]]:
    """Sets limits for one test."""
    with ExitStack() as stack:
        yield lambda **values: stack.enter_context(limits.replaced(**values)) and None


def check(source: Guarded, target: Guarded, *, general: bool = False) -> str:
    """Copy, compare, and say which kernel did it."""
    from_ = source.read_only()
    wanted = expected(from_, target)
    with pytest.MonkeyPatch.context() as patch:
        if general:
            patch.setattr(select_steps, "match", lambda *_, **__: None)
            patch.setattr(select_steps, "staged_copy_of", lambda *_, **__: None)
            forget()
        kernel = plan_copy(from_.map, target.region.map, from_.storage, target.region.storage).kernel
        transfer.copy(from_, target.region)
    np.testing.assert_array_equal(target.memory, wanted, err_msg=kernel)
    if general:
        assert kernel.startswith("nest") or kernel in ("offsets", "none")
        forget()
    return kernel


def check_both(source: Guarded, target: Guarded, kernel: str) -> None:
    """Copy with this kernel, then with the general nest: both leave the same bytes in the target."""
    kept = target.memory.copy()
    assert check(source, target) in kernel.split(" or ")
    result = target.memory.copy()
    target.memory[:] = kept
    check(source, target, general=True)
    np.testing.assert_array_equal(target.memory, result)


class Way(NamedTuple):
    """Two layouts of one array, the kernels that convert there and back, and the width of elements on both sides."""

    source: str
    target: str
    there: str
    back: str
    bits: int
    other_bits: int = 0
    sizes: str = "75,333"


#: Which is better depends on the blocks: small ones leave much of the words to the nest.
_TURNED_WORDS = "transpose32, unpack or transpose32, unpack, short_rows or deinterleave_bits, transpose8"
_WORDS_TURNED = "pack_words or pack, transpose32 or transpose8, interleave_bits"
#: The last rows fill no words: better with all others than one element at a time.
_PACKED_ROWS = "rows or deinterleave_bits, interleave_bits"
#: What is odd is moved with each block, or after all.
_PAIRS_TURNED = "transpose_pairs or transpose_pairs + interleave16 + deinterleave16 + short_rows"

#: Words have axes of their own on both sides: squares of them are turned on the way to a block, in it, or behind it.
_SQUARES_TURNED = " or ".join(
    way
    for bits in (1, 2, 4)
    for way in (
        f"exchange{bits}, transpose32",
        f"transpose32, exchange{bits}",
        f"rows, exchange{bits}, transpose32",
        f"transpose32, transpose_words{bits}, transpose32",
    )
)

_CUT_WRITTEN = "transpose32 or transpose32 + short_rows"

#: One row for each kernel at least, with sizes that leave partial tiles everywhere.
WAYS = [
    Way("{1,0}", "{1,0}", "copy", "copy", 32),
    Way("{1,0:T(8,128)}", "{1,0}", "rows", "rows", 8),
    Way("{1,0:T(8,128)}", "{1,0}", "rows", "rows", 16),
    Way("{1,0:T(8,128)}", "{1,0}", "rows", "rows", 32),
    Way("{1,0:T(8,128)}", "{1,0}", "rows", "rows", 64),
    Way("{1,0:T(8,128)}", "{1,0}", "rows", "rows", 128),
    Way("{1,0:T(8,128)}", "{1,0:T(4,256)}", "rows", "rows", 32),
    Way("{1,0:T(8,128)(2,1)}", "{1,0}", "deinterleave16", "interleave16", 16),
    Way("{1,0:T(16,128)(2,1)}", "{1,0}", "deinterleave16", "interleave16", 16),
    Way("{1,0:T(8,128)(4,1)}", "{1,0}", "deinterleave8", "interleave8", 8),
    Way("{1,0:T(32,128)(4,1)}", "{1,0}", "deinterleave8", "interleave8", 8),
    Way("{1,0:T(8,128)(8,1)}", "{1,0}", "deinterleave_bits", "interleave_bits", 4, 8),
    Way("{1,0:T(64,128)(8,1)}", "{1,0}", "deinterleave_bits", "interleave_bits", 4, 8),
    Way("{1,0:T(16,128)(16,1)}", "{1,0}", "deinterleave_bits", "interleave_bits", 2, 8),
    Way("{1,0}", "{1,0}", "unpack", "pack", 1, 8),
    Way("{1,0}", "{1,0}", "unpack", "pack", 2, 8),
    Way("{1,0}", "{1,0}", "unpack", "pack", 4, 8),
    Way("{1,0:T(8,128)(2,1)}", "{1,0:T(16,128)(2,1)}", "rows or rows + short_rows", "rows or rows + short_rows", 16),
    Way("{1,0:T(8,128)(4,1)}", "{1,0:T(32,128)(4,1)}", "rows or rows + short_rows", "rows or rows + short_rows", 8),
    Way("{1,0:T(8,128)(8,1)}", "{1,0:T(64,128)(8,1)}", _PACKED_ROWS, _PACKED_ROWS, 4),
    Way("{0,1}", "{1,0}", "transpose8", "transpose8", 8),
    Way("{0,1}", "{1,0}", "transpose16", "transpose16", 16),
    Way("{0,1}", "{1,0}", "transpose32", "transpose32", 32),
    Way("{0,1}", "{1,0}", "transpose64", "transpose64", 64),
    Way("{0,1}", "{1,0}", "transpose_few8", "transpose_few8", 8, sizes="3,533"),
    Way("{0,1}", "{1,0}", "transpose_few16", "transpose_few16", 16, sizes="4,533"),
    Way("{0,1}", "{1,0:T(8,128)}", "transpose_few32", "transpose_few32", 32, sizes="3,533"),
    Way(
        "{0,2,1:T(64,3)}", "{2,1,0}", "transpose_few32", "transpose_few32 or transpose_few32, rows", 32, sizes="3,9,40"
    ),
    Way("{0,1}", "{1,0}", "transpose_few64", "transpose_few64", 64, sizes="2,533"),
    # Of three elements of 64 bits each, the rows would be too many.
    Way("{0,1}", "{1,0}", "transpose_few64", "transpose_few64", 64, sizes="2,3"),
    Way("{0,1}", "{1,0}", "transpose_runs", "transpose_runs", 128),
    Way("{0,1:T(8,128)}", "{1,0}", "transpose32", "transpose32", 32),
    Way("{0,1:T(8,128)}", "{1,0:T(8,128)}", "transpose32", "transpose32", 32),
    Way("{0,1:T(8,128)(2,1)}", "{1,0}", "transpose32", "transpose32", 16, sizes="133,555"),
    Way("{0,1:T(8,128)(2,1)}", "{1,0}", "transpose_cut32", _CUT_WRITTEN, 16, sizes="533,75"),
    Way("{1,2,0:T(32,128)(4,1)}", "{2,1,0}", "transpose_cut32", _CUT_WRITTEN, 8, sizes="3,130,61"),
    Way(
        "{1,0:T(8,128)(4,1)}",
        "{0,1}",
        "transpose_cut32 or transpose32, short_rows or transpose32, rows or deinterleave8, transpose8",
        "transpose32 or transpose32 + short_rows or short_rows, transpose32 or transpose8, interleave8",
        8,
    ),
    Way("{1,0:T(8,128)(2,1)}", "{0,1:T(8,128)(2,1)}", "transpose_words16", "transpose_words16", 16),
    Way("{1,0:T(8,128)(2,1)}", "{0,1:T(8,128)(2,1)}", "transpose_pairs", "transpose_pairs", 16, sizes="150,334"),
    Way("{1,0:T(8,128)(2,1)}", "{0,1:T(8,128)(2,1)}", _PAIRS_TURNED, _PAIRS_TURNED, 16, sizes="151,333"),
    Way("{1,0:T(8,128)(4,1)}", "{0,1:T(32,128)(4,1)}", "transpose_words8", "transpose_words8", 8),
    Way("{1,0:T(8,128)(8,1)}", "{0,1:T(64,128)(8,1)}", "transpose_words4", "transpose_words4", 4),
    Way("{1,0:T(16,128)(16,1)}", "{0,1:T(16,128)(16,1)}", "transpose_words2", "transpose_words2", 2),
    Way("{1,0:T(32,128)(32,1)}", "{0,1:T(32,128)(32,1)}", "transpose_words1", "transpose_words1", 1),
    Way("{2,1,0:T(8,128)(2,1)}", "{2,0,1:T(8,128)(2,1)}", "exchange16", "exchange16", 16, sizes="10,15,190"),
    Way("{2,1,0:T(8,128)(4,1)}", "{2,0,1:T(32,128)(4,1)}", "exchange8", "exchange8", 8, sizes="12,20,190"),
    Way("{2,1,0:T(8,128)(8,1)}", "{2,0,1:T(64,128)(8,1)}", "exchange4", "exchange4", 4, sizes="19,17,190"),
    Way("{2,1,0:T(16,128)(16,1)}", "{2,0,1:T(16,128)(16,1)}", "exchange2", "exchange2", 2, sizes="19,17,190"),
    Way("{2,1,0:T(32,128)(32,1)}", "{2,0,1:T(32,128)(32,1)}", "exchange1", "exchange1", 1, sizes="35,33,190"),
    Way("{1,0:T(8,128)(8,1)}", "{0,1}", _TURNED_WORDS, _WORDS_TURNED, 4, 8),
    Way("{1,0:T(8,128)(8,1)}", "{1,0}", "deinterleave_bits, pack", "unpack, interleave_bits", 4),
    Way("{0,1:T(8,128)(8,1)}", "{1,0}", _TURNED_WORDS, _WORDS_TURNED, 4, 8),
    Way("{0,1:T(16,128)(16,1)}", "{1,0}", _TURNED_WORDS, _WORDS_TURNED, 2, 8),
    Way("{1,0}", "{0,1}", "unpack, transpose8, pack", "unpack, transpose8, pack", 4),
    # Many small matrices, each a column of a block.
    Way("{1,2,0}", "{2,1,0}", "transpose8, transpose8", "transpose8, transpose8", 8, sizes="403,11,5"),
    Way("{1,2,0}", "{2,1,0}", "transpose8, transpose8", "transpose8, transpose8 or interleave8", 8, sizes="603,4,10"),
    Way("{1,2,0}", "{2,1,0}", "transpose8, transpose8", "transpose8, transpose8", 8, sizes="1203,2,4"),
    Way("{1,2,0}", "{2,1,0}", "transpose16, transpose16", "transpose16, transpose16", 16, sizes="503,5,7"),
    Way("{1,2,0}", "{2,1,0}", "transpose16, transpose16", "transpose16, transpose16", 16, sizes="503,2,7"),
    Way("{1,2,0}", "{2,1,0}", "transpose32, transpose32", "transpose32, transpose32", 32, sizes="403,3,3"),
    Way("{1,3,0,2}", "{3,1,2,0}", "transpose64, transpose64", "transpose64, transpose64", 64, sizes="5,3,141,3"),
    # Words that are moved as they are, and a last one that rows fill in part.
    Way("{0,1,2:T(8,128)(8,1)}", "{2,1,0:T(64,128)(8,1)}", "transpose32", "transpose32", 4, sizes="83,75,41"),
    Way("{2,1,0:T(16,128)(16,1)}", "{2,1,0:T(32,128)(16,1)}", _PACKED_ROWS, _PACKED_ROWS, 2, sizes="40,75,133"),
    # Rows that begin with words.
    Way("{1,0}", "{0,1}", _SQUARES_TURNED, _SQUARES_TURNED, 4, sizes="264,1032"),
    Way("{1,0}", "{0,1}", _SQUARES_TURNED, _SQUARES_TURNED, 4, sizes="1024,24"),
    Way("{1,0}", "{0,1}", _SQUARES_TURNED, _SQUARES_TURNED, 2, sizes="272,784"),
    Way("{1,0}", "{0,1}", _SQUARES_TURNED, _SQUARES_TURNED, 1, sizes="544,352"),
    Way("{2,1,0}", "{1,2,0}", _SQUARES_TURNED, _SQUARES_TURNED, 4, sizes="3,120,264"),
    Way("{0,1,2}", "{2,0,1}", _SQUARES_TURNED, _SQUARES_TURNED, 4, sizes="264,5,136"),
    Way("{1,0:T(8,256)}", "{0,1:T(8,256)}", _SQUARES_TURNED, _SQUARES_TURNED, 4, sizes="200,608"),
    Way("{1,0:T(8,256)}", "{0,1:T(8,256)}", _SQUARES_TURNED, _SQUARES_TURNED, 4, sizes="611,1033"),
]


def _name(way: Way) -> str:
    return f"{way.sizes} {way.bits} to {way.other_bits or way.bits} bits {way.source} {way.target}"


def check_there_and_back(
    shape: str, layouts: tuple[str, str], bits: tuple[int, int], phases: tuple[int, int], kernels: tuple[str, str]
) -> None:
    """Check the conversion between two layouts, and back, by the kernels of a plan."""
    maps = [map_of(f"{shape}{layout}") for layout in layouts]
    for turn, kernel in zip((1, -1), kernels, strict=True):
        (first, second), (low, high) = maps[::turn], bits[::turn]
        source = Guarded(first, low, seed=1, phase=phases[0], signed=True)
        target = Guarded(second, high, seed=2, phase=phases[1])
        check_both(source, target, kernel)


@pytest.mark.parametrize("way", thinned(map(pytest.param, WAYS), 4), ids=_name)
@pytest.mark.parametrize(
    ("phases", "streaming", "small_tasks"),
    [((0, 0), True, False), ((16, 48), True, True), ((5, 11), False, True), ((64, 1), True, True)],
    ids=["on lines", "off lines", "plain stores", "off by a byte"],
)
def test_kernels_do_what_the_general_nest_does(
    way: Way, phases: tuple[int, int], streaming: bool, small_tasks: bool, replace: Callable[..., None]
) -> None:
    replace(stream_bytes=0 if streaming else 1 << 40)
    if small_tasks:
        replace(vector_task_bytes=1 << 12, tiled_block_bytes=1 << 11, staging_bytes=1 << 14, nest_task_elements=1 << 10)
        replace(group_rows=32)
        sd.set_num_threads(3)
    bits = (way.bits, way.other_bits or way.bits)
    check_there_and_back(f"f32[{way.sizes}]", (way.source, way.target), bits, phases, (way.there, way.back))


@pytest.mark.parametrize("phases", [(0, 0), (5, 11)], ids=str)
@pytest.mark.parametrize(("bits", "kernel"), [(8, "transpose8"), (16, "transpose16"), (32, "transpose32")])
@pytest.mark.parametrize(("turn", "extents"), [(1, "340 x 70"), (-1, "70 x 340")], ids=["target", "source"])
def test_rows_of_a_transposition_that_count_on_from_each_other(
    turn: int, extents: str, bits: int, kernel: str, phases: tuple[int, int], replace: Callable[..., None]
) -> None:
    replace(stream_bytes=0, vector_task_bytes=1 << 12)
    maps = [map_of(f"f32[70,5,4,17]{layout}") for layout in ("{0,1,2,3:T(1,128)}", "{3,2,1,0}")][::turn]
    source, target = Guarded(maps[0], bits, seed=1, phase=phases[0]), Guarded(maps[1], bits, seed=2, phase=phases[1])
    check_both(source, target, kernel)
    (step,) = plan_copy(maps[0], maps[1], source.region.storage, target.region.storage).steps
    assert str(step).startswith(f"{kernel} over {extents}")


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "plain stores"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_many_small_matrices(bits: int, streaming: bool, replace: Callable[..., None]) -> None:
    replace(stream_bytes=0 if streaming else 1 << 40)
    # Squares of which so few columns are there that up to 16, and up to 32, bytes of each row are written.
    for rows, columns in itertools.product((16, 34, 64, 67), (3, 5, 12, 20, 33)):
        maps = [map_of(f"f32[3,{rows},{columns}]{{{order},0}}") for order in ("1,2", "2,1")]
        source, target = Guarded(maps[0], bits, seed=1, phase=5), Guarded(maps[1], bits, seed=2, phase=11)
        few = "_few" if columns == 3 and bits < 64 else ""
        check_both(source, target, f"transpose{few}{bits}")


@pytest.mark.parametrize(
    ("bits", "phases"), thinned(itertools.product([8, 16, 32, 64], [(16, 48), (0, 56), (8, 0), (5, 11)]), 5), ids=str
)
def test_squares_that_begin_with_lines_where_rows_do_not(
    bits: int, phases: tuple[int, int], replace: Callable[..., None]
) -> None:
    replace(stream_bytes=1 << 40)
    side = 512 // bits
    # Long rows on both sides, on one, and so many that they are read in bands; and some of each left over.
    for rows, columns in ((9 * side, 8 * side), (3 * side, 9 * side), (max(9 * side, 200), 3 * side)):
        for left_out in (0, 1, side // 2, side - 2):
            parts = slice(0, rows - left_out), slice(0, columns - left_out)
            maps = [window(map_of(f"f32[{rows},{columns}]{{{order}}}"), *parts) for order in ("0,1", "1,0")]
            source, target = (Guarded(maps[k], bits, seed=k, phase=phases[k]) for k in (0, 1))
            check_both(source, target, f"transpose{bits}")


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "plain stores"])
@pytest.mark.parametrize("run", [3, 5, 16, 20, 40])
def test_many_small_matrices_of_runs(run: int, streaming: bool, replace: Callable[..., None]) -> None:
    """What is read behind a run is overwritten, and nothing is read behind the source."""
    replace(stream_bytes=0 if streaming else 1 << 40)
    for rows, columns in itertools.product((5, 67), (2, 3, 21)):
        maps = [map_of(f"f32[3,{rows},{columns},{run}]{{3,{order},0}}") for order in ("1,2", "2,1")]
        source, target = Guarded(maps[0], 8, seed=1, phase=5), Guarded(maps[1], 8, seed=2, phase=11)
        check_both(source, target, "transpose_runs")


@pytest.mark.parametrize(("run", "phase"), thinned(itertools.product([3, 5, 12, 16, 24, 40], [0, 11]), 13))
def test_runs_of_rows_at_multiples_of_a_page(run: int, phase: int, replace: Callable[..., None]) -> None:
    """Such rows are read one after the other, into a block; of the last ones, nothing behind them is read."""
    replace(stream_bytes=0)
    for rows in (40, 67):
        maps = [map_of(f"f32[2,{rows},1024,{run}]{{3,{order},0}}") for order in ("2,1", "1,2")]
        source, target = Guarded(maps[0], 8, seed=1, phase=5), Guarded(maps[1], 8, seed=2, phase=phase)
        check_both(source, target, "transpose_runs")


@pytest.mark.parametrize("phases", [(0, 0), (5, 11)], ids=str)
@pytest.mark.parametrize("tile", ["", ":T(8,64)"], ids=["one piece", "pieces"])
@pytest.mark.parametrize(("bits", "columns"), [(8, 422), (16, 211), (32, 106), (64, 106)])
def test_rows_of_a_transposition_that_are_written_with_the_next_ones(
    bits: int, columns: int, tile: str, phases: tuple[int, int], replace: Callable[..., None]
) -> None:
    # As many rows as are held back, three times as many columns as are turned at once, and some more of both.
    replace(stream_bytes=0, transposed_lanes=64)
    maps = [map_of(f"f32[2,104,{columns}]{layout}") for layout in (f"{{1,2,0{tile}}}", "{2,1,0:T(8,512)}")]
    source, target = Guarded(maps[0], bits, seed=1, phase=phases[0]), Guarded(maps[1], bits, seed=2, phase=phases[1])
    check_both(source, target, f"transpose{bits}")


@pytest.mark.parametrize("phases", [(0, 0), (5, 11)], ids=str)
@pytest.mark.parametrize(
    ("tile", "bits", "there", "back"),
    [
        ("T(8,128)(2,1)", (16, 16), "deinterleave16, transpose16", "transpose16, interleave16 or transpose16"),
        ("T(8,128)(4,1)", (8, 8), "deinterleave8, transpose8", "transpose8, interleave8"),
        ("T(8,128)(8,1)", (4, 8), "deinterleave_bits, transpose8", "transpose8, interleave_bits"),
    ],
)
def test_short_runs_that_go_on_along_another_axis(
    tile: str, bits: tuple[int, int], there: str, back: str, phases: tuple[int, int], replace: Callable[..., None]
) -> None:
    replace(stream_bytes=0)
    check_there_and_back("f32[100,9,16,5]", (f"{{0,2,3,1:{tile}}}", "{3,2,1,0}"), bits, phases, (there, back))


@pytest.mark.parametrize("phases", [(0, 0), (5, 11)], ids=str)
@pytest.mark.parametrize("outer", thinned([19, 16], 2))
@pytest.mark.parametrize(
    ("tile", "bits", "there", "back"),
    [
        ("T(4,128)(2,1)", (16, 16), "transpose16, rows", "transpose16"),
        ("T(4,128)(4,1)", (8, 8), "transpose32, deinterleave8", "transpose8 or transpose8, interleave8"),
        ("T(8,128)(8,1)", (4, 8), "transpose32, deinterleave_bits", "interleave_bits, transpose32"),
    ],
)
def test_words_along_one_axis_and_rows_along_another(
    tile: str,
    bits: tuple[int, int],
    there: str,
    back: str,
    outer: int,
    phases: tuple[int, int],
    replace: Callable[..., None],
) -> None:
    replace(stream_bytes=0, staging_bytes=1 << 16)
    check_there_and_back(f"f32[{outer},150,70]", (f"{{1,0,2:{tile}}}", "{2,1,0}"), bits, phases, (there, back))


@pytest.mark.parametrize(
    ("sizes", "layout", "bits", "there", "back"),
    [
        ("69,300", "{0,1:T(8,128)(8,1)}", 4, "transpose32, unpack", "pack, transpose32"),
        ("5,300,69", "{1,2,0:T(16,128)(16,1)}", 2, "transpose32, unpack", "pack, transpose32"),
        ("300,99", "{0,1:T(32,128)(32,1)}", 1, "transpose_few32, unpack", "pack, transpose_few32"),
        ("15,50,300", "{1,0,2:T(16,128)(16,1)}", 2, "transpose32, deinterleave_bits", "interleave_bits, transpose32"),
    ],
)
@pytest.mark.parametrize("staging_bytes", [1 << 13, 1 << 20])
def test_words_that_rows_fill_in_part(
    sizes: str,
    layout: str,
    bits: int,
    there: str,
    back: str,
    staging_bytes: int,
    replace: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What lies in them besides stays; where the last one does not end in the buffer, words are not moved whole."""
    monkeypatch.setattr(cost_model, "_FETCH_COST", 0.0)
    monkeypatch.setattr(cost_model, "_PART_OF_WORD_COST", 1e4)
    monkeypatch.setattr(cost_model, "_PACKED_RUN_COST", 0.0)
    replace(stream_bytes=0, staging_bytes=staging_bytes)
    maps = [map_of(f"f32[{sizes}]{text}") for text in (layout, "")]
    for turn, kernel in ((1, there), (-1, back)):
        (first, second), (low, high) = maps[::turn], (bits, 8)[::turn]
        check_both(Guarded(first, low, seed=1, spare=3), Guarded(second, high, seed=2, spare=3), kernel)
        check(Guarded(first, low, seed=3), Guarded(second, high, seed=4))


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "plain stores"])
@pytest.mark.parametrize("phases", [(0, 0), (5, 11)], ids=str)
@pytest.mark.parametrize(
    ("sizes", "tile", "bits", "kernel"),
    [
        ("60,100,7", "(8,128)(4,1)", 8, "short_rows"),
        ("60,200,11", "(8,128)(4,1)", 8, "transpose32 + short_rows"),
        ("60,100,31", "(8,128)(2,1)", 16, "transpose32 + short_rows"),
    ],
)
def test_several_kernels_each_do_a_part_of_every_block(
    sizes: str,
    tile: str,
    bits: int,
    kernel: str,
    phases: tuple[int, int],
    streaming: bool,
    replace: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replace(stream_bytes=0 if streaming else 1 << 40, staging_bytes=1 << 14)
    monkeypatch.setattr(cost_model, "_AGAIN", 1e4)
    for name in ("transpose8", "transpose16"):
        monkeypatch.setitem(KINDS, name, dataclasses.replace(KINDS[name], cost=1e3))
    tiled = map_of(f"f32[{sizes}]{{1,2,0:T{tile}}}")
    dense = row_major(tiled.shape)
    source, target = Guarded(dense, bits, seed=1, phase=phases[0]), Guarded(tiled, bits, seed=2, phase=phases[1])
    check_both(source, target, kernel)
    (step,) = plan_copy(dense, tiled, source.region.storage, target.region.storage).steps
    assert isinstance(step, StagedCopy)
    assert len(list(step.tasks())) > 2


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "plain stores"])
@pytest.mark.parametrize("low_first", [True, False], ids=["low first", "high first"])
@pytest.mark.parametrize(("bits", "rows"), thinned([(1, 32), (2, 16), (4, 8), (4, 64)], 3))
def test_runs_that_are_packed_into_words(
    bits: int, rows: int, low_first: bool, streaming: bool, replace: Callable[..., None]
) -> None:
    """Words that they fill in part keep the rest. Nothing lies behind either buffer, which may end inside a word."""
    replace(stream_bytes=0 if streaming else 1 << 40, vector_task_bytes=1 << 12)
    each, found = 32 // bits, []
    for lanes, run in itertools.product((16, 130, 300), (1, 3, each // 2, each // 2 + 1, each - 1, each, 2 * each + 3)):
        maps = [map_of(f"f32[3,{lanes},{run}]{text}") for text in ("", f"{{1,2,0:T({rows},128)({each},1)}}")]
        for phase in ((0, 0), (5, 64)):
            source = Guarded(maps[0], 8, seed=1, phase=phase[0])
            target = Guarded(maps[1], bits, seed=2, phase=phase[1], low_first=low_first)
            found.append(check(source, target))
    assert "pack_words" in found


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "plain stores"])
@pytest.mark.parametrize("phase", thinned([0, 4, 1], 2))
@pytest.mark.parametrize(("bits", "rows"), thinned([(1, 32), (2, 16), (4, 8), (4, 64)], 5))
def test_runs_far_apart_that_are_packed_into_words(
    bits: int, rows: int, phase: int, streaming: bool, replace: Callable[..., None]
) -> None:
    """In squares of words, some of which lack rows, words or the last elements; from any word of a line on."""
    replace(stream_bytes=0 if streaming else 1 << 40, vector_task_bytes=1 << 13)
    each = 32 // bits
    for lanes, run, first in itertools.product(
        (16, 31, 150), (each, 3 * each, 4 * each, 5 * each - 1, 11 * each + 1), (0, 5)
    ):
        dense, tiled = map_of(f"f32[{lanes},3,{run}]"), map_of(f"f32[{lanes},3,{run}]{{0,2,1:T({rows},128)({each},1)}}")
        maps = [window(map_, slice(first if lanes > 16 else 0, None)) for map_ in (dense, tiled)]
        source, target = Guarded(maps[0], 8, seed=1, phase=phase), Guarded(maps[1], bits, seed=2, phase=phase)
        check_both(source, target, "pack_words")


@pytest.mark.parametrize(
    ("there", "back", "kernel", "bits", "low_first", "streaming"),
    thinned(
        (
            (*orders, *how)
            for orders in (("2,1,0", "1,2,0", "transpose_words"), ("3,1,2,0", "3,2,1,0", "exchange"))
            for how in itertools.product([1, 2, 4, 8, 16], [True, False], [True, False])
        ),
        17,
    ),
)
def test_words_that_rows_share_on_both_sides(
    there: str, back: str, kernel: str, bits: int, low_first: bool, streaming: bool, replace: Callable[..., None]
) -> None:
    """Any number of rows on either side: what lies besides in words of the target stays, in padding and windows too."""
    replace(stream_bytes=0 if streaming else 1 << 40, vector_task_bytes=1 << 11, group_rows=8)
    sd.set_num_threads(2)
    each = 32 // bits
    counts = sorted({1, 2, each // 2, each - 1, each, each + 1, 2 * each, 3 * each - 1})
    lanes = itertools.cycle(("16", "17", "150"))
    # Each pair of counts with one of these, and with another one where the order of bits or the streaming differs.
    ways = itertools.cycle(((0, 0), (64, 0), (5, 1), (64, 1), (5, 0), (0, 0), (5, 1)))
    for _ in range(2 * low_first + streaming):
        next(ways)
    found = set()
    for rows, columns in itertools.product(counts, counts):
        sizes = f"3,{rows},{columns}" + (f",{next(lanes)}" if kernel == "exchange" else "")
        tile = f":T({max(8, each)},128)({each},1)}}"
        maps = [map_of(f"f32[{sizes}]{{{order}{tile}") for order in (there, back)]
        phase, start = next(ways)
        # From the second matrix on, or the second row, which shares its words with the first.
        key = [slice(start, None), slice(start if rows > 8 else 0, None)]
        source, target = (window(map_, *key, *[slice(None)] * (len(map_.shape) - 2)) for map_ in maps)
        found.add(
            check(
                Guarded(source, bits, seed=1, low_first=low_first),
                Guarded(target, bits, seed=2, low_first=low_first, phase=phase),
            )
        )
    assert f"{kernel}{bits}" in found


@pytest.mark.parametrize("phase", [0, 4, 64])
@pytest.mark.parametrize(("bits", "streaming"), thinned(itertools.product([1, 2, 4, 8, 16], [True, False]), 5))
def test_long_rows_of_words_that_rows_share_on_both_sides(
    bits: int, streaming: bool, phase: int, replace: Callable[..., None]
) -> None:
    """As many as are moved together, few more, and many more; targets that begin inside a line."""
    replace(stream_bytes=0 if streaming else 1 << 40, vector_task_bytes=1 << 20, group_rows=64)
    each, tile = 32 // bits, f":T({max(8, 32 // bits)},256)({32 // bits},1)}}"
    # Blocks, of as many rows and columns, in a row of the source, and in one of the target.
    for blocks, count in ((5, 33), (9, 49), (3, 130), (512 // each // 4 + 1, 7)):
        for rows, columns in ((count * each - 1, blocks * each + 1), (count * each + 1, blocks * each - 1)):
            maps = [map_of(f"f32[2,{rows},{columns}]{{{order}{tile}") for order in ("2,1,0", "1,2,0")]
            source, target = Guarded(maps[0], bits, seed=1, phase=phase), Guarded(maps[1], bits, seed=2, phase=phase)
            assert check(source, target) == f"transpose_words{bits}"


@pytest.mark.parametrize(("bits", "streaming"), thinned(itertools.product([1, 2, 4, 8, 16], [True, False]), 3))
def test_words_that_rows_share_on_both_sides_in_several_tiles(
    bits: int, streaming: bool, replace: Callable[..., None]
) -> None:
    """Only in the last tile a row has less than its words; and behind it, the source may end."""
    replace(stream_bytes=0 if streaming else 1 << 40, vector_task_bytes=1 << 20, group_rows=64)
    each = 32 // bits
    # Blocks, of as many rows and columns, in a row of a tile, in a row of the source, and in one of the target.
    for tile, blocks, count in ((3, 5, 8), (9, 11, 20), (9, 17, 10), (24, 31, 29), (2, 2, 3)):
        layout = f":T({2 * max(8, each)},{tile * each})({each},1)}}"
        for missing, phase in ((1, 0), (each - 1, 0), (1, 4), (0, 5)):
            sizes = 2, count * each - missing, blocks * each - missing
            maps = [map_of(f"f32[{','.join(map(str, sizes))}]{{{order}{layout}") for order in ("2,1,0", "1,2,0")]
            source, target = Guarded(maps[0], bits, seed=1), Guarded(maps[1], bits, seed=2, phase=phase)
            assert check(source, target) in (f"transpose_words{bits}", "transpose_pairs")


def test_words_that_rows_share_on_both_sides_in_opposite_orders() -> None:
    """Packed elements are no longer moved by whole words."""
    maps = [map_of(f"f32[40,40]{{{order}:T(8,128)(8,1)}}") for order in ("1,0", "0,1")]
    for low_first in (True, False):
        source = Guarded(maps[0], 4, seed=1, low_first=low_first)
        target = Guarded(maps[1], 4, seed=2, low_first=not low_first)
        assert not check(source, target).startswith("transpose_words")


@pytest.mark.parametrize("streaming", thinned([True, False], 2), ids=["streaming", "plain stores"])
@pytest.mark.parametrize(
    "shape", thinned(["[70,17,23,20]{0,2,3,1:", "[70,17,30,25]{0,2,3,1:", "[9,70,25,5,4]{1,2,4,3,0:"], 5)
)
@pytest.mark.parametrize(("bits", "tile"), [(2, "T(16,128)(16,1)"), (4, "T(8,128)(8,1)"), (8, "T(8,128)(4,1)")])
def test_rows_of_which_words_have_a_part(
    bits: int, tile: str, shape: str, streaming: bool, replace: Callable[..., None]
) -> None:
    """They go on in the runs of the other side, and are moved with the others, or alone."""
    replace(stream_bytes=0 if streaming else 1 << 40, staging_bytes=1 << 14)
    dense, tiled = map_of("f32" + shape.split("{")[0]), map_of(f"f32{shape}{tile}}}")
    for phase in (0, 5):
        check(Guarded(tiled, bits, seed=1), Guarded(dense, 8, seed=2, phase=phase))
        check(Guarded(dense, 8, seed=3, phase=phase), Guarded(tiled, bits, seed=4))


@pytest.mark.parametrize(("bits", "columns"), [(8, 74), (8, 907), (8, 79), (16, 45), (16, 47)])
@pytest.mark.parametrize("planes", [1, 3])
def test_rows_that_end_inside_of_words_are_not_cut_where_tiles_end(planes: int, bits: int, columns: int) -> None:
    """A window that begins inside a tile has whole rows in each task: the kernel is told how long they are."""
    each = 32 // bits
    whole = map_of(f"u8[{planes},140,{columns}]{{1,2,0:T(8,128)({each},1)}}")
    for first in (each, 3 * each):
        source = Guarded(window(whole, slice(None), slice(None), slice(first, None)), bits, seed=1, spare=4)
        target = Guarded(row_major(source.region.map.shape), bits, seed=2)
        regions = source.region, target.region
        (step,) = plan_copy(*(each.map for each in regions), *(each.storage for each in regions)).steps
        assert isinstance(step, VectorStep)
        rows = {(part.start, part.stop) for part in (task[step.row] for task in step.tasks())}
        assert (step.kernel, rows) == ("transpose_cut32", {(0, step.axes[step.row].extent)})
        check(source, target)


@pytest.mark.parametrize(("bits", "first", "count"), [(8, 2, 3), (8, 2, 2), (16, 1, 2), (4, 6, 5), (4, 2, 5)])
def test_rows_that_begin_in_one_word_and_end_in_the_next_one(bits: int, first: int, count: int) -> None:
    """Their words begin with the first of them, if that is a byte: each word has all of them."""
    words = AddressMap.from_strides((300, count), (32 // bits, 1), first)
    rows = AddressMap.from_strides((300, count), (1, 300), 0)
    kinds = {
        check(Guarded(words, bits, seed=1, spare=4), Guarded(rows, max(8, bits), seed=2)),
        check(Guarded(rows, max(8, bits), seed=3), Guarded(words, bits, seed=4, spare=4)),
    }
    kind = bits if bits >= 8 else "_bits"
    assert kinds == {f"deinterleave{kind}", f"interleave{kind}"}


@pytest.mark.parametrize("low_first", [True, False], ids=["low first", "high first"])
@pytest.mark.parametrize(
    ("source", "order", "kernel"),
    [
        ("f32[40,300]{1,0:T(8,128)(8,1)}", "0,1", "transpose32, unpack"),
        ("f32[5,40,300]{2,1,0:T(8,128)(8,1)}", "0,2,1", "transpose32, deinterleave_bits"),
        ("f32[5,40,300]{0,2,1}", "2,1,0", "unpack, transpose8"),
    ],
)
def test_packed_elements_keep_their_order_in_blocks(
    source: str, order: str, kernel: str, low_first: bool, replace: Callable[..., None]
) -> None:
    """And their sign, which they have once they are bytes."""
    replace(staged_elements=0)
    maps = map_of(source), map_of(f"{source.split('{')[0]}{{{order}}}")
    for signed in (True, False):
        packed = Guarded(maps[0], 4, seed=1, low_first=low_first, signed=signed)
        assert check(packed, Guarded(maps[1], 8, seed=2)) == kernel


@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize(("source", "target"), thinned(itertools.permutations(itertools.permutations(range(3)), 2), 7))
def test_packed_rows_that_begin_inside_of_bytes_are_moved_by_kernels(
    source: tuple[int, ...], target: tuple[int, ...], bits: int, replace: Callable[..., None]
) -> None:
    """They follow each other in a block, too: none is moved element by element, unless few are."""
    replace(staged_elements=0)
    maps = [map_of(f"f32[11,29,135]{{{','.join(map(str, order))}}}") for order in (source, target)]
    for low_first in (True, False):
        first = Guarded(maps[0], bits, seed=1, spare=4, low_first=low_first)
        kernels = check(first, Guarded(maps[1], bits, seed=2, spare=4))
        assert not kernels.startswith("nest")
    assert check(Guarded(maps[0], bits, seed=3), Guarded(maps[1], 8, seed=4)) != "nest_bits"
    assert check(Guarded(maps[0], 8, seed=5), Guarded(maps[1], bits, seed=6, spare=4)) != "nest_bits"


@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize("rows", [5, 13, 33])
def test_words_that_lack_rows_leave_what_lies_behind_their_own_in_blocks(
    rows: int, bits: int, replace: Callable[..., None]
) -> None:
    """Whole words are moved only into blocks whose rows have room for them: others would be written over."""
    replace(staged_elements=0)
    each = 32 // bits
    for width, source, target in (
        (8, "{2,1,0:T(8,128)(4,1)}", "{1,0,2}"),
        (bits, f"{{2,1,0:T({each},128)({each},1)}}", f"{{0,1,2:T(8,128)({each},1)}}"),
    ):
        maps = [map_of(f"f32[3,{rows},37]{layout}") for layout in (source, target)]
        check(Guarded(maps[0], width, seed=1, spare=4), Guarded(maps[1], bits, seed=2, spare=4))


def test_words_that_follow_each_other_for_half_a_line(replace: Callable[..., None]) -> None:
    """Those behind them begin another line."""
    replace(stream_bytes=0)
    source, target = map_of("f32[256,1024]"), map_of("f32[256,1024]{1,0:T(8,8)}")
    check_both(Guarded(source, 8, seed=1), Guarded(target, 4, seed=2), "pack_words")


def test_words_whose_bytes_lie_in_pieces() -> None:
    source, target = map_of("f32[2,8,8]{2,1,0:T(64)(3)(64)}"), map_of("f32[2,8,8]{2,1,0:T(2,8)L(128)}")
    check(Guarded(source, 8, seed=1), Guarded(target, 4, seed=2))


@pytest.mark.parametrize("phases", [(0, 0), (5, 11)], ids=str)
@pytest.mark.parametrize(
    ("tile", "bits", "kernel"),
    [
        ("T(8,128)(2,1)", (16, 16), "deinterleave16"),
        ("T(8,128)(4,1)", (8, 8), "deinterleave8"),
        ("T(8,128)(8,1)", (4, 8), "deinterleave_bits"),
    ],
)
def test_words_whose_lanes_count_on_in_the_target(
    tile: str, bits: tuple[int, int], kernel: str, phases: tuple[int, int], replace: Callable[..., None]
) -> None:
    replace(stream_bytes=0, vector_task_bytes=1 << 12)
    maps = [map_of(f"f32[3,21,7,47]{layout}") for layout in (f"{{3,1,2,0:{tile}}}", "{3,2,1,0}")]
    source = Guarded(maps[0], bits[0], seed=1, phase=phases[0], signed=True)
    target = Guarded(maps[1], bits[1], seed=2, phase=phases[1])
    check_both(source, target, kernel)
    (step,) = plan_copy(maps[0], maps[1], source.region.storage, target.region.storage).steps
    assert str(step).startswith(f"{kernel} over 3 x 21 x 329")


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "plain stores"])
@pytest.mark.parametrize("phases", thinned(map(pytest.param, [(5, 11), (0, 0)]), 2), ids=str)
@pytest.mark.parametrize(
    ("bits", "layout", "kernels"),
    [
        # Matrices of rows, in the order of the source.
        (32, "[6,21,128]{2,0,1:T(8,128)}", ("rows", "rows")),
        (32, "[6,21,100]{2,0,1:T(2,128)}", ("rows", "rows")),
        (64, "[3,5,7,130]{3,0,2,1:T(8,128)}", ("rows", "rows")),
        # Tile by tile, each row's part of one on its own page.
        (8, "[32,21,128]{2,0,1:T(8,128)(4,1)}", ("deinterleave8", "interleave8")),
        (8, "[64,3,9,256]{3,0,2,1:T(32,128)(4,1)}", ("deinterleave8", "interleave8")),
        # The two rows of each word, with all that lies between them.
        (16, "[3,10,5,128]{3,1,2,0:T(8,128)(2,1)}", ("deinterleave16", "interleave16")),
        (16, "[2,6,7,256]{3,1,2,0:T(8,128)(2,1)}", ("deinterleave16", "interleave16")),
    ],
)
def test_rows_that_change_places(
    bits: int,
    layout: str,
    kernels: tuple[str, str],
    phases: tuple[int, int],
    streaming: bool,
    replace: Callable[..., None],
) -> None:
    replace(stream_bytes=0 if streaming else 1 << 40)
    tiled = map_of(f"u{bits}{layout}")
    dense = row_major(tiled.shape)
    for source, target, kernel in ((tiled, dense, kernels[0]), (dense, tiled, kernels[1])):
        first = Guarded(source, bits, seed=1, phase=phases[0])
        check_both(first, Guarded(target, bits, seed=2, phase=phases[1]), kernel)


def test_elements_without_neighbours_on_either_side() -> None:
    source = map_of("f32[17,1429]{1,0:T(1,3)}").sliced(1, 1093, -3, 365)
    target = AddressMap.from_strides((17, 365), [1460, 4])
    for bits in (8, 16):
        check(Guarded(source, bits, seed=1), Guarded(target, bits, seed=2))


@st.composite
def packed_rows(draw: st.DrawFn) -> tuple[Guarded, Guarded]:
    """Rows of whole words, along one axis in the source and another in the target, often with an odd size in tiles."""
    bits = draw(st.sampled_from([1, 2, 4]))
    each, rank = 32 // bits, draw(st.integers(2, 4))
    orders = draw(st.permutations(range(rank))), draw(st.permutations(range(rank)))
    sizes = [draw(st.integers(1, 5)) for _ in range(rank)]
    sides = []
    for order in orders:
        sizes[order[0]] = each * draw(st.integers(1, 12))
    if odd := draw(st.booleans()):
        for order in orders:
            sizes[order[0]] += draw(st.integers(0, each - 1))
    for order in orders:
        tile = f":T({draw(st.integers(1, 3))},{each * draw(st.integers(1, 9))})" if odd or draw(st.booleans()) else ""
        map_ = map_of(f"f32[{','.join(map(str, sizes))}]{{{','.join(map(str, order))}{tile}}}")
        sides.append(Guarded(map_, bits, seed=draw(st.integers(0, 9)), phase=draw(st.integers(0, 63))))
    return sides[0], sides[1]


@given(packed_rows(), st.sampled_from([1 << 9, 1 << 12, 1 << 21]))
@examples(200)
def test_packed_rows_along_other_axes(copy: tuple[Guarded, Guarded], block: int) -> None:
    with limits.replaced(**_SMALL, staging_bytes=block):
        check(*copy)


@pytest.mark.parametrize(("bits", "tile", "member"), [(16, "(2,1)", 2), (8, "(4,1)", 4)])
@pytest.mark.parametrize("lanes", [(0, 140), (5, 130)], ids=str)
def test_words_of_rows_are_runs_of_a_transposition(
    bits: int, tile: str, member: int, lanes: tuple[int, int], replace: Callable[..., None]
) -> None:
    """Rows that share words are neighbours there, and so are the words, as far as their tile goes."""
    replace(stream_bytes=0, vector_task_bytes=1 << 12)
    tiled = (
        map_of(f"f32[16,140,{2400 // bits}]{{1,0,2:T(8,128){tile}}}")
        .sliced(0, 8, 1, 8)
        .sliced(1, lanes[0], 1, lanes[1])
    )
    dense = row_major(tiled.shape)
    for first, second in ((tiled, dense), (dense, tiled)):
        source, target = Guarded(first, bits, seed=1, phase=5), Guarded(second, bits, seed=2, phase=11)
        check_both(source, target, f"transpose{bits}")
        (step,) = plan_copy(first, second, source.region.storage, target.region.storage).steps
        assert str(member * lanes[1]) in str(step)


@pytest.mark.parametrize("key", [np.s_[:, :, :, :], np.s_[:, 1:, 1:, 3:]], ids=["whole", "window"])
@pytest.mark.parametrize("order", ["0,3,2,1", "0,2,3,1"])
@pytest.mark.parametrize("bits", [32, 128])
def test_transposed_runs_that_go_on_beyond_a_tile(
    bits: int, order: str, key: tuple[slice, ...], replace: Callable[..., None]
) -> None:
    """Runs of the dense side are joined, though the other side ends a tile inside them."""
    replace(stream_bytes=0, vector_task_bytes=1 << 12, long_row_bytes=bits * 4, staged_elements=1 << 40)
    tiled = map_of(f"f32[20,3,19,11]{{{order}:T(8,128)}}")
    for axis, (part, n) in enumerate(zip(key, tiled.shape, strict=True)):
        start, stop, step = part.indices(n)
        tiled = tiled.sliced(axis, start, step, len(range(start, stop, step)))
    dense = row_major(tiled.shape)
    kernel = "transpose_runs" if bits == 128 else f"transpose{bits}"
    for first, second in ((tiled, dense), (dense, tiled)):
        source, target = Guarded(first, bits, seed=1, phase=5), Guarded(second, bits, seed=2, phase=11)
        check_both(source, target, kernel)
        (step,) = plan_copy(first, second, source.region.storage, target.region.storage).steps
        assert isinstance(step, VectorStep)
        assert any(axis.extent % math.prod(tiled.shape[2:]) == 0 for axis in step.axes)


@pytest.mark.parametrize("unit", [2, 3, 5, 7, 11])
@pytest.mark.parametrize(("bits", "few"), [(8, 2), (8, 3), (16, 3), (16, 4), (32, 2), (32, 3), (32, 4), (64, 2)])
def test_tasks_that_begin_with_the_last_of_some_rows_that_take_turns(
    bits: int, few: int, unit: int, replace: Callable[..., None]
) -> None:
    """Only `unit` rows in a row take turns: the first two of a task may be the end of some and the next ones' start."""
    replace(vector_task_bytes=1 << 10, staged_elements=1 << 40)
    first, second = map_of(f"f32[{few},311,4,{unit}]{{0,3,1,2}}"), map_of(f"f32[{few},311,4,{unit}]{{3,2,1,0}}")
    for maps in ((first, second), (second, first)):
        source, target = Guarded(maps[0], bits, seed=1), Guarded(maps[1], bits, seed=2)
        check_both(source, target, f"transpose_few{bits}")


@pytest.mark.parametrize("way", [1, -1])
@pytest.mark.parametrize(("bits", "few"), [(8, 2), (8, 3), (16, 3), (16, 4), (32, 2), (32, 3), (32, 4), (64, 2)])
def test_few_rows_that_take_turns_are_not_cut_by_tiles_of_the_other_side(
    bits: int, few: int, way: int, replace: Callable[..., None]
) -> None:
    replace(vector_task_bytes=1 << 10, staged_elements=1 << 40)
    tiled = map_of(f"f32[137,{few + 1}]{{0,1:T({few},128)}}")
    window = tiled.sliced(1, *((1, 1) if way > 0 else (few, -1)), few)
    for maps in ((window, row_major(window.shape)), (row_major(window.shape), window)):
        source, target = Guarded(maps[0], bits, seed=1), Guarded(maps[1], bits, seed=2)
        check_both(source, target, f"transpose_few{bits}")


@pytest.mark.parametrize(
    ("bits", "tile", "step"), [(16, "(2,1)", 2), (16, "(2,1)", -1), (8, "(4,1)", 2), (8, "(4,1)", -1)]
)
def test_rows_that_take_some_elements_of_words_are_not_made_of_words(bits: int, tile: str, step: int) -> None:
    words = window(map_of(f"f32[300,3,75]{{1,2,0:T(8,7){tile}}}"), slice(2, None), slice(None), slice(None, None, step))
    source, target = Guarded(words, bits, seed=1, spare=4), Guarded(row_major(words.shape), bits, seed=2)
    check(source, target)


@pytest.mark.parametrize("count", [70, 513, 1027])
@pytest.mark.parametrize("bits", [16, 8, 4])
def test_words_that_are_not_full_are_those_of_the_last_task(
    bits: int, count: int, replace: Callable[..., None]
) -> None:
    """Other tasks along the same axis have tables like those of the last one."""
    replace(vector_task_bytes=1 << 8, transposed_lanes=8)
    first, second = (map_of(f"f32[5,{count}]{{{order}:T(8,128)({32 // bits},1)}}") for order in ("1,0", "0,1"))
    for maps in ((first, second), (second, first)):
        source, target = Guarded(maps[0], bits, seed=1, spare=4), Guarded(maps[1], bits, seed=2, spare=4)
        check_both(source, target, f"transpose_words{bits}")


def test_rows_that_end_inside_of_words_are_short_enough_for_the_scratch() -> None:
    for count, is_short in ((509, True), (511, True), (513, False), (515, False), (1025, False)):
        words = map_of(f"f32[300,{count}]{{0,1:T(8,128)(2,1)}}")
        plan = plan_copy(words, row_major(words.shape), Storage(16), Storage(16))
        assert (plan.kernel == "transpose_cut32") == is_short


@pytest.mark.parametrize(
    ("bits", "sizes", "layouts"),
    [
        (1, "100,66", ("{0,1:T(64,16)(32,1)}", "{0,1:T(8,128)(4,1)}")),
        (2, "257,9,17", ("{1,2,0:T(16,7)(16,1)}", "{1,2,0:T(4,7)(4,1)}")),
        (4, "39,33", ("{0,1:T(8,128)(8,1)}", "{0,1:T(4,128)(4,1)}")),
    ],
)
def test_blocks_of_packed_elements_write_no_more_than_their_bytes(
    bits: int, sizes: str, layouts: tuple[str, str], replace: Callable[..., None]
) -> None:
    """Words of bytes that rows do not fill have others in them, which may be written meanwhile."""
    replace(staged_elements=0, staging_bytes=1 << 13, vector_task_bytes=256)
    first, second = (map_of(f"f32[{sizes}]{layout}") for layout in layouts)
    source, target = Guarded(first, bits, seed=1), Guarded(second, 8, seed=2)
    assert "unpack" in check(source, target)


@pytest.mark.parametrize("phases", [(0, 0), (5, 11)], ids=str)
@pytest.mark.parametrize(("bits", "tile", "rows"), [(16, "(2,1)", 2), (8, "(4,1)", 4)])
def test_lanes_that_go_on_in_the_next_words(
    bits: int, tile: str, rows: int, phases: tuple[int, int], replace: Callable[..., None]
) -> None:
    replace(stream_bytes=0, vector_task_bytes=1 << 12)
    maps = [map_of(f"f32[{20 * 1024}]{layout}") for layout in (f"{{0:T(1024)(128){tile}}}", "{0}")]
    for turn, kernel in ((1, f"deinterleave{bits}"), (-1, f"interleave{bits}")):
        first, second = maps[::turn]
        source, target = Guarded(first, bits, seed=1, phase=phases[0]), Guarded(second, bits, seed=2, phase=phases[1])
        check_both(source, target, kernel)
        (step,) = plan_copy(first, second, source.region.storage, target.region.storage).steps
        assert str(step).startswith(f"{kernel} over {rows} x {20 * 1024 // rows}")


def test_every_kernel_that_copies_by_pattern_is_in_the_table() -> None:
    used = {
        name for way in WAYS for kernels in (way.there, way.back) for name in re.split(r", | or | \+ ", kernels)
    } - {"nest_bits"}
    homes = {
        "interleave",
        "exchange_rows",
        "transpose_words",
        "short_rows",
        "interleave_bits",
        "packed_runs",
        "packed_words",
        "transpose",
        "transpose_cut",
        "transpose_few",
        "transpose_runs",
        "contiguous",
    }
    assert used == {name for name, module in HOMES.items() if module in homes and name != "fill"}


# --- anything regular -------------------------------------------------------------------------------------------------

_TILES = """
    T(8,128) T(8,128)(2,1) T(8,128)(4,1) T(32,128)(4,1) T(8,128)(8,1) T(2,128)(2,1) T(4,128)(4,1) T(128) T(3,5) T(2,2)
    T(1024)(128)(2,1) T(1024)(128)(4,1) T(16)(4)(2,1) T(4,8)(2,1) T(2,16,8) T(16,16)(8,4)(2,1) T(*,4) T(2,*,3)
    T(4,8)(3,1)
""".split()
_SIZES = [1, 2, 3, 5, 7, 8, 9, 16, 17, 31, 32, 64, 100, 129, 260]


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, ...]) -> AddressMap:
    """A view of this shape on an array in some layout: whole, a window, with steps, reversed, transposed or spread."""
    parents, parts = [], []
    for n in shape:
        step = draw(st.sampled_from([1, 1, 1, 1, 1, 1, 2, 3, 4, -1, -2]))
        before, after = (draw(st.sampled_from([0, 0, 0, 1, 2, 5, 8, 130])) for _ in range(2))
        reach = (n - 1) * abs(step) + 1 if n else 0
        if math.prod(parents) * (before + reach + after) > 1 << 18:
            before = after = 0
        parents.append(before + reach + after)
        parts.append((before if step > 0 else before + reach - 1, step, n))
    order = draw(st.permutations(range(len(shape))))
    text = f"f32[{','.join(map(str, parents))}]{{{','.join(map(str, order))}"
    tile = draw(st.sampled_from(["", *_TILES]))
    try:
        map_ = map_of(f"{text}:{tile}}}" if tile else f"{text}}}" if shape else "f32[]")
    except sd.StridedError:
        map_ = map_of(f"{text}}}")
    if map_.upper_bound > 1 << 19:
        map_ = map_of(f"{text}}}")
    for axis, (start, step, count) in enumerate(parts):
        map_ = map_.sliced(axis, max(0, start), step, count)
    return map_


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, ...]:
    sizes: list[int] = []
    for _ in range(draw(st.integers(0, 4))):
        sizes.append(draw(st.sampled_from(_SIZES)))
        while math.prod(sizes) > 12_000:
            sizes[sizes.index(max(sizes))] //= 2
    if sizes and draw(st.integers(0, 20)) == 0:
        sizes[draw(st.integers(0, len(sizes) - 1))] = 0
    return tuple(sizes)


@st.composite
def copies(draw: st.DrawFn) -> tuple[Guarded, Guarded, dict[str, Any]]:
    """A source, a target, and how the work is cut up."""
    shape = draw(shapes())
    dense = draw(st.sampled_from(["neither", "source", "target"]))
    first = row_major(shape) if dense == "source" else draw(views(shape))
    second = row_major(shape) if dense == "target" else draw(views(shape))
    if shape and shape[0] and draw(st.integers(0, 8)) == 0:
        first = first.at(0, 0).broadcast_to(shape)
    bits = draw(
        st.sampled_from([(b, b) for b in (1, 2, 4, 8, 16, 32, 64, 128)] + [(4, 8), (2, 8), (1, 8), (8, 4), (8, 2)])
    )
    sides = []
    for map_, width in ((first, bits[0]), (second, bits[1])):
        how = {"low_first": draw(st.booleans()), "signed": draw(st.booleans())} if width < 8 else {}
        sides.append(Guarded(map_, width, seed=draw(st.integers(0, 9)), phase=draw(st.integers(0, 63)), **how))
    cut = {
        "threads": draw(st.sampled_from([1, 2, 3])),
        "task": draw(st.sampled_from([1 << 9, 1 << 12, 1 << 21])),
        "indices": draw(st.sampled_from([50, 1 << 16])),
        "group": draw(st.sampled_from([8, 48, 1 << 8])),
        "stream": draw(st.sampled_from([0, 1 << 40])),
    }
    return sides[0], sides[1], cut


@given(copies(), st.booleans())
@examples(240)
def test_any_copy(copy: tuple[Guarded, Guarded, dict[str, Any]], general: bool) -> None:
    source, target, cut = copy
    sd.set_num_threads(cut["threads"])
    tasks = ("vector_task_bytes", "staging_bytes", "nest_task_elements")
    shorter = {name: min(getattr(limits.current, name), cut["task"]) for name in tasks}
    shorter |= {"table_rows": cut["indices"], "group_rows": cut["group"]}
    with limits.replaced(**shorter, **_SMALL, stream_bytes=cut["stream"]):
        check(source, target, general=general)


@pytest.mark.parametrize(
    ("text", "key", "bits"),
    thinned(
        [
            ("u4[16,70000]{1,0:T(8,16)}", np.s_[7:9, 5:], 4),
            ("u4[24,200000]{1,0:T(8,16)}", np.s_[0:17, 5:], 4),
            ("u4[17,70000]{1,0:T(8,5)}", np.s_[:, :], 4),
            ("u2[250000,4]{0,1:T(32,128)(4,1)}", np.s_[5::3, :], 2),
            ("u2[8,188549]{1,0:T(3,5)}", np.s_[5:8, 5:], 2),
        ],
        2,
    ),
    ids=str,
)
def test_a_long_row_that_is_alone_in_its_block(text: str, key: tuple[slice, slice], bits: int) -> None:
    """Its second block begins inside a tile, and a stage that copies one run must begin there, too."""
    map_ = map_of(text)
    for axis, (part, n) in enumerate(zip(key, map_.shape, strict=True)):
        start, stop, step = part.indices(n)
        map_ = map_.sliced(axis, start, step, len(range(start, stop, step)))
    for first, second, widths in ((map_, row_major(map_.shape), (bits, 8)), (row_major(map_.shape), map_, (8, bits))):
        check(Guarded(first, widths[0], seed=1), Guarded(second, widths[1], seed=2))


@pytest.mark.parametrize(
    ("bits", "tile"),
    thinned(
        itertools.product(
            [(4, 8), (2, 8), (2, 2), (8, 8), (16, 16)],
            ["T(8,16)", "T(8,5)", "T(3,5)", "T(32,128)(4,1)", "T(8,128)(8,1)"],
        ),
        7,
    ),
    ids=str,
)
def test_short_blocks_of_few_rows(bits: tuple[int, int], tile: str, replace: Callable[..., None]) -> None:
    replace(table_rows=64)
    for order, step in (("1,0", 1), ("0,1", 1), ("1,0", 3), ("0,1", 2)):
        for rows, start in ((1, 0), (1, 5), (2, 7), (3, 1), (9, 6)):
            parent = map_of(f"f32[17,700]{{{order}:{tile}}}")
            map_ = parent.sliced(0, 17 - rows, 1, rows).sliced(1, start, step, 650 // step)
            dense = row_major(map_.shape)
            for first, second, widths in ((map_, dense, bits), (dense, map_, bits[::-1])):
                check(Guarded(first, widths[0], seed=1), Guarded(second, widths[1], seed=2))


@pytest.mark.parametrize("streaming", [True, False], ids=["streaming", "plain stores"])
@pytest.mark.parametrize(
    ("layout", "bits", "kernels"),
    [
        ("{1,0:T(8,128)}", (32, 32), ("rows", "rows")),
        ("{1,0:T(8,128)(2,1)}", (16, 16), ("deinterleave16", "interleave16")),
        ("{1,0:T(8,128)(4,1)}", (8, 8), ("deinterleave8", "interleave8")),
        ("{1,0:T(8,128)(8,1)}", (4, 8), ("deinterleave_bits", "interleave_bits")),
        ("{1,0:T(16,128)(16,1)}", (2, 8), ("deinterleave_bits", "interleave_bits")),
        ("{0,1:T(8,128)(8,1)}", (4, 8), ("nest_bits", "pack_words")),
    ],
    ids=str,
)
def test_many_rows_that_are_alike(
    layout: str, bits: tuple[int, int], kernels: tuple[str, str], streaming: bool, replace: Callable[..., None]
) -> None:
    """They are taken as groups, matrices of their own, where none of them cuts a word, a line or a tile."""
    replace(stream_bytes=0 if streaming else 1 << 40, group_rows=32, staged_elements=1 << 40)
    grouped = []
    for start, rows in ((0, 640), (0, 1100), (1, 631), (8, 1000)):
        tiled = map_of(f"f32[1100,37]{layout}").sliced(0, start, 1, rows)
        dense = row_major(tiled.shape)
        for first, second, widths, kernel in (
            (tiled, dense, bits, kernels[0]),
            (dense, tiled, bits[::-1], kernels[1]),
        ):
            source, target = Guarded(first, widths[0], seed=1), Guarded(second, widths[1], seed=2, phase=5 * start)
            check_both(source, target, kernel)
            (step,) = plan_copy(first, second, source.region.storage, target.region.storage).steps
            if isinstance(step, VectorStep):
                outer, table = step.arguments(step.tables(), next(iter(step.tasks())))[:2]
                grouped.append(len(outer) > 1 and len(table) <= 32)
    assert any(grouped)
    assert not all(grouped)


@pytest.mark.parametrize(("bits", "tile"), [(16, "(2,1)"), (8, "(4,1)")])
@pytest.mark.parametrize("lanes", [11, 64, 70, 300])
def test_short_rows_of_windows_inside_words(bits: int, tile: str, lanes: int, replace: Callable[..., None]) -> None:
    replace(stream_bytes=0)
    parent = map_of(f"f32[9,8,{lanes}]{{2,1,0:T(8,128){tile}}}")
    for start, rows in ((0, 8), (1, 1), (1, 2), (2, 5), (3, 4)):
        window = parent.sliced(1, start, 1, rows)
        for phase in (0, 5):
            check(Guarded(window, bits, seed=1), Guarded(row_major(window.shape), bits, seed=2, phase=phase))


@examples(24)
@given(st.data(), st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128]))
def test_any_fill(data: st.DataObject, bits: int) -> None:
    map_ = data.draw(shapes().flatmap(views))
    how = {"low_first": data.draw(st.booleans())} if bits < 8 else {}
    target = Guarded(map_, bits, seed=1, phase=data.draw(st.integers(0, 63)), **how)
    pattern = data.draw(st.integers(0, (1 << bits) - 1))
    wanted = np.unpackbits(target.memory, bitorder="little")
    places = bits_at(target.region) + 8 * target.start
    wanted[places[:, None] + np.arange(bits)] = [pattern >> k & 1 for k in range(bits)]
    sd.set_num_threads(data.draw(st.sampled_from([1, 3])))
    drawn = {
        "fill_task_bytes": data.draw(st.sampled_from([1 << 10, 1 << 21])),
        "fill_task_runs": data.draw(st.sampled_from([100, 1 << 14])),
        "stream_bytes": data.draw(st.sampled_from([0, 1 << 40])),
    }
    with limits.replaced(**_SMALL, **drawn):
        transfer.fill(target.region, pattern)
    np.testing.assert_array_equal(target.memory, np.packbits(wanted, bitorder="little"))


@pytest.mark.parametrize("key", [np.s_[:, :], np.s_[1:-1, 77:-3], np.s_[2:3, 5:]], ids=str)
@pytest.mark.parametrize(
    ("bits", "tile", "rows"),
    [(16, "(2,1)", 2), (8, "(4,1)", 4), (4, "(8,1)", 8), (2, "(16,1)", 16), (1, "(32,1)", 32)],
)
def test_rows_of_tiles_of_one_row_of_words_are_read_in_parts(bits: int, tile: str, rows: int, key: Any) -> None:
    """They are single pieces, too long for the cache to keep them for the next row."""
    map_ = map_of(f"f32[{2 * rows + 1},4999]{{1,0:T({rows},128){tile}}}")
    for axis, (part, n) in enumerate(zip(key, map_.shape, strict=True)):
        start, stop, _ = part.indices(n)
        map_ = map_.sliced(axis, start, 1, stop - start)
    kernel = f"deinterleave{bits}" if bits >= 8 else "deinterleave_bits"
    wide = max(8, bits)
    for phase in (0, 5):
        source, target = Guarded(map_, bits, seed=1), Guarded(row_major(map_.shape), wide, seed=2, phase=phase)
        check_both(source, target, kernel)


@pytest.mark.parametrize("start", range(8))
@pytest.mark.parametrize("count", [4, 8, 9])
def test_no_block_touches_more_than_its_plan_says(start: int, count: int, replace: Callable[..., None]) -> None:
    """Wherever tiles of the target begin, blocks of whole words of the source do with such a word."""
    replace(staging_bytes=1 << 13, staged_elements=0)
    goal = window(map_of("f32[257,17]{0,1:T(8,128)(8,1)}"), slice(109, 9, -2), slice(start, start + count))
    source, target = Guarded(row_major(goal.shape), 8, seed=1), Guarded(goal, 4, seed=2)
    check(source, target)
    plan = plan_copy(row_major(goal.shape), goal, source.region.storage, target.region.storage)
    for step in plan.steps:
        if isinstance(step, StagedCopy):
            for parts in step.tasks():
                moved = sum(part.source for part in parts) // 8
                spans = [own.spans[0] for own in step.stages(parts)[0]]
                assert step.spans[0][0] <= min(low for low, _ in spans) + moved
                assert step.spans[0][1] >= max(high for _, high in spans) + moved
