"""The general nest: any regular copy, as a step of a plan.

Two axes stay axes, cut into pieces: `q`, the target's nearest, which is the innermost loop, and `p`, the source's
nearest, or the target's next one where both sides have the same. All others are multiplied out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from strided.planning.boxes import Axis, Box, Spans, bytes_of, in_units, nearest_place
from strided.planning.offset_tables import Tables, pieces_of
from strided.planning.task_ranges import TaskRanges, length_of, task_ranges_of
from strided.runtime import limits
from strided.wording import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class NestStep:
    """A step of a plan: the general nest over any axes.

    Attributes
    ----------
    kernel : str
        ``"nest8"`` to ``"nest64"``, or ``"nest_bits"`` for elements of fewer than eight bits.
    source_base, target_base : int
        Offset of the first element, in `units`.
    axes : tuple of Axis
        The axes of more than one index.
    widths : (int, int)
        Bits of one element in the source and in the target; neighbours that were joined count as one element.
    outer : tuple of int
        Places of the axes that are multiplied out, outermost first.
    p, q : int
        Places of the two that are not; -1 for none.
    divides : bool
        Whether threads may share it: not if two could meet in a byte of packed elements.
    units : (int, int)
        Bits that one offset of the source and of the target counts.
    """

    kernel: str
    source_base: int
    target_base: int
    axes: tuple[Axis, ...]
    widths: tuple[int, int]
    outer: tuple[int, ...]
    p: int
    q: int
    divides: bool = True
    units: tuple[int, int] = (8, 8)

    @property
    def bits(self) -> int:
        """Bits of one element on the wider side."""
        return max(self.widths)

    @property
    def elements(self) -> int:
        """Elements that the kernel copies."""
        return math.prod(axis.extent for axis in self.axes)

    def __str__(self) -> str:
        extents = " x ".join(str(self.axes[k].extent) for k in self._order)
        return f"{self.kernel} over {extents or 'one element'}, {counted(self.bits, 'bit')} each"

    @property
    def _order(self) -> tuple[int, ...]:
        return (*self.outer, *(k for k in (self.p, self.q) if k >= 0))

    @property
    def spans(self) -> Spans:
        """The bytes, from and to, that the kernel touches in the source and in the target."""
        box = Box(self.source_base, self.target_base, self.axes)
        return bytes_of(box, 1, self.units[0], self.widths[0]), bytes_of(box, 2, self.units[1], self.widths[1])

    def tasks(self) -> Iterator[TaskRanges]:
        """Tasks for threads to share, a range of each axis."""
        lengths, budget = [1] * len(self.axes), limits.current.nest_task_elements
        if self.q >= 0:
            share = min(limits.current.nest_breadth, self.axes[self.p].extent) if self.p >= 0 else 1
            lengths[self.q] = length_of(self.axes[self.q], budget // share, in_pieces=True)
            budget //= lengths[self.q]
        for k in (self.p, *reversed(self.outer)):
            if k >= 0:
                lengths[k] = length_of(self.axes[k], budget)
                budget //= lengths[k]
        return task_ranges_of(self.axes, self._order, lengths, [axis.period for axis in self.axes])

    def tables(self) -> Tables:
        """The maker of this step's tables."""
        return Tables(self.axes)

    def arguments(self, tables: Tables, parts: TaskRanges, shift: tuple[int, int] = (0, 0)) -> tuple[Any, ...]:
        """The kernel's arguments for one task: outer, p, steps of p, q, steps of q.

        `shift` moves both sides, in `units`.
        """
        p, q = (_ONE if k < 0 else tables.get("pieces", k, parts[k], pieces_of) for k in (self.p, self.q))
        p_steps, q_steps = (
            (0, 0) if k < 0 else (self.axes[k].source.unit_stride, self.axes[k].target.unit_stride)
            for k in (self.p, self.q)
        )
        bases = self.source_base + shift[0], self.target_base + shift[1]
        return tables.outer(bases, self.outer, parts), p, p_steps, q, q_steps


_ONE = np.array([[0, 0, 1]], np.int64)


def nest_step_of(box: Box, bits: tuple[int, int]) -> NestStep:
    """The general nest over a box, with elements of `bits` in the source and in the target."""
    packed = min(bits) < 8
    units = bits if packed else (8, 8)
    scaled = in_units(box, units)
    assert scaled is not None  # elements lie at multiples of their width, or of a byte
    outer, p, q = _places_of(scaled.axes)
    return NestStep(
        kernel="nest_bits" if packed else f"nest{bits[0]}",
        source_base=scaled.source_base,
        target_base=scaled.target_base,
        axes=scaled.axes,
        widths=bits,
        outer=outer,
        p=p,
        q=q,
        divides=bits[1] >= 8,
        units=units,
    )


def _places_of(axes: Sequence[Axis]) -> tuple[tuple[int, ...], int, int]:
    """The places of the outer axes, of `p` and of `q`."""
    places = range(len(axes))
    p, q = (nearest_place(axes, side, places) for side in (1, 2))
    if p == q:
        p = nearest_place(axes, 2, [k for k in places if k != q])
    outer = sorted((k for k in places if k not in (p, q)), key=lambda k: -abs(axes[k].target.unit_stride))
    return tuple(outer), -1 if p is None else p, -1 if q is None else q
