"""b has a's elements, the bytes of each in reverse order."""

from __future__ import annotations

import numpy as np

from strided.diagnosis.bit_patterns import patterns
from strided.diagnosis.difference.causes.evidence import Evidence, Probe, Values
from strided.diagnosis.difference.result import Pattern


def reversed_bytes(evidence: Evidence) -> Pattern | None:
    """Mismatches, in one place or everywhere, whose bytes lie in the other order."""
    a, b = evidence.a, evidence.b
    if a.dtype != b.dtype or a.dtype.itemsize == 1:
        return None

    def test(probe: Probe) -> float:
        same = patterns(_reversed(probe.values)) == patterns(a.at(probe.points))
        return float(np.mean(same if same.ndim == 1 else same.all(axis=-1)))

    if not (share := evidence.share_of_mismatches(test)):
        return None
    sentence = evidence.sentence("b has the bytes of each element in reverse order", share, test)
    return Pattern("swap", "bytes", share, sentence)


def _reversed(values: Values) -> Values:
    """Values with the bytes of each in reverse order; of complex numbers those of each part.

    >>> _reversed(np.array([1, 256], np.int16)).tolist()
    [256, 1]
    """
    size = values.dtype.itemsize // (2 if values.dtype.kind == "c" else 1)
    return np.ascontiguousarray(values).view(f"u{size}").byteswap().view(values.dtype)
