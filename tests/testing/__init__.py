"""Tests of `strided.testing`."""
