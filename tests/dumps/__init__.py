"""Readers of dumps."""
