"""b is a, shifted by a number of elements: along a dimension, in row-major order, or in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from strided.diagnosis.difference.causes.moved.distances import likeliest_steps, numbers, window
from strided.diagnosis.difference.causes.moved.slots import Memory, at_slots, distance, from_slots, memories, slots_of
from strided.diagnosis.difference.causes.observations import IndexMap, Observations, existing, most_explained, readable
from strided.diagnosis.difference.operands import Points
from strided.diagnosis.difference.places import Numbers
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.values import Mask
from strided.wording import counted

#: Lengths of sequences of elements that identify a place.
_IN_TURN = (1, 16)
#: How many lines along an axis, through mismatches, are searched.
_LINES = 8
#: On axes of at most this size, all shifts are tried; on longer ones, those that values suggest.
_SHORT_AXIS = 8


class _Movement(NamedTuple):
    """A shift: `where` and words of the pattern, and the source in a of each element of b."""

    where: str
    words: str
    source: IndexMap


def shifted(observed: Observations) -> Pattern | None:
    """The shift that explains the most mismatches, or the first that explains all."""

    def found_by_each() -> Iterator[Pattern]:
        for where, words, source in _movements(observed):
            test = observed.moved(source)
            if share := observed.share_in_whole_array(test):
                yield Pattern("shift", where, share, observed.sentence(f"b is a moved by {words}", share, test))

    return most_explained(found_by_each())


def _movements(observed: Observations) -> Iterator[_Movement]:
    rank = len(observed.shape)
    for axis in range(rank):
        yield from _along(observed, axis)
    if rank > 1:
        yield from _in_row_major_order(observed)
    for memory in memories(observed):
        yield from _in_memory(observed, memory)


def _along(observed: Observations, axis: int) -> Iterator[_Movement]:
    """Cyclic shifts along a dimension."""
    n = observed.shape[axis]
    for step in _steps_along(observed, axis):

        def origin(points: Points, step: int = step) -> Points:
            return (*points[:axis], (points[axis] - step) % n, *points[axis + 1 :])

        dimension = f" along dimension {axis}" if len(observed.shape) > 1 else ""
        yield _Movement(f"{step} along {axis}", counted(step, "element") + dimension, existing(origin))


def _steps_along(observed: Observations, axis: int) -> Sequence[int]:
    """Candidate distances of a shift along an axis."""
    n = observed.shape[axis]
    if n <= _SHORT_AXIS:
        return range(1, n)
    # Mismatches in the same row share a line.
    lines = {}
    for index in zip(*(i[:_LINES].tolist() for i in observed.some.points), strict=True):
        along = window(index[axis], n)
        line = tuple(along if k == axis else np.full(along.shape, i) for k, i in enumerate(index))
        lines[index[:axis], along[0], index[axis + 1 :]] = line
    return _steps(observed, [*lines.values()])


def _in_row_major_order(observed: Observations) -> Iterator[_Movement]:
    """Cyclic shifts of all elements in row-major order."""
    tally, total = observed.tally, math.prod(observed.shape)
    for step in _steps(observed, [tally.points(window(int(np.median(tally.places)), total))]):

        def origin(points: Points, step: int = step) -> Points:
            return tally.points((np.ravel_multi_index(points, observed.shape) - step) % total)

        yield _Movement(f"{step}", f"{counted(step, 'element')} in row-major order", existing(origin))


def _in_memory(observed: Observations, memory: Memory) -> Iterator[_Movement]:
    """Shifts from slot to slot of a buffer."""
    array = memory.array
    centre = int(slots_of(array, tuple(i[:1] for i in observed.some.points)).item())
    points, exists = at_slots(array, window(centre, array.spec.slots))
    for step in _steps(observed, [readable(points, exists)], exists):

        def origin(slots: Numbers, step: int = step) -> Numbers:
            return slots - step

        where = distance(step * array._memory.bits)
        yield _Movement(where, f"{where} {memory.words}", from_slots(array, origin))


def _steps(observed: Observations, lines: list[Points], exists: Mask | None = None) -> list[int]:
    """Candidate distances of a shift along lines of elements."""
    pairs = [(numbers(observed.a.at(line)), numbers(observed.b.at(line))) for line in lines]
    return list(dict.fromkeys(step for length in _IN_TURN for step in likeliest_steps(pairs, length, exists)))
