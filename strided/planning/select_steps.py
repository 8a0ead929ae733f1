"""The way a box is copied: by vector kernels, by a staged copy, or by the general nest, whichever costs least."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from strided.planning.boxes import Box, Spans, room_of, simplified
from strided.planning.copy_signature import CopySignature
from strided.planning.cost_model import ALIKE, LITTLE_LEFT, cost_of, cost_of_passes, leaves_gaps
from strided.planning.nest_step import NestStep, nest_step_of
from strided.planning.select_kernel import Matched, match
from strided.planning.select_staging import Candidate, squares_apart, staged_copy_of, words_apart
from strided.planning.staged_step import StagedCopy
from strided.planning.staging_layout import is_short_row
from strided.planning.vector_step import VectorStep
from strided.runtime import limits
from strided.runtime.cache import forgettable


@forgettable
@lru_cache(maxsize=512)
def steps_of(
    signature: CopySignature, phase: tuple[int, int], whole_words: bool
) -> tuple[VectorStep | StagedCopy | NestStep, ...]:
    """The steps of all copies of a signature whose first elements lie `phase` bits past a multiple of 64."""
    whole = Box(phase[0], phase[1], signature.axes)
    steps: list[VectorStep | StagedCopy] = []
    rest: list[tuple[Box, tuple[int, int]]] = []
    room = None if whole_words else room_of(whole, signature.bits)
    # `simplified` finds the ends of rows first: what is most of it goes before them.
    for way in chain.from_iterable(_ways(box, signature, room) for box in reversed(simplified(whole))):
        if way.staged is not None:
            steps.append(way.staged)
        elif way.found is not None:
            steps += way.found.steps
            rest += way.found.rest
        else:
            rest.append((way.box, signature.bits))
    # If the vector steps have only the smaller part, one nest over everything is simpler, and no slower.
    if not steps or 2 * sum(part.elements for part, _ in rest) > whole.elements:
        return (nest_step_of(whole, signature.bits),)
    return (*steps, *(nest_step_of(part, widths) for part, widths in rest))


def _breaks_rows(found: Matched, box: Box, bits: int) -> bool:
    """Whether a step leaves over a part of every short row of the target.

    Then all lines of the target would be written twice.
    """
    first = found.steps[0]
    left = box.elements - first.elements * first.bits // bits
    if not (first.is_transposition or first.has_short_rows) or LITTLE_LEFT * left < box.elements:
        return False
    return any(is_short_row(axis, bits) for axis in box.axes if axis.target.unit_stride == bits)


class _Way(NamedTuple):
    """How a box is copied: by a staged copy, else by kernels, else by the nest; and about how long that takes."""

    box: Box
    found: Matched | None
    staged: StagedCopy | None
    cost: float


def _ways(box: Box, signature: CopySignature, room: Spans | None) -> list[_Way]:
    """How a box is copied, or the boxes of it in which words have an axis of their own, if that is faster.

    `room` is all that may be touched on both sides; without it, the first and the last words are taken as a whole.
    """
    bits = signature.bits
    found = match(box, *bits, widen=signature.same_order, room=room)
    is_poor = found is None or _breaks_rows(found, box, bits[1])
    has_gaps = found is not None and leaves_gaps(found)
    if not (is_poor or has_gaps) or box.elements < limits.current.staged_elements:
        return [_way(box, bits, found, None)]
    apart = words_apart(box, *bits) if found is None or has_gaps else None
    is_many = box.elements >= limits.current.squared_elements
    if apart is None and found is None and is_many and signature.same_order and bits[0] == bits[1]:
        apart = squares_apart(box, bits[0])
    ways = [] if apart is None else [way for part in reversed(apart) for way in _ways(part, signature, room)]
    if apart is not None and len(apart) == 1:
        return ways
    staged = staged_copy_of(
        box,
        *bits,
        may_pack=signature.same_order or max(bits) == 8,
        whole_words=room is None,
        instead=None if is_poor else found,
    )
    own = _way(box, bits, found, staged)
    return ways if ways and not _is_better_whole(own, ways) else [own]


def _is_better_whole(own: _Way, ways: Sequence[_Way]) -> bool:
    """Whether a box is better copied whole than in parts, which cut runs that are written.

    These must take no less time, nor may they if the same kernels copy most of it either way: costs are about right.
    """
    most = max(ways, key=lambda way: way.box.elements).staged
    is_same = own.staged is not None and most is not None and own.staged.kernel == most.kernel
    return sum(way.cost for way in ways) >= (ALIKE if is_same else 1) * own.cost


def _way(box: Box, bits: tuple[int, int], found: Matched | None, staged: Candidate | None) -> _Way:
    if staged is not None:
        return _Way(box, found, staged.step, staged.cost * box.elements)
    if found is not None:
        return _Way(box, found, None, cost_of_passes(found, box.elements * max(bits)))
    return _Way(box, None, None, cost_of((), ((box, bits),)))
