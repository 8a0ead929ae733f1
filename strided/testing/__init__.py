"""Assertions for tests, in the manner of numpy.testing."""
