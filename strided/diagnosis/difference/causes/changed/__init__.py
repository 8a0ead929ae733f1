"""Hypotheses: b has a's elements at the same places, with other values."""
