"""Other libraries that take a `LayoutArray`, a module for each; none is loaded before it is asked for."""

from __future__ import annotations

from strided.arrays import partners


def register() -> None:
    """Tell arrays by name which modules here know which library."""
    partners.INTRODUCTIONS["dask.array"] = "strided.interop.dask"
    partners.CONVERSIONS["jax"] = "strided.interop.jax", "as_jax"
