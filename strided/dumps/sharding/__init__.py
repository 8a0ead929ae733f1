"""Shardings: which part of an array each device holds."""

from strided.dumps.sharding.sharding import Sharding

__all__ = ["Sharding"]
