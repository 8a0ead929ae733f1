"""Elements fetched from a buffer: the same logical indices for every layout, so that layouts are compared alike.

A sample has points all over the array, and for each axis pairs of neighbours. The pairs straddle multiples of 1, 2, 4,
8, ... in equal shares: where a layout is wrong, neighbours differ most across the borders of its tiles, and these are
few.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from strided.arrays.buffers import flat_bytes
from strided.diagnosis.identification.candidates import Reading
from strided.diagnosis.identification.file_blocks import FileBlocks
from strided.files.mapping import MappedFile, map_file
from strided.files.regular import READS_AT_PLACES, open_regular
from strided.layout.element_types import ElementType, is_builtin
from strided.layout.element_types import element_type as element_type_named
from strided.runtime.aliases import Bytes, Table

Values: TypeAlias = npt.NDArray[Any]

#: Of larger files small blocks are read: a page that is mapped may bring its neighbours into memory.
_MAPPED_BYTES = 1 << 28
#: Elements along each axis of parts of an array that are taken to speak independently.
_CELL = 4


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """The bytes under question, in memory or mapped; of a large file also blocks of it that were read."""

    content: Bytes
    mapped: MappedFile | None = None
    blocks: FileBlocks | None = None

    @classmethod
    @contextlib.contextmanager
    def opened(cls, buffer: Any) -> Iterator[Self]:
        """A buffer, or the path of a file. Errors as for `map_file` and `flat_bytes`."""
        if not isinstance(buffer, (str, os.PathLike)):
            yield cls(flat_bytes(buffer))
            return
        mapped = map_file(buffer, "r", 0, None)
        with open_regular(buffer) as file:
            is_large = mapped.size >= _MAPPED_BYTES and READS_AT_PLACES
            yield cls(mapped.content, mapped, FileBlocks(file, mapped.size, mapped.check) if is_large else None)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.content.size

    def check(self) -> None:
        """Raise BufferSizeError if the file was truncated."""
        if self.mapped is not None:
            self.mapped.check()

    def fetch(self, reading: Reading, offsets: Table) -> tuple[Values, npt.NDArray[np.bool_]]:
        """The elements at some offsets of a reading, and which of them the buffer has; the others are arbitrary."""
        kind, bits = element_type_named(reading.shape.element_type), reading.shape.element_bits
        if bits >= 8:
            width = bits // 8
            held = (self.size - reading.start) // width
            inside = offsets < held
            if not held:
                return np.zeros(len(offsets), kind.dtype), inside
            words = self._taken(reading.start, _word(kind, width), np.where(inside, offsets, 0))
            return _values(words, kind, reading.byteorder == "big"), inside
        bit = offsets * bits
        inside = bit // 8 < self.size - reading.start
        words = self._taken(reading.start, np.dtype(np.uint8), np.where(inside, bit // 8, 0))
        shift = bit % 8 if reading.bitorder == "little" else 8 - bits - bit % 8
        assert kind.dtype is not None
        return ((words >> shift.astype(np.uint8)) & ((1 << bits) - 1)).astype(np.uint8).view(kind.dtype), inside

    def _taken(self, start: int, dtype: np.dtype[Any], at: Table) -> Values:
        """Items of a type, counted from a byte on."""
        width = dtype.itemsize
        if self.blocks is not None:
            return self.blocks.taken(start, dtype, at)
        held = (self.size - start) // width * width
        taken: Values = self.content[start : start + held].view(dtype)[at]
        return taken

    def release(self) -> None:
        """Give the pages of a large mapped file back."""
        if self.blocks is not None and self.mapped is not None:
            self.mapped.release()


def _word(kind: ElementType, width: int) -> np.dtype[Any]:
    """The type that elements are fetched as: one whose bytes NumPy can swap."""
    assert kind.dtype is not None
    return kind.dtype if kind.dtype.kind in "fciu" and is_builtin(kind.dtype) else np.dtype(f"u{width}")


def _values(words: Values, kind: ElementType, swapped: bool) -> Values:
    """Fetched words as values. Any byte that is not 0 is a true pred."""
    assert kind.dtype is not None
    if swapped:
        words = words.byteswap()
    if kind.name == "pred":
        words = (words != 0).view(np.uint8)
    values: Values = words.view(kind.dtype)
    return values


def as_numbers(values: Values) -> npt.NDArray[np.float64]:
    """Values in float64; of complex ones the real part."""
    if values.dtype.kind == "c":
        values = values.real
    with np.errstate(all="ignore"):
        return values.astype(np.float64)


def hold_none_of(values: Values, constants: Sequence[bytes]) -> npt.NDArray[np.bool_]:
    """Which values have other bytes than any of the constants of their size.

    >>> hold_none_of(np.array([7, 8], np.uint8), [b"\\x07", b"\\x08\\x00"]).tolist()
    [False, True]
    """
    words = values.view(np.uint8).reshape(len(values), -1)
    found = np.ones(len(values), np.bool_)
    for constant in constants:
        if len(constant) == values.dtype.itemsize:
            found &= (words != np.frombuffer(constant, np.uint8)).any(axis=1)
    return found


@dataclass(frozen=True, slots=True)
class Pairs:
    """Neighbours along one axis: where they begin in the sample, their number, and how many of them are distinct.

    `cells` says in which of `number` small parts of the array each lies: neighbours of neighbours are much like them,
    and in small arrays some are drawn many times, so that only different parts speak independently.
    """

    axis: int
    start: int
    count: int
    distinct: int
    cells: Table
    number: int

    @property
    def ends(self) -> tuple[slice, slice]:
        """Where the first ends and the others lie in the sample."""
        middle = self.start + self.count
        return slice(self.start, middle), slice(middle, middle + self.count)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Logical indices to look at.

    Attributes
    ----------
    dimensions : tuple of int
    index : tuple of int64 arrays
        One for each dimension: first `points` points in row-major order, then pairs: all first ends, then all others.
    points : int
    pairs : tuple of Pairs
    chosen : tuple of int64 arrays
        The indices of each dimension, in order, of which the points are all combinations.
    kept : dict
        What readings of these dimensions share, for those who look at them.
    """

    dimensions: tuple[int, ...]
    index: tuple[Table, ...]
    points: int
    pairs: tuple[Pairs, ...]
    chosen: tuple[Table, ...]
    kept: dict[tuple[int, ...], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, dimensions: Sequence[int], points: int, pairs: int) -> Sample:
        """About `points` points, and `pairs` pairs for each axis and power of two, the same ones each time."""
        rng = np.random.default_rng(7)
        dimensions = tuple(dimensions)
        size = math.prod(dimensions)
        chosen = _chosen(dimensions, points, rng)
        columns = [_grid(chosen)]
        placed, at = [], columns[0].shape[1]
        for axis, n in enumerate(dimensions):
            if n < 2:
                continue
            count = pairs * (n - 1).bit_length()
            first = np.stack([rng.integers(0, m, count) for m in dimensions])
            first[axis] = _borders(n, count, rng) - 1
            second = first.copy()
            second[axis] += 1
            columns += [first, second]
            cells, number = _cells(first, dimensions)
            placed.append(Pairs(axis, at, count, min(count, size // n * (n - 1)), cells, number))
            at += 2 * count
        return cls(
            dimensions, tuple(np.concatenate(columns, axis=1)), columns[0].shape[1], tuple(placed), tuple(chosen)
        )


def _cells(index: Table, dimensions: tuple[int, ...]) -> tuple[Table, int]:
    """The number of the cell of `_CELL` elements along each axis that each index lies in, and how many cells there are.

    >>> _cells(np.array([[0, 3, 4, 40]]), (41,))[0].tolist()
    [0, 0, 1, 2]
    """
    found = np.zeros(index.shape[1], np.int64)
    for row, n in zip(index, dimensions, strict=True):  # numbered after each axis, so that no number overflows
        found = np.unique(found * (-(-n // _CELL)) + row // _CELL, return_inverse=True)[1]
    return found, int(found.max(initial=-1)) + 1


def _grid(chosen: Sequence[Table]) -> Table:
    """All combinations of indices, a row for each dimension, in row-major order: `numpy.meshgrid` takes 32 at most."""
    counts = [len(one) for one in chosen]
    rows = np.empty((len(chosen), math.prod(counts)), np.int64)
    for d, one in enumerate(chosen):
        rows[d].reshape(math.prod(counts[:d]), counts[d], math.prod(counts[d + 1 :]))[...] = one[:, None]
    return rows


def _chosen(dimensions: tuple[int, ...], points: int, rng: np.random.Generator) -> list[Table]:
    """Indices of each dimension, in order: rows and columns that make a grid of about so many points."""
    chosen: list[Table] = [np.zeros(0, np.int64)] * len(dimensions)
    for left, d in zip(range(len(dimensions), 0, -1), np.argsort(dimensions, kind="stable"), strict=True):
        n = dimensions[d]
        most = min(n, max(2, round(points ** (1 / left))))
        chosen[d] = np.arange(n) if n == most else np.unique(rng.integers(0, n, most))
        points = max(1, points // len(chosen[d]))
    return chosen


def _borders(n: int, count: int, rng: np.random.Generator) -> Table:
    """Indices from 1 to ``n - 1``, of which as many are odd as are twice an odd number, four times one, ..."""
    level = np.arange(count) % (n - 1).bit_length()
    most = (n - 1) >> level
    odd = rng.integers(0, (most + 1) // 2) * 2 + 1
    return (odd << level).astype(np.int64)
