"""Tiling in numbers: the definition of a tiled layout, followed step by step.

A layout is applied to an array as follows (openxla.org/xla/tiled_layout): list the dimensions from the most major to
the most minor one; then, for each tile in the order written, cut the last dimensions into a grid of tiles and the
inside of a tile, and put the inside last. The offset of an element is row-major over the dimensions that result. Later
tiles therefore cut the grid of earlier tiles too, if they have enough entries.

`expand` does that symbolically: it follows every *physical dimension* through the tiles and records its digits. The
resulting `Expansion` maps indices to offsets and back. This module knows only numbers; `layout` has the values.
"""

from __future__ import annotations

import math
from functools import lru_cache

from strided.addressing.expansion import AppliedTile, Expansion
from strided.addressing.index_expr import Coordinate, Zero, dimensions_of
from strided.addressing.physical_dimension import DimensionDigit, PhysicalDimension
from strided.errors import LayoutError

#: What stands for ``*`` in a tile: the dimension is combined with the next more minor one. (XLA uses the same number.)
COMBINE = -(2**63)

#: The most tiles and ``*`` of a layout that is taken apart: each nests the expressions of its addresses one level
#: deeper, and functions of these recurse. Compilers use up to three tiles.
MAX_DEPTH = 64


@lru_cache(maxsize=4096)
def expand(
    dimensions: tuple[int, ...],
    minor_to_major: tuple[int, ...],
    tiles: tuple[tuple[int, ...], ...] = (),
    padded_dimensions: tuple[int, ...] = (),
    alignment: int = 1,
) -> Expansion:
    """A layout taken apart.

    Parameters
    ----------
    dimensions : tuple of int
        Logical sizes, all known.
    minor_to_major : tuple of int
        A permutation of the dimension numbers, the fastest varying first.
    tiles : tuple of tuple of int
        Entries at least 1, or COMBINE.
    padded_dimensions : tuple of int
        Legacy padded layouts: the allocated size of each logical dimension. Empty without.
    alignment : int
        Elements are rounded up to a multiple of this.

    Raises
    ------
    LayoutError
        A tile ends in ``*``, which has nothing to combine with; more than `MAX_DEPTH` tiles and ``*``.

    >>> expand((3, 5), (1, 0), ((2, 2),)).bounds
    (2, 3, 2, 2)
    """
    depth = len(tiles) + sum(tile.count(COMBINE) for tile in tiles)
    if depth > MAX_DEPTH:
        raise LayoutError(f"a layout of {depth} tiles and '*'; more than {MAX_DEPTH} are not taken apart")
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
    """A tile with every ``*`` carried out: its sizes, the dimensions that it cuts, and the bounds and owner of each."""
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
