"""Tables of offsets for the nest that copies anything regular.

Along an axis the lowest digits of both sides take equal steps until one of them turns over. Such a stretch is a
*piece*: (source offset, target offset, length), all in elements. Two axes of a copy stay axes, as pieces: `q`, along
which the target lies closest together, and `p`, the same for the source. All others are multiplied out into one table
of (source offset, target offset).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from strided.plan.axes import Side

Table: TypeAlias = npt.NDArray[np.int64]

#: Elements of one task: some hundred microseconds of work, so that Ctrl-C is heard and threads end together.
TASK_ELEMENTS = 1 << 18
#: Least extent of `p` in a task where both axes matter: a square of a transposition needs both of its sides.
_BREADTH = 64


class Axis(NamedTuple):
    """One axis of a copy, normalised on both sides."""

    extent: int
    source: Side
    target: Side


class Nest(NamedTuple):
    """Tables of one task, in elements: what the general nest takes, but for the width."""

    outer: Table
    p: Table
    p_steps: tuple[int, int]
    q: Table
    q_steps: tuple[int, int]


class Order(NamedTuple):
    """Which axes a nest keeps: the places of `p` and `q`, and of all others, outermost first. -1 where there is none."""

    outer: tuple[int, ...]
    p: int
    q: int


def order_of(axes: Sequence[Axis]) -> Order:
    """The order in which the general nest walks through these axes."""
    places = [k for k, axis in enumerate(axes) if axis.extent > 1]
    if not places:
        return Order((), -1, -1)

    def near(side: Side) -> int:
        # A side that stands still along an axis is no reason to walk along it innermost.
        return abs(side.unit_stride) or 1 << 62

    q = min(places, key=lambda k: (near(axes[k].target), -axes[k].extent))
    others = [k for k in places if k != q]
    if not others:
        return Order((), -1, q)
    p = min(places, key=lambda k: (near(axes[k].source), -axes[k].extent))
    if p == q:
        p = min(others, key=lambda k: (near(axes[k].target), -axes[k].extent))
    outer = sorted((k for k in others if k != p), key=lambda k: -abs(axes[k].target.unit_stride))
    return Order(tuple(outer), p, q)


def tasks_of(axes: Sequence[Axis], order: Order) -> Iterator[tuple[tuple[int, int], ...]]:
    """Boxes of the view, a (start, stop) an axis, each one task."""
    lengths = [1] * len(axes)
    budget = TASK_ELEMENTS
    if order.q >= 0:
        share = min(_BREADTH, axes[order.p].extent) if order.p >= 0 else 1
        lengths[order.q] = _length(axes[order.q], budget // share)
        budget //= lengths[order.q]
    for k in (order.p, *reversed(order.outer)):
        if k >= 0:
            lengths[k] = _length(axes[k], budget)
            budget //= lengths[k]
    walk = (*order.outer, *(k for k in (order.p, order.q) if k >= 0))
    return _boxes(axes, walk, lengths)


def _length(axis: Axis, budget: int) -> int:
    """How much of an axis a task takes: all, or as many whole tiles as its budget holds."""
    if axis.extent <= budget:
        return axis.extent
    budget = max(1, budget)
    for side in (axis.target, axis.source):
        for walk in side.walks:
            for grain in (walk.period, walk.unit):
                if 1 < grain <= budget and walk.start == 0:
                    return budget - budget % grain
    return budget


def _boxes(axes: Sequence[Axis], walk: Sequence[int], lengths: Sequence[int]) -> Iterator[tuple[tuple[int, int], ...]]:
    box = [(0, axis.extent) for axis in axes]

    def along(k: int) -> Iterator[tuple[tuple[int, int], ...]]:
        if k == len(walk):
            yield tuple(box)
            return
        place = walk[k]
        extent, length = axes[place].extent, lengths[place]
        for start in range(0, extent, length):
            box[place] = (start, min(extent, start + length))
            yield from along(k + 1)

    return along(0)


def nest_of(axes: Sequence[Axis], order: Order, box: Sequence[tuple[int, int]]) -> Nest:
    """The tables of one task."""
    outer = np.zeros((1, 2), np.int64)
    for k in order.outer:
        table = _elements(axes[k], *box[k])
        outer = (outer[:, None, :] + table[None, :, :]).reshape(-1, 2)
    return Nest(
        outer,
        _ONE if order.p < 0 else _pieces(axes[order.p], *box[order.p]),
        (0, 0) if order.p < 0 else _steps(axes[order.p]),
        _ONE if order.q < 0 else _pieces(axes[order.q], *box[order.q]),
        (0, 0) if order.q < 0 else _steps(axes[order.q]),
    )


_ONE = np.array([[0, 0, 1]], np.int64)
_ONE.flags.writeable = False


def _steps(axis: Axis) -> tuple[int, int]:
    return axis.source.unit_stride, axis.target.unit_stride


# Tasks of one copy differ along few axes, and neighbours along one axis repeat: some tables serve again and again.
@lru_cache(maxsize=64)
def _elements(axis: Axis, start: int, stop: int) -> Table:
    return np.stack([axis.source.table(start, stop), axis.target.table(start, stop)], axis=1)


@lru_cache(maxsize=64)
def _pieces(axis: Axis, start: int, stop: int) -> Table:
    """The pieces of a range of an axis."""
    cuts = [np.array([start, stop], np.int64)]
    for walk in (*axis.source.walks, *axis.target.walks):
        if walk.sizes:
            # The first index of each new lowest digit: start + step * v reaches k * size.
            first = (walk.start + walk.step * start) // walk.unit + 1
            last = (walk.start + walk.step * (stop - 1)) // walk.unit
            turns = np.arange(first, last + 1, dtype=np.int64) * walk.unit - walk.start
            cuts.append(-(-turns // walk.step))
    places = np.unique(np.concatenate(cuts)) if len(cuts) > 1 else cuts[0]
    heads = places[:-1]
    return np.stack([_table_at(axis.source, heads), _table_at(axis.target, heads), np.diff(places)], axis=1)


def _table_at(side: Side, v: Table) -> Table:
    total = np.zeros_like(v)
    for walk in side.walks:
        total += walk.offset_at(v)
    return total
