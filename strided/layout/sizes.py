"""The size of a buffer, and how much of it is padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strided.errors import StridedError
from strided.layout import Shape
from strided.layout.parser import array_shape, single_shape


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of one array's buffer.

    Attributes
    ----------
    elements : int
        Elements of the array. (The buffer of a split layout holds only those of the largest piece.)
    slots : int
        Slots of the buffer, with or without an element.
    element_bits : int
        Bits of one slot.
    value_bytes, padding_bytes, total_bytes : int
        Bytes of the elements in the buffer, of the padding, and of both.
    padded_dimensions : tuple of int
        Size of each dimension with padding, in elements. The padding of dimensions that a tile combines belongs to none
        of them and is not included.
    """

    elements: int
    slots: int
    element_bits: int
    value_bytes: int
    total_bytes: int
    padded_dimensions: tuple[int, ...]

    @property
    def padding_bytes(self) -> int:
        """Bytes that hold no value."""
        return self.total_bytes - self.value_bytes

    @property
    def padding_share(self) -> float:
        """Padding as a fraction of the buffer, from 0 to 1."""
        return self.padding_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def growth(self) -> float:
        """`total_bytes` divided by `value_bytes`; infinite if there are no values."""
        return self.total_bytes / self.value_bytes if self.value_bytes else float("inf" if self.total_bytes else 1)


def sizes(shape: Shape | str) -> Sizes:
    """The sizes of a shape's buffer, in elements, bits and bytes.

    Parameters
    ----------
    shape : str or Shape

    Raises
    ------
    NotationError, LayoutError, UnsupportedError
        The shape is not that of an array, or its size is not known.

    >>> s = sizes("bf16[17,300]{1,0:T(8,128)(2,1)}")
    >>> s.total_bytes, s.value_bytes, round(s.padding_share, 3), s.padded_dimensions
    (18432, 10200, 0.447, (24, 384))
    """
    shape = single_shape(shape)
    bits = shape.element_bits
    is_split = shape.layout is not None and shape.layout.split_configs
    slots = shape.byte_size * 8 // bits if is_split else shape.expansion.allocated_elements
    return Sizes(shape.size, slots, bits, shape.unpadded_byte_size, shape.byte_size, padded_dimensions(shape))


def has_addresses(shape: Shape) -> bool:
    """Whether elements have addresses.

    They have none if the shape has no layout, a dimension of unknown size, a split layout, a tile that ends in ``*``,
    or more dimensions than NumPy allows.
    """
    try:
        _ = array_shape(shape).address_map
    except StridedError:
        return False
    return True


def tile_of(shape: Shape, level: int = 0) -> dict[int, int]:
    """The size of one tile (the first one is level 0) in each dimension that it cuts and does not combine.

    >>> tile_of(array_shape("bf16[4,17,300]{2,1,0:T(8,128)(2,1)}"))
    {1: 8, 2: 128}
    """
    layout = shape.layout
    if layout is None or level >= len(layout.tiles):
        return {}
    tile: Sequence[int] = layout.tiles[level]
    if level and len(tile) > len(layout.tiles[0]):
        return {}  # it also cuts the grid of the first tile
    found = {}
    for place, (dimension, entry) in enumerate(zip(layout.minor_to_major, reversed(tile), strict=False)):
        before = len(tile) - 2 - place  # the next more major entry: `*` there merges it into this dimension
        if entry < 0 or (before >= 0 and tile[before] < 0):
            break
        found[dimension] = entry
    return dict(sorted(found.items()))


def padded_dimensions(shape: Shape) -> tuple[int, ...]:
    """The size of each dimension with padding; see `Sizes`."""
    layout = shape.layout
    if layout is not None and layout.padded_dimensions:
        return layout.padded_dimensions
    tile = tile_of(shape)
    return tuple(-(-n // tile.get(d, 1)) * tile.get(d, 1) for d, n in enumerate(shape.dimensions))
