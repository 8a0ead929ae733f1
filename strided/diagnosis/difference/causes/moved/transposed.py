"""b is a with its axes in another order, as from `numpy.transpose`. All elements are compared before it is named."""

from __future__ import annotations

import itertools

import numpy as np

from strided.diagnosis.difference.causes.all_elements import MOST_DIMENSIONS, OF_SAMPLE, all_equal
from strided.diagnosis.difference.causes.derived import transpose_of
from strided.diagnosis.difference.causes.evidence import Evidence, Source
from strided.diagnosis.difference.operands import Points
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.values import Mask


def transposed(evidence: Evidence) -> Pattern | None:
    """The first order of axes that makes b of a."""
    shape = evidence.shape
    if len(shape) > MOST_DIMENSIONS:
        return None
    for axes in itertools.permutations(range(len(shape))):
        if tuple(shape[k] for k in axes) != shape or axes == tuple(range(len(axes))):
            continue
        test = evidence.moved(_transposition(axes))
        if not evidence.holds_everywhere(test):
            continue
        view = transpose_of(evidence.a, axes)
        if view is None or all_equal(view, evidence.b, evidence.tolerance):  # arrays without views: the sample decides
            order = ", ".join(map(str, axes))
            sample = OF_SAMPLE if view is None else ""
            return Pattern("transpose", order, 1.0, f"b equals a transposed: a.transpose({order}){sample}")
    return None


def _transposition(axes: tuple[int, ...]) -> Source:
    back = tuple(axes.index(k) for k in range(len(axes)))

    def source(points: Points) -> tuple[Points, Mask]:
        return tuple(points[k] for k in back), np.ones(points[0].shape, bool)

    return source
