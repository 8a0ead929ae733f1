"""Two boxes of the array are exchanged, such as two rows, planes, tiles or shards, and nothing else differs.

The numbers of mismatches along each axis determine the boxes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from strided.arrays.blocks import Box
from strided.diagnosis.difference.causes.all_elements import OF_SAMPLE, all_equal
from strided.diagnosis.difference.causes.chance import is_no_chance
from strided.diagnosis.difference.causes.derived import view_of
from strided.diagnosis.difference.causes.observations import IndexMap, Observations
from strided.diagnosis.difference.operands import Points
from strided.diagnosis.difference.places import Numbers
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.scan import scan
from strided.diagnosis.difference.values import Mask
from strided.wording import range_key

#: The most pairs of boxes that are tried.
_TRIED = 64
#: The most mismatches at indices of one box, as a share of those at indices of both: half, except for equal elements.
_OVERLAP = 0.75


def exchanged_boxes(observed: Observations) -> Pattern | None:
    """The two boxes that are exchanged."""
    shape = observed.shape
    choice_bits = sum(math.log2(n * (n + 1) / 2) for n in shape)
    if not is_no_chance(observed, choice_bits):
        return None
    for one, other in itertools.islice(_pairs(observed), _TRIED):
        if observed.share_of_mismatches(observed.moved(_exchange(one, other))) < 1:
            continue
        are_exchanged = _are(observed, one, other)
        if are_exchanged is not False:
            keys = _key(one, shape), _key(other, shape)
            end = OF_SAMPLE if are_exchanged is None else ", and nothing else differs"
            sentence = f"b has what a has at [{keys[0]}] and at [{keys[1]}] exchanged{end}"
            return Pattern("exchange", "; ".join(keys), 1.0, sentence)
    return None


def _pairs(observed: Observations) -> Iterator[tuple[Box, Box]]:
    """Pairs of boxes of equal shape that may contain the mismatches."""
    choices = []
    for axis in range(len(observed.shape)):
        counts = observed.tally.per_axis.get(axis)
        if counts is None:
            return
        choices.append(_ranges(counts))
    for chosen in itertools.product(*choices):
        apart = [k for k, (one, other) in enumerate(chosen) if one != other]
        if not apart:
            continue
        # Which of two ranges belongs to which box; for the first such axis, both choices are the same.
        for turned in itertools.product((False, True), repeat=len(apart) - 1):
            swaps = dict(zip(apart[1:], turned, strict=True))
            pairs = [pair[::-1] if swaps.get(k) else pair for k, pair in enumerate(chosen)]
            yield tuple(one for one, _ in pairs), tuple(other for _, other in pairs)


def _ranges(counts: Numbers) -> list[tuple[slice, slice]]:
    """Possible ranges of two boxes along an axis, given its mismatches at each index: equal, or of equal length.

    >>> _ranges(np.array([0, 5, 5, 0, 0, 5, 5]))
    [(slice(1, 3, None), slice(5, 7, None))]
    >>> _ranges(np.array([0, 5, 5, 0]))
    [(slice(1, 3, None), slice(1, 3, None)), (slice(1, 2, None), slice(2, 3, None))]
    >>> _ranges(np.array([0, 5, 10, 10, 5, 0]))  # both have the indices in the middle
    [(slice(1, 4, None), slice(2, 5, None))]
    """
    differs = np.zeros(counts.size + 2, bool)
    differs[1:-1] = counts != 0
    edges = np.flatnonzero(differs[1:] != differs[:-1])
    if edges.size > 4:
        return []
    stretches = [slice(*pair) for pair in edges.reshape(-1, 2).tolist()]
    if len(stretches) == 2:
        one, other = stretches
        return [(one, other)] if one.stop - one.start == other.stop - other.start else []
    (whole,) = stretches
    half, odd = divmod(whole.stop - whole.start, 2)
    if (alone := _indices_of_one(counts[whole])) is not None:
        return [(slice(whole.start, whole.stop - alone), slice(whole.start + alone, whole.stop))]
    middle = whole.start + half
    return [(whole, whole)] + [(slice(whole.start, middle), slice(middle, whole.stop))] * (not odd)


def _indices_of_one(counts: Numbers) -> int | None:
    """If two ranges overlap: how many indices precede the overlap, whose indices have twice as many mismatches."""
    alone = int(np.argmax(np.diff(counts, prepend=counts[0])))
    if not 0 < 2 * alone < counts.size:
        return None
    ends = np.concatenate([counts[:alone], counts[counts.size - alone :]])
    return alone if ends.max() < _OVERLAP * counts[alone : counts.size - alone].min() else None


def _exchange(one: Box, other: Box) -> IndexMap:
    steps = [there.start - here.start for here, there in zip(one, other, strict=True)]

    def source(points: Points) -> tuple[Points, Mask]:
        first, second = _inside(points, one), _inside(points, other)
        sign = first.astype(np.int64) - second
        return tuple(i + sign * step for i, step in zip(points, steps, strict=True)), first ^ second

    return source


def _inside(points: Points, box: Box) -> Mask:
    inside = np.ones(points[0].shape, bool)
    for i, own in zip(points, box, strict=True):
        inside &= (own.start <= i) & (i < own.stop)
    return inside


def _are(observed: Observations, one: Box, other: Box) -> bool | None:
    """Whether the boxes are exchanged and no other element differs.

    None for arrays in many buffers, for which the sample decides.
    """
    a, b = ([view_of(each, box) for box in (one, other)] for each in (observed.a, observed.b))
    count = 0
    for x, y, opposite in zip(a, b, b[::-1], strict=True):
        if x is None or y is None or opposite is None:
            return None
        if not all_equal(x, opposite, observed.tolerance):
            return False
        count += scan(x, y, observed.tolerance).count
    return count == observed.tally.count


def _key(box: Box, shape: tuple[int, ...]) -> str:
    """The text of a key that selects a box.

    >>> _key((slice(0, 4), slice(2, 3), slice(8, 16)), (4, 5, 20))
    ':, 2, 8:16'
    """
    pairs = zip(box, shape, strict=True)
    return ", ".join(":" if own.stop - own.start == n else range_key(own.start, own.stop) for own, n in pairs)
