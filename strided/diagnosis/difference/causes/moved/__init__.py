"""Hypotheses: b has a's elements at other places."""
