"""A picture of a layout as SVG.

The upper part is the array as NumPy prints it: each cell shows the offset of its element. Cells of one tile share a
colour; thick lines are edges of tiles, thin lines of the tiles inside them; hatched cells are padding. The lower part
is the start of the buffer in memory order: each slot shows the index of its element.
"""

from __future__ import annotations

from typing import SupportsIndex

from strided.layout import Shape
from strided.layout.parser import array_shape
from strided.pictures.grid import ELISION, GAP, Axis, Grid, grid
from strided.pictures.svg_elements import COLOURS, HATCH, box, document, line, text
from strided.runtime.argument_checks import whole

_CELL_HEIGHT = 24
_MARGIN = 8
_STRIP_COLUMNS = 16
#: Wide slots are drawn in fewer columns, so that the memory is not much wider than this.
_STRIP_WIDTH = 1200
_CAPTION = "memory, and the index that lies in each slot"


def svg(
    shape: Shape | str, *, max_rows: SupportsIndex = 12, max_columns: SupportsIndex = 16, memory: SupportsIndex = 32
) -> str:
    """The picture of a layout, as SVG text.

    Parameters
    ----------
    shape : str or Shape
    max_rows, max_columns : int
        The most rows and columns to draw, gaps included. Of a larger array, the most important ones are drawn.
    memory : int
        How many slots to draw from the start of the buffer; may be 0.

    Raises
    ------
    NotationError, LayoutError, UnsupportedError
        The shape is not an array's, or has no addresses.
    ValueError
        `memory` is negative.

    >>> svg("f32[3,5]{1,0:T(2,2)}").startswith("<svg xmlns=")
    True
    """
    shape = array_shape(shape)
    max_rows, max_columns = whole(max_rows, "max_rows"), whole(max_columns, "max_columns")
    memory = whole(memory, "memory")
    if memory < 0:
        raise ValueError(f"memory is a number of slots from 0, not {memory}")
    cells = grid(shape, max_rows, max_columns)
    shown = min(shape.slots, memory) if memory else 0  # a shape of unknown size has no slots to count
    left = _left_of(cells, shown)
    drawn, width, height = _array(cells, left)
    if shown:
        strip, strip_width, strip_height = _memory(shape, cells, shown, left, height + 2 * _CELL_HEIGHT)
        drawn, width, height = drawn + strip, max(width, strip_width), strip_height
    return document(drawn, width, height, str(shape))


def _left_of(cells: Grid, shown: int) -> int:
    """The x at which cells begin, after the row labels; the same for the array and its memory."""
    longest = max(map(len, [*cells.rows.labels(), *([str(shown)] * bool(shown))]), default=0)
    return _MARGIN + (8 * longest + 8 if longest else 0)


def _array(cells: Grid, left: int) -> tuple[list[str], int, int]:
    """The cells of the array as SVG, and the width and height that they take."""
    wide = max(32, 14 + 8 * len(str(int(cells.offsets.max(initial=0)))))
    top = _MARGIN + _CELL_HEIGHT
    rows, columns = cells.rows.places, cells.columns.places
    drawn = [text(left + (c + 0.5) * wide, top - 8, label, 0.6) for c, label in enumerate(cells.columns.labels())]
    for r, (row, label) in enumerate(zip(rows, cells.rows.labels(), strict=True)):
        y = top + r * _CELL_HEIGHT
        drawn.append(text(left - 8, y + 16, label, 0.6, "end"))
        for c, column in enumerate(columns):
            x = left + c * wide
            offset = int(cells.offsets[r, c])
            if GAP in (row, column):
                drawn.append(text(x + wide / 2, y + 16, ELISION, 0.6))
                continue
            fill = HATCH if offset < 0 else _colour(cells, row, column)
            drawn.append(box(x, y, wide, _CELL_HEIGHT, fill))
            if offset >= 0:
                drawn.append(text(x + wide / 2, y + 16, str(offset)))
    right, bottom = left + wide * len(columns), top + _CELL_HEIGHT * len(rows)
    drawn += [line(left + k * wide, top, left + k * wide, bottom, w) for k, w in _edges(cells.columns)]
    drawn += [line(left, top + k * _CELL_HEIGHT, right, top + k * _CELL_HEIGHT, w) for k, w in _edges(cells.rows)]
    return drawn, right + _MARGIN, bottom + _MARGIN


def _memory(shape: Shape, cells: Grid, shown: int, left: int, top: int) -> tuple[list[str], int, int]:
    """The first slots of the buffer as SVG, their width, and the y at which they end."""
    found = [shape.index_at(k) for k in range(shown)]
    labels = ["" if index is None else ",".join(map(str, index)) or "()" for index in found]
    wide = max(32, 10 + 8 * max(map(len, labels)))
    columns = _STRIP_COLUMNS
    while columns > 4 and columns * wide > _STRIP_WIDTH:
        columns //= 2
    drawn = [text(left, top - 8, _CAPTION, 0.6, "start")]
    for k, (index, label) in enumerate(zip(found, labels, strict=True)):
        strip, column = divmod(k, columns)
        x, y = left + column * wide, top + strip * _CELL_HEIGHT
        if column == 0:
            drawn.append(text(left - 8, y + 16, str(k), 0.6, "end"))
        if index is None:
            drawn.append(box(x, y, wide, _CELL_HEIGHT, HATCH))
            continue
        row, place = (0 if axis.dimension is None else index[axis.dimension] for axis in (cells.rows, cells.columns))
        drawn += [box(x, y, wide, _CELL_HEIGHT, _colour(cells, row, place)), text(x + wide / 2, y + 16, label)]
    lines = -(-shown // columns)
    right = left + min(shown, columns) * wide
    if shape.slots > shown:
        drawn.append(text(right + 12, top + (lines - 1) * _CELL_HEIGHT + 16, ELISION, 0.6))
        right += 24
    right = max(right, left + 8 * len(_CAPTION))
    return drawn, right + _MARGIN, top + lines * _CELL_HEIGHT + _MARGIN


def _colour(cells: Grid, row: int, column: int) -> str:
    """The colour of a cell's tile; neighbouring tiles differ."""
    return COLOURS[(3 * (row // cells.rows.tile) + column // cells.columns.tile) % len(COLOURS)]


def _edges(axis: Axis) -> list[tuple[int, float]]:
    """The lines between cells, each as a position and a thickness."""
    edges = [(0, 2.0)]
    for k in range(1, len(axis.places)):
        before, after = axis.places[k - 1 : k + 1]
        if GAP in (before, after):
            continue
        if axis.is_edge(k):
            edges.append((k, 2.0))
        elif axis.piece > 1 and before % axis.tile // axis.piece != after % axis.tile // axis.piece:
            edges.append((k, 1.2))
    return [*edges, (len(axis.places), 2.0)]
