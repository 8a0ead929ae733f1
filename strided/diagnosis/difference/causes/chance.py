"""Could a hypothesis explain the mismatches by chance? It could if it was chosen among too many for what they tell."""

from __future__ import annotations

import numpy as np

from strided.diagnosis.difference.causes.observations import Observations
from strided.diagnosis.difference.places import LEAST_BITS


def is_no_chance(observed: Observations, choice_bits: float) -> bool:
    """Whether all mismatches tell more than it takes to choose among ``2**choice_bits`` hypotheses.

    A mismatch tells as many bits as it takes to write down its value of b: few where b has few distinct ones.
    """
    counts = observed.value_counts
    shares = counts / counts.sum()
    bits = -float((shares * np.log2(shares)).sum())
    return observed.tally.count * bits - choice_bits >= LEAST_BITS
