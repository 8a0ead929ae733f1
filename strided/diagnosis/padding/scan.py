"""Read the padding of an array in blocks, and classify its contents."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.addressing.address_map import AddressMap
from strided.arrays.base import Array, ArrayBase
from strided.arrays.blocks import Box, Reader
from strided.arrays.padding import unused_bits, unused_slots
from strided.diagnosis.bit_patterns import pattern_words
from strided.diagnosis.padding.areas import (
    BLOCK_ELEMENTS,
    LEAST_BYTES,
    Area,
    Lines,
    Padded,
    Pieces,
    areas,
    blocks_of,
    padded_of,
    pieces,
)
from strided.diagnosis.padding.contents import (
    CONSTANT,
    FINITE,
    KINDS,
    NAN,
    NOISE,
    STALE,
    ZERO,
    Kinds,
    are_numbers,
    is_nan,
    is_noise,
    kinds_of,
    leading_bytes,
)
from strided.diagnosis.padding.regions import KnownLines, Marks, Origin, Tallies, count, regions_of
from strided.diagnosis.padding.report import Match, Padding, PaddingRegion
from strided.diagnosis.padding.stale import UNINFORMATIVE, UNKNOWN, Indices, StaleLines
from strided.layout import Shape
from strided.layout.sizes import tile_of
from strided.pictures.folding import folding
from strided.pictures.marks import MOST_COLUMNS, MOST_ROWS, MarkMap
from strided.runtime.argument_checks import check_progress

#: The most stale lines of a block whose matches are recorded.
_MOST_LINES = 64
#: Elements after which the pages of a mapped file are released.
_RELEASED_ELEMENTS = 1 << 22
#: Elements of a line of slots that belong to no dimension.
_LINE = 256


def padding(array: Any, *, progress: Callable[[int], object] | None = None) -> Padding:
    """Find what the padding of an array holds: zeros, a constant, NaN, old data, other numbers, or noise.

    Padding is read in blocks. Lines of it that are neither constant nor NaN are searched for in the data, which is then
    read once. Lines are cut at the edges of tiles, and compared with data in the same part of a tile.

    Parameters
    ----------
    array : LayoutArray
        An array that is not a view.
    progress : callable, optional
        Called after each block with its number of elements.

    Raises
    ------
    TypeError
        `array` is not a LayoutArray.
    ValueError
        The array is a view.

    Examples
    --------
    >>> import strided as sd
    >>> a = sd.LayoutArray.from_numpy(np.arange(6, dtype=np.uint8).reshape(2, 3), "{1,0:T(2,4)}", padding=9)
    >>> report = sd.inspect.padding(a)
    >>> report.bytes, report.share, report.is_clean, report.regions[0].contents, int(report.regions[0].value)
    (2, 0.25, True, 'constant', 9)
    """
    if not isinstance(array, ArrayBase):
        raise TypeError(f"padding takes a LayoutArray, not {type(array).__name__}")
    if array.is_view:
        raise ValueError(f"{array._description()} shares its padding with the whole array: pass that instead")
    check_progress(progress)
    done = _releasing(array, progress)
    spec, bits = array.spec, array.spec.element_bits
    padded = padded_of(spec) if isinstance(spec, Shape) and spec.slots else None
    tallies: Tallies = {}
    drawn = None
    if padded is None:
        for slots in unused_slots(spec):
            _see_slots(array, slots, "tile", tallies, done)
    else:
        tallies, drawn = _see_areas(array, padded, done)
        for start in range(math.prod(padded.shape), spec.slots, BLOCK_ELEMENTS):
            slots = np.arange(start, min(spec.slots, start + BLOCK_ELEMENTS))
            _see_slots(array, slots, "tail", tallies, done)
    size, total = math.prod(spec.dimensions), -(-spec.slots * bits // 8)
    return Padding(
        str(spec),
        (8 * total - size * bits) // 8,
        total,
        (*regions_of(tallies, bits), *_last_bits(array)),
        drawn,
    )


def _releasing(array: ArrayBase, progress: Callable[[int], object] | None) -> Callable[[int], object]:
    """A callback for each block, which reports progress and sometimes releases pages of a mapped file."""
    read = 0

    def done(elements: int) -> None:
        nonlocal read
        read += elements
        if read >= _RELEASED_ELEMENTS and array.file is not None:
            array.file.release()
            read = 0
        if progress is not None:
            progress(elements)

    return done


def _last_bits(array: ArrayBase) -> Iterator[PaddingRegion]:
    """The bits of the last byte that belong to no slot."""
    mask = unused_bits(array.spec, low_first=array.bitorder == "little")
    if mask:
        found = int(array._memory.buffer[-1]) & mask
        contents = ZERO if not found else CONSTANT if found == mask else NOISE
        slots, bits = array.spec.slots, mask.bit_count()
        yield PaddingRegion(
            kind="bits", dimension=None, start=slots, stop=slots + 1, bits=bits, contents=KINDS[contents]
        )


def _see_slots(
    array: ArrayBase, slots: npt.NDArray[np.int64], kind: str, tallies: Tallies, done: Callable[[int], object]
) -> None:
    """Count slots that belong to no padded dimension, in lines of adjacent slots."""
    whole = array._with_map(AddressMap.from_strides((array.spec.slots,), (1,)))
    values = whole[slots]
    every = pattern_words(values[None])
    noise = is_noise(leading_bytes(every[every.any(axis=2)], array.spec.element_bits))
    full = len(values) // _LINE * _LINE
    for first, lines in ((0, values[:full].reshape(-1, _LINE)), (full, values[full:].reshape(1, -1))):
        if lines.size:
            bits, leaks = _words_and_numbers(lines)
            kinds = kinds_of(lines, bits)
            if noise:
                kinds[are_numbers(kinds, leaks)] = NOISE
            own = slots[first : first + lines.size].reshape(lines.shape)
            count(tallies, (kind, None), KnownLines(kinds, lines, leaks, own[:, 0], own[:, -1] + 1))
    done(len(slots))


def _see_areas(array: ArrayBase, padded: Padded, done: Callable[[int], object]) -> tuple[Tallies, MarkMap]:
    """Count the padding of all dimensions, and draw its map."""
    notes = _Notes(StaleLines(array, padded))
    seen = _pass(array, padded, notes, done)
    if not notes.leading:
        return seen
    notes.stale.search(done)
    return _pass(array, padded, notes, done)


@dataclass(slots=True)
class _Notes:
    """What the first pass over padding records about numbers, for the second pass.

    Attributes
    ----------
    stale : StaleLines
        Searches the data for lines of padding.
    leading : dict
        Histograms of the leading bytes of numbers, by origin.
    """

    stale: StaleLines
    leading: dict[Origin, Kinds] = field(default_factory=dict)


def _pass(array: ArrayBase, padded: Padded, notes: _Notes, done: Callable[[int], object]) -> tuple[Tallies, MarkMap]:
    """One pass: count and draw. The first only records numbers; the second knows which are stale or noise."""
    tallies: Tallies = {}
    reader, drawing = Reader(array._with_map(padded.map)), _Drawing(array, padded)
    for area in areas(padded):
        counter = _AreaCounter(array, area, padded.tile.get(area.along), tallies, notes)
        for box in blocks_of(area, padded.order):
            values = reader(box)
            leaks = counter.see(box, values)
            drawing.add(box, leaks)
            done(values.size)
    return tallies, drawing.map()


class _AreaCounter:
    """Counts the lines of an area; lines of numbers are counted in pieces."""

    def __init__(self, array: ArrayBase, area: Area, tile: int | None, tallies: Tallies, notes: _Notes) -> None:
        self._array, self._area, self._tallies, self._notes = array, area, tallies, notes
        self._cuts = pieces(area.line, tile)
        self._origin: Origin = ("dimension", area.axis) if area.axis < array.ndim else ("tile", None)

    def see(self, box: Box, values: Array) -> Marks | None:
        """Count the lines of a block; return a mask of its elements that look like data, or None for none."""
        along, start = self._area.along, box[self._area.axis].start
        one = values.reshape(1, -1)
        bits = pattern_words(one)
        if _are_equal(bits[0]):
            # A fast path, because most padding holds a single value.
            span = np.array([start]), np.array([box[self._area.axis].stop])
            known = KnownLines(kinds_of(one, bits), one, np.zeros(one.shape, np.bool_), *span)
            count(self._tallies, self._origin, known)
            return None
        moved = np.moveaxis(values, along, -1)
        leaks = self._see_lines(box, moved.reshape(-1, moved.shape[-1]))
        return None if leaks is None else np.moveaxis(leaks.reshape(moved.shape), -1, along)

    def _see_lines(self, box: Box, values: Lines) -> Marks | None:
        bits, leaks = _words_and_numbers(values)
        kinds = kinds_of(values, bits)
        is_number = are_numbers(kinds, leaks)
        index = _indices(box, self._area.along)
        starts = index[self._area.axis]
        self._count(kinds[~is_number], values[~is_number], leaks[~is_number], starts[~is_number])
        leaks[~is_number] = False
        numbers = np.flatnonzero(is_number)
        if not numbers.size:
            return leaks
        if not self._notes.stale.is_searched:
            self._note(bits[numbers])
            return None
        sources = self._notes.stale.sources(self._area, bits[numbers])
        if is_noise(self._notes.leading[self._origin]):
            kinds[numbers] = NOISE
        known = [sources[cut] for cut in self._cuts if cut in sources]
        found = np.concatenate([np.full((len(numbers), 1), UNINFORMATIVE), *known], axis=1)
        is_stale = (found >= 0).any(axis=1) & (found != UNKNOWN).all(axis=1)
        first = self._area.line[0]
        for cut in self._cuts:
            own, lines = cut.of(values[numbers], first).reshape(-1, cut.length), np.repeat(numbers, cut.count)
            source = sources.get(cut, np.full((len(numbers), cut.count), UNINFORMATIVE))
            told = _kinds_of_pieces(own, kinds[lines], np.repeat(is_stale, cut.count), source.reshape(-1))
            part = slice(cut.start - first, cut.start - first + cut.count * cut.length)
            marks = leaks[numbers, part].reshape(own.shape)
            leaks[numbers, part] = self._count(told, own, marks, starts[lines]).reshape(len(numbers), -1)
            self._match(cut, source, [each[numbers] for each in index])
        return leaks

    def _note(self, bits: Lines) -> None:
        """Record lines of numbers, which the second pass counts."""
        self._notes.stale.want(self._area, bits)
        leading, counts = self._notes.leading, leading_bytes(bits, self._array.spec.element_bits)
        leading[self._origin] = leading.get(self._origin, 0) + counts

    def _count(self, kinds: Kinds, values: Lines, numbers: Marks, starts: Indices) -> Marks:
        stops = starts + (values.shape[1] if self._area.along == self._area.axis else 1)
        return count(self._tallies, self._origin, KnownLines(kinds, values, numbers, starts, stops))

    def _match(self, cut: Pieces, source: Indices, index: list[Indices]) -> None:
        """Record the data that pieces of the first lines equal, except in dimensions that a tile adds."""
        along, shape = self._area.along, self._array.shape
        has_index = ~np.any(index[len(shape) :], axis=0) if len(index) > len(shape) else np.ones(len(source), np.bool_)
        source, index = source[has_index], [each[has_index] for each in index]
        for line, piece in np.argwhere(source[:_MOST_LINES] >= 0)[:_MOST_LINES].tolist():
            own = [int(each[line]) for each in index[: len(shape)]]
            data = [int(i) for i in np.unravel_index(source[line, piece], shape)]
            own[along] = cut.start + piece * cut.length
            ranges = [[(i, i + (cut.length if d == along else 1)) for d, i in enumerate(at)] for at in (own, data)]
            self._tallies[(*self._origin, STALE)].match(Match(tuple(ranges[0]), tuple(ranges[1])))


def _words_and_numbers(values: Lines) -> tuple[Lines, Marks]:
    """The bit patterns of lines, and a mask of elements that are neither zero nor NaN."""
    bits = pattern_words(values)
    numbers: Marks = np.asarray(bits.any(axis=2))
    if numbers.any():
        numbers[is_nan(values)] = False
    return bits, numbers


def _are_equal(bits: Lines) -> bool:
    """Whether all elements are equal."""
    return bool((bits == bits[0]).all())


def _kinds_of_pieces(values: Lines, lines: Kinds, is_stale: npt.NDArray[np.bool_], source: Indices) -> Kinds:
    """The kinds of pieces, given the kinds of their lines and whether all informative pieces of a line are stale."""
    kinds = kinds_of(values, pattern_words(values))
    if values.shape[1] == 1 or values.shape[1] * values.dtype.itemsize < LEAST_BYTES:
        kinds[kinds == CONSTANT] = FINITE
    kinds[(lines == NOISE) & np.isin(kinds, (FINITE, NAN))] = NOISE
    kinds[(source >= 0) | (is_stale & (kinds != ZERO))] = STALE
    return kinds


def _indices(box: Box, along: int) -> list[Indices]:
    """The index of the first element of every line of a block, in each dimension."""
    ranges = [np.arange(s.start, s.start + 1 if d == along else s.stop) for d, s in enumerate(box)]
    return [index.reshape(-1) for index in np.meshgrid(*ranges, indexing="ij")]


class _Drawing:
    """A map of the padded array, with the dimensions that a tile adds in front."""

    def __init__(self, array: ArrayBase, padded: Padded) -> None:
        rank, ndim = array.ndim, len(padded.shape)
        self._order = [*range(rank, ndim), *range(rank)]
        self._kept = [d for d in self._order if d < rank or padded.shape[d] > 1]
        tile = {d + len(self._kept) - rank: t for d, t in tile_of(array.xla_shape).items()}
        self._cells = folding([padded.shape[d] for d in self._kept], MOST_ROWS, MOST_COLUMNS, tile)
        self._counts, self._flags = self._cells.counts(), self._cells.counts()

    def add(self, box: Box, leaks: Marks | None) -> None:
        """Draw a block of padding; `leaks` is a mask of its elements that look like data, or None."""
        ordered = [box[d] for d in self._kept]
        self._cells.add_all(self._counts, ordered)
        if leaks is not None and leaks.any():
            sizes = [s.stop - s.start for s in ordered]
            self._cells.add(self._flags, ordered, leaks.transpose(self._order).reshape(sizes))

    def map(self) -> MarkMap:
        """The map."""
        return MarkMap(self._cells, self._counts, "padding", self._flags, "looks like data")
