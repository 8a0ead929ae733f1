"""Identify layouts, compare arrays, and inspect padding."""
