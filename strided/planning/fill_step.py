"""Filling a view with one value, where the order of its elements does not matter.

So all digits of all axes are loops of their own, sorted by their steps, and those that follow on from each other are
one run of bytes, across rows and tiles.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from strided.addressing.address_map import AddressMap
from strided.planning.axis_maps import RadixMap, Table, side_of

#: (extent, step) of a loop.
Loop: TypeAlias = tuple[int, int]

#: Boxes that partial tiles may make of a view.
_MOST_BOXES = 256
#: Bytes of one task, and runs.
_TASK_BYTES = 1 << 21
_TASK_RUNS = 1 << 14
#: Bytes from which on a run is worth vectors.
_LEAST_RUN = 16


@dataclass(frozen=True, slots=True)
class Fill:
    """A step of a plan: runs of bytes to be filled.

    Attributes
    ----------
    base : int
        Byte in which the first run begins.
    run_bytes : int
        Bytes of a run.
    loops : tuple of (int, int)
        How often, and at which steps in bytes, runs lie; outermost first.
    element_bytes : int
        Bytes of one element, or of several packed ones.
    """

    base: int
    run_bytes: int
    loops: tuple[Loop, ...]
    element_bytes: int

    @property
    def kernel(self) -> str:
        """The kernel that does it: the general nest where runs are shorter than a vector."""
        return "fill" if self.run_bytes >= _LEAST_RUN or self.element_bytes > 8 else f"nest{8 * self.element_bytes}"

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return math.prod(extent for extent, _ in self.loops)

    @property
    def elements(self) -> int:
        """Bytes that are filled."""
        return self.run_bytes * self.runs

    def __str__(self) -> str:
        return (
            f"fill of {' x '.join(str(extent) for extent, _ in self.loops) or 'one run'}, {self.run_bytes} bytes each"
        )

    def tasks(self) -> Iterator[tuple[int, tuple[Loop, ...], int]]:
        """(first byte, loops, bytes of a run) of parts for threads to share."""
        runs, depth = 1, len(self.loops)
        most = max(1, min(_TASK_RUNS, _TASK_BYTES // self.run_bytes))
        while depth and runs * self.loops[depth - 1][0] <= most:
            depth -= 1
            runs *= self.loops[depth][0]
        # The next loop is cut into ranges; those around it are gone through one by one.
        outer, (extent, step) = self.loops[: max(0, depth - 1)], self.loops[depth - 1] if depth else (1, 0)
        length = -(-extent // -(-extent * runs // most))
        piece = max(self.element_bytes, _TASK_BYTES // self.element_bytes * self.element_bytes)
        for place in itertools.product(*(range(n) for n, _ in outer)):
            first = self.base + sum(k * s for k, (_, s) in zip(place, outer, strict=True))
            for k in range(0, extent, length):
                loops = ((min(length, extent - k), step), *self.loops[depth:])
                for start in range(0, self.run_bytes, piece):
                    yield first + k * step + start, loops, min(piece, self.run_bytes - start)

    def arguments(self, first: int, loops: tuple[Loop, ...], run_bytes: int) -> tuple[Any, ...]:
        """The tables of the kernel for one task."""
        if self.kernel == "fill":
            rows = np.zeros((math.prod(extent for extent, _ in loops), 3), np.int64)
            rows[:, 1] = spread(loops)
            return np.array([[0, first]]), rows, np.array([[0, 0, run_bytes]])
        # The source is one element, which every step stays on.
        *others, p, q = ((1, 0), (1, 0), *loops, (run_bytes // self.element_bytes, self.element_bytes))
        places = first + spread(others)
        outer = np.stack([np.zeros_like(places), places], axis=1)
        return outer, np.array([[0, 0, p[0]]]), (0, p[1]), np.array([[0, 0, q[0]]]), (0, q[1])


def spread(loops: Sequence[Loop]) -> Table:
    """The offset of every combination of steps."""
    table = np.zeros(1, np.int64)
    for extent, step in loops:
        table = (table[:, None] + np.arange(extent) * step).reshape(-1)
    return table


class _Leaf(NamedTuple):
    """A part of an axis in which all digits are loops."""

    base: int
    loops: tuple[Loop, ...]


def fill_steps(map_: AddressMap, bits: int, unit: int) -> tuple[Fill, ...] | None:
    """The steps that fill a regular view; None where it has no whole bytes, or too many partial tiles."""
    base, axes = map_.base, []
    for terms, extent in zip(map_.axes, map_.shape, strict=True):
        side = side_of(terms, extent)
        if side.walk is None:
            return None
        base += side.base
        axes.append(_leaves(side.walk, side.walk.start, side.walk.start + extent, len(side.walk.sizes)))
    if math.prod(map(len, axes)) > _MOST_BOXES:
        return None
    steps = []
    for leaves in itertools.product(*axes):
        first = base + sum(leaf.base for leaf in leaves)
        loops = [(extent, step) for leaf in leaves for extent, step in leaf.loops if extent > 1 and step]
        step = _step(first * unit, [(extent, step * unit) for extent, step in loops], bits)
        if step is None:
            return None
        steps.append(step)
    return tuple(steps)


def _leaves(walk: RadixMap, start: int, stop: int, depth: int) -> list[_Leaf]:
    """The parts of a range of coordinates, by the lowest `depth` digits and the one above them."""
    if depth == 0:
        return [_Leaf(start * walk.strides[0], ((stop - start, walk.strides[0]),))]
    weight = math.prod(walk.sizes[:depth])
    stride = walk.strides[depth]
    first, head = divmod(start, weight)
    last, tail = divmod(stop, weight)
    if first == last:
        return [_Leaf(leaf.base + first * stride, leaf.loops) for leaf in _leaves(walk, head, tail, depth - 1)]
    found = []
    if head:
        found += [_Leaf(leaf.base + first * stride, leaf.loops) for leaf in _leaves(walk, head, weight, depth - 1)]
        first += 1
    if first < last:
        (whole,) = _leaves(walk, 0, weight, depth - 1)
        found.append(_Leaf(whole.base + first * stride, (*whole.loops, (last - first, stride))))
    if tail:
        found += [_Leaf(leaf.base + last * stride, leaf.loops) for leaf in _leaves(walk, 0, tail, depth - 1)]
    return found


def _step(base: int, loops: list[Loop], bits: int) -> Fill | None:
    """The step for loops in bits; None where a run begins or ends inside a byte."""
    # Backwards is the same as forwards from the other end.
    base += sum((extent - 1) * step for extent, step in loops if step < 0)
    ordered = sorted(((extent, abs(step)) for extent, step in loops), key=lambda loop: loop[1])
    run = bits
    while ordered and ordered[0][1] == run:
        run *= ordered.pop(0)[0]
    if any(n % 8 for n in (base, run, *(step for _, step in ordered))):
        return None
    in_bytes = tuple((extent, step // 8) for extent, step in reversed(ordered))
    return Fill(base // 8, run // 8, in_bytes, max(8, bits) // 8)
