"""Addresses of elements."""
