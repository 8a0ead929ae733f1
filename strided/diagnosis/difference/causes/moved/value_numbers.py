"""Numbers for values, by which elements of two arrays are found in each other."""

from __future__ import annotations

import numpy as np

from strided.diagnosis.difference.causes.moved.distances import Hashes, numbers
from strided.diagnosis.difference.causes.observations import Observations
from strided.diagnosis.difference.operands import Operand, Points
from strided.diagnosis.difference.values import common_dtype, converted, is_float


def numbers_at(operand: Operand, observed: Observations, points: Points) -> Hashes:
    """A number for each value at some points, equal for equal values of either array; the points have one axis."""
    with np.errstate(all="ignore"):
        values = np.array(converted(operand.at(points), common_dtype(observed.a.dtype, observed.b.dtype)))
        if is_float(values.dtype):
            values[values == 0] = 0  # -0, too
    return numbers(values)
