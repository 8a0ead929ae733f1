"""Find lines of padding that equal lines of the array's own data.

Lines are cut at the edges of tiles, and a hash of each piece is kept. Then the data is read once, and its pieces in the
same part of a tile are looked up. Collisions of 64-bit hashes are improbable enough to ignore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from strided.arrays.base import ArrayBase
from strided.arrays.blocks import Reader
from strided.diagnosis.bit_patterns import FIBONACCI, pattern_words
from strided.diagnosis.padding.areas import (
    LEAST_BYTES,
    LINE_ELEMENTS,
    Area,
    Lines,
    Padded,
    Pieces,
    blocks_of,
    pieces,
)

#: The most pieces of padding that are searched for.
_MOST_PIECES = 1 << 16
#: Shorter lines may be equal by chance. (For pieces of lines, see `LEAST_BYTES`.)
_LEAST_ELEMENTS = 3

#: The dimension along which a piece lies, its phase, its length, and whether there are tiles.
_Place = tuple[int, int, int, bool]
Indices = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
#: In place of an index: no equal data was found; or the piece is too short or constant to be informative.
UNKNOWN, UNINFORMATIVE = -1, -2


@dataclass(slots=True)
class _Wanted:
    """Wanted pieces of one kind: their hashes, and where equal data was found.

    There are two sets: for data in the same tile along the line, which is the better match, and for any data.
    """

    waiting: tuple[list[Words], list[Words]] = field(default_factory=lambda: ([], []))
    number: int = 0
    finders: list[_Finder] = field(default_factory=list)

    def add(self, hashes: Words, tiles: Words) -> None:
        if self.number < _MOST_PIECES:
            self.number += hashes.size
            self.waiting[0].append(_in_tile(hashes, tiles))
            self.waiting[1].append(hashes)

    def close(self) -> None:
        """Finish adding pieces."""
        self.finders = [_Finder(np.sort(np.concatenate(each))) for each in self.waiting]

    def found(self, hashes: Words, tiles: Words, places: Indices) -> None:
        """Record that data has these hashes at these places."""
        for finder, own in zip(self.finders, (_in_tile(hashes, tiles), hashes), strict=True):
            known, at = finder.find(own)
            new = np.flatnonzero(finder.sources[at] < 0)[::-1]  # reversed, so that the first place wins
            finder.sources[at[new]] = places[known[new]]

    def source(self, hashes: Words, tiles: Words) -> Indices:
        """The places of data that equal pieces of padding."""
        flat, result = hashes.reshape(-1), np.full(hashes.size, UNKNOWN)
        in_tile = _in_tile(hashes, tiles).reshape(-1)
        for finder, own in zip(reversed(self.finders), (flat, in_tile), strict=True):
            known, at = finder.find(own)
            sources = finder.sources[at]
            result[known[sources >= 0]] = sources[sources >= 0]
        return result.reshape(hashes.shape)


class _Finder:
    """Sorted hashes, and the place of equal data for each."""

    def __init__(self, keys: Words) -> None:
        self._keys = keys
        self.sources = np.full(len(keys), UNKNOWN)
        # Most look-ups fail: a table shows that in a tenth of the time of a search.
        self._may_be = np.zeros(1 << max(10, 4 + len(keys).bit_length()), np.bool_)
        self._may_be[self._slots(keys)] = True

    def _slots(self, hashes: Words) -> Indices:
        return (hashes & np.uint64(len(self._may_be) - 1)).astype(np.int64)

    def known(self) -> _Finder:
        """A finder of only those hashes whose data was found, which is faster."""
        is_known = self.sources >= 0
        found = _Finder(self._keys[is_known])
        found.sources = self.sources[is_known]
        return found

    def find(self, hashes: Words) -> tuple[Indices, Indices]:
        """Which of these hashes are among the keys, and the position of each."""
        likely = np.flatnonzero(self._may_be[self._slots(hashes)])
        at = np.minimum(np.searchsorted(self._keys, hashes[likely]), len(self._keys) - 1)
        known = self._keys[at] == hashes[likely]
        return likely[known], at[known]


class StaleLines:
    """Finds lines of padding in an array's data: call `want` for lines, then `search`, then `sources`."""

    def __init__(self, array: ArrayBase, padded: Padded) -> None:
        self._array, self._padded = array, padded
        self._wanted: dict[_Place, _Wanted] = {}
        self.is_searched = False

    def want(self, area: Area, bits: Lines) -> None:
        """Add lines of an area, given as bit patterns, to the search."""
        for place, _, hashes, tiles, telling in self._pieces_of(area, bits):
            if telling.any():
                wanted = self._wanted.setdefault(place, _Wanted())
                wanted.add(hashes[telling], np.broadcast_to(tiles, hashes.shape)[telling])

    def sources(self, area: Area, bits: Lines) -> dict[Pieces, Indices]:
        """For pieces of lines, the flat index at which equal data begins, or UNKNOWN or UNINFORMATIVE."""
        found = {}
        for place, cut, hashes, tiles, telling in self._pieces_of(area, bits):
            wanted = self._wanted.get(place)
            if wanted is not None:
                found[cut] = np.where(telling, wanted.source(hashes, tiles), UNINFORMATIVE)
        return found

    def _pieces_of(self, area: Area, bits: Lines) -> Iterator[tuple[_Place, Pieces, Words, Words, Any]]:
        """Each kind of pieces of lines: place, hashes, tiles, and a mask of those that are not constant."""
        along, (start, _) = area.along, area.line
        if along >= self._array.ndim:
            return
        tile = self._padded.tile.get(along)
        cuts = pieces(area.line, tile)
        for cut in cuts:
            is_line = len(cuts) == cut.count == 1 and cut.length >= _LEAST_ELEMENTS
            if is_line or cut.length * self._array.itemsize >= LEAST_BYTES:
                part = cut.of(bits, start)
                telling = (part != part[:, :, :1]).any(axis=(2, 3))
                tiles = (np.arange(cut.count) + cut.start // (tile or 1)).astype(np.uint64)
                yield (along, cut.phase, cut.length, tile is not None), cut, _hashes(part), tiles, telling

    def search(self, progress: Callable[[int], object]) -> None:
        """Read the data and search it for the wanted lines."""
        self.is_searched = True
        for wanted in self._wanted.values():
            wanted.close()
        for along in {place[0] for place in self._wanted}:
            self._search_along(along, progress)
        for wanted in self._wanted.values():
            wanted.finders = [finder.known() for finder in wanted.finders]

    def _search_along(self, along: int, progress: Callable[[int], object]) -> None:
        """Search the lines along one dimension."""
        shape = self._array.shape
        rank = len(shape)
        order = [d for d in self._padded.order if d < rank]
        places = [place for place in self._wanted if place[0] == along]
        tile = self._padded.tile.get(along, 1)
        axes = [*(d for d in range(rank) if d != along), along]
        reader = Reader(self._array._with_map(self._array._map.transposed(axes)))
        step = max(1, LINE_ELEMENTS // tile) * tile
        for first in range(0, shape[along], step):
            ranges = [(0, n) for n in shape]
            ranges[along] = first, min(shape[along], first + step)
            for box in blocks_of(Area(along, along, tuple(ranges)), order):
                values = reader(tuple([box[d] for d in axes]))
                self._search_block(box, along, places, pattern_words(values))
                progress(values.size)

    def _search_block(self, box: tuple[slice, ...], along: int, places: list[_Place], bits: Lines) -> None:
        shape = self._array.shape
        moved = [d for d in range(len(shape)) if d != along]
        strides = [int(np.prod(shape[d + 1 :], dtype=np.int64)) for d in range(len(shape))]
        lines = np.zeros((1,), np.int64)
        for d in moved:
            lines = (lines[:, None] + np.arange(box[d].start, box[d].stop) * strides[d]).reshape(-1)
        flat = bits.reshape(len(lines), bits.shape[-2], -1)
        start, stop = box[along].start, box[along].stop
        for place in places:
            _, phase, length, tiled = place
            # Blocks begin on tile edges; without tiles, a piece is a whole line of the block.
            tile = self._padded.tile[along] if tiled else stop
            first = start + phase if tiled else phase
            count = max(0, (stop - first - length) // tile + 1) if first >= start else 0
            if count:
                windows = np.lib.stride_tricks.sliding_window_view(flat[:, first - start :], length, axis=1)
                tiles = ((first + np.arange(count) * tile) // (tile if tiled else 1)).astype(np.uint64)
                hashes = _hashes(np.moveaxis(windows[:, : count * tile : tile], -1, 2))
                where = lines[:, None] + (first + np.arange(count) * tile) * strides[along]
                self._wanted[place].found(hashes.reshape(-1), np.tile(tiles, len(lines)), where.reshape(-1))


def _in_tile(hashes: Words, tiles: Words) -> Words:
    return hashes + tiles * FIBONACCI


def _hashes(part: npt.NDArray[Any]) -> Words:
    """A hash of each piece, over the last two axes."""
    flat = np.ascontiguousarray(part).reshape(*part.shape[:2], -1).view(np.uint8)
    room = -flat.shape[-1] % 8
    if room:
        flat = np.pad(flat, [(0, 0), (0, 0), (0, room)])
    # Low bits of a sum of products do not depend on high bits, and small whole floats differ only in those.
    words = flat.view(np.uint64) * FIBONACCI
    words ^= words >> np.uint64(32)
    weights = np.random.default_rng(0).integers(0, 1 << 64, words.shape[-1], np.uint64) | np.uint64(1)
    found: Words = words @ weights
    return found ^ found >> np.uint64(31)
