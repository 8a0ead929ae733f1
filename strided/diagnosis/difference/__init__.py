"""Where do two arrays, or two runs, differ?"""

from __future__ import annotations

from strided.diagnosis.difference.compare import diff
from strided.diagnosis.difference.result import Bin, Difference, Mismatch, Pattern

__all__ = ["Bin", "Difference", "Mismatch", "Pattern", "diff"]
