"""Find the cause that explains the mismatches."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from strided.diagnosis.difference.causes.changed.clipped import clipped
from strided.diagnosis.difference.causes.changed.exchanged_parts import exchanged_parts
from strided.diagnosis.difference.causes.changed.operation import operation
from strided.diagnosis.difference.causes.changed.other_type import other_type
from strided.diagnosis.difference.causes.changed.quantised import quantised
from strided.diagnosis.difference.causes.changed.rounded import rounded
from strided.diagnosis.difference.causes.changed.steady import steady
from strided.diagnosis.difference.causes.changed.wrapped import wrapped
from strided.diagnosis.difference.causes.moved.exchanged_boxes import exchanged_boxes
from strided.diagnosis.difference.causes.moved.exchanged_members import exchanged_members
from strided.diagnosis.difference.causes.moved.misread_layout import misread_layout
from strided.diagnosis.difference.causes.moved.reordered import reordered
from strided.diagnosis.difference.causes.moved.reversed_axes import reversed_axes
from strided.diagnosis.difference.causes.moved.row_pitch import row_pitch
from strided.diagnosis.difference.causes.moved.shifted import shifted
from strided.diagnosis.difference.causes.moved.shifted_bytes import shifted_bytes
from strided.diagnosis.difference.causes.moved.tile_order import tile_order
from strided.diagnosis.difference.causes.moved.transposed import transposed
from strided.diagnosis.difference.causes.observations import Observations, observations_of
from strided.diagnosis.difference.operands import Operand
from strided.diagnosis.difference.result import Pattern
from strided.diagnosis.difference.tally import Tally
from strided.diagnosis.difference.values import Tolerance

#: With fewer mismatches, or distinct values among them, a cause may fit by chance.
LEAST_MISMATCHES, _LEAST_VALUES = 4, 3
#: If there are only two values, as in masks, each must occur in so many mismatches to test hypotheses on all elements.
_LEAST_OF_VALUE = 32

Hypothesis = Callable[[Observations], Pattern | None]
#: Suitable for few distinct values, because all elements are compared.
_COMPARED: tuple[Hypothesis, ...] = (transposed, misread_layout, reversed_axes)
#: Only for mismatches of many values: with two, as after clipping, rounding would also fit by chance.
_OF_MANY_VALUES: tuple[Hypothesis, ...] = (
    other_type,
    rounded,
    operation,
    wrapped,
    quantised,
    *_COMPARED,
    tile_order,
    exchanged_parts,
    shifted,
    shifted_bytes,
    exchanged_members,
    exchanged_boxes,
    reordered,
    row_pitch,
)


class Found(NamedTuple):
    """The first cause that explains nearly all mismatches, and a constant that all of them share, if any."""

    cause: Pattern | None = None
    common: Pattern | None = None


def causes_of(a: Operand, b: Operand, tolerance: Tolerance, tally: Tally) -> Found:
    """The causes of the mismatches of two arrays; none if they are few."""
    if tally.count < LEAST_MISMATCHES or not tally.shape:
        return Found()
    observed = observations_of(a, b, tolerance, tally)
    counts = observed.value_counts
    if counts.size < _LEAST_VALUES:
        # Bits that change alike everywhere are no chance whatever the values; comparing all elements suits masks.
        is_mask = counts.size == 2 and counts.min() >= _LEAST_OF_VALUE
        return Found(_first((other_type, clipped, *(_COMPARED if is_mask else ())), observed))
    cause, common = _first(_OF_MANY_VALUES, observed), steady(observed)
    # A ramp plus 1 looks like a shifted ramp, except at its ends.
    if cause is not None and common is not None and cause.share < 1:
        cause = None
    return Found(cause, common)


def _first(hypotheses: tuple[Hypothesis, ...], observed: Observations) -> Pattern | None:
    return next((found for each in hypotheses if (found := each(observed)) is not None), None)
