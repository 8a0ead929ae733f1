"""A copy that no single kernel does well, in two that kernels do: through a block of memory that stays in the cache.

A sub-tile on both sides along different axes is such a copy, or a transposition of packed elements. The first half of
it makes a block dense, with one axis contiguous; the second half takes the block from there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from strided.kernels import SHORT_ROW_BYTES
from strided.plan.axes import Side, Walk
from strided.plan.boxes import Axis, Box, cut
from strided.plan.match import WORD_BITS, match
from strided.plan.nest import Nest, nest_of
from strided.plan.pattern import Pattern
from strided.plan.tables import Part, Parts, boxes_of, length_of, nearness, phase_of

#: Bytes of a block: half of the second-level cache of common CPUs.
BLOCK_BYTES = 1 << 19
#: Bytes of a block along its contiguous axis.
_LANE_BYTES = 1 << 11


@dataclass(frozen=True, slots=True, kw_only=True)
class Detour:
    """A step of a plan: two kernels, one after the other, block by block.

    Attributes
    ----------
    kernel : str
        Both kernels' names, as in ``"unzip16, transpose32"``.
    box : Box
        What is copied; offsets in bits.
    bits : (int, int, int)
        Bits of one element in the source, in the block, in the target.
    order : tuple of int
        Places of the axes as the blocks lie in memory, the contiguous one last.
    lengths : tuple of int
        Extents of a block.
    """

    kernel: str
    box: Box
    bits: tuple[int, int, int]
    order: tuple[int, ...]
    lengths: tuple[int, ...]
    divides: bool = True

    @property
    def elements(self) -> int:
        """Elements copied."""
        return self.box.elements

    def __str__(self) -> str:
        extents, lengths = (" x ".join(map(str, n)) for n in ([a.extent for a in self.box.axes], self.lengths))
        return f"{self.kernel} over {extents} in blocks of {lengths}, {self.bits[2]} bits each"

    def tasks(self) -> Iterator[Parts]:
        """Boxes for threads to share, one block each."""
        axes = self.box.axes
        order = sorted(range(len(axes)), key=lambda k: -nearness(axes[k].target))
        return boxes_of(axes, order, self.lengths, self.lengths)

    def halves(self, parts: Parts, phase: tuple[int, int] = (0, 0)) -> tuple[tuple[Pattern | Nest, ...], ...]:
        """The steps of the two copies of one block, as if its parts had no shift but `phase`, bits on either side."""
        bases = self.box.source_base + phase[0], self.box.target_base + phase[1]
        halves = _halves(Box(*bases, self.box.axes), parts, self.order, self.bits)
        return tuple((*half.patterns, *(nest_of(box, bits) for box, bits in half.rest)) for half in halves)


class _Half(NamedTuple):
    """Patterns, and boxes left over with the widths of their elements.

    `between_bytes` tells that the elements are bytes here, but packed in the other half.
    """

    patterns: tuple[Pattern, ...]
    rest: tuple[tuple[Box, tuple[int, int]], ...] = ()
    between_bytes: bool = False

    @property
    def kernel(self) -> str:
        """The kernel that does most of it."""
        return self.patterns[0].kernel if self.patterns else nest_of(*self.rest[0]).kernel

    @property
    def is_worth_it(self) -> bool:
        """Whether the nest for the other half alone is better than the nest for both."""
        return self.kernel.startswith(("unzip", "zip")) or self.between_bytes

    @property
    def is_scattered(self) -> bool:
        """Whether it takes packed elements one by one, not side by side."""
        if self.patterns:
            return False
        nest = nest_of(*self.rest[0])
        near = nest.axes[nest.q]
        return nest.kernel == "nest_bits" and (near.source.unit_stride, near.target.unit_stride) != (1, 1)

    @property
    def is_good(self) -> bool:
        """Whether patterns do nearly all of it."""
        return bool(self.patterns) and 4 * sum(box.elements for box, _ in self.rest) <= self.patterns[0].elements


def detour_of(box: Box, source_bits: int, target_bits: int) -> Detour | None:
    """The way round for a box; None where there is none."""
    between = max(8, source_bits, target_bits)
    bits = source_bits, between, target_bits
    keys = _keys(box, source_bits, target_bits)
    fallback = None
    for lane in keys:
        rest = [k for k in range(len(box.axes)) if k not in keys]
        order = (*rest, *(k for k in reversed(keys) if k != lane), lane)
        lengths = _lengths(box.axes, keys, lane, bits)
        halves = _halves(box, tuple(Part(0, length) for length in lengths), order, bits)
        good = [half for half in halves if half.is_good]
        if len(good) < 2 and not any(half.is_worth_it for half in good):
            continue
        if any(half.is_scattered for half in halves):
            continue
        names = ", ".join(half.kernel for half in halves)
        divides = target_bits >= 8 or _divides(halves[1], box, lengths)
        found = Detour(kernel=names, box=box, bits=bits, order=order, lengths=lengths, divides=divides)
        if len(good) == 2:
            return found
        fallback = fallback or found
    # One half by a kernel, and the other by the nest inside the cache, can still be better than the nest alone.
    return fallback


def _divides(half: _Half, box: Box, lengths: Sequence[int]) -> bool:
    """Whether blocks of these extents never meet in a byte of packed elements."""
    if half.rest or len(half.patterns) != 1 or not half.patterns[0].divides:
        return False
    pattern = half.patterns[0]
    # Blocks are cut at multiples of their extents, in lanes and in the rows that share words.
    zipped = pattern.kernel == "zip_bits"
    place, each = (pattern.row, pattern.rows) if zipped else (pattern.lane, 8 // pattern.bits)
    if len(box.axes) != len(pattern.axes) or lengths[place] % each:
        return False
    axis = box.axes[place]
    start = axis.target.walks[0].start if zipped else 0
    return (start - phase_of(axis, lengths[place])) % each == 0


def _keys(box: Box, source_bits: int, target_bits: int) -> list[int]:
    """The axes that matter: the nearest on both sides, and those whose lanes are words of a sub-tile."""
    keys: list[int] = []
    for bits, sides in (
        (source_bits, [axis.source for axis in box.axes]),
        (target_bits, [axis.target for axis in box.axes]),
    ):
        for wanted in {WORD_BITS, bits} if bits < WORD_BITS else {bits}:
            keys += [k for k, side in enumerate(sides) if side.unit_stride == wanted and k not in keys]
    return keys


def _lengths(axes: Sequence[Axis], keys: Sequence[int], lane: int, bits: tuple[int, int, int]) -> tuple[int, ...]:
    """The extents of a block: long where a side is contiguous, and only a few rows of a word where they must be."""
    lengths, budget = [1] * len(axes), BLOCK_BYTES * 8 // bits[1]
    long = _LANE_BYTES * 8 // bits[1]
    near_source = [k for k in keys if axes[k].source.unit_stride == bits[0]]
    near_target = [k for k in keys if axes[k].target.unit_stride == bits[2]]
    rows = [k for k in (*near_source, *near_target) if k != lane]
    goals = [
        (lane, 128),
        *((k, 8) for k in rows),
        # Short rows of the target are then written whole, one after the other.
        *((k, axes[k].extent if is_short_row(axes[k], bits[2]) else 256) for k in near_target),
        *((k, long) for k in (lane, *near_source, *near_target)),
        *((k, budget) for k in (*keys, *range(len(axes)))),
    ]
    for k, goal in goals:
        room = budget * lengths[k] // math.prod(lengths)
        lengths[k] = max(lengths[k], length_of(axes[k], min(goal, room)))
    return tuple(lengths)


def is_short_row(axis: Axis, bits: int) -> bool:
    """Whether an axis that is contiguous in the target is one short run there."""
    return axis.extent * bits <= 8 * SHORT_ROW_BYTES and not any(walk.sizes for walk in axis.target.walks)


def _halves(box: Box, parts: Parts, order: Sequence[int], bits: tuple[int, int, int]) -> tuple[_Half, _Half]:
    """How a block is made, and how it is used up."""
    stride, strides = bits[1], [0] * len(order)
    for k in reversed(order):
        strides[k] = stride
        stride *= parts[k].stop - parts[k].start
    first, second = Box(box.source_base, 0, ()), Box(0, box.target_base, ())
    for axis, part, step in zip(box.axes, parts, strides, strict=True):
        axis = cut(axis, part.start, part.stop)
        between = Side(0, (Walk(0, 1, (), (step,)),))
        first = first.with_axes(len(first.axes), [axis._replace(target=between)])
        second = second.with_axes(len(second.axes), [axis._replace(source=between)])
    packed = min(bits) < 8
    return _matched(first, bits[:2], packed=packed), _matched(second, bits[1:], packed=packed)


def _matched(box: Box, bits: tuple[int, int], *, packed: bool) -> _Half:
    found = match(box, *bits)
    if found is None:
        return _Half((), ((box, bits),))
    rest = tuple((left, (width, width)) for left, width in found.rest)
    return _Half(found.patterns, rest, packed and min(bits) == 8)
