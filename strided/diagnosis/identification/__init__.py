"""Which layout explains these bytes?

`known` reads what is known of the shape, `candidates` lists what it leaves open, and `sampling` fetches elements. What
speaks for a reading is `evidence`: `structure` weighs what values show by where they lie, with `levels` on the slots
that all readings share, `type_signs` what they show of their type, and `placement` how the size fits and what fills the
padding. `reference` compares them with values at hand, and `verdict` decides.
"""

from __future__ import annotations

from strided.diagnosis.identification.identify import identify
from strided.diagnosis.identification.result import Candidate, Identification

__all__ = ["Candidate", "Identification", "identify"]
