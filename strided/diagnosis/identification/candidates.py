"""The layouts that may explain a buffer: the compiler's own choices, then all orders with all usual tiles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from strided.arrays.buffers import GRANULES
from strided.errors import StridedError
from strided.layout import Layout, Shape, Tile
from strided.layout.element_types import ELEMENT_TYPES, ElementType
from strided.layout.layout import descending
from strided.tpu import default_layout

#: The orders of more dimensions than these are not all tried.
_MOST_DIMENSIONS = 5
#: Rows of a tile of 128 columns; the compiler's most usual ones first.
_ROWS = (8, 4, 2, 1, 16, 32, 64, 128)
#: Other tiles that programs ask for.
_REQUESTED = ((8, 256), (2, 2), (4, 4), (8, 8), (16, 16), (32, 32), (3, 5))
#: Elements of tiles of one dimension, with which XLA lays out arrays like f32[1000]{0:T(1024)}.
_LINES = (128, 256, 512, 1024, 2048)
#: Bytes of usual headers.
HEADERS = (64, 128, 256, 512, 1024, 4096)
#: Bytes in front of an array that are tried, whatever the size of the buffer; of a large one, a sixteenth of it.
_LONGEST_HEADER = 1 << 12
#: Columns of an array whose tiles depend on its rows alone: narrow ones have others.
_WIDE = 1 << 16

#: The dimensions of tiles, and the alignment of the tail.
_Tiling: TypeAlias = tuple[tuple[tuple[int, ...], ...], int]


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to read the buffer.

    Attributes
    ----------
    shape : Shape
    offset : int
        Bytes in front of the array's buffer.
    missing_bytes, excess_bytes : int
        Bytes of the array that the buffer lacks at its end, or has beyond it.
    byteorder, bitorder : str
        "little" or "big".
    """

    shape: Shape
    offset: int = 0
    missing_bytes: int = 0
    excess_bytes: int = 0
    byteorder: str = "little"
    bitorder: str = "little"

    @property
    def start(self) -> int:
        """Where the elements begin: behind the prefix of dynamic sizes."""
        layout = self.shape.layout
        return self.offset + (0 if layout is None else layout.dynamic_shape_metadata_prefix_bytes)

    @property
    def place(self) -> tuple[int, bool]:
        """Bytes in front of the elements, and whether any are missing."""
        return self.start, self.missing_bytes > 0

    @property
    def lying(self) -> tuple[int, int, str, str]:
        """How the array lies in the buffer, whatever its layout."""
        return self.offset, self.missing_bytes, self.byteorder, self.bitorder

    def in_memory(self, word: bytes) -> bytes:
        """The bytes of one of its elements in the order of memory; the same function turns them back.

        Of a complex one, the two parts keep their places.
        """
        if self.byteorder == "little":
            return word
        width = len(word) // 2 if self.shape.element_type[0] == "c" else len(word)
        return b"".join(word[k : k + width][::-1] for k in range(0, len(word), width))

    @property
    def has_rest(self) -> bool:
        """Whether bytes lie behind the array that neither rounding up nor the packing of elements explains."""
        needed = self.shape.byte_size
        is_explained = self.shape.element_bits < 8 or is_rounded_up(needed + self.excess_bytes, needed)
        return self.excess_bytes > 0 and not is_explained

    @property
    def is_exact(self) -> bool:
        """Whether the array takes exactly the bytes of the buffer."""
        return not (self.offset or self.missing_bytes or self.excess_bytes)


@lru_cache(maxsize=4096)
def usual_layouts(element_type: str, dimensions: tuple[int, ...]) -> tuple[Layout, ...]:
    """What the TPU compiler gives a parameter, newer generations first, and the row-major layout without tiles."""
    found: list[Layout] = []
    shape = Shape(element_type, dimensions)
    for generation in ("v5e", "v3"):
        try:
            found.append(default_layout(shape, generation))
        except StridedError:
            continue
    return tuple(dict.fromkeys([*found, Layout(descending(len(dimensions)))]))


def usualness(shape: Shape) -> float:
    """How usual a layout is; 0 is the compiler's own choice for a parameter."""
    layout = shape.layout
    assert layout is not None
    usual = usual_layouts(shape.element_type, shape.dimensions)
    if layout in usual:
        return usual.index(layout)
    if not layout.tiles and layout.tail_padding_alignment_in_elements == 1:
        return 3 if layout.minor_to_major == tuple(range(shape.rank)) else 5
    if shape.rank >= 2:
        # The compiler's tiles for this many rows, in another order of dimensions; whole planes are rarely moved.
        rows = shape.dimensions[layout.minor_to_major[1]]
        if any(layout.tiles == other.tiles for other in usual_layouts(shape.element_type, (rows, _WIDE))[:-1]):
            outer = layout.minor_to_major[2:]
            return 4 if list(outer) == sorted(outer, reverse=True) else 4.5
    return 6


def row_major_layouts(element_type: str, dimensions: tuple[int, ...]) -> list[Layout]:
    """Row-major order without tiles, and with those that the compiler gives so many rows."""
    if len(dimensions) < 2:
        return list(usual_layouts(element_type, dimensions))
    order = descending(len(dimensions))
    usual = usual_layouts(element_type, (dimensions[-2], _WIDE))
    return [replace(layout, minor_to_major=order) for layout in usual]


