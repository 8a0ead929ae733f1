"""Readers, and a few writers, of the files that XLA dumps: one package for each kind."""
