"""Literals: the values that XLA wrote down, with their shapes."""
