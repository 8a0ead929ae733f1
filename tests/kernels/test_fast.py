"""The vector kernels against the same copies done one index at a time by NumPy.

Every case stands between pages that cannot be touched, and every byte of the target is compared: what no table names
must keep what it held. Sources are read-only.
"""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strided.dumps.protobuf.wire import varint
from strided.kernels import (
    CACHED,
    NEAR,
    SCRATCH_BYTES,
    contiguous,
    exchange_rows,
    gather_scatter,
    held_run,
    interleave,
    interleave_bits,
    kernel_of,
    loop_nest,
    packed_runs,
    packed_words,
    short_rows,
    transpose,
    transpose_cut,
    transpose_runs,
    transpose_words,
    word_rows,
)
from strided.runtime import limits
from strided.transfer.copy import copy
from tests.arrays.test_fancy import check_every_place
from tests.fuzz.arena import Arena
from tests.regions import Guarded, expected, map_of
from tests.thinned import examples, thinned

BITS = {"deinterleave16": 16, "deinterleave8": 8, "interleave16": 16, "interleave8": 8}
KERNELS = {
    **{name: getattr(interleave, name) for name in ("rows", *BITS)},
    "deinterleave_bits": interleave_bits.deinterleave_bits,
    "interleave_bits": interleave_bits.interleave_bits,
}


@cache
def fences() -> tuple[Arena, Arena]:
    return Arena(1 << 22), Arena(1 << 22)


def placed(arena: Arena, content: np.ndarray, offset: int | None) -> np.ndarray:
    """A copy of `content` so many bytes behind the page before, or with None, right before the page behind."""
    held = arena.place(content.size, at_end=offset is None, gap=offset or 0)
    held[:] = content
    return held


@cache
def table_fences() -> tuple[Arena, ...]:
    return tuple(Arena(1 << 22) for _ in range(5))


def table_at_end(k: int, table: np.ndarray) -> np.ndarray:
    """A copy of the `k`-th table of a kernel right before a page that cannot be touched."""
    return placed(table_fences()[k], table.reshape(-1).view(np.uint8), None).view(np.int64).reshape(table.shape)


def tables_at_end(*tables: np.ndarray) -> tuple[np.ndarray, ...]:
    """The same for all tables of a kernel."""
    return tuple(table_at_end(k, np.ascontiguousarray(table, np.int64)) for k, table in enumerate(tables))


SCRATCH = np.zeros(SCRATCH_BYTES, np.uint8)


def read_only(x: np.ndarray) -> np.ndarray:
    view = x.view()
    view.flags.writeable = False
    return view


def check(run, source, target, expected, places) -> None:
    """Run a kernel on copies at `places` and compare the whole of both."""
    memory = fences()
    s, t = (placed(arena, x, place) for arena, x, place in zip(memory, (source, target), places, strict=True))
    run(read_only(s), t)
    np.testing.assert_array_equal(t, expected)
    np.testing.assert_array_equal(s, source)


# --- tiles and interleaved rows ---------------------------------------------------------------------------------------


class Axis:
    """Offsets along one axis of one side: a run of tiles of `size`, each `outer` bytes after the one before."""

    def __init__(self, size: int, inner: int, outer: int) -> None:
        self.size, self.inner, self.outer = size, inner, outer

    def at(self, c):
        return c // self.size * self.outer + c % self.size * self.inner


def pieces_of(source: Axis, target: Axis, start: int, stop: int) -> np.ndarray:
    """(source, target, lanes) of the runs in which both sides stay in one tile."""
    limits = sorted({start, stop, *(c for c in range(start, stop) if c % source.size == 0 or c % target.size == 0)})
    table = [(source.at(a), target.at(a), b - a) for a, b in pairwise(limits)]
    return np.array(table, np.int64).reshape(-1, 3)


def cuts_of(count: int, rng: np.random.Generator) -> np.ndarray:
    inner = rng.integers(0, count + 1, rng.integers(0, 4))
    return np.unique(np.concatenate([[0, count], inner])).astype(np.int64)


def taking(bits: int) -> str:
    """The name of the kernel that takes rows of such elements out of words."""
    return f"deinterleave{bits}" if bits >= 8 else "deinterleave_bits"


def bits_moved(kernel: str, bits: int, high_first: int, tables):
    """For every element: bit of the source, bit of the target, both from the start of their buffers."""
    outer, rows, pieces = tables[:3]
    zipped_source, zipped_target = kernel.startswith("deinterleave"), kernel.startswith("interleave")
    lane = np.concatenate([np.arange(n) for n in pieces[:, 2]] or [np.arange(0)])
    s_lane = 32 if zipped_source else max(8, bits)
    t_lane = 32 if zipped_target else max(8, bits)
    s_piece = np.repeat(pieces[:, 0], pieces[:, 2]) * 8 + lane * s_lane
    t_piece = np.repeat(pieces[:, 1], pieces[:, 2]) * 8 + lane * t_lane
    member = rows[:, 2] * bits
    if high_first:
        member ^= 8 - bits
    s = (outer[:, None, 0] + rows[None, :, 0]) * 8 + zipped_source * member
    t = (outer[:, None, 1] + rows[None, :, 1]) * 8 + zipped_target * member
    return (s[:, :, None] + s_piece).ravel(), (t[:, :, None] + t_piece).ravel()


def moved(source, target, s, t, bits, *, signed=False, to_bytes=False):
    """What `target` holds after the elements of `bits` at bits `s` of the source went to bits `t` of the target."""
    s_bits, t_bits = (np.unpackbits(x, bitorder="little") for x in (source, target))
    for k in range(8 if to_bytes else bits):
        value = s_bits[s + min(k, bits - 1)] if k < bits or signed else 0
        t_bits[t + k] = value
    return np.packbits(t_bits, bitorder="little")


