"""b has a's bits read as another type of the same width, such as u8 as s8, or bf16 as f16."""

from __future__ import annotations

import numpy as np

from strided.diagnosis.bit_patterns import own_bits, patterns
from strided.diagnosis.difference.causes.observations import Observations, Probe, Values, share_of
from strided.diagnosis.difference.result import Pattern
from strided.layout.element_types import element_type_of_dtype


def other_type(observed: Observations) -> Pattern | None:
    """The type that explains all mismatches."""
    a, b = (element_type_of_dtype(each.dtype) for each in (observed.a, observed.b))
    if a == b or a.bits != b.bits:
        return None

    def test(probe: Probe) -> float:
        return share_of(_bits(observed.a.at(probe.points), a.bits) == _bits(probe.values, b.bits))

    if (share := observed.share_of_mismatches(test)) < 1:
        return None
    words = f"b has the bits of a, read as {b.name} instead of {a.name}"
    return Pattern("type", b.name, share, observed.sentence(words, share, test))


def _bits(values: Values, width: int) -> Values:
    """The bits of each value, without the unused ones of a narrow element's byte."""
    native = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="), copy=False))
    return own_bits(patterns(native), width)
