"""Which layout explains these bytes?

`known` reads what is known of the shape, `candidates` lists what it leaves open, `sampling` fetches elements,
`evidence` weighs them, with `levels` on the slots that all readings share, `reference` compares them with values at
hand, and `verdict` decides.
"""

from __future__ import annotations

from strided.diagnosis.identification.identify import identify
from strided.diagnosis.identification.result import Candidate, Identification

__all__ = ["Candidate", "Identification", "identify"]
