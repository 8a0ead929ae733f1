"""Snapshots: a program with its arguments and results, in each of the forms that XLA writes."""
