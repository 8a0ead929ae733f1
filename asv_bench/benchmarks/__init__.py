"""Benchmarks of strided, for asv. One module per question; every time stands beside a plain copy of the same bytes."""

import os

# Before the package is imported: kernels are what is measured.
os.environ.setdefault("STRIDED_COMPILE", "first")
