"""The general nest: any regular copy, as a step of a plan.

Two axes stay axes, as pieces: `q`, along which the target lies closest together, and `p`, the same for the source. All
others are multiplied out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strided.plan.boxes import Axis
from strided.plan.tables import Box, Tables, boxes_of, grain_of, length_of, nearness, pieces_of

#: Elements of one task: some hundred microseconds of work.
TASK_ELEMENTS = 1 << 18
#: Least extent of `p` in a task where both axes matter: a square of a transposition needs both of its sides.
_BREADTH = 64


@dataclass(frozen=True, slots=True)
class Nest:
    """A step of a plan: the general nest, over any axes.

    Attributes
    ----------
    kernel : str
        ``"nest"``, or ``"nest_bits"`` for elements of fewer than eight bits.
    source_base, target_base : int
        Where the first element lies: a byte, or for ``"nest_bits"`` an element, as all offsets of the axes are.
    axes : tuple of Axis
        The axes of more than one index.
    bits : int
        Bits of one element.
    outer : tuple of int
        Places of the axes that are multiplied out, outermost first.
    p, q : int
        Places of the two that are not; -1 where there is none.
    divides : bool
        Whether threads may share it: not where they could meet in a byte of packed elements.
    """

    kernel: str
    source_base: int
    target_base: int
    axes: tuple[Axis, ...]
    bits: int
    outer: tuple[int, ...]
    p: int
    q: int
    divides: bool = True

    @property
    def elements(self) -> int:
        """Elements that the kernel copies."""
        return math.prod(axis.extent for axis in self.axes)

    def __str__(self) -> str:
        extents = " x ".join(str(self.axes[k].extent) for k in self._order)
        return f"{self.kernel} over {extents or 'one element'}, {self.bits} bits each"

    @property
    def _order(self) -> tuple[int, ...]:
        return (*self.outer, *(k for k in (self.p, self.q) if k >= 0))

    def tasks(self) -> Iterator[Box]:
        """Boxes for threads to share, a part of each axis."""
        lengths, budget = [1] * len(self.axes), TASK_ELEMENTS
        if self.q >= 0:
            share = min(_BREADTH, self.axes[self.p].extent) if self.p >= 0 else 1
            lengths[self.q] = length_of(self.axes[self.q], budget // share)
            budget //= lengths[self.q]
        for k in (self.p, *reversed(self.outer)):
            if k >= 0:
                lengths[k] = length_of(self.axes[k], budget)
                budget //= lengths[k]
        return boxes_of(self.axes, self._order, lengths, [grain_of(axis) for axis in self.axes])

    def tables(self) -> Tables:
        """Where the tables of this step are made."""
        return Tables(self.axes)

    def calls(self, tables: Tables, box: Box) -> Iterator[tuple[Any, ...]]:
        """What the kernel takes for one task: outer, p, steps of p, q, steps of q."""
        p, q = (_ONE if k < 0 else tables.made("pieces", k, box[k], pieces_of) for k in (self.p, self.q))
        p_steps, q_steps = (
            (0, 0) if k < 0 else (self.axes[k].source.unit_stride, self.axes[k].target.unit_stride)
            for k in (self.p, self.q)
        )
        yield tables.outer((self.source_base, self.target_base), self.outer, box), p, p_steps, q, q_steps


_ONE = np.array([[0, 0, 1]], np.int64)


def nest_of(
    kernel: str, axes: Sequence[Axis], source_base: int, target_base: int, bits: int, *, divides: bool = True
) -> Nest:
    """The general nest over these axes, in the order that keeps both sides' neighbours together."""
    outer, p, q = _order(axes)
    return Nest(kernel, source_base, target_base, tuple(axes), bits, outer, p, q, divides)


def _order(axes: Sequence[Axis]) -> tuple[tuple[int, ...], int, int]:
    """The places of the outer axes, of `p` and of `q`."""
    places = range(len(axes))
    if not places:
        return (), -1, -1
    q = min(places, key=lambda k: (nearness(axes[k].target), -axes[k].extent))
    others = [k for k in places if k != q]
    if not others:
        return (), -1, q
    p = min(places, key=lambda k: (nearness(axes[k].source), -axes[k].extent))
    if p == q:
        p = min(others, key=lambda k: (nearness(axes[k].target), -axes[k].extent))
    return tuple(sorted((k for k in others if k != p), key=lambda k: -abs(axes[k].target.unit_stride))), p, q
