"""Literals: values with their shapes."""
