"""Readers (and a few writers) of what XLA leaves behind: one file per kind of artefact."""
