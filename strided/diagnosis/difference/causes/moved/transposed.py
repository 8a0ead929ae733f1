"""b is a, transposed, as by `numpy.transpose`. All elements are compared before this is reported."""

from __future__ import annotations

import itertools

from strided.diagnosis.difference.causes.all_elements import MOST_DIMENSIONS, proof
from strided.diagnosis.difference.causes.derived import transpose_of
from strided.diagnosis.difference.causes.observations import IndexMap, Observations, existing
from strided.diagnosis.difference.result import Pattern


def transposed(observed: Observations) -> Pattern | None:
    """The first order of axes that turns a into b."""
    shape = observed.shape
    if len(shape) > MOST_DIMENSIONS:
        return None
    for axes in itertools.permutations(range(len(shape))):
        if tuple(shape[k] for k in axes) != shape or axes == tuple(range(len(axes))):
            continue
        if not observed.holds_everywhere(observed.moved(_transposition(axes))):
            continue
        if (end := proof(transpose_of(observed.a, axes), observed.b, observed.tolerance)) is not None:
            order = ", ".join(map(str, axes))
            return Pattern("transpose", order, 1.0, f"b equals a transposed: a.transpose({order}){end}")
    return None


def _transposition(axes: tuple[int, ...]) -> IndexMap:
    back = tuple(axes.index(k) for k in range(len(axes)))

    return existing(lambda points: tuple(points[k] for k in back))
