"""Conversions to and from other libraries, a module for each; none is imported before it is needed."""

from __future__ import annotations

from strided.arrays import partners


def register() -> None:
    """Register, by name, the modules that handle each library."""
    partners.INTRODUCTIONS["dask.array"] = "strided.interop.dask"
    partners.CONVERSIONS["jax"] = "strided.interop.jax", "as_jax"
