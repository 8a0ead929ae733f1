"""Explanations and pictures."""
