"""Tests of `strided.pictures`."""
