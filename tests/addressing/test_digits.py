"""Digits: axes of other sizes over the same elements."""

from __future__ import annotations

import numpy as np

from strided.addressing.digits import Digit, Term, regrouped


def test_the_major_axis_may_end_within_its_last_digit() -> None:
    # Its digits count on from each other, so that no cut tears them.
    axis = (Term(0, 1, (Digit(1, 3, 2), Digit(3, 8, 6))),)
    found = regrouped((4,), (axis,), (2, 2))
    assert found is not None
    base, ((rows,), (columns,)) = found
    offsets = base + np.add.outer(rows.offset_at(np.arange(2)), columns.offset_at(np.arange(2)))
    assert offsets.reshape(-1).tolist() == axis[0].offset_at(np.arange(4)).tolist() == [0, 2, 4, 6]
