"""What speaks for a reading: each kind of evidence has a weight, in nats, and a sentence.

A nat is a factor of e in likelihood: the logarithm of how much better the reading predicts the sample than chance does.
"""

from __future__ import annotations

from typing import NamedTuple


class Evidence(NamedTuple):
    """One kind of evidence: its weight in nats, and what it is."""

    kind: str
    weight: float
    sentence: str
