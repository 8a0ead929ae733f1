"""The last byte: plans say which bytes their kernels touch, and none lies outside the buffers."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import strided as sd
from strided.planning.plan import NestStep, Plan, Storage, VectorStep, plan_copy
from strided.runtime import limits
from strided.transfer import copy as transfer
from tests.cases import Case
from tests.fuzz import layouts
from tests.fuzz.arena import Arena
from tests.fuzz.slots import places_of, slots_of
from tests.regions import map_of, row_major
from tests.thinned import thinned


@pytest.fixture(autouse=True)
def _kernels_for_everything() -> Iterator[None]:
    with limits.replaced(small_elements=0, tiny_elements=0):
        yield


def flush(content: np.ndarray) -> np.ndarray:
    """The same bytes right before a page that nobody may touch."""
    buffer = Arena(content.size).place(content.size, at_end=True)
    buffer[:] = content
    return buffer


def some_bytes(size: int) -> np.ndarray:
    return np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)


# --- widths ---------------------------------------------------------------------------------------------------------


def two_layouts(text: str, layout: str, order: str) -> tuple[sd.LayoutArray, Case, Case]:
    """An array of random bits, its case, and that of another layout of it."""
    a = sd.LayoutArray(some_bytes(sd.parse(text).buffer_byte_size), text, bitorder=order)
    return a, Case.parse(text), Case.parse(text.split("{")[0] + layout)


#: Neighbours of packed elements become one element, and some are left over.
JOINED = [
    ("pred[1001,130]{1,0:T(8,128)(4,1)E(1)}", "{1,0:T(16,128)(4,1)E(1)}"),
    ("u2[33,8192]{1,0:T(8,128)(2,2)E(2)}", "{1,0:T(4,128)(2,2)E(2)}"),
    ("pred[300,67]{1,0:T(8,64)(2,1)E(1)}", "{1,0:T(4,64)(2,1)E(1)}"),
]


@pytest.mark.parametrize(("text", "layout"), JOINED)
@pytest.mark.parametrize("order", ["little", "big"])
def test_packed_neighbours_that_are_moved_as_one_keep_their_values(text: str, layout: str, order: str) -> None:
    a, source, target = two_layouts(text, layout, order)
    b = a.to_layout(layout, bitorder=order)
    found, wanted = (
        slots_of(x.buffer, case.bits, high_first=order == "big")[places_of(case.spec).reshape(-1)]
        for x, case in ((b, target), (a, source))
    )
    np.testing.assert_array_equal(found, wanted)


#: Words of both sides hold the same rows, the last of them fewer.
ALIKE = [
    ("u2[33,3,65]{0,1,2:T(32,128)(16,1)E(2)}", "{0,1,2:T(16,128)(16,1)E(2)}"),
    ("u1[7,65,90]{1,0,2:T(32,128)(32,1)E(1)}", "{1,0,2:T(32,128)(32,1)E(1)}"),
    ("u2[300,3,7]{2,1,0:T(32,64)(16,1)E(2)}", "{2,1,0:T(32,64)(16,1)E(2)}"),
    ("s4[17,5,70]{0,2,1:T(8,64)(8,1)E(4)}", "{0,2,1:T(16,64)(8,1)E(4)}"),
]


@pytest.mark.parametrize(("text", "layout"), ALIKE)
@pytest.mark.parametrize("order", ["little", "big"])
def test_what_lies_in_a_word_besides_its_elements_stays(text: str, layout: str, order: str) -> None:
    a, source, target = two_layouts(text, layout, order)
    out = some_bytes(sd.parse(text.split("{")[0] + layout).buffer_byte_size)
    bits, high_first = target.bits, order == "big"
    wanted = slots_of(out, bits, high_first=high_first)
    wanted[places_of(target.spec)] = slots_of(a.buffer, bits, high_first=high_first)[places_of(source.spec)]
    a.to_layout(layout, "unknown", out, bitorder=order)
    np.testing.assert_array_equal(slots_of(out, bits, high_first=high_first), wanted)


def test_steps_say_how_wide_their_elements_are() -> None:
    """Four elements of one bit each become one, and what is left of them is moved in pairs."""
    sides = [map_of(f"u8[1001,130]{text}") for text in ("{1,0:T(8,128)(4,1)}", "{1,0:T(16,128)(4,1)}")]
    plan = plan_copy(*sides, Storage(1), Storage(1))
    widths = {step.widths for step in plan.steps if isinstance(step, NestStep | VectorStep)}
    assert any(1 < width[0] < 8 for width in widths), widths
    assert all(width[0] == width[1] for width in widths)


# --- ends -----------------------------------------------------------------------------------------------------------

#: Views in which every element is one of several in its word of 32 bits, so that words are read.
WORDS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "second column": ("u16[4096,2]", lambda a: a[:, 1]),
    "every other one, to the end": ("u16[16384]", lambda a: a[1::2]),
    "every other one, of an odd number": ("u16[16385]", lambda a: a[::2]),
    "last of four": ("u8[8192,4]", lambda a: a[:, 3]),
    "every fourth": ("u8[16385]", lambda a: a[::4]),
    "two of four": ("u8[2048,4]", lambda a: a[:, 1:3]),
    "columns of rows": ("bf16[100,8191]", lambda a: a[:, ::2]),
    "packed": ("s4[40001]{0:E(4)}", lambda a: a[::8]),
    "packed, another one": ("u2[40007]{0:E(2)}", lambda a: a[5::16]),
    "tiles": ("bf16[17,300]{1,0:T(8,128)(2,1)}", lambda a: a[1::2]),
    "backwards": ("u16[33,64]", lambda a: a[::-1, ::2]),
}


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("cut", [False, True])
def test_the_last_word_is_read_inside_the_buffer(name: str, cut: bool) -> None:
    """In a buffer of the right size, and in one that has not a byte behind the last element."""
    text, view = WORDS[name]
    case = Case.parse(text if "{" in text else str(sd.parse(text)))
    content = some_bytes(sd.parse(text).buffer_byte_size)
    places = view(places_of(case.spec))
    region = view(sd.LayoutArray(content, text)).region
    size = -(-(int(places.max()) + 1) * case.bits // 8) if cut else content.size
    target = np.zeros(places.size * max(8, case.bits) // 8, np.uint8)
    transfer.copy(
        region._replace(buffer=flush(content[:size])),
        transfer.Region(target, row_major(places.shape), max(8, case.bits)),
    )
    np.testing.assert_array_equal(slots_of(target, max(8, case.bits)), slots_of(content, case.bits)[places.reshape(-1)])


@pytest.mark.parametrize("name", WORDS)
def test_the_last_word_is_written_inside_the_buffer(name: str) -> None:
    text, view = WORDS[name]
    case = Case.parse(text if "{" in text else str(sd.parse(text)))
    places = view(places_of(case.spec))
    buffer = flush(some_bytes(-(-(int(places.max()) + 1) * case.bits // 8)))
    before, width = buffer.copy(), max(8, case.bits)
    region = view(sd.LayoutArray(some_bytes(sd.parse(text).buffer_byte_size), text)).region
    source = some_bytes(places.size * width // 8)
    transfer.copy(transfer.Region(flush(source), row_major(places.shape), width), region._replace(buffer=buffer))
    wanted = slots_of(before, case.bits).copy()
    wanted[places.reshape(-1)] = slots_of(source, width) & np.uint64((1 << case.bits) - 1)
    np.testing.assert_array_equal(slots_of(buffer, case.bits), wanted)


@pytest.mark.parametrize(("bits", "rows"), [(1, 32), (2, 16), (4, 8)])
def test_the_last_word_of_packed_runs_is_read_inside_the_buffer(bits: int, rows: int) -> None:
    """What a run leaves of its last word is kept: the word is read, but not where the buffer ends inside it."""
    each, kernels = 32 // bits, []
    for run in (1, each // 2 - 1, each // 2, each + 3):
        source = map_of(f"f32[3,300,{run}]")
        target = map_of(f"f32[3,300,{run}]{{1,2,0:T({rows},128)({each},1)}}")
        content = some_bytes(source.size)
        size = -(-(int(target.offsets().max()) + 1) * bits // 8)
        buffer, longer = flush(some_bytes(size)), np.append(some_bytes(size), np.zeros(4, np.uint8))
        plan = plan_copy(source, target, Storage(8), Storage(bits))
        kernels.append(plan.kernel)
        assert plan.target_span == (0, -(-size // 4) * 4)
        for held in (buffer, longer):
            transfer.copy(transfer.Region(flush(content), source, 8), transfer.Region(held, target, bits))
        np.testing.assert_array_equal(buffer, longer[:size])
    assert "pack_words" in kernels


def test_words_that_cannot_begin_at_multiples_of_words_begin_with_an_element() -> None:
    """Pairs of elements lie in sub-tiles two bytes apart: a word that began before the first one would not be there."""
    case = Case.parse("u8[9,7]{1,0:T(64,128)(2,2)}")
    content = some_bytes(sd.parse(case.text).buffer_byte_size)
    places = places_of(case.spec)[1:8]
    first, last = int(places.min()), int(places.max()) + 1
    region = sd.LayoutArray(content, case.text)[1:8].region
    for skipped in (0, first):
        map_ = replace(region.map, base=region.map.base - skipped)
        target = np.zeros(places.size, np.uint8)
        source = region._replace(buffer=flush(content[skipped:last]), map=map_)
        transfer.copy(source, transfer.Region(target, row_major(places.shape), 8))
        np.testing.assert_array_equal(target, content[places.reshape(-1)])


def test_rows_of_one_word_that_is_not_there() -> None:
    content = some_bytes(28)
    a = sd.LayoutArray(flush(content), "bf16[7,2]{1,0}")
    assert a.to_layout("{1,0:T(32,128)}").to_numpy().tobytes() == content.tobytes()


# --- plans ----------------------------------------------------------------------------------------------------------


def plans(text: str, view: Callable[[Any], Any]) -> tuple[Plan, Plan, tuple[int, int]]:
    """The plans of reading a view with and without whole words, and the bytes in which its elements lie."""
    case = Case.parse(text if "{" in text else str(sd.parse(text)))
    map_ = view(sd.LayoutArray(bytes(sd.parse(text).buffer_byte_size), text)).address_map
    question = map_, row_major(map_.shape), Storage(case.bits), Storage(max(8, case.bits))
    places = view(places_of(case.spec))
    exact = int(places.min()) * case.bits // 8, -(-(int(places.max()) + 1) * case.bits // 8)
    return plan_copy(*question), plan_copy(*question, whole_words=False), exact


@pytest.mark.parametrize("name", WORDS)
def test_plans_say_what_their_kernels_touch(name: str) -> None:
    whole, apart, exact = plans(*WORDS[name])
    assert whole.kernel.startswith("deinterleave")
    assert apart.kernel == whole.kernel, "only a few elements are done otherwise"
    left = sum(step.elements for step in apart.steps if isinstance(step, NestStep))
    assert 20 * left <= apart.elements
    assert apart.source_span is not None
    assert whole.source_span is not None
    assert exact[0] // 4 * 4 <= apart.source_span[0] <= exact[0]
    assert apart.source_span[1] == exact[1]
    assert 0 <= whole.source_span[1] - exact[1] < 4


def test_the_other_half_of_a_word_is_said_to_be_read() -> None:
    """The plan of a first column says that it reads the last element of the second one, too."""
    assert plans("u16[4096,2]", lambda a: a[:, 0])[0].source_span == (0, 4 * 4096)
    assert plans("u16[4096,2]", lambda a: a[:, 1])[0].source_span == (0, 4 * 4096)
    assert plans("u16[4097]", lambda a: a[::2])[0].source_span == (0, 2 * 4098)


def test_spans_of_any_plan_hold_the_elements_and_no_more_than_their_words() -> None:
    rng, words = random.Random(3), 0
    for _ in range(600):
        element_type, bits = rng.choice(layouts.TYPES)
        sizes = layouts.dimensions(rng, 3000)
        if 0 in sizes:
            continue
        window = layouts.window(rng, sizes)
        if sizes and bits < 32 and rng.random() < 0.5:
            every = slice(rng.randrange(sizes[-1]), None, 32 // bits)
            window = layouts.Window((*(slice(None),) * (len(sizes) - 1), every), (), False)
        maps, ends = [], []
        for _ in range(2):
            case = layouts.layout(rng, element_type, sizes, bits)
            view = window.of(sd.LayoutArray(bytes(sd.parse(case.text).buffer_byte_size), case.text))
            places = window.of(places_of(case.spec))
            if not isinstance(view, sd.LayoutArray) or not places.size:
                break
            maps.append(view.address_map)
            ends.append((int(places.min()) * bits // 8, -(-(int(places.max()) + 1) * bits // 8)))
        if len(maps) < 2:
            continue
        if rng.random() < 0.7:  # more of these take words apart
            maps[1], ends[1] = row_major(places.shape), (0, -(-places.size * bits // 8))
        for whole_words in (True, False):
            plan = plan_copy(*maps, Storage(bits), Storage(bits), whole_words=whole_words)
            for span, (low, high) in zip((plan.source_span, plan.target_span), ends, strict=True):
                if span is not None:
                    assert (low - 3 if whole_words else low // 4 * 4) <= span[0] <= low
                    assert high <= span[1] <= high + 3 * whole_words
                    words += span[1] > high
    assert words > 3


@pytest.mark.parametrize(("bits", "rows"), [(16, 8), (8, 8), (4, 8), (2, 16), (1, 32)])
@pytest.mark.parametrize("orders", [("1,0", "0,1"), ("3,2,1,0", "3,1,2,0")])
def test_spans_have_the_last_word_that_rows_share_on_both_sides(orders: tuple[str, str], bits: int, rows: int) -> None:
    each, seen = 32 // bits, 0
    for m, n in itertools.product((each, each + 1, 2 * each - 1), (each, each + 1, 3 * each - 1)):
        sizes = f"{m},{n}" if len(orders[0]) == 3 else f"2,{m},{n},64"
        maps = [map_of(f"u8[{sizes}]{{{order}:T({rows},128)({each},1)}}") for order in orders]
        plan = plan_copy(*maps, Storage(bits), Storage(bits))
        if plan.kernel.startswith(("exchange", "transpose_words")):
            ends = [-(-(int(map_.offsets().max()) + 1) * bits // 32) * 4 for map_ in maps]
            assert (plan.source_span, plan.target_span) == ((0, ends[0]), (0, ends[1]))
            seen += 1
    assert seen > 6


@pytest.mark.parametrize(("bits", "tile", "count"), [(16, "(2,1)", 75), (8, "(4,1)", 61), (8, "(4,1)", 71)])
def test_of_rows_that_end_inside_of_words_the_last_word_is_read_and_its_part_written(
    bits: int, tile: str, count: int
) -> None:
    source, target = map_of(f"f32[300,{count}]{{0,1:T(8,128){tile}}}"), row_major((300, count))
    plan = plan_copy(source, target, Storage(bits), Storage(bits))
    words = -(-(int(source.offsets().max()) + 1) * bits // 32) * 4
    assert plan.kernel == "transpose_cut32"
    assert (plan.source_span, plan.target_span) == ((0, words), (0, 300 * count * bits // 8))


@pytest.mark.parametrize("sizes", ["37,300", "300,37", "9,257"])
@pytest.mark.parametrize("bits", [4, 8])
def test_blocks_of_whole_words_touch_all_of_the_last_word(sizes: str, bits: int) -> None:
    words, dense = map_of(f"f32[{sizes}]{{0,1:T(8,128)(8,1)}}"), map_of(f"f32[{sizes}]{{1,0}}")
    end = -(-(int(words.offsets().max()) + 1) * 4 // 32) * 4
    with limits.replaced(staged_elements=0, staging_bytes=1 << 13):
        plan = plan_copy(words, dense, Storage(4), Storage(bits))
        assert (plan.source_span, plan.target_span) == ((0, end), (0, -(-dense.size * bits // 8)))
        if bits == 4 and sizes != "300,37":
            assert plan_copy(dense, words, Storage(4), Storage(4)).target_span == (0, end)


def test_threads_do_not_share_what_writes_whole_words_that_overlap() -> None:
    """Rows that lie a byte apart are in each other's words: these are read and written again."""
    source, target = row_major((4, 30_000)), sd.LayoutArray(bytes(120_004), "u4[30001,8]{1,0:E(4)}").address_map
    overlapping = type(target).from_strides((4, 30_000), (2, 8), 0)
    (step,) = plan_copy(source, overlapping, Storage(8), Storage(4)).steps
    assert isinstance(step, VectorStep)
    assert (step.kernel, step.divides) == ("interleave_bits", False)
    apart = type(target).from_strides((4, 30_000), (240_000, 8), 0)
    (step,) = plan_copy(source, apart, Storage(8), Storage(4)).steps
    assert isinstance(step, VectorStep)
    assert (step.kernel, step.divides) == ("interleave_bits", True)


# --- the smallest copies --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "loads"), thinned([("1", True), ("0", False), ("", False)], 3))
def test_kernels_can_be_had_for_the_smallest_copy(value: str, loads: bool) -> None:
    code = (
        "import sys, strided as sd; a = sd.LayoutArray(bytes(24), 'f32[2,3]'); "
        "a.to_layout('{0,1}'); a[[0, 1], [1, 2]]; print('numba' in sys.modules)"
    )
    environment = {**os.environ, "STRIDED_FORCE_KERNELS": value}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(loads)
