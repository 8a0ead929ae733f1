"""Which kernel runs, and why: frozen, printable plans, made without a buffer and without Numba."""
