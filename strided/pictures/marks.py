"""Maps of an array, as text and SVG: what share of each cell's elements is marked, and which cells are flagged.

`folding` assigns elements to cells. The caller counts the marked ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from strided.pictures.folding import Counts, Folding, coarser, refolded
from strided.pictures.svg_elements import COLOURS, box, document, line, text
from strided.wording import wrapped

#: Rows and columns of the finest map; terminals show a coarser one.
MOST_ROWS, MOST_COLUMNS = 48, 128

#: The marks of cells of which none, up to a third, up to two thirds, most, and all is marked.
_SHADES = "·░▒▓█"
_SHADE_TEXT = ("none", "up to 1/3", "up to 2/3", "most", "all")
_FLAG = "!"

#: Fill and opacity of each shade in SVG, and of a flag.
_LOOKS = (("currentColor", 0.06), *((COLOURS[0], k) for k in (0.3, 0.5, 0.75, 1.0)), (COLOURS[-1], 1.0))
_PICTURE_WIDTH, _MARGIN, _LINE = 720, 8, 20


@dataclass(frozen=True, slots=True, eq=False)
class MarkMap:
    """How many elements are marked in each cell of an array.

    Attributes
    ----------
    folding : Folding
        The cells, fine enough for the largest picture: at most `MOST_ROWS` by `MOST_COLUMNS`.
    counts : ndarray of int64
        The number of marked elements in each cell.
    marked : str
        What a mark means, for the legend, such as "differs".
    flags : ndarray of int64, optional
        The number of elements in each cell that call for attention; any flags the cell.
    flagged : str
        What a flag means, for the legend.
    """

    folding: Folding
    counts: Counts
    marked: str
    flags: Counts | None = None
    flagged: str = ""

    def text(self, width: int = 80, max_rows: int = 24) -> str:
        """The map as text of at most `width` columns, unless labels leave no room for even one cell.

        >>> from strided.pictures.folding import folding
        >>> cells = folding((17, 300), MOST_ROWS, MOST_COLUMNS, {0: 8, 1: 128})
        >>> counts = cells.counts()
        >>> cells.add(counts, np.s_[8:16, 128:256], np.ones((8, 128), bool))
        >>> print(MarkMap(cells, counts, "differs").text(40, max_rows=10))
              0        128      256
        0:2   ········|········|···
        2:4   ········|········|···
        4:6   ········|········|···
        6:8   ········|········|···
              --------+--------+---
        8:10  ········|████████|···
        10:12 ········|████████|···
        12:14 ········|████████|···
        14:16 ········|████████|···
              --------+--------+---
        16    ········|········|···
        a cell: 2 x 16 elements; differs: · none
        █ all
        """
        cells, left = self._fitting(width, max_rows)
        shades, flags = self._shades(cells)
        body = np.where(flags, _FLAG, np.array(list(_SHADES))[shades])
        labels, edges = cells.row_labels(), _row_edges(cells)
        lines = [" " * left + _ticks(cells)]
        for r, row in enumerate(body):
            if r in edges:
                lines.append(" " * left + _with_edges(["-"] * len(row), cells, "+"))
            lines.append(labels[r].ljust(left) + _with_edges(list(row), cells, "|"))
        keys = " ".join(f"{_SHADES[k]} {_SHADE_TEXT[k]}" for k in np.unique(shades))
        legend = f"a cell: {_cell_text(cells)}; {self.marked}: {keys}"
        legend += f"; {_FLAG} {self.flagged}" if flags.any() else ""
        return "\n".join([*(each.rstrip() for each in lines), *wrapped(legend, width, "")])

    def svg(self, title: str = "") -> str:
        """The map as SVG text; `title` is for screen readers and a tooltip.

        >>> from strided.pictures.folding import folding
        >>> cells = folding((2, 3), 4, 4)
        >>> MarkMap(cells, np.eye(2, 3, dtype=np.int64), "differs").svg().startswith("<svg xmlns=")
        True
        """
        frame = _Frame.of(self.folding)
        shades, flags = self._shades(self.folding)
        drawn = [*frame.filled(np.where(flags, len(_SHADES), shades)), *frame.edges(), *frame.labels()]
        keys = [(_LOOKS[k], f"{self.marked}: {_SHADE_TEXT[k]}") for k in np.unique(shades)]
        keys += [(_LOOKS[-1], self.flagged)] * bool(flags.any())
        caption, left, y = f"a cell: {_cell_text(self.folding)}", frame.left, frame.bottom + _MARGIN
        for (fill, opacity), words in keys:
            drawn += [box(left, y, 14, 14, fill, opacity), text(left + 22, y + 12, words, 1, "start")]
            y += _LINE
        drawn.append(text(left, y + 12, caption, 0.7, "start"))
        width = max(frame.right, *(left + 22 + 8 * len(words) for words in (caption, *(words for _, words in keys))))
        return document(drawn, width + _MARGIN, y + _LINE, title)

    def _fitting(self, width: int, max_rows: int) -> tuple[Folding, int]:
        """The finest folding that fits `width` with labels and edges, and the width of the labels."""
        columns = MOST_COLUMNS
        while True:
            cells = coarser(self.folding, max_rows, columns)
            left = max(map(len, cells.row_labels()))
            left += bool(left)
            too_many = left + len(_with_edges([""] * cells.columns, cells, "|")) + cells.columns - width
            if too_many <= 0 or columns == 1:
                return cells, left
            columns = max(1, min(columns, cells.columns) - too_many)

    def _shades(self, cells: Folding) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The shade of each cell, and whether it is flagged."""
        counts, sizes = refolded(self.counts, self.folding, cells), cells.sizes()
        shades = np.minimum(-(-3 * counts // sizes), 3)
        shades[counts == sizes] = 4
        flags = np.zeros(counts.shape, np.int64) if self.flags is None else refolded(self.flags, self.folding, cells)
        return shades, flags > 0


class _Frame(NamedTuple):
    """The geometry of a map in a picture: the corner of the first cell, and the width and height of each."""

    cells: Folding
    left: int
    top: int
    wide: int
    high: int

    @classmethod
    def of(cls, cells: Folding) -> Self:
        wide = min(24, max(5, _PICTURE_WIDTH // cells.columns))
        left = _MARGIN + 8 * max(map(len, cells.row_labels())) + 8
        return cls(cells, left, _MARGIN + _LINE, wide, min(20, max(8, wide)))

    @property
    def right(self) -> int:
        return self.left + self.wide * self.cells.columns

    @property
    def bottom(self) -> int:
        return self.top + self.high * self.cells.rows

    def filled(self, looks: npt.NDArray[np.int64]) -> Iterator[str]:
        """The background and the filled cells; `looks` are indices into `_LOOKS`."""
        yield box(self.left, self.top, self.right - self.left, self.bottom - self.top, "currentColor", 0.06)
        for r, row in enumerate(looks):
            y = self.top + r * self.high
            for look, start, stop in _runs(row):
                width = (stop - start) * self.wide
                yield box(self.left + start * self.wide, y, width, self.high, *_LOOKS[look], 0)

    def edges(self) -> Iterator[str]:
        """The edges of tiles."""
        columns = range(0, self.cells.columns, self.cells.tile_columns() or self.cells.columns)
        for c in columns[1:]:
            x = self.left + c * self.wide
            yield line(x, self.top, x, self.bottom, 0.7)
        for r in _row_edges(self.cells):
            y = self.top + r * self.high
            yield line(self.left, y, self.right, y, 0.7)

    def labels(self) -> Iterator[str]:
        """The labels of rows and columns, as many as there is room for."""
        every = -(-14 // self.high)
        for r, label in enumerate(self.cells.row_labels()[::every]):
            yield text(self.left - 8, self.top + (r * every + 0.5) * self.high + 4, label, 0.7, "end")
        for c, label in _spaced(self.cells, lambda label: -(-8 * (len(label) + 1) // self.wide)):
            yield text(self.left + c * self.wide, self.top - 6, label, 0.7, "start")


def _row_edges(cells: Folding) -> set[int]:
    """The rows above which the edge of a tile is drawn."""
    down, ranges = cells.tile_rows(), cells.cells[-2]
    return {r for r in range(1, cells.rows) if r % ranges % down == 0} if down else set()


def _with_edges(row: list[str], cells: Folding, edge: str) -> str:
    """The cells of a row, joined, with `edge` at the edges of tiles."""
    step = cells.tile_columns() or len(row)
    return edge.join("".join(row[c : c + step]) for c in range(0, len(row), step))


def _ticks(cells: Folding) -> str:
    """The line above the cells: the first index of some columns."""
    found, across = "", cells.tile_columns()
    for c, label in _spaced(cells, lambda label: len(label) + 1):
        found = found.ljust(c + (c // across if across else 0)) + label
    return found


def _spaced(cells: Folding, room: Callable[[str], int]) -> Iterator[tuple[int, str]]:
    """Columns to label, with their first index, far enough apart: where tiles begin, or at round indices."""
    needed = room(str((cells.columns - 1) * cells.width))
    if across := cells.tile_columns():
        step = -(-needed // across) * across
    else:
        step = min(range(needed, 2 * needed), key=lambda n: len(str(n * cells.width).rstrip("0")))
    for c in range(0, cells.columns, step):
        label = str(c * cells.width)
        if c <= max(0, cells.columns + 1 - room(label)):
            yield c, label


def _runs(row: npt.NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Runs of equal looks other than 0: the look, start and stop."""
    edges = [0, *(np.flatnonzero(np.diff(row)) + 1).tolist(), len(row)]
    return ((int(row[a]), a, b) for a, b in itertools.pairwise(edges) if row[a])


def _cell_text(cells: Folding) -> str:
    """The size of a cell in elements, in words."""
    rows = [1] * cells.split + [cells.height, *cells.shape[cells.split + 1 : -1]]
    sizes = " x ".join(map(str, [*([] if cells.shape[:-1] == (1,) else rows), cells.width]))
    return f"{sizes} element{'' if sizes == '1' else 's'}"
