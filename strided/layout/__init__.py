"""Layouts and shapes: frozen values that check and print themselves.

A *layout* says in which order the dimensions of an array lie in memory (`minor_to_major`, the fastest varying first;
JAX lists them the other way round), into which tiles they are cut, how many bits an element takes, and which memory the
buffer is in. A *shape* is an element type, dimensions and a layout.

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
