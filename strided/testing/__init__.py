"""Assertions for tests, in the style of numpy.testing."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from strided.testing.arrays import assert_layout_equal
    from strided.testing.memory import assert_memory

_LAZY = {"assert_layout_equal": "strided.testing.arrays", "assert_memory": "strided.testing.memory"}

__all__ = ["assert_layout_equal", "assert_memory"]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'strided.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
