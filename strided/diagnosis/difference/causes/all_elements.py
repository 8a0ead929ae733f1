"""Proof of hypotheses by a comparison of all elements."""

from __future__ import annotations

from strided.diagnosis.difference.operands import Operand
from strided.diagnosis.difference.scan import scan
from strided.diagnosis.difference.values import Tolerance

#: With more dimensions, not all orders are tried: there would be at least 120.
MOST_DIMENSIONS = 4

#: The end of a sentence if only a sample was compared, as for arrays in many buffers.
OF_SAMPLE = ", as far as a sample tells"


def all_equal(a: Operand, b: Operand, tolerance: Tolerance) -> bool:
    """Whether all elements of two arrays are equal."""
    return not scan(a, b, tolerance, until=1).count


def proof(view: Operand | None, b: Operand, tolerance: Tolerance) -> str | None:
    """The end of a sentence that says b equals `view`, a view of a; None if an element refutes it.

    Arrays in many buffers have no views (None): for these, the sample decides.
    """
    if view is None:
        return OF_SAMPLE
    return "" if all_equal(view, b, tolerance) else None
