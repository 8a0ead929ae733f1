"""Whether a hypothesis may explain the mismatches by chance, because it was chosen among too many others."""

from __future__ import annotations

import numpy as np

from strided.diagnosis.difference.causes.observations import Observations
from strided.diagnosis.difference.places import LEAST_BITS


def is_no_chance(observed: Observations, choice_bits: float) -> bool:
    """Whether the mismatches carry more information than a choice among ``2**choice_bits`` hypotheses.

    The information of a mismatch is that of its value in b: few bits if b has few distinct values.
    """
    counts = observed.value_counts
    shares = counts / counts.sum()
    bits = -float((shares * np.log2(shares)).sum())
    return observed.tally.count * bits - choice_bits >= LEAST_BITS
