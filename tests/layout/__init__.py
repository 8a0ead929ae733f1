"""Shapes, layouts and their text."""
