"""A view cut into boxes of bounded size, and an array into its tiles."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from strided.runtime import limits

#: A box of a view: (start, stop) along each axis.
Chunk: TypeAlias = tuple[tuple[int, int], ...]
#: The index of a tile in the grid of equal tiles of an array.
Cell: TypeAlias = tuple[int, ...]


def chunk_lengths(shape: Sequence[int], breadths: Sequence[int] = ()) -> tuple[int, ...]:
    """Lengths of a box of bounded size along each axis of a view.

    Boxes grow to each of `breadths` along every axis, then along the last axes. An axis is cut at multiples of eight if
    the box is that long, so that packed elements fill whole bytes.

    >>> chunk_lengths((3, 10_000, 100)), chunk_lengths((3, 10_000, 100), (8,))
    ((1, 648, 100), (3, 216, 100))
    """
    lengths, budget = [1] * len(shape), limits.current.offset_chunk_elements
    for most in (*breadths, budget):
        for k in reversed(range(len(shape))):
            others = math.prod(lengths) // lengths[k]
            length = min(most, budget // others)
            lengths[k] = max(lengths[k], shape[k] if shape[k] <= length else length // 8 * 8)
    return tuple(lengths)


def chunks(shape: Sequence[int], lengths: Sequence[int] | None = None) -> Iterator[Chunk]:
    """Boxes of these lengths that cover a view, in row-major order; by default of `chunk_lengths`."""
    lengths = chunk_lengths(shape) if lengths is None else lengths
    for place in cells_of(shape, lengths):
        yield tuple((i * m, min(n, (i + 1) * m)) for i, m, n in zip(place, lengths, shape, strict=True))


def cells_of(sizes: Sequence[int], steps: Sequence[int]) -> Iterator[Cell]:
    """The indices of all tiles of size `steps` of an array, in row-major order.

    >>> list(cells_of((3, 4), (2, 4))), list(cells_of((1 << 62, 0), (1, 1)))
    ([(0, 0), (1, 0)], [])
    """
    if not all(sizes):
        return
    counts = [-(-size // step) for size, step in zip(sizes, steps, strict=True)]
    # Not itertools.product, which stores all indices of a dimension first: a file may claim any size.
    for number in range(math.prod(counts)):
        cell = []
        for count in reversed(counts):
            number, place = divmod(number, count)
            cell.append(place)
        yield tuple(reversed(cell))
