"""The layouts that the TPU compiler chooses."""

from __future__ import annotations

from strided.tpu.default_layout import GENERATIONS, default_layout

__all__ = ["GENERATIONS", "default_layout"]


def __dir__() -> list[str]:
    return list(__all__)