@lru_cache(maxsize=64)
def layouts(element_type: str, dimensions: tuple[int, ...]) -> tuple[Layout, ...]:
    """All layouts that are tried for an element type and dimensions, the most usual ones first."""
    kind = ELEMENT_TYPES[element_type]
    found = dict.fromkeys(usual_layouts(element_type, dimensions))
    for packed in (0, kind.bits) if kind.packs and kind.bits in (1, 2, 4) and kind.name != "pred" else (0,):
        bits = packed or kind.storage_bits
        for order, (tiles, tail) in itertools.product(_orders(len(dimensions)), _tilings(bits, len(dimensions))):
            found[
                Layout(
                    order, tuple(map(Tile, tiles)), element_size_in_bits=packed, tail_padding_alignment_in_elements=tail
                )
            ] = None
    return tuple(found)


def _orders(rank: int) -> Iterable[tuple[int, ...]]:
    row_major = descending(rank)
    if rank <= _MOST_DIMENSIONS:
        return itertools.permutations(row_major)
    swapped = (row_major[1], row_major[0], *row_major[2:])
    return row_major, swapped, tuple(range(rank))


@lru_cache(maxsize=64)
def _tilings(bits: int, rank: int) -> tuple[_Tiling, ...]:
    """The tilings for elements of so many bits."""
    found: list[_Tiling] = [((), 1)]
    words = [w for w in (2, 4, 8, 16, 32) if w * bits <= 32][::-1]
    if rank >= 2:
        for rows in _ROWS:
            found += [(((rows, 128), (w, 1)), 1) for w in words if rows % w == 0]
            found.append((((rows, 128),), 1))
        found += [((tile,), 1) for tile in _REQUESTED]
        if words:
            found.append((((8, 128), (1, 2)), 1))
    for n in _LINES:
        found.append((((n,),), 1))
        if rank:
            found += [(((n,), (128,), (w, 1)), 1) for w in words if n % (128 * w) == 0]
    found += [(((1,),), 128), (((1,),), 1024)]
    return tuple(found)


def byte_size(kind: ElementType, dimensions: tuple[int, ...], layout: Layout) -> int:
    """Bytes that XLA allocates, as `Shape.byte_size`, and the prefix of dynamic sizes, without making the shape.

    >>> byte_size(ELEMENT_TYPES["bf16"], (17, 300), Layout((1, 0), [(8, 128), (2, 1)]))
    18432
    """
    sizes = [dimensions[d] for d in reversed(layout.minor_to_major)]
    if layout.tiles:
        tile = layout.tiles[0]
        sizes = [1] * (len(tile) - len(sizes)) + sizes
        for at, t in enumerate(reversed(tile), 1):
            sizes[-at] = -(-sizes[-at] // t) * t
    tail = layout.tail_padding_alignment_in_elements
    slots = -(-math.prod(sizes) // tail) * tail
    bits = layout.element_size_in_bits or kind.storage_bits
    return layout.dynamic_shape_metadata_prefix_bytes - (-slots * bits // 8)


def readings(
    size: int, offset: int, element_type: str, dimensions: tuple[int, ...], claim: Layout | None, guessed: bool = False
) -> Iterator[Reading]:
    """Every way to read a buffer of `size` bytes from `offset` on as an array of this type and these dimensions.

    Of `guessed` dimensions only the most usual ways: there are many, and the columns of one are the rows of another.
    """
    kind = ELEMENT_TYPES[element_type]
    tried = row_major_layouts(element_type, dimensions) if guessed else layouts(element_type, dimensions)
    for layout in tried if claim is None else dict.fromkeys([claim, *tried]):
        needed = byte_size(kind, dimensions, layout)
        have = size - offset
        places = [(0, 0, 0)] * (have == needed) if guessed else list(placements(have, needed))
        if layout.element_size_in_bits and have == byte_size(kind, dimensions, replace(layout, element_size_in_bits=0)):
            places = [(0, 0, have - needed)]  # the CPU runtime allocates one byte for each packed element
        for place in places:
            shape = Shape(element_type, dimensions, layout)
            if shape.address_byte_size > shape.byte_size:
                break  # a later tile pads again, which the compiler's own layouts never do
            reading = Reading(shape, offset + place[0], *place[1:])
            if reading.start < size:  # else a prefix of dynamic sizes takes all of it
                yield reading


def placements(have: int, needed: int) -> Iterator[tuple[int, int, int]]:
    """How an array lies in a buffer: bytes in front of it, missing bytes, and bytes behind it."""
    excess = have - needed
    if excess <= 0:
        if -excess <= needed // 4:
            yield 0, -excess, 0
        return
    if excess <= max(_LONGEST_HEADER, have // 16):
        yield excess, 0, 0
    if is_rounded_up(have, needed):
        yield 0, 0, excess


def is_rounded_up(have: int, needed: int) -> bool:
    """Whether a buffer has so many bytes because allocations come in whole granules.

    >>> is_rounded_up(512, 500), is_rounded_up(504, 500)
    (True, False)
    """
    return any(have == -(-needed // granule) * granule for granule in GRANULES)
