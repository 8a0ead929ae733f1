"""Dimensions that fit a size where not all of them are known."""

from __future__ import annotations

import math
from collections.abc import Iterator
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
    probe = tuple(_PROBE if n is None else n for n in dimensions)
    if unknown > 1:
        for layout in row_major_layouts(kind.name, probe):
            # The sizes that are known take whole tiles, too.
            pairs, rest = divmod(size * _PROBE**unknown, byte_size(kind, probe, layout))
            for found in _factors(pairs) if not rest else ():
                if len(found) == unknown:
                    sizes = iter(found)
                    yield tuple(next(sizes) if n is None else n for n in dimensions)
        return
    seen = set()
    for layout in (*usual_layouts(kind.name, probe), *layouts(kind.name, probe)):
        low, high = 0, size * 8 // kind.bits
        while low < high:
            middle = (low + high + 1) // 2
            if byte_size(kind, tuple(middle if n is None else n for n in dimensions), layout) <= size:
                low = middle
            else:
                high = middle - 1
        if low and low not in seen:
            sizes_of = tuple(low if n is None else n for n in dimensions)
            if byte_size(kind, sizes_of, layout) == size:
                seen.add(low)
                yield sizes_of


def trimmed(source: Source, reading: Reading, known: Known) -> Reading:
    """A reading without the rows, or columns, at the end of an unknown dimension that may be padding and are constant.

    So are those that hold a few constants in turn. The array takes as many bytes as before.
    """
    shape = reading.shape
    layout, kind = shape.layout, ELEMENT_TYPES[shape.element_type]
    assert layout is not None
    rng = np.random.default_rng(19)
    dimensions = list(shape.dimensions)
    for axis, n in enumerate(dimensions):
        if known.dimensions is not None and known.dimensions[axis] is not None:
            continue
        least = n
        while least > max(1, n - _ENDS) and byte_size(
            kind, (*dimensions[:axis], least - 1, *dimensions[axis + 1 :]), layout
        ) == byte_size(kind, tuple(dimensions), layout):
            least -= 1
        ends = np.arange(least, n)
        if not len(ends):
            continue
        index = [rng.integers(0, m, (1, _LINES)) for m in dimensions]
        index[axis] = ends.reshape(-1, 1)
        offsets = np.broadcast_to(shape.address_map.offset_of(index), (len(ends), _LINES))
        values, inside = source.fetch(reading, np.ascontiguousarray(offsets, np.int64).reshape(-1))
        words = values.view(np.uint8).reshape(len(ends), _LINES, -1)
        constants = np.unique(words[-1], axis=0)
        if len(constants) > CONSTANTS:
            continue
        same = np.logical_or.reduce([(words == c).all(axis=2) for c in constants])
        constant = same.all(axis=1) & inside.reshape(len(ends), -1).all(axis=1)
        others = np.flatnonzero(~constant)
        held = (len(ends) - 1 - others.max(initial=-1)) * min(_LINES, shape.size // n)
        if len(constants) > 1 and (held < PRICE * len(constants) or not len(others) or same[others].mean() > _FEW):
            continue  # the values themselves are few
        dimensions[axis] = least + int(others[-1]) + 1 if len(others) else least
    if tuple(dimensions) == shape.dimensions:
        return reading
    return replace(reading, shape=Shape(shape.element_type, tuple(dimensions), layout))
