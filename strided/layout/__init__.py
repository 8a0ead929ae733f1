"""Layouts and shapes: frozen values that validate and print themselves.

A *layout* gives the order of an array's dimensions in memory (`minor_to_major`, the fastest varying first; JAX lists
them in reverse), their tiles, the bits of an element, and the memory space of the buffer. A *shape* is an element type,
dimensions and a layout.

Values are validated by XLA's rules (``LayoutUtil::ValidateLayoutForShape``, ``ShapeUtil::ValidateShape``); ``str()``
gives XLA's canonical text.
"""

from __future__ import annotations

from strided.addressing.tiling import COMBINE
from strided.layout.layout import MEMORY_SPACES, Layout, PaddingValue, SplitConfig, Tile
from strided.layout.shape import UNBOUNDED, Shape
from strided.layout.tuples import AnyShape, BufferShape, TupleShape
from strided.layout.validation import FieldError

__all__ = [
    "COMBINE",
    "MEMORY_SPACES",
    "UNBOUNDED",
    "AnyShape",
    "BufferShape",
    "FieldError",
    "Layout",
    "PaddingValue",
    "Shape",
    "SplitConfig",
    "Tile",
    "TupleShape",
]
