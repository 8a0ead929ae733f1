"""Find what padding holds: zeros, a constant, old data, or noise."""

from __future__ import annotations

from strided.diagnosis.padding.report import Match, Padding, PaddingRegion
from strided.diagnosis.padding.scan import padding

__all__ = ["Match", "Padding", "PaddingRegion", "padding"]
