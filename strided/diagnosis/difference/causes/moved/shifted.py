"""b is a, moved by a number of elements: along a dimension, in row-major order, or in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from strided.diagnosis.difference.causes.evidence import Evidence, Source, existing, most_explained, readable
from strided.diagnosis.difference.causes.moved.distances import likeliest_steps, numbers, window
from strided.diagnosis.difference.causes.moved.slots import Memory, at_slots, distance, from_slots, memories, slots_of
from strided.diagnosis.difference.operands import Points
from strided.diagnosis.difference.places import Numbers
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.values import Mask
from strided.wording import counted

#: How many elements in turn identify a place.
_IN_TURN = (1, 16)
#: Mismatches through which lines along an axis are searched.
_LINES = 8
#: Longer axes are searched by values, shorter ones by trying.
_SHORT_AXIS = 8


class _Movement(NamedTuple):
    """A movement: for programs, for people, and as the places of a from which b has its elements."""

    where: str
    words: str
    source: Source


def shifted(evidence: Evidence) -> Pattern | None:
    """The movement that explains the most mismatches; the first one that explains all."""

    def found_by_each() -> Iterator[Pattern]:
        for where, words, source in _movements(evidence):
            test = evidence.moved(source)
            if share := evidence.share_in_whole_array(test):
                yield Pattern("shift", where, share, evidence.sentence(f"b is a moved by {words}", share, test))

    return most_explained(found_by_each())


def _movements(evidence: Evidence) -> Iterator[_Movement]:
    rank = len(evidence.shape)
    for axis in range(rank):
        yield from _along(evidence, axis)
    if rank > 1:
        yield from _in_row_major_order(evidence)
    for memory in memories(evidence):
        yield from _in_memory(evidence, memory)


def _along(evidence: Evidence, axis: int) -> Iterator[_Movement]:
    """Movements along a dimension, from whose end elements come back to its beginning."""
    n = evidence.shape[axis]
    for step in _steps_along(evidence, axis):

        def origin(points: Points, step: int = step) -> Points:
            return (*points[:axis], (points[axis] - step) % n, *points[axis + 1 :])

        dimension = f" along dimension {axis}" if len(evidence.shape) > 1 else ""
        yield _Movement(f"{step} along {axis}", counted(step, "element") + dimension, existing(origin))


def _steps_along(evidence: Evidence, axis: int) -> Sequence[int]:
    """By how much b may be moved along an axis."""
    n = evidence.shape[axis]
    if n <= _SHORT_AXIS:
        return range(1, n)
    # Mismatches in one row have one line along it.
    lines = {}
    for index in zip(*(i[:_LINES].tolist() for i in evidence.some.points), strict=True):
        along = window(index[axis], n)
        line = tuple(along if k == axis else np.full(along.shape, i) for k, i in enumerate(index))
        lines[index[:axis], along[0], index[axis + 1 :]] = line
    return _steps(evidence, [*lines.values()])


def _in_row_major_order(evidence: Evidence) -> Iterator[_Movement]:
    """Movements of all elements in turn, from the last of which they come back to the first."""
    tally, total = evidence.tally, math.prod(evidence.shape)
    for step in _steps(evidence, [tally.points(window(int(np.median(tally.places)), total))]):

        def origin(points: Points, step: int = step) -> Points:
            return tally.points((np.ravel_multi_index(points, evidence.shape) - step) % total)

        yield _Movement(f"{step}", f"{counted(step, 'element')} in row-major order", existing(origin))


def _in_memory(evidence: Evidence, memory: Memory) -> Iterator[_Movement]:
    """Movements from slot to slot of a buffer."""
    array = memory.array
    centre = int(slots_of(array, tuple(i[:1] for i in evidence.some.points)).item())
    points, exists = at_slots(array, window(centre, array.spec.slots))
    for step in _steps(evidence, [readable(points, exists)], exists):

        def origin(slots: Numbers, step: int = step) -> Numbers:
            return slots - step

        where = distance(step * array._memory.bits)
        yield _Movement(where, f"{where} {memory.words}", from_slots(array, origin))


def _steps(evidence: Evidence, lines: list[Points], exists: Mask | None = None) -> list[int]:
    """By how much b may be moved along some lines of elements."""
    pairs = [(numbers(evidence.a.at(line)), numbers(evidence.b.at(line))) for line in lines]
    return list(dict.fromkeys(step for length in _IN_TURN for step in likeliest_steps(pairs, length, exists)))
