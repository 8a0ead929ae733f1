"""Readers, and a few writers, of the files that XLA dumps, with a package for each kind."""
