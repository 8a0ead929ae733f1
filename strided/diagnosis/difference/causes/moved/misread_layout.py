"""b equals a if its bytes are read in another layout. All elements are compared before a layout is reported."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from strided.arrays.layout_array import LayoutArray
from strided.diagnosis.difference.causes.all_elements import MOST_DIMENSIONS, all_equal
from strided.diagnosis.difference.causes.observations import Observations, first
from strided.diagnosis.difference.operands import Operand, Points, Wrapped
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.values import are_equal
from strided.errors import LayoutError, UnsupportedError
from strided.layout import Layout, Shape, Tile
from strided.layout.layout import descending
from strided.tpu import default_layout

#: Tiles that TPUs use: T(rows,128) with and without rows that share words, and 1-D tiles.
_TILES: tuple[tuple[Tile, ...], ...] = (
    *((Tile((rows, 128)),) for rows in (8, 1, 2, 4, 16, 32)),
    *((Tile((rows, 128)), Tile((2, 1))) for rows in (8, 2, 4, 16)),
    *((Tile((rows, 128)), Tile((4, 1))) for rows in (8, 4, 32)),
    *((Tile((rows, 128)), Tile((8, 1))) for rows in (8, 64)),
)
_FLAT_TILES: tuple[tuple[Tile, ...], ...] = tuple(
    (Tile((n,)), *words)
    for n in (128, 256, 512, 1024)
    for words in ((), (Tile((128,)), Tile((2, 1))), (Tile((128,)), Tile((4, 1))))
)


def misread_layout(observed: Observations) -> Pattern | None:
    """The most likely layout in which b's bytes hold a's values."""
    a, b = observed.a, observed.b.whole
    if b is None:
        return None
    points = _points(observed)
    wanted = a.at(points)
    for layout in _layouts(b.xla_shape, None if a.whole is None else a.whole.layout):
        if (read := _read_in(layout, b)) is None:
            continue
        # Reading one element is fast, and refutes most layouts.
        fits = all(
            are_equal(wanted[:n], read.at(tuple(i[:n] for i in points)), observed.tolerance).all()
            for n in (1, wanted.size)
        )
        if fits and all_equal(a, read, observed.tolerance):
            one, other = _apart(layout, b.layout)
            sentence = f"b equals a if it is read as {one} instead of {other}"
            return Pattern("layout", str(layout), 1.0, sentence)
    return None


def _read_in(layout: Layout, array: LayoutArray) -> Operand | None:
    """An array's bytes read in another layout; None if there are too few, or the layout has no addresses."""
    try:
        shape = array.xla_shape.with_layout(layout)
        if shape.buffer_byte_size > array._memory.buffer.size:
            return None
        return Wrapped(LayoutArray(array._memory.buffer, shape, bitorder=array.bitorder, allow_excess=True), "b")
    except (LayoutError, UnsupportedError):
        return None


def _points(observed: Observations) -> Points:
    """Indices at which layouts are tested: a few mismatches, and a few elements anywhere."""
    pairs = zip(first(observed.some.points), first(observed.anywhere.points), strict=True)
    return tuple(np.concatenate(pair) for pair in pairs)


def _layouts(shape: Shape, likeliest: Layout | None) -> Iterator[Layout]:
    """Layouts to try, the most likely first: a's own, the compiler's, all orders with all tiles of TPUs."""
    if likeliest is not None:
        yield likeliest
    for generation in ("v5e", "v2"):
        try:
            yield default_layout(shape.text(layout=False), generation)
        except UnsupportedError:
            pass
    assert shape.layout is not None
    bits = shape.layout.element_size_in_bits
    row_major = descending(shape.rank)
    orders = itertools.permutations(row_major) if shape.rank <= MOST_DIMENSIONS else (row_major, row_major[::-1])
    for order in orders:
        yield Layout(order, element_size_in_bits=bits)
        for tiles in _TILES if shape.rank > 1 else _FLAT_TILES:
            yield Layout(order, tiles, element_size_in_bits=bits)


def _apart(layout: Layout, other: Layout) -> tuple[str, str]:
    """The texts of two layouts, or of their tiles if they differ in nothing else."""
    if layout.tiles and other.tiles and Layout(layout.minor_to_major, other.tiles) == other:
        return f"T{''.join(map(str, layout.tiles))}", f"T{''.join(map(str, other.tiles))}"
    return str(layout), str(other)
