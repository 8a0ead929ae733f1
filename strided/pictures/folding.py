"""Which elements of an array belong to which cell of a small map of it.

A map is the array folded to two dimensions, as NumPy prints it: the leading dimensions in rows, the last one in
columns. One leading dimension is cut into ranges; each index of those before it has its own rows, and those after it
are combined. Cells align with tiles: a tile is a whole number of cells, or a cell a whole number of tiles.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.wording import range_key

Counts = npt.NDArray[np.int64]

#: The least cells of a tile whose edges are drawn: in smaller ones the edges would hide the content.
_LEAST_CELLS = 4


@dataclass(frozen=True, slots=True)
class Folding:
    """The cells of a map of an array.

    Attributes
    ----------
    shape : tuple of int
        The array's shape, with leading dimensions of size 1 if it has fewer than two.
    tile : tuple of int
        Size of a tile in each dimension; 1 if there is none.
    split : int
        The leading dimension that is cut into ranges.
    height, width : int
        How many indices of that dimension, and of the last one, share a cell.
    """

    shape: tuple[int, ...]
    tile: tuple[int, ...]
    split: int
    height: int
    width: int

    @property
    def cells(self) -> tuple[int, ...]:
        """The shape of an array of counts: the dimensions before `split`, its ranges, the columns."""
        return (*self.shape[: self.split], -(-self.shape[self.split] // self.height), -(-self.shape[-1] // self.width))

    @property
    def rows(self) -> int:
        """Rows of the map."""
        return math.prod(self.cells[:-1])

    @property
    def columns(self) -> int:
        """Columns of the map."""
        return self.cells[-1]

    def sizes(self) -> Counts:
        """The number of elements in each cell, of shape (rows, columns)."""
        rows = np.diff([*range(0, self.shape[self.split], self.height), self.shape[self.split]])
        columns = np.diff([*range(0, self.shape[-1], self.width), self.shape[-1]])
        inner = math.prod(self.shape[self.split + 1 : -1])
        return np.tile(rows, math.prod(self.shape[: self.split]))[:, None] * columns * inner

    def counts(self) -> Counts:
        """Zeros for `add` to count in, of shape `cells`."""
        return np.zeros(self.cells, np.int64)

    def add(self, counts: Counts, box: Sequence[slice], marked: npt.NDArray[np.bool_]) -> None:
        """Add the marked elements of the block at `box` to `counts`.

        >>> found = folding((4, 6), 2, 3)
        >>> counts = found.counts()
        >>> found.add(counts, np.s_[1:3, 2:6], np.ones((2, 4), bool))
        >>> counts.tolist()
        [[0, 2, 2], [0, 2, 2]]
        """
        self.accumulate(np.add, counts, box, marked)

    def accumulate(
        self, ufunc: np.ufunc, into: npt.NDArray[Any], box: Sequence[slice], values: npt.NDArray[Any]
    ) -> None:
        """Reduce the elements of a block into their cells, by a ufunc such as `numpy.add` or `numpy.minimum`.

        >>> found = folding((4, 6), 2, 3)
        >>> largest = np.zeros(found.cells)
        >>> found.accumulate(np.maximum, largest, np.s_[1:3, 2:6], np.arange(8.0).reshape(2, 4))
        >>> largest.tolist()
        [[0.0, 1.0, 3.0], [0.0, 5.0, 7.0]]
        """
        box = self._with_leading_ones(box)
        values = values.reshape((1,) * (len(box) - values.ndim) + values.shape)
        if not values.size:
            return
        found = _reduced(ufunc, values, -1, box[-1], self.width, into.dtype)
        found = ufunc.reduce(found, axis=tuple(range(self.split + 1, len(self.shape) - 1)))
        found = _reduced(ufunc, found, self.split, box[self.split], self.height, into.dtype)
        target = self._cells_under(box)
        into[target] = ufunc(into[target], found)

    def add_all(self, counts: Counts, box: Sequence[slice]) -> None:
        """Add all elements of the block at `box` to `counts`.

        >>> found = folding((4, 6), 2, 3)
        >>> counts = found.counts()
        >>> found.add_all(counts, np.s_[1:3, 3:6])
        >>> counts.tolist()
        [[0, 1, 2], [0, 1, 2]]
        """
        box = self._with_leading_ones(box)
        rows, columns = _overlaps(box[self.split], self.height), _overlaps(box[-1], self.width)
        inner = math.prod(s.stop - s.start for s in box[self.split + 1 : -1])
        counts[self._cells_under(box)] += rows[:, None] * columns * inner

    def _with_leading_ones(self, box: Sequence[slice]) -> tuple[slice, ...]:
        """A block with the leading dimensions of size 1 that `shape` has."""
        return (*(slice(0, 1) for _ in range(len(self.shape) - len(box))), *box)

    def _cells_under(self, box: tuple[slice, ...]) -> tuple[slice, ...]:
        """The cells that a block overlaps."""
        return (*box[: self.split], _cells_of(box[self.split], self.height), _cells_of(box[-1], self.width))

    def row_labels(self) -> list[str]:
        """The indices of each row, as NumPy writes them."""
        if self.shape[:-1] == (1,):
            return [""]
        inner = [":" if n > 1 else "0" for n in self.shape[self.split + 1 : -1]]
        ranges = [*_ranges(self.shape[self.split], self.height)]
        outer = itertools.product(*(map(str, range(n)) for n in self.shape[: self.split]))
        return [",".join([*before, range_key(*each), *inner]) for before in outer for each in ranges]

    def column_labels(self) -> list[str]:
        """The indices of each column, as NumPy writes them."""
        return [range_key(*each) for each in _ranges(self.shape[-1], self.width)]

    def tile_rows(self) -> int:
        """Rows of cells of a tile; 0 if there are too few to draw its edges."""
        return _cells_of_tile(self.shape[self.split], self.tile[self.split], self.height)

    def tile_columns(self) -> int:
        """Columns of cells of a tile; 0 if there are too few to draw its edges."""
        return _cells_of_tile(self.shape[-1], self.tile[-1], self.width)


def folding(
    shape: Sequence[int],
    max_rows: int,
    max_columns: int,
    tile: Mapping[int, int] | None = None,
    *,
    of: Folding | None = None,
) -> Folding:
    """The cells of a map of an array: at most `max_rows` by `max_columns`, aligned with tiles.

    Parameters
    ----------
    tile : mapping of int to int, optional
        The size of a tile by dimension, as from `strided.layout.sizes.tile_of`.
    of : Folding, optional
        A finer folding of the same array; each of its cells then lies in one cell of the result.

    >>> found = folding((17, 300), 8, 40, {0: 8, 1: 128})
    >>> found.cells, found.row_labels(), found.column_labels()[:2]
    ((5, 38), ['0:4', '4:8', '8:12', '12:16', '16'], ['0:8', '8:16'])
    >>> folding((2, 16, 5, 128), 10, 10).row_labels()
    ['0,0:4,:', '0,4:8,:', '0,8:12,:', '0,12:16,:', '1,0:4,:', '1,4:8,:', '1,8:12,:', '1,12:16,:']
    """
    missing = max(0, 2 - len(shape))
    sizes = (*(1 for _ in range(missing)), *(max(1, n) for n in shape))
    tiles = [1] * len(sizes)
    for d, n in ({} if tile is None else tile).items():
        tiles[missing + d] = max(1, n)
    split, apart = 0, 1
    while split < len(sizes) - 2 and apart * sizes[split] <= max_rows:
        apart *= sizes[split]
        split += 1
    unit = of.height if of is not None and split == of.split else 1
    height = _cell_size(sizes[split], tiles[split], max(1, max_rows // apart), unit)
    width = _cell_size(sizes[-1], tiles[-1], max(1, max_columns), 1 if of is None else of.width)
    return Folding(sizes, tuple(tiles), split, height, width)


def coarser(fine: Folding, max_rows: int, max_columns: int) -> Folding:
    """A folding of the same array with fewer cells, each of which is a union of cells of `fine`."""
    return folding(fine.shape, max_rows, max_columns, dict(enumerate(fine.tile)), of=fine)


def refolded(counts: npt.NDArray[Any], fine: Folding, coarse: Folding, ufunc: np.ufunc = np.add) -> npt.NDArray[Any]:
    """Combine the cells of `fine` into those of `coarse`, by a ufunc; of shape (rows, columns).

    >>> fine = folding((4, 6), 4, 6)
    >>> refolded(np.ones(fine.cells, np.int64), fine, coarser(fine, 2, 3)).tolist()
    [[4, 4, 4], [4, 4, 4]]
    """
    columns = range(0, fine.columns, coarse.width // fine.width)
    counts = ufunc.reduceat(counts.reshape(fine.cells), columns, axis=-1)
    # Combine all rows below the dimension that `coarse` cuts.
    counts = counts.reshape(*fine.cells[: coarse.split], fine.cells[coarse.split], -1, len(columns))
    counts = ufunc.reduce(counts, axis=-2)
    step = coarse.height // (fine.height if fine.split == coarse.split else 1)
    rows = range(0, counts.shape[-2], step)
    return np.asarray(ufunc.reduceat(counts, rows, axis=-2)).reshape(coarse.rows, coarse.columns)


def _cell_size(size: int, tile: int, limit: int, unit: int) -> int:
    """The smallest cell size, a multiple of `unit`, that makes at most `limit` cells and aligns with tiles."""
    wanted = -(-size // limit)
    if wanted < tile < size:
        # Divisors of a tile, smallest first. There are few: a tile has no more cells than the map.
        for parts in range(tile // wanted, 0, -1):
            if tile % parts == 0 and tile // parts % unit == 0:
                return tile // parts
    step = max(unit, tile if tile < size else 1)
    return -(-wanted // step) * step


def _cells_of_tile(size: int, tile: int, cell: int) -> int:
    return tile // cell if tile < size and tile // cell >= _LEAST_CELLS else 0


def _reduced(
    ufunc: np.ufunc, values: npt.NDArray[Any], axis: int, block: slice, size: int, dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Reduce the part of a block in each cell along an axis to one value, computed as `dtype`."""
    first = block.start // size * size
    edges = np.maximum(np.arange(first, block.stop, size) - block.start, 0)
    found: npt.NDArray[Any] = ufunc.reduceat(values, edges, axis=axis, dtype=dtype)
    return found


def _overlaps(block: slice, size: int) -> Counts:
    """How many indices of a block lie in each cell that it overlaps."""
    cells = _cells_of(block, size)
    edges: Counts = np.clip(np.arange(cells.start, cells.stop + 1) * size, block.start, block.stop)
    return np.diff(edges)


def _cells_of(block: slice, size: int) -> slice:
    return slice(block.start // size, -(-block.stop // size))


def _ranges(size: int, step: int) -> Iterator[tuple[int, int]]:
    for start in range(0, size, step):
        yield start, min(size, start + step)
