"""Where every element of a buffer lies, worked out one element at a time.

The slow and obvious reference for the package, with which it shares no line. A `Spec` says how an array is laid out;
every function here follows the public definition of XLA's tiled layouts step by step, in Python's own integers:

1. List the dimensions from the most major to the most minor one.
2. For each tile in turn: dimensions of size one are put in front until there are as many as the tile has entries; the
   tile speaks of the last dimensions; an entry ``*`` merges its dimension into the next one; each of the dimensions
   then becomes two, the grid of tiles (rounded up) and, behind all of the grids, the inside of a tile.
3. The offset is the row-major place among the dimensions of the end.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

#: The entry of a tile that merges its dimension into the next, more minor one.
COMBINE = "*"

Index = tuple[int, ...]


@dataclass(frozen=True)
class Spec:
    """How an array lies in its buffer; `bits` are those of one element in the buffer."""

    dimensions: Index
    minor_to_major: Index
    tiles: tuple[tuple[int | str, ...], ...] = ()
    bits: int = 8
    tail_alignment: int = 1
    padded_dimensions: Index = ()

    def __post_init__(self) -> None:
        assert sorted(self.minor_to_major) == list(range(len(self.dimensions)))
        assert not self.padded_dimensions or len(self.padded_dimensions) == len(self.dimensions)
        assert all(tile and tile[-1] != COMBINE for tile in self.tiles), "a `*` has nothing to merge into"


# --- addresses ------------------------------------------------------------------------------------------------------


def _apply(tile: tuple[int | str, ...], bounds: list[int], place: list[int]) -> tuple[list[int], list[int]]:
    missing = len(tile) - len(bounds)
    bounds, place = [1] * missing + bounds, [0] * missing + place
    untouched = len(bounds) - len(tile)
    grid, grid_place = bounds[:untouched], place[:untouched]
    inside: list[int] = []
    inside_place: list[int] = []
    merged_bound, merged_place = 1, 0
    for entry, bound, at in zip(tile, bounds[untouched:], place[untouched:], strict=True):
        merged_bound, merged_place = merged_bound * bound, merged_place * bound + at
        if entry == COMBINE:
            continue
        assert isinstance(entry, int)
        grid.append(-(-merged_bound // entry))
        grid_place.append(merged_place // entry)
        inside.append(entry)
        inside_place.append(merged_place % entry)
        merged_bound, merged_place = 1, 0
    return grid + inside, grid_place + inside_place


def expand(spec: Spec, index: Index | None = None, *, levels: int | None = None) -> tuple[list[int], list[int]]:
    """Sizes of the dimensions after `levels` tiles (all of them by default), and where `index` lies among them."""
    sizes = spec.padded_dimensions or spec.dimensions
    index = (0,) * len(sizes) if index is None else index
    assert len(index) == len(sizes)
    major_to_minor = list(reversed(spec.minor_to_major))
    bounds, place = [sizes[d] for d in major_to_minor], [index[d] for d in major_to_minor]
    for tile in spec.tiles[:levels]:
        bounds, place = _apply(tile, bounds, place)
    return bounds, place


def offset_of(spec: Spec, index: Index) -> int:
    """Place of an element in the buffer, in elements."""
    offset = 0
    for bound, at in zip(*expand(spec, index), strict=True):
        offset = offset * bound + at
    return offset


def _aligned(elements: int, alignment: int) -> int:
    return -(-elements // alignment) * alignment


def elements_by_formula(spec: Spec) -> int:
    """Elements that the addresses need: the last tile's dimensions, all multiplied."""
    return _aligned(math.prod(expand(spec)[0]), spec.tail_alignment)


def elements_allocated(spec: Spec) -> int:
    """Elements that XLA allocates: it rounds up by the first tile alone."""
    return _aligned(math.prod(expand(spec, levels=1)[0]), spec.tail_alignment)


def to_bytes(elements: int, bits: int) -> int:
    """Bytes of so many elements: rounded up once, at the end."""
    return -(-elements * bits // 8)


def bytes_by_formula(spec: Spec) -> int:
    return to_bytes(elements_by_formula(spec), spec.bits)


def bytes_allocated(spec: Spec) -> int:
    return to_bytes(elements_allocated(spec), spec.bits)


def bytes_needed(spec: Spec) -> int:
    """The size of a buffer in which every address lies and which XLA would not find too short."""
    return max(bytes_by_formula(spec), bytes_allocated(spec))


def indices(spec: Spec) -> Iterator[Index]:
    """Every index of the array, in row-major order."""
    return itertools.product(*map(range, spec.dimensions))


@lru_cache(16)
def offsets(spec: Spec) -> dict[Index, int]:
    """The place of every element: a table for reading only, since who asks again gets the same one."""
    table = {index: offset_of(spec, index) for index in indices(spec)}
    assert len(set(table.values())) == len(table), "two elements share a place"
    return table


def slots(spec: Spec) -> list[Index | None]:
    """What lies at every place of the buffer: an index, or None where the place is padding."""
    found: list[Index | None] = [None] * max(elements_by_formula(spec), elements_allocated(spec))
    for index, offset in offsets(spec).items():
        found[offset] = index
    return found


# --- bits -----------------------------------------------------------------------------------------------------------


def read_bits(buffer: bytes | bytearray, offset: int, bits: int, *, high_first: bool = False) -> int:
    """The bit pattern of the element at `offset`: little endian; packed ones begin in the low bits of a byte."""
    if bits % 8 == 0:
        size = bits // 8
        field = bytes(buffer[offset * size : (offset + 1) * size])
        assert len(field) == size, "read past the end of the buffer"
        return int.from_bytes(field, "little")
    assert bits in (1, 2, 4)
    byte, shift = _packed_place(offset, bits, high_first)
    return buffer[byte] >> shift & (1 << bits) - 1


def write_bits(buffer: bytearray, offset: int, bits: int, pattern: int, *, high_first: bool = False) -> None:
    """Put the bit pattern of one element at `offset`, and change no other bit."""
    assert 0 <= pattern < 1 << bits
    if bits % 8 == 0:
        size = bits // 8
        assert (offset + 1) * size <= len(buffer), "written past the end of the buffer"
        buffer[offset * size : (offset + 1) * size] = pattern.to_bytes(size, "little")
        return
    byte, shift = _packed_place(offset, bits, high_first)
    buffer[byte] = buffer[byte] & ~((1 << bits) - 1 << shift) | pattern << shift


def _packed_place(offset: int, bits: int, high_first: bool) -> tuple[int, int]:
    byte, within = divmod(offset * bits, 8)
    return byte, 8 - bits - within if high_first else within


def decode(spec: Spec, buffer: bytes | bytearray, *, high_first: bool = False) -> dict[Index, int]:
    """The bit pattern of every element."""
    return {i: read_bits(buffer, at, spec.bits, high_first=high_first) for i, at in offsets(spec).items()}


def encode(spec: Spec, values: Mapping[Index, int], *, padding: int = 0, high_first: bool = False) -> bytearray:
    """A buffer of XLA's or the formula's size, whichever is larger, with `padding` in every place without element."""
    buffer = bytearray(bytes_needed(spec))
    for offset, index in enumerate(slots(spec)):
        write_bits(buffer, offset, spec.bits, padding if index is None else values[index], high_first=high_first)
    return buffer
