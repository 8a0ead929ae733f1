"""The runs of bytes that make up a view, where the order of its elements does not matter.

All digits of all axes are loops of their own, sorted by their strides; those that follow on from each other are one
run, across rows and tiles. Fills, read-ahead and partial reads of files ask for them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from strided.addressing.address_map import AddressMap
from strided.planning.axis_maps import RadixMap, axis_map_of
from strided.planning.boxes import LINE_BYTES, rectangles
from strided.runtime import limits
from strided.runtime.aliases import Table

#: (extent, stride) of a loop.
Loop: TypeAlias = tuple[int, int]


class Runs(NamedTuple):
    """Runs of equal length at regular strides.

    Attributes
    ----------
    base : int
        Byte in which the first run begins.
    run_bytes : int
        Bytes of a run.
    loops : tuple of (int, int)
        How often runs repeat, and at which strides in bytes; outermost first.
    """

    base: int
    run_bytes: int
    loops: tuple[Loop, ...]

    @property
    def number(self) -> int:
        """How many runs there are."""
        return math.prod(extent for extent, _ in self.loops)

    def starts(self) -> Table:
        """The byte in which each run begins."""
        return self.base + spread(self.loops)


def spread(loops: Sequence[Loop]) -> Table:
    """The offset of every combination of indices."""
    table = np.zeros(1, np.int64)
    for extent, stride in loops:
        table = (table[:, None] + np.arange(extent) * stride).reshape(-1)
    return table


def runs_of(map_: AddressMap, bits: int, unit: int) -> tuple[Runs, ...] | None:
    """The runs of a view whose elements have `bits` bits, at offsets that count `unit` bits.

    None for an irregular view, for runs that do not fill whole bytes, and for too many partial tiles.

    >>> from strided import parse
    >>> runs_of(parse("f32[3,5]{1,0:T(2,4)}").address_map.at(0, 2), 32, 32)
    (Runs(base=64, run_bytes=16, loops=()), Runs(base=96, run_bytes=4, loops=()))
    """
    parts = _loops_of(map_, unit)
    return None if parts is None else _all(_joined(first, loops, bits) for first, loops in parts)


def runs_around(map_: AddressMap, bits: int, unit: int, room: int) -> tuple[Runs, ...] | None:
    """Few long runs that have all elements of a view in them, and others near these; nothing beyond `room` bits.

    None as for `runs_of`.

    >>> from strided import parse
    >>> runs_around(parse("s8[3,300]{1,0:T(4,128)(4,1)}").padding_maps[0], 8, 8, room=8 * 1536)
    (Runs(base=0, run_bytes=1536, loops=()),)
    """
    parts = _loops_of(map_, unit)
    gap = limits.current.fill_gap_bytes
    found = None if parts is None else _all(_joined(*part, bits, 8 * gap, room) for part in parts)
    if not found:
        return found
    # Of runs that repeat alike, those beside each other are one.
    first, *others = sorted(found, key=lambda runs: (runs.loops, runs.base))
    beside = [first]
    for runs in others:
        before, end = beside[-1], beside[-1].base + beside[-1].run_bytes
        if runs.loops == before.loops and runs.base <= end + gap:
            beside[-1] = before._replace(run_bytes=max(end, runs.base + runs.run_bytes) - before.base)
        else:
            beside.append(runs)
    return tuple(beside)


def _all(found: Iterable[Runs | None]) -> tuple[Runs, ...] | None:
    """All runs; None if one is."""
    runs: list[Runs] = []
    for part in found:
        if part is None:
            return None
        runs.append(part)
    return tuple(runs)


def _loops_of(map_: AddressMap, unit: int) -> list[tuple[int, list[Loop]]] | None:
    """The first bit and the loops, in bits, of all parts of a view that are loops; none if it has no elements."""
    if not map_.is_regular:
        return None
    if not map_.size:
        return []
    base, axes = map_.base, []
    for terms, extent in zip(map_.axes, map_.shape, strict=True):
        axis_map = axis_map_of(terms, extent)
        radix_map = axis_map.radix_map
        if radix_map is None:
            return None
        base += axis_map.base
        axes.append(leaves_of(radix_map, radix_map.start, radix_map.start + extent, len(radix_map.sizes)))
    if math.prod(map(len, axes)) > limits.current.fill_boxes:
        return None
    found = []
    for leaves in itertools.product(*axes):
        first = base + sum(leaf.base for leaf in leaves)
        loops = [(extent, stride) for leaf in leaves for extent, stride in leaf.loops if extent > 1 and stride]
        found.append((first * unit, [(extent, stride * unit) for extent, stride in loops]))
    return found


def table_of(runs: Sequence[Runs]) -> tuple[Table, Table]:
    """The first bytes and the lengths in bytes of all runs (at least one)."""
    lengths = np.repeat([part.run_bytes for part in runs], [part.number for part in runs])
    return np.concatenate([part.starts() for part in runs]), lengths


class Leaf(NamedTuple):
    """A part of an axis in which all digits are loops."""

    base: int
    loops: tuple[Loop, ...]


def leaves_of(radix_map: RadixMap, start: int, stop: int, depth: int) -> list[Leaf]:
    """The parts of a range of coordinates, by the lowest `depth` digits and the one above them."""
    if depth == 0:
        return [Leaf(start * radix_map.strides[0], ((stop - start, radix_map.strides[0]),))]
    stride = radix_map.strides[depth]
    found = []
    for (first, last), (low, high) in rectangles(start, stop, math.prod(radix_map.sizes[:depth])):
        turns = ((last - first, stride),) if last - first > 1 else ()
        for leaf in leaves_of(radix_map, low, high, depth - 1):
            found.append(Leaf(leaf.base + first * stride, leaf.loops + turns))
    return found


def merged(ranges: Table, gap: int) -> Table:
    """Ranges, each from and to, as few sorted ones: those that overlap or have at most `gap` between them are one.

    >>> merged(np.array([[8, 12], [0, 4], [3, 6]]), 1).tolist(), merged(np.array([[8, 12], [0, 6]]), 2).tolist()
    ([[0, 6], [8, 12]], [[0, 12]])
    """
    if len(ranges) < 2:
        return ranges
    if (ranges[1:, 0] < ranges[:-1, 0]).any():
        ranges = ranges[np.argsort(ranges[:, 0], kind="stable")]
    reached = np.maximum.accumulate(ranges[:, 1])
    begins = np.append(True, ranges[1:, 0] - gap > reached[:-1])
    return np.stack([ranges[begins, 0], reached[np.append(begins[1:], True)]], axis=1)


def loops_as_runs(loops: Iterable[Loop], run: int, gap: int) -> tuple[int, int, list[Loop]]:
    """Loops over runs, of which those that leave at most `gap` between runs make these longer.

    The offset of the first run, the length of a run, and the loops that are left, innermost first.

    >>> loops_as_runs([(2, 64), (4, -8), (3, 100)], 6, 2)
    (-24, 30, [(2, 64), (3, 100)])
    """
    repeated = [(extent, stride) for extent, stride in loops if extent > 1 and stride]
    # Backwards is the same as forwards from the other end.
    back = sum((extent - 1) * stride for extent, stride in repeated if stride < 0)
    ordered = sorted(((extent, abs(stride)) for extent, stride in repeated), key=lambda loop: loop[1])
    while ordered and ordered[0][1] <= run + gap:
        extent, stride = ordered.pop(0)
        run += (extent - 1) * stride
    return back, run, ordered


def _joined(base: int, loops: list[Loop], bits: int, gap: int = 0, room: int = 0) -> Runs | None:
    """The runs of loops in bits, or None if one begins or ends inside a byte.

    Runs with up to `gap` bits between them are one. With a gap, those that may are made longer until they are lines,
    or bytes, as far as the last one stays within `room` bits.
    """
    back, run, ordered = loops_as_runs(loops, bits, gap)
    base += back
    last = base + sum((extent - 1) * stride for extent, stride in ordered)
    for alignment in (8 * LINE_BYTES, 8) if gap else ():
        before, behind = base % alignment, -(base + run) % alignment
        if last + run + behind <= room and not any(stride % alignment for _, stride in ordered):
            base, run = base - before, run + before + behind
            break
    if any(n % 8 for n in (base, run, *(stride for _, stride in ordered))):
        return None
    return Runs(base // 8, run // 8, tuple((extent, stride // 8) for extent, stride in reversed(ordered)))
