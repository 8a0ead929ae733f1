"""Shapes and layouts as HTML for notebooks."""

from __future__ import annotations

from typing import Any

from strided.errors import LayoutError
from strided.inspect.describe import rows_of, size_of
from strided.layout import BufferShape, Layout, Shape, TupleShape
from strided.layout.tuples import unbuffered
from strided.pictures.html import Section, card, layout_section, table
from strided.wording import counted

#: The most arrays of a tuple that are listed.
_SHOWN = 40


def shape_as_html(shape: Shape | BufferShape) -> str:
    """An array's shape as HTML: the rows of `describe`, and a picture of its layout.

    >>> from strided import parse
    >>> "3 x 5" in shape_as_html(parse("f32[3,5]{1,0:T(2,2)}"))
    True
    """
    array = unbuffered(shape)
    return card(type(shape).__name__, str(shape), rows_of(array), layout_section(array))


def tuple_as_html(shape: TupleShape) -> str:
    """A tuple's arrays as HTML, each with its size."""
    rows: list[tuple[Any, ...]] = [
        (",".join(map(str, index)), leaf, "unknown" if (size := size_of(leaf)) is None else size)
        for index, leaf in shape.leaves()
    ]
    listed = table(("index", "shape", "bytes"), rows[:_SHOWN], max(0, len(rows) - _SHOWN))
    return card(
        "TupleShape", counted(len(shape), "element"), (), [Section(counted(len(rows), "array"), listed, is_open=True)]
    )


def layout_as_html(layout: Layout) -> str:
    """A layout's attributes as HTML, and a picture of a small array in it.

    >>> from strided import parse_layout
    >>> "an array in it: u8[3,3]{1,0:T(2,2)}" in layout_as_html(parse_layout("{1,0:T(2,2)}"))
    True
    """
    rows = [("order", "minor to major: " + ", ".join(map(str, layout.minor_to_major)))]
    if layout.tiles:
        rows.append(("tiles", " ".join(map(str, layout.tiles))))
    if layout.element_size_in_bits:
        rows.append(("element", counted(layout.element_size_in_bits, "bit")))
    rows.append(("memory", layout.memory_space_name))
    sample = _sample(layout)
    return card("Layout", str(layout), rows, layout_section(sample, f"an array in it: {sample}"))


def _sample(layout: Layout) -> Shape | None:
    """A small array in a layout, one element larger than a tile in each dimension; None if that is impossible."""
    sizes = [3] * len(layout.minor_to_major)
    tile = layout.tiles[0].dimensions if layout.tiles else ()
    for dimension, size in zip(layout.minor_to_major, reversed(tile), strict=False):
        sizes[dimension] = max(size, 2) + 1
    try:
        return Shape(f"u{layout.element_size_in_bits or 8}", tuple(sizes), layout)
    except LayoutError:
        return None
