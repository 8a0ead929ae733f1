"""Benchmarks of strided, for asv. One module per question; every time stands beside a plain copy of the same bytes."""
