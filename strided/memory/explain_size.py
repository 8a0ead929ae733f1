"""Finds the layouts that explain a size, since the compiler's texts print shapes without layouts.

The rule for default layouts gives the layout of an argument. Inside a program the compiler orders dimensions by use,
but the tiles are those that the rule gives for this order. So each choice of the two tiled dimensions is a candidate,
and all candidates of the right size are returned.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from strided.errors import StridedError
from strided.layout import UNBOUNDED, Layout, Shape, Tile, TupleShape
from strided.layout.element_types import element_type
from strided.layout.layout import descending
from strided.layout.parser import parse
from strided.layout.tuples import unbuffered
from strided.memory.usage_text import Size
from strided.tpu.default_layout import default_layout, rounded_up

#: So many columns that the default layout never makes another dimension the most minor one.
_WIDE = 1 << 20
#: The highest rank for which all orders are tried.
_MAX_RANK = 8
#: Units to which the size of a tuple's table of pointers may be rounded up.
_TABLE_BYTES = (32, 512, 1024)
#: Sizes of the metadata that a buffer with dynamic dimensions may have.
_METADATA_BYTES = (0, 32, 512, 1024)


@lru_cache(maxsize=1024)
def explanations(text: str, size: Size, generation: str | None) -> tuple[Shape | TupleShape, ...]:
    """The shapes with layouts that have this size; the default layout comes first.

    If the text has a layout, only that is tried. A tuple has the size of its table of pointers.
    """
    try:
        shape = parse(text)
    except StridedError:
        return ()
    if isinstance(shape, TupleShape):
        return (shape,) if any(rounded_up(4 * len(shape), unit) == size.bytes for unit in _TABLE_BYTES) else ()
    shape = unbuffered(shape)
    if not isinstance(shape, Shape) or shape.layout is None or UNBOUNDED in shape.dimensions:
        return ()
    found: dict[Shape, None] = {}
    more = _METADATA_BYTES if shape.is_dynamic else (0,)
    try:
        if "{" in text:
            found[shape] = None
        else:
            static = Shape(shape.element_type, shape.dimensions)
            may_fit = range(size.least - max(more), size.most + 1)
            for candidate in _candidates(static, ("v5e", "v2") if generation is None else (generation,), may_fit):
                found[replace(candidate, dynamic=shape.dynamic) if shape.is_dynamic else candidate] = None
        fits = tuple(one for one in found if any(size.least <= one.byte_size + n <= size.most for n in more))
    except StridedError:
        return ()
    # A scalar may be alone in a slot of any size.
    return fits or tuple(found)[: shape.size == 1 and size.most >= shape.byte_size]


def _candidates(shape: Shape, generations: tuple[str, ...], sizes: range) -> dict[Shape, None]:
    """The shape with the default layout, untiled row-major, and the other orders that give one of these sizes."""
    found: dict[Shape, None] = {}
    if shape.rank > _MAX_RANK:
        return found
    for generation in generations:
        try:
            default = default_layout(shape, generation)
        except StridedError:
            continue
        found[shape.with_layout(default)] = None
        found.update((shape.with_layout(layout), None) for layout in _other_orders(shape, default, generation, sizes))
        # Without tiles all orders have the same size; XLA for CPU and GPU uses row-major.
        untiled = Layout(descending(shape.rank), element_size_in_bits=default.element_size_in_bits)
        found[shape.with_layout(untiled)] = None
    return found


def _other_orders(shape: Shape, default: Layout, generation: str, sizes: range) -> Iterator[Layout]:
    """The layouts with any two dimensions tiled that give one of these sizes."""
    if shape.rank < 2 or 0 in shape.dimensions:
        return
    bits = default.element_size_in_bits or element_type(shape.element_type).storage_bits
    for minor, second in itertools.permutations(reversed(range(shape.rank)), 2):
        columns, rows = (shape.dimensions[d] for d in (minor, second))
        tiles = _tiles(shape.element_type, rows, generation)
        # Compute the size directly: most do not fit, and making a Shape takes fifty times as long.
        padded = rounded_up(rows, tiles[0][0]) * rounded_up(columns, tiles[0][1])
        elements = shape.size // (columns * rows) * padded
        if -(-elements * bits // 8) in sizes:
            rest = (d for d in reversed(range(shape.rank)) if d not in (minor, second))
            yield replace(default, minor_to_major=(minor, second, *rest), tiles=tiles)


@lru_cache(maxsize=4096)
def _tiles(element_type: str, rows: int, generation: str) -> tuple[Tile, ...]:
    """The default tiles of an array with this number of rows."""
    return default_layout(Shape(element_type, (rows, _WIDE)), generation).tiles
