"""Boxes and axes of a copy: axes are joined if they count on from each other, and split if a kernel wants two.

A copy begins as one box with an axis for each axis of the view. `simplified` joins axes that count on from each other
on both sides, so that runs become longer. It splits an axis whose closest elements lie in a higher digit, as with the
rows of 128 that ``T(1024)(128)(2,1)`` makes of one axis. A window that begins or ends inside such a row gives up to
three boxes. All offsets here are in bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from strided.planning.axis_maps import ENDLESS, AxisMap, RadixMap
from strided.runtime import limits

#: Bits of the word that a sub-tile fills with elements of neighbouring rows, and its bytes. Buffers begin with one.
WORD_BITS = 32
_WORD_BYTES = WORD_BITS // 8
#: Bytes of a line of the caches.
LINE_BYTES = 64

#: Bytes, from and to, of the source and of the target.
Spans: TypeAlias = tuple[tuple[int, int], tuple[int, int]]


class Axis(NamedTuple):
    """One axis of a copy: its extent, and the offsets that it adds on both sides. Both bases are 0."""

    extent: int
    source: AxisMap
    target: AxisMap

    @classmethod
    def of_radix_maps(cls, extent: int, source: RadixMap, target: RadixMap) -> Axis:
        """An axis with one radix map on each side."""
        return cls(extent, AxisMap(0, (source,)), AxisMap(0, (target,)))

    @property
    def run(self) -> int:
        """The indices of a run in which neither side turns over."""
        return min(self.source.run(self.extent), self.target.run(self.extent))

    @property
    def distance(self) -> int:
        """How far it is from one index to the next on the side where that is less."""
        return min(self.source.distance, self.target.distance)

    @property
    def period(self) -> int:
        """Coordinates, or indices at steps of 1, after which the tiles of both sides repeat; 1 without tiles."""
        return math.lcm(self.source.period, self.target.period)

    @property
    def radix_maps(self) -> tuple[RadixMap, RadixMap] | None:
        """The only radix map of each side, or None if one has several or skips."""
        source, target = self.source.radix_map, self.target.radix_map
        return None if source is None or target is None else (source, target)


class Box(NamedTuple):
    """A rectangular part of a copy: on either side, an element lies at ``base`` plus the offsets of its axes."""

    source_base: int
    target_base: int
    axes: tuple[Axis, ...]

    @property
    def elements(self) -> int:
        """Elements in the box."""
        return math.prod(axis.extent for axis in self.axes)

    def base(self, side: int) -> int:
        """The offset of the first element on one side (1 source, 2 target), without what the axes add."""
        return self.source_base if side == 1 else self.target_base

    def bounds(self, side: int) -> tuple[int, int]:
        """The lowest and the highest offset of an element on one side (1 source, 2 target)."""
        low = high = self.base(side)
        for axis in self.axes:
            least, most = side_of(axis, side).bounds(axis.extent)
            low, high = low + least, high + most
        return low, high

    def with_axes(self, place: int, axes: Sequence[Axis]) -> Box:
        """The same box with other axes in place of one; those of a single index become part of the bases."""
        source, target = self.source_base, self.target_base
        for axis in axes:
            if axis.extent == 1:
                source += axis.source.at(0)
                target += axis.target.at(0)
        kept = (axis for axis in axes if axis.extent > 1)
        return Box(source, target, (*self.axes[:place], *kept, *self.axes[place + 1 :]))


def side_of(axis: Axis, side: int) -> AxisMap:
    """What an axis adds on one side (1 source, 2 target)."""
    return axis.source if side == 1 else axis.target


def nearest_place(axes: Sequence[Axis], side: int, places: Iterable[int]) -> int | None:
    """Which of some places has the nearest axis on one side (1 source, 2 target), that with the smallest step.

    Of several as near it is the longest; None if there are no places.
    """
    return min(places, key=lambda k: (side_of(axes[k], side).distance, -axes[k].extent), default=None)


def bytes_of(box: Box, side: int, unit: int, bits: int) -> tuple[int, int]:
    """The bytes, from and to, of a box on one side: `bits` at each of its offsets, which count `unit` bits."""
    low, high = box.bounds(side)
    return low * unit // 8, -(-(high * unit + bits) // 8)


def room_of(box: Box, bits: tuple[int, int]) -> Spans:
    """The bytes that a box may touch on both sides in any buffer: its own, and those before in their word."""
    source, target = (bytes_of(box, side, 1, bits[side - 1]) for side in (1, 2))
    return (source[0] // _WORD_BYTES * _WORD_BYTES, source[1]), (target[0] // _WORD_BYTES * _WORD_BYTES, target[1])


def simplified(box: Box) -> tuple[Box, ...]:
    """The same copy in boxes whose axes suit kernels, as far as digits allow."""
    done: list[Box] = []
    waiting = [box]
    while waiting:
        box = joined(waiting.pop())
        parts = None
        for place, axis in enumerate(box.axes):
            weight = _nearest_weight(axis)
            if weight > 1:
                parts = split(box, place, weight)
                break
        if parts is None or len(done) + len(waiting) + len(parts) > limits.current.boxes:
            done.append(box)
        else:
            waiting += parts
    return tuple(done)


def joined(box: Box) -> Box:
    """The same box, with axes joined that count on from each other on both sides."""
    axes = list(box.axes)
    steps = [_first_steps(axis) for axis in axes]
    place = 0
    while place < len(axes):
        inner = axes[place]
        radix_maps = inner.radix_maps
        if radix_maps is None or radix_maps[0].start or radix_maps[1].start:
            place += 1
            continue
        # What the first step of an axis that follows on is, on both sides; most axes differ there.
        wanted = _next_step(inner.extent, radix_maps[0]), _next_step(inner.extent, radix_maps[1])
        for other, outer in enumerate(axes):
            if steps[other] == wanted and other != place:
                axis = _join(outer, inner)
                if axis is not None:
                    axes[place], steps[place] = axis, _first_steps(axis)
                    del axes[other], steps[other]
                    place = 0
                    break
        else:
            place += 1
    return box if len(axes) == len(box.axes) else box._replace(axes=tuple(axes))


def _first_steps(axis: Axis) -> tuple[int, int]:
    return axis.source.unit_stride, axis.target.unit_stride


def _next_step(extent: int, radix_map: RadixMap) -> int | None:
    """The step of an axis that would count on where this one ends, or None if it ends inside a tile."""
    turns, left = divmod(extent, radix_map.period)
    return None if left else radix_map.strides[-1] * turns


def _join(outer: Axis, inner: Axis) -> Axis | None:
    """One axis for two, if the outer one counts on from the end of the inner one, else None."""
    inner_maps, outer_maps = inner.radix_maps, outer.radix_maps
    if inner_maps is None or outer_maps is None or outer_maps[0].start or outer_maps[1].start:
        return None
    radix_maps = []
    for low, high in zip(inner_maps, outer_maps, strict=True):
        turns = inner.extent // low.period
        sizes = (*low.sizes, *((turns * high.sizes[0], *high.sizes[1:]) if high.sizes else ()))
        radix_maps.append(RadixMap(0, 1, sizes, (*low.strides, *high.strides[1:])))
    return Axis.of_radix_maps(inner.extent * outer.extent, radix_maps[0], radix_maps[1])


def _nearest_weight(axis: Axis) -> int:
    """The weight of the digit with the smallest step on either side, at which the axis must be split; else 1."""
    for side in (axis.source, axis.target):
        radix_map = side.radix_map
        if radix_map is not None and radix_map.sizes:
            strides = [abs(s) or ENDLESS for s in radix_map.strides]
            nearest = strides.index(min(strides))
            if nearest:
                return math.prod(radix_map.sizes[:nearest])
    return 1


def split(box: Box, place: int, weight: int) -> list[Box] | None:
    """The boxes of a box with one axis split at a weight: into an outer axis, and an inner one below the weight.

    None if a digit would be torn, or the two sides are out of step.
    """
    apart = _apart(box, place, weight)
    if apart is None:
        return None
    start, box, outer, inner = apart
    boxes = []
    for high, low in rectangles(start, start + box.axes[place].extent, weight):
        axes = cut(outer, *high), cut(inner, *low)
        boxes.append(box.with_axes(place, axes))
    return boxes


def grouped(box: Box, place: int, weight: int) -> tuple[Box, Axis] | None:
    """A box with an axis that counts `weight` indices at once, the last ones perhaps in part, and the axis inside.

    None if a digit would be torn, the two sides are out of step, or the axis does not begin with a whole group.
    """
    apart = _apart(box, place, weight)
    if apart is None or apart[0] % weight:
        return None
    start, box, outer, inner = apart
    first, count = start // weight, -(-box.axes[place].extent // weight)
    axes = (*box.axes[:place], cut(outer, first, first + count), *box.axes[place + 1 :])
    return box._replace(axes=axes), cut(inner, 0, weight)


def _apart(box: Box, place: int, weight: int) -> tuple[int, Box, Axis, Axis] | None:
    """The digits of an axis above a weight and below it, as axes without an end.

    Before these the coordinate at which the axis begins on both sides, and the box with its bases moved to 0. None if
    there are no such axes.
    """
    radix_maps = box.axes[place].radix_maps
    start = _common_start(*radix_maps) if radix_maps is not None else None
    if radix_maps is None or start is None:
        return None
    bases, digits = [box.source_base, box.target_base], []
    for k, radix_map in enumerate(radix_maps):
        moved = radix_map._replace(start=start)
        bases[k] += radix_map.at(0) - moved.at(0)
        digits.append(split_digits(moved, weight))
    source, target = digits
    if source is None or target is None:
        return None
    inner, outer = (Axis.of_radix_maps(0, source[k], target[k]) for k in (0, 1))
    return start, Box(bases[0], bases[1], box.axes), outer, inner


def rectangles(start: int, stop: int, weight: int) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """A range of coordinates as rectangles of (above the weight, below it), each from and to."""
    first, head = divmod(start, weight)
    last, tail = divmod(stop, weight)
    if first == last:
        return [((first, first + 1), (head, tail))]
    parts = [((first, first + 1), (head, weight))] if head else []
    whole = first + 1 if head else first
    if whole < last:
        parts.append(((whole, last), (0, weight)))
    if tail:
        parts.append(((last, last + 1), (0, tail)))
    return parts


def _common_start(source: RadixMap, target: RadixMap) -> int | None:
    """A coordinate at which both radix maps can start if only their last digits move, or None."""
    # The Chinese remainder theorem; a radix map of one digit has the period 1: it can start anywhere.
    common = math.gcd(source.period, target.period)
    apart, left = divmod(target.start - source.start, common)
    if left:
        return None
    step, other = source.period // common, target.period // common
    turns = apart * pow(step, -1, other) if other > 1 else 0
    return (source.start + turns * source.period) % (source.period * other)


def split_digits(radix_map: RadixMap, weight: int) -> tuple[RadixMap, RadixMap] | None:
    """The digits below a weight of 2 or more and those above, as radix maps that start at 0; None if one would be torn.

    >>> split_digits(RadixMap(0, 1, (8, 4), (1, 100, 1000)), 2)[1]
    RadixMap(start=0, step=1, sizes=(4, 4), strides=(2, 100, 1000), turn=0)
    """
    sizes, strides = radix_map.sizes, radix_map.strides
    k, below = 0, 1
    while k < len(sizes) and below * sizes[k] <= weight:
        below *= sizes[k]
        k += 1
    # Digit k begins at the weight, or is cut by it; the last digit has no size.
    part, left = divmod(weight, below)
    size = sizes[k] if k < len(sizes) else 0
    if left or size % part:
        return None
    if part == 1:
        return RadixMap(0, 1, sizes[: k - 1], strides[:k]), RadixMap(0, 1, sizes[k:], strides[k:])
    above = (size // part, *sizes[k + 1 :]) if size else ()
    low = RadixMap(0, 1, sizes[:k], strides[: k + 1])
    return low, RadixMap(0, 1, above, (strides[k] * part, *strides[k + 1 :]))


def in_units(box: Box, units: tuple[int, int]) -> Box | None:
    """A box with offsets that count so many bits on its two sides; None if one is no multiple of these."""
    if box.source_base % units[0] or box.target_base % units[1]:
        return None
    axes = []
    for axis in box.axes:
        source, target = _divided(axis.source, units[0]), _divided(axis.target, units[1])
        if source is None or target is None:
            return None
        axes.append(Axis(axis.extent, source, target))
    return Box(box.source_base // units[0], box.target_base // units[1], tuple(axes))


def _divided(side: AxisMap, unit: int) -> AxisMap | None:
    """The same axis map with offsets in a larger unit, or None if one is no multiple of it."""
    radix_maps = []
    for m in side.radix_maps:
        for stride in m.strides:
            if stride % unit:
                return None
        radix_maps.append(m._replace(strides=tuple([s // unit for s in m.strides])))
    return AxisMap(0, tuple(radix_maps))


def cut(axis: Axis, first: int, last: int) -> Axis:
    """A range of an axis."""
    source, target = (
        AxisMap(0, tuple(m._replace(start=m.start + m.step * first) for m in side.radix_maps))
        for side in (axis.source, axis.target)
    )
    return Axis(last - first, source, target)
