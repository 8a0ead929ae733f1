"""Every axis of a copy in one normal form.

A map says how an index ``v`` of a view moves an element: a sum of terms ``F(start + step * v)``, where F adds digits
times strides. `axis_map_of` turns the terms of one axis into an `AxisMap`: a constant, and *radix maps* that all go
upwards by steps as small as the digits allow. Slicing, reversing, diagonals and broadcasting only change numbers:

- a step backwards is a step forwards through the complement of every digit, so its strides change sign;
- a step that divides the lowest digit makes that digit shorter, one that the digit divides skips it;
- digits that never change in the range are constants, digits that follow on from each other are one digit.

Nearly every axis of every real layout ends as a single radix map of step one. `AxisMap.table` serves the others too.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from strided.addressing.digits import Term
from strided.runtime.aliases import Table


class RadixMap(NamedTuple):
    """A coordinate ``start + step * v`` (step at least 1) and what its digits add.

    `sizes` are the sizes of all digits but the last, minor first; `strides` those of all digits. The last digit has
    no end. If `turn` is not 0, v begins anew after so many indices.
    """

    start: int
    step: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    turn: int = 0

    @property
    def period(self) -> int:
        """The weight of the last digit: the number of coordinates after which all others repeat."""
        return self.turn or math.prod(self.sizes)

    @property
    def unit(self) -> int:
        """How many coordinates share all digits but the lowest; 0 if the lowest is the only one."""
        return self.sizes[0] if self.sizes else 0

    def with_unit_stride(self, stride: int) -> RadixMap:
        """The same with other steps within the lowest digit: of 0, for offsets of the words that rows share."""
        return self._replace(strides=(stride, *self.strides[1:]))

    def at(self, v: int) -> int:
        """The offset that one index adds."""
        c, total = self.start + self.step * (v % self.turn if self.turn else v), 0
        for size, stride in zip(self.sizes, self.strides, strict=False):
            c, digit = divmod(c, size)
            total += digit * stride
        return total + c * self.strides[-1]

    def offset_at(self, v: Table) -> Table:
        """The offsets that the indices `v` add."""
        v = v % self.turn if self.turn else v
        c = self.start + self.step * v if self.start or self.step != 1 else v
        total: Table | int = 0
        for size, stride in zip(self.sizes, self.strides, strict=False):
            c, digit = np.divmod(c, size)
            if stride:
                total = total + digit * stride
        return np.asarray(total + c * self.strides[-1])

    def bounds(self, extent: int) -> tuple[int, int]:
        """Least and largest offset that ``0 <= v < extent`` add; the step must be 1."""
        if not self.sizes and not self.start:
            reach = (extent - 1) * self.strides[0]
            return (0, reach) if reach >= 0 else (reach, 0)
        return _bounds(self.start, self.start + extent - 1, self.sizes, self.strides)


class AxisMap(NamedTuple):
    """What one axis adds on one side of a copy: ``base`` and a sum of radix maps; without any, nothing changes."""

    base: int
    radix_maps: tuple[RadixMap, ...]

    @property
    def radix_map(self) -> RadixMap | None:
        """The only radix map, or None if there are several, or it skips or turns; one that is still has one too."""
        if not self.radix_maps:
            return _STILL
        first = self.radix_maps[0]
        return first if len(self.radix_maps) == 1 and first.step == 1 and not first.turn else None

    @property
    def unit(self) -> int:
        """Indices in the shortest run before a lowest digit turns over; 0 if none ever does."""
        return min((m.unit for m in self.radix_maps if m.sizes), default=0)

    @property
    def unit_stride(self) -> int:
        """Elements from one index to the next within the lowest digits."""
        # Planning asks so often that a generator would cost a seventh of it.
        total = 0
        for radix_map in self.radix_maps:
            total += radix_map.step * radix_map.strides[0]
        return total

    @property
    def distance(self) -> int:
        """Elements from one index to the next, whichever way these go; endless if nothing changes along the axis."""
        return abs(self.unit_stride) or ENDLESS

    @property
    def period(self) -> int:
        """Coordinates, or indices at steps of 1, after which all digits but the last repeat."""
        return math.lcm(*(m.period for m in self.radix_maps))

    def run(self, extent: int) -> int:
        """Indices of a run before a lowest digit turns over: all of `extent` if none does."""
        return min(extent, self.unit or extent)

    def at(self, v: int) -> int:
        """The offset that one index adds, without `base`."""
        return sum(m.at(v) for m in self.radix_maps)

    def table(self, start: int, stop: int) -> Table:
        """Element offsets of the indices from `start` to `stop`, without `base`."""
        return self.offsets_at(np.arange(start, stop, dtype=np.int64))

    def offsets_at(self, v: Table) -> Table:
        """Element offsets of the indices `v`, without `base`."""
        total = np.zeros_like(v)
        for radix_map in self.radix_maps:
            total += radix_map.offset_at(v)
        return total

    def after(self, extent: int) -> AxisMap:
        """An axis with `extent` indices for each one of this, at steps so much shorter; this has a radix map."""
        m = self.radix_map
        assert m is not None
        sizes = (extent * m.sizes[0], *m.sizes[1:]) if m.sizes else ()
        return AxisMap(0, (RadixMap(m.start * extent, 1, sizes, (m.strides[0] // extent, *m.strides[1:])),))

    def around(self, inner: AxisMap, extent: int) -> AxisMap:
        """An axis of which every index is `extent` indices of an inner one; all steps are 1, both bases 0."""
        low, high = inner.radix_map, self.radix_map
        if low is not None and high is not None and not (low.start or high.start or extent % low.period):
            sizes = *low.sizes, extent // low.period, *high.sizes
            return AxisMap(0, (RadixMap(0, 1, sizes, (*low.strides, *high.strides)),))
        # Tiles that end inside the inner axis.
        inside = [m._replace(turn=m.turn or extent) for m in inner.radix_maps]
        outside = [RadixMap(m.start * extent, 1, (extent, *m.sizes), (0, *m.strides)) for m in self.radix_maps]
        return AxisMap(0, (*inside, *outside))

    def bounds(self, extent: int) -> tuple[int, int]:
        """Least and largest offset that the axis adds, `base` included."""
        radix_map = self.radix_map
        if radix_map is not None:
            low, high = radix_map.bounds(extent)
            return self.base + low, self.base + high
        ends = self._bounds_of_turns(extent)
        if not ends:
            chunks = (
                self.table(start, min(extent, start + _BOUNDS_CHUNK)) for start in range(0, extent, _BOUNDS_CHUNK)
            )
            ends = [(int(chunk.min()), int(chunk.max())) for chunk in chunks]
        return self.base + min(low for low, _ in ends), self.base + max(high for _, high in ends)

    def _bounds_of_turns(self, extent: int) -> list[tuple[int, int]]:
        """Least and largest offset of all whole turns of an axis, and of what is left; none unless `around` made it.

        In a turn, the maps that begin anew with it change and the others do not.
        """
        turn = max((m.turn for m in self.radix_maps), default=0)
        outer = [m for m in self.radix_maps if not m.turn]
        regular = all(m.step == 1 and m.sizes[:1] == (turn,) and not (m.strides[0] or m.start % turn) for m in outer)
        if not turn or not regular:
            return []
        inside = AxisMap(0, tuple(m._replace(turn=m.turn % turn) for m in self.radix_maps if m.turn))
        turns = AxisMap(0, tuple(RadixMap(m.start // turn, 1, m.sizes[1:], m.strides[1:]) for m in outer))
        whole, left = divmod(extent, turn)
        ends = [(inside.bounds(turn), turns.bounds(whole))] if whole else []
        if left:
            last = turns.at(whole)
            ends.append((inside.bounds(left), (last, last)))
        return [(a[0] + b[0], a[1] + b[1]) for a, b in ends]


_STILL = RadixMap(0, 1, (), (0,))
#: A distance, or the size of a digit, that has no end.
ENDLESS = 1 << 62
#: Indices whose offsets are computed at once if bounds have no formula; 512 KB of offsets.
_BOUNDS_CHUNK = 1 << 16


def evenly(step: int) -> AxisMap:
    """An axis that begins at 0, all of whose steps are equal.

    >>> evenly(8).at(3)
    24
    """
    return AxisMap(0, (RadixMap(0, 1, (), (step,)),))


@lru_cache(maxsize=1024)
def axis_map_of(terms: tuple[Term, ...], extent: int) -> AxisMap:
    """The normal form of the terms of one axis of `extent` indices.

    >>> from strided.addressing.digits import Digit
    >>> axis_map_of((Term(300, -1, (Digit(1, 128, 1), Digit(128, 9, 1024))),), 100)
    AxisMap(base=2175, radix_maps=(RadixMap(start=83, step=1, sizes=(128,), strides=(-1, -1024), turn=0),))
    """
    base, linear = 0, 0
    radix_maps: list[RadixMap] = []
    for term in terms:
        constant, radix_map = _radix_map_of(term, extent)
        base += constant
        if radix_map is not None and radix_map.sizes:
            radix_maps.append(radix_map)
        elif radix_map is not None:
            linear += radix_map.strides[0]
    if not radix_maps:
        return AxisMap(base, (RadixMap(0, 1, (), (linear,)),) if linear else ())
    constant, first, others = _added(radix_maps)
    base += constant
    if linear and first.step == 1:
        # The linear part is absorbed: every digit of a radix map is linear in its coordinate.
        weights = [math.prod(first.sizes[:k]) for k in range(len(first.strides))]
        strides = tuple(s + w * linear for s, w in zip(first.strides, weights, strict=True))
        base -= first.start * linear
        constant, absorbed = _trimmed(first.start, 1, first.sizes, strides, extent)
        return AxisMap(base + constant, (absorbed, *others))
    straight = (RadixMap(0, 1, (), (linear,)),) if linear else ()
    return AxisMap(base, (first, *others, *straight))


def _radix_map_of(term: Term, extent: int) -> tuple[int, RadixMap | None]:
    """A constant and the radix map of one term, or None if nothing changes."""
    start, step = term.start, term.step
    if not term.digits:
        return 0, None
    if extent <= 1 or step == 0:
        return int(term.offset_at(0)), None
    sizes = tuple(d.size for d in term.digits[:-1])
    strides = tuple(d.stride for d in term.digits)
    base = 0
    if not sizes:
        return start * strides[0], RadixMap(0, 1, (), (step * strides[0],))
    if step == 1 and start == 0:
        return _trimmed(0, 1, sizes, strides, extent)
    if step < 0:
        # The complement: (top - c) has the digits (size - 1 - digit) where top + 1 is a multiple of the period.
        period = math.prod(sizes)
        last = start // period
        base += last * strides[-1] + sum((n - 1) * s for n, s in zip(sizes, strides, strict=False))
        start, step = (last + 1) * period - 1 - start, -step
        strides = tuple(-s for s in strides)
    lower: list[int] = list(sizes)
    steps: list[int] = list(strides)
    while step > 1 and lower:
        if step % lower[0] == 0:
            base += start % lower[0] * steps.pop(0)
            start, step = start // lower[0], step // lower[0]
            del lower[0]
        elif lower[0] % step == 0:
            base += start % step * steps[0]
            steps[0] *= step
            lower[0] //= step
            start, step = start // step, 1
        else:
            break
    constant, radix_map = _trimmed(start, step, tuple(lower), tuple(steps), extent)
    return base + constant, radix_map


def _trimmed(
    start: int, step: int, sizes: tuple[int, ...], strides: tuple[int, ...], extent: int
) -> tuple[int, RadixMap]:
    """A constant and an equal radix map with the fewest digits and the smallest start."""
    base = 0
    # Digits that follow on from each other are one.
    kept: list[int] = []
    moves: list[int] = [strides[0]]
    size = 1
    for part, stride in zip(sizes, strides[1:], strict=True):
        size *= part
        if size == 1:
            moves[-1] = stride
        elif stride != moves[-1] * size:
            kept.append(size)
            moves.append(stride)
            size = 1
    sizes, strides = tuple(kept), tuple(moves)
    # Digits above the last that changes are constant.
    while sizes:
        period = math.prod(sizes)
        first, last = start // period, (start + step * (extent - 1)) // period
        base += first * strides[-1]
        start -= first * period
        if first != last:
            break
        sizes, strides = sizes[:-1], strides[:-1]
    if not sizes:
        return base + start * strides[0], RadixMap(0, 1, (), (step * strides[0],))
    return base, RadixMap(start, step, sizes, strides)


def _added(radix_maps: list[RadixMap]) -> tuple[int, RadixMap, list[RadixMap]]:
    """A constant, the sum of the first radix map and all that fit it, and those that do not."""
    first, *others = radix_maps
    base, left = 0, -1
    while left != len(others):  # what fits nothing yet may fit a sum
        left = len(others)
        for k, other in enumerate(others):
            if (sum_of_two := _together(first, other)) is not None:
                constant, first = sum_of_two
                base += constant
                del others[k]
                break
    return base, first, others


def _together(a: RadixMap, b: RadixMap) -> tuple[int, RadixMap] | None:
    """A constant and one radix map equal to the sum of both, or None if their digits do not fit each other."""
    if a.step != 1 or b.step != 1:
        return None
    if a.period < b.period:
        a, b = b, a
    turns, left = divmod(b.start - a.start, b.period)
    if left:
        return None
    weights = sorted({math.prod(w.sizes[:k]) for w in (a, b) for k in range(len(w.strides))})
    if any(high % low for low, high in pairwise(weights)):
        return None
    strides = tuple(_stride_at(a, weight) + _stride_at(b, weight) for weight in weights)
    sizes = tuple(high // low for low, high in pairwise(weights))
    return turns * b.strides[-1], RadixMap(a.start, 1, sizes, strides)


def _stride_at(radix_map: RadixMap, weight: int) -> int:
    """The offset of `weight` coordinates within the digit that they fall into."""
    below = 1
    for size, stride in zip(radix_map.sizes, radix_map.strides, strict=False):
        if weight < below * size:
            return weight // below * stride
        below *= size
    return weight // below * radix_map.strides[-1]


def _bounds(first: int, last: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """Least and largest sum of digits of the coordinates from `first` to `last`."""
    stride = strides[-1]
    if not sizes:
        low, high = first * stride, last * stride
        return (low, high) if low <= high else (high, low)
    period = math.prod(sizes)
    low_digit, head = divmod(first, period)
    high_digit, tail = divmod(last, period)
    sizes, strides = sizes[:-1], strides[:-1]
    if low_digit == high_digit:
        low, high = _bounds(head, tail, sizes, strides)
        return low_digit * stride + low, low_digit * stride + high
    # The last digit's part may end early, the first one's begin late; those between are whole.
    low, high = _bounds(0, tail, sizes, strides)
    low, high = high_digit * stride + low, high_digit * stride + high
    if head:
        least, most = _bounds(head, period - 1, sizes, strides)
        low, high = min(low, low_digit * stride + least), max(high, low_digit * stride + most)
        low_digit += 1
    if low_digit < high_digit:
        least, most = _bounds(0, period - 1, sizes, strides)
        ends = low_digit * stride, (high_digit - 1) * stride
        low, high = min(low, min(ends) + least), max(high, max(ends) + most)
    return low, high
