"""Tests of `strided.diagnosis`."""
