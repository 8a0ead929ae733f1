"""The cells of an array that a picture shows, and their offsets.

A picture shows the two most minor dimensions as rows and columns, as NumPy prints them; the other dimensions are at
index 0. Of a large array, only the first cells, those at the edges of the first tile, and the last ones are shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from strided.layout import Shape
from strided.layout.sizes import has_addresses, padded_dimensions, tile_of

#: A gap in `Axis.places`: the indices between its neighbours are not shown.
GAP = -1
#: The mark for cells that are left out.
ELISION = "…"


@dataclass(frozen=True, slots=True)
class Axis:
    """The rows or columns of a picture: a dimension of the array, or None if the array has too few.

    `padded` is its size with padding, `tile` the size of a tile, `piece` that of a tile inside it (the enclosing size
    if there is none). `places` are the indices shown, in order, with GAP between those that are not neighbours.
    """

    dimension: int | None
    size: int
    padded: int
    tile: int
    piece: int
    places: tuple[int, ...]

    def labels(self, padding: str = "") -> list[str]:
        """The label of each place: its index, or a mark for padding or a gap."""
        if self.dimension is None:
            return [""] * len(self.places)
        return [ELISION if place == GAP else str(place) if place < self.size else padding for place in self.places]

    def is_edge(self, k: int) -> bool:
        """Whether a tile begins at the k-th place, next to the previous one."""
        if k == 0 or GAP in self.places[k - 1 : k + 1]:
            return False
        return self.places[k - 1] // self.tile != self.places[k] // self.tile


@dataclass(frozen=True, slots=True)
class Grid:
    """The cells of a picture: the offset of the element in each, -1 for padding and gaps.

    `fixed` are the dimensions that are not shown, all at index 0.
    """

    rows: Axis
    columns: Axis
    offsets: npt.NDArray[np.int64]
    fixed: tuple[int, ...]


def has_cells(shape: object) -> TypeGuard[Shape]:
    """Whether there is something to draw: an array with dimensions, elements and addresses.

    >>> from strided import parse
    >>> [has_cells(parse(text)) for text in ("f32[3,5]", "f32[]", "f32[0,5]", "f32[?,5]", "(f32[3], f32[5])")]
    [True, False, False, False, False]
    """
    return isinstance(shape, Shape) and shape.rank > 0 and has_addresses(shape) and shape.size > 0


def grid(shape: Shape, max_rows: int, max_columns: int) -> Grid:
    """The cells to show of an array; gaps count as rows and columns."""
    minor_to_major = shape.layout.minor_to_major if shape.layout is not None else ()
    shown = sorted(minor_to_major[:2])
    row_dimension, column_dimension = (None, *shown)[-2:] if shown else (None, None)
    rows = _axis(shape, row_dimension, max_rows)
    columns = _axis(shape, column_dimension, max_columns)
    offsets = np.full((len(rows.places), len(columns.places)), -1, np.int64)
    inside = [[k for k, p in enumerate(axis.places) if 0 <= p < axis.size] for axis in (rows, columns)]
    if inside[0] and inside[1] and shape.size:
        index: list[npt.NDArray[np.int64] | int] = [0] * shape.rank
        for axis, cells, form in ((rows, inside[0], (-1, 1)), (columns, inside[1], (1, -1))):
            if axis.dimension is not None:
                index[axis.dimension] = np.array([axis.places[k] for k in cells]).reshape(form)
        offsets[np.ix_(*inside)] = shape.offset_of(index)
    return Grid(rows, columns, offsets, tuple(d for d in range(shape.rank) if d not in shown))


def _axis(shape: Shape, dimension: int | None, limit: int) -> Axis:
    if dimension is None:
        return Axis(None, 1, 1, 1, 1, (0,))
    size, padded = shape.dimensions[dimension], padded_dimensions(shape)[dimension]
    tile = tile_of(shape).get(dimension, max(1, padded))
    piece = tile_of(shape, 1).get(dimension, tile)
    return Axis(dimension, size, padded, tile, piece, _places(size, padded, (tile, piece), limit))


def _places(size: int, padded: int, tiles: tuple[int, int], limit: int) -> tuple[int, ...]:
    """At most `limit` indices to show, gaps included."""
    if padded <= limit:
        return tuple(range(padded))
    # By importance: the first elements, the last one, the edges of the first tiles, the padding, then the rest.
    edges = [place for t in tiles if t > 1 for place in (t, t - 1)]
    wanted = [0, 1, size - 1, *edges, size, 2, 3, *(t + 1 for t in tiles), *range(4, limit)]
    if limit < 4:  # without the last one, the first three would look like the whole
        wanted.insert(1, size - 1)
    chosen: list[int] = []
    for place in wanted:
        if 0 <= place < padded and place <= size and place not in chosen:
            longer = _with_gaps(sorted([*chosen, place]))
            if len(longer) <= limit or not chosen:
                chosen.append(place)
    return _with_gaps(sorted(chosen))


def _with_gaps(places: Iterable[int]) -> tuple[int, ...]:
    result: list[int] = []
    for place in places:
        if result and place != result[-1] + 1:
            result.append(GAP)
        result.append(place)
    return tuple(result)