def tile_case(seed: int, kernel: str, bits: int):
    """Random tables for a kernel, with the sizes of both buffers."""
    rng = np.random.default_rng(seed)
    q = 32 // bits if kernel != "rows" else 1
    width = max(1, bits // 8)
    matrices, rows, columns = (int(rng.integers(1, n)) for n in (4, 3 * q + 4, rng.choice([80, 330])))
    first_row, first_column = (int(rng.integers(0, n)) for n in (2 * q, 70))
    total = first_row + rows, first_column + columns

    def side(zipped: bool, tiled: bool):
        lane = 4 if zipped else width
        w = int(rng.choice([3, 16, 24, 64, 128])) if tiled else 1 << 40
        h = int(rng.choice([1, 2, 8])) * (q if zipped or rng.integers(2) else 1) if tiled else 1 << 40
        groups = -(-min(h, total[0]) // q) if zipped else min(h, total[0])
        run = (
            min(w, total[1]) * lane if tiled else total[1] * lane + int(rng.integers(0, 3) * rng.integers(0, 70)) * lane
        )
        tile = groups * run
        across = -(-total[1] // w) if tiled else 1
        row, column = Axis(h, run, tile * across), Axis(w, lane, tile)
        r = np.arange(first_row, total[0])
        within = r % h // q if zipped else r % h
        offsets = r // h * row.outer + within * run
        return offsets, column, tile * across * (-(-total[0] // h) if tiled else 1)

    tiled = rng.integers(0, 2, 2)
    s_rows, s_axis, s_size = side(
        kernel.startswith("deinterleave"), kernel.startswith("deinterleave") or bool(tiled[0])
    )
    t_rows, t_axis, t_size = side(kernel.startswith("interleave"), kernel.startswith("interleave") or bool(tiled[1]))
    members = np.arange(first_row, total[0]) % q
    pieces = pieces_of(s_axis, t_axis, first_column, total[1])
    if kernel == "rows":
        pieces[:, 2] *= width
    order = np.arange(matrices)
    outer = np.stack([order * s_size, order * t_size], 1)
    table = np.stack([s_rows, t_rows, members], 1)
    tables = outer, table, pieces, cuts_of(len(table), rng), cuts_of(len(pieces), rng)
    contents = [rng.integers(0, 256, n, np.uint8) for n in (matrices * s_size, matrices * t_size)]
    return tables_at_end(*tables), contents


def check_tiles(seed, kernel, bits, streaming, high_first, signed, places):
    tables, (source, target) = tile_case(seed, kernel, bits)
    if kernel == "rows":
        s, t = bits_moved(kernel, 8, 0, tables)
        expected = moved(source, target, s, t, 8)
    else:
        s, t = bits_moved(kernel, bits, high_first, tables)
        expected = moved(source, target, s, t, bits, signed=signed, to_bytes=kernel == "deinterleave_bits")
    options = {"deinterleave_bits": (bits, signed, high_first), "interleave_bits": (bits, high_first)}.get(kernel, ())
    check(lambda a, b: KERNELS[kernel](a, b, *tables, streaming, SCRATCH, *options), source, target, expected, places)


_PUT = ("interleave16", "interleave8", "interleave_bits")
places = st.tuples(*[st.none() | st.integers(0, 130)] * 2)
flags = st.integers(0, 1)
seeds = st.integers(0, 2**32 - 1)


@examples(150)
@given(seeds, st.sampled_from([8, 16, 32, 64, 128]), flags, places)
def test_rows_copies_every_lane_and_nothing_else(seed, bits, streaming, places):
    check_tiles(seed, "rows", bits, streaming, 0, 0, places)


@examples(250)
@given(seeds, st.sampled_from(sorted(BITS)), flags, places)
def test_rows_go_into_words_and_out_of_them(seed, kernel, streaming, places):
    check_tiles(seed, kernel, BITS[kernel], streaming, 0, 0, places)


@examples(250)
@given(
    seeds,
    st.sampled_from(["deinterleave_bits", "interleave_bits"]),
    st.sampled_from([4, 2, 1]),
    flags,
    flags,
    flags,
    places,
)
def test_packed_rows_go_into_words_and_out_of_them(seed, kernel, bits, streaming, high_first, signed, places):
    check_tiles(seed, kernel, bits, streaming, high_first, signed, places)


@pytest.mark.parametrize("pieces", [2, 3, 4, 7])
@pytest.mark.parametrize("lanes", [1, 3, 5, 11, 16, 40, 70])
@pytest.mark.parametrize("kernel", ["deinterleave16", "deinterleave8", "deinterleave_bits"])
def test_rows_of_short_pieces_follow_each_other(kernel, lanes, pieces):
    """What a line writes behind a piece must not reach into the next row, which is there already."""
    rng = np.random.default_rng(3)
    for bits in (BITS[kernel],) if kernel in BITS else (4, 2, 1):
        q, width, apart = 32 // bits, max(1, bits // 8), 4 * lanes + 12
        size = pieces * lanes * width
        outer = np.arange(3)[:, None] * [pieces * apart, q * size]
        rows = np.stack([np.zeros(q, np.int64), np.arange(q) * size, np.arange(q)], 1)
        table = np.arange(pieces)[:, None] * [apart, lanes * width, 0] + [0, 0, lanes]
        tables = outer, rows, table, np.array([0, q]), np.array([0, pieces])
        source, target = (rng.integers(0, 256, 3 * n, np.uint8) for n in (pieces * apart, q * size))
        s, t = bits_moved(kernel, bits, 0, tables)
        expected = moved(source, target, s, t, bits, to_bytes=bits < 8)
        options = (*tables, 1, SCRATCH, *((bits, 0, 0) if bits < 8 else ()))
        for places in ((None, None), (0, 5)):
            check(lambda a, b, own=options: KERNELS[kernel](a, b, *own), source, target, expected, places)


@pytest.mark.parametrize(
    "lanes",
    [
        (1024,),
        (3, 1, 128, 128, 128, 1000),
        (128,) * 8 + (5,),
        (70, 64, 2111),
        (36,) * 40,
        (20,) * 60 + (3,),
        (128, 72) * 9,
        (1, 2, 1) * 300,
        (64, 96, 5, 100) * 6,
        (0, 1024, 0, 1024, 0),
        (64,) * 5 + (256,) * 3 + (64,) * 3 + (130,),
    ],
    ids=lambda lanes: "-".join(map(str, lanes[:6])),
)
@pytest.mark.parametrize(("bits", "height"), thinned(itertools.product((16, 8, 4, 2, 1), (1, 2, 8, 20)), 11))
def test_long_rows_go_on_from_piece_to_piece(bits, height, lanes):
    check_long_rows_of_pieces(bits, height, lanes)


def check_long_rows_of_pieces(bits, height, lanes):
    """Rows of tiles of so many words, from any member on, that follow each other or do not: neither end is passed."""
    rng = np.random.default_rng(height)
    name = taking(bits)
    # Of packed elements, so many rows share a word that fewer words will do.
    q, width, lengths, height = 32 // bits, max(1, bits // 8), np.array(lanes), max(1, height * min(8, bits) // 8)
    size, tile = sum(lanes) * width, 4 * max(lanes) * height
    for first, count, gap in ((0, 3 * q * height, 0), (q - 1, 2 * q + 1, 0), (1, 5 * q - 2, 0), (0, 2 * q + 3, 7)):
        row = np.arange(first, first + count)
        word = row // q
        places = word // height * tile * len(lanes) + word % height * 4 * max(lanes)
        rows = np.stack([places, (row - first) * (size + gap), row % q], 1)
        table = np.stack([np.arange(len(lanes)) * tile, (lengths.cumsum() - lengths) * width, lengths], 1)
        source_size, target_size = places[-1] + table[-1, 0] + 4 * lanes[-1], rows[-1, 1] + size
        outer = np.arange(2)[:, None] * [source_size, target_size + gap]
        tables = tables_at_end(outer, rows, table, np.array([0, count]), np.array([0, len(lanes)]))
        sizes = 2 * source_size, 2 * target_size + gap
        source, target = (rng.integers(0, 256, n, np.uint8) for n in sizes)
        for high_first, signed in ((0, 0), (1, 1)) if bits < 8 else ((0, 0),):
            s, t = bits_moved(name, bits, high_first, tables)
            expected = moved(source, target, s, t, bits, signed=bool(signed), to_bytes=bits < 8)
            options = (*tables, 1, SCRATCH, *((bits, signed, high_first) if bits < 8 else ()))
            for place in ((None, None), (0, 5)):
                check(lambda a, b, own=options: KERNELS[name](a, b, *own), source, target, expected, place)


@pytest.mark.parametrize("lanes", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("bits", [16, 8, 4, 2, 1])
def test_long_rows_of_a_narrow_window_of_tiles_that_crosses_lines(bits, lanes):
    """Each piece of a row lies in two lines, so that there are more of these to ask for than bytes of the row."""
    rng = np.random.default_rng(lanes)
    q, width, count = 32 // bits, max(1, bits // 8), 2600 // max(2, lanes)
    name = taking(bits)
    size, height = count * lanes * width, max(2, 8 // q)
    row = np.arange(height * q)
    rows = np.stack([row // q * 512, row * size, row % q], 1)
    table = np.stack([np.arange(count) * 512 * height, np.arange(count) * lanes * width, np.full(count, lanes)], 1)
    tables = np.array([[60, 0]]), rows, table, np.array([0, len(rows)]), np.array([0, count])
    source = rng.integers(0, 256, table[-1, 0] + rows[-1, 0] + 60 + 4 * lanes, np.uint8)
    target = rng.integers(0, 256, len(rows) * size, np.uint8)
    expected = moved(source, target, *bits_moved(name, bits, 0, tables), bits, to_bytes=bits < 8)
    options = (*tables, 1, SCRATCH, *((bits, 0, 0) if bits < 8 else ()))
    for place in ((None, None), (0, 0), (56, 5)):
        check(lambda a, b: KERNELS[name](a, b, *options), source, target, expected, place)


@pytest.mark.parametrize("lanes", [1, 3, 17, 36, 63, 64, 70])
@pytest.mark.parametrize("bits", [4, 2, 1])
def test_rows_of_few_packed_elements_are_taken_out_of_words(bits, lanes):
    """All rows of a word, or some of them: nothing between them in the target is touched."""
    rng = np.random.default_rng(lanes)
    q, apart, words = 32 // bits, lanes + 5, 4 * lanes + 8
    for first, count in {(0, q), (0, q - 1), (1, q - 1), (q // 2, q // 2), (q - 1, 1)}:
        members = np.tile(np.arange(first, first + count), 3)
        rows = np.stack([np.repeat(np.arange(3) * words, count), rng.permutation(members.size) * apart, members], 1)
        outer = np.arange(2)[:, None] * [3 * words, members.size * apart]
        tables = outer, rows, np.array([[0, 0, lanes]]), np.array([0, len(rows)]), np.array([0, 1])
        source = rng.integers(0, 256, 6 * words - 8, np.uint8)
        target = rng.integers(0, 256, 2 * members.size * apart - 5, np.uint8)
        for high_first, signed in ((0, 0), (1, 1)):
            s, t = bits_moved("deinterleave_bits", bits, high_first, tables)
            expected = moved(source, target, s, t, bits, signed=bool(signed), to_bytes=True)
            options = (*tables, 0, SCRATCH, bits, signed, high_first)
            for places in ((None, None), (0, 5)):
                check(
                    lambda a, b, own=options: interleave_bits.deinterleave_bits(a, b, *own),
                    source,
                    target,
                    expected,
                    places,
                )


@pytest.mark.parametrize("kernel", ["deinterleave16", "deinterleave8", "deinterleave_bits", *_PUT])
def test_rows_of_a_word_in_any_order(kernel):
    """Index arrays bring them so: neighbours in a table need not be neighbours in a word, nor all of its rows."""
    rng = np.random.default_rng(5)
    for bits in (BITS[kernel],) if kernel in BITS else (4, 2, 1):
        q, width, lanes = 32 // bits, max(1, bits // 8), 130
        apart, words = lanes * width + 6, 4 * lanes + 8
        rows = np.zeros((6 * q, 3), np.int64)
        of_word, along = np.repeat(np.arange(6), q), np.arange(6 * q) * apart
        into = kernel in _PUT
        rows[:, 0], rows[:, 1] = (along, of_word * words) if into else (of_word * words, along)
        rows[:, 2] = np.concatenate([rng.permutation(q) for _ in range(6)])
        rows[:q, 2] = np.arange(q)
        if q > 2:  # begins and ends as a whole word does
            rows[q : 2 * q, 2] = [0, *rng.permutation(np.arange(1, q - 1)), q - 1]
        if not into:
            rows[2 * q : 3 * q, 2] = np.sort(rng.integers(0, q, q))
        tables = np.array([[0, 0]]), rows, np.array([[0, 0, lanes]]), np.array([0, len(rows)]), np.array([0, 1])
        source, target = (rng.integers(0, 256, n, np.uint8) for n in ((6 * q * apart, 6 * words)[:: 1 if into else -1]))
        s, t = bits_moved(kernel, bits, 0, tables)
        expected = moved(source, target, s, t, bits, to_bytes=bits < 8 and not into)
        extra = () if bits >= 8 else (bits, 0) if into else (bits, 0, 0)
        for streaming in (0, 1):
            options = (*tables, streaming, SCRATCH, *extra)
            check(lambda a, b, own=options: KERNELS[kernel](a, b, *own), source, target, expected, (0, 0))


@pytest.mark.parametrize("begin", [0, 4], ids=["whole lines", "off lines"])
@pytest.mark.parametrize("lanes", [17, 63, 64, 65, 131])
@pytest.mark.parametrize("bits", [8, 4, 2, 1])
def test_rows_are_put_into_words_by_lines(bits, lanes, begin):
    """All rows of a word, or some of them: the others keep their bits. Rows may lie in any order."""
    rng = np.random.default_rng(lanes)
    q, pitch = 32 // bits, 4 * lanes + 63 & -64
    name = "interleave_bits" if bits < 8 else "interleave8"
    for first, count in {(0, q), (0, 1), (0, q - 1), (1, q - 1), (q // 2, q // 2), (q - 1, 1)}:
        members = np.tile(np.arange(first, first + count), 3)
        order = rng.permutation(members.size) if count % 2 else np.arange(members.size)[::-1]
        rows = np.stack([order * lanes, np.repeat(np.arange(3) * pitch + begin, count), members], 1)
        outer = np.arange(2)[:, None] * [members.size * lanes, 3 * pitch]
        pieces = np.array([[0, 0, lanes]])
        tables = outer, rows, pieces, np.array([0, len(rows)]), np.array([0, 1])
        source = rng.integers(0, 256, 2 * members.size * lanes, np.uint8)
        target = rng.integers(0, 256, 6 * pitch + begin, np.uint8)
        for streaming, high_first in ((0, 0), (1, 0), (0, 1), (1, 1)) if bits < 8 else ((0, 0), (1, 0)):
            s, t = bits_moved(name, bits, high_first, tables)
            expected = moved(source, target, s, t, bits)
            options = (*tables, streaming, SCRATCH, *((bits, high_first) if bits < 8 else ()))
            for places in ((None, 0), (0, 64)):
                check(lambda a, b, own=options: KERNELS[name](a, b, *own), source, target, expected, places)


@pytest.mark.parametrize("lanes", [5, 17, 40, 64, 100])
@pytest.mark.parametrize("bits", [16, 8, 4, 2, 1])
def test_complete_words_among_others(bits, lanes):
    """Without a gap between their rows, complete words are not streamed: all of them are written all the same."""
    rng = np.random.default_rng(lanes)
    q, name = 32 // bits, f"interleave{bits}" if bits >= 8 else "interleave_bits"
    pitch, width = 4 * lanes + 63 & -64, max(1, bits // 8)
    for count in {q + 1, 2 * q - 1, 3 * q - 1, 4 * q + 1}:
        order, words = np.arange(count), -(-count // q)
        rows = np.stack([order * lanes * width, order // q * pitch, order % q], 1)
        outer = np.arange(9)[:, None] * [count * lanes * width, words * pitch]
        tables = outer, rows, np.array([[0, 0, lanes]]), np.array([0, count]), np.array([0, 1])
        source, target = (rng.integers(0, 256, 9 * n, np.uint8) for n in (count * lanes * width, words * pitch))
        s, t = bits_moved(name, bits, 0, tables)
        expected = moved(source, target, s, t, bits)
        options = (*tables, 1, SCRATCH, *((bits, 0) if bits < 8 else ()))
        for places in ((None, None), (0, 64)):
            check(lambda a, b, own=options: KERNELS[name](a, b, *own), source, target, expected, places)


@pytest.mark.parametrize("lanes", [9, 40])
@pytest.mark.parametrize("bits", [16, 8, 4, 2, 1])
def test_rows_of_one_word_lie_at_another_step_than_those_of_the_next_one(bits, lanes):
    rng = np.random.default_rng(lanes)
    q, name, width = 32 // bits, f"interleave{bits}" if bits >= 8 else "interleave_bits", max(1, bits // 8)
    order, size, wide = np.arange(q), lanes * width, lanes * width + 5
    places = np.concatenate([order * size, q * size + order * wide])
    rows = np.stack([places, np.repeat([0, 4 * lanes], q), np.tile(order, 2)], 1)
    tables = np.zeros((1, 2), np.int64), rows, np.array([[0, 0, lanes]]), np.array([0, 2 * q]), np.array([0, 1])
    source, target = (rng.integers(0, 256, n, np.uint8) for n in (q * (size + wide) - 5, 8 * lanes))
    expected = moved(source, target, *bits_moved(name, bits, 0, tables), bits)
    for streaming in (0, 1):
        options = (*tables_at_end(*tables), streaming, SCRATCH, *((bits, 0) if bits < 8 else ()))
        check(lambda a, b, own=options: KERNELS[name](a, b, *own), source, target, expected, (None, 0))


def test_a_group_with_uneven_rows_is_written_row_by_row():
    """Rows of one word may come from anywhere in the source."""
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 256, 1000, np.uint8), rng.integers(0, 256, 400, np.uint8)
    rows = np.array([[0, 0, 0], [300, 0, 1], [100, 0, 2], [700, 0, 3]], np.int64)
    tables = np.zeros((1, 2), np.int64), rows, np.array([[3, 0, 100]], np.int64), np.array([0, 4]), np.array([0, 1])
    expected = np.stack([source[row + 3 : row + 103] for row in rows[:, 0]], 1).ravel()
    check(lambda s, t: interleave.interleave8(s, t, *tables, 1, SCRATCH), source, target, expected, (None, 0))


# --- short rows -------------------------------------------------------------------------------------------------------


def check_short_rows(seed, size, streaming, places):
    """Rows of `size` bytes at random steps, which the target may have side by side, and runs that follow each other."""
    rng = np.random.default_rng(seed)
    matrices, runs = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    counts = rng.choice([1, 2, 3, 9, 64, rng.integers(1, 200), 5000 // (size + 3)], runs).astype(np.int64) + 1

    def side(*, spread: bool):
        """The step between rows, the offsets of runs and matrices, and bytes in all."""
        step = size + int(spread and rng.choice([0, 1, 3, 16, 70]))
        back = spread and rng.integers(0, 4) == 0
        gap = int(spread and rng.choice([0, 1, 64]))
        reach = step * (counts - 1) + size + gap
        starts = np.concatenate([[0], np.cumsum(reach)])
        offsets = starts[:-1] + back * step * (counts - 1)
        if spread:
            order = rng.permutation(matrices)
        else:
            order = np.arange(matrices)
        return (-step if back else step), offsets, order * starts[-1], int(matrices * starts[-1])

    s_step, s_runs, s_outer, s_size = side(spread=True)
    t_step, t_runs, t_outer, t_size = side(spread=bool(rng.integers(0, 2)))
    if rng.integers(0, 8) == 0:
        s_step = 0  # the same row again and again
    source, target = (rng.integers(0, 256, n, np.uint8) for n in (s_size, t_size))
    expected = target.copy()
    for s_matrix, t_matrix in zip(s_outer, t_outer, strict=True):
        for s_run, t_run, count in zip(s_runs, t_runs, counts, strict=True):
            for k in range(count):
                s, t = s_matrix + s_run + k * s_step, t_matrix + t_run + k * t_step
                expected[t : t + size] = source[s : s + size]
    tables = np.stack([s_outer, t_outer], 1), np.stack([s_runs, t_runs, counts], 1)
    tables = tables_at_end(*tables)
    kernel = short_rows.short_rows
    check(
        lambda a, b: kernel(a, b, *tables, s_step, t_step, size, streaming, SCRATCH), source, target, expected, places
    )


@examples(250)
@given(seeds, st.integers(1, 70) | st.sampled_from([96, 127, 128, 200]), flags, places)
def test_short_rows_move_every_row_and_nothing_else(seed, size, streaming, places):
    check_short_rows(seed, size, streaming, places)


@pytest.mark.parametrize("streaming", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 16, 17, 31, 32, 33, 63, 64, 65, 128])
def test_short_rows_at_any_step(size, streaming):
    """Forwards, backwards and the same row again; the first and the last byte of both lie beside pages not to touch."""
    rng = np.random.default_rng(size)
    outer = np.zeros((1, 2), np.int64)
    for s_step, t_step, count in product(
        (size, size + 3, -size, -size - 1, 0), (size, size + 1, size + 64, -size), (1, 2, 70)
    ):
        source, target = (rng.integers(0, 256, (count - 1) * abs(n) + size, np.uint8) for n in (s_step, t_step))
        s, t = (max(0, -n) * (count - 1) for n in (s_step, t_step))
        expected = target.copy()
        for k in range(count):
            expected[t + k * t_step :][:size] = source[s + k * s_step :][:size]
        tables = outer, np.array([[s, t, count]]), s_step, t_step, size
        run = lambda a, b: short_rows.short_rows(a, b, *tables, streaming, SCRATCH)  # noqa: B023, E731 (called at once)
        for places in ((None, None), (0, 0)):
            check(run, source, target, expected, places)


@pytest.mark.parametrize("begin", [0, 5])
@pytest.mark.parametrize("size", [1, 3, 7, 13, 30, 50, 100])
def test_short_rows_that_follow_each_other_are_put_together(size, begin):
    """More of them than are held at once, in matrices that go on where the one before ended, and one that does not."""
    count, matrices = 2 * held_run.RUN_BYTES // size + 3, 4
    x = np.random.default_rng(size).integers(0, 256, (matrices, count, size + 2), np.uint8)
    wanted = x[:, :, :size].reshape(matrices, -1)
    starts = begin + np.arange(matrices) * count * size + 100 * (np.arange(matrices) == matrices - 1)
    expected = np.full(starts[-1] + count * size + 9, 7, np.uint8)
    for start, matrix in zip(starts, wanted, strict=True):
        expected[start : start + matrix.size] = matrix
    tables = np.stack([np.arange(matrices) * count * (size + 2), starts], 1), np.array([[0, 0, count]])
    kernel = short_rows.short_rows
    check(
        lambda a, b: kernel(a, b, *tables, size + 2, size, size, 1, SCRATCH),
        x.ravel()[: x.size - 2],
        np.full_like(expected, 7),
        expected,
        (None, None),
    )


# --- transposes -------------------------------------------------------------------------------------------------------


def check_transpose(seed, bits, streaming, places, kernel=None):
    """By the kernel of this width, or by one that is told the width."""
    rng = np.random.default_rng(seed)
    width = bits // 8
    most = min(170, 30 + 4000 // width)
    matrices, p, q = (int(rng.integers(1, n)) for n in (3, most, most))

    def side(runs: int, count: int):
        """Table of row offsets, pieces along the run, bytes in all."""
        # Rows in order and without gaps are put together before they are written.
        dense = bool(rng.integers(0, 2))
        tile = 1 << 40 if dense else int(rng.choice([8, 16, 40, 128, 1 << 40]))
        start = 0 if dense else int(rng.integers(0, min(tile, 20)))
        run = Axis(tile, width, min(tile, runs + start) * width * count)
        gap = 0 if dense or tile <= runs + start else int(rng.integers(0, 90)) * width
        pitch = min(tile, runs + start) * width + gap
        limits = [0, *(k for k in range(1, runs) if (k + start) % tile == 0), runs]
        pieces = [(run.at(a + start), a, b - a) for a, b in pairwise(limits)]
        rows = (np.arange(count) if dense else rng.permutation(count)) * pitch
        return rows, np.array(pieces, np.int64), max(pitch * count, run.at(runs + start - 1) + pitch * count)

    source_rows, p_pieces, s_size = side(p, q)
    target_rows, q_pieces, t_size = side(q, p)
    outer = np.stack([np.arange(matrices) * s_size, np.arange(matrices) * t_size], 1)
    source, target = (rng.integers(0, 256, matrices * n, np.uint8) for n in (s_size, t_size))
    s_place, t_place = np.zeros(p, np.int64), np.zeros(q, np.int64)
    for place, pieces in ((s_place, p_pieces), (t_place, q_pieces)):
        for offset, first, count in pieces:
            place[first : first + count] = offset + np.arange(count) * width
    s = outer[:, 0, None, None] + s_place[:, None] + source_rows[None, :]
    t = outer[:, 1, None, None] + target_rows[:, None] + t_place[None, :]
    expected = target.copy()
    for k in range(width):
        expected[t + k] = source[s + k]
    tables = tables_at_end(outer, source_rows, target_rows, p_pieces, q_pieces)
    if kernel is None:
        kernel, options = getattr(transpose, f"transpose{bits}"), (streaming, SCRATCH)
    else:
        options = streaming, SCRATCH, width
    check(lambda a, b: kernel(a, b, *tables, *options), source, target, expected, places)


@examples(200)
@given(seeds, st.sampled_from([8, 16, 32, 64]), flags, places)
def test_transposes_move_every_element_and_nothing_else(seed, bits, streaming, places):
    check_transpose(seed, bits, streaming, places)


@examples(200)
@given(seeds, st.integers(1, 90) | st.sampled_from([128, 256]), flags, places)
def test_transposes_move_runs_of_any_size(seed, size, streaming, places):
    check_transpose(seed, 8 * size, streaming, places, transpose_runs.transpose_runs)


@pytest.mark.parametrize("place", [None, 3], ids=["at the end of memory", "anywhere"])
@pytest.mark.parametrize("count", [12, 67])
@pytest.mark.parametrize("size", [3, 5, 12, 16, 24, 40, 64])
def test_transposes_of_runs_in_rows_at_multiples_of_a_page(size, count, place):
    """They are read one after the other, and nothing is read behind the last one or behind the table of rows."""
    p = 4096 // math.gcd(4096, size)
    x = np.random.default_rng(size).integers(0, 256, (count, p, size), np.uint8)
    rows = Arena(8 * count).place(8 * count, at_end=True).view(np.int64)
    rows[:] = np.arange(count) * p * size
    pitch = count * size + 5  # rows that follow each other would be joined
    tables = np.zeros((1, 2), np.int64), rows, np.arange(p) * pitch
    tables += np.array([[0, 0, p]]), np.array([[0, 0, count]])
    kernel = transpose_runs.transpose_runs
    wanted = np.zeros((p, pitch), np.uint8)
    wanted[:, :-5] = x.swapaxes(0, 1).reshape(p, -1)
    target = np.zeros(wanted.size, np.uint8)
    check(lambda s, t: kernel(s, t, *tables, 1, SCRATCH, size), x.ravel(), target, wanted.ravel(), (place,) * 2)


def check_short_rows_of_runs(size, count, begin):
    """As many runs a row, which follow each other: several rows are put together in one go."""
    rng, matrices, p = np.random.default_rng(size), 3, 70
    x = rng.integers(0, 256, (matrices, count, p, size), np.uint8)
    y = x.swapaxes(1, 2).ravel()
    target = rng.integers(0, 256, y.size + 5, np.uint8)
    wanted = target.copy()
    wanted[: y.size] = y
    outer = np.stack([np.arange(matrices) * (y.size // matrices)] * 2, 1)
    tables = outer, np.arange(count) * p * size, np.arange(p) * count * size
    tables += np.array([[0, 0, p]]), np.array([[0, 0, count]])
    kernel = transpose_runs.transpose_runs
    check(lambda s, t: kernel(s, t, *tables, 1, SCRATCH, size), x.ravel(), target, wanted, (None, begin))


@pytest.mark.parametrize("begin", [64, 3])
@pytest.mark.parametrize("count", [2, 5, 20, 43])
@pytest.mark.parametrize("size", [3, 5, 12, 16, 24, 40])
def test_transposes_of_runs_put_short_rows_together(size, count, begin):
    check_short_rows_of_runs(size, count, begin)


@pytest.mark.parametrize("size", [3, 12, 40])
def test_transposes_of_runs_of_which_some_pieces_follow_each_other(size):
    """Of every matrix, the rows of the first piece count down in the target, those of the second one follow."""
    p, q = 20, 5
    x = np.random.default_rng(size).integers(0, 256, (2, q, 2 * p, size), np.uint8)
    order = np.concatenate([np.arange(p)[::-1], np.arange(p, 2 * p)])
    wanted = np.empty((2, 2 * p, q, size), np.uint8)
    wanted[:, order] = x.swapaxes(1, 2)
    tables = tables_at_end(
        np.arange(2)[:, None] * [x[0].size, x[0].size],
        np.arange(q) * 2 * p * size,
        order * q * size,
        np.array([[0, 0, p], [p * size, p, p]]),
        np.array([[0, 0, q]]),
    )
    kernel = transpose_runs.transpose_runs
    run = lambda s, t: kernel(s, t, *tables, 1, SCRATCH, size)  # noqa: E731
    check(run, x.ravel(), np.zeros(x.size, np.uint8), wanted.ravel(), (None, 3))


def check_cut_rows(seed, size, streaming, places):
    """Matrices of words in pieces along p, whose rows of the target follow each other, with gaps between some."""
    rng = np.random.default_rng(seed)
    q, matrices, pieces = -(-size // 4), int(rng.integers(1, 4)), int(rng.integers(1, 4))
    widths = rng.integers(1, 90, pieces)
    pitch = 4 * int(widths.sum()) + int(rng.integers(0, 60))
    limits = np.concatenate([[0], np.cumsum(widths)])
    p = int(limits[-1])
    p_pieces = np.stack([4 * limits[:-1] + rng.integers(0, 2) * 4 * np.arange(pieces), limits[:-1], widths], 1)
    source_rows = rng.permutation(q) * (pitch + 4 * pieces)
    # Some rows begin behind a gap, and other pieces go on there.
    target_rows = np.arange(p) * size + 7 * np.cumsum(rng.random(p) < rng.choice([0, 0, 0.02]))
    sizes = q * (pitch + 4 * pieces), int(target_rows[-1]) + size
    outer = np.arange(matrices)[:, None] * [sizes[0], sizes[1] + int(rng.integers(0, 2)) * 5]
    source = rng.integers(0, 256, int(outer[-1, 0]) + sizes[0], np.uint8)
    target = rng.integers(0, 256, int(outer[-1, 1]) + sizes[1], np.uint8)
    along = np.concatenate([begin + 4 * np.arange(n) for begin, _, n in p_pieces])
    byte = np.arange(size)
    s = outer[:, 0, None, None] + along[:, None] + source_rows[byte // 4] + byte % 4
    t = outer[:, 1, None, None] + target_rows[:, None] + byte
    source = source[: int((outer[:, 0].max() + along.max() + source_rows.max()) + 4)]  # words of the source are whole
    wanted = target.copy()
    wanted[t] = source[s]
    tables = tables_at_end(outer, source_rows, target_rows, p_pieces, [[0, 0, q]])
    kernel = transpose_cut.transpose_cut32
    check(lambda a, b: kernel(a, b, *tables, -size % 4, streaming, SCRATCH), source, target, wanted, places)


@examples(200)
@given(seeds, st.integers(1, 300) | st.sampled_from([1021, 1022, 1023]), flags, places)
def test_rows_that_end_inside_of_words(seed, size, streaming, places):
    check_cut_rows(seed, size, streaming, places)


@pytest.mark.parametrize("streaming", [0, 1])
@pytest.mark.parametrize("size", thinned([1, 2, 3, *range(13, 36), *range(57, 70), *range(121, 134)], 4))
def test_rows_that_end_inside_of_words_by_their_size(size, streaming):
    """With 61 bytes and more behind whole lines, the last square of a row is full, but not all of it is wanted."""
    for seed in range(4):
        check_cut_rows(seed, size, streaming, (None, None if seed % 2 else 3))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_transposes_of_more_rows_than_a_band_holds(bits):
    p, q = 2300, 70
    rng = np.random.default_rng(1)
    x = rng.integers(0, 256, (q, p * bits // 8), np.uint8)
    y = np.zeros(x.size, np.uint8)
    rows = np.arange(q) * p * bits // 8, np.arange(p) * q * bits // 8
    pieces = np.array([[0, 0, p]]), np.array([[0, 0, q]])
    kernel = getattr(transpose, f"transpose{bits}")
    kernel(x.ravel(), y, np.zeros((1, 2), np.int64), *rows, *pieces, 1, SCRATCH)
    np.testing.assert_array_equal(y.view(f"u{bits // 8}").reshape(p, q), x.view(f"u{bits // 8}").T)


def check_long_rows(seed, bits, place):
    """Rows of several lines, which begin with lines, at multiples of four bytes or anywhere, close or pages apart."""
    rng, width = np.random.default_rng(seed), bits // 8
    p, q = int(rng.integers(1, 140)), int(rng.integers(40, 300))
    step, page = int(rng.choice([64, width, 4, 1])), int(rng.choice([1, 1, 2048]))
    pitch = (q * width + int(rng.integers(0, 80)) + step - 1) // step * step
    pitch = (pitch + page - 1) // page * page + (page > 1) * step * int(rng.integers(0, 2))
    x = rng.integers(0, 256, (q, p, width), np.uint8)
    spare = int(rng.integers(0, 9)) * width
    source = np.concatenate([x.reshape(q, -1), rng.integers(0, 256, (q, spare), np.uint8)], 1).ravel()
    target = rng.integers(0, 256, (p, pitch), np.uint8)
    expected = target.copy()
    expected[:, : q * width] = x.swapaxes(0, 1).reshape(p, -1)
    rows = np.arange(q) * (p * width + spare), np.arange(p) * pitch
    tables = np.zeros((1, 2), np.int64), *rows, np.array([[0, 0, p]]), np.array([[0, 0, q]])
    kernel = getattr(transpose, f"transpose{bits}")
    used = source[: source.size - spare], target.ravel(), expected.ravel()
    check(lambda s, t: kernel(s, t, *tables, 1, SCRATCH), *used, (None, place))


@examples(150)
@given(seeds, st.sampled_from([8, 16, 32, 64]), st.none() | st.integers(0, 130) | st.sampled_from([0, 64]))
def test_transposes_write_long_rows_that_begin_anywhere(seed, bits, place):
    check_long_rows(seed, bits, place)


def check_bands(seed, bits, place, far=False):
    """Pieces of unlike numbers of rows, some lines of which are written while those of the next one are turned.

    Nothing is read behind the tables. Of a source that is `far`, lines are asked for.
    """
    rng, width = np.random.default_rng(seed), bits // 8
    side, matrices = 64 // width, 2
    # What is left of rows behind their last chunk is asked for in other parts than chunks.
    lines = 26 if far and rng.integers(0, 2) else 3
    counts = [
        int(rng.integers(1, lines * side)) if rng.integers(0, 2) else side * int(rng.integers(1, lines + 1))
        for _ in range(4)
    ]
    counts = counts[: int(rng.integers(1, 5))]
    p, firsts = sum(counts), np.cumsum([0, *counts[:-1]])
    offsets = firsts * width + np.cumsum(rng.integers(0, 20, len(counts)) * width)
    size = int(offsets[-1]) + counts[-1] * width
    q = 2 * side * int(rng.integers(1, 5)) + int(rng.choice([0, 0, 1, side]))
    if far:
        q = NEAR // (matrices * size) + int(rng.integers(1, 100))
    pitch = q * width + int(rng.choice([64, 128, 8, 3]))
    if rng.integers(0, 2):
        pitch = (pitch + 63) // 64 * 64
    source = rng.integers(0, 256, (matrices, q, size), np.uint8)
    target = rng.integers(0, 256, (matrices, p, pitch), np.uint8)
    parts = [source[:, :, o : o + n * width] for o, n in zip(offsets, counts, strict=True)]
    x = np.concatenate(parts, 2).reshape(matrices, q, p, width)
    expected = target.copy()
    expected[:, :, : q * width] = x.swapaxes(1, 2).reshape(matrices, p, -1)
    outer = np.arange(matrices)[:, None] * [source[0].size, target[0].size]
    pieces = np.stack([offsets, firsts, counts], 1), np.array([[0, 0, q]])
    rows = np.arange(q) * size, np.arange(p) * pitch
    tables = outer, *(table_at_end(k, table) for k, table in enumerate(rows)), *pieces
    kernel = getattr(transpose, f"transpose{bits}")
    check(lambda s, t: kernel(s, t, *tables, 1, SCRATCH), *map(np.ravel, (source, target, expected)), (None, place))


@examples(150)
@given(seeds, st.sampled_from([8, 16, 32, 64]), st.none() | st.sampled_from([0, 8, 3]))
def test_transposes_write_rows_of_one_band_while_others_are_turned(seed, bits, place):
    check_bands(seed, bits, place)


@examples(30)
@given(seeds, st.sampled_from([8, 16, 32, 64]), st.none() | st.sampled_from([0, 8, 3]))
def test_transposes_ask_for_rows_within_their_tables(seed, bits, place):
    check_bands(seed, bits, place, far=True)


@pytest.mark.parametrize("place", [None, 0], ids=["at the end of memory", "at the beginning"])
@pytest.mark.parametrize("count", [17, 40, 100])
@pytest.mark.parametrize("size", [64, 320, 704])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_transposes_ask_for_parts_of_rows_within_their_table(bits, size, count, place):
    """Pieces of a few lines, of fewer rows or more than the turning of a square asks for: less or more than a chunk."""
    width, pieces = bits // 8, 3
    each = size // width
    p = pieces * each
    source = np.random.default_rng(count).integers(0, 256, (count, pieces * size + NEAR // count), np.uint8)
    target = np.zeros((p, count * width + 5), np.uint8)
    wanted = target.copy()
    wanted[:, :-5] = source[:, : pieces * size].reshape(count, p, width).swapaxes(0, 1).reshape(p, -1)
    rows = placed(table_fences()[0], (np.arange(count) * source.shape[1]).view(np.uint8), place).view(np.int64)
    along = np.array([[size * k, each * k, each] for k in range(pieces)])
    tables = np.zeros((1, 2), np.int64), rows, np.arange(p) * target.shape[1], along, np.array([[0, 0, count]])
    kernel = getattr(transpose, f"transpose{bits}")
    check(lambda s, t: kernel(s, t, *tables, 1, SCRATCH), *map(np.ravel, (source, target, wanted)), (None, 3))


def check_last_row_among_others(bits, row, gap):
    """Of rows of 16 lines, this one is the last one of the source: its lines are written in another way than others."""
    rng, width, p = np.random.default_rng(row), bits // 8, 64
    q = 1024 // width
    order = np.arange(q)
    order[[row, q - 1]] = q - 1, row
    x = rng.integers(0, 256, (q, p, width), np.uint8)
    source = np.empty_like(x)
    source[order] = x
    target = rng.integers(0, 256, (p, q * width + gap), np.uint8)
    expected = target.copy()
    expected[:, : q * width] = x.swapaxes(0, 1).reshape(p, -1)
    rows = order * p * width, np.arange(p) * (q * width + gap)
    tables = np.zeros((1, 2), np.int64), *rows, np.array([[0, 0, p]]), np.array([[0, 0, q]])
    kernel = getattr(transpose, f"transpose{bits}")
    check(lambda s, t: kernel(s, t, *tables, 1, SCRATCH), *map(np.ravel, (source, target, expected)), (None, 64))


@pytest.mark.parametrize("gap", [0, 4, 3])
@pytest.mark.parametrize("part", [0, 2, 5, 7])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_the_last_row_of_the_source_is_any_one_of_those_that_are_transposed(bits, part, gap):
    """As where an axis is reversed."""
    check_last_row_among_others(bits, part * 128 * 8 // bits, gap)


def check_words_at_the_end_of_memory(bits, streaming):
    """Rows of the source that end less than a line before memory does are read by blocks, and no further."""
    each = 32 // bits
    tile = f":T({2 * max(8, each)},{9 * each})({each},1)}}"
    for blocks, count, missing in ((18, 9, 0), (9, 3, 1), (18, 18, each - 1), (10, 7, 1)):
        # The last rows, or the last columns, are those that are missing.
        for rows, columns in ((count * each - missing, blocks * each), (count * each, blocks * each - missing)):
            maps = [map_of(f"f32[2,{rows},{columns}]{{{order}{tile}") for order in ("2,1,0", "1,2,0")]
            source, target = Guarded(maps[0], bits, seed=1), Guarded(maps[1], bits, seed=2)
            wanted = expected(source.region, target)
            at_end = placed(fences()[0], source.region.buffer, None)
            with limits.replaced(small_elements=0, tiny_elements=0, stream_bytes=0 if streaming else 1 << 40):
                copy(source.region._replace(buffer=at_end), target.region)
            np.testing.assert_array_equal(target.memory, wanted)


@pytest.mark.parametrize("streaming", [True, False])
@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
def test_words_that_rows_share_on_both_sides_at_the_end_of_memory(bits, streaming):
    check_words_at_the_end_of_memory(bits, streaming)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("counts", [(70, 70), (64, 130, 3, 1, 200), (1, 1, 90)])
@pytest.mark.parametrize("gap", [5, 1000])
def test_transposes_put_rows_together_as_far_as_they_follow_each_other(bits, counts, gap):
    """The target's rows come in groups, with a gap behind each; the source's go on."""
    p, q, width = sum(counts), 11, bits // 8
    x = np.random.default_rng(gap).integers(0, 256, (2, q, p, width), np.uint8)
    groups = np.repeat(np.arange(len(counts)), counts)
    rows = np.arange(q) * p * width, np.arange(p) * q * width + groups * gap
    size = int(rows[1][-1]) + q * width
    expected = np.full((2, size), 7, np.uint8)
    wanted = x.swapaxes(1, 2).reshape(2, p, -1)
    expected[:, rows[1][:, None] + np.arange(q * width)] = wanted
    outer = np.arange(2)[:, None] * [q * p * width, size]
    tables = outer, *rows, np.array([[0, 0, p]]), np.array([[0, 0, q]])
    kernel = getattr(transpose, f"transpose{bits}")
    for streaming in (0, 1):
        target = np.full(expected.size, 7, np.uint8)
        check(
            lambda s, t, past=streaming: kernel(s, t, *tables, past, SCRATCH),
            x.ravel(),
            target,
            expected.ravel(),
            (None, None),
        )


def check_rows_that_follow(seed, bits, place):
    """Short rows of the target that follow each other, of a few squares and more: some are written while others are
    turned. Matrices in one run or with gaps between them, in bands and in pieces of any size."""
    rng, width = np.random.default_rng(seed), bits // 8
    side, matrices = 64 // width, int(rng.integers(1, 4))
    most = min(1024 // width, 5 * side)
    q = int(rng.integers(1, most + 1)) if rng.integers(0, 3) else side * int(rng.integers(1, most // side + 1))
    counts = [int(rng.integers(1, 6 * side)) for _ in range(int(rng.integers(1, 4)))]
    p, gap = sum(counts), int(rng.choice([0, 0, width, 64, 200]))
    x = rng.integers(0, 256, (matrices, q, p, width), np.uint8)
    target = rng.integers(0, 256, (matrices, p * q * width + gap), np.uint8)
    expected = target.copy()
    expected[:, : p * q * width] = x.swapaxes(1, 2).reshape(matrices, -1)
    firsts = np.cumsum([0, *counts[:-1]])
    rows = table_at_end(0, np.arange(q) * p * width), table_at_end(1, np.arange(p) * q * width)
    outer = np.arange(matrices)[:, None] * [q * p * width, target.shape[1]]
    tables = outer, *rows, np.stack([firsts * width, firsts, counts], 1), np.array([[0, 0, q]])
    kernel = getattr(transpose, f"transpose{bits}")
    for streaming in (1, 0):
        check(
            lambda s, t, past=streaming: kernel(s, t, *tables, past, SCRATCH),
            x.ravel(),
            target.ravel().copy(),
            expected.ravel(),
            (None, place),
        )


@examples(150)
@given(seeds, st.sampled_from([8, 16, 32, 64]), st.none() | st.integers(0, 70))
def test_transposes_write_short_rows_while_others_are_turned(seed, bits, place):
    check_rows_that_follow(seed, bits, place)


def few_kernel(bits, few):
    """The kernel for so few rows, as far as there is one."""
    return kernel_of(f"transpose_few{bits}" if few <= (4 if bits < 64 else 2) else f"transpose{bits}")


def check_turns(seed, bits, few, apart, streaming, places):
    """Few rows whose elements take turns on one side: taken apart, or put together."""
    rng = np.random.default_rng(seed)
    width = bits // 8
    matrices, count = int(rng.integers(1, 4)), int(rng.integers(1, 400))
    # On the other side the rows lie in tiles, which may begin with lines.
    tile, line = int(rng.choice([8, 40, 64, 128, 1 << 40])), int(rng.choice([1, 64]))
    pitch = -(-min(tile, count) * width // line) * line + line * int(rng.integers(0, 3))
    starts = range(0, count, tile)
    pieces = np.array([(k // tile * few * pitch, k, min(tile, count - k)) for k in starts], np.int64)
    size = few * pitch * len(starts)
    outer = np.stack([np.arange(matrices) * count * few * width, np.arange(matrices) * size], 1)
    turns, rows = (rng.integers(0, 256, matrices * n, np.uint8) for n in (count * few * width, size))
    index = np.arange(count)
    in_turn = outer[:, 0, None, None] + (index[:, None] * few + np.arange(few)) * width
    in_rows = outer[:, 1, None, None] + (index // tile * few * pitch + index % tile * width)[:, None]
    in_rows = in_rows + np.arange(few) * pitch
    along, across, own = np.arange(count) * few * width, np.arange(few) * pitch, np.array([[0, 0, few]])
    if apart:
        source, target, s, t, tables = turns, rows, in_turn, in_rows, (outer, along, across, own, pieces)
    else:
        tables = np.ascontiguousarray(outer[:, ::-1]), across, along, pieces, own
        source, target, s, t = rows, turns, in_rows, in_turn
    expected = target.copy()
    for k in range(width):
        expected[t + k] = source[s + k]
    kernel, tables = few_kernel(bits, few), tables_at_end(*tables)
    check(lambda a, b: kernel(a, b, *tables, streaming, SCRATCH), source, target, expected, places)


@examples(300)
@given(seeds, st.sampled_from([8, 16, 32, 64]), st.integers(2, 5), st.booleans(), flags, places)
def test_few_rows_take_turns(seed, bits, few, apart, streaming, places):
    check_turns(seed, bits, few, apart, streaming, places)


@pytest.mark.parametrize("few", [2, 3, 4])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("odd", [None, 0, 31, 32, 64, 127, 128, 255])
def test_rows_of_which_one_begins_elsewhere_are_no_even_ones(bits, few, odd):
    """Kernels look at many steps of a table at once: one that differs anywhere counts."""
    width, count = bits // 8, 257
    rows = np.arange(count) * few * width
    if odd is not None:
        rows[odd:] += 5 * width
    rng = np.random.default_rng(2)
    source, target = (rng.integers(0, 256, count * few * width + 5 * width, np.uint8) for _ in range(2))
    x = source[: count * few * width].reshape(few, count, width)
    expected = target.copy()
    expected[rows[:, None] + np.arange(few * width)] = x.transpose(1, 0, 2).reshape(count, -1)
    tables = np.zeros((1, 2), np.int64), np.arange(few) * count * width, rows
    pieces = np.array([[0, 0, count]]), np.array([[0, 0, few]])
    kernel = few_kernel(bits, few)
    for streaming in (0, 1):
        check(
            lambda s, t, past=streaming: kernel(s, t, *tables, *pieces, past, SCRATCH),
            source,
            target,
            expected,
            (None, 0),
        )


def check_few(bits, starts, along, pieces, *, apart, spare=0):
    """Rows at `starts` whose elements take turns: element k of row r is the r-th one at ``along[k]``.

    In the rows they lie in `pieces`, as the tables have them. Behind the source, so many bytes are to spare.
    """
    width, few, rng = bits // 8, len(starts), np.random.default_rng(3)
    in_rows = np.concatenate([offset + np.arange(count) * width for offset, _, count in pieces])[:, None] + starts
    in_turn = along[:, None] + np.arange(few) * width
    rows, turns = (rng.integers(0, 256, int(places.max()) + width, np.uint8) for places in (in_rows, in_turn))
    rows, turns = (np.pad(x, (0, more)) for x, more in ((rows, spare * (not apart)), (turns, spare * apart)))
    own, outer = np.array([[0, 0, few]]), np.zeros((1, 2), np.int64)
    if apart:
        source, target, s, t, tables = turns, rows, in_turn, in_rows, (outer, along, starts, own, pieces)
    else:
        source, target, s, t, tables = rows, turns, in_rows, in_turn, (outer, starts, along, pieces, own)
    expected = target.copy()
    for k in range(width):
        expected[t + k] = source[s + k]
    kernel, tables = few_kernel(bits, few), tables_at_end(*tables)
    for streaming in (0, 1):
        run = lambda a, b: kernel(a, b, *tables, streaming, SCRATCH)  # noqa: B023, E731 (called at once)
        check(run, source, target, expected, (None, 0))


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("few", [2, 3, 4])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_any_one_of_few_rows_may_be_the_last_one_or_begin_off_lines(bits, few, apart):
    width = bits // 8
    for count, last, odd in product((63, 127), range(few), range(few)):
        order, pitch = np.roll(np.arange(few), last + 1), (count + 1) * width + 63 & -64
        starts = order * pitch + width * (np.arange(few) == odd)
        for spare in (0, few - 1):
            pieces = np.array([[0, 0, count]])
            check_few(bits, starts, np.arange(count) * few * width, pieces, apart=apart, spare=spare)


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("few", [2, 3, 4])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_of_few_rows_one_piece_tells_nothing_of_the_next_one(bits, few, apart):
    """Elements that take turns follow each other in the first piece, and count down in the second."""
    width, count = bits // 8, 70
    along = np.concatenate([np.arange(count), np.arange(2 * count)[: count - 1 : -1]]) * few * width
    pieces = np.array([[0, 0, count], [(count + 3) * width, count, count]])
    check_few(bits, np.arange(few) * (2 * count + 5) * width, along, pieces, apart=apart)


# --- runs -------------------------------------------------------------------------------------------------------------


@examples(100)
@given(seeds, st.sampled_from([4, 2, 1]), flags, flags, flags, places)
def test_a_packed_run_becomes_bytes_and_bytes_a_packed_run(seed, bits, streaming, high_first, signed, places):
    check_packed_run(seed, bits, streaming, high_first, signed, places)


def check_packed_run(seed, bits, streaming, high_first, signed, places):
    rng = np.random.default_rng(seed)
    count, element, start = (int(rng.integers(0, n)) for n in (1500, 40, 70))
    check_run_of_packed(rng, (count, element, start), bits, streaming, high_first, signed, places)


def check_run_of_packed(rng, run, bits, streaming, high_first, signed, places):
    """So many elements, from one of the packed ones on and from a byte on."""
    count, element, start = run
    packed_bytes, flat = rng.integers(0, 256, -(-(element + count) * bits // 8), np.uint8), start + count
    where = (element + np.arange(count)) * bits
    if high_first:
        where ^= 8 - bits
    whole = (start + np.arange(count)) * 8
    target = rng.integers(0, 256, flat, np.uint8)
    expected = moved(packed_bytes, target, where, whole, bits, signed=signed, to_bytes=True)
    there, options = _run(element, start, count), (bits, signed, high_first, streaming, SCRATCH)
    check(lambda s, t: packed_runs.unpack(s, t, *there, *options), packed_bytes, target, expected, places)
    expected = moved(target, packed_bytes, whole, where, bits)
    back, options = _run(start, element, count), (bits, high_first, streaming, SCRATCH)
    check(lambda s, t: packed_runs.pack(s, t, *back, *options), target, packed_bytes, expected, places)


def _run(source, target, count):
    """The tables of one run."""
    return np.array([[source, target]]), np.zeros((1, 3), np.int64), np.array([[0, 0, count]])


@examples(200)
@given(seeds, st.sampled_from([4, 2, 1]), flags, flags, places)
def test_rows_of_bytes_become_words_of_packed_elements(seed, bits, streaming, high_first, places):
    rng = np.random.default_rng(seed)
    lanes, count, matrices, gap = (int(n) for n in rng.integers(1, (200, 40, 3, 40)))
    # Words that mostly follow each other.
    words = np.cumsum(rng.choice([1, 1, 1, int(rng.integers(1, 20))], count))
    starts = np.arange(matrices) * -(-lanes * bits // 32) * (words[-1] + 3) + int(rng.integers(20))
    check_words_of_rows(rng, lanes, gap, words, starts, bits, streaming, high_first, places)


@pytest.mark.parametrize("bits", [4, 2, 1])
def test_matrices_of_words_begin_at_other_words_of_lines_than_the_first_one(bits):
    """Where the words of the first one end with lines, those of the next one do not."""
    words, starts = np.concatenate([np.arange(16), np.arange(16) + 48]), np.array([0, 133, 272])
    check_words_of_rows(np.random.default_rng(0), 32 // bits, 0, words, starts, bits, 0, 0, (0, 0))


def check_words_of_rows(rng, lanes, gap, words, starts, bits, streaming, high_first, places):
    """Rows of bytes in any order become these words of a matrix, the next lanes those behind; so do other matrices."""
    each, count = 32 // bits, len(words)
    rows = np.stack([rng.permutation(count) * (lanes + gap), words * each, words], axis=1)
    first = np.arange(0, lanes, each)
    apart = int(rng.integers(2)) * (gap // 2) * (first >= lanes // 2)
    pieces = np.stack([first + apart, first * (words[-1] + 3), np.minimum(each, lanes - first)], axis=1)
    outer = np.stack([np.arange(len(starts)) * count * (lanes + gap), starts * each], axis=1)
    lane = np.concatenate([np.arange(n) for n in pieces[:, 2]])
    along = pieces[np.repeat(np.arange(len(pieces)), pieces[:, 2])][:, :2] + lane[:, None]
    s, t = (np.add.outer(np.add.outer(outer[:, k], rows[:, k]), along[:, k]).ravel() for k in (0, 1))
    source = rng.integers(0, 256, s.max() + 1, np.uint8)
    target = rng.integers(0, 256, (t.max() // each + 1) * 4, np.uint8)
    expected = moved(source, target, s * 8, t * bits ^ (8 - bits) * high_first, bits)
    arguments = (*tables_at_end(outer, rows, pieces), bits, high_first, streaming, SCRATCH)
    check(lambda s, t: packed_words.pack_words(s, t, *arguments), source, target, expected, places)


@pytest.mark.parametrize("signed", [0, 1])
@pytest.mark.parametrize("high_first", [0, 1])
@pytest.mark.parametrize("bits", [4, 2, 1])
def test_nests_of_packed_runs_end_where_memory_does(bits, high_first, signed):
    """Eight elements are moved at once: no more than are there, and what their bytes hold besides stays."""
    rng = np.random.default_rng(bits)
    for count, element in product(range(1, 18), range(8 // bits)):
        packed_bytes, flat = rng.integers(0, 256, -(-(element + count) * bits // 8), np.uint8), 1 + count
        where, whole = (element + np.arange(count)) * bits, (1 + np.arange(count)) * 8
        if high_first:
            where ^= 8 - bits
        target = rng.integers(0, 256, flat, np.uint8)
        expected = moved(packed_bytes, target, where, whole, bits, signed=signed, to_bytes=True)
        there, options = _nest(element, 1, count), (bits, 8, high_first, 0, signed)
        check(
            lambda s, t, a=(*there, *options): loop_nest.nest_bits(s, t, *a), packed_bytes, target, expected, [None] * 2
        )
        expected = moved(target, packed_bytes, whole, where, bits)
        back, options = _nest(1, element, count), (8, bits, 0, high_first, 0)
        check(
            lambda s, t, a=(*back, *options): loop_nest.nest_bits(s, t, *a), target, packed_bytes, expected, [None] * 2
        )


def _nest(source, target, count):
    """The tables of one run, as a nest takes them."""
    return np.array([[source, target]]), np.array([[0, 0, 1]]), (0, 0), np.array([[0, 0, count]]), (1, 1)


@pytest.mark.parametrize("streaming", [0, 1])
@pytest.mark.parametrize("words", [1, 5, 16, 17, 20])
def test_of_words_that_rows_of_bytes_share_no_other_bytes_are_touched(words, streaming):
    """They may be another thread's: here the last one of them is no memory at all."""
    source = np.random.default_rng(words).integers(0, 256, (3, words, 4), np.uint8)
    target = np.full((4, words, 4), 99, np.uint8)
    wanted = target.copy()
    wanted[:, :, :3] = source.transpose(2, 1, 0)
    rows = np.arange(4)[:, None] * np.array([4 * words, 4 * words, 0])
    arguments = (*tables_at_end(np.zeros((1, 2)), rows, np.array([[0, 0, 4 * words]])), 4, 3, streaming, SCRATCH)
    check(
        lambda s, t: exchange_rows.exchange8(s, t, *arguments),
        source.ravel(),
        target.ravel()[:-1],
        wanted.ravel()[:-1],
        [None] * 2,
    )


@pytest.mark.parametrize("place", [0, 2, 4])
@pytest.mark.parametrize("words", [16, 33, 70])
def test_rows_of_words_begin_inside_of_lines_or_of_words(words, place):
    """No whole line can be streamed there."""
    source = np.random.default_rng(words).integers(0, 256, (4, words, 4), np.uint8)
    rows = np.arange(4)[:, None] * np.array([4 * words, 4 * words, 0])
    arguments = (*tables_at_end(np.zeros((1, 2)), rows, np.array([[0, 0, 4 * words]])), 4, 4, 1, SCRATCH)
    wanted, target = source.transpose(2, 1, 0).ravel(), np.zeros(source.size, np.uint8)
    check(lambda s, t: exchange_rows.exchange8(s, t, *arguments), source.ravel(), target, wanted, [0, place])


@pytest.mark.parametrize("rows", [1, 3, 70])
@pytest.mark.parametrize("columns", [1, 5, 9, 30, 80])
def test_turned_words_ask_for_the_ends_of_runs_within_their_table(rows, columns):
    source = np.random.default_rng(rows).integers(0, 256, (rows, columns, 4, 4), np.uint8)
    wanted, target = source.transpose(1, 0, 3, 2).ravel(), np.zeros(source.size, np.uint8)
    starts = [16 * own * np.arange(count) for own, count in ((columns, rows), (rows, columns))]
    pieces = [np.array([[0, 0, count]]) for count in (columns, rows)]
    tables = tables_at_end(np.zeros((1, 2)), *starts, *pieces)
    check(
        lambda s, t: transpose_words.transpose_words8(s, t, *tables, 4, 4, 1, SCRATCH),
        source.ravel(),
        target,
        wanted,
        [0, 16],
    )


# --- single elements --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_offsets_outside_are_skipped_and_counted(width):
    rng = np.random.default_rng(width)
    elements, count = 300, 200
    offsets = rng.permutation(elements)[:count]
    offsets[[5, 99, 198, 199]] = elements, -1, elements, 1 << 60
    inside = (offsets >= 0) & (offsets < elements)
    many, few = (rng.integers(0, 256, n * width, np.uint8) for n in (elements, count))
    wanted = [few.copy(), many.copy()]
    wanted[0].reshape(-1, width)[inside] = many.reshape(-1, width)[offsets[inside]]
    wanted[1].reshape(-1, width)[offsets[inside]] = few.reshape(-1, width)[inside]
    found = []
    at_end = table_at_end(0, offsets)
    for kernel, source, target in ((gather_scatter.gather, many, few), (gather_scatter.scatter, few, many)):
        run = lambda s, t, kernel=kernel: found.append(kernel(s, t, at_end, width))  # noqa: E731
        check(run, source, target, wanted[len(found)], [None] * 2)
    assert found == [4, 4]


def test_elements_are_asked_for_within_the_list_of_their_offsets():
    source, target = np.zeros(CACHED + 1, np.uint8), np.ones(200, np.uint8)
    assert gather_scatter.gather(source, target, table_at_end(0, np.arange(200)), 1) == 0
    assert not target.any()


@pytest.mark.parametrize("behind", [0, 9])
@pytest.mark.parametrize("bits", [32, 64])
def test_varints_are_read_as_far_as_they_go(bits, behind):
    """Eight bytes are looked at together: none behind the last one, be it another thread's or no memory."""
    rng = np.random.default_rng(behind)
    for k in range(150):
        numbers = [int(rng.integers(1 << 62)) >> int(rng.integers(62)) >> 55 * (k % 2) for _ in range(rng.integers(20))]
        data = b"".join(map(varint, numbers))
        given = placed(fences()[0], np.frombuffer(data + bytes(behind), np.uint8), None)
        out = placed(fences()[1], np.zeros(len(numbers) * bits // 8, np.uint8), None).view(f"u{bits // 8}")
        assert kernel_of(f"decode_varints{bits}")(read_only(given), 0, len(data), out, 0) == len(data)
        assert out.tolist() == [n & (1 << bits) - 1 for n in numbers]


@pytest.mark.parametrize("start", [0, 5])
@pytest.mark.parametrize("step", [1, 3])
def test_digits_of_any_weight_and_size_are_added(start, step):
    """Only where both are powers of two is a division a shift and a mask."""
    indices, digits = np.arange(500), [(w, n, 1000 * w + n) for w in (1, 2, 3, 8, 12) for n in (1, 2, 3, 4, 5, 8)]
    for weight, size, stride in digits:
        offsets = np.full(500, 7)
        gather_scatter.add_digits(indices, start, step, np.array([[weight, size, stride]]), offsets)
        np.testing.assert_array_equal(offsets, 7 + (start + step * indices) // weight % size * stride)


@examples(100)
@given(seeds, st.sampled_from([4, 2, 1]), flags, flags, flags, places)
def test_many_packed_runs_at_once(seed, bits, streaming, high_first, signed, places):
    rng = np.random.default_rng(seed)
    matrices, rows, pieces = (int(n) for n in rng.integers(1, 4, 3))
    # Runs of up to 90 elements, 100 apart on the packed side and 95 apart in bytes.
    lengths = rng.integers(0, 91, pieces)
    number = np.arange(matrices * rows * pieces).reshape(matrices, rows, pieces)
    starts = number * 100 + int(rng.integers(0, 8)), number * 95 + int(rng.integers(0, 8))
    lane = np.concatenate([np.arange(n) for n in lengths])
    run = np.repeat(np.arange(pieces), lengths)
    packed_at, byte_at = ((x[:, :, run] + lane).ravel() for x in starts)
    packed_at = packed_at * bits ^ (8 - bits if high_first else 0)
    packed_bytes = rng.integers(0, 256, -(-(number.size * 100 + 8) * bits // 8), np.uint8)
    flat = rng.integers(0, 256, number.size * 95 + 8, np.uint8)

    def tables(first, second):
        outer, rows, pieces = (np.stack([x, y], 1) for x, y in zip(parts(first), parts(second), strict=True))
        return tables_at_end(outer, np.pad(rows, ((0, 0), (0, 1))), np.column_stack([pieces, lengths]))

    def parts(x):
        return x[:, 0, 0], x[0, :, 0] - x[0, 0, 0], x[0, 0, :] - x[0, 0, 0]

    expected = moved(packed_bytes, flat, packed_at, byte_at * 8, bits, signed=signed, to_bytes=True)
    there, options = tables(*starts), (bits, signed, high_first, streaming, SCRATCH)
    check(lambda s, t: packed_runs.unpack(s, t, *there, *options), packed_bytes, flat, expected, places)
    expected = moved(flat, packed_bytes, byte_at * 8, packed_at, bits)
    back, options = tables(*starts[::-1]), (bits, high_first, streaming, SCRATCH)
    check(lambda s, t: packed_runs.pack(s, t, *back, *options), flat, packed_bytes, expected, places)


@pytest.mark.parametrize("begin", [0, 5])
@pytest.mark.parametrize("count", [7, 64, 130, 256, 300])
@pytest.mark.parametrize("bits", [4, 2, 1])
def test_unpacked_runs_that_follow_each_other_are_put_together(bits, count, begin):
    """More of them than are held at once, and a matrix that does not go on where the one before ended."""
    runs, pitch = held_run.RUN_BYTES // count + 3, count + -count % (8 // bits)
    packed = np.random.default_rng(count).integers(0, 256, 3 * runs * pitch * bits // 8, np.uint8)
    outer = np.array([[k * runs * pitch, begin + k * runs * count + 100 * (k == 2)] for k in range(3)])
    rows = np.stack([np.arange(runs) * pitch, np.arange(runs) * count, np.zeros(runs, np.int64)], 1)
    expected = np.full(outer[-1, 1] + runs * count, 7, np.uint8)
    places = [(outer[:, None, k, None] + rows[:, k, None] + np.arange(count)).ravel() for k in (0, 1)]
    expected[places[1]] = packed[places[0] * bits // 8] >> places[0] * bits % 8 & (1 << bits) - 1
    tables = outer, rows, np.array([[0, 0, count]]), bits, 0, 0, 1, SCRATCH
    check(lambda s, t: packed_runs.unpack(s, t, *tables), packed, np.full_like(expected, 7), expected, (None, None))


@pytest.mark.parametrize("high_first", [0, 1])
@pytest.mark.parametrize("bits", [4, 2, 1])
def test_packed_runs_of_nearly_a_line_end_where_memory_does(bits, high_first):
    """One byte that is read too many shows only where the elements end in the last byte of as many as a line takes."""
    for count, element in product(range(49, 66), {1, 8 // bits - 1}):
        for streaming in (0, 1):
            run = count, element, 5
            check_run_of_packed(np.random.default_rng(count), run, bits, streaming, high_first, 0, (None, None))


@pytest.mark.parametrize("streaming", [0, 1])
def test_rows_of_any_length_end_where_memory_does(streaming):
    """One byte that is read too many shows at a single one of 64 lengths."""
    source = np.random.default_rng(1).integers(0, 256, 140, np.uint8)
    for count, begin in product(range(1, 140), (0, 5)):
        tables = np.zeros((1, 2), np.int64), np.zeros((1, 3), np.int64), np.array([[0, 0, count]]), *[np.arange(2)] * 2
        run = lambda s, t: interleave.rows(s, t, *tables, streaming, SCRATCH)  # noqa: B023, E731 (called at once)
        check(run, source[:count], np.zeros(count, np.uint8), source[:count], (None, begin))


@pytest.mark.parametrize("streaming", [0, 1])
@pytest.mark.parametrize("q", [5, 64, 200])
def test_transposed_rows_of_nearly_a_line_end_where_memory_does(q, streaming):
    for p, last in product((31, 47, 63, 64, 65, 127), (q - 1, q // 2)):
        x = np.random.default_rng(p).integers(0, 256, (q, p), np.uint8)
        order = np.roll(np.arange(q), last + 1)  # row `last` is the farthest one
        tables = np.zeros((1, 2), np.int64), order * p, np.arange(p) * (q + 3)
        tables += np.array([[0, 0, p]]), np.array([[0, 0, q]])
        wanted = np.zeros((p, q + 3), np.uint8)
        wanted[:, :q] = x[order].T
        run = lambda s, t: transpose.transpose8(s, t, *tables, streaming, SCRATCH)  # noqa: B023, E731 (called at once)
        check(run, x.ravel(), np.zeros(wanted.size, np.uint8), wanted.ravel(), (None, 3))


@given(seeds, flags, places)
def test_copy_moves_a_run(seed, streaming, places):
    rng = np.random.default_rng(seed)
    count, a, b = (int(rng.integers(0, n)) for n in (1000, 70, 70))
    source, target = rng.integers(0, 256, a + count, np.uint8), rng.integers(0, 256, b + count + 5, np.uint8)
    expected = target.copy()
    expected[b : b + count] = source[a:]
    check(lambda s, t: contiguous.copy(s, t, a, b, count, streaming), source, target, expected, places)


@examples(100)
@given(seeds, st.sampled_from([1, 2, 4, 8, 16]), flags, places)
def test_fill_repeats_the_element_from_each_piece_on(seed, width, streaming, places):
    rng = np.random.default_rng(seed)
    element = rng.integers(0, 256, width, np.uint8)
    counts = rng.integers(0, 200 // width, 3)
    pieces = np.stack([np.full(3, -1), np.array([3, 207, 411]), counts * width], 1)
    rows = np.array([[-1, 0, 0], [-1, 640, 0]], np.int64)
    outer = np.array([[-1, 0], [-1, 1300]], np.int64)
    target = rng.integers(0, 256, 2700, np.uint8)
    expected = target.copy()
    for o, r, (_, t, n) in product(outer[:, 1], rows[:, 1], pieces):
        expected[o + r + t : o + r + t + n] = np.tile(element, n // width)
    pattern = np.tile(element, 128 // width)
    check(lambda s, t: contiguous.fill(s, t, outer, rows, pieces, streaming), pattern, target, expected, places)


# --- surroundings -----------------------------------------------------------------------------------------------------


def test_kernels_run_side_by_side_in_threads():
    with ThreadPoolExecutor(4) as pool:
        tables, (source, target) = tile_case(5, "deinterleave8", 8)
        s, t = bits_moved("deinterleave8", 8, 0, tables)
        expected = moved(source, target, s, t, 8)

        def once(_):
            mine = target.copy()
            interleave.deinterleave8(source, mine, *tables, 1, np.zeros(SCRATCH_BYTES, np.uint8))
            return np.array_equal(mine, expected)

        assert all(pool.map(once, range(64)))


def check_all(count: int = 6) -> None:
    """Some cases of every kernel."""
    for seed in range(count):
        where = (None, None) if seed % 2 else (seed, 64 + 3 * seed)
        check_tiles(seed, "rows", 32, 1, 0, 0, where)
        for kernel, bits in BITS.items():
            check_tiles(seed, kernel, bits, seed % 3 > 0, 0, 0, where)
        for kernel in ("deinterleave_bits", "interleave_bits"):
            check_tiles(seed, kernel, 4, 1, 0, 1, where)
        for bits in (8, 16):
            # On some CPUs, these go a way of their own.
            check_long_rows_of_pieces(bits, 1 + seed, (70, 64, 2111))
            check_long_rows_of_pieces(bits, 2 * seed, (64, 96, 5, 100) * 6)
        for bits in (1, 2, 4):
            check_packed_run(seed, bits, 1, 0, 1, where)
        for bits in (1, 2, 4, 8, 16):
            check_words_at_the_end_of_memory(bits, seed % 2)
        for bits in (8, 16, 32, 64):
            check_transpose(seed, bits, 1, where)
            check_last_row_among_others(bits, 128 * 8 * seed // bits, 4)
            for k in range(4):
                check_long_rows(4 * seed + k, bits, where[1])
                check_bands(4 * seed + k, bits, where[1])
                check_rows_that_follow(4 * seed + k, bits, where[1])
            for few in (2, 3, 4):
                check_turns(seed, bits, few, seed % 2, seed % 3 > 0, where)
        for size in (1, 3, 7, 12, 16, 30, 64, 100):
            check_short_rows(seed, size, 1, where)
        for size in (1, 3, 5, 12, 16, 40, 100):
            check_transpose(seed, 8 * size, 1, where, transpose_runs.transpose_runs)
            check_short_rows_of_runs(size, 2 + 7 * seed, seed)
    check_every_place("s32[99,1,93]{1,2,0:T(3,5)}")


def check_transposes(count: int = 60) -> None:
    """Some cases of the transposes that write lines in ways that differ by the CPU."""
    for seed in range(count):
        place = None if seed % 3 else 64
        for bits in (32, 64):
            check_transpose(seed, bits, 1, (place, place))
            check_long_rows(seed, bits, place)
            check_bands(seed, bits, place)
            check_rows_that_follow(seed, bits, place)
        check_cut_rows(seed, 1 + seed * 7 % 190, 1, (place, place))
    for bits, part in product((32, 64), (2, 5)):
        check_last_row_among_others(bits, part * 128 * 8 // bits, 4)


@given(st.sampled_from([2, 4, 8, 16]), st.data())
def test_all_words_of_the_next_matrices_are_asked_for(shared, data):
    """Also where rows of a window share the first and last words with others that are not wanted."""
    count, first = data.draw(st.integers(1, 40)), data.draw(st.integers(0, shared - 1))
    size = data.draw(st.integers(4, 5000))
    members = np.arange(first, first + count)
    words = members // shared
    rows = np.stack([words * 4096, np.zeros_like(words), members % shared], 1)
    on = word_rows._rows_ahead.py_func(rows, shared, size)
    begins = [i for i in range(count) if i == 0 or words[i] != words[i - 1]]
    asked = sorted(words[(i + on) % count] for i in begins)
    if count // shared * size <= 1 << 15:
        assert asked == list(range(words[-1] + 1))
    assert on >= shared
    assert on // shared * size >= 4096 - size or on >= count
