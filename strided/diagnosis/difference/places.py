"""Where mismatches lie: in one row, one tile, one lane of all tiles, one shard.

Each kind of place partitions the array. If nine tenths of the mismatches lie in one place, or in a few that are about
as full, these are a candidate. The best candidate is the one whose mismatches are the least likely by chance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from strided.arrays.layout_array import LayoutArray
from strided.diagnosis.difference.operands import Operand, Points, Shards
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.tally import Tally
from strided.layout import Layout, Shape
from strided.layout.sizes import tile_of
from strided.layout.validation import INT64_MAX
from strided.wording import range_key

#: The share of the mismatches that must lie in the reported places.
LEAST_SHARE = 0.9
#: The most places that are reported, and the fewest mismatches in each if there are several.
_MOST_NAMED, _LEAST_EACH = 8, 4
#: More neighbours than these are reported as a range.
_NEIGHBOURS = 2
#: A sample of mismatches on which a kind is tested first, and the share of it that must lie in few places.
_SAMPLE, _LIKELY_SHARE = 4096, 0.8
#: How many elements are examined for members of words, which repeat with tiles that are shorter than this.
_SAMPLE_OF_WORDS = 1 << 16
#: A box with a larger share of the array is not reported.
_MOST_OF_ARRAY = 0.95
#: Evidence against chance, in bits, that is required unless half of the place's elements differ.
LEAST_BITS = 10.0

#: Kinds for which a box inside several of them may be more specific, and how many times smaller it must be.
_LINES, _SMALLER = ("row", "column", "plane"), 2

#: The end of a sentence on places in which all elements differ.
_IF_ALL_DIFFER = "; every element there differs"

Numbers = npt.NDArray[np.int64]
Index = tuple[int, ...]
#: Lanes of a vector register of a TPU.
_LANES = 128


class _Stretches(NamedTuple):
    """Indices of an axis: `length` indices from `first`, and again after each `period`, all below `stop`."""

    first: int
    length: int
    period: int
    stop: int

    @property
    def size(self) -> int:
        """The number of indices."""
        turns, rest = divmod(self.stop - self.first, self.period)
        return turns * self.length + min(rest, self.length)

    @property
    def last(self) -> int:
        """The last index."""
        turns, rest = divmod(self.stop - self.first - 1, self.period)
        return self.first + turns * self.period + min(rest, self.length - 1)

    @property
    def step(self) -> int:
        """The step between indices; 0 if it varies."""
        if self.last - self.first == self.size - 1:
            return 1
        return self.period if self.length == 1 else 0

    def head(self, most: int) -> list[int]:
        """The first `most` indices."""
        return [self.first + k // self.length * self.period + k % self.length for k in range(min(most, self.size))]


class _Cut(NamedTuple):
    """How an axis is partitioned: index i lies in place number ``i % period // length``."""

    length: int
    period: int = INT64_MAX

    def number(self, i: Any) -> Any:
        """The number of the place of an index or of an array of indices."""
        return i % self.period // self.length

    def place(self, i: int, size: int) -> _Stretches:
        """All indices of the axis in the place of index `i`."""
        first = self.number(i) * self.length
        return _Stretches(first, min(self.length, self.period - first, size - first), min(self.period, size), size)


class _Name(NamedTuple):
    """Words for a place in a sentence: "row", "3", " of [0]"."""

    noun: str
    which: str
    rest: str = ""


@dataclass(frozen=True, slots=True)
class _Kind:
    """One way to partition an array into places.

    Attributes
    ----------
    kind : str
    cuts : tuple of _Cut or None
        Elements with equal place numbers along all axes are in the same place. None for an axis that is not cut.
    name : callable
        Returns the name of the place of an index; it is also given the place in words.
    filled : float
        The least share of a place that must differ.
    """

    kind: str
    cuts: tuple[_Cut | None, ...]
    name: Callable[[Index, str], _Name]
    filled: float = 0

    def numbers(self, points: Points) -> list[Numbers]:
        """Numbers, along each axis, that are equal for elements in the same place."""
        return [cut.number(i) for cut, i in zip(self.cuts, points, strict=True) if cut is not None]

    def place(self, index: Index, shape: Index) -> list[_Stretches]:
        """The indices, along each axis, of the place of an element."""
        axes = zip(self.cuts, index, shape, strict=True)
        return [_Stretches(0, n, n, n) if cut is None else cut.place(i, n) for cut, i, n in axes]


