"""Threads and caches."""
