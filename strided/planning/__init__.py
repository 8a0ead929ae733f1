"""Which kernel runs, and why: frozen, printable plans, made without a buffer and without Numba.

docs/maintainers.md shows how a plan comes about, and which module does what.
"""