class _Scored(NamedTuple):
    """A pattern, its evidence in bits, its number of places, and their number of elements."""

    bits: float
    number: int
    size: int
    pattern: Pattern


def places(a: Operand, b: Operand, tally: Tally) -> list[Pattern]:
    """The few places of the best kind in which the mismatches lie; also the shards, if there are any."""
    if tally.count == 1:
        return [_element(a, b, tally)]
    points = tally.points(tally.places)
    some = tally.points(np.random.default_rng(0).permutation(tally.places)[:_SAMPLE])
    likely = (kind for kind in _kinds(a, b, tally.shape) if _fullest(kind, some)[0] >= _LIKELY_SHARE)
    tiled = _tiled(a, b)
    found = [each for kind in likely if (each := _scored(kind, tiled, tally, points)) is not None]
    best = sorted(found, key=lambda each: -each.bits)[:1]
    if best and best[0].number > 1 and best[0].pattern.kind in _LINES and (box := _extent(tally)) is not None:
        best = [box] if box.bits > best[0].bits and _SMALLER * box.size <= best[0].size else best
    shards = [each for each in found if each.pattern.kind == "shard" and each not in best]
    return [each.pattern for each in best + shards]


def extent(tally: Tally) -> Pattern | None:
    """The bounding box of the mismatches, if it is smaller than the array and at least half of it differs.

    Such a box may be the rest of an old file, or of a copy that ended early.
    """
    found = _extent(tally)
    return None if found is None else found.pattern


