"""The picture of a layout as SVG: the array stands above its memory, and fits a page."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from strided.pictures.svg import svg

_SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(
    "text", ["f32[]", "f32[7]", "bf16[3000]{0:T(1024)(128)(2,1)}", "f32[3,5]{1,0:T(2,2)}", "f32[1000000,3]{1,0}"]
)
def test_the_array_begins_where_its_memory_does(text: str) -> None:
    boxes = ET.fromstring(svg(text)).findall(f"{_SVG}rect")
    lefts = {y: min(float(b.attrib["x"]) for b in boxes if b.attrib["y"] == y) for y in {b.attrib["y"] for b in boxes}}
    assert len(lefts) > 1
    assert len(set(lefts.values())) == 1


def test_labels_have_room() -> None:
    root = ET.fromstring(svg("f32[1000000,3]{1,0}"))
    for words in root.iter(f"{_SVG}text"):
        if words.attrib["text-anchor"] == "end":
            assert float(words.attrib["x"]) >= 7.3 * len(words.text or "")


@pytest.mark.parametrize(("rank", "widest"), [(2, 16), (8, 8)])
def test_slots_of_many_indices_stand_in_fewer_columns(rank: int, widest: int) -> None:
    root = ET.fromstring(svg(f"f32[{','.join('3' * rank)}]"))
    assert float(root.attrib["width"]) < 1300
    rows: dict[str, int] = {}
    for box in root.findall(f"{_SVG}rect"):
        rows[box.attrib["y"]] = rows.get(box.attrib["y"], 0) + 1
    assert max(rows.values()) == min(widest, 3**rank)


def test_cells_of_padding_have_lines_alone() -> None:
    drawn = ET.fromstring(svg("f32[3,5]{1,0:T(2,2)}"))
    fills = [box.attrib["fill"] for box in drawn.findall(f"{_SVG}rect")]
    assert fills.count("none") == 2 * (4 * 6 - 3 * 5)  # in the array and in its memory
    assert all(fill == "none" or fill.startswith("#") for fill in fills)


def test_an_array_without_padding_shows_none() -> None:
    drawn = ET.fromstring(svg("f32[40,30]{1,0}"))
    labels = [words.text for words in drawn.iter(f"{_SVG}text")]
    shown = [*map(str, range(14)), "\u2026", "29"]
    assert labels[: 2 * len(shown) + 1] == [*shown, "0", *shown]  # the columns, and the first row
    assert labels[labels.index("299") + 1 :][: len(shown) + 2] == ["\u2026"] * (len(shown) + 1) + ["39"]
    assert all(labels)
