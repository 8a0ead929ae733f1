"""Dimensions that fit a size where not all of them are known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from strided.diagnosis.identification.candidates import Reading, byte_size, layouts, row_major_layouts, usual_layouts
from strided.diagnosis.identification.known import Known
from strided.diagnosis.identification.placement import CONSTANTS, PRICE
from strided.diagnosis.identification.sampling import Source
from strided.layout import Shape
from strided.layout.element_types import ELEMENT_TYPES, ElementType

#: The most sizes that may be unknown.
MOST_UNKNOWN = 2
#: Stands for an unknown size: a multiple of those of all usual tiles.
_PROBE = 1 << 12
#: The most rows and columns that are tried where only a size is known.
_MOST = 64
#: Lines, and indices at their ends, that are looked at for padding.
_LINES, _ENDS = 64, 2048
#: The share of other lines that several constants of padding make up at most; a few values that recur make up more.
_FEW = 0.75


def possible_dimensions(known: Known, kind: ElementType, size: int) -> Iterator[tuple[int, ...]]:
    """Dimensions of which some layout takes exactly `size` bytes; those that are known, if all are."""
    if known.sizes is not None:
        yield known.sizes
        return
    if known.dimensions is None:
        yield from _factors(size * 8 // kind.storage_bits)
        return
    yield from dict.fromkeys(_completed(known.dimensions, kind, size))


def _factors(slots: int) -> Iterator[tuple[int, ...]]:
    """One dimension, or two, of so many elements."""
    if not slots:
        return
    yield (slots,)
    rows = [n for n in range(2, min(math.isqrt(slots), 1 << 16) + 1) if slots % n == 0][-_MOST // 2 :]
    for n in rows:
        yield n, slots // n
        yield slots // n, n


def _completed(dimensions: tuple[int | None, ...], kind: ElementType, size: int) -> Iterator[tuple[int, ...]]:
    """Every unknown size set, the largest that some layout allows; of two of them, a row-major one."""
    unknown = dimensions.count(None)
    if unknown > MOST_UNKNOWN:
        return
    complete = _row_major if unknown > 1 else _largest
    yield from complete(dimensions, kind, size)


def _filled(dimensions: tuple[int | None, ...], *sizes: int) -> tuple[int, ...]:
    """Dimensions with sizes for those that are unknown, the same for all if it is one.

    >>> _filled((None, 5, None), 2, 3), _filled((None, 5, None), 2)
    ((2, 5, 3), (2, 5, 2))
    """
    left = itertools.cycle(sizes)
    return tuple(next(left) if n is None else n for n in dimensions)


def _row_major(dimensions: tuple[int | None, ...], kind: ElementType, size: int) -> Iterator[tuple[int, ...]]:
    """Several unknown sizes, of which some row-major layout takes all bytes."""
    unknown = dimensions.count(None)
    probe = _filled(dimensions, _PROBE)
    for layout in row_major_layouts(kind.name, probe):
        # The sizes that are known take whole tiles, too.
        pairs, rest = divmod(size * _PROBE**unknown, byte_size(kind, probe, layout))
        for found in _factors(pairs) if not rest else ():
            if len(found) == unknown:
                yield _filled(dimensions, *found)


def _largest(dimensions: tuple[int | None, ...], kind: ElementType, size: int) -> Iterator[tuple[int, ...]]:
    """One unknown size, the largest with which each layout takes all bytes."""
    probe, seen = _filled(dimensions, _PROBE), set()
    for layout in (*usual_layouts(kind.name, probe), *layouts(kind.name, probe)):
        low, high = 0, size * 8 // kind.bits
        while low < high:
            middle = (low + high + 1) // 2
            if byte_size(kind, _filled(dimensions, middle), layout) <= size:
                low = middle
            else:
                high = middle - 1
        found = _filled(dimensions, low)
        if low and low not in seen and byte_size(kind, found, layout) == size:
            seen.add(low)
            yield found


def trimmed(source: Source, reading: Reading, known: Known) -> Reading:
    """A reading without the rows, or columns, at the end of an unknown dimension that may be padding and are constant.

    So are those that hold a few constants in turn. The array takes as many bytes as before.
    """
    shape = reading.shape
    rng = np.random.default_rng(19)
    dimensions = list(shape.dimensions)
    for axis in range(shape.rank):
        if known.dimensions is None or known.dimensions[axis] is None:
            dimensions[axis] = _end_of_values(source, reading, dimensions, axis, rng)
    if tuple(dimensions) == shape.dimensions:
        return reading
    return replace(reading, shape=Shape(shape.element_type, tuple(dimensions), shape.layout))


def open_sizes(shape: Shape, axis: int) -> range:
    """The sizes of one dimension with which an array takes as many bytes, if it has the largest of them; else none.

    It has another where what lies behind it is constant, and so told from values.
    """
    dimensions, layout = shape.dimensions, shape.layout
    assert layout is not None
    kind, n = ELEMENT_TYPES[shape.element_type], dimensions[axis]
    larger = (*dimensions[:axis], n + 1, *dimensions[axis + 1 :])
    if byte_size(kind, larger, layout) == byte_size(kind, dimensions, layout):
        return range(0)
    return range(_least_size(shape, dimensions, axis), n + 1)


def _end_of_values(
    source: Source, reading: Reading, dimensions: Sequence[int], axis: int, rng: np.random.Generator
) -> int:
    """The size of one dimension without constant lines at its end; `dimensions` are those that are left so far."""
    shape, n = reading.shape, dimensions[axis]
    least = _least_size(shape, dimensions, axis)
    ends = np.arange(least, n)
    if not len(ends):
        return n
    index = [rng.integers(0, m, (1, _LINES)) for m in dimensions]
    index[axis] = ends.reshape(-1, 1)
    offsets = np.broadcast_to(shape.address_map.offset_of(index), (len(ends), _LINES))
    values, inside = source.fetch(reading, np.ascontiguousarray(offsets, np.int64).reshape(-1))
    words = values.view(np.uint8).reshape(len(ends), _LINES, -1)
    constants = np.unique(words[-1], axis=0)
    if len(constants) > CONSTANTS:
        return n
    same = np.logical_or.reduce([(words == c).all(axis=2) for c in constants])
    constant = same.all(axis=1) & inside.reshape(len(ends), -1).all(axis=1)
    others = np.flatnonzero(~constant)
    held = (len(ends) - 1 - others.max(initial=-1)) * min(_LINES, shape.size // n)
    if len(constants) > 1 and (held < PRICE * len(constants) or not len(others) or same[others].mean() > _FEW):
        return n  # the values themselves are few
    return least + int(others[-1]) + 1 if len(others) else least


def _least_size(shape: Shape, dimensions: Sequence[int], axis: int) -> int:
    """The least size of one dimension with which an array takes as many bytes, as far as it is looked for."""
    layout, kind = shape.layout, ELEMENT_TYPES[shape.element_type]
    assert layout is not None
    least = n = dimensions[axis]
    needed = byte_size(kind, tuple(dimensions), layout)
    while least > max(1, n - _ENDS):
        if byte_size(kind, (*dimensions[:axis], least - 1, *dimensions[axis + 1 :]), layout) != needed:
            break
        least -= 1
    return least