def _extent(tally: Tally) -> _Scored | None:
    box = [_spanned(tally.per_axis.get(axis), n) for axis, n in enumerate(tally.shape)]
    size, total = math.prod(own.size for own in box), math.prod(tally.shape)
    if size > _MOST_OF_ARRAY * total or 2 * tally.count < size:
        return None
    chosen = math.prod(n * (n + 1) // 2 for n in tally.shape)
    bits = tally.count * math.log2(total / size) - math.log2(chosen)
    if bits < LEAST_BITS:
        return None
    text = f"all {tally.count:,} mismatches lie in {_in_words(box)}{_IF_ALL_DIFFER * (tally.count == size)}"
    return _Scored(bits, 1, size, Pattern("box", _key(box, tally.shape), 1.0, text))


def _spanned(counts: Numbers | None, size: int) -> _Stretches:
    """The indices from the first to the last one with a mismatch; all of them if mismatches were not counted."""
    if counts is None:
        return _Stretches(0, size, size, size)
    first, last = np.flatnonzero(counts)[[0, -1]].tolist()
    return _Stretches(first, last + 1 - first, size, last + 1)


def _element(a: Operand, b: Operand, tally: Tally) -> Pattern:
    (index,) = tally.indices(tally.first[:1])
    where = ", ".join(map(str, index))
    at = f"byte {a.byte_of(index)} of a, {b.byte_of(index)} of b"
    return Pattern("element", where, 1.0, f"the only mismatch is at [{where}]: {at}")


def _scored(kind: _Kind, tiled: tuple[str, LayoutArray] | None, tally: Tally, points: Points) -> _Scored | None:
    """The pattern of a kind's fullest places, with its evidence; None if many mismatches lie elsewhere."""
    share, least, indices = _fullest(kind, points)
    if share < LEAST_SHARE or (len(indices) > 1 and least < _LEAST_EACH):
        return None
    boxes = [kind.place(index, tally.shape) for index in indices]
    is_sure = not tally.level
    if tally.level:
        share, is_sure = _counted_share(share, kind, tally, indices)
        if share < LEAST_SHARE:
            return None
    size, total = sum(math.prod(own.size for own in box) for box in boxes), math.prod(tally.shape)
    count, number = round(share * tally.count), len(boxes)
    if number > 1 and 2 * size > total:
        return None
    chosen = math.comb(max(number, round(total * number / size)), number)  # ways to choose so many places
    bits = count * math.log2(total / size) - math.log2(chosen)
    if size == total or (bits < LEAST_BITS and count < size / 2) or count < kind.filled * size:
        return None
    # Nearly all of a small place is stronger evidence than a small share of a large one.
    part = f"{'' if not tally.level else 'about '}{count:,} of"
    if share == 1:
        part = "all" if is_sure else "nearly all"
    named = _named([kind.name(index, _in_words(own)) for index, own in zip(indices, boxes, strict=True)])
    if kind.kind == "tile" and tiled is not None and number == 1:
        named += f": {_bytes(tiled[1], boxes[0])} of {tiled[0]}"
    text = f"{part} {tally.count:,} mismatches lie in {named}{_IF_ALL_DIFFER * (count == size)}"
    where = "; ".join(_key(box, tally.shape) for box in boxes)
    return _Scored(bits, number, size, Pattern(kind.kind, where, float(share), text))


def _counted_share(share: float, kind: _Kind, tally: Tally, indices: list[Index]) -> tuple[float, bool]:
    """The share of mismatches in some places, from a sample and bounded by counts along axes, and whether it is exact.

    A sample cannot prove "all", but the counts along an axis can, for places that are cut along that axis only.
    """
    axes = [k for k, cut in enumerate(kind.cuts) if cut is not None]
    outside = [_outside(tally, k, kind, indices) for k in axes if k in tally.per_axis]
    is_sure = len(outside) == len(axes) and 1 in (len(indices), len(axes))
    return min(share, 1 - max(outside, default=0) / tally.count), is_sure


def _outside(tally: Tally, axis: int, kind: _Kind, indices: list[Index]) -> int:
    """How many mismatches lie outside the places of these indices, along one axis."""
    cut, counts = kind.cuts[axis], tally.per_axis[axis]
    assert cut is not None
    is_outside = np.isin(cut.number(np.arange(len(counts))), [cut.number(i[axis]) for i in indices], invert=True)
    return int(counts[is_outside].sum())


def _fullest(kind: _Kind, points: Points) -> tuple[float, int, list[Index]]:
    """The places of a kind that are at least a quarter as full as the fullest, unless they are too many to report.

    Returns their share of the mismatches, the count of the least full one, and an index in each.
    """
    numbers = np.stack(kind.numbers(points))
    order = np.lexsort(numbers)
    edges = np.flatnonzero(np.append(True, (np.diff(numbers[:, order], axis=1) != 0).any(axis=0)))
    lengths = np.diff([*edges, order.size])
    full = np.flatnonzero(4 * lengths >= lengths.max())
    if len(full) > _MOST_NAMED:
        return 0.0, 0, []
    places = sorted(tuple(int(i[place]) for i in points) for place in order[edges[full]].tolist())
    return float(lengths[full].sum() / order.size), int(lengths[full].min()), places


def _named(names: list[_Name]) -> str:
    """Words for several places of a kind in a sentence.

    >>> _named([_Name("row", "3"), _Name("row", "7"), _Name("row", "12")])
    'rows 3, 7 and 12'
    >>> _named([_Name("row", str(row)) for row in range(8, 16)])
    'rows 8 to 15'
    >>> _named([_Name("tile", "at rows 0 to 7"), _Name("tile", "at rows 16 to 23")])
    '2 tiles: at rows 0 to 7; at rows 16 to 23'
    """
    noun, which, rest = names[0]
    if len(names) == 1:
        return f"{noun} {which}{rest}" if which.isdigit() else f"the {noun} {which}{rest}"
    if which.isdigit() and len({name.rest for name in names}) == 1:
        *others, last = numbers = sorted({int(name.which) for name in names})
        if last - numbers[0] + 1 == len(numbers) > _NEIGHBOURS:
            return f"{noun}s {numbers[0]} to {last}{rest}"
        return f"{noun}s {', '.join(map(str, others))} and {last}{rest}"
    return f"{len(names)} {noun}s: {'; '.join(name.which + name.rest for name in names)}"


def _bytes(array: LayoutArray, box: list[_Stretches]) -> str:
    """The range of an array's bytes that a place spans, in words."""
    map_, bits = array.address_map, array._memory.bits
    offsets = map_.offsets([(own.first, own.last + 1) for own in box])
    return f"bytes {int(offsets.min()) * bits // 8} to {(int(offsets.max()) * bits + bits - 1) // 8}"


def _key(box: list[_Stretches], shape: tuple[int, ...]) -> str:
    """The text of a key that selects a place."""
    return ", ".join(":" if own.size == n else _key_of(own) for own, n in zip(box, shape, strict=True))


def _key_of(own: _Stretches) -> str:
    if own.step == 1:
        return range_key(own.first, own.last + 1)
    if own.step:
        return f"{own.first}::{own.step}"
    # Several rows that share words, repeatedly.
    return f"[{', '.join(map(str, own.head(16)))}{', ...' if own.size > 16 else ''}]"


# --- kinds ------------------------------------------------------------------------------------------------------------


def _kinds(a: Operand, b: Operand, shape: Index) -> Iterator[_Kind]:
    """The kinds of places of an array; of kinds with equal evidence, the first is preferred."""
    rank = len(shape)

    def fixed(*axes: int) -> tuple[_Cut | None, ...]:
        return tuple(_Cut(1) if k in axes else None for k in range(rank))

    def of_outer(index: Index) -> str:
        return f" of [{', '.join(map(str, index[:-2]))}]" if rank > 2 else ""

    if rank >= 2:
        yield _Kind("row", fixed(*range(rank - 1)), lambda i, _: _Name("row", str(i[-2]), of_outer(i)))
        columns = fixed(*range(rank - 2), rank - 1)
        yield _Kind("column", columns, lambda i, _: _Name("column", str(i[-1]), of_outer(i)))
    if rank >= 3:
        for axis in range(rank):
            yield _Kind("plane", fixed(axis), partial(_plane_name, axis))
    for each in (a, b):
        if isinstance(each, Shards):
            cuts = tuple(_Cut(max(1, step)) for step in each.array.shard_shape)
            yield _Kind("shard", cuts, partial(_shard_name, each))
            break
    wholes = [each.whole.xla_shape for each in (a, b) if each.whole is not None]
    if (tiled := _tiled(a, b)) is not None:
        yield from _tile_kinds(tiled[1].xla_shape)
    elif wholes and rank and wholes[0].element_bits < 32 and wholes[0].layout is not None:
        yield _members(rank, wholes[0].layout.minor_to_major[0], 32 // wholes[0].element_bits)


def _shard_name(shards: Shards, index: Index, words: str) -> _Name:
    return _Name("shard", f"of device {shards.holder_of(index)}, at {words}")


def _plane_name(axis: int, index: Index, _: str) -> _Name:
    return _Name("plane", str(index[axis]), f" of dimension {axis}")


def _tiled(a: Operand, b: Operand) -> tuple[str, LayoutArray] | None:
    """The name, "a" or "b", and the array of the first operand that is tiled; None if neither is."""
    wholes = (("a", a.whole), ("b", b.whole))
    return next(((name, whole) for name, whole in wholes if whole is not None and _is_tiled(whole.xla_shape)), None)


def _is_tiled(shape: Shape) -> bool:
    layout = shape.layout
    return layout is not None and bool(layout.tiles) and len(layout.tiles[0]) <= shape.rank and min(layout.tiles[0]) > 0


def _tile_kinds(tiled: Shape) -> Iterator[_Kind]:
    """Tiles; sublanes and lanes of one tile, and of all tiles; members of words."""
    layout, shape = tiled.layout, tiled.dimensions
    assert layout is not None
    tile, sizes = layout.tiles[0].dimensions, tile_of(tiled)
    if len(tile) == 1:
        yield from _flat_tile_kinds(tiled, tile[0])
        return
    tiles = tuple(_Cut(sizes.get(k, 1)) for k in range(tiled.rank))
    rows, members = _rows_of_word(layout), 32 // tiled.element_bits
    yield _Kind("tile", tiles, _tile_name)
    # A lane is a column of a tile, along its minor side; a sublane is a row of words, along the other side.
    for kind, axis, share in zip(("lane", "sublane"), layout.minor_to_major[: len(tile)], (1, rows), strict=False):
        cut = _Cut(share, sizes[axis])
        one = tuple(_Cut(share) if k == axis else own for k, own in enumerate(tiles))
        yield _Kind(kind, one, partial(_of_tile, kind, axis, cut), filled=0.5)
        if shape[axis] > sizes[axis]:
            yield _along(kind, tiled.rank, axis, cut, partial(_of_tiles, kind, axis, cut))
    if rows > 1:
        yield _members(tiled.rank, layout.minor_to_major[1], rows)
    elif members > 1 and len(layout.tiles) == 1:
        yield _members(tiled.rank, layout.minor_to_major[0], members)


def _along(kind: str, rank: int, axis: int, cut: _Cut, name: Callable[[Index, str], _Name]) -> _Kind:
    """A kind of places that cuts only one axis."""
    return _Kind(kind, tuple(cut if k == axis else None for k in range(rank)), name)


def _flat_tile_kinds(tiled: Shape, size: int) -> Iterator[_Kind]:
    """The kinds of places of 1-D tiles: rows of 128 lanes, if tiles are that long."""
    layout, rank = tiled.layout, tiled.rank
    assert layout is not None
    axis = layout.minor_to_major[0]
    yield _along("tile", rank, axis, _Cut(size), _tile_name)
    if size % _LANES == 0 and tiled.dimensions[axis] > _LANES:
        lane, sublane = _Cut(1, _LANES), _Cut(_LANES * _rows_of_word(layout), size)
        yield _along("lane", rank, axis, lane, partial(_of_tiles, "lane", axis, lane))
        yield _along("sublane", rank, axis, sublane, partial(_of_tiles, "sublane", axis, sublane))
    if (count := 32 // tiled.element_bits) > 1 and (word := _word_cut(tiled, axis, size, count)) is not None:
        yield _along("half-word", rank, axis, word, lambda i, _: _member_name(word.number(i[axis]), count))


def _word_cut(tiled: Shape, axis: int, size: int, count: int) -> _Cut | None:
    """The cut of an axis in 1-D tiles into members of words of `count` elements; None if it is not periodic."""
    along = np.arange(min(tiled.dimensions[axis], 4 * size, _SAMPLE_OF_WORDS))
    index = tuple(along if k == axis else 0 for k in range(tiled.rank))
    members = np.asarray(tiled.address_map.offset_of(index)) % count
    turns = np.flatnonzero(members != members[0])
    cut = _Cut(int(turns[0]), int(turns[0]) * count) if turns.size else None
    return cut if cut is not None and (cut.number(along) == members).all() else None


def _tile_name(_: Index, words: str) -> _Name:
    return _Name("tile", f"at {words}")


def _of_tile(kind: str, axis: int, cut: _Cut, index: Index, words: str) -> _Name:
    return _Name(kind, str(cut.number(index[axis])), f" of one tile, at {words}")


def _of_tiles(kind: str, axis: int, cut: _Cut, index: Index, _: str) -> _Name:
    return _Name(kind, str(cut.number(index[axis])), " of the tiles")


def _member_name(member: int, count: int) -> _Name:
    return _Name("member", str(member), f" of the {count} in each 32-bit word")


def _members(rank: int, axis: int, count: int) -> _Kind:
    """Members of 32-bit words that neighbours along an axis share."""
    return _along("half-word", rank, axis, _Cut(1, count), lambda i, _: _member_name(i[axis] % count, count))


def _rows_of_word(layout: Layout) -> int:
    """How many rows share each word, by a sub-tile such as (2,1); 1 if none do."""
    last = layout.tiles[-1].dimensions
    return last[0] if len(layout.tiles) > 1 and len(last) == 2 and last[1] == 1 and last[0] > 1 else 1


def _in_words(box: list[_Stretches]) -> str:
    """Words for a box in a sentence.

    >>> _in_words([_Cut(8).place(8, 64), _Cut(1).place(5, 64)])
    'rows 8 to 15, column 5'
    """
    if len(box) != 2:
        return f"[{', '.join(map(_key_of, box))}]"
    named = zip(("row", "column"), box, strict=True)
    return ", ".join(f"{n}s {own.first} to {own.last}" if own.size > 1 else f"{n} {own.first}" for n, own in named)
