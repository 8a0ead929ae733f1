"""A picture of a layout as text.

Each cell shows the offset of its element in the buffer: follow the numbers to see how memory runs through the array.
Lines are the edges of tiles.
"""

from __future__ import annotations

from typing import SupportsIndex

from strided.layout import AnyShape, Shape
from strided.layout.parser import any_shape, array_shape
from strided.pictures.grid import ELISION, GAP, Grid, grid, has_cells
from strided.runtime.argument_checks import whole
from strided.wording import wrapped

PADDING = "·"


def picture(shape: Shape | str, *, width: SupportsIndex = 80, max_rows: SupportsIndex = 12) -> str:
    """A picture of a layout: the offsets of the elements, as text.

    Parameters
    ----------
    shape : str or Shape
    width : int, optional
        The most columns of text, unless three cells need more.
    max_rows : int, optional
        The most rows of cells, gaps included.

    Returns
    -------
    str
        Empty if there are no elements, or a dimension has unknown size.

    Raises
    ------
    NotationError, LayoutError, UnsupportedError
        The shape is not an array's, or its layout is split.

    >>> print(picture("f32[3,5]{1,0:T(2,2)}"))
        0  1 |  2  3 |  4  ·
    0   0  1 |  4  5 |  8  ·
    1   2  3 |  6  7 | 10  ·
      -------+-------+------
    2  12 13 | 16 17 | 20  ·
    ·   ·  · |  ·  · |  ·  ·
    """
    shape = array_shape(shape)
    width, max_rows = whole(width, "width"), whole(max_rows, "max_rows")
    columns = max(3, width // 3)
    while True:
        cells = grid(shape, max_rows, columns)
        text = _text(cells)
        if columns <= 3 or max(map(len, text), default=0) <= width:
            return "\n".join(text)
        columns -= 1


def captioned_picture(shape: AnyShape | str, *, width: SupportsIndex = 80, max_rows: SupportsIndex = 12) -> str:
    """A picture with a caption; empty for a tuple, a scalar, or a shape without elements or addresses.

    Parameters as for `picture`; `max_rows` does not count the caption. NotationError for text that is no shape,
    LayoutError for a layout without a shape.

    >>> print(captioned_picture("s8[2,3,2]{0,2,1}", width=70))
    offsets of the elements; rows are dimension 0, columns 2; at 0 in 1
       0 1
    0  0 2
    1  1 3
    """
    shape = any_shape(shape)
    if not has_cells(shape):
        return ""
    cells, drawn = grid(shape, 3, 3), picture(shape, width=width, max_rows=max_rows)
    caption = "offsets of the elements" + f", {PADDING} is padding" * (PADDING in drawn)
    if cells.fixed:
        fixed = ", ".join(map(str, cells.fixed))
        caption += f"; rows are dimension {cells.rows.dimension}, columns {cells.columns.dimension}; at 0 in {fixed}"
    return "\n".join([*wrapped(caption, whole(width, "width"), ""), drawn])


def _text(cells: Grid) -> list[str]:
    """The lines of a picture; none if the array has no cells."""
    if not (cells.rows.places and cells.columns.places):
        return []
    names = cells.columns.labels(PADDING)
    body = [[_cell(cells, r, c) for c in range(len(names))] for r in range(len(cells.rows.places))]
    wide = max(len(text) for row in (names, *body) for text in row)
    labels = cells.rows.labels(PADDING)
    left = max(map(len, labels))

    def line(label: str, texts: list[str]) -> str:
        joined = "".join(
            (" | " if cells.columns.is_edge(c) else " ") + text.rjust(wide) for c, text in enumerate(texts)
        )
        return f"{label.rjust(left)} {joined}"

    lines = [line("", names)]
    for r, row in enumerate(body):
        if cells.rows.is_edge(r):
            rule = "".join("+" if c == "|" else "-" for c in lines[0][left + 1 :])
            lines.append(" " * (left + 1) + rule)
        lines.append(line(labels[r], row))
    return lines


def _cell(cells: Grid, row: int, column: int) -> str:
    if GAP in (cells.rows.places[row], cells.columns.places[column]):
        return ELISION
    offset = int(cells.offsets[row, column])
    return PADDING if offset < 0 else str(offset)
