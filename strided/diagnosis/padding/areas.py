"""The padding of an array as boxes of the padded array, in lines that can be compared with lines of data."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy.typing as npt

from strided.addressing.address_map import AddressMap
from strided.arrays.blocks import Box, boxes, even_cuts, run_block
from strided.layout import Shape
from strided.layout.sizes import tile_of

#: Lines of values, bit patterns or marks.
Lines: TypeAlias = npt.NDArray[Any]

#: The most elements of a block, which is read at once, and of a line.
BLOCK_ELEMENTS = 1 << 20
LINE_ELEMENTS = 1 << 18
#: Shorter pieces of lines may be equal or constant by chance.
LEAST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Padded:
    """An array with its padding.

    Attributes
    ----------
    map : AddressMap
        The map of the padded array. Its last dimensions are those that a tile of higher rank adds in front.
    true : tuple of int
        Sizes without padding.
    order : tuple of int
        All dimensions of the map, from major to minor.
    tile : dict of int to int
        The size of a tile by dimension, if there is one and it is large enough to compare.
    """

    map: AddressMap
    true: tuple[int, ...]
    order: tuple[int, ...]
    tile: dict[int, int]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes with padding."""
        return self.map.shape


@dataclass(frozen=True, slots=True)
class Area:
    """A box of padding beyond the end of dimension `axis`, in lines along dimension `along`.

    `ranges` are start and stop along each dimension of the padded array.
    """

    axis: int
    along: int
    ranges: tuple[tuple[int, int], ...]

    @property
    def line(self) -> tuple[int, int]:
        """Start and stop of the lines."""
        return self.ranges[self.along]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Equal parts of a line: `count` pieces of `length` elements from `start`.

    Each begins `phase` elements after a tile's edge. A line without tiles is one piece, whose phase is its start.
    """

    start: int
    count: int
    phase: int
    length: int

    def of(self, lines: Lines, start: int) -> Lines:
        """These pieces of lines that begin at `start`; axes: lines, pieces, elements, and any further axes."""
        part = lines[:, self.start - start : self.start - start + self.count * self.length]
        return part.reshape(len(lines), self.count, self.length, *lines.shape[2:])


def padded_of(shape: Shape) -> Padded | None:
    """The padded array of a shape; None if its layout is irregular."""
    found = shape.expansion.padded_map
    if found is None or shape.layout is None:
        return None
    map_, true = found
    order = (*range(shape.rank, map_.ndim), *reversed(shape.layout.minor_to_major))
    itemsize = max(1, shape.element_bits // 8)
    tile = {d: t for d, t in tile_of(shape).items() if t * itemsize >= LEAST_BYTES}
    return Padded(map_, true, order, tile)


def areas(padded: Padded) -> Iterator[Area]:
    """Boxes that cover all padding, each slot once."""
    for axis, (n, size) in enumerate(zip(padded.true, padded.shape, strict=True)):
        if n == size:
            continue
        ranges = [(0, padded.true[d] if d < axis else padded.shape[d]) for d in range(len(padded.true))]
        ranges[axis] = n, size
        others = [d for d in reversed(padded.order) if d != axis and padded.true[d] > 1]
        along = others[0] if others else axis
        low, high = ranges[along]
        ends = sorted({low, min(padded.true[along], high), high})
        for first, last in itertools.pairwise(ends):
            tile = padded.tile.get(along, 1)
            step = max(1, LINE_ELEMENTS // tile) * tile
            for start in range(first, last, step):
                ranges[along] = start, min(start + step, last)
                yield Area(axis, along, tuple(ranges))


def blocks_of(area: Area, order: Sequence[int]) -> Iterator[Box]:
    """Blocks of whole lines that cover an area."""
    sizes = [stop - start for start, stop in area.ranges]
    line = sizes[area.along]
    counts = [1 if d == area.along else n for d, n in enumerate(sizes)]
    block = list(run_block(counts, max(1, BLOCK_ELEMENTS // max(1, line)), order))
    block[area.along] = max(1, line)
    for box in boxes(even_cuts(sizes, block), order):
        yield tuple(slice(s.start + start, s.stop + start) for s, (start, _) in zip(box, area.ranges, strict=True))


def pieces(line: tuple[int, int], tile: int | None) -> list[Pieces]:
    """A line cut at the edges of tiles.

    >>> pieces((0, 300), 128)
    [Pieces(start=0, count=2, phase=0, length=128), Pieces(start=256, count=1, phase=0, length=44)]
    """
    start, stop = line
    if tile is None:
        return [Pieces(start, 1, start, stop - start)]
    head = min(stop, -(-start // tile) * tile)
    tail = max(head, stop // tile * tile)
    found = (
        Pieces(start, 1, start % tile, head - start),
        Pieces(head, (tail - head) // tile, 0, tile),
        Pieces(tail, 1, 0, stop - tail),
    )
    return [each for each in found if each.count and each.length]
