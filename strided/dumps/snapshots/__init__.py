"""Snapshots: a program with its arguments and results, in every form that XLA writes."""
