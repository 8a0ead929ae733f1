"""Numbers for values, by which elements of one array are found in another."""

from __future__ import annotations

import numpy as np

from strided.diagnosis.difference.causes.moved.distances import Hashes, numbers
from strided.diagnosis.difference.causes.observations import Observations
from strided.diagnosis.difference.operands import Operand, Points
from strided.diagnosis.difference.values import common_dtype, converted, is_float


def numbers_at(operand: Operand, observed: Observations, points: Points) -> Hashes:
    """A number for each value at some (1-D) points; equal values of either array have equal numbers."""
    with np.errstate(all="ignore"):
        values = np.array(converted(operand.at(points), common_dtype(observed.a.dtype, observed.b.dtype)))
        if is_float(values.dtype):
            values[values == 0] = 0  # also turns -0 into 0
    return numbers(values)
