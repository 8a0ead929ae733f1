"""Tiling: applies the definition of a tiled layout step by step.

A layout is applied to an array as follows (openxla.org/xla/tiled_layout): list the dimensions from the most major to
the most minor one; then, for each tile in the order written, split each of the last dimensions into the number of the
tile and the index inside it, and move the inner indices to the end. The offset of an element is its row-major index in
the resulting dimensions. A later tile with enough entries therefore also cuts the grid of earlier tiles.

`expand` does that symbolically: it applies the tiles to every *physical dimension* and records its digits. The
resulting `Expansion` maps indices to offsets and back. This module takes plain integers; `layout` has the value types.
"""

from __future__ import annotations

import math
from functools import lru_cache

from strided.addressing.expansion import AppliedTile, Expansion
from strided.addressing.index_expr import Coordinate, Zero, dimensions_of
from strided.addressing.physical_dimension import DimensionDigit, PhysicalDimension
from strided.errors import LayoutError

#: The entry ``*`` of a tile: the dimension is combined with the next more minor one. (XLA uses the same number.)
COMBINE = -(2**63)

#: The most tiles and ``*`` that `expand` takes: each nests address expressions one level deeper, and functions on
#: expressions recurse. Compilers use up to three tiles.
MAX_DEPTH = 64


@lru_cache(maxsize=4096)
def expand(
    dimensions: tuple[int, ...],
    minor_to_major: tuple[int, ...],
    tiles: tuple[tuple[int, ...], ...] = (),
    padded_dimensions: tuple[int, ...] = (),
    alignment: int = 1,
) -> Expansion:
    """Apply the tiles of a layout to an array.

    Parameters
    ----------
    dimensions : tuple of int
        Logical sizes, all known.
    minor_to_major : tuple of int
        A permutation of the dimension numbers, the fastest varying first.
    tiles : tuple of tuple of int
        Entries of 1 or more, or COMBINE.
    padded_dimensions : tuple of int
        In legacy padded layouts, the allocated size of each logical dimension; otherwise empty.
    alignment : int
        The number of elements is rounded up to a multiple of this.

    Raises
    ------
    LayoutError
        A tile ends in ``*``, which has nothing to combine with; or there are more than `MAX_DEPTH` tiles and ``*``.

    >>> expand((3, 5), (1, 0), ((2, 2),)).bounds
    (2, 3, 2, 2)
    """
    depth = len(tiles) + sum(tile.count(COMBINE) for tile in tiles)
    if depth > MAX_DEPTH:
        raise LayoutError(f"the layout has {depth} tiles and '*'; at most {MAX_DEPTH} are supported")
    sizes = padded_dimensions or dimensions
    current = [
        PhysicalDimension(Coordinate(d), sizes[d], (DimensionDigit(d, 1, max(1, sizes[d]), True),))
        for d in reversed(minor_to_major)
    ]
    tile_elements = math.prod(sizes)
    applied: list[AppliedTile] = []
    for tile in tiles:
        added = max(0, len(tile) - len(current))
        current = [PhysicalDimension(Zero(), 1, ())] * added + current
        prefix = len(current) - len(tile)
        entries, wholes, bounds, owners = _combine(tile, current[prefix:])
        divided = [whole.divided(t) for whole, t in zip(wholes, entries, strict=True)]
        current = current[:prefix] + [grid for grid, _ in divided] + [inner for _, inner in divided]
        if not applied:
            tile_elements = math.prod(p.bound for p in current)
        applied.append(AppliedTile(prefix, added, entries, bounds, owners))
    return Expansion(
        dimensions,
        minor_to_major,
        alignment,
        tuple(p.bound for p in current),
        tuple(p.expr for p in current),
        tile_elements,
        tuple(p.parts for p in current),
        tuple(applied),
    )


def _combine(
    tile: tuple[int, ...], current: list[PhysicalDimension]
) -> tuple[tuple[int, ...], list[PhysicalDimension], tuple[tuple[int, ...], ...], tuple[int | None, ...]]:
    """A tile with every ``*`` applied: its sizes, the dimensions that it cuts, and the bounds and owner of each."""
    entries, wholes, bounds, owners = [], [], [], []
    run: list[PhysicalDimension] = []
    for t, physical in zip(tile, current, strict=True):
        run.append(physical)
        if t == COMBINE:
            continue
        whole = run[0]
        for minor in run[1:]:
            whole = whole.combined(minor)
        entries.append(t)
        wholes.append(whole)
        bounds.append(tuple(p.bound for p in run))
        owners.append(next((min(dimensions_of(p.expr)) for p in run if dimensions_of(p.expr)), None))
        run = []
    if run:
        raise LayoutError("a tile must not end in '*': there is no more minor dimension to combine with")
    return tuple(entries), wholes, tuple(bounds), tuple(owners)
