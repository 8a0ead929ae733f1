"""Whether b holds a's elements at other places: transposed, in another layout, moved, or exchanged within words.

Or at the same places, with their bytes in reverse order, or rounded.

Each hypothesis says where in a an element of b would come from. It is tried on a few mismatches, then on a sample of
the whole array. A layout or a transposition is named only after all elements have been compared.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from strided.arrays.layout_array import LayoutArray
from strided.diagnosis.bit_patterns import patterns
from strided.diagnosis.difference.operands import Operand, Points, Wrapped, operand_of
from strided.diagnosis.difference.places import LEAST_SHARE
from strided.diagnosis.difference.result import Pattern, percent
from strided.diagnosis.difference.scan import same_layout, scan
from strided.diagnosis.difference.tally import Tally
from strided.diagnosis.difference.values import Mask, Tolerance, are_equal, common_dtype, converted, is_float
from strided.errors import LayoutError, UnsupportedError
from strided.layout import Layout, Shape, Tile
from strided.layout.element_types import element_type_of_dtype
from strided.tpu import default_layout
from strided.wording import counted

Numbers = npt.NDArray[np.int64]
Values = npt.NDArray[Any]
#: Where in a the elements at some indices come from, and which of these places exist.
Source = Callable[[Points], tuple[Points, Mask]]

#: Fewer mismatches, or distinct values among them, are explained by chance.
LEAST_MISMATCHES, _LEAST_VALUES = 4, 3
#: Of two values, as in masks, each must be had by so many mismatches; then a hypothesis that is tried on all elements
#: is no chance.
_LEAST_OF_VALUE = 32
#: Mismatches on which a hypothesis is tried at first, which ends most of them, and those on which it is tried then.
_FEW, _SAMPLE = 64, 4096
#: Elements in which a movement is looked for, and how many of them in turn identify a place.
_WINDOW, _GRAMS = 1 << 13, (1, 16)
#: Mismatches through which lines along an axis are searched.
_LINES = 8
#: Hashes of numbers in turn are polynomials in this, the 64-bit prime of the FNV hash: an odd factor of mixed bits.
_FNV_PRIME = np.uint64(0x100000001B3)
#: Types that values are rounded to.
_NARROWER = tuple(
    map(np.dtype, (ml_dtypes.bfloat16, np.float16, np.float32, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2))
)
#: Longer axes are searched by values, shorter ones by trying.
_SHORT_AXIS = 8
#: The tiles of TPUs: T(rows,128) with and without rows that share words, and those of one dimension.
_TILES: tuple[tuple[Tile, ...], ...] = (
    *((Tile((rows, 128)),) for rows in (8, 1, 2, 4, 16, 32)),
    *((Tile((rows, 128)), Tile((2, 1))) for rows in (8, 2, 4, 16)),
    *((Tile((rows, 128)), Tile((4, 1))) for rows in (8, 4, 32)),
    *((Tile((rows, 128)), Tile((8, 1))) for rows in (8, 64)),
)
_FLAT_TILES: tuple[tuple[Tile, ...], ...] = tuple(
    (Tile((n,)), *words)
    for n in (128, 256, 512, 1024)
    for words in ((), (Tile((128,)), Tile((2, 1))), (Tile((128,)), Tile((4, 1))))
)
#: Of more dimensions than these, not all orders are tried: there would be 120 and more.
_MOST_DIMENSIONS = 4


class Rearrangements:
    """The hypotheses about two arrays that differ, of rank 1 or more."""

    def __init__(self, a: Operand, b: Operand, tolerance: Tolerance, tally: Tally) -> None:
        self.a, self.b, self.tolerance, self.tally, self.shape = a, b, tolerance, tally, tally.shape
        rng = np.random.default_rng(0)
        self.mismatches = tally.points(tally.places)
        self.some = tally.points(rng.permutation(tally.places)[:_SAMPLE])
        anywhere = tally.points(rng.integers(0, math.prod(self.shape), _SAMPLE))
        few = tuple(i[:_FEW] for i in self.some)
        #: Indices on which a hypothesis is tried, the fewest first, and b's values there.
        self.probes = [(points, b.at(points)) for points in (few, self.some, self.mismatches)]
        self.whole_array = anywhere, b.at(anywhere)

    def found(self) -> Pattern | None:
        """The first hypothesis that explains nearly all mismatches."""
        counts = np.unique(patterns(self.probes[1][1]), axis=0, return_counts=True)[1]
        if counts.size < _LEAST_VALUES and (counts.size < 2 or counts.min() < _LEAST_OF_VALUE):
            return None
        compared = self._narrowed() or self._transposed() or self._in_another_layout()
        if compared is not None or counts.size < _LEAST_VALUES:
            return compared
        return (
            self._tiles_reordered()
            or self._byte_swapped()
            or self._moved()
            or self._moved_by_bytes()
            or self._exchanged()
        )

    def _share(self, source: Source, probe: tuple[Points, npt.NDArray[np.generic]]) -> float:
        """The part of the elements at some indices that b has from where a hypothesis says."""
        points, values = probe
        origin, exists = source(points)
        clipped = tuple(np.where(exists, i, 0) for i in origin)
        same = are_equal(self.a.at(clipped), values, self.tolerance)
        return float(np.count_nonzero(same & exists) / exists.size)

    def _explains(self, source: Source) -> float:
        """The part of the mismatches that a hypothesis about the whole array explains; 0 if too few."""
        few, some, every = self.probes
        if any(self._share(source, probe) < LEAST_SHARE for probe in (few, some, self.whole_array)):
            return 0.0
        return self._share(source, every)

    def _said(self, share: float) -> str:
        """How much a hypothesis explains, for the end of a sentence."""
        if share == 1 and not self.tally.level:
            return f": this explains all {self.tally.count:,} mismatches"
        tried = "" if not self.tally.level else f" of {self.tally.places.size:,} that were tried"
        return f": this explains {percent(share)} of the mismatches{tried}"

    # ---- transposed -------------------------------------------------------------------------------------------------

    def _transposed(self) -> Pattern | None:
        if len(self.shape) > _MOST_DIMENSIONS:
            return None
        for axes in itertools.permutations(range(len(self.shape))):
            if tuple(self.shape[k] for k in axes) != self.shape or axes == tuple(range(len(axes))):
                continue
            back = tuple(axes.index(k) for k in range(len(axes)))

            def source(points: Points, back: tuple[int, ...] = back) -> tuple[Points, Mask]:
                return tuple(points[k] for k in back), np.ones(points[0].shape, bool)

            if self._explains(source) == 1 and self._equal(self._view(axes), self.b):
                order = ", ".join(map(str, axes))
                return Pattern("transpose", order, 1.0, f"b equals a transposed: a.transpose({order})")
        return None

    def _view(self, axes: tuple[int, ...]) -> Operand | None:
        array = self.a.array
        return operand_of(array.transpose(axes), "a") if hasattr(array, "transpose") else None

    def _equal(self, a: Operand | None, b: Operand) -> bool:
        """Whether all elements are equal; arrays that cannot be viewed so are judged by the sample."""
        return a is None or not scan(a, b, self.tolerance, until=1).count

    # ---- layouts ----------------------------------------------------------------------------------------------------

    def _in_another_layout(self) -> Pattern | None:
        b = self.b.whole
        if b is None:
            return None
        points = tuple(
            np.concatenate([i[:_FEW], j[:_FEW]]) for i, j in zip(self.some, self.whole_array[0], strict=True)
        )
        wanted = self.a.at(points)
        first = tuple(int(i[0]) for i in points)
        buffer, bitorder = b._memory.buffer, b.bitorder
        for layout in _layouts(b.xla_shape, None if self.a.whole is None else self.a.whole.layout):
            try:
                shape = b.xla_shape.with_layout(layout)
                if shape.buffer_byte_size > buffer.size:
                    continue
                read = LayoutArray(buffer, shape, bitorder=bitorder, allow_excess=True)
                # One element is read fast, and mostly refutes a layout.
                fits = are_equal(wanted[:1], np.atleast_1d(read[first]), self.tolerance).all()
                fits = fits and are_equal(wanted, Wrapped(read, "b").at(points), self.tolerance).all()
            except (LayoutError, UnsupportedError):
                continue
            if fits and self._equal(self.a, Wrapped(read, "b")):
                instead = _apart(layout, b.layout)
                sentence = f"b equals a if it is read as {instead[0]} instead of {instead[1]}"
                return Pattern("layout", str(layout), 1.0, sentence)
        return None

    # ---- tiles in another order -------------------------------------------------------------------------------------

    def _tiles_reordered(self) -> Pattern | None:
        """Whole tiles that were written column by column of their grid and are read row by row, or the other way."""
        b = self.b.whole
        if b is None or b.address_map.irregular or not b.layout.tiles:
            return None
        tile = b.layout.tiles[0].dimensions
        if len(tile) != 2 or len(self.shape) < 2:
            return None
        columns, rows = (-(-self.shape[d] // n) for d, n in zip(b.layout.minor_to_major, reversed(tile), strict=False))
        for down, across, words in ((rows, columns, "column by column"), (columns, rows, "row by row")):

            def source(points: Points, down: int = down, across: int = across) -> tuple[Points, Mask]:
                number, within = np.divmod(np.asarray(b.address_map.offset_of(points)), math.prod(tile))
                plane, number = np.divmod(number, down * across)
                origin = plane * down * across + number % down * across + number // down
                index, exists = _at_slots(b.xla_shape, origin * math.prod(tile) + within)
                return index, exists

            if min(rows, columns) > 1 and (share := self._explains(source)):
                instead = "row by row" if down == rows else "column by column"
                sentence = f"the tiles of b are a's, {words} of their grid instead of {instead}{self._said(share)}"
                return Pattern("tiles", words, share, sentence)
        return None

    # ---- rounded ----------------------------------------------------------------------------------------------------

    def _narrowed(self) -> Pattern | None:
        """Mismatches that are a's values as a narrower type has them: rounded, or with their low bits cut off."""
        dtype = self.a.dtype
        if not is_float(dtype) or dtype.kind == "c" or common_dtype(dtype, self.b.dtype) != dtype:
            return None
        found = [converted(values, dtype) for _, values in self.probes]
        bits = [patterns(values) for values in found]
        zeros = min(_low_zeros(bits[-1]), int(ml_dtypes.finfo(dtype).nmant))  # type: ignore[no-untyped-call]
        if not zeros or 2 * np.count_nonzero(found[-1]) < found[-1].size:  # zeros may have come in any way
            return None
        for narrow in (t for t in _NARROWER if t.itemsize < dtype.itemsize):

            def rounded(x: Values, narrow: np.dtype[Any] = narrow) -> Values:
                return x.astype(narrow).astype(dtype)

            if share := self._same_bits(bits, rounded):
                name = element_type_of_dtype(narrow).name
                return Pattern("rounded", name, share, f"b is a rounded to {name}{self._said(share)}")

        def cut(x: Values) -> Values:
            return (patterns(x) >> zeros << zeros).view(dtype)

        if not (share := self._same_bits(bits, cut)):
            return None
        sentence = f"b is a without the low {counted(zeros, 'bit')} of each element{self._said(share)}"
        return Pattern("rounded", counted(zeros, "low bit"), share, sentence)

    def _same_bits(self, bits: list[npt.NDArray[Any]], change: Callable[[Values], Values]) -> float:
        """The part of the mismatches that are changed elements of a, bit by bit; 0 if too few."""
        share = 0.0
        for (points, _), wanted in zip(self.probes, bits, strict=True):
            with np.errstate(all="ignore"):
                share = float(np.mean(patterns(change(self.a.at(points))) == wanted))
            if share < LEAST_SHARE:
                return 0.0
        return share

    # ---- bytes in reverse order -------------------------------------------------------------------------------------

    def _byte_swapped(self) -> Pattern | None:
        """Mismatches, in one place or everywhere, whose bytes lie in the other order."""
        if self.a.dtype != self.b.dtype or self.a.dtype.itemsize == 1:
            return None
        share = 0.0
        for points, values in self.probes:
            same = patterns(_reversed(values)) == patterns(self.a.at(points))
            share = float(np.mean(same if same.ndim == 1 else same.all(axis=-1)))
            if share < LEAST_SHARE:
                return None
        sentence = f"b has the bytes of each element in reverse order{self._said(share)}"
        return Pattern("swap", "bytes", share, sentence)

    # ---- moved ------------------------------------------------------------------------------------------------------

    def _moved(self) -> Pattern | None:
        best: tuple[float, Pattern] | None = None
        for where, words, source in self._movements():
            share = self._explains(source)
            if share and (best is None or share > best[0]):
                best = share, Pattern("shift", where, share, f"b is a moved by {words}{self._said(share)}")
            if share == 1:
                break
        return None if best is None else best[1]

    def _movements(self) -> Iterator[tuple[str, str, Source]]:
        rank = len(self.shape)
        for axis in range(rank):
            for step in self._steps_along(axis):

                def along(points: Points, axis: int = axis, step: int = step) -> tuple[Points, Mask]:
                    moved = (points[axis] - step) % self.shape[axis]
                    return (*points[:axis], moved, *points[axis + 1 :]), np.ones(moved.shape, bool)

                words = f"{counted(step, 'element')} along dimension {axis}" if rank > 1 else counted(step, "element")
                yield f"{step} along {axis}", words, along
        total = math.prod(self.shape)
        centre = int(np.median(self.tally.places))
        for step in self._steps([self.tally.points(_window(centre, total))]) if rank > 1 else ():

            def flat(points: Points, step: int = step) -> tuple[Points, Mask]:
                moved = (np.ravel_multi_index(points, self.shape) - step) % total
                return self.tally.points(moved), np.ones(moved.shape, bool)

            yield f"{step}", f"{counted(step, 'element')} in row-major order", flat
        yield from self._movements_in_memory()

    def _movements_in_memory(self) -> Iterator[tuple[str, str, Source]]:
        b = self.b.whole
        if b is None or b.address_map.irregular:
            return
        slots = b.spec.slots
        centre = int(np.asarray(b.address_map.offset_of(tuple(i[:1] for i in self.some))).item())
        points, exists = _at_slots(b.xla_shape, _window(centre, slots))
        for step in self._steps([tuple(np.where(exists, i, 0) for i in points)], exists):

            def source(points: Points, step: int = step) -> tuple[Points, Mask]:
                moved = np.asarray(b.address_map.offset_of(points)) - step
                inside = (moved >= 0) & (moved < slots)
                origin, exists = _at_slots(b.xla_shape, np.where(inside, moved, 0))
                return origin, exists & inside

            bits = step * b._memory.bits
            where = counted(bits // 8, "byte") if bits % 8 == 0 else counted(bits, "bit")
            yield where, f"{where} in memory", source

    def _moved_by_bytes(self) -> Pattern | None:
        """A movement in memory that is no whole number of elements: bytes of two elements then make one."""
        a, b = self.a.whole, self.b.whole
        if a is None or b is None or not same_layout(self.a, self.b) or b.address_map.irregular:
            return None
        size = b.dtype.itemsize
        if b._memory.bits != 8 * size or size == 1:
            return None
        before, after = a._memory.buffer, b._memory.buffer
        centre = int(np.asarray(b.address_map.offset_of(tuple(i[:1] for i in self.some))).item()) * size
        window = _window(centre, min(before.size, after.size))
        # Single bytes come again and again: only several in turn identify a place.
        old, new = (_grams(buffer[window].astype(np.uint64), _GRAMS[-1]) for buffer in (before, after))
        steps, counts = np.unique(_distances(old, new, None), return_counts=True)
        best = sorted(zip(counts.tolist(), steps.tolist(), strict=True), reverse=True)[:2]
        for step in [step for count, step in best if count > 1 and step % size]:
            shares = []
            for points, _ in (*self.probes, self.whole_array):
                at = np.asarray(b.address_map.offset_of(points))[:, None] * size + np.arange(size)
                inside = (at >= step) & (at - step < before.size)
                same = (after[at] == before[np.where(inside, at - step, 0)]) & inside
                shares.append(float(same.all(axis=1).mean()))
                if shares[-1] < LEAST_SHARE:
                    break
            else:
                share, where = shares[-2], counted(step, "byte")
                return Pattern("shift", where, share, f"b is a moved by {where} in memory{self._said(share)}")
        return None

    def _steps_along(self, axis: int) -> Iterator[int]:
        """By how much b may be moved along an axis."""
        n = self.shape[axis]
        if n <= _SHORT_AXIS:
            yield from range(1, n)
            return
        # Mismatches in one row have one line along it.
        lines = {}
        for index in zip(*(i[:_LINES].tolist() for i in self.some), strict=True):
            along = _window(index[axis], n)
            line = tuple(along if k == axis else np.full(along.shape, i) for k, i in enumerate(index))
            lines[index[:axis], along[0], index[axis + 1 :]] = line
        yield from self._steps([*lines.values()])

    def _steps(self, lines: list[Points], exists: Mask | None = None) -> list[int]:
        """The commonest distances from a value of a to the same value of b along some lines of elements.

        Only values count that a line of a has once: of one element, or of several in turn.
        """
        values = [(_numbers(self.a.at(line)), _numbers(self.b.at(line))) for line in lines]
        found = []
        for length in _GRAMS:
            known = exists if length == 1 else None
            votes = [_distances(_grams(x, length), _grams(y, length), known) for x, y in values]
            steps, counts = np.unique(np.concatenate(votes), return_counts=True)
            best = np.argsort(-counts, kind="stable")[:2]
            found += [int(steps[k]) for k in best if counts[k] > 1 and steps[k]]
        return list(dict.fromkeys(found))

    # ---- exchanged --------------------------------------------------------------------------------------------------

    def _exchanged(self) -> Pattern | None:
        """Members of 32-bit words that have changed places, in all words or in some."""
        whole = next((each.whole for each in (self.b, self.a) if each.whole is not None), None)
        if whole is None or whole.address_map.irregular or whole._memory.bits >= 32:
            return None
        members = 32 // whole._memory.bits
        for mask in range(1, members):

            def partner(points: Points, mask: int = mask) -> tuple[Points, Mask]:
                slots = np.asarray(whole.address_map.offset_of(points)) ^ mask
                inside = slots < whole.spec.slots
                origin, exists = _at_slots(whole.xla_shape, np.where(inside, slots, 0))
                return origin, exists & inside

            for probe in self.probes:
                share = self._share(partner, probe)
                if share < LEAST_SHARE or (share := min(share, self._given(partner, probe[0]))) < LEAST_SHARE:
                    break
            else:
                sentence = f"{_which_members(members, mask)}{self._said(share)}"
                return Pattern("swap", f"0, {mask}", share, sentence)
        return None

    def _given(self, partner: Source, points: Points) -> float:
        """The part of some elements of a that b has at the places of their partners."""
        origin, exists = partner(points)
        clipped = tuple(np.where(exists, i, 0) for i in origin)
        same = are_equal(self.a.at(points), self.b.at(clipped), self.tolerance)
        return float(np.count_nonzero(same & exists) / exists.size)


def _low_zeros(bits: npt.NDArray[Any]) -> int:
    """How many of the lowest bits are zero in nearly all patterns; 0 if all of them are.

    >>> _low_zeros(np.array([8, 16, 24], np.uint16)), _low_zeros(np.array([1, 2], np.uint16))
    (3, 0)
    """
    for count in range(8 * bits.dtype.itemsize - 1, 0, -1):
        if np.mean(bits & bits.dtype.type((1 << count) - 1) == 0) >= LEAST_SHARE:
            return count
    return 0


def _which_members(members: int, mask: int) -> str:
    """What has happened if each member of a word is where that with the number ``k ^ mask`` was.

    >>> _which_members(4, 2)
    'members 2 apart of each 32-bit word have changed places'
    >>> _which_members(4, 3)
    'the 4 members of each 32-bit word are in reverse order'
    >>> _which_members(8, 3)
    'members k and k ^ 3 of each 32-bit word have changed places'
    """
    if members == 2:
        which = "the two members"
    elif mask == members - 1:
        return f"the {members} members of each 32-bit word are in reverse order"
    else:  # a single bit is a distance; of several, members are different numbers apart
        which = f"members {mask} apart" if mask.bit_count() == 1 else f"members k and k ^ {mask}"
    return f"{which} of each 32-bit word have changed places"


def _layouts(shape: Shape, first: Layout | None) -> Iterator[Layout]:
    """Layouts to try, the likeliest first: a's own, the compiler's, all orders with all tiles of TPUs."""
    if first is not None:
        yield first
    for generation in ("v5e", "v2"):
        try:
            yield default_layout(shape.text(layout=False), generation)
        except UnsupportedError:
            pass
    assert shape.layout is not None
    bits = shape.layout.element_size_in_bits
    descending = tuple(range(shape.rank))[::-1]
    orders = itertools.permutations(descending) if shape.rank <= _MOST_DIMENSIONS else (descending, descending[::-1])
    for order in orders:
        yield Layout(order, element_size_in_bits=bits)
        for tiles in _TILES if shape.rank > 1 else _FLAT_TILES:
            yield Layout(order, tiles, element_size_in_bits=bits)


def _apart(layout: Layout, other: Layout) -> tuple[str, str]:
    """Two layouts, by their tiles alone if these are all in which they differ."""
    if layout.tiles and other.tiles and Layout(layout.minor_to_major, other.tiles) == other:
        return f"T{''.join(map(str, layout.tiles))}", f"T{''.join(map(str, other.tiles))}"
    return str(layout), str(other)


def _window(centre: int, size: int) -> Numbers:
    """Places around one, within bounds."""
    start = max(0, min(centre - _WINDOW // 2, size - _WINDOW))
    return np.arange(start, min(size, start + _WINDOW))


def _at_slots(shape: Shape, slots: Numbers) -> tuple[Points, Mask]:
    """The indices of the elements in some slots of a buffer, and which slots hold one."""
    index, over = shape.expansion.coordinates_at(slots)
    return index, over < 0


def _numbers(values: npt.NDArray[np.generic]) -> npt.NDArray[np.uint64]:
    """A number for each value, equal for equal bits."""
    found = patterns(values)
    return found.astype(np.uint64) if found.ndim == 1 else found[:, 0] * np.uint64(31) + found[:, 1]


def _reversed(values: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
    """Values with the bytes of each in reverse order; of complex numbers those of each part.

    >>> _reversed(np.array([1, 256], np.int16)).tolist()
    [256, 1]
    """
    size = values.dtype.itemsize // (2 if values.dtype.kind == "c" else 1)
    return np.ascontiguousarray(values).view(f"u{size}").byteswap().view(values.dtype)


def _grams(numbers: npt.NDArray[np.uint64], length: int) -> npt.NDArray[np.uint64]:
    """A hash of so many numbers from each place on; none where fewer are left."""
    count = max(0, numbers.size - length + 1)
    total = np.zeros(count, np.uint64)
    for k in range(length):
        total = total * _FNV_PRIME + numbers[k : k + count]
    return total


def _distances(a: npt.NDArray[np.uint64], b: npt.NDArray[np.uint64], exists: Mask | None) -> Numbers:
    """How far each value that a holds once lies from where b holds it, if there they differ."""
    kept = np.arange(a.size) if exists is None else np.flatnonzero(exists)
    changed = kept[a[kept] != b[kept]]
    values, first, counts = np.unique(a[kept] if changed.size else a[:0], return_index=True, return_counts=True)
    once, place = values[counts == 1], kept[first[counts == 1]]
    if not once.size:
        return np.zeros(0, np.int64)
    found = np.minimum(np.searchsorted(once, b[changed]), once.size - 1)
    same = once[found] == b[changed]
    distances: Numbers = changed[same] - place[found[same]]
    return distances
