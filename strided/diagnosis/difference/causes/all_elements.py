"""What the hypotheses share that are proved by comparing all elements."""

from __future__ import annotations

from strided.diagnosis.difference.operands import Operand
from strided.diagnosis.difference.scan import scan
from strided.diagnosis.difference.values import Tolerance

#: Of more dimensions than these, not all orders are tried: there would be 120 and more.
MOST_DIMENSIONS = 4

#: What a sentence ends with if not all elements were compared, as those of arrays in many buffers.
OF_SAMPLE = ", as far as a sample tells"


def all_equal(a: Operand, b: Operand, tolerance: Tolerance) -> bool:
    """Whether all elements of two arrays are equal."""
    return not scan(a, b, tolerance, until=1).count


def proof(view: Operand | None, b: Operand, tolerance: Tolerance) -> str | None:
    """What a sentence ends with that b is a view of a; None if some element refutes it.

    Of arrays in many buffers, which have no views, the sample decides.
    """
    if view is None:
        return OF_SAMPLE
    return "" if all_equal(view, b, tolerance) else None
