"""Maps of marks: what a cell holds, put to counting one element at a time; what is drawn, put to the counts."""

from __future__ import annotations

import codecs
import itertools
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strided.memory.pictures import _DATA, _LEVELS, _PADDING, _REST
from strided.pictures.folding import coarser, folding, refolded
from strided.pictures.grid import ELISION
from strided.pictures.marks import _SHADES, MOST_COLUMNS, MOST_ROWS, MarkMap
from strided.pictures.picture import PADDING
from strided.pictures.plain import in_plain_marks


def test_marks_in_ascii_mean_one_thing() -> None:
    codecs.register_error("plain", in_plain_marks)
    for marks in ("".join(_SHADES), _LEVELS, _DATA + _PADDING + _REST, ELISION + PADDING + "0123456789|+-"):
        plain = marks.encode("ascii", "plain").decode()
        assert len(set(plain)) == len(marks) == len(plain)
        assert not set(plain) & set("?!")
    assert not set(_SHADES.encode("ascii", "plain").decode()) & set("|+-!0123456789 ")
    assert "\u00e9\u2588".encode("ascii", "plain") == b"?#"


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[int, ...], dict[int, int], int, int]:
    shape = tuple(draw(st.lists(st.integers(1, 9), max_size=4)))
    tile = {d: draw(st.integers(1, 9)) for d in range(len(shape)) if draw(st.booleans())}
    return shape, tile, draw(st.integers(1, 12)), draw(st.integers(1, 12))


def marks_of(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) < 0.4


def in_parts(shape: tuple[int, ...], size: int) -> list[tuple[slice, ...]]:
    return list(itertools.product(*([slice(k, min(k + size, n)) for k in range(0, n, size)] for n in shape)))


@given(cases(), st.integers(1, 5), st.integers(0, 9))
def test_every_element_is_counted_in_one_cell(case, size, seed) -> None:
    shape, tile, max_rows, max_columns = case
    marked, cells = marks_of(shape, seed), folding(shape, max_rows, max_columns, tile)
    counts = cells.counts()
    for box in in_parts(shape, size):
        cells.add(counts, box, marked[box])
    whole, everything = cells.counts(), cells.counts()
    for box in in_parts(shape, size):
        cells.add_all(whole, box)
        cells.add(everything, box, np.ones_like(marked[box]))
    assert whole.tolist() == everything.tolist()
    assert cells.rows <= max_rows
    assert cells.columns <= max_columns
    assert cells.sizes().sum() == math.prod(shape)
    whole = marked.reshape((1,) * (2 - len(shape)) + shape)
    named = [
        eval(f"whole[{row or 0},{column}]", {"whole": whole})
        for row in cells.row_labels()
        for column in cells.column_labels()
    ]
    assert [np.count_nonzero(part) for part in named] == counts.reshape(-1).tolist()
    assert [np.size(part) for part in named] == cells.sizes().reshape(-1).tolist()


@given(cases(), st.integers(1, 12), st.integers(1, 12))
def test_a_coarser_map_has_the_same_counts(case, max_rows, max_columns) -> None:
    shape, tile, fine_rows, fine_columns = case
    fine = folding(shape, fine_rows, fine_columns, tile)
    coarse = coarser(fine, min(max_rows, fine_rows), min(max_columns, fine_columns))
    marked, box = marks_of(shape, 1), tuple(slice(0, n) for n in shape)
    counts, wanted = fine.counts(), coarse.counts()
    fine.add(counts, box, marked)
    coarse.add(wanted, box, marked)
    assert refolded(counts, fine, coarse).reshape(-1).tolist() == wanted.reshape(-1).tolist()


@pytest.mark.parametrize("shape", [(4096, 4096), (17, 300), (3, 40, 1000), (5, 7, 100, 24), (10**9,), (1, 10**12)])
@pytest.mark.parametrize("size", [8, 12, 128])
def test_cells_meet_the_edges_of_tiles(shape, size) -> None:
    cells = folding(shape, 48, 100, dict.fromkeys(range(len(shape)), size))
    for cell, n in ((cells.height, cells.shape[cells.split]), (cells.width, cells.shape[-1])):
        assert size >= n or cell % size == 0 or size % cell == 0


def drawn(shape: tuple[int, ...], tile: dict[int, int], *boxes: tuple[slice, ...], flag: bool = False) -> MarkMap:
    cells = folding(shape, MOST_ROWS, MOST_COLUMNS, tile)
    counts, flags = cells.counts(), cells.counts()
    for box in boxes:
        cells.add(counts, box, np.ones([s.stop - s.start for s in box], bool))
    if flag:
        flags.reshape(-1)[0] = 1
    return MarkMap(cells, counts, "differs", flags, "looks like data")


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize(
    "shape", [(), (5,), (10**7,), (1, 1), (17, 384), (4096, 8192), (3, 3, 70, 70), (2, 50, 3, 9, 1000)]
)
def test_text_keeps_to_the_width(shape, width) -> None:
    tile = dict(zip(range(len(shape))[-2:], (8, 128), strict=False))
    lines = drawn(shape, tile).text(width).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= 24 + 10


def test_shades_tell_shares() -> None:
    cells = folding((5, 9), 5, 1)
    counts = np.array([[0], [1], [6], [8], [9]])
    lines = MarkMap(cells, counts, "differs").text().splitlines()
    assert lines[1:6] == ["0 ·", "1 ░", "2 ▒", "3 ▓", "4 █"]
    assert lines[6:] == ["a cell: 1 x 9 elements; differs: · none ░ up to 1/3 ▒ up to 2/3 ▓ most █ all"]


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((5,), "1 element"),
        ((1000,), "8 elements"),
        ((5, 9), "1 x 1 elements"),
        ((), "1 element"),
        ((1, 5), "1 element"),
    ],
)
def test_a_cell_of_one_element_has_one_element(shape, wanted) -> None:
    map_ = drawn(shape, {})
    assert f"a cell: {wanted}; differs:" in map_.text(200)
    assert f">a cell: {wanted}<" in map_.svg()


def test_one_flag_is_seen_at_every_width() -> None:
    map_ = drawn((4096, 8192), {0: 8, 1: 128}, flag=True)
    for width in (20, 80):
        text = map_.text(width)
        assert "! looks like data" in " ".join(text.split())
        assert text.splitlines()[1].split()[1].startswith("!")
    assert "looks like data" in map_.svg()
    assert "looks like data" not in drawn((4096, 8192), {}).svg()


def test_svg_is_well_formed_and_shows_what_is_marked() -> None:
    map_ = drawn((17, 300), {0: 8, 1: 128}, np.s_[8:16, 128:256])
    root = ET.fromstring(map_.svg("<a> & b"))
    assert root[0].text == "<a> & b"
    boxes = [each for each in root if each.tag.endswith("rect") and each.get("fill") == "#56b4e9"]
    background = next(each for each in root if each.tag.endswith("rect"))
    assert {float(each.get("width")) / float(background.get("width")) for each in boxes[:-1]} == {128 / 300}
    assert len(boxes) - 1 == 8 // map_.folding.height  # and the legend's
    words = [each.text for each in root if each.tag.endswith("text")]
    assert {"8", "128", "256", "differs: all", "differs: none"} <= set(words)
