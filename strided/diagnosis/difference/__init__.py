"""Find where two arrays, or two runs, differ."""

from __future__ import annotations

from strided.diagnosis.difference.compare import diff
from strided.diagnosis.difference.dumps import diff_dumps
from strided.diagnosis.difference.named import diff_arrays
from strided.diagnosis.difference.named_result import ArraysDifference, DumpDifference, ValueDifference
from strided.diagnosis.difference.result import Bin, Difference, Mismatch, Pattern

__all__ = [
    "ArraysDifference",
    "Bin",
    "Difference",
    "DumpDifference",
    "Mismatch",
    "Pattern",
    "ValueDifference",
    "diff",
    "diff_arrays",
    "diff_dumps",
]
